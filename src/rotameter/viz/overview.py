"""How many attempts ran and how many waited, over the whole run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rotameter.profiler.view import view
from rotameter.viz.columns import Floats, Ints, ints, spans

if TYPE_CHECKING:
    from rotameter.profiler.trace import Trace

__all__ = ["area_path", "mean_running", "overview"]


def mean_running(start: Ints, end: Ints, edges: Floats) -> Floats:
    """Give the mean number of intervals open in each bin, exact for any bin width.

    Parameters
    ----------
    start, end : ndarray of int64, shape (n,)
    edges : ndarray of float64, shape (bins + 1,), in the same unit, rising

    Returns
    -------
    ndarray of float64, shape (bins,)

    Examples
    --------
    >>> mean_running(np.array([0, 5]), np.array([10, 10]), np.array([0.0, 5.0, 10.0])).tolist()
    [1.0, 2.0]
    """

    def area(at: Ints) -> Floats:
        # Time since each interval of the sorted list began, summed, at every edge.
        ordered = np.sort(at).astype(np.float64)
        before = np.searchsorted(ordered, edges, side="right")
        return before * edges - np.concatenate(([0.0], np.cumsum(ordered)))[before]

    return np.diff(area(start) - area(end)) / np.diff(edges)


def overview(trace: Trace, slices: int = 24, bins: int = 400) -> dict[str, Any] | None:
    """Give how many attempts ran and waited over the run, none counted inside another.

    Returns
    -------
    dict or None
        ``slices``: the table (start_s, end_s, running, waiting as means); ``running`` and
        ``waiting``: the curves over ``bins`` equal parts; waiting is None where no ready time
        was recorded. None where there are no times.
    """
    when = spans(trace)
    if when.first_ns is None or when.last_ns is None or not when.known.any():
        return None
    tasks = trace.table("tasks")
    first, last = when.first_ns, max(when.last_ns, when.first_ns + 1)
    use = when.known & ~view(trace).nested  # what runs inside another one is no further load
    if not use.any():
        return None
    start, end = when.start_ns[use] - first, when.end_ns[use] - first
    ready, has_ready = ints(tasks, "ready_ns")
    both = use & has_ready
    begin = np.minimum(ready[both], when.start_ns[both]) - first
    begun = when.start_ns[both] - first

    def curves(parts: int) -> tuple[Floats, Floats, Floats | None]:
        edges = np.linspace(0, last - first, parts + 1)
        waiting = mean_running(begin, begun, edges) if both.any() else None
        return edges, mean_running(start, end, edges), waiting

    _, running, waiting = curves(bins)
    edges, few_running, few_waiting = curves(slices)
    table = [
        {
            "start_s": round(edges[i] / 1e9, 6),
            "end_s": round(edges[i + 1] / 1e9, 6),
            "running": round(max(float(few_running[i]), 0.0), 3),
            "waiting": None if few_waiting is None else round(max(float(few_waiting[i]), 0.0), 3),
        }
        for i in range(slices)
    ]
    return {
        "span_s": round((last - first) / 1e9, 6),
        "bins": bins,
        "running": np.maximum(running, 0).round(3).tolist(),
        "waiting": None if waiting is None else np.maximum(waiting, 0).round(3).tolist(),
        "with_ready": int(both.sum()),
        "outermost": int(use.sum()),
        "slices": table,
    }


def area_path(values: list[float], top: float) -> str:
    """Give an SVG path that fills from the bottom (100) up to each value, one unit wide each.

    Examples
    --------
    >>> area_path([1, 1, 2], 2)
    'M0 100V50H2V0H3V100Z'
    """
    parts = ["M0 100"]
    last: str | None = None
    for x, number in enumerate(values):
        y = f"{100 - 100 * min(number / top, 1) if top > 0 else 100:.4g}"
        if y != last:
            parts.append(f"{f'H{x}' if x else ''}V{y}")
            last = y
    return "".join(parts) + f"H{len(values)}V100Z"
