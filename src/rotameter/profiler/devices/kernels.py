"""Which kernels take the time, and what holds each back, as far as a trace can tell."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from rotameter.profiler.devices.breakdown import seconds, share
from rotameter.profiler.devices.idle import host_wait_before
from rotameter.profiler.devices.timeline import Ints
from rotameter.profiler.devices.transfers import fastest
from rotameter.profiler.devices.work import COMMUNICATION, COPY, Floats, Work

__all__ = ["KERNELS_KEPT", "kernels", "limiter", "occupancy_limit"]

KERNELS_KEPT = 50
_LOW_OCCUPANCY = 25.0
_NEAR_PEAK = 0.6
# Matrix kernels give each thread many registers: few threads at a time are no fault of theirs.
_MATRIX = re.compile(r"gemm|cutlass|Cijk_|conv|flash|fmha|attention|wgrad|dgrad|nvjet", re.I)
_KEYS = ("occupancy", "blocks_per_sm", "registers", "shared_memory", "blocks", "threads")


def occupancy_limit(
    threads: float, registers: float, shared_memory: float, blocks_per_sm: float,
    device: Mapping[str, Any],
) -> str | None:  # fmt: skip
    """Say what keeps more blocks of a kernel from being on one multiprocessor.

    Parameters
    ----------
    threads : float
        Threads of a block.
    registers : float
        Of a thread.
    shared_memory : float
        Bytes of a block.
    blocks_per_sm : float
        Blocks of the grid for each multiprocessor.
    device : mapping
        The device's properties as the trace gives them.

    Returns
    -------
    str or None
        grid (it is too small), registers, shared memory, threads, or None for unknown.

    Examples
    --------
    >>> device = {"maxThreadsPerMultiprocessor": 2048, "regsPerMultiprocessor": 65536,
    ...           "sharedMemPerMultiprocessor": 167936, "warpSize": 32}
    >>> occupancy_limit(128, 240, 98304, 0.6, device), occupancy_limit(256, 128, 0, 9, device)
    ('grid', 'registers')
    """
    fits: dict[str, float] = {}
    warp = _positive(device.get("warpSize")) or 32.0
    rounded = np.ceil(threads / warp) * warp if threads > 0 else float("nan")
    per_sm = _positive(device.get("maxThreadsPerMultiprocessor"))
    if per_sm and rounded > 0:
        fits["threads"] = per_sm // rounded
    register_file = _positive(device.get("regsPerMultiprocessor") or device.get("regsPerBlock"))
    if register_file and rounded > 0 and registers > 0:
        # Registers are handed out to warps in units of 256.
        a_warp = np.ceil(registers * warp / 256) * 256
        fits["registers"] = (register_file // a_warp) // (rounded / warp)
    memory = _positive(
        device.get("sharedMemPerMultiprocessor") or device.get("maxSharedMemoryPerMultiProcessor")
    )
    if memory and shared_memory > 0:
        fits["shared memory"] = memory // shared_memory
    if not fits:
        return None
    name = min(fits, key=lambda key: fits[key])
    return "grid" if blocks_per_sm < max(fits[name], 1) else name


def _positive(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if 0 < value < 1e12 else None


def limiter(
    *,
    communicates: bool,
    matrix: bool,
    total_ns: float,
    host_wait_ns: float,
    occupancy: float,
    blocks_per_sm: float,
    rate: float,
    peak: float | None,
) -> tuple[str, str]:
    """Say what most holds a kernel back, and why it is thought so.

    Parameters
    ----------
    communicates, matrix : bool
        What kind of kernel it is, by its name.
    total_ns, host_wait_ns : float
        How long it ran, and how long its stream waited for the host right before it.
    occupancy : float
        Percent.
    rate, peak : float
        Bytes a second: its own, and of the fastest copy inside the device.

    Returns
    -------
    limiter : str
        communication, launch-bound, memory-bound, compute-bound, occupancy or unknown.
    why : str

    Examples
    --------
    >>> limiter(communicates=False, matrix=False, total_ns=10.0, host_wait_ns=90.0,
    ...         occupancy=80.0, blocks_per_sm=4.0, rate=float("nan"), peak=None)[0]
    'launch-bound'
    """
    if communicates:
        return "communication", "it exchanges data between devices"
    if host_wait_ns > total_ns:
        return "launch-bound", "its stream waited for the host longer than it ran"
    if peak and rate >= _NEAR_PEAK * peak:
        return "memory-bound", "it moves bytes nearly as fast as the fastest copy in the trace"
    if blocks_per_sm < 1.0:
        return "occupancy", "its grid has fewer blocks than the device has multiprocessors"
    if occupancy < _LOW_OCCUPANCY and not matrix:
        return "occupancy", f"occupancy below {_LOW_OCCUPANCY:.0f} %"
    if peak and rate == rate:
        return "compute-bound", "it moves bytes far slower than the fastest copy in the trace"
    return "unknown", "the trace does not say how many bytes or operations it needs"


def kernels(work: Work, device: Mapping[str, Any]) -> dict[str, Any]:
    """Rank the kernels of one device by time.

    Returns
    -------
    dict
        ``count`` (kernels run), ``different``, ``limited`` (seconds by limiter, over all
        kernels) and ``top``: at most 50 of the highest total time, each with name, count,
        total_s, mean_s, min_s, max_s, share (of the time of all kernels together), occupancy
        (%, weighed by time), limiter, why, occupancy_limit, host_wait_s.
    """
    waited = host_wait_before(work)
    rows = np.flatnonzero(work.kind != COPY)
    mine = work.take(rows)
    if not len(mine):
        return {"count": 0, "different": 0, "limited": {}, "top": []}
    codes, which = np.unique(mine.name, return_inverse=True)
    lasting = (mine.end - mine.start).astype(float)
    total = np.bincount(which, weights=lasting)
    count = np.bincount(which)
    wait = np.bincount(which, weights=waited[rows].astype(float))
    means = {key: _mean(which, mine.number(key), lasting, len(codes)) for key in _KEYS}
    # The profiler writes 0 where it could not estimate (much shared memory): a kernel that ran
    # had some.
    reported = np.where(mine.number("occupancy") > 0, mine.number("occupancy"), np.nan)
    means["occupancy"] = _mean(which, reported, lasting, len(codes))
    rate = _rates(which, mine.number("bytes"), lasting, len(codes))
    peak = fastest(work)
    communicates = np.zeros(len(codes), dtype=bool)
    communicates[which[mine.kind == COMMUNICATION]] = True
    low, high = _extremes(which, lasting, len(codes))
    limited: dict[str, float] = {}
    top: list[dict[str, Any]] = []
    for at in np.lexsort((codes, -total)).tolist():
        own = {key: float(values[at]) for key, values in means.items()}
        name, why = limiter(
            communicates=bool(communicates[at]),
            matrix=_MATRIX.search(mine.names[codes[at]]) is not None,
            total_ns=total[at],
            host_wait_ns=wait[at],
            occupancy=own["occupancy"],
            blocks_per_sm=own["blocks_per_sm"],
            rate=rate[at],
            peak=peak,
        )
        limited[name] = limited.get(name, 0.0) + total[at]
        if len(top) < KERNELS_KEPT:
            times = {
                "count": int(count[at]),
                "total_s": seconds(total[at]),
                "mean_s": seconds(total[at] / count[at]),
                "min_s": seconds(low[at]),
                "max_s": seconds(high[at]),
                "share": share(total[at], lasting.sum()),
                "host_wait_s": seconds(wait[at]),
            }
            held = {"limiter": name, "why": why, **_occupancy(own, device)}
            top.append({"name": mine.names[codes[at]], **times, **held})
    return {
        "count": len(mine),
        "different": len(codes),
        "limited": {name: seconds(ns) for name, ns in sorted(limited.items())},
        "top": top,
    }


def _occupancy(own: Mapping[str, float], device: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "occupancy": _known(own["occupancy"]),
        "occupancy_limit": occupancy_limit(
            own["threads"], own["registers"], own["shared_memory"], own["blocks_per_sm"], device
        ),
    }


def _mean(which: Ints, value: Floats, weight: Floats, n: int) -> Floats:
    """Weigh by time; instances of no duration count a little."""
    known = ~np.isnan(value)
    weight = np.maximum(weight, 1.0)
    over = np.bincount(which[known], weights=(value * weight)[known], minlength=n)
    under = np.bincount(which[known], weights=weight[known], minlength=n)
    made: Floats = np.divide(over, under, out=np.full(n, np.nan), where=under > 0)
    return made


def _rates(which: Ints, size: Floats, lasting: Floats, n: int) -> Floats:
    known = ~np.isnan(size) & (lasting > 0)
    moved = np.bincount(which[known], weights=size[known], minlength=n)
    took = np.bincount(which[known], weights=lasting[known], minlength=n)
    made: Floats = np.divide(moved * 1e9, took, out=np.full(n, np.nan), where=took > 0)
    return made


def _extremes(which: Ints, lasting: Floats, n: int) -> tuple[Floats, Floats]:
    low, high = np.full(n, np.inf), np.zeros(n)
    np.minimum.at(low, which, lasting)
    np.maximum.at(high, which, lasting)
    return low, high


def _known(value: float) -> float | None:
    return round(float(value), 2) if value == value else None
