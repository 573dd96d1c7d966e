"""RM123 under_requested_memory: tasks ask for less memory than they need, and are killed for it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from rotameter.profiler.failure_words import were
from rotameter.profiler.findings._again import (
    count_like,
    lost_work_s,
    memory_kills,
    never_ended_well,
    without_or_lost,
)
from rotameter.profiler.findings._sized import sized
from rotameter.profiler.findings.base import Tools
from rotameter.profiler.findings.culprit import round_up
from rotameter.profiler.view import View, is_dask, view
from rotameter.units import format_bytes, format_seconds, next_whole
from rotameter.values import Evidence, Finding

if TYPE_CHECKING:
    from rotameter.profiler.findings._replayed import Cost
    from rotameter.profiler.trace import Trace
    from rotameter.profiler.view import Floats, Mask

__all__ = ["Advisor", "memory_lines", "nodes_of"]

MOST_GROUPS = 3

HEADROOM = 1.1
"""Peaks vary from run to run: a tenth more than the largest that ended well."""

STEP = 2.0
"""What was killed at its request needs more than that; doubling finds how much in few tries."""


class Advisor:
    """Find tasks that were killed for memory by what runs them."""

    name = "under_requested_memory"

    def check(self, trace: Trace, tools: Tools) -> list[Finding]:
        """Look for attempts that ran out of the memory that they had asked for."""
        seen = view(trace)
        if is_dask(seen.meta):
            return []  # A task of Dask asks for no memory; workers_died tells of its worker.
        # Of what never ended well it need not be known how long it ran.
        timed = ~np.isnan(seen.wall) | seen.never_ok
        rows = memory_kills(seen) & timed & ~seen.nested & (seen.group >= 0)
        if not rows.any():
            return []
        walls, size = np.nan_to_num(seen.wall[rows]), len(seen.groups)
        sums = np.bincount(seen.group[rows], walls, minlength=size)
        counts = np.bincount(seen.group[rows], minlength=size)
        order = [int(g) for g in np.lexsort((-counts, -sums)) if counts[g] > 0]
        found = []
        for group in order[:MOST_GROUPS]:
            mine = rows & (seen.group == group)
            cost = without_or_lost(
                seen,
                tools,
                mine,
                how="as if they had asked for enough at first",
                bound_how="the time of the killed attempts over all cores",
                unknown="they never ended well: how long they take with enough memory is unknown",
            )
            if cost is not None:
                found.append(_as_sized(_finding(seen, group, mine, cost), seen, group, mine, tools))
        return found


def _evidence(seen: View, group: int, rows: Mask, nodes: float) -> tuple[Evidence, ...]:
    n, inferred = int(rows.sum()), _inferred(seen, rows)
    of = count_like(seen, group, rows)
    asked, enough, how = _enough(seen, group, rows)
    lost_s = lost_work_s(seen, rows)
    blind = bool(np.isnan(seen.task_memory[rows]).all())
    return (
        Evidence("attempts killed for memory", n, "", "outcome or exit code 137", of),
        Evidence("of these only inferred", inferred, "", "from exit codes", n),
        *never_ended_well(seen, rows),
        Evidence("work lost", None if lost_s is None else round(lost_s, 3), "s", "summed", n),
        Evidence(
            "memory asked for",
            asked,
            "B",
            (
                f"median request of the killed{', a node' if nodes > 1 else ''}"
                if asked
                else "not recorded"
            ),
            n,
        ),
        Evidence("enough", enough, "B", how),
        *((Evidence("nodes", nodes, "", "median of the killed", n),) if nodes > 1 else ()),
        *(
            (Evidence("peaks of the killed", None, "B", "not recorded: needs are lower bounds"),)
            if blind
            else ()
        ),
    )


def _finding(seen: View, group: int, rows: Mask, cost: Cost) -> Finding:
    label, n = seen.label(group), int(rows.sum())
    of = count_like(seen, group, rows)
    asked, enough, how = _enough(seen, group, rows)
    nodes = float(np.median(nodes_of(seen)[rows]))
    each = " a node" if nodes > 1 else " each"
    inferred = _inferred(seen, rows)
    sure = "probably " if inferred == n else ""
    had = f" with {format_bytes(asked)}{each}" if asked else ""
    lost_s = lost_work_s(seen, rows)
    return Finding(
        code="RM123",
        kind="under_requested_memory",
        severity=cost.severity,
        title=(
            f"{label}: {n:,} of {of:,} attempts {were(n)} {sure}killed for memory{had}"
            + (f", {format_seconds(lost_s)} of work lost" if lost_s is not None else "")
        ),
        groups=(seen.groups[group],),
        evidence=_evidence(seen, group, rows, nodes),
        **cost.fields,
        confidence="high" if inferred < n and enough else "medium",
        advice=(
            (
                f"Ask for {format_bytes(enough)}{' a node' if nodes > 1 else ''} ({how}) at first"
                if enough
                else "Ask for more memory, and have it recorded"
            )
            + (
                ", or let only the retry ask for more where few are killed."
                if n < 0.2 * of
                else "."
            )
        ),
        change=memory_lines(seen, group, enough * nodes if enough else None),
        apply={"memory_request": {"value": enough * nodes} if enough else {"factor": STEP}},
    )


def nodes_of(seen: View) -> Floats:
    """Give over how many nodes each attempt's request is spread; 1 where that is not said.

    Slurm kills where one node's part is used up.
    """
    if seen.meta.get("engine") != "slurm":
        return np.ones(seen.n)
    granted, asked = seen.number("granted_nodes"), seen.number("requested_nodes")
    nodes = np.where(np.isnan(granted), asked, granted)
    return np.where(nodes >= 1, nodes, 1.0)


def _enough(seen: View, group: int, rows: Mask) -> tuple[float | None, float | None, str]:
    """Give what the killed had asked for, what is enough (of one node), and how that is known."""
    asked = seen.number("requested_memory_bytes") / nodes_of(seen)
    had = asked[rows & (asked > 0)]
    median = float(np.median(had)) if had.size else None
    killed = np.zeros(len(seen.task_ids) + 1, dtype=bool)
    killed[seen.task[rows]] = True
    good = seen.ok & (seen.group == group) & (seen.task_memory > 0)
    # Of several tasks' memory one's is on record only: with what they all need it says nothing.
    good &= seen.peak_kinds != "lower_bound"
    later = good & killed[seen.task]
    most = float(had.max()) if had.size else 0.0
    if later.any() and seen.task_memory[later].max() > most:
        top = float(seen.task_memory[good].max())
        return median, round_up(HEADROOM * top), "largest peak that ended well, and a tenth"
    fine = seen.ok & (seen.group == group) & killed[seen.task] & (asked > most)
    if fine.any():
        return median, float(asked[fine].min()), "least request with which they ended well"
    if most > 0:
        return median, round_up(STEP * most), "at least: twice what was not enough"
    return None, None, "not recorded"


def _as_sized(finding: Finding, seen: View, group: int, rows: Mask, tools: Tools) -> Finding:
    """Let a finding ask for what sizing asks for, where that is lent and jobs have one node."""
    mine = seen.group == group
    if (nodes_of(seen)[mine] > 1).any():
        return finding
    asked = np.fmax(seen.number("requested_memory_bytes")[rows], 0.0)
    had = None if np.isnan(asked).all() else float(np.nanmax(asked))
    found = sized(tools, "memory", seen.groups[group], lambda x: format_bytes(x, 3), above=had)
    if found is None:
        return finding
    enough, words = found
    said = Evidence("enough", enough, "B", "as `rotameter size` has it")
    return replace(
        finding,
        evidence=tuple(said if one.name == "enough" else one for one in finding.evidence),
        advice=f"Ask for {words}.",
        change=memory_lines(seen, group, enough),
        apply={"memory_request": {"value": enough}},
    )


def _inferred(seen: View, rows: Mask) -> int:
    kinds = seen.tasks["outcome_kind"].take(np.flatnonzero(rows)).to_pylist()
    failed = seen.outcome_in("failed")[rows]
    return sum(kind == "inferred" or bool(f) for kind, f in zip(kinds, failed, strict=True))


def memory_lines(seen: View, group: int, size_bytes: float | None) -> str | None:
    """Write the line to paste for a memory request, in the terms of the engine that ran.

    Parameters
    ----------
    size_bytes : float or None
        Of a whole job. The line is for a node, or for a CPU where it was asked for that way.
    """
    if not size_bytes:
        return None
    name = seen.groups[group]
    mega = next_whole(size_bytes / 2**20)
    lines: dict[Any, str] = {
        "slurm": _slurm_line(seen, group, size_bytes),
        "nextflow": f"process {{ withName: '{name}' {{ memory = '{mega} MB' }} }}",
        "snakemake": f"rule {name}:  resources: mem_mb={next_whole(size_bytes / 1e6)}",
    }
    return lines.get(seen.meta.get("engine"))


def _slurm_line(seen: View, group: int, size_bytes: float) -> str:
    mine = seen.group == group
    features = seen.tasks["features"].filter(pa.array(mine)).to_pylist()
    a_cpu = sum(1 for pairs in features if pairs and ("memory_per_cpu", 1.0) in pairs)
    cores = np.fmax(seen.number("granted_cores"), seen.number("requested_cores"))[mine]
    cores = cores[cores >= 1]
    if a_cpu > 0.5 * len(features) and cores.size:
        return f"#SBATCH --mem-per-cpu={next_whole(size_bytes / float(np.median(cores)) / 2**20)}M"
    nodes = float(np.median(nodes_of(seen)[mine]))
    return f"#SBATCH --mem={next_whole(size_bytes / nodes / 2**20)}M"
