"""Sizing: what each task group should ask for, and why; as ``rotameter size`` says it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from rotameter.profiler.view import view
from rotameter.viz.formats import clip
from rotameter.viz.sections.others import others
from rotameter.viz.tables import joint_kind

if TYPE_CHECKING:
    from rotameter.allocator.advice import Advice
    from rotameter.allocator.workload import Workload
    from rotameter.profiler.trace import Trace

__all__ = ["HEADROOM", "MAX_KILL", "sizing"]

MAX_KILL, HEADROOM = 0.01, 0.1
"""As the command has them where nothing else is said."""


def sizing(trace: Trace) -> dict[str, Any] | str:
    """Give what each task group should ask for, and why: memory first, then what else has advice.

    Parameters
    ----------
    trace : Trace

    Returns
    -------
    dict or str
        ``groups``: one row a group, those that held most first, from
        :func:`~rotameter.allocator.advice.advise`; sums over the groups that have both sides; or
        why there is none of any resource. ``missing`` says why there is none of memory.

    Examples
    --------
    >>> from rotameter.profiler.trace import Trace
    >>> tasks = [{"task_id": str(i), "group": "g", "outcome": "ok", "wall_s": 3600.0,
    ...           "peak_memory_bytes": 10**9, "peak_memory_kind": "exact",
    ...           "requested_memory_bytes": 10**10} for i in range(9)]
    >>> made = sizing(Trace.from_tables({"tasks": tasks}))
    >>> made["groups"][0]["request_bytes"], made["asked_gbh"], made["advised_gbh"]
    (1100000000, 90.0, 9.9)
    """
    from rotameter.allocator.advice import FEWEST, advise
    from rotameter.allocator.recorded import from_trace
    from rotameter.allocator.resources import MEMORY

    work = from_trace(trace)
    missing, rest = _missing(trace, work), others(trace)
    if missing is not None and not rest:
        return missing
    advice = advise(work, max_kill=MAX_KILL, headroom=HEADROOM)
    both = [(a, b) for a, b in ((x.asked_held, x.advised_held) for x in advice) if a and b]
    return {
        "max_kill_ratio": MAX_KILL,
        "headroom_ratio": HEADROOM,
        "floor_bytes": round(MEMORY.floor),
        "fewest_runs": FEWEST,
        "runs": len(work),
        "advised_groups": sum(one.request is not None for one in advice),
        "larger_groups": sum(map(_asks_more, advice)),
        "compared_groups": len(both),
        "asked_gbh": math.fsum(a for a, _ in both) if both else None,
        "advised_gbh": math.fsum(b for _, b in both) if both else None,
        "notes": list(work.notes),
        "groups": [_row(one) for one in advice],
        "missing": missing,
        "others": rest,
    }


def _missing(trace: Trace, work: Workload) -> str | None:
    """Say why there is no advice on memory; None where there is some."""
    if len(work) or work.lacks:
        return None
    if np.isnan(view(trace).task_memory).all():
        return "no peak of memory was recorded, so there is nothing to size requests from"
    return "no completed task has both a peak of memory (not only a lower bound) and a duration"


def _asks_more(one: Advice) -> bool:
    """Say whether a group's request is too small; one below the least that is advised is not."""
    from rotameter.allocator.resources import MEMORY

    asked, advised = one.asked, one.request
    if one.at_least is not None:
        return True
    return asked is not None and advised is not None and advised > max(asked, MEMORY.floor)


def _row(one: Advice) -> dict[str, Any]:
    kinds = set(one.kinds) | ({"upper_bound"} if one.at_most else set())
    return {
        "group": None if one.group == "(unnamed)" else clip(one.group, 200),
        "runs": one.runs,
        "median_bytes": _whole(one.median),
        "p95_bytes": _whole(one.p95),
        "most_bytes": _whole(one.most),
        "peak_kind": "upper_bound" if kinds and one.at_most == one.runs else joint_kind(kinds),
        "upper_bounds": one.at_most,
        "killed_for_memory": one.killed,
        "killed_bytes": _whole(one.killed_with),
        "asked_bytes": _whole(one.asked),
        "request_bytes": _whole(one.request),
        "retry_bytes": [round(value) for value in one.retries],
        "enough_ratios": list(one.enough_ratios),
        "kill_ratio": one.kill_ratio,
        "kill_range": None if one.kill_range is None else list(one.kill_range),
        "unsure_runs": one.unsure,
        "at_least_bytes": _whole(one.at_least),
        "guess_bytes": _whole(one.guess),
        "kill_interval95": None if one.kill_interval is None else list(one.kill_interval),
        "used_gbh": one.used_held,
        "asked_gbh": one.asked_held,
        "advised_gbh": one.advised_held,
        "reason": one.reason,
    }


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)
