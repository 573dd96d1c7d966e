"""Generated: where data lies, what is copied, what is imported, what was done before."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from benchmarks.planted.base import GENERATED, GenCause
from benchmarks.planted.generated import (
    Flow,
    Generated,
    add_second,
    base_flow,
    draw_second,
    settle,
)
from benchmarks.planted.lists import Job, Node

__all__: list[str] = []

MB = 1e6


def _read(path: str, size: float, rate: float, tier: str, op: str = "read") -> dict[str, Any]:
    return {
        "object": path, "op": op, "bytes": int(size), "footprint_bytes": int(size),
        "ops": max(1, int(size / 2**22)), "busy_s": size / rate, "tier": tier,
    }  # fmt: skip


def _give_files(flow: Flow, rng: random.Random, rate: float, tier: str) -> None:
    """Let every job read an input of its own and write an output, at a tier's rate."""
    for stage in flow.stages:
        size = rng.uniform(0.08, 0.2) * stage[-1].seconds * rate
        for job in stage:
            if job.group == "note" or job.outcome != "ok":
                continue
            amount = size * rng.uniform(0.95, 1.05)
            made = [
                _read(f"/{tier}/data/{job.task}.in", amount, rate, tier),
                _read(f"/{tier}/data/{job.task}.out", amount / 4, rate, tier, "write"),
            ]
            made[0]["object"] = f"/{tier}/in/{job.task}.dat"
            job.flows += made
            busy = sum(f["busy_s"] for f in made)
            job.seconds += busy
            job.cpu_s = (job.cpu_s or 0.0) + 0.05 * busy
    # What a stage reads is what the one before wrote; only the last outputs are results.
    for before, stage in zip(flow.stages, flow.stages[1:], strict=False):
        written = {job.task: job.flows[-1]["object"] for job in before if job.flows}
        for job in stage:
            sources = [written[key] for key, _ in job.after if key in written]
            if job.flows and sources:
                job.flows[0]["object"] = sources[0]


def _slow(rng: random.Random, place: Path) -> Generated:
    """One stage's inputs lie on a tier that is 6–15 times slower than the others'."""
    seed, second = rng.random(), draw_second(rng, "slow_storage")

    def make(first: bool, other: bool) -> Flow:
        local = random.Random(seed)
        flow = base_flow(local)
        fast_tier, slow_tier = local.choice((("ssd", "nfs"), ("beegfs", "archive")))
        fast = local.uniform(300, 600) * MB
        slow = fast / local.uniform(6, 15)
        _give_files(flow, local, fast, fast_tier)
        # Inputs of the first stage come from outside; its tier is the cause.
        stage = flow.stages[0]
        skip = stage[0].group
        for job in stage:
            if job.flows:
                amount = job.flows[0]["bytes"] * 1.5
                job.seconds -= job.flows[0]["busy_s"]
                tier, rate = (slow_tier, slow) if first else (fast_tier, fast)
                job.flows[0] = _read(f"/{tier}/in/{job.task}.dat", amount, rate, tier)
                job.seconds += job.flows[0]["busy_s"]
        if other and second:
            add_second(flow, local, second, local.uniform(12, 25), skip)
        return flow

    return settle(rng, place, "slow_storage", make, second)


GENERATED["slow_storage"] = GenCause("slow_storage", "storage", _slow)


def _staging(rng: random.Random, place: Path) -> Generated:
    """Each input is copied to a local tier first, and read once from there."""
    seed, second = rng.random(), draw_second(rng, "staging_cost")

    def make(first: bool, other: bool) -> Flow:
        local = random.Random(seed)
        flow = base_flow(local)
        shared = local.uniform(250, 450) * MB
        fast = shared * local.uniform(1.5, 3.0)
        _give_files(flow, local, shared, "beegfs")
        stage = flow.stages[0]
        skip = stage[0].group
        copy = "stage_in"
        copies = []
        for job in stage:
            if not job.flows:
                continue
            amount = job.flows[0]["bytes"] * local.uniform(4, 6)
            source, target = f"/beegfs/in/{job.task}.dat", f"/local/tmp/{job.task}.dat"
            job.seconds -= job.flows[0]["busy_s"]
            if not first:
                job.flows[0] = _read(source, amount, shared, "beegfs")
            else:
                job.flows[0] = _read(target, amount, fast, "ssd")
                made = [_read(source, amount, shared, "beegfs"),
                        _read(target, amount, fast, "ssd", "write")]  # fmt: skip
                seconds = sum(f["busy_s"] for f in made)
                copies.append(
                    Job(f"{copy}_{job.task}", copy, seconds, memory=job.memory / 4,
                        cpu_s=0.1 * seconds, peak=job.memory / 5, flows=made)
                )  # fmt: skip
                if job.attempt > 1:
                    lost = next(j for j in stage if j.task == job.task and j.attempt == 1)
                    lost.after = (copies[-1].key,)
                else:
                    job.after = (copies[-1].key,)
            job.seconds += job.flows[0]["busy_s"]
        if copies:
            flow.stages.insert(0, copies)
        if other and second:
            add_second(flow, local, second, local.uniform(12, 25), skip)
        return flow

    return settle(rng, place, "staging_cost", make, second)


GENERATED["staging_cost"] = GenCause("staging_cost", "storage", _staging)


def _imports(rng: random.Random, place: Path) -> Generated:
    """The first task on each worker imports a package from a network file system."""
    seed, second = rng.random(), draw_second(rng, "network_import_or_spill")

    def make(first: bool, other: bool) -> Flow:
        local = random.Random(seed)
        flow = base_flow(local)
        # One core a worker: every core imports for itself.
        flow.nodes = [
            Node(f"{node.name}-w{core}", 1, node.memory / node.cores)
            for node in flow.nodes
            for core in range(int(node.cores))
        ]
        _give_files(flow, local, 400 * MB, "beegfs")
        package = local.choice(("sciplot", "geolib", "omics"))
        files = local.randrange(250, 500)
        late = local.uniform(25, 45)
        weights = [local.expovariate(1.0) for _ in range(files)]
        scale = late / sum(weights)
        modules = [
            {"object": f"/nfs/home/ann/env/lib/python3.11/site-packages/{package}/m{n:04d}.py",
             "op": "read", "bytes": local.randrange(2000, 30_000), "ops": local.randrange(3, 9),
             "busy_s": weight * scale, "tier": "nfs"}
            for n, weight in enumerate(weights)
        ]  # fmt: skip
        for module in modules:
            module["footprint_bytes"] = module["bytes"]
        for stage in flow.stages:
            for job in stage:
                if first and job.group != "note":
                    job.node_first_s, job.first_flows = late, modules
        if other and second:
            add_second(flow, local, second, local.uniform(12, 20), flow.stages[0][0].group)
        return flow

    return settle(rng, place, "network_import_or_spill", make, second)


GENERATED["network_import_or_spill"] = GenCause("network_import_or_spill", "storage", _imports)


def _missed(rng: random.Random, place: Path) -> Generated:
    """A run is resumed: part of what was done before runs again, the rest comes from a cache."""
    seed, second = rng.random(), draw_second(rng, "cache_missed")

    def make(first: bool, other: bool) -> Flow:
        local = random.Random(seed)
        flow = base_flow(local)
        earlier = flow.stages[:-1]
        again_share, more = local.uniform(0.5, 0.8), local.uniform(12, 25)
        if other and second:
            # In the last stage, which runs once only.
            rest = Flow(flow.nodes, flow.stages[-1:])
            add_second(rest, local, second, more, "")
        done = [job for stage in earlier for job in stage]
        last = {job.task: job for job in done}
        gate = tuple(job.key for job in last.values())
        resumed: list[list[Job]] = []
        renamed: dict[tuple[str, int], tuple[str, int]] = {}
        for stage in earlier:
            made = []
            for job in stage:
                again = local.random() < again_share
                if job.outcome != "ok" or job.group == "note":
                    continue
                after = tuple(renamed[k] for k in job.after if k in renamed) or gate
                runs = again and first
                copy = Job(
                    job.task, job.group, job.seconds if runs else 0.001,
                    attempt=job.attempt + 1, after=after, cores=job.cores if runs else 0,
                    memory=job.memory if runs else 0, outcome="ok" if runs else "cached",
                    cpu_s=job.cpu_s if runs else None, peak=job.peak if runs else None, run="r2-",
                )  # fmt: skip
                renamed[job.key] = copy.key
                made.append(copy)
            resumed.append(made)
        for job in flow.stages[-1]:
            job.after = tuple(renamed.get(key, key) for key in job.after)
            job.run = "r2-"
        flow.stages = [*earlier, *resumed, flow.stages[-1]]
        return flow

    return settle(rng, place, "cache_missed", make, second)


GENERATED["cache_missed"] = GenCause("cache_missed", "loss", _missed)
