"""Small runs whose changes are known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rotameter.profiler.trace import Trace

SECOND = 10**9


def build(
    stages: Sequence[tuple[str, int, float]],
    *,
    seed: int = 0,
    slots: int = 4,
    spread: float = 0.05,
    task_bytes: float | None = None,
    meta: dict[str, Any] | None = None,
    settings: dict[str, float] | None = None,
    tail: dict[str, float] | None = None,
    pace: float = 1.0,
    **tasks: Any,
) -> Trace:
    """Make a run of stages (name, tasks, seconds a task); each task needs one of the last stage."""
    rng = np.random.default_rng(seed)
    free = [0.0] * slots
    ends: dict[str, float] = {}
    rows: list[dict[str, Any]] = []
    deps: list[dict[str, str]] = []
    last: list[str] = []
    for place, (name, count, seconds) in enumerate(stages):
        ids = [f"{place}-{i}" for i in range(count)]
        for i, task in enumerate(ids):
            took = pace * seconds * float(rng.lognormal(0.0, spread))
            if tail and name in tail and i == count - 1:
                took = tail[name]
            ready = 0.0
            if last:
                deps.append({"task_id": task, "depends_on": last[i % len(last)]})
                ready = ends[last[i % len(last)]]
            slot = int(np.argmin(free))
            begin = max(free[slot], ready)
            free[slot] = ends[task] = begin + took
            row = {
                "task_id": task, "group": name, "worker": f"w{slot}", "host": "h",
                "outcome": "ok", "submitted_ns": 0, "started_ns": round(begin * SECOND),
                "ended_ns": round((begin + took) * SECOND), "wall_s": took,
            }  # fmt: skip
            if task_bytes is not None:
                row["read_bytes"] = round(task_bytes)
            rows.append({**row, **tasks})
        last = ids
    end = round(max(free) * SECOND)
    workers = [
        {"worker": f"w{k}", "host": "h", "started_ns": 0, "ended_ns": end, "cores": 1.0}
        for k in range(slots)
    ]
    events = [
        {"at_ns": 0, "kind": "setting", "subject": name, "value": value, "text": str(value)}
        for name, value in (settings or {}).items()
    ]
    run = {"status": "ok", "started_ns": 0, "ended_ns": end}
    return Trace.from_tables(
        {"tasks": rows, "deps": deps, "workers": workers, "events": events},
        {"engine": "dask", "run": run, **(meta or {})},
    )
