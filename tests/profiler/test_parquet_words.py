"""What is wrong with a Parquet file is said in our words, whole, whatever Arrow says."""

from __future__ import annotations

import io
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rotameter.errors import EmptyTrace
from rotameter.profiler import store
from rotameter.profiler.trace import Trace


def _parquet() -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.table({"task_id": [f"t{i}" for i in range(500)]}), out)
    return out.getvalue()


WHOLE = _parquet()
HALF = len(WHOLE) // 2
DAMAGED = {
    "half": (WHOLE[:HALF], f"is cut off: {HALF:,} bytes of it are there, without its end"),
    "less a byte": (WHOLE[:-1], f"is cut off: {len(WHOLE) - 1:,} bytes of it are there"),
    "empty": (b"", "is empty"),
    "foreign": (b"%PDF-1.7 and more", "is no Parquet file"),
    "scratched": (WHOLE[:20] + b"\0" * 400 + WHOLE[420:], "is damaged"),
    "a bad footer": (WHOLE[:-8] + b"\xff\xff\xff\x7fPAR1", "is damaged"),
}


@pytest.mark.parametrize("kind", DAMAGED)
@pytest.mark.parametrize("table", ["tasks", "deps"])
def test_a_damaged_table_of_a_trace(tmp_path: Path, kind: str, table: str) -> None:
    data, said = DAMAGED[kind]
    rows = {
        "tasks": [{"task_id": "a"}, {"task_id": "b"}],
        "deps": [{"task_id": "b", "depends_on": "a"}],
    }
    folder = Trace.from_tables(rows).save(tmp_path / "run.rmt")
    (folder / "tables" / f"{table}.parquet").write_bytes(data)
    if table == "tasks":
        with pytest.raises(EmptyTrace, match="the tasks of") as caught:
            store.open_trace(folder)
        words = str(caught.value)
    else:
        words = store.open_trace(folder, warn=False).warnings[0]
    assert said in words
    assert "input source" not in words and "footer" not in words


def test_a_table_of_something_else(tmp_path: Path) -> None:
    rows = [{"task_id": "a"}]
    deps = [{"task_id": "a", "depends_on": "b"}]
    folder = Trace.from_tables({"tasks": rows, "deps": deps}).save(tmp_path / "run.rmt")
    pq.write_table(pa.table({"colour": ["red"]}), folder / "tables" / "deps.parquet")
    warned = store.open_trace(folder, warn=False).warnings
    assert warned == [
        "table deps cannot be used: no column of the table deps is in it; it is left out"
    ]
