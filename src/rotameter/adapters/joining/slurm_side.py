"""What Slurm says of a run's jobs: accounting files and the efficiency report of Snakemake.

The report: ``efficiency_report_*.csv`` of snakemake-executor-plugin-slurm, one row a job step.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rotameter import plugins
from rotameter.adapters.importers.building import Builder
from rotameter.adapters.importers.inputs import InputFile
from rotameter.adapters.importers.times import binary_bytes, clock_seconds
from rotameter.adapters.joining.merging import offset_between
from rotameter.adapters.joining.scanning import named, opened, small_text
from rotameter.errors import InputError, PluginError

if TYPE_CHECKING:
    from rotameter.adapters.joining.merging import Ledger

__all__ = ["JOB_NOT_TASK", "Slurm", "at_another_time", "other_time", "read_report", "read_sacct"]

_TIMES = ("submitted_ns", "ready_ns", "started_ns", "ended_ns")
_ID = re.compile(r"\d+(?:_\d+|\+\d+)?")
_MB = 1 << 20
_SLACK_NS = 900 * 10**9
_LATE_NS = 4500 * 10**9
_CSV_LIMIT = 64 << 20
_REPORT = frozenset(("JobID", "Elapsed_sec", "TotalCPU_sec", "MaxRSS_MB", "RequestedMem_MB"))


JOB_NOT_TASK = ("wall_s", "exit_code")
"""Columns that mean the whole batch job at Slurm: staging is in it, its script's exit code."""


def at_another_time(task: Mapping[str, Any], runs: Sequence[Mapping[str, Any]]) -> bool:
    """Say whether a job's runs cannot be a task's: the same number is chance.

    Parameters
    ----------
    task : mapping
        A row of ``tasks``.
    runs : sequence of mapping
        The job's, on the same clock; what is not known contradicts nothing.

    Examples
    --------
    >>> job = [{"submitted_ns": 0, "ended_ns": 3600 * 10**9}]
    >>> at_another_time({"submitted_ns": 10**9, "ended_ns": 3660 * 10**9}, job)
    False
    >>> at_another_time({"submitted_ns": 10**15, "ended_ns": 10**15 + 10**9}, job)
    True
    """
    begin, end = _begin(task), task.get("ended_ns")
    first, last = _begin(runs[0]), runs[-1].get("ended_ns")
    if begin is not None and last is not None and last < begin - _SLACK_NS:
        return True
    if end is not None and first is not None and first > end + _SLACK_NS:
        return True
    # A job is handed over when its task is, and an engine sees its end when it next looks.
    handed, got = task.get("submitted_ns"), runs[0].get("submitted_ns")
    if handed is not None and got is not None and got < handed - _SLACK_NS:
        return True
    return end is not None and last is not None and bool(abs(end - last) > _LATE_NS)


def other_time(count: int) -> str:
    """Say of how many tasks the number is only by chance a job's."""
    tasks = "1 task has its number" if count == 1 else f"{count:,} tasks have their numbers"
    return f"{tasks} in common with Slurm jobs of another time: not joined"


def several_fit(count: int) -> str:
    """Say of how many tasks several jobs have the number, and no times tell which is theirs."""
    tasks = "1 task has its number" if count == 1 else f"{count:,} tasks have their numbers"
    return (
        f"{tasks} in common with several Slurm jobs, and their times do not tell which is meant: "
        "not joined"
    )


def _apart_ns(task: Mapping[str, Any], runs: Sequence[Mapping[str, Any]]) -> float:
    """Give how far a job's submission and end lie from a task's; infinite if neither is known."""
    pairs = (
        (task.get("submitted_ns"), runs[0].get("submitted_ns")),
        (task.get("ended_ns"), runs[-1].get("ended_ns")),
    )
    known = [abs(a - b) for a, b in pairs if a is not None and b is not None]
    return float(max(known)) if known else math.inf


def _begin(row: Mapping[str, Any]) -> int | None:
    known = [row[c] for c in ("submitted_ns", "started_ns") if row.get(c) is not None]
    return known[0] if known else None


@dataclass
class Slurm:
    """Rows by job, in order of attempts, and whether their times carry no zone.

    A job is called by its number; several of one number (of two clusters, or of before numbers
    began anew) by what the importer calls them.
    """

    jobs: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    shared: dict[str, list[str]] = field(default_factory=dict)
    """Numbers that several jobs have, and what these are called."""
    local: bool = False
    used: set[str] = field(default_factory=set)
    files: list[Path] = field(default_factory=list)
    """What was read, or tried."""

    def called(self, number: str | None) -> list[str]:
        """Give what the jobs of a number are called."""
        if number is None:
            return []
        return self.shared.get(number) or ([number] if number in self.jobs else [])

    def offset(self, tasks: Iterable[tuple[str | None, Mapping[str, Any]]]) -> int | None:
        """Find the zone between Slurm's clock and that of tasks, given with their jobs' numbers.

        Numbers of one job tell it; only where they do not, those of several are asked too.
        """
        sole: list[tuple[int | None, int | None]] = []
        shared: list[tuple[int | None, int | None]] = []
        for number, task in tasks:
            called = self.called(number)
            for rows in (self.jobs[job] for job in called):
                pairs = sole if len(called) == 1 else shared
                pairs.append((rows[0].get("submitted_ns"), task.get("submitted_ns")))
                pairs.append((rows[-1].get("ended_ns"), task.get("ended_ns")))
        offset = offset_between(sole)
        return offset_between([*sole, *shared]) if offset is None else offset

    def fitting(
        self, numbers: Sequence[str | None], tasks: Sequence[Mapping[str, Any]]
    ) -> tuple[list[str | None], list[str]]:
        """Find the job of each task: of those of its number the one that was there at its time.

        Parameters
        ----------
        numbers : sequence of str
            By which the tasks know their jobs.
        tasks : sequence of mapping
            Rows of ``tasks``, on the same clock.

        Returns
        -------
        list of str
            What the jobs are called; None where there is none.
        list of str
            Sentences on those that were found by number and are not the task's, or not surely.
        """
        found: list[str | None] = []
        elsewhen = unclear = 0
        for number, task in zip(numbers, tasks, strict=True):
            called = self.called(number)
            fit = [job for job in called if not at_another_time(task, self.jobs[job])]
            fit.sort(key=lambda job: _apart_ns(task, self.jobs[job]))
            first, *others = [_apart_ns(task, self.jobs[job]) for job in fit] or [math.inf]
            sure = bool(fit) and (not others or first < others[0])
            found.append(fit[0] if sure else None)
            elsewhen += bool(called) and not fit
            unclear += bool(fit) and not sure
        words = [other_time(elsewhen)] if elsewhen else []
        return found, [*words, several_fit(unclear)] if unclear else words

    def take(self, job: str | None) -> list[dict[str, Any]]:
        """Give the attempts of a job, once; empty if it is not known."""
        if job is None or job not in self.jobs or job in self.used:
            return []
        self.used.add(job)
        return self.jobs[job]

    def shift(self, by_ns: int | None) -> None:
        """Move all times by a zone; None takes them away: their zone cannot be known."""
        for rows in self.jobs.values():
            for row in rows:
                for column in _TIMES:
                    if row.get(column) is not None:
                        row[column] = None if by_ns is None else row[column] - by_ns

    def rest(self) -> int:
        """Count the records that nobody took."""
        return sum(len(rows) for job, rows in self.jobs.items() if job not in self.used)


def read_sacct(folder: Path, paths: Iterable[Path], build: Builder, ledger: Ledger) -> Slurm:
    """Read the accounting files among some files with Slurm's importer."""
    made = Slurm()
    try:
        importer = plugins.get("importers", "slurm")()
    except PluginError:
        return made
    inner = Builder("slurm", "slurm")
    for path in paths:
        pair = opened(folder, path)
        if pair is None:
            continue
        file, head = pair
        try:
            if importer.sniff(head) < 0.5:
                continue
            made.files.append(path)
            importer.read(InputFile(head.name, file.opener, file.path), inner)
        except InputError as error:
            build.warn(str(error))
            continue
        inner.files += 1
        build.files += 1
    if not inner.files:
        return made
    importer.finish(inner)
    made.local = inner.local
    trace = inner.build(utc_offset_s=0.0)
    counts = trace.meta["importer"]["records"]
    build.records_in += counts["in"]
    build.merged += counts["merged"]
    for row in trace.table("rejects").to_pylist():
        build.reject(row["source"], row["line"], row["reason"])
    for text in trace.meta["warnings"]:
        if "records were refused" not in text:
            build.warn(f"sacct: {text}")
    by_number: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for row in trace.table("tasks").to_pylist():
        row["features"] = dict(row["features"]) if row["features"] else None
        ledger.records["sacct"] += 1
        same = by_number.setdefault(_number(row), {})
        same.setdefault(str(row["task_id"]), []).append(row)
    for number, same in by_number.items():
        if len(same) > 1:
            made.shared[number] = list(same)
        for name, rows in same.items():
            rows.sort(
                key=lambda r: (r["attempt"] or 0, r["submitted_ns"] or 0, r["started_ns"] or 0)
            )
            made.jobs[name if len(same) > 1 else number] = rows
    return made


def _number(row: Mapping[str, Any]) -> str:
    """Give the number by which others know a job.

    Examples
    --------
    >>> [_number({"task_id": name, "run_id": "9"}) for name in ("alpha:5", "5#2", "alpha:5_3#2")]
    ['5', '5', '5_3']
    """
    for name in ("task_id", "run_id"):
        match = _ID.match((row[name] or "").rpartition(":")[2])
        if match:
            return match[0]
    return str(row["task_id"])


def read_report(folder: Path, paths: Iterable[Path], build: Builder, ledger: Ledger) -> Slurm:
    """Read the efficiency reports of Snakemake's Slurm plug-in."""
    made = Slurm()
    for path in paths:
        if path.suffix.lower() != ".csv":
            continue
        text = small_text(path, _CSV_LIMIT)
        if text is None or not set(text.partition("\n")[0].strip().split(",")) >= _REPORT:
            continue
        build.files += 1
        made.files.append(path)
        _report(named(folder, path), text, build, ledger, made)
    return made


def _report(name: str, text: str, build: Builder, ledger: Ledger, made: Slurm) -> None:
    reader = csv.DictReader(io.StringIO(text, newline=""))
    try:
        for fields in reader:
            build.records_in += 1
            ledger.records["efficiency report"] += 1
            row = _step(fields)
            match = _ID.match(fields.get("JobID") or "")
            if row is None or match is None:
                build.reject(name, reader.line_num, "no job id or no numbers")
                continue
            rows = made.jobs.setdefault(match[0], [])
            if rows:
                _add_step(rows[0], row)
                build.merged += 1
            else:
                rows.append(row)
    except csv.Error as error:
        build.warn(f"{name} is damaged: {error}")


def _step(fields: dict[str, Any]) -> dict[str, Any] | None:
    wall, cpu = _seconds(fields, "Elapsed"), _seconds(fields, "TotalCPU")
    peak = _bytes(fields, "MaxRSS")
    if wall is None and cpu is None and peak is None:
        return None
    cores, nodes = _float(fields.get("NCPUS")), _float(fields.get("NNodes"))
    # 0 stands for an empty field there.
    asked = _float(fields.get("RequestedMem_MB"))
    return {
        "wall_s": wall,
        "cpu_s": cpu,
        "peak_memory_bytes": peak,
        "peak_memory_kind": "sampled" if peak else None,
        "granted_cores": cores or None,
        "granted_nodes": None if not nodes else round(nodes),
        "requested_memory_bytes": round(asked * _MB) if asked else None,
    }


def _add_step(job: dict[str, Any], step: dict[str, Any]) -> None:
    """Add a further step of a job: CPU time adds up, the rest is the largest."""
    if job["cpu_s"] is not None and step["cpu_s"] is not None:
        job["cpu_s"] += step["cpu_s"]
    for column, value in step.items():
        if column == "cpu_s" and job["cpu_s"] is not None:
            continue
        if value is not None and (job[column] is None or value > job[column]):
            job[column] = value


def _float(text: Any) -> float | None:
    try:
        value = float(text)
    except (TypeError, ValueError):
        return None
    return value if 0 <= value < 1e12 else None


def _seconds(fields: dict[str, Any], name: str) -> float | None:
    try:
        return clock_seconds(fields.get(name) or "")
    except ValueError:
        return _float(fields.get(f"{name}_sec"))


def _bytes(fields: dict[str, Any], name: str) -> int | None:
    try:
        return binary_bytes(fields.get(name) or "") or None
    except ValueError:
        size = _float(fields.get(f"{name}_MB"))
        return round(size * _MB) if size else None
