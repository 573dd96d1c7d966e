"""What a cause is, where causes are registered, and what a stored case looks like."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from benchmarks.planted.generated import Generated
    from benchmarks.planted.real import Env

__all__ = ["ALSO", "GENERATED", "REAL", "Cluster", "GenCause", "RealCause", "matters"]

# What is accepted besides the planted kind itself; declared in KINDS.md before the rules.
ALSO: Mapping[str, frozenset[str]] = {
    "latency_bound_roots": frozenset({"tiny_tasks"}),
    "root_overproduction": frozenset({"spill"}),
    "workers_died": frozenset({"recomputed_work"}),
    "small_io": frozenset({"random_io"}),
    "metadata_io": frozenset({"small_io"}),
    "cache_missed": frozenset({"recomputed_work"}),
    "network_import_or_spill": frozenset({"cold_first_task"}),
}


@dataclass(frozen=True, slots=True)
class Cluster:
    """How a cluster is started; two equal ones can be one."""

    workers: int = 2
    threads: int = 1
    memory_bytes: int = 4 * 10**9
    saturation: float = 1.1
    blas_threads: int = 1
    plugin_s: float = 0.0


Section = Callable[["Env", Mapping[str, Any], bool], None]


@dataclass(frozen=True, slots=True)
class RealCause:
    """A cause in a section of a workflow that runs on a real cluster.

    Attributes
    ----------
    draw : callable
        ``draw(rng, scale)`` gives the section's sizes.
    section : callable
        ``section(env, sizes, on)`` submits the section; ``on`` plants the cause.
    cluster : callable
        ``cluster(sizes, on)`` gives the cluster that the section needs.
    second : bool
        Whether it can be the second cause (it needs no cluster of its own).
    dirty : bool
        Whether a run with the cause leaves a cluster that no other run may use.
    prepare : callable, optional
        ``prepare(place, sizes)`` writes the input files, once a case.
    setup : callable, optional
        ``setup(env, sizes, on)`` is called before each run, not traced and not timed.
    pins : bool
        Whether tasks are pinned to workers.
    """

    kind: str
    family: str
    draw: Callable[[random.Random, float], dict[str, Any]]
    section: Section
    cluster: Callable[[Mapping[str, Any], bool], Cluster] = lambda sizes, on: Cluster()
    second: bool = True
    dirty: bool = False
    prepare: Callable[[Path, Mapping[str, Any]], None] | None = None
    setup: Section | None = None
    pins: bool = False


@dataclass(frozen=True, slots=True)
class GenCause:
    """A cause in a generated trace.

    Attributes
    ----------
    make : callable
        ``make(rng, place)`` writes a trace and says what its causes truly cost.
    """

    kind: str
    family: str
    make: Callable[[random.Random, Path], Generated]
    healthy: Callable[[random.Random, Path], Generated] | None = None


@dataclass(slots=True)
class Truth:
    """What one cause of a case costs."""

    kind: str
    saving_s: float
    spread_s: float = 0.0
    runs: list[float] = field(default_factory=list)


REAL: dict[str, RealCause] = {}
GENERATED: dict[str, GenCause] = {}


def matters(saving_s: float, makespan_s: float) -> bool:
    """Say whether a cause costs enough to be asked for.

    >>> matters(0.4, 4.0), matters(0.2, 1.0), matters(0.4, 10.0)
    (True, False, False)
    """
    return saving_s >= max(0.05 * makespan_s, 0.3)
