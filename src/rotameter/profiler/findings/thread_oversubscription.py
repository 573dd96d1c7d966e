"""RM111 thread_oversubscription: libraries' threads times processes are more than the cores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rotameter.profiler.findings._cores import (
    beside,
    host_cores,
    idle_cores_beside,
    processes_beside,
)
from rotameter.profiler.findings._likes import comparable
from rotameter.profiler.findings._replayed import by_replay
from rotameter.profiler.findings.base import Tools, worth_saying
from rotameter.profiler.findings.large_graph import shipments
from rotameter.profiler.replaying.changes import Scale
from rotameter.profiler.replaying.intervals import covered
from rotameter.profiler.view import View, is_dask, view
from rotameter.units import format_number
from rotameter.values import Evidence, Finding

if TYPE_CHECKING:
    from rotameter.profiler.trace import Trace
    from rotameter.profiler.view import Mask

__all__ = ["Advisor"]

FEWEST = 3
SHORTEST_S = 0.02
"""CPU time of a process is too coarse for shorter tasks."""

OWN_THREADS_CORES = 0.12
"""What a worker's own threads use beside its tasks at most: heart beats, network, tracer."""

WAITED = 0.75
WAITED_INTERVAL80 = (0.4, 0.87)
"""Part of their CPU time that threads spend waiting for each other, where they are too many. On two
cores, OpenBLAS with two processes of two threads waited for 85 % of it on a crowded machine."""

MORE_THREADS = 1.4
"""CPU of the process against the task's thread, from which a library's threads were at work."""

SHORT_SHARE = 0.85
"""A thread that computes and has its core uses more of its time than this."""


FULL_RATIO, IDLE_RATIO, IDLE_CORES = 0.8, 0.1, 0.2
"""Cores are full from this part of them in use, or where no more than this idles."""

MOST_READ = 500

EVEN_RATIO = 1.25
"""Libraries start a thread for each core of the machine, the task's own among them. Where it used
less than its part of that, it waited for others."""

SEVERAL = 1.5
"""Cores' worth of CPU time at once that one thread beside the task's cannot have used."""

MEASURED_WIDEN = (0.7, 1.15)
"""What the same work, measured with fewer beside it, leaves open."""


@dataclass(frozen=True, slots=True)
class Crowd:
    """What one group's processes did on their machine.

    Attributes
    ----------
    n : int
    own, busy, used : float
        Cores of the task's thread, of other threads that do the task's work, and of the process.
    threads, processes : float
        At work in a process, at least; processes of the machine that ran something meanwhile.
    have : float
        Cores of the machine, or granted.
    full : bool
        These processes alone used about all of them.
    shared : bool
        The processes share them all, as none was granted fewer.
    """

    n: int
    own: float
    busy: float
    used: float
    threads: float
    processes: float
    have: float
    full: bool
    shared: bool


class Advisor:
    """Find groups whose libraries run more threads than there are cores."""

    name = "thread_oversubscription"

    def check(self, trace: Trace, tools: Tools) -> list[Finding]:
        """Look for threads that nobody counted."""
        seen = view(trace)
        cpu, process = seen.number("cpu_s"), seen.number("process_cpu_s")
        with np.errstate(invalid="ignore"):
            rows = comparable(seen) & (beside(seen) < 1.2) & (seen.worker >= 0)
            rows &= (seen.wall >= SHORTEST_S) & (cpu > 0) & ~np.isnan(process)
        rows &= ~_moving(seen)
        if not rows.any():
            return []
        own = _own_threads(seen, rows)
        found = []
        for group in np.unique(seen.group[rows]).tolist():
            mine = rows & (seen.group == group)
            crowd = _crowd(seen, mine, own)
            made = _finding(seen, tools, group, mine, crowd, own) if crowd is not None else None
            if made is not None:
                found.append(made)
        return found


def _crowd(seen: View, rows: Mask, own_load: float) -> Crowd | None:
    """Measure a group; None where its threads are no more than its cores, or cannot be told."""
    n, wall = int(rows.sum()), seen.wall[rows]
    machine = host_cores(seen)[seen.worker]
    # What is granted to one process the others cannot use.
    granted = seen.number("granted_cores") * processes_beside(seen)
    cores = np.fmin(machine, granted)[rows]
    if n < FEWEST or np.isnan(cores).all():
        return None
    cpu, process = seen.number("cpu_s")[rows], seen.number("process_cpu_s")[rows]
    total = float(wall.sum())
    io_s = float(np.nan_to_num(seen.number("io_s")[rows]).sum())
    own, used = float(cpu.sum()) / total, float(process.sum()) / total
    busy = max(0.0, used - own - own_load)
    # What a worker's own threads use differs by as much as it is.
    if own >= SHORT_SHARE or io_s > 0.2 * total or busy < max(own_load, (MORE_THREADS - 1.0) * own):
        return None
    have = float(np.nanmedian(cores))
    largest = float(np.nanmax(np.append(machine[rows], have)))
    # Threads that share work evenly use as much as the task's own one, so that this many were at
    # work, at least. One that waits for a helper, or for a pool of threads, uses far less.
    threads = 1.0 + busy / own
    if threads > EVEN_RATIO * largest:
        threads = float(np.quantile((process - cpu) / wall - own_load, 0.9))
        if threads < SEVERAL:
            return None
    processes = float(np.median(processes_beside(seen)[rows]))
    if threads * processes <= 1.2 * have:
        return None
    full = used * processes >= FULL_RATIO * have
    if not full:
        idle = idle_cores_beside(seen, np.flatnonzero(rows)[:: max(1, n // MOST_READ)])
        known = idle[~np.isnan(idle)]
        if have < largest or not len(known):
            return None
        if float(np.median(known)) > max(IDLE_CORES, IDLE_RATIO * have):
            return None
    return Crowd(n, own, busy, used, threads, processes, have, full, have >= largest)


def _waste(seen: View, rows: Mask, crowd: Crowd, own_load: float) -> tuple[float, Mask] | None:
    """Measure the waste: CPU time of those with too many threads beside, against those without.

    Returns
    -------
    (float, ndarray of bool) or None
        The part of the CPU time that was waste, and whose; None where none, or all, had too many.
    """
    if not crowd.shared:
        return None
    work = seen.number("process_cpu_s") - own_load * seen.wall
    wanted = crowd.threads * processes_beside(seen)
    with np.errstate(invalid="ignore"):
        many, few = rows & (wanted > 1.2 * crowd.have), rows & (wanted <= crowd.have)
    if min(int(many.sum()), int(few.sum())) < FEWEST:
        return None
    alone, crowded = float(np.median(work[few])), float(np.median(work[many]))
    if alone <= 0 or crowded <= 0:
        return None
    return min(max(0.0, 1.0 - alone / crowded), WAITED_INTERVAL80[1]), many


def _finding(
    seen: View, tools: Tools, group: int, rows: Mask, crowd: Crowd, own_load: float
) -> Finding | None:
    measured = _waste(seen, rows, crowd, own_load)
    waste, many = measured if measured is not None else (WAITED, rows)
    widen = (WAITED_INTERVAL80[0] / WAITED, WAITED_INTERVAL80[1] / WAITED)
    bound = waste * float(seen.wall[many].sum()) / crowd.processes
    if not worth_saying(seen, bound):
        return None
    cost = by_replay(
        seen,
        tools,
        Scale(many, "wall", 1.0 - waste),
        bound_s=bound,
        bound_how=f"{waste:.0%} of the time of these tasks over processes",
        how=(
            f"as if {waste:.0%} of these tasks' CPU time had been threads waiting for each other: "
            + (
                "those with fewer threads beside them used that much less"
                if measured is not None
                else "how much it was is not on record"
            )
        ),
        widen=MEASURED_WIDEN if measured is not None else widen,
    )
    if cost is None:
        return None
    processes, have = float(max(1, round(crowd.processes))), format_number(crowd.have)
    sure = crowd.full and crowd.threads * crowd.processes >= 1.8 * crowd.have
    return Finding(
        code="RM111",
        kind="thread_oversubscription",
        severity=cost.severity,
        title=(
            f"{seen.label(group)}: {format_number(processes)} processes of "
            f"{format_number(max(2.0, round(crowd.threads)))} or more library threads on "
            f"{have} cores"
        ),
        groups=(seen.groups[group],),
        evidence=_evidence(crowd),
        **cost.fields,
        confidence="high" if sure else "medium",
        advice=(
            "Give BLAS and OpenMP one thread for each task thread: set OMP_NUM_THREADS, "
            "OPENBLAS_NUM_THREADS and MKL_NUM_THREADS before the worker starts, or run fewer "
            "processes. A library that counts the machine's cores does not see a container's "
            "limit."
        ),
        change=_change(seen),
        apply={"workers": {"factor": 1.0 / processes}},
    )


def _evidence(crowd: Crowd) -> tuple[Evidence, ...]:
    n = crowd.n
    ratio, how = round(crowd.used / crowd.own, 3), "at least: if they share the work evenly"
    return (
        Evidence("CPU of the process / of the task's thread", ratio, "ratio", "measured", n),
        Evidence(
            "CPU of the task's thread / duration", round(crowd.own, 3), "ratio", "measured", n
        ),
        Evidence("threads at work in a process", round(crowd.threads, 2), "", how, n),
        Evidence(
            "processes on the machine",
            round(crowd.processes, 2),
            "",
            "workers of it that ran tasks meanwhile",
            n,
        ),
        Evidence(
            "cores that they used together",
            round(crowd.used * crowd.processes, 2),
            "cores",
            "CPU of the processes over duration",
            n,
        ),
        Evidence("cores", crowd.have, "cores", "of the machine, or granted"),
    )


def _change(seen: View) -> str | None:
    if is_dask(seen.meta):
        names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
        env = ", ".join(f'"{name}": 1' for name in names)
        return f'dask.config.set({{"distributed.nanny.pre-spawn-environ": {{{env}}}}})'
    if seen.meta.get("engine") in (None, "python"):
        return "OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1 python script.py"
    return "export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1"


def _moving(seen: View) -> Mask:
    """Say during which attempts their process packed, sent, received or unpacked data.

    That takes CPU of the process too, in threads of the worker and not of a library.
    """
    busy = np.zeros(seen.n)
    rows = seen.ran & (seen.worker >= 0)
    moves = seen.intervals("transfer")
    low, high, at = seen.started[rows], seen.ended[rows], seen.worker[rows]
    for side in ("worker", "peer"):
        busy[rows] += covered(moves[side], moves["start"], moves["end"], at, low, high)
    brought = np.isin(seen.group, [made.group for made in shipments(seen)])
    with np.errstate(invalid="ignore"):
        return np.asarray(brought | (busy > 0.1 * seen.wall))


def _own_threads(seen: View, rows: Mask) -> float:
    """Give the cores that a worker's own threads use: what most groups have beside their tasks."""
    cpu, process = seen.number("cpu_s"), seen.number("process_cpu_s")
    beside_s = np.bincount(seen.group[rows], (process - cpu)[rows], minlength=len(seen.groups))
    wall_s = np.bincount(seen.group[rows], seen.wall[rows], minlength=len(seen.groups))
    each = beside_s[wall_s > 0] / wall_s[wall_s > 0]
    if len(each) < 3:
        return OWN_THREADS_CORES
    return float(np.clip(np.quantile(each, 0.5), 0.0, OWN_THREADS_CORES))
