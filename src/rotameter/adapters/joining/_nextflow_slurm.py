"""What Slurm says of a Nextflow run's tasks, joined by the native id."""

from __future__ import annotations

import re
from collections.abc import Container, Sequence
from typing import TYPE_CHECKING

from rotameter.adapters.joining.merging import Joined, Ledger
from rotameter.adapters.joining.slurm_side import JOB_NOT_TASK, Slurm

if TYPE_CHECKING:
    from rotameter.adapters.importers._nextflow_rows import Attempt
    from rotameter.adapters.importers.building import Builder

__all__ = ["belong", "job_of", "with_slurm"]

_NUMBER = re.compile(r"(\d+(?:_\d+)?)(?![\w-])")
_SLURM_KNOWS = ("user", "account", "queue", "host", "granted_cores", "granted_memory_bytes")


def with_slurm(
    attempts: Sequence[Attempt],
    joined: Sequence[Joined],
    slurm: Slurm,
    build: Builder,
    ledger: Ledger,
    utc_offset_s: float | None,
    processes: Container[str] = frozenset(),
) -> list[Joined]:
    """Take what Slurm knows of the tasks' jobs; requeued runs of a job become attempts.

    ``processes`` are the tasks, by hash, whose native id is a process.
    """
    if not slurm.jobs:
        return []
    jobs = [None if a.hash in processes else job_of(a.native_id) for a in attempts]
    jobs = _fitting(attempts, joined, jobs, slurm, build, ledger, utc_offset_s)
    extra: list[Joined] = []
    for made, one, job in zip(attempts, joined, jobs, strict=True):
        if one.row["outcome"] == "cached":
            continue
        rows = slurm.take(job)
        if not rows:
            continue
        ledger.matched["sacct"] += len(rows)
        build.merged += 1
        better = ["started_ns"] if made.guessed_start else []
        one.fill(rows[-1], "sacct", better=(*better, *_SLURM_KNOWS), apart=JOB_NOT_TASK)
        for number, before in enumerate(rows[:-1]):
            own = Joined.of({**before, "task_id": one.row["task_id"]}, "sacct")
            own.row.update(group=one.row["group"], run_id=f"{job} run {number + 1}")
            own.row["source"] = "nextflow"
            own.row["attempt"] = None
            extra.append(own)
    left = slurm.rest()
    ledger.unmatched["sacct"] += left
    for job, rows in slurm.jobs.items():
        if job not in slurm.used:
            for _ in rows:
                build.reject("sacct", None, f"job {job} is of no task of the trace")
    _renumber(joined, extra)
    return extra


def belong(attempts: Sequence[Attempt], slurm: Slurm, build: Builder) -> bool:
    """Say whether any of Slurm's jobs may be one of the tasks', by number and time."""
    joined = [Joined.of(made.row, "trace") for made in attempts]
    jobs = [job_of(made.native_id) for made in attempts]
    return any(_fitting(attempts, joined, jobs, slurm, build, Ledger(), None))


def _fitting(
    attempts: Sequence[Attempt],
    joined: Sequence[Joined],
    jobs: list[str | None],
    slurm: Slurm,
    build: Builder,
    ledger: Ledger,
    utc_offset_s: float | None,
) -> list[str | None]:
    """Bring Slurm's times to the trace's clock; keep the jobs that were there when the task was."""
    _align(joined, jobs, slurm, build, ledger, utc_offset_s)
    kept, said = slurm.fitting(jobs, [one.row for one in joined])
    for text in said:
        build.warn(text)
    return kept


def job_of(native_id: str | None) -> str | None:
    """Give the number of a batch job in a native id; None if it is none (a UUID)."""
    match = _NUMBER.match(native_id or "")
    return match[0] if match else None


def _align(
    joined: Sequence[Joined],
    jobs: list[str | None],
    slurm: Slurm,
    build: Builder,
    ledger: Ledger,
    utc_offset_s: float | None,
) -> None:
    """Bring Slurm's times to the trace's clock."""
    known = [(job, one.row) for one, job in zip(joined, jobs, strict=True)]
    offset = slurm.offset((job, row) for job, row in known if row["outcome"] != "cached")
    if offset is not None:
        how = "inferred from submissions and ends of the same jobs"
    elif build.local == slurm.local:
        offset, how = 0, "taken to be the trace's"
    elif utc_offset_s is not None:
        offset = round(utc_offset_s * 1e9) * (1 if slurm.local else -1)
        how = "given"
    else:
        how = "unknown: its times are left out"
        build.warn("sacct and the trace have no common clock: give the zone with --utc-offset")
    seconds = None if offset is None else offset / 1e9
    ledger.zones["sacct"] = {"ahead_of_trace_s": seconds, "how": how}
    slurm.shift(offset)


def _renumber(joined: Sequence[Joined], extra: list[Joined]) -> None:
    """Count the attempts again where Slurm knows of more."""
    by_task: dict[str, list[Joined]] = {}
    for one in (*joined, *extra):
        by_task.setdefault(one.row["task_id"], []).append(one)
    for task in {one.row["task_id"] for one in extra}:
        rows = by_task[task]
        rows.sort(key=lambda one: one.row.get("ended_ns") or one.row.get("started_ns") or 0)
        for number, one in enumerate(rows, start=1):
            one.row["attempt"] = number
