"""RM113 large_graph: data travels inside the task graph, through client and scheduler."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from rotameter.profiler.findings._cores import controller
from rotameter.profiler.findings._replayed import by_replay
from rotameter.profiler.findings.base import Tools
from rotameter.profiler.replaying.choose import chosen
from rotameter.profiler.replaying.model import PARTS
from rotameter.profiler.view import View, view
from rotameter.units import format_bytes, format_seconds
from rotameter.values import Evidence, Finding

if TYPE_CHECKING:
    from rotameter.profiler.replaying.model import Model
    from rotameter.profiler.trace import Trace
    from rotameter.profiler.view import Floats, Mask

__all__ = ["Advisor", "Shipment", "shipments"]

LARGE_BYTES = 20e6
"""Twice what distributed warns of: below, shipping takes a fraction of a second."""

USUAL_OVERHEAD_S = 0.0014
MOST_GROUPS = 3
TOGETHER_S = 0.05
"""Messages of one client go in batches: what is submitted within this goes together."""

_LATENCY = PARTS.index("latency")
_DELAYS = np.array([PARTS.index(n) for n in ("overhead", "latency", "stall", "wait")])


@dataclass(frozen=True, slots=True, eq=False)
class Shipped:
    """The chosen tasks come with their data elsewhere: no wait to send them, none to unpack them.

    Attributes
    ----------
    tasks : ndarray of bool, shape (n attempts,)
    begin_s, end_s : float
        Submissions made in this stretch (the model's seconds) take no time of the client.
    """

    tasks: Mask
    begin_s: float
    end_s: float

    def apply(self, model: Model) -> Model:
        """Give the model with the change."""
        parts = model.parts_s.copy()
        inside = (
            model.gate & (model.priority > self.begin_s) & (model.priority <= self.end_s + 1e-6)
        )
        parts[inside, _LATENCY] = np.minimum(parts[inside, _LATENCY], USUAL_OVERHEAD_S)
        nodes = chosen(model, self.tasks)
        delay = parts[np.ix_(nodes, _DELAYS)].sum(axis=1)
        keep = np.where(delay > 0, np.minimum(1.0, USUAL_OVERHEAD_S / np.maximum(delay, 1e-12)), 1)
        parts[np.ix_(nodes, _DELAYS)] *= keep[:, None]
        return replace(model, parts_s=parts)


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
        # A client that packs keeps a scheduler in its own process from answering.
        slowed = seen.ran & (seen.started > made.begin_s) & (seen.started <= made.sent_s)
        cost = by_replay(
            seen,
            tools,
            Shipped(rows | slowed, made.begin_s - origin, made.sent_s - origin),
            bound_s=silent,
            bound_how="time between the submission before and this one",
            how=(
                "as if the data had been on the workers: no time between this submission and the "
                "one before, no delay to unpack the tasks"
            ),
            widen=(0.6, 1.1),
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
            evidence=(
                Evidence(
                    "memory that came with its tasks",
                    round(size),
                    "B",
                    "growth of the workers' resident memory at their starts that no input, "
                    "result or file explains",
                    n,
                ),
                Evidence(
                    "growth of the client's or scheduler's memory before",
                    round(grown),
                    "B",
                    "sampled",
                ),
                Evidence("time since the submission before", round(silent, 3), "s", "recorded"),
                Evidence("tasks", n, "", "counted", n),
            ),
            **cost.fields,
            confidence="high" if grown >= 0.5 * size else "medium",
            advice=(
                "Make or load the data in tasks, or scatter it once and pass the future; do not "
                f"pass large objects as arguments. The client was silent for "
                f"{format_seconds(silent)} before this submission."
            ),
            change="big = client.scatter(big)  # or: load it in a task; then client.submit(f, big)",
            apply={"placement": {"factor": None}},
        )


@dataclass(frozen=True, slots=True)
class Shipment:
    """Data that came inside the tasks of a group.

    Attributes
    ----------
    size_bytes, grown_bytes : float
        What came to the workers; growth of the client's or scheduler's memory before.
    begin_s, last_s, sent_s : float
        Since when that grew; the submission before; this one.
    """

    group: int
    size_bytes: float
    grown_bytes: float
    begin_s: float
    last_s: float
    sent_s: float


def shipments(seen: View) -> list[Shipment]:
    """Find groups whose tasks brought much data with them, the largest first."""
    if "shipments" in seen.memo:
        kept: list[Shipment] = seen.memo["shipments"]
        return kept
    made = []
    if seen.meta.get("engine") in _ENGINES and seen.ran.any():
        arrived = arguments(seen)
        order = np.argsort(-arrived, kind="stable")
        made = [
            _shipment(seen, int(g), float(arrived[g]))
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
    made = np.zeros(len(seen.groups))
    memory = seen.number("start_memory_bytes")
    rows = np.flatnonzero(seen.ran & (seen.worker >= 0) & (seen.group >= 0) & ~np.isnan(memory))
    if not rows.size:
        return made
    rows = rows[np.lexsort((seen.started[rows], seen.worker[rows]))]
    left = _left(seen)
    same = np.r_[False, seen.worker[rows][1:] == seen.worker[rows][:-1]]
    previous = np.r_[rows[:1], rows[:-1]]
    grown = memory[rows] - memory[previous]
    # Inputs are there at the start of a task, results of the one before too.
    known = np.nan_to_num(seen.number("received_bytes"))[rows] + left[previous]
    extra = np.where(same, np.maximum(grown - 1.2 * known, 0.0), 0.0)
    each = np.bincount(seen.group[rows], extra, minlength=len(made))
    count = np.bincount(seen.group[rows][extra > 1e6], minlength=len(made))
    # Growth at a few starts may be results of the group before, or a library that was loaded.
    tasks = np.bincount(seen.group[rows][same], minlength=len(made))
    return np.where((count >= 0.5 * tasks) & (count >= 1), each, 0.0)


def _left(seen: View) -> Floats:
    """Give what each attempt may have left in its worker's memory."""
    total = np.zeros(seen.n)
    for name in ("output_bytes", "read_bytes", "received_bytes"):
        total += np.nan_to_num(seen.number(name))
    peak = np.nan_to_num(seen.number("peak_memory_bytes"))
    return np.maximum(total, peak)


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
