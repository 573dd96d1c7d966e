"""Several runs taken together: what tasks of all of them needed, and how much each run weighs.

Each task counts once, so a run weighs as much as it has tasks. A task that one run took from the
cache of another counts where it ran.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rotameter.allocator.workload import Workload
from rotameter.units import many

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rotameter.allocator.workload import Floats

__all__ = ["Joined", "join"]

_KNOWN = ("need", "wall_s", "size", "asked")


@dataclass(frozen=True, slots=True, eq=False)
class Joined:
    """Runs as one.

    Attributes
    ----------
    work : Workload
    parts : tuple of (str, int)
        Tasks of each run, in the order of the runs.
    by_group : mapping of str to tuple of (str, int)
        For each group the runs that have tasks of it, those with the most first, and how many.
    """

    work: Workload
    parts: tuple[tuple[str, int], ...]
    by_group: Mapping[str, tuple[tuple[str, int], ...]]

    def words(self) -> list[str]:
        r"""Say how much each run weighs, a line each.

        Examples
        --------
        >>> one, no = np.ones(3), np.zeros(3, dtype=np.int64)
        >>> runs = [
        ...     Workload(name, no[:n], ("g",), *[one[:n]] * 4) for name, n in (("a", 3), ("b", 1))
        ... ]
        >>> print("\n".join(join(runs).words()))
        2 inputs together, each task counts once:
          a: 3 tasks, 75.0% of all
          b: 1 task, 25.0% of all
        """
        total = max(1, sum(count for _, count in self.parts))
        what = f"{many(len(self.parts), 'input')} together, each task counts once:"
        told = [f"  {name}: {many(n, 'task')}, {n / total:.1%} of all" for name, n in self.parts]
        return [what, *told]


def join(works: Sequence[Workload]) -> Joined:
    """Take several runs together.

    Tasks are in the order of the runs. When each began is known where all runs have real times:
    then what grew from one run to the next is seen, whatever the order in which they are named.

    Parameters
    ----------
    works : sequence of Workload
        Of one resource, and of different names.

    Returns
    -------
    Joined

    Examples
    --------
    >>> one, no = np.ones(2), np.zeros(2, dtype=np.int64)
    >>> made = join([Workload(name, no, ("g", name), one, one, one, one) for name in "ab"])
    >>> made.work.groups, made.work.group.tolist(), made.by_group
    (('g', 'a', 'b'), [0, 0, 0, 0], {'g': (('a', 2), ('b', 2))})
    """
    works = _once(works)
    groups = tuple(dict.fromkeys(name for work in works for name in work.groups))
    place = {name: code for code, name in enumerate(groups)}
    codes = [np.array([place[name] for name in work.groups], dtype=np.int64) for work in works]
    need, wall_s, size, asked = (
        np.concatenate([getattr(work, name) for work in works]) for name in _KNOWN
    )
    group = [code[work.group] for code, work in zip(codes, works, strict=True)]

    def column(take: Callable[[Workload], Any], blank: Any) -> NDArray[Any] | None:
        return _column(works, take, blank)

    def pairs(take: Callable[[Workload], Sequence[tuple[int, Any]]]) -> tuple[Any, ...]:
        both = zip(codes, works, strict=True)
        return tuple((int(code[g]), value) for code, work in both for g, value in take(work))

    work = Workload(
        name=many(len(works), "input"),
        group=np.concatenate(group),
        groups=groups,
        need=need,
        wall_s=wall_s,
        size=size,
        asked=asked,
        at_most=column(lambda work: work.at_most, False),
        killed=pairs(lambda work: work.killed),
        killed_blind=tuple(g for g, _ in pairs(lambda work: [(g, 0) for g in work.killed_blind])),
        kinds=column(lambda work: work.kinds, "exact"),
        unmet=pairs(lambda work: work.lacks),
        cached=column(lambda work: work.cached, False),
        least=pairs(lambda work: work.least),
        notes=tuple(dict.fromkeys(note for work in works for note in work.notes)),
        resource=works[0].resource,
        begun=_begun(works),
        killed_names=_named(works, lambda work: (work.killed, work.killed_names)),
        least_names=_named(works, lambda work: (work.least, work.least_names)),
    )
    parts = tuple((one.name, len(one)) for one in works)
    return Joined(work, parts, _by_group(works, group, groups))


def _column(
    works: Sequence[Workload], take: Callable[[Workload], Any], blank: Any
) -> NDArray[Any] | None:
    """Put a column together; one that no run has stays unknown."""
    found = [take(work) for work in works]
    if all(one is None for one in found):
        return None
    pairs = zip(found, works, strict=True)
    return np.concatenate([np.full(len(w), blank) if one is None else one for one, w in pairs])


def _begun(works: Sequence[Workload]) -> Floats | None:
    """Give when each task began, on one clock; None where the runs have none in common."""
    made = []
    for work in works:
        if work.begun is None or work.origin_s is None:
            return None
        made.append(work.begun + work.origin_s)
    return np.concatenate(made)


def _named(
    works: Sequence[Workload],
    take: Callable[[Workload], tuple[Sequence[tuple[int, float]], Sequence[str]]],
) -> tuple[str, ...]:
    """Name the tasks of bounds, each with its run; as many as there are bounds."""
    made: list[str] = []
    for work in works:
        bounds, names = take(work)
        filled = [*names, *[""] * (len(bounds) - len(names))]
        made += [f"{name} of {work.name}" if name else "" for name in filled]
    return tuple(made)


def _once(works: Sequence[Workload]) -> list[Workload]:
    """Leave out what a run took from the cache of another of these, or told of again."""
    ran = {key for work in works for key in _keys(work, cached=False)}
    made = []
    for work in works:
        kept = np.ones(len(work), dtype=bool)
        for key, places in _keys(work, cached=True).items():
            kept[places] = key not in ran
            ran.add(key)
        made.append(work if kept.all() else work.only(np.flatnonzero(kept)))
    return made


def _keys(work: Workload, *, cached: bool) -> dict[tuple[str, float, float], list[int]]:
    """Give what tells executions apart, of those that ran here or of those from a cache."""
    made: dict[tuple[str, float, float], list[int]] = {}
    taken = np.zeros(len(work), dtype=bool) if work.cached is None else work.cached
    for at in np.flatnonzero(taken == cached).tolist():
        key = (work.groups[int(work.group[at])], float(work.need[at]), float(work.wall_s[at]))
        made.setdefault(key, []).append(at)
    return made


def _by_group(
    works: Sequence[Workload], group: Sequence[NDArray[Any]], groups: tuple[str, ...]
) -> dict[str, tuple[tuple[str, int], ...]]:
    """Count the runs' tasks of each group, those of which the need is known."""
    counts = [
        np.bincount(codes[~np.isnan(work.need)], minlength=len(groups))
        for work, codes in zip(works, group, strict=True)
    ]
    made = {}
    for code, name in enumerate(groups):
        told = [(work.name, int(n[code])) for work, n in zip(works, counts, strict=True)]
        if any(n for _, n in told):
            told = sorted((one for one in told if one[1]), key=lambda one: -one[1])
            made[name] = tuple(told)
    return made
