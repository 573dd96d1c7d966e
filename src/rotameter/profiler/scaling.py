"""How a workflow grows: a law for every folded edge and task group, from runs of several scales.

Laws (c, c·k^a, c + d·k, c·k·log k, a/k) and their sample, evidence and intervals are in
:mod:`rotameter.profiler.laws`; here runs go in and predictions come out. A fold's total is its
number of instances times what one of them moves, each by its own law; where either cannot be
told, the law of the totals themselves is taken, and the result says which. What a whole run did,
and how long it took, is the sum of its parts' laws where all of them are known.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from rotameter.errors import UsageError
from rotameter.profiler.flow.graph import FlowGraph, flow_graph
from rotameter.profiler.laws.align import Aligned, align
from rotameter.profiler.laws.fit import Fit, Prediction, best_candidate, fit
from rotameter.profiler.laws.pooled import RunNoise, pooled_noise
from rotameter.profiler.laws.row import COVERAGE, ScalingRow, lines
from rotameter.profiler.laws.run_time import METRIC as RUN_TIME
from rotameter.profiler.laws.run_time import RUN, run_times
from rotameter.profiler.laws.sample import Series
from rotameter.profiler.laws.scales import scales_of
from rotameter.profiler.laws.summed import agrees, makes_up
from rotameter.units import format_number

if TYPE_CHECKING:
    from rotameter.profiler.trace import Trace

__all__ = [
    "Fit",
    "Prediction",
    "Scaling",
    "ScalingRow",
    "Series",
    "align",
    "fit",
    "scaling",
    "scaling_of",
]

_TEXT_ROWS = 40
_ROUNDS = 3
_AHEAD = (2.0, 16.0)
"""Multiples of the largest scale at which a law of the sum must agree with its parts."""
_METRICS = (RUN_TIME, "bytes", "ops", "busy_s", "wall_s")


@dataclass(frozen=True, slots=True, eq=False)
class Scaling:
    """Laws of all folds.

    Parameters
    ----------
    by : str
        What the scale is: ``data``, ``nodes``, …, or ``tasks``.
    scale : tuple of float
        One a run.
    rows : tuple of ScalingRow
        Within each metric the whole run first, then the largest totals.
    notes : tuple of str
    """

    by: str
    scale: tuple[float, ...]
    rows: tuple[ScalingRow, ...]
    notes: tuple[str, ...]

    @property
    def ahead(self) -> float:
        """Twice the largest scale: where predictions are made unless asked otherwise."""
        return 2 * max(self.scale)

    def of(self, metric: str, kind: str = "edge") -> list[ScalingRow]:
        """Give the rows of one metric."""
        return [row for row in self.rows if row.metric == metric and row.kind == kind]

    def total(self, metric: str, scale: float, *, direction: str | None = None) -> float | None:
        """Give the sum of all folds at a scale; the run's own law is in the rows of kind "run".

        Parameters
        ----------
        metric : str
        scale : float
        direction : {"reads", "writes"}, optional

        Returns
        -------
        float or None
            None where a fold's prediction is unknown.
        """
        rows = self.of(metric, {"wall_s": "group", RUN_TIME: "path"}.get(metric, "edge"))
        if direction is not None:
            rows = [row for row in rows if row.direction == direction]
        values = [row.predict_total(scale).value for row in rows]
        total = math.fsum(values) if rows else math.nan
        return total if math.isfinite(total) else None

    def to_dict(self, at: float | None = None) -> dict[str, Any]:
        """Give everything as plain data."""
        at = self.ahead if at is None else at
        return {
            "schema": 1,
            "by": self.by,
            "scale": list(self.scale),
            "at": at,
            "coverage": COVERAGE,
            "folds": [row.to_dict(at) for row in self.rows],
            "notes": list(self.notes),
        }

    def to_text(self, at: float | None = None, limit: int = _TEXT_ROWS) -> str:
        """Write the table: fold, law, what is expected at a scale with its 90 % interval."""
        at = self.ahead if at is None else at
        runs = ", ".join(format_number(k) for k in self.scale)
        text = [f"scaling by {self.by}: runs at {runs}; expected at {format_number(at)}"]
        # What the run time is made of comes last: it is told of where it is summed.
        for metric, path in (*((name, False) for name in _METRICS), (RUN_TIME, True)):
            mine = [r for r in self.rows if r.metric == metric and (r.kind == "path") == path]
            for row in mine[:limit]:
                text += lines(row, at)
            if len(mine) > limit:
                text.append(f"  … and {len(mine) - limit:,} smaller folds ({metric})")
        text += [f"note: {note}" for note in self.notes]
        return "\n".join(text)


def scaling(
    runs: Sequence[Trace | FlowGraph],
    *,
    scale: Sequence[float] | None = None,
    by: str | None = None,
) -> Scaling:
    """Find the laws by which a workflow grows.

    Parameters
    ----------
    runs : sequence of Trace or FlowGraph
        Of the same workflow at two scales or more.
    scale : sequence of float, optional
        One true value a run, above 0; by default the traces' own (``--scale NAME=VALUE``).
    by : str, optional
        Which scale of the traces; ``tasks`` = the observed number of tasks,
        ``tasks:GROUP`` = those of one group. Not needed where only one differs.

    Raises
    ------
    UsageError
        If there are fewer than two runs, or no scale that differs between them.

    Examples
    --------
    >>> from rotameter.profiler.trace import Trace
    >>> def run(k):
    ...     ids = [f"t{n}" for n in range(10)]
    ...     flows = [{"task_id": t, "object": t, "op": "read", "bytes": (1000 + n) * k}
    ...              for n, t in enumerate(ids)]
    ...     tasks = [{"task_id": t, "group": "load"} for t in ids]
    ...     return Trace.from_tables({"tasks": tasks, "flows": flows}, {"scale": {"data": k}})
    >>> found = scaling([run(1), run(2), run(4)])
    >>> found.by, found.of("bytes")[0].each.formula
    ('data', 'bytes = 1 kB · k')
    """
    if len(runs) < 2:
        raise UsageError("scaling needs two runs or more", hint="give runs of different scale")
    graphs = [run if isinstance(run, FlowGraph) else flow_graph(run) for run in runs]
    name, values, notes = scales_of(runs, graphs, scale, by)
    traces = [run for run in runs if not isinstance(run, FlowGraph)]
    time, parts = run_times(traces, values) if len(traces) == len(runs) else ({}, {})
    return scaling_of(align(graphs, values), values, name, notes, time, parts)


def scaling_of(
    found: Aligned,
    scale: Sequence[float],
    by: str = "k",
    notes: Sequence[str] = (),
    time: Mapping[str, Series] | None = None,
    parts: Mapping[str, Mapping[str, Series]] | None = None,
) -> Scaling:
    """Fit all folds of aligned runs.

    Parameters
    ----------
    found : Aligned
        See :func:`rotameter.profiler.laws.align.align`.
    scale : sequence of float
        One a run.
    by : str
        What the scale is.
    notes : sequence of str
    time, parts : mapping, optional
        See :func:`rotameter.profiler.laws.run_time.run_times`.
    """
    noise = _run_noise(found.edges) | _run_noise(found.groups)
    kinds = (("edge", found.edges), ("group", found.groups), ("path", parts or {}))
    rows = [
        row
        for kind, folds in kinds
        for key, metrics in folds.items()
        for row in _rows(key, kind, metrics, noise, found.direction.get(key))
    ]
    whole = {**found.whole, **({RUN: time} if time else {})}
    rows += [
        replace(row, parts=_parts(row, rows))
        for key, metrics in whole.items()
        for row in _rows(key, "run", metrics, noise, None)
    ]
    said = [
        f"{metric}: runs differ by {math.sqrt(one.variance):.2g} (relative) beyond their instances"
        for metric, one in sorted(noise.items())
    ]
    rows.sort(
        key=lambda r: (_METRICS.index(r.metric), r.kind != "run", -_largest(r.total.series), r.key)
    )
    return Scaling(by, tuple(scale), tuple(rows), (*notes, *found.notes, *said))


def _parts(whole: ScalingRow, rows: Sequence[ScalingRow]) -> tuple[ScalingRow, ...]:
    """Give what a run's sum is made of; nothing where a part or its law is not known."""
    verb = whole.key.removeprefix("all ")
    mine = [
        row
        for row in rows
        if row.metric == whole.metric and (row.direction is None or row.direction == verb)
    ]
    last = max(whole.total.series.scale)
    if not makes_up(whole.total.series, [row.total.series for row in mine]):
        return ()
    scales = sorted({*whole.total.series.scale, *(far * last for far in _AHEAD)})
    expected = [math.fsum(row.predict_total(k).value for row in mine) for k in scales]
    if not all(map(math.isfinite, expected)) or agrees(whole.total, scales, expected):
        return ()
    return tuple(sorted(mine, key=lambda r: (-_largest(r.total.series), r.key)))


def _largest(series: Series) -> float:
    return max((float(v[0]) for v in series.samples if v.size), default=0.0)


def _run_noise(folds: Mapping[str, Mapping[str, Series]]) -> dict[str, RunNoise]:
    """Give the variance between runs of each metric that shows one over all folds."""
    made: dict[str, RunNoise] = {}
    for metric in _METRICS:
        mine = [metrics[metric] for metrics in folds.values() if metric in metrics]
        noise: RunNoise | None = None
        for _ in range(_ROUNDS):
            best = [best_candidate(series, noise) for series in mine]
            noise = pooled_noise([one for one in best if one is not None])
            if noise is None:
                break
        if noise is not None:
            made[metric] = noise
    return made


def _rows(
    key: str,
    kind: str,
    metrics: Mapping[str, Series],
    noise: Mapping[str, RunNoise],
    direction: str | None,
) -> list[ScalingRow]:
    count = fit(metrics["count"])
    made = []
    for metric, series in metrics.items():
        if metric != "count":
            each, total = fit(series, noise.get(metric)), fit(_totals(series))
            made.append(ScalingRow(key, kind, metric, each, count, total, direction))
    return made


def _totals(series: Series) -> Series:
    """Sum each run; one whose instances are not all known has no total."""
    sums = tuple(
        np.array([v.sum()]) if len(v) and np.isfinite(v).all() else np.empty(0)
        for v in series.samples
    )
    return Series(series.key, series.metric, series.scale, sums)
