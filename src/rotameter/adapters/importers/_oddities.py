"""What cannot be so, or hardly, in what was imported: it is kept as it is, and said."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rotameter.units import format_seconds, many

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

__all__ = ["lasts_longer", "oddities"]

_OVER, _SLACK_S = 1.05, 1.0
"""A clock that counts whole seconds, started a little later than the other, is not odd."""

_APART_S = 60.0
"""Clocks of two machines that are further apart are not merely unadjusted."""

_EMPTY_RATIO, _EMPTY_S, _FEWEST = 0.9, 86_400.0, 5
"""A log may pause over a weekend; a row of another year leaves nearly all of the span empty."""


def lasts_longer(wall_s: Floats, span_s: Floats) -> NDArray[np.bool_]:
    """Say which durations are longer than the time from start to end by more than clocks count.

    Examples
    --------
    >>> lasts_longer(np.array([100.0, 10.9, np.nan]), np.array([10.0, 10.0, 10.0])).tolist()
    [True, False, False]
    """
    with np.errstate(invalid="ignore"):
        longer: NDArray[np.bool_] = wall_s > _OVER * span_s + _SLACK_S
    return longer


def oddities(tables: Mapping[str, pa.Table], told_longer: int = 0) -> list[str]:
    """Say what is odd about the times of a run.

    Parameters
    ----------
    tables : mapping of str to pyarrow.Table
        ``tasks`` and ``workers`` of the schema.
    told_longer : int
        Attempts of which it was said that they last longer than from their start to their end.

    Returns
    -------
    list of str
        A sentence each.

    Examples
    --------
    >>> from rotameter.profiler.trace import Trace
    >>> row = {"task_id": "a", "started_ns": 0, "ended_ns": 10**10, "wall_s": 100.0}
    >>> oddities({name: Trace.from_tables({"tasks": [row]}).table(name)
    ...           for name in ("tasks", "workers")})
    ['1 attempt: a duration longer than from its start to its end']
    """
    tasks = tables["tasks"]
    begun, ended = (_seconds(tasks[name]) for name in ("started_ns", "ended_ns"))
    wall = tasks["wall_s"].to_numpy()
    words = []
    longer = int(lasts_longer(wall, ended - begun).sum()) - told_longer
    if longer > 0:
        words.append(f"{many(longer, 'attempt')}: a duration longer than from its start to its end")
    outside = _outside(tasks, tables["workers"], begun, ended)
    if outside:
        words.append(
            f"{many(outside, 'attempt')} ran when the worker's life had not begun or was over: are "
            "the clocks apart?"
        )
    empty = _empty(begun, ended)
    return [*words, empty] if empty else words


def _seconds(column: pa.ChunkedArray) -> Floats:
    made: Floats = pc.multiply(pc.cast(column, pa.float64(), safe=False), 1e-9).to_numpy()
    return made


def _outside(tasks: pa.Table, workers: pa.Table, begun: Floats, ended: Floats) -> int:
    """Count attempts outside every life of their worker's name by more than clocks differ.

    A name has several lives where a worker came back, or where runs share a table.
    """
    names = pc.unique(workers["worker"].drop_null())
    if not len(names) or tasks["worker"].null_count == len(tasks):
        return 0
    life = pc.fill_null(pc.index_in(workers["worker"], value_set=names), -1).to_numpy()
    mine = pc.fill_null(pc.index_in(tasks["worker"], value_set=names), -1).to_numpy()
    first, last = (_seconds(workers[name])[life >= 0] for name in ("started_ns", "ended_ns"))
    first, last = np.nan_to_num(first, nan=-np.inf), np.nan_to_num(last, nan=np.inf)
    life, n = life[life >= 0].astype(np.int64), len(first)
    # What began in time may lie in any of the lives begun until then, the one that ends last too.
    by_start, by_end = np.argsort(first, kind="stable"), np.argsort(last, kind="stable")
    began, ends = np.argsort(by_start), np.argsort(by_end)
    order = np.lexsort((began, life))
    latest = np.maximum.accumulate(life[order] * n + ends[order]) - life[order] * n
    known = mine >= 0
    mine = mine[known].astype(np.int64)
    until = np.nan_to_num(begun[known], nan=np.inf) + _APART_S
    count = np.searchsorted(first[by_start], until, side="right")
    keys = (life * (n + 1) + began)[order]
    at = np.searchsorted(keys, mine * (n + 1) + count, side="left") - 1
    none = (at < 0) | (life[order][at] != mine)
    with np.errstate(invalid="ignore"):
        over = ended[known] > last[by_end][np.where(none, 0, latest[at])] + _APART_S
    return int((none | over).sum())


def _empty(begun: Floats, ended: Floats) -> str:
    """Say that for nearly all of a run's time nothing ran; empty where that is not so."""
    both = ~(np.isnan(begun) | np.isnan(ended))
    if both.sum() < _FEWEST:
        return ""
    order = np.argsort(begun[both], kind="stable")
    start, end = begun[both][order], np.maximum.accumulate(ended[both][order])
    gap, span = float((start[1:] - end[:-1]).max()), float(end[-1] - start[0])
    if gap < _EMPTY_S or gap < _EMPTY_RATIO * span:
        return ""
    return (
        f"nothing ran for {format_seconds(gap)} of {format_seconds(span)}: are all dates right, "
        "and is this one run?"
    )
