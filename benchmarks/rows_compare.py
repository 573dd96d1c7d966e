"""Rows of ``rotameter compare``: generated pairs of runs whose changes are known.

The generator knows nothing of the comparison: a run is a chain of stages on a list schedule, each
task with noise of its own and each run with a pace of its own. Seeds are drawn when a row runs,
and are in its detail.
"""

from __future__ import annotations

import secrets
import time
from typing import Any

import numpy as np

from benchmarks.harness import Context, Result, bench

SECOND = 10**9
STAGES = 6


def generated(
    rng: np.random.Generator, times_s: list[float], *, tasks: int = 40, slots: int = 8,
    pace: float = 1.0, noise: float = 0.15,
) -> Any:  # fmt: skip
    """Make a run of a chain of stages with these seconds a task."""
    from rotameter.profiler.trace import Trace

    free, ready = np.zeros(slots), np.zeros(tasks)
    rows: list[dict[str, Any]] = []
    deps: list[dict[str, str]] = []
    for stage, seconds in enumerate(times_s):
        took = pace * seconds * rng.lognormal(0.0, noise, tasks)
        for i in range(tasks):
            slot = int(np.argmin(free))
            begin = max(free[slot], ready[i])
            free[slot] = ready[i] = begin + took[i]
            rows.append(
                {
                    "task_id": f"{stage}-{i}",
                    "group": f"stage-{chr(97 + stage)}",
                    "worker": f"w{slot}",
                    "outcome": "ok",
                    "submitted_ns": 0,
                    "started_ns": int(begin * SECOND),
                    "ended_ns": int(ready[i] * SECOND),
                    "wall_s": float(took[i]),
                }
            )
            if stage:
                deps.append({"task_id": f"{stage}-{i}", "depends_on": f"{stage - 1}-{i}"})
    end = int(free.max() * SECOND)
    workers = [
        {"worker": f"w{n}", "started_ns": 0, "ended_ns": end, "cores": 1.0} for n in range(slots)
    ]
    run = {"status": "ok", "started_ns": 0, "ended_ns": end}
    return Trace.from_tables(
        {"tasks": rows, "deps": deps, "workers": workers}, {"engine": "dask", "run": run}
    )


def _nothing(trace: Any) -> Any:
    from rotameter.values import Verdict

    return Verdict("s", "ok")


def _compared(before: list[Any], after: list[Any]) -> Any:
    from rotameter.profiler.comparing.verdict import compare

    return compare(before, after, diagnose=_nothing)


@bench("compare_planted_changes", issue=4, target=">= 0.95")
def planted(context: Context) -> Result:
    """Pairs in which all planted changes, and the order of their seconds, were named."""
    seed = secrets.randbits(32)
    rng = np.random.default_rng(seed)
    pairs = 60 if context.full else 20
    right, errors = 0, []
    for _ in range(pairs):
        times = rng.uniform(0.5, 2.0, STAGES)
        changed = rng.choice(STAGES, 2, replace=False)
        factor = np.ones(STAGES)
        factor[changed[0]] = rng.choice([0.3, 2.5])
        factor[changed[1]] = rng.choice([0.7, 1.4])
        moved = np.abs(times * (factor - 1.0))
        found = _compared(
            [generated(rng, times.tolist())], [generated(rng, (times * factor).tolist())]
        )
        named = [g.label for g in found.changes]
        wanted = [f"stage-{chr(97 + n)}" for n in np.argsort(-moved)[:2]]
        # Two of nearly the same seconds may stand in either order.
        near = np.sort(moved)[-2] > 0.8 * np.sort(moved)[-1]
        right += named == wanted or (near and sorted(named) == sorted(wanted))
        errors.append(abs(found.unexplained_s or 0.0) / found.makespan.before)
    return Result(
        right / pairs, "ratio", note=f"{pairs} pairs, one run a side",
        detail={"seed": seed, "median_unexplained_ratio": float(np.median(errors))},
    )  # fmt: skip


@bench("compare_false_changes", issue=4, target="<= 0.1")
def false_changes(context: Context) -> Result:
    """Healthy pairs of 3 runs a side, runs 5 % apart, in which anything was called a change."""
    seed = secrets.randbits(32)
    rng = np.random.default_rng(seed)
    pairs = 60 if context.full else 20
    called = 0
    for _ in range(pairs):
        times = rng.uniform(0.5, 2.0, STAGES).tolist()
        sides = [
            [generated(rng, times, pace=float(np.exp(0.05 * rng.normal()))) for _ in range(3)]
            for _ in range(2)
        ]
        found = _compared(*sides)
        called += bool(found.changes) or found.makespan.is_change
    return Result(called / pairs, "ratio", note=f"{pairs} pairs", detail={"seed": seed})


@bench("compare_100k_s", issue=4, target="<= 60")
def large(context: Context) -> Result:
    """Seconds to compare two runs of 100,000 tasks, predictions and rules left out."""
    rng = np.random.default_rng(1)
    times = [0.5, 1.0, 2.0, 0.2, 1.0]
    count = 20_000 if context.full else 4_000
    runs = [generated(rng, [t * f for t in times], tasks=count, slots=64) for f in (1.0, 0.8)]
    began = time.perf_counter()
    _compared(runs[:1], runs[1:])
    took = time.perf_counter() - began
    note = "" if context.full else "20,000 tasks a run; --full: 100,000"
    return Result(took, "s", note=note)
