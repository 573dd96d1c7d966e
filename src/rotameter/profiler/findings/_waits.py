"""What jobs waited for before they started, and how much shorter a run is without that."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from rotameter.profiler.usage import JOB_LOGS, is_job_log

if TYPE_CHECKING:
    from rotameter.profiler.view import Codes, Floats, View

    Place = Literal["queue", "cores", "either"]

__all__ = ["SHORT_WAIT_S", "chain_s", "sooner_s", "waited_in"]

SHORT_WAIT_S = 1.0
"""Job logs count whole seconds."""

SHARED_RATIO = 0.5
"""Where there are fewer workers than this for a job, several jobs went to one and the same."""

NEARLY_ALL = 0.9

_WITH_QUEUE = (*JOB_LOGS, "pbs", "lsf", "sge", "htcondor")
_WITHOUT_QUEUE = ("dask", "distributed", "python", None)
_SUBMIT = ("nextflow", "snakemake")
"""Engines that hand jobs to a batch system, or run them on their own machine."""


def waited_in(seen: View) -> Place | None:
    """Say what jobs waited in: a batch system's queue, or for cores of the engine's own machine.

    Where an engine's own workers are on record, which take one task after another, a task waits
    for a busy worker, or for one to come: that is neither.

    Returns
    -------
    {"queue", "cores", "either"} or None
        ``"either"``: they waited for a place of their own, and nothing tells which it was.
    """
    engine = seen.meta.get("engine")
    if engine in _WITHOUT_QUEUE:
        return None
    if engine in _WITH_QUEUE or is_job_log(seen):
        return "queue"
    if engine in _SUBMIT:
        return _of_an_executor(seen)
    # Only who asks a scheduler for a place says for how long.
    if not np.isnan(seen.number("requested_wall_s")).all():
        return "queue"
    named = seen.worker[seen.ran & (seen.worker >= 0)]
    if not len(named):
        return "either" if not len(seen.lives) else None
    return "queue" if len(np.unique(named)) > SHARED_RATIO * int(seen.ran.sum()) else None


def _of_an_executor(seen: View) -> Place:
    """Tell by where nearly all jobs ran, if the engine's log says so; else by their queue."""
    told = seen.meta.get("executors")
    counts: dict[Any, Any] = told if isinstance(told, dict) else {}
    of = max(1, int(seen.could_measure.sum()))
    here, away = (
        float(count) if isinstance(count := counts.get(name), (int, float)) else 0.0
        for name in ("local", "batch")
    )
    if here >= NEARLY_ALL * of:
        return "cores"
    queues = int((seen.could_measure & _said(seen, "queue")).sum())
    return "queue" if max(away, queues) >= NEARLY_ALL * of else "either"


def _said(seen: View, column: str) -> Any:
    return ~seen.tasks[column].is_null().to_numpy().astype(bool)


def _chains(seen: View, wait: Floats) -> tuple[Codes, Floats]:
    """Give the jobs whose wait is known, and the most that waits up to and of each add up to.

    What made the run's length is a chain of jobs of which none was submitted before the one before
    had ended.
    """
    rows = np.flatnonzero(seen.ran & ~np.isnan(wait))
    rows = rows[np.argsort(seen.ended[rows], kind="stable")]
    since, ends = seen.started[rows] - wait[rows], seen.ended[rows]
    before = np.searchsorted(ends, since + SHORT_WAIT_S, side="right")
    best, made = [0.0], []
    for place, (own, count) in enumerate(zip(wait[rows].tolist(), before.tolist(), strict=True)):
        made.append(own + best[min(count, place)])
        best.append(max(best[place], made[-1]))
    return rows, np.array(made)


def chain_s(seen: View, wait: Floats) -> float:
    """Give the most that waits of jobs which came one after another add up to."""
    return float(_chains(seen, wait)[1].max(initial=0.0))


def sooner_s(seen: View, wait: Floats) -> float:
    """Give the most that a run can be shorter without waits, by recorded times alone.

    A job ends earlier at most by its own wait and those of the jobs that it came after; what waited
    for nothing ends when it ended, however long others waited beside it.
    """
    rows, chains = _chains(seen, wait)
    if not rows.size:
        return 0.0
    counted = ~seen.nested & ~seen.outcome_in("cached") & ~np.isnan(seen.ended)
    last = float(seen.ended[counted].max())
    return max(0.0, last - float((seen.ended[rows] - chains).max()))
