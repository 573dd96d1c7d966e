"""Traces of PyTorch's profiler (Kineto): GPU kernels, copies and what the host did meanwhile.

The format is Chrome's Trace Event JSON with PyTorch's categories and arguments; see
https://github.com/pytorch/kineto (libkineto/src/output_json.cpp, ActivityType.cpp) and
https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU (the container).
Times are microseconds: since the epoch, or since ``baseTimeNanoseconds``.
"""

from __future__ import annotations

import re
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import numpy as np

from rotameter.adapters.importers._kineto_columns import Columns, read_columns
from rotameter.adapters.importers._kineto_links import Linked, link
from rotameter.adapters.importers._kineto_rows import add_rows
from rotameter.adapters.importers._kineto_scan import Events
from rotameter.adapters.importers.building import Builder
from rotameter.errors import BadInput
from rotameter.profiler.devices import NO_ACTIVITY, analyse, smaller
from rotameter.profiler.live.redact import redact
from rotameter.units import many

if TYPE_CHECKING:
    from rotameter.adapters.importers.inputs import InputFile
    from rotameter.values import Head

__all__ = ["Importer"]

_NAME_LIMIT = 2000
_FILES_TOLD = 200
_RANKS_IN_FULL = 16
_EPOCH_FROM_NS = 10**18  # September 2001: a smaller time counts from somewhere else
_OWN_CATEGORIES = re.compile(
    r'"cat"\s*:\s*"(?:cpu_op|(?:gpu_)?user_annotation|cuda_(?:runtime|driver|profiler_range)'
    r"|gpu_mem(?:cpy|set)|cpu_instant_event|python_function|xpu_runtime|mtia_\w+"
    r'|privateuse1_\w+|glow_runtime|hpu_op|ac2g|async_cpu_to_gpu)"'
)
_OLD_CATEGORIES = re.compile(r'"cat"\s*:\s*"(?:Kernel|Runtime|Operator|Memcpy|Memset|kernel)"')
_OWN_ARGUMENTS = re.compile(r'"(?:correlation|[Ee]xternal id|est\. achieved occupancy %)"\s*:')
_FACTS = ("name", "totalGlobalMem", "computeMajor", "computeMinor", "numSms", "warpSize",
          "maxThreadsPerBlock", "maxThreadsPerMultiprocessor", "regsPerBlock",
          "regsPerMultiprocessor", "sharedMemPerBlock", "sharedMemPerMultiprocessor",
          "maxSharedMemoryPerMultiProcessor")  # fmt: skip


class Importer:
    """Reads Kineto traces; several files (ranks, cycles) become one trace."""

    name = "kineto"
    engine = "torch"
    options: frozenset[str] = frozenset()

    def __init__(self) -> None:
        self._taken: dict[str, int] = {}
        self._workers: dict[str, dict[str, Any]] = {}
        self._timelines: list[dict[str, Any]] = []
        self._files: list[dict[str, Any]] = []

    def sniff(self, head: Head) -> float:
        """Look for PyTorch's header entries, else for its categories."""
        text = head.text.lstrip()
        if not text.startswith(("{", "[")) or '"nodes"' in text[:2000]:
            return 0.0
        header = text.partition('"traceEvents"')[0]
        if '"schemaVersion"' in header and '"deviceProperties"' in header:
            return 0.95
        if '"ph"' not in text:
            return 0.0
        if '"schemaVersion"' in header or '"distributedInfo"' in header:
            return 0.95
        if _OWN_CATEGORIES.search(text):
            return 0.9
        return 0.9 if _OLD_CATEGORIES.search(text) and _OWN_ARGUMENTS.search(text) else 0.0

    def read(self, file: InputFile, build: Builder, **options: Any) -> None:
        """Read one file."""
        counts = {"unread": 0, "rejected": 0}

        def unread(line: int, reason: str) -> None:
            counts["unread"] += 1
            counts["rejected"] += 1
            build.reject(file.name, line, reason)

        def reject(_: int | None, reason: str) -> None:
            counts["rejected"] += 1
            build.reject(file.name, events.line, reason)

        events = Events(file, unread)
        columns = read_columns(events, reject)
        shown = 0
        try:
            shown = self._take(file, build, columns, events)
        finally:
            seen = columns.events + counts["unread"]
            build.records_in += seen
            build.records_out = (build.records_out or 0) + shown
            build.merged += seen - counts["rejected"] - shown
        if events.broken is not None:
            build.warn(f"{events.broken}: {many(columns.events, 'event')} before that kept")

    def finish(self, build: Builder) -> None:
        """Describe the workers, and say what the traces cannot tell."""
        for worker, about in self._workers.items():
            build.add("workers", {"worker": worker, "name": worker, **about})
        self._timelines.sort(key=lambda one: (one["rank"] is None, one["rank"] or 0, one["worker"]))
        if len(self._timelines) > _RANKS_IN_FULL:
            self._timelines = [smaller(one) for one in self._timelines]
        build.meta["device_timeline"] = {"schema": 1, "ranks": self._timelines}
        build.meta["kineto"] = {"files": self._files[:_FILES_TOLD]}
        worlds = {one["world_size"] for one in self._files if one["world_size"]}
        if len(worlds) == 1:
            build.meta["scale"] = {"world_size": worlds.pop()}
        if any(one["utilisation"] is None and not one["devices"] for one in self._timelines):
            build.not_measured(f"GPU utilisation: {NO_ACTIVITY}")
        if any(one["rank"] is None for one in self._timelines):
            build.not_measured("rank: the trace has no distributedInfo")
        build.not_measured("host memory, CPU time and dependencies: the format has none")

    # -- one file -----------------------------------------------------------------------------

    def _take(self, file: InputFile, build: Builder, columns: Columns, events: Events) -> int:
        header = events.header
        if not columns.kept:
            if not {"schemaVersion", "deviceProperties", "distributedInfo"} & header.keys():
                raise BadInput(
                    f"{file.name} holds no event of the PyTorch profiler",
                    hint="other Chrome traces: --format chrome_trace",
                )
            build.warn(f"{file.name}: no events recorded")
            return 0
        if columns.foreign:
            build.warn(
                f"{file.name}: {columns.foreign:,} begin, end and counter events are not of the "
                "PyTorch profiler and are passed over"
            )
        names = tuple(redact(name[:_NAME_LIMIT]) for name in columns.names)
        linked = link(columns, names, base := _base_ns(header))
        start, end = _edges(linked)
        if start < _EPOCH_FROM_NS:
            build.local = True
        rank, world = _rank(header)
        devices = _properties(header)
        worker = self._worker(rank, linked, (start, end), file)
        shown = add_rows(
            build, linked, columns.memory(), worker, self.name, self._taken, base
        )  # fmt: skip
        used = [int(number) for number in np.unique(linked.work.device)]
        self._note_worker(worker, linked, (start, end), used, devices)
        steps = linked.tasks if linked.stepped else linked.tasks[:0]
        spans = linked.rows["start"][steps], linked.rows["end"][steps]
        self._timelines.append(
            {
                "worker": worker,
                "rank": rank,
                "file": PurePath(file.name).name,
                **analyse(linked.work, linked.host, spans, devices, _run(linked)),
            }
        )
        self._files.append(_about(file, header, columns, worker, rank, world, devices))
        if columns.categories.get("cuda_profiler_range"):
            build.not_measured("hardware counters of cuda_profiler_range events: they are not read")
        return shown

    def _worker(
        self, rank: int | None, linked: Linked, span: tuple[int, int], file: InputFile
    ) -> str:
        """Name the process; two that ran at the same time are two."""
        process = _process(linked)
        if rank is not None:
            name = f"rank {rank}"
        else:
            name = f"process {process}" if process else redact(file.stem)[:100]
        wanted, number = name, 1
        while name in self._workers:
            about = self._workers[name]
            if span[0] >= about["ended_ns"] or span[1] <= about["started_ns"]:
                break
            number += 1
            name = f"{wanted} ({number})"
        return name

    def _note_worker(
        self, worker: str, linked: Linked, span: tuple[int, int], used: list[int],
        devices: dict[int, dict[str, Any]],
    ) -> None:  # fmt: skip
        about = self._workers.setdefault(worker, {"started_ns": span[0], "ended_ns": span[1]})
        about["started_ns"] = min(about["started_ns"], span[0])
        about["ended_ns"] = max(about["ended_ns"], span[1])
        process = _process(linked)
        if process and process.isdigit() and len(process) < 16:
            about["pid"] = int(process)
        if used:
            about["devices"] = ", ".join(
                f"device {number} ({devices[number]['name']})"
                if devices.get(number, {}).get("name")
                else f"device {number}"
                for number in used[:64]
            )


def _base_ns(header: dict[str, Any]) -> int:
    value = header.get("baseTimeNanoseconds")
    return value if isinstance(value, int) and 0 < value < 1 << 61 else 0


def _edges(linked: Linked) -> tuple[int, int]:
    parts = (linked.rows["start"], linked.rows["end"], linked.work.start, linked.work.end)
    known = [part for part in parts if len(part)]
    return min(int(part.min()) for part in known), max(int(part.max()) for part in known)


def _run(linked: Linked) -> tuple[int, int] | None:
    """Give from when to when tasks ran; None where the whole process is the only one."""
    if not len(linked.tasks):
        return None
    rows, tasks = linked.rows, linked.tasks
    return int(rows["start"][tasks].min()), int(rows["end"][tasks].max())


def _process(linked: Linked) -> str:
    """Give the process that most host events name."""
    if not len(linked.rows["thread"]):
        return ""
    counts = np.bincount(linked.rows["thread"], minlength=len(linked.threads))
    totals: dict[str, int] = {}
    for (process, _), count in zip(linked.threads, counts.tolist(), strict=True):
        totals[process] = totals.get(process, 0) + count
    return redact(max(totals, key=lambda process: totals[process]))[:100]


def _whole(value: Any) -> int | None:
    return value if value.__class__ is int and 0 <= value < 1 << 40 else None


def _rank(header: dict[str, Any]) -> tuple[int | None, int | None]:
    about = header.get("distributedInfo")
    if not isinstance(about, dict):
        return None, None
    return _whole(about.get("rank")), _whole(about.get("world_size"))


def _properties(header: dict[str, Any]) -> dict[int, dict[str, Any]]:
    """Give the known facts of each device, by its number."""
    made: dict[int, dict[str, Any]] = {}
    listed = header.get("deviceProperties")
    for one in listed[:256] if isinstance(listed, list) else ():
        number = _whole(one.get("id")) if isinstance(one, dict) else None
        if number is not None:
            facts = {key: one[key] for key in _FACTS if isinstance(one.get(key), (int, str))}
            made[number] = {
                key: redact(value)[:100] if isinstance(value, str) else min(value, 1 << 60)
                for key, value in facts.items()
                if isinstance(value, str) or value > 0
            }
    return made


def _about(
    file: InputFile, header: dict[str, Any], columns: Columns, worker: str, rank: int | None,
    world: int | None, devices: dict[int, dict[str, Any]],
) -> dict[str, Any]:  # fmt: skip
    """Say what is known of a file, without paths, users and hosts."""
    about = header.get("distributedInfo")
    backend = about.get("backend") if isinstance(about, dict) else None
    used = set(np.unique(columns.device()["device"]).tolist())
    return {
        "file": PurePath(file.name).name,
        "worker": worker,
        "rank": rank,
        "world_size": world,
        "backend": backend[:40] if isinstance(backend, str) else None,
        "schema_version": _whole(header.get("schemaVersion")),
        "devices": {str(k): v for k, v in devices.items() if not used or k in used},
        "events": {k[:40]: n for k, n in sorted(columns.categories.items())[:40]},
    }
