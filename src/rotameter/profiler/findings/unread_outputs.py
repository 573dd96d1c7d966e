"""RM136 unread_outputs: large files are written on the path of the run that no task reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rotameter.profiler.findings._moves import Moves, busy_or_span, crowding, moves, total_by
from rotameter.profiler.findings._saved import Saved, by_attempt, priced
from rotameter.profiler.findings.base import worth_saying
from rotameter.profiler.flow.graph import flow_graph
from rotameter.profiler.view import short, view
from rotameter.units import format_bytes, format_seconds, many
from rotameter.values import Evidence, Finding

if TYPE_CHECKING:
    from rotameter.profiler.findings.base import Tools
    from rotameter.profiler.trace import Trace
    from rotameter.profiler.view import Floats, Mask, View

__all__ = ["Advisor", "unread"]


COPY_RATE = 700e6
"""Bytes that a second of CPU time in calls moves to the page cache; that is no computing."""


class Advisor:
    """Find groups that write files in the middle of a run that nobody reads."""

    name = "unread_outputs"

    def check(self, trace: Trace, tools: Tools) -> list[Finding]:
        """Look for outputs of tasks that the run went on from, read by none."""
        seen = view(trace)
        made = moves(seen)
        if _blind(seen, made):
            tools.cannot_tell("which outputs nobody reads", "no reads of files were recorded")
            return []
        rows = unread(trace, seen)
        if not rows.any():
            return []
        busy = np.nan_to_num(busy_or_span(made))
        span = np.fmax(np.nan_to_num(made.span_s), busy)
        whole = span + _flushing(seen, made, rows)
        total = total_by(made.group, np.where(rows, whole, 0.0), len(seen.groups))
        every = float(busy.sum())
        found = []
        for group in np.argsort(-total, kind="stable").tolist():
            if total[group] <= 0 or not worth_saying(seen, float(total[group])):
                break
            mine = rows & (made.group == group)
            likely = by_attempt(seen, made.row, whole, mine)
            saved = priced(
                seen,
                tools,
                likely,
                "time from the first to the last write of these files, and waiting until they are "
                "on the disk",
                first="write",
                range_=(max(0.3, float(busy[mine].sum()) / float(total[group])), 1.1),
                share=float(busy[mine].sum()) / every if every > 0 else None,
            )
            if saved is not None:
                found.append(_finding(seen, made, group, mine, whole, busy, saved))
        return found


def unread(trace: Trace, seen: View) -> Mask:
    """Say which rows of the moves wrote what no task reads, in tasks that the run went on from.

    Outputs of a run's last tasks are what it was for, and so is what the tasks before a last one
    wrote: that one only notes that all is there. They are never meant.
    """
    made = moves(seen)
    if not made.write.any() or _blind(seen, made):
        return np.zeros(made.n, dtype=bool)
    graph = flow_graph(trace)
    source, target, _ = graph.links()
    follows = np.zeros(graph.n_tasks + 1, dtype=bool)
    follows[source] = True
    onward = np.zeros(graph.n_tasks + 1, dtype=bool)
    onward[source[follows[target]]] = True
    task_of = {name: number for number, name in enumerate(graph.tasks)}
    place = np.array([task_of.get(name, -1) for name in seen.task_ids] + [-1], dtype=np.int64)
    task = place[np.append(seen.task, -1)[made.row]]
    used = np.zeros(len(made.things) + 1, dtype=bool)
    used[made.thing[~made.write]] = True
    return np.asarray(
        made.write & ~made.program & (made.row >= 0) & ~used[made.thing] & onward[task]
    )


def _blind(seen: View, made: Moves) -> bool:
    """Say whether tasks wrote files and no read was recorded, by what may not have seen any.

    Our own tracer sees reads as it sees writes. Where the tasks' counters say that they read, and
    yet it saw no file, something past it did.
    """
    outputs = made.write & ~made.program & (made.row >= 0)
    if not outputs.any() or not made.write.all():
        return False
    if seen.meta.get("origin") != "recorded":
        return True
    wrote = float(np.nansum(made.bytes[outputs]))
    read = float(np.nansum(seen.number("read_bytes")[~seen.nested]))
    return wrote > 0 and read >= wrote


def _flushing(seen: View, made: Moves, rows: Mask) -> Floats:
    """Give the seconds after the last write in which the task waited (for the disk, to close)."""
    out = np.zeros(made.n)
    last = np.full(seen.n + 1, -np.inf)
    np.fmax.at(last, made.row, np.where(np.isnan(made.last_s), -np.inf, made.last_s))
    mine = np.flatnonzero(rows & (made.last_s >= last[made.row]) & (made.row >= 0))
    if not mine.size:
        return out
    at = made.row[mine]
    tail = np.maximum(seen.ended[at] - made.last_s[mine], 0.0)
    calls = total_by(made.row, made.busy_s, seen.n)[at]
    copying = total_by(made.row, made.bytes, seen.n)[at] / COPY_RATE
    computing = np.maximum(seen.number("cpu_s")[at] - np.minimum(copying, calls), 0.0)
    idle = seen.wall[at] - computing * crowding(seen) - calls
    out[mine] = np.nan_to_num(np.minimum(tail, np.maximum(idle, 0.0)))
    return out


def _finding(
    seen: View, made: Moves, group: int, rows: Mask, whole: Floats, busy: Floats, saved: Saved
) -> Finding:
    n, size = int(rows.sum()), float(np.nansum(made.bytes[rows]))
    things = len(np.unique(made.thing[rows]))
    example = made.things[int(made.thing[np.flatnonzero(rows)[0]])]
    base = example.rstrip("/").rpartition("/")[2]
    lost = float(whole[rows].sum())
    return Finding(
        code="RM136",
        kind="unread_outputs",
        severity=saved.severity,
        title=(
            f"{seen.label(group)} wrote {many(things, 'file')} ({format_bytes(size)}) that no task "
            f"reads, such as `{short(base, 28)}`: {format_seconds(lost)} of task time"
        ),
        groups=(seen.groups[group],),
        evidence=(
            Evidence("files", things, "", "written, and read by no task of this run", n),
            Evidence("written", round(size), "B", "counted", n),
            Evidence("time in writes", round(float(busy[rows].sum()), 6), "s", "measured", n),
            Evidence(
                "time of writing",
                round(lost, 6),
                "s",
                "first to last write, and what the task waited after it without computing",
                n,
            ),
        ),
        **saved.fields,
        confidence="medium",
        advice=(
            "If nobody needs them after the run, do not write them (a debug or checkpoint switch); "
            "else write fewer of them, smaller ones, or beside the path: in a thread, or a task "
            "that nothing waits for. Reads by other programs are not on record."
        ),
        change=None,
        apply=None,
    )
