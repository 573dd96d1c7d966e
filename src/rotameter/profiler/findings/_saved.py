"""What attempts would run shorter (or longer) without a cause, and what that is worth."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from rotameter.profiler.findings._together import Priced
from rotameter.profiler.findings.base import price, severity_of, worth_saying
from rotameter.profiler.groups import _outer
from rotameter.profiler.replaying.model import PARTS
from rotameter.units import format_seconds

if TYPE_CHECKING:
    from rotameter.profiler.findings.base import Tools
    from rotameter.profiler.replaying.changes import Change
    from rotameter.profiler.replaying.model import Model
    from rotameter.profiler.view import Floats, Mask, View

__all__ = ["LARGE_LOSS_RATIO", "Saved", "Shorter", "priced"]

LARGE_LOSS_RATIO = 0.05
"""A loss off the critical path is worth a line from this part of what was held."""

LEAST_UNPRICED_S = 1.0
"""Where the run's length is unknown, less task time than this is nothing."""

_INSIDE = ("compute", "read", "write")
_DEEPEST = 64


@dataclass(frozen=True, slots=True, eq=False)
class Shorter:
    """Attempts run so many seconds shorter (negative: longer), taken from the parts in order.

    Attributes
    ----------
    by_s : ndarray of float64
        Seconds of each attempt (row of the trace's tasks); 0 = as it was.
    first : {"read", "write", "compute"}
        The part that it is taken from first; then from the others.
    """

    by_s: Floats
    first: str = "read"

    def apply(self, model: Model) -> Model:
        """Give the model with the change."""
        known = model.row >= 0
        left = np.where(known, self.by_s[np.where(known, model.row, 0)], 0.0)
        parts = model.parts_s.copy()
        for name in (self.first, *(other for other in _INSIDE if other != self.first)):
            column = PARTS.index(name)
            taken = np.minimum(left, parts[:, column])
            parts[:, column] -= taken
            left = left - taken
        return replace(model, parts_s=parts)


@dataclass(frozen=True, slots=True)
class Saved:
    """What a cause costs.

    Attributes
    ----------
    fields : dict
        ``cost_s``, ``cost_s_interval80``, ``cost_gbh``, ``cost_core_h``, ``cost_how`` of a finding,
        and where a replay told them ``what_if``.
    severity : {"critical", "warning", "info"}
    """

    fields: dict[str, Any]
    severity: Any

    @property
    def cost_s(self) -> float | None:
        """Seconds off the makespan; None where unknown."""
        value: float | None = self.fields["cost_s"]
        return value


def outermost(seen: View, by_s: Floats) -> Floats:
    """Move seconds of attempts inside others to the attempt around them."""
    up = _outer(seen)
    made = by_s.copy()
    for _ in range(_DEEPEST):
        inner = np.flatnonzero((up >= 0) & (made != 0) & seen.nested)
        if not inner.size:
            break
        moved = made[inner]
        made[inner] = 0.0
        np.add.at(made, up[inner], moved)
    return made


def priced(
    seen: View,
    tools: Tools,
    by_s: Floats,
    how: str,
    *,
    first: str = "read",
    more: tuple[Change, ...] = (),
    range_: tuple[float, float] = (1.0, 1.0),
    share: float | None = None,
) -> Saved | None:
    """Price seconds that attempts would run shorter.

    Parameters
    ----------
    by_s : ndarray of float64, shape (n,)
        Seconds that each attempt (row of ``tasks``) would be shorter; negative: longer.
    how : str
        Where those seconds come from.
    more : tuple of Change
        Further changes, made before.
    range_ : (float, float)
        The seconds may be this part (low, high) of what they are taken for.
    share : float, optional
        Part of all I/O (0–1) that the cause is about: grades it where no time can be told.

    Returns
    -------
    Saved or None
        None where the cause costs next to nothing.
    """
    by_s = outermost(seen, np.where(np.isfinite(by_s), by_s, 0.0))
    total = float(by_s[by_s > 0].sum())
    replay = tools.replay
    changes = (*more, Shorter(by_s, first))
    saving = replay.saving(*changes) if replay is not None else None
    if saving is None or saving.mid_s is None:
        return _unpriced(total, how, None if saving is None else saving.how, share)
    mid = max(0.0, saving.mid_s)
    if not worth_saying(seen, mid):
        return _off_path(seen, by_s, total, how)
    low, high = saving.low_s, saving.high_s
    assert low is not None and high is not None
    return Saved(
        {
            **price(seen, mid),
            "cost_s_interval80": (
                round(max(0.0, min(low, mid) * range_[0]), 6),
                round(max(high, mid) * range_[1], 6),
            ),
            "cost_how": f"{how}; {saving.how}",
            "what_if": Priced(changes, widen=range_),
        },
        severity_of(seen, mid),
    )


def _unpriced(total: float, how: str, why: str | None, share: float | None) -> Saved | None:
    if share is None or share < LARGE_LOSS_RATIO or total < LEAST_UNPRICED_S:
        return None
    because = why or "there is no replay of the run"
    return Saved(
        {
            "cost_s": None,
            "cost_s_interval80": None,
            "cost_gbh": None,
            "cost_core_h": None,
            "cost_how": (
                f"{how}: {format_seconds(total)} summed over tasks; what that is off the run "
                f"cannot be told: {because}"
            ),
        },
        "warning" if share >= 0.3 else "info",
    )


def _off_path(seen: View, by_s: Floats, total: float, how: str) -> Saved | None:
    """Say what was held in vain where the run would not have been shorter."""
    held = (seen.slots or 0.0) * (seen.makespan or 0.0)
    if not held or total < LARGE_LOSS_RATIO * held:
        return None
    cores = seen.number("requested_cores")
    cores = np.where(np.isnan(cores) | (cores <= 0), 1.0, cores)
    core_s = float((np.maximum(by_s, 0.0) * cores).sum())
    return Saved(
        {
            "cost_s": 0.0,
            "cost_s_interval80": None,
            "cost_gbh": None,
            "cost_core_h": round(core_s / 3600.0, 9),
            "cost_how": (
                f"{how}; the run would not have been shorter, but {format_seconds(core_s)} of core "
                "time were held for it"
            ),
        },
        "info",
    )


def by_attempt(seen: View, row: Any, seconds: Floats, keep: Mask) -> Floats:
    """Sum seconds by attempt; shape (n,), never more than the attempt's time."""
    good = keep & (row >= 0) & np.isfinite(seconds)
    made = np.bincount(row[good], seconds[good], minlength=seen.n).astype(np.float64)
    wall = np.nan_to_num(seen.wall, nan=np.inf)
    return np.asarray(np.minimum(made, wall))
