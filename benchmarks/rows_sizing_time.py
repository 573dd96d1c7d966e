"""Rows of advice on time limits: from the first half of each recorded set, on its second half.

Floor and headroom of time were chosen before any of these figures had been seen.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.harness import Context, Result, bench
from benchmarks.rows_sizing import REAL, ROWS, needed_shared, worst_advice

__all__ = ["timed"]


def timed(shared: str, name: str) -> Any:
    """Give the durations of a set as what its tasks needed."""
    from rotameter.adapters.sizing_csv import read_sizing
    from rotameter.allocator.recorded_time import as_time

    return as_time(read_sizing(Path(shared) / "data" / "tasksizing" / f"{name}.csv", ROWS))


@bench("sizing_time_advice_kills", issue=5, target="<= 1")
def time_advice(context: Context) -> Result:
    """Tasks of the second half that ran out of time over what the upper bounds allow; the worst."""
    shared = needed_shared(context)
    found = {name: worst_advice(timed(shared, name)) for name in REAL}
    note = ", ".join(f"{name} {value:.3f}" for name, value in found.items())
    return Result(max(found.values()), "ratio", note=note, detail=found)
