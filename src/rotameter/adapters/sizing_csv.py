"""Tables of tasks and what they used, as published for task sizing: one row a completed task.

Columns: ``task_type``, ``mem_mb`` (10⁶ bytes) and ``time_s``; also ``seq``, ``input_bytes``,
``req_mem_mb``, and ``ttf_0.05`` to ``ttf_1.00``: the part of the run after which use first reached
that part of its peak. Rows are in order of completion.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rotameter.allocator.workload import Workload
from rotameter.errors import BadInput

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

__all__ = ["NEEDED", "is_sizing", "read_sizing"]

NEEDED = ("task_type", "mem_mb", "time_s")
MB = 1e6


def is_sizing(path: str | Path) -> bool:
    """Say whether a file is such a table, by its first line."""
    place = Path(path)
    if not place.is_file():
        return False
    with place.open("rb") as file:
        head = file.readline(65536).decode("utf-8-sig", errors="replace")
    return set(NEEDED) <= {name.strip() for name in head.strip().split(",")}


def _number(text: str | None) -> float:
    try:
        value = float(text) if text else math.nan
    except ValueError:
        return math.nan
    return value if math.isfinite(value) else math.nan


def read_sizing(path: str | Path, rows: int | None = None) -> Workload:
    """Read a table.

    Parameters
    ----------
    path : str or Path
    rows : int, optional
        First rows alone.

    Returns
    -------
    Workload

    Raises
    ------
    BadInput
        If columns are missing, or no row has a group, a positive use and a positive time.
    """
    text = Path(path).read_bytes().decode("utf-8-sig", errors="replace")
    table = csv.DictReader(io.StringIO(text), skipinitialspace=True)
    names = [name.strip() for name in table.fieldnames or ()]
    missing = [name for name in NEEDED if name not in names]
    if missing:
        raise BadInput(f"{path}: no column {', '.join(missing)}", hint="needs a line of names")
    table.fieldnames = names
    kept = list(_usable(table, rows))
    if not kept:
        raise BadInput(f"{path}: no row has a task_type, a positive mem_mb and a positive time_s")
    groups = tuple(dict.fromkeys(str(row["task_type"]) for row in kept))
    codes = {name: code for code, name in enumerate(groups)}
    return Workload(
        name=Path(path).name,
        group=np.array([codes[str(row["task_type"])] for row in kept], dtype=np.int64),
        groups=groups,
        need_bytes=_column(kept, "mem_mb") * MB,
        wall_s=_column(kept, "time_s"),
        size=_column(kept, "input_bytes"),
        asked_bytes=_column(kept, "req_mem_mb") * MB,
        curve=_curve(kept, names),
    )


def _usable(table: Iterable[dict[str, Any]], rows: int | None) -> Iterator[dict[str, Any]]:
    for number, row in enumerate(table):
        if rows is not None and number >= rows:
            return
        if row.get("task_type") and _number(row["mem_mb"]) > 0 and _number(row["time_s"]) > 0:
            yield row


def _column(rows: list[dict[str, Any]], name: str) -> Floats:
    return np.array([_number(row.get(name)) for row in rows], dtype=np.float64)


def _curve(rows: list[dict[str, Any]], names: list[str]) -> Floats | None:
    """Read the parts of the run after which 1/k, 2/k … of the peak was reached."""
    columns = sorted(
        (part, name)
        for name in names
        if name.startswith("ttf_") and (part := _number(name.removeprefix("ttf_"))) > 0
    )
    if not columns or abs(columns[-1][0] - 1.0) > 1e-9:
        return None
    parts = np.array([part for part, _ in columns])
    if not np.allclose(parts, np.arange(1, len(parts) + 1) / len(parts), atol=1e-6):
        return None
    return np.column_stack([_column(rows, name) for _, name in columns])
