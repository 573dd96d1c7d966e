"""RM118 queue_wait: jobs wait before they start though nothing of this run holds them back."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from rotameter.profiler.findings._replayed import Cost, at_most, by_replay
from rotameter.profiler.findings._resources import resources
from rotameter.profiler.findings._waits import SHORT_WAIT_S, chain_s, sooner_s, waited_in
from rotameter.profiler.findings.base import Tools, worth_saying
from rotameter.profiler.replaying.model import PARTS
from rotameter.profiler.replaying.savings import Replayer
from rotameter.profiler.schema import TABLES
from rotameter.profiler.trace import Trace
from rotameter.profiler.usage import is_job_log
from rotameter.profiler.view import View, view
from rotameter.units import format_seconds
from rotameter.values import Evidence, Finding

if TYPE_CHECKING:
    from rotameter.profiler.findings._waits import Place
    from rotameter.profiler.replaying.changes import Change
    from rotameter.profiler.replaying.model import Model
    from rotameter.profiler.view import Floats, Mask

__all__ = ["Advisor", "in_waves"]

FOLLOWS_S = 5.0
"""A job submitted this soon after others ended was submitted because they had: an engine polls."""

MUCH_RATIO = 0.1
"""Another order of the same jobs makes a run a few percent shorter or longer (Graham 1969)."""

FAR_OFF_RATIO = 0.3
"""A replay that is further from the run than this has no say in what the run would be like."""

_WAITED: dict[Place, str] = {
    "queue": "waited in the queue",
    "cores": "waited for cores of the machine (or a limit on tasks at once)",
    "either": "waited before they started",
}
_IN_A_QUEUE = (
    "ask for what starts sooner (shorter time limits and smaller requests are backfilled; another "
    "partition), or wait once: run many tasks inside one allocation, or submit what follows with "
    "a dependency instead of later."
)
_LIMITS = {
    "nextflow": "executor.cpus, executor.memory, executor.queueSize, process.maxForks",
    "snakemake": "--cores, --resources",
}


class Advisor:
    """Find runs whose jobs wait for a batch system's queue, or for a machine's cores."""

    name = "queue_wait"

    def check(self, trace: Trace, tools: Tools) -> list[Finding]:
        """Look for waits that the run's own jobs do not explain."""
        seen = view(trace)
        place = waited_in(seen)
        if not seen.ran.any() or place is None:
            return []
        since = np.fmax(seen.ready, seen.submitted)
        wait = np.where(seen.ran, np.maximum(seen.started - since, 0.0), np.nan)
        known = ~np.isnan(wait)
        if not known.any():
            tools.cannot_tell(f"how long jobs {_WAITED[place]}", "no submission was recorded")
            return []
        waited = known & (wait > SHORT_WAIT_S)
        if not worth_saying(seen, float(wait[waited].sum())):
            return []
        cost, unsure = self._cost(trace, seen, tools, wait)
        if cost is None:
            return []
        sums = np.bincount(
            seen.group[waited & (seen.group >= 0)],
            wait[waited & (seen.group >= 0)],
            minlength=len(seen.groups),
        )
        groups = [int(g) for g in np.argsort(-sums, kind="stable")[:3] if sums[g] > 0]
        return [self._finding(seen, place, wait, [seen.groups[g] for g in groups], cost, unsure)]

    def _finding(
        self,
        seen: View,
        place: Place,
        wait: Floats,
        groups: list[str],
        cost: Cost,
        unsure: bool,
    ) -> Finding:
        known = ~np.isnan(wait)
        median, ran = float(np.median(wait[known])), float(np.median(seen.wall[known]))
        n, waited = int(known.sum()), int((known & (wait > SHORT_WAIT_S)).sum())
        sure = n >= 10 and place != "either"
        return Finding(
            code="RM118",
            kind="queue_wait",
            severity=cost.severity,
            title=(
                f"{waited:,} of {n:,} jobs {_WAITED[place]}, {format_seconds(median)} in the "
                f"middle; they ran {format_seconds(ran)}"
            ),
            groups=tuple(groups),
            evidence=_evidence(seen, place, wait, known),
            **cost.fields,
            confidence="low" if unsure else "high" if sure else "medium",
            advice=_advice(seen, place),
            change=_change(seen) if place == "queue" else None,
            apply=None,
        )

    def _cost(
        self, trace: Trace, seen: View, tools: Tools, wait: Floats
    ) -> tuple[Cost | None, bool]:
        # Who waits for a GPU of the run's own machines waits for what its own jobs hold.
        gpus = np.nan_to_num(seen.number("requested_gpus")) > 0
        changes: tuple[Change, ...] = (resources(seen, waits=gpus),)
        if is_job_log(seen):
            if tools.replay is None or not in_waves(seen, wait):
                return None, False  # Jobs of many people: a wait is no part of any one's run.
            # What one person's program submits, it submits when what was before has ended.
            tables = {name: trace.table(name) for name in TABLES}
            again = Trace.from_tables(tables, {**trace.meta, "engine": None})
            tools = Tools(replay=Replayer(again))
            first = float(np.nanmin(np.fmin(seen.submitted, seen.started)))
            since = np.fmax(seen.ready, seen.submitted)
            changes = (Follow(since - first, seen.ended - first), *changes)
        if tools.replay is not None and not _unexplained(seen, tools, changes):
            return None, False
        most = sooner_s(seen, wait)
        how = "the longest waits of jobs one after another that the end of the run hung on"
        done = tools.replay.replay if tools.replay is not None else None
        if done is not None and abs(done.replay_error_ratio) > FAR_OFF_RATIO:
            off = f"{100 * abs(done.replay_error_ratio):.0f} %"
            return at_most(
                seen, most, f"{how}; at most that: a replay of the run is {off} off"
            ), True
        cost = by_replay(
            seen,
            tools,
            *changes,
            bound_s=most,
            bound_how=how,
            how="as if each job had started when it could and what it asks for was free",
            most_s=most,
        )
        return _within(cost, most), done is None


def _evidence(seen: View, place: Place, wait: Floats, known: Mask) -> tuple[Evidence, ...]:
    n, ran = int(known.sum()), float(np.median(seen.wall[known]))
    median = float(np.median(wait[known]))
    return (
        Evidence(
            "median wait in the queue" if place == "queue" else "median wait before the start",
            round(median, 3),
            "s",
            "start less submission, or the end of what it depends on",
            n,
        ),
        Evidence("median duration", round(ran, 3), "s", "measured", n),
        Evidence("longest wait", round(float(wait[known].max()), 3), "s", "", n),
        Evidence("waits in all", round(float(wait[known].sum()), 3), "s", "sum", n),
        Evidence(
            "longest chain of waits",
            round(chain_s(seen, wait), 3),
            "s",
            "of jobs that came one after another: the run waited no longer",
            n,
        ),
    )


def _within(cost: Cost | None, most_s: float) -> Cost | None:
    """Hold the range to what there was to wait as well."""
    if cost is None:
        return None
    low, high = cost.fields["cost_s_interval80"]
    range_ = (round(min(low, most_s), 6), round(min(high, most_s), 6))
    return replace(cost, fields={**cost.fields, "cost_s_interval80": range_})


@dataclass(frozen=True, slots=True, eq=False)
class Follow:
    """A submission just after a job's end follows that end, not the submission before.

    Attributes
    ----------
    since_s, ended_s : ndarray of float64, shape (n attempts,)
        Submission and end, in the model's seconds.
    """

    since_s: Floats
    ended_s: Floats

    def apply(self, model: Model) -> Model:
        """Give the model with the change."""
        jobs = np.flatnonzero(~model.gate & (model.row >= 0))
        jobs = jobs[np.argsort(self.ended_s[model.row[jobs]], kind="stable")]
        ends, since = self.ended_s[model.row[jobs]], self.since_s[model.row[jobs]]
        column = PARTS.index("latency")
        parts = model.parts_s.copy()
        follows: list[int] = []
        on: list[int] = []
        for gate in np.flatnonzero(model.gate & (parts[:, column] > FOLLOWS_S)).tolist():
            at = float(model.priority[gate])
            low, high = np.searchsorted(ends, (at - FOLLOWS_S, at + 0.5 * SHORT_WAIT_S))
            before = np.flatnonzero(since[low:high] < at - 1e-9)
            if before.size:
                place = int(low + before[-1])
                follows.append(gate)
                on.append(int(jobs[place]))
                parts[gate, column] = max(0.0, at - float(ends[place]))
        keep = ~np.isin(model.dep_task, follows)
        return replace(
            model,
            parts_s=parts,
            dep_task=np.append(model.dep_task[keep], np.array(follows, dtype=np.int64)),
            dep_on=np.append(model.dep_on[keep], np.array(on, dtype=np.int64)),
        )


def _unexplained(seen: View, tools: Tools, changes: tuple[Change, ...]) -> bool:
    """Say whether the run would be shorter if jobs waited only for what they ask for."""
    made = tools.replay.makespan(*changes) if tools.replay is not None else None
    return made is None or (seen.makespan or 0.0) - made >= MUCH_RATIO * (seen.makespan or 0.0)


def in_waves(seen: View, wait: Floats) -> bool:
    """Say whether jobs were submitted wave after wave, each when the one before had ended.

    A log of jobs that came of their own accord tells nobody's makespan.
    """
    rows = np.flatnonzero(seen.ran & ~np.isnan(wait))
    if not rows.size:
        return False
    since = seen.started[rows] - wait[rows]
    order = np.lexsort((rows, since))
    rows, since = rows[order], since[order]
    ends = np.maximum.accumulate(seen.ended[rows])
    first = np.flatnonzero(np.r_[True, since[1:] >= ends[:-1] - 1e-6])
    if len(first) < 2:
        return not _own_accord(since)
    gaps = since[first[1:]] - ends[first[1:] - 1]
    return bool(np.median(gaps) <= FOLLOWS_S)


def _own_accord(since: Floats) -> bool:
    """Say whether submissions are spread over time rather than made at once."""
    return bool(np.ptp(since) > 0.5 * max(1.0, len(since)) and len(np.unique(since)) > 20)


def _advice(seen: View, place: Place) -> str:
    limits = _LIMITS.get(str(seen.meta.get("engine")))
    told = f" ({limits})" if limits else ""
    here = (
        f"raise the limit on what runs at once{told}, ask for fewer cores a task where they use "
        "less, or use a machine with more cores."
    )
    if place == "queue":
        return f"A{_IN_A_QUEUE[1:]}"
    if place == "cores":
        return f"They ran on the engine's own machine: {here}"
    queue = f"In a batch system: {_IN_A_QUEUE}"
    return f"Where they ran is not on record. {queue} On one machine: {here}"


def _change(seen: View) -> str | None:
    lines: dict[Any, str] = {
        "slurm": "#SBATCH --time=00:30:00  # as short as the jobs allow: short ones are backfilled",
        "nextflow": "process.array = 100  // submit job arrays; or executor 'local' in one job",
        "snakemake": "snakemake --group-components all=20  # several rules in one job",
    }
    return lines.get(seen.meta.get("engine"))
