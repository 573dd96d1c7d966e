"""Tables that have the schema's own columns: read to the letter, as ``convert`` wrote them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from rotameter.adapters.importers._table_derive import between, maps
from rotameter.adapters.importers._table_names import also, well_known
from rotameter.adapters.importers._table_outcomes import outcome_of
from rotameter.adapters.importers._table_plain import (
    booleans,
    differing,
    exact_ints,
    split_exits,
    without_nan,
)
from rotameter.adapters.importers._table_rows import Chunk
from rotameter.adapters.importers._table_secrets import cleaned, safe_name
from rotameter.adapters.importers._table_times import ROUNDED, rounded_times
from rotameter.adapters.importers._table_values import Style, without_formula
from rotameter.adapters.importers._table_walls import below_words, usable
from rotameter.errors import UsageError
from rotameter.profiler.live.redact import redact
from rotameter.profiler.schema import OUTCOMES, TABLES

if TYPE_CHECKING:
    from rotameter.adapters.importers.building import Builder

__all__ = ["Own", "table_of"]

_RELATIVE_NS = 10**17
_LOOKED = 1_000
_NS = 1e-9
_BYTES_LIMIT = 1 << 53


def table_of(headers: Sequence[str], asked: str | None = None, name: str = "") -> str | None:
    """Say which table of the schema these columns are.

    A part of the columns is enough for ``tasks`` (with ``task_id`` and a time), for a table that is
    asked for, or where the file is named as the table is (``workers.csv``). In ``tasks`` a few
    others that mean nothing to us may stand beside them.

    Examples
    --------
    >>> table_of(["task_id", "depends_on"]), table_of(["task_id", "wall_s"]), table_of(["a", "b"])
    ('deps', 'tasks', None)
    >>> table_of(["task_id", "wall_s", "lab"]), table_of(["task_id", "wall_s", "state"])
    ('tasks', None)
    >>> table_of(["worker", "cores"]), table_of(["worker", "cores"], name="run/workers.csv")
    (None, 'workers')
    """
    given = set(headers)
    if asked is not None:
        if asked not in TABLES:
            raise UsageError(f"no table {asked!r}", hint=f"tables: {', '.join(TABLES)}")
        known = {name for name, _ in TABLES[asked]}
        return asked if given and given <= known else None
    if not given:
        return None
    for table, columns in TABLES.items():
        if given == {column for column, _ in columns}:
            return table
    called = name.replace("\\", "/").rpartition("/")[2].partition(".")[0].lower()
    if called != "tasks" and len(given) > 1 and given <= {one for one, _ in TABLES.get(called, ())}:
        return called
    tasks = {column for column, _ in TABLES["tasks"]}
    timed = given & {"wall_s", "started_ns", "ended_ns", "submitted_ns", "cpu_s"}
    if "task_id" not in given or not timed:
        return None
    if given <= tasks:
        return "tasks"
    meant = {header for header, _ in well_known(tuple(headers)).values()}
    return "tasks" if meant <= tasks and len(given & tasks) > len(given - tasks) else None


class Own:
    """Reads chunks of one table of the schema."""

    def __init__(self, table: str, build: Builder, style: Style | None = None) -> None:
        self.kinds = dict(TABLES[table])
        self.table, self.build = table, build
        self.style = style or Style()
        self.relative = False
        self.left: dict[str, None] = {}
        self._left: dict[str, str] = {}
        self._rounded: dict[str, str] = {}

    def convert(self, chunk: Chunk) -> tuple[dict[str, pa.Array], dict[int, str]]:
        """Give the columns, and the rows that do not fit the schema."""
        wrong: dict[int, str] = {}
        made = {}
        columns = dict(chunk.columns)
        if self.table == "tasks":
            split_exits(columns)
        for name, column in columns.items():
            if name not in self.kinds:
                self.left[name] = None
                continue
            made[name] = self._column(name, column, wrong)
        if self.table == "tasks":
            self._tasks(made, wrong)
        return made, wrong

    def _column(self, name: str, column: pa.Array, wrong: dict[int, str]) -> pa.Array:
        kind = self.kinds[name]
        bad: Any = None
        if kind == "i" and name.endswith("_ns"):
            column = self._exact(name, column, wrong)
        if kind == "s":
            return cleaned(_texts(column), _CLEANED.get(name, safe_name))
        if kind in "if":
            column = without_nan(column, name, lambda text: self.build.warn(redact(text)))
        if kind == "i":
            if pa.types.is_timestamp(column.type):
                stamp = pa.timestamp("ns", column.type.tz)
                column = pc.cast(pc.cast(column, stamp, safe=False), pa.int64())
            values, bad = exact_ints(self._pointed(column))
            if name.endswith("_ns") and values.null_count < len(values):
                self.relative |= abs(pc.max(values).as_py()) < _RELATIVE_NS
        elif kind == "f":
            values, bad = _floats(self._pointed(column))
        elif kind == "b":
            read = booleans(column)
            values, bad = read.values, read.bad
        else:
            read = maps(column)
            values, bad = read.values, read.bad
        if bad is not None and bad.any():
            self._unread(name, f"not {_SAID[kind]}", column, bad.nonzero()[0], wrong)
        return values

    def _unread(
        self, name: str, what: str, column: pa.Array, rows: Any, wrong: dict[int, str]
    ) -> None:
        """Leave cells of tasks out; a row of another table is nothing without its cells."""
        texts = (str(column[int(row)].as_py())[:40] for row in rows)
        if self.table == "tasks":
            if name not in self._left:
                shown = list(itertools.islice(texts, _LOOKED))
                words = f"values are left out: {name}: {what}: {shown[0]!r}{also(shown)}"
                self._left[name] = redact(words)
            self.build.warn(self._left[name], len(rows))
            return
        for row, text in zip(rows, texts, strict=True):
            wrong.setdefault(int(row), f"{name}: {what}: {text!r}")

    def _exact(self, name: str, column: pa.Array, wrong: dict[int, str]) -> pa.Array:
        """Leave out times of which rounding left too little."""
        if not pa.types.is_string(column.type):
            return column
        rough = rounded_times(without_formula(pc.utf8_trim_whitespace(column)), _NS)
        rows = rough.nonzero()[0].tolist()
        if not rows:
            return column
        if self.table == "tasks":
            first = self._rounded.setdefault(name, str(column[rows[0]].as_py()))
            self.build.warn(ROUNDED.format(name=name, text=first), len(rows))
        for row in rows if self.table != "tasks" else ():
            wrong.setdefault(row, f"{name}: rounded by more than a second: {column[row].as_py()!r}")
        return pc.if_else(pa.array(rough), pa.scalar(None, pa.string()), column)

    def _pointed(self, column: pa.Array) -> pa.Array:
        """Write decimal commas as points: we write no other commas in numbers."""
        if not pa.types.is_string(column.type):
            return column
        column = without_formula(column)
        if self.style.decimal == "point":
            return column
        if self.style.delimiter == "," and self.style.decimal is None:
            return column
        return pc.replace_substring(column, ",", ".")

    def _tasks(self, made: dict[str, pa.Array], wrong: dict[int, str]) -> None:
        outcome = made.get("outcome")
        size = len(next(iter(made.values()), ()))
        if outcome is None and made.keys() & {"exit_code", "signal"}:
            outcome = pa.nulls(size, pa.string())
        if outcome is not None:
            self._outcomes(made, outcome)
        for name, column in made.items():
            if name.endswith("_bytes"):
                large = pc.fill_null(
                    pc.or_(pc.greater(column, _BYTES_LIMIT), pc.less(column, 0)), False
                )
                if pc.any(large).as_py():
                    made[name] = pc.if_else(large, pa.scalar(None, column.type), column)
                    self.build.warn(f"a value of {name} that is no size up to 9 PB is left out")
        if "started_ns" in made and "ended_ns" in made:
            held = between(made["started_ns"], made["ended_ns"])
            if "wall_s" not in made:
                made["wall_s"] = held
            elif (below := usable(made["wall_s"])[1]) is not None:
                self.build.warn(below_words(f"{below:,.6g}", instead=True))
                negative = pc.fill_null(pc.less(made["wall_s"], 0), False)
                made["wall_s"] = pc.if_else(negative, held, made["wall_s"])
            if "source" not in made and (said := differing(made["wall_s"], held)):
                self.build.warn(said)
        if "attempt" not in made and "run_id" not in made:
            counts: dict[str, int] = {}
            numbers = []
            for one in made["task_id"].to_pylist():
                counts[one] = counts.get(one, 0) + 1
                numbers.append(counts[one])
            made["attempt"] = pa.array(numbers, pa.int64())

    def _outcomes(self, made: dict[str, pa.Array], outcome: pa.Array) -> None:
        """Read outcomes that are none of ours by what such words mean; fill by exit codes."""
        fits = pc.is_in(outcome, value_set=pa.array(OUTCOMES, pa.string()))
        rows = pc.invert(fits).to_numpy(zero_copy_only=False).nonzero()[0]
        if not len(rows):
            return
        states = outcome.to_pylist()
        nothing: list[Any] = [None] * len(states)
        errors, codes, signals, kinds = (
            made[name].to_pylist() if name in made else list(nothing)
            for name in ("error", "exit_code", "signal", "outcome_kind")
        )
        for row in rows:
            state = states[row]
            states[row], kind, strange = outcome_of([state], codes[row], signals[row], {}, {})
            kinds[row] = kinds[row] or kind
            if strange is not None:
                errors[row] = errors[row] or redact(strange)
                self.build.warn(redact(f"state {strange[:60]!r} is not known"))
        made["outcome"], made["error"], made["outcome_kind"] = (
            pa.array(texts, pa.string()) for texts in (states, errors, kinds)
        )


_SAID = {"i": "a whole number of 64 bits", "f": "a number", "b": "true or false", "m": "a map"}
_CLEANED: dict[str, Callable[[str], str]] = {"error": redact, "reason": redact}


def _texts(column: pa.Array) -> pa.Array:
    """Take texts as they are."""
    if pa.types.is_floating(column.type):
        column = pa.array(
            [None if v is None else str(int(v)) if v == v and abs(v) < 2**53 and v == int(v)
             else repr(v) for v in column.to_pylist()], pa.string())  # fmt: skip
    return column if pa.types.is_string(column.type) else pc.cast(column, pa.string())


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
