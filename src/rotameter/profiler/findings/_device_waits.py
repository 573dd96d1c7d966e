"""What each device waited for, from the intervals on it and on its host's threads.

A gap in computing is put down by what went on during it:

* communication, as far as a message was under way that had ended when computing went on. Work that
  begins while a message is still under way did not wait for it.
* input, as far as the host waited for its data loader;
* copies between host and device;
* the host, for the rest, as far as the profile says that the work that ends gaps was launched late.

Only what lies in the run counts, from the worker's first task to its last: what a device did or
waited for before and after makes no run shorter.

Idle causes and exposed communication as in Holistic Trace Analysis; the rule about messages that
outlast a gap keeps a slow host from being taken for slow communication.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rotameter.profiler.devices.timeline import (
    clip,
    intersect,
    length,
    subtract,
    union,
)
from rotameter.profiler.gpu import divided, listed, mapping, number, ranks
from rotameter.profiler.view import encode

if TYPE_CHECKING:
    from rotameter.profiler.devices.timeline import Ints, Spans
    from rotameter.profiler.view import View

__all__ = ["DeviceWaits", "device_waits"]

LOADER = re.compile(
    r"dataloader|data_loader|__next__|next_data|next_batch|get_batch|load_batch|fetch_batch"
    r"|iteratorgetnext|input_pipeline",
    re.IGNORECASE,
)
"""Names of host spans in which a training loop waits for its next batch."""

RESUME_NS = 1_000_000
RESUME_RATIO = 0.2
"""Computing that waited for a message goes on this soon after it: what it takes to launch."""

_DEVICE = re.compile(r"^(device \S+)")


@dataclass(frozen=True, slots=True, eq=False)
class DeviceWaits:
    """Where one device's time went; seconds.

    Attributes
    ----------
    worker, device : str
    window_s : float
        From the first work or wait for input to the last work, in the run.
    compute_s : float
    input_s, communication_s, copy_s, host_s : float
        Gaps in computing, by cause.
    messages, kernels, loads : int
    message_s, kernel_s : float
        Mean of one.
    gaps : int
        How many gaps were the host's.
    late_ratio : float
        Part of idle time that ended with work launched late; 1 where the profile does not say.
    """

    worker: str
    device: str
    window_s: float
    compute_s: float
    input_s: float
    communication_s: float
    copy_s: float
    host_s: float
    messages: int
    kernels: int
    loads: int
    message_s: float
    kernel_s: float
    gaps: int
    late_ratio: float


def device_waits(seen: View) -> list[DeviceWaits]:
    """Give what every device waited for, in order of worker and device."""
    if "device_waits" not in seen.memo:
        seen.memo["device_waits"] = _device_waits(seen)
    made: list[DeviceWaits] = seen.memo["device_waits"]
    return made


def _device_waits(seen: View) -> list[DeviceWaits]:
    table = seen.table("intervals")
    kinds = pa.array(["kernel", "communication", "transfer", "span"], pa.string())
    placed = pc.and_(pc.is_valid(table["start_ns"]), pc.is_valid(table["end_ns"]))
    table = table.filter(pc.and_(pc.is_in(table["kind"], value_set=kinds), placed))
    table = table.filter(pc.greater_equal(table["end_ns"], table["start_ns"]))
    if not table.num_rows:
        return []
    kind, kind_names = encode(table["kind"])
    worker, workers = encode(table["worker"])
    lane, lanes = encode(table["lane"])
    name, names = encode(table["name"])
    start, end = (table[side].to_numpy().astype(np.int64) for side in ("start_ns", "end_ns"))
    devices = [m[1] if (m := _DEVICE.match(text)) else None for text in lanes] + [None]
    loads = np.array([bool(LOADER.search(text)) for text in names] + [False])[name]
    code = {text: number for number, text in enumerate(kind_names)}
    is_span = kind == code.get("span", -2)
    labels = sorted({one for one in devices if one is not None})
    device = np.array([labels.index(d) if d is not None else -1 for d in devices])[lane]
    late, steps, (whole, runs) = _late(seen.meta), _steps(seen), _runs(seen)
    found = []
    for who in range(len(workers)):
        here = worker == who
        loader = here & is_span & loads
        for what in np.unique(device[here & ~is_span & (device >= 0)]).tolist():
            mine = here & (device == what) & ~is_span
            parts = {
                text: union(start[mine & (kind == number)], end[mine & (kind == number)])
                for text, number in code.items()
                if text != "span"
            }
            run = runs.get(workers[who], whole)
            inside = (end >= run[0]) & (start <= run[1])
            own, loading = mine & inside, int((loader & inside).sum())
            counts = {text: int((own & (kind == number)).sum()) for text, number in code.items()}
            inputs = union(start[loader], end[loader])
            found.append(
                _one(
                    workers[who],
                    labels[what],
                    parts,
                    inputs,
                    steps.get(workers[who], _NONE),
                    run,
                    (counts.get("kernel", 0), counts.get("communication", 0), loading),
                    late.get((workers[who], labels[what].removeprefix("device ")), 1.0),
                )
            )
    return [one for one in found if one is not None]


_NONE = (np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))


def _one(
    worker: str,
    device: str,
    parts: dict[str, Spans],
    inputs: Spans,
    steps: Spans,
    run: tuple[int, int],
    counts: tuple[int, int, int],
    late: float,
) -> DeviceWaits | None:
    compute = parts.get("kernel", _NONE)
    messages, moved = parts.get("communication", _NONE), parts.get("transfer", _NONE)
    work = union(
        np.concatenate([compute[0], messages[0], moved[0]]),
        np.concatenate([compute[1], messages[1], moved[1]]),
    )
    if not len(compute[0]):
        return None
    low, high = int(work[0][0]), int(work[1][-1])
    if len(inputs[0]) and inputs[0][0] < low:
        # The first batch is waited for as well.
        low = int(max(inputs[0][0], low - (high - low)))
    gaps = _gaps(compute, low, high)
    ended = _over_by(messages, gaps, inputs)
    waits = {"communication": intersect(gaps, ended)}
    rest = subtract(gaps, messages)
    waits["copy"] = intersect(rest, moved)
    rest = subtract(rest, moved)
    waits["input"] = intersect(rest, clip(*inputs, low, high))
    # While a message is under way that outlasts the gap, computing waits for the host.
    own = subtract(gaps, union(*(np.concatenate(s) for s in zip(*waits.values(), strict=True))))
    # What a gap waits for may lie beyond the run's end, so that it is cut only now.
    low, high = max(low, run[0]), min(high, run[1])
    if high <= low:
        return None
    waits = {text: clip(*spans, low, high) for text, spans in waits.items()}
    own, compute, messages = (clip(*spans, low, high) for spans in (own, compute, messages))
    seconds = {text: length(spans) / 1e9 for text, spans in waits.items()}
    uncovered = _uncovered(compute, messages, waits["communication"], own, steps)
    kernels, sent, loads = counts
    return DeviceWaits(
        worker=worker,
        device=device,
        window_s=(high - low) / 1e9,
        compute_s=length(compute) / 1e9,
        input_s=seconds["input"],
        communication_s=seconds["communication"],
        copy_s=seconds["copy"],
        host_s=max(0.0, late * length(own) - uncovered) / 1e9,
        messages=sent,
        kernels=kernels,
        loads=loads,
        message_s=length(messages) / 1e9 / max(sent, 1),
        kernel_s=length(compute) / 1e9 / max(kernels, 1),
        gaps=len(own[0]),
        late_ratio=late,
    )


def _before(spans: Spans, at: Ints) -> Ints:
    """Give how much of disjoint spans lies before each instant."""
    if not len(spans[0]):
        return np.zeros(len(at), dtype=np.int64)
    total = np.concatenate(([0], np.cumsum(spans[1] - spans[0])))
    place = np.searchsorted(spans[0], at, side="right")
    inside = np.where(place > 0, spans[1][np.maximum(place - 1, 0)], at) - at
    return np.asarray(total[place] - np.maximum(inside, 0))


def _uncovered(compute: Spans, messages: Spans, waited: Spans, own: Spans, steps: Spans) -> float:
    """Give by how much messages would outlast the computing of their step without the host's gaps.

    A message that a slow host hides is no longer hidden when kernels follow each other at once.
    """
    if not len(steps[0]) or not len(messages[0]):
        return 0.0
    step = np.searchsorted(steps[0], messages[0], side="right") - 1
    inside = step >= 0
    step, begun = step[inside], messages[0][inside]
    took = (messages[1] - messages[0])[inside]
    left = _before(compute, steps[1][step]) - _before(compute, begun)
    over = np.bincount(step, np.maximum(took - left, 0), minlength=len(steps[0]))
    already = _before(waited, steps[1]) - _before(waited, steps[0])
    gaps = _before(own, steps[1]) - _before(own, steps[0])
    return float(np.minimum(np.maximum(over - already, 0), gaps).sum())


def _steps(seen: View) -> dict[str, Spans]:
    """Give the steps of each worker that follow each other: the tasks of a training loop."""
    made: dict[str, Spans] = {}
    start, end = (np.nan_to_num(side, nan=-1.0) for side in (seen.started, seen.ended))
    for code, name in enumerate(seen.workers):
        rows = np.flatnonzero(seen.ran & (seen.worker == code))
        rows = rows[np.argsort(start[rows], kind="stable")]
        low, high = (
            np.round(side[rows] * 1e9).astype(np.int64) + seen.origin_ns for side in (start, end)
        )
        if len(low) > 1 and (low[1:] >= high[:-1] - 1000).all():
            made[name] = (low, high)
    return made


def _runs(seen: View) -> tuple[tuple[int, int], dict[str, tuple[int, int]]]:
    """Give from when to when tasks ran, of all workers and of each: the run; ns.

    Without such times nothing limits it.
    """
    timed = seen.ran & ~np.isnan(seen.started) & ~np.isnan(seen.ended)
    start, end = (
        np.round(np.where(timed, side, 0.0) * 1e9).astype(np.int64) + seen.origin_ns
        for side in (seen.started, seen.ended)
    )
    made = {
        name: (int(start[rows].min()), int(end[rows].max()))
        for code, name in enumerate(seen.workers)
        if (rows := timed & (seen.worker == code)).any()
    }
    if not timed.any():
        return (-(1 << 62), 1 << 62), made
    return (int(start[timed].min()), int(end[timed].max())), made


def _gaps(compute: Spans, low: int, high: int) -> Spans:
    edges = np.array([low]), np.array([high])
    return subtract(edges, compute)


def _over_by(messages: Spans, gaps: Spans, inputs: Spans) -> Spans:
    """Give the part of each message that ended a gap: computing went on when it was over.

    One that spans several gaps counts in the last of them only, and only if what follows it in
    the gap (waiting for input set aside) is short: else it ended there by chance.
    """
    if not len(messages[0]) or not len(gaps[0]):
        return _NONE
    # The gap in which each message ends (-1: it ends while computing goes on).
    at = np.searchsorted(gaps[0], messages[1], side="left") - 1
    inside = (at >= 0) & (messages[1] <= gaps[1][np.maximum(at, 0)])
    low = np.maximum(messages[0], gaps[0][np.maximum(at, 0)])
    stop = gaps[1][np.maximum(at, 0)]
    after = stop - messages[1] - (_before(inputs, stop) - _before(inputs, messages[1]))
    inside &= after <= np.maximum(RESUME_NS, RESUME_RATIO * (messages[1] - low))
    return union(low[inside], messages[1][inside])


def _late(meta: dict[str, Any]) -> dict[tuple[str, str], float]:
    """Give the part of each device's idle time that ended with work launched late."""
    found: dict[tuple[str, str], float] = {}
    for rank in ranks(meta):
        for device in listed(rank.get("devices")):
            causes = mapping(divided(mapping(device), "in_run").get("idle_causes"))
            idle, late = number(causes.get("idle_s")), number(causes.get("host_wait_s"))
            if idle and late is not None:
                label = mapping(device).get("device")
                key = (str(rank.get("worker")), "unknown" if label is None else str(label))
                found[key] = min(1.0, late / idle)
    return found
