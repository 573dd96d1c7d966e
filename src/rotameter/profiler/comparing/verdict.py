"""Compare two sides of a workflow's runs: what changed, what that cost, what came true."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rotameter.errors import UsageError
from rotameter.profiler.comparing.align import align_groups
from rotameter.profiler.comparing.bootstrap import LEAST_RATIO
from rotameter.profiler.comparing.changes import GroupChange, group_changes, has_times
from rotameter.profiler.comparing.contributions import Contribution, Ends
from rotameter.profiler.comparing.facts import RunFacts, facts_of
from rotameter.profiler.comparing.judging import Judged, Measured, judge
from rotameter.profiler.comparing.predictions import Prediction, predictions_of, recorded
from rotameter.profiler.comparing.rivals import other_reason
from rotameter.profiler.comparing.settings import Difference, differences
from rotameter.profiler.comparing.spread import Spread, spread_of
from rotameter.profiler.comparing.totals import Total, least_ratio, totals_of
from rotameter.profiler.replaying.savings import Replayer
from rotameter.units import many
from rotameter.values import to_dict

if TYPE_CHECKING:
    from rotameter.profiler.trace import Trace
    from rotameter.values import Verdict

__all__ = ["Comparison", "compare"]

_LABELS = ("earlier", "later")


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """What changed between two sides.

    Attributes
    ----------
    runs : tuple of int
        Runs on each side.
    status : tuple of str
        The worst of each side.
    totals : tuple of Total
    groups : tuple of GroupChange
        Those that added most to the makespan, or took most off it, first.
    others : tuple of (str, Contribution)
        What is not in the tasks' own time.
    unexplained_s : float or None
        What of the difference in makespan no change on record explains.
    differences : tuple of Difference
    predictions : tuple of Judged
    predictions_from : str
    same_scale : bool
    notes : tuple of str
    """

    runs: tuple[int, int]
    status: tuple[str, str]
    totals: tuple[Total, ...]
    groups: tuple[GroupChange, ...]
    others: tuple[tuple[str, Contribution], ...]
    unexplained_s: float | None
    differences: tuple[Difference, ...]
    predictions: tuple[Judged, ...]
    predictions_from: str
    measured: Measured
    notes: tuple[str, ...]

    def total(self, name: str) -> Total:
        """Give one sum."""
        return next(total for total in self.totals if total.name == name)

    @property
    def makespan(self) -> Total:
        """How long the runs took."""
        return self.total("makespan_s")

    @property
    def changes(self) -> list[GroupChange]:
        """Groups that are called a change, ranked by what they contributed."""
        return [group for group in self.groups if group.is_change]

    def to_dict(self) -> dict[str, Any]:
        """Give everything as plain data; unknown is None."""
        return {
            "schema": 1,
            "runs": list(self.runs),
            "run_variation_known": max(self.runs) > 1,
            "status": list(self.status),
            "totals": to_dict(self.totals),
            "changes": [_group(g) for g in self.changes],
            "groups": [_group(g) for g in self.groups],
            "only_before": sorted(n for g in self.groups if not g.after for n in g.before),
            "only_after": sorted(n for g in self.groups if not g.before for n in g.after),
            "others": [
                {"name": name, "contribution_s": c.seconds, "how": c.how} for name, c in self.others
            ],
            "unexplained_s": self.unexplained_s,
            "differences": [{**to_dict(d), "text": d.text} for d in self.differences],
            "measured": to_dict(self.measured),
            "predictions": to_dict(self.predictions),
            "predictions_from": self.predictions_from,
            "notes": list(self.notes),
        }


def _group(group: GroupChange) -> dict[str, Any]:
    data: dict[str, Any] = to_dict(group)
    return {**data, "is_change": group.is_change}


def compare(
    before: Sequence[Trace],
    after: Sequence[Trace],
    *,
    diagnose: Callable[[Trace], Verdict] | None = None,
    predictions: Sequence[Prediction] | None = None,
    seed: int = 0,
) -> Comparison:
    """Compare two sides of runs of one workflow.

    Parameters
    ----------
    before, after : sequence of Trace
        One run or more a side. With one on both, how much runs vary is unknown, and nothing
        under 10 % is called a change.
    diagnose : callable, optional
        Gives the verdict of a trace: for predictions and for what is left of their causes; our
        own rules by default.
    predictions : sequence of Prediction, optional
        Those made of the earlier side; by default the ones recorded in it, else made again from
        it, which gives the same, as the same trace gives the same verdict.
    seed : int
        Of the bootstraps.

    Returns
    -------
    Comparison

    Raises
    ------
    UsageError
        If a side has no run.

    Examples
    --------
    >>> from rotameter.profiler.trace import Trace
    >>> second = 10**9
    >>> def run(task_s):
    ...     return Trace.from_tables({"tasks": [
    ...         {"task_id": f"t{i}", "group": "load", "worker": "w", "outcome": "ok",
    ...          "started_ns": round(i * task_s * second),
    ...          "ended_ns": round((i + 1) * task_s * second)} for i in range(9)]})
    >>> found = compare([run(2.0)], [run(1.0)])
    >>> found.makespan.before, found.makespan.after, found.changes[0].told
    (18.0, 9.0, 'faster')
    """
    if not before or not after:
        raise UsageError("a comparison needs two sides", hint="rotameter compare A B")
    sides = [facts_of(t) for t in before], [facts_of(t) for t in after]
    pairs = align_groups(*sides)
    usual = [_usual(side) for side in sides]
    width = _width(usual)
    ends = Ends(Replayer(usual[0].trace), Replayer(usual[1].trace), width)
    groups = group_changes(*sides, pairs, ends, seed)
    others = ends.others()
    spread = spread_of(usual, width)
    totals = totals_of(*sides, seed, spread)
    changed = differences(*sides, pairs)
    notes = _notes(*sides, totals, spread)
    measured = _measured(totals[0], sides, spread)
    rules = diagnose or _own_rules
    made, source = _made(usual[0].trace, predictions, rules)
    left = rules(usual[1].trace).findings if made else None
    rivals = [other_reason(p, usual[0], usual[1], pairs) for p in made]
    parts = [g.contribution_s for g in groups] + [c.seconds for _, c in others]
    return Comparison(
        runs=(len(before), len(after)),
        status=(_worst(sides[0]), _worst(sides[1])),
        totals=totals,
        groups=tuple(groups),
        others=tuple(sorted(others, key=lambda item: -abs(item[1].seconds or 0.0))),
        unexplained_s=_unexplained(totals[0], parts),
        differences=tuple(changed),
        predictions=tuple(judge(made, measured, changed, pairs, left, rivals)),
        predictions_from=source,
        measured=measured,
        notes=tuple(notes),
    )


def _width(usual: Sequence[RunFacts]) -> float | None:
    """Give how many tasks share the run time: slots, else the mean number at once."""
    slots = [run.totals["slots"] for run in usual]
    if any(slots):
        return slots[0] or slots[1]
    means = [
        max(1.0, wall / run.makespan_s)
        for run in usual
        if (wall := run.totals["task_wall_s"]) is not None and run.makespan_s
    ]
    return float(np.mean(means)) if means else None


def _own_rules(trace: Trace) -> Verdict:
    from rotameter.profiler.diagnose import diagnose

    return diagnose(trace)


def _made(
    trace: Trace, given: Sequence[Prediction] | None, rules: Callable[[Trace], Verdict]
) -> tuple[list[Prediction], str]:
    from rotameter import __version__

    if given is not None:
        return list(given), "stored with the earlier trace"
    kept = recorded(trace)
    if kept:
        return kept, "recorded in the earlier trace"
    return predictions_of(rules(trace), __version__), "made again from the earlier trace"


def _usual(side: Sequence[RunFacts]) -> RunFacts:
    """Give the run of median makespan: the one that is replayed and diagnosed."""
    known = [run for run in side if run.makespan_s is not None]
    ranked = sorted(known, key=lambda run: run.makespan_s or 0.0)
    return ranked[(len(ranked) - 1) // 2] if ranked else side[0]


def _worst(side: Sequence[RunFacts]) -> str:
    order = ("failed", "interrupted", "unknown", "ok")
    return min((run.status for run in side), key=order.index)


def _measured(
    makespan: Total, sides: tuple[list[RunFacts], list[RunFacts]], spread: Spread
) -> Measured:
    """Say what was saved, and from when on that is no chance."""
    old, new = makespan.before, makespan.after
    if old is None or new is None:
        return Measured(None, None, None, 0.0, "how long the runs took is not known")
    scales = [[run.trace.meta.get("scale") or {} for run in side] for side in sides]
    why_not = ""
    if any(one != scales[0][0] for side in scales for one in side):
        why_not = "the runs are of different scale"
    elif "failed" in (_worst(sides[0]), _worst(sides[1])):
        why_not = "a run failed: how long it took says nothing of a saving"
    saved = old - new
    if makespan.interval90 is None:
        return Measured(saved, None, None, least_ratio("makespan_s", -saved, spread) * old, why_not)
    low, high = (-old * end for end in makespan.interval90)
    ends = min(low, high), max(low, high)
    noise = 0.0 if ends[0] > 0 else abs(saved) + 1e-9
    return Measured(saved, *ends, noise, why_not)


def _unexplained(makespan: Total, parts: Sequence[float | None]) -> float | None:
    if makespan.before is None or makespan.after is None:
        return None
    known = math.fsum(part for part in parts if part is not None)
    return makespan.after - makespan.before - known


def _notes(
    before: Sequence[RunFacts],
    after: Sequence[RunFacts],
    totals: Sequence[Total],
    spread: Spread,
) -> list[str]:
    """Say what the comparison cannot, and why."""
    notes = []
    runs = (len(before), len(after))
    if max(runs) == 1:
        least = least_ratio("makespan_s", totals[0].change_ratio or 0.0, spread)
        notes.append(
            "one run a side: how much runs vary is unknown, so no run time within "
            f"{least:.0%} is called a change; intervals bound only the drawing of tasks"
        )
    elif min(runs) == 1:
        notes.append("one run on one side: it is taken to vary as the others do")
    for label, side in zip(_LABELS, (before, after), strict=True):
        if lost := sum(run.trace.dropped for run in side):
            said = many(lost, "record was", "records were")
            notes.append(f"{said} dropped on the {label} side: its counts and sums are too low")
        if not any(run.rows for run in side):
            notes.append(f"the {label} side holds no task")
        elif all(run.makespan_s is None for run in side):
            notes.append(f"the {label} side has no task times: makespans are not compared")
        if _worst(side) in ("failed", "interrupted"):
            notes.append(f"the {label} side has a run that {_ended(_worst(side))}")
    if not has_times(before, after):
        notes.append("tasks have no times: groups are compared by their time in reads and writes")
    by_name = {total.name: total for total in totals}
    for name, what in (("tasks", "tasks"), ("read_bytes", "bytes read")):
        change = by_name[name].change_ratio
        if not by_name[name].matters:
            continue
        if change is not None and change > -1.0 and abs(change) >= LEAST_RATIO:
            notes.append(
                f"the later side has {1 + change:.2g} x the {what}: see the times a task and a byte"
            )
    return notes


def _ended(status: str) -> str:
    return "failed" if status == "failed" else "was interrupted"
