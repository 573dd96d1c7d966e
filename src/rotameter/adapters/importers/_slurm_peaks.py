"""Peaks of jobs out of those of their steps, and how they were obtained."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from rotameter.adapters.importers._slurm_use import either, positive
from rotameter.allocator.resources import MEMORY

if TYPE_CHECKING:
    from rotameter.adapters.importers._slurm_gpu import Stats
    from rotameter.adapters.importers._slurm_use import Use

__all__ = ["Peaks", "gpu_peaks", "memory_peaks"]

_LITTLE = 1.05
"""Steps beside the largest (a batch script that waits for it, ``.extern``) that add no more than
this are left out: half of what advice adds anyway, and samples 30 s apart miss as much."""
_SMALL_BYTES = MEMORY.floor
"""Nor do they count where all steps together hold no more than advice ever goes down to: a shell
and srun take some ten MB, Snakemake in a batch script 70 MB."""
_SOME = 1.5
"""Where the others add up to half, the sum is an estimate: at most a third less was held. Above
that it is an upper bound, from which nothing can be advised."""


@dataclass(slots=True)
class Peaks:
    """What jobs held at most.

    Attributes
    ----------
    value : numpy.ndarray
        NaN is unknown.
    kinds : numpy.ndarray
        Words of the schema; None where there is no value.
    lower, upper : numpy.ndarray
        Bounds where the value is another one, else NaN.
    filled : numpy.ndarray
        Where the value is that of the job statistics.
    """

    value: Any
    kinds: Any
    lower: Any
    upper: Any
    filled: Any

    def words(self) -> pa.Array:
        """Give the kinds as a column."""
        return pa.array(self.kinds.tolist(), pa.string())


def joint_kinds(largest: Any, joint: Any, small: float = 0.0) -> Any:
    """Say how a peak is known of which the largest step's and that of all at once are known.

    Examples
    --------
    >>> joint_kinds(np.full(3, 10.0), np.array([10.2, 14.0, 20.0])).tolist()
    ['sampled', 'estimate', 'upper_bound']
    """
    known = np.where(np.isnan(joint), largest, joint)
    kinds = np.where(known > _SOME * largest, "upper_bound", "estimate").astype(object)
    kinds[(known <= _LITTLE * largest) | (known <= small)] = "sampled"
    kinds[np.isnan(largest)] = None
    return kinds


def _kinds(largest: Any, joint: Any, every: Any, turns: Any, small: float = 0.0) -> tuple[Any, Any]:
    """Say how peaks are known, and which only if steps took turns as their lengths let suppose."""
    kinds = joint_kinds(largest, joint, small)
    supposed = turns & (kinds == "sampled") & (joint_kinds(largest, every, small) != "sampled")
    kinds[supposed] = "estimate"
    return kinds, supposed


def memory_peaks(use: Use, stats: Stats, limit: Any, oom: Any, running: Any) -> Peaks:
    """Give peaks of memory; where memory ran out, at least one node's limit.

    Parameters
    ----------
    use : Use
    stats : Stats
    limit : numpy.ndarray
        What a job may use on one node.
    oom, running : numpy.ndarray
        Jobs that ran out of memory, and those that are not over.
    """
    filled = np.isnan(use.peak) & ~np.isnan(stats.host_memory)
    joint = positive(use.joint)
    every = positive(use.all)
    kinds, supposed = _kinds(use.peak, joint, every, use.turns, _SMALL_BYTES)
    bounded = oom | use.killed | (use.bounded & ~filled) | running
    summed = ~bounded & ((kinds == "estimate") | (kinds == "upper_bound")) & ~supposed
    joint = np.where(kinds == "upper_bound", every, joint)
    value = np.where(filled, stats.host_memory, np.where(summed, joint, use.peak))
    value = np.where(oom, np.fmax(value, limit), value)
    kinds[filled] = np.where(stats.nodes[filled] > 1, "upper_bound", "sampled")
    kinds[bounded] = "lower_bound"
    kinds[np.isnan(value)] = None
    unsure = use.bounded | (use.turns & (kinds == "estimate"))
    above = unsure & (use.upper > np.nan_to_num(value, nan=0.0))
    return Peaks(
        value=value,
        kinds=kinds,
        lower=np.where(summed, use.peak, np.nan),
        upper=np.where(above, use.upper, np.nan),
        filled=filled,
    )


def gpu_peaks(use: Use, stats: Stats, running: Any) -> Peaks:
    """Give peaks of the GPUs' memory; of several GPUs, each one's own largest is added up."""
    filled = ~np.isnan(stats.memory)
    joint = positive(use.gpu_joint)
    every = positive(use.gpu_all)
    kinds, supposed = _kinds(use.gpu_memory, joint, every, use.turns)
    summed = ~filled & ~running & ((kinds == "estimate") | (kinds == "upper_bound")) & ~supposed
    joint = np.where(kinds == "upper_bound", every, joint)
    value = positive(either(stats.memory, np.where(summed, joint, use.gpu_memory)))
    known = ~np.isnan(value)
    kinds[filled | ~(known & (summed | supposed))] = "sampled"
    kinds[known & (stats.counted > 1)] = "upper_bound"
    kinds[known & running] = "lower_bound"
    kinds[~known & np.isnan(stats.busy_s)] = None
    blank = np.full(len(value), np.nan)
    return Peaks(value, kinds, np.where(summed, use.gpu_memory, np.nan), blank, filled)
