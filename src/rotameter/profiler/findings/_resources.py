"""Requests as what decides who runs when: waits follow from what is free, not from the record."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from rotameter.profiler.replaying.model import PARTS

if TYPE_CHECKING:
    from rotameter.profiler.replaying.model import Model
    from rotameter.profiler.view import Floats, Mask, View

__all__ = ["Resources", "asked_cores", "resources"]

LEAST_CORES = 0.01
"""What asks for no core at all still takes a place in the replay."""

_BARE = np.array([PARTS.index("wait"), PARTS.index("stall")])


@dataclass(frozen=True, slots=True, eq=False)
class Resources:
    """Attempts hold what they ask for on workers that have what is on record; nothing else waits.

    Attributes
    ----------
    cores, memory_bytes : ndarray of float64, shape (n attempts,)
        What each asks for; NaN: as the model has it (cores), or no limit (memory).
    was_memory_bytes : ndarray of float64, shape (n attempts,)
        What each asked for on record.
    worker_cores, worker_memory_bytes : dict of str to float
        What each worker has, where on record.
    waits : ndarray of bool, shape (n attempts,), optional
        Attempts whose waits stay: what they wait for is not in the model.
    """

    cores: Floats
    memory_bytes: Floats
    was_memory_bytes: Floats
    worker_cores: dict[str, float]
    worker_memory_bytes: dict[str, float]
    waits: Mask | None = None

    def beside(self, other: Resources) -> Resources:
        """Give the change in which each attempt asks for the less of what it does in these two."""
        return replace(
            self,
            cores=np.fmin(self.cores, other.cores),
            memory_bytes=np.fmin(self.memory_bytes, other.memory_bytes),
        )

    def _was(self, model: Model) -> Floats:
        known = (model.row >= 0) & ~model.gate
        row = np.where(known, model.row, 0)
        return np.asarray(np.where(known, np.nan_to_num(self.was_memory_bytes[row]), 0.0))

    def apply(self, model: Model) -> Model:
        """Give the model with the change."""
        known = (model.row >= 0) & ~model.gate
        row = np.where(known, model.row, 0)
        asked = np.where(known, self.cores[row], np.nan)
        cores = np.where(np.isnan(asked), model.cores, np.maximum(asked, LEAST_CORES))
        memory = np.where(known, np.nan_to_num(self.memory_bytes[row]), 0.0)
        parts = model.parts_s.copy()
        free = ~model.gate
        if self.waits is not None:
            free &= ~(known & self.waits[row])
        parts[np.ix_(free, _BARE)] = 0.0
        workers = tuple(
            replace(
                w,
                cores=self.worker_cores.get(w.name or "", 0.0)
                or _sustained(model, code, model.cores)
                or w.cores,
                memory_bytes=self.worker_memory_bytes.get(w.name or "", 0.0)
                or _sustained(model, code, self._was(model))
                or float("inf"),
            )
            for code, w in enumerate(model.workers)
        )
        return replace(
            model,
            parts_s=parts,
            cores=np.where(model.gate, 0.0, cores),
            memory_bytes=memory,
            pinned=np.zeros(model.n, dtype=bool),
            workers=workers,
        )


def _sustained(model: Model, worker: int, held: Floats) -> float:
    """Give the most that nodes held of a worker for more than a moment; 0 if nothing.

    Where it is not on record what a worker has, it has what it was seen to give; a few short tasks
    on top of the others, which ask for next to nothing, do not make it larger.
    """
    rows = np.flatnonzero((model.home == worker) & ~model.gate & (held > 0))
    if not rows.size:
        return 0.0
    begin = model.priority[rows]
    end = begin + model.wall_s[rows]
    edges = np.concatenate([begin, end])
    order = np.lexsort((np.concatenate([held[rows], -held[rows]]), edges))
    level = np.cumsum(np.concatenate([held[rows], -held[rows]])[order])
    length = np.diff(edges[order], append=edges[order][-1])
    high = np.argsort(-level, kind="stable")
    enough = np.cumsum(length[high]) >= 0.5 * float(np.median(model.wall_s[rows]))
    most = float(level[high][np.argmax(enough)]) if enough.any() else float(level.max())
    return max(most, float(held[rows].max()))


def resources(
    seen: View,
    cores: Floats | None = None,
    memory: Floats | None = None,
    waits: Mask | None = None,
) -> Resources:
    """Make the change for a run, with other requests where given (NaN: as on record)."""
    lives = seen.lives
    has: dict[str, float] = {}
    room: dict[str, float] = {}
    for life in lives:
        name = seen.workers[life["worker"]]
        if life["cores"] > 0:
            has[name] = float(max(has.get(name, 0.0), life["cores"]))
        if life["memory"] > 0:
            room[name] = float(max(room.get(name, 0.0), life["memory"]))
    asked = asked_cores(seen)
    wanted = seen.number("requested_memory_bytes")
    # What a worker ran at once it had, whatever the requests say.
    if not _fits(seen, wanted, room):
        wanted = np.full(seen.n, np.nan)
    was = wanted
    if cores is not None:
        asked = np.where(np.isnan(cores), asked, cores)
    if memory is not None:
        wanted = np.where(np.isnan(memory), wanted, memory)
    return Resources(asked, wanted, was, has, room, waits)


def asked_cores(seen: View) -> Floats:
    """Give the cores that each attempt held: granted, else requested; NaN = unknown."""
    granted = seen.number("granted_cores")
    return np.where(np.isnan(granted), seen.number("requested_cores"), granted)


def _fits(seen: View, wanted: Floats, room: dict[str, float]) -> bool:
    """Say whether requests kept to what workers have, so that they can have decided who ran."""
    rows = np.flatnonzero(seen.ran & (seen.worker >= 0) & (wanted > 0))
    for code, name in enumerate(seen.workers):
        mine = rows[seen.worker[rows] == code]
        if not mine.size or name not in room:
            continue
        shorter = np.maximum(seen.started[mine], seen.ended[mine] - 1e-3)
        times = np.concatenate([seen.started[mine], shorter])
        change = np.concatenate([wanted[mine], -wanted[mine]])
        order = np.lexsort((change, times))
        if np.cumsum(change[order]).max() > 1.01 * room[name]:
            return False
    return True
