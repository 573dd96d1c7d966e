"""Tasks that no worker may take: what they ask for, told twice a second while there are any.

A task that never starts has no row, and where a run hangs on one nothing else says why. Only the
scheduler's own list of such tasks is looked at: a run without any pays nothing.
"""

from __future__ import annotations

from itertools import islice
from typing import Any

from rotameter.adapters.dask.names import emit, group_of
from rotameter.profiler.live.recorder import Recorder
from rotameter.profiler.live.redact import clip, redact

__all__ = ["Unrunnable"]

_TASKS = 2_000
_ROWS = 20


class Unrunnable:
    """Events of tasks that no worker may take (the recorder's thread).

    Parameters
    ----------
    scheduler : distributed.Scheduler
        The scheduler; ``unrunnable`` is its list.
    recorder : Recorder
        Where events go.
    """

    def __init__(self, scheduler: Any, recorder: Recorder) -> None:
        self.scheduler = scheduler
        self.recorder = recorder
        self._before: dict[tuple[str, str], int] = {}
        self._told: dict[tuple[str, str], int] = {}

    def tick(self, at_ns: int) -> None:
        """Tell what has been there since the last look, where it has changed; 0 = no longer."""
        tasks = self.scheduler.unrunnable
        if not tasks and not self._told and not self._before:
            return
        found: dict[tuple[str, str], int] = {}
        for task in islice(list(tasks), _TASKS):
            at = (group_of(task.prefix.name), _asks(self.scheduler, task))
            if at in found or len(found) < _ROWS:
                found[at] = found.get(at, 0) + 1
        lasting = {at: n for at, n in found.items() if at in self._before}
        for at in {**lasting, **self._told}:
            count = lasting.get(at, 0)
            if count != self._told.get(at, 0):
                group, why = at
                emit(self.recorder, "unrunnable", at_ns, group=group, count=count, reason=why)
        self._told, self._before = lasting, found


def _asks(scheduler: Any, task: Any) -> str:
    """Say what a task asks for that no worker has."""
    workers = list(scheduler.workers.values())
    if not workers:
        return "the cluster has no worker"
    parts = []
    for name, amount in sorted((task.resource_restrictions or {}).items()):
        most = max(float(worker.resources.get(name, 0)) for worker in workers)
        if most < amount:
            had = f"; the most that one offers is {most:g}" if most else ", which no worker offers"
            parts.append(f"asks for {name}={amount:g}{had}")
    if not parts and task.resource_restrictions:
        asked = ", ".join(f"{k}={v:g}" for k, v in sorted(task.resource_restrictions.items()))
        parts.append(f"asks for {asked} on one worker")
    places = [*(task.worker_restrictions or ()), *(task.host_restrictions or ())]
    if places:
        named = ", ".join(sorted(map(str, places))[:2]) + (" …" if len(places) > 2 else "")
        parts.append(f"may run on {named} only")
    return clip(redact(", and ".join(parts))) or "no worker may take it"
