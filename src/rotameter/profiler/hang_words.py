"""What a run that was interrupted hung on: tasks that never started, and since when nothing ran."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rotameter.profiler.occupancy import paused_spans
from rotameter.profiler.open_ends import still_running
from rotameter.profiler.view import short
from rotameter.units import format_count, format_seconds, many

if TYPE_CHECKING:
    from rotameter.profiler.view import View

__all__ = [
    "hang_words",
    "left_behind",
    "never_started",
    "paused_to_the_end",
    "running_words",
    "stood_still",
    "unrunnable",
]

STILL_S, STILL_RATIO = 5.0, 0.1
"""That nothing ran is told from this length and part of the run on."""

LATE_S = 2.0
"""That a worker could take a task is told this much after it began, at most."""

_OFFER = "Start workers that offer it, or ask for less."


def never_started(seen: View) -> tuple[int, int]:
    """Count the tasks that were submitted and never started: they have no row.

    A task that is submitted again, because its result had been let go of, is one more to do.

    Returns
    -------
    never : int
    again : int
        Of these, tasks that had been done before, for an earlier computation.
    """
    graphs = [(e["at_s"], e["count"] or 0) for e in seen.events("graph_submitted")]
    if not graphs:
        return 0, 0
    # A graph is told of as soon as its tasks are known.
    at = np.array([np.nan if at_s is None else at_s for at_s, _ in graphs])
    graph = np.searchsorted(at, np.fmin(seen.submitted, seen.started), "left")
    graph = np.minimum(graph, len(at) - 1)
    known = seen.task >= 0
    begun = len(np.unique(seen.task[known] * len(at) + graph[known]))
    never = max(0, sum(count for _, count in graphs) - begun)
    last = np.unique(seen.task[known & (graph == len(at) - 1)])
    before = np.unique(seen.task[known & (graph < len(at) - 1)])
    repeats = len(np.intersect1d(last, before))
    return never, min(never, len(before) - repeats) if repeats else 0


def left_behind(seen: View, *, failed: bool) -> str | None:
    """Say how many tasks never started, in a run that nobody interrupted.

    Where it went well that is told only where the scheduler still had them when it ended: a program
    may let go of results that it does not want.
    """
    never, again = never_started(seen)
    if not never or not (failed or _scheduler_had_tasks(seen)):
        return None
    total = len(seen.task_ids) + never - again
    said = f"When it ended, {format_count(never)} of {many(total, 'task')} had never started"
    paused, still = _paused_words(seen), stood_still(seen)
    if not paused or still is None:
        return f"{said}."
    length = format_seconds(still[1] - still[0])
    return f"{said}: {paused}. Nothing ran for the last {length}."


def _scheduler_had_tasks(seen: View) -> bool:
    """Say whether the scheduler's last counts are of tasks that wait for a worker or for a turn."""
    return any(_last_sample(seen, name) > 0 for name in ("queued", "processing", "no_worker"))


def unrunnable(seen: View) -> list[tuple[str | None, str, int]]:
    """Give (group, why, how many) of tasks that no worker could take where the trace ends.

    Examples
    --------
    >>> from rotameter.profiler.trace import Trace
    >>> from rotameter.profiler.view import View
    >>> event = {"kind": "unrunnable", "at_ns": 1, "group": "g", "count": 2,
    ...          "reason": "asks for GPU=1, which no worker offers"}
    >>> unrunnable(View(Trace.from_tables({"events": [event]})))
    [('g', 'asks for GPU=1, which no worker offers', 2)]
    """
    last: dict[tuple[str | None, str], int] = {}
    most: dict[tuple[str | None, str], int] = {}
    interrupted = (seen.meta.get("run") or {}).get("status") == "interrupted"
    graphs = [event["at_s"] or 0.0 for event in seen.events("graph_submitted")]
    for event in sorted(seen.events("unrunnable"), key=lambda event: event["at_s"] or 0.0):
        at = event["group"], event["reason"] or "no worker may take it"
        count, began = event["count"] or 0, _began_since(seen, event["group"], event["at_s"])
        # An interrupted client lets go of its tasks one by one: none of them has started.
        let_go = interrupted and not began and (event["at_s"] or 0.0) >= max(graphs, default=0.0)
        most[at] = max(count, most.get(at, 0)) if let_go else count
        if count or began:
            last[at] = most[at]
    return [(group, why, n) for (group, why), n in last.items() if n]


def _began_since(seen: View, group: str | None, at_s: float | None) -> bool:
    """Say whether tasks of a group began about then or later: else they were only given up."""
    if group not in seen.groups or at_s is None:
        return False
    begun = seen.started[seen.group == seen.groups.index(group)]
    return bool((begun >= at_s - LATE_S).any())


def hang_words(seen: View, run: dict[str, Any]) -> list[str]:
    """Give sentences on what never started and why, and since when nothing ran.

    Parameters
    ----------
    seen : View
    run : dict
        What the trace says of the run as a whole.
    """
    never, _ = never_started(seen)
    said = []
    stuck = unrunnable(seen)
    if stuck:
        group, why, n = max(stuck, key=lambda row: row[2])
        label = f"`{short(group)}`"  # Where its group comes from may be another line.
        rest = sum(row[2] for row in stuck) - n
        more = f"; {format_count(rest)} more could not start either" if rest else ""
        said.append(f"{many(n, 'task')} never started: {label} {why}{more}.")
        said += [_OFFER] if why.startswith("asks for") else []
    elif never > 0:
        blocked = _last_no_worker(seen)
        why = f"no worker could take {'it' if never == 1 else 'them'}" if blocked else ""
        why = _paused_words(seen) or why
        said.append(f"{many(never, 'task')} never started{f': {why}' if why else ''}.")
    still = _still(seen, run) if said else None
    if still is not None:
        said.append(f"Nothing ran for the last {format_seconds(still[1] - still[0])}.")
    return said


def running_words(seen: View) -> str:
    """Say what ran when a program was killed, as far as its beginning is on record.

    Examples
    --------
    >>> from rotameter.profiler.trace import Trace
    >>> from rotameter.profiler.view import View
    >>> rows = [{"task_id": "a", "group": "fit", "started_ns": 1, "outcome": "running"}]
    >>> running_words(View(Trace.from_tables({"tasks": rows})))
    '`fit` was running when it was killed'
    """
    rows = np.flatnonzero(seen.outcome_in("running") & np.isnan(seen.ended))
    if not rows.size:
        return "what ran when it was killed is unknown"
    # Of a task and what it calls, the call.
    parents = set(seen.tasks["parent"].take(rows).to_pylist())
    leaves = [row for row in rows.tolist() if seen.task_ids[seen.task[row]] not in parents]
    groups = np.bincount(seen.group[leaves][seen.group[leaves] >= 0], minlength=1)
    label = seen.label(int(groups.argmax())) if groups.any() else "a task"
    if len(leaves) == 1:
        return f"{label} was running when it was killed"
    most = "all" if groups.max() == len(leaves) else f"{groups.max():,}"
    return f"{len(leaves):,} tasks were running when it was killed, {most} of {label}"


def stood_still(seen: View) -> tuple[float, float] | None:
    """Give since when, and until when, nothing ran although tasks were left; None where not so.

    Returns
    -------
    since_s, until_s : float
        The last task's end and the run's, from the trace's first instant.
    """
    run = seen.meta.get("run") or {}
    never, _ = never_started(seen)
    # A program that ended well may have let go of results that it did not want.
    if not never or (run.get("status") == "ok" and not _scheduler_had_tasks(seen)):
        return None
    return _still(seen, run)


def paused_to_the_end(seen: View) -> tuple[list[int], int]:
    """Say which workers stood paused for memory when the last task had ended, and never went on.

    Returns
    -------
    paused : list of int
        Codes of the view.
    of : int
        How many workers there were then.
    """
    last = float(np.nanmax(seen.ended)) if not np.isnan(seen.ended).all() else -np.inf
    gone = {int(life["worker"]): float(life["ended"]) for life in seen.lives}
    paused = {
        int(code)
        for code, end in zip(*paused_spans(seen)[::2], strict=True)
        if end > last and end >= gone.get(int(code), end) - LATE_S
    }
    return sorted(paused), len(paused | {code for code, end in gone.items() if end > last})


def _paused_words(seen: View) -> str:
    """Say that workers stood paused to the end; empty where none did."""
    paused, of = paused_to_the_end(seen)
    if not paused:
        return ""
    if of == 1:
        return "the worker stood paused, as its memory was full"
    who = f"all {of} workers" if len(paused) == of else f"{len(paused)} of {of} workers"
    return f"{who} stood paused, as their memory was full"


def _last_no_worker(seen: View) -> bool:
    """Say whether the scheduler last counted tasks that no worker could take."""
    return _last_sample(seen, "no_worker") > 0


def _last_sample(seen: View, name: str) -> float:
    """Give the last value of a count; 0 where there is none."""
    _, at, value = seen.samples(name)
    known = np.flatnonzero(~np.isnan(at))
    return float(value[known[np.argmax(at[known])]]) if known.size else 0.0


def _still(seen: View, run: dict[str, Any]) -> tuple[float, float] | None:
    """Give from when to when nothing ran before the run ended; None where short or unknown."""
    begun, ended = run.get("started_ns"), run.get("ended_ns")
    if not isinstance(begun, int) or not isinstance(ended, int) or len(still_running(seen)[0]):
        return None
    times = np.concatenate([seen.started, seen.ended])
    first, until = (begun - seen.origin_ns) / 1e9, (ended - seen.origin_ns) / 1e9
    since = max(first, float(np.nanmax(times))) if not np.isnan(times).all() else first
    long = until - since >= max(STILL_S, STILL_RATIO * (ended - begun) / 1e9)
    return (since, until) if long else None
