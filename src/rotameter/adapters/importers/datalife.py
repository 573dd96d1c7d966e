"""DataLife: block traces and timers of processes, of a folder or an archive of small files.

``<file>.<pid>-<host>.{r,w}_blk_trace.json`` and ``monitor_timer.<pid>-<host>.datalife.json``, and
the older ``<file>_<pid>_{r,w}_stat``, as written by https://github.com/pnnl/datalife. The timers
are exact totals of a process; ``data_volume`` counts sampled blocks and is wrong by the size of
calls, so bytes of a file are the timers' bytes, shared out by the blocks that were touched.
"""

from __future__ import annotations

import os
import re
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

from rotameter.adapters.importers._datalife_emit import Process, emit
from rotameter.adapters.importers._datalife_names import split_name
from rotameter.adapters.importers._datalife_read import (
    HISTOGRAM_HEAD,
    TIMER_NAME,
    TRACE_NAME,
    Touched,
    histogram_of,
    named,
    parsed,
    timer_of,
    touched_of,
)
from rotameter.errors import BadInput

if TYPE_CHECKING:
    from rotameter.adapters.importers.building import Builder
    from rotameter.adapters.importers.inputs import InputFile
    from rotameter.values import Head

__all__ = ["Importer"]

_LIMIT_BYTES = 256 << 20
_JOB = re.compile(r"(.+)_ID\d+")
_STAT_OP = re.compile(r"_([rw])_stat$")
_TIMER_LEVEL = re.compile(r'"(?:monitor|system|local)"\s*:\s*\{')
_TIMER_CALL = re.compile(r'"(?:in_open|out_open|in_fopen|read|write)"\s*:\s*\[')


class Importer:
    """Reads what DataLife's monitor wrote."""

    name = "datalife"
    engine = "datalife"
    options: frozenset[str] = frozenset()

    def __init__(self) -> None:
        self._touched: list[tuple[str, Touched]] = []
        self._timers: dict[tuple[str, str], Any] = {}
        self._accepted = 0

    def sniff(self, head: Head) -> float:
        """Look for the words of its documents, and for the first line of a histogram."""
        base = named(head.name)[1]
        beginning = head.data[:400].lstrip(b"\xef\xbb\xbf \t\r\n")
        if beginning[:1] != b"{":
            stat = HISTOGRAM_HEAD.search(head.text[:5000].split("\n", 1)[0])
            return 0.9 if stat else 0.0
        if b'"io_blk_range"' in head.data and head.data.find(b'"traceEvents"') < 0:
            return 0.95
        if TIMER_NAME.fullmatch(base) or b'"monitor"' in head.data:
            text = head.text
            if _TIMER_LEVEL.search(text) and _TIMER_CALL.search(text):
                return 0.95
        return 0.0

    def read(self, file: InputFile, build: Builder, **options: Any) -> None:
        """Read one file of one process.

        Raises
        ------
        BadInput
            If it is none of the three kinds, or damaged.
        """
        folder, base = named(file.name)
        if file.head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] != b"{":
            self._histogram(file, folder, base, build)
            return
        build.records_in += 1
        try:
            document = parsed(file.read_text(_LIMIT_BYTES), file.name)
        except BadInput:
            build.records_in -= 1
            raise
        timer = None if "io_blk_range" in document else timer_of(document)
        if timer is not None:
            match = TIMER_NAME.fullmatch(base)
            pid = match[1] if match else base.removesuffix(".json")
            self._timers[(folder, pid)] = timer
            self._accepted += 1
            return
        match = TRACE_NAME.fullmatch(base)
        name, op = (match[1], match[2]) if match else (base.removesuffix(".json"), "")
        touched = touched_of(document, op, name)
        if isinstance(touched, str):
            build.reject(file.name, 1, touched)
        elif not op:
            build.reject(file.name, 1, "its name does not say whether it is of reads or writes")
        else:
            touched.name = name
            self._touched.append((folder, touched))
            self._accepted += 1

    def finish(self, build: Builder) -> None:
        """Join files of one process, and share out its bytes."""
        processes = self._processes()
        emit(processes, build)
        build.merged += self._accepted - len(processes)

    def _histogram(self, file: InputFile, folder: str, base: str, build: Builder) -> None:
        if not HISTOGRAM_HEAD.search(file.head_text[:5000].split("\n", 1)[0]):
            raise BadInput(
                f"{file.name} is no file of DataLife's monitor",
                hint="give its output folder: *_blk_trace.json, monitor_timer.*, *_stat",
            )
        op = _STAT_OP.search(base)
        touched, good, refused = histogram_of(file.lines(), base, op[1] if op else None)
        build.records_in += 1 + good + len(refused)
        self._accepted += 1 + good
        for line, reason in refused:
            build.reject(file.name, line, reason)
        self._touched.append((folder, touched))

    def _processes(self) -> list[Process]:
        """Join by folder and process, in order of name."""
        found: dict[tuple[str, str], Process] = {}
        pids: dict[str, set[str]] = defaultdict(set)
        for folder, pid in self._timers:
            pids[folder].add(pid)
        labels = _labels({folder for folder, one in self._touched if not one.name and not one.pid})
        for folder, one in self._touched:
            process_id = one.pid
            if one.name:
                file, named_pid = split_name(one.name, pids[folder])
                one.file = file if one.file == one.name else one.file
                process_id = named_pid or process_id
            key = (folder, process_id or "")
            process = found.setdefault(key, Process(folder, key[1]))
            if not key[1]:
                process.label = labels.get(folder)
            process.touched.append(one)
        for key, timer in self._timers.items():
            found.setdefault(key, Process(*key)).timer = timer
        ordered = [found[key] for key in sorted(found)]
        _identify(ordered)
        return ordered


def _labels(folders: set[str]) -> dict[str, str | None]:
    """Name processes that have no number by their folders; one folder alone says nothing."""
    if len(folders) > 1:
        top = os.path.commonpath([folder or "." for folder in folders])
        return {folder: os.path.relpath(folder or ".", top) for folder in folders}
    return {
        folder: base if _JOB.fullmatch(base) else None
        for folder in folders
        for base in [folder.rpartition("/")[2]]
    }


def _identify(processes: list[Process]) -> None:
    """Give ids; processes of several folders that have one number get the folder's name."""
    for process in processes:
        tasks = Counter(one.task for one in process.touched if one.task)
        process.task = min(tasks, key=lambda name: (-tasks[name], name)) if tasks else None
        if process.label:
            match = _JOB.fullmatch(process.label)
            process.task = process.task or (match[1] if match else process.label)
        program = process.timer.program if process.timer else None
        process.task_id = process.label or "-".join(
            filter(None, (process.task or program or "process", process.pid))
        )
    counts = Counter(process.task_id for process in processes)
    for process in processes:
        if counts[process.task_id] > 1:
            process.task_id = f"{process.folder.rpartition('/')[2]}:{process.task_id}"
    seen: Counter[str] = Counter()
    for process in processes:
        seen[process.task_id] += 1
        if seen[process.task_id] > 1:
            process.task_id = f"{process.task_id} ({seen[process.task_id]})"
