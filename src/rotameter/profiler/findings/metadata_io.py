"""RM133 metadata_io: thousands of tiny files, so that opening them is the work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rotameter.profiler.findings._calls import Loss, scattered_loss
from rotameter.profiler.findings._moves import Moves, moves, total_by
from rotameter.profiler.findings._saved import Saved, by_attempt, priced
from rotameter.profiler.findings.base import worth_saying
from rotameter.profiler.view import view
from rotameter.units import format_bytes, format_seconds
from rotameter.values import Evidence, Finding

if TYPE_CHECKING:
    from rotameter.profiler.findings.base import Tools
    from rotameter.profiler.trace import Trace
    from rotameter.profiler.view import View

__all__ = ["Advisor"]


class Advisor:
    """Find groups whose tasks open very many tiny files."""

    name = "metadata_io"

    def check(self, trace: Trace, tools: Tools) -> list[Finding]:
        """Look for tasks that touch a hundred tiny files and more."""
        seen = view(trace)
        made = moves(seen)
        loss, opening = scattered_loss(seen)
        total = total_by(made.group, loss.seconds, len(seen.groups))
        total += total_by(seen.group, opening, len(seen.groups))
        every = float(np.nansum(made.busy_s)) + float(opening.sum())
        found = []
        for group in np.argsort(-total, kind="stable").tolist():
            if total[group] <= 0 or not worth_saying(seen, float(total[group])):
                break
            rows = loss.rows & (made.group == group)
            likely = by_attempt(seen, made.row, loss.seconds, rows)
            # What a tool put down to opening is not in the gaps between files once more.
            mine = np.where(seen.group == group, opening, 0.0)
            likely = np.maximum(likely, mine + by_attempt(seen, made.row, loss.least, rows))
            saved = priced(
                seen,
                tools,
                likely,
                "time in calls on tiny files and between them, less that of reading one file of "
                "their size",
                range_=(0.7, 1.15),
                share=float(total[group]) / every if every > 0 else None,
            )
            if saved is not None:
                found.append(_finding(seen, made, loss, group, rows, likely, saved))
        return found


def _finding(
    seen: View, made: Moves, loss: Loss, group: int, rows: Any, likely: Any, saved: Saved
) -> Finding:
    n, attempts = int(rows.sum()), len(np.unique(made.row[rows]))
    size, busy = float(np.nansum(made.bytes[rows])), float(np.nansum(made.busy_s[rows]))
    lost = float(likely.sum())
    python = seen.meta.get("engine") in (None, "dask", "python")
    return Finding(
        code="RM133",
        kind="metadata_io",
        severity=saved.severity,
        title=(
            f"{seen.label(group)} opened {n:,} tiny files ({format_bytes(size / n)} each, "
            f"{n // max(attempts, 1):,} a task): {format_seconds(lost)} of task time"
        ),
        groups=(seen.groups[group],),
        evidence=(
            Evidence("files opened", n, "", "counted, once a task", n),
            Evidence("files a task", round(n / max(attempts, 1), 1), "", "mean", attempts),
            Evidence("bytes a file", round(size / n, 1), "B", "mean", n),
            Evidence("time in reads and writes", round(busy, 6), "s", "measured", n),
            Evidence(
                "time between files",
                round(float((loss.seconds - loss.least)[rows].sum()), 6),
                "s",
                "from the end of one file to the beginning of the next, each at most 20 ms or "
                "five times the task's median",
                n,
            ),
        ),
        **saved.fields,
        confidence="high" if busy < lost else "medium",
        advice=(
            "Put what is read together into one file: an archive, a table (Parquet), an array "
            "store with large chunks, or an indexed container, written once before the run."
        ),
        change=(
            "tarfile.open('samples.tar', 'w').add(folder)  # once; then read the one archive"
            if python
            else None
        ),
        apply={"io_size": {"factor": float(max(2, n // max(attempts, 1)))}},
    )
