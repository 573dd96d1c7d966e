"""Attempts of Snakemake's jobs, from logs and metadata."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rotameter.adapters.importers._snakemake_rows import requests
from rotameter.adapters.joining import _snakemake_log, _snakemake_metadata
from rotameter.adapters.joining.merging import Joined, Ledger, lost, offset_between
from rotameter.profiler.live.redact import redact

if TYPE_CHECKING:
    from rotameter.adapters.importers.building import Builder

__all__ = ["Job", "attempts", "dependencies", "number", "with_metadata"]

_NEAR_NS = 120 * 10**9
_SECONDS_NS = 3 * 10**9
_LAG_NS = 60 * 10**9
_LOCAL = ("submitted_ns", "started_ns", "ended_ns")
_KILL = 9


@dataclass
class Job:
    """One attempt, with what joins it to the records of other sources."""

    joined: Joined
    outputs: list[str] = field(default_factory=list)
    inputs: list[str] = field(default_factory=list)
    rule: str | None = None
    benchmark: str | None = None
    wildcards: dict[str, str] = field(default_factory=dict)
    jobid: str | None = None
    external: str | None = None
    batch: bool = False
    blind: bool = False
    log: str | None = None
    number: int = 0
    metadata: bool = False

    @property
    def ok(self) -> bool:
        """Whether it ended well, as far as is known."""
        return not lost(self.joined.row.get("outcome"))


def _task_id(outputs: Sequence[str], rule: str | None, jobid: str | None) -> str:
    if outputs:
        return redact(min(outputs))[:1000]
    return redact(f"{rule or 'job'} (job {jobid})")


def _cards(text: str | None) -> dict[str, str]:
    """Read ``sample=a, unit=1``.

    Examples
    --------
    >>> _cards("sample=a, unit=1")
    {'sample': 'a', 'unit': '1'}
    """
    pairs = [part.split("=", 1) for part in (text or "").split(", ") if "=" in part]
    return {name.strip(): value for name, value in pairs}


def _resources(text: str | None) -> dict[str, Any]:
    return dict(_cards(text))


def attempts(
    logs: Sequence[tuple[str, _snakemake_log.Log]], build: Builder, ledger: Ledger
) -> list[Job]:
    """Make the attempts that the logs tell of; their times are the logs' local ones."""
    jobs = []
    for name, log in logs:
        for one in log.attempts:
            if one.idle:
                continue
            build.records_in += 1
            ledger.records["log"] += 1
            jobs.append(_of_log(name, one, log.closed))
    return jobs


def _of_log(name: str, one: _snakemake_log.Attempt, closed: bool) -> Job:
    row: dict[str, Any] = {
        "task_id": _task_id(one.outputs, one.rule, one.jobid),
        "run_id": f"{one.log} job {one.jobid} try {one.number}",
        "group": redact(one.rule) if one.rule else None,
        "outcome": one.outcome or "unknown",
        "outcome_kind": "reported",
        "exit_code": one.exit_code,
        "signal": one.signal,
        "source": "snakemake",
    }
    # A batch job is shown when it is handed over, one that runs here when it starts.
    row["submitted_ns" if one.batch else "started_ns"] = one.started_ns
    row["ended_ns"] = one.ended_ns
    row.update(requests(_resources(one.resources)))
    if one.threads and one.threads.isdigit():
        row["requested_cores"] = float(one.threads[:9])
    elif one.resources is not None or one.threads is not None:
        row["requested_cores"] = 1.0  # written only where it is more
    if one.outcome is None:
        row["error"] = "no end in the log" + ("" if closed else ", which is not closed")
    elif one.outcome == "failed":
        row["error"] = "failed" if one.exit_code is None else f"exit {one.exit_code}"
        if one.signal == _KILL:
            row.update(outcome="oom", outcome_kind="inferred")
            if row.get("requested_memory_bytes"):
                row["peak_memory_bytes"] = row["requested_memory_bytes"]
                row["peak_memory_kind"] = "lower_bound"
    job = Job(Joined.of(row, "log"), one.outputs, one.inputs, one.rule, one.benchmark)
    job.wildcards, job.jobid, job.external = _cards(one.wildcards), one.jobid, one.external
    job.log, job.number, job.batch, job.blind = name, one.number, one.batch, one.blind
    return job


def with_metadata(
    jobs: list[Job],
    metadata: Sequence[_snakemake_metadata.Job],
    build: Builder,
    ledger: Ledger,
    utc_offset_s: float | None,
) -> list[Job]:
    """Join the records of outputs, and bring all times to the epoch where that is possible."""
    last: dict[str, Job] = {}
    for job in jobs:
        for output in job.outputs:
            if job.ok or output not in last or not last[output].ok:
                last[output] = job
    pairs = [(one, next((last[o] for o in one.outputs if o in last), None)) for one in metadata]
    _clocks(jobs, pairs, bool(metadata), build, ledger, utc_offset_s)
    logged = bool(jobs)
    nameless = [job for job in jobs if job.blind and job.ok]
    for one, mate in pairs:
        mate = mate or _by_time(one, nameless)
        if mate is not None and not mate.metadata and _same(one, mate):
            build.merged += 1
            ledger.matched["metadata"] += one.files
            _take(mate, one)
        else:
            if logged:
                ledger.unmatched["metadata"] += one.files
            jobs.append(_of_metadata(one))
    return jobs


def _clocks(
    jobs: list[Job],
    pairs: Sequence[tuple[_snakemake_metadata.Job, Job | None]],
    epoch: bool,
    build: Builder,
    ledger: Ledger,
    utc_offset_s: float | None,
) -> None:
    """Find each log's zone from jobs that the metadata time too, and move its times."""
    if not epoch:
        build.local = bool(jobs)
        if jobs:
            ledger.zones["log"] = {"how": "local, as given with --utc-offset or relative"}
        return
    given = None if utc_offset_s is None else round(utc_offset_s * 1e9)
    offsets: dict[str, int | None] = {}
    for name in dict.fromkeys(job.log for job in jobs if job.log):
        shared = [
            (
                (job.joined.row.get("started_ns") or job.joined.row.get("submitted_ns")),
                one.started_ns,
            )
            for one, job in pairs
            if job is not None and job.log == name
        ]
        offsets[name] = offset_between(shared)
    known = {offset for offset in offsets.values() if offset is not None}
    for name, offset in offsets.items():
        how = "inferred from jobs that the metadata time too"
        if offset is None and given is not None:
            offset, how = given, "given"
        elif offset is None and len(known) == 1:
            offset, how = next(iter(known)), "taken to be that of the other logs"
        elif offset is None:
            how = "unknown: its times are left out, durations are kept"
            build.warn("logs whose zone cannot be found: give it with --utc-offset")
        offsets[name] = offset
        ledger.zones[name] = {
            "utc_offset_s": None if offset is None else offset / 1e9,
            "how": how,
        }
    for each in jobs:
        if each.log:
            _shift(each.joined, offsets[each.log])


def _shift(joined: Joined, by_ns: int | None) -> None:
    row = joined.row
    if by_ns is None and row.get("started_ns") is not None and row.get("ended_ns") is not None:
        joined.put("wall_s", (row["ended_ns"] - row["started_ns"]) / 1e9, "log")
    for column in _LOCAL:
        if row.get(column) is not None:
            row[column] = None if by_ns is None else row[column] - by_ns


def _same(one: _snakemake_metadata.Job, job: Job) -> bool:
    """Say whether a record is of this attempt, and not of a run whose log is gone."""
    row = job.joined.row
    begun = row.get("started_ns") or row.get("submitted_ns")
    if one.started_ns is None or begun is None:
        return True
    return bool(abs(one.started_ns - begun) <= _NEAR_NS)


def _by_time(one: _snakemake_metadata.Job, nameless: list[Job]) -> Job | None:
    """Find the job that a rule's message stood for in the log: only its time is there."""
    near: list[tuple[int, int]] = []
    for place, job in enumerate(nameless):
        if job.rule not in (None, one.rule):
            continue
        begun = job.joined.row.get("started_ns") or job.joined.row.get("submitted_ns")
        end = job.joined.row.get("ended_ns")
        for mine, theirs in ((begun, one.started_ns), (end, one.ended_ns)):
            if mine is not None and theirs is not None and abs(mine - theirs) <= _SECONDS_NS:
                near.append((abs(mine - theirs), place))
    return nameless.pop(min(near)[1]) if near else None


def _take(job: Job, one: _snakemake_metadata.Job) -> None:
    """Take the finer times where they can be right, and inputs."""
    joined, row = job.joined, job.joined.row
    job.metadata = True
    job.outputs = list(dict.fromkeys((*job.outputs, *one.outputs)))
    job.inputs = list(dict.fromkeys((*job.inputs, *one.inputs)))
    job.external = job.external or _snakemake_log.job_number(one.external)
    job.batch = job.batch or job.external is not None
    row["task_id"] = _task_id(job.outputs, job.rule, job.jobid)
    column = "submitted_ns" if job.batch else "started_ns"
    start, end = one.started_ns, one.ended_ns
    # Some records hold the moment of writing, or an output's older date.
    sound = start is not None and end is not None and start < end
    if start is not None and end is not None and start < end:
        joined.put(column, start, "metadata")
        if row.get("ended_ns") is None or abs(end - row["ended_ns"]) <= _LAG_NS:
            joined.put("ended_ns", end, "metadata")
    if job.rule is None and one.rule:
        job.rule = one.rule
        joined.put("group", redact(one.rule), "metadata")
    if row.get("outcome") == "unknown" and sound and not one.incomplete:
        joined.put("outcome", "ok", "metadata")
        joined.put("outcome_kind", "inferred", "metadata")
        row["error"] = None


def _of_metadata(one: _snakemake_metadata.Job) -> Job:
    external = _snakemake_log.job_number(one.external)
    sound = one.started_ns is None or one.ended_ns is None or one.started_ns <= one.ended_ns
    row: dict[str, Any] = {
        "task_id": _task_id(one.outputs, one.rule, None),
        "group": redact(one.rule) if one.rule else None,
        "outcome": "unknown" if one.incomplete or one.ended_ns is None else "ok",
        "outcome_kind": "inferred",
        "error": "incomplete" if one.incomplete else None,
        "submitted_ns" if external else "started_ns": one.started_ns if sound else None,
        "ended_ns": one.ended_ns,
        "source": "snakemake",
    }
    job = Job(Joined.of(row, "metadata"), one.outputs, one.inputs, one.rule)
    job.external, job.batch, job.metadata = external, external is not None, True
    return job


def number(jobs: Sequence[Job]) -> None:
    """Count the attempts of each task, by time and place in the logs."""
    by_task: dict[str, list[Job]] = {}
    for job in jobs:
        by_task.setdefault(job.joined.row["task_id"], []).append(job)
    for tries in by_task.values():
        tries.sort(key=lambda job: (_begun(job), job.log or "", job.number))
        for count, job in enumerate(tries, start=1):
            job.joined.row["attempt"] = count


def _begun(job: Job) -> int:
    row = job.joined.row
    return row.get("submitted_ns") or row.get("started_ns") or row.get("ended_ns") or 0


def dependencies(jobs: Sequence[Job]) -> Iterator[tuple[str, str]]:
    """Give (task, task it takes an output of), each once."""
    makers = {
        os.path.normpath(output): job.joined.row["task_id"]
        for job in jobs
        for output in job.outputs
    }
    seen: set[tuple[str, str]] = set()
    for job in jobs:
        task = job.joined.row["task_id"]
        for name in job.inputs:
            maker = makers.get(os.path.normpath(name))
            if maker is not None and maker != task and (task, maker) not in seen:
                seen.add((task, maker))
                yield task, maker
