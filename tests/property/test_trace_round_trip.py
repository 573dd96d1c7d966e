"""Saving a trace and opening it again changes nothing, to the last bit."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rotameter.profiler.assemble import coalesce_attempts
from rotameter.profiler.schema import TABLES
from rotameter.profiler.store import open_trace
from rotameter.profiler.trace import Trace

_KINDS: dict[str, st.SearchStrategy[Any]] = {
    "i": st.integers(-(2**63), 2**63 - 1),
    "f": st.one_of(
        st.floats(),
        st.integers(0, 10**12).map(lambda ns: ns / 1e9),
        st.just(-0.0),
    ),
    "s": st.text(alphabet=st.characters(exclude_categories=("Cs",)), max_size=12),
    "b": st.booleans(),
    "m": st.dictionaries(
        st.text(alphabet="abc", max_size=3), st.floats(allow_nan=False), max_size=2
    ),
}


def _row(table: str) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {}, optional={name: st.none() | _KINDS[kind] for name, kind in TABLES[table]}
    )


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.fixed_dictionaries({name: st.lists(_row(name), max_size=3) for name in TABLES}))
def test_saved_and_opened_is_the_same(tables: dict[str, list[dict[str, Any]]]) -> None:
    trace = Trace.from_tables(tables, {"run": {"status": "ok"}})
    with tempfile.TemporaryDirectory() as place:
        back = open_trace(trace.save(Path(place) / "x.rmt"))
    for name in TABLES:
        # repr: NaN equals itself there, and -0.0 is not 0.0
        assert repr(back.table(name).to_pylist()) == repr(trace.table(name).to_pylist()), name


_part = st.fixed_dictionaries(
    {
        "task_id": st.sampled_from("ab"),
        "run_id": st.sampled_from("123"),
        "source": st.sampled_from(["worker", "slot", "scheduler", None]),
    },
    optional={
        "outcome": st.sampled_from(["ok", "failed", None]),
        "cpu_s": st.none() | st.floats(0, 9),
        "ready_ns": st.none() | st.integers(0, 9),
        "started_ns": st.none() | st.integers(0, 9),
    },
)


@given(st.lists(_part, max_size=12))
def test_coalescing_keeps_each_attempt_once_and_loses_no_value(rows: list[dict[str, Any]]) -> None:
    table = Trace.from_tables({"tasks": rows}).table("tasks")
    out = coalesce_attempts(table).to_pylist()
    keys = [(r["task_id"], r["run_id"]) for r in out]
    assert len(keys) == len(set(keys)) == len({(r["task_id"], r["run_id"]) for r in rows})
    order = {"worker": 0, "slot": 1, "scheduler": 2, None: 3}
    for merged in out:
        parts = [
            r for r in rows if (r["task_id"], r["run_id"]) == (merged["task_id"], merged["run_id"])
        ]
        parts.sort(key=lambda r: order[r["source"]])
        for column in ("outcome", "cpu_s", "ready_ns", "started_ns"):
            known = [p[column] for p in parts if p.get(column) is not None]
            assert merged[column] == (known[0] if known else None)
    again = coalesce_attempts(coalesce_attempts(table))
    assert again.to_pylist() == out
