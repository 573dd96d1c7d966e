"""What Slurm says of a run's jobs: accounting files and the efficiency report of Snakemake.

The report: ``efficiency_report_*.csv`` of snakemake-executor-plugin-slurm, one row a job step.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rotameter import plugins
from rotameter.adapters.importers.building import Builder
from rotameter.adapters.importers.inputs import InputFile
from rotameter.adapters.importers.times import binary_bytes, clock_seconds
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


def _begin(row: Mapping[str, Any]) -> int | None:
    known = [row[c] for c in ("submitted_ns", "started_ns") if row.get(c) is not None]
    return known[0] if known else None


@dataclass
class Slurm:
    """Rows by job id, in order of attempts, and whether their times carry no zone."""

    jobs: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    local: bool = False
    used: set[str] = field(default_factory=set)
    files: list[Path] = field(default_factory=list)
    """What was read, or tried."""

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
    for row in trace.table("tasks").to_pylist():
        row["features"] = dict(row["features"]) if row["features"] else None
        ledger.records["sacct"] += 1
        made.jobs.setdefault(_key(row), []).append(row)
    for rows in made.jobs.values():
        rows.sort(key=lambda r: (r["attempt"] or 0, r["submitted_ns"] or 0, r["started_ns"] or 0))
    return made


def _key(row: dict[str, Any]) -> str:
    """Give the number by which others know a job; another job of the same number keeps its mark.

    Examples
    --------
    >>> _key({"task_id": "alpha:5", "run_id": "5"}), _key({"task_id": "5#2", "run_id": "5"})
    ('5', '5#2')
    """
    if "#" in (row["task_id"] or ""):
        return str(row["task_id"])
    for name in ("task_id", "run_id"):
        match = _ID.match(row[name] or "")
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
