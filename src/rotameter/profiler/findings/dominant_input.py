"""RM142 dominant_input: nearly all I/O of the run goes into one input of one group.

A triple of producer, file and consumer is what Lee et al. (SC '23) rank; here all files of one
pattern that one group of tasks reads count together, and they are ranked by seconds in calls, not
by bytes alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rotameter.profiler.findings._moves import Moves, busy_or_span, moves, patterns_of
from rotameter.profiler.view import short, view
from rotameter.units import format_bytes, format_number, format_seconds
from rotameter.values import Evidence, Finding

if TYPE_CHECKING:
    from rotameter.profiler.findings.base import Tools
    from rotameter.profiler.trace import Trace
    from rotameter.profiler.view import Mask, View

__all__ = ["Advisor", "Most", "dominant"]

MOST_RATIO = 2 / 3
"""Twice as much as all other inputs and outputs together."""

OF_TASKS_RATIO = 0.5
"""Where tasks have times, I/O that takes less of them is not what the run is about."""

LEAST_S = 1.0
LEAST_BYTES = 1e9
"""Less than this is nothing, whatever its share."""


@dataclass(frozen=True, slots=True, eq=False)
class Most:
    """The input that takes most of all I/O.

    Attributes
    ----------
    group : int
    name : str
        Pattern of its objects' names.
    rows : ndarray of bool, shape (n_moves,)
    share, byte_share : float or None
        Of all seconds in calls, and of all bytes; None = unknown.
    """

    group: int
    name: str
    rows: Mask
    share: float | None
    byte_share: float | None


def dominant(seen: View) -> Most | None:
    """Give the input that takes most of a run's I/O; None where no one does."""
    if "dominant" not in seen.memo:
        seen.memo["dominant"] = _dominant(seen)
    made: Most | None = seen.memo["dominant"]
    return made


def _dominant(seen: View) -> Most | None:
    made = moves(seen)
    read = ~made.write & (made.group >= 0) & ~made.program
    if not read.any():
        return None
    code, names = patterns_of(made)
    key = made.group * max(len(names), 1) + code
    busy, size = np.nan_to_num(busy_or_span(made)), np.nan_to_num(made.bytes)
    timed = float(busy.sum()) >= LEAST_S
    weight = busy if timed else size
    if not timed and float(size.sum()) < LEAST_BYTES:
        return None
    keys, at = np.unique(key[read], return_inverse=True)
    sums = np.bincount(at, weight[read])
    best = int(np.argmax(sums))
    if sums[best] < MOST_RATIO * float(weight.sum()):
        return None
    rows = read & (key == keys[best])
    group, name = divmod(int(keys[best]), max(len(names), 1))
    return Most(
        group,
        names[name],
        rows,
        float(busy[rows].sum() / busy.sum()) if timed else None,
        float(size[rows].sum() / size.sum()) if size.sum() > 0 else None,
    )


class Advisor:
    """Find the one input that nearly all reading and writing goes into."""

    name = "dominant_input"

    def check(self, trace: Trace, tools: Tools) -> list[Finding]:
        """Look for it."""
        seen = view(trace)
        most = dominant(seen)
        if most is None:
            return []
        made = moves(seen)
        busy = float(np.nansum(made.busy_s[most.rows]))
        known = np.isin(np.arange(seen.n), made.row[most.rows])
        wall = float(np.nansum(seen.wall[known & seen.ran]))
        if seen.makespan is not None and busy < OF_TASKS_RATIO * float(
            np.nansum(seen.wall[seen.ran])
        ):
            return []
        return [_finding(seen, made, most, busy, wall)]


def _evidence(
    seen: View, made: Moves, most: Most, busy: float, wall: float
) -> tuple[Evidence, ...]:
    rows, n = most.rows, int(most.rows.sum())
    size, every = float(np.nansum(made.bytes[rows])), float(np.nansum(made.bytes))
    calls, things = float(np.nansum(made.ops[rows])), len(np.unique(made.thing[rows]))
    kind = (seen.meta.get("dataflow") or {}).get("flows_estimated")
    how = "counted" if not kind else "totals of a process, shared out among its files"
    out = [
        Evidence("read there", round(size), "B", how, n),
        Evidence("moved in all", round(every), "B", how, made.n),
        Evidence("objects", things, "", f"of the pattern {short(most.name, 60)}", things),
        Evidence("reading tasks", len(np.unique(made.row[rows])), "", "counted", n),
    ]
    if busy > 0:
        total = float(np.nansum(made.busy_s))
        out[:0] = [
            Evidence("time in its calls", round(busy, 3), "s", "summed over tasks", n),
            Evidence("time in all calls", round(total, 3), "s", "summed over tasks", made.n),
        ]
        out.append(Evidence("bytes a second", round(size / busy), "B/s", "of one task", n))
    if calls > 0:
        out.append(Evidence("bytes a call", round(size / calls), "B", "mean", n))
    if things and size > 0:
        one = made.thing[rows]
        largest = np.zeros(len(made.things))
        np.maximum.at(largest, one, np.nan_to_num(np.fmin(made.bytes, made.footprint)[rows]))
        unique = float(np.fmax(largest, 0).sum())
        out.append(
            Evidence(
                "times that it was read",
                round(size / unique, 2) if unique > 0 else None,
                "",
                "bytes read over the most that one task read of each object",
                n,
            )
        )
    if wall > 0:
        out.append(Evidence("share of its tasks' time", round(busy / wall, 3), "ratio", "measured"))
    return tuple(out)


def _finding(seen: View, made: Moves, most: Most, busy: float, wall: float) -> Finding:
    size = float(np.nansum(made.bytes[most.rows]))
    things = len(np.unique(made.thing[most.rows]))
    readers = len(np.unique(made.row[most.rows]))
    share = most.share if most.share is not None else most.byte_share or 0.0
    timed = busy > 0 and most.share is not None
    amount = f", {format_seconds(busy)} of task time" if timed else ""
    what = "I/O time" if timed else "bytes moved"
    untimed = seen.makespan is None
    severity: Any = "info" if not untimed else "critical" if share >= 0.5 else "warning"
    each = readers / max(things, 1)
    shared = f" ({format_number(each)} tasks read each file)" if each >= 1.5 else ""
    return Finding(
        code="RM142",
        kind="dominant_input",
        severity=severity,
        title=(
            f"{100 * share:.0f} % of all {what} is {seen.label(most.group)} reading "
            f"{things:,} `{short(most.name, 40)}`: {format_bytes(size)}{amount}{shared}"
        ),
        groups=(seen.groups[most.group],),
        evidence=_evidence(seen, made, most, busy, wall),
        cost_how=(
            f"not priced: {'no task has a start and an end' if untimed else _unknown()}; "
            f"at most {format_seconds(busy)} of task time if reading it took none"
            if timed
            else "not priced: neither tasks nor calls have times"
        ),
        confidence="high" if timed else "medium",
        advice=(
            "Work on this input first: "
            + (
                "each file goes to many tasks, so read it once and hand out parts (or give each "
                "task only the part that it needs); "
                if each >= 1.5
                else ""
            )
            + "read larger blocks, store it in a form that is smaller and can be read in part "
            "(compressed, indexed, by columns), and put it on the fastest store."
        ),
        change=None,
        apply={"caching": {"value": 1}, "io_size": {"factor": None}, "placement": {"factor": None}},
    )


def _unknown() -> str:
    return "how fast another store or form would be is not known"
