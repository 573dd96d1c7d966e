"""What rules about computing and scheduling share: a cost by replay, or a stated bound."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rotameter.profiler.findings._together import Priced, against
from rotameter.profiler.findings.base import price, severity_of, worth_saying

if TYPE_CHECKING:
    from rotameter.profiler.findings.base import Tools
    from rotameter.profiler.replaying.changes import Change
    from rotameter.profiler.replaying.savings import Saving
    from rotameter.profiler.view import Floats, Mask, View

__all__ = ["LARGE_RATIO", "Cost", "at_most", "by_replay", "held_in_vain"]

LARGE_RATIO = 0.05
"""What was held in vain is worth a line from this part of all that was held."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Seconds off the makespan without a cause, and the fields of a finding that say so.

    Attributes
    ----------
    seconds : float
    fields : dict
        ``cost_s``, ``cost_gbh``, ``cost_core_h``, ``cost_s_interval80``, ``cost_how``, and where a
        replay told them ``what_if``.
    severity : {"critical", "warning", "info"}
    """

    seconds: float
    fields: dict[str, Any]
    severity: Any


def by_replay(
    seen: View,
    tools: Tools,
    *changes: Change,
    base: tuple[Change, ...] = (),
    bound_s: float,
    bound_how: str,
    how: str = "",
    widen: tuple[float, float] = (1.0, 1.0),
    most_s: float = float("inf"),
    saving: Saving | None = None,
) -> Cost | None:
    """Price changes by replay.

    Parameters
    ----------
    *changes : Change
        What the run would be like without the cause.
    base : tuple of Change
        Changes that describe the recorded run, not a better one; they are among ``changes`` too.
    bound_s : float
        Seconds that the cause costs at most where the run cannot be replayed.
    bound_how : str
        Where the bound comes from.
    how : str
        What the replay assumes.
    widen : (float, float)
        The interval's ends are at most and at least this part of the cost: what an assumption
        about the change itself leaves open.
    most_s : float
        The cost is never more than that.
    saving : Saving, optional
        What the replay says of ``changes``, where that is known already.

    Returns
    -------
    Cost or None
        None where the cause costs next to nothing.
    """
    if saving is None and tools.replay is not None:
        saving = tools.replay.saving(*changes)
    if saving is None or saving.mid_s is None:
        why = "there is no replay of the run" if saving is None else saving.how
        return at_most(seen, bound_s, f"{bound_how}; at most that: {why}")
    off, low, high = against(tools.replay, changes, base, saving)
    mid = min(max(0.0, off), most_s)
    if not worth_saying(seen, mid):
        return None
    low, high = min(low, mid * widen[0]), max(high, mid * widen[1])
    text = f"{how}; {saving.how}" if how else saving.how
    return Cost(
        mid,
        {
            **price(seen, mid),
            "cost_s_interval80": (round(max(0.0, low), 6), _capped(seen, high)),
            "cost_how": text,
            "what_if": Priced(_beyond(changes, base), base, widen, most_s),
        },
        severity_of(seen, mid),
    )


def _beyond(changes: tuple[Change, ...], base: tuple[Change, ...]) -> tuple[Change, ...]:
    """Give the changes less those that describe the recorded run."""
    return tuple(change for change in changes if not any(change is other for other in base))


def at_most(seen: View, bound_s: float, how: str) -> Cost | None:
    """Price by a bound: the cost lies between nothing and that."""
    seconds = max(0.0, min(bound_s, seen.makespan or 0.0))
    if not worth_saying(seen, seconds):
        return None
    return Cost(
        seconds,
        {
            **price(seen, seconds),
            "cost_s_interval80": (0.0, _capped(seen, seconds)),
            "cost_how": how,
        },
        severity_of(seen, seconds),
    )


def held_in_vain(
    seen: View, core_s: float, gbh: float | None, how: str, asked_core_s: float = 0.0
) -> Cost | None:
    """Price what was held in vain off the path of the run: no seconds, but cores and memory.

    Parameters
    ----------
    core_s : float
        Core-seconds held in vain.
    asked_core_s : float
        Core-seconds that all tasks held by their requests: the measure where the workers' are not
        on record.
    """
    held = (seen.slots or 0.0) * (seen.makespan or 0.0) or asked_core_s
    if held <= 0 or core_s < LARGE_RATIO * held:
        return None
    return Cost(
        0.0,
        {
            "cost_s": None if seen.makespan is None else 0.0,
            "cost_s_interval80": None,
            "cost_gbh": None if gbh is None else round(gbh, 9),
            "cost_core_h": round(core_s / 3600.0, 9),
            "cost_how": how,
        },
        "info",
    )


def _capped(seen: View, seconds: float) -> float:
    return round(min(seconds, seen.makespan or 0.0), 6)


def usual(seen: View, rows: Mask) -> Floats:
    """Give each attempt the median wall time of some attempts of its group; shape (n,)."""
    from rotameter.profiler.findings.base import group_median

    return np.asarray(group_median(seen, seen.wall, rows)[seen.group])
