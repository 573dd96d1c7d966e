"""What Slurm says of a Snakemake run's jobs, joined by the batch job's id."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rotameter.adapters.joining.merging import Joined, Ledger
from rotameter.adapters.joining.scanning import walk
from rotameter.adapters.joining.slurm_side import (
    JOB_NOT_TASK,
    Slurm,
    read_report,
    read_sacct,
)

if TYPE_CHECKING:
    from rotameter.adapters.importers.building import Builder
    from rotameter.adapters.importers.walking import Unread
    from rotameter.adapters.joining._snakemake_jobs import Job
    from rotameter.adapters.joining.snakemake_run import Folder

__all__ = ["log_ids", "with_slurm"]

_NUMBERED = re.compile(r"(\d+(?:_\d+)?)\.log")
_KNOWN = ("user", "account", "queue", "host", "granted_cores", "granted_memory_bytes")
_SLURM_KNOWS = ("started_ns", *_KNOWN)


def log_ids(folder: Path, jobs: Sequence[Job], unread: Unread) -> None:
    """Take job ids from ``slurm_logs/rule_NAME/WILDCARDS/ID.log``, where no log told them."""
    if all(job.external for job in jobs):
        return
    known = {job.external for job in jobs if job.external}
    by_place: dict[tuple[str, str], list[str]] = {}
    for path in walk(folder, unread, depth=8):
        match = _NUMBERED.fullmatch(path.name)
        parts = path.relative_to(folder).parts[:-1]
        if match is None or not parts or match[1] in known:
            continue
        rule = parts[0].removeprefix("rule_")
        by_place.setdefault((rule, "_".join(parts[1:])), []).append(match[1])
    for (rule, cards), ids in by_place.items():
        same = [j for j in jobs if j.external is None and j.rule == rule and _fits(j, cards)]
        ids.sort(key=lambda one: [int(part) for part in one.split("_")])
        if len(same) == len(ids):
            for job, one in zip(same, ids, strict=True):
                job.external, job.batch = one, True
                row = job.joined.row
                if row.get("submitted_ns") is None:
                    # What was shown was the handing over.
                    row["submitted_ns"] = row.get("started_ns")
                    job.joined.origin["submitted_ns"] = job.joined.origin.get("started_ns", "log")
                    row["started_ns"] = None


def _fits(job: Job, cards: str) -> bool:
    if job.jobid is not None:
        return "_".join(job.wildcards.values()).replace("/", "_") == cards
    flat = " ".join(job.outputs).replace("/", "_")
    return not cards or cards in flat


def with_slurm(
    folder: Folder,
    jobs: list[Job],
    build: Builder,
    ledger: Ledger,
    utc_offset_s: float | None,
) -> list[Path]:
    """Join accounting files and efficiency reports; requeued runs of a job become attempts.

    Gives the files that were read.
    """
    sacct = read_sacct(folder.path, folder.others, build, ledger)
    report = read_report(folder.path, folder.others, build, ledger)
    if sacct.jobs:
        _align(jobs, sacct, build, ledger, utc_offset_s)
        _take(jobs, sacct, "sacct", build, ledger)
    if report.jobs:
        _take(jobs, report, "efficiency report", build, ledger)
    return [*sacct.files, *report.files]


def _align(
    jobs: Sequence[Job],
    slurm: Slurm,
    build: Builder,
    ledger: Ledger,
    utc_offset_s: float | None,
) -> None:
    """Bring Slurm's times to the clock of the others."""
    offset = slurm.offset((job.external, job.joined.row) for job in jobs)
    how = "inferred from submissions and ends of the same jobs"
    zones = {zone.get("utc_offset_s") for zone in ledger.zones.values()} - {None}
    if offset is None and not slurm.local and not build.local:
        offset, how = 0, "both count from the epoch"
    elif offset is None and build.local and slurm.local:
        offset, how = 0, "taken to be that of the logs"
    elif offset is None and slurm.local and utc_offset_s is not None:
        offset, how = round(utc_offset_s * 1e9), "given"
    elif offset is None and slurm.local and len(zones) == 1:
        offset, how = round(next(iter(zones)) * 1e9), "taken to be that of the logs"
    elif offset is None:
        how = "unknown: its times are left out"
        build.warn("sacct's times have no zone that can be found: give it with --utc-offset")
    ledger.zones["sacct"] = {"utc_offset_s": None if offset is None else offset / 1e9, "how": how}
    slurm.shift(offset)


def _take(jobs: list[Job], slurm: Slurm, source: str, build: Builder, ledger: Ledger) -> None:
    extra: list[Job] = []
    found, said = slurm.fitting([job.external for job in jobs], [job.joined.row for job in jobs])
    for job, name in zip(jobs, found, strict=True):
        rows = slurm.take(name)
        if not rows:
            continue
        ledger.matched[source] += len(rows)
        build.merged += 1
        job.joined.fill(_known(rows[-1]), source, better=_SLURM_KNOWS, apart=JOB_NOT_TASK)
        extra += [_requeued(job, row, source) for row in rows[:-1]]
    for text in said:
        build.warn(text)
    for key, rows in slurm.jobs.items():
        if key not in slurm.used:
            for _ in rows:
                build.reject(source, None, f"job {key} is of no job of the workflow")
    ledger.unmatched[source] += slurm.rest()
    jobs += extra


def _known(row: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in row.items() if k not in ("group", "worker")}


def _requeued(job: Job, row: dict[str, Any], source: str) -> Job:
    from rotameter.adapters.joining._snakemake_jobs import Job

    mine = job.joined.row
    joined = Joined.of({**row, "task_id": mine["task_id"], "group": mine["group"]}, source)
    joined.row.update(source="snakemake", attempt=None)
    return Job(joined, list(job.outputs), list(job.inputs), job.rule, external=job.external)
