"""Findings of one code priced together: savings do not add up, so all are replayed at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from rotameter.profiler.figures import doubtful
from rotameter.profiler.findings.base import worth_saying
from rotameter.units import many
from rotameter.values import Together

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rotameter.profiler.replaying.changes import Change
    from rotameter.profiler.replaying.savings import Replayer, Saving
    from rotameter.profiler.view import View
    from rotameter.values import Finding

__all__ = ["Joint", "Priced", "WhatIf", "against", "together"]


@dataclass(frozen=True, slots=True)
class Joint:
    """Seconds that several causes cost at once: the middle, 80 % interval, and how they came."""

    mid_s: float
    low_s: float
    high_s: float
    how: str


@runtime_checkable
class WhatIf(Protocol):
    """How a finding was priced: what :func:`together` prices like findings by."""

    def with_(self, others: Sequence[Any], seen: View, replay: Replayer | None) -> Joint | None:
        """Price the causes of this finding and of others of its code at once; None: unknown."""


@dataclass(frozen=True, slots=True, eq=False)
class Priced:
    """A price by replay.

    Attributes
    ----------
    changes : tuple of Change
        What the run would be like without the cause. Changes that say all of something anew have a
        method ``beside(other)`` that makes one of two.
    base : tuple of Change
        Changes that describe the recorded run, made before.
    widen : (float, float)
        The interval's ends are at most and at least this part of the cost.
    most_s : float
        The cost is never more than that.
    """

    changes: tuple[Change, ...]
    base: tuple[Change, ...] = ()
    widen: tuple[float, float] = (1.0, 1.0)
    most_s: float = float("inf")

    def with_(self, others: Sequence[Any], seen: View, replay: Replayer | None) -> Joint | None:
        """Replay the run without all of these causes."""
        if replay is None or not all(isinstance(other, Priced) for other in others):
            return None
        parts: list[Priced] = [self, *others]
        base = max((part.base for part in parts), key=len)
        changes = (*base, *_merged([change for part in parts for change in part.changes]))
        saving = replay.saving(*changes)
        if saving.mid_s is None:
            return None
        mid, low, high = against(replay, changes, base, saving)
        mid = min(mid, sum(part.most_s for part in parts))
        return Joint(
            mid,
            min(low, mid * min(part.widen[0] for part in parts)),
            max(high, mid * max(part.widen[1] for part in parts)),
            saving.how,
        )


def _merged(changes: list[Change]) -> list[Change]:
    """Make one of those changes of which the later would undo the earlier."""
    made: list[Change] = []
    for change in changes:
        beside = getattr(change, "beside", None)
        like = [at for at, other in enumerate(made) if type(other) is type(change)]
        if beside is not None and like:
            made[like[0]] = beside(made[like[0]])
        else:
            made.append(change)
    return made


def against(
    replay: Replayer | None, changes: tuple[Change, ...], base: tuple[Change, ...], saving: Saving
) -> tuple[float, float, float]:
    """Give middle, low and high seconds, against the run as ``base`` describes it.

    How far that description is off in all, a saving is in proportion.
    """
    mid = saving.mid_s or 0.0
    low = mid if saving.low_s is None else saving.low_s
    high = mid if saving.high_s is None else saving.high_s
    if not base or replay is None or replay.replay is None:
        return mid, low, high
    recorded = replay.replay.recorded_s
    was, is_ = replay.makespan(*base), replay.makespan(*changes)
    if not was or is_ is None:
        return mid, low, high
    made = (was - is_) * recorded / was
    spread = abs(was - recorded)
    return (
        made,
        made - float(np.hypot(mid - low, spread)),
        made + float(np.hypot(high - mid, spread)),
    )


def together(
    seen: View, replay: Replayer | None, findings: Sequence[Finding]
) -> tuple[Together, ...]:
    """Price findings of one code together, where that is clearly more than the largest alone.

    Parameters
    ----------
    findings : sequence of Finding
        As ranked. Those without a price, or whose price may as well be none, take no part.
    """
    by_code: dict[str, list[tuple[int, Finding]]] = {}
    for rank, finding in enumerate(findings, start=1):
        if finding.cost_s and isinstance(finding.what_if, WhatIf) and not doubtful(finding):
            by_code.setdefault(finding.code, []).append((rank, finding))
    made = [_one(seen, replay, rows) for rows in by_code.values() if len(rows) > 1]
    return tuple(one for one in made if one is not None)


def _one(seen: View, replay: Replayer | None, rows: list[tuple[int, Finding]]) -> Together | None:
    found = [finding for _, finding in rows]
    first = found[0]
    joint = first.what_if.with_([finding.what_if for finding in found[1:]], seen, replay)
    if joint is None or not np.isfinite(joint.mid_s):
        return None
    makespan_s = seen.makespan or 0.0
    mid = min(joint.mid_s, makespan_s)
    if not worth_saying(seen, mid - max(finding.cost_s or 0.0 for finding in found)):
        return None
    low, high = (min(max(0.0, end), makespan_s) for end in (joint.low_s, joint.high_s))
    return Together(
        code=first.code,
        kind=first.kind,
        groups=tuple(dict.fromkeys(name for finding in found for name in finding.groups)),
        ranks=tuple(rank for rank, _ in rows),
        saving_s=round(mid, 6),
        saving_s_interval80=(round(min(low, mid), 6), round(max(high, mid), 6)),
        saving_how=f"{many(len(found), 'finding')} of {first.code} at once: {joint.how}",
    )
