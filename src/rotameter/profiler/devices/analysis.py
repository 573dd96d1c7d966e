"""The whole analysis of one process's devices, as data ready for JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

from rotameter.profiler.devices.bounds import fully_overlapped, host_activity
from rotameter.profiler.devices.breakdown import (
    breakdown,
    launched_in_steps,
    seconds,
    share,
    window_of,
)
from rotameter.profiler.devices.idle import device_idle, stream_idle
from rotameter.profiler.devices.kernels import kernels
from rotameter.profiler.devices.queue import queue_lengths
from rotameter.profiler.devices.timeline import Ints, groups_of, length, union
from rotameter.profiler.devices.transfers import transfers
from rotameter.profiler.devices.work import Host, Work

__all__ = ["NO_ACTIVITY", "analyse", "smaller"]

NO_ACTIVITY = "no GPU activity recorded"
_STREAMS_KEPT = 32
_DEVICES_KEPT = 64


def analyse(
    work: Work,
    host: Host,
    steps: tuple[Ints, Ints],
    properties: Mapping[int, Mapping[str, Any]],
    run: tuple[int, int] | None = None,
) -> dict[str, Any]:
    """Say where one process's device time went.

    Parameters
    ----------
    work : Work
    host : Host
    steps : tuple of ndarray of int64
        Starts and ends of the recorded steps, ns.
    properties : mapping of int to mapping
        Of each device, as the trace gives them.
    run : tuple of int, optional
        When the process's tasks ran, ns: ``in_run`` is of this time. Devices may work before and
        after.

    Returns
    -------
    dict
        ``utilisation``: busy time over window, of the devices together, None where none did
        anything, with ``words`` saying so; ``span_s``, from the first instant recorded of the
        process (an annotation's too) to the last; ``host``; ``devices``.
    """
    edges = [a for a in (work.start, work.end, host.start, host.end, host.noted) if len(a)]
    span = max(int(a.max()) for a in edges) - min(int(a.min()) for a in edges) if edges else 0
    devices = [
        _device(
            number,
            work.take(rows),
            host,
            steps,
            properties.get(number, {}),
            span,
            run,
        )
        for number, rows in islice(groups_of(work.device), _DEVICES_KEPT)
    ]
    window = sum(one["window_s"] for one in devices)
    return {
        "utilisation": share(sum(one["busy_s"] for one in devices), window),
        "words": _words(devices),
        "span_s": seconds(span),
        "steps": len(steps[0]),
        "host": host_activity(host),
        "devices": devices,
    }


def _device(
    number: int,
    work: Work,
    host: Host,
    steps: tuple[Ints, Ints],
    properties: Mapping[str, Any],
    span: int,
    run: tuple[int, int] | None,
) -> dict[str, Any]:
    busy = union(work.start, work.end)
    window = int(busy[1][-1] - busy[0][0])
    chosen = launched_in_steps(work, *steps)
    mine = work if chosen is None else work.take(chosen)
    counted = _divided(mine, host)
    whole = counted if len(mine) == len(work) else _divided(work, host)
    streams = stream_idle(mine)
    queues = {row.pop("stream"): row for row in queue_lengths(mine)}
    for row in streams:
        row["queue"] = queues[row["stream"]]
        row["stream"] = row["stream"] if row["stream"] >= 0 else None
    streams.sort(key=lambda row: -row["count"])
    return {
        "device": number if number >= 0 else None,
        "name": _text(properties.get("name")),
        "events": len(work),
        "busy_s": seconds(length(busy)),
        "window_s": seconds(window),
        "utilisation": share(length(busy), window),
        "utilisation_of_span": share(length(busy), span),
        "breakdown": {
            "of": "all device work" if chosen is None else "work launched in the recorded steps",
            "left_out": len(work) - len(mine),
            **counted,
        },
        "whole": whole,
        "in_run": _in_run(work, host, run, whole),
        "streams": streams[:_STREAMS_KEPT],
        "streams_left_out": max(0, len(streams) - _STREAMS_KEPT),
        "kernels": kernels(mine, properties),
        "transfers": transfers(work),
    }


def _divided(work: Work, host: Host, limits: tuple[int, int] | None = None) -> dict[str, Any]:
    """Divide a device's time, say why it was idle, and how little it could take."""
    parts = breakdown(work, limits)
    active = host_activity(host, window_of(work, limits))
    return {
        **parts,
        "idle_causes": device_idle(work, limits),
        "host": active,
        "fully_overlapped": fully_overlapped(parts, active["busiest_s"]),
    }


def _in_run(
    work: Work, host: Host, run: tuple[int, int] | None, whole: dict[str, Any]
) -> dict[str, Any] | None:
    """Divide what of a device's time lies in the run; None where it worked before or after only."""
    if run is None or window_of(work) == window_of(work, run):
        return whole
    low, high = window_of(work, run)
    return _divided(work, host, run) if high > low else None


def smaller(one: dict[str, Any], kernels_kept: int = 10) -> dict[str, Any]:
    """Give an analysis without its series and with fewer kernels, where there are many of them."""
    devices = [
        {
            **device,
            "streams": [
                {**row, "queue": {**row["queue"], "series": []}} for row in device["streams"]
            ],
            "kernels": {**device["kernels"], "top": device["kernels"]["top"][:kernels_kept]},
            "transfers": {**device["transfers"], "series": {}},
        }
        for device in one["devices"]
    ]
    return {**one, "devices": devices}


def _text(value: Any) -> str | None:
    return value[:100] if isinstance(value, str) and value else None


def _words(devices: Sequence[Mapping[str, Any]]) -> str:
    """Say in one sentence what the devices did."""
    if not devices:
        return NO_ACTIVITY
    worst = max(devices, key=lambda one: one["whole"]["idle_s"])
    parts = worst["whole"]
    shares = parts["shares"]
    if shares["idle"] is None:
        return f"device {worst['device']}: its work lasts no measurable time"
    said = (
        f"device {worst['device']}: busy {100 * shares['busy']:.1f} % of {parts['window_s']:.3g} s"
    )
    said += f", computing {100 * shares['compute']:.1f} %"
    if parts["communication_s"]:
        said += f", communication not hidden {100 * shares['exposed_communication']:.1f} %"
    causes = parts["idle_causes"]
    if parts["idle_s"] and shares["idle"] >= 0.1:
        cause = max(("host_wait", "kernel_wait", "other"), key=lambda name: causes[f"{name}_s"])
        plain = {
            "host_wait": "waiting for the host",
            "kernel_wait": "short gaps between launches",
            "other": "waiting for other work",
        }[cause]
        said += f"; idle mostly {plain}"
    return said
