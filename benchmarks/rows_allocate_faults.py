"""Rows of sizing on Dask where pods die: of memory without a word, or because they are taken."""

from __future__ import annotations

import contextlib
import math
import random
import time
from collections.abc import Iterator
from functools import cache
from typing import Any

from benchmarks.harness import Context, Result, bench
from benchmarks.pods import Pods
from benchmarks.rows_allocate import HEAVY, HEAVY_MIB, LIGHT, LIMIT, MIB, TASK_S, light

__all__ = ["climb"]

ALL = HEAVY + LIGHT
STEPS, CLIMB_S = 30, 3.0
TAKEN, EVERY_S = ALL // 5, 6.0


def climb(number: int) -> int:
    """Fill memory step by step and hold it, five seconds in all."""
    held = []
    for _ in range(STEPS):
        part = bytearray(HEAVY_MIB * MIB // STEPS)
        part[::4096] = b"x" * len(part[::4096])
        held.append(part)
        time.sleep(CLIMB_S / STEPS)
    time.sleep(TASK_S - CLIMB_S)
    return sum(map(len, held))


@contextlib.contextmanager
def _pods(
    seed: int, resources: str | None = None, allowed_failures: int = 3
) -> Iterator[tuple[Any, Pods]]:
    import dask
    from distributed import Client, LocalCluster

    with (
        dask.config.set({"distributed.scheduler.allowed-failures": allowed_failures}),
        LocalCluster(n_workers=0, dashboard_address=":0", silence_logs=50) as made,
        Client(made) as client,
        Pods(
            made.scheduler_address, 2, 2, LIMIT,
            resources=resources, kills=TAKEN, every_s=EVERY_S, seed=seed,
        ) as pods,
    ):  # fmt: skip
        client.wait_for_workers(2)
        yield client, pods


def _names(dask_scheduler: Any = None) -> dict[str, str]:
    return {w.address: str(w.name) for w in dask_scheduler.workers.values()}


def _run(client: Any, pods: Pods, **heavy_options: Any) -> dict[str, Any]:
    """Run the forty tasks while pods are taken; say which pod had which address."""
    from distributed import wait

    names: dict[str, str] = {}
    began = time.perf_counter()
    pods.begin()
    futures = client.map(climb, range(HEAVY), pure=False, **heavy_options)
    futures += client.map(light, range(LIGHT), pure=False)
    while time.perf_counter() - began < 300:
        names |= client.run_on_scheduler(_names)
        with contextlib.suppress(TimeoutError):
            wait(futures, timeout=0.3)
            break
    took = time.perf_counter() - began
    why = list(pods.ended.values())
    done = sum(f.status == "finished" for f in futures)
    return {"done": done, "took_s": took, "names": names, "of_memory": why.count("memory"),
            "taken": why.count("taken")}  # fmt: skip


def _gated(seed: int, state: str) -> dict[str, Any]:
    import rotameter as rm

    with _pods(seed) as (client, pods), rm.dask.allocate(client, state=state) as allocating:
        got = _run(client, pods)
        facts = allocating.facts()
        of_memory = {a for a, name in got["names"].items() if pods.ended.get(name) == "memory"}
    enlarged = [(d["worker"], g) for d in facts["deaths"] for g in d["enlarged"]]
    wrong = [1 for worker, group in enlarged if worker not in of_memory or group != "climb"]
    return {**got, "enlarged": len(enlarged), "wrong": len(wrong)}


@cache
def _arms(seed: int) -> dict[str, Any]:
    """Requests by hand, the gate while it learns and with what it has learnt, each with faults."""
    import tempfile
    from pathlib import Path

    made: dict[str, Any] = {}
    with _pods(seed) as (client, pods):
        made["plain"] = _run(client, pods)
    # Else it gives tasks up, and is done sooner with less.
    with _pods(seed, "HEAVY=1", allowed_failures=100) as (client, pods):
        made["by hand"] = _run(client, pods, resources={"HEAVY": 1.0})
    with tempfile.TemporaryDirectory() as place:
        state = str(Path(place) / "learnt.json")
        made["learning"] = _gated(seed, state)
        made["warm"] = _gated(seed, state)
    return made


@cache
def _seeds(full: bool) -> tuple[int, ...]:
    drawn = random.SystemRandom()
    return tuple(drawn.randrange(10**6) for _ in range(3 if full else 1))


def _ratio(name: str, context: Context) -> Result:
    got = {seed: _arms(seed) for seed in _seeds(context.full)}
    ratios = [arms[name]["took_s"] / arms["by hand"]["took_s"] for arms in got.values()]
    short = any(arms[a]["done"] < ALL for arms in got.values() for a in (name, "by hand"))
    words = [
        f"seed {seed}: " + "; ".join(
            f"{arm} {of['done']} of {ALL} in {of['took_s']:.0f} s, {of['of_memory']} pods died of "
            f"memory, {of['taken']} taken" for arm, of in arms.items()
        ) for seed, arms in got.items()
    ]  # fmt: skip
    value = math.exp(sum(map(math.log, ratios)) / len(ratios))
    return Result(value, "ratio", met=False if short else None, note=" | ".join(words), detail={
        str(seed): {arm: {k: v for k, v in of.items() if k != "names"} for arm, of in arms.items()}
        for seed, arms in got.items()
    })  # fmt: skip


@bench("allocate_taken_learning_ratio", issue=5, target="<= 1.5")
def learning(context: Context) -> Result:
    """Makespan over requests by hand, both with silent deaths and eight pods taken; 40 of 40."""
    return _ratio("learning", context)


@bench("allocate_taken_warm_ratio", issue=5, target="<= 1.15")
def warm(context: Context) -> Result:
    """The same with what it has learnt."""
    return _ratio("warm", context)


@bench("allocate_taken_wrong", issue=5, target="<= 1")
def wrong(context: Context) -> Result:
    """Times that more was given for a death that was not of memory, most of any run."""
    arms = [_arms(seed)[name] for seed in _seeds(context.full) for name in ("learning", "warm")]
    note = ", ".join(f"{of['wrong']} of {of['enlarged']}" for of in arms)
    return Result(float(max(of["wrong"] for of in arms)), "enlargements", note=note)
