"""What a scheduler knows about its unfinished tasks; shipped as text and run on the scheduler.

This module stands alone: the standard library and distributed only, no import of rotameter. Names
are read with defaults. Nothing of the scheduler is changed. Sizes are bounded: per group, not per
task, and the one pass over all tasks ends after ``scan_s`` seconds.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

__all__ = ["snapshot"]

_DONE = ("memory", "released", "forgotten")
_OPEN = ("waiting", "processing", "no-worker", "queued", "erred")
_PREFIXES = 200
_ASKED = 48
_KEYS = 500
_ROWS = 100


def _call(name: Any, default: Any = None) -> Any:
    try:
        return name()
    except Exception:
        return default


def _prefixes(scheduler: Any) -> tuple[dict[str, Any], int]:
    rows = []
    for name, prefix in list(scheduler.task_prefixes.items()):
        states = {k: int(v) for k, v in dict(prefix.states).items() if v}
        rows.append((sum(states.get(s, 0) for s in _OPEN), sum(states.values()), str(name), prefix))
    rows.sort(key=lambda row: (-row[0], -row[1], row[2]))
    out: dict[str, Any] = {}
    for _, _, name, prefix in rows[:_PREFIXES]:
        states = {k: int(v) for k, v in dict(prefix.states).items() if v}
        groups = list(prefix.groups)[:200]
        deps = {str(d.prefix.name) for group in groups for d in list(group.dependencies)[:50]}
        mean = float(getattr(prefix, "duration_average", -1))
        total = dict(getattr(prefix, "all_durations", {}))
        out[name] = {
            "states": states,
            "recent_mean_s": mean if mean >= 0 else None,
            "compute_s": float(total.get("compute", 0.0)),
            "other_s": float(sum(v for k, v in total.items() if k != "compute")),
            "suspicious": int(getattr(prefix, "suspicious", 0)),
            "deps": sorted(deps),
        }
    return out, max(0, len(rows) - _PREFIXES)


def _log(scheduler: Any, now: float) -> tuple[dict[Any, float], dict[str, list[float]], Any]:
    """Read the last transitions: when keys began, when tasks finished, the last finish."""
    since: dict[Any, float] = {}
    finished: dict[str, list[float]] = {}
    last = None
    for entry in list(getattr(scheduler, "transition_log", ()))[-20000:]:
        key, start, finish, stamp = entry[0], entry[1], entry[2], float(entry[-1])
        if finish == "processing":
            since[key] = stamp
        elif start == "processing" and finish in ("memory", "erred"):
            last = stamp
            task = scheduler.tasks.get(key)
            if task is not None:
                finished.setdefault(str(task.prefix.name), []).append(now - stamp)
    return since, finished, None if last is None else max(0.0, now - last)


def _leases(scheduler: Any) -> dict[str, dict[str, int]]:
    """Give for each distributed Lock and Semaphore how many hold it, may, and wait for it.

    Who holds one is on no record: a lease is a random number.
    """
    known = scheduler.extensions.get("semaphores")
    most = dict(getattr(known, "max_leases", None) or {})
    held, pending = getattr(known, "leases", {}), getattr(known, "metrics", {}).get("pending", {})
    return {
        str(name)[:80]: {
            "taken": len(held.get(name, ())),
            "most": int(count),
            "waiting": int(pending.get(name, 0)),
        }
        for name, count in list(most.items())[:_ROWS]
    }


def _fits(scheduler: Any, task: Any) -> list[str]:
    """Give the running workers that could take a task, as distributed would choose them."""
    places, hosts = task.worker_restrictions, task.host_restrictions
    named: set[str] = set(places or ()) & set(scheduler.workers)
    if hosts:
        real = {_call(lambda h=h: scheduler.coerce_hostname(h), h) for h in hosts}
        named |= {a for a, w in scheduler.workers.items() if w.host in real}
    out = []
    for address, worker in scheduler.workers.items():
        if (places or hosts) and address not in named:
            continue
        need = task.resource_restrictions or {}
        if any(worker.resources.get(r, 0) < q for r, q in need.items()):
            continue
        if getattr(worker.status, "name", "") == "running":
            out.append(address)
    return out


def _unrunnable(scheduler: Any) -> list[dict[str, Any]]:
    rows: dict[Any, dict[str, Any]] = {}
    for task in list(scheduler.unrunnable)[:50000]:
        need = dict(task.resource_restrictions or {})
        key = (
            str(task.prefix.name),
            tuple(sorted((str(k), float(v)) for k, v in need.items())),
            tuple(sorted(map(str, task.worker_restrictions or ()))),
            tuple(sorted(map(str, task.host_restrictions or ()))),
        )
        row = rows.get(key)
        if row is None:
            if len(rows) >= _ROWS:
                continue
            loose = bool(task.loose_restrictions)
            rows[key] = row = {
                "group": key[0],
                "n": 0,
                "resources": dict(key[1]),
                "workers": list(key[2])[:5],
                "hosts": list(key[3])[:5],
                "loose": loose,
                "fits": _fits(scheduler, task)[:5],
                "s": 0.0,
            }
        row["n"] += 1
        when = scheduler.unrunnable[task] if isinstance(scheduler.unrunnable, dict) else None
        if isinstance(when, (int, float)):
            row["s"] = max(row["s"], time.monotonic() - when)
    return list(rows.values())


def _count(into: dict[str, dict[str, Any]], task: Any, **first: Any) -> None:
    """Count a task in the row of its group, which tells what it tells of the first of them."""
    row = into.setdefault(str(task.prefix.name), {"n": 0, **first})
    row["n"] += 1


def _waits_for(task: Any, into: dict[Any, int]) -> str | None:
    """Count what a task waits for; give what is wrong with that, if anything is."""
    on = task.waiting_on or ()
    bad = None if on else "waits for nothing"
    for dep in on:
        at = (str(dep.prefix.name), dep.state)
        if at in into or len(into) < 40:
            into[at] = into.get(at, 0) + 1
        if dep.state not in ("waiting", "processing", "queued", "no-worker"):
            bad = f"waits for a task that is {dep.state}"
    return bad


def _scan(scheduler: Any, scan_s: float) -> dict[str, Any]:
    """Walk over all tasks once: what waits for what, what contradicts itself, what failed."""
    end = time.perf_counter() + scan_s
    waits: dict[str, dict[Any, int]] = {}
    odd: dict[str, dict[str, Any]] = {}
    failed: dict[str, dict[str, Any]] = {}
    fallen: dict[str, dict[str, Any]] = {}
    wanted: dict[str, int] = {}
    seen = 0
    for task in scheduler.tasks.values():
        seen += 1
        if seen % 512 == 0 and time.perf_counter() > end:
            break
        state = task.state
        if state == "waiting":
            bad = _waits_for(task, waits.setdefault(str(task.prefix.name), {}))
            if bad:
                _count(odd, task, what=bad, key=str(task.key)[:120])
        elif state == "erred" and task.exception_blame is not task:
            blame = task.exception_blame
            _count(fallen, task, of=None if blame is None else str(blame.prefix.name))
        elif state == "erred":
            _count(failed, task, text=str(getattr(task, "exception_text", ""))[:2000])
        elif state == "processing" and (
            task.processing_on is None or task.processing_on.address not in scheduler.workers
        ):
            what = "is processing on a worker that is gone"
            _count(odd, task, what=what, key=str(task.key)[:120])
        if state in _OPEN and state != "erred":
            for client in task.who_wants or ():
                wanted[client.client_key] = wanted.get(client.client_key, 0) + 1
    rows = {n: [(d, s, c) for (d, s), c in into.items()] for n, into in waits.items()}
    return {
        "waits": rows,
        "odd": odd,
        "failed": failed,
        "fallen": fallen,
        "wanted": wanted,
        "scanned": seen,
        "tasks": len(scheduler.tasks),
    }


def _worker(worker: Any, now: float, since: dict[Any, float]) -> dict[str, Any]:
    groups: dict[str, dict[str, Any]] = {}
    for task in worker.processing:
        row = groups.setdefault(
            str(task.prefix.name), {"n": 0, "executing": 0, "unfit": 0, "need": {}, "s": None}
        )
        row["n"] += 1
        if task in worker.executing:
            row["executing"] += 1
            row["s"] = max(row["s"] or 0.0, float(worker.executing[task]))
        elif task.key in since:
            row["s"] = max(row["s"] or 0.0, now - since[task.key])
        need = task.resource_restrictions
        if need:
            row["need"] = {str(k): float(v) for k, v in need.items()}
            row["unfit"] += any(worker.resources.get(r, 0) < q for r, q in need.items())
    metrics = worker.metrics or {}
    return {
        "address": worker.address,
        "name": str(worker.name),
        "host": str(worker.host),
        "status": getattr(worker.status, "name", str(worker.status)),
        "nthreads": int(worker.nthreads),
        "pid": getattr(worker, "pid", None),
        "last_seen_s": max(0.0, now - float(worker.last_seen)),
        "limit_bytes": int(worker.memory_limit) if worker.memory_limit else None,
        "rss_bytes": metrics.get("memory"),
        "managed_bytes": int(worker.nbytes),
        "spilled_bytes": (metrics.get("spilled_bytes") or {}).get("disk"),
        "resources": {str(k): float(v) for k, v in worker.resources.items()},
        "n_long": len(worker.long_running),
        "groups": groups,
        "lag_s": metrics.get("event_loop_interval"),
    }


def _held(worker: Any) -> list[tuple[str, int, int]]:
    """Give the groups whose results fill a worker: (group, bytes, keys), largest first."""
    sizes: dict[str, list[int]] = {}
    for number, task in enumerate(worker.has_what):
        if number > 20000:
            break
        row = sizes.setdefault(str(task.prefix.name), [0, 0])
        row[0] += max(0, int(task.nbytes))
        row[1] += 1
    ranked = sorted(((n, b, c) for n, (b, c) in sizes.items()), key=lambda r: (-r[1], r[0]))
    return ranked[:3]


async def _talk(scheduler: Any, address: str, function: bytes, kwargs: Any) -> Any:
    from distributed.comm.core import connect
    from distributed.core import send_recv
    from distributed.protocol import pickle

    dumps: Any = pickle.dumps
    open_comm: Any = connect
    comm = await open_comm(address, timeout=5, **(scheduler.connection_args or {}))
    try:
        return await send_recv(
            comm, op="run", function=function, args=dumps(()), kwargs=dumps(kwargs), wait=True
        )
    finally:
        comm.abort()


async def _ask(scheduler: Any, address: str, function: bytes, kwargs: Any, limit_s: float) -> Any:
    """Run a function at an address; None when there is no answer in time."""
    task = asyncio.ensure_future(_talk(scheduler, address, function, kwargs))
    task.add_done_callback(lambda t: t.cancelled() or t.exception())
    done, _ = await asyncio.wait({task}, timeout=limit_s)
    if not done:
        task.cancel()
        return None
    if task.cancelled() or task.exception() is not None:
        return None
    reply = task.result()
    if isinstance(reply, dict) and reply.get("status") == "OK":
        return reply.get("result")
    return {"error": str(reply.get("text", "failed"))[:200]} if isinstance(reply, dict) else None


def _chosen(scheduler: Any, rows: dict[str, Any]) -> list[str]:
    """Choose the workers to ask: paused and late ones first, then those with tasks or data."""
    holders: set[str] = set()
    for worker in list(scheduler.workers.values()):
        for task, _ in zip(list(worker.processing), range(200), strict=False):
            for dep in list(task.dependencies)[:20]:
                who = dep.who_has or ()
                if worker not in who:
                    holders.update(w.address for w in list(who)[:3])

    def order(address: str) -> Any:
        """Put what does not run first, then what was not heard of for longest."""
        row = rows[address]
        return (row["status"] == "running", -min(row["last_seen_s"], 60.0) // 2, address)

    wanted = [
        a for a in rows if rows[a]["groups"] or rows[a]["status"] != "running" or a in holders
    ]
    return sorted(wanted, key=order)[:_ASKED]


def _doubt(scheduler: Any, address: str, answer: Any) -> list[tuple[Any, Any]]:
    """Give (key, run) of tasks that the scheduler has processing and the worker does not run."""
    worker = scheduler.workers.get(address)
    out = []
    for key, state in (answer or {}).get("states", ()):
        if state in (None, "memory", "error", "released", "forgotten", "rescheduled", "fetch"):
            task = scheduler.tasks.get(key)
            if task is not None and task.processing_on is worker and worker is not None:
                out.append((key, getattr(task, "run_id", None)))
    return out


def _idle(answer: Any) -> bool:
    """Tell whether a worker knows tasks as ready, has free threads, and starts none."""
    ready = [s for _, s in answer.get("states", ()) if s == "ready"]
    free = len(answer["executing"]) < (answer.get("nthreads") or 0)
    return bool(ready) and free and answer.get("status") == "running"


async def _recheck(
    scheduler: Any, address: str, row: dict[str, Any], look: bytes, limit_s: float
) -> None:
    """Look again at what seemed to contradict: messages may have been on their way."""
    answer = row["answer"]
    doubt, idle = _doubt(scheduler, address, answer), _idle(answer)
    seen_status = answer.get("status")
    if not doubt and not idle and seen_status == row["status"]:
        return
    await asyncio.sleep(0.25)
    keys = [key for key, _ in doubt] or [k for k, s in answer["states"] if s == "ready"]
    again = await _ask(scheduler, address, look, {"keys": keys[:_KEYS]}, limit_s)
    if not isinstance(again, dict) or "states" not in again:
        return
    still = set(_doubt(scheduler, address, again)) & set(doubt)
    states = dict(again["states"])
    row["lost"] = [
        (str(scheduler.tasks[k].prefix.name), str(k)[:120], states.get(k)) for k, _ in still
    ]
    row["stalled"] = idle and _idle(again)
    worker = scheduler.workers.get(address)
    if worker is not None:
        row["status"] = getattr(worker.status, "name", str(worker.status))
    row["other_status"] = again.get("status") if again.get("status") != row["status"] else None


def _summary(scheduler: Any, answer: Any) -> None:
    """Replace keys by groups, in place: keys may be any object and there may be many."""

    def group(key: Any) -> str | None:
        """Give a task's group; None where the scheduler does not know the task."""
        task = scheduler.tasks.get(key)
        return None if task is None else str(task.prefix.name)

    counts: dict[str, dict[str, int]] = {}
    for key, state in answer.pop("states", ()):
        name = group(key)
        if name is not None:
            into = counts.setdefault(name, {})
            into[str(state)] = into.get(str(state), 0) + 1
    answer["by_group"] = counts
    for row in answer.get("executing", ()):
        row["group"], row["key"] = group(row["key"]), str(row["key"])[:120]
    for row in answer.get("waits", ()):
        row["group"], row["key"] = group(row["key"]), str(row["key"])[:120]


async def _one(
    scheduler: Any, row: dict[str, Any], look: bytes, state: bytes, limit_s: float
) -> None:
    """Ask one worker; where it is silent, ask its nanny, else this machine, for its process."""
    address, worker = row["address"], scheduler.workers.get(row["address"])
    if worker is None:
        return
    keys = [t.key for t, _ in zip(list(worker.processing), range(_KEYS), strict=False)]
    nanny = getattr(worker, "nanny", None)
    process = None
    if nanny and row["last_seen_s"] > 1.0:  # late: ask both at once
        process = asyncio.ensure_future(_ask(scheduler, nanny, state, {"pid": row["pid"]}, limit_s))
    row["answer"] = answer = await _ask(scheduler, address, look, {"keys": keys}, limit_s)
    row["asked"] = True
    if isinstance(answer, dict) and "states" in answer:
        await _recheck(scheduler, address, row, look, limit_s)
        _summary(scheduler, answer)
        return
    if nanny:
        again = process or _ask(scheduler, nanny, state, {"pid": row["pid"]}, limit_s)
        row["process"] = await again
        row["nanny_silent"] = row["process"] is None
    here = str(scheduler.address).rpartition(":")[0].rpartition("/")[2]
    if row.get("process") is None and row["host"] == here and row["pid"]:
        from distributed.protocol import pickle

        loads: Any = pickle.loads
        row["process"] = loads(state)(row["pid"])
    row["last_seen_s"] = max(0.0, time.time() - float(worker.last_seen))


async def snapshot(
    look: bytes = b"",
    state: bytes = b"",
    ask_s: float = 0.5,
    scan_s: float = 0.35,
    dask_scheduler: Any = None,
) -> dict[str, Any]:
    """Give the state of a scheduler and of its workers, bounded in size and time.

    Parameters
    ----------
    look, state : bytes
        Pickled functions for the workers and for their nannies.
    ask_s : float
        How long a worker may take to answer, in seconds.
    scan_s : float
        How long the pass over all tasks may take, in seconds.
    """
    scheduler, began = dask_scheduler, time.perf_counter()
    await asyncio.sleep(0)
    lag = time.perf_counter() - began
    now = time.time()
    since, finished, last = _log(scheduler, now)
    rows = {a: _worker(w, now, since) for a, w in list(scheduler.workers.items())}
    prefixes, more = _prefixes(scheduler)
    out: dict[str, Any] = {
        "prefixes": prefixes,
        "more_prefixes": more,
        "unrunnable": _unrunnable(scheduler),
        "n_unrunnable": len(scheduler.unrunnable),
        "queued": len(getattr(scheduler, "queued", ())),
        "leases": _call(lambda: _leases(scheduler), {}),
        "finished": {n: (len(v), max(v), min(v)) for n, v in finished.items()},
        "last_finish_s": last,
        "clients": [(k, max(0.0, now - c.last_seen)) for k, c in scheduler.clients.items()],
        "lag_s": lag,
        **_scan(scheduler, scan_s),
    }
    for address, row in rows.items():
        if row["status"] != "running":
            row["held"] = _held(scheduler.workers[address])
    chosen = _chosen(scheduler, rows) if look else []
    await asyncio.gather(
        *(_one(scheduler, rows[a], look, state, ask_s) for a in chosen),
        return_exceptions=True,
    )
    out["n_workers"] = len(rows)
    out["slots"] = sum(r["nthreads"] for r in rows.values() if r["status"] == "running")
    kept = [a for a in rows if a in set(chosen)] + [a for a in rows if a not in set(chosen)]
    out["workers"] = [rows[a] for a in kept[:300]]
    out["spent_s"] = time.perf_counter() - began
    return out
