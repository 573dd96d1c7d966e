"""RM132 random_io: small calls that jump about in their files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rotameter.profiler.findings._calls import Loss, small_loss
from rotameter.profiler.findings._moves import Moves
from rotameter.profiler.findings.small_io import TARGET_CALL_BYTES, evidence_of, of_groups
from rotameter.profiler.view import view
from rotameter.units import format_bytes, format_number, format_seconds
from rotameter.values import Evidence, Finding

if TYPE_CHECKING:
    from rotameter.profiler.findings._saved import Saved
    from rotameter.profiler.findings.base import Tools
    from rotameter.profiler.trace import Trace
    from rotameter.profiler.view import View

__all__ = ["Advisor"]


class Advisor:
    """Find groups that pick small pieces from all over their files."""

    name = "random_io"

    def check(self, trace: Trace, tools: Tools) -> list[Finding]:
        """Look for small calls that read parts again, or leave most of a file out."""
        seen = view(trace)
        return of_groups(seen, tools, small_loss(seen, jumping=True), _finding)


def _finding(seen: View, made: Moves, loss: Loss, group: int, rows: Any, saved: Saved) -> Finding:
    calls, size = float(np.nansum(made.ops[rows])), float(np.nansum(made.bytes[rows]))
    whole = float(np.nansum(made.size[rows]))
    touched = float(np.nansum(np.fmin(made.footprint, made.bytes)[rows]))
    lost = float(loss.seconds[rows].sum())
    parts = (
        f"{format_bytes(touched)} of files of {format_bytes(whole)}"
        if whole > touched > 0
        else f"{format_bytes(size)}, of which {format_bytes(touched)} differ"
    )
    return Finding(
        code="RM132",
        kind="random_io",
        severity=saved.severity,
        title=(
            f"{seen.label(group)} picked {parts} in {format_number(calls)} small calls: "
            f"{format_seconds(lost)} of task time"
        ),
        groups=(seen.groups[group],),
        evidence=(
            *evidence_of(seen, made, loss, rows),
            Evidence("different bytes", round(touched), "B", "footprint on record"),
            *([Evidence("size of the files", round(whole), "B", "on record")] if whole else []),
        ),
        **saved.fields,
        confidence="medium",
        advice=(
            "Sort the requests and join neighbours, store what is read together side by side "
            "(chunks in the order of reading), or load the file once and pick in memory."
        ),
        change=None,
        apply={"io_size": {"factor": round(TARGET_CALL_BYTES / max(size / calls, 1.0), 1)}},
    )
