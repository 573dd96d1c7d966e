"""Tables of tasks and what they used, as published for task sizing: one row a completed task.

Columns: ``task_type``, ``mem_mb`` (10⁶ bytes) and ``time_s``; also ``seq``, ``input_bytes``,
``req_mem_mb``, ``disk_mb`` and ``req_disk_mb`` (10⁶ bytes too), and ``ttf_0.05`` to ``ttf_1.00``:
the part of the run after which use of memory first reached that part of its peak. Rows are in
order of completion. Fields are parted by commas, semicolons, tabs or bars; a value may name its
unit (``2 GB``, ``5 min``). A table may be packed (gz, bz2, xz, or alone in a zip).
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rotameter.adapters.importers.inputs import InputFile, open_members
from rotameter.allocator.resources import DISK, MEMORY, Resource
from rotameter.allocator.workload import Workload, near_limit
from rotameter.errors import BadInput
from rotameter.units import many, parse_bytes, parse_seconds

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

__all__ = ["NEEDED", "is_sizing", "read_sizing"]

NEEDED = ("task_type", "mem_mb", "time_s")
MB = 1e6

_DELIMITERS = ",;\t|"
_MOST_BYTES, _MOST_S = 1e18, 1e11
"""An exabyte and three thousand years: more is no reading of one task."""
_COMMA = re.compile(r"[+-]?\d+,(\d+)")


def is_sizing(path: str | Path) -> bool:
    """Say whether a file is such a table, by its first line; a column may be missing."""
    place = Path(path)
    if not place.is_file():
        return False
    try:
        first = _unpacked(place).head.partition(b"\n")[0]
    except BadInput:
        return False
    names = _head(first.decode("utf-8-sig", errors="replace"))[1]
    return "task_type" in names and bool({"mem_mb", "time_s"} & set(names))


def _unpacked(path: Path) -> InputFile:
    files = open_members(path)
    if len(files) != 1:
        raise BadInput(f"{path} holds {len(files):,} files", hint="name one of them, unpacked")
    return files[0]


def _head(line: str) -> tuple[str, list[str]]:
    """Give what parts the fields, and the columns' names, in small letters."""

    def names(delimiter: str) -> list[str]:
        try:
            found = next(csv.reader([line], delimiter=delimiter, skipinitialspace=True), [])
        except csv.Error:  # No text, such as what is packed.
            return []
        return [name.strip().casefold() for name in found]

    best = max(_DELIMITERS, key=lambda one: len(set(NEEDED) & set(names(one))))
    return best, names(best)


def _number(text: str | None, delimiter: str = ",") -> float:
    """Read a plain number; NaN where it is none. Between other signs a comma is a decimal one."""
    try:
        return float(text) if text else math.nan
    except ValueError:
        pass
    comma = None if delimiter == "," or text is None else _COMMA.fullmatch(text.strip())
    # Three digits after it: a thousand, or a decimal? Neither is made up.
    if comma is None or len(comma[1]) == 3:
        return math.nan
    return float(comma.string.replace(",", "."))


def _amount(text: str | None, column: str, delimiter: str) -> float:
    """Read a column's value in bytes or seconds, by its unit where it has one; else NaN."""
    memory = column.endswith("_mb")
    value = _number(text, delimiter)
    if not math.isnan(value) or not text:
        return value * MB if memory else value
    try:
        if re.search(r"[a-zµμ:]", text, re.I):
            return float(parse_bytes(text)) if memory else parse_seconds(text)
    except ValueError:
        pass
    return math.nan


def read_sizing(
    path: str | Path,
    rows: int | None = None,
    *,
    warn: Callable[[str], None] | None = None,
    resource: Resource = MEMORY,
    shown: str | None = None,
) -> Workload:
    """Read a table.

    Parameters
    ----------
    path : str or Path
    rows : int, optional
        First rows alone.
    warn : callable, optional
        Is told of rows that cannot be used: how many, and one of them.
    resource : Resource
        Memory or disk.
    shown : str, optional
        What messages call the table, where that is not its path.

    Returns
    -------
    Workload

    Raises
    ------
    BadInput
        If columns are missing, or no row has a group, a positive use and a positive time; of disk,
        if no row has a use of it.
    """
    text = _unpacked(Path(path)).read_bytes().decode("utf-8-sig", errors="replace")
    path = path if shown is None else shown
    delimiter, names = _head(text.partition("\n")[0].rstrip("\r"))
    missing = [name for name in NEEDED if name not in names]
    if missing:
        found = ", ".join(name for name in names if name)
        raise BadInput(
            f"{path}: no column {', '.join(missing)}; its columns: {found}",
            hint=f"a table of tasks has {', '.join(NEEDED)}; "
            "or read it as another with --format table and --map",
        )
    twice = sorted({name for name in names if name and names.count(name) > 1})
    if twice:
        raise BadInput(f"{path}: two columns {twice[0]}", hint="leave one of them out")
    table = csv.DictReader(
        io.StringIO(text), fieldnames=names, delimiter=delimiter, skipinitialspace=True
    )
    next(table, None)
    kept, wrong = _sorted_out(table, rows, delimiter)
    said = f"{many(len(wrong), 'row')} left out; the first: {wrong[0]}" if wrong else ""
    if not kept:
        raise BadInput(
            f"{path}: no row has a task_type, a positive mem_mb and a positive time_s",
            hint=said or "there is nothing below the line of names",
        )
    if said and warn is not None:
        warn(said)
    made = _workload(Path(path).name, kept, names, delimiter)
    return _of_disk(path, made, kept, delimiter) if resource is DISK else made


def _workload(name: str, kept: list[dict[str, Any]], names: list[str], delimiter: str) -> Workload:
    groups = tuple(dict.fromkeys(str(row["task_type"]) for row in kept))
    codes = {group: code for code, group in enumerate(groups)}

    def column(title: str) -> Floats:
        values = [_amount(row.get(title), title, delimiter) for row in kept]
        made = np.array(values, dtype=np.float64)
        return np.where(np.isfinite(made), made, np.nan)

    need, asked = column("mem_mb"), column("req_mem_mb")
    return Workload(
        name=name,
        group=np.array([codes[str(row["task_type"])] for row in kept], dtype=np.int64),
        groups=groups,
        need=need,
        wall_s=column("time_s"),
        size=_column(kept, "input_bytes", delimiter),
        asked=asked,
        curve=_curve(kept, names, delimiter),
        at_most=near_limit(need, asked),
        row=np.arange(len(kept), dtype=np.int64),
    )


def _of_disk(
    path: str | Path, work: Workload, kept: list[dict[str, Any]], delimiter: str
) -> Workload:
    """Give what the same tasks needed of a disk, those of which it is known."""

    def column(title: str) -> Floats:
        values = [_amount(row.get(title), title, delimiter) for row in kept]
        made = np.array(values, dtype=np.float64)
        with np.errstate(invalid="ignore"):
            return np.where((made >= 0) & (made <= _MOST_BYTES), made, np.nan)

    need, asked = column("disk_mb"), column("req_disk_mb")
    asked = np.where(asked > 0, asked, np.nan)
    known = np.flatnonzero(~np.isnan(need))
    if not known.size:
        raise BadInput(
            f"{path}: no row has a disk_mb, so nothing is known of disk",
            hint="add a column disk_mb (10^6 bytes), or read it as another with --format table",
        )
    return replace(
        work,
        group=work.group[known],
        need=need[known],
        wall_s=work.wall_s[known],
        size=work.size[known],
        asked=asked[known],
        curve=None,
        at_most=near_limit(need, asked)[known],
        resource=DISK,
        row=known,
    )


def _sorted_out(
    table: csv.DictReader[str], rows: int | None, delimiter: str
) -> tuple[list[dict[str, Any]], list[str]]:
    """Give the rows that can be used, and what is wrong with each other one."""
    kept, wrong = [], []
    for number, row in enumerate(_filled(table)):
        if rows is not None and number >= rows:
            break
        reason = _reason(row, delimiter)
        if reason:
            wrong.append(f"line {table.line_num}: {reason}")
        else:
            kept.append(row)
    return kept, wrong


def _filled(table: csv.DictReader[str]) -> Iterator[dict[str, Any]]:
    """Give rows in which something is written."""
    return (row for row in table if any(row.values()))


def _reason(row: dict[str, Any], delimiter: str) -> str:
    """Say why a row cannot be used; empty where it can."""
    if any(row.get(None, ())):  # type: ignore[call-overload]
        return "more values than columns"
    if not (row["task_type"] or "").strip():
        return "no task_type"
    for name, most in (("mem_mb", _MOST_BYTES), ("time_s", _MOST_S)):
        text = row[name]
        value = _amount(text, name, delimiter)
        if text is None or not text.strip():
            return f"no {name}"
        if 0 < value <= most:
            continue
        shown = f"{name} is {text.strip()[:40]!r}"
        if math.isnan(value):
            return f"{shown}, which is no number of {'MB' if name == 'mem_mb' else 'seconds'}"
        return f"{shown}, which is not positive" if value <= 0 else f"{shown}, which is too large"
    return ""


def _column(rows: list[dict[str, Any]], name: str, delimiter: str) -> Floats:
    made = np.array([_number(row.get(name), delimiter) for row in rows], dtype=np.float64)
    return np.where(np.isfinite(made), made, np.nan)


def _curve(rows: list[dict[str, Any]], names: list[str], delimiter: str) -> Floats | None:
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
    return np.column_stack([_column(rows, name, delimiter) for _, name in columns])
