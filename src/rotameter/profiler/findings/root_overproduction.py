"""RM121 root_overproduction: loaders run ahead of what uses their results, until memory is full."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rotameter.profiler.findings._pressure import Relieved, counters, disk_seconds, pauses_of
from rotameter.profiler.findings._replayed import Cost, by_replay
from rotameter.profiler.findings._stretched import (
    Eased,
    computes,
    reused_cpu_s,
    timed,
    wall_per_cpu,
)
from rotameter.profiler.findings.base import Tools, settings
from rotameter.profiler.findings.unmanaged_memory import owned_workers
from rotameter.profiler.occupancy import sweep
from rotameter.profiler.open_ends import complete
from rotameter.profiler.view import View, is_dask, view
from rotameter.units import format_bytes, format_number, format_seconds
from rotameter.values import Evidence, Finding

if TYPE_CHECKING:
    from rotameter.profiler.trace import Trace
    from rotameter.profiler.view import Codes, Floats, Mask

__all__ = ["Advisor", "Ahead", "ahead"]

MOSTLY = 0.5
"""Results made too early are the cause where they are this part of all that was held."""

FULL_RATIO = 0.3
"""Results that fill less of the workers' memory than this do not make it short."""

WHOLE_RATIO = 0.2
"""A user whose inputs fill this part of all memory needs them all there: no order helps."""

LATER_S = 0.5
"""A user submitted this long after a result was made could not have used it at once."""

SETTLED_S = 1.0
"""Memory is read twice a second, and a result is freed a moment after its last use."""

SHRINKS = 0.5
"""Running what uses results at once only helps where it makes less than it uses."""


class Advisor:
    """Find loaders that fill memory with what nobody uses yet."""

    name = "root_overproduction"

    def check(self, trace: Trace, tools: Tools) -> list[Finding]:
        """Look for memory pressure from results that could have been used at once."""
        seen = view(trace)
        if not seen.n or not len(seen.workers):
            return []
        made = ahead(seen)
        if made is None:
            return []
        workers = ~owned_workers(seen)
        workers[-1] = False
        disk = float(disk_seconds(seen)[workers].sum())
        code, begin, end = pauses_of(seen)
        paused = float((end - begin)[workers[code]].sum())
        if disk + paused <= 0:
            return []
        slots = max(1.0, seen.slots or 1.0)
        bound_s = disk / max(1, int(workers.sum())) + paused / slots
        cost = _cost(seen, tools, made, workers, bound_s)
        if cost is None:
            return []
        label = seen.label(made.group)
        saturation = settings(seen).get("worker-saturation")
        written = float(counters(seen, "spill_total_bytes")[workers].sum())
        return [
            Finding(
                code="RM121",
                kind="root_overproduction",
                severity=cost.severity,
                title=(
                    f"{label} ran ahead of what uses it: {made.most:,} results "
                    f"({format_bytes(made.bytes)}) lay in memory at once, "
                    f"{format_seconds(disk + paused)} went into spilling and pauses"
                ),
                groups=(seen.groups[made.group], *made.users),
                evidence=_evidence(made, saturation, written, disk, paused),
                **cost.fields,
                confidence="high" if made.share > 0.8 else "medium",
                advice=(
                    _advice(saturation)
                    + " Or give each loader fewer bytes, or load inside the task that uses it."
                ),
                change=(
                    "dask.config.set({'distributed.scheduler.worker-saturation': 1.1})  "
                    "# before the cluster starts"
                    if is_dask(seen.meta) and not (saturation is not None and saturation <= 2)
                    else None
                ),
                apply={"order": {"factor": None}, "memory_request": {"factor": 2.0}},
            )
        ]


def _evidence(
    made: Ahead, saturation: float | None, written: float, disk: float, paused: float
) -> tuple[Evidence, ...]:
    return (
        Evidence(
            "results made too early, most at once",
            made.most,
            "",
            "made, and not used though all else was there",
            made.n,
        ),
        Evidence("their size", round(made.bytes), "B", "summed", made.most),
        Evidence("their part of all results then", round(made.share, 3), "ratio", "by size"),
        Evidence("memory of all workers", made.limit, "B", "limits, summed"),
        Evidence("written to disk", round(written), "B", "workers' spill counters"),
        Evidence("spilling", round(disk, 3), "s", "summed over workers"),
        Evidence("paused", round(paused, 3), "s", "summed over workers"),
        *(
            (Evidence("worker-saturation", saturation, "", "setting"),)
            if saturation is not None
            else ()
        ),
    )


def _cost(seen: View, tools: Tools, made: Ahead, workers: Mask, bound_s: float) -> Cost | None:
    most, reused = _at_once(seen, made, workers)
    eased = not np.isnan(most).all()
    said = ["as if memory had not run short"]
    if eased:
        said.append("loaders and users had computed as long for their CPU time as other tasks")
    if reused:
        said.append("loaders had got memory that was given back")
    return by_replay(
        seen,
        tools,
        Relieved(seen, workers),
        *((Eased(most),) if eased else ()),
        bound_s=bound_s,
        bound_how="time of writing and reading spilled data, and of pauses, over the workers",
        how=", ".join(said),
        # Two kinds of CPU time are on record, but not that new memory made them.
        widen=(0.5, 1.0) if reused else (1.0, 1.0),
    )


def _at_once(seen: View, made: Ahead, workers: Mask) -> tuple[Floats, bool]:
    """Give how long loaders and users would compute, were results used as they are made.

    A loader then gets the memory that the user of the one before gave back, and no thread of its
    worker writes meanwhile.

    Returns
    -------
    most_s : ndarray of float64, shape (n,)
        NaN = as it was.
    reused : bool
        Whether some loaders show what memory costs that was had before.
    """
    users = np.isin(seen.group, [seen.groups.index(name) for name in made.users])
    loaders = seen.group == made.group
    known = timed(seen)
    rows = known & (loaders | users) & workers[seen.worker]
    if not rows.any():
        return np.full(seen.n, np.nan), False
    first, last = float(seen.started[rows].min()), float(seen.ended[rows].max())
    ratio = wall_per_cpu(seen, known & ((seen.ended <= first) | (seen.started >= last)))
    cpu = seen.number("cpu_s")
    least = reused_cpu_s(seen, rows & loaders)
    alone = np.full(seen.n, np.nan)
    alone[rows] = np.fmin(least * ratio, least / np.where(rows, cpu, 1.0) * seen.wall)[rows]
    computing = computes(seen, cpu * np.fmax(1.0, ratio))
    alone[~(rows & computing & (alone < seen.wall))] = np.nan
    return alone, bool((rows & (least < cpu)).any())


def _advice(saturation: float | None) -> str:
    if saturation is not None and saturation <= 2:
        return (
            f"Loaders and what uses them should take turns. worker-saturation is "
            f"{format_number(saturation)} already: remove priorities that put loaders first, and "
            "what keeps Dask from seeing them as root tasks (a shared small input)."
        )
    return "Let loaders and what uses them take turns: worker-saturation 1.1 queues the loaders."


@dataclass(frozen=True, slots=True)
class Ahead:
    """Results that lay about though they could have been used at once.

    Attributes
    ----------
    group : int
        Who made most of them.
    users : tuple of str
        Groups that use them.
    most, n : int
        At once, and in all.
    bytes, share, limit : float
        Their size at the worst moment, its part of all results then, the workers' memory.
    """

    group: int
    users: tuple[str, ...]
    most: int
    n: int
    bytes: float
    share: float
    limit: float


def ahead(seen: View) -> Ahead | None:
    """Find results of roots that were made long before they were used, needlessly.

    A result has to be kept as long as any of its users waits for something else. Where all else a
    user needs was there when the result was made, it could have run at once.
    """
    size = seen.number("output_bytes")
    rows = np.flatnonzero(seen.ran & complete(seen) & (size > 0) & (seen.worker >= 0))
    limits = seen.lives["memory"][seen.lives["memory"] > 0]
    task, on = seen.deps
    if not (rows.size and limits.size and len(task)):
        return None
    limit = float(limits.sum())
    n_tasks = len(seen.task_ids)
    made, used, out = _last(seen, rows, n_tasks)
    known = (task >= 0) & (on >= 0)
    task, on = task[known], on[known]
    last_use = np.full(n_tasks + 1, -np.inf)
    np.fmax.at(last_use, on, used[task])
    late, shrinks = _must_wait(seen, task, on, made, out, limit)
    mine = rows[np.unique(seen.task[rows], return_index=True)[1]]
    t = seen.task[mine]
    begin, end = made[t], last_use[t]
    held = np.isfinite(end) & (end > begin)
    early = held & ~late[t] & shrinks[t] & _loader(seen, mine, task, on, n_tasks + 1)
    if not early.any() or _kept(seen, made, last_use, out, t[early]):
        return None
    _, levels = sweep(
        np.concatenate([begin[held], begin[early], begin[early]]),
        np.concatenate([end[held], end[early], end[early]]),
        np.repeat([0, 1, 2], [held.sum(), early.sum(), early.sum()]),
        np.concatenate([out[t][held], out[t][early], np.ones(int(early.sum()))]),
        3,
    )
    at = int(np.argmax(levels[:, 1]))
    share = float(levels[at, 1] / max(levels[at, 0], 1.0))
    if share < MOSTLY or levels[at, 1] < FULL_RATIO * limit:
        return None
    sums = np.bincount(
        np.where(seen.group[mine[early]] >= 0, seen.group[mine[early]], len(seen.groups)),
        out[t][early],
        minlength=len(seen.groups) + 1,
    )[:-1]
    if not sums.any():
        return None
    group = int(np.argmax(sums))
    users = _users(seen, task, on, t[early])
    return Ahead(
        group,
        users,
        round(float(levels[at, 2])),
        int(early.sum()),
        float(levels[at, 1]),
        share,
        limit,
    )


def _last(seen: View, rows: Codes, n_tasks: int) -> tuple[Floats, Floats, Floats]:
    """Give each task's first good end, its last good end, and its result's size."""
    made, used = np.full(n_tasks + 1, np.inf), np.full(n_tasks + 1, -np.inf)
    good = np.flatnonzero(complete(seen) & ~np.isnan(seen.ended))
    np.fmin.at(made, seen.task[good], seen.ended[good])
    np.fmax.at(used, seen.task[good], seen.ended[good])
    out = np.zeros(n_tasks + 1)
    np.fmax.at(out, seen.task[rows], np.nan_to_num(seen.number("output_bytes")[rows]))
    return made, used, out


def _must_wait(
    seen: View, task: Codes, on: Codes, made: Floats, out: Floats, limit: float
) -> tuple[Mask, Mask]:
    """Say which results some user could not use at once, and which are used to make less."""
    n = len(made)
    finite = np.where(np.isfinite(made), made, np.nan)
    group = np.full(n, -2, dtype=np.int64)
    group[seen.task] = seen.group
    # The largest input of each user tells what it uses; the others it merely waits for.
    main = np.full(n, -1, dtype=np.int64)
    heavy = np.lexsort((out[on], task))
    main[task[heavy]] = group[on[heavy]]
    other = np.full(n, -np.inf)
    apart = main[task] != group[on]
    np.fmax.at(other, task[apart], finite[on[apart]])
    # Who was asked for later, once more or in another round, could not run either.
    asked = np.full(n, -np.inf)
    np.fmax.at(asked, seen.task, seen.submitted - LATER_S)
    need = np.bincount(task, out[on], minlength=n)
    late = np.zeros(n, dtype=bool)
    waits = np.maximum(other, asked)[task] > finite[on] + 1e-3
    late[on[waits | (need[task] > WHOLE_RATIO * limit)]] = True
    late[-1] = False
    count = np.bincount(task, minlength=n)
    less = np.zeros(n)
    np.add.at(less, on, out[task] / np.maximum(count[task], 1))
    return late, less <= SHRINKS * np.maximum(out, 1.0)


def _kept(seen: View, made: Floats, last_use: Floats, out: Floats, early: Codes) -> bool:
    """Say whether the program held the results past their last use, so that no order freed them.

    Their workers' memory tells, as it was read last: what is beyond all that was still to be used
    or that nobody uses.
    """
    code, at, value = seen.samples("managed_bytes")
    good = (code >= 0) & ~np.isnan(at) & ~np.isnan(value)
    order = np.flatnonzero(good)[np.argsort(at[good], kind="stable")]
    if not order.size:
        return False
    last = dict(zip(code[order].tolist(), order.tolist(), strict=True))
    latest = np.array(list(last.values()))
    until = float(at[latest].min()) - SETTLED_S
    gone = float(out[early][last_use[early] <= until].sum())
    if gone < MOSTLY * float(out[early].sum()):
        return False
    wanted = float(out[np.isfinite(made) & ~(np.isfinite(last_use) & (last_use <= until))].sum())
    return bool(float(value[latest].sum()) - wanted >= MOSTLY * gone)


def _loader(seen: View, rows: Codes, task: Codes, on: Codes, n: int) -> Mask:
    """Say which attempts begin with little: what they depend on is far smaller than they make."""
    size, out = np.zeros(n), np.zeros(n)
    np.fmax.at(out, seen.task, np.nan_to_num(seen.number("output_bytes")))
    np.add.at(size, task, out[on])
    mine = seen.task[rows]
    return np.asarray(size[mine] <= 0.1 * out[mine])


def _users(seen: View, task: Codes, on: Codes, early: Codes) -> tuple[str, ...]:
    group = np.full(len(seen.task_ids) + 1, -1, dtype=np.int64)
    group[seen.task] = seen.group
    theirs = group[task[np.isin(on, early)]]
    values, counts = np.unique(theirs[theirs >= 0], return_counts=True)
    return tuple(seen.groups[values[k]] for k in np.argsort(-counts, kind="stable")[:2])
