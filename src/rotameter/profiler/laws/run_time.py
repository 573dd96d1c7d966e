"""How long runs of several scales took, and what each part of that was.

The run time is the sum of what is on the critical path: of what each task group did there, and of
the waits. Each part grows by its own law; the run time by their sum.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from rotameter.profiler.figures import recorded_makespan
from rotameter.profiler.flow.critical import critical_path
from rotameter.profiler.laws.sample import Series
from rotameter.profiler.usage import is_job_log
from rotameter.profiler.view import view

if TYPE_CHECKING:
    from rotameter.profiler.trace import Trace

__all__ = ["METRIC", "ON_PATH", "RUN", "run_times"]

METRIC = "makespan_s"
RUN = "run time"
ON_PATH = " on the critical path"
_LITTLE_RATIO = 0.01
"""What is less of every run than this counts with the largest part."""
_MOST_PARTS = 24
_WAITS = {"queue": "waiting for a slot", "wait_client": "not yet submitted"}


def run_times(
    runs: Sequence[Trace], scale: Sequence[float]
) -> tuple[dict[str, Series], dict[str, dict[str, Series]]]:
    """Give the run times, and those of the parts of the critical path.

    Parameters
    ----------
    runs : sequence of Trace
    scale : sequence of float
        One a run.

    Returns
    -------
    whole : dict of str to Series
        ``count`` (one a run) and ``makespan_s``; empty where fewer than two runs have times.
    parts : dict of str to dict of str to Series
        Part → the same; empty where the runs are too different in what they waited for.

    Examples
    --------
    >>> from rotameter.profiler.trace import Trace
    >>> second = 10**9
    >>> def run(k):
    ...     rows = [{"task_id": "a", "group": "map", "started_ns": 0, "ended_ns": 4 * k * second},
    ...             {"task_id": "b", "group": "sum", "started_ns": 4 * k * second,
    ...              "ended_ns": (4 * k + k * k) * second}]
    ...     return Trace.from_tables({"tasks": rows, "deps": [{"task_id": "b", "depends_on": "a"}]})
    >>> whole, parts = run_times([run(1), run(2)], [1.0, 2.0])
    >>> [v.tolist() for v in whole["makespan_s"].samples]
    [[5.0], [12.0]]
    >>> {name: [v.tolist() for v in one["makespan_s"].samples] for name, one in parts.items()}
    {'map on the critical path': [[4.0], [8.0]], 'sum on the critical path': [[1.0], [4.0]]}
    """
    found = [_path(run) for run in runs]
    times = [time for time, _ in found]
    if sum(time is not None for time in times) < 2:
        return {}, {}
    scales = tuple(float(k) for k in scale)
    parts = _joined([(time, own) for time, own in found if time and own])
    complete = all(time and own for time, own in found)
    if not complete or any(len(values) < len(runs) for values in parts.values()):
        parts = {}
    names = {name: f"{name}{ON_PATH}" for name in sorted(parts)}
    rows = {key: _series(key, scales, parts[name]) for name, key in names.items()}
    return _series(RUN, scales, times), rows if len(rows) <= _MOST_PARTS else {}


def _path(run: Trace) -> tuple[float | None, dict[str, float]]:
    """Give (run time, seconds of it by part); the parts are empty where there is no path."""
    seen = view(run)
    if is_job_log(seen):
        return None, {}
    path = critical_path(run)
    if not path.makespan_s or not path.segments:
        return seen.makespan or recorded_makespan(seen.meta), {}
    made: dict[str, float] = defaultdict(float)
    for segment in path.segments:
        made[_WAITS.get(segment.kind) or segment.group or "(no group)"] += segment.seconds
    return path.makespan_s, dict(made)


def _joined(found: Sequence[tuple[float, dict[str, float]]]) -> dict[str, list[float | None]]:
    """Give part → its seconds in each run; what is little in every run is in the largest."""
    large = {n for time, own in found for n, took in own.items() if took >= _LITTLE_RATIO * time}
    made: dict[str, list[float | None]] = {name: [] for name in large}
    for _, own in found:
        kept = {name: took for name, took in own.items() if name in large and took > 0}
        if kept:
            kept[max(kept, key=lambda n: kept[n])] += sum(own.values()) - sum(kept.values())
        for name, took in kept.items():
            made[name].append(took)
    return made


def _series(
    key: str, scale: tuple[float, ...], values: Sequence[float | None]
) -> dict[str, Series]:
    known = [np.empty(0) if value is None else np.array([value]) for value in values]
    ones = tuple(np.ones(1) for _ in values)
    return {
        "count": Series(key, "count", scale, ones),
        METRIC: Series(key, METRIC, scale, tuple(known)),
    }
