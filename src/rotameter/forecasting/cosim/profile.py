"""What will be free from when on, as far as limits and reservations tell."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rotameter.forecasting.cosim.room import Held, Need, Room

__all__ = ["Profile"]


class Profile:
    """Steps of free room over time, for any kind of room.

    Parameters
    ----------
    now_s : int
    room : Room
        What is free now; it is not changed.

    Examples
    --------
    >>> from rotameter.forecasting.cosim.room import PoolRoom
    >>> profile = Profile(0, PoolRoom([1]))
    >>> profile.give(10, (1, (3,)), ())
    >>> profile.earliest((1, (2,)), 5), profile.earliest((1, (1,)), 5)
    ((10, ()), (0, ()))
    """

    def __init__(self, now_s: int, room: Room) -> None:
        self._times = [now_s]
        self._rooms: list[Room] = [room.copy()]

    def give(self, from_s: int, need: Need, held: Held) -> None:
        """Say that from a moment on, no sooner than now, so much more is free."""
        for room in self._rooms[self._split(max(from_s, self._times[0])) :]:
            room.give(need, held)

    def take(
        self, start_s: int, stop_s: int, need: Need, held: Held, *, back: bool = False
    ) -> None:
        """Take room for a stretch of time, or give it back."""
        first = self._split(max(start_s, self._times[0]))
        last = self._split(max(stop_s, self._times[0]))
        for room in self._rooms[first:last]:
            if back:
                room.give(need, held)
            else:
                room.take(need, held)

    def earliest(self, need: Need, length_s: int) -> tuple[int, Held]:
        """Give the first moment from which a job fits for so long, and where."""
        times, rooms = self._times, self._rooms
        at = 0
        while True:
            stop = times[at] + length_s
            room, k = rooms[at], at + 1
            held = room.place(need)
            while held is not None and k < len(times) and times[k] < stop:
                room = room.meet(rooms[k])
                held = room.place(need)
                k += 1
            if held is not None:
                return times[at], held
            at += 1

    def _split(self, at_s: int) -> int:
        at = bisect_left(self._times, at_s)
        if at == len(self._times) or self._times[at] != at_s:
            self._times.insert(at, at_s)
            self._rooms.insert(at, self._rooms[at - 1].copy())
        return at
