"""A made-up run, the same for the same arguments: tasks, groups, workers, losses, odd names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from rotameter.profiler.schema import arrow_schema
from rotameter.profiler.trace import Trace
from rotameter.values import Evidence, Figure, Finding, Verdict

EPOCH_NS = 1_790_000_000_000_000_000
GROUPS = ("read-parquet", "assign", "shuffle-transfer", "shuffle-unpack", "fit-model", "reduce")
HOSTILE = (
    "<script>window.pwned=1</script>",
    '"><img src=x onerror="window.pwned=1">',
    "</script><script>window.pwned=1</script>",
    "line one\nline two\r\n\ttab\x00\x1b[31m",
    "ab\u202egnirts\u2066 \u2028 \u2029",
    "🦀" * 40,
    "x" * 10_000,
    "{{ 7*7 }}{% raw %}${alert(1)}`",
)


def _table(name: str, columns: Mapping[str, Any]) -> pa.Table:
    schema = arrow_schema(name)
    length = max((len(c) for c in columns.values()), default=0)
    arrays = [
        pa.array(columns[f.name], f.type, from_pandas=True)
        if f.name in columns
        else pa.nulls(length, f.type)
        for f in schema
    ]
    return pa.Table.from_arrays(arrays, schema=schema)


def _pick(values: list[str], index: np.ndarray) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(index, pa.int32()), values).cast(pa.string())


def _place(
    rng: np.random.Generator, tasks: int, slots: int, wall_s: np.ndarray, base_ns: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Run tasks one after another on slots; returns slot, start and end."""
    slot = np.arange(tasks) % slots
    gap_s = rng.exponential(0.15 * float(wall_s.mean() if tasks else 1.0), tasks)
    start = np.zeros(tasks, np.int64)
    end = np.zeros(tasks, np.int64)
    for s in range(slots):
        mine = slot == s
        ends = np.cumsum((wall_s[mine] + gap_s[mine]) * 1e9).astype(np.int64)
        end[mine] = base_ns + ends
        start[mine] = end[mine] - (wall_s[mine] * 1e9).astype(np.int64)
    return slot, start, end


def _tasks(
    rng: np.random.Generator,
    *,
    tasks: int,
    groups: list[str],
    workers: list[str],
    threads: int,
    base_ns: int,
    failed: float,
    names: list[str] | None,
) -> dict[str, Any]:
    # Groups follow one another and overlap a little, as stages do.
    stage = np.arange(tasks) / max(tasks, 1) * len(groups) + rng.normal(0, 0.3, tasks)
    group = np.clip(stage.astype(np.int64), 0, len(groups) - 1)
    scale = 0.05 * (1.0 + group)
    wall_s = scale * rng.lognormal(0.0, 0.7, tasks)
    slot, start, end = _place(rng, tasks, len(workers) * threads, wall_s, base_ns)
    wait_s = rng.exponential(2.0, tasks)
    ready = np.maximum(start - (wait_s * 1e9).astype(np.int64), base_ns)
    bad = rng.random(tasks) < failed
    outcome = np.where(bad, np.where(rng.random(tasks) < 0.5, 1, 2), 0)
    cpu_share = np.clip(rng.normal(0.8 - 0.1 * (group % 4), 0.1, tasks), 0.05, 1.0)
    memory = (1e8 * (1 + group) * rng.lognormal(0, 0.3, tasks)).astype(np.int64)
    keys = names or [f"('{groups[g]}-0a1b2c3d4e5f', {i})" for i, g in enumerate(group.tolist())]
    return {
        "task_id": keys,
        "attempt": np.ones(tasks, np.int64),
        "run_id": [str(i) for i in range(tasks)],
        "group": _pick(groups, group),
        "worker": _pick(workers, slot // threads),
        "host": _pick(["node-a", "node-b"], (slot // threads) % 2),
        "ready_ns": ready,
        "started_ns": start,
        "ended_ns": end,
        "outcome": _pick(["ok", "failed", "worker_lost"], outcome),
        "outcome_kind": _pick(["reported", "inferred"], (outcome == 2).astype(np.int64)),
        "error": [
            None if o != 1 else "ValueError: could not convert string to float"
            for o in outcome.tolist()
        ],
        "wall_s": wall_s,
        "cpu_s": wall_s * cpu_share,
        "transfer_s": wall_s * 0.1,
        "peak_memory_bytes": memory,
        "peak_memory_kind": _pick(["exact", "upper_bound"], (group % 2)),
        "read_bytes": np.where(group == 0, memory // 2, 0),
        "write_bytes": np.where(group == len(groups) - 1, memory // 8, 0),
        "io_kind": _pick(["exact"], np.zeros(tasks, np.int64)),
        "received_bytes": memory // 10,
        "output_bytes": memory // 5,
        "source": _pick(["worker"], np.zeros(tasks, np.int64)),
    }


def _flows(rng: np.random.Generator, workers: list[str], keys: list[str]) -> dict[str, Any]:
    # Each worker receives from at most eight others, so that many workers stay cheap.
    reach = range(1, min(9, len(workers)))
    pairs = [(a, workers[(i + k) % len(workers)]) for i, a in enumerate(workers) for k in reach]
    count = len(pairs) * 3
    which = np.arange(count) % max(len(pairs), 1)
    return {
        "task_id": [keys[i % len(keys)] for i in range(count)],
        "attempt": [1] * count,
        "worker": [pairs[i][0] for i in which],
        "peer": [pairs[i][1] for i in which],
        "object": [f"object-{i}" for i in range(count)],
        "medium": ["network"] * count,
        "op": ["receive" if i % 3 else "p2p-receive" for i in range(count)],
        "bytes": rng.lognormal(17, 1.2, count).astype(np.int64),
        "busy_s": rng.exponential(0.2, count),
    }


def _events(
    groups: list[str], workers: list[str], first: int, last: int, deaths: int
) -> list[dict[str, Any]]:
    span = last - first
    rows: list[dict[str, Any]] = [
        {
            "at_ns": first,
            "kind": "group_origin",
            "group": name,
            "file": "pipeline.py",
            "line": 10 + 7 * i,
            "text": f"frame.{name.split('-')[0]}(...)"[:200],
            "layer": name[:50],
        }
        for i, name in enumerate(groups)
    ]
    for i in range(min(deaths, len(workers))):
        at = first + span * (i + 1) // (deaths + 1)
        shared = {"worker": workers[i], "rss_bytes": 3_900_000_000, "limit_bytes": 4_000_000_000}
        rows += [
            {"at_ns": at - span // 20, "kind": "worker_paused", **shared},
            {"at_ns": at - span // 40, "kind": "worker_resumed", "worker": workers[i]},
            {"at_ns": at, "kind": "worker_memory_kill", "pid": 100 + i, **shared},
            {
                "at_ns": at,
                "kind": "executing_at_death",
                "worker": workers[i],
                "group": groups[-1],
                "rss_bytes": 2_100_000_000,
            },
            {
                "at_ns": at + 1,
                "kind": "worker_removed",
                "worker": workers[i],
                "expected": False,
                "reason": "killed by the nanny",
            },
            {"at_ns": at + span // 50, "kind": "worker_paused", **shared},
        ]
    rows.append({"at_ns": last, "kind": "level_changed", "reason": "tasks of 2 ms", "value": 1.0})
    return rows


def synthetic_tables(
    tasks: int = 1_000,
    *,
    groups: int = 6,
    workers: int = 4,
    threads: int = 2,
    deps: int = 0,
    transfers: bool = True,
    deaths: int = 0,
    failed: float = 0.0,
    hostile: bool = False,
    times: str = "epoch",
    seed: int = 0,
) -> dict[str, pa.Table]:
    """Make the tables.

    Parameters
    ----------
    tasks, groups, workers, threads : int
        How many; ``threads`` per worker.
    deps : int
        Dependencies per task, on earlier tasks.
    transfers : bool
        Whether flows between workers are recorded.
    deaths : int
        Workers that die for memory.
    failed : float
        Share of attempts that fail or lose their worker.
    hostile : bool
        Names that try to break a page.
    times : {"epoch", "relative", "none"}
        Since the epoch, since the start of the run, or not recorded.
    seed : int
    """
    rng = np.random.default_rng(seed)
    base_ns = EPOCH_NS if times == "epoch" else 0
    group_names = [GROUPS[i] if i < len(GROUPS) else f"group-{i}" for i in range(groups)]
    worker_names = [f"tcp://10.0.0.{i // 8 + 1}:{40_000 + i}" for i in range(workers)]
    keys = None
    if hostile:
        group_names = [
            HOSTILE[i % len(HOSTILE)] + (f"#{i}" if i >= 8 else "") for i in range(groups)
        ]
        worker_names[0] = HOSTILE[0]
        keys = [HOSTILE[i % len(HOSTILE)] + str(i) for i in range(tasks)]
    made = _tasks(
        rng,
        tasks=tasks,
        groups=group_names,
        workers=worker_names,
        threads=threads,
        base_ns=base_ns,
        failed=failed,
        names=keys,
    )
    first, last = base_ns, int(made["ended_ns"].max()) if tasks else base_ns
    tables = {"tasks": _table("tasks", made)}
    if times == "none":
        gone = ("ready_ns", "started_ns", "ended_ns")
        tables["tasks"] = _table("tasks", {k: v for k, v in made.items() if k not in gone})
    if deps and tasks > 1:
        child = np.repeat(np.arange(1, tasks), deps)
        parent = (rng.random(len(child)) * child).astype(np.int64)
        ids = made["task_id"]
        tables["deps"] = _table(
            "deps",
            {"task_id": [ids[i] for i in child], "depends_on": [ids[i] for i in parent]},
        )
    if transfers and tasks and workers > 1:
        tables["flows"] = _table("flows", _flows(rng, worker_names, made["task_id"]))
    events = _events(group_names, worker_names, first, last, deaths) if times != "none" else []
    tables["events"] = pa.Table.from_pylist(events, schema=arrow_schema("events"))
    tables["samples"] = _table(
        "samples",
        {
            "at_ns": [None if times == "none" else first + i for i in range(2 * workers)],
            "subject": worker_names * 2,
            "metric": ["rss_bytes"] * workers + ["spill_total_bytes"] * workers,
            "value": [2.1e9 + 1e8 * i for i in range(workers)] + [3e8] * workers,
        },
    )
    tables["workers"] = _table(
        "workers",
        {
            "worker": worker_names,
            "host": [f"node-{'ab'[i % 2]}" for i in range(workers)],
            "name": [str(i) for i in range(workers)],
            "pid": [1_000 + i for i in range(workers)],
            "started_ns": [None if times == "none" else first] * workers,
            "ended_ns": [None if times == "none" else last] * workers,
            "end_reason": ["killed for memory" if i < deaths else "closed" for i in range(workers)],
            "cores": [float(threads)] * workers,
            "memory_bytes": [4_000_000_000] * workers,
        },
    )
    return tables


def synthetic_meta(times: str = "epoch", status: str = "ok", **more: Any) -> dict[str, Any]:
    """Make the metadata of a recorded run."""
    return {
        "schema": 1,
        "origin": "recorded",
        "engine": "dask",
        "time_base": "epoch_ns" if times == "epoch" else "relative",
        "machines": [
            {"host": "node-a", "cores": 16, "memory_bytes": 64 * 10**9, "system": "Linux 6.18"},
            {"host": "node-b", "cores": 16, "memory_bytes": 64 * 10**9, "system": "Linux 6.18"},
        ],
        "not_measured": [
            {
                "what": "bytes per file of native readers",
                "reason": "they bypass Python's file objects",
                "enable": "run with --follow-native",
            }
        ],
        "overhead": {"probe_s": 1.23, "encode_s": 0.31},
        "dropped": 12,
        "records": 104_322,
        "segments": 6,
        "warnings": ["segment worker-3: torn tail, 1,024 bytes left out"],
        "versions": {"python": "3.11.7", "dask": "2026.8.0", "rotameter": "0.1.0"},
        "command": ["python", "pipeline.py", "--token", "…"],
        "run": {"status": status},
        "levels": {"worker-0": 1},
        **more,
    }


def synthetic_trace(
    tasks: int = 1_000, *, meta: Mapping[str, Any] | None = None, **more: Any
) -> Trace:
    """Make a trace; arguments as :func:`synthetic_tables`."""
    facts = synthetic_meta(more.get("times", "epoch"))
    return Trace.from_tables(synthetic_tables(tasks, **more), {**facts, **(meta or {})})


def synthetic_verdict(status: str = "ok", *, hostile: bool = False) -> Verdict:
    """Make a verdict with findings of every level, known and unknown costs."""
    odd = HOSTILE[0] if hostile else ""
    findings = (
        Finding(
            code="RM101",
            kind="workers_died",
            severity="critical",
            title=f"2 of 4 workers were killed for memory while reduce ran {odd}".strip(),
            groups=("reduce", *HOSTILE[1:] * hostile),
            evidence=(
                Evidence("workers killed", 2, "workers", "counted in the cluster's events", 2),
                Evidence("peak of reduce, p95", 2_100_000_000, "bytes", "upper bound", 167),
                Evidence("memory limit of a worker", 4_000_000_000, "bytes"),
                Evidence("attempts run again", 31, "attempts"),
            ),
            cost_s=41.2,
            cost_s_interval80=(30.1, 52.7),
            cost_gbh=0.31,
            cost_how="replayed without the deaths; replay error 4 %",
            confidence="high",
            advice="Run at most one reduce at a time on a worker, or halve its partitions.",
            change='LocalCluster(n_workers=4, threads_per_worker=1, memory_limit="4GB")',
            apply={"threads_per_worker": 1},
        ),
        Finding(
            code="RM104",
            kind="transfer_bound",
            severity="warning",
            title="shuffle-transfer waited for data 38 % of its time",
            groups=("shuffle-transfer",),
            evidence=(
                Evidence("time in transfer", 0.38, "ratio", "measured", 166),
                Evidence("bytes received", 18_400_000_000, "bytes", "measured", 166),
            ),
            cost_s=12.9,
            cost_s_interval80=(8.0, 15.5),
            cost_gbh=0.05,
            cost_how="time in transfer on the critical path",
            confidence="medium",
            advice="Put the two halves of the join on the same workers, or write fewer columns.",
            change="frame = frame[['key', 'value']]",
        ),
        Finding(
            code="RM105",
            kind="spill",
            severity="warning",
            title="4.1 GB were written to disk for lack of memory and read back",
            groups=("assign", "shuffle-unpack"),
            evidence=(Evidence("bytes spilled", 4_100_000_000, "bytes", "sampled at 2 Hz", 311),),
            cost_s=None,
            cost_gbh=None,
            cost_how="disk time was not recorded, so its share of the run cannot be told",
            confidence="low",
            advice="Give each worker 6 GB, or persist less.",
        ),
        Finding(
            code="RM107",
            kind="idle_parallelism",
            severity="info",
            title="In the last 9 s one task ran while 7 threads had none",
            groups=("fit-model",),
            evidence=(Evidence("idle thread time", 63.0, "s", "measured", 8),),
            cost_s=5.5,
            cost_gbh=0.02,
            cost_how="Graham bound on the last stage",
            confidence="medium",
            advice="Split fit-model by fold.",
            change="GridSearchCV(..., n_jobs=8)",
        ),
    )
    why = {
        "ok": "The run took 1 min 35 s; 54 s of it (57 %) could be avoided, "
        "41 s because workers died while reduce ran; 2 of 4 fixes are configuration only.",
        "failed": "The run failed after 1 min 35 s: KilledWorker, 2 workers were killed for "
        "memory while reduce ran; one thread a worker would have fitted.",
        "interrupted": "The run was interrupted after 1 min 35 s with 120 tasks unfinished.",
        "unknown": "How the run ended was not recorded; what is here covers 1 min 35 s.",
    }[status]
    return Verdict(
        sentence=f"{why} {odd}".strip(),
        status=status,  # type: ignore[arg-type]
        figures=(
            Figure("Makespan", 95.3, "s", "1 min 35 s", "measured"),
            Figure("Thread time used", 0.61, "ratio", "61 %", "compute over held thread time"),
            Figure("Memory held unused", 0.42, "gbh", "0.42 GB·h", "sampled at 2 Hz"),
            Figure("Lost to failed attempts", None, "core_h", "—", "no failed attempt has a time"),
        ),
        findings=findings,
        notes=(
            "Cannot tell how much time the garbage collector took, because it was not measured.",
            "Cannot tell the bytes of native readers per file, because they bypass Python.",
        ),
    )
