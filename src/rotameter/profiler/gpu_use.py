"""Which attempts held GPUs, and whether they used them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from rotameter.profiler.view import Floats, Mask, View

__all__ = ["CONTEXT_BYTES", "FEW", "GpuUse", "gpu_use"]

CONTEXT_BYTES = 600 * 10**6
"""A process that only opened a GPU holds no more than this there; more was put there to be used."""

FEW = 3
"""Fewer tasks of a group tell nothing of the others."""


@dataclass(frozen=True, slots=True, eq=False)
class GpuUse:
    """GPUs of each attempt.

    Attributes
    ----------
    held : ndarray of float64
        Granted, else requested; NaN = unknown.
    used : ndarray of bool
        Whether it computed on one, however shortly (without one it would fail), held more memory of
        one than an opened one takes, or any where its time there is not known.
    told : ndarray of bool
        Whether anything is on record of its use.
    """

    held: Floats
    used: Mask
    told: Mask


def gpu_use(seen: View) -> GpuUse:
    """Say which attempts held GPUs and which used them.

    Examples
    --------
    >>> from rotameter.profiler.trace import Trace
    >>> from rotameter.profiler.view import view
    >>> rows = [{"task_id": "a", "wall_s": 60.0, "requested_gpus": 1.0, "gpu_s": used}
    ...         for used in (30.0, 0.0, None)]
    >>> made = gpu_use(view(Trace.from_tables({"tasks": rows})))
    >>> made.used.tolist(), made.told.tolist()
    ([True, False, False], [True, True, False])
    """
    granted, asked = seen.number("granted_gpus"), seen.number("requested_gpus")
    gpu_s, peak = seen.number("gpu_s"), seen.number("gpu_peak_bytes")
    with np.errstate(invalid="ignore"):
        used = (gpu_s > 0) | (peak > CONTEXT_BYTES) | (np.isnan(gpu_s) & (peak > 0))
    return GpuUse(
        held=np.where(np.isnan(granted), asked, granted),
        used=used,
        told=~np.isnan(gpu_s) | ~np.isnan(peak),
    )
