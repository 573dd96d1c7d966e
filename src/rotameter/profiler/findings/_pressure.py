"""Memory that ran short: where it held work up, for how long, and whose memory it was."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from rotameter.profiler.findings.culprit import footprint_of
from rotameter.profiler.hang_words import stood_still
from rotameter.profiler.occupancy import paused_spans
from rotameter.profiler.replaying.model import PARTS

if TYPE_CHECKING:
    from rotameter.profiler.replaying.model import Model
    from rotameter.profiler.view import Codes, Floats, Mask, View

__all__ = ["Relieved", "Retained", "counters", "disk_seconds", "pauses_of", "retained", "run_span"]

RETAINED_RATIO = 0.35
"""From this part of the limit on, memory that no result explains is what filled a worker.

Dask spills results at 60 % and pauses at 80 % of the limit: with a third gone for good, results
that would have fit beside each other no longer do.
"""

LOW = 0.25
"""Quantile of readings that running tasks' own memory does not lift."""

READ_EVERY_S = 0.6
"""Workers are read twice a second."""

TOLD_S = 0.3
"""A worker says so late that it goes on: it looks at its memory ten times a second, and tells."""

_SPILL, _OVERHEAD, _STALL, _LATENCY, _WAIT, _WRITE = (
    PARTS.index(name) for name in ("spill", "overhead", "stall", "latency", "wait", "write")
)


@dataclass(frozen=True, slots=True)
class Retained:
    """Memory of a worker that neither results nor its start explain, while it ran short.

    Attributes
    ----------
    worker : int
        Code of the view.
    bytes : float
        Its low reading while the worker was paused or wrote data out.
    limit : float
        The worker's memory limit; NaN unknown.
    n : int
        Readings behind it.
    """

    worker: int
    bytes: float
    limit: float
    n: int

    @property
    def owns(self) -> bool:
        """Whether it is what filled the worker."""
        return bool(self.bytes >= RETAINED_RATIO * self.limit)


def run_span(seen: View) -> tuple[float, float]:
    """From the first submission (or start) to the last end of a task.

    To the run's end where tasks were left that never started, and nothing ran any more.
    """
    firsts = [t for t in (seen.submitted, seen.ready, seen.started) if not np.isnan(t).all()]
    if not firsts or np.isnan(seen.ended).all():
        return -np.inf, np.inf
    still = stood_still(seen)
    last = float(np.nanmax(seen.ended)) if still is None else still[1]
    return float(min(np.nanmin(t) for t in firsts)), last


def pauses_of(seen: View) -> tuple[Codes, Floats, Floats]:
    """Give the pauses within the run: worker code, begin, end."""
    code, begin, end = paused_spans(seen)
    first, last = run_span(seen)
    begin, end = np.clip(begin, first, last), np.clip(end, first, last)
    keep = end > begin
    return code[keep], begin[keep], end[keep]


def counters(seen: View, metric: str) -> Floats:
    """Give the last reading of a counter by worker; shape (n_workers + 1,), 0 where none."""
    code, at, value = seen.samples(metric)
    good = (code >= 0) & ~np.isnan(at) & ~np.isnan(value)
    order = np.argsort(at[good], kind="stable")
    made = np.zeros(len(seen.workers) + 1)
    made[code[good][order]] = value[good][order]
    return made


def disk_seconds(seen: View) -> Floats:
    """Give the seconds in which each worker wrote and read spilled data; shape (n_workers + 1,)."""
    made = counters(seen, "spill_total_s") + counters(seen, "unspill_total_s")
    disk = seen.intervals("disk")
    known = disk["worker"] >= 0
    on_record = np.bincount(
        disk["worker"][known], (disk["end"] - disk["start"])[known], minlength=len(made)
    )
    tasks = np.bincount(
        np.where(seen.worker >= 0, seen.worker, len(made) - 1),
        np.nan_to_num(seen.number("spill_s")),
        minlength=len(made),
    )
    most = np.maximum(made, np.maximum(on_record, tasks))
    most[-1] = 0.0
    return np.asarray(most)


def retained(seen: View) -> dict[int, Retained]:
    """Say for each worker that ran short how much of its memory no result explains."""
    if "retained" in seen.memo:
        kept: dict[int, Retained] = seen.memo["retained"]
        return kept
    found: dict[int, Retained] = {}
    code, at, rss = seen.samples("rss_bytes")
    base = footprint_of(seen)
    spans = _short_of_memory(seen)
    if base is not None and spans:
        limits = {int(life["worker"]): float(life["memory"]) for life in seen.lives}
        managed, written = seen.samples("managed_bytes"), seen.samples("spilled_memory_bytes")
        for worker, mine in sorted(spans.items()):
            here = (code == worker) & ~np.isnan(at) & ~np.isnan(rss)
            inside = np.zeros(len(at), dtype=bool)
            for begin, end in mine:
                inside |= (at >= begin) & (at < end)
            if not (here & inside).any():  # Shorter than the time between two readings.
                for begin, end in mine:
                    inside |= (at >= begin - READ_EVERY_S) & (at < end + READ_EVERY_S)
            rows = np.flatnonzero(here)
            results = _at(managed, worker, at[rows]) - _at(written, worker, at[rows])
            free = rss[rows] - base - np.maximum(results, 0.0)
            limit = limits.get(worker, float("nan"))
            used = _of_a_first_task(seen, worker, at[rows], free < RETAINED_RATIO * limit)
            free = free[inside[rows] & ~used]
            if not free.size:
                continue
            low = float(max(0.0, np.quantile(free, LOW)))
            found[worker] = Retained(worker, low, limit, int(free.size))
    seen.memo["retained"] = found
    return found


def _of_a_first_task(seen: View, worker: int, at: Floats, little: Mask) -> Mask:
    """Say which readings are the need of a task that runs, and nothing that tasks left behind.

    It is the first of its group in the process, and before it there was ``little``, or no reading.
    """
    found = np.zeros(len(at), dtype=bool)
    mine = np.flatnonzero(seen.ran & (seen.worker == worker) & (seen.group >= 0))
    mine = mine[np.argsort(seen.started[mine], kind="stable")]
    _, first = np.unique(seen.group[mine], return_index=True)
    for row in mine[first].tolist():
        before = np.flatnonzero(at < seen.started[row])
        if not before.size or little[before[np.argmax(at[before])]]:
            found |= (at >= seen.started[row]) & (at <= seen.ended[row])
    return found


def _short_of_memory(seen: View) -> dict[int, list[tuple[float, float]]]:
    """Give the times in which each worker was paused, or else wrote data out."""
    found: dict[int, list[tuple[float, float]]] = {}
    for worker, begin, end in zip(*pauses_of(seen), strict=True):
        found.setdefault(int(worker), []).append((float(begin), float(end)))
    code, at, value = seen.samples("spill_total_s")
    for worker in np.unique(code[code >= 0]).tolist():
        if worker not in found and (value[code == worker] > 0).any():
            mine = at[(code == worker) & (value > 0)]
            found[worker] = [(float(mine.min()), float(mine.max()))]
    return found


def _at(series: tuple[Codes, Floats, Floats], worker: int, at: Floats) -> Floats:
    """Give a worker's reading at some instants: the last one before, else the first."""
    code, when, value = series
    mine = np.flatnonzero((code == worker) & ~np.isnan(when) & ~np.isnan(value))
    if not mine.size:
        return np.zeros(len(at))
    mine = mine[np.argsort(when[mine], kind="stable")]
    place = np.searchsorted(when[mine], at, side="right") - 1
    # A counter that is only written when it changes was 0 before its first reading.
    return np.asarray(np.where(place >= 0, value[mine[np.maximum(place, 0)]], 0.0))


@dataclass(frozen=True, slots=True, eq=False)
class Relieved:
    """Some workers have memory enough: nothing is written out, and nobody is paused.

    Attributes
    ----------
    seen : View
    workers : ndarray of bool, shape (n_workers + 1,)
    """

    seen: View
    workers: Mask

    def apply(self, model: Model) -> Model:
        """Give the model with the change."""
        seen = self.seen
        codes = {name: code for code, name in enumerate(seen.workers)}
        place = np.array([codes.get(w.name or "", -1) for w in model.workers] + [-1])
        home = place[model.home]
        nodes = ~model.gate & (model.row >= 0)
        mine = nodes & self.workers[home] & (home >= 0)
        parts = model.parts_s.copy()
        spilled = np.bincount(home[mine], parts[mine, _SPILL], minlength=len(self.workers))
        parts[mine, _SPILL] = 0.0
        left = np.maximum(disk_seconds(seen) - spilled[: len(self.workers)], 0.0)
        held, meanwhile = self._paused(model, home, nodes)
        parts[np.ix_(held, np.array([_STALL, _WAIT]))] = 0.0
        for worker in np.flatnonzero(self.workers & (left > 0)).tolist():
            self._uncovered(parts, np.flatnonzero(mine & (home == worker) & ~held), left[worker])
        return replace(model, parts_s=parts, pinned=model.pinned & ~(held | meanwhile))

    def _paused(self, model: Model, home: Codes, nodes: Mask) -> tuple[Mask, Mask]:
        """Say which nodes waited for a paused worker, and which began anywhere meanwhile."""
        seen = self.seen
        held = np.zeros(model.n, dtype=bool)
        meanwhile = np.zeros(model.n, dtype=bool)
        row = np.where(model.row >= 0, model.row, 0)
        begun = seen.started[row]
        before = np.asarray(model.parts_s[:, [_STALL, _WAIT, _LATENCY, _OVERHEAD]].sum(axis=1))
        for worker, begin, end in zip(*pauses_of(seen), strict=True):
            if not self.workers[int(worker)]:
                continue
            here = nodes & (home == worker) & (begun > begin) & (begun >= end - TOLD_S)
            held |= here & (begun - before < end) & (before > 0)
            meanwhile |= nodes & (begun >= begin) & (begun <= end + 1.0)
        return held, meanwhile

    @staticmethod
    def _uncovered(parts: Floats, nodes: Codes, left: float) -> None:
        """Take disk time that no task's record holds from the gaps of its worker's nodes.

        And from their writing: what the process writes meanwhile is on record as the task's.
        """
        columns = np.array([_STALL, _WAIT, _OVERHEAD, _LATENCY, _WRITE])
        gaps = parts[np.ix_(nodes, columns)]
        # What is usual between two tasks stays.
        usual = np.median(gaps, axis=0) if len(nodes) else np.zeros(len(columns))
        over = np.maximum(gaps - usual, 0.0)
        total = float(over.sum())
        if total <= 0:
            return
        over *= min(1.0, left / total)
        parts[np.ix_(nodes, columns)] = gaps - over
