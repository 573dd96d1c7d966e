"""How each task group changed: a task's time, a byte's, how many there are, and what that added."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rotameter.profiler.comparing.bootstrap import LEAST_RATIO, Ratio, called, ratio_of_means
from rotameter.profiler.comparing.contributions import Contribution, Ends
from rotameter.profiler.comparing.settings import SAME_RATIO

if TYPE_CHECKING:
    from rotameter.profiler.comparing.align import Pair
    from rotameter.profiler.comparing.facts import RunFacts
    from rotameter.profiler.view import Floats

    Two = tuple[float | None, float | None]

__all__ = ["GroupChange", "group_changes", "has_times"]


@dataclass(frozen=True, slots=True, eq=False)
class GroupChange:
    """One task group on both sides (means a run). Unknown is None, never 0.

    Attributes
    ----------
    label : str
    before, after : tuple of str
        Its names on each side; empty where it is not there.
    how : str
        How it was found again: ``name``, ``digits``, ``place`` or ``only``.
    tasks, wall_s, per_task_s, longest_s, per_gb_s, bytes, peak_bytes, failed : (before, after)
        Tasks; task time (that of reading and writing where no task has one); that of a task, of
        the longest task, and of a GB moved (None where bytes do not matter); bytes moved; highest
        peak; attempts that were lost.
    ratio : Ratio or None
        Of a task's time, after / before.
    byte_ratio : Ratio or None
        Of the time for a byte; None where bytes do not matter on either side.
    bytes_matter : bool
        Whether the bytes moved are a workload, on one side at least.
    told : str
        ``slower``, ``faster`` (a task), ``more``, ``fewer`` (tasks), ``new``, ``gone``, ``same``
        (too little to be called a change), or ``unknown``.
    contribution_s : float or None
        Seconds it added to the makespan; negative: took off.
    contribution_interval90 : tuple of float or None
        As far as the drawing of tasks (and runs) goes.
    contribution_how : str
    """

    label: str
    before: tuple[str, ...]
    after: tuple[str, ...]
    how: str
    tasks: tuple[float, float]
    wall_s: Two
    per_task_s: Two
    longest_s: Two
    per_gb_s: Two
    bytes: Two
    peak_bytes: Two
    failed: tuple[float, float]
    ratio: Ratio | None
    byte_ratio: Ratio | None
    bytes_matter: bool
    told: str
    contribution_s: float | None
    contribution_interval90: tuple[float, float] | None
    contribution_how: str

    @property
    def is_change(self) -> bool:
        """Whether it is called a change."""
        return self.told not in ("same", "unknown")


def group_changes(
    before: Sequence[RunFacts],
    after: Sequence[RunFacts],
    pairs: Sequence[Pair],
    ends: Ends,
    seed: int = 0,
) -> list[GroupChange]:
    """Measure all groups, those that added or took off most first.

    Parameters
    ----------
    before, after : sequence of RunFacts
    pairs : sequence of Pair
    ends : Ends
    seed : int

    Returns
    -------
    list of GroupChange
    """
    timed = has_times(before, after)
    sides = [
        [_samples(runs, names, timed) for runs, names in _both(before, after, p)] for p in pairs
    ]
    ratios, by_byte = [], []
    for number, (old, new) in enumerate(sides):
        ratios.append(ratio_of_means(old.walls, new.walls, seed=(seed, number, 0)))
        rates = (old.rates, new.rates) if old.heavy and new.heavy else ((), ())
        by_byte.append(ratio_of_means(*rates, seed=(seed, number, 1)))
    sure = called(ratios)
    added = _contributions(pairs, sides, ends) if timed else {}
    made = []
    for number, pair in enumerate(pairs):
        old, new = sides[number]
        ratio, got = ratios[number], added.get(number, Contribution(None, "no task times"))
        made.append(
            GroupChange(
                label=pair.label,
                before=pair.before,
                after=pair.after,
                how=pair.how,
                tasks=(old.tasks, new.tasks),
                wall_s=(old.total, new.total),
                per_task_s=(old.mean, new.mean),
                longest_s=(old.longest, new.longest),
                per_gb_s=(old.per_gb, new.per_gb),
                bytes=(old.bytes, new.bytes),
                peak_bytes=(old.peak, new.peak),
                failed=(old.failed, new.failed),
                ratio=ratio,
                byte_ratio=by_byte[number],
                bytes_matter=old.heavy or new.heavy,
                told=_told(pair, ratio, sure[number], old, new, max(len(before), len(after)) > 1),
                contribution_s=got.seconds,
                contribution_interval90=_interval(got.seconds, ratio, old, new),
                contribution_how=got.how,
            )
        )
    return sorted(made, key=lambda g: (-abs(_weight(g)), g.label, g.before))


def has_times(before: Sequence[RunFacts], after: Sequence[RunFacts]) -> bool:
    """Say whether tasks have durations on each side that has tasks."""
    sides = [[run for run in runs if run.rows] for runs in (before, after)]
    return all(any(run.timed for run in runs) for runs in sides if runs)


def _weight(group: GroupChange) -> float:
    """Give what to rank by: what it added, else how much more time its tasks took."""
    if group.contribution_s is not None:
        return group.contribution_s
    return (group.wall_s[1] or 0.0) - (group.wall_s[0] or 0.0)


def _both(
    before: Sequence[RunFacts], after: Sequence[RunFacts], pair: Pair
) -> tuple[tuple[Sequence[RunFacts], tuple[str, ...]], ...]:
    return (before, pair.before), (after, pair.after)


@dataclass(frozen=True, slots=True, eq=False)
class _Samples:
    """One group on one side."""

    walls: list[Floats]
    rates: list[Floats]
    tasks: float
    total: float | None
    mean: float | None
    longest: float | None
    per_gb: float | None
    bytes: float | None
    heavy: bool
    peak: float | None
    failed: float


def _samples(runs: Sequence[RunFacts], names: tuple[str, ...], timed: bool) -> _Samples:
    """Take one group's values; without task times, those of its reading and writing."""
    walls, rates, counts, totals, sizes = [], [], [], [], []
    peaks, failed, heavy = [], 0.0, False
    for run in runs:
        mine = run.tasks_of(names) if names else np.empty(0, dtype=np.int64)
        wall, size = (run.wall_s if timed else run.io_s)[mine], run.bytes[mine]
        counts.append(float(len(mine)))
        known = np.isfinite(wall)
        walls.append(wall[known])
        totals.append(float(wall[known].sum()) if known.any() else math.nan)
        rates.append(_rates(wall, size))
        sizes.append(float(np.nansum(size)) if np.isfinite(size).any() else math.nan)
        calls = run.io_s[mine]
        heavy |= run.heavy(sizes[-1], float(np.nansum(calls)) if np.isfinite(calls).any() else None)
        rows = [run.rows[name] for name in names if name in run.rows]
        peaks += [float(r.peak_max_bytes) for r in rows if r.peak_max_bytes is not None]
        failed += sum(_lost(row.outcomes) for row in rows) / len(runs)
    each = [float(w.mean()) for w in walls if w.size]
    rate = [float(r.mean()) for r in rates if r.size]
    return _Samples(
        walls=walls,
        rates=rates,
        tasks=float(np.mean(counts)) if counts else 0.0,
        total=_mean(totals),
        mean=_mean(each),
        longest=_mean([float(w.max()) for w in walls if w.size]),
        per_gb=float(np.mean(rate)) * 1e9 if rate and heavy else None,
        bytes=_mean(sizes),
        heavy=heavy,
        peak=max(peaks) if peaks else None,
        failed=failed,
    )


def _mean(values: Sequence[float]) -> float | None:
    known = [v for v in values if math.isfinite(v)]
    return float(np.mean(known)) if known else None


def _lost(outcomes: dict[str, int]) -> int:
    from rotameter.profiler.view import LOSSES

    return sum(count for name, count in outcomes.items() if name in LOSSES)


def _rates(wall: Floats, size: Floats) -> Floats:
    """Give values whose mean is the sum of times over the sum of bytes, and whose spread its.

    The ratio estimator, linearised (Cochran, Sampling Techniques, 1977, ch. 6).
    """
    known = np.isfinite(wall) & np.isfinite(size)
    wall, size = wall[known], size[known]
    if not size.size or not size.sum() > 0:
        return np.empty(0)
    rate = wall.sum() / size.sum()
    return np.asarray(rate + (wall - rate * size) / size.mean())


def _told(
    pair: Pair, ratio: Ratio | None, sure: bool, old: _Samples, new: _Samples, several: bool
) -> str:
    if not pair.before:
        return "new"
    if not pair.after:
        return "gone"
    if sure and ratio is not None:
        return "slower" if ratio.value > 1 else "faster"
    least = SAME_RATIO if several else LEAST_RATIO
    if old.tasks and abs(new.tasks / old.tasks - 1.0) >= least - 1e-12:
        return "more" if new.tasks > old.tasks else "fewer"
    return "unknown" if ratio is None else "same"


def _contributions(
    pairs: Sequence[Pair], sides: Sequence[Sequence[_Samples]], ends: Ends
) -> dict[int, Contribution]:
    """Price each group, those whose task time changed most first, while the budget lasts."""
    work = []
    for number, (old, new) in enumerate(sides):
        if old.total is None and new.total is None:
            continue
        both = bool(pairs[number].before and pairs[number].after)
        if both and (old.total is None or new.total is None):
            continue
        work.append((number, old.total or 0.0, new.total or 0.0))
    work.sort(key=lambda item: (-abs(item[2] - item[1]), item[0]))
    return {
        number: ends.group(pairs[number].before, pairs[number].after, old_s, new_s)
        for number, old_s, new_s in work
    }


def _interval(
    seconds: float | None, ratio: Ratio | None, old: _Samples, new: _Samples
) -> tuple[float, float] | None:
    """Carry the interval of a task's time over to what it added, in proportion.

    None where they are in no proportion: more task time that took off time was shared otherwise.
    """
    if seconds is None or ratio is None or not old.tasks:
        return None
    counts = new.tasks / old.tasks
    away = ratio.value * counts - 1.0
    if abs(away) < 0.01 or abs(seconds) < 1e-9 or seconds * away < 0:
        return None
    ends = [seconds * (end * counts - 1.0) / away for end in (ratio.low, ratio.high)]
    return min(ends), max(ends)
