"""The rows of a trace that one Kineto file gives."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rotameter.adapters.importers._kineto_links import STEP, Linked, within
from rotameter.adapters.importers.building import Builder
from rotameter.profiler.devices import COMMUNICATION, COMPUTE, COPY
from rotameter.profiler.devices.timeline import Ints, grouped_length, groups_of, length, union
from rotameter.profiler.devices.transfers import classify

__all__ = ["add_rows", "unique_ids"]

_KINDS = {COMPUTE: "kernel", COMMUNICATION: "communication", COPY: "transfer"}
_PEERS = {"HtoD": "host", "DtoH": "host", "PtoP": "another device"}
_OPS = {"HtoD": "write", "DtoH": "read", "memset": "write"}


def unique_ids(wanted: list[str], taken: dict[str, int]) -> list[str]:
    """Give each name once; a repeated one gets a number.

    Examples
    --------
    >>> unique_ids(["a", "a"], {})
    ['a', 'a (2)']
    """
    made = []
    for name in wanted:
        taken[name] = count = taken.get(name, 0) + 1
        made.append(name if count == 1 else f"{name} ({count})")
    return made


def add_rows(
    build: Builder, linked: Linked, memory: dict[str, NDArray[Any]], worker: str, source: str,
    taken: dict[str, int], base_ns: int,
) -> int:  # fmt: skip
    """Add a file's tasks, intervals, flows and samples; give how many records became rows."""
    rows, work = linked.rows, linked.work
    memory = {**memory, "at": memory["at"] + base_ns}
    by = linked.launched_by
    thread = np.where(by >= 0, rows["thread"][by] if len(rows["thread"]) else -1, -1)
    task_of = within(linked, work.launch, thread)
    if len(linked.tasks):
        labels = [linked.names[code] for code in rows["name"][linked.tasks].tolist()]
        ids = unique_ids([f"{worker}/{label}" for label in labels], taken)
        spans = rows["start"][linked.tasks], rows["end"][linked.tasks]
        groups = [STEP if label.startswith(STEP) else label.split("#")[0] for label in labels]
    else:
        task_of = np.zeros(len(work), dtype=np.int64)
        ids = unique_ids([worker], taken)
        edges = np.concatenate((rows["start"], rows["end"], work.start, work.end))
        spans = edges.min(keepdims=True), edges.max(keepdims=True)
        groups = ["process"]
    _add_tasks(build, ids, groups, spans, linked, task_of, memory, worker, source)
    _add_flows(build, ids, linked, task_of, worker)
    _add_memory(build, memory, worker)
    shown = _add_work(build, ids, linked, task_of, worker)
    shown += _add_host(build, ids, linked, worker)
    return shown + len(linked.tasks)


def _add_tasks(
    build: Builder, ids: list[str], groups: list[str], spans: tuple[Ints, Ints], linked: Linked,
    task_of: Ints, memory: dict[str, NDArray[Any]], worker: str, source: str,
) -> None:  # fmt: skip
    count, work = len(ids), linked.work
    devices, number = np.unique(work.device, return_inverse=True)
    mine = task_of >= 0
    group = task_of[mine] * max(len(devices), 1) + number[mine]
    total = grouped_length(group, work.start[mine], work.end[mine], count * max(len(devices), 1))
    busy = total.reshape(count, -1).sum(axis=1) / 1e9
    known = len(work) > 0
    build.extend(
        "tasks",
        {
            "task_id": ids,
            "group": groups,
            "worker": [worker] * count,
            "started_ns": spans[0],
            "ended_ns": spans[1],
            "wall_s": (spans[1] - spans[0]) / 1e9,
            # No device event at all: nothing was measured there, which is not zero.
            "gpu_s": busy if known else [None] * count,
            "gpu_peak_bytes": (peaks := _peaks(spans, memory)),
            # The allocator's own; what libraries take beside it is not in it.
            "gpu_kind": [None if peak is None else "lower_bound" for peak in peaks],
            "outcome": ["ok"] * count,
            "outcome_kind": ["inferred"] * count,
            "source": [source] * count,
        },
    )


def _peaks(spans: tuple[Ints, Ints], memory: dict[str, NDArray[Any]]) -> list[int | None]:
    """Give the most that the allocator held on one device during each task."""
    rows = np.flatnonzero((memory["device"] >= 0) & (memory["allocated"] >= 0))
    order = rows[np.argsort(memory["at"][rows], kind="stable")]
    at, held = memory["at"][order], memory["allocated"][order]
    first, last = np.searchsorted(at, spans[0]), np.searchsorted(at, spans[1], side="right")
    return [
        int(held[a:b].max()) if b > a else None
        for a, b in zip(first.tolist(), last.tolist(), strict=True)
    ]


def _of(ids: list[str], task_of: Ints) -> list[str | None]:
    with_none: list[str | None] = [*ids, None]
    return [with_none[task] for task in task_of.tolist()]


def _add_work(build: Builder, ids: list[str], linked: Linked, task_of: Ints, worker: str) -> int:
    work, rows = linked.work, linked.rows
    parents = _parents(linked)
    kinds = [classify(name)[0] for name in linked.names]
    lanes: dict[tuple[int, int], str] = {}
    where = list(zip(work.device.tolist(), work.stream.tolist(), strict=True))
    for device, stream in set(where):
        lanes[device, stream] = f"device {_label(device)} stream {_label(stream)}"
    build.extend(
        "intervals",
        {
            "task_id": _of(ids, task_of),
            "worker": [worker] * len(work),
            "lane": [lanes[place] for place in where],
            "kind": [_KINDS[kind] for kind in work.kind.tolist()],
            "name": [linked.names[code] for code in work.name.tolist()],
            "start_ns": work.start,
            "end_ns": work.end,
            "bytes": work.number("bytes"),
            "peer": [
                _PEERS.get(kinds[code]) if kind == COPY else None
                for code, kind in zip(work.name.tolist(), work.kind.tolist(), strict=True)
            ],
            "parent": [
                linked.names[rows["name"][parent]] if parent >= 0 else None
                for parent in parents.tolist()
            ],
        },
    )
    return len(work)


def _label(number: int) -> str:
    return "unknown" if number < 0 else str(number)


def _parents(linked: Linked) -> Ints:
    """Give the outermost host row around each launch."""
    rows, tops, by = linked.rows, linked.tops, linked.launched_by
    made = np.full(len(by), -1, dtype=np.int64)
    known = np.flatnonzero(by >= 0)
    if not len(tops) or not len(known):
        return made
    order = tops[np.lexsort((rows["start"][tops], rows["thread"][tops]))]
    at, of = rows["start"][by[known]], rows["thread"][by[known]]
    of_thread = {thread: order[own] for thread, own in groups_of(rows["thread"][order])}
    for thread, here in groups_of(of):
        mine = of_thread.get(thread)
        if mine is None:
            continue
        place = np.searchsorted(rows["start"][mine], at[here], side="right") - 1
        top = mine[np.maximum(place, 0)]
        inside = (place >= 0) & (at[here] <= rows["end"][top])
        made[known[here[inside]]] = top[inside]
    return made


def _add_host(build: Builder, ids: list[str], linked: Linked, worker: str) -> int:
    rows, tops = linked.rows, linked.tops
    start, thread = rows["start"][tops], rows["thread"][tops]
    task_of = within(linked, start, thread) if len(linked.tasks) else np.zeros_like(tops)
    lanes = [f"thread {tid}" for _, tid in linked.threads]
    build.extend(
        "intervals",
        {
            "task_id": _of(ids, task_of),
            "worker": [worker] * len(tops),
            "lane": [lanes[number] for number in thread.tolist()],
            "kind": ["span"] * len(tops),
            "name": [linked.names[code] for code in rows["name"][tops].tolist()],
            "start_ns": start,
            "end_ns": rows["end"][tops],
        },
    )
    return len(tops)


def _add_flows(build: Builder, ids: list[str], linked: Linked, task_of: Ints, worker: str) -> None:
    """Add up the copies between host and device, by task and way."""
    work = linked.work
    found = [classify(name) for name in linked.names]
    groups: dict[tuple[int, int, str, str], list[int]] = {}
    for row in np.flatnonzero(work.kind == COPY).tolist():
        kind, memory = found[work.name[row]]
        if kind in ("HtoD", "DtoH"):
            key = (int(task_of[row]), int(work.device[row]), kind, memory)
            groups.setdefault(key, []).append(row)
    size = work.number("bytes")
    with_none: list[str | None] = [*ids, None]
    for (task, device, kind, memory), mine in sorted(groups.items()):
        known = size[mine][~np.isnan(size[mine])]
        build.add(
            "flows",
            {
                "task_id": with_none[task],
                "worker": worker,
                "object": f"device {_label(device)}",
                "medium": "device",
                "op": _OPS[kind],
                "bytes": round(float(known.sum())) if len(known) else None,
                "ops": len(mine),
                "first_ns": int(work.start[mine].min()),
                "last_ns": int(work.end[mine].max()),
                "busy_s": length(union(work.start[mine], work.end[mine])) / 1e9,
                "tier": memory,
                "peer": "host",
            },
        )


def _add_memory(build: Builder, memory: dict[str, NDArray[Any]], worker: str) -> None:
    for metric in ("allocated", "reserved"):
        rows = np.flatnonzero(memory[metric] >= 0)
        subjects = [
            f"{worker} host" if device < 0 else f"{worker} device {device}"
            for device in memory["device"][rows].tolist()
        ]
        build.extend(
            "samples",
            {
                "at_ns": memory["at"][rows],
                "subject": subjects,
                "metric": [f"allocator_{metric}_bytes"] * len(rows),
                "value": memory[metric][rows].astype(float),
                "quality": ["exact"] * len(rows),
            },
        )
