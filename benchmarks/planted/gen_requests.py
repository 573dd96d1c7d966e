"""Generated: requests that are not what the tasks need."""

from __future__ import annotations

import random
from pathlib import Path

from benchmarks.planted.base import GENERATED, GenCause
from benchmarks.planted.generated import (
    Flow,
    Generated,
    add_second,
    base_flow,
    draw_second,
    fail_before,
    settle,
    write_nextflow,
    write_sacct,
)
from benchmarks.planted.lists import Node

__all__: list[str] = []


def _over_memory(rng: random.Random, place: Path) -> Generated:
    """A stage asks for several times its peak; fewer tasks than cores run side by side."""
    seed, second = rng.random(), draw_second(rng, "over_requested_memory")
    factor = rng.uniform(3.5, 7.0)

    def make(first: bool, other: bool) -> Flow:
        local = random.Random(seed)
        flow = base_flow(local)
        stage = local.choice(flow.stages)
        skip = stage[0].group
        smallest = min(node.memory for node in flow.nodes)
        for job in stage:
            if first and job.group == skip and job.outcome == "ok":
                job.memory = min(job.memory * factor, 0.95 * smallest)
        if other and second:
            add_second(flow, local, second, local.uniform(12, 25), skip)
        return flow

    return settle(rng, place, "over_requested_memory", make, second)


GENERATED["over_requested_memory"] = GenCause("over_requested_memory", "requests", _over_memory)


def _over_cores(rng: random.Random, place: Path) -> Generated:
    """A stage asks for several cores a task and uses one."""
    seed, second = rng.random(), draw_second(rng, "over_requested_cores")

    def make(first: bool, other: bool) -> Flow:
        local = random.Random(seed)
        flow = base_flow(local)
        stage = local.choice(flow.stages)
        skip = stage[0].group
        most = min(node.cores for node in flow.nodes)
        asked = local.choice([c for c in (2, 4, 6, 8) if c <= most])
        for job in stage:
            if first and job.group == skip and job.outcome == "ok":
                job.cores = asked
        if other and second:
            add_second(flow, local, second, local.uniform(12, 25), skip)
        return flow

    return settle(rng, place, "over_requested_cores", make, second)


GENERATED["over_requested_cores"] = GenCause("over_requested_cores", "requests", _over_cores)


def _under_memory(rng: random.Random, place: Path) -> Generated:
    """Most tasks of a stage are killed for memory late, and run again with twice as much."""
    seed, second = rng.random(), draw_second(rng, "failed_work")
    text = rng.random() < 0.5

    def make(first: bool, other: bool) -> Flow:
        local = random.Random(seed)
        flow = base_flow(local, barrier=text)
        # Room for the second request on every core: only the lost attempts cost.
        flow.nodes = [Node(n.name, n.cores, 2.2 * n.memory, n.gpus) for n in flow.nodes]
        stage = local.choice(flow.stages)
        skip = stage[0].group
        share = local.uniform(0.6, 1.0)
        for job in [j for j in stage if j.group == skip and j.outcome == "ok"]:
            asked, hit = job.memory, local.random() < share
            late = job.seconds * local.uniform(0.7, 0.95)
            if not hit:
                continue
            job.memory, job.peak = 2 * asked, 1.7 * asked
            if first:
                fail_before(flow, job, late, "oom", memory=asked, peak=asked)
        if other and second:
            add_second(flow, local, second, local.uniform(12, 25), skip)
        return flow

    write = write_nextflow if text else None
    return settle(rng, place, "under_requested_memory", make, second, write)


GENERATED["under_requested_memory"] = GenCause("under_requested_memory", "requests", _under_memory)


def _walltime(rng: random.Random, place: Path) -> Generated:
    """Jobs of a stage run into their time limit, and run again with a longer one."""
    seed, second = rng.random(), draw_second(rng, "failed_work")

    def make(first: bool, other: bool) -> Flow:
        local = random.Random(seed)
        flow = base_flow(local, barrier=True)
        stage = local.choice(flow.stages)
        skip = stage[0].group
        jobs = [j for j in stage if j.group == skip and j.outcome == "ok"]
        limit = round(min(job.seconds for job in jobs) * local.uniform(0.7, 0.9))
        share = local.uniform(0.5, 1.0)
        for job in jobs:
            hit = local.random() < share
            if hit and first:
                fail_before(flow, job, limit, "timeout", limit_s=limit)
            job.limit_s = 4 * limit
        if other and second:
            add_second(flow, local, second, local.uniform(12, 25), skip)
        return flow

    return settle(rng, place, "walltime_loss", make, second, write_sacct)


GENERATED["walltime_loss"] = GenCause("walltime_loss", "queue", _walltime)


def _queue(rng: random.Random, place: Path) -> Generated:
    """All jobs of all stages wait in the queue, longer than they run."""
    seed, second = rng.random(), draw_second(rng, "queue_wait")

    def make(first: bool, other: bool) -> Flow:
        local = random.Random(seed)
        flow = base_flow(local, barrier=True)
        typical = flow.stages[0][-1].seconds
        for stage in flow.stages:
            wait = typical * local.uniform(1.2, 3.0)
            for job in stage:
                spread = wait * local.uniform(0.9, 1.1)
                job.wait_s = spread if first and job.group != "note" else 0.0
        if other and second:
            add_second(flow, local, second, local.uniform(12, 25), "")
        return flow

    return settle(rng, place, "queue_wait", make, second, write_sacct)


GENERATED["queue_wait"] = GenCause("queue_wait", "queue", _queue)


def _gpu_unused(rng: random.Random, place: Path) -> Generated:
    """A stage of many short tasks holds GPUs that it never uses; real GPU tasks wait."""
    seed, second = rng.random(), draw_second(rng, "gpu_unused")

    def make(first: bool, other: bool) -> Flow:
        local = random.Random(seed)
        flow = base_flow(local, gpus=local.choice((1, 2)))
        place_of = local.randrange(len(flow.stages) - 1)
        idle, busy = flow.stages[place_of], flow.stages[place_of + 1]
        skip, used = idle[0].group, busy[0].group
        for job in idle:
            if job.group == skip and job.outcome == "ok":
                job.gpus, job.gpu_s = (1.0 if first else 0.0), 0.0
        gpus = int(sum(node.gpus for node in flow.nodes))
        workers = [job for job in busy if job.group == used and job.outcome == "ok"][:gpus]
        for job in workers:
            job.gpus, job.gpu_s = 1.0, job.seconds * local.uniform(0.85, 0.95)
        if other and second:
            add_second(flow, local, second, local.uniform(12, 25), skip)
        return flow

    return settle(rng, place, "gpu_unused", make, second)


GENERATED["gpu_unused"] = GenCause("gpu_unused", "gpu", _gpu_unused)
