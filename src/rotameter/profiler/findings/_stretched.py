"""Tasks that took longer for their CPU time than others, or more CPU time for new memory."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from rotameter.profiler.replaying.model import PARTS

if TYPE_CHECKING:
    from rotameter.profiler.replaying.model import Model
    from rotameter.profiler.view import Floats, Mask, View

__all__ = ["FEWEST_OTHERS", "Eased", "computes", "reused_cpu_s", "timed", "wall_per_cpu"]

FEWEST_OTHERS = 5

COMPUTING = 0.25
"""A task that computes for less of its time waits for something else than for a core."""

ALIKE = 1.1
"""Results whose sizes are within this ratio took the same work."""

TWO_KINDS, TWICE, FEWEST_QUICK = 0.75, 2.0, 3
"""Times are of two kinds where two classes explain more of the spread of their logarithms than of
evenly spread ones (3/4; two halves of a normal distribution explain 2/π), and where one class is
twice as long as the other."""

DEAREST_S_A_BYTE = 20e-6 / 4096
"""No system takes longer to hand out a page of memory, a virtual machine's second fault included:
more CPU time than that is work."""

_COMPUTE = PARTS.index("compute")


def timed(seen: View) -> Mask:
    """Say which attempts have both a duration and CPU time enough to compare them."""
    return np.asarray(seen.ran & (seen.number("cpu_s") > 1e-3) & (seen.wall > 0))


def wall_per_cpu(seen: View, rows: Mask) -> float:
    """Give the seconds that a second of CPU time took in some attempts; NaN with too few of them.

    On a crowded machine it is more than one in tasks of any kind.
    """
    if int(rows.sum()) < FEWEST_OTHERS:
        return float("nan")
    return max(1.0, float(np.median((seen.wall / seen.number("cpu_s"))[rows])))


def computes(seen: View, alone: Floats) -> Mask:
    """Say which attempts compute for a good part of their time, given what that takes alone."""
    return np.asarray(alone >= COMPUTING * seen.wall)


def reused_cpu_s(seen: View, rows: Mask) -> Floats:
    """Give the CPU time of attempts if all their results went to memory that was had before.

    The first use of a page costs the system's time to make it. Where tasks that make as much data
    fall into two kinds by their CPU time, the quick ones got pages that others had given back.

    Parameters
    ----------
    rows : ndarray of bool, shape (n,)
        Attempts of one group.

    Returns
    -------
    ndarray of float64, shape (n,)
        As it was where nothing shows two kinds.
    """
    cpu, size = seen.number("cpu_s").copy(), seen.number("output_bytes")
    mine = np.flatnonzero(rows & (cpu > 0) & (size > 0))
    if mine.size < 2 * FEWEST_QUICK:
        return cpu
    middle = float(np.median(size[mine]))
    mine = mine[(size[mine] <= ALIKE * middle) & (size[mine] * ALIKE >= middle)]
    mine = mine[np.argsort(cpu[mine], kind="stable")]
    level = np.log(cpu[mine])
    count = np.arange(1, mine.size)
    total = float(((level - level.mean()) ** 2).sum())
    if mine.size < 2 * FEWEST_QUICK or total <= 0:
        return cpu
    below = np.cumsum(level)[:-1] / count
    above = (level.sum() - np.cumsum(level)[:-1]) / (mine.size - count)
    between = count * (mine.size - count) / mine.size * (above - below) ** 2
    between[: FEWEST_QUICK - 1] = 0.0
    place = int(np.argmax(between))
    if between[place] < TWO_KINDS * total or above[place] - below[place] < np.log(TWICE):
        return cpu
    quick, slow = np.exp(below[place]), mine[place + 1 :]
    if float(np.median(cpu[slow])) - quick > DEAREST_S_A_BYTE * middle:
        return cpu
    cpu[slow] = np.maximum(quick, cpu[slow] - DEAREST_S_A_BYTE * size[slow])
    return cpu


@dataclass(frozen=True, slots=True, eq=False)
class Eased:
    """Some attempts compute for no longer than this; their reading and writing stays.

    Attributes
    ----------
    most_s : ndarray of float64, shape (n attempts,)
        NaN = as it was.
    """

    most_s: Floats

    def apply(self, model: Model) -> Model:
        """Give the model with the change."""
        most = np.where(model.row >= 0, self.most_s[np.maximum(model.row, 0)], np.nan)
        parts = model.parts_s.copy()
        parts[:, _COMPUTE] = np.fmin(parts[:, _COMPUTE], most)
        return replace(model, parts_s=parts)
