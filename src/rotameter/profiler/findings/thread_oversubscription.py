"""RM111 thread_oversubscription: libraries' threads times processes are more than the cores."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rotameter.profiler.findings._cores import beside, host_cores, neighbours
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
    from rotameter.profiler.view import Floats, Mask

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
        cores = host_cores(seen)[seen.worker]
        asked = seen.number("granted_cores")
        granted = asked * neighbours(seen)[seen.worker]
        cores = np.where(np.isnan(asked), cores, np.fmin(cores, granted))
        own = _own_threads(seen, rows)
        hidden = np.where(rows, process - cpu - own * seen.wall, 0.0)
        found = [
            f
            for g in np.unique(seen.group[rows]).tolist()
            if (f := self._group(seen, tools, g, rows & (seen.group == g), hidden, cores))
        ]
        return found

    def _group(
        self, seen: View, tools: Tools, group: int, rows: Mask, hidden: Floats, cores: Floats
    ) -> Finding | None:
        n = int(rows.sum())
        cpu, process = seen.number("cpu_s")[rows], seen.number("process_cpu_s")[rows]
        wall = seen.wall[rows]
        if n < FEWEST or np.isnan(cores[rows]).all():
            return None
        own, busy = float(cpu.sum()), float(np.maximum(hidden[rows], 0.0).sum())
        threads = 1.0 + busy / own
        share = float(cpu.sum() / wall.sum())
        io = np.nan_to_num(seen.number("io_s")[rows]).sum()
        if threads < MORE_THREADS or share >= SHORT_SHARE or io > 0.2 * wall.sum():
            return None
        # Threads that share work evenly use as much as the task's own one, so that this many
        # were at work, at least, in each of the processes on the machine.
        processes = float(np.median(neighbours(seen)[seen.worker[rows]]))
        have = float(np.nanmedian(cores[rows]))
        if threads * processes <= 1.2 * have:
            return None
        bound = WAITED * float(wall.sum()) / processes
        if not worth_saying(seen, bound):
            return None
        cost = by_replay(
            seen,
            tools,
            Scale(rows, "wall", 1.0 - WAITED),
            bound_s=bound,
            bound_how=f"{WAITED:.0%} of the time of these tasks over processes",
            how=(
                f"as if {WAITED:.0%} of these tasks' CPU time had been threads waiting for each "
                "other: how much it was is not on record"
            ),
            widen=(WAITED_INTERVAL80[0] / WAITED, WAITED_INTERVAL80[1] / WAITED),
        )
        if cost is None:
            return None
        return Finding(
            code="RM111",
            kind="thread_oversubscription",
            severity=cost.severity,
            title=(
                f"{seen.label(group)}: {format_number(processes)} processes of "
                f"{format_number(max(2.0, round(threads)))} or more library threads on "
                f"{format_number(have)} cores"
            ),
            groups=(seen.groups[group],),
            evidence=(
                Evidence(
                    "CPU of the process / of the task's thread",
                    round(float(process.sum() / own), 3),
                    "ratio",
                    "measured",
                    n,
                ),
                Evidence(
                    "CPU of the task's thread / duration", round(share, 3), "ratio", "measured", n
                ),
                Evidence(
                    "threads at work in a process",
                    round(threads, 2),
                    "",
                    "at least: if they share the work evenly",
                    n,
                ),
                Evidence("processes on the machine", processes, "", "workers that ran tasks"),
                Evidence("cores", have, "cores", "of the machine, or granted"),
            ),
            **cost.fields,
            confidence="high" if threads * processes >= 1.8 * have else "medium",
            advice=(
                "Give BLAS and OpenMP one thread for each task thread: set OMP_NUM_THREADS, "
                "OPENBLAS_NUM_THREADS and MKL_NUM_THREADS before the worker starts, or run fewer "
                "processes. A library that counts the machine's cores does not see a container's "
                "limit."
            ),
            change=_change(seen),
            apply={"workers": {"factor": 1.0 / processes}},
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
