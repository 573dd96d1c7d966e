"""What-if edits: frozen values, each of which turns a model into the model without a cause.

Source of the idea: virtual speed-up (Curtsinger and Berger, COZ, SOSP 2015): what a cause costs is
what the run would gain without it, not what it sums up to. Here the run is replayed, so a part can
be taken away outright.

``tasks`` is None (all), a group's name, several names, a mask over the trace's attempts (rows of
``tasks``), or an array of row numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np

from rotameter.profiler.replaying import reshape
from rotameter.profiler.replaying.choose import Tasks, chosen
from rotameter.profiler.replaying.model import PARTS, Policy, Worker

if TYPE_CHECKING:
    from rotameter.profiler.replaying.model import Model
    from rotameter.profiler.view import Codes, Floats

    Part = Literal[
        "wall", "compute", "read", "write", "spill", "overhead", "stall", "transfer", "wait",
        "gap", "all",
    ]  # fmt: skip

__all__ = [
    "Bandwidth",
    "Cap",
    "Change",
    "Drop",
    "Merge",
    "Order",
    "Place",
    "Release",
    "Scale",
    "Speed",
    "Split",
    "Stage",
    "Threads",
    "Unpin",
    "Workers",
]

_COLUMNS: dict[str, tuple[str, ...]] = {
    "wall": ("compute", "read", "write"),
    "overhead": ("overhead", "latency"),
    "wait": ("wait", "stall"),
    "gap": ("latency",),
    "all": PARTS,
}


class Change(Protocol):
    """Something that could be different."""

    def apply(self, model: Model) -> Model:
        """Give the model with the change."""


def _columns(part: str) -> Codes:
    names = _COLUMNS.get(part, (part,))
    return np.array([PARTS.index(name) for name in names], dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Scale:
    """A part of the chosen tasks' time takes ``factor`` times as long.

    ``overhead`` is the engine's work and delay around each task; ``gap`` is the program's own time
    between submissions, of all of it.

    Examples
    --------
    >>> from rotameter.profiler.replaying.model import make_model
    >>> float(Scale(None, "compute", 0.5).apply(make_model([2.0])).parts_s[0, 0])
    1.0
    """

    tasks: Tasks
    part: Part
    factor: float

    def apply(self, model: Model) -> Model:
        """Give the model with the change."""
        nodes = model.gate if self.part == "gap" else chosen(model, self.tasks)
        parts = model.parts_s.copy()
        parts[np.ix_(nodes, _columns(self.part))] *= self.factor
        return replace(model, parts_s=parts)


@dataclass(frozen=True, slots=True, eq=False)
class Cap:
    """A part of the chosen tasks' time is at most ``at_s``.

    Attributes
    ----------
    at_s : float, ndarray of float64 or "median"
        Seconds; an array has one value an attempt of the trace (NaN: no cap); ``"median"`` is that
        of the task's group.
    """

    tasks: Tasks
    part: Part
    at_s: float | Floats | Literal["median"]

    def apply(self, model: Model) -> Model:
        """Give the model with the change."""
        nodes = chosen(model, self.tasks)
        columns = _columns(self.part)
        now = model.parts_s[:, columns].sum(axis=1)
        if isinstance(self.at_s, str):
            most = reshape.group_medians(model, now)
        elif isinstance(self.at_s, np.ndarray):
            most = np.where(model.row >= 0, self.at_s[model.row], np.nan)
        else:
            most = np.full(model.n, float(self.at_s))
        over = nodes & (now > most)
        parts = model.parts_s.copy()
        parts[np.ix_(over, columns)] *= (most[over] / now[over])[:, None]
        return replace(model, parts_s=parts)


@dataclass(frozen=True, slots=True, eq=False)
class Drop:
    """The chosen attempts are not made; what waited for them waits for their inputs."""

    tasks: Tasks

    def apply(self, model: Model) -> Model:
        """Give the model with the change."""
        return reshape.dropped(model, chosen(model, self.tasks))


@dataclass(frozen=True, slots=True, eq=False)
class Merge:
    """Tasks of a group do the work of ``k`` each: same computing, the engine's work once."""

    tasks: Tasks
    k: int

    def apply(self, model: Model) -> Model:
        """Give the model with the change."""
        return reshape.merged(model, chosen(model, self.tasks), max(1, int(self.k)))


@dataclass(frozen=True, slots=True, eq=False)
class Split:
    """Each chosen task is done in ``k`` pieces side by side, each with the engine's work."""

    tasks: Tasks
    k: int

    def apply(self, model: Model) -> Model:
        """Give the model with the change."""
        return reshape.split(model, chosen(model, self.tasks), max(1, int(self.k)))


@dataclass(frozen=True, slots=True)
class Workers:
    """More or fewer workers of the usual kind (``add`` may be negative), of ``cores`` slots each.

    Nodes run where a slot is free: who ran where belongs to the recorded cluster.
    """

    add: int = 0
    cores: float | None = None

    def apply(self, model: Model) -> Model:
        """Give the model with the change."""
        workers = list(model.workers)
        if self.cores is not None:
            workers = [replace(w, cores=float(self.cores)) for w in workers]
        usual = sorted(workers, key=lambda w: w.cores)[len(workers) // 2]
        fresh = replace(usual, name=None, from_s=0.0, until_s=float("inf"), speed_ratio=1.0)
        workers += [fresh] * max(0, self.add)
        if self.add < 0:
            workers = workers[: max(1, len(workers) + self.add)]
        at = np.where(model.home < len(workers), model.home, -1)
        loose = np.zeros(model.n, dtype=bool)
        return replace(model, workers=tuple(workers), home=at, pinned=loose)


@dataclass(frozen=True, slots=True)
class Threads:
    """Each worker has this many slots."""

    per_worker: float

    def apply(self, model: Model) -> Model:
        """Give the model with the change."""
        changed = tuple(replace(w, cores=float(self.per_worker)) for w in model.workers)
        return replace(model, workers=changed)


@dataclass(frozen=True, slots=True)
class Speed:
    """A worker (all if None) computes ``factor`` times as fast."""

    worker: str | None
    factor: float

    def apply(self, model: Model) -> Model:
        """Give the model with the change."""

        def faster(worker: Worker) -> Worker:
            if self.worker not in (None, worker.name):
                return worker
            return replace(worker, speed_ratio=worker.speed_ratio * self.factor)

        return replace(model, workers=tuple(faster(w) for w in model.workers))


@dataclass(frozen=True, slots=True)
class Order:
    """Which ready task goes first: the longest, or the one with most work behind it."""

    by: Literal["longest", "critical"]

    def apply(self, model: Model) -> Model:
        """Give the model with the change."""
        length = model.held_s if self.by == "longest" else reshape.work_behind(model)
        return replace(model, priority=-length)


@dataclass(frozen=True, slots=True)
class Place:
    """Where ready tasks go: ``any`` free slot, the least occupied worker, or by bytes too."""

    by: Literal["any", "even", "bytes"]

    def apply(self, model: Model) -> Model:
        """Give the model with the change."""
        loose = np.zeros(model.n, dtype=bool)
        return replace(model, policy=Policy(place=self.by), pinned=loose)


@dataclass(frozen=True, slots=True, eq=False)
class Unpin:
    """The chosen tasks run wherever a slot is free, at home if it is."""

    tasks: Tasks = None

    def apply(self, model: Model) -> Model:
        """Give the model with the change."""
        return replace(model, pinned=model.pinned & ~chosen(model, self.tasks))


@dataclass(frozen=True, slots=True)
class Release:
    """Submissions come ``at_sync`` (no time of the program's own) or all ``at_start``."""

    when: Literal["at_sync", "at_start"] = "at_sync"

    def apply(self, model: Model) -> Model:
        """Give the model with the change."""
        parts = model.parts_s.copy()
        parts[model.gate] = 0.0
        if self.when == "at_sync":
            return replace(model, parts_s=parts)
        keep = ~model.gate[model.dep_task]
        return replace(
            model,
            parts_s=parts,
            dep_task=model.dep_task[keep],
            dep_on=model.dep_on[keep],
            release_s=np.where(model.gate, 0.0, model.release_s),
        )


@dataclass(frozen=True, slots=True)
class Bandwidth:
    """Links (or the storage) are ``factor`` times as fast."""

    factor: float
    of: Literal["links", "storage"] = "links"

    def apply(self, model: Model) -> Model:
        """Give the model with the change."""
        parts = model.parts_s.copy()
        if self.of == "links":
            if model.link_bps:
                return replace(model, link_bps=model.link_bps * self.factor)
            parts[:, PARTS.index("transfer")] /= self.factor
        elif model.storage_bps:
            return replace(model, storage_bps=model.storage_bps * self.factor)
        else:
            parts[:, [PARTS.index("read"), PARTS.index("write")]] /= self.factor
        return replace(model, parts_s=parts)


@dataclass(frozen=True, slots=True, eq=False)
class Stage:
    """Data of the chosen tasks are copied in before, and out after; the copies take their time.

    Attributes
    ----------
    in_s, out_s : float
        Seconds of the copies.
    read_factor, write_factor : float
        What is left of the tasks' own reading and writing.
    """

    tasks: Tasks
    in_s: float = 0.0
    out_s: float = 0.0
    read_factor: float = 1.0
    write_factor: float = 1.0

    def apply(self, model: Model) -> Model:
        """Give the model with the change."""
        nodes = chosen(model, self.tasks)
        model = Scale(self.tasks, "read", self.read_factor).apply(model)
        model = Scale(self.tasks, "write", self.write_factor).apply(model)
        return reshape.staged(model, nodes, self.in_s, self.out_s)
