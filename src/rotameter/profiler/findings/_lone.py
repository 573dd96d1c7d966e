"""A step that is one task: what is known of the cores that it could have had."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from rotameter.profiler.findings._cores import threads_of
from rotameter.profiler.findings._resources import asked_cores
from rotameter.units import format_number

if TYPE_CHECKING:
    from rotameter.profiler.view import View

__all__ = ["Alone", "Lone", "lone"]

ONE_STEP = 0.3
"""Where no group ran for this part of the time, there is no one step to split."""

BESIDE = 1.5
"""Where fewer groups than that ran at a time, they followed each other."""

COMPUTED = 0.5
"""What used less than this part of the cores that it held did not lack cores."""

_ELSE = "Overlap it with other work, or use fewer cores."


@dataclass(frozen=True, slots=True)
class Lone:
    """What to do about the one task of a step.

    Attributes
    ----------
    advice : str
    able : bool
        Whether it is known that there were cores to give to it.
    """

    advice: str
    able: bool


@dataclass(frozen=True, slots=True)
class Alone:
    """What ran while too little did.

    Attributes
    ----------
    groups : list of (int, float)
        With their shares of that time, longest first.
    one : Lone or None
        Of a step that is one task of an engine whose tasks are programs.
    at_once : float
        How many of the groups ran at a time, on average.
    """

    groups: list[tuple[int, float]]
    one: Lone | None
    at_once: float = 1.0

    @staticmethod
    def of(
        seen: View, groups: list[tuple[int, float]], *, gaps: bool, at_once: float = 1.0
    ) -> Alone:
        """Look whether a step is one task; where nothing ran there is no such step."""
        made = Alone(groups, None, at_once)
        programs = seen.meta.get("engine") not in (None, "python", "dask")
        one = programs and groups and not gaps and not made.many
        return replace(made, one=lone(seen, groups[0][0])) if one else made

    @property
    def many(self) -> bool:
        """Whether many groups ran in that time, none of them for a good part of it."""
        return bool(self.groups) and self.groups[0][1] < ONE_STEP

    @property
    def chain(self) -> bool:
        """Whether they ran one after another."""
        return self.many and self.at_once < BESIDE

    @property
    def unsure(self) -> bool:
        """Whether it is not known that anything but other work could fill the cores."""
        return self.one is not None and not self.one.able


def lone(seen: View, group: int) -> Lone | None:
    """Say what is known of a group's only task; None where it has several.

    That a task can be split, or its program use more cores, is on nobody's record. That there were
    cores to give is, where it is known what its worker has and what it held or used of that.
    """
    rows = np.flatnonzero(seen.ran & (seen.group == group))
    if len(rows) != 1:
        return None
    row, label = int(rows[0]), seen.label(group)
    has = float(threads_of(seen)[seen.worker[row]]) if seen.worker[row] >= 0 else float("nan")
    used = float(seen.number("cpu_s")[row] / seen.wall[row]) if seen.wall[row] > 0 else float("nan")
    asked = float(asked_cores(seen)[row])
    held = asked if asked > 0 else used
    if np.isnan(held):
        why = "how many cores it used or asked for is not on record, nor whether it can be split"
        return Lone(f"{label} is one task: {why}. {_ELSE}", able=False)
    verb = "asked for" if asked > 0 else "used"
    if asked > 0 and used < COMPUTED * asked:
        return Lone(
            f"{label} is one task, and used {format_number(used, 2)} of the {_cores(asked)} that "
            f"it asked for: more would not help. Look at what it waits for. {_ELSE}",
            able=False,
        )
    if has >= held + 1.0:
        return Lone(
            f"{label} is one task, and {verb} {format_number(held, 2)} of its worker's "
            f"{_cores(has)}: give it more of them, if its program can use them, or split it into "
            f"several tasks. {_ELSE}",
            able=True,
        )
    room = " all that its worker has" if has > 0 else f" {_cores(held)}"
    return Lone(
        f"{label} is one task, and {verb}{room}: whether it can be split, to use others as well, "
        f"is not on record. {_ELSE}",
        able=False,
    )


def _cores(count: float) -> str:
    return f"{format_number(count, 2)} core{'' if count == 1 else 's'}"
