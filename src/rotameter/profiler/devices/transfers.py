"""Copies and fills: which way, which host memory, who waits, how fast."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from rotameter.profiler.devices.breakdown import seconds
from rotameter.profiler.devices.timeline import Ints
from rotameter.profiler.devices.work import COPY, Floats, Work

__all__ = ["bandwidth_steps", "call_mode", "classify", "fastest", "transfers"]

_SERIES = 60
_WAY = re.compile(r"\b([HDP])to([HDP])\b")
_LONG = re.compile(r"(Host|Device|Peer)\s*(?:To|->)\s*(Host|Device|Peer)", re.I)
_PATHS = {
    "HtoD": "host", "DtoH": "host", "HtoH": "host memory",
    "DtoD": "inside", "PtoP": "peer", "memset": "inside",
}  # fmt: skip


def classify(name: str) -> tuple[str, str]:
    """Give kind and host memory of a copy, from its name.

    Returns
    -------
    kind : str
        HtoD, DtoH, DtoD, PtoP, HtoH, memset or unknown.
    memory : str
        pinned, pageable, managed, or none where no host memory takes part, or unknown.

    Examples
    --------
    >>> classify("Memcpy HtoD (Pinned -> Device)"), classify("Memset (Device)")
    (('HtoD', 'pinned'), ('memset', 'none'))
    """
    low = name.lower()
    if low.startswith("memset") or "fillbuffer" in low.replace(" ", ""):
        return "memset", _memory(low) if "device" not in low else "none"
    match = _WAY.search(name)
    long = None if match else _LONG.search(name)
    if match:
        kind = f"{match[1]}to{match[2]}"
    elif long:
        kind = f"{long[1][0].upper()}to{long[2][0].upper()}"
    else:
        kind = "unknown"
    if kind not in _PATHS:
        kind = "PtoP" if "P" in kind[:1] + kind[-1:] else "unknown"
    if kind in ("DtoD", "PtoP"):
        return kind, "none"
    return kind, _memory(low)


def _memory(low: str) -> str:
    for word, memory in (("pinned", "pinned"), ("pageable", "pageable"), ("managed", "managed")):
        if word in low:
            return memory
    return "unknown"


def call_mode(name: str | None) -> str:
    """Say whether the host waits in the call that asked for a copy.

    Examples
    --------
    >>> call_mode("cudaMemcpyAsync"), call_mode("hipMemcpyWithStream"), call_mode(None)
    ('async', 'sync', 'unknown')
    """
    if not name:
        return "unknown"
    low = name.lower()
    if "async" in low or "graphlaunch" in low or "launchkernel" in low:
        return "async"
    return "sync" if "memcpy" in low or "memset" in low else "unknown"


def bandwidth_steps(
    start: Ints, end: Ints, bandwidth: Floats, shortest_ns: int = 1000
) -> tuple[Ints, Floats]:
    """Give the times at which the bandwidth of copies together changes, and its value from each.

    Parameters
    ----------
    start, end : ndarray of int64
        Nanoseconds; a copy of no duration lasts ``shortest_ns``.
    bandwidth : ndarray of float64
        Of each copy, in any unit.

    Examples
    --------
    >>> at, total = bandwidth_steps(np.array([0, 1000]), np.array([4000, 2000]), np.array([1.0, 2]))
    >>> at.tolist(), total.tolist()
    ([0, 1000, 2000, 4000], [1.0, 3.0, 1.0, 0.0])
    """
    known = ~np.isnan(bandwidth)
    start, end, bandwidth = start[known], end[known], bandwidth[known]
    end = np.where(end == start, start + shortest_ns, end)
    times = np.concatenate((start, end))
    change = np.concatenate((bandwidth, -bandwidth))
    order = np.argsort(times, kind="stable")
    total = np.cumsum(change[order])
    # What rounding leaves where no copy runs is nothing.
    total[total < 1e-9 * np.max(total, initial=0.0)] = 0.0
    return times[order], total


def _rate(work: Work) -> Floats:
    """Give bandwidth in bytes per second: as reported, else bytes over duration."""
    reported = work.number("bandwidth") * 1e9
    lasting = (work.end - work.start).astype(float)
    with np.errstate(divide="ignore", invalid="ignore"):
        own = np.where(lasting > 0, work.number("bytes") / lasting * 1e9, np.nan)
    return np.where(np.isnan(reported) | (reported < 0), own, reported)


def fastest(work: Work) -> float | None:
    """Give the highest bandwidth that a copy inside the device reached, in bytes per second.

    Only copies of 1 MB and more that last 5 µs and more: shorter ones say nothing.
    """
    inside = np.array([classify(name)[0] == "DtoD" for name in work.names] or [False])
    rows = (work.kind == COPY) & inside[work.name]
    rows &= (work.number("bytes") >= 1e6) & (work.end - work.start >= 5000)
    rate = _rate(work)[rows]
    rate = rate[~np.isnan(rate)]
    return float(rate.max()) if len(rate) else None


def transfers(work: Work) -> dict[str, Any]:
    """Describe all copies and fills of one device.

    Returns
    -------
    dict
        ``count``, ``unknown`` (of unknown kind), ``host_bytes`` (to and from the host),
        ``classes`` (by kind, memory and mode: count, bytes, seconds, bandwidths in bytes a
        second) and ``series`` (kind → at most 60 pairs of seconds from the device's first copy
        and bytes a second moved in that bin).
    """
    mine = work.take(work.kind == COPY)
    kinds = [classify(name) for name in work.names]
    modes = [call_mode(name) for name in work.names]
    rate = _rate(mine)
    size = mine.number("bytes")
    groups: dict[tuple[str, str, str], list[int]] = {}
    for row, (name, call) in enumerate(zip(mine.name.tolist(), mine.call.tolist(), strict=True)):
        mode = modes[call] if call >= 0 else "unknown"
        groups.setdefault((*kinds[name], mode), []).append(row)
    classes = []
    for (kind, memory, mode), rows in sorted(groups.items()):
        classes.append(
            {
                "kind": kind,
                "memory": memory,
                "mode": mode,
                "path": _PATHS.get(kind, "unknown"),
                "count": len(rows),
                **_amounts(mine, size[rows], rate[rows], rows),
            }
        )
    return {
        "count": len(mine),
        "unknown": sum(row["count"] for row in classes if row["kind"] == "unknown"),
        "host_bytes": sum(row["bytes"] or 0 for row in classes if row["path"] == "host"),
        "classes": classes,
        "series": _series(mine, [kinds[name][0] for name in mine.name.tolist()], size),
    }


def _amounts(mine: Work, size: Floats, rate: Floats, rows: list[int]) -> dict[str, Any]:
    known = ~np.isnan(size)
    lasting = (mine.end[rows] - mine.start[rows]).astype(float)
    moved = float(size[known].sum())
    took = float(lasting[known].sum())
    best = rate[~np.isnan(rate)]
    return {
        "bytes": round(moved) if known.any() else None,
        "bytes_known": int(known.sum()),
        "total_s": seconds(float(lasting.sum())),
        "mean_bytes_per_s": round(moved / took * 1e9) if took > 0 and known.any() else None,
        "max_bytes_per_s": round(float(best.max())) if len(best) else None,
    }


def _series(mine: Work, kinds: list[str], size: Floats) -> dict[str, list[list[float]]]:
    """Spread the bytes of each copy over the bins in which it ran."""
    if not len(mine):
        return {}
    low = int(mine.start.min())
    width = max(1000, -(-(int(mine.end.max()) - low + 1) // _SERIES))
    labels = np.array(kinds)
    made = {}
    for kind in sorted(set(kinds)):
        rows = (labels == kind) & ~np.isnan(size)
        begin = (mine.start[rows] - low) / width
        finish = np.maximum((mine.end[rows] - low) / width, begin + 1e-9)
        # The integral of a ramp at the bins' edges; its differences are the bytes of each bin.
        done = np.zeros(_SERIES + 1)
        for edge in range(_SERIES + 1):
            part = np.clip((edge - begin) / (finish - begin), 0.0, 1.0)
            done[edge] = float((part * size[rows]).sum())
        moved = np.diff(done)
        made[kind] = [
            [round(bin * width / 1e9, 6), round(float(moved[bin]) / width * 1e9)]
            for bin in np.flatnonzero(moved > 0.5).tolist()
        ]
    return made
