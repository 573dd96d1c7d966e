"""The GPU timeline of a report: where each device's time went, its kernels, copies and queues."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from rotameter.profiler.gpu import (
    NO_ACTIVITY,
    device_rows,
    divided,
    gpu_sentence,
    listed,
    mapping,
    number,
    ranks,
    text,
)
from rotameter.viz.formats import clip

if TYPE_CHECKING:
    from rotameter.profiler.trace import Trace

__all__ = ["PARTS", "GpuSection", "devices", "gpu_section"]

PARTS = (
    ("compute", "computing"),
    ("overlap", "computing and communicating at once"),
    ("exposed", "communication, nothing computed"),
    ("copy", "copies alone"),
    ("host", "idle: waiting for the host"),
    ("launch", "idle: between launches"),
    ("other", "idle: waiting for other work"),
)
"""The parts of a device's window, which add up to it, with their names."""

BARS_LIMIT = 64
DETAILS_LIMIT = 24
KERNELS_LIMIT = 25
QUEUES_LIMIT = 4
_WIDTH = 1_000
_FEWEST_PARTS = 40
_CAUSES = {"host": "host_wait_s", "launch": "kernel_wait_s", "other": "other_s"}
_KERNEL = ("total_s", "mean_s", "min_s", "max_s", "share")
_TRANSFER = ("total_s", "mean_bytes_per_s", "max_bytes_per_s")


def _count(value: Any) -> int | None:
    found = number(value)
    return None if found is None else int(found)


def _name(value: Any, limit: int = 200) -> str | None:
    found = text(value, 4_000)
    return None if found is None else clip(found, limit)


def _parts(row: Mapping[str, Any], device: Mapping[str, Any]) -> dict[str, float | None]:
    """Divide the window of a device without overlaps."""
    if row["window_s"] is None:
        return {name: None for name, _ in PARTS}
    sums = {"compute": 0.0, "overlap": 0.0, "exposed": 0.0, "copy": 0.0}
    exactly = mapping(divided(device, "whole").get("exactly_s"))
    for label, amount in exactly.items():
        kinds = set(str(label).split("+"))
        both = {"compute", "communication"} <= kinds
        one = "compute" if "compute" in kinds else "exposed"
        where = "overlap" if both else "copy" if kinds == {"copy"} else one
        sums[where] += number(amount) or 0.0
    made = {name: round(amount, 9) for name, amount in sums.items()}
    return made | {name: row[cause] for name, cause in _CAUSES.items()}


def _kernels(device: Mapping[str, Any]) -> dict[str, Any]:
    found = mapping(device.get("kernels"))
    rows = [one for one in listed(found.get("top")) if isinstance(one, dict)]
    limited = mapping(found.get("limited"))
    return {
        "count": _count(found.get("count")),
        "different": _count(found.get("different")),
        "limited": {clip(k, 40): number(v) for k, v in list(limited.items())[:20]},
        "top": [
            {
                "name": _name(one.get("name")),
                "count": _count(one.get("count")),
                **{key: number(one.get(key)) for key in _KERNEL},
                "limiter": _name(one.get("limiter"), 40),
                "why": _name(one.get("why")),
                "occupancy_percent": number(one.get("occupancy")),
                "occupancy_limit": _name(one.get("occupancy_limit"), 60),
                "host_wait_s": number(one.get("host_wait_s")),
            }
            for one in rows[:100]
        ],
    }


def _transfers(device: Mapping[str, Any]) -> list[dict[str, Any]]:
    rows = listed(mapping(device.get("transfers")).get("classes"))
    return [
        {
            **{key: _name(one.get(key), 40) for key in ("kind", "memory", "mode", "path")},
            **{key: _count(one.get(key)) for key in ("count", "bytes", "bytes_known")},
            **{key: number(one.get(key)) for key in _TRANSFER},
        }
        for one in rows[:100]
        if isinstance(one, dict)
    ]


def _streams(device: Mapping[str, Any]) -> list[dict[str, Any]]:
    made = []
    for one in listed(device.get("streams"))[:32]:
        if not isinstance(one, dict):
            continue
        queue = mapping(one.get("queue"))
        series = [
            [number(point[0]), number(point[1])]
            for point in listed(queue.get("series"))[:500]
            if isinstance(point, list) and len(point) == 2
        ]
        made.append(
            {
                "stream": text(one.get("stream"), 40),
                "count": _count(one.get("count")),
                **{key: number(one.get(key)) for key in ("idle_s", *_CAUSES.values())},
                "queue_mean": number(queue.get("time_mean")),
                "queue_max": _count(queue.get("max")),
                "queue_full_s": number(queue.get("full_s")),
                "queue": [point for point in series if None not in point],
            }
        )
    return made


def devices(trace: Trace) -> list[dict[str, Any]]:
    """Give the facts of each device, the one that idled longest first.

    Returns
    -------
    list of dict
        Empty where the trace has no device timeline. A rank without any device has one row, with
        ``device`` None and ``words`` saying so. ``parts`` add up to ``window_s``. Kernels and
        streams are of the work that ``stepped`` counts, where there is such.

    Examples
    --------
    >>> from rotameter.profiler.trace import Trace
    >>> meta = {"device_timeline": {"ranks": [{"worker": "rank 0", "devices": []}]}}
    >>> devices(Trace.from_tables({}, meta))[0]["words"]
    'no GPU activity recorded'
    """
    rows = device_rows(trace.meta)
    found: list[Mapping[str, Any]] = []
    for rank in ranks(trace.meta):
        own = [one for one in listed(rank.get("devices")) if isinstance(one, dict)]
        found += own or [{}]
    made = []
    for row, device in zip(rows, found, strict=True):
        named = {key: _name(row[key], 100) for key in ("worker", "rank", "device", "name", "of")}
        stepped = row["stepped"]
        made.append(
            {
                **row,
                **named,
                "stepped": stepped and {**stepped, "of": _name(stepped["of"], 100)},
                "bound_by": _name(row["bound_by"], 40),
                "parts": _parts(row, device),
                "kernels": _kernels(device),
                "transfers": _transfers(device),
                "streams": _streams(device),
            }
        )
    return sorted(made, key=lambda one: -(one["idle_s"] or 0.0))


# -- the section ------------------------------------------------------------------------------


@dataclass
class GpuSection:
    """What the page shows of the devices.

    Attributes
    ----------
    sentence : str
    rows : list of dict
        Devices with a window: ``facts``, ``place``, ``segments`` (name, x, width; of 1,000) and
        ``queues`` (stream, path, top, to_s).
    silent : list of str
        Ranks that recorded no GPU activity.
    legend : list of (name, words)
        The parts that occur.
    """

    sentence: str
    rows: list[dict[str, Any]] = field(default_factory=list)
    silent: list[str] = field(default_factory=list)
    legend: list[tuple[str, str]] = field(default_factory=list)
    communicates: bool = False


def _place(one: Mapping[str, Any]) -> str:
    device = f"device {one['device']}" if one["device"] is not None else "device unknown"
    return f"{one['worker'] or 'rank unknown'} · {device}"


def _segments(one: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Lay the parts of a window side by side, of 1,000."""
    total = sum(one["parts"][name] or 0.0 for name, _ in PARTS)
    made, at = [], 0.0
    for name, words in PARTS:
        amount = one["parts"][name] or 0.0
        if amount <= 0 or total <= 0:
            continue
        width = _WIDTH * amount / total
        made.append(
            {
                "name": name,
                "words": words,
                "s": amount,
                "share": amount / total,
                "x": f"{at:.2f}",
                "width": f"{width:.2f}",
            }
        )
        at += width
    return made


def _queue(stream: Mapping[str, Any]) -> dict[str, Any] | None:
    """Draw the longest queue of each part of a stream's time as bars in a box of 1,000 by 100."""
    points = stream["queue"]
    top = max((length for _, length in points), default=0)
    if len(points) < 2 or top <= 0:
        return None
    points = sorted(points)
    gaps = [b - a for (a, _), (b, _) in pairwise(points) if b > a]
    if not gaps:
        return None
    # Parts are equally long; where none touches the next, their length is not known.
    step = min(*gaps, points[-1][0] / _FEWEST_PARTS, points[-1][0])
    last = points[-1][0] + step
    path = "".join(
        f"M{_WIDTH * at / last:.1f} 100V{100 - 100 * length / top:.4g}"
        f"H{_WIDTH * (at + step) / last:.1f}V100Z"
        for at, length in points
    )
    return {"stream": stream["stream"], "path": path, "top": top, "to_s": last}


def gpu_section(trace: Trace, found: list[dict[str, Any]]) -> GpuSection | None:
    """Lay out the devices that :func:`devices` gave; None where there are none.

    Examples
    --------
    >>> from rotameter.profiler.trace import Trace
    >>> gpu_section(Trace.from_tables({}), []) is None
    True
    """
    if not found:
        return None
    section = GpuSection(gpu_sentence(trace.meta) or NO_ACTIVITY)
    for one in found:
        if not one["window_s"]:
            section.silent.append(one["worker"] or "rank unknown")
            continue
        drawn = (_queue(stream) for stream in one["streams"][:QUEUES_LIMIT])
        queues = [queue for queue in drawn if queue is not None]
        section.rows.append(
            {
                "facts": one,
                "place": _place(one),
                "segments": _segments(one),
                "queues": queues,
            }
        )
    there = {segment["name"] for row in section.rows for segment in row["segments"]}
    section.legend = [(name, words) for name, words in PARTS if name in there]
    section.communicates = any(row["facts"]["communication_s"] for row in section.rows)
    return section
