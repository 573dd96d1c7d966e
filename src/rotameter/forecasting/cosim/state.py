"""What a policy of a batch system sees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from rotameter.forecasting.cosim.room import Held, Need, Room
from rotameter.forecasting.cosim.usage import Usage
from rotameter.values import Place

__all__ = ["BatchState", "held_of", "place"]

_POOL = "pool"


@dataclass(slots=True, eq=False)
class BatchState:
    """The system at one moment; a policy reads it and changes nothing in it.

    Jobs are numbers, in order of arrival; ``ids`` has their names.

    Attributes
    ----------
    now_s : int
    ids : sequence of str
    arrive_s, limit_s : sequence of int
        When each arrived, and for how long at most it will run.
    need : sequence of Need
        What each takes.
    share : sequence of float
        What part of the machine that is.
    user : sequence of int
    users : int
        How many users there are in all.
    room : Room
        What is free now.
    waiting : list of int
        Jobs that wait, in order of arrival.
    running : list of (int, int)
        (latest end, job), the soonest first.
    held : dict of int to Held
        Where each running job is.
    usage : Usage
    """

    now_s: int
    ids: Sequence[str]
    arrive_s: Sequence[int]
    limit_s: Sequence[int]
    need: Sequence[Need]
    share: Sequence[float]
    user: Sequence[int]
    users: int
    room: Room
    usage: Usage
    waiting: list[int] = field(default_factory=list)
    running: list[tuple[int, int]] = field(default_factory=list)
    held: dict[int, Held] = field(default_factory=dict)


def place(state: BatchState, job: int, held: Held) -> Place:
    """Say that a job starts now.

    The worker of the action names the nodes, parted by ``+``; in a pool it is ``pool``.
    """
    return Place(state.ids[job], "+".join(map(str, held)) or _POOL)


def held_of(action: Place) -> Held:
    """Read the nodes back.

    Examples
    --------
    >>> held_of(Place("7", "0+3")), held_of(Place("7", "pool"))
    ((0, 3), ())
    """
    return () if action.worker == _POOL else tuple(map(int, action.worker.split("+")))
