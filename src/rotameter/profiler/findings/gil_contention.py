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
from rotameter.profiler.findings._replayed import Cost, by_replay
from rotameter.profiler.findings.base import Tools, worth_saying
from rotameter.profiler.replaying.changes import Cap
from rotameter.profiler.view import View, is_dask, local_dask, view
from rotameter.units import format_number
from rotameter.values import Evidence, Finding

if TYPE_CHECKING:
    from rotameter.profiler.trace import Trace
    from rotameter.profiler.view import Codes, Floats, Mask

__all__ = ["Advisor"]

SIDE_BY_SIDE = 1.5
"""Tasks that shared their process with half another one or more, on the mean."""

ONE_CORE = (0.75, 1.15)
"""What the threads of a process get together when one lock lets one of them run at a time."""

FREE_SHARE = 0.75
"""A task alone in its process has its core: one that still computed less than this of its time
waits for something else."""

FEWEST = 4

MOSTLY = 0.75
"""What ran this part of its time beside tasks that hold the lock waited for it, if anything."""

NO_WAIT = 0.1
"""Files and the network took no more than this part of the time."""


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
        judged = self._judged(seen, rows, together, share, at_once)
        turns = together & np.isin(seen.group, np.unique(seen.group[judged]))
        starved = _starved(seen, turns, share)
        lost = np.where(turns | starved, seen.wall - cpu, 0.0)
        if not worth_saying(seen, float(lost.sum()) / max(1.0, seen.slots or 1.0)):
            return []
        found = self._finding(seen, tools, turns, starved, judged, share, at_once)
        return [found] if found is not None else []

    def _judged(
        self, seen: View, rows: Mask, together: Mask, share: Floats, at_once: Floats
    ) -> Mask:
        """Find the tasks of groups that got one core together, and whole cores when alone.

        What ran beside its like is judged, where enough did: that they share evenly is certain of
        like tasks only. A thread that gives the lock back often gets little beside one that holds
        it.
        """
        io = np.nan_to_num(seen.number("io_s")) + np.nan_to_num(seen.number("transfer_s"))
        lane = seen.group * (len(seen.workers) + 1) + seen.worker
        likes = together & (_beside(seen, rows, together, lane) >= SIDE_BY_SIDE)
        found = np.zeros(seen.n, dtype=bool)
        for group in np.unique(seen.group[together]).tolist():
            mine = together & (seen.group == group)
            if (mine & likes).sum() >= FEWEST:
                mine &= likes
            if mine.sum() < FEWEST or io[mine].sum() > NO_WAIT * seen.wall[mine].sum():
                continue
            weight = seen.wall[mine]
            got = float((share[mine] * at_once[mine] * weight).sum() / weight.sum())
            if not ONE_CORE[0] <= got <= ONE_CORE[1]:
                continue
            alone = rows & (seen.group == group) & (at_once < 1.2) & ~np.isnan(share)
            if alone.sum() >= 2 and np.median(share[alone]) < FREE_SHARE:
                continue
            found |= mine
        return found

    def _finding(
        self,
        seen: View,
        tools: Tools,
        turns: Mask,
        starved: Mask,
        judged: Mask,
        share: Floats,
        at_once: Floats,
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
        cost = _cost(seen, tools, turns, starved)
        if cost is None:
            return None
        sums = np.bincount(seen.group[turns], seen.wall[turns], minlength=len(seen.groups))
        groups = [int(g) for g in np.argsort(-sums, kind="stable")[:3] if sums[g] > 0]
        n = int(judged.sum())
        threads = float(np.nanmax(threads_of(seen)[seen.worker[turns]]))
        got = float(np.median(share[judged]))
        weight = seen.wall[judged]
        both = float((share[judged] * at_once[judged] * weight).sum() / weight.sum())
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
            evidence=(
                *_evidence(got, at_once[judged], both, idle),
                *_starved_evidence(seen, starved),
            ),
            **cost.fields,
            confidence="high" if n >= 10 and idle is not None else "medium",
            advice=(
                "Use processes of one thread each for pure Python code, or functions that release "
                "the lock (numpy, pandas on numbers, compiled code)."
            ),
            change=(
                f"LocalCluster(n_workers={workers}, threads_per_worker=1)"
                if is_dask(seen.meta)
                else 'dask.compute(…, scheduler="processes")  # instead of threads'
                if local_dask(seen.meta)
                else "concurrent.futures.ProcessPoolExecutor()  # instead of ThreadPoolExecutor"
                if seen.meta.get("engine") in (None, "python")
                else None
            ),
            apply={"workers": {"factor": threads}},
        )


def _beside(seen: View, some: Mask, rows: Mask, lane: Codes) -> Floats:
    """Give how many of some attempts ran in an attempt's lane during it, on the mean; shape (n,).

    Itself included where it is one of them; 0 outside ``rows``.
    """
    made = np.zeros(seen.n)
    if not some.any() or not rows.any():
        return made
    first = float(min(seen.started[some].min(), seen.started[rows].min()))
    stride = float(max(seen.ended[some].max(), seen.ended[rows].max())) - first + 1.0
    place = lane * stride - first
    begun, gone = (np.sort((at + place)[some]) for at in (seen.started, seen.ended))
    edges = np.unique(np.concatenate([begun, gone]))
    count = np.searchsorted(begun, edges, "right") - np.searchsorted(gone, edges, "right")
    total = np.concatenate([[0.0], np.cumsum(count[:-1] * np.diff(edges))])
    low, high = ((at + place)[rows] for at in (seen.started, seen.ended))
    area = np.interp(high, edges, total) - np.interp(low, edges, total)
    made[rows] = area / np.maximum(high - low, 1e-9)
    return made


def _starved(seen: View, turns: Mask, share: Floats) -> Mask:
    """Find what hardly computed beside tasks that hold the lock, and waited for nothing on record.

    Compiled code that gives the lock back at each call waits for it again after each. Groups that
    computed no more where no such task ran beside them wait for something else.
    """
    none = np.zeros(seen.n, dtype=bool)
    if not turns.any():
        return none
    io = np.nan_to_num(seen.number("io_s")) + np.nan_to_num(seen.number("transfer_s"))
    ran = seen.ran & (seen.worker >= 0) & ~turns & (seen.wall > 0) & ~np.isnan(share)
    close = _beside(seen, turns, ran, seen.worker)
    with np.errstate(invalid="ignore"):
        slow = ran & (share < FREE_SHARE) & (io <= NO_WAIT * seen.wall)
    found = slow & (close >= MOSTLY)
    elsewhere = slow & (close < 1.0 - MOSTLY) & (seen.group >= 0)
    made: Mask = found & ~np.isin(seen.group, np.unique(seen.group[elsewhere]))
    return made


def _cost(seen: View, tools: Tools, turns: Mask, starved: Mask) -> Cost | None:
    """Price by the CPU time of these tasks; the interval reaches down to none of the starved."""
    # Processes of one thread each still share the machine's cores.
    crowd = neighbours(seen) * threads_of(seen) / host_cores(seen)
    crowd = np.fmax(np.nan_to_num(crowd, nan=1.0), 1.0)[seen.worker]
    own = seen.number("cpu_s") * crowd
    both = turns | starved
    least = 1.0
    if starved.any() and tools.replay is not None:
        some, all_ = (
            tools.replay.saving(Cap(rows, "wall", np.where(rows, own, np.nan))).mid_s or 0.0
            for rows in (turns, both)
        )
        least = min(1.0, max(0.0, some / all_)) if all_ > 0 else 1.0
    return by_replay(
        seen,
        tools,
        Cap(both, "wall", np.where(both, own, np.nan)),
        bound_s=float((seen.wall - own)[both].sum()) / max(1.0, seen.slots or 1.0),
        bound_how="time of these tasks without CPU over all cores",
        how="as if each of these tasks had a process of its own, at its own CPU time",
        widen=(least, 1.0),
    )


def _starved_evidence(seen: View, starved: Mask) -> tuple[Evidence, ...]:
    if not starved.any():
        return ()
    lost = float((seen.wall - seen.number("cpu_s"))[starved].sum())
    how = "duration less CPU time of others beside them that nothing on record held"
    return (Evidence("lost by others", round(lost, 3), "s", how, int(starved.sum())),)


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
