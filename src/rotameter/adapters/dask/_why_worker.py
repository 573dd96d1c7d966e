"""What one worker, and its nanny, say about themselves; shipped as text and run there.

This module stands alone: the standard library only, no import of rotameter, since the cluster may
lack it. Everything read is read with a default, so that another version of distributed gives less
and fails nowhere. Nothing on the worker is changed.
"""

from __future__ import annotations

import os
import sys
import time
from typing import Any

__all__ = ["look", "process_state"]

_KEYS = 2000
_WAITING = 40
_LOCKS = ("lock", "multi_lock", "semaphore", "event", "queues", "variable", "pubsub")


def _key_text(key: Any) -> str:
    return str(key)[:2000]  # whoever shows it takes secrets out first, then shortens it


def _frames(worker: Any) -> dict[Any, dict[str, Any]]:
    """Give for each key in a thread: where it is, and what of distributed it waits for."""
    stacks = sys._current_frames()
    out: dict[Any, dict[str, Any]] = {}
    for thread, key in list(getattr(worker, "active_threads", {}).items())[:64]:
        frame = stacks.get(thread)
        waits, where, on, depth = None, None, None, 0
        while frame is not None and depth < 200:
            name = str(frame.f_globals.get("__name__", ""))
            if name.startswith("distributed.worker") and where is None and waits is None:
                break
            if name.startswith("distributed."):
                short = name.rpartition(".")[2]
                waits = "client" if short == "client" and waits is None else waits
                waits = "lock" if short in _LOCKS else waits
                on = (_what(frame) or on) if short in _LOCKS else on
            # The innermost frame of the task itself, below whatever library it calls.
            outside = not name.startswith(("distributed.", "dask.", "threading", "concurrent."))
            if outside and where is None:
                code = frame.f_code
                file = os.path.basename(code.co_filename)
                where = f"{code.co_name} ({file}:{frame.f_lineno})"
            if name.startswith("distributed.worker"):
                break
            frame, depth = frame.f_back, depth + 1
        out[key] = {"where": where, "waits": waits, "on": on}
    return out


def _what(frame: Any) -> dict[str, str] | None:
    """Give the kind and the name of what a method of distributed waits for."""
    mine = frame.f_locals.get("self")
    name = getattr(mine, "name", None) or getattr(mine, "names", None)
    if name is None:
        return None
    return {"kind": type(mine).__name__[:40], "name": str(name)[:80]}


def _memory(worker: Any) -> dict[str, Any]:
    manager = getattr(worker, "memory_manager", None)
    metrics = getattr(worker, "monitor", None)
    rss = None
    try:
        rss = int(metrics.get_process_memory()) if metrics is not None else None
    except Exception:
        rss = None
    spilled = getattr(getattr(worker, "data", None), "spilled_total", None)
    pause = getattr(manager, "memory_pause_fraction", None)
    return {
        "rss_bytes": rss,
        "limit_bytes": getattr(manager, "memory_limit", None),
        "pause_ratio": float(pause) if pause else None,
        "managed_bytes": getattr(worker.state, "nbytes", None),
        "spilled_bytes": None if spilled is None else int(spilled[1]),
    }


def _waits(state: Any) -> list[dict[str, Any]]:
    """Give for some waiting tasks the data they lack: its state, and the peers that hold it."""
    out = []
    for task in list(getattr(state, "waiting", ()))[:_WAITING]:
        for dep in list(getattr(task, "waiting_for_data", ()))[:5]:
            out.append(  # noqa: PERF401 - one long row
                {
                    "key": task.key,
                    "dep": _key_text(dep.key),
                    "state": str(dep.state),
                    "from": getattr(dep, "coming_from", None),
                    "who_has": sorted(map(str, getattr(dep, "who_has", ())))[:5],
                }
            )
    return out


def look(keys: Any = (), dask_worker: Any = None) -> dict[str, Any]:
    """Give a worker's view of itself and of the keys that the scheduler says it processes.

    Parameters
    ----------
    keys : sequence
        Keys to answer for; at most 2,000 are.

    Returns
    -------
    dict
        ``status``, ``nthreads``, ``executing`` [(key, seconds, where, waits, on)], ``states`` {key:
        state or None if unknown here}, counts, memory in bytes, transfers by peer.
    """
    state = dask_worker.state
    now = time.time()
    frames = _frames(dask_worker)
    active = set(dict(getattr(dask_worker, "active_threads", {})).values())
    executing = []
    for task in list(getattr(state, "executing", ()))[:256]:
        began = getattr(task, "start_time", None)
        found = frames.get(task.key, {})
        executing.append(
            {
                "key": task.key,
                "s": None if began is None else max(0.0, now - began),
                "where": found.get("where"),
                "waits": found.get("waits"),
                "on": found.get("on"),
            }
        )
    tasks = state.tasks
    wanted = list(keys)[:_KEYS]
    return {
        "status": getattr(dask_worker.status, "name", str(dask_worker.status)),
        "nthreads": getattr(state, "nthreads", None),
        "executing": executing,
        "n_active": len(active),
        "n_long_running": len(getattr(state, "long_running", ())),
        "n_ready": len(getattr(state, "ready", ())),
        "n_constrained": len(getattr(state, "constrained", ())),
        "states": [(k, str(tasks[k].state) if k in tasks else None) for k in wanted],
        "waits": _waits(state),
        "flights": {a: len(k) for a, k in list(getattr(state, "in_flight_workers", {}).items())},
        "available": dict(getattr(state, "available_resources", {})),
        "total": dict(getattr(state, "total_resources", {})),
        "memory": _memory(dask_worker),
    }


def _stat(pid: int) -> tuple[str, int] | None:
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
        return fields[0], int(fields[11]) + int(fields[12])
    except (OSError, ValueError, IndexError):
        return None


def process_state(pid: Any, dask_worker: Any = None) -> dict[str, Any]:
    """Give what the kernel says of a worker's process: its state letter and whether it computes.

    Examples
    --------
    >>> process_state(0)["state"] is None
    True
    """
    pid = getattr(dask_worker, "pid", None) or pid
    first = _stat(int(pid)) if pid else None
    if first is None:
        return {"pid": pid, "state": None, "cpu_ratio": None}
    began = time.perf_counter()
    time.sleep(0.06)
    second = _stat(int(pid)) or first
    ticks = (second[1] - first[1]) / (os.sysconf("SC_CLK_TCK") or 100)
    return {
        "pid": pid,
        "state": second[0],
        "cpu_ratio": round(ticks / (time.perf_counter() - began), 2),
    }
