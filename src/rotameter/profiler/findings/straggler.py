"""RM106 straggler or skewed_partitions: the run waited for a slow worker or for big pieces."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rotameter.profiler.findings.base import (
    Tools,
    price,
    severity_of,
    worth_saying,
)
from rotameter.profiler.findings.deaths import collect
from rotameter.profiler.groups import quantiles
from rotameter.profiler.occupancy import timeline
from rotameter.profiler.view import View, is_dask, short, view
from rotameter.units import format_number, format_seconds
from rotameter.values import Evidence, Finding

if TYPE_CHECKING:
    from rotameter.profiler.trace import Trace
    from rotameter.profiler.view import Codes, Floats, Mask

__all__ = ["Advisor"]

SLOW_RATIO = 1.4
MIN_EACH = 3
SURE_SIGMA = 2.5
SKEW_RATIO = 2.5
LIVED_RATIO = 0.5
"""A worker that lived a smaller part of the run than this is not compared: it was starting up."""


class Advisor:
    """Tell a slow worker from uneven pieces of work."""

    name = "straggler"

    def check(self, trace: Trace, tools: Tools) -> list[Finding]:
        """Look for a slow worker first, then for groups whose largest pieces end the run."""
        seen = view(trace)
        good = seen.ran & seen.ok & (seen.group >= 0) & (seen.wall > 0)
        if good.sum() < 2 * MIN_EACH or seen.slots is None:
            return []
        slow = _slow_workers(seen, good)
        found = [
            self._straggler(seen, int(code), good, slow)
            for code in np.flatnonzero(slow["is"][:-1] & _lasting(seen))
        ]
        kept = [finding for finding in found if finding is not None]
        left = good & ~slow["is"][seen.worker]
        kept += [f for g in _skewed(seen, left) if (f := self._skew(seen, g, left)) is not None]
        return kept

    def _straggler(
        self, seen: View, worker: int, good: Mask, slow: dict[str, Any]
    ) -> Finding | None:
        mine = good & (seen.worker == worker)
        usual = slow["usual"][seen.group]
        excess_each = np.where(mine & ~np.isnan(usual), np.maximum(seen.wall - usual, 0.0), 0.0)
        excess = float(excess_each.sum())
        waited, tail_s = _waited(seen, mine & (excess_each > 0.3 * seen.wall))
        slots = float(seen.slots or 1.0)
        cost = (excess + waited) / slots
        if not worth_saying(seen, cost):
            return None
        ratio = float(slow["ratio"][worker])
        n = int(mine.sum())
        sums = np.bincount(seen.group[mine], excess_each[mine], minlength=len(seen.groups))
        groups = tuple(seen.groups[g] for g in np.argsort(-sums, kind="stable")[:3] if sums[g] > 0)
        name = short(seen.workers[worker], 36)
        host, siblings = _host_of(seen, worker)
        shown = f" on host {short(host, 24)}" if host else ""
        return Finding(
            code="RM106",
            kind="straggler",
            severity=severity_of(seen, cost),
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
                Evidence("its extra time", round(excess, 3), "s", "sum over its tasks", n),
                Evidence(
                    "cores that waited for it at the end",
                    round(waited, 3),
                    "core·s",
                    f"free cores while only its slow tasks ran ({format_seconds(tail_s)})",
                ),
                *([Evidence("host", short(host), "", "recorded")] if host else []),
            ),
            **price(seen, cost),
            cost_s_interval80=(round(0.6 * cost, 6), round(min(1.3 * cost, seen.makespan or 0), 6)),
            cost_how=(
                f"its extra time plus cores waiting for it, over {format_number(slots)} cores: "
                "as if it were as fast as the others"
            ),
            confidence="high" if n >= 10 else "medium",
            advice=(
                _look_at(host, siblings)
                + " More, shorter tasks let the fast workers take over more of the work."
            ),
            apply={"placement": {"factor": None}, "task_granularity": {"factor": 0.5}},
        )

    def _skew(self, seen: View, group: int, good: Mask) -> Finding | None:
        rows = good & (seen.group == group)
        wall = seen.wall[rows]
        median, top = float(np.median(wall)), float(wall.max())
        heavy = rows & (seen.wall > 2.0 * median)
        waited, tail_s = _waited(seen, heavy)
        slots = float(seen.slots or 1.0)
        cost = waited / slots
        if not worth_saying(seen, cost):
            return None
        n = int(rows.sum())
        label = seen.label(group)
        pieces = max(2, int(np.ceil(top / max(median, 1e-9))))
        return Finding(
            code="RM106",
            kind="skewed_partitions",
            severity=severity_of(seen, cost),
            title=(
                f"{label}: the longest of {n:,} tasks took {format_seconds(top)}, "
                f"{format_number(top / median, 2)} times the median; the rest waited"
            ),
            groups=(seen.groups[group],),
            evidence=_skew_evidence(seen, rows, heavy, waited, tail_s),
            **price(seen, cost),
            cost_s_interval80=(round(0.5 * cost, 6), round(min(1.2 * cost, seen.makespan or 0), 6)),
            cost_how=(
                f"cores that waited while only the long tasks ran, over {format_number(slots)} "
                "cores: as if the work had been spread evenly"
            ),
            confidence="high" if n >= 10 else "medium",
            advice=(
                "Split the large pieces (repartition by size, split heavy keys), or start the "
                "longest ones first."
            ),
            change=(
                "client.submit(f, big, priority=10)  # longest first; or split the big pieces"
                if is_dask(seen.meta)
                else None
            ),
            apply={
                "partitioning": {"factor": float(min(pieces, 8))},
                "task_granularity": {"factor": 1.0 / min(pieces, 8)},
                "order": {"factor": None},
            },
        )


def _lasting(seen: View) -> Mask:
    """Say which workers lived through a good part of the run and did not die.

    Those that start late, or again after each death, pay for imports and cold caches.
    """
    lived = np.zeros(len(seen.workers))
    known = np.zeros(len(seen.workers), dtype=bool)
    for life in seen.lives:
        lived[life["worker"]] += float(life["ended"] - life["started"])
        known[life["worker"]] = True
    dead = {death.worker for death in collect(seen)}
    died = np.array([name in dead for name in seen.workers], dtype=bool)
    mask: Mask = ~died & (~known | (lived >= LIVED_RATIO * (seen.makespan or 0.0)))
    return mask


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


def _skew_evidence(
    seen: View, rows: Mask, heavy: Mask, waited: float, tail_s: float
) -> tuple[Evidence, ...]:
    wall = seen.wall[rows]
    median, top, n = float(np.median(wall)), float(wall.max()), len(wall)
    size, column = _related(seen, rows)
    return (
        Evidence("longest / median", round(top / median, 3), "times", "measured", n),
        Evidence("median duration", round(median, 6), "s", "measured", n),
        Evidence("tasks twice the median or more", int(heavy.sum()), "", "counted", n),
        Evidence(
            "cores that waited for them",
            round(waited, 3),
            "core·s",
            f"free cores while only such tasks ran ({format_seconds(tail_s)})",
        ),
        *(
            [
                Evidence(
                    f"duration goes with {column}",
                    round(size, 3),
                    "correlation",
                    "rank correlation",
                    n,
                )
            ]
            if column
            else []
        ),
    )


def _slow_workers(seen: View, good: Mask) -> dict[str, Any]:
    """Compare each worker with the others on the same groups.

    A worker is slow when its durations, its quick tasks' too, are far above the same groups'
    elsewhere, and their ranks leave no doubt. Uneven pieces move the long ones only.
    """
    n_groups, n_workers = len(seen.groups), len(seen.workers)
    rows = good & (seen.worker >= 0)
    cell = seen.group[rows] * n_workers + seen.worker[rows]
    wall = seen.wall[rows]
    shape = (n_groups, n_workers)
    count = np.bincount(cell, minlength=n_groups * n_workers).reshape(shape)
    low, median = (
        np.where(count >= MIN_EACH, values.reshape(shape), np.nan)
        for values in quantiles(cell, wall, n_groups * n_workers, (0.25, 0.5))
    )
    weight: Floats = np.nan_to_num(median) * count.astype(np.float64)
    ratio = np.fmin(_against(median, weight), _against(low, weight))
    sure = _rank_score(cell, wall, n_workers) >= SURE_SIGMA
    slow = np.append((np.nan_to_num(ratio) >= SLOW_RATIO) & sure, False)
    if n_workers < 2 or slow.sum() > max(1, n_workers // 3):
        slow[:] = False  # Where many are slow, none is: the work differs, not the worker.
    usual = _middle(np.where(slow[:-1], np.nan, median))
    return {"is": slow, "ratio": _against(median, weight), "usual": np.append(usual, np.nan)}


def _against(level: Floats, weight: Floats) -> Floats:
    """Compare each worker with the middle of the others: weighted median ratio over groups."""
    ratio = np.full(level.shape[1], np.nan)
    for worker in range(level.shape[1]):
        with np.errstate(invalid="ignore", divide="ignore"):
            each = level[:, worker] / _middle(np.delete(level, worker, axis=1))
        known = ~np.isnan(each)
        if known.any():
            order = np.argsort(each[known], kind="stable")
            total = np.cumsum(weight[known, worker][order])
            ratio[worker] = each[known][order][np.searchsorted(total, total[-1] / 2)]
    return ratio


def _rank_score(cell: Codes, wall: Floats, n_workers: int) -> Floats:
    """Say by how many σ each worker's durations rank above the others', groups pooled.

    The rank-sum test: under the hypothesis of no difference the score is standard normal.
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
    surplus = (total - mine * (all_ + 1) / 2).sum(axis=0)
    variance = (mine * (all_ - mine) * (all_ + 1) / 12).sum(axis=0)
    return np.asarray(np.where(variance > 0, surplus / np.sqrt(np.maximum(variance, 1e-12)), 0.0))


def _middle(values: Floats) -> Floats:
    """Median along rows, NaN for a row of NaN, without numpy's warning."""
    out = np.full(len(values), np.nan)
    some = ~np.isnan(values).all(axis=1) if values.size else np.zeros(len(values), dtype=bool)
    out[some] = np.nanmedian(values[some], axis=1)
    return out


def _skewed(seen: View, rows: Mask) -> list[int]:
    """Name groups whose longest task is far longer than the median one."""
    top, median = (
        quantiles(seen.group[rows], seen.wall[rows], len(seen.groups), (q,))[0] for q in (1.0, 0.5)
    )
    count = np.bincount(seen.group[rows], minlength=len(seen.groups))
    line = timeline(seen)
    if line is None:
        return []
    with np.errstate(invalid="ignore"):
        skewed = (count >= 2 * MIN_EACH) & (top >= SKEW_RATIO * median)
        heavy = rows & (seen.wall > 2.0 * np.append(median, np.nan)[seen.group])
    # At most the cores that were free, with nothing waiting, while each of its long tasks ran.
    calm = np.where((line.waiting < 0.5) & (line.moving < 0.5), line.free, 0.0)
    bound = line.integral(calm, seen.started[heavy], seen.ended[heavy])
    bounds = np.bincount(seen.group[heavy], bound, minlength=len(seen.groups))
    skewed &= worth_saying(seen, bounds / (seen.slots or 1.0))
    return [int(g) for g in np.flatnonzero(skewed)]


def _waited(seen: View, heavy: Mask) -> tuple[float, float]:
    """Integrate free cores while nothing but these tasks ran and nothing else was ready.

    Returns
    -------
    core_s, seconds : float
    """
    line = timeline(seen)
    if line is None or not heavy.any():
        return 0.0, 0.0
    others = line.running - line.count(seen.started[heavy], seen.ended[heavy])
    alone = (line.running > 0.5) & (others < 0.5) & (line.waiting < 0.5) & (line.moving < 0.5)
    return float(line.free[alone] @ line.dt[alone]), float(line.dt[alone].sum())


def _related(seen: View, rows: Mask) -> tuple[float, str | None]:
    """Find the size that a group's durations go with, by rank correlation."""
    best: tuple[float, str | None] = (0.0, None)
    for column in ("read_bytes", "received_bytes", "output_bytes", "peak_memory_bytes"):
        size = seen.number(column)[rows]
        good = ~np.isnan(size)
        if good.sum() < 6 or np.ptp(size[good]) == 0:
            continue
        ranks = [
            np.argsort(np.argsort(x, kind="stable")) for x in (size[good], seen.wall[rows][good])
        ]
        value = float(np.corrcoef(ranks[0], ranks[1])[0, 1])
        if value > max(0.7, best[0]):
            best = (value, column)
    return best
