"""The folder of a Snakemake run: ``.snakemake``, benchmarks, and what Slurm says of its jobs.

Which job a record is of: its outputs (metadata, logs), the benchmark's path as the log names it,
rule and wildcards (extended benchmarks), and the id of the batch job.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from rotameter.adapters.importers.building import Builder
from rotameter.adapters.importers.inputs import InputFile
from rotameter.adapters.importers.snakemake import Importer
from rotameter.adapters.importers.walking import Unread, is_folder
from rotameter.adapters.joining import _snakemake_log, _snakemake_metadata, leftover
from rotameter.adapters.joining._snakemake_benchmarks import with_benchmarks
from rotameter.adapters.joining._snakemake_jobs import (
    Job,
    attempts,
    dependencies,
    number,
    with_metadata,
)
from rotameter.adapters.joining._snakemake_slurm import log_ids, with_slurm
from rotameter.adapters.joining.leftover import may_be_another
from rotameter.adapters.joining.merging import Ledger, known_zone
from rotameter.adapters.joining.scanning import named, opened, plausible, walk
from rotameter.errors import BadInput
from rotameter.profiler.live.redact import redact_command
from rotameter.units import many

if TYPE_CHECKING:
    from rotameter.profiler.trace import Trace

__all__ = ["Folder", "find", "join"]


@dataclass
class Folder:
    """What of a Snakemake run lies in a folder."""

    path: Path
    own: Path
    logs: list[Path] = field(default_factory=list)
    benchmarks: list[tuple[InputFile, str]] = field(default_factory=list)
    others: list[Path] = field(default_factory=list)
    aside: list[Path] = field(default_factory=list)
    unread: Unread = field(default_factory=Unread)


def find(path: Path) -> Folder | None:
    """Look for a Snakemake run in a folder; None if there is none."""
    found = Folder(path, own := path / ".snakemake")
    if not is_folder(own, found.unread):
        return None
    found.logs = sorted(
        p for p in walk(own / "log", found.unread, depth=0) if p.name.endswith(".log")
    )
    importer = Importer()
    for file in walk(path, found.unread):
        pair = opened(path, file, found.unread) if plausible(file) else None
        if pair is None:
            if may_be_another(file):
                found.aside.append(file)
            continue
        if importer.sniff(pair[1]) >= 0.5:
            found.benchmarks.append((pair[0], pair[1].name))
        else:
            found.others.append(file)
    return found


def join(folder: Folder, *, utc_offset_s: float | None, build: Builder | None = None) -> Trace:
    """Join what the folder holds, with an empty builder where the caller looks at it after."""
    build, ledger = build or Builder("snakemake", "snakemake"), Ledger()
    logs = _logs(folder, build)
    jobs = attempts([(name, log) for name, log in logs], build, ledger)
    metadata = _metadata(folder, build, ledger)
    jobs = with_metadata(jobs, metadata, build, ledger, utc_offset_s)
    log_ids(folder.own / "slurm_logs", jobs, folder.unread)
    _unfinished(folder, jobs)
    jobs += with_benchmarks(folder, jobs, build, ledger)
    read = with_slurm(folder, jobs, build, ledger, utc_offset_s)
    for text in folder.unread.words():
        build.warn(text)
    leftover.say(folder.path, [*folder.others, *folder.aside], read, build)
    if not jobs:
        raise BadInput(
            f"{folder.path}: a Snakemake folder without metadata, logs and benchmarks of any job",
            hint="run the workflow first",
        )
    number(jobs)
    known_zone(ledger, utc_offset_s, build)
    for job in jobs:
        _lasted(job)
        build.add("tasks", job.joined.row)
        for metric, value in job.joined.samples.items():
            subject = job.joined.row["task_id"]
            row = {"subject": subject, "metric": metric, "value": value, "quality": "sampled"}
            build.add("samples", {"at_ns": job.joined.row.get("ended_ns"), **row})
    for task, on in dependencies(jobs):
        build.add("deps", {"task_id": task, "depends_on": on})
    _facts([log for _, log in logs], build)
    _executors(jobs, logs, build)
    ledger.close([job.joined for job in jobs], build)
    _say(jobs, build)
    return build.build(utc_offset_s=utc_offset_s)


def _lasted(job: Job) -> None:
    """Give how long a job ran, where nothing measured it."""
    row = job.joined.row
    started, ended = row.get("started_ns"), row.get("ended_ns")
    if row.get("wall_s") is None and started is not None and ended is not None and ended >= started:
        source = job.joined.origin.get("ended_ns", "log")
        job.joined.put("wall_s", (ended - started) / 1e9, source)


def _logs(folder: Folder, build: Builder) -> list[tuple[str, _snakemake_log.Log]]:
    """Read the logs, in order of time; dry runs ran nothing."""
    found = []
    for path in folder.logs:
        try:
            with path.open(encoding="utf-8", errors="replace") as stream:
                log = _snakemake_log.read(stream, path.name.removesuffix(".snakemake.log"))
        except OSError as error:
            build.warn(f"cannot read {path.name}: {error.strerror}")
            continue
        build.files += 1
        if not log.dry:
            found.append((named(folder.path, path), log))
    return found


def _metadata(folder: Folder, build: Builder, ledger: Ledger) -> list[_snakemake_metadata.Job]:
    jobs, bad = _snakemake_metadata.read(folder.own / "metadata", folder.unread)
    for name, reason in bad:
        build.records_in += 1
        build.reject(f".snakemake/metadata/{name}", None, reason)
    for job in jobs:
        build.files += job.files
        build.records_in += job.files
        build.merged += job.files - 1
        ledger.records["metadata"] += job.files
    return jobs


def _unfinished(folder: Folder, jobs: list[Job]) -> None:
    """Take the batch job's id of jobs that Snakemake still holds for unfinished."""
    by_output = {output: job for job in jobs for output in job.outputs}
    for output, external in _snakemake_metadata.incomplete(
        folder.own / "incomplete", folder.unread
    ):
        job = by_output.get(output)
        if job is not None and external and job.external is None:
            job.external = _snakemake_log.job_number(external)


def _facts(logs: list[_snakemake_log.Log], build: Builder) -> None:
    if not logs:
        build.meta["run"] = {"status": "unknown"}
        return
    last = logs[-1]
    if last.version:
        build.meta["versions"] = {"snakemake": last.version}
    if last.command:
        build.meta["command"] = redact_command(last.command.split())
    if last.cores:
        build.meta["cores"] = last.cores
    status = "failed" if last.failed else "ok" if last.closed else "unknown"
    build.meta["run"] = {"status": status}
    if not last.closed and last.failed:
        build.warn("the last log says that the run failed, and is not closed")
    elif not last.closed:
        build.warn("the last log is not closed: the run was killed, or is still going on")
    if len(logs) > 1:
        build.warn(
            f"{len(logs):,} runs (logs) lie in this folder: all are joined, and the makespan "
            "spans all of them"
        )


def _executors(jobs: list[Job], logs: list[tuple[str, _snakemake_log.Log]], build: Builder) -> None:
    """Keep how many attempts ran where: a log that tells of cores hands no job to others."""
    here = {name for name, log in logs if log.cores}
    batch = sum(job.batch or job.external is not None for job in jobs)
    local = sum(not job.batch and job.external is None and job.log in here for job in jobs)
    if batch or local:
        build.meta["executors"] = {"local": local, "batch": batch}


def _say(jobs: list[Job], build: Builder) -> None:
    unmeasured = sum(job.joined.row.get("peak_memory_bytes") is None for job in jobs)
    if unmeasured:
        build.not_measured(
            f"memory and CPU time of {unmeasured:,} of {many(len(jobs), 'attempt')}: no "
            "benchmark and no accounting of them"
        )
    whole = sum(job.joined.origin.get("ended_ns") == "log" for job in jobs)
    if whole:
        build.not_measured(
            f"parts of a second of the times of {many(whole, 'attempt')}: only the log has them"
        )
    build.not_measured(
        "failures before the last run of a job, where its log is gone: metadata keep the last only"
    )
