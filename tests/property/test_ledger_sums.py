"""Law 2: useful + wasted = held, whatever was recorded."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from rotameter.profiler.ledger import ledger
from rotameter.profiler.schema import OUTCOMES
from rotameter.profiler.trace import Trace

S = 10**9
BASE = 1_700_000_000 * S
when = st.none() | st.integers(0, 100).map(lambda t: BASE + t * S // 4)
worker = st.sampled_from(["w0", "w1", "w2", None])
amount = st.none() | st.integers(0, 5 * S)


@st.composite
def lives(draw: st.DrawFn) -> dict[str, Any]:
    return {
        "worker": draw(worker),
        "started_ns": draw(when),
        "ended_ns": draw(when),
        "cores": draw(st.sampled_from([None, 0.0, 1.0, 2.0, 3.5])),
        "memory_bytes": draw(st.sampled_from([None, 0, S, 7 * S])),
    }


@st.composite
def attempts(draw: st.DrawFn) -> dict[str, Any]:
    return {
        "task_id": draw(st.sampled_from("abcdef")),
        "group": draw(st.sampled_from(["g", "h", None])),
        "parent": draw(st.sampled_from([None, None, None, "a"])),
        "worker": draw(worker),
        "outcome": draw(st.sampled_from([*OUTCOMES, None])),
        "submitted_ns": draw(when),
        "started_ns": draw(when),
        "ended_ns": draw(when),
        "peak_memory_bytes": draw(amount),
        "requested_cores": draw(st.sampled_from([None, 0.0, 1.0, 4.0])),
        "granted_cores": draw(st.sampled_from([None, 2.0])),
        "requested_memory_bytes": draw(amount),
        "cpu_s": draw(st.sampled_from([None, 0.0, 0.3, 50.0])),
    }


@st.composite
def stretches(draw: st.DrawFn) -> dict[str, Any]:
    return {
        "task_id": draw(st.sampled_from([*"abc", None])),
        "worker": draw(worker),
        "kind": draw(st.sampled_from(["transfer", "disk", "compute"])),
        "start_ns": draw(when),
        "end_ns": draw(when),
    }


@st.composite
def happenings(draw: st.DrawFn) -> dict[str, Any]:
    kinds = ["worker_paused", "worker_resumed", "worker_removed"]
    return {"kind": draw(st.sampled_from(kinds)), "worker": draw(worker), "at_ns": draw(when)}


@st.composite
def readings(draw: st.DrawFn) -> dict[str, Any]:
    return {
        "subject": draw(worker),
        "metric": "managed_bytes",
        "at_ns": draw(when),
        "value": draw(st.sampled_from([None, 0.0, 1e9, 9e9])),
    }


runs = st.fixed_dictionaries({}, optional={"started_ns": when, "ended_ns": when})


@settings(max_examples=120, deadline=None)
@given(
    st.lists(lives(), max_size=4),
    st.lists(attempts(), max_size=12),
    st.lists(stretches(), max_size=6),
    st.lists(happenings(), max_size=6),
    st.lists(readings(), max_size=6),
    runs,
)
def test_useful_and_wasted_are_what_was_held(
    workers: list[Any],
    tasks: list[Any],
    intervals: list[Any],
    events: list[Any],
    samples: list[Any],
    run: dict[str, Any],
) -> None:
    tables = {
        "workers": workers,
        "tasks": tasks,
        "intervals": intervals,
        "events": events,
        "samples": samples,
    }
    book = ledger(Trace.from_tables(tables, {"run": run}))
    for account in book.accounts:
        if account.held is None:
            assert account.useful is None and not account.wasted and account.how
            continue
        parts = [account.useful, *(amount for _, amount in account.wasted)]
        assert all(part is not None and part >= -1e-9 for part in parts), account
        assert abs(sum(parts) - account.held) <= 1e-3 * account.held + 1e-9, account
