"""Who used how much, fading with time: the basis of fair shares."""

from __future__ import annotations

import math

__all__ = ["Usage"]


class Usage:
    r"""Core-seconds of each user, of which half is forgotten every half-life.

    A job that runs counts as it runs. The sums are exact, however far apart the questions are:
    usage that accrues at rate :math:`r` while it fades with half-life :math:`h` grows in
    :math:`t` to :math:`u\,2^{-t/h} + r\,(h/\ln 2)(1 - 2^{-t/h})`. That is what Slurm's
    multifactor plug-in approximates step by step (PriorityDecayHalfLife).

    Parameters
    ----------
    half_life_s : float

    Examples
    --------
    >>> usage = Usage(half_life_s=100.0)
    >>> usage.change(7, 4, 0)
    >>> usage.change(7, -4, 1)
    >>> round(usage.of(7, 1), 2), round(usage.of(7, 101), 2), usage.of(8, 101)
    (3.99, 1.99, 0.0)
    """

    __slots__ = ("_all", "_users", "half_life_s")

    def __init__(self, half_life_s: float) -> None:
        self.half_life_s = float(half_life_s)
        self._users: dict[int, list[float]] = {}  # what was used, the rate, when that was
        self._all = [0.0, 0.0, 0.0]

    def change(self, user: int, cores: float, now_s: float) -> None:
        """Tell that a user holds so many cores more from now on (fewer where negative)."""
        account = self._users.setdefault(user, [0.0, 0.0, now_s])
        for one in (account, self._all):
            one[0], one[2] = self._value(one, now_s), now_s
            one[1] += cores

    def of(self, user: int, now_s: float) -> float:
        """Give what a user has used by now."""
        account = self._users.get(user)
        return 0.0 if account is None else self._value(account, now_s)

    def total(self, now_s: float) -> float:
        """Give what all have used by now."""
        return self._value(self._all, now_s)

    def _value(self, account: list[float], now_s: float) -> float:
        value, rate, since = account
        kept: float = 0.5 ** ((now_s - since) / self.half_life_s)
        return value * kept + rate * self.half_life_s / math.log(2) * (1 - kept)
