"""One sentence and four figures: what a run lost and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rotameter.profiler.failure_words import (
    MANY_HOURS,
    done_tasks,
    lower,
    stop,
    were,
    why_failed,
)
from rotameter.profiler.figures import (
    cause,
    computed,
    doubtful,
    figures,
    largest,
    no_time,
    other_saving,
    recorded_makespan,
)
from rotameter.profiler.findings.base import files_s, tracing_s
from rotameter.profiler.gpu import gpu_sentence
from rotameter.profiler.hang_words import (
    hang_words,
    left_behind,
    never_started,
    running_words,
)
from rotameter.profiler.open_ends import open_tasks, still_waiting, unknown_outcome
from rotameter.profiler.usage import ends, gpu_words, hours, is_job_log, percent, usage
from rotameter.profiler.view import View, is_dask, short, view
from rotameter.units import format_count, format_seconds, many
from rotameter.values import Finding, Together, Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rotameter.profiler.ledger import Ledger
    from rotameter.profiler.trace import Trace
    from rotameter.values import Status

__all__ = ["build", "figures", "sentence", "status_of"]

TRACING_SHARE = 0.05
"""The tracer's own cost is said first from this part of the run."""
DROPPED_SHARE = 0.05

_NO_WORKERS = "no worker's life and cores were recorded"
LITTLE_BUSY = 0.3
IN_VAIN = 0.02
"""From this part of the held core time on, attempts that did not end well are told apart."""
MANY_OPEN = 0.05
"""From this part on, tasks that the trace shows no end of are said in the verdict."""


def status_of(trace: Trace) -> Status:
    """Say how the run ended: as recorded, else failed where tasks failed for good.

    Examples
    --------
    >>> from rotameter.profiler.trace import Trace
    >>> status_of(Trace.from_tables({"tasks": [{"task_id": "a", "outcome": "failed"}]}))
    'failed'
    """
    recorded = (trace.meta.get("run") or {}).get("status")
    if recorded in ("failed", "interrupted"):
        return "failed" if recorded == "failed" else "interrupted"
    seen = view(trace)
    if recorded == "running":
        return "unknown"
    if seen.events("scheduler_lost"):
        return "interrupted"
    if recorded == "ok":
        return "ok"
    if not is_job_log(seen) and seen.never_ok.any():
        return "failed"
    good = np.unique(seen.task[seen.ok | seen.outcome_in("cached")])
    if seen.n and len(good) == len(np.unique(seen.task)):
        return "ok"
    return "unknown"


def build(
    trace: Trace,
    book: Ledger,
    findings: Sequence[Finding],
    notes: Sequence[str],
    together: Sequence[Together] = (),
) -> Verdict:
    """Put the verdict together from ranked findings, and what those of one code save at once."""
    status = status_of(trace)
    said = sentence(trace, book, findings, status, together)
    if gpu_sentence(trace.meta) is not None:  # About cores and workers, which it has none of.
        notes = [note for note in notes if not note.endswith(_NO_WORKERS)]
    cost = tracing_note(view(trace))
    if cost is not None:
        said = f"{cost} {said.replace('Nothing worth', 'Otherwise nothing worth', 1)}"
    if (gap := _dropped(trace.meta)) is not None:
        said = f"{gap} {said}"
    noun = "job" if is_job_log(view(trace)) else "attempt"
    if (idle := gpu_words(usage(trace)["gpu"], noun)) and idle not in said:
        notes = [idle, *notes]
    return Verdict(
        sentence=said,
        status=status,
        figures=figures(trace, book, findings, together),
        findings=tuple(findings),
        notes=tuple(notes) if cost is None else (cost, *notes),
        together=tuple(together),
    )


def _dropped(meta: dict[str, Any]) -> str | None:
    """Say first that most of what happened is not in the trace, where that is so."""
    dropped, kept = meta.get("dropped"), meta.get("records")
    if not isinstance(dropped, int) or not isinstance(kept, int):
        return None
    if dropped < DROPPED_SHARE * (dropped + kept):
        return None
    return (
        f"{format_count(dropped)} of {many(dropped + kept, 'record')} could not be kept, so this "
        "holds for the rest only:"
    )


def tracing_note(seen: View) -> str | None:
    """Say what measuring itself took, where that was a part of the run that matters."""
    spent = tracing_s(seen.meta)
    if not spent or not seen.makespan:
        return None
    walls = seen.wall[seen.ran]
    # It is spent in the tasks' threads, side by side where they run side by side.
    width = max(1.0, float(np.nansum(walls)) / seen.makespan if walls.size else 1.0)
    share = spent / width / seen.makespan
    if share < TRACING_SHARE:
        return None
    said = f"Tracing itself took {format_seconds(spent / width)} ({min(share, 1.0):.0%} of the run)"
    if files_s(seen.meta) > 0.5 * spent:
        return (
            f"{said}: calls on files were counted one by one, and there were very many small ones; "
            "without counting them (--level time) the run is shorter by about that."
        )
    length = format_seconds(float(np.nanmedian(seen.wall)))
    short_ = "is too short" if seen.n == 1 else "are too short"
    if is_dask(seen.meta):
        return f"{said}: {many(seen.n, 'task')} of {length} {short_}; let each do more."
    calls = f"{many(seen.n, 'call')} of {length} {short_}"
    return f"{said}: {calls} to trace one by one; trace what calls them."


def sentence(
    trace: Trace,
    book: Ledger,
    findings: Sequence[Finding],
    status: Status,
    together: Sequence[Together] = (),
) -> str:
    """Word the verdict; a run that did not end well begins with why."""
    seen = view(trace)
    run = trace.meta.get("run") or {}
    lost = seen.events("scheduler_lost")
    if lost:
        return _scheduler_lost(seen, lost[0])
    if status == "failed":
        unended = _unended(seen) if trace.meta.get("origin") == "imported" else None
        return " ".join(text for text in (why_failed(seen, run, findings), unended) if text)
    if run.get("status") == "running":
        done = done_tasks(seen)
        return f"Still running: {many(done, 'task')} {were(done)} recorded as done so far."
    if status == "interrupted":
        return _interrupted(seen, run)
    losses = _losses(seen, findings, together) if findings else ""
    gpu = gpu_sentence(trace.meta)
    if gpu is not None:
        return f"{gpu} {losses}" if findings else gpu
    if not seen.n:
        return "No tasks were recorded."
    facts = usage(trace)
    if is_job_log(seen):
        return _job_log(seen, facts, losses)
    burnt, unended = _burnt(seen, facts["failed"]), _unended(seen)
    never = left_behind(seen, failed=False)
    unended = " ".join(text for text in (never, unended) if text) or None
    if not findings:
        said = burnt or _nothing(seen, book, unended)
        return f"{unended} {said}" if unended else said
    gone = None if burnt else _for_good(seen)
    return " ".join(text for text in (unended, burnt, losses, gone) if text)


def _unended(seen: View) -> str | None:
    """Say how many tasks ended, ran and never started, where many did not end."""
    running, waiting = seen.unfinished
    total = len(seen.task_ids)
    if not total or running + waiting < max(1.0, MANY_OPEN * total):
        return None
    blank = seen.unknown_ends
    done = total - running - waiting
    parts = [f"{format_count(done)} of {many(total, 'task')} had ended"]
    if running > blank:
        still = running - blank
        parts.append(f"{format_count(still)} {were(still)} running")
    if waiting:
        parts.append(f"{format_count(waiting)} had never started")
    if blank == total:
        return f"No task has an end on record ({many(total, 'task')} began)."
    end = f"; {format_count(blank)} with an unknown end" if blank else ""
    said = f"{', '.join(parts[:-1])} and {parts[-1]}" if len(parts) > 1 else parts[0]
    return f"When the trace ends, {said}{end}."


def _burnt(seen: View, lost: dict[str, Any] | None) -> str | None:
    """Say how much went into failed attempts, where that was more than a little."""
    if lost is None or not lost["of_s"] or (lost["share"] or 0.0) < MANY_HOURS:
        return None
    said = f"{hours(lost['lost_s'], lost['of_s'])} were burnt in {_failed_attempts(lost)}"
    gone = lost["tasks_never_ok"]
    total = len(seen.task_ids)
    if gone:
        said += f"; {format_count(gone)} of {many(total, 'task')} never ended well"
    elif done_tasks(seen) == total:
        said += f"; all {many(total, 'task')} ended well in the end"
    when = f" Run time {_span(seen)}." if seen.makespan is not None else ""
    return f"{said}.{when}"


def _for_good(seen: View) -> str | None:
    """Say how many tasks never ended well, in a run that went on without them."""
    gone = int(seen.never_ok.sum())
    if not gone:
        return None
    return f"{format_count(gone)} of {many(len(seen.task_ids), 'task')} failed for good."


def _failed_attempts(lost: dict[str, Any], noun: str = "attempt") -> str:
    text = f"{many(lost['attempts'], f'failed {noun}')} of {format_count(lost['of'])}"
    if lost["out_of_memory"]:
        how = " (inferred)" if lost["inferred"] >= lost["out_of_memory"] else ""
        out = "all" if lost["out_of_memory"] == lost["attempts"] else lost["out_of_memory"]
        text += f", {out if out == 'all' else f'{out:,}'} of them out of memory{how}"
    return text


def _job_log(seen: View, facts: dict[str, Any], losses: str) -> str:
    """Word what a log of many jobs tells: it is no run that could fail or finish."""
    total = len(seen.task_ids)
    span = f" over {_span(seen)}" if seen.makespan is not None else ""
    said = [f"Log of {many(total, 'job')}{span}: {ends(seen)}."]
    # A log of other people's jobs may lack a start of one that ran.
    blank = len(np.setdiff1d(open_tasks(seen)[1], seen.task[still_waiting(seen)]))
    if _unended(seen) and blank:
        said.append(
            f"{format_count(blank)} of {many(total, 'job')} {_have(blank)} no start on record."
        )
    lost = facts["failed"]
    took_s = float(np.nansum(seen.wall)) if seen.n else 0.0
    if not lost and took_s:
        least = "at least " if np.isnan(seen.wall[seen.could_measure]).any() else ""
        said.append(f"They ran {least}{format_seconds(took_s)} in all.")
    if lost and lost["of_s"] and lost["lost_s"]:
        took = hours(lost["lost_s"], lost["of_s"], "job")
        said.append(f"{took} went into jobs that did not end well.")
    wait = facts["waiting"]
    if wait and wait["total_s"]:
        known = "" if wait["n"] == wait["of"] else f", {wait['n']:,} of {wait['of']:,} known"
        said.append(
            f"Jobs waited {format_seconds(wait['total_s'])} in all before they started "
            f"(median {format_seconds(wait['median_s'])}{known})."
        )
    memory = facts["memory"]
    if memory and memory["n"]:
        used = f"{'at least ' if memory['at_least'] else ''}{percent(memory['share'])}"
        said.append(
            f"They used {used} of the memory asked for ({memory['n']:,} of "
            f"{many(memory['of'], 'job')} measured)."
        )
    if idle := gpu_words(facts["gpu"], "job"):
        said.append(idle)
    if losses:
        said.append(losses)
    return " ".join(said)


def _span(seen: View) -> str:
    """Write the makespan; "at least" where attempts that ran have no place in it."""
    least = "at least " if seen.makespan_at_least else ""
    return f"{least}{format_seconds(seen.makespan)}"


def _have(count: int) -> str:
    return "has" if count == 1 else "have"


def _progress(seen: View) -> str:
    never, again = never_started(seen)
    total = len(seen.task_ids) + never - again
    done = max(0, done_tasks(seen) - again)
    begun = total - never
    said = f"{format_count(done)} of {many(total, 'task')} {were(total)} done"
    return f"{said} ({format_count(begun)} had begun)" if total > begun > done else said


def _interrupted(seen: View, run: dict[str, Any]) -> str:
    after = ""
    if isinstance(run.get("started_ns"), int) and isinstance(run.get("ended_ns"), int):
        after = f" after {format_seconds((run['ended_ns'] - run['started_ns']) / 1e9)}"
    elif seen.makespan is not None:
        after = f" after {_span(seen)}"
    if not isinstance(run.get("ended_ns"), int) and run.get("error"):
        # The program did not close its trace: nothing tells what its threads were at.
        done = done_tasks(seen)
        return (
            f"Run interrupted{after}, or still writing its trace: {many(done, 'task')} "
            f"{were(done)} recorded as done; {running_words(seen)}."
        )
    signal = run.get("signal")
    by = f" by signal {signal}" if signal else ""
    return " ".join([f"Run interrupted{by}{after}: {_progress(seen)}.", *hang_words(seen, run)])


def _scheduler_lost(seen: View, event: dict[str, Any]) -> str:
    reason = f" ({short(event['reason'], 60)})" if event["reason"] else ""
    at = event["at_s"]
    when = f" after {format_seconds(at)}" if at is not None and at > 0 else ""
    return f"Scheduler lost{reason}{when}: {_progress(seen)} by then; what came later is unknown."


def _nothing(seen: View, book: Ledger, unended: str | None = None) -> str:
    facts = many(len(seen.task_ids), "task")
    stated = recorded_makespan(seen.meta)
    if seen.makespan is not None or stated is not None:
        facts += f" in {_span(seen) if seen.makespan is not None else format_seconds(stated)}"
    if seen.slots is None:
        why = "workers and their cores were not recorded, so idle time cannot be told"
        if seen.n and np.isnan(seen.started).all() and len(seen.workers):
            why = "when tasks ran was not recorded, so idle time cannot be told"
        return f"No cause of loss found: {facts}; {why}."
    ratio, busy = book.worker_core_s.useful_ratio, book.worker_core_s.busy_ratio
    if ratio is None and busy is not None:
        facts += f", {busy:.0%} of the held core time had a task"
    if ratio is not None:
        facts += f", {ratio if busy is None else busy:.0%} of the held core time had a task"
        if busy is not None and busy - ratio > IN_VAIN:
            facts += f" ({ratio:.0%} one that ended well)"
        cpu = computed(seen, book.worker_core_s.held)
        if cpu is not None and cpu < 0.8 * ratio:
            facts += f" and {cpu:.0%} computed (CPU time)"
    failed = int(seen.never_ok.sum())
    if failed:
        facts += f"; {format_count(failed)} failed for good"
    done, total = done_tasks(seen), len(seen.task_ids)
    blank, _ = unknown_outcome(seen)  # Said in a note: it is not that they were not done.
    if done + failed + blank < total and not unended:
        facts += f"; {format_count(done)} of {many(total, 'task')} {were(done)} recorded as done"
    # Much of what was held had no task, and no rule knows why: that is not "nothing".
    little = bool(unended) or ((busy if ratio is None else ratio) or 0.0) < LITTLE_BUSY
    cpu = computed(seen, book.worker_core_s.held)
    if not little and cpu is not None and cpu < LITTLE_BUSY * (ratio or 0.0):
        little, facts = True, f"{facts}. Tasks mostly waited, for what is not on record"
        facts += " (a lock, a service, a sleep): where it is no lock, more of them at once would do"
    return f"{'No cause of loss found' if little else 'Nothing worth changing'}: {facts}."


def _losses(seen: View, findings: Sequence[Finding], together: Sequence[Together]) -> str:
    top = findings[0]
    others = _others(len(findings) - 1)
    if top.cost_s is None or not seen.makespan or doubtful(top):
        return f"{stop(top.title)}{others}"
    if all(no_time(f, seen.makespan) for f in findings if f.cost_s is not None):
        saves = other_saving(top)
        return (
            f"Nothing worth changing was found for the run time ({_span(seen)}); "
            f"{f'{saves} avoidable' if saves else 'besides'}: {stop(lower(top.title))}{others}"
        )
    if (shared := largest(findings, together)) is not None:
        first = findings[shared.ranks[0] - 1]
        rest = _others(len(findings) - len(shared.ranks))
        why = f"{cause(shared)}, priced together. The largest: {stop(lower(first.title))}{rest}"
        return f"{_about(seen, shared.saving_s)} avoidable: {why}"
    return f"{_about(seen, top.cost_s)} avoidable: {stop(lower(top.title))}{others}"


def _about(seen: View, saving_s: float) -> str:
    share = saving_s / seen.makespan if seen.makespan else 0.0
    return f"About {format_seconds(saving_s)} of {_span(seen)} ({share:.0%})"


def _others(more: int) -> str:
    return "" if not more else f" {more} more cause{'s' if more > 1 else ''} found."
