"""RM124 failed_work: attempts fail, and what they had done is done again or was for nothing."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.compute as pc

from rotameter.profiler.findings._again import (
    all_work_s,
    by_work,
    in_vain,
    memory_kills,
    name_groups,
    never_ended_well,
    redone,
    without,
)
from rotameter.profiler.findings.base import Tools
from rotameter.profiler.usage import is_job_log
from rotameter.profiler.view import View, is_dask, local_dask, short, view
from rotameter.units import format_bytes, format_seconds, many
from rotameter.values import Evidence, Finding

if TYPE_CHECKING:
    from rotameter.profiler.findings._replayed import Cost
    from rotameter.profiler.trace import Trace
    from rotameter.profiler.view import Codes, Mask

__all__ = ["Advisor", "failed_attempts", "out_of_memory", "readable_id"]

SMALL_RATIO = 0.5
"""A task that had less than this part of its worker's limit asked for too much at once."""


class Advisor:
    """Find work that went into failed attempts."""

    name = "failed_work"

    def check(self, trace: Trace, tools: Tools) -> list[Finding]:
        """Look for failed attempts."""
        seen = view(trace)
        rows = failed_attempts(seen)
        if not rows.any():
            return []
        again = redone(seen, rows)
        found = []
        if again.any():
            cost = without(
                seen,
                tools,
                again,
                how="as if each of them had ended well at the first attempt",
                bound_how="the time of the failed attempts over all cores",
            )
            if cost is not None:
                found.append(_finding(seen, again, cost.fields, cost.severity, again_=True))
        lost = rows & ~again
        for some in (lost & ~out_of_memory(seen), lost & out_of_memory(seen)):
            cost = _lost_for_good(seen, some)
            if cost is not None:
                found.append(_finding(seen, some, cost.fields, cost.severity, again_=False))
        return found


def _lost_for_good(seen: View, rows: Mask) -> Cost | None:
    """Say what was lost with tasks that never ended well: told however short they ran.

    Of a log of many jobs it is told where it is a part that matters.
    """
    if not rows.any():
        return None
    return in_vain(
        seen,
        rows,
        "they never ended well: what the run would take without these failures is unknown",
        seconds=None,
        always=bool((rows & seen.never_ok).any()) and not is_job_log(seen),
    )


def failed_attempts(seen: View) -> Mask:
    """Say which attempts failed by themselves: not for memory, time or with their worker.

    A worker of Dask lives on where a task raises MemoryError: nothing else tells of that. Of what
    failed for good it need not be known how long it ran.
    """
    timed = ~np.isnan(seen.wall) | seen.never_ok
    by_itself = (seen.outcome_in("failed") & ~memory_kills(seen)) | out_of_memory(seen)
    made: Mask = by_itself & timed & ~seen.nested
    return made


def out_of_memory(seen: View) -> Mask:
    """Say which attempts of Dask raised MemoryError."""
    if not is_dask(seen.meta):
        return np.zeros(seen.n, dtype=bool)
    raised = pc.fill_null(pc.starts_with(seen.tasks["error"], "MemoryError"), False)
    made: Mask = raised.to_numpy().astype(bool) & seen.outcome_in("oom", "failed")
    return made


def _finding(
    seen: View, rows: Mask, fields: dict[str, Any], severity: Any, *, again_: bool
) -> Finding:
    at = np.flatnonzero(rows)
    groups = by_work(seen, rows)
    label, several = name_groups(seen, groups), len(groups) > 1
    tasks = len(np.unique(seen.task[at]))
    of = len(np.unique(seen.task))
    known = not bool(np.isnan(seen.wall[at]).all())
    lost_s, all_s = float(np.nansum(seen.wall[at])), all_work_s(seen)
    why = _errors(seen, at)
    memory = bool(out_of_memory(seen)[at].all())
    return Finding(
        code="RM124",
        kind="failed_work",
        severity=severity,
        title=_title(seen, at, label, why, lost_s if known else None, again_=again_),
        groups=tuple(seen.groups[g] for g in groups),
        evidence=(
            Evidence("failed attempts", len(at), "", "counted", seen.n),
            Evidence("tasks that failed", tasks, "", "counted", of),
            *(() if again_ else never_ended_well(seen, rows)),
            Evidence(
                "work in failed attempts",
                round(lost_s, 3) if known else None,
                "s",
                "summed" if known else "how long they ran is not on record",
                int((~np.isnan(seen.wall[at])).sum()),
            ),
            Evidence(
                "their part of all task time",
                round(lost_s / all_s, 4) if known and all_s > 0 else None,
                "ratio",
                "summed",
                seen.n,
            ),
            *(
                Evidence(f"error: {name}", count, "", "first line of the error", len(at))
                for name, count in why[:3]
            ),
            *_exits(seen, at),
            *(_memory(seen, at) if memory else ()),
        ),
        **fields,
        confidence="high" if again_ and why else "medium",
        advice=_memory_advice(seen, at, label) if memory else _advice(label, why, several=several),
        change=_change(seen, seen.groups[groups[0]] if groups and not memory else None),
        apply=None,
    )


def _title(
    seen: View,
    at: Codes,
    label: str,
    why: list[tuple[str, int]],
    lost_s: float | None,
    *,
    again_: bool,
) -> str:
    """Word what failed, how, and what went into it."""
    tasks = len(np.unique(seen.task[at]))
    told = many(tasks, "task")
    if tasks == 1 and (name := readable_id(seen, int(at[0]))) is not None:
        told = f"{told} (`{name}`)"
    what = "failed and ran again" if again_ else "failed for good"
    if not again_ and len(at) > tasks:
        what += f" in {many(len(at), 'attempt')}"
    error = f": {why[0][0]}" if why else ""
    if lost_s is None:
        since = np.fmax(seen.ready, seen.submitted)[at]
        after = seen.ended[at] - since
        told_s = None if np.isnan(after).all() else float(np.nanmax(after))
        spent = (
            "how long it ran is not on record"
            if told_s is None
            else f"over {format_seconds(told_s)} after it was submitted, start not on record"
        )
    else:
        spent = f"{format_seconds(lost_s)} of work went into failed attempts"
    return f"{label}: {told} {what}{error}; {spent}"


def readable_id(seen: View, row: int) -> str | None:
    """Give a task's own name where people would know it by that; None for a key or a number.

    Examples
    --------
    >>> from rotameter.profiler.trace import Trace
    >>> from rotameter.profiler.view import View
    >>> rows = [{"task_id": "fit (c)", "group": "fit"}, {"task_id": "17", "group": "fit"}]
    >>> seen = View(Trace.from_tables({"tasks": rows}, {"engine": "nextflow"}))
    >>> readable_id(seen, 0), readable_id(seen, 1)
    ('fit (c)', None)
    """
    keyed = is_dask(seen.meta) or local_dask(seen.meta)
    if keyed or seen.task[row] < 0 or seen.group[row] < 0:
        return None
    name, group = seen.task_ids[seen.task[row]], seen.groups[seen.group[row]]
    return short(name, 40) if name != group and name.startswith(group) else None


def _advice(label: str, why: list[tuple[str, int]], *, several: bool) -> str:
    return (
        f"Find out why {label} {'fail' if several else 'fails'}"
        + (f" ({why[0][0]})" if why else "")
        + ": fail early (check inputs first), keep what is done before the risky part, and "
        "retry only that."
    )


def _limit(seen: View, at: Codes) -> float | None:
    """Give the memory limit of the workers that some attempts ran on; None where unknown."""
    mine = np.isin(seen.lives["worker"], seen.worker[at]) & (seen.lives["memory"] > 0)
    return float(seen.lives["memory"][mine].max()) if mine.any() else None


def _memory(seen: View, at: Codes) -> list[Evidence]:
    """Give what is known of the memory that tasks had when they got no more."""
    peaks = seen.task_memory[at]
    held = seen.number("start_memory_bytes")[at]
    n = int((~np.isnan(peaks)).sum())
    how = "measured until the error: what was refused is not in it"
    return [
        Evidence(
            "memory they had got, most",
            float(np.nanmax(peaks)) if n else None,
            "B",
            how if n else "not recorded",
            n,
        ),
        Evidence(
            "held by the worker before them, most",
            None if np.isnan(held).all() else float(np.nanmax(held)),
            "B",
            "read when they began",
        ),
        Evidence("worker's memory limit", _limit(seen, at), "B", "recorded"),
    ]


def _memory_advice(seen: View, at: Codes, label: str) -> str:
    """Say what helps where Python got no memory, by whether the worker was full."""
    limit, peaks = _limit(seen, at), seen.task_memory[at]
    had = None if np.isnan(peaks).all() else float(np.nanmax(peaks))
    if limit is not None and had is not None and had < SMALL_RATIO * limit:
        return (
            f"{label} asked for more at once than the machine gives (it had got "
            f"{format_bytes(had)} of the worker's {format_bytes(limit)}): look at the size that "
            "it asks for, make chunks smaller, or use a machine with more memory."
        )
    room = f" (a worker has {format_bytes(limit)})" if limit is not None else ""
    return (
        f"Make the chunks of {label} smaller, or give each worker more memory{room} or fewer "
        "threads."
    )


def _errors(seen: View, at: Codes) -> list[tuple[str, int]]:
    """Count the errors of some attempts, the commonest first."""
    texts = seen.tasks["error"].take(at).to_pylist()
    count = Counter(short(str(t), 60) for t in texts if t)
    return sorted(count.items(), key=lambda pair: (-pair[1], pair[0]))


def _exits(seen: View, at: Codes) -> list[Evidence]:
    codes = seen.number("exit_code")[at]
    codes = codes[~np.isnan(codes) & (codes != 0)]
    values, counts = np.unique(codes, return_counts=True)
    order = np.lexsort((values, -counts))[:2]
    return [
        Evidence(f"exit code {int(values[k])}", int(counts[k]), "", "recorded", len(at))
        for k in order
    ]


def _change(seen: View, group: str | None) -> str | None:
    if is_dask(seen.meta):
        return "client.submit(check, item); client.submit(risky, part, retries=2)  # retry a part"
    lines: dict[Any, str] = {
        "nextflow": f"process {{ withName: '{group}' {{ errorStrategy = 'finish' }} }}",
        "snakemake": "snakemake --keep-going --retries 1",
    }
    return lines.get(seen.meta.get("engine"))
