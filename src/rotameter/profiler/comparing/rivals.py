"""Why a cause may be gone without its advice: the tasks that it slowed down do other work.

A cause that is not in the work itself (threads that wait for each other, a slow worker, spilling)
leaves the work as it is when it is put right: as many tasks, which compute as much and read as
much. Where the work became less, the run may be faster for that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from rotameter.profiler.view import view

if TYPE_CHECKING:
    from rotameter.profiler.comparing.align import Pair
    from rotameter.profiler.comparing.facts import RunFacts
    from rotameter.profiler.comparing.predictions import Prediction
    from rotameter.profiler.view import Mask, View

__all__ = ["other_reason"]

LESS_RATIO = 0.7
"""Work that fell below this part of what it was is other work."""
KNOWN_SHARE = 0.9
THREADS_RATIO = 1.4
"""CPU of the process against the task's thread, from which libraries' threads are at work."""

_GRAIN = ("tiny_tasks", "scheduler_bound", "skewed_partitions")
"""Putting these right changes the number of tasks."""
_SAME_WORK = frozenset(
    (
        "cold_first_task",
        "gil_contention",
        "idle_parallelism",
        "latency_bound_reads",
        "latency_bound_roots",
        "network_import_or_spill",
        "no_progress",
        "queue_wait",
        "regime_change",
        "root_overproduction",
        "scheduler_bound",
        "skewed_partitions",
        "slow_storage",
        "spill",
        "straggler",
        "thread_oversubscription",
        "tiny_tasks",
        "transfer_bound",
        "uneven_workers",
        "unmanaged_memory",
    )
)
_SAME_READS = frozenset(
    ("gil_contention", "straggler", "thread_oversubscription", "uneven_workers")
)
"""Of these, what tasks read is no part of the cause."""


def other_reason(
    prediction: Prediction, before: RunFacts, after: RunFacts, pairs: Sequence[Pair]
) -> str:
    """Say what else may be why a predicted cause is gone; empty where nothing shows.

    Parameters
    ----------
    prediction : Prediction
    before, after : RunFacts
        The usual run of each side.
    pairs : sequence of Pair
    """
    if prediction.kind not in _SAME_WORK or not prediction.groups:
        return ""
    old_names = prediction.groups
    new_names = tuple(name for p in pairs if set(p.before) & set(old_names) for name in p.after)
    grain = prediction.kind in _GRAIN
    counts = [len(run.tasks_of(n)) for run, n in ((before, old_names), (after, new_names))]
    if not counts[1]:
        merged = grain and _fewer(before.totals["tasks"], after.totals["tasks"])
        return "" if merged else "its tasks are not there any more"
    if not grain and (_fewer(*counts) or _fewer(*counts[::-1])):
        return f"its tasks are {counts[1]:,} now, not {counts[0]:,}"
    sides = [
        (view(run.trace), _rows(view(run.trace), names))
        for run, names in ((before, old_names), (after, new_names))
    ]
    if prediction.kind == "thread_oversubscription":
        threads = _threads(*sides[1])
        if threads is not None and threads >= THREADS_RATIO:
            return "its tasks still run several threads"
    else:
        cpu = [_sum(*side, "cpu_s") for side in sides]
        if _fewer(*cpu):
            return f"its tasks compute less ({_percent(cpu)} CPU time)"
    if prediction.kind in _SAME_READS:
        read = [_sum(*side, "read_bytes") for side in sides]
        if before.heavy(read[0], None) and _fewer(*read):
            return f"its tasks read less ({_percent(read)} bytes)"
    return ""


def _rows(seen: View, names: Sequence[str]) -> Mask:
    codes = [code for code, name in enumerate(seen.groups) if name in names]
    mask: Mask = np.isin(seen.group, codes) & seen.ran
    return mask


def _sum(seen: View, rows: Mask, column: str) -> float | None:
    """Add up a column; None unless it is known for nearly all of the time that tasks ran."""
    values, wall = seen.number(column), np.nan_to_num(seen.wall)
    known = rows & ~np.isnan(values)
    if not known.any() or wall[known].sum() < KNOWN_SHARE * wall[rows].sum():
        return None
    return float(values[known].sum())


def _threads(seen: View, rows: Mask) -> float | None:
    """Give CPU time of the processes over that of the tasks' own threads."""
    process, own = _sum(seen, rows, "process_cpu_s"), _sum(seen, rows, "cpu_s")
    return process / own if process is not None and own else None


def _fewer(old: float | None, new: float | None) -> bool:
    return old is not None and new is not None and old > 0 and new < LESS_RATIO * old


def _percent(two: Sequence[float | None]) -> str:
    old, new = two
    return f"{100 * ((new or 0.0) / (old or 1.0) - 1):+.0f} %"
