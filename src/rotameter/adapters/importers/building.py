"""Putting a trace together from records of others, and the rules that hold for all formats.

Every record in is a record out, a row in ``rejects`` with file and line, or merged into another
record (a job's steps); unknown is null; nothing lasts less than no time; times without a zone stay
relative to the run's first instant.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rotameter import __version__
from rotameter.adapters.importers._oddities import oddities
from rotameter.adapters.importers.cleaning import clean_meta, clean_tables
from rotameter.errors import BadInput
from rotameter.profiler.live.redact import redact
from rotameter.profiler.schema import EVENT_KINDS, OUTCOMES, TABLES, arrow_schema
from rotameter.profiler.trace import Trace
from rotameter.profiler.view import short
from rotameter.units import many

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Builder"]

_TIMES = {name: [c for c, _ in columns if c.endswith("_ns")] for name, columns in TABLES.items()}
_REJECTS_KEPT = 10_000
_OVER = 1.05
_SIGNED = frozenset(("priority", "attempt", "exit_code", "signal", "line", "pid", "value"))
_PREDICTED = ("predicted_low", "predicted_mid", "predicted_high")
_COUNTED = {
    name: [
        column
        for column, kind in columns
        if kind in "if" and not column.endswith("_ns") and column not in {*_SIGNED, *_PREDICTED}
    ]
    for name, columns in TABLES.items()
}
"""Columns of each table of which less than nothing cannot be: amounts, counts, lengths of time."""


class Builder:
    """Collects records; :meth:`build` gives the trace.

    Parameters
    ----------
    importer : str
        The importer's name.
    engine : str
        What ran the tasks: slurm, nextflow, snakemake, dask, torch, parsl …

    Attributes
    ----------
    meta : dict
        Facts of the run, for the trace's metadata.
    local : bool
        Set by an importer whose times carry no zone: they are read as if they were UTC and made
        relative to the first instant, unless the user gave the zone.
    zone_ns : int, optional
        The zone that the user gave for times that carry none, nanoseconds east of UTC. An importer
        whose inputs may have times of both kinds takes it off the ones without (and is not
        ``local`` then).
    zero_ns : int, optional
        Set by :meth:`build` where times are made relative: the local time that became 0.
    told_longer : int
        Attempts of which the importer said that their duration is longer than from start to end.
    records_in : int
        Input records seen (rows, jobs, events); every one must be accounted for.

    Examples
    --------
    >>> build = Builder("slurm", "slurm")
    >>> build.records_in += 2
    >>> build.add("tasks", {"task_id": "1", "wall_s": 2.0, "outcome": "ok"})
    >>> build.reject("jobs.txt", 3, "too few columns")
    >>> trace = build.build()
    >>> trace.meta["importer"]["records"]
    {'in': 2, 'out': 1, 'merged': 0, 'rejected': 1}
    """

    def __init__(self, importer: str, engine: str) -> None:
        self.importer = importer
        self.meta: dict[str, Any] = {"origin": "imported", "engine": engine}
        self.local = False
        self.zone_ns: int | None = None
        self.zero_ns: int | None = None
        self.told_longer = 0
        self.records_in = 0
        self.records_out: int | None = None
        self.merged = 0
        self.files = 0
        self._rows: dict[str, list[Mapping[str, Any]]] = {name: [] for name in TABLES}
        self._tables: dict[str, list[pa.Table]] = {name: [] for name in TABLES}
        self._rejected = 0
        self._first_reject: dict[str, Any] | None = None
        self._words: dict[str, int] = {}
        self._notes: set[str] = set()
        self._not_measured: list[str] = []

    # -- what importers say -------------------------------------------------------------------

    def add(self, table: str, row: Mapping[str, Any]) -> None:
        """Add one row; columns that it lacks are null, None is null."""
        self._rows[table].append(row)

    def extend(self, table: str, columns: Mapping[str, Any]) -> None:
        """Add many rows as columns of equal length: lists, numpy or Arrow arrays (fast)."""
        self._flush(table)
        self._tables[table].append(_from_columns(table, columns))

    def gathered(self, table: str) -> pa.Table:
        """Give the rows of a table so far."""
        self._flush(table)
        parts = self._tables[table]
        return pa.concat_tables(parts) if parts else arrow_schema(table).empty_table()

    def replace(self, table: str, column: str, values: pa.Array) -> None:
        """Put other values into a column, one for each row of :meth:`gathered`."""
        self._tables[table] = [_put(self.gathered(table), column, values)]

    def keep(self, table: str, kept: NDArray[np.bool_]) -> None:
        """Keep some of a table's rows, in the order of :meth:`gathered`."""
        self._tables[table] = [self.gathered(table).filter(pa.array(kept))]

    def once(self, table: str) -> None:
        """Keep one of rows that are equal throughout."""
        rows = self.gathered(table)
        if len(rows):
            one_each = rows.group_by(rows.column_names, use_threads=False).aggregate([])
            self._tables[table] = [one_each]

    def reject(self, source: str, line: int | None, reason: str) -> None:
        """Refuse one input record."""
        self._rejected += 1
        if self._rejected <= _REJECTS_KEPT:
            row = {"source": source, "line": line, "reason": redact(reason)[:300]}
            self._rows["rejects"].append(row)
            self._first_reject = self._first_reject or row

    def warn(self, text: str, times: int = 1) -> None:
        """Say something once; the same words again are counted, as ``times``."""
        self._words[text] = self._words.get(text, 0) + times

    def note(self, text: str, times: int = 1) -> None:
        """Say how something was read of which nothing is lost: ``--strict`` lets it pass."""
        self.warn(text, times)
        self._notes.add(text)

    def words(self) -> list[str]:
        """Give what was said so far, for a builder that makes no trace."""
        return list(self._words)

    def not_measured(self, what: str) -> None:
        """Say what this input cannot tell."""
        if what not in self._not_measured:
            self._not_measured.append(what)

    def event(self, kind: str, at_ns: int | None = None, **columns: Any) -> None:
        """Add an event of the schema; a kind that it does not know is our bug (ValueError)."""
        if kind not in EVENT_KINDS:
            raise ValueError(f"{self.importer}: no event kind {kind!r} in the schema")
        self._rows["events"].append({"at_ns": at_ns, "kind": kind, **columns})

    def usable(self) -> None:
        """Refuse an input of which every record was refused.

        Raises
        ------
        BadInput
            With the first reason.
        """
        held = {name for name in TABLES if self._rows[name] or any(map(len, self._tables[name]))}
        if not self._rejected or held - {"rejects"} or self.merged:
            return
        first = self._first_reject or {}
        line = f", line {first['line']:,}" if first.get("line") is not None else ""
        raise BadInput(
            f"{short(redact(str(first.get('source'))), 80)} holds nothing usable: all "
            f"{many(self._rejected, 'record')} were refused; the first{line}: "
            f"{first.get('reason')}"
            if self._rejected > 1
            else f"{short(redact(str(first.get('source'))), 80)} holds nothing usable: its only "
            f"record was refused{line}: {first.get('reason')}",
            hint="check that the file is whole and of this format",
        )

    # -- the trace ----------------------------------------------------------------------------

    def _flush(self, name: str) -> None:
        rows, self._rows[name] = self._rows[name], []
        if rows:
            self._tables[name].append(_from_rows(name, rows))

    def build(self, *, utc_offset_s: float | None = None) -> Trace:
        """Make the trace.

        Parameters
        ----------
        utc_offset_s : float, optional
            Zone of local times, seconds east of UTC.
        """
        tables = {}
        for name in TABLES:
            self._flush(name)
            parts = self._tables[name]
            table = pa.concat_tables(parts) if parts else arrow_schema(name).empty_table()
            tables[name] = self._not_negative(name, table)
        tables["tasks"] = self._checked(tables["tasks"])
        self._words |= dict.fromkeys(oddities(tables, self.told_longer), 1)
        tables = self._set_times(tables, utc_offset_s)
        tables, secrets = clean_tables(tables)
        if secrets:
            self._words["values that look like secrets were taken out"] = secrets
        out = len(tables["tasks"]) if self.records_out is None else self.records_out
        said = {
            text: f"{text} ({count:,} times)" if count > 1 else text
            for text, count in self._words.items()
        }
        words = [*said.values()]
        if self._rejected:
            words.insert(
                0,
                f"{self._rejected:,} of {self.records_in:,} records were refused: "
                "see table rejects (rotameter convert INPUT --to csv --table rejects)",
            )
        meta = {
            **clean_meta(self.meta),
            "importer": {
                "name": self.importer,
                "version": __version__,
                "files": self.files,
                "records": {
                    "in": self.records_in,
                    "out": out,
                    "merged": self.merged,
                    "rejected": self._rejected,
                },
            },
            "warnings": clean_meta([*self.meta.get("warnings", []), *words]),
            "not_measured": clean_meta([*self.meta.get("not_measured", []), *self._not_measured]),
        }
        lossless = [text for key, text in said.items() if key in self._notes]
        if lossless:
            meta["lossless"] = clean_meta(lossless)
        return Trace(tables, meta)

    def _set_times(
        self, tables: dict[str, pa.Table], utc_offset_s: float | None
    ) -> dict[str, pa.Table]:
        if not self.local:
            self.meta.setdefault("time_base", "epoch_ns")
            return tables
        if utc_offset_s is not None:
            self.meta["time_base"] = "epoch_ns"
            return _shifted(tables, round(utc_offset_s * 1e9))
        self.meta["time_base"] = "relative_ns"
        lows = [pc.min(tables[n][c]).as_py() for n, cs in _TIMES.items() for c in cs]
        known = [low for low in lows if low is not None]
        self.zero_ns = min(known, default=None)
        return tables if self.zero_ns is None else _shifted(tables, self.zero_ns)

    def _checked(self, tasks: pa.Table) -> pa.Table:
        """Hold the rows to what is true of every run; what is not becomes null and is said."""
        if not len(tasks):
            return tasks
        unknown = pc.invert(pc.is_in(tasks["outcome"], value_set=pa.array([*OUTCOMES, None])))
        if pc.any(unknown).as_py():
            raise ValueError(f"{self.importer}: an outcome that the schema does not know")
        if tasks["outcome"].null_count:
            tasks = _put(tasks, "outcome", pc.fill_null(tasks["outcome"], "unknown"))
        for first, second, blank in (
            ("started_ns", "ended_ns", "ended_ns"),
            ("submitted_ns", "started_ns", "submitted_ns"),
            ("ready_ns", "started_ns", "ready_ns"),
        ):
            wrong = pc.fill_null(pc.less(tasks[second], tasks[first]), False)
            count = pc.sum(wrong).as_py() or 0
            if count:
                tasks = _put(
                    tasks, blank, pc.if_else(wrong, pa.scalar(None, pa.int64()), tasks[blank])
                )
                self._words[
                    f"{_plain(second)} lies before {_plain(first)}: {_plain(blank)} is left out"
                ] = count
        self._warn_efficiency(tasks)
        return tasks

    def _not_negative(self, name: str, table: pa.Table) -> pa.Table:
        """Leave out amounts below nothing: -1 stands for "not known" in many logs."""
        for column in _COUNTED[name]:
            values = table[column]
            if not len(table) or values.null_count == len(values):
                continue
            wrong = pc.fill_null(pc.less(values, 0), False)
            count = pc.sum(wrong).as_py() or 0
            if count:
                nothing = pa.scalar(None, values.type)
                table = _put(table, column, pc.if_else(wrong, nothing, values))
                where = "" if name == "tasks" else f" in {name}"
                self._words[f"a negative {column}{where} is left out"] = count
        return table

    def _warn_efficiency(self, tasks: pa.Table) -> None:
        cores = pc.coalesce(tasks["granted_cores"], tasks["requested_cores"])
        held = pc.multiply(pc.multiply(tasks["wall_s"], cores), _OVER)
        above = pc.greater(tasks["cpu_s"], pc.add(held, 1.0))
        self._say_over(tasks, above, "more CPU time than the cores of the request can give")
        limit = pc.coalesce(tasks["granted_memory_bytes"], tasks["requested_memory_bytes"])
        above = pc.greater(
            pc.cast(tasks["peak_memory_bytes"], pa.float64(), safe=False),
            pc.multiply(pc.cast(limit, pa.float64(), safe=False), _OVER),
        )
        self._say_over(tasks, above, "a memory peak above the request")

    def _say_over(self, tasks: pa.Table, above: Any, what: str) -> None:
        """Warn with the count and one example."""
        found = tasks["task_id"].filter(pc.fill_null(above, False))
        if not len(found):
            return
        example = next(iter(found.drop_null().slice(0, 1).to_pylist()), None)
        text = f"{many(len(found), 'attempt')} of {len(tasks):,}: {what}"
        text += f" (for example task {short(redact(example), 60)})" if example is not None else ""
        self._words[f"{text}: efficiency above 100 %"] = 1


def _plain(column: str) -> str:
    return {
        "started_ns": "start",
        "ended_ns": "end",
        "submitted_ns": "submission",
        "ready_ns": "ready time",
    }[column]


def _put(table: pa.Table, name: str, column: Any) -> pa.Table:
    at = table.column_names.index(name)
    return table.set_column(at, table.schema.field(at), column)


def _shifted(tables: dict[str, pa.Table], by_ns: int) -> dict[str, pa.Table]:
    if not by_ns:
        return tables
    out = {}
    for name, table in tables.items():
        for column in _TIMES[name]:
            table = _put(table, column, pc.subtract(table[column], by_ns))
        out[name] = table
    return out


def _from_rows(name: str, rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    used: dict[str, None] = {}
    for row in rows:
        used.update(dict.fromkeys(row))
    return _from_columns(name, {c: [row.get(c) for row in rows] for c in used})


def _from_columns(name: str, columns: Mapping[str, Any]) -> pa.Table:
    schema = arrow_schema(name)
    unknown = set(columns) - set(schema.names)
    if unknown:
        raise ValueError(f"{name}: no column {sorted(unknown)[0]!r} in the schema")
    size = {len(values) for values in columns.values()}
    if len(size) > 1:
        raise ValueError(f"{name}: columns of different length")
    rows = size.pop() if size else 0
    # All columns that are null throughout share one buffer of zeros.
    zeros = pa.py_buffer(bytes(8 * (rows + 1)))
    arrays = [
        _array(columns[field.name], field.type)
        if field.name in columns
        else _nulls(rows, field.type, zeros)
        for field in schema
    ]
    return pa.table(arrays, schema=schema)


def _nulls(rows: int, kind: pa.DataType, zeros: Any) -> Any:
    if pa.types.is_map(kind):
        return pa.nulls(rows, kind)
    buffers = [zeros] * (3 if pa.types.is_string(kind) else 2)
    return pa.Array.from_buffers(kind, rows, buffers, null_count=rows)


def _array(values: Any, kind: pa.DataType) -> Any:
    if isinstance(values, (pa.Array, pa.ChunkedArray)):
        if pa.types.is_floating(values.type) and pa.types.is_integer(kind):  # NaN is none
            values = pc.if_else(pc.is_nan(values), pa.scalar(None, values.type), values)
        return values.cast(kind, safe=False)
    if isinstance(values, np.ndarray):
        if values.dtype.kind == "f":
            missing = np.isnan(values)
            if pa.types.is_integer(kind):
                values = np.where(missing, 0, np.rint(values)).astype(np.int64)
            return pa.array(values, kind, mask=missing)
        return pa.array(values.tolist() if values.dtype.kind in "OUS" else values, kind)
    if pa.types.is_string(kind):
        return pa.array(_texts(values), kind)
    if pa.types.is_map(kind):
        return pa.array([list(v.items()) if isinstance(v, Mapping) else v for v in values], kind)
    if pa.types.is_integer(kind):
        return pa.array([None if v is None else round(v) for v in values], kind)
    return pa.array(values, kind)


def _texts(values: Iterable[Any]) -> list[str | None]:
    # A lone surrogate cannot be written; nothing else is changed.
    return [None if v is None else str(v).encode("utf-8", "replace").decode() for v in values]
