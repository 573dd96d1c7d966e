"""Bytes that reach a worker: exact per moved key, per shuffle send, and by attempt.

Every row says ``worker`` = the receiver and ``peer`` = the sender, so that summing the transfer
intervals by (peer, worker) gives the pair matrix. Pulled results ("gather") are recorded by the
receiver, shuffle shards ("p2p") by the sender.
"""

from __future__ import annotations

from typing import Any

from rotameter.adapters.dask.names import run_id_of, task_id_of
from rotameter.profiler.live.recorder import Recorder

__all__ = ["Arrivals", "Shuffles", "shard_bytes"]

_INTERVAL = (
    "task_id",
    "run_id",
    "worker",
    "lane",
    "kind",
    "name",
    "start_ns",
    "end_ns",
    "bytes",
    "peer",
)
_FLOW = (
    "task_id",
    "run_id",
    "worker",
    "object",
    "medium",
    "op",
    "bytes",
    "first_ns",
    "last_ns",
    "peer",
)
_WAITERS_LOOKED_AT = 64


class Arrivals:
    """What a worker fetched from its peers, from the entries of its own transfer log.

    Parameters
    ----------
    worker : distributed.Worker
        The receiver.
    recorder : Recorder
        Where rows go.
    prefix : str
        What the ``run_id`` of the scheduler's attempts begin with.
    """

    def __init__(self, worker: Any, recorder: Recorder, prefix: str = "") -> None:
        self.worker = worker
        self.prefix = prefix
        self._intervals = recorder.channel("intervals", _INTERVAL)
        self._flows = recorder.channel("flows", _FLOW)
        # Key of a task that has not begun → [seconds, bytes] of what was fetched for it.
        self.waiting: dict[Any, list[float]] = {}
        self.total_bytes = 0

    def observe(self, entry: dict[str, Any]) -> None:
        """Record one entry of ``transfer_incoming_log`` (event loop)."""
        worker = self.worker
        delay = worker.scheduler_delay  # the log is on the scheduler's clock, rows are on ours
        start_ns = int((entry["start"] - delay) * 1e9)
        end_ns = int((entry["stop"] - delay) * 1e9)
        peer, total = entry["who"], entry["total"]
        self.total_bytes += total
        first: tuple[str | None, str | None] = (None, None)
        for key, nbytes in entry["keys"].items():
            taker = self._taker(key)
            task_id = run_id = None
            if taker is not None:
                task_id = task_id_of(taker.key)
                run_id = run_id_of(self.prefix, taker.run_id)
                waited = self.waiting.setdefault(taker.key, [0.0, 0.0])
                share = (nbytes or 0) / total if total else 1 / len(entry["keys"])
                waited[0] += share * (entry["stop"] - entry["start"])
                waited[1] += nbytes or 0
                if first[0] is None:
                    first = (task_id, run_id)
            flow = (
                task_id,
                run_id,
                worker.address,
                task_id_of(key),
                "network",
                "receive",
                nbytes,
                start_ns,
                end_ns,
                peer,
            )
            self._flows.add(flow)
        what = (worker.address, "worker", "transfer", "gather")
        self._intervals.add((*first, *what, start_ns, end_ns, total, peer))

    def disk(self, key: Any, run_id: int, item: dict[str, Any]) -> None:
        """Record that inputs of a task came from disk, or that its result went there."""
        # Unlike all others these intervals of distributed are on the worker's own clock.
        start_ns, end_ns = int(item["start"] * 1e9), int(item["stop"] * 1e9)
        what = (self.worker.address, "worker", "disk", item["action"])
        self._intervals.add(
            (task_id_of(key), run_id_of(self.prefix, run_id), *what, start_ns, end_ns, None, None)
        )

    def _taker(self, key: Any) -> Any:
        """Give the state of the task that a key was fetched for: the first to run that waits."""
        state = self.worker.state.tasks.get(key)
        if state is None:
            return None
        waiters = state.waiters or state.dependents
        if not waiters:
            return None
        if len(waiters) > _WAITERS_LOOKED_AT:
            return next(iter(waiters))
        return min(waiters, key=lambda ts: ts.priority or ())

    def take(self, key: Any) -> tuple[float | None, int | None]:
        """Give (seconds, bytes) fetched for a task that begins now; (0, 0) if nothing was."""
        waited = self.waiting.pop(key, None)
        return (0.0, 0) if waited is None else (waited[0], int(waited[1]))

    def forget(self, key: Any) -> None:
        """Drop what was fetched for a task that will not run here."""
        self.waiting.pop(key, None)


def shard_bytes(shards: Any) -> int:
    """Give the payload of one shuffle send.

    Examples
    --------
    >>> shard_bytes(b"1234"), shard_bytes([(0, b"12"), (1, [b"3"])])
    (4, 3)
    """
    if isinstance(shards, bytes | bytearray):
        return len(shards)
    if isinstance(shards, list):
        return sum(shard_bytes(item) for item in shards)
    if isinstance(shards, tuple):
        return sum(shard_bytes(item) for item in shards[1:])
    nbytes = getattr(shards, "nbytes", None)
    return int(nbytes) if isinstance(nbytes, int) else 0


class Shuffles:
    """Shards that a worker's shuffles send; they do not show in the transfer logs.

    Parameters
    ----------
    recorder : Recorder
        Where rows go.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._intervals = recorder.channel("intervals", _INTERVAL)
        self.total_bytes = 0

    def observe(self, sender: str, receiver: str, shards: Any, start: float, stop: float) -> None:
        """Record one send."""
        nbytes = shard_bytes(shards)
        self.total_bytes += nbytes
        span = (int(start * 1e9), int(stop * 1e9))
        row = (None, None, receiver, "worker", "transfer", "p2p", *span, nbytes, sender)
        self._intervals.add(row)
