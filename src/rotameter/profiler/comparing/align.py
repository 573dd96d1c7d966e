"""The same task group found again in other runs: by name, by name without digits, by place.

A name that both sides have is the same group. What is left is matched by its name without
digits (``load-2024`` and ``load-2025``), several at once where several have it; and what is left
then by its place: the only group on each side between the same neighbours, with as many tasks.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rotameter.profiler.comparing.facts import RunFacts

__all__ = ["Pair", "align_groups", "plain_name"]

# Long runs of hexadecimal digits are hashes; they hold a digit, as words do not.
_HASH = re.compile(r"(?<![0-9a-zA-Z])(?=[0-9a-f]*[0-9])[0-9a-f]{6,}(?![0-9a-zA-Z])", re.I)
_DIGITS = re.compile(r"[0-9]+")
_ALIKE = 2.0
"""Groups in one place whose task counts differ by more than this are different ones."""


@dataclass(frozen=True, slots=True)
class Pair:
    """One task group on both sides, or on one of them.

    Attributes
    ----------
    before, after : tuple of str
        Its names on each side; empty where it is not there.
    how : {"name", "digits", "place", "only"}
    """

    before: tuple[str, ...]
    after: tuple[str, ...]
    how: str

    @property
    def label(self) -> str:
        """The name to show: that of the later side."""
        names = self.after or self.before
        return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} alike"


def plain_name(name: str) -> str:
    """Give a name without hashes and digits.

    Examples
    --------
    >>> plain_name("load-2024-q1") == plain_name("load-2025-q3")
    True
    >>> plain_name("sum-9f86d081884c7d65") == plain_name("sum-60303ae22b998861")
    True
    >>> plain_name("facade") == plain_name("decade")
    False
    """
    return _DIGITS.sub("#", _HASH.sub("#", name))


def align_groups(before: Sequence[RunFacts], after: Sequence[RunFacts]) -> list[Pair]:
    """Find the groups of two sides that are the same.

    Parameters
    ----------
    before, after : sequence of RunFacts

    Returns
    -------
    list of Pair
        By name; each group of each side is in exactly one pair.
    """
    sides = [_names(before), _names(after)]
    pairs = [Pair((n,), (n,), "name") for n in sorted(sides[0].keys() & sides[1].keys())]
    left = [
        {name: count for name, count in one.items() if name not in other}
        for one, other in (sides, sides[::-1])
    ]
    pairs += _by_plain_name(left)
    pairs += _by_place(before, after, left, pairs)
    pairs += [Pair((n,), (), "only") for n in sorted(left[0])]
    pairs += [Pair((), (n,), "only") for n in sorted(left[1])]
    return sorted(pairs, key=lambda p: (p.before or p.after, p.after))


def _names(runs: Sequence[RunFacts]) -> dict[str, float]:
    """Give the names of a side with the mean number of tasks a run."""
    found: dict[str, float] = defaultdict(float)
    for run in runs:
        for name, row in run.rows.items():
            found[name] += row.tasks / len(runs)
    return dict(found)


def _by_plain_name(left: list[dict[str, float]]) -> list[Pair]:
    families: list[dict[str, list[str]]] = [defaultdict(list), defaultdict(list)]
    for side, family in zip(left, families, strict=True):
        for name in sorted(side):
            family[plain_name(name)].append(name)
    pairs = []
    for key in sorted(families[0].keys() & families[1].keys()):
        # Without any letter, a name says nothing once its digits are gone.
        if not any(char.isalpha() for char in key):
            continue
        names = tuple(families[0][key]), tuple(families[1][key])
        pairs.append(Pair(*names, "digits"))
        for side, gone in zip(left, names, strict=True):
            for name in gone:
                del side[name]
    return pairs


def _neighbours(
    runs: Sequence[RunFacts], known: Mapping[str, int], name: str
) -> tuple[frozenset[int], frozenset[int]] | None:
    """Give what comes before and after a group, as numbers of pairs; None where not all known."""
    ends: tuple[set[int], set[int]] = (set(), set())
    for run in runs:
        if name not in run.names:
            continue
        own = run.names.index(name)
        for link in run.links:
            for side in (0, 1):
                if link[1 - side] == own:
                    other = known.get(run.names[link[side]])
                    if other is None:
                        return None
                    ends[side].add(other)
    return frozenset(ends[0]), frozenset(ends[1])


def _by_place(
    before: Sequence[RunFacts],
    after: Sequence[RunFacts],
    left: list[dict[str, float]],
    pairs: Sequence[Pair],
) -> list[Pair]:
    known = [
        {name: number for number, pair in enumerate(pairs) for name in pair.before},
        {name: number for number, pair in enumerate(pairs) for name in pair.after},
    ]
    places: list[dict[tuple[frozenset[int], frozenset[int]], list[str]]] = []
    for runs, side, names in zip((before, after), left, known, strict=True):
        found = defaultdict(list)
        for name in sorted(side):
            place = _neighbours(runs, names, name)
            if place is not None and any(place):
                found[place].append(name)
        places.append(found)
    made = []
    for place in places[0].keys() & places[1].keys():
        one, other = places[0][place], places[1][place]
        if len(one) != 1 or len(other) != 1:
            continue
        counts = left[0][one[0]], left[1][other[0]]
        if max(counts) <= _ALIKE * min(counts):
            made.append(Pair((one[0],), (other[0],), "place"))
    for pair in made:
        del left[0][pair.before[0]], left[1][pair.after[0]]
    return sorted(made, key=lambda p: p.before)
