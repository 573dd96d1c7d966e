"""RM131 small_io: files moved in so many small calls that the calls take the time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rotameter.profiler.findings._calls import SMALL_CALL_BYTES, Loss, small_loss
from rotameter.profiler.findings._moves import Moves, moves, total_by
from rotameter.profiler.findings._saved import Saved, by_attempt, priced
from rotameter.profiler.findings.base import worth_saying
from rotameter.profiler.view import view
from rotameter.units import format_bytes, format_number, format_seconds
from rotameter.values import Evidence, Finding

if TYPE_CHECKING:
    from rotameter.profiler.findings.base import Tools
    from rotameter.profiler.trace import Trace
    from rotameter.profiler.view import View

__all__ = ["Advisor", "of_groups"]

TARGET_CALL_BYTES = 1 << 20


class Advisor:
    """Find groups that read or write files in small pieces, one after the other."""

    name = "small_io"

    def check(self, trace: Trace, tools: Tools) -> list[Finding]:
        """Look for small calls."""
        seen = view(trace)
        return of_groups(seen, tools, small_loss(seen, jumping=False), _finding)


def of_groups(seen: View, tools: Tools, loss: Loss, make: Any) -> list[Finding]:
    """Give a finding for each group whose small calls cost something."""
    made = moves(seen)
    total = total_by(made.group, loss.seconds, len(seen.groups))
    every = float(np.nansum(made.busy_s))
    found = []
    for group in np.argsort(-total, kind="stable").tolist():
        if total[group] <= 0 or not worth_saying(seen, float(total[group])):
            break
        rows = loss.rows & (made.group == group)
        likely = by_attempt(seen, made.row, loss.seconds, rows)
        least = float(loss.least[rows].sum()) / float(total[group])
        many = bool((loss.sides[rows] > 1).any())
        saved = priced(
            seen,
            tools,
            likely,
            "time in and around small calls, less that of moving the same bytes in large ones "
            f"({format_bytes(loss.rate)}/s: {loss.rate_how})"
            + (", the mean of a job's processes" if many else ""),
            range_=(0.0 if loss.guessed[rows].any() else max(0.5, least), 1.1),
            share=float(total[group]) / every if every > 0 else None,
        )
        if saved is not None:
            found.append(make(seen, made, loss, group, rows, saved))
    return found


def evidence_of(seen: View, made: Moves, loss: Loss, rows: Any) -> tuple[Evidence, ...]:
    """Give what small calls were: how many, how large, how long."""
    n = int(rows.sum())
    calls, size = float(np.nansum(made.ops[rows])), float(np.nansum(made.bytes[rows]))
    busy = float(np.nansum(made.busy_s[rows]))
    attempts = len(np.unique(made.row[rows]))
    sides = loss.sides[rows]
    read = float(np.nansum(made.bytes[rows & ~made.write]))
    how = f"time in and around these calls, less that of their bytes at {format_bytes(loss.rate)}/s"
    if (sides > 1).any():
        how += "; of a job's processes the mean"
    return (
        Evidence("calls", round(calls), "", "counted", n),
        Evidence("bytes a call", round(size / calls, 1), "B", "bytes moved over calls", n),
        Evidence("moved", round(size), "B", "counted", n),
        *(
            (
                Evidence("of it read", round(read), "B", "counted", n),
                Evidence("of it written", round(size - read), "B", "counted", n),
            )
            if 0 < read < size
            else ()
        ),
        Evidence("time in calls", round(busy, 6), "s", "measured, summed over tasks", n),
        Evidence("time a call", round(busy / calls, 9), "s", "time in calls over calls", n),
        Evidence("bytes a second of large calls", round(loss.rate), "B/s", loss.rate_how),
        Evidence("more than large calls take", round(float(loss.seconds[rows].sum()), 6), "s", how),
        *(
            (
                Evidence(
                    "processes of a task",
                    round(float(sides.max()), 1),
                    "",
                    "at least: seconds in calls over the task's time"
                    if loss.guessed[rows].any()
                    else "on record",
                    n,
                ),
            )
            if (sides > 1).any()
            else ()
        ),
        Evidence("tasks", attempts, "", "counted", attempts),
    )


def _amount(made: Moves, rows: Any) -> str:
    """Say what was read and what was written, each for itself."""
    said = []
    for verb, mine in (("read", rows & ~made.write), ("wrote", rows & made.write)):
        size = float(np.nansum(made.bytes[mine]))
        if size > 0:
            said.append(f"{verb} {format_bytes(size)}")
    return " and ".join(said)


def _finding(seen: View, made: Moves, loss: Loss, group: int, rows: Any, saved: Saved) -> Finding:
    calls, size = float(np.nansum(made.ops[rows])), float(np.nansum(made.bytes[rows]))
    verb = "wrote" if made.write[rows].mean() > 0.5 else "read"
    factor = TARGET_CALL_BYTES / max(size / calls, 1.0)
    python = seen.meta.get("engine") in (None, "dask", "python")
    lost, busy = float(loss.seconds[rows].sum()), float(np.nansum(made.busy_s[rows]))
    many, guessed = bool((loss.sides[rows] > 1).any()), bool(loss.guessed[rows].any())
    spent = f"{format_seconds(busy)} in calls, " if busy > 0 else ""
    mean = " a process" if many else ""
    return Finding(
        code="RM131",
        kind="small_io",
        severity=saved.severity,
        title=(
            f"{seen.label(group)} {_amount(made, rows)} in {format_number(calls)} calls of "
            f"{format_bytes(size / calls)} each: {spent}{format_seconds(lost)}{mean} more than "
            f"large ones would take"
        ),
        groups=(seen.groups[group],),
        evidence=evidence_of(seen, made, loss, rows),
        **saved.fields,
        confidence=(
            "low"
            if guessed
            else "high"
            if size / calls < SMALL_CALL_BYTES / 16 and not many
            else "medium"
        ),
        advice=(
            "Move 1 MiB or more a call: read the file (or large blocks of it) at once and take it "
            "apart in memory; let a buffer collect small writes."
        ),
        change=(
            f"open(path, 'rb', buffering={TARGET_CALL_BYTES})  # or file.read({TARGET_CALL_BYTES})"
            if python and verb == "read"
            else f"open(path, 'wb', buffering={TARGET_CALL_BYTES})  # a buffer collects the writes"
            if python
            else None
        ),
        apply={"io_size": {"factor": round(factor, 1)}},
    )
