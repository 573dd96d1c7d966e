"""Words on cores that idled: since when, which step ran alone, and what to do about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rotameter.profiler.view import View, is_dask, local_dask
from rotameter.units import format_number, format_seconds

if TYPE_CHECKING:
    from rotameter.profiler.findings._lone import Alone
    from rotameter.profiler.view import Floats

__all__ = ["SAME_CORES", "advice_on", "for_many", "gap_title", "who"]


SAME_CORES = 0.95
"""Where fewer of the cores were held while nothing ran, workers had gone meanwhile."""


def gap_title(seen: View, gap_s: float, held: float) -> str:
    """Say for how long there was no task, and how many cores were held (of an adaptive cluster)."""
    slots = float(seen.slots or 1.0)
    cores = f"all {format_number(slots)} cores" if slots > 1 else "the core"
    if held < SAME_CORES * slots:
        count = format_number(held, 2)
        cores = (
            "the core held then" if count == "1" else f"the {count} cores held then, on average,"
        )
        cores = cores if held > 0.05 else "the run"
    code = "the client" if is_dask(seen.meta) else "the code between tasks"
    what = "no task was submitted" if is_dask(seen.meta) else "no task ran"
    return f"For {format_seconds(gap_s)} {what}: {cores} waited for {code}"


def who(seen: View, alone: Alone) -> str:
    """Say which group ran in that time, and how much of it: one that hardly did is not named."""
    groups = alone.groups
    if not groups:
        return ""
    first, share = groups[0]
    if len(groups) == 1 or share >= 0.95:
        return f": {seen.label(first)} ran"
    if not alone.many:
        return f": {seen.label(first)} ran {share:.0%} of it"
    return f": {len(groups)} groups ran, {seen.label(first)} most ({share:.0%})"


def _of_a_collection(seen: View, groups: list[int]) -> bool:
    """Tell whether the first of these groups makes partitions of a data frame, array or bag."""
    rows = np.flatnonzero(seen.group == groups[0]) if groups else ()
    # Their keys are tuples; those of submitted and delayed functions are words.
    return any(seen.task_ids[seen.task[row]].startswith("(") for row in rows[:20])


def advice_on(seen: View, groups: list[int], *, gaps: bool) -> tuple[str, str | None]:
    """Word what to do in the terms of what ran the tasks."""
    if is_dask(seen.meta):
        if gaps and len(np.unique(seen.clusters[seen.ran])) > 1:
            return (
                "Compute all of it on one cluster: the program started another one between the "
                "computations, and no task could run meanwhile.",
                "with Client(cluster) as client:  # once, around both computations",
            )
        if gaps:
            return (
                "Submit the computations together (dask.compute(a, b, …)), or do the work between "
                "them in tasks too.",
                "dask.compute(a, b)  # instead of a.compute(); b.compute()",
            )
        if not _of_a_collection(seen, groups):
            return (
                "Split that call into several (client.map over parts, or a @delayed function per "
                "part and one that joins), overlap it with other work, or use fewer workers.",
                "parts = client.map(work, split(data));  result = client.submit(join, parts)",
            )
        return (
            "Split that step into more tasks (more partitions, a tree instead of one final "
            "reduction: split_every), overlap it with other work, or use fewer workers.",
            "ddf.groupby(…).agg(…, split_out=8)  # or split_every=8, more partitions",
        )
    if gaps:
        return "Do the work between the tasks in tasks too, beside them, or use fewer cores.", None
    if seen.meta.get("engine") not in (None, "python"):
        return (
            "Split that step into more tasks, overlap it with other work, or use fewer cores.",
            None,
        )
    if (kind := local_dask(seen.meta)) is not None:
        rows = seen.ran & np.isin(seen.group, groups[:3])
        waits = kind != "threads" and _waits(seen.number("cpu_s")[rows], seen.wall[rows])
        other = "threads" if waits else "processes"
        return (
            "Compute with more workers"
            + (f" (scheduler={kind!r} ran so few side by side)" if kind != "unknown" else "")
            + ", with processes for pure Python code, or split that step into more tasks.",
            f'dask.compute(…, scheduler="{other}", num_workers={max(2, round(seen.slots or 2))})',
        )
    rows = seen.ran & np.isin(seen.group, groups[:3])
    waits = _waits(seen.number("cpu_s")[rows], seen.wall[rows])
    pool = "ThreadPoolExecutor" if waits else "ProcessPoolExecutor"
    why = "they wait more than they compute, so threads do" if waits else "they compute"
    return (
        f"Run calls that do not need each other side by side in a pool ({why}), "
        "overlap the step with other work, or use fewer cores.",
        f"with concurrent.futures.{pool}() as pool:  results = list(pool.map(f, items))",
    )


def for_many(alone: Alone, slots: float) -> str:
    """Advise where no one group is the step to split."""
    count, more = len(alone.groups), max(2.0, slots)
    how = "one after another"
    if not alone.chain:
        how, more = f"about {format_number(alone.at_once, 2)} at a time", slots / alone.at_once
    pieces = format_number(max(2.0, float(round(more))))
    return (
        f"{count} groups ran {how}: at most that is saved, if each of them can be split into "
        f"{pieces} tasks. Overlap them with other work, or use fewer cores."
    )


def _waits(cpu_s: Floats, wall_s: Floats) -> bool:
    """Say whether tasks spent most of their time waiting; not where CPU time is not known."""
    known = ~np.isnan(cpu_s) & ~np.isnan(wall_s)
    return bool(known.any() and cpu_s[known].sum() < 0.5 * wall_s[known].sum())
