"""One run as it enters a comparison: arrays over its tasks and sums over the run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.compute as pc

from rotameter.profiler.figures import recorded_makespan
from rotameter.profiler.flow.graph import flow_graph
from rotameter.profiler.groups import cpu_used, group_table, moved, rows_of
from rotameter.profiler.ledger import ledger
from rotameter.profiler.verdict import status_of
from rotameter.profiler.view import floats, view

if TYPE_CHECKING:
    from rotameter.profiler.groups import GroupRow
    from rotameter.profiler.trace import Trace
    from rotameter.profiler.view import Codes, Floats, View

__all__ = ["LEAST_BYTES", "NO_GROUP", "RunFacts", "facts_of"]

NO_GROUP = "(no group)"
LEAST_BYTES = 1e6
"""Fewer bytes are no workload: a tracer and an interpreter read and write as many themselves."""
_LEAST_RATIO = 0.01
_USUAL_BYTES_S = 100e6
"""What takes less than this part of a run, at this bandwidth and as measured, does not matter."""


@dataclass(frozen=True, slots=True, eq=False)
class RunFacts:
    """What a comparison needs of one run. Unknown is None or NaN, never 0.

    Attributes
    ----------
    names : tuple of str
        Task groups.
    group : ndarray of int64, shape (n_tasks,)
        Of each task, into ``names``.
    wall_s : ndarray of float64, shape (n_tasks,), seconds
        All attempts of the task that were not taken from a cache.
    io_s : ndarray of float64, shape (n_tasks,), seconds
        In calls that read or write, for traces without task times.
    bytes : ndarray of float64, shape (n_tasks,), bytes
        Read, written and received.
    rows : mapping of str to GroupRow
    links : frozenset of (int, int)
        (producer, consumer) pairs of groups.
    totals : mapping of str to float or None
        Sums over the run; see :data:`rotameter.profiler.comparing.totals.TOTALS`.
    """

    trace: Trace
    names: tuple[str, ...]
    group: Codes
    wall_s: Floats
    io_s: Floats
    bytes: Floats
    rows: dict[str, GroupRow]
    links: frozenset[tuple[int, int]]
    totals: dict[str, float | None]
    status: str

    @property
    def makespan_s(self) -> float | None:
        """Seconds the run took, as far as its times tell."""
        return self.totals["makespan_s"]

    @property
    def timed(self) -> bool:
        """Whether tasks have durations."""
        return bool(np.isfinite(self.wall_s).any())

    def heavy(self, size_bytes: float | None, io_s: float | None) -> bool:
        """Say whether bytes, moved in so many seconds of calls, matter to this run."""
        if size_bytes is None or not size_bytes >= LEAST_BYTES:
            return False
        times = (self.makespan_s, self.totals["task_wall_s"])
        shares = [
            part >= _LEAST_RATIO * whole
            for part, whole in zip((size_bytes / _USUAL_BYTES_S, io_s), times, strict=True)
            if part is not None and whole
        ]
        return any(shares) or not shares

    def tasks_of(self, names: tuple[str, ...]) -> Codes:
        """Give the tasks of some groups."""
        codes = [code for code, name in enumerate(self.names) if name in names]
        return np.flatnonzero(np.isin(self.group, codes))


def facts_of(trace: Trace) -> RunFacts:
    """Take from a trace what a comparison needs.

    Parameters
    ----------
    trace : Trace

    Examples
    --------
    >>> from rotameter.profiler.trace import Trace
    >>> run = facts_of(Trace.from_tables({"tasks": [
    ...     {"task_id": "a", "group": "g", "outcome": "failed", "wall_s": 1.0, "attempt": 1},
    ...     {"task_id": "a", "group": "g", "outcome": "ok", "wall_s": 2.0, "attempt": 2}]}))
    >>> run.names, run.wall_s.tolist(), run.totals["tasks"], run.totals["makespan_s"]
    (('g', '(no group)'), [3.0], 1.0, None)
    """
    seen = view(trace)
    names = (*seen.groups, NO_GROUP)
    place = seen.group.copy()
    place[place < 0] = len(seen.groups)
    # A task without an id is one of its own.
    own, task = np.unique(
        np.where(seen.task >= 0, seen.task, len(seen.task_ids) + np.arange(seen.n)),
        return_inverse=True,
    )
    n_tasks = len(own)
    group = np.full(n_tasks, len(seen.groups), dtype=np.int64)
    group[task[::-1]] = place[::-1]  # The first attempt's group counts.
    live = ~seen.outcome_in("cached")
    size, io_s = _attempt_bytes(seen), _attempt_io(seen)
    return RunFacts(
        trace=trace,
        names=names,
        group=group,
        wall_s=_by_task(task, np.where(live, seen.wall, np.nan), n_tasks),
        io_s=_by_task(task, np.where(live, io_s, np.nan), n_tasks),
        bytes=_by_task(task, np.where(live, size, np.nan), n_tasks),
        rows={row.group: row for row in group_table(trace)},
        links=_links(trace, seen, group, task),
        totals=_totals(trace, seen, n_tasks, live, size, io_s),
        status=status_of(trace),
    )


def _by_task(task: Codes, values: Floats, n_tasks: int) -> Floats:
    known = ~np.isnan(values)
    total = np.bincount(task[known], values[known], minlength=n_tasks)
    return np.where(np.bincount(task[known], minlength=n_tasks) > 0, total, np.nan)


def _attempt_bytes(seen: View) -> Floats:
    """Give what each attempt read, wrote and received; NaN where nothing of it is known."""
    parts = np.stack([moved(seen, "read")[0], moved(seen, "write")[0], _received(seen)])
    known = ~np.isnan(parts)
    return np.where(known.any(axis=0), np.where(known, parts, 0.0).sum(axis=0), np.nan)


def _attempt_io(seen: View) -> Floats:
    """Give the seconds of each attempt in calls: as recorded, else the sum over its objects."""
    own = seen.number("io_s").copy()
    flows = seen.table("flows")
    blank = np.isnan(own)
    if not blank.any() or not flows.num_rows:
        return own
    row, busy = rows_of(seen, flows), floats(flows["busy_s"])
    known = (row >= 0) & ~np.isnan(busy)
    total = np.bincount(row[known], busy[known], minlength=seen.n)
    has = np.bincount(row[known], minlength=seen.n) > 0
    return np.where(blank & has, total, own)


def _received(seen: View) -> Floats:
    return seen.number("received_bytes")


def _links(trace: Trace, seen: View, group: Codes, task: Codes) -> frozenset[tuple[int, int]]:
    """Give the pairs of different groups of which one made what the other needs.

    From dependencies on record, else from who reads what others wrote.
    """
    of_code = np.full(len(seen.task_ids) + 1, -1, dtype=np.int64)
    of_code[seen.task] = group[task]
    of_code[-1] = -1
    after, before = seen.deps
    if not len(after) and seen.table("flows").num_rows:
        flow = flow_graph(trace)
        source, target, _ = flow.links()
        code = {name: index for index, name in enumerate(seen.task_ids)}
        codes = np.array([code.get(name, -1) for name in flow.tasks] or [-1], dtype=np.int64)
        before, after = codes[source], codes[target]
    pairs = np.stack([of_code[before], of_code[after]], axis=1)
    pairs = pairs[(pairs >= 0).all(axis=1) & (pairs[:, 0] != pairs[:, 1])]
    return frozenset((int(a), int(b)) for a, b in np.unique(pairs, axis=0).tolist())


def _sum(values: Floats, rows: Any) -> float | None:
    known = values[rows & ~np.isnan(values)]
    return float(known.sum()) if known.size else None


def _totals(
    trace: Trace, seen: View, n_tasks: int, live: Any, size: Floats, io_s: Floats
) -> dict[str, float | None]:
    outer = live & ~seen.nested
    wall = _sum(seen.wall, outer)
    peak = seen.task_memory
    used = seen.held
    cores = float(np.nansum(used["cores"])) if len(used) else 0.0
    makespan = seen.makespan if seen.makespan is not None else recorded_makespan(trace.meta)
    return {
        "makespan_s": makespan,
        "tasks": float(n_tasks),
        "attempts": float(seen.n),
        "task_wall_s": wall,
        "io_s": _sum(io_s, outer),
        "cpu_s": _sum(cpu_used(seen)[0], outer),
        "read_bytes": _sum(moved(seen, "read")[0], outer),
        "write_bytes": _sum(moved(seen, "write")[0], outer),
        "received_bytes": _sum(_received(seen), outer),
        "bytes": _sum(size, outer),
        "spill_s": _sum(seen.number("spill_s"), outer),
        "transfer_s": _sum(seen.number("transfer_s"), outer),
        "peak_memory_bytes": None if np.isnan(peak).all() else float(np.nanmax(peak)),
        "failed_attempts": float(seen.lost.sum()) if _outcomes_known(seen) else None,
        "failed_wall_s": _sum(seen.wall, outer & seen.lost) if seen.lost.any() else 0.0,
        "slots": None if not seen.slots else float(seen.slots),
        "worker_cores": cores or None,
        **_waste(trace),
    }


def _outcomes_known(seen: View) -> bool:
    return bool(pc.any(pc.is_valid(seen.tasks["outcome"])).as_py())


def _waste(trace: Trace) -> dict[str, float | None]:
    """Give what was held and not used, of the account that the trace has."""
    book = ledger(trace)
    made: dict[str, float | None] = {}
    for name, accounts in (
        ("core_s", (book.worker_core_s, book.request_core_s)),
        ("gbh", (book.worker_gbh, book.request_gbh)),
    ):
        known = [a for a in accounts if a.held is not None and a.wasted_total is not None]
        one = known[0] if known else None
        judged = None if one is None else (one.wasted_total or 0.0) - one.unmeasured
        made[f"wasted_{name}"] = (
            judged if one is not None and one.useful_ratio is not None else None
        )
        made[f"held_{name}"] = None if one is None else one.held
    return made
