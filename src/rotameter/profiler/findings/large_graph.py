"""RM113 large_graph: data travels inside the task graph, through client and scheduler."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from rotameter.profiler.findings._argument_rounds import Rounds, in_rounds
from rotameter.profiler.findings._cores import controller
from rotameter.profiler.findings._leavings import left_between
from rotameter.profiler.findings._likes import sizes
from rotameter.profiler.findings._replayed import by_replay
from rotameter.profiler.findings._saved import Shorter
from rotameter.profiler.findings._stretched import computes, timed, wall_per_cpu
from rotameter.profiler.findings.base import Tools
from rotameter.profiler.replaying.choose import chosen
from rotameter.profiler.replaying.model import PARTS
from rotameter.profiler.view import View, view
from rotameter.units import format_bytes, format_seconds
from rotameter.values import Evidence, Finding

if TYPE_CHECKING:
    from rotameter.profiler.replaying.model import Model
    from rotameter.profiler.trace import Trace
    from rotameter.profiler.view import Codes, Floats, Mask

__all__ = ["Advisor", "Shipment", "shipments"]

LARGE_BYTES = 20e6
"""Twice what distributed warns of: below, shipping takes a fraction of a second."""

USUAL_OVERHEAD_S = 0.0014
MOST_GROUPS = 3
TOGETHER_S = 0.05
"""Messages of one client go in batches: what is submitted within this goes together."""

FEW_BYTES = 1e6
"""An input this small takes no time of its own to fetch: it waited behind what else came in."""

_LATENCY, _TRANSFER = PARTS.index("latency"), PARTS.index("transfer")
_DELAYS = np.array([PARTS.index(n) for n in ("overhead", "latency", "stall", "wait")])


@dataclass(frozen=True, slots=True, eq=False)
class Shipped:
    """The chosen tasks come with their data elsewhere: no wait to send them, none to unpack them.

    Attributes
    ----------
    tasks : ndarray of bool, shape (n attempts,)
    begin_s, end_s : float
        Submissions made in this stretch (the model's seconds) take no time of the client.
    at_s : ndarray of float64
        Nor do those made at these instants: the tasks' own.
    """

    tasks: Mask
    begin_s: float
    end_s: float
    at_s: Floats

    def apply(self, model: Model) -> Model:
        """Give the model with the change."""
        parts = model.parts_s.copy()
        inside = (model.priority > self.begin_s) & (model.priority <= self.end_s + 1e-6)
        if self.at_s.size:
            place = np.searchsorted(self.at_s, model.priority - 1e-6).clip(0, len(self.at_s) - 1)
            inside |= np.abs(self.at_s[place] - model.priority) <= 1e-6
        inside &= model.gate
        parts[inside, _LATENCY] = np.minimum(parts[inside, _LATENCY], USUAL_OVERHEAD_S)
        nodes = chosen(model, self.tasks)
        delay = parts[np.ix_(nodes, _DELAYS)].sum(axis=1)
        keep = np.where(delay > 0, np.minimum(1.0, USUAL_OVERHEAD_S / np.maximum(delay, 1e-12)), 1)
        parts[np.ix_(nodes, _DELAYS)] *= keep[:, None]
        few = nodes & (model.received_bytes < FEW_BYTES)
        parts[few, _TRANSFER] = np.minimum(parts[few, _TRANSFER], USUAL_OVERHEAD_S)
        return replace(model, parts_s=parts)


_HOW = (
    "as if the data had been on the workers: no time of the client's own before these submissions, "
    "no delay to unpack the tasks"
)
_HOW_LONG = (
    ", and tasks beside the packing, sending and unpacking as long for their CPU time as all others"
)


class Advisor:
    """Find data that was embedded in graphs."""

    name = "large_graph"

    def check(self, trace: Trace, tools: Tools) -> list[Finding]:
        """Look for graphs that carry data."""
        seen = view(trace)
        found = [self._group(seen, tools, made) for made in shipments(seen)]
        return [finding for finding in found if finding is not None]

    def _group(self, seen: View, tools: Tools, made: Shipment) -> Finding | None:
        group, size, grown = made.group, made.size_bytes, made.grown_bytes
        rows = seen.ran & (seen.group == group)
        origin = float(
            min(
                np.nanmin(t)
                for t in (seen.submitted, seen.ready, seen.started)
                if not np.isnan(t).all()
            )
        )
        silent = max(0.0, made.sent_s - made.last_s)
        own = np.unique(seen.submitted[rows & ~np.isnan(seen.submitted)])
        between = float(np.ptp(own)) if own.size else 0.0
        before = max(0.0, origin - made.begin_s)
        # A client that packs keeps a scheduler in its own process from answering.
        slowed = seen.ran & (seen.started > made.begin_s) & (seen.started <= made.sent_s)
        longer = np.zeros(seen.n) if made.rounds else _slowed(seen, rows, made)
        cost = by_replay(
            seen,
            tools,
            Shipped(rows | slowed, made.begin_s - origin, made.sent_s - origin, own - origin),
            *((Shorter(longer, "compute"),) if longer.any() else ()),
            bound_s=silent + between,
            bound_how="time between the submission before and the last of these",
            how=_HOW + (_HOW_LONG if longer.any() else ""),
            # What only seems to follow a result may have followed the packing.
            widen=(0.6, 1.4 if longer.any() else 1.1),
        )
        if cost is None:
            return None
        n = int(rows.sum())
        label = seen.label(group)
        return Finding(
            code="RM113",
            kind="large_graph",
            severity=cost.severity,
            title=(
                f"About {format_bytes(size)} came to the workers inside the tasks of {label}, "
                "through client and scheduler"
            ),
            groups=(seen.groups[group],),
            evidence=_evidence(made, n, silent, _sending(made, between, int(own.size), before)),
            **cost.fields,
            confidence="high" if grown >= 0.5 * size else "medium",
            advice=(
                "Make or load the data in tasks, or scatter it once and pass the future; do not "
                "pass large objects as arguments."
                f"{_said(made, silent, between, int(own.size), before)}"
            ),
            change="big = client.scatter(big)  # or: load it in a task; then client.submit(f, big)",
            apply={"placement": {"factor": None}},
        )


def _evidence(
    made: Shipment, n: int, silent: float, sending: tuple[Evidence, ...]
) -> tuple[Evidence, ...]:
    return (
        Evidence(
            "memory that came with its tasks",
            round(made.size_bytes),
            "B",
            f"{'what came and went' if made.rounds else 'growth'} of the workers' resident memory "
            "at their starts that no input, result or file explains",
            n,
        ),
        Evidence(
            "growth of the client's or scheduler's memory before",
            round(made.grown_bytes),
            "B",
            "sampled",
        ),
        Evidence("time since the submission before", round(silent, 3), "s", "recorded"),
        *sending,
        Evidence("tasks", n, "", "counted", n),
    )


def _sending(
    shipment: Shipment, between: float, submissions: int, before: float
) -> tuple[Evidence, ...]:
    """Say what else sending took: many submissions, and what came before the run's first."""
    made = []
    rounds = shipment.rounds
    if rounds:
        how = "from the last end before each round's submission to its first start, summed"
        made.append(Evidence("time of its rounds", round(rounds.away_s, 3), "s", how, rounds.count))
    elif submissions > 1:
        how = "from the first of its tasks to the last"
        made.append(Evidence("time of its submissions", round(between, 3), "s", how, submissions))
    if before > 0:
        how = "sampled; no part of the run's time, which starts with the first submission"
        made.append(Evidence("memory grew before the run for", round(before, 3), "s", how))
    return tuple(made)


def _said(
    shipment: Shipment, silent: float, between: float, submissions: int, before: float
) -> str:
    if shipment.rounds:
        return (
            f" Nothing of it ran for {format_seconds(shipment.rounds.away_s)} while its "
            f"{shipment.rounds.count:,} rounds were packed, sent and unpacked."
        )
    if submissions > 1 and between > silent:
        return f" The client took {format_seconds(between)} for {submissions:,} submissions."
    if silent > 0:
        return f" The client was silent for {format_seconds(silent)} before this submission."
    if before > 0:
        return (
            f" Its memory grew for {format_seconds(before)} before the first submission: making "
            "and packing the data, which the run's time does not hold."
        )
    return ""


def _slowed(seen: View, rows: Mask, made: Shipment) -> Floats:
    """Give what attempts took beyond their CPU time because data was packed, sent and unpacked.

    The client, the scheduler and the workers' own threads compute meanwhile, and who unpacks holds
    the interpreter: a second of CPU time takes longer than at other times of the run.
    """
    known = timed(seen)
    if not (known & rows).any():
        return np.zeros(seen.n)
    arrived = float(seen.started[rows].max())
    within = np.minimum(seen.ended, arrived) - np.maximum(seen.started, made.begin_s)
    others = known & ~rows
    ratio = wall_per_cpu(seen, others & (within <= 0))
    if made.unpacked:
        ratio = float(np.fmax(1.0, np.fmax(ratio, wall_per_cpu(seen, others))))
    if np.isnan(ratio):
        return np.zeros(seen.n)
    alone = seen.number("cpu_s") * ratio
    beyond = np.maximum(seen.wall - alone, 0.0)
    if made.unpacked:
        return np.where(known & rows, beyond, 0.0)
    beyond = np.maximum(beyond - np.nan_to_num(seen.number("io_s")), 0.0)
    # The last of its tasks runs on while nothing comes any more.
    beyond = np.where(rows, beyond, np.minimum(beyond, within))
    mine = known & (rows | (within > 0)) & computes(seen, alone)
    return np.where(mine, beyond, 0.0)


@dataclass(frozen=True, slots=True)
class Shipment:
    """Data that came inside the tasks of a group.

    Attributes
    ----------
    size_bytes, grown_bytes : float
        What came to the workers; growth of the client's or scheduler's memory before.
    begin_s, last_s, sent_s : float
        Since when that grew; the submission before; this one.
    unpacked : bool
        The tasks unpack it themselves, as their peaks show.
    rounds : Rounds or None
        It came with round after round and was gone after each.
    """

    group: int
    size_bytes: float
    grown_bytes: float
    begin_s: float
    last_s: float
    sent_s: float
    unpacked: bool = False
    rounds: Rounds | None = None


def shipments(seen: View) -> list[Shipment]:
    """Find groups whose tasks brought much data with them, the largest first."""
    if "shipments" in seen.memo:
        kept: list[Shipment] = seen.memo["shipments"]
        return kept
    made = []
    if seen.meta.get("engine") in _ENGINES and seen.ran.any():
        arrived = arguments(seen)
        unpacked = arrived < LARGE_BYTES
        arrived = np.where(unpacked, _held(seen), arrived)
        rounds = {} if (arrived >= LARGE_BYTES).all() else in_rounds(seen)
        rounds = {g: r for g, r in rounds.items() if arrived[g] < LARGE_BYTES}
        for group, found in rounds.items():
            unpacked[group], arrived[group] = False, found.size_bytes
        order = np.argsort(-arrived, kind="stable")
        made = [
            replace(
                _shipment(seen, int(g), float(arrived[g])),
                unpacked=bool(unpacked[g]),
                rounds=rounds.get(int(g)),
            )
            for g in order[:MOST_GROUPS]
            if arrived[g] >= LARGE_BYTES
        ]
        tasks = np.bincount(seen.group[seen.ran & (seen.group >= 0)], minlength=len(arrived))
        # One start alone is a pattern only where the client's memory had grown as much.
        made = [m for m in made if tasks[m.group] > 1 or m.grown_bytes >= 0.5 * m.size_bytes]
    seen.memo["shipments"] = made
    return made


def _shipment(seen: View, group: int, size: float) -> Shipment:
    rows = seen.ran & (seen.group == group)
    sent = float(np.nanmin(np.fmin(seen.submitted, seen.started)[rows]))
    begin, grown = _growth(seen, sent)
    before = np.unique(seen.submitted[~np.isnan(seen.submitted)])
    previous = before[before < sent - 1e-6]
    last = float(previous[-1]) if previous.size else sent
    # What was submitted just before, in one go with this, waited for the same data.
    near = previous[previous > sent - TOGETHER_S]
    if near.size:
        earlier = previous[previous <= sent - TOGETHER_S]
        last = float(earlier[-1]) if earlier.size else last
    begin = min(begin, last) if grown >= 0.3 * size else last
    return Shipment(group, size, grown, begin, last, sent)


def arguments(seen: View) -> Floats:
    """Estimate the bytes that came inside the tasks of each group; shape (n_groups,).

    What comes with a task is in the worker's memory when it starts. Each start of a group is
    compared with the start before it on the same worker: what grew between them, less what results
    and inputs and files of the tasks before can have left there.
    """
    rows, previous, same, grown = _starts(seen)
    if not rows.size:
        return np.zeros(len(seen.groups))
    peak = np.nan_to_num(seen.number("peak_memory_bytes"))
    # Inputs are there at the start of a task, results of those before too, measured in full or not.
    known = _there(seen)[rows] + np.maximum(left_between(seen, rows, previous), peak[previous])
    extra = np.where(same, np.maximum(grown - 1.2 * known, 0.0), 0.0)
    return np.where(_mostly(seen, rows, same, extra), _summed(seen, rows, extra), 0.0)


def _held(seen: View) -> Floats:
    """Estimate the same where tasks unpack what they get; shape (n_groups,).

    Then a task's peak holds its argument once more, and hides what comes with the next one. What a
    worker keeps of freed memory is one peak at most, however many tasks it ran; growth beyond that
    is arguments, or what the tasks themselves keep, and only of arguments the client (or the
    scheduler) held as much.
    """
    rows, previous, same, grown = _starts(seen)
    made = np.zeros(len(seen.groups))
    if not rows.size:
        return made
    known = _there(seen)[rows] + left_between(seen, rows, previous)
    extra = np.where(same, np.maximum(grown - 1.2 * known, 0.0), 0.0)
    mostly = _mostly(seen, rows, same, extra)
    peak = np.zeros(len(seen.workers) + 1)
    np.fmax.at(peak, seen.worker[rows], np.nan_to_num(seen.number("peak_memory_bytes"))[rows])
    for group in np.flatnonzero(mostly & (_summed(seen, rows, extra) >= LARGE_BYTES)).tolist():
        mine = seen.group[rows] == group
        by_worker = np.bincount(seen.worker[rows][mine], extra[mine], minlength=len(peak))
        sure = float(np.maximum(by_worker - 1.2 * peak, 0.0).sum())
        size = float(by_worker.sum()) + _first(seen, rows[mine & ~same])
        if sure >= LARGE_BYTES and _sent_on(seen, group) >= 0.5 * size:
            made[group] = size
    return made


def _starts(seen: View) -> tuple[Codes, Codes, Mask, Floats]:
    """Give starts in order, worker by worker: attempt, the one before, whether there, growth."""
    memory = seen.number("start_memory_bytes")
    rows = np.flatnonzero(seen.ran & (seen.worker >= 0) & (seen.group >= 0) & ~np.isnan(memory))
    rows = rows[np.lexsort((seen.started[rows], seen.worker[rows]))]
    same = np.r_[False, seen.worker[rows][1:] == seen.worker[rows][:-1]][: rows.size]
    previous = np.r_[rows[:1], rows[:-1]]
    return rows, previous, same, memory[rows] - memory[previous]


def _summed(seen: View, rows: Codes, extra: Floats) -> Floats:
    return np.asarray(np.bincount(seen.group[rows], extra, minlength=len(seen.groups)), float)


def _mostly(seen: View, rows: Codes, same: Mask, extra: Floats) -> Mask:
    """Say in which groups half of the starts grew: else it is another group's results, or code."""
    count = np.bincount(seen.group[rows][extra > 1e6], minlength=len(seen.groups))
    tasks = np.bincount(seen.group[rows][same], minlength=len(seen.groups))
    return np.asarray((count >= 0.5 * tasks) & (count >= 1))


def _first(seen: View, rows: Codes) -> float:
    """Give what was there at the first starts of workers beyond what they held before."""
    code, at, value = seen.samples("process_rss_bytes")
    memory, total = seen.number("start_memory_bytes"), 0.0
    for row in rows.tolist():
        here = np.flatnonzero((code == seen.worker[row]) & (at <= seen.submitted[row]))
        if here.size:
            before = float(value[here[np.argmax(at[here])]])
            total += max(0.0, float(memory[row]) - before)
    return total


def _sent_on(seen: View, group: int) -> float:
    """Give by how much the client or scheduler grew while it sent a group's tasks, results off."""
    at, rss = controller(seen, "process_rss_bytes")
    sent = seen.submitted[seen.ran & (seen.group == group)]
    if np.isnan(sent).all() or not at.size:
        return 0.0
    first, last = float(np.nanmin(sent)), float(np.nanmax(sent))
    begin, _ = _growth(seen, first)
    during = rss[(at >= begin) & (at <= last + 1.0)]
    gathered = seen.number("output_bytes")[seen.ran & (seen.ended <= last + 1.0)]
    return float(np.ptp(during)) - float(np.nansum(gathered)) if during.size else 0.0


def _there(seen: View) -> Floats:
    """Give what is there for each attempt: what came from others, and what came back from disk."""
    code, _, value = seen.samples("spilled_memory_bytes")
    spilled = np.zeros(len(seen.workers) + 1, dtype=bool)
    spilled[code[(code >= 0) & (value > 0)]] = True
    inputs = np.where(spilled[seen.worker], sizes(seen)["input_bytes"], 0.0)
    received = np.nan_to_num(seen.number("received_bytes"))
    return np.asarray(np.fmax(received, np.nan_to_num(inputs)))


def _growth(seen: View, until_s: float) -> tuple[float, float]:
    """Give since when and by how much the client's or scheduler's memory grew until an instant."""
    at, rss = controller(seen, "process_rss_bytes")
    rows = np.flatnonzero(at <= until_s + 1.0)
    if rows.size < 2:
        return until_s, 0.0
    level = rss[rows]
    place = len(level) - 1
    # Back over one stretch of growth; a reading in which nothing grew ends it.
    while (
        place > 0
        and level[place] >= level[place - 1]
        and (level[place] - level[place - 1] > 1e6 or at[rows[place]] > until_s - 1.0)
    ):
        place -= 1
    return float(at[rows[place]]), float(level[-1] - level[place])


_ENGINES = ("dask", "distributed")
