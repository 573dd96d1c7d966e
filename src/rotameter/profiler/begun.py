"""Attempts of which only the beginning is on record: what a killed process was at."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rotameter.profiler.live.begun import BEGUN
from rotameter.profiler.schema import arrow_schema

__all__ = ["settle_begun"]

LIFE_SIGN_NS = 2_000_000_000
"""A process gives a sign twice a second: one that was silent so long before the end was gone."""


def settle_begun(tables: dict[str, pa.Table], run: Mapping[str, Any]) -> dict[str, pa.Table]:
    """Drop rows of a beginning whose end is on record, and say what became of the others.

    A child whose process gave no sign for a while when the run ended, or that a run left open that
    closed its trace, was lost with its process, at its last sign. What else began still ran where
    the trace ends.

    Parameters
    ----------
    tables : dict of str to pyarrow.Table
        Assembled.
    run : mapping
        How the run ended, as ``meta["run"]``.

    Examples
    --------
    >>> from rotameter.profiler.assemble import assemble
    >>> rows = [{"task_id": "a", "source": "begun", "started_ns": 5, "worker": "w"}]
    >>> made = assemble({"tasks": pa.Table.from_pylist(rows, arrow_schema("tasks"))})
    >>> settle_begun(made, {"status": "running"})["tasks"]["outcome"].to_pylist()
    ['running']
    """
    tasks = tables["tasks"]
    begun = pc.fill_null(pc.equal(tasks["source"], BEGUN), False).to_numpy().astype(bool)
    if not begun.any():
        return tables
    key = pc.binary_join_element_wise(
        tasks["task_id"], pc.fill_null(tasks["run_id"], ""), "\x1f"
    ).combine_chunks()
    ended = pc.is_in(key, value_set=key.filter(pa.array(~begun)))
    tasks = tasks.filter(pa.array(~(begun & pc.fill_null(ended, False).to_numpy(False))))
    open_ = pc.fill_null(pc.equal(tasks["source"], BEGUN), False).to_numpy().astype(bool)
    made = {**tables, "tasks": tasks}
    if not open_.any():
        return made
    signs = _signs(made, {w for w in tasks["worker"].filter(pa.array(open_)).to_pylist() if w})
    gone = _gone(made, run, signs)
    workers = tasks["worker"].to_pylist()
    lost = np.array([bool(o) and w in gone for o, w in zip(open_, workers, strict=True)])
    outcome = np.where(lost, "worker_lost", "running")
    ends = pa.array([signs.get(w) if one else None for one, w in zip(lost, workers, strict=True)])
    made["tasks"] = _put(
        tasks,
        open_,
        outcome=pa.array(outcome.tolist(), pa.string()),
        outcome_kind=pa.array(["inferred"] * len(tasks), pa.string()),
        ended_ns=ends.cast(pa.int64()),
    )
    made["workers"] = _end_lives(tables["workers"], {w: signs[w] for w in gone if w in signs})
    return made


def _signs(tables: Mapping[str, pa.Table], workers: set[str]) -> dict[str, int]:
    """Give each process's last sign of life: a sample of it, or a task's beginning or end."""
    names = pa.array(sorted(workers), pa.string())
    last: dict[str, int] = {}
    samples, tasks = tables["samples"], tables["tasks"]
    for subject, at in (
        (samples["subject"], samples["at_ns"]),
        (tasks["worker"], tasks["started_ns"]),
        (tasks["worker"], tasks["ended_ns"]),
    ):
        mine = pa.table({"w": subject, "t": at}).filter(pc.is_in(subject, value_set=names))
        for row in mine.group_by("w").aggregate([("t", "max")]).to_pylist():
            if row["t_max"] is not None:
                last[row["w"]] = max(row["t_max"], last.get(row["w"], row["t_max"]))
    return last


def _gone(
    tables: Mapping[str, pa.Table], run: Mapping[str, Any], signs: Mapping[str, int]
) -> set[str]:
    """Say which processes with open attempts died before the run ended."""
    if run.get("status") not in ("ok", "failed", "interrupted"):
        return set()
    workers = tables["workers"]
    main = {
        row["worker"]
        for row in workers.select(["worker", "name"]).to_pylist()
        if row["name"] == "client"
    }
    children = set(signs) - main
    if run.get("status") != "interrupted" and not run.get("signal"):
        return children  # The run closed its trace, and they did not.
    end = run.get("ended_ns")
    if not isinstance(end, int):  # Killed: the last sign of any process is the nearest to it.
        tasks = tables["tasks"]
        times = (tables["samples"]["at_ns"], tasks["started_ns"], tasks["ended_ns"])
        end = max(pc.max(at).as_py() or 0 for at in times)
    return {w for w in children if signs[w] < end - LIFE_SIGN_NS}


def _put(table: pa.Table, rows: np.ndarray[Any, Any], **columns: pa.Array) -> pa.Table:
    for name, values in columns.items():
        at = table.column_names.index(name)
        made = pc.if_else(pa.array(rows), values, table[name])
        table = table.set_column(at, table.schema.field(at), made)
    return table


def _end_lives(workers: pa.Table, ends: Mapping[str, int]) -> pa.Table:
    """End the lives of processes that were lost, where nothing else says when they ended."""
    if not ends:
        return workers
    rows = [
        {**row, "ended_ns": ends[row["worker"]], "end_reason": "lost"}
        if row["worker"] in ends and row["ended_ns"] is None
        else row
        for row in workers.to_pylist()
    ]
    return pa.Table.from_pylist(rows, schema=arrow_schema("workers"))
