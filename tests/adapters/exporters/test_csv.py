"""CSV out, and back in again."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rotameter.adapters.exporters.csv import Exporter, write_csv
from rotameter.adapters.importers.building import _COUNTED as AMOUNTS
from rotameter.adapters.importers.table import Importer
from rotameter.errors import UsageError
from rotameter.profiler.live.redact import redact
from rotameter.profiler.schema import OUTCOMES, TABLES
from rotameter.profiler.trace import Trace
from rotameter.testing.importers import import_bytes

_TEXT = st.one_of(
    st.none(),
    st.text(st.characters(blacklist_categories=("Cs",), blacklist_characters="\0"), max_size=12),
    st.sampled_from(["", "'", "=1+1", "+a", "-", "@x", "'=1", "''", "a,b", 'say "hi"', "a\nb", "\r",
                     " pad ", "\tx", "NA", "null", "1e5", "#note"]),
)  # fmt: skip
_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "s": _TEXT,
    "i": st.one_of(st.none(), st.integers(-(1 << 63), (1 << 63) - 1)),
    "f": st.one_of(st.none(), st.floats(allow_nan=False, allow_infinity=False)),
    "b": st.one_of(st.none(), st.booleans()),
    "m": st.one_of(
        st.none(), st.dictionaries(st.text(st.characters(blacklist_categories=("Cs",)), max_size=5),
                                   st.floats(allow_nan=False, allow_infinity=False), max_size=3)
    ),
}  # fmt: skip


def text_of(trace: Trace, table: str) -> str:
    out = io.StringIO(newline="")
    write_csv(trace.table(table), table, out)
    return out.getvalue()


@st.composite
def _rows(draw: st.DrawFn, table: str) -> list[dict[str, Any]]:
    rows = []
    for number in range(draw(st.integers(1, 4))):
        row = {name: draw(_VALUES[kind]) for name, kind in TABLES[table]}
        # What no run can show is made null on import: leave it out here.
        row |= {name: abs(row[name]) % (1 << 53) for name in AMOUNTS[table] if row.get(name)}
        if table == "tasks":
            row["task_id"] = f"t{number}"
            row["outcome"] = draw(st.sampled_from(OUTCOMES))
            row["error"] = None if row["error"] is None else redact(row["error"])
            # What no run can show is corrected on import: leave it out here.
            row.update(dict.fromkeys([n for n, _ in TABLES["tasks"] if n.endswith("_ns")]))
            for name, kind in TABLES["tasks"]:
                if name.endswith("_bytes") and row[name] is not None:
                    row[name] = abs(row[name]) % (1 << 53)
                if kind == "f" and name.endswith("_s") and row[name] is not None:
                    row[name] = abs(row[name])
        rows.append(row)
    return rows


@pytest.mark.parametrize("table", [name for name in TABLES if name != "rejects"])
@settings(max_examples=40)
@given(data=st.data())
def test_the_round_trip_is_exact(table: str, data: st.DataObject) -> None:
    trace = Trace.from_tables({table: data.draw(_rows(table))})
    text = text_of(trace, table)
    back = import_bytes(Importer, {f"{table}.csv": text.encode()}, table=table)
    assert _comparable(back, table) == _comparable(trace, table)


def _comparable(trace: Trace, table: str) -> list[dict[str, Any]]:
    return [
        {k: sorted(v) if isinstance(v, list) else v for k, v in row.items()}
        for row in trace.table(table).to_pylist()
    ]


def test_times_and_the_kind_of_table_come_back() -> None:
    rows = [{"task_id": "a", "started_ns": 1704189600123456789, "ended_ns": 1704189601123456789,
             "wall_s": 0.1 + 0.2, "outcome": "ok", "features": {"size": 1.5}}]  # fmt: skip
    trace = Trace.from_tables({"tasks": rows, "deps": [{"task_id": "b", "depends_on": "a"}]})
    files = {f"{name}.csv": text_of(trace, name).encode() for name in ("tasks", "deps")}
    back = import_bytes(Importer, files)
    assert back.table("tasks").equals(trace.table("tasks"))
    assert back.table("deps").equals(trace.table("deps"))
    assert back.meta["importer"]["records"]["out"] == 2


def test_formulas_do_not_run() -> None:
    trace = Trace.from_tables({"deps": [{"task_id": "=cmd|' /C calc'!A0", "depends_on": "-1"}]})
    cells = next(iter(csv.DictReader(io.StringIO(text_of(trace, "deps")))))
    assert cells["task_id"].startswith("'=") and cells["depends_on"] == "'-1"
    out = io.StringIO()
    write_csv(trace.table("deps"), "deps", out, guard=False)
    assert "\n=cmd" in out.getvalue()


def test_writing_a_file(tmp_path: Path) -> None:
    trace = Trace.from_tables({"tasks": [{"task_id": "a", "outcome": "ok"}]})
    target = tmp_path / "t.csv"
    Exporter().write(trace, str(target))
    first = target.read_bytes()
    Exporter().write(trace, str(target))
    assert target.read_bytes() == first and [p.name for p in tmp_path.iterdir()] == ["t.csv"]
    with pytest.raises(UsageError, match="no table"):
        Exporter().write(trace, str(target), table="nothing")
    with pytest.raises(UsageError, match="no such folder"):
        Exporter().write(trace, str(tmp_path / "no" / "t.csv"))
