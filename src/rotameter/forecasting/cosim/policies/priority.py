"""Priorities of age, size and fair share, with EASY backfilling under them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rotameter.errors import PolicyError
from rotameter.forecasting.cosim.policies.easy import Easy

if TYPE_CHECKING:
    from rotameter.forecasting.cosim.state import BatchState

__all__ = ["FairShare", "Priority"]

_WEEK_S = 7 * 86400.0


class Priority(Easy):
    """Orders the queue by priority; equal ones by arrival. Then as `Easy`.

    The priority is a weighted sum of three numbers from 0 to 1, as in Slurm's multifactor
    plug-in: the age over ``age_max_s``, at most 1; the part of the machine that the job takes;
    and :math:`2^{-u/s}`, with the user's part ``u`` of all that was used, fading with a half-life,
    and the part ``s`` that the user is entitled to.

    Parameters
    ----------
    age_weight, size_weight, fair_share_weight : float
        A negative weight of the size prefers small jobs.
    age_max_s, half_life_s : float
    shares : mapping of int to float, optional
        What users (by number) are entitled to, relative to each other; 1 each where it is not
        given.
    """

    def __init__(
        self,
        *,
        age_weight: float = 1.0,
        size_weight: float = 1.0,
        fair_share_weight: float = 1.0,
        age_max_s: float = _WEEK_S,
        half_life_s: float = _WEEK_S,
        shares: Mapping[int, float] | None = None,
    ) -> None:
        if not (age_max_s > 0 and half_life_s > 0):
            raise PolicyError(
                "a policy's age_max_s and half_life_s must be above 0", hint="such as 604800"
            )
        self.age_weight = age_weight
        self.size_weight = size_weight
        self.fair_share_weight = fair_share_weight
        self.age_max_s = age_max_s
        self.half_life_s = half_life_s
        self.shares = dict(shares or {})

    def order(self, state: BatchState) -> list[int]:
        """Give the waiting jobs, those of the highest priority first."""
        if len(state.waiting) < 2:
            return state.waiting
        now, arrive, share, user = state.now_s, state.arrive_s, state.share, state.user
        waiting, fair = state.waiting, self._fair(state)
        age, size, most = self.age_weight / self.age_max_s, self.size_weight, self.age_max_s
        if age or size:
            keys = [
                -(age * min(now - arrive[job], most) + size * share[job] + fair[user[job]])
                for job in waiting
            ]
        else:
            keys = [-fair[user[job]] for job in waiting]
        order = sorted(range(len(waiting)), key=keys.__getitem__)
        return [waiting[at] for at in order]

    def _fair(self, state: BatchState) -> dict[int, float]:
        """Give the weighted share factor of each user who waits."""
        users = {state.user[job] for job in state.waiting}
        if not self.fair_share_weight:
            return dict.fromkeys(users, 0.0)
        now, usage, shares = state.now_s, state.usage, self.shares
        total = usage.total(now)
        others = state.users - sum(user < state.users for user in shares)
        entitled = others + sum(share for user, share in shares.items() if user < state.users)
        fair = {}
        for user in users:
            part = usage.of(user, now) / total if total > 0 else 0.0
            share = shares.get(user, 1.0) / (entitled or 1.0)
            fair[user] = self.fair_share_weight * (2.0 ** (-part / share) if share > 0 else 0.0)
        return fair


class FairShare(Priority):
    """Orders the queue by what each user has used lately, the least first. Then as `Easy`.

    Parameters
    ----------
    half_life_s : float
    shares : mapping of int to float, optional
        As for `Priority`.
    """

    def __init__(
        self, *, half_life_s: float = _WEEK_S, shares: Mapping[int, float] | None = None
    ) -> None:
        super().__init__(age_weight=0.0, size_weight=0.0, half_life_s=half_life_s, shares=shares)
