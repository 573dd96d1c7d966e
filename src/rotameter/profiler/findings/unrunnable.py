"""RM143 unrunnable: tasks never start, as no worker (or node) has what they ask for."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from rotameter.profiler.hang_words import unrunnable
from rotameter.profiler.usage import is_job_log
from rotameter.profiler.view import View, is_dask, short, view
from rotameter.units import many
from rotameter.values import Evidence, Finding

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rotameter.profiler.findings.base import Tools
    from rotameter.profiler.trace import Trace
    from rotameter.profiler.view import Codes, Mask

__all__ = ["Advisor"]

_ASKS = re.compile(
    r"asks for ([^=,]+)=([\d.e+]+)(?:; the most that one offers is ([\d.e+]+)|, which no worker)"
)

# Slurm, "Job Reason Codes": those that stay until the job or the limits are changed. What passes by
# itself (Resources, Priority, limits of a user's jobs in all) is not among them.
_NEVER = re.compile(
    r"\b(?:BadConstraints|Partition(?:Node|Time)Limit|(?:Assoc|QOS)Max\w*?Per(?:Job|Node)\w*|"
    r"QOSMin\w+|DependencyNeverSatisfied)\b|\bCan Never Run\b[^\n]*"
)
_COLUMNS = (
    ("requested_cores", "cores", "cores"),
    ("requested_memory_bytes", "memory", "B"),
    ("requested_gpus", "GPUs", ""),
    ("requested_nodes", "nodes", ""),
    ("requested_wall_s", "time limit", "s"),
)
_ABOUT = {
    "requested_cores": re.compile(r"Cpu|ncpus", re.IGNORECASE),
    "requested_memory_bytes": re.compile(r"Mem", re.IGNORECASE),
    "requested_gpus": re.compile(r"GRES|ngpus", re.IGNORECASE),
    "requested_nodes": re.compile(r"Node(?:PerJob|s|Limit)|MinNode"),
    "requested_wall_s": re.compile(r"Time|Wall", re.IGNORECASE),
}


class Advisor:
    """Find tasks that could never start."""

    name = "unrunnable"

    def check(self, trace: Trace, tools: Tools) -> list[Finding]:
        """Look for requests that nothing there was could meet."""
        seen = view(trace)
        by_why: dict[str, dict[str | None, int]] = {}
        for group, why, count in unrunnable(seen):
            by_why.setdefault(why, {})[group] = count
        found = [_of_workers(seen, why, counts) for why, counts in by_why.items()]
        return [*found, *_of_jobs(seen)]


# -- an engine's own workers ----------------------------------------------------------------------


def _of_workers(seen: View, why: str, counts: dict[str | None, int]) -> Finding:
    n = sum(counts.values())
    groups = sorted(counts, key=lambda group: (-counts[group], group or ""))
    asked = [(m[1], float(m[2]), float(m[3] or 0.0)) for m in _ASKS.finditer(why)]
    each = ("it " if n == 1 else "each ") if why.startswith(("asks for", "may run")) else ""
    advice, change = _remedy(seen, why, asked)
    return Finding(
        code="RM143",
        kind="unrunnable",
        severity="critical",
        title=f"{many(n, 'task')} of {_labels(groups)} never started: {each}{short(why, 120)}",
        groups=tuple(group for group in groups if group is not None),
        evidence=(
            Evidence("tasks that never started", n, "", "the scheduler's count", n),
            *(
                fact
                for name, need, most in asked
                for fact in (
                    Evidence(f"{name} asked for", need, "", "recorded", n),
                    Evidence(f"most {name} of any worker", most, "", "recorded", len(seen.lives)),
                )
            ),
            Evidence("why", why, "", "as the scheduler has it"),
        ),
        cost_how="cannot be told: they never started",
        confidence="high" if asked else "medium",
        advice=advice,
        change=change,
    )


def _labels(groups: Iterable[str | None]) -> str:
    names = [f"`{short(group)}`" for group in groups]
    more = f" and {len(names) - 2} more groups" if len(names) > 2 else ""
    return ", ".join(names[:2]) + more if more else " and ".join(names)


def _remedy(seen: View, why: str, asked: list[tuple[str, float, float]]) -> tuple[str, str | None]:
    if asked or why.startswith("asks for"):
        offer = " ".join(f"{name}={need:g}" for name, need, _ in asked)
        change = f'dask worker … --resources "{offer}"' if offer and is_dask(seen.meta) else None
        return "Start workers that offer it, all of it on one, or ask for less.", change
    if why.startswith("may run"):
        return (
            "Start a worker there, or let others take it (allow_other_workers=True).",
            "client.submit(f, item, workers=[…], allow_other_workers=True)"
            if is_dask(seen.meta)
            else None,
        )
    if "no worker" in why and why.startswith("the cluster"):
        return (
            "Start workers, and look why those that were asked for did not come (the batch "
            "system's queue, the limits of an adaptive cluster).",
            None,
        )
    return "Look at what it asks for, and start a worker that may take it.", None


# -- jobs of a batch system -----------------------------------------------------------------------


def _of_jobs(seen: View) -> list[Finding]:
    """Tell of jobs that their batch system says can never start."""
    if seen.tasks["error"].null_count == seen.n:
        return []
    never = np.isnan(seen.started) & ~(np.nan_to_num(seen.number("wall_s")) > 0)
    rows = np.flatnonzero(never & seen.outcome_in("unknown", "cancelled", None))
    by_reason: dict[str, list[int]] = {}
    for row, text in zip(rows.tolist(), seen.tasks["error"].take(rows).to_pylist(), strict=True):
        match = _NEVER.search(text or "")
        if match is not None:
            by_reason.setdefault(match[0].strip(), []).append(row)
    return [_job_finding(seen, reason, np.array(at)) for reason, at in by_reason.items()]


def _job_finding(seen: View, reason: str, at: Codes) -> Finding:
    n = len(np.unique(seen.task[at]))
    count = np.bincount(seen.group[at][seen.group[at] >= 0], minlength=len(seen.groups))
    groups = [int(g) for g in np.argsort(-count, kind="stable") if count[g] > 0]
    label = f" of {seen.label(groups[0])}" if len(groups) == 1 else ""
    depends = reason == "DependencyNeverSatisfied"
    return Finding(
        code="RM143",
        kind="unrunnable",
        severity="warning" if is_job_log(seen) else "critical",
        title=f"{many(n, 'job')}{label} can never start: {_words(reason, n)} ({short(reason, 60)})",
        groups=tuple(seen.groups[g] for g in groups[:3]),
        evidence=(
            Evidence("jobs that cannot start", n, "", "their recorded reason", seen.n),
            *(() if depends else _asked_for(seen, reason, at)),
            Evidence("reason", reason, "", "as the batch system has it"),
        ),
        cost_how="cannot be told: they never started",
        # Nodes that are down for a while give the same reason.
        confidence="medium" if reason == "PartitionNodeLimit" else "high",
        advice=_advice(seen, n, depends=depends),
    )


def _advice(seen: View, n: int, *, depends: bool) -> str:
    it, they, depend = ("it", "it", "depends") if n == 1 else ("them", "they", "depend")
    if depends:
        return f"Cancel {it}, and submit {it} again when what {they} {depend} on has ended well."
    slurm = " (`scontrol show partition`, `sinfo -o '%P %l %c %m %G'`)"
    where = slurm if seen.meta.get("engine") == "slurm" else ""
    return f"Cancel {it}, and ask for what the partition, the QOS and its nodes allow{where}."


def _words(reason: str, n: int) -> str:
    they, s = ("it", "s") if n == 1 else ("they", "")
    if reason == "DependencyNeverSatisfied":
        return f"what {they} depend{s} on did not end as {they} ask{s}"
    if reason.startswith("QOSMin"):
        return f"{they} ask{s} for less than the QOS wants"
    if reason == "BadConstraints":
        return f"no node has all that {they} ask{s} for"
    return f"{they} ask{s} for more than is allowed or there"


def _asked_for(seen: View, reason: str, at: Codes) -> tuple[Evidence, ...]:
    """Give what they asked for, against the most with which a job of their queue started."""
    about = [column for column, words in _ABOUT.items() if words.search(reason)]
    began: Mask = ~np.isnan(seen.started)
    queues = seen.tasks["queue"].to_pylist() if began.any() else []
    mine = {queues[row] for row in at.tolist()} if queues else set()
    same = np.array([queue in mine for queue in queues], dtype=bool) if queues else began
    facts = []
    for column, name, unit in _COLUMNS:
        asked = seen.number(column)[at]
        if np.isnan(asked).all() or (about and column not in about):
            continue
        others = seen.number(column)[began & same]
        most = None if np.isnan(others).all() else float(np.nanmax(others))
        known = int((~np.isnan(others)).sum())
        how = "of jobs of their queue" if most is not None else "not on record"
        facts += [
            Evidence(f"{name} asked for", float(np.nanmax(asked)), unit, "largest", len(at)),
            Evidence(f"most {name} that a job started with", most, unit, how, known),
        ]
    return tuple(facts)
