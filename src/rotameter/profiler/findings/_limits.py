"""Workers that the batch system stopped at the time limit of their job."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from rotameter.profiler.findings.deaths import Death
    from rotameter.profiler.view import View

__all__ = ["age_of", "at_their_limit"]

_WORDS = ("walltime", "wall time", "time limit", "timelimit", "due to time")

SAME_AGE_RATIO = 0.05
SAME_AGE_S = 60.0
OLDEST_FEW = 2
"""So many workers stopped at the same age were stopped for it."""

YOUNGEST_S = 240.0
"""No batch system's limit is shorter than a few minutes."""


def age_of(seen: View, death: Death) -> float | None:
    """Give how long a worker had lived when it died, in seconds; None where unknown."""
    if death.worker not in seen.workers:
        return None
    code = seen.workers.index(death.worker)
    mine = seen.lives[seen.lives["worker"] == code]
    if not len(mine):
        return None
    end = death.at_s if death.at_s is not None else float(mine["ended"].max())
    return float(end - mine["started"].min())


def at_their_limit(seen: View, deaths: list[Death]) -> list[Death]:
    """Choose the deaths that a time limit brought: the log says so, or their age does.

    A worker that is asked to stop may have been pre-empted, or cancelled by a person. Several that
    were asked to at the same age, and not at one instant, had a limit.
    """
    asked = [death for death in deaths if death.cause == "walltime"]
    said = [d for d in asked if any(word in (d.reason or "").lower() for word in _WORDS)]
    rest = [d for d in asked if d not in said]
    ages = np.array([np.nan if (a := age_of(seen, d)) is None else a for d in rest])
    times = np.array([np.nan if d.at_s is None else d.at_s for d in rest])
    for k, death in enumerate(rest):
        near = np.abs(ages - ages[k]) <= max(SAME_AGE_RATIO * ages[k], 1.0)
        spread = np.ptp(times[near]) if near.any() and not np.isnan(times[near]).any() else 0.0
        if near.sum() >= OLDEST_FEW and ages[k] >= YOUNGEST_S and spread > SAME_AGE_S:
            said.append(death)
    return said
