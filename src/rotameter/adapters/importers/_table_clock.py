"""What ``1:30`` means in a column of durations: minutes and seconds, or hours and minutes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rotameter.adapters.importers._table_names import UNITS
from rotameter.adapters.importers._table_values import Style, duration_text, durations
from rotameter.units import format_seconds

__all__ = ["Clocks", "Durations"]

MINUTES_S, HOURS_S = 60.0, 3600.0
_TWO = r"^\s*\d{1,4}:[0-5]\d\s*$"
_FULL = r"\d:\d\d:\d\d|\d:\d\d[.,]\d"


@dataclass(frozen=True)
class Durations:
    """One column of durations: its name, the unit that was said, its cells, how they are written.

    A unit counts the first of two parts: with ``h``, ``1:30`` is 1 h 30 min.
    """

    name: str
    unit: str | None
    cells: pa.Array
    style: Style


class Clocks:
    """Tells what the first of two parts counts, by what else the file holds.

    Parameters
    ----------
    warn : callable
        Takes what is to be said.
    """

    def __init__(self, warn: Callable[[str], None]) -> None:
        self._warn = warn
        self._first_s: dict[str, float] = {}

    def first_s(self, name: str) -> float:
        """Give the seconds that 1 of the first of two parts is."""
        return self._first_s.get(name, MINUTES_S)

    def see(self, columns: Mapping[str, Durations], held: pa.Array | None) -> None:
        """Decide for the columns that have such cells; what was decided before stands.

        Parameters
        ----------
        columns : mapping
            By target; that of the duration itself is ``wall_s``.
        held : pyarrow.Array or None
            Seconds from start to end of each row.
        """
        open_ones = {
            target: one
            for target, one in columns.items()
            if one.name not in self._first_s and _has(one, _TWO) and not self._said(one)
        }
        if not open_ones:
            return
        shown, why = self._shown(open_ones, columns, held)
        for target, one in open_ones.items():
            self._first_s[one.name] = shown or MINUTES_S
            if why is not None:
                self._tell(target, one, why)

    def _said(self, one: Durations) -> bool:
        """Take what the unit says, or cells of three parts in the same column."""
        if one.unit is not None and UNITS[one.unit][0] == "seconds":
            hours = UNITS[one.unit][1] == HOURS_S
            self._first_s[one.name] = HOURS_S if hours else MINUTES_S
        elif _has(one, _FULL):
            self._first_s[one.name] = MINUTES_S
        return one.name in self._first_s

    def _shown(
        self,
        open_ones: Mapping[str, Durations],
        columns: Mapping[str, Durations],
        held: pa.Array | None,
    ) -> tuple[float | None, str | None]:
        """Give what start and end show, else what another column does; and what is said of it."""
        wall = open_ones.get("wall_s")
        if wall is not None and held is not None:
            ratio = pc.divide(held, durations(wall.cells, wall.style, None).values)
            ratio = ratio.filter(pc.match_substring_regex(wall.cells, _TWO))
            known = ratio.drop_null().to_numpy(zero_copy_only=False)
            known = known[np.isfinite(known) & (known > 0)]
            middle = float(np.median(known)) if len(known) else 0.0
            if 0.5 < middle < 2:
                return MINUTES_S, None
            if 30 < middle < 120:
                return HOURS_S, "start and end show"
        full = [one.name for one in columns.values() if _has(one, _FULL)]
        return (MINUTES_S, f"{full[0]} shows") if full else (None, "")

    def _tell(self, target: str, one: Durations, why: str) -> None:
        """Say how a cell is read, and what makes it the other."""
        at = pc.index(pc.fill_null(pc.match_substring_regex(one.cells, _TWO), False), True)
        text = one.cells[at.as_py()].as_py().strip()
        units = {MINUTES_S: "min", HOURS_S: "h"}
        mine = self._first_s[one.name]
        other = HOURS_S if mine == MINUTES_S else MINUTES_S
        read, if_not = (
            format_seconds(duration_text(text, one.style, first)) for first in (mine, other)
        )
        self._warn(
            f"{text} in {one.name} is read as {read}{', as ' + why if why else ''}; say --map "
            f"{target.removesuffix('_s')}={one.name}:{units[other]} if it is {if_not}"
        )


def _has(one: Durations, pattern: str) -> bool:
    if not pa.types.is_string(one.cells.type):
        return False
    return bool(pc.any(pc.match_substring_regex(one.cells, pattern)).as_py())
