"""What is the matter with a worker: stopped, silent, paused, or at odds with the scheduler."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rotameter.adapters.dask._why_values import Reason
from rotameter.units import format_bytes, format_seconds, many
from rotameter.values import Evidence

__all__ = ["Row", "answered", "at_odds", "bad_worker", "heartbeat_s", "label", "paused"]

Row = Mapping[str, Any]


def label(row: Row) -> str:
    """Name a worker as people know it.

    Examples
    --------
    >>> label({"address": "tcp://10.0.0.1:4000", "name": "gpu-3"})
    'gpu-3 (10.0.0.1:4000)'
    """
    short = str(row["address"]).partition("://")[2] or str(row["address"])
    name = str(row.get("name", ""))
    return short if name in ("", str(row["address"]), short) else f"{name} ({short})"


def heartbeat_s(n_workers: int) -> float:
    """Seconds between two heartbeats of a worker, as distributed asks for them.

    Examples
    --------
    >>> heartbeat_s(4), heartbeat_s(400)
    (0.5, 3.0)
    """
    if n_workers <= 10:
        return 0.5
    if n_workers < 50:
        return 1.0
    return 2.0 if n_workers < 200 else n_workers / 200 + 1


def answered(row: Row) -> bool:
    """Tell whether a worker answered when it was asked."""
    return isinstance(row.get("answer"), Mapping) and "executing" in row["answer"]


def _seen(row: Row) -> Evidence:
    return Evidence("last heartbeat", round(float(row["last_seen_s"]), 1), "s ago", "scheduler")


def _stopped(row: Row, state: str) -> Reason:
    pid = (row.get("process") or {}).get("pid")
    return Reason(
        "worker_stopped",
        f"worker {label(row)} is stopped: its process {pid} got SIGSTOP (or a debugger holds it) "
        f"and does not run; last heartbeat {format_seconds(row['last_seen_s'])} ago",
        workers=(str(row["address"]),),
        evidence=(Evidence("process state", state, "", "kernel, /proc"), _seen(row)),
        advice=f"continue it with `kill -CONT {pid}` on {row['host']}, or end it: the scheduler "
        "then gives its tasks to others",
        blocking=True,
    )


def _silent(row: Row, why: str, advice: str, *extra: Evidence) -> Reason:
    return Reason(
        "worker_silent",
        f"worker {label(row)} is silent: last heartbeat "
        f"{format_seconds(row['last_seen_s'])} ago, {why}",
        workers=(str(row["address"]),),
        evidence=(_seen(row), *extra),
        advice=advice,
        blocking=True,
    )


def _busy(row: Row, process: Row) -> Reason:
    cpu = process.get("cpu_ratio")
    computes = cpu is not None and cpu > 0.2
    what = "it computes" if computes else "it does not compute"
    return Reason(
        "gil_held",
        f"worker {label(row)} is alive but its event loop has been silent for "
        f"{format_seconds(row['last_seen_s'])} ({what}): a task holds the GIL, most likely inside "
        "an extension, or the machine is overloaded",
        workers=(str(row["address"]),),
        evidence=(
            _seen(row),
            Evidence("process state", process.get("state"), "", "kernel, /proc"),
            Evidence("CPU of the process", cpu, "cores", "kernel, 60 ms"),
        ),
        advice="release the GIL in that code, or give the worker one thread and more processes",
    )


def bad_worker(row: Row, n_workers: int) -> Reason | None:
    """Say why a worker does not answer; None where it did, or where that says nothing yet.

    One missing answer is no sign on a busy machine: it counts together with the state of the
    process (from the nanny) or with heartbeats that have been missing for long.
    """
    beat = heartbeat_s(n_workers)
    if answered(row):
        return None
    late = float(row["last_seen_s"])
    if not row.get("asked"):
        if late <= max(20.0, 10 * beat):
            return None
        return _silent(row, "and it was not among those asked", "look at its machine and log")
    process = row.get("process") or {}
    state = process.get("state")
    if state in ("T", "t"):
        return _stopped(row, state)
    seen = Evidence("process state", state, "", "kernel, /proc")
    if state in ("Z", "X") or (process.get("pid") and state is None and late > 2 * beat):
        return _silent(row, "its process is gone", "its nanny should restart it; else restart it")
    if late <= max(3.0, 6 * beat):
        return None
    if state == "D":
        why = "its process waits inside the kernel, usually for a file system that does not answer"
        return _silent(row, why, "check the file systems of its machine", seen)
    if state is not None:
        return _busy(row, process)
    if late <= max(8.0, 8 * beat):  # nothing is known of its process: the machine may be busy
        return None
    if row.get("nanny_silent"):
        why = "and neither it nor its nanny answers: machine, network or both processes stopped"
        return _silent(row, why, f"look at machine {row['host']} and its network")
    why = "and it does not answer: stopped, unreachable, or its GIL is held"
    return _silent(row, why, f"look at its process on {row['host']} (`ps -o stat,wchan`)")


def at_odds(row: Row) -> Reason | None:
    """Say that scheduler and worker name different states of the worker; None if they do not."""
    if not row.get("other_status"):
        return None
    return Reason(
        "disagreement",
        f"scheduler and worker disagree: the scheduler has worker {label(row)} as "
        f"{row['status']}, the worker itself says {row['other_status']}; a message was lost",
        workers=(str(row["address"]),),
        evidence=(
            Evidence("status in the scheduler", row["status"], "", "scheduler"),
            Evidence("status on the worker", row["other_status"], "", "asked twice, 0.25 s"),
        ),
        advice="restart that worker: `client.restart_workers([address])`",
        blocking=True,
    )


def retiring(row: Row) -> Reason | None:
    """Say that a worker is being retired; None if it is not."""
    if row["status"] not in ("closing_gracefully", "closing"):
        return None
    return Reason(
        "retiring_worker",
        f"worker {label(row)} is being retired and starts no task: the scheduler has it as "
        f"{row['status']}",
        workers=(str(row["address"]),),
        evidence=(Evidence("status", row["status"], "", "scheduler"),),
        advice="it goes by itself once others have its results; start workers in its place if "
        "the work needs them",
        blocking=True,
    )


def paused(row: Row) -> Reason | None:
    """Say why a worker is paused; None if it is not."""
    answer = row["answer"] if answered(row) else {}
    status = answer.get("status") or row["status"]
    if status != "paused":
        return None
    memory = answer.get("memory") or {}
    limit = memory.get("limit_bytes") or row.get("limit_bytes")
    rss = memory.get("rss_bytes") or row.get("rss_bytes")
    pause = memory.get("pause_ratio")
    managed = memory.get("managed_bytes") or row.get("managed_bytes")
    full = bool(limit and rss and rss >= (pause or 0.8) * limit * 0.97)
    held = [f"`{n}` {format_bytes(b)} in {many(c, 'key')}" for n, b, c in row.get("held", ()) if b]
    if full:
        why = f"its memory is {format_bytes(rss)} of {format_bytes(limit)}"
        if held:
            why += f"; results held there: {', '.join(held[:2])}"
        if rss and managed is not None and managed < rss / 2:
            why += f"; {format_bytes(rss - managed)} is no result (unmanaged)"
        advice = (
            "free results that nobody needs, use smaller chunks or fewer threads a worker, or "
            "raise memory_limit; unmanaged memory: call malloc_trim, look for a leak"
        )
    else:
        why = "not for its memory now"
        if rss and limit:
            why += f" ({format_bytes(rss)} of {format_bytes(limit)})"
        why += ": somebody paused it, or the pause has just ended"
        advice = "set its status to running again, or retire it: `client.retire_workers([address])`"
    return Reason(
        "paused_worker",
        f"worker {label(row)} is paused and starts no task: {why}",
        workers=(str(row["address"]),),
        evidence=(
            Evidence("memory", rss, "B", "the worker's process"),
            Evidence("memory limit", limit, "B", "the worker"),
            Evidence("pause at", pause, "of the limit", "the worker's configuration"),
            Evidence("results held", managed, "B", "the worker"),
        ),
        advice=advice,
        blocking=True,
    )
