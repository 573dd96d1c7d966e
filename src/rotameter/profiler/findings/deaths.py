"""Deaths of workers: how each came about, what ran there and what merely queued there."""

from __future__ import annotations

import signal
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from rotameter.profiler.view import View

__all__ = ["Death", "Victim", "collect", "nannies_gone", "signal_name"]

NEAR_LIMIT = 0.75
"""A worker last seen above this part of its limit probably died of memory (signal 9)."""

LAST_MOMENTS_S = 2.0
"""Workers that go without a word this close to the end of all workers were closed, not lost."""

CRASHES = {
    4: "SIGILL",
    5: "SIGTRAP",
    6: "SIGABRT",
    7: "SIGBUS",
    8: "SIGFPE",
    11: "SIGSEGV",
    31: "SIGSYS",
}
"""Signals (Linux numbers) that a process brings on itself; nobody sends them."""

_WALLTIME = ("walltime", "wall time", "time limit", "preempt", "sigterm", "scancel")


@dataclass(slots=True)
class Victim:
    """An attempt that really ran on a worker when it died."""

    task_id: str | None
    group: str | None
    rss_bytes: int | None = None
    duration_s: float | None = None


@dataclass(slots=True)
class Death:
    """One worker's unexpected end.

    ``cause``: memory (the nanny said so), memory_probably (signal 9 near the limit), walltime
    (asked to stop from outside), exit (the process ended by itself), crashed (a signal that a
    process brings on itself), killed (a signal from outside), silent. ``rss_from`` says which
    reading ``rss_bytes`` is: there is one a death, the nanny's before any other.
    """

    worker: str
    at_s: float | None = None
    cause: str = "silent"
    rss_bytes: int | None = None
    rss_from: str | None = None
    limit_bytes: int | None = None
    exit_code: int | None = None
    signal: int | None = None
    reason: str | None = None
    executing: list[Victim] = field(default_factory=list)
    queued: dict[str, int] = field(default_factory=dict)
    seen_running: bool = True
    took_work: bool = False

    @property
    def of_memory(self) -> bool:
        """Whether the worker died for memory, surely or probably."""
        return self.cause in ("memory", "memory_probably")


def collect(view: View) -> list[Death]:
    """Put together each worker's death from what nanny, scheduler and slots left behind."""
    found: dict[str, Death] = {}
    calm: set[str] = set()

    def death(event: dict[str, Any]) -> Death | None:
        worker = event["worker"] or event["subject"]
        if worker is None:
            return None
        made = found.setdefault(worker, Death(worker))
        if event["at_s"] is not None:
            made.at_s = event["at_s"] if made.at_s is None else min(made.at_s, event["at_s"])
        return made

    for event in view.events("worker_memory_kill"):
        if (made := death(event)) is not None:
            made.cause = "memory"
            made.rss_bytes = max(made.rss_bytes or 0, event["rss_bytes"] or 0) or None
            made.rss_from = "nanny's reading when it killed the worker"
            made.limit_bytes = event["limit_bytes"] or made.limit_bytes
    for event in view.events("worker_removed"):
        worker = event["worker"] or event["subject"]
        if event["expected"]:
            calm.add(worker)
        elif (made := death(event)) is not None:
            made.reason = event["reason"] or made.reason
    for event in view.events("worker_exit"):
        bad = bool(event["exit_code"]) or bool(event["signal"])
        worker = event["worker"] or event["subject"]
        # A worker that was asked to go, and went, did not die.
        if bad and worker not in calm and (made := death(event)) is not None:
            made.exit_code, made.signal = event["exit_code"], event["signal"]
            if made.signal is None and (made.exit_code or 0) < 0:
                made.signal = -int(made.exit_code or 0)
    _victims(view, found)
    _lives(view, found)
    for made in found.values():
        _judge(made)
    _evidence(view, found)
    return sorted(found.values(), key=lambda d: (d.at_s is None, d.at_s or 0.0, d.worker))


def _victims(view: View, found: dict[str, Death]) -> None:
    """Fill in what ran and what queued; the scheduler's rows serve where there are no slots."""
    for event in view.events("executing_at_death"):
        if (made := found.get(event["worker"] or event["subject"] or "")) is not None:
            made.executing.append(
                Victim(event["task_id"], event["group"], event["rss_bytes"], event["duration_s"])
            )
            if (event["reason"] or "").startswith("inferred"):
                made.seen_running = False
    queued: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for event in view.events("queued_at_death"):
        worker = event["worker"] or event["subject"]
        if worker in found and event["group"] is not None:
            queued[worker][event["group"]] += 1
    for worker, groups in queued.items():
        found[worker].queued = dict(groups)
    bare = {w for w, made in found.items() if not made.executing}
    if not bare:
        return
    for row in np.flatnonzero(view.outcome_in("oom", "worker_lost") & (view.worker >= 0)):
        made = found.get(view.workers[view.worker[row]])
        if made is None or made.worker not in bare or view.group[row] < 0:
            continue
        group = view.groups[view.group[row]]
        if np.isnan(view.started[row]):
            if not queued.get(made.worker):
                made.queued[group] = made.queued.get(group, 0) + 1
            continue
        if made.at_s is not None and view.ended[row] < made.at_s:
            continue  # it had ended, only its result was lost
        made.seen_running = False
        made.executing.append(Victim(view.task_ids[view.task[row]], group, None, None))


def _lives(view: View, found: dict[str, Death]) -> None:
    """Fill in limits and last known memory."""
    limits = {
        view.workers[life["worker"]]: float(life["memory"])
        for life in view.lives
        if not np.isnan(life["memory"])
    }
    blank = [made for made in found.values() if made.rss_bytes is None]
    code, at, value = view.samples("rss_bytes") if blank else (None, None, None)
    for made in found.values():
        if made.limit_bytes is None and made.worker in limits:
            made.limit_bytes = round(limits[made.worker])
        if made.rss_bytes is not None:
            continue
        slots = [victim.rss_bytes for victim in made.executing if victim.rss_bytes]
        if slots:
            made.rss_bytes, made.rss_from = max(slots), "the worker's own last reading"
        elif code is not None and at is not None and value is not None:
            mine = np.flatnonzero(
                (code >= 0) & (np.array([*view.workers, ""], object)[code] == made.worker)
            )
            if mine.size and not np.isnan(value[mine]).all():
                made.rss_bytes = round(float(value[mine[np.nanargmax(at[mine])]])) or None
                made.rss_from = "last sample before it died"


def _judge(made: Death) -> None:
    """Say how a worker came to its end."""
    if made.cause == "memory":
        return
    near = (
        made.rss_bytes is not None
        and made.limit_bytes is not None
        and made.rss_bytes >= NEAR_LIMIT * made.limit_bytes
    )
    text = (made.reason or "").lower()
    if near and made.signal == 15 and (made.rss_bytes or 0) >= 0.9 * (made.limit_bytes or 0):
        made.cause = "memory_probably"  # The nanny's own stop near the limit, its word lost.
    elif any(word in text for word in _WALLTIME) or made.signal == 15:
        made.cause = "walltime"
    elif near and (made.signal == 9 or (made.signal is None and not made.exit_code)):
        made.cause = "memory_probably"
    elif made.signal in CRASHES:
        made.cause = "crashed"
    elif made.signal is not None:
        made.cause = "killed"
    elif made.exit_code is not None:
        made.cause = "exit"


def _evidence(view: View, found: dict[str, Death]) -> None:
    """Say which deaths took work along, and drop those that nothing but a removal tells of.

    A worker that merely left (scaled down, closed with its cluster) is removed the same way as
    one that vanished: without work lost there is no telling, and no loss.
    """
    gone = view.outcome_in("oom", "worker_lost") | view.superseded
    took = {view.workers[code] for code in np.unique(view.worker[gone & (view.worker >= 0)])}
    for made in found.values():
        made.took_work = bool(made.executing) or made.worker in took
    closed = _closed_together(view, found)
    for worker, made in list(found.items()):
        if made.cause == "silent" and (not made.took_work or worker in closed):
            del found[worker]


def _closed_together(view: View, found: dict[str, Death]) -> set[str]:
    """Name workers that left without a word with the last of the cluster, if no run failed."""
    failed = (view.meta.get("run") or {}).get("status") == "failed"
    if failed or not len(view.lives) or not view.lives["died"].all():
        return set()
    last = float(view.lives["ended"].max())
    return {
        worker
        for worker, made in found.items()
        if made.cause == "silent" and made.at_s is not None and made.at_s >= last - LAST_MOMENTS_S
    }


def nannies_gone(seen: View, deaths: list[Death]) -> bool:
    """Say whether no worker of the same name or host began after any of these deaths."""
    rows = seen.table("workers").select(["worker", "host", "name", "started_ns"]).to_pylist()
    of = {row["worker"]: row for row in rows}
    for death in deaths:
        mine = of.get(death.worker)
        if mine is None or death.at_s is None or not (mine["host"] or mine["name"]):
            return False
        at_ns = seen.origin_ns + death.at_s * 1e9
        for row in rows:
            same = (row["name"] or "", row["host"]) == (mine["name"] or "", mine["host"])
            if same and row is not mine and (row["started_ns"] or 0) >= at_ns:
                return False
    return True


def signal_name(number: int) -> str:
    """Name a signal.

    Examples
    --------
    >>> signal_name(9)
    'SIGKILL'
    """
    try:
        return signal.Signals(number).name
    except ValueError:
        return "a signal"
