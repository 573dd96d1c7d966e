"""What all rules share: the interface, the tools they are handed, and how a loss is priced."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from rotameter.profiler.replaying.savings import Replayer
    from rotameter.profiler.trace import Trace
    from rotameter.profiler.view import Codes, Floats, Mask, View
    from rotameter.values import Finding

    Severity = str

__all__ = [
    "NEGLIGIBLE_RATIO",
    "Advisor",
    "Tools",
    "files_s",
    "group_median",
    "outliers",
    "price",
    "severity_of",
    "tracing_s",
]

NEGLIGIBLE_RATIO = 0.03
"""A cause that costs less than this part of the makespan is not worth a line."""

NEGLIGIBLE_S = 0.05
"""Nor is one that costs less than this."""

CRITICAL_S = 1.0
WARNING_S = 0.25
"""Less than this is never critical, nor a warning, however short the run."""

OUTLIER = 2.0
"""An attempt this many times as long as its group's median is far longer than usual."""


@runtime_checkable
class Advisor(Protocol):
    """One rule."""

    name: str

    def check(self, trace: Trace, tools: Tools) -> list[Finding]:
        """Look for the rule's cause; an empty list where it is not there."""


@dataclass(slots=True)
class Tools:
    """What higher parts lend to rules; each may be missing, and then a cost is a stated bound.

    Attributes
    ----------
    replay : Replayer or None
        ``replay.saving(*changes)`` prices a change by replaying the run with and without it.
    suggest : callable or None
        ``suggest(resource, group)`` gives what the group should ask for, as sizing has it: its
        ``amount``, ``retries``, whether it ``is_guess`` and the ``reason``; None: nothing is known.
    changes, price : callable or None
    notes : list of str
        What a rule could not tell, and why; filled by :meth:`cannot_tell`.
    """

    replay: Replayer | None = None
    suggest: Callable[..., Any] | None = None
    changes: Callable[..., Any] | None = None
    price: Callable[..., Any] | None = None
    notes: list[str] = field(default_factory=list)

    def cannot_tell(self, what: str, because: str) -> None:
        """Note once that something cannot be told."""
        note = f"cannot tell {what} because {because}"
        if note not in self.notes:
            self.notes.append(note)


def price(view: View, cost_s: float) -> dict[str, Any]:
    """Turn seconds off the makespan into ``cost_s``, ``cost_gbh`` and ``cost_core_h``.

    The workers' cores and memory are held for the run's whole length, so that a second less of
    it frees all of them for a second. Never more than the makespan.
    """
    seconds = max(0.0, min(cost_s, view.makespan or 0.0))
    memory = float(np.nansum(view.held["memory"])) if len(view.held) else 0.0
    cores = float(np.nansum(view.held["cores"])) if len(view.held) else 0.0
    if view.slots and cores > 0:
        memory *= view.slots / cores  # A replaced worker's memory is not held twice.
    return {
        "cost_s": round(seconds, 6),
        "cost_gbh": round(seconds * memory / 3.6e12, 9) if memory > 0 else None,
        "cost_core_h": round(seconds * view.slots / 3600.0, 9) if view.slots else None,
    }


def worth_saying(view: View, cost_s: Any) -> Any:
    """Say whether a cost (or each of an array of costs) is more than noise."""
    return cost_s >= max(NEGLIGIBLE_S, NEGLIGIBLE_RATIO * (view.makespan or 0.0))


def severity_of(view: View, cost_s: float) -> Any:
    """Grade a cost by its part of the makespan, and by what it is worth in itself.

    A third of a script that takes a fifth of a second is no reason to stop and change it.
    """
    share = cost_s / view.makespan if view.makespan else 0.0
    if share >= 0.3 and cost_s >= CRITICAL_S:
        return "critical"
    return "warning" if share >= 0.05 and cost_s >= WARNING_S else "info"


def files_s(meta: dict[str, Any]) -> float:
    """Give the seconds of :func:`tracing_s` that went into counting calls on files."""
    said = (meta.get("overhead") or {}).get("files_s")
    return float(said) if isinstance(said, (int, float)) and said >= 0 else 0.0


def tracing_s(meta: dict[str, Any]) -> float | None:
    """Give the seconds that measuring itself took in the tasks' threads; None where not said."""
    said = (meta.get("overhead") or {}).get("probe_s")
    return float(said) if isinstance(said, (int, float)) and said >= 0 else None


def group_median(view: View, values: Floats, rows: Mask) -> Floats:
    """Median by group over some attempts; shape (n_groups + 1,), the last (no group) is NaN."""
    from rotameter.profiler.groups import quantiles

    keys: Codes = np.where(rows, view.group, len(view.groups))
    masked = np.where(rows & (view.group >= 0), values, np.nan)
    medians = quantiles(
        np.where(keys < 0, len(view.groups), keys), masked, len(view.groups) + 1, (0.5,)
    )
    return np.asarray(medians[0])


def outliers(view: View) -> Mask:
    """Say which attempts ran far longer than their group's median (groups of five and more)."""
    sizes = np.bincount(view.group[view.ran & (view.group >= 0)], minlength=len(view.groups) + 1)
    median = group_median(view, view.wall, view.ran)
    usual = np.where(sizes >= 5, median, np.nan)[view.group]
    with np.errstate(invalid="ignore"):
        mask: Mask = view.ran & (view.wall > OUTLIER * usual)
    return mask


def settings(view: View) -> dict[str, float | None]:
    """Give the engine's settings that the trace recorded, by name."""
    found: dict[str, float | None] = {}
    for event in view.events("setting"):
        for name in (event["subject"], event["text"]):
            if name:
                found.setdefault(name.rpartition(".")[2], event["value"])
    return found
