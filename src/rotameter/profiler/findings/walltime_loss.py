"""RM127 walltime_loss: jobs are killed at their time limit, and what they had done is lost."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from rotameter.profiler.failure_words import were
from rotameter.profiler.findings._again import (
    count_like,
    lost_work_s,
    never_ended_well,
    without_or_lost,
)
from rotameter.profiler.findings._death_cost import loss_of, never_done, priced, replayed
from rotameter.profiler.findings._limits import age_of, at_their_limit
from rotameter.profiler.findings._sized import sized
from rotameter.profiler.findings.base import Tools, severity_of, worth_saying
from rotameter.profiler.findings.deaths import collect
from rotameter.profiler.view import View, is_dask, short, view
from rotameter.units import clock, format_seconds, many
from rotameter.values import Evidence, Finding

if TYPE_CHECKING:
    from rotameter.profiler.findings._replayed import Cost
    from rotameter.profiler.trace import Trace
    from rotameter.profiler.view import Mask

__all__ = ["Advisor"]

MOST_GROUPS = 3

HEADROOM = 1.25
"""Durations vary with machine and load: a quarter more than the longest that ended well."""

STEP = 2.0
"""A killed job would have taken longer than its limit; doubling finds how long in few tries."""


class Advisor:
    """Find jobs that ran into their time limit."""

    name = "walltime_loss"

    def check(self, trace: Trace, tools: Tools) -> list[Finding]:
        """Look for attempts that ended at their time limit."""
        seen = view(trace)
        return [*_jobs(seen, tools), *_workers(seen, tools)]


def _jobs(seen: View, tools: Tools) -> list[Finding]:
    """Look for attempts that ended at their time limit."""
    # Of what never ended well it need not be known how long it ran.
    timed = (seen.wall > 0) | seen.never_ok
    rows = seen.outcome_in("timeout") & timed & ~seen.nested & (seen.group >= 0)
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
            how="as if their first limit had been long enough",
            bound_how="the time of the killed attempts over all cores",
            unknown="they never ended well: how long they would have taken is unknown",
        )
        if cost is not None:
            found.append(_as_sized(_finding(seen, group, mine, cost), seen, group, mine, tools))
    return found


def _workers(seen: View, tools: Tools) -> list[Finding]:
    """Look for workers that were stopped at the time limit of their job, with what they held."""
    deaths = at_their_limit(seen, collect(seen))
    if not deaths:
        return []
    loss = replayed(seen, tools, deaths, loss_of(seen, deaths))
    gone = never_done(seen, deaths)
    if not gone and not worth_saying(seen, loss["total_s"]):
        return []
    ages = [age for death in deaths if (age := age_of(seen, death)) is not None]
    age = float(np.median(ages)) if ages else None
    ran = sorted({v.group for death in deaths for v in death.executing if v.group is not None})
    beside = f" while {', '.join(f'`{short(name, 32)}`' for name in ran[:2])} ran" if ran else ""
    at = f" ({format_seconds(age)})" if age else ""
    life = max(1, int(0.9 * age / 60.0)) if age else 55
    severity = severity_of(seen, loss["total_s"])
    vain = format_seconds(loss["lost_s"] + loss["redone_s"])
    return [
        Finding(
            code="RM127",
            kind="walltime_loss",
            severity="critical" if gone else severity,
            title=(
                f"{many(len(deaths), 'worker')} stopped at their job's time limit{at}{beside}; "
                f"{vain} of work lost or done again"
            ),
            groups=tuple(ran[:5]),
            evidence=_of_workers(len(deaths), ages, age, loss),
            **priced(seen, loss),
            confidence="high" if any(death.reason for death in deaths) else "medium",
            advice=(
                "Stop workers before their limit, so that they hand over their results and the "
                "cluster replaces them; or ask for a longer limit."
            ),
            change=(
                f"dask worker … --lifetime {life}m --lifetime-stagger {max(1, life // 12)}m "
                "--lifetime-restart  # ends before the limit"
                if is_dask(seen.meta)
                else None
            ),
        )
    ]


def _of_workers(
    n: int, ages: list[float], age: float | None, loss: dict[str, Any]
) -> tuple[Evidence, ...]:
    old = None if age is None else round(age, 1)
    gap_s = round(loss["gap_s"], 3)
    return (
        Evidence("workers stopped", n, "", "their log, or all at one age", n),
        Evidence("age when stopped", old, "s", "median", len(ages)),
        Evidence("work lost with them", round(loss["lost_s"], 3), "core·s", "summed"),
        Evidence("work done again", round(loss["redone_s"], 3), "core·s", "summed"),
        Evidence("cores missing until replaced", gap_s, "core·s", "workers' lives"),
    )


def _finding(seen: View, group: int, rows: Mask, cost: Cost) -> Finding:
    label, n, of = seen.label(group), int(rows.sum()), count_like(seen, group, rows)
    limits = seen.number("requested_wall_s")[rows]
    limit = None if np.isnan(limits).all() else float(np.nanmedian(limits))
    most = _too_short(seen, rows)
    had = limit or most
    longest, enough = _enough(seen, group, most)
    lost_s = lost_work_s(seen, rows)
    how = "a quarter above the longest that ended well" if longest else "twice the limit, at least"
    if not longest and had and most and most > had:
        how = f"twice the {format_seconds(most)} that were not enough either, at least"
    return Finding(
        code="RM127",
        kind="walltime_loss",
        severity=cost.severity,
        title=(
            f"{label}: {n:,} of {of:,} jobs {were(n)} killed at their time limit"
            + (f" ({format_seconds(had)})" if had else "")
            + (f", {format_seconds(lost_s)} of work lost" if lost_s is not None else "")
        ),
        groups=(seen.groups[group],),
        evidence=(
            Evidence("killed at the limit", n, "", "recorded states", of),
            *never_ended_well(seen, rows),
            Evidence("work lost", None if lost_s is None else round(lost_s, 3), "s", "summed", n),
            Evidence(
                "time limit",
                limit,
                "s",
                "median of the killed" if limit is not None else "not recorded",
                n,
            ),
            Evidence(
                "longest that was not enough", most, "s", "limits and durations of the killed", n
            ),
            Evidence(
                "longest that ended well",
                longest,
                "s",
                "measured" if longest else "none longer than what was not enough",
            ),
        ),
        **cost.fields,
        confidence="high" if longest else "medium",
        advice=(
            f"Ask for {f'{format_seconds(enough)} ({how})' if enough else 'more time'}, or save "
            "the state before the limit and go on from there."
        ),
        change=_change(seen, group, enough) if enough else None,
        apply=None,
    )


def _too_short(seen: View, rows: Mask) -> float | None:
    """Give the longest time that was not enough for one of some killed attempts; None: unknown."""
    limits = seen.number("requested_wall_s")[rows]
    tried = np.where(limits > 0, limits, seen.wall[rows])
    return None if np.isnan(tried).all() else float(np.nanmax(tried))


def _enough(seen: View, group: int, most: float | None) -> tuple[float | None, float | None]:
    """Give the longest duration that ended well, if above all limits, and a limit to ask for."""
    good = seen.ok & (seen.group == group) & (seen.wall > 0)
    top = float(seen.wall[good].max()) if good.any() else 0.0
    if top > (most or 0.0):
        return top, HEADROOM * top
    return None, STEP * most if most else None


def _as_sized(finding: Finding, seen: View, group: int, rows: Mask, tools: Tools) -> Finding:
    """Let a finding ask for what sizing asks for, where that is lent."""
    above = _too_short(seen, rows)
    found = sized(tools, "time", seen.groups[group], format_seconds, above=above)
    if found is None:
        return finding
    seconds, words = found
    return replace(
        finding,
        advice=f"Ask for {words}, or save the state before the limit and go on from there.",
        change=_change(seen, group, seconds),
    )


def _change(seen: View, group: int, seconds: float) -> str | None:
    minutes = max(1, int(np.ceil(seconds / 60.0)))
    name = seen.groups[group]
    lines: dict[Any, str] = {
        "slurm": f"#SBATCH --time={clock(minutes)}",
        "nextflow": f"process {{ withName: '{name}' {{ time = '{minutes} min' }} }}",
        "snakemake": f"rule {name}:  resources: runtime={minutes}",
    }
    return lines.get(seen.meta.get("engine"))
