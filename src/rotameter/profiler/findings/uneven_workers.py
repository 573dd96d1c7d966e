"""RM116 uneven_workers: a worker takes longer than the others for the same kinds of tasks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from rotameter.profiler.findings._likes import comparable
from rotameter.profiler.findings._replayed import Cost, by_replay
from rotameter.profiler.findings.base import Tools
from rotameter.profiler.findings.deaths import collect
from rotameter.profiler.groups import quantiles
from rotameter.profiler.occupancy import paused_spans
from rotameter.profiler.replaying.changes import Cap, Speed, Unpin
from rotameter.profiler.view import View, short, view
from rotameter.units import format_number
from rotameter.values import Evidence, Finding

if TYPE_CHECKING:
    from rotameter.profiler.replaying.changes import Change
    from rotameter.profiler.replaying.model import Model
    from rotameter.profiler.trace import Trace
    from rotameter.profiler.view import Codes, Floats, Mask

__all__ = ["Advisor", "Slow", "slow_workers"]

SLOW_RATIO = 1.4
MIN_EACH = 3
SURE_SIGMA = 2.5
CPU_AND_WALL = 1.2
"""Where its tasks take more CPU time, they must take longer too, by this."""
LIVED_RATIO = 0.5
"""A worker that lived a smaller part of the run than this is not compared: it was starting up."""
FIXED_RATIO = 0.25
"""Where tasks that went to any free core would have made the run shorter by this, they did not."""
LOOSE_RATIO = 0.05
"""Where they would have made it shorter by no more than this, they did."""
MOSTLY = 0.5
"""The part of that which lies with the slow worker's tasks, if it is for them that others idled."""
ALONE_RATIO = 0.9
"""A worker that is alone and takes this part of its time before, or more, gains nothing by that."""
LEAST_OFF = (0.97, 1.03)
"""No run is repeated more exactly than that."""


@dataclass(frozen=True, slots=True)
class Placement:
    """All tasks run where they ran, or all of them wherever a core is free.

    A replay takes the record's word for each task: those that waited for their own worker while
    another idled had to run there, the others went where a core was free. For another speed of a
    worker that is a mix that no engine makes.

    Examples
    --------
    >>> from rotameter.profiler.replaying.model import make_model
    >>> Placement(fixed=True).apply(make_model([1.0], home=[0])).pinned.tolist()
    [True]
    """

    fixed: bool

    def apply(self, model: Model) -> Model:
        """Give the model with the change."""
        pinned = (model.home >= 0) & ~model.gate & self.fixed
        return replace(model, pinned=np.asarray(pinned))


class Advisor:
    """Find workers that are slower than the others on the same groups."""

    name = "uneven_workers"

    def check(self, trace: Trace, tools: Tools) -> list[Finding]:
        """Compare each worker with the others."""
        seen = view(trace)
        if comparable(seen).sum() < 2 * MIN_EACH:
            return []
        slow = slow_workers(seen)
        found = [self._worker(seen, tools, int(w), slow) for w in np.flatnonzero(slow.is_[:-1])]
        return [finding for finding in found if finding is not None]

    def _worker(self, seen: View, tools: Tools, worker: int, slow: Slow) -> Finding | None:
        mine = comparable(seen) & (seen.worker == worker)
        usual = slow.usual_s[seen.group]
        with np.errstate(invalid="ignore"):
            excess = np.where(mine & ~np.isnan(usual), np.maximum(seen.wall - usual, 0.0), 0.0)
        cost = self._cost(seen, tools, worker, mine, slow, float(excess.sum()))
        if cost is None:
            return None
        ratio = float(slow.ratio[worker])
        n = int(mine.sum())
        sums = np.bincount(seen.group[mine], excess[mine], minlength=len(seen.groups))
        groups = tuple(seen.groups[g] for g in np.argsort(-sums, kind="stable")[:3] if sums[g] > 0)
        name = short(seen.workers[worker], 36)
        host, siblings = _host_of(seen, worker)
        shown = f" on host {short(host, 24)}" if host else ""
        return Finding(
            code="RM116",
            kind="uneven_workers",
            severity=cost.severity,
            title=(
                f"Worker {name}{shown} took {format_number(ratio, 2)} times as long for the same "
                "tasks"
            ),
            groups=groups,
            evidence=(
                Evidence(
                    "duration against the other workers",
                    round(ratio, 3),
                    "times",
                    "median over its tasks of duration / median of the group elsewhere",
                    n,
                ),
                Evidence("its extra time", round(float(excess.sum()), 3), "s", "summed", n),
                Evidence("groups compared", len(groups), "", "that ran on others too"),
                *_cpu_evidence(seen, mine),
                *([Evidence("host", short(host), "", "recorded")] if host else []),
            ),
            **cost.fields,
            confidence="high" if n >= 10 else "medium",
            advice=(
                _look_at(host, siblings)
                + " More, shorter tasks let the fast workers take over more of the work."
            ),
            apply={"placement": {"factor": None}, "task_granularity": {"factor": 0.5}},
        )

    def _cost(
        self, seen: View, tools: Tools, worker: int, mine: Mask, slow: Slow, excess_s: float
    ) -> Cost | None:
        if excess_s <= 0:
            return None
        model = tools.replay.model if tools.replay is not None else None
        name = seen.workers[worker]
        speed = next((w.speed_ratio for w in model.workers if w.name == name), 1.0) if model else 1
        # Where the replay knows the worker as slow, tasks that move to it are slow there too.
        change: Change = Cap(mine, "wall", slow.usual_s[seen.group])
        if speed < 1.0 / SLOW_RATIO:
            change = Speed(name, 1.0 / speed)
        placement = _placement(tools, mine)
        base: tuple[Change, ...] = (placement,) if placement is not None else ()
        went = "not waited for it while others idled"
        if placement is not None:
            went = "stayed where it ran" if placement.fixed else "gone to whichever worker was free"
        changes = (*(base or (Unpin(mine),)), change)
        return by_replay(
            seen,
            tools,
            *changes,
            base=base,
            bound_s=excess_s / max(1.0, seen.slots or 1.0),
            bound_how="its extra time over all cores",
            how=f"as if it were as fast as the others, and each task had {went}",
            widen=LEAST_OFF,
        )


def _placement(tools: Tools, mine: Mask) -> Placement | None:
    """Say whether the run's tasks had their workers beforehand, or went to whichever was free.

    Tasks that go to any free core give the record back if that is how they went; else the run
    would have been far shorter, and they had their places. Between the two, where it was tasks of
    the slow worker that waited while others had nothing to do: None. With equal workers none would
    have.

    Parameters
    ----------
    mine : ndarray of bool, shape (n attempts,)
        The slow worker's.
    """
    done = tools.replay.replay if tools.replay is not None else None
    if tools.replay is None or done is None:
        return Placement(fixed=False)
    loose_s = tools.replay.makespan(Placement(fixed=False))
    was_s = done.schedule.makespan_s
    if loose_s is None or loose_s < (1.0 - FIXED_RATIO) * was_s:
        return Placement(fixed=True)
    if loose_s >= (1.0 - LOOSE_RATIO) * was_s:
        return Placement(fixed=False)
    free_s = tools.replay.makespan(Unpin(mine))
    waited = free_s is not None and was_s - free_s >= MOSTLY * (was_s - loose_s)
    return None if waited else Placement(fixed=False)


@dataclass(frozen=True, slots=True, eq=False)
class Slow:
    """Workers against each other; arrays of shape (n_workers + 1,), the last is no worker.

    Attributes
    ----------
    is_ : ndarray of bool
        Slower than the others beyond doubt, and a good part of the run alive.
    ratio : ndarray of float64
        Its durations against the others' on the same groups.
    usual_s : ndarray of float64, shape (n_groups + 1,)
        Median duration of each group on the workers that are not slow.
    """

    is_: Mask
    ratio: Floats
    usual_s: Floats


def slow_workers(seen: View) -> Slow:
    """Compare each worker with the others on the same groups.

    A worker is slow when its durations, its quick tasks' too, are far above the same groups'
    elsewhere, and their ranks leave no doubt. Uneven pieces move the long ones only.
    """
    if "slow workers" in seen.memo:
        kept: Slow = seen.memo["slow workers"]
        return kept
    n_groups, n_workers = len(seen.groups), len(seen.workers)
    if n_workers < 2:
        none = np.full(n_workers + 1, np.nan)
        made = Slow(np.zeros(n_workers + 1, dtype=bool), none, np.full(n_groups + 1, np.nan))
        seen.memo["slow workers"] = made
        return made
    rows = _at_the_same_time(seen, comparable(seen) & (seen.worker >= 0))
    wall = _compare(seen, rows, seen.wall)
    slow = wall.ratio >= SLOW_RATIO
    slow &= wall.sure
    cpu = seen.number("cpu_s")
    if rows.any() and not np.isnan(cpu[rows]).any() and (cpu[rows] > 0).all():
        # A slow machine takes more CPU time too; other load hides that in the durations.
        other = _compare(seen, rows, cpu)
        slow |= (other.ratio >= SLOW_RATIO) & other.sure & (wall.level >= CPU_AND_WALL)
    slow = np.append(slow & _lasting(seen), False)
    if slow.sum() > max(1, n_workers // 3):
        slow[:] = False  # Where many are slow, none is: the work differs, not the worker.
    usual = _middle(np.where(slow[:-1], np.nan, wall.median))
    made = Slow(slow, np.append(wall.level, np.nan), np.append(usual, np.nan))
    seen.memo["slow workers"] = made
    return made


@dataclass(frozen=True, slots=True, eq=False)
class _Compared:
    """One measure of each worker against the others: by group and worker, and in all."""

    median: Floats
    level: Floats
    ratio: Floats
    sure: Mask


def _compare(seen: View, rows: Mask, values: Floats) -> _Compared:
    n_groups, n_workers = len(seen.groups), len(seen.workers)
    cell = seen.group[rows] * n_workers + seen.worker[rows]
    mine = values[rows]
    shape = (n_groups, n_workers)
    count = np.bincount(cell, minlength=n_groups * n_workers).reshape(shape)
    low, median = (
        np.where(count >= MIN_EACH, found.reshape(shape), np.nan)
        for found in quantiles(cell, mine, n_groups * n_workers, (0.25, 0.5))
    )
    weight: Floats = np.nan_to_num(median) * count.astype(np.float64)
    level = _against(median, weight)
    ratio = np.nan_to_num(np.fmin(level, _against(low, weight)))
    sure = _rank_score(cell, mine, n_workers) >= SURE_SIGMA
    return _Compared(median, np.nan_to_num(level), ratio, sure)


def _at_the_same_time(seen: View, rows: Mask) -> Mask:
    """Keep attempts from the stretch in which most workers ran the group.

    A worker that is alone for a while (the others are paused, or not yet there) has the machine,
    the network and the storage for itself, and is not the measure for the others.
    """
    n_groups, n_workers = len(seen.groups), len(seen.workers)
    if not n_groups or not n_workers:
        return np.zeros_like(rows)
    cell = seen.group[rows] * n_workers + seen.worker[rows]
    first = np.full(n_groups * n_workers, np.nan)
    last = np.full(n_groups * n_workers, np.nan)
    np.fmin.at(first, cell, seen.started[rows])
    np.fmax.at(last, cell, seen.started[rows])
    count = np.bincount(cell, minlength=n_groups * n_workers)
    some = count >= MIN_EACH
    group = np.repeat(np.arange(n_groups), n_workers)[some]
    begin = quantiles(group, first[some], n_groups, (0.75,))[0][seen.group]
    end = quantiles(group, last[some], n_groups, (0.25,))[0][seen.group]
    with np.errstate(invalid="ignore"):
        inside = rows & (seen.started >= begin - 1e-9) & (seen.started <= end + 1e-9)
        late = rows & (seen.started > end + 1e-9)
    # One that is left behind with tasks of its own, and is none the faster for being alone, is
    # itself the slow one: its tasks say what the others' say.
    place = seen.group * n_workers + seen.worker
    usual, alone = (
        quantiles(place[mask], seen.wall[mask], n_groups * n_workers, (0.5,))[0]
        for mask in (inside, late)
    )
    with np.errstate(invalid="ignore"):
        late[late] = (alone >= ALONE_RATIO * usual)[place[late]]
    return np.asarray(inside | late)


def _against(level: Floats, weight: Floats) -> Floats:
    """Compare each worker with the middle of the others: weighted median ratio over groups."""
    ratio = np.full(level.shape[1], np.nan)
    with np.errstate(invalid="ignore", divide="ignore"):
        all_ = level / _of_others(level)
    for worker in range(level.shape[1]):
        each = all_[:, worker]
        known = ~np.isnan(each)
        if known.any():
            order = np.argsort(each[known], kind="stable")
            total = np.cumsum(weight[known, worker][order])
            ratio[worker] = each[known][order][np.searchsorted(total, total[-1] / 2)]
    return ratio


def _of_others(level: Floats) -> Floats:
    """Give for each cell the median of its row without it; NaN where it is NaN or alone."""
    order = np.argsort(level, axis=1, kind="stable")  # NaN last
    values = np.take_along_axis(level, order, axis=1)
    rank = np.empty_like(order)
    np.put_along_axis(rank, order, np.arange(level.shape[1])[None, :], axis=1)
    count = (~np.isnan(level)).sum(axis=1)[:, None]
    ends = []
    for half in (np.maximum(count - 2, 0) // 2, np.maximum(count - 1, 0) // 2):
        place = np.minimum(half + (half >= rank), level.shape[1] - 1)
        ends.append(np.take_along_axis(values, place, axis=1))
    return np.where(np.isnan(level) | (count < 2), np.nan, (ends[0] + ends[1]) / 2.0)


def _rank_score(cell: Codes, wall: Floats, n_workers: int) -> Floats:
    """Say by how many σ each worker's durations rank above the others', groups pooled.

    The rank-sum test by group, each with its median as weight (van Elteren 1960): tasks that take
    no time have no say. Under the hypothesis of no difference the score is standard normal.
    """
    group = cell // n_workers
    order = np.lexsort((wall, group))
    sizes = np.bincount(group)
    first = np.concatenate([[0], np.cumsum(sizes)])[:-1]
    rank = np.empty(len(cell))
    rank[order] = np.arange(len(cell)) - first[group[order]] + 1.0
    mine = np.bincount(cell, minlength=len(sizes) * n_workers).reshape(-1, n_workers)
    total = np.bincount(cell, rank, minlength=len(sizes) * n_workers).reshape(-1, n_workers)
    all_ = sizes[:, None]
    median = np.nan_to_num(quantiles(group, wall, len(sizes), (0.5,))[0])
    weight = (median / max(float(median.max(initial=0.0)), 1e-12))[:, None]
    surplus = (weight * (total - mine * (all_ + 1) / 2)).sum(axis=0)
    variance = (weight**2 * mine * (all_ - mine) * (all_ + 1) / 12).sum(axis=0)
    return np.asarray(np.where(variance > 0, surplus / np.sqrt(np.maximum(variance, 1e-12)), 0.0))


def _middle(values: Floats) -> Floats:
    """Median along rows, NaN for a row of NaN, without numpy's warning."""
    out = np.full(len(values), np.nan)
    some = ~np.isnan(values).all(axis=1) if values.size else np.zeros(len(values), dtype=bool)
    out[some] = np.nanmedian(values[some], axis=1)
    return out


def _lasting(seen: View) -> Mask:
    """Say which workers lived through a good part of the run, and neither died nor were paused.

    Those that start late, or again after each death, pay for imports and cold caches; those that
    were paused, for their memory.
    """
    paused, _, _ = paused_spans(seen)
    lived = np.zeros(len(seen.workers))
    known = np.zeros(len(seen.workers), dtype=bool)
    for life in seen.lives:
        lived[life["worker"]] += float(life["ended"] - life["started"])
        known[life["worker"]] = True
    dead = {death.worker for death in collect(seen)}
    died = np.array([name in dead for name in seen.workers], dtype=bool)
    died[paused] = True
    mask: Mask = ~died & (~known | (lived >= LIVED_RATIO * (seen.makespan or 0.0)))
    return mask


def _cpu_evidence(seen: View, mine: Mask) -> tuple[Evidence, ...]:
    """Give the CPU share of its tasks: computing slowly and waiting are two things."""
    cpu = seen.number("cpu_s")
    known = mine & ~np.isnan(cpu)
    if not known.any():
        return ()
    share = float(cpu[known].sum() / seen.wall[known].sum())
    n = int(known.sum())
    return (Evidence("CPU time of its tasks / duration", round(share, 3), "ratio", "measured", n),)


def _host_of(seen: View, worker: int) -> tuple[str | None, int]:
    """Give a worker's host and how many other workers that host had."""
    table = seen.table("workers")
    hosts = dict(zip(table["worker"].to_pylist(), table["host"].to_pylist(), strict=True))
    rows = np.flatnonzero(seen.worker == worker)
    host = seen.tasks["host"].take(rows[:1]).to_pylist()[0] if rows.size else None
    name = hosts.get(seen.workers[worker])
    others = sum(name is not None and hosts[other] == name for other in hosts) - (name is not None)
    return host or name, others


def _look_at(host: str | None, siblings: int) -> str:
    """Say what to check; a worker's address means nothing in the next run, its host does."""
    where = f"host {short(host, 40)}" if host else "its machine"
    if siblings:
        return (
            f"Check what this worker has that the others of {where} have not: its CPU pinning or "
            "container limit, another process on its cores, its local directory's disk."
        )
    return (
        f"Check {where}: other load (uptime, top), CPU throttling or a limit, a slow disk or "
        "network. If it stays slow, leave it out of the next run."
    )
