"""Rows of the trace's table ``tasks`` out of jobs and their steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rotameter.adapters.importers import _slurm_gpu as gpu
from rotameter.adapters.importers._oddities import lasts_longer
from rotameter.adapters.importers._slurm_jobs import Joined
from rotameter.adapters.importers._slurm_peaks import Peaks, gpu_peaks, memory_peaks
from rotameter.adapters.importers._slurm_runs import waiting_words
from rotameter.adapters.importers._slurm_samples import Metric, add_samples, add_so_far
from rotameter.adapters.importers._slurm_spans import Spans
from rotameter.adapters.importers._slurm_use import Use, column, either, positive, spread, used
from rotameter.adapters.importers._slurm_values import ENDED, LAST_S, MISSING_NS, PENDING, RUNNING
from rotameter.units import many

if TYPE_CHECKING:
    from rotameter.adapters.importers.building import Builder

__all__ = ["add_tasks"]

_OOM_SIGNAL = 125
_SHOWN = 5
_RULE_COMMENT = r"^(?:rule_)?(?P<rule>\w+?)(?:_wildcards_.*)?$"


def _texts(values: Any, n: int) -> Any:
    return pa.nulls(n, pa.string()) if values is None else values


def _mask(values: Any) -> Any:
    return values.to_numpy(zero_copy_only=False)


def _ns(values: Any) -> Any:
    return pa.array(values, pa.int64(), mask=values == MISSING_NS)


def add_tasks(joined: Joined, build: Builder) -> None:
    """Add one row a run of a job."""
    n, jobs = joined.n, joined.jobs
    use = used(joined)
    phase = jobs.get("phase", np.zeros(n, dtype=np.int8))
    clock = _Clock(joined, use, phase, build.zone_ns or 0)
    requested, per_node = _requested(jobs, n)
    stats = gpu.read(joined, clock.wall)
    outcome, kinds, error = _outcomes(joined, use)
    oom = np.array(outcome) == "oom"
    runs = phase == RUNNING
    memory = memory_peaks(use, stats, per_node, oom, runs)
    gpus = gpu_peaks(use, stats, runs)
    # Where a job's own row says 0 (22.05's JSON, a job that still runs), its steps may say more.
    cpu = either(positive(column(jobs, "cpu", n)), use.cpu)
    so_far = np.where(runs, positive(cpu), np.nan)
    cpu = np.where(clock.ran & (phase == ENDED), cpu, np.nan)
    cpu = either(positive(cpu), stats.cpu_s)
    read = positive(either(column(jobs, "read", n), use.read))
    write = positive(either(column(jobs, "write", n), use.write))
    energy = either(column(jobs, "energy", n), use.energy)
    code, signal = column(jobs, "code", n), column(jobs, "signal", n)
    over = clock.ran & (phase == ENDED)
    columns = {
        "task_id": jobs["key"],
        "attempt": joined.attempt,
        "run_id": _run_ids(jobs, n),
        "group": _groups(jobs, n),
        **{name: _texts(jobs.get(name), n) for name in ("host", "user", "account", "queue")},
        "priority": column(jobs, "priority", n),
        **clock.columns(),
        "outcome": outcome,
        "outcome_kind": kinds,
        "error": error,
        "cpu_s": cpu,
        "gpu_s": stats.busy_s,
        "peak_memory_bytes": memory.value,
        "peak_memory_kind": memory.words(),
        "read_bytes": read,
        "write_bytes": write,
        "io_kind": _io_kinds(either(read, write), runs),
        "gpu_peak_bytes": gpus.value,
        "gpu_kind": gpus.words(),
        "energy_j": energy,
        "energy_meter": _kind(~np.isnan(energy), "slurm acct_gather_energy"),
        "energy_quality": _kind(~np.isnan(energy), "estimate"),
        **requested,
        "requested_wall_s": positive(column(jobs, "limit", n)),
        **_granted(jobs, n, clock.ran, stats),
        "features": _features(jobs, n),
        "exit_code": np.where(over, code, np.nan),
        "signal": np.where(over, signal, np.nan),
        "source": pa.array(["slurm"] * n, pa.string()),
    }
    build.extend("tasks", columns)
    add_samples(joined, _metrics(memory, gpus, use, stats), stats.readings, clock.end, build)
    add_so_far(joined, so_far, clock.start, clock.wall, build)
    _warn(joined, use, stats, np.array(outcome), build)
    _warn_spans(joined, clock.spans, build)
    _say_missing(memory, clock.ran & (phase == ENDED), build)


class _Clock:
    """When each job was submitted, began and ended, and how long it ran."""

    def __init__(self, joined: Joined, use: Use, phase: Any, zone_ns: int) -> None:
        jobs, n = joined.jobs, joined.n
        blank = np.full(n, MISSING_NS, dtype=np.int64)
        self.submit, self.eligible, self.start, self.end = (
            jobs.get(name, blank).copy() for name in ("submit", "eligible", "start", "end")
        )
        wall = column(jobs, "wall", n)
        made = joined.made
        self.start = np.where(made, use.first, self.start)
        self.end = np.where(made, use.last, self.end)
        wall = np.where(made, use.wall, wall)
        self.start[phase == PENDING] = MISSING_NS
        self.end[phase != ENDED] = MISSING_NS
        # A job that was cancelled in the queue may have a start, but never had a CPU or a node.
        host = jobs.get("host")
        homeless = np.zeros(n, dtype=bool) if host is None else _mask(pc.is_null(host))
        self.start[(wall == 0) & ((column(jobs, "cpus", n) == 0) | homeless)] = MISSING_NS
        begun, done = self.start != MISSING_NS, self.end != MISSING_NS
        # With a column of starts, a job without one never ran, unless it lasted.
        never = ~begun & ~(wall > 0) & ("start" in jobs) | (phase == PENDING)
        lasted = (phase == ENDED) & (wall > 0)
        late = lasted & begun & ~done & (self.start / 1e9 + wall < LAST_S)
        self.end[late] = self.start[late] + (wall[late] * 1e9).astype(np.int64)
        early = lasted & done & ~begun & (self.end / 1e9 > wall) & ("start" not in jobs)
        self.start[early] = self.end[early] - (wall[early] * 1e9).astype(np.int64)
        self.spans = Spans(
            self.start,
            self.end,
            wall,
            column(jobs, "suspended", n),
            jobs.get("zoned", np.zeros(n, dtype=bool)),
            made,
            zone_ns,
        )
        self.end = self.spans.end
        both = (self.start != MISSING_NS) & (self.end != MISSING_NS) & (self.end >= self.start)
        apart = np.where(both, self.end, 0) - np.where(both, self.start, 0)
        self.wall = np.where(np.isnan(wall) & both, apart / 1e9, wall)
        self.wall[phase == PENDING] = np.nan
        self.ran = ~never

    def columns(self) -> dict[str, Any]:
        """Give the times as columns of the schema."""
        return {
            "submitted_ns": _ns(self.submit),
            "ready_ns": _ns(self.eligible),
            "started_ns": _ns(self.start),
            "ended_ns": _ns(self.end),
            "wall_s": self.wall,
        }


def _requested(jobs: Any, n: int) -> tuple[dict[str, Any], Any]:
    """Give what was asked for, a request a CPU or a node multiplied out; and one node's limit."""
    tres = {key: column(jobs, f"tres_req_{key}", n) for key in ("cpus", "memory", "nodes", "gpus")}
    cores = positive(either(column(jobs, "req_cpus", n), tres["cpus"]))
    nodes = positive(either(column(jobs, "req_nodes", n), tres["nodes"]))
    given_cpus = positive(either(column(jobs, "cpus", n), column(jobs, "tres_cpus", n)))
    given_nodes = positive(either(column(jobs, "nodes", n), column(jobs, "tres_nodes", n)))
    memory = column(jobs, "req_memory", n)
    per = jobs.get("req_per", np.zeros(n, dtype=np.int8))
    times = np.select(
        [per == 1, per == 2],
        [either(given_cpus, cores), either(given_nodes, nodes)],
        default=1.0,
    )
    memory = memory * times
    memory = positive(memory)
    # "0" means all of the node: no number, and what ReqTRES then says is no wish either.
    memory = np.where(per == 3, np.nan, either(memory, tres["memory"]))
    columns = {
        "requested_cores": cores,
        "requested_memory_bytes": memory,
        "requested_gpus": tres["gpus"],
        "requested_nodes": nodes,
    }
    known = either(memory, column(jobs, "tres_memory", n))
    # What was killed had reached one node's limit; of the others nothing is known.
    over = either(either(given_nodes, nodes), np.where(spread(jobs, n), np.nan, 1.0))
    one = known / over
    cpus = either(given_cpus, cores)
    uneven = (per == 1) & (over > 1) & ~(np.mod(cpus, over) == 0)
    return columns, np.where(uneven, column(jobs, "req_memory", n), one)


def _granted(jobs: Any, n: int, ran: Any, stats: gpu.Stats) -> dict[str, Any]:
    cores = either(column(jobs, "cpus", n), column(jobs, "tres_cpus", n))
    nodes = either(column(jobs, "nodes", n), column(jobs, "tres_nodes", n))
    gpus = either(column(jobs, "tres_gpus", n), stats.gpus)
    columns = {
        "granted_cores": positive(cores),
        "granted_memory_bytes": column(jobs, "tres_memory", n),
        "granted_gpus": gpus,
        "granted_gpu_memory_bytes": stats.total_memory,
        "granted_nodes": positive(nodes),
    }
    return {name: np.where(ran, values, np.nan) for name, values in columns.items()}


def _outcomes(joined: Joined, use: Use) -> tuple[list[str], list[str], list[str | None]]:
    jobs, n = joined.jobs, joined.n
    outcome = jobs["outcome"].to_pylist() if "outcome" in jobs else ["unknown"] * n
    outcome = [word or "unknown" for word in outcome]
    kinds = ["reported" if "outcome" in jobs else "inferred"] * n
    error: list[str | None] = jobs["error"].to_pylist() if "error" in jobs else [None] * n
    reasons = jobs["reason"].to_pylist() if "reason" in jobs else None
    if reasons is not None:
        for i, reason in enumerate(reasons):
            if reason and outcome[i] not in ("ok", "running"):
                error[i] = f"{error[i]}: {reason}" if error[i] else reason
    signal = column(jobs, "signal", n)
    # A step killed for memory fails its job; some versions call that FAILED, with signal 125.
    failed = np.array([word == "failed" for word in outcome], dtype=bool)
    for i in np.flatnonzero(failed & (use.killed | (signal == _OOM_SIGNAL))).tolist():
        outcome[i], kinds[i] = "oom", "inferred"
    for i in np.flatnonzero(joined.made).tolist():
        kinds[i] = "inferred"
    return outcome, kinds, error


def _kind(mask: Any, word: str) -> Any:
    return pc.if_else(pa.array(mask), pa.scalar(word), pa.scalar(None, pa.string()))


def _run_ids(jobs: Any, n: int) -> Any:
    known = [jobs[name] for name in ("sluid", "raw", "key") if name in jobs]
    return pc.coalesce(*known) if n else known[0]


def _groups(jobs: Any, n: int) -> Any:
    """Group by job name; by rule for Snakemake (its job name is the run's id)."""
    names = jobs.get("name")
    array = pc.extract_regex(jobs["key"], r"^(?P<of>(?:.*:)?\d+)_").field("of")
    array = pc.if_else(pc.equal(pc.fill_null(array, ""), ""), pa.scalar(None, pa.string()), array)
    of_array = pc.binary_join_element_wise("array", array, " ")
    if names is None:
        return of_array
    comment = jobs.get("comment")
    if comment is not None:
        uuid = pc.match_substring_regex(names, r"^[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}$")
        # The plug-in writes rule_NAME or, from 2.8 on, rule_NAME_wildcards_VALUES.
        said = pc.match_substring_regex(comment, "^(?:rule|group)_")
        rule = pc.extract_regex(comment, _RULE_COMMENT).field("rule")
        said = pc.and_(pc.and_(uuid, said), pc.not_equal(rule, ""))
        names = pc.if_else(pc.fill_null(said, False), rule, names)
    return pc.coalesce(names, of_array)


def _features(jobs: Any, n: int) -> Any:
    made: list[dict[str, float] | None] = [None] * n
    per = jobs.get("req_per")
    for name, said in (
        ("wall_limit_unlimited", jobs.get("unlimited")),
        ("memory_per_cpu", None if per is None else per == 1),
    ):
        for row in np.flatnonzero(said).tolist() if said is not None else ():
            made[row] = {**(made[row] or {}), name: 1.0}
    return made


def _io_kinds(moved: Any, runs: Any) -> Any:
    """Say how bytes were obtained; of what still runs, those of its ended steps are known."""
    kinds = pc.if_else(pa.array(runs), pa.scalar("lower_bound"), pa.scalar("sampled"))
    return pc.if_else(pa.array(~np.isnan(moved)), kinds, pa.scalar(None, pa.string()))


def _metrics(memory: Peaks, gpus: Peaks, use: Use, stats: gpu.Stats) -> list[Metric]:
    """Give what no column holds: bounds of peaks, and of GPUs how busy they were."""
    return [
        ("peak_memory_upper_bound_bytes", memory.upper, "upper_bound"),
        ("peak_memory_lower_bound_bytes", memory.lower, "lower_bound"),
        ("gpu_peak_lower_bound_bytes", gpus.lower, "lower_bound"),
        ("gpu_utilization_peak_percent", use.gpu_percent, "sampled"),
        ("gpus_idle", stats.idle, "sampled"),
    ]


def _names(joined: Joined, mask: Any) -> str:
    rows = np.flatnonzero(mask)
    shown = ", ".join(joined.jobs["key"].take(pa.array(rows[:_SHOWN])).to_pylist())
    return shown + (f" and {len(rows) - _SHOWN:,} more" if len(rows) > _SHOWN else "")


def _warn(joined: Joined, use: Use, stats: gpu.Stats, outcome: Any, build: Builder) -> None:
    survived = use.killed & (outcome == "ok")
    if survived.any():
        build.warn(f"a step was OOM-killed in a job that completed: {_names(joined, survived)}")
    if joined.made.any():
        build.warn(
            "only steps of a job are here, not the job itself (its request is unknown): "
            f"{_names(joined, joined.made)}"
        )
    restarts = column(joined.jobs, "restarts", joined.n)
    hidden = (restarts > 0) & (joined.attempt == 1)
    several = np.isin(
        joined.jobs["key"].to_numpy(zero_copy_only=False),
        joined.jobs["key"].filter(pa.array(joined.attempt > 1)).to_numpy(zero_copy_only=False),
    ) if hidden.any() else hidden  # fmt: skip
    if (hidden & ~several).any():
        build.warn(
            "jobs ran before and their earlier runs are not in the listing (sacct -D shows them): "
            f"{_names(joined, hidden & ~several)}"
        )
    if joined.unplaced:
        steps, first = many(len(joined.unplaced), "step"), joined.unplaced[0]
        build.warn(
            f"which run of its job they belong to is not clear of {steps}, such as of {first}: "
            "given to the run listed before"
        )
    if joined.namesakes:
        numbers, first = many(len(joined.namesakes), "job number"), joined.namesakes[0]
        alike = "" if "submit" in joined.jobs else (
            "; without the column Submit, a job that was renamed and moved looks the same"
        )  # fmt: skip
        build.warn(
            f"{numbers} stood for jobs of different users, or of different names and partitions, "
            f"such as {first}: each is a task of its own, such as {first}#2 (with the column "
            f"Cluster, clusters are told apart by name{alike})"
        )
    if joined.unclear:
        numbers, first = many(len(joined.unclear), "job number"), joined.unclear[0]
        build.warn(
            f"which rows tell of the same run is not clear of {numbers}, such as {first}: those "
            "without Submit and Start may be one of several runs; each is counted as a run of its "
            "own (list the jobs again with Submit and Start)"
        )
    if joined.resized:
        jobs, first = many(len(joined.resized), "job"), joined.resized[0]
        build.warn(
            f"{jobs} changed size while running, such as {first}: the records of all sizes are one "
            "run, granted cores are the mean over its time"
        )
    if said := waiting_words(joined.jobs):
        build.note(said)
    if stats.over:
        build.warn(f"a GPU utilisation above 100 % in {many(stats.over, 'reading')}")


def _warn_spans(joined: Joined, spans: Spans, build: Builder) -> None:
    def of(mask: Any) -> tuple[str, int, str]:
        """Say how many jobs a mask holds; the first one's row and number."""
        rows = np.flatnonzero(mask)
        first = joined.jobs["key"][int(rows[0])].as_py()
        return many(len(rows), "job"), int(rows[0]), first

    if spans.changed.any():
        jobs, _, first = of(spans.changed)
        build.warn(
            f"End was taken as Start + Elapsed in {jobs}, such as {first}: it lay an hour off, as "
            "where the clocks changed"
        )
    if spans.backward.any():
        jobs, _, first = of(spans.backward)
        build.warn(
            f"End was taken as Start + Elapsed in {jobs}, such as {first}: it lay before Start"
        )
    if spans.differ.any():
        build.told_longer += int((spans.differ & lasts_longer(spans.wall, spans.gap)).sum())
        jobs, row, first = of(spans.differ)
        build.warn(
            f"Elapsed and End - Start differ in {jobs}, such as {first} "
            f"({spans.wall[row]:,.0f} s and {spans.gap[row]:,.0f} s): Elapsed is kept "
            "(it leaves out time suspended)"
        )


def _say_missing(memory: Peaks, ended: Any, build: Builder) -> None:
    lack, of = int((np.isnan(memory.value) & ended).sum()), int(ended.sum())
    if lack:
        build.not_measured(
            f"memory of {many(lack, 'job')} without memory data (of {of:,} that ran): "
            "no step reported MaxRSS"
        )
    if memory.filled.any():
        build.not_measured(
            f"MaxRSS of {many(int(memory.filled.sum()), 'job')}: the memory is that of jobstats"
        )
