"""Read a series of counts from a CSV file, and write quantiles of forecasts to one.

One row is one bin, in order. What is no number is a missing bin, and said so.
"""

from __future__ import annotations

import csv
import gzip
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from rotameter.errors import BadInput, TraceNotFound, UsageError

if TYPE_CHECKING:
    from rotameter.forecasting.arrivals.forecasts import Forecasts

__all__ = ["Series", "quantile_lines", "read_series"]

_NAMES = ("value", "count", "counts", "arrivals", "y", "x", "n", "requests", "jobs", "tasks")
_MOST_BYTES = 1 << 30
_SECOND = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Series:
    """One column of a file.

    Attributes
    ----------
    name : str
        The column's name, or its number.
    values : list of float
        NaN: missing.
    times_ns : list of int, optional
        When each bin began; None where no column of times was named.
    warnings : tuple of str
    """

    name: str
    values: list[float]
    times_ns: list[int] | None
    warnings: tuple[str, ...]


def _number(text: str) -> float:
    """Read a number; NaN where it is none."""
    text = text.strip()
    try:
        value = float(text)
    except ValueError:
        return math.nan
    # Python takes digits apart by underscores; no table means that.
    return value if math.isfinite(value) and "_" not in text else math.nan


def _time_ns(text: str) -> int | None:
    """Read seconds since some moment, or a date and time of ISO 8601; none has a zone or all do."""
    number = _number(text)
    if math.isfinite(number):
        return round(number * _SECOND) if abs(number) < 1e12 else round(number * 1_000_000)
    try:
        when = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    when = when if when.tzinfo else when.replace(tzinfo=UTC)
    gone = when - datetime(1970, 1, 1, tzinfo=UTC)
    return (gone.days * 86_400 + gone.seconds) * _SECOND + gone.microseconds * 1000


def _open(path: Path) -> TextIO:
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise BadInput(f"{path} is larger than 1 GiB", hint="a series is one number a row")
        with path.open("rb") as head:
            packed = head.read(2) == b"\x1f\x8b"
        if packed:
            return gzip.open(path, "rt", encoding="utf-8-sig", errors="replace", newline="")
        return path.open(encoding="utf-8-sig", errors="replace", newline="")
    except (FileNotFoundError, NotADirectoryError) as error:
        raise TraceNotFound(f"no such file: {path}", hint="check the path") from error
    except OSError as error:
        raise BadInput(
            f"cannot read {path}: {error.strerror or error}", hint="check the path"
        ) from error


def _rows(path: Path) -> list[list[str]]:
    with _open(path) as file:
        try:
            text = file.read(_MOST_BYTES)
        except (OSError, EOFError) as error:
            raise BadInput(f"cannot unpack {path}: {error}", hint="the file is damaged") from error
    if "\0" in text[:65_536]:
        raise BadInput(f"{path} is no text", hint="give a CSV file, one row a bin")
    first = next((line for line in text.splitlines() if line.strip()), "")
    delimiter = next((mark for mark in (",", ";", "\t") if mark in first), ",")
    try:
        made = list(csv.reader(text.splitlines(), delimiter=delimiter))
    except csv.Error as error:
        raise BadInput(f"{path} is no CSV: {error}", hint="one row a bin") from error
    rows = [row for row in made if row and not row[0].lstrip().startswith("#")]
    # A last line without a value is an end of file, not a bin.
    while rows and not any(cell.strip() for cell in rows[-1]):
        rows.pop()
    return rows


def _has_header(rows: Sequence[Sequence[str]]) -> bool:
    """Say whether the first row names columns: it has text, and no number."""
    cells = [cell.strip() for cell in rows[0]]
    return (
        any(cells)
        and all(math.isnan(_number(cell)) for cell in cells)
        and any(
            cell and _time_ns(cell) is None and cell.lower() not in ("nan", "na", "null", "inf")
            for cell in cells
        )
    )


def _place(asked: str, header: Sequence[str], what: str) -> int:
    """Find a column by its name or number (from 1)."""
    names = [name.strip() for name in header]
    if asked in names:
        return names.index(asked)
    if asked.isdecimal() and 1 <= int(asked) <= len(names):
        return int(asked) - 1
    known = ", ".join(name for name in names if name) or f"1 to {len(names)}"
    raise UsageError(f"{what} {asked}: no such column", hint=f"columns: {known}")


def _values_at(rows: Sequence[Sequence[str]], header: Sequence[str]) -> int:
    """Find the column of counts: a known name, else the last one that has numbers."""
    names = [name.strip().lower() for name in header]
    for name in _NAMES:
        if name in names:
            return names.index(name)
    width = len(header)
    some = rows[:1000]
    for at in range(width - 1, -1, -1):
        if any(at < len(row) and math.isfinite(_number(row[at])) for row in some):
            return at
    return width - 1


def read_series(path: str | Path, column: str | None = None, time: str | None = None) -> Series:
    """Read one column of a CSV file: plain or gzipped, with or without names.

    Parameters
    ----------
    path : path
    column : str, optional
        Name or number (from 1) of the counts; else one that is called value, count, arrivals, …,
        else the last one that has numbers.
    time : str, optional
        Name or number of when each bin began: seconds or ISO 8601. Where a time is missing, so are
        all of the file's.

    Raises
    ------
    TraceNotFound
        If there is no such file.
    BadInput
        If it cannot be read, or there is no number in the column.
    UsageError
        If there is no such column.
    """
    path = Path(path).expanduser()
    if path.is_dir():
        raise BadInput(f"{path} is a folder", hint="give a CSV file, one row a bin")
    rows = _rows(path)
    if not rows:
        raise BadInput(f"{path} is empty", hint="give a CSV file, one row a bin")
    named = _has_header(rows)
    header = list(rows[0]) if named else [""] * max(len(row) for row in rows[:1000])
    rows = rows[1:] if named else rows
    at = _values_at(rows, header) if column is None else _place(column, header, "--column")
    values = [_number(row[at]) if at < len(row) else math.nan for row in rows]
    missing = sum(math.isnan(value) for value in values)
    if missing == len(values):
        raise BadInput(f"{path}: no number in column {at + 1}", hint="name another with --column")
    name = header[at].strip() or str(at + 1)
    warnings = []
    if missing:
        warnings.append(f"{missing} of {len(values)} rows have no number in {name}: missing bins")
    if negative := sum(value < 0 for value in values):
        warnings.append(f"{negative} rows of {name} are below 0: missing bins")
    times: list[int] | None = None
    if time is not None:
        spot = _place(time, header, "--time")
        read = [_time_ns(row[spot]) if spot < len(row) else None for row in rows]
        if any(one is None for one in read):
            lost = sum(one is None for one in read)
            warnings.append(f"{lost} rows have no time: each row is taken as the next bin")
        else:
            times = [one for one in read if one is not None]
    return Series(name, values, times, tuple(warnings))


def quantile_lines(found: Forecasts) -> Iterator[str]:
    """Give the lines of a CSV file: origin, step, and a column for each level."""
    yield ",".join(["origin", "step", *(f"q{level:g}" for level in found.levels)])
    for origin, steps in zip(found.origins.tolist(), found.values.tolist(), strict=True):
        for step, row in enumerate(steps, 1):
            yield ",".join([str(origin), str(step), *(f"{value:.6g}" for value in row)])
