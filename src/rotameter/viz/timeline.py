"""The timeline: rows of workers, attempts as packed arrays, and marks."""

from __future__ import annotations

import heapq
import re
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.compute as pc

from rotameter.profiler.view import view as arrays_of
from rotameter.units import many
from rotameter.viz.attempts import pack_attempts
from rotameter.viz.columns import Floats, Ints, Spans, codes, spans
from rotameter.viz.formats import clip, seconds

if TYPE_CHECKING:
    from rotameter.profiler.trace import Trace

__all__ = ["COLOURS", "Timeline", "pack_lanes", "short_worker", "timeline"]

COLOURS = 6  # groups with a colour of their own; the others share one more
SLOT_ROWS_LIMIT = 120  # above: one row a worker
ROWS_LIMIT = 1_000  # above: several workers a row
_SLACK_NS = 2_000_000


@dataclass
class Timeline:
    """What the page draws.

    Attributes
    ----------
    payload : dict
        JSON-ready; arrays packed by :func:`rotameter.viz.payload.pack`.
    legend : list of (slot, group name, attempts)
    notes : list of str
        What was merged, guessed or left out, in words.
    drawn : int
        Attempts drawn.
    row_text : str
        What a row is, in a sentence.
    """

    payload: dict[str, Any] = field(default_factory=dict)
    legend: list[tuple[int, str, int]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    drawn: int = 0
    row_text: str = "A row is a slot of a worker, filled in order of time."


def pack_lanes(worker: Ints, start: Ints, end: Ints) -> Ints:
    """Give each attempt the lowest lane of its worker that is free when it starts.

    Times of lost attempts come from another process than those of their neighbours, so an overlap
    of at most 2 ms and a tenth of the shorter attempt counts as none.

    Parameters
    ----------
    worker, start, end : ndarray of int64, shape (n_attempts,), times in nanoseconds

    Returns
    -------
    ndarray of int64, shape (n_attempts,)
        Lane from 0; two attempts of a worker that overlap in time have different lanes.

    Examples
    --------
    >>> pack_lanes(np.zeros(3, np.int64), np.array([0, 1, 5]), np.array([4, 6, 9])).tolist()
    [0, 1, 0]
    """
    lanes = np.zeros(len(worker), dtype=np.int64)
    order = np.lexsort((end, start, worker))
    result = [0] * len(order)
    here: int | None = None
    busy: list[tuple[int, int, int]] = []
    free: list[int] = []
    opened = 0
    rows = zip(worker[order].tolist(), start[order].tolist(), end[order].tolist(), strict=True)
    for position, (who, begin, finish) in enumerate(rows):
        if who != here:
            here, busy, free, opened = who, [], [], 0
        slack = min(_SLACK_NS, (finish - begin) // 10)
        while busy and busy[0][0] - begin <= min(slack, busy[0][2] // 10):
            heapq.heappush(free, heapq.heappop(busy)[1])
        if free:
            lane = heapq.heappop(free)
        else:
            lane, opened = opened, opened + 1
        heapq.heappush(busy, (finish, lane, finish - begin))
        result[position] = lane
    lanes[order] = result
    return lanes


def short_worker(name: str) -> str:
    """Give a worker's name without its scheme.

    Examples
    --------
    >>> short_worker("tcp://10.0.0.1:4000")
    '10.0.0.1:4000'
    """
    return clip(re.sub(r"^[a-z]{2,8}://", "", name), 40)


def _natural(name: str) -> list[tuple[int, int, str]]:
    parts = re.findall(r"[0-9]{1,18}|[^0-9]+|[0-9]+", name[:200])
    return [(0, int(p), "") if p.isdecimal() and len(p) <= 18 else (1, 0, p) for p in parts]


def _rows(worker: Ints, names: list[str], start: Ints, end: Ints) -> tuple[Ints, list[Any], str]:
    """Place attempts on rows: slots of a worker, whole workers, or several workers."""
    present = np.unique(worker)
    nobody = "all attempts" if not names else "worker not recorded"
    label = {c: names[c] if c >= 0 else nobody for c in present.tolist()}
    ranked = sorted(label, key=lambda c: (c < 0, _natural(label[c])))
    rank_of = np.zeros(len(names) + 1, dtype=np.int64)
    rank_of[ranked] = np.arange(len(ranked))
    rank = rank_of[worker]
    lane = pack_lanes(rank, start, end)
    lanes = np.zeros(len(ranked), dtype=np.int64)
    np.maximum.at(lanes, rank, lane + 1)
    if int(lanes.sum()) <= SLOT_ROWS_LIMIT:
        first = np.concatenate(([0], np.cumsum(lanes)))
        rows = [
            {"label": short_worker(label[c]), "slot": slot + 1, "of": int(n), "lanes": 1}
            for c, n in zip(ranked, lanes.tolist(), strict=True)
            for slot in range(n)
        ]
        return first[rank] + lane, rows, ""
    if not names:
        row = {"label": "all attempts", "slot": 1, "of": 1, "lanes": int(lanes.sum())}
        return rank, [row], f"all attempts in one row, up to {int(lanes.sum()):,} at once"
    share = -(-len(ranked) // ROWS_LIMIT)
    rows = []
    for at in range(0, len(ranked), share):
        part = ranked[at : at + share]
        ends = short_worker(label[part[0]]), short_worker(label[part[-1]])
        text = ends[0] if share == 1 else f"{ends[0]} to {ends[1]}"
        rows.append({"label": text, "slot": 1, "of": 1, "lanes": int(lanes[at : at + share].sum())})
    what = "one row a worker" if share == 1 else f"{share} workers a row"
    return (
        rank // share,
        rows,
        f"{what} ({many(len(ranked), 'worker')}, {many(int(lanes.sum()), 'slot')})",
    )


def colour_slots(group: Ints, names: list[str], busy: Floats) -> tuple[Ints, list[Any]]:
    """Give the busiest groups a colour each; returns slot per group code and the legend."""
    totals = np.bincount(group + 1, weights=busy, minlength=len(names) + 1)[1:]
    amounts = np.bincount(group + 1, minlength=len(names) + 1)
    ranked = sorted(range(len(names)), key=lambda c: (-totals[c], names[c]))
    ranked = [c for c in ranked if amounts[c + 1]]
    slot_of = np.full(len(names) + 1, COLOURS, dtype=np.int64)
    top = ranked[:COLOURS]
    slot_of[top] = np.arange(len(top))
    legend = [(slot, names[c], int(amounts[c + 1])) for slot, c in enumerate(top)]
    rest = int(amounts.sum()) - sum(n for _, _, n in legend)
    if rest:
        others = len(ranked) - len(top)
        text = f"{others:,} other group{'s' if others != 1 else ''}" if others else "no group"
        legend.append((COLOURS, text, rest))
    return slot_of, legend


def timeline(trace: Trace, marks: list[dict[str, Any]]) -> Timeline:
    """Build the timeline of a trace.

    Parameters
    ----------
    trace : Trace
    marks : list of dict
        Deaths and pauses as :func:`rotameter.viz.incidents.incidents` gives them.

    Returns
    -------
    Timeline
        Empty payload where no attempt has a start; ``notes`` then says so.
    """
    tasks = trace.table("tasks")
    when = spans(trace)
    view = Timeline()
    use = when.known
    if not use.any() or when.first_ns is None:
        what = "No attempt has a start time" if tasks.num_rows else "The trace holds no task"
        view.notes.append(f"{what}, so there is no timeline.")
        return view
    worker, workers = codes(tasks, "worker")
    group, groups = codes(tasks, "group")
    busy = (when.end_ns - when.start_ns)[use] / 1e9
    slot_of, view.legend = colour_slots(group[use], groups, busy)
    row, rows, merged = _rows(worker[use], workers, when.start_ns[use], when.end_ns[use])
    view.payload = pack_attempts(tasks, when, use, row, slot_of, group)
    view.payload |= {
        "rows": rows,
        "groups": [clip(name, 80) for name in groups] + ["no group"],
        "colours": COLOURS + 1,
        "marks": _marks_on_rows(marks, rows, workers, worker[use], row),
    }
    view.drawn = int(use.sum())
    _explain(view, when, merged, tasks.num_rows, nobody=not workers)
    inside = int((arrays_of(trace).nested & use).sum())
    if inside:
        view.notes.append(
            f"{many(inside, 'attempt')} ran inside another task: drawn in rows "
            "of their own, but not counted as running, busy or in a share."
        )
    _first_submission(view, trace, when)
    return view


def _explain(
    view: Timeline, when: Spans, merged: str, attempts: int, *, nobody: bool = False
) -> None:
    if nobody:
        rows = "in one row" if merged else "a row holds those that ran one after the other"
        view.row_text = f"No worker was recorded: attempts are drawn {rows}."
        if not merged:
            view.row_text = f"No worker was recorded: {rows}."
    elif merged:
        view.row_text = f"Rows hold several slots: {merged}."
    if attempts > view.drawn:
        view.notes.append(
            f"{many(attempts - view.drawn, 'attempt')} without a start time: not drawn."
        )
    still = int(when.open.sum())
    if still:
        view.notes.append(
            f"{many(still, 'attempt')} without an end: drawn until their worker's or the run's end."
        )
    if view.payload["names"] is None:
        view.notes.append("Task names are left out of the chart to keep the file small.")


def _first_submission(view: Timeline, trace: Trace, when: Spans) -> None:
    """Say why the timeline is longer than the run time: it starts with the program."""
    tasks = trace.table("tasks")
    ats = [pc.min(tasks[name]).as_py() for name in ("submitted_ns", "ready_ns", "started_ns")]
    known = [at for at in ats if isinstance(at, int)]
    if not known or when.first_ns is None or when.last_ns is None:
        return
    what = "was submitted" if isinstance(ats[0], int) else "began"
    lead_s = (min(known) - when.first_ns) / 1e9
    if lead_s > max(0.05, 0.01 * (when.last_ns - when.first_ns) / 1e9):
        view.notes.insert(
            0,
            f"The timeline starts with the program; the first task {what} at {seconds(lead_s)}, "
            "where the run time begins.",
        )


def _marks_on_rows(
    marks: list[dict[str, Any]], rows: list[Any], names: list[str], worker: Ints, row: Ints
) -> list[dict[str, Any]]:
    """Place marks on the rows of their workers; without a worker they span all rows."""
    span_of: dict[str, tuple[int, int]] = {}
    order = np.lexsort((row, worker))
    edges = [*np.flatnonzero(np.diff(worker[order], prepend=-2)).tolist(), len(order)]
    for low, high in pairwise(edges):
        code = int(worker[order[low]])
        if code >= 0:
            span_of[names[code]] = (int(row[order[low]]), int(row[order[high - 1]]))
    placed = []
    for mark in marks:
        if mark["at_s"] is None or mark["mark"] is None:
            continue
        low, high = span_of.get(mark["worker"] or "", (0, len(rows) - 1))
        placed.append(
            {
                "s": mark["at_s"],
                "until_s": mark["until_s"],
                "kind": mark["mark"],
                "rows": [low, high],
                "text": f"{mark['what']}: {clip(mark['worker'] or 'run', 40)}",
            }
        )
    return placed
