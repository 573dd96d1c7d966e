"""Why tasks that the scheduler has processing on a worker run there, or do not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rotameter.adapters.dask._why_restricted import unfit
from rotameter.adapters.dask._why_values import Reason
from rotameter.adapters.dask._why_workers import (
    Row,
    answered,
    at_odds,
    bad_worker,
    label,
    paused,
    retiring,
)
from rotameter.profiler.live.redact import redact
from rotameter.units import format_seconds, many
from rotameter.values import Evidence

__all__ = ["Cluster", "add_reason", "worker_reasons"]

_LONG = 10.0
_MORE = " (likewise "


class Cluster:
    """A snapshot, and what its workers' states mean together."""

    def __init__(self, shot: Mapping[str, Any]) -> None:
        self.shot = shot
        self.workers: list[Row] = list(shot["workers"])
        self.n_workers = int(shot["n_workers"])
        self.bad: dict[str, Reason] = {}
        self.paused: dict[str, Reason] = {}
        self.retiring: dict[str, Reason] = {}
        self.odd: dict[str, Reason] = {}
        for row in self.workers:
            address = str(row["address"])
            if (found := bad_worker(row, self.n_workers)) is not None:
                self.bad[address] = found
            elif (found := at_odds(row)) is not None:
                self.odd[address] = found
            elif (found := paused(row)) is not None:
                self.paused[address] = found
            elif (found := retiring(row)) is not None:
                self.retiring[address] = found
        rows = [r for r in self.workers if str(r["address"]) not in self.bad]
        self.executing = sum(self._executing(row) for row in rows)
        self.progressing = self.executing > 0
        self.deadlocked = not self.progressing and any(self.all_wait(r, "client") for r in rows)
        self.locked = not self.progressing and any(self.all_wait(r, "lock") for r in rows)

    @property
    def out(self) -> dict[str, Reason]:
        """Workers that are well and start no task all the same."""
        return {**self.paused, **self.retiring}

    @staticmethod
    def _executing(row: Row) -> int:
        """Tasks that compute on a worker, without those that wait for other tasks."""
        if answered(row):
            return sum(1 for e in row["answer"]["executing"] if not e.get("waits"))
        return sum(int(g["executing"]) for g in row["groups"].values())

    @staticmethod
    def all_wait(row: Row, what: str) -> bool:
        """Say whether all threads of a worker hold tasks that wait for one thing."""
        if not answered(row) or not row["answer"]["executing"]:
            return False
        waiting = [e for e in row["answer"]["executing"] if e.get("waits") == what]
        threads = row["answer"].get("nthreads") or row["nthreads"]
        return bool(len(waiting) >= threads)

    def free_threads(self) -> int:
        """Threads of running workers that no task occupies."""
        total = 0
        for row in self.workers:
            if row["status"] == "running" and str(row["address"]) not in self.bad:
                here = (
                    len(row["answer"]["executing"])
                    if answered(row)
                    else sum(int(g["executing"]) for g in row["groups"].values())
                )
                total += max(0, int(row["nthreads"]) - here)
        return total


def add_reason(into: list[Reason], reason: Reason, n: int) -> None:
    """Add a reason for ``n`` tasks; the same code on another worker joins it."""
    if n <= 0:
        return
    for at, old in enumerate(into):
        if old.code == reason.code and old.blocking == reason.blocking:
            workers = old.workers + tuple(w for w in reason.workers if w not in old.workers)
            text = old.text
            if old.blocking and len(workers) > len(old.workers):
                more = many(len(workers) - 1, "more worker")
                text = f"{text.partition(_MORE)[0]}{_MORE}{more})"
            into[at] = replace(old, n_tasks=old.n_tasks + n, workers=workers, text=text)
            return
    into.append(replace(reason, n_tasks=n))


def _nested(row: Row) -> Reason:
    where = next((e["where"] for e in row["answer"]["executing"] if e.get("waits")), None)
    threads = int(row["answer"].get("nthreads") or row["nthreads"])
    return Reason(
        "nested_deadlock",
        f"{'the only thread waits' if threads == 1 else f'all {threads} threads wait'} on worker "
        f"{label(row)} for results of tasks that need the same threads: a deadlock",
        workers=(str(row["address"]),),
        evidence=(
            Evidence("threads that wait for a future", threads, "", "stacks of the worker"),
            Evidence("waits in", where, "", "stack of the worker"),
        ),
        advice="inside tasks use `with worker_client():`, or call `distributed.secede()` before "
        "waiting; to get free now, cancel the outer tasks",
        blocking=True,
    )


def _lock(cluster: Cluster, row: Row) -> Reason:
    """Say what all running tasks of a worker wait for: kind and name, where there is one only."""
    waits = [e for e in row["answer"]["executing"] if e.get("waits")]
    where = next((e["where"] for e in waits), None)
    found = {(e["on"]["kind"], e["on"]["name"]) for e in waits if e.get("on")}
    one = next(iter(found)) if len(found) == 1 else None
    what, advice = "a distributed Lock, Event, Queue or Semaphore that nobody gives", _HOLDER
    evidence = [Evidence("waits in", where, "", "stack of the worker")]
    if one is not None:
        what, advice = _named(one, cluster.shot.get("leases", {}))
        evidence.append(Evidence("waits for", f"{one[0]} {one[1]!r}", "", "stack of the worker"))
    return Reason(
        "lock_wait",
        f"all running tasks of worker {label(row)} wait for {what}",
        workers=(str(row["address"]),),
        evidence=tuple(evidence),
        advice=advice,
        blocking=True,
    )


_HOLDER = "find who holds it; a task that died without releasing it leaves it taken"


def _named(one: tuple[str, str], leases: Mapping[str, Any]) -> tuple[str, str]:
    """Word what is waited for, and what to do about it.

    Examples
    --------
    >>> _named(("Semaphore", "S"), {"S": {"taken": 2, "most": 2, "waiting": 3}})[0]
    "the Semaphore 'S' (2 of 2 taken, 3 wait for it)"
    """
    kind, name = one
    what = f"the {kind} {name!r}"
    if kind == "Event":
        return f"{what}, which nobody has set", f"find what should call `Event({name!r}).set()`"
    if kind == "Queue":
        return f"{what}, which nobody fills (or empties)", "find what should put into it"
    if (known := leases.get(name)) is not None:
        waiting = int(known["waiting"])
        queue = f", {waiting:,} wait{'s' if waiting == 1 else ''} for it" if waiting else ""
        what += f" ({known['taken']:,} of {known['most']:,} taken{queue})"
    return what, f"{_HOLDER} (the scheduler does not know whose it is)"


def _running(row: Row, group: str, mean_s: float | None) -> Reason:
    """Say since when tasks run, and whether that is long for their group."""
    found = [e for e in row["answer"]["executing"] if e.get("group") == group]
    longest = max(found, key=lambda e: e.get("s") or 0.0, default=None)
    if longest is None or longest.get("s") is None:
        return Reason("running", "runs")
    seconds = float(longest["s"])
    usual = f", usually {format_seconds(mean_s)}" if mean_s else ""
    at = f", now in {longest['where']}" if longest.get("where") else ""
    evidence = (
        Evidence("longest running task", round(seconds, 2), "s", "the worker"),
        Evidence("usual duration", mean_s, "s", "mean of finished tasks"),
        Evidence("it is in", longest.get("where"), "", "stack of the worker"),
    )
    if mean_s and seconds > max(_LONG * mean_s, mean_s + 5):
        return Reason(
            "long_task",
            f"a task runs on {label(row)} for {format_seconds(seconds)}{usual}{at}",
            workers=(str(row["address"]),),
            evidence=evidence,
            advice="look at what it does there; split it if its input is larger than the others'",
        )
    text = f"runs; the longest for {format_seconds(seconds)}{usual}{at}"
    return Reason("running", text, evidence=evidence)


def _lost(row: Row, group: str) -> tuple[Reason, int] | None:
    lost = [(key, state) for name, key, state in row.get("lost", ()) if name == group]
    if not lost:
        return None
    key, state = lost[0]
    knows = "does not know them" if state is None else f"has them as {state!r}"
    return Reason(
        "disagreement",
        f"scheduler and worker disagree: the scheduler says {many(len(lost), 'task')} process on "
        f"{label(row)}, the worker {knows}; a message was lost",
        workers=(str(row["address"]),),
        evidence=(
            Evidence("for example", key, "", "scheduler"),
            Evidence("state on the worker", state or "unknown there", "", "asked twice, 0.25 s"),
        ),
        advice="restart that worker (`client.restart_workers([address])`): its tasks are sent anew",
        blocking=True,
    ), len(lost)


def _stalled(row: Row) -> Reason:
    return Reason(
        "worker_stalled",
        f"worker {label(row)} has tasks that are ready and free threads, and starts none: its "
        "state contradicts itself",
        workers=(str(row["address"]),),
        evidence=(
            Evidence("executing", len(row["answer"]["executing"]), "tasks", "asked twice"),
            Evidence("threads", row["nthreads"], "", "the worker"),
        ),
        advice="restart that worker: `client.restart_workers([address])`",
        blocking=True,
    )


def _transfer(cluster: Cluster, row: Row, group: str) -> Reason:
    """Say which data tasks on a worker wait for, and whether the peer that has it is well."""
    known = {str(r["address"]) for r in cluster.workers}
    missing = None
    for wait in row["answer"].get("waits", ()):
        if wait.get("group") != group:
            continue
        peers = [wait["from"]] if wait.get("from") else list(wait.get("who_has", ()))
        for peer in peers:
            if peer in cluster.bad:
                return replace(
                    cluster.bad[peer],
                    text=f"waits for data from there: {cluster.bad[peer].text}",
                )
        if peers and cluster.n_workers <= len(known) and not set(peers) & known:
            missing = (wait, peers[0])
    if missing is None:
        return Reason("transferring", f"waits on {label(row)} for data that is being fetched")
    wait, peer = missing
    data = redact(wait["dep"])[:120]
    return Reason(
        "transfer_stuck",
        f"tasks on {label(row)} wait for data from {peer}, which is no worker of this cluster",
        workers=(str(row["address"]),),
        evidence=(Evidence("data", data, "", f"state {wait['state']!r} on the worker"),),
        advice="restart that worker: `client.restart_workers([address])`",
        blocking=True,
    )


def _constrained(row: Row, need: Mapping[str, float]) -> Reason:
    free = row["answer"].get("available", {}) if answered(row) else {}
    idle = answered(row) and not row["answer"]["executing"]
    asked = ", ".join(f"{k}={v:g}" for k, v in need.items()) or "a resource"
    left = ", ".join(f"{k}={v:g}" for k, v in free.items()) or "none"
    return Reason(
        "resource_busy",
        f"waits on {label(row)} for a resource that other tasks use ({asked}; free: {left})",
        workers=(str(row["address"]),),
        evidence=(Evidence("free there", left, "", "the worker"),),
        advice="restart that worker: it counts resources as used that no task uses" if idle else "",
        blocking=idle,
    )


def worker_reasons(
    cluster: Cluster, into: list[Reason], row: Row, group: str, mean_s: float | None
) -> None:
    """Add the reasons of a group's tasks that the scheduler has processing on one worker."""
    here = row["groups"][group]
    n, address = int(here["n"]), str(row["address"])
    if address in cluster.bad:
        add_reason(into, cluster.bad[address], n)
        return
    states: dict[str, int] = {}
    if answered(row):
        states = dict(row["answer"].get("by_group", {}).get(group, {}))
        lost = _lost(row, group)
        if lost is not None:
            add_reason(into, *lost)
            n -= lost[1]
    running = states.get("executing", 0) + states.get("long-running", 0)
    running = running if answered(row) else int(here["executing"])
    waits = {e.get("waits") for e in row["answer"]["executing"]} if answered(row) else set()
    if running and cluster.deadlocked and "client" in waits:
        add_reason(into, _nested(row), running)
    elif running and cluster.locked and "lock" in waits:
        add_reason(into, _lock(cluster, row), running)
    elif running:
        known = answered(row)
        add_reason(
            into, _running(row, group, mean_s) if known else Reason("running", "runs"), running
        )
    n -= running
    if here["unfit"]:
        add_reason(into, unfit(cluster.workers, row, here["need"]), min(n, int(here["unfit"])))
        n -= int(here["unfit"])
    if n > 0 and address in cluster.paused:
        add_reason(into, cluster.paused[address], n)
        return
    counts = {
        "constrained": states.get("constrained", 0) if not here["unfit"] else 0,
        "waiting": states.get("waiting", 0),
    }
    for state, count in counts.items():
        count = min(n, count)
        if count > 0:
            made = _transfer(cluster, row, group)
            reason = made if state == "waiting" else _constrained(row, here["need"])
            add_reason(into, reason, count)
            n -= count
    add_reason(into, _ready(cluster, row), n)


def _ready(cluster: Cluster, row: Row) -> Reason:
    if cluster.deadlocked and cluster.all_wait(row, "client"):
        return _nested(row)
    if cluster.locked and cluster.all_wait(row, "lock"):
        return _lock(cluster, row)
    if row.get("stalled"):
        return _stalled(row)
    if (odd := at_odds(row)) is not None:
        return odd
    return Reason("ready", "is ready on its worker, behind other tasks")
