"""Attempts of Snakemake's jobs, from logs and metadata."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rotameter.adapters.importers._snakemake_rows import requests
from rotameter.adapters.joining import _snakemake_log, _snakemake_metadata
from rotameter.adapters.joining._snakemake_clocks import LATE_NS, clocks, older_start, span
from rotameter.adapters.joining.merging import Joined, Ledger, lost
from rotameter.profiler.live.redact import redact

if TYPE_CHECKING:
    from rotameter.adapters.importers.building import Builder

__all__ = ["Job", "attempts", "dependencies", "number", "with_metadata"]

_NEAR_NS = 120 * 10**9
_SECONDS_NS = 3 * 10**9
_WHOLE_NS = 2 * 10**9
"""What a log's whole seconds may be off: it shows a job shortly before or after its start."""
_LAG_NS = 60 * 10**9
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
    message: str | None = None
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
        tries = Counter[str]()
        for one in log.attempts:
            if one.idle:
                continue
            build.records_in += 1
            ledger.records["log"] += 1
            tries[one.jobid] += 1
            jobs.append(_of_log(name, one, tries[one.jobid], log.closed))
    return jobs


def _of_log(name: str, one: _snakemake_log.Attempt, tried: int, closed: bool) -> Job:
    row: dict[str, Any] = {
        "task_id": _task_id(one.outputs, one.rule, one.jobid),
        "run_id": f"{one.log} job {one.jobid} try {tried}",
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
    job.message = one.message
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
    clocks(jobs, pairs, bool(metadata), build, ledger, utc_offset_s)
    logged = bool(jobs)
    nameless = [job for job in jobs if job.blind and job.ok]
    for one, mate in pairs:
        found = mate
        if mate is None or mate.metadata or not _same(one, mate):
            found = _by_time(one, nameless)
        if found is not None:
            build.merged += 1
            ledger.matched["metadata"] += one.files
            _take(found, one)
        else:
            if logged:
                ledger.unmatched["metadata"] += one.files
            jobs.append(_of_metadata(one, mate))
    name_blind(jobs)
    return jobs


def _same(one: _snakemake_metadata.Job, job: Job) -> bool:
    """Say whether a record is of this attempt, and not of a run whose log is gone.

    Its end is the output's last change, which falls into the attempt that made it. Its start may
    be that of an earlier run: Snakemake keeps it for rules with ``run:``.
    """
    begun, end = span(job)
    if one.ended_ns is not None and end is not None and one.ended_ns > end + LATE_NS:
        return False
    if one.ended_ns is not None and begun is not None and one.ended_ns >= begun - _WHOLE_NS:
        return end is not None or one.started_ns is None or one.started_ns <= begun + _NEAR_NS
    if one.started_ns is None or begun is None:
        return True
    # The output has an older date than its job: only the start can tell.
    return bool(abs(one.started_ns - begun) <= _NEAR_NS)


def _by_time(one: _snakemake_metadata.Job, nameless: list[Job]) -> Job | None:
    """Find the job that a rule's message stood for in the log: only its time is there."""
    near: list[tuple[int, int]] = []
    for place, job in enumerate(nameless):
        if job.metadata or job.rule not in (None, one.rule) or not _same(one, job):
            continue
        if not set(job.outputs) <= set(one.outputs):
            continue
        begun, end = span(job)
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
        begun, stopped = span(job)
        wall = row.get("wall_s")
        older = start < begun - _WHOLE_NS if begun is not None else False
        if begun is None and wall is not None:
            older = older_start(one, round(wall * 1e9))
        if older:
            joined.conflicts.add(column)
        else:
            joined.put(column, start, "metadata")
        near = stopped is None or abs(end - stopped) <= _LAG_NS
        if near and (not older or begun is None or end >= begun):
            joined.put("ended_ns", end, "metadata")
        elif not near:
            joined.conflicts.add("ended_ns")
    if job.rule is None and one.rule:
        job.rule = one.rule
        joined.put("group", redact(one.rule), "metadata")
    if row.get("outcome") == "unknown" and sound and not one.incomplete:
        joined.put("outcome", "ok", "metadata")
        joined.put("outcome_kind", "inferred", "metadata")
        row["error"] = None


def _of_metadata(one: _snakemake_metadata.Job, mate: Job | None) -> Job:
    """Make an attempt of a record alone; its start may be that of the attempt before, ``mate``."""
    external = _snakemake_log.job_number(one.external)
    begun, end = (None, None) if mate is None or not mate.ok else span(mate)
    older = (
        one.started_ns is not None
        and begun is not None
        and end is not None
        and begun - _WHOLE_NS <= one.started_ns <= end + _WHOLE_NS
    )
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
    if older:
        column = "submitted_ns" if external else "started_ns"
        job.joined.row[column] = None
        job.joined.origin.pop(column, None)
        job.joined.conflicts.add(column)
    return job


def name_blind(jobs: Sequence[Job]) -> None:
    """Name jobs of which the log shows a message alone as other attempts of the same job are.

    The same are: what a log calls by one number; what has the rule and an output in common; what
    has the rule and message in common where no log has two jobs of them.
    """
    blind = [job for job in jobs if job.blind and job.jobid is not None]
    numbers: dict[tuple[Any, ...], dict[str | None, set[str | None]]] = {}
    for job in blind:
        logs = numbers.setdefault((job.rule, job.message), {})
        logs.setdefault(job.log, set()).add(job.jobid)
    known: dict[tuple[Any, ...], Job] = {}
    for job in jobs:
        if job.outputs and (job.metadata or not job.blind):
            for key in _blind_keys(job, numbers):
                known.setdefault(key, job)
    for job in blind:  # and what only the reason tells, where nothing better does
        for key in _blind_keys(job, numbers) if job.outputs else ():
            known.setdefault(key, job)
    for job in blind:
        if job.metadata:
            continue
        like = next((known[k] for k in _blind_keys(job, numbers) if k in known), None)
        if like is not None and like is not job:
            job.outputs = list(like.outputs)
            job.joined.row["task_id"] = like.joined.row["task_id"]


def _blind_keys(
    job: Job, numbers: dict[tuple[Any, ...], dict[str | None, set[str | None]]]
) -> Iterator[tuple[Any, ...]]:
    for output in job.outputs:
        yield "output", job.rule, output
    if not job.blind:
        return
    yield "number", job.log, job.jobid
    logs = numbers.get((job.rule, job.message), {})
    if job.rule and job.message and all(len(ids) == 1 for ids in logs.values()):
        yield "message", job.rule, job.message


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
