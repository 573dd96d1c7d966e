"""Tables that have the schema's own columns: read to the letter, as ``convert`` wrote them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from rotameter.adapters.importers._table_convert import _maps
from rotameter.adapters.importers._table_plain import booleans, exact_ints
from rotameter.adapters.importers._table_rows import Chunk
from rotameter.adapters.importers._table_secrets import cleaned, safe_name
from rotameter.errors import UsageError
from rotameter.profiler.live.redact import redact
from rotameter.profiler.schema import OUTCOMES, TABLES

if TYPE_CHECKING:
    from rotameter.adapters.importers.building import Builder

__all__ = ["GUARDED", "Own", "table_of"]

GUARDED = "=+-@\t\r'"
"""Texts that begin so are written with ``'`` in front, which spreadsheets take for text."""
_RELATIVE_NS = 10**17
_BYTES_LIMIT = 1 << 53


def table_of(headers: Sequence[str], asked: str | None = None) -> str | None:
    """Say which table of the schema these columns are.

    A part of the columns is enough for ``tasks`` (with ``task_id`` and a time), or for a table
    that is asked for.

    Examples
    --------
    >>> table_of(["task_id", "depends_on"]), table_of(["task_id", "wall_s"]), table_of(["a", "b"])
    ('deps', 'tasks', None)
    """
    given = set(headers)
    if asked is not None:
        if asked not in TABLES:
            raise UsageError(f"no table {asked!r}", hint=f"tables: {', '.join(TABLES)}")
        known = {name for name, _ in TABLES[asked]}
        return asked if given and given <= known else None
    if not given:
        return None
    for name, columns in TABLES.items():
        if given == {column for column, _ in columns}:
            return name
    tasks = {column for column, _ in TABLES["tasks"]}
    timed = given & {"wall_s", "started_ns", "ended_ns", "submitted_ns", "cpu_s"}
    return "tasks" if given <= tasks and "task_id" in given and timed else None


class Own:
    """Reads chunks of one table of the schema."""

    def __init__(self, table: str, build: Builder) -> None:
        self.kinds = dict(TABLES[table])
        self.table, self.build = table, build
        self.relative = False

    def convert(self, chunk: Chunk) -> tuple[dict[str, pa.Array], dict[int, str]]:
        """Give the columns, and the rows that do not fit the schema."""
        wrong: dict[int, str] = {}
        made = {}
        for name, column in chunk.columns.items():
            values = self._column(name, column, wrong)
            made[name] = values
        if self.table == "tasks":
            self._tasks(made, wrong)
        return made, wrong

    def _column(self, name: str, column: pa.Array, wrong: dict[int, str]) -> pa.Array:
        kind = self.kinds[name]
        bad: Any = None
        if kind == "s":
            return cleaned(_texts(column), _CLEANED.get(name, safe_name))
        if kind == "i":
            if pa.types.is_timestamp(column.type):
                stamp = pa.timestamp("ns", column.type.tz)
                column = pc.cast(pc.cast(column, stamp, safe=False), pa.int64())
            values, bad = exact_ints(column)
            if name.endswith("_ns") and values.null_count < len(values):
                self.relative |= abs(pc.max(values).as_py()) < _RELATIVE_NS
        elif kind == "f":
            values, bad = _floats(column)
        elif kind == "b":
            read = booleans(column)
            values, bad = read.values, read.bad
        else:
            read = _maps(column)
            values, bad = read.values, read.bad
        if bad is not None and bad.any():
            for row in bad.nonzero()[0]:
                text = str(column[int(row)].as_py())[:40]
                wrong.setdefault(int(row), f"{name}: not {_SAID[kind]}: {text!r}")
        return values

    def _tasks(self, made: dict[str, pa.Array], wrong: dict[int, str]) -> None:
        outcome = made.get("outcome")
        if outcome is not None:
            known = pa.array([*OUTCOMES, None], pa.string())
            fits = pc.is_in(outcome, value_set=known)
            for row in pc.invert(fits).to_numpy(zero_copy_only=False).nonzero()[0]:
                wrong.setdefault(
                    int(row), f"outcome: not one of ours: {str(outcome[int(row)].as_py())[:40]!r}"
                )
        for name, column in made.items():
            if name.endswith("_bytes"):
                large = pc.fill_null(
                    pc.or_(pc.greater(column, _BYTES_LIMIT), pc.less(column, 0)), False
                )
                for row in large.to_numpy(zero_copy_only=False).nonzero()[0]:
                    wrong.setdefault(int(row), f"{name}: not a size up to 9 PB")
        if "wall_s" not in made and "started_ns" in made and "ended_ns" in made:
            held = pc.subtract(made["ended_ns"], made["started_ns"])
            held = pc.if_else(pc.less(held, 0), pa.scalar(None, pa.int64()), held)
            made["wall_s"] = pc.divide(pc.cast(held, pa.float64(), safe=False), 1e9)
        if "attempt" not in made and "run_id" not in made:
            counts: dict[str, int] = {}
            numbers = []
            for one in made["task_id"].to_pylist():
                counts[one] = counts.get(one, 0) + 1
                numbers.append(counts[one])
            made["attempt"] = pa.array(numbers, pa.int64())


_SAID = {"i": "a whole number of 64 bits", "f": "a number", "b": "true or false", "m": "a map"}
_CLEANED: dict[str, Callable[[str], str]] = {"error": redact, "reason": redact}


def _texts(column: pa.Array) -> pa.Array:
    """Take texts as they are; empty is null, a guarded text loses its guard."""
    if not pa.types.is_string(column.type):
        if pa.types.is_floating(column.type):
            column = pa.array(
                [None if v is None else str(int(v)) if v == v and abs(v) < 2**53 and v == int(v)
                 else repr(v) for v in column.to_pylist()], pa.string())  # fmt: skip
        return pc.cast(column, pa.string())
    if not pc.any(pc.or_(pc.starts_with(column, "'"), pc.equal(column, ""))).as_py():
        return column
    return pa.array([_unguarded(text) for text in column.to_pylist()], pa.string())


def _unguarded(text: str | None) -> str | None:
    if not text:
        return None
    if text == "'":
        return ""
    return text[1:] if text[0] == "'" and text[1] in GUARDED else text


def _floats(column: pa.Array) -> tuple[pa.Array, Any]:
    if not pa.types.is_string(column.type):
        values = pc.cast(column, pa.float64(), safe=False)
    else:
        empty = pc.if_else(pc.equal(column, ""), pa.scalar(None, pa.string()), column)
        try:
            values = pc.cast(empty, pa.float64())
        except pa.ArrowInvalid:
            values = pa.array([_float(text) for text in empty.to_pylist()], pa.float64())
            bad = pc.and_(pc.is_valid(empty), pc.is_null(values))
            return values, bad.to_numpy(zero_copy_only=False)
    finite = pc.if_else(pc.is_finite(values), values, pa.scalar(None, pa.float64()))
    bad = pc.and_(pc.is_valid(values), pc.is_null(finite))
    missing = pc.fill_null(pc.is_nan(values), False)
    return finite, pc.and_(bad, pc.invert(missing)).to_numpy(zero_copy_only=False)


def _float(text: str | None) -> float | None:
    try:
        value = float(text) if text is not None else None
    except ValueError:
        return None
    return value if value is None or math.isfinite(value) else None
