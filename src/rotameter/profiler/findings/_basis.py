"""The run as its engine would run it: what a replay of fewer or smaller jobs starts from."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from rotameter.profiler.findings._resources import asked_cores, resources
from rotameter.profiler.findings.queue_wait import in_waves
from rotameter.profiler.occupancy import sweep
from rotameter.profiler.replaying import release
from rotameter.profiler.replaying.model import PARTS
from rotameter.profiler.usage import is_job_log
from rotameter.profiler.view import encode

if TYPE_CHECKING:
    from rotameter.profiler.findings.base import Tools
    from rotameter.profiler.replaying.changes import Change
    from rotameter.profiler.replaying.model import Model
    from rotameter.profiler.view import Codes, Floats, View

__all__ = ["Follow", "Turns", "as_recorded", "basis"]

FARTHEST_RATIO = 0.2
"""A replay by requests that is farther off the record than this does not describe the run."""

SURELY_RATIO = 0.02
"""An order of work that gives the record back as well as this is the one that was kept."""

TICK_S = 2.0**-10
"""About a millisecond, of which sums are exact."""

_DIGITS = re.compile(r"(\d+)")
_ENGINES_THAT_PLACE = ("dask", "distributed", "python", None)


@dataclass(frozen=True, slots=True, eq=False)
class Follow:
    """Jobs of a log were submitted because earlier ones had ended, not of their own accord."""

    seen: View

    def apply(self, model: Model) -> Model:
        """Give the model with the change."""
        seen = self.seen
        n = int((model.row >= 0).sum())
        rows = model.row[:n]
        if n == model.n or not (np.asarray(model.row[n:]) < 0).all():
            return model
        inner = (model.dep_task < n) & (model.dep_on < n)
        edges = (model.dep_task[inner], model.dep_on[inner])
        firsts = [t for t in (seen.submitted, seen.ready, seen.started) if not np.isnan(t).all()]
        origin = float(min(np.nanmin(t) for t in firsts))
        begun, ended = seen.started[rows] - origin, seen.ended[rows] - origin
        made = release.gates(seen, rows, begun, ended, edges, origin)
        if len(made.at_s) != model.n - n:
            return model
        parts = model.parts_s.copy()
        parts[n:, PARTS.index("latency")] = made.gap_s
        starts = model.release_s.copy()
        starts[n:] = made.not_before_s
        return replace(
            model,
            parts_s=parts,
            release_s=starts,
            dep_task=np.concatenate([edges[0], made.dep_task]),
            dep_on=np.concatenate([edges[1], made.dep_on]),
        )


@dataclass(frozen=True, slots=True, eq=False)
class Turns:
    """Jobs go in the order in which engines hand them over: stage by stage, by their numbers.

    A job that failed keeps its turn. The order of recorded starts says the same where jobs waited
    for nothing else; where some were late for a reason that a change takes away, it does not.
    """

    seen: View

    def apply(self, model: Model) -> Model:
        """Give the model with the change."""
        seen = self.seen
        nodes = np.flatnonzero((model.row >= 0) & (seen.task[model.row] >= 0))
        if not nodes.size:
            return model
        rows = model.row[nodes]
        first = np.full(len(model.groups) + 1, np.inf)
        np.minimum.at(first, model.group[nodes], model.priority[nodes])
        if "natural" not in seen.memo:
            seen.memo["natural"] = _natural(seen.task_ids)
        place = seen.memo["natural"][seen.task[rows]]
        order = np.lexsort((model.priority[nodes], place, first[model.group[nodes]]))
        # Between gates and what has no turn they keep the times of their stage.
        head = first[model.group[nodes]][order]
        priority = model.priority.copy()
        priority[nodes[order]] = head + 1e-9 * np.arange(len(order))
        return replace(model, priority=priority, parts_s=np.round(model.parts_s / TICK_S) * TICK_S)


def _natural(names: list[str]) -> Codes:
    """Give the place of each name where numbers in names count as numbers; shape (n_names,)."""
    keys = [tuple(part.zfill(12) for part in _DIGITS.split(name)) for name in names]
    place = np.empty(len(names), dtype=np.int64)
    place[sorted(range(len(names)), key=keys.__getitem__)] = np.arange(len(names))
    return place


def basis(seen: View, tools: Tools) -> tuple[Change, ...] | None:
    """Give the changes after which a replay tells what fewer attempts would do.

    Engines that ask for cores and memory let each job start when that is free: a recorded wait is
    then no property of the job. Dask's waits are replayed as they were.

    Returns
    -------
    tuple of Change or None
        None where the jobs came of their own accord (a log of many people's jobs): fewer of them
        make no run shorter.
    """
    if "again_basis" in seen.memo:
        kept: tuple[Change, ...] | None = seen.memo["again_basis"]
        return kept
    made = as_recorded(seen)
    if made is not None and seen.meta.get("engine") not in _ENGINES_THAT_PLACE:
        asked = (*made, _asked(seen))
        for most, tried in ((SURELY_RATIO, (*asked, Turns(seen))), (FARTHEST_RATIO, asked)):
            whole = tools.replay.makespan(*tried) if tools.replay is not None else None
            if whole is None or not seen.makespan:
                continue
            if abs(whole - seen.makespan) <= most * seen.makespan:
                made = tried
                break
    seen.memo["again_basis"] = made
    return made


def as_recorded(seen: View) -> tuple[Change, ...] | None:
    """Give the changes after which a replay keeps each job's wait as it was on record.

    None where the jobs came of their own accord.
    """
    if not is_job_log(seen):
        return ()
    wait = np.where(seen.ran, seen.started - np.fmax(seen.ready, seen.submitted), np.nan)
    return (Follow(seen),) if in_waves(seen, np.maximum(wait, 0.0)) else None


def _asked(seen: View) -> Change:
    """Let requests decide; a place without cores on record has as many as were busy in a queue."""
    made = resources(seen)
    cores = dict(made.worker_cores)
    places, names = _places(seen)
    # What memory a place has is not told by what was asked for at once.
    memory = {name: float("inf") for name in names} | made.worker_memory_bytes
    since = np.fmax(seen.ready, seen.submitted)
    wants = np.nan_to_num(asked_cores(seen), nan=1.0)
    rows = np.flatnonzero(seen.ran & ~np.isnan(since))
    for code, name in enumerate(names):
        mine = rows[places[rows] == code]
        if name in cores or not mine.size:
            continue
        level = _queue_level(seen, mine, rows if len(names) == 1 else mine, since, wants)
        if level is not None:
            cores[name] = level
    return replace(made, worker_cores=cores, worker_memory_bytes=memory)


def _places(seen: View) -> tuple[Codes, list[str]]:
    """Give each attempt's worker, else its host, else one for all, as the model names them."""
    hosts, host_names = encode(seen.tasks["host"])
    names = [*seen.workers, *host_names, ""]
    n = len(seen.workers)
    place = np.where(seen.worker >= 0, seen.worker, np.where(hosts >= 0, n + hosts, len(names) - 1))
    used = np.unique(place)
    renumber = np.full(len(names), -1, dtype=np.int64)
    renumber[used] = np.arange(len(used))
    return renumber[place], [names[k] for k in used.tolist()]


def _queue_level(
    seen: View, mine: Codes, waiting: Codes, since: Floats, wants: Floats
) -> float | None:
    """Give the cores that were mostly in use in a place while something waited for it."""
    queued = waiting[seen.started[waiting] - since[waiting] > 1.0]
    if not len(queued):
        return None
    starts = np.concatenate([seen.started[mine], since[queued]])
    ends = np.concatenate([seen.ended[mine], seen.started[queued]])
    series = np.concatenate([np.zeros(len(mine)), np.ones(len(queued))]).astype(np.int64)
    weights = np.concatenate([wants[mine], np.ones(len(queued))])
    edges, levels = sweep(starts, ends, series, weights, 2)
    full = levels[:-1, 1] > 0.5
    span, used = np.diff(edges)[full], levels[:-1, 0][full]
    if not span.sum() > 0:
        return None
    order = np.argsort(used, kind="stable")
    at = np.searchsorted(np.cumsum(span[order]), 0.5 * span.sum())
    return float(max(1.0, used[order][min(int(at), len(order) - 1)]))
