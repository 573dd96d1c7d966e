"""Sizing beside memory: time, cores, disk and GPUs, the groups with advice."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rotameter.viz.formats import clip

if TYPE_CHECKING:
    from rotameter.allocator.advised import Advice
    from rotameter.profiler.trace import Trace

__all__ = ["OTHERS", "others"]

OTHERS = ("time", "cores", "disk", "gpu_memory", "gpus")


def others(trace: Trace) -> list[dict[str, Any]]:
    """Give what task groups should ask for besides memory, one entry a resource with advice.

    A limit of time is advised only where one is on record: what has none waits for none.

    Parameters
    ----------
    trace : Trace

    Examples
    --------
    >>> from rotameter.profiler.trace import Trace
    >>> tasks = [{"task_id": str(i), "group": "g", "outcome": "ok", "wall_s": 3600.0,
    ...           "requested_wall_s": 86400.0} for i in range(9)]
    >>> (made,) = others(Trace.from_tables({"tasks": tasks}))
    >>> made["resource"], made["groups"][0]["request"]
    ('time', 4500.0)
    """
    from rotameter.allocator.by_resource import advise_on, needs_of

    made = []
    for name in OTHERS:
        work = needs_of(trace, name)
        if not len(work) and not work.lacks:
            continue
        advice = advise_on(work)
        if name == "time" and not any(one.asked is not None or one.killed for one in advice):
            continue
        told = [one for one in advice if one.request is not None or one.at_least is not None]
        if told:
            made.append(
                {
                    "resource": name,
                    "word": work.resource.word,
                    "unit": work.resource.unit,
                    "runs": len(work),
                    "known_groups": len(advice),
                    "kills": work.resource.kills,
                    "notes": list(work.notes),
                    "groups": [_row(one) for one in told],
                }
            )
    return made


def _row(one: Advice) -> dict[str, Any]:
    return {
        "group": None if one.group == "(unnamed)" else clip(one.group, 200),
        "runs": one.runs,
        "median": one.median,
        "most": one.most,
        "asked": one.asked,
        "request": one.request,
        "retry": list(one.retries),
        "killed": one.killed,
        "at_least": one.at_least,
        "guess": one.guess,
        "kill_interval95": None if one.kill_interval is None else list(one.kill_interval),
        "reason": one.reason,
    }
