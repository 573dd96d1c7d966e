"""RM114 skewed_partitions: a few pieces hold most of the data, and their tasks the time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from rotameter.profiler.findings._likes import (
    behind,
    comparable,
    grown_with,
    long_ones,
    sizes,
)
from rotameter.profiler.findings._replayed import by_replay
from rotameter.profiler.findings.base import Tools, group_median, worth_saying
from rotameter.profiler.findings.uneven_workers import slow_workers
from rotameter.profiler.replaying.changes import Scale
from rotameter.profiler.replaying.choose import chosen
from rotameter.profiler.replaying.model import PARTS
from rotameter.profiler.view import View, is_dask, view
from rotameter.units import format_bytes, format_number, format_seconds
from rotameter.values import Evidence, Finding

if TYPE_CHECKING:
    from rotameter.profiler.replaying.model import Model
    from rotameter.profiler.trace import Trace
    from rotameter.profiler.view import Mask

__all__ = ["Advisor", "Even"]

MOST_GROUPS = 30
"""A bound for the time it takes only: what is left out is missing where all are priced together."""
_WORDS = {"received_bytes": "data received"}
_INSIDE = tuple(PARTS.index(name) for name in ("compute", "read", "write"))


@dataclass(frozen=True, slots=True, eq=False)
class Even:
    """The chosen attempts share what they do evenly: each takes their mean.

    Attributes
    ----------
    tasks : ndarray of bool, shape (n attempts,)
    """

    tasks: Mask

    def apply(self, model: Model) -> Model:
        """Give the model with the change."""
        nodes = chosen(model, self.tasks)
        parts = model.parts_s.copy()
        for column in _INSIDE:
            parts[nodes, column] = parts[nodes, column].mean() if nodes.any() else 0.0
        return replace(model, parts_s=parts)


class Advisor:
    """Find groups whose longest tasks have the most data."""

    name = "skewed_partitions"

    def check(self, trace: Trace, tools: Tools) -> list[Finding]:
        """Look for skew."""
        seen = view(trace)
        rows = comparable(seen)
        long = long_ones(seen, rows)
        if not long.any():
            return []
        grown = grown_with(seen, rows, long)
        big = grown.is_ & ~slow_workers(seen).is_[seen.worker]
        extra = np.where(big, seen.wall - group_median(seen, seen.wall, rows)[seen.group], 0.0)
        sums = np.bincount(seen.group[big], extra[big], minlength=len(seen.groups))
        order = [int(g) for g in np.argsort(-sums, kind="stable") if worth_saying(seen, sums[g])]
        found = [self._group(seen, tools, g, big) for g in order[:MOST_GROUPS]]
        return [finding for finding in found if finding is not None]

    def _group(self, seen: View, tools: Tools, group: int, big: Mask) -> Finding | None:
        rows = comparable(seen) & (seen.group == group)
        wall = seen.wall[rows]
        n, median, top = len(wall), float(np.median(wall)), float(wall.max())
        cost = by_replay(
            seen,
            tools,
            Even(rows),
            Scale(behind(seen, big & rows), "stall", 0.0),
            bound_s=top - float(wall.mean()),
            bound_how="the longest less the mean of the group",
            how="as if the same work had been spread evenly over the group's tasks",
        )
        if cost is None:
            return None
        measure = grown_with(seen, comparable(seen), long_ones(seen, comparable(seen))).measure
        name = measure[group] or "input_bytes"
        size = sizes(seen)[name][rows]
        larger = float(np.nanmax(size)) / float(np.nanmedian(size))
        pieces = int(np.clip(np.ceil(top / max(median, 1e-9)), 2, 8))
        word = _WORDS.get(name) or name.removesuffix("_bytes").replace("_", " ")
        return Finding(
            code="RM114",
            kind="skewed_partitions",
            severity=cost.severity,
            title=(
                f"{seen.label(group)}: the longest of {n:,} tasks took {format_seconds(top)}, "
                f"{format_number(top / median, 2)} times the median, with "
                f"{format_number(larger, 2)} times the {word}"
            ),
            groups=(seen.groups[group],),
            evidence=(
                Evidence("longest / median", round(top / median, 3), "times", "measured", n),
                _largest(size, name, word),
                Evidence("tasks with more to do", int((big & rows).sum()), "", "counted", n),
                *_related(size, wall, name),
            ),
            **cost.fields,
            confidence="high" if n >= 8 else "medium",
            advice=(
                "Split the large pieces (repartition by size, split heavy keys), or start the "
                "longest ones first."
            ),
            change=(
                'ddf = ddf.repartition(partition_size="100MB")  # or salt the heavy keys'
                if is_dask(seen.meta)
                else None
            ),
            apply={
                "partitioning": {"factor": float(pieces)},
                "task_granularity": {"factor": 1.0 / pieces},
                "order": {"factor": None},
            },
        )


def _largest(size: np.ndarray, name: str, word: str) -> Evidence:
    """Compare the largest of some sizes with their median."""
    large, middle = float(np.nanmax(size)), float(np.nanmedian(size))
    shown = [
        format_bytes(one) if name.endswith("_bytes") else format_number(one)
        for one in (large, middle)
    ]
    how, n = " against ".join(shown), int((~np.isnan(size)).sum())
    return Evidence(f"largest {word} / median", round(large / middle, 3), "times", how, n)


def _related(size: np.ndarray, wall: np.ndarray, name: str) -> tuple[Evidence, ...]:
    """Give the rank correlation (Spearman) of size and duration."""
    good = ~np.isnan(size)
    if good.sum() < 6 or np.ptp(size[good]) == 0:
        return ()
    ranks = [np.argsort(np.argsort(x[good], kind="stable")) for x in (size, wall)]
    value = float(np.corrcoef(ranks[0], ranks[1])[0, 1])
    how = "rank correlation"
    return (Evidence(f"duration goes with {name}", round(value, 3), "", how, int(good.sum())),)
