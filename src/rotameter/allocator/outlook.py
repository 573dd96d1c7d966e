"""What is to be expected of a group's next task: the attempts, their chances, what is wasted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rotameter.allocator.learner import HEADROOM

if TYPE_CHECKING:
    from rotameter.allocator.learner import Learner

__all__ = ["Outlook", "outlook"]

TRIES = 40
"""Attempts that are looked ahead; each is at least 1 % above the one before, most are twice it."""

_NEAR = 1 + 1e-9


@dataclass(frozen=True, slots=True)
class Outlook:
    """What the next task of a group would get, and what is to be expected of it.

    Attributes
    ----------
    attempts : tuple of float
        What the first attempt gets, the one after a failure, and so on, until all is held or the
        largest worker is reached.
    chances : tuple of float
        Part of the tasks (by their time, late ones more) that each of them is enough for. What was
        not seen yet is counted: the next of n + 1 tasks is the largest one time in n + 1.
    held, used : float
        What a task holds and what it needs, failed attempts counted in full, in the resource's
        unit; both are means over time.
    mean_s : float
        Mean duration of a task.
    """

    attempts: tuple[float, ...]
    chances: tuple[float, ...]
    held: float
    used: float
    mean_s: float

    @property
    def waste_ratio(self) -> float:
        """Expected part of what is held that is not used."""
        return max(0.0, 1.0 - self.used / self.held) if self.held > 0 else 0.0

    @property
    def waste(self) -> float:
        """Expected waste of a task, in the resource's unit times seconds."""
        return max(0.0, self.held - self.used) * self.mean_s


def outlook(
    learner: Learner, first: float, most: float, size: float | None = None, *, again: bool = True
) -> Outlook:
    """Look ahead from a first attempt; the group has at least one completion.

    Parameters
    ----------
    learner : Learner
    first : float
        What the first attempt gets.
    most : float
        What the largest worker has; may be infinite.
    size : float, optional
        A number known before the run.
    again : bool
        Whether a failed task gets more; what a user set stays as it is.

    Examples
    --------
    >>> from rotameter.allocator.learner import Learner
    >>> known = Learner()
    >>> for number in range(9):
    ...     known.learn(str(number), 1e9, 60.0)
    >>> seen = outlook(known, known.first(), 64e9)
    >>> seen.attempts, seen.chances
    ((1010000000.0, 2020000000.0), (0.9, 1.0))
    """
    values, weights = learner.seen(size)
    whole = sum(weights)
    attempts = [min(first, most)]
    tries = TRIES if again else 1
    while attempts[-1] * _NEAR < min(values[-1], most) and len(attempts) < tries:
        attempts.append(min(learner.after(attempts[-1], len(attempts), size), most))
    chances = [
        sum(w for v, w in zip(values, weights, strict=True) if v <= one * _NEAR) / whole
        for one in attempts
    ]
    held = used = 0.0
    for value, weight in zip(values, weights, strict=True):
        used += weight * min(value / (1 + HEADROOM), most)
        for one in attempts:
            held += weight * one
            if value <= one * _NEAR:
                break
    return Outlook(tuple(attempts), tuple(chances), held / whole, used / whole, learner.mean_s)
