"""What a scheduler knows of attempts that run for long, in case their end is never told.

A program that is killed takes the rows of what it was doing with it. So an attempt that a worker
has been running for some seconds is told once, from a source that sorts behind all others: every
later row of the attempt takes precedence.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import islice
from typing import Any

from rotameter.adapters.dask.names import group_of, run_id_of, task_id_of
from rotameter.profiler.live.recorder import Recorder

__all__ = ["Early"]

COLUMNS = (
    "task_id",
    "run_id",
    "group",
    "worker",
    "submitted_ns",
    "ready_ns",
    "outcome",
    "outcome_kind",
    "source",
)
EVERY_S = 2.0
LONG_S = 2.0
_ROWS_A_ROUND = 1_000


class Early:
    """Rows of attempts that run for long, once an attempt (the recorder's thread).

    Parameters
    ----------
    scheduler : distributed.Scheduler
        The scheduler; its workers' heartbeats say what they run and for how long.
    recorder : Recorder
        Where rows go.
    when : callable
        ``when(key)`` gives (submitted_ns, ready_ns) of a task.
    prefix : str
        What the ``run_id`` of this scheduler's attempts begin with.
    clock : callable
        Monotonic seconds.
    """

    def __init__(
        self,
        scheduler: Any,
        recorder: Recorder,
        when: Callable[[Any], tuple[int | None, int | None]],
        prefix: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._scheduler = scheduler
        self._rows = recorder.channel("tasks", COLUMNS)
        self._when = when
        self._prefix = prefix
        self._clock = clock
        self._next_s = clock() + EVERY_S
        self._told: set[int] = set()

    def tick(self) -> None:
        """Look at what runs, each few seconds."""
        now = self._clock()
        if now < self._next_s:
            return
        self._next_s = now + EVERY_S
        running = self._running()
        for run_id in islice(running.keys() - self._told, _ROWS_A_ROUND):
            state, worker = running[run_id]
            submitted_ns, ready_ns = self._when(state.key)
            self._told.add(run_id)
            self._rows.add(
                (
                    task_id_of(state.key),
                    run_id_of(self._prefix, run_id),
                    group_of(state.prefix.name),
                    worker,
                    submitted_ns,
                    ready_ns,
                    "running",
                    "reported",
                    "early",
                )
            )
        self._told &= running.keys()

    def _running(self) -> dict[int, tuple[Any, str]]:
        """Give run id → (task, worker) of what has run for long."""
        out = {}
        for address, worker in list(self._scheduler.workers.items()):
            for state, seconds in list(getattr(worker, "executing", {}).items()):
                # What is merely assigned to the worker is no attempt yet.
                mine = getattr(state, "processing_on", None) is worker
                if mine and seconds >= LONG_S and state.run_id is not None:
                    out[state.run_id] = (state, address)
        return out
