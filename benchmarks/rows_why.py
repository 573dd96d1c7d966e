"""Rows of `rm.dask.why`: seeded hangs and healthy runs on real clusters, and a large scheduler."""

from __future__ import annotations

import contextlib
import os
import random
import time
from collections.abc import Callable, Iterator
from typing import Any

from benchmarks.harness import Context, Result, bench
from benchmarks.why_base import Seeded, cluster, nap
from benchmarks.why_hangs import PAUSED, STOPPED, UNMET
from benchmarks.why_others import DISAGREE, HEALTHY

__all__ = ["HANGS", "HEALTHY", "Seeded", "judge", "look"]

HANGS: dict[str, tuple[Callable[[random.Random], Iterator[Seeded]], ...]] = {
    "paused": PAUSED,
    "unmet": UNMET,
    "stopped": STOPPED,
    "disagree": DISAGREE,
}


def judge(seeded: Seeded, found: Any) -> bool:
    """Tell whether an answer names the planted cause first, and the worker where there is one."""
    if not seeded.codes:
        return found.status in ("running", "idle")
    causes = [r for g in found.groups[:1] for r in g.reasons[:1]]
    return any(r.code in seeded.codes and set(seeded.workers) <= set(r.workers) for r in causes)


def look(make: Callable[[random.Random], Iterator[Seeded]], seed: int) -> tuple[bool, float, Any]:
    """Run one case; give whether the answer is right, how long it took and the answer."""
    from rotameter.adapters.dask.why import why

    case = contextlib.contextmanager(make)
    with case(random.Random(seed)) as seeded:
        began = time.perf_counter()
        found = why(seeded.client)
        seconds = time.perf_counter() - began
        return judge(seeded, found), seconds, found


_cache: dict[str, Any] = {}


def _all() -> dict[str, Any]:
    """Run all cases once for the rows that need them."""
    if _cache:
        return _cache
    seed = int(os.environ.get("ROTAMETER_WHY_SEED") or random.SystemRandom().randrange(10**6))
    rows = []
    for kind, makes in {**HANGS, "healthy": HEALTHY}.items():
        for number, make in enumerate(makes):
            right, seconds, found = look(make, seed + number)
            rows.append(
                {
                    "kind": kind,
                    "case": make.__name__,
                    "right": right,
                    "seconds": round(seconds, 3),
                    "status": found.status,
                    "sentence": found.sentence[:200],
                }
            )
    _cache.update(seed=seed, rows=rows)
    return _cache


@bench("why_named_ratio", issue=4, target=">= 0.9")
def why_named_ratio(context: Context) -> Result:
    """Seeded hangs on real clusters whose cause (and worker) `why` names first."""
    ran = _all()
    rows = [r for r in ran["rows"] if r["kind"] != "healthy"]
    wrong = [r for r in rows if not r["right"]]
    value = 1 - len(wrong) / len(rows)
    note = f"{len(rows)} cases, seed {ran['seed']}"
    return Result(value, "ratio", note=note, detail={"wrong": wrong, "seed": ran["seed"]})


@bench("why_seconds_max", issue=4, target="<= 2")
def why_seconds_max(context: Context) -> Result:
    """The slowest answer over all cases, hangs and healthy runs."""
    rows = _all()["rows"]
    worst = max(rows, key=lambda r: r["seconds"])
    detail = {r["case"]: r["seconds"] for r in rows}
    return Result(worst["seconds"], "s", note=f"{len(rows)} cases; {worst['case']}", detail=detail)


@bench("why_healthy_called_hung", issue=4, target="== 0")
def why_healthy_called_hung(context: Context) -> Result:
    """Healthy runs that `why` calls stuck or blocked."""
    rows = [r for r in _all()["rows"] if r["kind"] == "healthy"]
    wrong = [r for r in rows if not r["right"]]
    return Result(len(wrong), "runs", note=f"{len(rows)} runs", detail={"wrong": wrong})


@bench("why_100k_tasks_seconds", issue=4, target="<= 2")
def why_100k_tasks_seconds(context: Context) -> Result:
    """One answer while 100,000 tasks (250,000 with --full) wait behind a resource nobody has."""
    from rotameter.adapters.dask.why import why

    count = 250_000 if context.full else 100_000
    with cluster(random.Random(1), n_workers=2, threads_per_worker=1) as seeded:
        client = seeded.client
        gate = client.submit(nap, 0, 0.1, resources={"none": 1}, pure=False)
        futures = [client.map(nap, [gate] * (count // 4), pure=False) for _ in range(4)]
        while sum(client.run_on_scheduler(_count_waiting)) < count:
            time.sleep(0.5)
        began = time.perf_counter()
        found = why(client)
        seconds = time.perf_counter() - began
        named = any(r.code == "unmet_resource" for r in found.causes)
        detail = {"sentence": found.sentence, "spent": found.notes}
        del futures
        return Result(
            seconds, "s", met=None if named else False, note=f"{count:,} tasks", detail=detail
        )


def _count_waiting(dask_scheduler: Any = None) -> list[int]:
    return [p.states["waiting"] for p in dask_scheduler.task_prefixes.values()]
