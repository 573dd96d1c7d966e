"""RM137 staging_cost: copies to a faster store take longer than the faster reads save."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rotameter.profiler.findings._copies import Copies, copies
from rotameter.profiler.findings._moves import Moves, moves
from rotameter.profiler.findings._saved import Saved, priced
from rotameter.profiler.findings.base import worth_saying
from rotameter.profiler.replaying.changes import Drop
from rotameter.profiler.view import short, view
from rotameter.units import format_bytes, format_seconds, many
from rotameter.values import Evidence, Finding

if TYPE_CHECKING:
    from rotameter.profiler.findings.base import Tools
    from rotameter.profiler.trace import Trace
    from rotameter.profiler.view import Codes, Floats, View

__all__ = ["Advisor"]


class Advisor:
    """Find staging that costs more than it saves."""

    name = "staging_cost"

    def check(self, trace: Trace, tools: Tools) -> list[Finding]:
        """Weigh each way of copying (from one store to another) against reading in place."""
        seen = view(trace)
        every = copies(seen)
        ways = sorted(set(zip(every.source.tolist(), every.target.tolist(), strict=True)))
        found = [self._way(seen, tools, every, source, target) for source, target in ways]
        return [finding for finding in found if finding is not None]

    def _way(
        self, seen: View, tools: Tools, every: Copies, source: int, target: int
    ) -> Finding | None:
        made = moves(seen)
        chosen = (every.source == source) & (every.target == target)
        rows, rate_of, used = _readers(made, every, chosen)
        # A copy that nobody reads here is an output that is brought home.
        mine = every.rows[chosen][used]
        copying = float(every.seconds[chosen][used].sum())
        busy = made.busy_s[rows]
        in_place = made.bytes[rows] / rate_of
        longer = np.where(busy >= 0, in_place - busy, np.nan)
        gain = float(np.nansum(longer))
        if not mine.size or copying <= max(gain, 0.0) or not worth_saying(seen, copying - gain):
            return None
        by_s = np.zeros(seen.n)
        known = np.isfinite(longer) & (made.row[rows] >= 0)
        np.add.at(by_s, made.row[rows][known], -longer[known])
        untimed = seen.makespan is None
        if untimed:
            by_s[mine] = every.seconds[chosen][used]
        total = float(np.nansum(made.busy_s))
        saved = priced(
            seen,
            tools,
            by_s,
            "replayed without the copies, each read at the rate at which its copy was made"
            if not untimed
            else "time of the copies, less what reading in place takes longer",
            more=(Drop(mine),),
            range_=(0.9, 1.1),
            share=(copying - gain) / total if total > 0 else None,
        )
        if saved is None:
            return None
        return _finding(seen, made, mine, rows, (copying, gain), (source, target), saved)


def _readers(made: Moves, every: Copies, chosen: Any) -> tuple[Codes, Floats, Any]:
    """Give the moves that read the copies, the rate of each one's source, and who was read."""
    rate = np.full(int(made.row.max(initial=-1)) + 2, np.nan)
    rate[every.rows[chosen]] = every.read_rate[chosen]
    written = np.flatnonzero(made.write & ~np.isnan(rate[made.row]) & (made.row >= 0))
    maker = np.full(len(made.things) + 1, -1, dtype=np.int64)
    maker[made.thing[written]] = made.row[written]
    by = maker[made.thing]
    rows = np.flatnonzero(~made.write & (by >= 0) & (by != made.row) & (made.bytes > 0))
    return rows, rate[by[rows]], np.isin(every.rows[chosen], by[rows])


def _finding(
    seen: View,
    made: Moves,
    mine: Codes,
    rows: Codes,
    seconds: tuple[float, float],
    way: tuple[int, int],
    saved: Saved,
) -> Finding:
    copying, gain = seconds
    moved = np.isin(made.row, mine) & made.write
    size, n = float(np.nansum(made.bytes[moved])), len(mine)
    source, target = (short(made.tiers[tier], 24) for tier in way)
    groups = [seen.groups[g] for g in np.unique(seen.group[mine][seen.group[mine] >= 0]).tolist()]
    readers = np.unique(made.group[rows][made.group[rows] >= 0]).tolist()
    things = len(np.unique(made.thing[moved]))
    nextflow = seen.meta.get("engine") == "nextflow"
    return Finding(
        code="RM137",
        kind="staging_cost",
        severity=saved.severity,
        title=(
            f"Copying {format_bytes(size)} from {source} to {target} took "
            f"{format_seconds(copying)} of task time and made its reads only "
            f"{format_seconds(max(gain, 0.0))} shorter"
        ),
        groups=(*groups, *(seen.groups[g] for g in readers if seen.groups[g] not in groups)),
        evidence=(
            Evidence("copies", n, "", "tasks that write to one store what they read from another"),
            Evidence("time of the copies", round(copying, 6), "s", "summed over tasks", n),
            Evidence("copied", round(size), "B", "counted", n),
            Evidence(
                "time that reads were shorter",
                round(gain, 6),
                "s",
                "the same bytes at the rate at which they were copied from the source, less the "
                "time in these reads",
                len(rows),
            ),
            Evidence(
                "reads of a copy",
                round(len(rows) / max(things, 1), 2),
                "",
                f"reads over {many(things, 'copied file')}",
                len(rows),
            ),
        ),
        **saved.fields,
        confidence="high" if n >= 10 else "medium",
        advice=(
            f"Read in place from {source}: what is read once or twice is not worth a copy. If the "
            "copy must be, let it run ahead while other tasks compute."
        ),
        change="process.scratch = false\nprocess.stageInMode = 'symlink'" if nextflow else None,
        apply={"placement": {"factor": None}},
    )
