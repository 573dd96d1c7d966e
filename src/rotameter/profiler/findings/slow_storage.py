"""RM130 slow_storage: a stage's files lie on a slower store than those of the other stages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rotameter.profiler.findings._calls import small_calls, tiny_files
from rotameter.profiler.findings._copies import copies
from rotameter.profiler.findings._moves import Moves, moves
from rotameter.profiler.findings._saved import Saved, by_attempt, priced
from rotameter.profiler.findings.base import worth_saying
from rotameter.profiler.view import short, view
from rotameter.units import format_bytes, format_number, format_seconds
from rotameter.values import Evidence, Finding

if TYPE_CHECKING:
    from rotameter.profiler.findings.base import Tools
    from rotameter.profiler.trace import Trace
    from rotameter.profiler.view import Floats, Mask, View

__all__ = ["Advisor"]

SLOWER = 3.0
"""Stores of one class differ by a factor of two under load; beyond three they are of another."""

FEW = 3
"""Fewer moves tell no rate."""

ALIKE_CALLS = 8.0
"""Rates compare only between calls of about the same size."""


@dataclass(frozen=True, slots=True)
class _Side:
    tier: int
    rate: float
    call_bytes: float
    groups: int
    n: int


class Advisor:
    """Find groups whose reads or writes go to a store far slower than the run's usual one."""

    name = "slow_storage"

    def check(self, trace: Trace, tools: Tools) -> list[Finding]:
        """Compare the stores that the run itself used."""
        seen = view(trace)
        made = moves(seen)
        usable = (made.bytes > 0) & (made.busy_s > 0) & (made.group >= 0) & ~made.program
        usable &= ~small_calls(made) & ~tiny_files(seen) & ~np.isin(made.row, copies(seen).rows)
        if not usable.any():
            return []
        if not (made.tier[usable] >= 0).any():
            return []
        found: list[Finding] = []
        for write in (False, True):
            sides = _sides(made, usable & (made.write == write))
            for slow in sides:
                fast = _usual(slow, sides)
                if fast is None:
                    continue
                rows = usable & (made.write == write) & (made.tier == slow.tier)
                found += _groups(seen, tools, made, rows, slow, fast)
        return found


def _sides(made: Moves, rows: Mask) -> list[_Side]:
    sides = []
    for tier in np.unique(made.tier[rows & (made.tier >= 0)]).tolist():
        mine = rows & (made.tier == tier)
        size, busy = float(made.bytes[mine].sum()), float(made.busy_s[mine].sum())
        calls = float(np.nansum(made.ops[mine]))
        sides.append(
            _Side(
                tier,
                size / busy,
                size / calls if calls > 0 else float("nan"),
                len(np.unique(made.group[mine])),
                int(mine.sum()),
            )
        )
    return sides


def _usual(slow: _Side, sides: list[_Side]) -> _Side | None:
    """Give the store that the run's other stages use, if it is far faster.

    A fast store that fewer stages use than the slow one is the exception itself: nothing says
    that everything could lie there.
    """
    able = [
        side
        for side in sides
        if side.tier != slow.tier
        and side.n >= FEW
        and side.groups >= slow.groups
        and side.rate >= SLOWER * slow.rate
        and not side.call_bytes > ALIKE_CALLS * slow.call_bytes
    ]
    return max(able, key=lambda side: (side.groups, side.rate, -side.tier), default=None)


def _groups(
    seen: View, tools: Tools, made: Moves, rows: Mask, slow: _Side, fast: _Side
) -> list[Finding]:
    more = np.maximum(made.busy_s - made.bytes / fast.rate, 0.0)
    every = float(np.nansum(made.busy_s))
    found = []
    for group in np.unique(made.group[rows]).tolist():
        mine = rows & (made.group == group)
        total = float(more[mine].sum())
        if int(mine.sum()) < FEW or not worth_saying(seen, total):
            continue
        saved = priced(
            seen,
            tools,
            by_attempt(seen, made.row, more, mine),
            f"time in these calls, less what the same bytes take at {format_bytes(fast.rate)}/s, "
            f"the rate of {short(made.tiers[fast.tier], 24)} in this run",
            first="write" if bool(made.write[mine][0]) else "read",
            range_=(0.85, 1.05),
            share=total / every if every > 0 else None,
        )
        if saved is not None:
            found.append(_finding(seen, made, group, mine, more, slow, fast, saved))
    return found


def _finding(
    seen: View,
    made: Moves,
    group: int,
    rows: Mask,
    more: Floats,
    slow: _Side,
    fast: _Side,
    saved: Saved,
) -> Finding:
    n, size = int(rows.sum()), float(made.bytes[rows].sum())
    busy = float(made.busy_s[rows].sum())
    one, other = short(made.tiers[slow.tier], 24), short(made.tiers[fast.tier], 24)
    verb = "writes to" if bool(made.write[rows][0]) else "reads from"
    things = len(np.unique(made.thing[rows]))
    nextflow = seen.meta.get("engine") == "nextflow"
    return Finding(
        code="RM130",
        kind="slow_storage",
        severity=saved.severity,
        title=(
            f"{seen.label(group)} {verb} {one} at {format_bytes(size / busy)}/s, "
            f"{format_number(fast.rate * busy / size, 2)} times slower than {other}: "
            f"{format_seconds(float(more[rows].sum()))} of task time"
        ),
        groups=(seen.groups[group],),
        evidence=(
            Evidence(f"rate of {one}", round(size / busy), "B/s", "bytes over time in calls", n),
            Evidence(f"rate of {other}", round(fast.rate), "B/s", "the same, this run", fast.n),
            Evidence("moved", round(size), "B", "counted", n),
            Evidence("time in calls", round(busy, 6), "s", "measured, summed over tasks", n),
            Evidence("objects", things, "", "counted", n),
            Evidence(
                "one copy to the faster store",
                round(size / max(n, 1) * things * busy / size, 3),
                "s",
                "estimate: each object read once at the slow rate; not in the cost",
                things,
            ),
        ),
        **saved.fields,
        confidence="high" if n >= 10 else "medium",
        advice=(
            f"Let these files be on {other} from the start (where they are written or downloaded). "
            "Copying them first in the run costs what the evidence says, which pays only where "
            "each is read several times."
        ),
        change="process.scratch = true  // or: stageInMode = 'copy'" if nextflow else None,
        apply={"placement": {"factor": None}},
    )
