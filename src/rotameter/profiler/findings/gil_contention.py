"""RM110 gil_contention: threads of one process take turns, as Python's lock lets one run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rotameter.profiler.findings._cores import (
    beside,
    host_cores,
    idle_host_cores,
    neighbours,
    threads_of,
)
from rotameter.profiler.findings._likes import comparable
from rotameter.profiler.findings._replayed import by_replay
from rotameter.profiler.findings.base import Tools, worth_saying
from rotameter.profiler.replaying.changes import Cap
from rotameter.profiler.view import View, is_dask, view
from rotameter.units import format_number
from rotameter.values import Evidence, Finding

if TYPE_CHECKING:
    from rotameter.profiler.trace import Trace
    from rotameter.profiler.view import Floats, Mask

__all__ = ["Advisor"]

SIDE_BY_SIDE = 1.5
"""Tasks that shared their process with half another one or more, on the mean."""

ONE_CORE = (0.75, 1.15)
"""What the threads of a process get together when one lock lets one of them run at a time."""

FREE_SHARE = 0.75
"""A task alone in its process has its core: one that still computed less than this of its time
waits for something else."""

FEWEST = 4


class Advisor:
    """Find groups whose threads get one core together."""

    name = "gil_contention"

    def check(self, trace: Trace, tools: Tools) -> list[Finding]:
        """Look for tasks that took turns."""
        seen = view(trace)
        rows = comparable(seen) & (seen.worker >= 0)
        threads = threads_of(seen)[seen.worker]
        with np.errstate(invalid="ignore"):
            rows &= threads >= 2
        cpu = seen.number("cpu_s")
        if not rows.any():
            return []
        if np.isnan(cpu[rows]).all():
            tools.cannot_tell(
                "whether threads waited for Python's lock", "no CPU time of tasks was recorded"
            )
            return []
        at_once = beside(seen)
        with np.errstate(invalid="ignore", divide="ignore"):
            share = cpu / seen.wall
            together = rows & (at_once >= SIDE_BY_SIDE) & ~np.isnan(share)
        turns = together & np.isin(seen.group, self._groups(seen, rows, together, share, at_once))
        lost = np.where(turns, seen.wall - cpu, 0.0)
        if not worth_saying(seen, float(lost.sum()) / max(1.0, seen.slots or 1.0)):
            return []
        found = self._finding(seen, tools, turns, share, at_once)
        return [found] if found is not None else []

    def _groups(
        self, seen: View, rows: Mask, together: Mask, share: Floats, at_once: Floats
    ) -> list[int]:
        """Name the groups whose tasks got one core together, and whole cores when alone."""
        io = np.nan_to_num(seen.number("io_s")) + np.nan_to_num(seen.number("transfer_s"))
        found = []
        for group in np.unique(seen.group[together]).tolist():
            mine = together & (seen.group == group)
            if mine.sum() < FEWEST or io[mine].sum() > 0.1 * seen.wall[mine].sum():
                continue
            weight = seen.wall[mine]
            got = float((share[mine] * at_once[mine] * weight).sum() / weight.sum())
            if not ONE_CORE[0] <= got <= ONE_CORE[1]:
                continue
            alone = rows & (seen.group == group) & (at_once < 1.2) & ~np.isnan(share)
            if alone.sum() >= 2 and np.median(share[alone]) < FREE_SHARE:
                continue
            found.append(group)
        return found

    def _finding(
        self, seen: View, tools: Tools, turns: Mask, share: Floats, at_once: Floats
    ) -> Finding | None:
        begin, end = float(seen.started[turns].min()), float(seen.ended[turns].max())
        idle = idle_host_cores(seen, begin, end)
        if idle is not None and idle < 0.4:
            # The machines had nothing left to give: their cores were short, not the lock.
            tools.cannot_tell(
                "whether threads waited for Python's lock or for a core",
                "all cores of the machines were busy meanwhile",
            )
            return None
        # Processes of one thread each still share the machine's cores.
        crowd = neighbours(seen) * threads_of(seen) / host_cores(seen)
        crowd = np.fmax(np.nan_to_num(crowd, nan=1.0), 1.0)[seen.worker]
        own = seen.number("cpu_s") * crowd
        cost = by_replay(
            seen,
            tools,
            Cap(turns, "wall", np.where(turns, own, np.nan)),
            bound_s=float((seen.wall - own)[turns].sum()) / max(1.0, seen.slots or 1.0),
            bound_how="time of these tasks without CPU over all cores",
            how="as if each of these tasks had a process of its own, at its own CPU time",
        )
        if cost is None:
            return None
        sums = np.bincount(seen.group[turns], seen.wall[turns], minlength=len(seen.groups))
        groups = [int(g) for g in np.argsort(-sums, kind="stable")[:3] if sums[g] > 0]
        n = int(turns.sum())
        threads = float(np.nanmax(threads_of(seen)[seen.worker[turns]]))
        got = float(np.median(share[turns]))
        weight = seen.wall[turns]
        both = float((share[turns] * at_once[turns] * weight).sum() / weight.sum())
        workers = int(np.nanmax(neighbours(seen)) * threads)
        return Finding(
            code="RM110",
            kind="gil_contention",
            severity=cost.severity,
            title=(
                f"{seen.label(groups[0])}: {format_number(threads)} threads of a process got "
                f"{format_number(both, 2)} cores together; Python's lock (GIL) lets one run"
            ),
            groups=tuple(seen.groups[g] for g in groups),
            evidence=_evidence(got, at_once[turns], both, idle),
            **cost.fields,
            confidence="high" if n >= 10 and idle is not None else "medium",
            advice=(
                "Use processes of one thread each for pure Python code, or functions that release "
                "the lock (numpy, pandas on numbers, compiled code)."
            ),
            change=(
                f"LocalCluster(n_workers={workers}, threads_per_worker=1)"
                if is_dask(seen.meta)
                else "concurrent.futures.ProcessPoolExecutor()  # instead of ThreadPoolExecutor"
                if seen.meta.get("engine") in (None, "python")
                else None
            ),
            apply={"workers": {"factor": threads}},
        )


def _evidence(got: float, at_once: Floats, both: float, idle: float | None) -> tuple[Evidence, ...]:
    """Give the numbers behind the finding; ``at_once`` of its attempts."""
    n = len(at_once)
    said = [
        Evidence("CPU time / duration", round(got, 3), "ratio", "median, measured", n),
        Evidence(
            "tasks at once in the process",
            round(float(np.median(at_once)), 3),
            "",
            "median, measured",
            n,
        ),
        Evidence(
            "cores that they got together",
            round(both, 3),
            "cores",
            "CPU time / duration x tasks at once, weighted by duration",
            n,
        ),
    ]
    if idle is not None:
        name = "idle cores of the machines meanwhile"
        said.append(Evidence(name, round(idle, 2), "cores", "sampled"))
    return tuple(said)
