"""From a trace to a model: what each attempt waited for, and what its time was made of.

Everything is taken so that replaying the model on the recorded cluster gives the recorded run
back: a node's recorded start is its last input's end, plus transfer and delay, or the moment a slot
was free, plus overhead; whichever is later. Only what nothing explains stays a bare wait.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rotameter.profiler.open_ends import makespan
from rotameter.profiler.replaying import graph, release, slots, split
from rotameter.profiler.replaying.model import PARTS, Model
from rotameter.profiler.usage import is_job_log
from rotameter.profiler.view import view
from rotameter.units import many

if TYPE_CHECKING:
    from rotameter.profiler.trace import Trace
    from rotameter.profiler.view import Codes, Floats, Mask, View

__all__ = ["build"]


def build(trace: Trace) -> Model | None:
    """Make a model of a run.

    Parameters
    ----------
    trace : Trace

    Returns
    -------
    Model or None
        None where no attempt has a start and an end.

    Examples
    --------
    >>> from rotameter.profiler.trace import Trace
    >>> build(Trace.from_tables({})) is None
    True
    """
    seen = view(trace)
    rows = np.flatnonzero(seen.ran)
    if not rows.size:
        return None
    rows = rows[np.lexsort((rows, seen.ended[rows], seen.started[rows]))]
    notes: list[str] = []
    begun = seen.started[rows]
    ended = seen.ended[rows]
    origin = _origin(seen, rows)
    begun, ended = begun - origin, ended - origin
    edges = graph.attempt_edges(trace, rows, begun, ended, notes)
    gates = release.gates(seen, rows, begun, ended, edges, origin, absolute=is_job_log(seen))
    task, on = graph.join(edges, gates)
    n, m = len(rows), len(gates.at_s)
    known_end = np.concatenate([ended, gates.at_s])
    ready = np.full(n + m, -np.inf)
    np.maximum.at(ready, task, known_end[on])
    ready_s = np.where(np.isfinite(ready[:n]), ready[:n], np.fmin(0.0, begun))
    placed = slots.place(seen, rows, begun, ended, origin, notes)
    free_s = slots.free_since(placed.home, placed.cores, begun, ended, placed.workers)
    pinned = slots.pinned(placed, ready_s, free_s, begun, ended)
    parts = np.zeros((n + m, len(PARTS)))
    split.inside(seen, rows, parts[:n], notes)
    waits = split.Waits(ready_s, free_s, begun, placed.home, pinned, edges)
    split.before(seen, rows, parts[:n], waits, origin)
    parts[n:, PARTS.index("latency")] = gates.gap_s
    _say_gaps(parts[:n], notes)
    return _model(seen, rows, m, parts, task, on, gates, placed, pinned, begun, notes)


def _origin(seen: View, rows: Codes) -> float:
    """Give the view's second that is the model's second 0: the first submission or start."""
    firsts = [t for t in (seen.submitted, seen.ready, seen.started) if not np.isnan(t).all()]
    return float(min(np.nanmin(t) for t in firsts))


def _say_gaps(parts: Floats, notes: list[str]) -> None:
    wait = parts[:, PARTS.index("wait")] + parts[:, PARTS.index("stall")]
    long = wait > 0
    if long.any():
        notes.append(
            f"{many(int(long.sum()), 'attempt')} waited {wait.sum():.3g} s in all for something "
            "that the trace does not tell; the replay keeps these waits"
        )


def _model(
    seen: View,
    rows: Codes,
    m: int,
    parts: Floats,
    task: Codes,
    on: Codes,
    gates: release.Gates,
    placed: slots.Placed,
    pinned: Mask,
    begun: Floats,
    notes: list[str],
) -> Model:
    def padded(values: Floats, fill: float = 0.0) -> Floats:
        return np.concatenate([np.nan_to_num(values, nan=fill), np.full(m, fill)])

    none = np.full(m, -1, dtype=np.int64)
    no = np.zeros(m, dtype=bool)
    moved = split.moved_bytes(seen, rows)
    move_bps = split.seen_bandwidth(seen)
    return Model(
        parts_s=parts,
        row=np.concatenate([rows, none]),
        group=np.concatenate([seen.group[rows], none]),
        groups=tuple(seen.groups),
        cores=np.concatenate([placed.cores, np.zeros(m)]),
        memory_bytes=np.zeros(len(rows) + m),
        read_bytes=padded(moved["read"]),
        write_bytes=padded(moved["write"]),
        received_bytes=padded(moved["received"]),
        output_bytes=padded(seen.number("output_bytes")[rows]),
        home=np.concatenate([placed.home, none]),
        pinned=np.concatenate([pinned, no]),
        priority=np.concatenate([begun, gates.at_s]),
        release_s=np.concatenate([np.zeros(len(rows)), gates.not_before_s]),
        dep_task=task,
        dep_on=on,
        lost=np.concatenate([seen.lost[rows], no]),
        again=np.concatenate([graph.computed_again(seen, rows), no]),
        workers=placed.workers,
        move_bps=move_bps,
        recorded_s=makespan(seen, to_the_end=False),
        notes=tuple(notes),
    )
