"""RM135 repeated_reads: tasks read again what their worker had read before."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rotameter.profiler.findings._calls import processes
from rotameter.profiler.findings._moves import Moves, busy_or_span, moves, total_by
from rotameter.profiler.findings._saved import Saved, by_attempt, priced
from rotameter.profiler.findings.base import worth_saying
from rotameter.profiler.findings.dominant_input import dominant
from rotameter.profiler.view import is_dask, short, view
from rotameter.units import format_bytes, format_seconds
from rotameter.values import Evidence, Finding

if TYPE_CHECKING:
    from rotameter.profiler.findings.base import Tools
    from rotameter.profiler.trace import Trace
    from rotameter.profiler.view import Floats, Mask, View

__all__ = ["Advisor", "repeats"]

READERS = 3
"""Two tasks that read one thing share it by chance."""

WHOLE_RATIO = 0.8
"""A task that read less of an object than this read a part of it."""

ALIKE_RATIO = 0.999
"""Where no size is on record, tasks that read the same count of bytes read the same bytes."""


class Advisor:
    """Find objects that tasks of one worker read over and over."""

    name = "repeated_reads"

    def check(self, trace: Trace, tools: Tools) -> list[Finding]:
        """Look for whole reads of one object by many tasks."""
        seen = view(trace)
        made = moves(seen)
        told = _told(seen, made)
        if not told.all():
            tools.cannot_tell(
                "whether all tasks read a file again",
                "which file the bytes of some processes belong to was not recorded",
            )
        again = repeats(seen)
        if tools.replay is None or seen.makespan is None:
            # Its repeats are part of what that finding is about.
            most = dominant(seen)
            again &= ~most.rows if most is not None else True
        busy = np.nan_to_num(busy_or_span(made)) / processes(seen)[0][made.row]
        # What is read is taken apart while it is read; that is repeated too.
        span = np.fmax(np.nan_to_num(made.span_s), busy)
        total = total_by(made.group, np.where(again, span, 0.0), len(seen.groups))
        every = float(busy.sum())
        found = []
        for group in np.argsort(-total, kind="stable").tolist():
            if total[group] <= 0 or not worth_saying(seen, float(total[group])):
                break
            rows = again & (made.group == group)
            likely = by_attempt(seen, made.row, span, rows)
            saved = priced(
                seen,
                tools,
                likely,
                "time from the first to the last call of every read but a worker's first",
                range_=(max(0.3, float(busy[rows].sum()) / float(total[group])), 1.1),
                share=float(busy[rows].sum()) / every if every > 0 else None,
            )
            if saved is not None:
                found.append(_finding(seen, made, group, rows, span, busy, saved))
        return found


def repeats(seen: View) -> Mask:
    """Say which rows of the moves read again what the same worker had read whole before."""
    made = moves(seen)
    m = len(made.things)
    read = ~made.write & ~made.program & (made.bytes > 0) & (made.row >= 0) & _told(seen, made)
    with np.errstate(invalid="ignore"):
        sized = ~np.isnan(made.size)
        most = np.zeros(m + 1)
        np.maximum.at(most, made.thing[read], made.bytes[read])
        whole = np.where(sized, made.size, most[made.thing])
        needed = np.where(sized, WHOLE_RATIO, ALIKE_RATIO)
        read &= np.fmin(made.bytes, made.footprint) >= needed * whole
    # One reader a task, not one row of it.
    pair = made.thing[read] * (seen.n + 1) + made.row[read]
    readers = np.bincount(np.unique(pair) // (seen.n + 1), minlength=m + 1)
    again = read & (readers[made.thing] >= READERS)
    rows = np.flatnonzero(again)
    # Written in between, it is another thing.
    worker = np.append(seen.worker, -1)[made.row[rows]]
    begun = np.append(seen.started, np.nan)[made.row[rows]]
    key = made.thing[rows] * (len(seen.workers) + 2) + worker + 1
    order = rows[np.lexsort((rows, begun, key))]
    ranked = np.sort(key)
    first = np.r_[True, ranked[1:] != ranked[:-1]] if len(ranked) else np.zeros(0, dtype=bool)
    again[order[first]] = False
    return np.asarray(again & ~_changed(made)[made.thing])


def _told(seen: View, made: Moves) -> Mask:
    """Say of which rows the bytes are those of their file.

    Some tools count the bytes of a process, and name its files: where it went through several, what
    each row has is a share.
    """
    facts = seen.meta.get("dataflow")
    facts = facts if isinstance(facts, dict) else {}
    told = np.ones(made.n, dtype=bool)
    if not facts.get("flows_estimated"):
        return told
    if not facts.get("flows_exact"):
        return ~told
    key = 2 * (made.row + 1) + made.write
    pairs = np.unique(np.stack([key, made.thing]), axis=1)
    files = np.bincount(pairs[0], minlength=2 * (seen.n + 2))
    return np.asarray(files[key] == 1)


def _changed(made: Moves) -> Any:
    """Say which objects were written by more than one row: each reader may see another version."""
    count = np.bincount(made.thing[made.write], minlength=len(made.things) + 1)
    return count > 1


def _evidence(
    seen: View, made: Moves, rows: Mask, span: Floats, busy: Floats
) -> tuple[Evidence, ...]:
    n, things = int(rows.sum()), len(np.unique(made.thing[rows]))
    again = float(np.nansum(made.bytes[rows]))
    worker = seen.worker[made.row[rows]]
    placed = bool((worker >= 0).all())
    return (
        Evidence(
            "reads again",
            n,
            "",
            f"reads of a whole object after {'its worker' if placed else 'the run'}'s first",
            n,
        ),
        Evidence("read again", round(again), "B", "counted", n),
        Evidence("objects", things, "", "counted", n),
        Evidence(
            "workers",
            len(np.unique(worker)) if placed else None,
            "",
            "that read them" if placed else "not recorded",
            n,
        ),
        Evidence(
            "time from first to last call",
            round(float(span[rows].sum()), 6),
            "s",
            "summed over these reads; what is computed in between counts",
            n,
        ),
        Evidence("time in calls", round(float(busy[rows].sum()), 6), "s", "measured, summed", n),
    )


def _finding(
    seen: View, made: Moves, group: int, rows: Mask, span: Floats, busy: Floats, saved: Saved
) -> Finding:
    size = total_by(made.thing, np.where(rows, span, 0.0), len(made.things))
    worst = int(np.argmax(size))
    name = made.things[worst]
    n = int(rows.sum())
    things = len(np.unique(made.thing[rows]))
    again = float(np.nansum(made.bytes[rows]))
    placed = bool((seen.worker[made.row[rows]] >= 0).all())
    where = " a worker" if placed else ""
    others = f" and {things - 1} more" if things > 1 else ""
    known = not np.isnan(made.size[rows]).any()
    lost = float(span[rows].sum())
    base = name.rstrip("/").rpartition("/")[2]
    return Finding(
        code="RM135",
        kind="repeated_reads",
        severity=saved.severity,
        title=(
            f"{seen.label(group)} read `{short(base, 32)}`{others} {n:,} times more than once"
            f"{where}: {format_bytes(again)}, {format_seconds(lost)} of task time"
        ),
        groups=(seen.groups[group],),
        evidence=_evidence(seen, made, rows, span, busy),
        **saved.fields,
        confidence="low" if not placed else "high" if known else "medium",
        advice=(
            "Read and parse it once a worker: keep it in a module-level cache, send it to the "
            "workers once, or copy it to a local disk."
            + ("" if known else " (That all tasks read the same part is told by equal bytes.)")
        ),
        change=(
            "ref = client.scatter(load(path), broadcast=True); client.map(f, items, ref=ref)"
            if is_dask(seen.meta)
            else "load = functools.lru_cache(maxsize=1)(load)  # once a process"
            if seen.meta.get("engine") in (None, "python")
            else None
        ),
        apply={"caching": {"value": 1}},
    )
