"""Rows of task sizing: online allocators on recorded and synthetic tasks, and advice.

One definition of many at once (W64): first 2,000 rows of a set, 64 slots, no dependencies, no limit
on memory; file order and four orders shuffled inside windows of 256; what ends is known when it
ends; a failed attempt takes the time that the set's curve says, else the full time.
"""

from __future__ import annotations

import json
import math
import statistics
import time
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import Context, Result, bench

__all__ = ["HARD_CAPS", "REAL", "SYNTHETIC", "cap_of", "needed_shared", "worst_advice"]

REAL = (
    "bioblast", "coffea_topeft", "colmena_xtb_run1", "kseg_eager", "lobsterCMSsimulation",
    "sizey_eager", "sizey_iwd", "sizey_mag", "sizey_rnaseq", "wf_makeflow_blast", "wf_nextflow",
    "wf_pegasus_montage",
)  # fmt: skip
SYNTHETIC = (
    "syn_normal_large", "syn_uniform_large", "syn_exponential", "syn_bimodal", "syn_trimodal"
)  # fmt: skip
HARD_CAPS = ("sizey", "kseg", "wf_nextflow")
BUCKETS = ("greedy", "exhaustive", "greedy-deterministic", "exhaustive-deterministic")
COMMON = (
    "greedy", "exhaustive", "greedy-deterministic", "exhaustive-deterministic", "quantized",
    "k-means", "max-seen", "min-waste", "max-throughput", "percentile", "max-seen-doubling",
)  # fmt: skip
ROWS = 2000
GB = 1e9


def cap_of(name: str) -> float:
    return 128 * GB if name.startswith(HARD_CAPS) else 64 * GB


@cache
def _work(shared: str, name: str) -> Any:
    from rotameter.adapters.sizing_csv import read_sizing

    return read_sizing(Path(shared) / "data" / "tasksizing" / f"{name}.csv", ROWS)


def needed_shared(context: Context) -> str:
    if context.shared is None:
        raise FileNotFoundError("needs the shared folder")
    return str(context.shared)


@cache
def _alone(
    shared: str, name: str, allocator: str, seeds: int, sizes: bool = False
) -> tuple[float, float]:
    """Give the median efficiency over seeds, and the 99th percentile of decisions, µs."""
    from rotameter.allocator.baselines import make_allocator
    from rotameter.allocator.online import sequential

    work, cap = _work(shared, name), cap_of(name)
    outs = [
        sequential(
            work,
            make_allocator(allocator, cap, seed=s),
            cap,
            sizes=sizes,
            timer=time.thread_time_ns,
        )
        for s in range(seeds)
    ]
    spent = np.concatenate([np.asarray(out.decisions_ns) for out in outs])
    found = statistics.median(out.ledger.efficiency or 0.0 for out in outs)
    return found, float(np.percentile(spent, 99)) / 1e3


@cache
def _together(
    shared: str, name: str, allocator: str, seeds: int, packed: bool = False
) -> tuple[float, float, float]:
    """Give mean efficiency, makespan (s) and the part of the nodes' memory-time that was used."""
    from rotameter.allocator.baselines import make_allocator
    from rotameter.allocator.online import Nodes, concurrent
    from rotameter.allocator.workload import orders

    work, cap = _work(shared, name), cap_of(name)
    nodes = Nodes(8, 8, cap) if packed else Nodes(1, 64)
    outs = [
        concurrent(work, make_allocator(allocator, cap, seed=s), cap, nodes, order)
        for s in range(seeds)
        for order in orders(len(work), 4, np.random.default_rng(s))
    ]
    span = statistics.fmean(out.makespan_s for out in outs)
    used = statistics.fmean(out.ledger.used / (8 * cap * out.makespan_s) for out in outs)
    return statistics.fmean(out.ledger.efficiency or 0.0 for out in outs), span, used


def _apart(values: dict[str, float]) -> str:
    """Say the mean over the sets that constants were tuned on, and over the others."""
    from rotameter.allocator.learner import TUNED_ON

    tuned = [v for name, v in values.items() if name in TUNED_ON]
    others = [v for name, v in values.items() if name not in TUNED_ON]
    return f"tuned on {statistics.fmean(tuned):.3f}, untouched {statistics.fmean(others):.3f}"


def _each(values: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:.3f}" for name, value in values.items())


@bench("sizing_sequential_awe", issue=5, target=">= 0.79")
def sequential_awe(context: Context) -> Result:
    """Mean efficiency over 12 real sets, one task after another, no input features."""
    shared = needed_shared(context)
    found = {name: _alone(shared, name, "default", 1)[0] for name in REAL}
    sized = {name: _alone(shared, name, "default", 1, sizes=True)[0] for name in REAL}
    before = {n: v for n, v in sized.items() if n.startswith(("kseg", "wf"))}
    after = {n: v for n, v in sized.items() if n.startswith("sizey")}
    note = (
        f"{_apart(found)}; {_each(found)}; with sizes known before: {_each(before)}; "
        f"with sizes known only after: {_each(after)}"
    )
    return Result(statistics.fmean(found.values()), "share", note=note, detail=found)


@bench("sizing_sequential_gain", issue=5, target=">= 0.015")
def sequential_gain(context: Context) -> Result:
    """How far that is above the best baseline given our cold start and retries."""
    shared = needed_shared(context)
    seeds = 5 if context.full else 1
    ours = statistics.fmean(_alone(shared, name, "default", 1)[0] for name in REAL)
    means = {
        other: statistics.fmean(_alone(shared, n, f"{other}+common", seeds)[0] for n in REAL)
        for other in COMMON
    }
    best = max(means, key=lambda name: means[name])
    return Result(ours - means[best], "share", note=f"best {best}; {_each(means)}", detail=means)


@bench("sizing_sequential_worst", issue=5, target=">= -0.03")
def sequential_worst(context: Context) -> Result:
    """Least difference on a set to the best of the four published ones there."""
    shared = needed_shared(context)
    seeds = 5 if context.full else 1
    found = {
        name: _alone(shared, name, "default", 1)[0]
        - max(_alone(shared, name, other, seeds)[0] for other in BUCKETS)
        for name in REAL
    }
    worst = min(found, key=lambda name: found[name])
    return Result(found[worst], "share", note=f"on {worst}; {_each(found)}", detail=found)


@bench("sizing_w64_awe", issue=5, target=">= 0.68")
def w64_awe(context: Context) -> Result:
    """Mean efficiency over 12 real sets, 64 at once (the floor is 0.62)."""
    shared, seeds = needed_shared(context), 3
    found = {name: _together(shared, name, "default", seeds)[0] for name in REAL}
    greedy = {name: _together(shared, name, "greedy", 3 if context.full else 1)[0] for name in REAL}
    note = f"greedy as published {statistics.fmean(greedy.values()):.3f}; {_apart(found)}"
    return Result(
        statistics.fmean(found.values()), "share", note=f"{note}; {_each(found)}", detail=found
    )


@bench("sizing_w64_worst", issue=5, target=">= -0.03")
def w64_worst(context: Context) -> Result:
    """Least difference on a set to greedy as published, 64 at once."""
    shared = needed_shared(context)
    seeds = 3 if context.full else 1
    found = {
        name: _together(shared, name, "default", 3)[0] - _together(shared, name, "greedy", seeds)[0]
        for name in REAL
    }
    worst = min(found, key=lambda name: found[name])
    return Result(found[worst], "share", note=f"on {worst}", detail=found)


def _spans(context: Context, other: str, *, packed: bool = False) -> dict[str, float]:
    shared = needed_shared(context)
    seeds = 3 if context.full else 1
    return {
        name: _together(shared, name, "default", 3, packed)[1]
        / _together(shared, name, other, seeds, packed)[1]
        for name in REAL
    }


@bench("sizing_w64_makespan", issue=5, target="<= 0.9")
def w64_makespan(context: Context) -> Result:
    """Geometric mean of makespans over greedy's, 64 at once (the floor is 0.95)."""
    found = _spans(context, "greedy")
    value = math.exp(statistics.fmean(math.log(v) for v in found.values()))
    return Result(value, "ratio", note=f"{_apart(found)}; {_each(found)}", detail=found)


@bench("sizing_w64_makespan_worst", issue=5, target="<= 1.1")
def w64_makespan_worst(context: Context) -> Result:
    """The set whose makespan is the longest over greedy's (the floor is 1.15)."""
    found = _spans(context, "greedy")
    worst = max(found, key=lambda name: found[name])
    return Result(found[worst], "ratio", note=f"on {worst}", detail=found)


def _packed(context: Context, other: str) -> Result:
    found = _spans(context, other, packed=True)
    value = math.exp(statistics.fmean(math.log(v) for v in found.values()))
    losers = {name: v for name, v in found.items() if v > 1.0}
    used = {n: _together(needed_shared(context), n, "default", 3, True)[2] for n in REAL}
    note = f"{_apart(found)}; of the nodes' memory used {statistics.fmean(used.values()):.3f}"
    return Result(value, "ratio", note=f"{note}; longer on {_each(losers) or 'none'}", detail=found)


@bench("sizing_packed_over_greedy", issue=5, target="<= 1")
def packed_over_greedy(context: Context) -> Result:
    """Makespan over greedy's on 8 nodes of 8 cores, each with the memory of the largest machine."""
    return _packed(context, "greedy")


@bench("sizing_packed_over_whole", issue=5, target="<= 1")
def packed_over_whole(context: Context) -> Result:
    """The same over giving every task a whole machine's memory."""
    return _packed(context, "whole-machine")


@bench("sizing_phases_awe", issue=5, target=">= 0.9")
def phases(context: Context) -> Result:
    """Efficiency where the need shifts (incremental trimodal)."""
    value, _ = _alone(needed_shared(context), "syn_trimodal_phase_incremental", "default", 1)
    return Result(value, "share")


@bench("sizing_recovery_tasks", issue=5, target="<= 20")
def recovery(context: Context) -> Result:
    """Completions after a shift, up or down, until tasks again get what they need, at most 1.5 x.

    The median efficiency of five tasks in a row is compared with what it is in the regime's end.
    """
    from rotameter.allocator.baselines import make_allocator
    from rotameter.allocator.needs import Record, Task

    found = {}
    for name in ("syn_trimodal_phase_incremental", "syn_trimodal_phase", "syn_bimodal_phase"):
        work = _work(needed_shared(context), name)
        allocator = make_allocator("default", 64 * GB)
        cost = []
        for at, need in enumerate(work.need.tolist()):
            task = Task(str(at), "g")
            had = float(allocator.request(task).memory_bytes)  # type: ignore[union-attr]
            spent = had
            while had < need:
                record = Record(str(at), "g", "oom", granted={"memory_bytes": had},
                                exceeded=frozenset({"memory_bytes"}))  # fmt: skip
                had = float(allocator.exceeded(task, record).memory_bytes or 0)
                spent += had
            allocator.observe(Record(str(at), "g", "ok", {"memory_bytes": need}, wall_s=500.0))
            cost.append(need / spent)
        smooth = np.array([np.median(cost[k : k + 5]) for k in range(len(cost) - 5)])
        level = np.abs(np.diff([np.median(work.need[k : k + 9]) for k in range(1990)]))
        for shift in np.flatnonzero(level > 3 * GB)[::1].tolist():
            begin = shift + 5
            settled = np.flatnonzero(smooth[begin:] >= 0.8)
            found[f"{name}@{begin}"] = float(settled[0]) if settled.size else math.inf
    return Result(max(found.values()), "tasks", note=_each(found), detail=found)


@bench("sizing_stationary_gap", issue=5, target="<= 0.02")
def stationary(context: Context) -> Result:
    """Most that hindsight's best ladder is better by on stationary synthetic sets."""
    from rotameter.allocator.trials import best_in_hindsight

    shared = needed_shared(context)
    found = {
        name: best_in_hindsight(_work(shared, name)) - _alone(shared, name, "default", 1)[0]
        for name in SYNTHETIC
    }
    return Result(max(found.values()), "share", note=_each(found), detail=found)


@bench("sizing_oom_next_larger", issue=5, target="== 1")
def oom(context: Context) -> Result:
    """Killed tasks whose next request is larger, and groups whose next first one is meanwhile."""
    from rotameter.allocator.baselines import make_allocator
    from rotameter.allocator.needs import Record, Task

    right = total = 0
    for name in REAL:
        work = _work(needed_shared(context), name)
        allocator: Any = make_allocator("default", cap_of(name))
        largest: dict[str, float] = {}
        for at, need in enumerate(work.need.tolist()):
            group = work.groups[work.group[at]]
            task = Task(str(at), group)
            had = float(allocator.request(task).memory_bytes)
            while had < need:
                record = Record(str(at), group, "oom", granted={"memory_bytes": had},
                                exceeded=frozenset({"memory_bytes"}))  # fmt: skip
                again = float(allocator.exceeded(task, record).memory_bytes)
                first = allocator.request(Task(f"{at}-next", group)).memory_bytes
                allocator.observe(Record(f"{at}-next", group, "cancelled"))
                total += 1
                right += again > had and (first > had or largest.get(group, 0.0) > had)
                had = again
            largest[group] = max(largest.get(group, 0.0), need)
            allocator.observe(
                Record(str(at), group, "ok", {"memory_bytes": need}, wall_s=work.wall_s[at])
            )
    return Result(right / total, "share", note=f"{right} of {total} kills")


def _held(rungs: tuple[float, ...], need: float) -> float:
    """Give what a task holds that is tried with each rung until one is enough."""
    held = 0.0
    for rung in rungs:
        held += rung
        if need <= rung:
            break
    return held


def _advised(work: Any) -> dict[str, float]:
    """Advise from the first half of a workload, and run the second half by it."""
    from rotameter.allocator.advice import advise

    half = len(work) // 2
    advised = {one.group: one for one in advise(work.first(half))}
    kills = 0
    bound = asked = given = 0.0
    for at in range(half, len(work)):
        one = advised.get(work.groups[work.group[at]])
        if one is None or one.request is None or one.kill_interval is None:
            continue
        killed = work.need[at] > one.request
        kills += killed
        bound += one.kill_interval[1]
        if not np.isnan(work.asked[at]):
            held = _held((one.request, *one.retries), float(work.need[at]))
            asked += float(work.asked[at] * work.wall_s[at])
            given += float(held * work.wall_s[at])
    return {"kills": kills, "bound": bound, "asked": asked, "given": given}


def worst_advice(work: Any) -> float:
    """Give the kills of a workload's second half over what the advice's upper bounds allow."""
    made = _advised(work)
    return made["kills"] / made["bound"] if made["bound"] else 0.0


@cache
def _advice(shared: str) -> dict[str, dict[str, float]]:
    return {name: _advised(_work(shared, name)) for name in REAL}


@bench("sizing_advice_kills", issue=5, target="<= 1")
def advice_kills(context: Context) -> Result:
    """Kills in the second half of each set over what the advice's upper bounds allow; the worst."""
    found = {
        name: one["kills"] / one["bound"]
        for name, one in _advice(needed_shared(context)).items()
        if one["bound"] > 0
    }
    return Result(max(found.values()), "ratio", note=_each(found), detail=found)


@bench("sizing_advice_saved", issue=5, target=">= 0.5")
def advice_saved(context: Context) -> Result:
    """GB-hours less than the users' own requests held, over the sets that have them."""
    made = {n: one for n, one in _advice(needed_shared(context)).items() if one["asked"] > 0}
    found = {n: 1 - one["given"] / one["asked"] for n, one in made.items()}
    whole = 1 - sum(o["given"] for o in made.values()) / sum(o["asked"] for o in made.values())
    return Result(whole, "share", note=_each(found), detail=found)


def _filled(count: int) -> Any:
    from rotameter.allocator.default import Default
    from rotameter.allocator.needs import Record

    made = Default({"memory_bytes": 64 * GB})
    needs = np.random.default_rng(5).lognormal(21, 0.7, count).clip(1e6, 60 * GB)
    for number, need in enumerate(needs.tolist()):
        made.observe(Record(f"t{number}", "g", "ok", {"memory_bytes": need}, wall_s=9.0))
    return made


def _decisions_us(allocator: Any, count: int) -> float:
    from rotameter.allocator.needs import Record, Task

    needs = np.random.default_rng(6).lognormal(21, 0.7, count).clip(1e6, 60 * GB)
    spent = []
    for number, need in enumerate(needs.tolist()):
        record = Record(f"n{number}", "g", "ok", {"memory_bytes": need}, wall_s=9.0)
        began = time.thread_time_ns()
        allocator.request(Task(f"n{number}", "g"))
        allocator.observe(record)
        spent.append(time.thread_time_ns() - began)
    return float(np.percentile(spent, 99)) / 1e3


@bench("sizing_decision_p99_us", issue=5, target="<= 1000")
def decision(context: Context) -> Result:
    """Request and observe with 5,000 records in the group, CPU of the thread."""
    return Result(_decisions_us(_filled(5_000), 3_000), "us")


@bench("sizing_decision_1m_p99_us", issue=5, target="<= 1000")
def decision_1m(context: Context) -> Result:
    """The same with 10^6 records (10^5 without ``--full``)."""
    count = 1_000_000 if context.full else 100_000
    return Result(_decisions_us(_filled(count), 2_000), "us", note=f"{count:,} records")


@bench("sizing_state_bytes", issue=5, target="<= 300000")
def state_bytes(context: Context) -> Result:
    """What is kept for one resource of one group after 10^6 records (10^5 without ``--full``)."""
    count = 1_000_000 if context.full else 100_000
    kept = _filled(count).state()["groups"]["g"]
    return Result(float(len(json.dumps(kept))), "B", note=f"{count:,} records, as JSON")


@cache
def _dag(shared: str) -> dict[str, dict[str, float]]:
    """Give makespans on 8 nodes of 8 cores, by instance and allocator."""
    from rotameter.allocator.baselines import make_allocator
    from rotameter.allocator.online import Nodes, concurrent
    from rotameter.allocator.recorded import from_trace
    from rotameter.allocator.trials import machine_of
    from rotameter.api import open as open_trace

    made: dict[str, dict[str, float]] = {}
    for path in sorted((Path(shared) / "data" / "formats" / "wfcommons").glob("*.json")):
        if path.name.startswith("schema"):
            continue
        work = from_trace(open_trace(str(path)), path.name)
        if len(work) < 10:
            continue
        cap = machine_of(work)
        nodes = Nodes(8, 8, cap)
        for name in ("default", "greedy", "whole-machine"):
            outs = [
                concurrent(work, make_allocator(name, cap, seed=s), cap, nodes) for s in range(3)
            ]
            span = statistics.fmean(out.makespan_s for out in outs)
            made.setdefault(path.name, {})[name] = span
    return made


def _dag_over(context: Context, other: str) -> Result:
    made = _dag(needed_shared(context))
    if not made:
        return Result(None, "ratio", met=False, note="no instance has memory of its tasks")
    found = {name: one["default"] / one[other] for name, one in made.items()}
    value = math.exp(statistics.fmean(math.log(v) for v in found.values()))
    return Result(value, "ratio", note=_each(found), detail=found)


@bench("sizing_dag_over_greedy", issue=5, target="<= 1")
def dag_over_greedy(context: Context) -> Result:
    """Makespan of the WfFormat instances that have memory over greedy's (geometric mean)."""
    return _dag_over(context, "greedy")


@bench("sizing_dag_over_whole", issue=5, target="<= 1")
def dag_over_whole(context: Context) -> Result:
    """The same over giving every task a whole machine's memory."""
    return _dag_over(context, "whole-machine")
