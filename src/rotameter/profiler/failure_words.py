"""Why a run failed, in words: what never ended well comes first, then what went into failures."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from rotameter.profiler.figures import task_hours
from rotameter.profiler.findings.failed_work import readable_id
from rotameter.profiler.hang_words import left_behind, never_started, running_words
from rotameter.profiler.usage import hours
from rotameter.profiler.view import short
from rotameter.units import format_count, format_seconds, many

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rotameter.profiler.view import View
    from rotameter.values import Finding

__all__ = ["MANY_HOURS", "done_tasks", "lower", "stop", "were", "why_failed"]

MANY_HOURS = 0.05
_ENDS = {
    "timeout": "killed at the time limit",
    "oom": "out of memory",
    "preempted": "pre-empted",
    "worker_lost": "lost with the worker",
}
"""Outcomes that say by themselves why a task never ended well."""


def _killed_by(findings: Sequence[Finding]) -> Finding | None:
    return next((f for f in findings if f.kind == "workers_died"), None)


def why_failed(seen: View, run: dict[str, Any], findings: Sequence[Finding]) -> str:
    """Word why a run failed.

    Parameters
    ----------
    seen : View
    run : dict
        What the trace says of the run as a whole.
    findings : sequence of Finding
        Ranked.

    Examples
    --------
    >>> from rotameter.profiler.trace import Trace
    >>> from rotameter.profiler.view import View
    >>> rows = [{"task_id": "a", "group": "g", "outcome": "failed", "exit_code": 2},
    ...     {"task_id": "b", "group": "g", "outcome": "ok"}]
    >>> why_failed(View(Trace.from_tables({"tasks": rows})), {}, [])
    'Run failed. 1 of 2 tasks (`g`) exited with 2.'
    """
    died = _killed_by(findings)
    error = str(run.get("error") or "")
    errors = " ".join(_errors(seen))
    if died is not None and (
        "KilledWorker" in error + errors or seen.outcome_in("worker_lost", "oom").any()
    ):
        if error and "KilledWorker" not in error:  # What ended the run was not the deaths.
            return f"Run failed: {stop(short(error, 160))} Besides, {stop(lower(died.title))}"
        cause = "KilledWorker" if "KilledWorker" in error + errors else "Run failed"
        return f"{cause}: {stop(died.title)} {_first(died.advice)}"
    if (one := _one_program(seen)) is not None:
        return one
    spent, exits, raised = _failed_hours(seen), _exits(seen), _raised(seen)
    parts = [text for text in (spent, exits) if text] if exits else []
    if not exits:
        # Without exit codes the error says most; hours only where they are many.
        parts = [text for text in (raised, spent) if text]
    code = run.get("exit_code")
    if parts:
        # Without an error the program chose its exit code: what failed need not be why.
        how = f" with exit code {code}" if code and not error else ""
        return f"Run failed{how}. {stop('; '.join(parts))}{_blind(seen)}"
    never = left_behind(seen, failed=True)
    rest = f" {never}" if never else ""
    if error:
        return f"Run failed: {stop(short(error, 160))}{_unseen(seen, run)}{rest}"
    if code is not None:
        return f"Run failed with exit code {code}; no task failed.{rest}"
    return f"Run failed; why was not recorded.{rest}"


def _one_program(seen: View) -> str | None:
    """Word the failure of a program that is the run's only task."""
    code = seen.number("exit_code")
    if seen.n != 1 or not np.isfinite(code[0]) or code[0] == 0:
        return None
    name = seen.groups[0] if seen.groups else seen.task_ids[0] if seen.task_ids else "the program"
    after = f" after {format_seconds(float(seen.wall[0]))}" if np.isfinite(seen.wall[0]) else ""
    return f"Run failed: {short(name, 80)} exited with {int(code[0])}{after}.{_blind(seen)}"


def stop(text: str) -> str:
    """End a sentence with a full stop where it has no end."""
    return text if text.endswith((".", "!", "?")) else f"{text}."


def _first(advice: str) -> str:
    """Give the first sentence of an advice, its first alternative only."""
    head = re.split(r"(?<=[.;])\s", advice, maxsplit=1)[0]
    return stop(head.rstrip(";."))


def _failed_hours(seen: View) -> str | None:
    found = task_hours(seen)
    if found is None or found[0] <= 0:
        return None
    lost, total = found
    if lost < MANY_HOURS * total and not np.isfinite(seen.number("exit_code")).any():
        return None
    blind = seen.lost & np.isnan(seen.wall) & ~np.isnan(seen.ended) & ~seen.nested
    if blind.any():  # What they took is not known: neither is the share.
        return f"at least {format_seconds(lost * 3600)} of work went into failed attempts"
    each = int(seen.lost.sum()) == int(seen.never_ok.sum())  # One lost attempt a task.
    what = "tasks" if each else "attempts"
    return f"{hours(lost * 3600, total * 3600)} went into failed {what}"


def _exits(seen: View) -> str | None:
    """Word the commonest exit code of what failed for good, else of lost attempts."""
    for_good = bool(seen.never_ok.any())
    codes = seen.number("exit_code")[seen.never_ok if for_good else seen.lost]
    codes = codes[~np.isnan(codes) & (codes != 0)]
    if not codes.size:
        return None
    values, counts = np.unique(codes, return_counts=True)
    best = int(np.argmax(counts))
    code = int(values[best])
    why = " (probably out of memory)" if code in (137, -9) else ""
    of = many(_all_tasks(seen), "task") if for_good else many(seen.n, "attempt")
    if int(seen.never_ok.sum()) == 1:
        of += f" ({_which(seen)})"
    return f"{format_count(int(counts[best]))} of {of} exited with {code}{why}"


def _all_tasks(seen: View) -> int:
    """Count tasks; those that were submitted and never started have no row."""
    never, again = never_started(seen)
    return len(seen.task_ids) + never - again


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
    tasks = f"{many(n, 'task')} of {format_count(_all_tasks(seen))}"
    if not pairs:
        ends = Counter(word for word in rows["outcome"].to_pylist() if word in _ENDS)
        if not ends:
            return f"{tasks} never ended well"
        end, count = max(ends.items(), key=lambda item: (item[1], item[0]))
        some = "" if count == n else f" ({format_count(count)} of them)"
        where = f": {_which(seen)}" if n == 1 else ""
        return f"{tasks} never ended well{where}: {_ENDS[end]}{some}"
    (error, group), count = max(pairs.items(), key=lambda item: (item[1], str(item[0])))
    where = seen.label(seen.groups.index(group)) if group in seen.groups else "a task"
    if n == 1:
        where = _which(seen)
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


def _which(seen: View) -> str:
    """Name the first task that never ended well: by its own name, else by its group."""
    row = int(np.flatnonzero(seen.never_ok)[0])
    name = readable_id(seen, row)
    if name is not None:
        return f"`{name}`"
    group = int(seen.group[row])
    return seen.label(group) if group >= 0 else "a task"


def _blind(seen: View) -> str:
    """Say that needs are lower bounds where lost attempts have no memory record."""
    died = seen.lost & (seen.outcome_in("oom") | np.isin(seen.number("exit_code"), (137.0, -9.0)))
    if died.any() and np.isnan(seen.task_memory[died]).all():
        return " Failed tasks have no memory record, so needs are lower bounds."
    return ""


def _unseen(seen: View, run: dict[str, Any]) -> str:
    """Say what a program that a signal ended could not record."""
    if not run.get("signal") or (~seen.ok & ~seen.outcome_in("cached")).any():
        return ""
    done = done_tasks(seen)
    return f" {many(done, 'task')} {were(done)} recorded as done; {running_words(seen)}."


def lower(text: str) -> str:
    """Begin a clause with a small letter where the word is a plain one."""
    head = text.split(" ", 1)[0]
    return text[0].lower() + text[1:] if head.isalpha() and head[1:].islower() else text


def done_tasks(seen: View) -> int:
    """Count the tasks that are recorded as done."""
    return int(np.unique(seen.task[seen.ok | seen.outcome_in("cached")]).size)


def were(count: int) -> str:
    """Give the verb for a count."""
    return "was" if count == 1 else "were"
