"""RM134 latency_bound_reads: reads of stored objects that wait for requests, or fetch too much."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rotameter.profiler.findings._moves import Moves, moves, total_by
from rotameter.profiler.findings._saved import Saved, by_attempt, priced
from rotameter.profiler.findings.base import worth_saying
from rotameter.profiler.view import view
from rotameter.units import format_bytes, format_number, format_seconds
from rotameter.values import Evidence, Finding

if TYPE_CHECKING:
    from rotameter.profiler.findings.base import Tools
    from rotameter.profiler.trace import Trace
    from rotameter.profiler.view import Floats, Mask, View

__all__ = ["Advisor"]

TARGET_BYTES = 8 << 20
"""A request of this size spends far more time on its bytes than on being asked for."""

USUAL_RATE = 50e6
"""Bytes a second of one large request to an object store, where the run has none."""

LEAST_LATENCY_S = 2e-3
"""A request that takes less did not wait for a network."""

WAITING_RATIO = 0.5
AMPLIFIED = 1.5


@dataclass(frozen=True, slots=True, eq=False)
class _Loss:
    waiting: Floats
    surplus: Floats
    rate: float
    rate_how: str


class Advisor:
    """Find groups whose object reads are bound by latency, or read more than is used."""

    name = "latency_bound_reads"

    def check(self, trace: Trace, tools: Tools) -> list[Finding]:
        """Look for small requests and for bytes that nobody used."""
        seen = view(trace)
        made = moves(seen)
        read = made.remote & ~made.write & (made.busy_s > 0) & (made.bytes > 0) & (made.group >= 0)
        if not read.any():
            return []
        loss = _loss(made, read)
        likely = np.where(read, np.fmax(loss.waiting, loss.surplus), 0.0)
        total = total_by(made.group, likely, len(seen.groups))
        every = float(np.nansum(made.busy_s))
        found = []
        for group in np.argsort(-total, kind="stable").tolist():
            if total[group] <= 0 or not worth_saying(seen, float(total[group])):
                break
            rows = read & (made.group == group)
            saved = priced(
                seen,
                tools,
                by_attempt(seen, made.row, likely, rows),
                f"time of the requests, less that of the bytes needed in requests of "
                f"{format_bytes(TARGET_BYTES)} at {format_bytes(loss.rate)}/s ({loss.rate_how})",
                range_=(0.7, 1.1),
                share=float(total[group]) / every,
            )
            if saved is not None:
                found.append(_finding(seen, made, group, rows, loss, likely, saved))
        return found


def _loss(made: Moves, read: Mask) -> _Loss:
    with np.errstate(invalid="ignore", divide="ignore"):
        each = made.busy_s / made.ops
        large = read & (made.call_bytes >= TARGET_BYTES / 2)
        rate, how = USUAL_RATE, "assumed, as the run has no large requests"
        if large.any():
            rate = float(made.bytes[large].sum() / made.busy_s[large].sum())
            how = "large requests of this run"
        wait = np.maximum(made.busy_s - made.bytes / rate, 0.0)
        asked = np.maximum(np.ceil(made.bytes / TARGET_BYTES), 1.0)
        bound = (wait >= WAITING_RATIO * made.busy_s) & (each >= LEAST_LATENCY_S)
        waiting = np.where(bound & (made.ops > asked), wait * (1.0 - asked / made.ops), 0.0)
        needed = np.fmin(np.fmin(made.used, made.size), made.footprint)
        more = made.bytes / needed
        surplus = np.where(more >= AMPLIFIED, made.busy_s * (1.0 - needed / made.bytes), 0.0)
    return _Loss(waiting, surplus, rate, how)


def _finding(
    seen: View, made: Moves, group: int, rows: Mask, loss: _Loss, likely: Floats, saved: Saved
) -> Finding:
    n, size = int(rows.sum()), float(made.bytes[rows].sum())
    calls, busy = float(np.nansum(made.ops[rows])), float(made.busy_s[rows].sum())
    amplified = float(loss.surplus[rows].sum()) > float(loss.waiting[rows].sum())
    needed = float(np.nansum(np.fmin(np.fmin(made.used, made.size), made.footprint)[rows]))
    lost = format_seconds(float(likely[rows].sum()))
    calls = max(calls, 1.0)
    what = (
        f"fetched {format_bytes(size)} for {format_bytes(needed)} that it needed"
        if amplified
        else f"made {format_number(calls)} requests of {format_bytes(size / calls)}, "
        f"{format_seconds(busy / calls)} each"
    )
    return Finding(
        code="RM134",
        kind="latency_bound_reads",
        severity=saved.severity,
        title=f"{seen.label(group)} {what}: {lost} of task time",
        groups=(seen.groups[group],),
        evidence=(
            Evidence("requests", round(calls), "", "counted", n),
            Evidence("bytes a request", round(size / calls), "B", "mean", n),
            Evidence("time a request", round(busy / calls, 6), "s", "mean", n),
            Evidence("time in requests", round(busy, 6), "s", "summed over tasks", n),
            Evidence("fetched", round(size), "B", "counted", n),
            *(
                [Evidence("needed", round(needed), "B", "bytes used, or the object's size")]
                * (needed > 0)
            ),
        ),
        **saved.fields,
        confidence="medium",
        advice=(
            "Read only what is used: select columns, ranges and chunks that match how it is read."
            if amplified
            else "Ask for more at once: larger blocks and chunks, read ahead, or several requests "
            "at the same time; put many small objects into few large ones."
        ),
        change=(
            "fsspec.open(url, cache_type='readahead', block_size=8 * 2**20)"
            if seen.meta.get("engine") in (None, "python", "dask")
            else None
        ),
        apply={"io_size": {"factor": round(TARGET_BYTES / max(size / calls, 1.0), 1)}},
    )
