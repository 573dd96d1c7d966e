"""Request against peak: what task groups asked for in memory, and what they needed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rotameter.profiler.view import view
from rotameter.viz.formats import clip
from rotameter.viz.tables import joint_kind

if TYPE_CHECKING:
    from rotameter.profiler.trace import Trace
    from rotameter.profiler.view import Floats, Mask, View

__all__ = ["memory_requests"]

_AT = (("min", 0.0), ("q25", 0.25), ("median", 0.5), ("q75", 0.75), ("p95", 0.95), ("max", 1.0))


def _spread(values: Floats) -> dict[str, int] | None:
    """Give quantiles that were observed (nearest rank), in bytes."""
    if not len(values):
        return None
    points = np.quantile(values, [q for _, q in _AT], method="inverted_cdf")
    return {name: round(float(x)) for (name, _), x in zip(_AT, points, strict=True)}


def _row(
    seen: View, name: str | None, rows: Any, peak: Floats, asked: Floats, lower: Mask
) -> dict[str, Any]:
    known = rows[~np.isnan(peak[rows])]
    whole = known[~lower[known]]
    # Attempts that were killed needed more than was seen of them.
    used = whole if len(whole) else known
    wanted = asked[rows]
    wanted = wanted[wanted > 0]
    both = known[asked[known] > 0]
    return {
        "group": None if name is None else clip(name, 200),
        "attempts": len(rows),
        "known": len(used),
        "lower_bounds": len(known) - len(whole),
        "killed_for_memory": int(seen.outcome_in("oom")[rows].sum()),
        "peak_kind": joint_kind(set(seen.peak_kinds[used].tolist())),
        "peak_bytes": _spread(peak[used]),
        "requested_bytes": _spread(wanted),
        "used_ratio": float(np.median(peak[both] / asked[both])) if len(both) else None,
    }


def memory_requests(trace: Trace) -> dict[str, Any] | str:
    """Give peaks and requests of memory by task group.

    Parameters
    ----------
    trace : Trace

    Returns
    -------
    dict or str
        ``groups``: quantiles of the peaks (of attempts whose peak is no lower bound, unless all
        are) and of what was granted, else requested, the groups that asked for most first; or
        why there is none.

    Examples
    --------
    >>> from rotameter.profiler.trace import Trace
    >>> tasks = [{"task_id": str(i), "group": "g", "peak_memory_bytes": 10**9 * i, "wall_s": 1.0,
    ...           "peak_memory_kind": "exact", "requested_memory_bytes": 10**10}
    ...          for i in (1, 2, 3)]
    >>> row = memory_requests(Trace.from_tables({"tasks": tasks}))["groups"][0]
    >>> row["peak_bytes"]["median"], row["requested_bytes"]["max"], row["used_ratio"]
    (2000000000, 10000000000, 0.2)
    """
    seen = view(trace)
    peak = seen.task_memory
    asked = seen.number("granted_memory_bytes").copy()
    blank = np.isnan(asked)
    asked[blank] = seen.number("requested_memory_bytes")[blank]
    usable = ~seen.outcome_in("cached") & (~np.isnan(peak) | (asked > 0))
    if not usable.any():
        return "neither peaks nor requests of memory were recorded"
    if np.isnan(peak[usable]).all():
        return "memory was requested, but no attempt's peak was recorded"
    lower = seen.peak_kinds == "lower_bound"
    group = np.where(usable, seen.group, -2)
    order = np.argsort(group, kind="stable")
    edges = np.flatnonzero(np.diff(group[order], prepend=-3))
    found = []
    for rows in np.split(order, edges[1:]):
        code = int(group[rows[0]])
        if code == -2:
            continue
        name = seen.groups[code] if code >= 0 else None
        found.append(_row(seen, name, rows, peak, asked, lower))
    found.sort(key=_size)
    return {
        "requested": bool((asked > 0).any()),
        "granted": bool((seen.number("granted_memory_bytes") > 0).any()),
        "groups": found,
    }


def _size(row: dict[str, Any]) -> tuple[int, int, str]:
    asked = row["requested_bytes"] or {"max": 0}
    used = row["peak_bytes"] or {"max": 0}
    return -max(asked["max"], used["max"]), -row["attempts"], row["group"] or ""
