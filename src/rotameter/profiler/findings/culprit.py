"""Which group of tasks filled the workers' memory, what it needs, and how many of them fit."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rotameter.units import format_bytes

if TYPE_CHECKING:
    from rotameter.profiler.findings.deaths import Death
    from rotameter.profiler.view import Mask, View

__all__ = [
    "SAFE_RATIO",
    "Culprit",
    "Need",
    "blame",
    "enough_memory",
    "footprint_of",
    "need_of",
    "readable",
    "round_up",
    "safe_threads",
    "usual_need",
]

SAFE_RATIO = 0.9
"""Tasks fit while together they need at most this part of the worker's limit."""

USUAL_FOOTPRINT_BYTES = 150e6
"""What a worker that has imported the usual libraries holds, taken off where unknown."""

KILL_RATIO = 0.95
"""Dask's nanny kills a worker above this part of its limit."""

STEP_RATIO = {"exact": 1.1, "lower_bound": 2.0, "missing": 1.5}
"""The next limit is at least this many times the one that failed, by what is known of the need.

A task that was killed needs more than it had got: doubling finds its need in few tries.
"""

USUAL_STEP_RATIO = 1.5
"""The same where the need is a bound from above, sampled or an estimate."""


@dataclass(frozen=True, slots=True)
class Need:
    """What one task of a group needs at its peak, in bytes, and how that is known.

    ``least_bytes`` is what killed tasks show beside an upper bound from those that finished.
    """

    peak_bytes: float | None
    kind: str
    how: str
    n: int
    least_bytes: float | None = None


@dataclass(frozen=True, slots=True)
class Culprit:
    """A group, its part of the blame, and what it shared the workers with."""

    group: str
    share: float
    need: Need
    beside: tuple[str, ...]
    bystanders: tuple[str, ...]
    together: int


def footprint_of(view: View) -> float | None:
    """Give the bytes that a worker holds before any task needs memory; None where unknown."""
    code, _, rss = view.samples("rss_bytes")
    start = view.number("start_memory_bytes")
    seen = np.concatenate([rss[code >= 0], start])
    seen = seen[seen > 0]
    return float(seen.min()) if seen.size else None


def _floors(view: View, group: str, rows: Mask, deaths: list[Death]) -> list[float]:
    """Give lower bounds of a task's need from those that were killed.

    What the worker held, less its own size, results it kept and what others there need, was the
    group's; the largest of its tasks held at least the mean of that.
    """
    base = footprint_of(view)
    if base is None:
        base = USUAL_FOOTPRINT_BYTES
    code, at, managed = view.samples("managed_bytes")
    found = []
    for death in deaths:
        mine = [victim.group for victim in death.executing].count(group)
        if not mine or not death.of_memory or not death.rss_bytes:
            continue
        groups = [victim.group for victim in death.executing]
        others = [name for name in groups if name is not None and name != group]
        kept = 0.0
        if death.worker in view.workers:
            here = np.flatnonzero((code == view.workers.index(death.worker)) & ~np.isnan(at))
            kept = float(managed[here[np.argmax(at[here])]]) if here.size else 0.0
        taken = float(np.sum([usual_need(view, other) for other in others]))
        found.append(max(0.0, death.rss_bytes - base - np.nan_to_num(kept) - taken) / mine)
    killed = rows & view.outcome_in("oom") & (view.task_memory > 0)
    return [*found, *view.task_memory[killed].tolist()]


def need_of(view: View, group: str, deaths: list[Death]) -> Need:
    """Say what one task of a group needs: measured alone, bounded in company, or at least."""
    rows = np.zeros(view.n, dtype=bool)
    if group in view.groups:
        rows = view.group == view.groups.index(group)
    peak = view.task_memory
    whole = rows & view.ok & ~np.isnan(peak)
    bounds = _floors(view, group, rows, deaths)
    floor = max(bounds, default=0.0)
    measured: Need | None = None
    for kind, how, quantile in _HOW:
        mask = whole & (view.peak_kinds == kind)
        if mask.any():
            value = float(np.quantile(peak[mask], quantile))
            least = floor if kind == "upper_bound" and 0 < floor < value else None
            measured = Need(value, kind, how, int(mask.sum()), least)
            break
    # Those that were killed may have needed more than those that finished: say so.
    if floor > 0 and (measured is None or floor > 1.25 * (measured.peak_bytes or 0.0)):
        return Need(floor, "lower_bound", "at least: it was killed", len(bounds))
    return measured or Need(None, "missing", "not measured", 0)


_HOW = (
    ("exact", "measured alone", 1.0),
    ("sampled", "sampled", 1.0),
    ("estimate", "estimated", 1.0),
    # Each is a bound; the like tasks of a group need no more than the lower of them.
    ("upper_bound", "measured among others", 0.25),
)


def blame(view: View, deaths: list[Death]) -> Culprit | None:
    """Name the group whose attempts really ran when workers died, weighed by what they need."""
    scores: dict[str, float] = defaultdict(float)
    together: dict[str, list[int]] = defaultdict(list)
    queued: dict[str, int] = defaultdict(int)
    needs: dict[str, float] = {}
    for death in deaths:
        groups = [victim.group for victim in death.executing if victim.group is not None]
        for group in set(groups):
            together[group].append(groups.count(group))
            if group not in needs:
                needs[group] = usual_need(view, group)
        for group, count in death.queued.items():
            queued[group] += count
        weights = [needs[group] for group in groups]
        # Where a need is unknown, the task that is known to be small is not the one to blame.
        unknown = max([w for w in weights if w > 0], default=1.0)
        weights = [w if w > 0 else unknown for w in weights]
        total = sum(weights)
        for group, weight in zip(groups, weights, strict=True):
            scores[group] += weight / total if total > 0 else 0.0
    if not scores:
        return None
    best = max(sorted(scores), key=lambda group: scores[group])
    beside = [g for g in sorted(scores, key=lambda g: (-scores[g], g)) if g != best]
    idle = [g for g in sorted(queued, key=lambda g: (-queued[g], g)) if g not in scores]
    return Culprit(
        group=best,
        share=scores[best] / sum(scores.values()),
        need=need_of(view, best, deaths),
        beside=tuple(beside),
        bystanders=tuple(idle),
        together=max(together[best]),
    )


def usual_need(view: View, group: str) -> float:
    """Give what a task of a group usually needs, in bytes; 0 where nothing tells.

    A peak measured in company may hold the others' memory: the low ones are the truest.
    """
    if group not in view.groups:
        return 0.0
    rows = (view.group == view.groups.index(group)) & view.ok & ~np.isnan(view.task_memory)
    if not rows.any():
        return 0.0
    exact = rows & (view.peak_kinds == "exact")
    if exact.any():
        return float(np.quantile(view.task_memory[exact], 0.95))
    return float(np.quantile(view.task_memory[rows], 0.1))


def enough_memory(
    need: Need | None,
    threads: int,
    failed_bytes: float | None,
    rss_bytes: float | None = None,
    footprint_bytes: float = 0.0,
) -> tuple[float, float]:
    """Give the memory limit to try next for this many such tasks at once, and the step it took.

    What the tasks are known to need by the rule of :func:`safe_threads`, but never less than the
    step times the limit that failed and what the worker held when it died.

    Returns
    -------
    limit_bytes : float
        Rounded up to two digits.
    step : float
        Times the failed limit, at least.

    Examples
    --------
    >>> enough_memory(Need(417e6, "lower_bound", "", 1), 1, 500e6, 484e6, 67e6)
    (1000000000.0, 2.0)
    >>> enough_memory(Need(5.8e9, "exact", "", 3), 4, 16e9)
    (26000000000.0, 1.1)
    """
    step = STEP_RATIO.get(need.kind if need else "missing", USUAL_STEP_RATIO)
    wanted = 0.0
    if need is not None and need.peak_bytes is not None:
        tasks = threads * need.peak_bytes
        wanted = max(tasks / SAFE_RATIO, (tasks + footprint_bytes) / KILL_RATIO)
    return round_up(max(wanted, step * max(failed_bytes or 0.0, rss_bytes or 0.0))), step


def round_up(size_bytes: float) -> float:
    """Round up to two significant digits."""
    if size_bytes <= 0:
        return 0.0
    unit = 10.0 ** (np.floor(np.log10(size_bytes)) - 1)
    return float(np.ceil(size_bytes / unit - 1e-9) * unit)


def readable(size_bytes: float) -> str:
    """Write a limit as Dask reads it and people type it.

    Examples
    --------
    >>> readable(1e9), readable(760e6), readable(1.3e9)
    ('1GB', '760MB', '1.3GB')
    """
    return format_bytes(size_bytes).replace(" ", "").replace(",", "")


def safe_threads(
    need: Need,
    limit_bytes: float | None,
    threads: int,
    together: int,
    footprint_bytes: float = 0.0,
) -> tuple[int | None, float | None]:
    """Give the largest number of such tasks that fit, and how far to shrink one if none does.

    The rule: t fit while t × peak ≤ 0.9 × limit and, as the nanny kills at 0.95 × limit, while
    t × peak plus the worker's own size stays below that. A bound or an estimate cannot show that
    as many fit as died together, where they held most of the worker.

    Returns
    -------
    threads : int or None
    factor : float or None
        Divide the chunk by this (rounded up) for one task to fit; None where one fits.

    Examples
    --------
    >>> safe_threads(Need(5.8e9, "exact", "", 3), 16e9, 4, 4)
    (2, None)
    >>> safe_threads(Need(40e9, "exact", "", 3), 16e9, 4, 4)
    (0, 3.0)
    """
    if need.peak_bytes is None or not limit_bytes:
        return None, None
    room = min(SAFE_RATIO * limit_bytes, KILL_RATIO * limit_bytes - footprint_bytes)
    if room <= 0:
        return 0, None
    fit = int(min(threads, room // max(need.peak_bytes, 1.0)))
    unsure = need.kind in ("lower_bound", "estimate", "sampled")
    if fit >= together and unsure and need.peak_bytes * together >= 0.5 * room:
        fit = together - 1
    if fit >= 1:
        return fit, None
    factor = float(np.ceil(max(need.peak_bytes / room, 1.0 + 1e-9)))
    return 0, factor
