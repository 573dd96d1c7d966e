"""Turn the raw records of many processes into the tables of one trace.

The task's thread, the worker, the scheduler and the slots of a killed worker each know a part of
an attempt. Rows of ``tasks`` with the same ``(task_id, run_id)`` are one attempt: column by column
the first value that is not null, rows in the order of :data:`SOURCE_ORDER`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rotameter.profiler.live.begun import BEGUN
from rotameter.profiler.live.segment import Frame
from rotameter.profiler.same_keys import tell_apart
from rotameter.profiler.schema import TABLES, arrow_schema, columns_of

__all__ = ["SOURCE_ORDER", "assemble", "coalesce_attempts", "conform", "frames_to_tables"]

SOURCE_ORDER = ("worker", "slot", "scheduler")


def _column(values: Sequence[Any], kind: pa.DataType) -> tuple[pa.Array, int]:
    """Convert one column; values of a wrong type become null and are counted."""
    if pa.types.is_map(kind):
        values = [None if v is None else list(v.items()) for v in values]
    try:
        return pa.array(values, type=kind, from_pandas=False), 0
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        pass
    out: list[Any] = []
    bad = 0
    for value in values:
        try:
            out.append(pa.scalar(value, type=kind).as_py() if value is not None else None)
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, ValueError):
            out.append(None)
            bad += 1
    return pa.array(out, type=kind), bad


def conform(table: pa.Table, name: str) -> pa.Table:
    """Give ``table`` exactly the columns and types of the schema; missing ones are null.

    Raises
    ------
    ValueError
        If a column cannot be converted.
    """
    schema = arrow_schema(name)
    arrays = []
    for field in schema:
        if field.name in table.column_names:
            column = table.column(field.name)
            arrays.append(column if column.type == field.type else column.cast(field.type))
        else:
            arrays.append(pa.nulls(table.num_rows, field.type))
    return pa.Table.from_arrays(arrays, schema=schema)


def frames_to_tables(frames: Iterable[Frame]) -> tuple[dict[str, pa.Table], list[Any], int]:
    """Concatenate frames per table.

    Returns
    -------
    tables : dict of str to pyarrow.Table
        Every table of the schema, possibly empty.
    metas : list
        The values of the ``meta`` frames, in order.
    bad : int
        Values that did not fit their column, or columns unknown to the schema.
    """
    parts: dict[str, list[pa.Table]] = {name: [] for name in TABLES}
    metas: list[Any] = []
    bad = 0
    for frame in frames:
        if frame.table == "meta":
            metas.extend(frame.values[0])
            continue
        if frame.table not in parts:
            bad += frame.rows
            continue
        schema = arrow_schema(frame.table)
        arrays: dict[str, pa.Array] = {}
        for column, values in zip(frame.columns, frame.values, strict=True):
            index = schema.get_field_index(column)
            if index < 0:
                bad += 1
                continue
            arrays[column], wrong = _column(values, schema.field(index).type)
            bad += wrong
        parts[frame.table].append(pa.table(arrays))
    tables = {}
    for name, chunks in parts.items():
        schema = arrow_schema(name)
        whole = [conform(chunk, name) for chunk in chunks if chunk.num_columns]
        tables[name] = pa.concat_tables(whole).combine_chunks() if whole else schema.empty_table()
    return tables, metas, bad


def _source_rank(source: pa.ChunkedArray) -> np.ndarray[Any, Any]:
    rank = pc.index_in(source, value_set=pa.array(SOURCE_ORDER))
    filled: np.ndarray[Any, Any] = pc.fill_null(rank, len(SOURCE_ORDER)).to_numpy()
    begun = pc.fill_null(pc.equal(source, BEGUN), False).to_numpy()
    return np.where(begun, len(SOURCE_ORDER) + 1, filled)


def coalesce_attempts(tasks: pa.Table) -> pa.Table:
    """Merge partial rows of one attempt; rows without ``run_id`` stay as they are.

    Parameters
    ----------
    tasks : pyarrow.Table
        Conforming to the schema of ``tasks``.

    Returns
    -------
    pyarrow.Table
        One row an attempt, ``attempt`` filled in, ordered by submission, start and end.
    """
    keyed = pc.and_(pc.is_valid(tasks["run_id"]), pc.is_valid(tasks["task_id"]))
    partial = tasks.filter(keyed)
    whole = tasks.filter(pc.invert(keyed))
    if partial.num_rows:
        partial = _first_valid(partial)
    merged = pa.concat_tables([partial, whole]) if whole.num_rows else partial
    merged = _derive_wall(merged)
    return _number_attempts(merged)


def _first_valid(rows: pa.Table) -> pa.Table:
    """Group by (task_id, run_id) and take the first non-null of each column."""
    ids = pa.table({"t": rows["task_id"], "r": rows["run_id"]})
    numbered = ids.append_column("n", pa.array(np.arange(rows.num_rows)))
    first_of = numbered.group_by(["t", "r"], use_threads=False).aggregate([("n", "min")])
    if first_of.num_rows == rows.num_rows:
        return rows
    group_of = numbered.join(first_of, ["t", "r"], join_type="left outer", use_threads=False)
    order = np.argsort(group_of["n"].to_numpy(), kind="stable")
    group = group_of["n_min"].to_numpy()[order]
    rank = _source_rank(rows["source"])
    by = np.lexsort((rank, group))
    sorted_group = group[by]
    starts = np.flatnonzero(np.r_[True, sorted_group[1:] != sorted_group[:-1]])
    columns = []
    for name in rows.column_names:
        column = rows[name].take(pa.array(by))
        if column.null_count == len(column):
            columns.append(pa.nulls(len(starts), column.type))
            continue
        valid = pc.is_valid(column).to_numpy()
        candidate = np.where(valid, np.arange(len(by)), len(by))
        first = np.minimum.reduceat(candidate, starts)
        next_start = np.r_[starts[1:], len(by)]
        index = pa.array(np.where(first < next_start, first, 0), mask=first >= next_start)
        columns.append(column.take(index))
    return pa.Table.from_arrays(columns, schema=rows.schema)


def _derive_wall(tasks: pa.Table) -> pa.Table:
    span = pc.divide(
        pc.cast(pc.subtract(tasks["ended_ns"], tasks["started_ns"]), pa.float64()), 1e9
    )
    span = pc.if_else(pc.less(span, 0.0), None, span)
    at = tasks.column_names.index("wall_s")
    return tasks.set_column(at, tasks.schema.field(at), pc.coalesce(tasks["wall_s"], span))


def _number_attempts(tasks: pa.Table) -> pa.Table:
    """Order rows by time and number the attempts of each task from 1 where not numbered."""
    when = pc.coalesce(tasks["started_ns"], tasks["ready_ns"], tasks["submitted_ns"])
    run = pc.coalesce(tasks["run_id"], pa.scalar(""))
    width = pc.max(pc.utf8_length(run)).as_py() if tasks.num_rows else 0
    keys = pa.table({"when": when, "run": pc.utf8_lpad(run, width or 1, "0")})
    order = pc.sort_indices(keys, sort_keys=[("when", "ascending"), ("run", "ascending")])
    tasks = tasks.take(order)
    if tasks["attempt"].null_count == 0:
        return tasks
    task = tasks["task_id"].combine_chunks().dictionary_encode()
    codes = task.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    by = np.argsort(codes, kind="stable")
    position = np.arange(len(by))
    new = np.r_[True, codes[by][1:] != codes[by][:-1]] if len(by) else np.zeros(0, bool)
    start = np.maximum.accumulate(np.where(new, position, 0)) if len(by) else position
    number = np.empty(len(by), dtype=np.int64)
    number[by] = position - start + 1
    at = tasks.column_names.index("attempt")
    filled = pc.coalesce(tasks["attempt"], pa.array(number))
    return tasks.set_column(at, tasks.schema.field(at), filled)


def _fill_attempt(table: pa.Table, tasks: pa.Table) -> pa.Table:
    """Look the attempt number up by (task_id, run_id) where a row has only those."""
    lacking = pc.and_(
        pc.is_null(table["attempt"]),
        pc.and_(pc.is_valid(table["run_id"]), pc.is_valid(table["task_id"])),
    )
    if not pc.any(lacking).as_py():
        return table
    glue = "\x1f"
    known = pc.is_valid(tasks["run_id"])
    names = pc.binary_join_element_wise(tasks["task_id"], tasks["run_id"], glue).filter(known)
    numbers = tasks["attempt"].filter(known).combine_chunks()
    wanted = pc.binary_join_element_wise(table["task_id"], table["run_id"], glue)
    found = numbers.take(pc.index_in(wanted, value_set=names.combine_chunks()).combine_chunks())
    at = table.column_names.index("attempt")
    return table.set_column(at, table.schema.field(at), pc.coalesce(table["attempt"], found))


def assemble(tables: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
    """Make the tables of a trace from raw ones; also removes exact duplicates of ``deps``.

    Examples
    --------
    >>> raw, _, _ = frames_to_tables([Frame("tasks", ("task_id", "run_id", "source"),
    ...     [["a", "a"], ["7", "7"], ["scheduler", "worker"]])])
    >>> assemble(raw)["tasks"].num_rows
    1
    """
    out = tell_apart({name: tables.get(name, arrow_schema(name).empty_table()) for name in TABLES})
    out["tasks"] = coalesce_attempts(out["tasks"])
    for name in ("intervals", "flows"):
        out[name] = _fill_attempt(out[name], out["tasks"])
    for name in ("deps", "workers", "objects"):
        keys = list(columns_of(name)) if name == "deps" else None
        out[name] = _unique(out[name], name, keys)
    out["workers"] = _without_idle_clients(out["workers"], out["tasks"])
    return out


def _without_idle_clients(workers: pa.Table, tasks: pa.Table) -> pa.Table:
    """Leave out client processes that ran no task: beside a cluster they are no workers."""
    idle = pc.invert(pc.is_in(workers["worker"], value_set=tasks["worker"].combine_chunks()))
    client = pc.fill_null(pc.equal(workers["name"], "client"), False)
    others = workers.filter(pc.invert(client))
    if others.num_rows == others["cores"].null_count:
        return workers  # its children share the cores that only its row tells
    return workers.filter(pc.invert(pc.and_(client, idle)))


def _unique(table: pa.Table, name: str, keys: list[str] | None) -> pa.Table:
    """Keep one row a key; for workers and objects the parts of one row are joined."""
    if not table.num_rows:
        return table
    if keys is not None:
        return table.group_by(keys, use_threads=False).aggregate([])
    key = columns_of(name)[0]
    others = [c for c in table.column_names if c != key]
    grouped = table.group_by([key], use_threads=False).aggregate(
        [(c, "first") for c in others]  # "first" skips nulls
    )
    return grouped.rename_columns([c.removesuffix("_first") for c in grouped.column_names]).select(
        table.column_names
    )
