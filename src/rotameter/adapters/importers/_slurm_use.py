"""What the steps of each job used, over all steps of all jobs at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow.compute as pc

from rotameter.adapters.importers._slurm_jobs import Joined
from rotameter.adapters.importers._slurm_together import in_turn, together
from rotameter.adapters.importers._slurm_values import MISSING_NS

__all__ = ["Use", "column", "either", "positive", "spread", "used"]


@dataclass(slots=True)
class Use:
    """What the steps of each job used; NaN is unknown.

    ``peak`` is the largest step's, ``joint`` that of the steps that ran at once, ``upper`` the same
    with every task of a step as large as its largest. Where ``turns``, only the lengths of
    steps say what ran at once: ``all``, ``gpu_all`` and ``upper`` are those of all steps.
    """

    peak: Any
    joint: Any
    all: Any
    turns: Any
    upper: Any
    bounded: Any
    cpu: Any
    read: Any
    write: Any
    energy: Any
    wall: Any
    first: Any
    last: Any
    gpu_memory: Any
    gpu_joint: Any
    gpu_all: Any
    gpu_percent: Any
    killed: Any


def column(table: Any, name: str, n: int) -> Any:
    """Give a column; all unknown where it is not there."""
    values = table.get(name)
    return np.full(n, np.nan) if values is None else values


def _most(n: int, at: Any, values: Any) -> Any:
    out = np.full(n, -np.inf)
    good = ~np.isnan(values)
    np.maximum.at(out, at[good], values[good])
    return np.where(np.isinf(out), np.nan, out)


def _sum(n: int, at: Any, values: Any) -> Any:
    good = ~np.isnan(values)
    total = np.bincount(at[good], weights=values[good], minlength=n)
    known = np.bincount(at[good], minlength=n) > 0
    return np.where(known, total, np.nan)


def positive(values: Any) -> Any:
    """Take 0 as "no sample was taken": what ran has some memory, some I/O, some CPU time."""
    return np.where((values > 0) & (values <= 2.0**53), values, np.nan)


def spread(jobs: Any, n: int) -> Any:
    """Say which jobs ran on several nodes."""
    nodes = either(column(jobs, "nodes", n), column(jobs, "tres_nodes", n))
    several = nodes > 1
    hosts = jobs.get("host")
    if hosts is not None:
        listed = pc.fill_null(pc.match_substring_regex(hosts, r"[\[,]"), False)
        several |= np.isnan(nodes) & listed.to_numpy(zero_copy_only=False)
    return several


def used(joined: Joined) -> Use:
    """Sum up the steps of each job: largest, joint, and in all."""
    jobs, steps, n, at = joined.jobs, joined.steps, joined.n, joined.job_of
    m = len(at)
    rss = positive(column(steps, "rss", m))
    tasks = column(steps, "tasks", m)
    own = positive(column(jobs, "rss", n))
    own_tasks = column(jobs, "tasks", n)
    peak = np.fmax(_most(n, at, rss), own)

    first, last = steps.get("start"), steps.get("end")
    turns = np.zeros(n, dtype=bool)
    if (first is None or last is None) and m:
        numbered = np.asarray(pc.match_substring_regex(steps["step"], r"^\d+$"), dtype=bool)
        first, last = in_turn(n, at, column(steps, "wall", m), column(jobs, "wall", n), numbered)
        turns[at[first != MISSING_NS]] = True

    def at_once(values: Any) -> Any:
        """Give the most that the steps held that ran at once."""
        return together(n, at, values, first, last)

    def in_all(values: Any, joint: Any) -> Any:
        """Give what all steps held, where it is not known which ran at once."""
        return np.where(turns, together(n, at, values, None, None), joint) if turns.any() else joint

    joint = at_once(rss)
    every = in_all(rss, joint)
    most = every
    if (tasks > 1).any():
        of_tasks = rss * np.fmax(tasks, 1)
        most = in_all(of_tasks, at_once(of_tasks))
    most = np.fmax(most, own * np.fmax(own_tasks, 1))
    gpu_memory = column(steps, "gpu_memory", m)
    gpu_joint = at_once(gpu_memory)
    # A step on several nodes has several tasks, even where their number was not asked for.
    several = (tasks > 1) | (np.isnan(tasks) & (column(steps, "nodes", m) > 1))
    bounded = np.zeros(n, dtype=bool)
    bounded[at[several & ~np.isnan(rss)]] = True
    bounded |= (own_tasks > 1) & ~np.isnan(own)
    # A step of one task sees its own node only, and one on all nodes has several tasks.
    bounded |= spread(jobs, n) & ~np.isnan(peak)
    killed = np.zeros(n, dtype=bool)
    outcome = steps.get("outcome")
    if outcome is not None and m:
        oom = pc.fill_null(pc.equal(outcome, "oom"), False).to_numpy(zero_copy_only=False)
        killed[at[oom]] = True
    times = {}
    for name, pick in (("start", np.minimum), ("end", np.maximum)):
        values = steps.get(name)
        edge = np.iinfo(np.int64).max if name == "start" else MISSING_NS
        out = np.full(n, edge, dtype=np.int64)
        if values is not None and m:
            good = values != MISSING_NS
            pick.at(out, at[good], values[good])
        times[name] = np.where(out == edge, MISSING_NS, out)
    return Use(
        peak=peak,
        joint=np.fmax(joint, peak),
        all=np.fmax(every, peak),
        turns=turns,
        upper=most,
        bounded=bounded,
        cpu=_sum(n, at, column(steps, "cpu", m)),
        read=_sum(n, at, column(steps, "read", m)),
        write=_sum(n, at, column(steps, "write", m)),
        energy=_most(n, at, column(steps, "energy", m)),
        wall=_most(n, at, column(steps, "wall", m)),
        first=times["start"],
        last=times["end"],
        gpu_memory=np.fmax(_most(n, at, gpu_memory), column(jobs, "gpu_memory", n)),
        gpu_joint=gpu_joint,
        gpu_all=in_all(gpu_memory, gpu_joint),
        gpu_percent=np.fmax(
            _most(n, at, column(steps, "gpu_peak_percent", m)),
            column(jobs, "gpu_peak_percent", n),
        ),
        killed=killed,
    )


def either(first: Any, second: Any) -> Any:
    """Give the first value, the second where that is unknown."""
    return np.where(np.isnan(first), second, first)
