"""Who launched what in a Kineto trace: columns joined to work, host threads and steps."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rotameter.adapters.importers._kineto_columns import CALL, KERNEL, NOTE, OP, Columns
from rotameter.profiler.devices import COMMUNICATION, COMPUTE, COPY, NEVER, Host, Work
from rotameter.profiler.devices.timeline import Ints, groups_of, outermost

__all__ = ["Linked", "link", "within"]

STEP = "ProfilerStep"
_COMMUNICATES = re.compile(
    r"(?:void )?(?:nccl|rccl|msccl|hccl|oneccl|ccl_|nvshmem|deep_ep|.*cross_device_reduce)", re.I
)
_WAITS = re.compile(r"Synchronize|(?:cuda|hip)Memcpy(?!\w*Async)")
# What PyTorch itself annotates: no step or operator of the user's.
_AUTOMATIC = re.compile(
    r"(?:nccl|gloo|c10d|mpi|ucc|xccl|hccl|rccl)[:_]|Optimizer\.|enumerate\(DataLoader\)"
    r"|## Call CompiledFxGraph|TorchDynamo|Torch-Compiled|Pregraph bytecode|Compiled"
    r"|DistributedDataParallel|FullyShardedDataParallel|FSDP::|PyTorch Profiler"
)


@dataclass(frozen=True)
class Linked:
    """One file's work and threads, joined.

    Parameters
    ----------
    names, threads : tuple
    work : Work
    host : Host
        Operators and calls.
    rows : dict of str to ndarray
        All host rows, those of ``tops`` and ``tasks`` among them.
    tops : ndarray of int64
        Rows of ``rows`` that lie in no other of their thread, tasks aside.
    tasks : ndarray of int64
        Rows that are tasks, by start; empty where the whole process is one.
    stepped : bool
        Whether the tasks are profiler steps.
    launched_by : ndarray of int64
        For each row of ``work`` its call in ``rows``; -1 = not recorded.
    """

    names: tuple[str, ...]
    threads: tuple[tuple[str, str], ...]
    work: Work
    host: Host
    rows: dict[str, NDArray[Any]]
    tops: Ints
    tasks: Ints
    stepped: bool
    launched_by: Ints


def link(columns: Columns, names: tuple[str, ...], base_ns: int) -> Linked:
    """Join one file's columns; times get ``base_ns`` added."""
    rows, device = columns.host(), columns.device()
    for table in (rows, device):
        table["start"] = table["start"] + base_ns
        table["end"] = table["end"] + base_ns
    launched_by = _launches(rows, device["correlation"])
    tasks, stepped = _tasks(rows, names)
    is_task = np.zeros(len(rows["start"]), dtype=bool)
    is_task[tasks] = True
    others = np.flatnonzero(~is_task)
    top = outermost(rows["thread"][others], rows["start"][others], rows["end"][others])
    work = _work(rows, device, launched_by, names)
    real = np.flatnonzero(rows["kind"] != NOTE)
    waits = np.array([_WAITS.search(name) is not None for name in names] or [False])
    kind = rows["kind"][real]
    notes = np.flatnonzero(rows["kind"] == NOTE)
    noted = [rows["start"][notes].min(), rows["end"][notes].max()] if len(notes) else []
    host = Host(
        rows["start"][real],
        rows["end"][real],
        rows["thread"][real],
        kind == OP,
        (kind == CALL) & waits[rows["name"][real]],
        np.array(noted, dtype=np.int64),
    )
    threads = tuple(columns.threads)
    return Linked(names, threads, work, host, rows, others[top], tasks, stepped, launched_by)


def _launches(rows: dict[str, NDArray[Any]], wanted: Ints) -> Ints:
    """Find the call that launched each piece of work; the first where several share a number."""
    calls = np.flatnonzero((rows["kind"] == CALL) & (rows["correlation"] > 0))
    made = np.full(len(wanted), -1, dtype=np.int64)
    if not len(calls):
        return made
    calls = calls[np.lexsort((rows["start"][calls], rows["correlation"][calls]))]
    known = rows["correlation"][calls]
    at = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    found = (known[at] == wanted) & (wanted > 0)
    made[found] = calls[at[found]]
    return made


def _work(
    rows: dict[str, NDArray[Any]], device: dict[str, NDArray[Any]], by: Ints, names: tuple[str, ...]
) -> Work:
    talks = np.array([_COMMUNICATES.match(name) is not None for name in names] or [False])
    kind = np.where(device["kind"] == KERNEL, COMPUTE, COPY)
    kind[(device["kind"] == KERNEL) & talks[device["name"]]] = COMMUNICATION
    known = by >= 0
    launch = np.full(len(by), NEVER, dtype=np.int64)
    call = np.full(len(by), -1, dtype=np.int64)
    launch[known], call[known] = rows["start"][by[known]], rows["name"][by[known]]
    # ROCm tells the size of a copy in the call only.
    size = device["bytes"].copy()
    blank = known & np.isnan(size) & (kind == COPY)
    size[blank] = rows["size"][by[blank]]
    size[size < 0] = np.nan
    limits = ("bandwidth", "occupancy", "blocks_per_sm", "warps_per_sm", "registers")
    keys = (*limits, "shared_memory", "blocks", "threads")
    return Work(
        device["start"],
        device["end"],
        kind.astype(np.int64),
        device["name"],
        device["device"],
        device["stream"],
        launch,
        call,
        names,
        {"bytes": size, **{key: device[key] for key in keys}},
    )


def _tasks(rows: dict[str, NDArray[Any]], names: tuple[str, ...]) -> tuple[Ints, bool]:
    """Choose what a user would call a task: profiler steps, else outermost annotations."""
    is_step = np.array([name.startswith(STEP) for name in names] or [False])
    by_user = np.array([_AUTOMATIC.match(name) is None for name in names] or [False])
    steps = np.flatnonzero((rows["kind"] <= NOTE) & is_step[rows["name"]])
    stepped = len(steps) > 0
    if not stepped:
        notes = np.flatnonzero((rows["kind"] == NOTE) & by_user[rows["name"]])
        top = outermost(rows["thread"][notes], rows["start"][notes], rows["end"][notes])
        steps = notes[top]
    return steps[np.argsort(rows["start"][steps], kind="stable")], stepped


def within(linked: Linked, at: Ints, thread: Ints) -> Ints:
    """Give the task (an index into ``tasks``) that each moment belongs to; -1 = none.

    A moment on a thread that has tasks belongs to that thread's; on any other (autograd's) to
    the task that was on at that time, where only one can have been.
    """
    rows, tasks = linked.rows, linked.tasks
    made = np.full(len(at), -1, dtype=np.int64)
    if not len(tasks):
        return made
    start, end, owner = (rows[key][tasks] for key in ("start", "end", "thread"))
    clear = bool((start[1:] >= np.maximum.accumulate(end)[:-1]).all())
    moments = dict(groups_of(thread))
    for mine, own in groups_of(owner):
        if mine in moments:
            _assign(made, moments[mine], at, own, start, end)
    if clear:
        _assign(made, np.flatnonzero(made < 0), at, np.arange(len(tasks)), start, end)
    return made


def _assign(made: Ints, of: Ints, at: Ints, own: Ints, start: Ints, end: Ints) -> None:
    place = np.searchsorted(start[own], at[of], side="right") - 1
    task = own[np.maximum(place, 0)]
    inside = (place >= 0) & (at[of] < end[task])
    made[of[inside]] = task[inside]
