"""When a running graph will be done: what is left, through the slots that are there.

Graham's bounds for list scheduling (SIAM J. Appl. Math. 17, 1969): the end lies between the larger
of (work / slots, longest chain) and their sum. Each mean is widened by what its number of finished
tasks leaves open; where the recent pace is known, the slower of both pushes the upper end.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from rotameter.adapters.dask._why_values import Eta
from rotameter.units import format_seconds

__all__ = ["eta", "mean_seconds"]

_OPEN = ("waiting", "processing", "queued", "no-worker")
_Z80 = 1.2816
_FEW = 0.1
_PACE = 8


def mean_seconds(facts: Mapping[str, Any]) -> tuple[float | None, int]:
    """Give the mean duration of a group's finished tasks (seconds) and from how many.

    Examples
    --------
    >>> mean_seconds({"states": {"memory": 4}, "compute_s": 8.0, "other_s": 0.4,
    ...     "recent_mean_s": 1.9})
    (2.1, 4)
    """
    states = facts["states"]
    done = states.get("memory", 0) + states.get("forgotten", 0) + states.get("released", 0)
    if done and facts["compute_s"] > 0:
        return (facts["compute_s"] + facts["other_s"]) / done, done
    recent = facts.get("recent_mean_s")
    return (None, 0) if recent is None else (float(recent), 1)


def _chain(means: Mapping[str, float], prefixes: Mapping[str, Any]) -> float:
    """Longest chain of group means, in seconds, over the groups that are not finished."""
    length: dict[str, float] = {}
    for root in sorted(means):
        stack = [(root, False)]
        open_now: set[str] = set()
        while stack:
            name, done = stack.pop()
            if done:
                deps = [d for d in prefixes[name]["deps"] if d in length and d != name]
                length[name] = means[name] + max((length[d] for d in deps), default=0.0)
                open_now.discard(name)
            elif name not in length and name not in open_now:
                open_now.add(name)
                stack.append((name, True))
                stack += [(d, False) for d in prefixes[name]["deps"] if d in means]
    return max(length.values(), default=0.0)


def _pace(shot: Mapping[str, Any], found: Mapping[str, Any]) -> float | None:
    """Task seconds that got done in a second, of the last finished tasks; None if too few."""
    rows = [(n, *shot["finished"][n]) for n, (mean, _) in found.items() if n in shot["finished"]]
    count = sum(row[1] for row in rows)
    if count < _PACE:
        return None
    span = max(row[2] for row in rows) - min(row[3] for row in rows)
    done = sum(row[1] * float(found[row[0]][0] or 0.0) for row in rows) * (count - 1) / count
    return done / span if span > 0 and done > 0 else None


def _overdue(shot: Mapping[str, Any], means: Mapping[str, float]) -> float:
    """Seconds for which the longest task runs that takes over twice the mean of its group."""
    longest = 0.0
    for row in shot["workers"]:
        answer = row.get("answer")
        for task in answer.get("executing", ()) if isinstance(answer, Mapping) else ():
            seconds = float(task.get("s") or 0.0)
            if not task.get("waits") and seconds > 2 * means.get(str(task.get("group")), math.inf):
                longest = max(longest, seconds)
    return longest


def _ran(shot: Mapping[str, Any], means: Mapping[str, float]) -> float:
    """Seconds of the work that running tasks have behind them."""
    return sum(
        min(float(e.get("s") or 0.0), means.get(str(e.get("group")), 0.0))
        for row in shot["workers"]
        if isinstance(row.get("answer"), Mapping)
        for e in row["answer"].get("executing", ())
    )


def eta(shot: Mapping[str, Any]) -> Eta:
    """Give the remaining time of everything that the scheduler knows of.

    Returns
    -------
    Eta
        Seconds with an 80 % interval; both None with a reason where no duration is known, the
        interval alone where many tasks belong to groups of which none has finished.
    """
    prefixes, slots = shot["prefixes"], int(shot["slots"])
    left = {n: sum(f["states"].get(s, 0) for s in _OPEN) for n, f in prefixes.items()}
    left = {name: n for name, n in left.items() if n}
    if not left:
        return Eta(0.0, (0.0, 0.0), "")
    if slots < 1:
        return Eta(reason="no worker is running")
    found = {name: mean_seconds(prefixes[name]) for name in left}
    unknown = sorted(name for name, (mean, _) in found.items() if mean is None)
    shown = ", ".join(f"`{name}`" for name in unknown[:3]) + (" …" if len(unknown) > 3 else "")
    if len(unknown) == len(found):
        return Eta(reason=f"no task of {shown} has finished yet")
    slowest = max(mean for mean, _ in found.values() if mean is not None)
    means = {n: slowest / 2 if mean is None else mean for n, (mean, _) in found.items()}
    few = sum(left[name] for name in unknown) <= _FEW * sum(left.values())
    if unknown and not few:
        left = {name: n for name, n in left.items() if name not in unknown}
    low, middle, high = _bounds(shot, left, found, means, slots)
    how = "the mean durations of finished tasks"
    late = _overdue(shot, means)
    if late > middle:
        middle, high = late, max(high, 4 * late)
        how = "a task that runs far longer than usual: taken to need as long again"
    if unknown and not few:
        return Eta(middle, None, f"without {shown}, of which no task has finished yet")
    if unknown:  # a few tasks, such as the last sum: no one knows, so they widen the interval
        how += f"; {shown} unknown, taken as 0 to {format_seconds(slowest)} a task"
    return Eta(middle, (low, high), how)


def _bounds(
    shot: Mapping[str, Any],
    left: Mapping[str, int],
    found: Mapping[str, tuple[float | None, int]],
    means: Mapping[str, float],
    slots: int,
) -> tuple[float, float, float]:
    """Lower end, middle and upper end of the remaining time, in seconds."""
    ran = _ran(shot, means)
    work = max(0.0, sum(n * means[name] for name, n in left.items()) - ran)
    spread = _Z80 * math.sqrt(
        sum((means[m] * n) ** 2 * (1 / max(1, found[m][1]) + 1 / n) for m, n in left.items())
    )
    usable = float(min(slots, sum(left.values())))
    chain = _chain({name: means[name] for name in left}, shot["prefixes"])
    pace = _pace(shot, {n: (means[n], 0) for n in left})
    # Fewer tasks run at once than there are threads where a resource, the GIL, data or the
    # scheduler holds them up: then what was seen counts.
    real = usable if pace is None else min(usable, pace)
    middle = max(work / real, chain - ran / usable) + 0.5 * chain * (1 - 1 / max(1.0, usable))
    low = max(0.0, work - spread) / usable
    high = (work + spread) / real + chain
    return min(low, middle), middle, max(middle, high)
