"""Conservative backfilling: others may overtake if that delays none that waits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rotameter.forecasting.cosim.profile import Profile
from rotameter.forecasting.cosim.state import place
from rotameter.values import Action, Place

if TYPE_CHECKING:
    from rotameter.forecasting.cosim.room import Held
    from rotameter.forecasting.cosim.state import BatchState

__all__ = ["Conservative"]


class Conservative:
    """Reserves a place for each job when it arrives; no reservation is ever moved back.

    When a job ends before its limit each reservation is, in order of arrival, moved to the first
    moment at which it fits then. Mu'alem and Feitelson (2001), as for `Easy`.

    Attributes
    ----------
    wake_s : int, optional
        When it wants to be asked next, if nothing happens before.
    """

    needs: frozenset[type[Action]] = frozenset({Place})

    def __init__(self) -> None:
        self.wake_s: int | None = None
        self._reserved: dict[str, tuple[int, Held]] = {}
        self._ends: dict[str, int] = {}

    def state(self) -> dict[str, Any]:
        """Give what it has promised, as plain data."""
        return {
            "wake_s": self.wake_s,
            "reserved": {name: [at, list(held)] for name, (at, held) in self._reserved.items()},
            "ends": dict(self._ends),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Conservative:
        """Make one that goes on where another stopped.

        Examples
        --------
        >>> Conservative.from_state(Conservative().state()).state() == Conservative().state()
        True
        """
        made = cls()
        made.wake_s = state["wake_s"]
        made._reserved = {name: (at, tuple(held)) for name, (at, held) in state["reserved"].items()}
        made._ends = dict(state["ends"])
        return made

    def order(self, state: BatchState) -> list[int]:
        """Give the waiting jobs in the order in which they are given a place."""
        return state.waiting

    def decide(self, state: BatchState) -> list[Action]:
        """Start the jobs whose time has come."""
        now, ids = state.now_s, state.ids
        running = {ids[job]: end for end, job in state.running}
        early = any(end > now and name not in running for name, end in self._ends.items())
        profile = Profile(now, state.room)
        for end, job in state.running:
            profile.give(end, state.need[job], state.held[job])
        queue = self.order(state)
        known = [job for job in queue if ids[job] in self._reserved]
        for job in known:
            start, held = self._reserved[ids[job]]
            profile.take(start, start + state.limit_s[job], state.need[job], held)
        if early:
            for job in known:
                self._move(state, profile, job)
        for job in queue:
            if ids[job] not in self._reserved:
                self._book(state, profile, job)
        actions: list[Action] = []
        for job in queue:
            start, held = self._reserved[ids[job]]
            if start <= now:
                actions.append(place(state, job, held))
                running[ids[job]] = now + state.limit_s[job]
                del self._reserved[ids[job]]
        self._ends = running
        self.wake_s = min((start for start, _ in self._reserved.values()), default=None)
        return actions

    def _book(self, state: BatchState, profile: Profile, job: int) -> None:
        length, need = state.limit_s[job], state.need[job]
        start, held = profile.earliest(need, length)
        profile.take(start, start + length, need, held)
        self._reserved[state.ids[job]] = (start, held)

    def _move(self, state: BatchState, profile: Profile, job: int) -> None:
        start, held = self._reserved[state.ids[job]]
        length, need = state.limit_s[job], state.need[job]
        profile.take(start, start + length, need, held, back=True)
        found = profile.earliest(need, length)
        if found[0] >= start:  # no gain: it stays on its nodes
            found = (start, held)
        profile.take(found[0], found[0] + length, need, found[1])
        self._reserved[state.ids[job]] = found
