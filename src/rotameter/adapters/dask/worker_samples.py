"""A worker's memory and spill, read twice a second from the recorder's own thread."""

from __future__ import annotations

import time
from typing import Any

from rotameter.adapters.dask import _compat
from rotameter.profiler.live.recorder import Recorder

__all__ = ["WorkerSampler"]

_COLUMNS = ("at_ns", "subject", "metric", "value", "quality")


class WorkerSampler:
    """Samples of one worker.

    Parameters
    ----------
    worker : distributed.Worker
        The worker.
    recorder : Recorder
        Where rows go.
    shared : bool
        Whether other workers live in the same process, whose memory cannot be told apart.
    """

    def __init__(self, worker: Any, recorder: Recorder, *, shared: bool) -> None:
        self.worker = worker
        self._channel = recorder.channel("samples", _COLUMNS)
        self._quality = "process of several workers" if shared else None
        self._base = _compat.spill_counters(worker)
        self._last: dict[str, float] = {}

    def sample(self, rss_bytes: int | None) -> None:
        """Take one reading.

        Parameters
        ----------
        rss_bytes : int or None
            Resident memory of the process, in bytes.
        """
        worker, at_ns = self.worker, time.time_ns()
        self._add(at_ns, "rss_bytes", rss_bytes, self._quality)
        self._add(at_ns, "managed_bytes", _compat.managed_bytes(worker), None)
        spilled = _compat.spilled_bytes(worker)
        if spilled is not None:
            self._add_changed(at_ns, "spilled_bytes", spilled[1])
            self._add_changed(at_ns, "spilled_memory_bytes", spilled[0])
        for name, value in _compat.spill_counters(worker).items():
            # Cumulative since the trace began, so that the last one is the total.
            label = name.replace("disk-read/", "unspill_").replace("disk-write/", "spill_")
            unit = {"seconds": "s", "bytes": "bytes", "count": "count"}
            head, _, tail = label.rpartition("_")
            metric = f"{head}_total_{unit.get(tail, tail)}"
            self._add_changed(at_ns, metric, value - self._base.get(name, 0.0))
        self._add_changed(at_ns, "clock_offset_s", round(worker.scheduler_delay, 2))

    def _add(self, at_ns: int, metric: str, value: float | None, quality: str | None) -> None:
        if value is not None:
            self._channel.add((at_ns, self.worker.address, metric, float(value), quality))

    def _add_changed(self, at_ns: int, metric: str, value: float) -> None:
        if self._last.get(metric) != value:
            self._last[metric] = value
            self._add(at_ns, metric, value, None)
