"""Tasks, tries, their states and what the monitor read of them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rotameter.adapters.importers._parsl_db import Database
from rotameter.adapters.importers._parsl_runs import Runs, named, number, plain, whole
from rotameter.profiler.live.redact import clean_name, redact
from rotameter.units import many

if TYPE_CHECKING:
    from rotameter.adapters.importers.building import Builder

__all__ = ["emit_tasks", "worker_name"]

Key = tuple[str, str]
"""(run, task)."""
_DONE = {"exec_done": "ok", "done": "ok", "memo_done": "cached", "failed": "failed"}
_DONE |= {"fail_retryable": "failed", "dep_fail": "cancelled"}
_LIVE = ("pending", "launched", "running", "running_ended", "joining")
_WORD = re.compile(r"\d+")
_EXIT = re.compile(r"(?:exit code|unix exit code|exited with(?: code)?)\s*:?\s*(-?\d{1,9})", re.I)
_CAUSES = (
    (re.compile(r"\b(?:ManagerLost|WorkerLost|BadStateException)\b|worker.{0,20}lost", re.I),
     "worker_lost"),
    (re.compile(r"\b(?:AppTimeout|WalltimeExceeded)\b"), "timeout"),
    (re.compile(r"\bMemoryError\b|out of memory|oom[- ]?kill", re.I), "oom"),
)  # fmt: skip


@dataclass(slots=True)
class Task:
    """A row of ``task``."""

    function: str | None
    invoked_ns: int | None
    returned_ns: int | None
    executor: str | None
    memoized: bool
    depends: str | None
    failed: int | None
    tries: list[dict[str, Any]] = field(default_factory=list)


@dataclass(slots=True)
class States:
    """The states of one try (or of a task where tries are not told apart)."""

    last: str = ""
    last_ns: int = -1
    at: dict[str, int] = field(default_factory=dict)


def emit_tasks(database: Database, runs: Runs, build: Builder) -> int:
    """Give the rows of ``tasks`` and ``deps``; returns the number of tasks."""
    tasks = _tasks(database, runs, build)
    with_tries = database.has("try", "run_id", "task_id", "try_id")
    if with_tries:
        _tries(database, runs, tasks, build)
    states = _states(database, runs, build)
    usage = _usage(database, runs)
    late = 0
    for (run, name), task in tasks.items():
        task_id = runs.task_id(run, name)
        for place, one in enumerate(task.tries or [{"try": None}]):
            last = place == max(0, len(task.tries) - 1)
            # What is said of the task as a whole is true of its last try.
            seen = states.get((run, name, str(one["try"]))) or (
                states.get((run, name, "")) if last else None
            )
            row = _row(task, one, seen or States(), runs, run, last=last)
            used = usage.get((run, name, str(one["try"] if one["try"] is not None else 0)), {})
            row.update(_shared(used) if _threaded(task, one) else used)
            late += _bound(row, task, one, task_id, build)
            row.update(task_id=task_id, run_id=clean_name(run), user=runs.users.get(run))
            build.add("tasks", row)
        _deps(task, run, task_id, tasks, runs, build)
    if late:
        build.warn(
            f"{many(late, 'attempt')} without a start that a worker reported: the duration is "
            "unknown, at most the time from launch to return (samples wall_s)"
        )
    _shared_processes(tasks, build)
    return len(tasks)


def _tasks(database: Database, runs: Runs, build: Builder) -> dict[Key, Task]:
    columns = ("task_id", "run_id", "task_func_name", "task_time_invoked", "task_time_submitted")
    more = ("task_time_returned", "task_executor", "task_memoize", "task_depends")
    tasks: dict[Key, Task] = {}
    for row in database.rows("task", *columns, *more, "task_fail_count"):
        rowid, name, run, function, invoked, submitted, returned, executor, memo, on, failed = row
        key = (plain(run), plain(name))
        if key[0] is not None and not runs.wants(key[0]):
            continue
        build.records_in += 1
        if key[0] is None or key[1] is None or (key[0], key[1]) in tasks:
            why = "has no task_id or run_id" if None in key else "repeats a task"
            build.reject(database.name, whole(rowid), f"a row of task {why}")
            continue
        first = runs.clock.ns(invoked) if plain(invoked) else runs.clock.ns(submitted)
        tasks[key[0], key[1]] = Task(
            named(function),
            first,
            runs.clock.ns(returned),
            plain(executor),
            plain(memo) in ("1", "True"),
            plain(on),
            whole(failed),
        )
    return tasks


def _tries(database: Database, runs: Runs, tasks: dict[Key, Task], build: Builder) -> None:
    times = ("task_try_time_launched", "task_try_time_running", "task_try_time_returned")
    names = ("try_id", "task_id", "run_id", "block_id", "hostname", "task_executor", *times)
    clock = runs.clock
    for row in database.rows("try", *names, "task_fail_history"):
        rowid, attempt, task, run, block, host, executor, launched, running, returned, why = row
        key = (plain(run), plain(task))
        if key[0] is not None and not runs.wants(key[0]):
            continue
        number_ = whole(attempt)
        if key[0] is None or key[1] is None or number_ is None:
            build.records_in += 1
            build.reject(
                database.name, whole(rowid), "a row of try has no try_id, task_id or run_id"
            )
            continue
        made = tasks.get((key[0], key[1]))
        if made is None:
            build.records_in += 1
            build.warn("a try of a task that has no row of its own")
            made = tasks[key[0], key[1]] = Task(None, None, None, None, False, None, None)
        elif made.tries:
            build.records_in += 1  # the first try is one record with its task
        made.tries.append(
            {
                "try": number_,
                "block": plain(block),
                "host": named(host),
                "executor": plain(executor),
                "launched": clock.ns(launched),
                "running": clock.ns(running),
                "returned": clock.ns(returned),
                "why": plain(why),
            }
        )
    for task_ in tasks.values():
        task_.tries.sort(key=lambda one: int(one["try"]))


def _states(database: Database, runs: Runs, build: Builder) -> dict[tuple[str, str, str], States]:
    """Give the states of each try, and under the try "" those of each task."""
    found: dict[tuple[str, str, str], States] = {}
    counts: Counter[str] = Counter()
    for _, task, run, name, at, attempt in database.rows(
        "status", "task_id", "run_id", "task_status_name", "timestamp", "try_id"
    ):
        key, state = (plain(run), plain(task)), plain(name)
        if key[0] is None or key[1] is None or state is None or not runs.wants(key[0]):
            continue
        state = state.removeprefix("States.")
        counts[state[:60]] += 1
        when = runs.clock.ns(at)
        number_ = whole(attempt)
        for part in ("",) if number_ is None else ("", str(number_)):
            seen = found.setdefault((key[0], key[1], part), States())
            if when is not None:
                seen.at[state] = when
            # Equal times (whole seconds in the oldest): the state further on is the later.
            if (when or 0, state in _DONE) >= (seen.last_ns, seen.last in _DONE):
                seen.last, seen.last_ns = state, when or 0
    if counts:
        total = build.meta.setdefault("states", {})
        for name, count in counts.items():
            total[name] = total.get(name, 0) + count
    return found


def _row(
    task: Task, one: Mapping[str, Any], seen: States, runs: Runs, run: str, *, last: bool
) -> dict[str, Any]:
    attempt = one["try"]
    started = one.get("running")
    ended = one.get("returned")
    if attempt is None:
        # Before tries were told apart, "running" meant: handed to the executor.
        started = seen.at.get("running") if "launched" in seen.at else None
        ended = task.returned_ns
    # The worker's own word for the end is nearer to it than the arrival of the result.
    finish = seen.at.get("running_ended")
    if finish is not None and started is not None and ended is not None:
        ended = finish if started <= finish <= ended else ended
    if started is not None and ended is not None and ended < started:
        started = None
    outcome, kind, error = _outcome(task, one, seen, last=last, over=run in runs.ended)
    host = one.get("host")
    row: dict[str, Any] = {
        "attempt": 1 if attempt is None else attempt + 1,
        "group": task.function,
        "host": host,
        "worker": worker_name(host, one.get("block")),
        "queue": clean_name(one.get("executor") or task.executor or "") or None,
        "submitted_ns": task.invoked_ns,
        "ready_ns": one.get("launched"),
        "started_ns": started,
        "ended_ns": ended,
        "outcome": outcome,
        "outcome_kind": kind,
        "error": redact(error)[:500] if error else None,
        "source": "parsl",
    }
    code = _EXIT.search(error or "")
    if code:
        row["exit_code"] = int(code[1])
    if started is not None and ended is not None:
        row["wall_s"] = (ended - started) / 1e9
    return row


def worker_name(host: str | None, block: str | None) -> str | None:
    if host is None:
        return None
    return clean_name(host if block is None else f"{host}/block {block}")


def _outcome(
    task: Task, one: Mapping[str, Any], seen: States, *, last: bool, over: bool
) -> tuple[str, str, str | None]:
    """Give (outcome, how it is known, error)."""
    why = one.get("why")
    state = seen.last
    made = _DONE.get(state)
    if made == "failed" or (made is None and why and not last):
        cause = next((name for what, name in _CAUSES if what.search(why or "")), None)
        return cause or "failed", "inferred" if cause or made is None else "reported", why or state
    if made is not None:
        return made, "reported", None if made in ("ok", "cached") else (why or state)
    if not last:
        return "failed", "inferred", why or "tried again"
    returned = one.get("returned") if one["try"] is not None else task.returned_ns
    if returned is not None or (one["try"] is not None and task.returned_ns is not None):
        if why or task.failed:
            cause = next((name for what, name in _CAUSES if what.search(why or "")), None)
            return cause or "failed", "inferred", why or "failed"
        return ("cached" if task.memoized and not one.get("launched") else "ok"), "inferred", None
    if not over and state in ("running", "joining"):
        return "running", "reported", None
    if state and state not in _LIVE:
        return "unknown", "reported", state
    return "unknown", "reported", state or "no end recorded"


def _bound(
    row: dict[str, Any], task: Task, one: Mapping[str, Any], task_id: str, build: Builder
) -> bool:
    """Say what an unknown duration is at most, where launch and return are known."""
    launched, returned = one.get("launched"), one.get("returned")
    if one["try"] is None:
        launched, returned = task.invoked_ns, task.returned_ns
    if row.get("wall_s") is not None or launched is None or returned is None:
        return False
    if row["outcome"] == "cached" or returned < launched:
        return False
    build.add(
        "samples",
        {
            "at_ns": returned,
            "subject": task_id,
            "metric": "wall_s",
            "value": (returned - launched) / 1e9,
            "quality": "upper_bound",
        },
    )
    return True


def _deps(
    task: Task, run: str, task_id: str, tasks: Mapping[Key, Task], runs: Runs, build: Builder
) -> None:
    for name in dict.fromkeys(_WORD.findall(task.depends or "")):
        if (run, name) in tasks:
            build.add("deps", {"task_id": task_id, "depends_on": runs.task_id(run, name)})
        else:
            build.warn("a dependency on a task that is not in the file is left out")


def _shared_processes(tasks: Mapping[Key, Task], build: Builder) -> None:
    threads = sum(
        any(_threaded(task, one) for one in task.tries or [{}]) for task in tasks.values()
    )
    if threads:
        build.warn(
            f"{threads:,} tasks ran in threads of one process: the memory read of them is the "
            "whole process's (at most that), its CPU time and I/O are left out"
        )


def _threaded(task: Task, one: Mapping[str, Any]) -> bool:
    return "thread" in (one.get("executor") or task.executor or "").lower()


def _shared(used: Mapping[str, Any]) -> dict[str, Any]:
    """Keep of a process that several tasks share what is true of each of them."""
    if "peak_memory_bytes" not in used:
        return {}
    return {"peak_memory_bytes": used["peak_memory_bytes"], "peak_memory_kind": "upper_bound"}


# -- what the monitor read ------------------------------------------------------------------------

_PREFIX = "psutil_process_"


def _usage(database: Database, runs: Runs) -> dict[tuple[str, str, str], dict[str, Any]]:
    """Fold the readings of each try: the peak of memory, the growth of running totals."""
    if not database.has("resource", "task_id", "run_id"):
        return {}
    have = database.tables["resource"]
    keys = [name for name in ("run_id", "task_id", "try_id") if name in have]
    attempt = '"try_id"' if "try_id" in have else "NULL"
    values = [f"{_PREFIX}{n}" for n in ("memory_resident", "disk_read", "disk_write")]
    cpu = [f"{_PREFIX}time_user", f"{_PREFIX}time_system"]
    parts = [f"CAST({_col(values[0], have)} AS REAL)"]
    parts += [f"CAST({_col(name, have)} AS REAL)" for name in values[1:]]
    parts.append(" + ".join(f"CAST({_col(name, have)} AS REAL)" for name in cpu))
    folded = ", ".join(f"min({part}), max({part})" for part in parts)
    query = (
        f'SELECT run_id, task_id, {attempt}, count(*), {folded} FROM "resource" '
        f"GROUP BY {', '.join(keys)}"
    )
    found = {}
    for row in database.query(query):
        run, task, number_ = plain(row[0]), plain(row[1]), whole(row[2])
        if run is None or task is None or not runs.wants(run):
            continue
        found[run, task, str(number_ or 0)] = _folded(row[3], [number(value) for value in row[4:]])
    return found


def _col(name: str, have: list[str]) -> str:
    return f'"{name}"' if name in have else "NULL"


def _folded(count: int, values: list[float | None]) -> dict[str, Any]:
    _, peak, read_low, read, write_low, write, cpu_low, cpu = values
    used: dict[str, Any] = {}
    if peak:
        used.update(peak_memory_bytes=int(peak), peak_memory_kind="sampled")
    # Totals of a process that lived before the task: only their growth is the task's.
    if count > 1:
        if cpu is not None and cpu_low is not None and cpu > 0:
            used["cpu_s"] = cpu - cpu_low
        if read and read_low is not None:
            used["read_bytes"] = int(read - read_low)
        if write and write_low is not None:
            used["write_bytes"] = int(write - write_low)
        if "read_bytes" in used or "write_bytes" in used:
            used["io_kind"] = "lower_bound"
    return used
