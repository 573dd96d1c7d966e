"""Standard Workload Format 2.2: logs of batch systems, one job a line.

The format: https://www.cs.huji.ac.il/labs/parallel/workload/swf.html (18 fields, ``;`` comments,
-1 is unknown, times in seconds from the log's start, memory in kilobytes a processor).
"""

from __future__ import annotations

import re
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rotameter.adapters.importers._swf_logs import labelled, sources, told_apart
from rotameter.adapters.importers._table_secrets import safe_name
from rotameter.adapters.importers.building import Builder
from rotameter.errors import BadInput
from rotameter.units import many

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rotameter.adapters.importers.inputs import InputFile
    from rotameter.values import Head

    Floats = NDArray[np.float64]

__all__ = ["Importer"]

_FIELDS = 18
_BATCH = 16_384
_OUTCOMES = {0: "failed", 1: "ok", 5: "cancelled"}
_HEADER = re.compile(r";\s*([A-Za-z]+)\s*:\s*(.+)")
_PARTIAL = (2, 3, 4)
_MACHINE = ("Computer", "Installation", "MaxProcs", "MaxNodes")
_NAMED = 2
"""So many of these name a machine; the others only tell that two are not the same."""
_LIMIT = 4e9  # seconds, kilobytes: what is larger does not fit nanoseconds or bytes
_FOREIGN = re.compile(r"[^0-9eE+\-. \t]")


class Importer:
    """Reads SWF logs."""

    name = "swf"
    engine = "swf"
    options: frozenset[str] = frozenset()

    def __init__(self) -> None:
        self._partial = self._done = 0
        self._sizes: list[int] = []  # of each log, in jobs
        self._labels: list[str] = []
        self._headers: list[dict[str, str]] = []
        self._stems: dict[str, int] = {}

    def sniff(self, head: Head) -> float:
        """Look for ``;`` header lines and rows of 18 numbers."""
        lines = [line for line in head.text.split("\n")[:-1] or [head.text] if line.strip()]
        rows = [line.split() for line in lines if not line.lstrip().startswith(";")]
        good = sum(len(row) == _FIELDS and _numbers(row) is not None for row in rows[:50])
        if rows and good >= 0.8 * len(rows[:50]):
            return 0.9
        named = any(_HEADER.match(line.strip()) for line in lines)
        known = any(word in head.data for word in (b"; Version:", b"MaxJobs", b"UnixStartTime"))
        return 0.8 if named and known else 0.0

    def read(self, file: InputFile, build: Builder, **options: Any) -> None:
        """Read one log."""
        header: dict[str, str] = {}
        numbers: list[int] = []
        rows: list[str] = []
        parts: list[Floats] = []
        records = 0
        for number, line in file.lines():
            if line.lstrip().startswith(";"):
                match = _HEADER.match(line.strip())
                if match:
                    header.setdefault(match[1], match[2].strip()[:500])
            elif line.strip():
                numbers.append(number)
                rows.append(line)
                if len(rows) >= _BATCH:
                    records += len(rows)
                    parts.append(_numbers_of(rows, numbers, file, build))
                    rows, numbers = [], []
        records += len(rows)
        if not records and not header:
            raise BadInput(f"{file.name} holds no jobs", hint="check the file")
        build.records_in += records
        build.meta.setdefault("header", {}).update(header)
        build.meta.setdefault("log_start_ns", _unix_start(header))
        cores = _whole(header.get("MaxProcs", ""))
        if cores:
            build.meta.setdefault("machine_cores", cores)
        parts.append(_numbers_of(rows, numbers, file, build))
        del rows, numbers
        self._partial = self._done = 0
        parts = _without_parts(parts, build)
        parts.reverse()
        while parts:  # each goes when it is done
            self._jobs(parts.pop(), build, header)
        stem = file.stem
        number = self._stems[stem] = self._stems.get(stem, 0) + 1
        self._labels.append(safe_name(stem if number == 1 else f"{stem}.{number}"))
        self._sizes.append(self._done)
        self._headers.append(header)
        if self._partial:
            build.warn(
                f"{many(self._partial, 'job is a part', 'jobs are parts')} of one that was "
                "suspended: outcome unknown"
            )

    def finish(self, build: Builder) -> None:
        """Tell the jobs of several logs apart; say what the format cannot tell."""
        if len(self._sizes) > 1:
            self._several(build)
        build.not_measured("dependencies and bytes: the format has none")

    def _several(self, build: Builder) -> None:
        """Count jobs of logs that overlap once; name others of equal numbers by their log."""
        tasks = build.gathered("tasks")
        if len(tasks) != sum(self._sizes):
            return
        keep, equal, cuts = told_apart(tasks, self._sizes, dated=not build.local)
        self._name_by_machine(tasks, equal, cuts, build)
        if equal:
            names = labelled(tasks["task_id"], self._labels, self._sizes)
            build.replace("tasks", "task_id", names)
            build.note("logs have jobs of the same numbers: each is named by its log and number")
        again = len(keep) - int(keep.sum())
        if again:
            build.keep("tasks", keep)
            build.merged += again
            build.note(
                "jobs that several logs have (the same number, submission and run time) are "
                "counted once",
                again,
            )

    def _name_by_machine(
        self, tasks: pa.Table, equal: bool, cuts: set[tuple[int, int]], build: Builder
    ) -> None:
        """Tell programs, users and queues of several machines apart: a number is the log's own."""
        machines = [tuple(header.get(key, "") for key in _MACHINE) for header in self._headers]
        named = ["\n".join(one) if any(one[:_NAMED]) else "" for one in machines]
        source = sources(named, cuts)
        known = {one for one in machines if any(one)}
        if len(set(source)) < 2 or not (equal or len(known) > 1):
            return
        labels = [self._labels[log] for log in source]
        for column in ("group", "user", "account", "queue"):
            if tasks[column].null_count < len(tasks):
                build.replace("tasks", column, labelled(tasks[column], labels, self._sizes))
        build.note(
            "logs are of several machines: programs, users, groups and queues, which are numbers "
            "of one log, are named by their log"
        )

    def _jobs(self, jobs: Floats, build: Builder, header: dict[str, str]) -> None:
        if not len(jobs):
            return
        known = np.where(jobs == -1, np.nan, jobs)
        ids, submit, wait, run, procs, cpu, memory = (known[:, i] for i in range(7))
        wanted, asked_s, asked_memory = (known[:, i] for i in range(7, 10))
        status, user, group, program, queue, partition = (jobs[:, i] for i in range(10, 16))
        start0 = _unix_start(header)
        started = submit + wait
        cores = np.where(np.isnan(wanted), procs, wanted)
        self._partial += int(np.isin(status, _PARTIAL).sum())
        if "UnixStartTime" not in header:
            build.local = True
        peak = memory * 1024 * np.where(np.isnan(procs), 1, procs)
        build.extend(
            "tasks",
            {
                "task_id": _ids(ids, self._done),
                "group": _names("program", program),
                "user": _names("user", user),
                "account": _names("group", group),
                "queue": _names("queue", np.where(queue == -1, partition, queue)),
                "submitted_ns": _ns(submit, start0),
                "started_ns": _ns(started, start0),
                "ended_ns": _ns(started + run, start0),
                "wall_s": run,
                "cpu_s": cpu * procs,
                "peak_memory_bytes": peak,
                "peak_memory_kind": pa.array(["estimate"]).take(
                    pa.array(np.zeros(len(jobs), np.int64), mask=np.isnan(peak))
                ),
                "requested_cores": wanted,
                "granted_cores": procs,
                "requested_wall_s": asked_s,
                "requested_memory_bytes": asked_memory * 1024 * cores,
                "outcome": _outcomes(status),
                "outcome_kind": pa.repeat("reported", len(jobs)),
                "source": pa.repeat("swf", len(jobs)),
            },
        )
        self._done += len(jobs)


def _without_parts(batches: list[Floats], build: Builder) -> list[Floats]:
    """Leave out the parts of suspended jobs (codes 2 to 4) that have a line for the whole job.

    The format: such a line, with code 0, 1 or 5, comes first and already is the sum of its parts.
    """
    parts = [np.isin(jobs[:, 10], _PARTIAL) for jobs in batches]
    if not any(part.any() for part in parts):
        return batches
    whole = np.concatenate([jobs[~part, 0] for jobs, part in zip(batches, parts, strict=True)])
    again = [part & np.isin(jobs[:, 0], whole) for jobs, part in zip(batches, parts, strict=True)]
    count = sum(int(some.sum()) for some in again)
    if count:
        build.merged += count
        build.note("lines for parts of suspended jobs, which the job's own line sums up", count)
    return [jobs[~some] for jobs, some in zip(batches, again, strict=True)]


def _numbers_of(rows: list[str], numbers: list[int], file: InputFile, build: Builder) -> Floats:
    jobs = _parse(rows)
    return _parse_each(rows, numbers, file, build) if jobs is None else jobs


def _parse(rows: list[str]) -> Floats | None:
    """Read all rows at once; None where one of them is not 18 numbers."""
    if any(len(row.split()) != _FIELDS for row in rows):
        return None
    text = " ".join(rows)
    if not text or _FOREIGN.search(text):
        return None if text else np.empty((0, _FIELDS))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            values = np.fromstring(text, sep=" ")
    except (ValueError, DeprecationWarning, OverflowError):
        return None
    if values.size != len(rows) * _FIELDS or not (np.abs(values) < _LIMIT).all():
        return None
    return values.reshape(-1, _FIELDS)


def _parse_each(rows: list[str], numbers: list[int], file: InputFile, build: Builder) -> Floats:
    good = []
    for row, number in zip(rows, numbers, strict=True):
        values = _numbers(row.split())
        if values is None or len(values) != _FIELDS:
            build.reject(file.name, number, f"not {_FIELDS} numbers")
        else:
            good.append(values)
    return np.array(good, dtype=float).reshape(-1, _FIELDS)


def _numbers(fields: list[str]) -> list[float] | None:
    try:
        values = [float(field) for field in fields]
    except ValueError:
        return None
    return values if all(abs(value) < _LIMIT for value in values) else None


def _unix_start(header: dict[str, str]) -> int:
    return _whole(header.get("UnixStartTime", "0")) * 10**9


def _whole(text: str) -> int:
    """Give the number that a header line begins with; 0 where there is none."""
    try:
        number = int(text.split()[0])
    except (ValueError, IndexError):
        return 0
    return number if 0 <= number < 1 << 32 else 0


def _ns(seconds: Floats, start_ns: int) -> Any:
    # Apart, because a float holds no nanoseconds of this century.
    relative = np.rint(np.nan_to_num(seconds) * 1e9).astype(np.int64)
    return pa.array(relative + start_ns, mask=np.isnan(seconds))


def _ids(ids: Floats, before: int) -> Any:
    lines = pa.array([f"line-{before + n + 1}" for n in np.flatnonzero(np.isnan(ids))], pa.string())
    whole = pa.array(np.nan_to_num(ids).astype(np.int64), mask=np.isnan(ids)).cast(pa.string())
    return pc.replace_with_mask(whole, pc.is_null(whole), lines)


def _names(word: str, codes: Floats) -> Any:
    known, place = np.unique(codes, return_inverse=True)
    names = [None if code == -1 or code != code else f"{word} {int(code)}" for code in known]
    return pa.array(names, pa.string()).take(pa.array(place))


def _outcomes(status: Floats) -> Any:
    known, place = np.unique(status, return_inverse=True)
    names = [_OUTCOMES.get(int(code), "unknown") for code in known]
    return pa.array(names, pa.string()).take(pa.array(place))
