"""Equal keys in two clusters of one program are two tasks: the later ones get a name of their own.

Dask makes a key from a function and its arguments: a program that starts one cluster after another
and computes the same there gives each task the same key. The ``run_id`` of an attempt begins with
its scheduler's name.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rotameter.profiler.schema import arrow_schema

__all__ = ["tell_apart"]


def tell_apart(tables: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
    """Rename tasks that an earlier cluster has too: ``KEY@2`` in the second, and so on.

    Parameters
    ----------
    tables : mapping of str to pyarrow.Table
        Raw ones; rows of one attempt need not be joined yet.

    Examples
    --------
    >>> rows = [{"task_id": "f-1", "run_id": run, "started_ns": at}
    ...     for run, at in (("aa:1", 5), ("bb:1", 9))]
    >>> tasks = pa.Table.from_pylist(rows, arrow_schema("tasks"))
    >>> tell_apart({"tasks": tasks})["tasks"]["task_id"].to_pylist()
    ['f-1', 'f-1@2']
    """
    tasks = tables["tasks"]
    if _one_cluster(tasks["run_id"]):
        return dict(tables)
    cluster = _cluster(tasks["run_id"])
    order = _by_first(tasks, cluster)
    names: dict[str, dict[str, str]] = {}
    earlier = tasks["task_id"].filter(pc.equal(cluster, order[0]))
    for number, place in enumerate(order[1:], 2):
        mine = tasks["task_id"].filter(pc.equal(cluster, place))
        shared = pc.unique(mine.filter(pc.is_in(mine, value_set=pc.unique(earlier)))).to_pylist()
        names[place] = {key: f"{key}@{number}" for key in shared if key is not None}
        earlier = pa.chunked_array([*earlier.chunks, *mine.chunks], pa.string())
    made = dict(tables)
    if not any(names.values()):
        return made
    for name in ("tasks", "intervals", "flows"):
        if name in made and made[name].num_rows:
            made[name] = _renamed(made[name], names)
    if "deps" in made and made["deps"].num_rows:
        made["deps"] = _deps(made["deps"], names, tasks, cluster)
    return made


def _one_cluster(run_ids: pa.ChunkedArray) -> bool:
    """Say whether all run ids begin alike, or name no cluster."""
    known = run_ids.drop_null()
    if not len(known):
        return True
    head, colon, _ = known[0].as_py().partition(":")
    if not colon:
        return not bool(pc.any(pc.match_substring(known, ":")).as_py())
    return bool(pc.all(pc.starts_with(known, head + colon)).as_py())


def _cluster(run_ids: pa.ChunkedArray) -> pa.ChunkedArray:
    """Give the name of each attempt's scheduler; empty where it has none."""
    runs = pc.fill_null(run_ids, "")
    named = pc.match_substring(runs, ":")
    return pc.if_else(named, pc.replace_substring_regex(runs, ":.*$", ""), "")


def _by_first(tasks: pa.Table, cluster: pa.ChunkedArray) -> list[str]:
    """Order clusters by their first instant."""
    when = pc.coalesce(tasks["submitted_ns"], tasks["started_ns"], tasks["ended_ns"])
    table = pa.table({"c": cluster, "t": when}).group_by("c").aggregate([("t", "min")])
    rows = table.to_pylist()
    rows.sort(key=lambda row: (row["t_min"] is None, row["t_min"] or 0, row["c"]))
    return [row["c"] for row in rows]


def _renamed(table: pa.Table, names: Mapping[str, Mapping[str, str]]) -> pa.Table:
    cluster = _cluster(table["run_id"])
    keys = table["task_id"]
    for place, new in names.items():
        if not new:
            continue
        at = pc.index_in(keys, value_set=pa.array(list(new), pa.string()))
        hit = pc.and_(pc.equal(cluster, place), pc.is_valid(at))
        keys = pc.if_else(hit, pa.array(list(new.values()), pa.string()).take(at), keys)
    column = table.column_names.index("task_id")
    return table.set_column(column, table.schema.field(column), keys)


def _deps(
    deps: pa.Table,
    names: Mapping[str, Mapping[str, str]],
    tasks: pa.Table,
    cluster: pa.ChunkedArray,
) -> pa.Table:
    """Repeat the dependencies of renamed tasks; a task of one cluster alone depends on its own."""
    rows = deps.to_pylist()
    made: list[dict[str, str]] = []
    gone = np.zeros(len(rows), dtype=bool)
    for place, new in names.items():
        mine = set(pc.unique(tasks["task_id"].filter(pc.equal(cluster, place))).to_pylist())
        only = set(_only(tasks, cluster, place))
        for number, row in enumerate(rows):
            key, on = row["task_id"], row["depends_on"]
            if key in mine and (key in new or on in new):
                made.append({**row, "task_id": new.get(key, key), "depends_on": new.get(on, on)})
                gone[number] |= key in only
    more = pa.Table.from_pylist(made, schema=arrow_schema("deps"))
    return pa.concat_tables([deps.filter(pa.array(~gone)), more.cast(deps.schema)])


def _only(tasks: pa.Table, cluster: pa.ChunkedArray, place: str) -> list[str]:
    """Give the tasks that no other cluster has."""
    here = pc.equal(cluster, place)
    mine = pc.unique(tasks["task_id"].filter(here))
    others = pc.unique(tasks["task_id"].filter(pc.invert(here)))
    found: list[str] = mine.filter(pc.invert(pc.is_in(mine, value_set=others))).to_pylist()
    return found
