"""One sentence and four figures: what a run lost and why."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from rotameter.profiler.figures import (
    computed,
    doubtful,
    figures,
    no_time,
    other_saving,
    recorded_makespan,
    task_hours,
)
from rotameter.profiler.findings.base import tracing_s
from rotameter.profiler.gpu import gpu_sentence
from rotameter.profiler.open_ends import open_tasks, still_waiting
from rotameter.profiler.usage import ends, gpu_words, hours, is_job_log, percent, usage
from rotameter.profiler.view import View, short, view
from rotameter.units import format_count, format_seconds, many
from rotameter.values import Finding, Verdict

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
MANY_HOURS = 0.05
LITTLE_BUSY = 0.3
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


def build(trace: Trace, book: Ledger, findings: Sequence[Finding], notes: Sequence[str]) -> Verdict:
    """Put the verdict together from ranked findings."""
    status = status_of(trace)
    said = sentence(trace, book, findings, status)
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
        figures=figures(trace, book, findings),
        findings=tuple(findings),
        notes=tuple(notes) if cost is None else (cost, *notes),
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
    length = format_seconds(float(np.nanmedian(seen.wall)))
    calls = f"{many(seen.n, 'call')} of {length} {'is' if seen.n == 1 else 'are'} too short"
    return (
        f"Tracing itself took {format_seconds(spent / width)} ({min(share, 1.0):.0%} of the run): "
        f"{calls} to trace one by one; trace what calls them."
    )


def sentence(trace: Trace, book: Ledger, findings: Sequence[Finding], status: Status) -> str:
    """Word the verdict; a run that did not end well begins with why."""
    seen = view(trace)
    run = trace.meta.get("run") or {}
    lost = seen.events("scheduler_lost")
    if lost:
        return _scheduler_lost(seen, lost[0])
    if status == "failed":
        unended = _unended(seen) if trace.meta.get("origin") == "imported" else None
        return " ".join(text for text in (_failed(seen, run, findings), unended) if text)
    if run.get("status") == "running":
        done = _done(seen)
        return f"Still running: {many(done, 'task')} {_were(done)} recorded as done so far."
    if status == "interrupted":
        return _interrupted(seen, run)
    gpu = gpu_sentence(trace.meta)
    if gpu is not None:
        return f"{gpu} {_losses(seen, findings, book)}" if findings else gpu
    if not seen.n:
        return "No tasks were recorded."
    facts = usage(trace)
    if is_job_log(seen):
        return _job_log(seen, facts, findings, book)
    burnt, unended = _burnt(seen, facts["failed"]), _unended(seen)
    if not findings:
        said = burnt or _nothing(seen, book, unended)
        return f"{unended} {said}" if unended else said
    return " ".join(text for text in (unended, burnt, _losses(seen, findings, book)) if text)


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
        parts.append(f"{format_count(still)} {_were(still)} running")
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
    elif _done(seen) == total:
        said += f"; all {many(total, 'task')} ended well in the end"
    when = f" Run time {_span(seen)}." if seen.makespan is not None else ""
    return f"{said}.{when}"


def _failed_attempts(lost: dict[str, Any], noun: str = "attempt") -> str:
    text = f"{many(lost['attempts'], f'failed {noun}')} of {format_count(lost['of'])}"
    if lost["out_of_memory"]:
        how = " (inferred)" if lost["inferred"] >= lost["out_of_memory"] else ""
        out = "all" if lost["out_of_memory"] == lost["attempts"] else lost["out_of_memory"]
        text += f", {out if out == 'all' else f'{out:,}'} of them out of memory{how}"
    return text


def _job_log(seen: View, facts: dict[str, Any], findings: Sequence[Finding], book: Ledger) -> str:
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
    if findings:
        said.append(_losses(seen, findings, book))
    return " ".join(said)


def _span(seen: View) -> str:
    """Write the makespan; "at least" where attempts that ran have no place in it."""
    least = "at least " if seen.makespan_at_least else ""
    return f"{least}{format_seconds(seen.makespan)}"


def _killed_by(findings: Sequence[Finding]) -> Finding | None:
    return next((f for f in findings if f.kind == "workers_died"), None)


def _failed(seen: View, run: dict[str, Any], findings: Sequence[Finding]) -> str:
    died = _killed_by(findings)
    error = str(run.get("error") or "")
    errors = " ".join(_errors(seen))
    if died is not None and (
        "KilledWorker" in error + errors or seen.outcome_in("worker_lost", "oom").any()
    ):
        if error and "KilledWorker" not in error:  # What ended the run was not the deaths.
            return f"Run failed: {_stop(short(error, 160))} Besides, {_stop(_lower(died.title))}"
        cause = "KilledWorker" if "KilledWorker" in error + errors else "Run failed"
        return f"{cause}: {_stop(died.title)} {_first(died.advice)}"
    if (one := _one_program(seen)) is not None:
        return one
    spent, exits, raised = _failed_hours(seen), _exits(seen), _raised(seen)
    parts = [text for text in (spent, exits) if text] if exits else []
    if not exits:
        # Without exit codes the error says most; hours only where they are many.
        parts = [text for text in (raised, spent) if text]
    if parts:
        return f"Run failed. {_stop('; '.join(parts))}{_blind(seen)}"
    if error:
        return f"Run failed: {_stop(short(error, 160))}{_unseen(seen, run)}"
    if run.get("exit_code") is not None:
        return f"Run failed with exit code {run['exit_code']}; no task failed."
    return "Run failed; why was not recorded."


def _one_program(seen: View) -> str | None:
    """Word the failure of a program that is the run's only task."""
    code = seen.number("exit_code")
    if seen.n != 1 or not np.isfinite(code[0]) or code[0] == 0:
        return None
    name = seen.groups[0] if seen.groups else seen.task_ids[0] if seen.task_ids else "the program"
    after = f" after {format_seconds(float(seen.wall[0]))}" if np.isfinite(seen.wall[0]) else ""
    return f"Run failed: {short(name, 80)} exited with {int(code[0])}{after}.{_blind(seen)}"


def _stop(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else f"{text}."


def _first(advice: str) -> str:
    """Give the first sentence of an advice, its first alternative only."""
    head = re.split(r"(?<=[.;])\s", advice, maxsplit=1)[0]
    return _stop(head.rstrip(";."))


def _failed_hours(seen: View) -> str | None:
    found = task_hours(seen)
    if found is None or found[0] <= 0:
        return None
    lost, total = found
    if lost < MANY_HOURS * total and not np.isfinite(seen.number("exit_code")).any():
        return None
    return f"{hours(lost * 3600, total * 3600)} went into failed tasks"


def _exits(seen: View) -> str | None:
    """Word the commonest exit code of lost attempts."""
    codes = seen.number("exit_code")[seen.lost]
    codes = codes[~np.isnan(codes) & (codes != 0)]
    if not codes.size:
        return None
    values, counts = np.unique(codes, return_counts=True)
    best = int(np.argmax(counts))
    code = int(values[best])
    why = " (probably out of memory)" if code in (137, -9) else ""
    return f"{format_count(int(counts[best]))} of {many(seen.n, 'task')} exited with {code}{why}"


def _errors(seen: View) -> list[str]:
    return [str(e) for e in seen.tasks.filter(seen.lost)["error"].drop_null().to_pylist()]


def _raised(seen: View) -> str | None:
    """Word the commonest error of tasks that never ended well."""
    rows = seen.tasks.filter(seen.never_ok)
    pairs = Counter(
        (str(error).partition(":")[0].strip(), group)
        for error, group in zip(rows["error"].to_pylist(), rows["group"].to_pylist(), strict=True)
        if error
    )
    n = rows.num_rows
    if not n:
        return None
    tasks = f"{many(n, 'task')} of {format_count(len(seen.task_ids))}"
    if not pairs:
        return f"{tasks} never ended well"
    (error, group), count = max(pairs.items(), key=lambda item: (item[1], str(item[0])))
    where = seen.label(seen.groups.index(group)) if group in seen.groups else "a task"
    # "killed by SIGKILL" and "no exit code" are no errors that were raised.
    if error.startswith(("killed", "terminated")):
        text = f"{where} was {short(error, 40)}"
    elif " " not in error:
        text = f"{where} raised {short(error, 40)}"
    else:
        text = f"{where} ({short(error, 40)})"
    if n == count:
        return f"{tasks} failed: {text}"
    return f"{tasks} failed for good: {text} in {format_count(count)} of them"


def _blind(seen: View) -> str:
    """Say that needs are lower bounds where lost attempts have no memory record."""
    died = seen.lost & (seen.outcome_in("oom") | np.isin(seen.number("exit_code"), (137.0, -9.0)))
    if died.any() and np.isnan(seen.task_memory[died]).all():
        return " Failed tasks have no memory record, so needs are lower bounds."
    return ""


def _done(seen: View) -> int:
    return int(np.unique(seen.task[seen.ok | seen.outcome_in("cached")]).size)


def _have(count: int) -> str:
    return "has" if count == 1 else "have"


def _were(count: int) -> str:
    return "was" if count == 1 else "were"


def _progress(seen: View) -> str:
    # What waited when the run ended has no row; how many were submitted is known from the graphs.
    counts = [event["count"] or 0 for event in seen.events("graph_submitted")]
    total = max(len(seen.task_ids), sum(counts))
    done = _done(seen)
    begun = len(seen.task_ids)
    said = f"{format_count(done)} of {many(total, 'task')} {_were(total)} done"
    return f"{said} ({format_count(begun)} had begun)" if total > begun > done else said


def _unseen(seen: View, run: dict[str, Any]) -> str:
    """Say what a program that a signal ended could not record."""
    if not run.get("signal") or (~seen.ok & ~seen.outcome_in("cached")).any():
        return ""
    done = _done(seen)
    return (
        f" {many(done, 'task')} {_were(done)} recorded as done; what ran when it was killed is "
        "unknown."
    )


def _interrupted(seen: View, run: dict[str, Any]) -> str:
    after = ""
    if isinstance(run.get("started_ns"), int) and isinstance(run.get("ended_ns"), int):
        after = f" after {format_seconds((run['ended_ns'] - run['started_ns']) / 1e9)}"
    elif seen.makespan is not None:
        after = f" after {_span(seen)}"
    if not isinstance(run.get("ended_ns"), int) and run.get("error"):
        # The program did not close its trace: nothing tells what its threads were at.
        done = _done(seen)
        return (
            f"Run interrupted{after}, or still writing its trace: {many(done, 'task')} "
            f"{_were(done)} recorded as done; what ran when it was killed is unknown."
        )
    signal = run.get("signal")
    by = f" by signal {signal}" if signal else ""
    return f"Run interrupted{by}{after}: {_progress(seen)}."


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
    ratio = book.worker_core_s.useful_ratio
    if ratio is not None:
        facts += f", {ratio:.0%} of the held core time had a task"
        cpu = computed(seen, book.worker_core_s.held)
        if cpu is not None and cpu < 0.8 * ratio:
            facts += f" and {cpu:.0%} computed (CPU time)"
    failed = int(seen.never_ok.sum())
    if failed:
        facts += f"; {format_count(failed)} failed for good"
    done, total = _done(seen), len(seen.task_ids)
    if done + failed < total and not unended:
        facts += f"; {format_count(done)} of {many(total, 'task')} {_were(done)} recorded as done"
    # Much of what was held had no task, and no rule knows why: that is not "nothing".
    little = unended or (ratio is not None and ratio < LITTLE_BUSY)
    return f"{'No cause of loss found' if little else 'Nothing worth changing'}: {facts}."


def _losses(seen: View, findings: Sequence[Finding], book: Ledger) -> str:
    top = findings[0]
    more = len(findings) - 1
    others = "" if not more else f" {more} more cause{'s' if more > 1 else ''} found."
    if top.cost_s is None or not seen.makespan or doubtful(top):
        return f"{_stop(top.title)}{others}"
    if all(no_time(f, seen.makespan) for f in findings if f.cost_s is not None):
        saves = other_saving(top)
        return (
            f"Nothing worth changing was found for the run time ({_span(seen)}); "
            f"{f'{saves} avoidable' if saves else 'besides'}: {_stop(_lower(top.title))}{others}"
        )
    share = top.cost_s / seen.makespan
    return (
        f"About {format_seconds(top.cost_s)} of {_span(seen)} ({share:.0%}) "
        f"avoidable: {_stop(_lower(top.title))}{others}"
    )


def _lower(text: str) -> str:
    """Begin a clause with a small letter where the word is a plain one."""
    head = text.split(" ", 1)[0]
    return text[0].lower() + text[1:] if head.isalpha() and head[1:].islower() else text
