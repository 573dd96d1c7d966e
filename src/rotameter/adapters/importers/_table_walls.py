"""Start, end and duration of the rows of a table: each from the other two, and checked by them."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rotameter.adapters.importers._table_derive import between, moved
from rotameter.adapters.importers._table_plain import differing

__all__ = ["Walls", "below_words", "unended", "usable"]

_UNITS_S = (1.0, 1e-3, 1e-6, 1e-9, 60.0, 3600.0, 86400.0)
_MINUTES = re.compile(r"[^A-Za-z](?:m|min|minute)[^A-Za-z]*$", re.I)
_OPEN = ("running", "worker_lost")


class Walls:
    """Completes the times of one file's rows.

    Parameters
    ----------
    warn : callable
        Takes what is to be said.
    """

    def __init__(self, warn: Callable[[str], None]) -> None:
        self._warn = warn
        self._factor: float | None = None
        self._agreed = False
        self._bare = ""
        self._below: str | None = None

    def bare(self, name: str) -> None:
        """Take note of a column of durations without a unit: seconds unless the times tell."""
        self._bare = name

    def derive(self, columns: dict[str, pa.Array], *, stated: bool) -> None:
        """Work out of two of start, end, duration and wait the third.

        Parameters
        ----------
        columns : dict
            Columns of ``tasks`` by name, and ``wait_s``; changed.
        stated : bool
            Whether the unit of the durations is known.
        """
        wait = columns.pop("wait_s", None)
        start, end, wall = (columns.get(c) for c in ("started_ns", "ended_ns", "wall_s"))
        held = between(start, end)
        if wall is not None:
            wall = columns["wall_s"] = self._positive(wall, held)
        if held is not None:
            if wall is not None and not stated:
                wall = self._checked(wall, held)
            if wall is not None and (said := differing(wall, held)):
                self._warn(said)
            columns["wall_s"] = held if wall is None else pc.coalesce(wall, held)
        if wall is not None:
            _third(columns, start, end, wall)
        if self._bare and not self._agreed:
            other = "min" if _MINUTES.search(self._bare) else "ms"
            self._warn(
                f"{self._bare} is read as seconds; say --map wall={self._bare}:{other} if it is not"
            )
        start = columns.get("started_ns")
        if wait is not None and start is not None and "submitted_ns" not in columns:
            columns["submitted_ns"] = moved(start, wait, -1)

    def _positive(self, wall: pa.Array, held: pa.Array | None) -> pa.Array:
        wall, below = usable(wall)
        if below is not None:
            self._below = self._below or f"{below:,.6g}"
            self._warn(below_words(self._below, instead=held is not None))
        return wall

    def _checked(self, wall: pa.Array, held: pa.Array) -> pa.Array:
        """Find the unit of a bare duration by what lies between start and end."""
        if self._factor is None:
            ratio = pc.divide(held, wall).to_numpy(zero_copy_only=False)
            ratio = ratio[np.isfinite(ratio) & (ratio > 0)]
            if not len(ratio):
                return wall
            middle = float(np.median(ratio))
            near = [f for f in _UNITS_S if abs(middle / f - 1) < 0.02]
            self._agreed, self._factor = bool(near), near[0] if near else 1.0
            if self._factor != 1.0:
                self._warn(f"durations count {near[0]:g} s each, as start and end show")
        return wall if self._factor == 1.0 else pc.multiply(wall, self._factor)


def unended(columns: dict[str, pa.Array]) -> None:
    """Leave out a duration of 0 of an attempt without an end: nobody has measured it yet.

    Without a column of ends only the outcome tells.

    Examples
    --------
    >>> columns = {"wall_s": pa.array([0.0, 0.0, 5.0]), "ended_ns": pa.array([None, 7, None])}
    >>> unended(columns)
    >>> columns["wall_s"].to_pylist()
    [None, 0.0, 5.0]
    """
    wall, end, outcome = (columns.get(c) for c in ("wall_s", "ended_ns", "outcome"))
    if wall is None or (end is None and outcome is None):
        return
    open_ones = pc.is_null(end) if end is not None else pc.is_in(outcome, value_set=pa.array(_OPEN))
    none = pc.and_(open_ones, pc.fill_null(pc.equal(wall, 0), False))
    if pc.any(none).as_py():
        columns["wall_s"] = pc.if_else(none, pa.scalar(None, wall.type), wall)


def _third(
    columns: dict[str, pa.Array], start: pa.Array | None, end: pa.Array | None, wall: pa.Array
) -> None:
    """Work out the start or the end of each row that has the other and a duration.

    What runs has lasted so far: its end is not known.
    """
    if start is not None:
        outcome = columns.get("outcome")
        made = moved(start, wall, 1)
        if outcome is not None:
            runs = pc.fill_null(pc.equal(outcome, "running"), False)
            made = pc.if_else(runs, pa.scalar(None, made.type), made)
        columns["ended_ns"] = made if end is None else pc.coalesce(end, made)
    if end is not None:
        made = moved(end, wall, -1)
        if start is not None:  # ended after 0 s and no start said: it never ran
            ran = pc.if_else(pc.greater(wall, 0), made, pa.scalar(None, made.type))
            made = pc.coalesce(start, ran)
        columns["started_ns"] = made


def below_words(example: str, *, instead: bool) -> str:
    """Say that durations below nothing are not used, and what is instead."""
    what = "not used: end - start is, where it is known" if instead else "left out"
    return f"durations below 0 (such as {example} s) are {what}"


def usable(wall: pa.Array) -> tuple[pa.Array, float | None]:
    """Leave out durations below nothing; give one of them too.

    Examples
    --------
    >>> made, below = usable(pa.array([-5.0, 2.0, None]))
    >>> made.to_pylist(), below
    ([None, 2.0, None], -5.0)
    """
    wrong = pc.fill_null(pc.less(wall, 0), False)
    if not pc.any(wrong).as_py():
        return wall, None
    first = wall[pc.index(wrong, True).as_py()].as_py()
    return pc.if_else(wrong, pa.scalar(None, wall.type), wall), first
