"""Nsight Systems, exported with ``nsys export --type sqlite``: ranges, kernels, copies, calls.

The tables: https://docs.nvidia.com/nsight-systems/UserGuide/index.html#sqlite-schema-reference
(they differ by version; tables of what was not traced are absent; times in ns since the session's
start). The database is opened read-only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rotameter.adapters.importers._chrome_slices import Slice, enclosing, nest
from rotameter.adapters.importers._nsys_read import (
    Operation,
    Session,
    process_of,
    read_session,
    thread_of,
)
from rotameter.adapters.importers._parsl_db import MAGIC, opened
from rotameter.adapters.importers.building import Builder
from rotameter.errors import BadInput

if TYPE_CHECKING:
    from rotameter.adapters.importers.inputs import InputFile
    from rotameter.values import Head

__all__ = ["Importer"]

_FILES_SAID = 20
_MARKS = (b"CUPTI_ACTIVITY_KIND_", b"NVTX_EVENTS", b"TARGET_INFO_", b"ANALYSIS_DETAILS")
_OPEN = "the range was not ended: closed at the end of the session"
_FAR_NS = 10**17
_REACH = 256
_WAITS = ("synchronize", "waitevent")
_WAYS = {"Host-to-Device": "write", "Device-to-Host": "read"}
_OTHER = ("OSRT_API", "SCHED_EVENTS", "COMPOSITE_EVENTS", "MPI_P2P_EVENTS", "CUDNN_EVENTS",
          "CUBLAS_EVENTS", "GPU_METRICS", "CUDA_GPU_MEMORY_USAGE_EVENTS")  # fmt: skip


class Importer:
    """Reads Nsight Systems SQLite exports."""

    name = "nsys"
    engine = "nsys"
    options: frozenset[str] = frozenset()

    def __init__(self) -> None:
        self._files = 0
        self._first = True

    def sniff(self, head: Head) -> float:
        """Look for a SQLite file whose schema names the tables of Nsight Systems."""
        if not head.data.startswith(MAGIC):
            return 0.0
        found = sum(mark in head.data for mark in _MARKS)
        strings = b"StringIds" in head.data
        return 0.95 if found and strings else 0.6 if found > 1 else 0.0

    def read(self, file: InputFile, build: Builder, **options: Any) -> None:
        """Read one export."""
        with opened(file) as base:
            known = {"StringIds", "NVTX_EVENTS", "ANALYSIS_DETAILS", "META_DATA_EXPORT"}
            kinds = [name for name in base.tables if name.startswith("CUPTI_ACTIVITY_KIND_")]
            if not (kinds or known & set(base.tables)):
                raise BadInput(
                    f"{file.name} is no Nsight Systems export", hint="nsys export --type sqlite"
                )
            session = read_session(base, build)
            unread = {name: base.count(name) for name in _OTHER if name in base.tables}
        self._files += 1
        prefix = f"{file.stem}/" if self._files > 1 else ""
        _Rows(session, build, prefix).write()
        for line, reason in session.rejects:
            build.reject(file.name, line, reason)
        build.records_in += session.records
        out = session.records - len(session.rejects)
        build.records_out = (build.records_out or 0) + out
        self._say(file, build, session, unread)

    def finish(self, build: Builder) -> None:
        """Say what the format cannot tell."""
        build.not_measured("memory and requests: the export has none")
        build.not_measured("dependencies: the export has none")

    def _say(
        self, file: InputFile, build: Builder, session: Session, unread: dict[str, int]
    ) -> None:
        facts: dict[str, Any] = dict(sorted(session.facts.items()))
        facts["gpus"] = [name for _, name in sorted(session.gpus.items())]
        facts["not_read"] = {name: count for name, count in sorted(unread.items()) if count}
        facts["failed_calls"] = session.failed_calls
        kept = build.meta.setdefault("nsys", {})
        if len(kept) < _FILES_SAID:
            kept[file.stem] = facts
        if session.base_ns is None:
            build.local = True
            build.warn(f"{file.name}: no start of the session, times are relative")
        if session.unended:
            build.warn(
                f"{file.name}: ranges without an end, closed at the end: {session.unended:,}"
            )
        if not session.ranges and session.operations:
            build.warn(f"{file.name}: no NVTX ranges: what the GPU did is the tasks")
        if not session.ranges and not session.operations:
            build.warn(f"{file.name}: neither NVTX ranges nor GPU work in it")
        if not session.operations:
            build.not_measured("GPU time: no kernel or copy was recorded")
        for text in session.warnings:
            build.warn(f"{file.name}: Nsight Systems says: {text}")


class _Rows:
    """Makes the rows of one export."""

    def __init__(self, session: Session, build: Builder, prefix: str) -> None:
        self.session, self.build, self.prefix = session, build, prefix
        self._tasks: list[dict[str, Any]] = []
        self._intervals: list[tuple[Any, ...]] = []
        self._nested: dict[int | None, tuple[list[Slice], list[int], list[int], list[int]]] = {}
        self._copies: dict[tuple[str, str, int, str], list[Operation]] = {}
        self._gpu: dict[int, list[tuple[int, int]]] = {}
        self._parents: list[int] = []
        self._workers: dict[int | None, str | None] = {}
        self._shift = session.base_ns or 0
        self._last = self._end()

    def write(self) -> None:
        """Give everything to the builder."""
        session = self.session
        for thread in sorted(session.ranges, key=lambda t: (t is None, t or 0)):
            self._ranges(thread, session.ranges[thread])
        for operation in session.operations:
            self._operation(operation, bool(session.ranges))
        for call in session.calls:
            self._call(call.serial, call.start, call.end, call.name)
        for sync in session.syncs:
            self._sync(sync)
        for at, name, thread in sorted(session.marks, key=lambda mark: (mark[0], mark[1] or "")):
            worker = self._worker(process_of(thread))
            self.build.event("instant", self._at(at), subject=name, worker=worker, text="mark")
        self._busy()
        self._flows()
        self._flush()

    # -- times, names -------------------------------------------------------------------------

    def _at(self, at: int) -> int:
        # An export made with --ts-normalize counts from the epoch already.
        return at if at > _FAR_NS else at + self._shift

    def _end(self) -> int:
        session = self.session
        known = [op.end for op in session.operations] + [call.start for call in session.calls]
        known += [s.last for ranges in session.ranges.values() for s in ranges]
        return max([session.end_ns or 0, *known])

    def _worker(self, pid: int | None) -> str | None:
        if pid not in self._workers:
            name = None if pid is None else self.session.processes.get(pid)
            label = None if pid is None else f"{name} {pid}" if name else f"pid {pid}"
            self._workers[pid] = None if label is None else self.prefix + label
        return self._workers[pid]

    def _lane(self, thread: int | None) -> str | None:
        if thread is None:
            return None
        name, number = self.session.threads.get(thread), thread_of(thread)
        return f"thread {number}" if name is None else f"{name} {number}"

    # -- ranges -------------------------------------------------------------------------------

    def _ranges(self, thread: int | None, ranges: list[Slice]) -> None:
        """Make a task of each range; pushed and popped ones lie in one another."""
        for one in ranges:
            if one.end is None:
                one.end = max(one.start, self._last)
        nested = [one for one in ranges if one.flow == "nest"]
        parents, _ = nest(nested)
        base = f"{self.prefix}{process_of(thread)}/{thread_of(thread)}"
        worker, lane = self._worker(process_of(thread)), self._lane(thread)
        numbers: list[int] = []
        for place, one in enumerate(nested):
            above = numbers[parents[place]] if parents[place] >= 0 else -1
            numbers.append(self._range(one, f"{base}/{place}", above, worker, lane))
        free = [one for one in ranges if one.flow != "nest"]
        free.sort(key=lambda one: (one.start, one.last, one.name or ""))
        for place, one in enumerate(free):
            self._range(one, f"{base}/r{place}", -1, worker, lane)
        starts = [one.start for one in nested]
        self._nested[thread] = (nested, starts, parents, numbers)

    def _range(
        self, one: Slice, task: str, above: int, worker: str | None, lane: str | None
    ) -> int:
        assert one.end is not None
        row = {
            "task_id": task,
            "parent": self._tasks[above]["task_id"] if above >= 0 else None,
            "group": f"{one.cat}:{one.name}" if one.cat else one.name,
            "worker": worker,
            "host": self.session.host,
            "started_ns": self._at(one.start),
            "ended_ns": self._at(one.end),
            "wall_s": (one.end - one.start) / 1e9,
            "outcome": "running" if one.open else "ok",
            "outcome_kind": "inferred",
            "error": _OPEN if one.open else None,
            "source": "nsys",
        }
        self._tasks.append(row)
        self._parents.append(above)
        self._interval(task, worker, lane, "span", one.name, one.start, one.end)
        return len(self._tasks) - 1

    def _task_at(self, thread: int | None, at: int) -> int:
        """Give the number of the innermost range of a thread at a moment, or -1."""
        found = self._nested.get(thread)
        if found is None:
            return -1
        slices, starts, parents, numbers = found
        place = enclosing(slices, starts, parents, at)
        return numbers[place] if place >= 0 else -1

    # -- devices and calls --------------------------------------------------------------------

    def _operation(self, one: Operation, has_ranges: bool) -> None:
        pid = one.pid
        launch = None
        if one.correlation is not None:
            launch = self.session.launches.get((pid, one.correlation))
        task = self._task_at(launch.serial, launch.start) if launch is not None else -1
        worker = self._worker(pid)
        lane = f"device {_shown(one.device)} stream {_shown(one.stream)}"
        name: str | None = None
        if task >= 0:
            name = self._tasks[task]["task_id"]
            for _ in range(_REACH):  # bounds the work on absurd nesting
                if task < 0:
                    break
                self._gpu.setdefault(task, []).append((one.start, one.end))
                task = self._parents[task]
        elif not has_ranges:
            name = f"{self.prefix}{lane}/{len(self._tasks)}"
            self._own_task(one, name, worker)
        if one.kind == "transfer" and one.name in _WAYS:
            key = (name or "", worker or "", one.device if one.device is not None else -1, one.name)
            self._copies.setdefault(key, []).append(one)
        self._interval(name, worker, lane, one.kind, one.name, one.start, one.end, one.size,
                       one.peer)  # fmt: skip

    def _own_task(self, one: Operation, task: str, worker: str | None) -> None:
        seconds = (one.end - one.start) / 1e9
        self._tasks.append(
            {
                "task_id": task,
                "parent": None,
                "group": one.name,
                "worker": worker,
                "host": self.session.host,
                "started_ns": self._at(one.start),
                "ended_ns": self._at(one.end),
                "wall_s": seconds,
                "outcome": "ok",
                "outcome_kind": "inferred",
                "error": None,
                "source": "nsys",
                "gpu_s": seconds,
            }
        )
        self._parents.append(-1)

    def _call(self, thread: int | None, start: int, end: int | None, name: str | None) -> None:
        task = self._task_at(thread, start)
        waits = name is not None and any(word in name.lower() for word in _WAITS)
        self._interval(
            self._tasks[task]["task_id"] if task >= 0 else None,
            self._worker(process_of(thread)),
            self._lane(thread),
            "stall" if waits else "span",
            name,
            start,
            end,
        )

    def _sync(self, one: Operation) -> None:
        launch = None
        if one.correlation is not None:
            launch = self.session.launches.get((one.pid, one.correlation))
        lane = self._lane(launch.serial) if launch is not None else None
        task = self._task_at(launch.serial, launch.start) if launch is not None else -1
        name = self._tasks[task]["task_id"] if task >= 0 else None
        if lane is None:
            lane = f"device {_shown(one.device)} stream {_shown(one.stream)}"
        self._interval(name, self._worker(one.pid), lane, "stall", one.name, one.start, one.end)

    def _interval(
        self,
        task: str | None,
        worker: str | None,
        lane: str | None,
        kind: str,
        name: str | None,
        start: int,
        end: int | None,
        size: int | None = None,
        peer: str | None = None,
    ) -> None:
        stop = None if end is None else self._at(end)
        self._intervals.append((task, worker, lane, kind, name, self._at(start), stop, size, peer))

    # -- out ----------------------------------------------------------------------------------

    def _busy(self) -> None:
        """Give each range the time in which a device worked for it, each moment once."""
        if not self.session.operations or not self.session.launches:
            return
        for number, row in enumerate(self._tasks):
            if "gpu_s" not in row:
                row["gpu_s"] = _union_s(self._gpu.get(number, []))

    def _flows(self) -> None:
        """Add up the copies between host and devices, by range and way."""
        for (task, worker, device, way), mine in sorted(self._copies.items()):
            known = [one.size for one in mine if one.size is not None]
            self.build.add(
                "flows",
                {
                    "task_id": task or None,
                    "worker": worker or None,
                    "object": f"device {device if device >= 0 else '?'}",
                    "medium": "device",
                    "op": _WAYS[way],
                    "bytes": sum(known) if known else None,
                    "ops": len(mine),
                    "first_ns": self._at(min(one.start for one in mine)),
                    "last_ns": self._at(max(one.end for one in mine)),
                    "busy_s": _union_s([(one.start, one.end) for one in mine]),
                    "peer": "host",
                },
            )

    def _flush(self) -> None:
        build, session = self.build, self.session
        if self._tasks:
            names = sorted({name for row in self._tasks for name in row})
            build.extend("tasks", {n: [row.get(n) for row in self._tasks] for n in names})
        if self._intervals:
            names = ["task_id", "worker", "lane", "kind", "name", "start_ns", "end_ns", "bytes",
                     "peer"]  # fmt: skip
            columns = zip(*self._intervals, strict=True)
            build.extend("intervals", dict(zip(names, map(list, columns), strict=True)))
        devices = ", ".join(f"{n}: {name}" for n, name in sorted(session.gpus.items())) or None
        for pid, worker in sorted(self._workers.items(), key=lambda item: item[0] or 0):
            if worker is not None:
                build.add(
                    "workers",
                    {"worker": worker, "host": session.host, "pid": pid, "name": worker,
                     "devices": devices},
                )  # fmt: skip


def _shown(number: int | None) -> str:
    return "?" if number is None else str(number)


def _union_s(spans: list[tuple[int, int]]) -> float:
    """Sum stretches of time, each moment once; seconds.

    Examples
    --------
    >>> _union_s([(0, 2_000_000_000), (1_000_000_000, 3_000_000_000)])
    3.0
    """
    if not spans:
        return 0.0
    marks = np.array(sorted(spans), dtype=np.int64)
    reach = np.maximum.accumulate(marks[:, 1])
    begins = np.maximum(marks[1:, 0], reach[:-1])
    tail = np.maximum(marks[1:, 1] - begins, 0).sum()
    return float(marks[0, 1] - marks[0, 0] + tail) / 1e9
