"""Workflows of the generated cases, and the forms in which a trace of one is written."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from benchmarks.planted.base import Truth
from benchmarks.planted.lists import Job, Node, Placed, as_rows, makespan, schedule

__all__ = ["Flow", "Generated", "base_flow", "settle", "write_nextflow", "write_sacct"]

T0 = 1_790_000_000
GB = 1e9
_WORDS = (
    "trim_reads", "align", "sort_bam", "call_variants", "annotate", "merge_vcf", "qc_report",
    "phase", "impute", "select", "simulate", "relax", "minimise", "dock", "rescore",
    "cluster_poses", "rank", "grid", "regrid", "blend", "render",
)  # fmt: skip


@dataclass(slots=True)
class Flow:
    """Jobs in stages, and the machines that run them."""

    nodes: list[Node]
    stages: list[list[Job]]

    @property
    def jobs(self) -> list[Job]:
        return [job for stage in self.stages for job in stage]


@dataclass(slots=True)
class Generated:
    """A written trace, its length, and what each planted cause costs."""

    path: Path
    makespan_s: float
    truths: list[Truth] = field(default_factory=list)
    form: str = "tables"


def names(rng: random.Random, count: int) -> list[str]:
    """Draw names of stages."""
    return rng.sample(_WORDS, count)


def base_flow(rng: random.Random, *, barrier: bool = False, gpus: float = 0) -> Flow:
    """Draw a workflow that keeps its machines busy: what it asks for is what it needs."""
    count, cores = rng.randrange(2, 4), rng.choice((4, 6, 8))
    memory = cores * rng.choice((4, 6, 8)) * GB
    nodes = [Node(f"node{number:02d}", cores, memory, gpus) for number in range(count)]
    slots = count * cores
    stages: list[list[Job]] = []
    for name in names(rng, rng.randrange(3, 5)):
        middle = rng.uniform(20, 60)
        share = memory / cores
        stage = []
        width = slots * rng.randrange(1, 4)
        for number in range(width):
            seconds = middle * rng.uniform(0.97, 1.03)
            after: tuple[tuple[str, int], ...] = ()
            if stages and barrier:
                after = tuple(job.key for job in stages[-1])
            elif stages:
                after = (stages[-1][number % len(stages[-1])].key,)
            stage.append(
                Job(
                    f"{name}_{number:03d}",
                    name,
                    seconds,
                    after=after,
                    memory=0.9 * share,
                    cpu_s=seconds * rng.uniform(0.93, 0.98),
                    peak=0.9 * share * rng.uniform(0.75, 0.9),
                    limit_s=middle * 2,
                )
            )
        stages.append(stage)
    _decoys(rng, stages)
    return Flow(nodes, stages)


def _decoys(rng: random.Random, stages: list[list[Job]]) -> None:
    """Hide a few tiny jobs, a quick failure and an unread small file beside a first stage."""
    first = stages[0]
    for number in range(rng.randrange(3, 6)):
        stages[-1].append(
            Job(f"note_{number}", "note", 0.05, cores=0, memory=0.001 * GB, cpu_s=0.04,
                peak=0.0009 * GB, after=(first[0].key,))
        )  # fmt: skip
    job = rng.choice(first)
    failed = Job(
        job.task, job.group, 0.4, attempt=1, after=job.after, memory=job.memory,
        outcome="failed", cpu_s=0.3, peak=0.1 * job.memory, limit_s=job.limit_s,
    )  # fmt: skip
    place = first.index(job)
    _renumber(stages, job, 2)
    job.after = (failed.key,)
    first.insert(place, failed)


def _renumber(stages: list[list[Job]], job: Job, attempt: int) -> None:
    """Let a job be a later attempt, for all that depend on it too."""
    old = job.key
    job.attempt = attempt
    for stage in stages:
        for other in stage:
            other.after = tuple(job.key if key == old else key for key in other.after)


def fail_before(flow: Flow, job: Job, seconds: float, outcome: str, **more: Any) -> Job:
    """Let a lost attempt of a job run before it, and give that attempt."""
    (stage,) = (stage for stage in flow.stages if job in stage)
    lost = Job(job.task, job.group, seconds, attempt=job.attempt, after=job.after,
               cores=job.cores, memory=job.memory, gpus=job.gpus, outcome=outcome,
               cpu_s=seconds * 0.9, peak=job.peak, limit_s=job.limit_s)  # fmt: skip
    for name, value in more.items():
        setattr(lost, name, value)
    _renumber(flow.stages, job, job.attempt + 1)
    job.after = (lost.key,)
    stage.insert(stage.index(job), lost)
    return lost


def add_second(flow: Flow, rng: random.Random, kind: str, seconds: float, skip: str) -> None:
    """Plant a second cause of about so many seconds in a group that is not ``skip``."""
    stage = rng.choice([s for s in flow.stages if s[0].group != skip])
    jobs = [job for job in stage if job.outcome == "ok" and job.group != "note"]
    if kind == "straggler":
        # The last of its stage: it begins when nearly all of its mates are done.
        last = jobs[-1]
        last.seconds += seconds
        last.cpu_s = (last.cpu_s or 0.0) + seconds * 0.95
    else:
        for job in jobs:
            fail_before(flow, job, min(0.9 * job.seconds, seconds), "failed")


def settle(
    rng: random.Random,
    place: Path,
    kind: str,
    make: Callable[[bool, bool], Flow],
    second: str | None,
    write: Callable[[Sequence[tuple[Job, Placed]], Flow, Path], Path] | None = None,
) -> Generated:
    """Schedule a workflow with and without its causes, write the first, give the truths."""
    flow = make(True, True)
    whole = makespan(flow.jobs, flow.nodes)
    other = make(False, True)
    truths = [Truth(kind, whole - makespan(other.jobs, other.nodes))]
    if second is not None:
        other = make(True, False)
        truths.append(Truth(second, whole - makespan(other.jobs, other.nodes)))
    placed = as_rows(flow.jobs, schedule(flow.jobs, flow.nodes))
    path = (write or write_tables)(placed, flow, place)
    form = "tables" if write is None else write.__name__.removeprefix("write_")
    return Generated(path, whole, truths, form)


def draw_second(rng: random.Random, first: str) -> str | None:
    """Choose the second cause of a generated case: none in half of them."""
    if rng.random() < 0.5:
        return None
    return rng.choice([kind for kind in ("straggler", "failed_work") if kind != first])


def _ns(seconds: float) -> int:
    return int((T0 + seconds) * 1e9)


def write_tables(rows: Sequence[tuple[Job, Placed]], flow: Flow, place: Path) -> Path:
    """Write a trace folder through the product's own tables."""
    from rotameter.profiler.trace import Trace

    tasks, flows, deps, objects = [], [], [], {}
    for job, made in rows:
        identity = {"task_id": job.task, "attempt": job.attempt}
        tasks.append({
            **identity, "group": job.group, "worker": made.node, "host": made.node,
            "run_id": f"{job.run}{job.task}/{job.attempt}",
            "submitted_ns": _ns(made.ready_s), "ready_ns": _ns(made.ready_s),
            "started_ns": _ns(made.start_s), "ended_ns": _ns(made.end_s),
            "wall_s": made.end_s - made.start_s,
            "outcome": job.outcome, "outcome_kind": "reported", "cpu_s": job.cpu_s,
            "peak_memory_bytes": None if job.peak is None else int(job.peak),
            "peak_memory_kind": "lower_bound" if job.outcome == "oom" else "exact",
            "requested_memory_bytes": int(job.memory), "requested_cores": float(job.cores),
            "requested_gpus": float(job.gpus), "requested_wall_s": job.limit_s,
            "gpu_s": job.gpu_s, "exit_code": 0 if job.outcome in ("ok", "cached") else 1,
            "io_s": sum(f.get("busy_s", 0.0) for f in job.flows) if job.flows else None,
        })  # fmt: skip
        at = made.start_s
        for touched in [*(job.first_flows if made.first else []), *job.flows]:
            end = at + touched.get("busy_s", 0.0)
            flows.append({**identity, "worker": made.node, "medium": "file",
                          "first_ns": _ns(at), "last_ns": _ns(end), **touched})  # fmt: skip
            at = end
            if touched["object"] not in objects:
                objects[touched["object"]] = {
                    "object": touched["object"], "tier": touched.get("tier"),
                    "size_bytes": touched.get("footprint_bytes"),
                }  # fmt: skip
        deps += [{"task_id": job.task, "depends_on": k} for k in sorted({k for k, _ in job.after})
                 if k != job.task]  # fmt: skip
    end_s = max(made.end_s for _, made in rows)
    workers = [
        {"worker": n.name, "host": n.name, "name": n.name, "started_ns": _ns(0),
         "ended_ns": _ns(end_s), "end_reason": "trace ended", "cores": float(n.cores),
         "memory_bytes": int(n.memory),
         "devices": ",".join(f"gpu{i}" for i in range(int(n.gpus))) or None}
        for n in flow.nodes
    ]  # fmt: skip
    tables: dict[str, list[dict[str, Any]]] = {
        "tasks": tasks, "flows": flows, "deps": _distinct(deps), "workers": workers,
        "objects": list(objects.values()),
    }  # fmt: skip
    machines = [
        {"host": n.name, "cores": n.cores, "memory_bytes": int(n.memory)} for n in flow.nodes
    ]
    meta = {
        "engine": "workflow",
        "origin": "recorded",
        "run": {"status": "ok", "started_ns": _ns(0), "ended_ns": _ns(end_s)},
        "machines": machines,
    }
    path = place / "run.rmt"
    Trace.from_tables(tables, meta).save(path)
    return path


def _distinct(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [dict(pair) for pair in dict.fromkeys(tuple(sorted(row.items())) for row in rows)]


def write_nextflow(rows: Sequence[tuple[Job, Placed]], flow: Flow, place: Path) -> Path:
    """Write the trace file of Nextflow, raw values."""
    columns = ["task_id", "hash", "native_id", "process", "name", "status", "exit", "attempt",
               "submit", "start", "complete", "duration", "realtime", "%cpu", "cpus", "memory",
               "peak_rss", "time"]  # fmt: skip
    codes = {"ok": (0, "COMPLETED"), "oom": (137, "FAILED"), "failed": (1, "FAILED")}
    lines = ["\t".join(columns)]
    for number, (job, made) in enumerate(rows, start=1):
        code, status = codes[job.outcome]
        taken = made.end_s - made.start_s
        fields = (
            number, f"{number % 256:02x}/{number * 7919 % 16**6:06x}", 1000 + number,
            job.group.upper(), f"{job.group.upper()} ({job.task})", status, code, job.attempt,
            int((T0 + made.ready_s) * 1000), int((T0 + made.start_s) * 1000),
            int((T0 + made.end_s) * 1000), int((made.end_s - made.ready_s) * 1000),
            int(taken * 1000), f"{100 * (job.cpu_s or taken) / max(taken, 1e-3):.1f}%",
            max(1, int(job.cores)), int(job.memory), int(job.peak or 0),
            int(1000 * (job.limit_s or 3600)),
        )  # fmt: skip
        lines.append("\t".join(str(value) for value in fields))
    path = place / "trace.txt"
    path.write_text("\n".join(lines) + "\n")
    return path


def write_sacct(rows: Sequence[tuple[Job, Placed]], flow: Flow, place: Path) -> Path:
    """Write a listing of ``sacct -P -D``: whole seconds, steps with the peaks."""
    header = (
        "JobID|JobName|State|ExitCode|Submit|Eligible|Start|End|Elapsed|TotalCPU|ReqCPUS|"
        "AllocCPUS|NNodes|ReqMem|MaxRSS|Timelimit|Partition|NodeList"
    )
    codes = {"ok": ("COMPLETED", "0:0"), "timeout": ("TIMEOUT", "0:0"),
             "failed": ("FAILED", "1:0"), "oom": ("OUT_OF_MEMORY", "0:125")}  # fmt: skip
    numbers: dict[str, int] = {}
    lines = [header]
    for job, made in rows:
        number = numbers.setdefault(job.task, 40_000 + len(numbers))
        state, code = codes[job.outcome]
        stamps = "|".join(
            _stamp(seconds) for seconds in (made.ready_s, made.ready_s, made.start_s, made.end_s)
        )
        cores = max(1, int(job.cores))
        took, cpu = _clock(made.end_s - made.start_s), _clock(job.cpu_s or 0.0)
        limit = _clock(job.limit_s or 86_400)
        asked = f"{max(1, int(job.memory / 2**20))}M"
        lines.append(
            f"{number}|{job.group}|{state}|{code}|{stamps}|{took}|{cpu}|{cores}|{cores}|1|"
            f"{asked}||{limit}|short|{made.node}"
        )
        lines.append(
            f"{number}.batch|batch|{state}|{code}|{stamps}|{took}|{cpu}|{cores}|{cores}|1||"
            f"{int((job.peak or 0) / 1024)}K|||{made.node}"
        )
    path = place / "jobs.psv"
    path.write_text("\n".join(lines) + "\n")
    return path


def _stamp(seconds: float) -> str:
    at = datetime.fromtimestamp(T0, UTC) + timedelta(seconds=round(seconds))
    return at.strftime("%Y-%m-%dT%H:%M:%S")


def _clock(seconds: float) -> str:
    whole = round(seconds)
    return f"{whole // 3600:02d}:{whole // 60 % 60:02d}:{whole % 60:02d}"
