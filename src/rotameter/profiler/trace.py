"""The one value that crosses folder borders: Arrow tables with one schema, plus metadata."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from rotameter.profiler.assemble import conform
from rotameter.profiler.schema import SCHEMA_VERSION, TABLES, arrow_schema
from rotameter.units import many

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["TableView", "Trace"]

_REPR_ROWS = 12
_REPR_CHARS = 80


def _clip(text: object, limit: int = _REPR_CHARS) -> str:
    shown = str(text)
    shown = shown if len(shown) <= limit else shown[: limit - 1] + "…"
    return html.escape(shown)


class TableView:
    """One table of a trace, readable by pyarrow, polars, pandas and duckdb without a copy.

    Examples
    --------
    >>> view = Trace.from_tables({"deps": [{"task_id": "b", "depends_on": "a"}]}).deps
    >>> len(view), pa.table(view).column_names
    (1, ['task_id', 'depends_on'])
    """

    def __init__(self, name: str, table: pa.Table) -> None:
        self.name = name
        self._table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)

    def __len__(self) -> int:
        return int(self._table.num_rows)

    def to_arrow(self) -> pa.Table:
        """Give the table as a ``pyarrow.Table``."""
        return self._table

    def to_pandas(self) -> pd.DataFrame:
        """Give the table as a pandas data frame; integers with nulls stay integers (Int64)."""
        import pandas as pd

        mapping = {pa.int64(): pd.Int64Dtype(), pa.bool_(): pd.BooleanDtype()}
        frame: pd.DataFrame = self._table.to_pandas(types_mapper=mapping.get)
        return frame

    def __repr__(self) -> str:
        return f"<{self.name}: {len(self):,} rows x {self._table.num_columns} columns>"

    def _repr_html_(self) -> str:
        head = self._table.slice(0, _REPR_ROWS)
        shown = [c for c in head.column_names if head[c].null_count < head.num_rows][:14]
        return (
            f"<p>{_clip(self.name)}: {len(self):,} rows</p>"
            + _html_table(shown, [[row[c] for c in shown] for row in head.to_pylist()])
        )[:50_000]


def _html_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    head = "".join(f"<th>{_clip(c)}</th>" for c in columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{_clip('' if v is None else v)}</td>" for v in row) + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


class Trace:
    """What happened in a run.

    Parameters
    ----------
    tables : mapping of str to pyarrow.Table
        Conforming tables; use :meth:`from_tables` for anything else.
    meta : mapping
        See the reference page of the trace schema.

    Examples
    --------
    >>> trace = Trace.from_tables({"tasks": [{"task_id": "a", "group": "load", "wall_s": 1.5}]})
    >>> trace.table("tasks")["wall_s"].to_pylist()
    [1.5]
    """

    def __init__(self, tables: Mapping[str, pa.Table], meta: Mapping[str, Any]) -> None:
        self._tables = {n: tables.get(n, arrow_schema(n).empty_table()) for n in TABLES}
        self.meta: dict[str, Any] = {"schema": SCHEMA_VERSION, "origin": "recorded", **meta}

    @classmethod
    def from_tables(
        cls,
        tables: Mapping[str, pa.Table | Sequence[Mapping[str, Any]]],
        meta: Mapping[str, Any] | None = None,
    ) -> Trace:
        """Make a trace from tables, or lists of rows; what they lack becomes null.

        Raises
        ------
        ValueError
            If a table or column is not in the schema, or a value does not fit its column.
        """
        made: dict[str, pa.Table] = {}
        for name, given in tables.items():
            if name not in TABLES:
                raise ValueError(f"no table {name!r} in the schema; known: {', '.join(TABLES)}")
            schema = arrow_schema(name)
            if not isinstance(given, pa.Table):
                unknown = {key for row in given for key in row} - set(schema.names)
                if unknown:
                    raise ValueError(f"{name}: no column {sorted(unknown)[0]!r} in the schema")
                rows = [
                    {k: list(v.items()) if isinstance(v, Mapping) else v for k, v in row.items()}
                    for row in given
                ]
                given = pa.Table.from_pylist(rows, schema=schema)
            made[name] = conform(given, name)
        return cls(made, meta or {})

    def table(self, name: str) -> pa.Table:
        """Give one table, with exactly the columns of the schema.

        Raises
        ------
        KeyError
            If there is no such table in the schema.
        """
        return self._tables[name]

    def __getattr__(self, name: str) -> TableView:
        if name in TABLES:
            return TableView(name, self._tables[name])
        raise AttributeError(f"a trace has no {name!r}; tables: {', '.join(TABLES)}")

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *TABLES]

    @property
    def warnings(self) -> list[str]:
        """What was lost or repaired while recording and reading."""
        return list(self.meta.get("warnings", ()))

    @property
    def dropped(self) -> int:
        """How many records could not be kept."""
        count = self.meta.get("dropped")
        return count if isinstance(count, int) else 0

    @property
    def makespan_s(self) -> float | None:
        """Seconds from the first to the last moment known of any attempt, or None."""
        tasks = self._tables["tasks"]
        begin = [pc.min(tasks[c]).as_py() for c in ("submitted_ns", "ready_ns", "started_ns")]
        end = pc.max(tasks["ended_ns"]).as_py()
        known = [b for b in begin if b is not None]
        return (end - min(known)) / 1e9 if known and end is not None else None

    def between(self, start_ns: int, end_ns: int) -> Trace:
        """Give the part of the trace that began in a stretch of time, with what it rests on.

        Parameters
        ----------
        start_ns, end_ns : int, nanoseconds since the epoch

        Examples
        --------
        >>> rows = [{"task_id": t, "started_ns": n} for t, n in (("a", 1), ("b", 5))]
        >>> Trace.from_tables({"tasks": rows}).between(4, 9).table("tasks")["task_id"].to_pylist()
        ['b']
        """
        out = dict(self._tables)
        tasks = out["tasks"]
        when = pc.coalesce(tasks["started_ns"], tasks["ready_ns"], tasks["submitted_ns"])
        out["tasks"] = tasks.filter(_within(when, start_ns, end_ns))
        ids = out["tasks"]["task_id"].combine_chunks()
        for name in ("flows", "deps"):
            out[name] = out[name].filter(pc.is_in(out[name]["task_id"], value_set=ids))
        for name, column in (("intervals", "start_ns"), ("samples", "at_ns"), ("events", "at_ns")):
            out[name] = out[name].filter(_within(out[name][column], start_ns, end_ns))
        return Trace(out, dict(self.meta))

    def save(self, path: str | Path, *, force: bool = False) -> Path:
        """Write the trace as a folder ``NAME.rmt``; see :func:`rotameter.profiler.store.save`."""
        from rotameter.profiler.store import save

        return save(self, path, force=force)

    @staticmethod
    def merge(traces: Sequence[Trace]) -> Trace:
        """Join traces of several runs or machines; equal task ids are told apart by a prefix.

        Examples
        --------
        >>> one = Trace.from_tables({"tasks": [{"task_id": "a"}]})
        >>> sorted(Trace.merge([one, one]).table("tasks")["task_id"].to_pylist())
        ['1:a', '2:a']
        """
        ids = [pc.unique(t.table("tasks")["task_id"]) for t in traces]
        total = sum(len(i) for i in ids)
        clash = total > len(pc.unique(pa.concat_arrays([*ids]))) if ids else False
        parts: dict[str, list[pa.Table]] = {name: [] for name in TABLES}
        for number, trace in enumerate(traces, 1):
            for name in TABLES:
                table = trace.table(name)
                parts[name].append(_prefixed(table, f"{number}:") if clash else table)
        tables = {name: pa.concat_tables(chunks) for name, chunks in parts.items() if chunks}
        return Trace(tables, _merged_meta([t.meta for t in traces]))

    def __repr__(self) -> str:
        counts = ", ".join(f"{len(t):,} {n}" for n, t in self._tables.items() if len(t))
        return f"<Trace: {counts or 'empty'}>"

    def _repr_html_(self) -> str:
        tasks = self._tables["tasks"]
        grouped = tasks.group_by("group").aggregate([([], "count_all"), ("wall_s", "sum")])
        grouped = grouped.sort_by([("wall_s_sum", "descending")]).slice(0, _REPR_ROWS)
        rows = [
            (r["group"] or "—", f"{r['count_all']:,}", _seconds(r["wall_s_sum"]))
            for r in grouped.to_pylist()
        ]
        run = self.meta.get("run") or {}
        span = self.makespan_s
        head = (
            f"<p><b>rotameter trace</b>: {many(len(tasks), 'attempt')}, "
            f"run {_clip(run.get('status', 'unknown'))}"
            f", makespan {_seconds(span)}</p>"
        )
        notes = "".join(f"<li>{_clip(w, 200)}</li>" for w in self.warnings[:10])
        table = _html_table(("task group", "attempts", "task time"), rows)
        return head + table + (f"<ul>{notes}</ul>" if notes else "")


def _within(when: pa.ChunkedArray, start_ns: int, end_ns: int) -> pa.ChunkedArray:
    inside = pc.and_(pc.greater_equal(when, start_ns), pc.less_equal(when, end_ns))
    return pc.fill_null(inside, False)


def _seconds(value: float | None) -> str:
    return "unknown" if value is None else f"{value:,.3f} s"


_ID_COLUMNS = ("task_id", "parent", "depends_on", "object")


def _prefixed(table: pa.Table, prefix: str) -> pa.Table:
    for column in _ID_COLUMNS:
        if column in table.column_names:
            at = table.column_names.index(column)
            values = pc.binary_join_element_wise(pa.scalar(prefix), table[column], "")
            table = table.set_column(at, table.schema.field(at), values)
    return table


def _merged_meta(metas: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    merged: dict[str, Any] = dict(metas[0]) if metas else {}
    for key in ("warnings", "lossless", "machines", "not_measured"):
        values = [item for meta in metas for item in meta.get(key, ())]
        if not values and key == "lossless":
            continue
        merged[key] = [v for i, v in enumerate(values) if v not in values[:i]]
    for key in ("dropped", "records", "segments"):
        merged[key] = sum(meta.get(key) or 0 for meta in metas)
    origins = {meta.get("origin", "recorded") for meta in metas}
    merged["origin"] = origins.pop() if len(origins) == 1 else "recorded"
    order = ("failed", "interrupted", "unknown", "ok")
    states = [(meta.get("run") or {}).get("status", "unknown") for meta in metas]
    if states:
        worst = min(states, key=lambda s: order.index(s) if s in order else 2)
        merged["run"] = dict(metas[states.index(worst)].get("run") or {"status": worst})
    merged["merged_from"] = len(metas)
    return merged
