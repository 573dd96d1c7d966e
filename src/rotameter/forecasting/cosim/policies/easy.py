"""EASY backfilling: others may overtake if that delays the first of the queue by nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rotameter.forecasting.cosim.state import place
from rotameter.values import Action, Place

if TYPE_CHECKING:
    from rotameter.forecasting.cosim.room import Held, Room
    from rotameter.forecasting.cosim.state import BatchState

__all__ = ["Easy"]


class Easy:
    """Reserves a place for the first job that does not fit, and fills the gaps before it.

    Lifka, "The ANL/IBM SP scheduling system" (1995); Mu'alem and Feitelson, "Utilization,
    predictability, workloads, and user runtime estimates in scheduling the IBM SP2 with
    backfilling" (2001). Limits stand for the run times, which are not known before.
    """

    needs: frozenset[type[Action]] = frozenset({Place})

    def order(self, state: BatchState) -> list[int]:
        """Give the waiting jobs in the order in which they have a right to start."""
        return state.waiting

    def decide(self, state: BatchState) -> list[Action]:
        """Start what fits in order; then what delays the first that does not fit by nothing."""
        fits = set(state.room.fitting(state.waiting, state.need))
        if not fits:
            return []
        queue = self.order(state)
        room = state.room.copy()
        placed: list[tuple[int, Held]] = []
        for job in queue:
            held = room.place(state.need[job])
            if held is None:
                break
            room.take(state.need[job], held)
            placed.append((job, held))
        behind = [job for job in queue[len(placed) + 1 :] if job in fits]
        fitting = room.fitting(behind, state.need)
        if fitting:
            shadow, later = self.reserve(state, room, placed, queue[len(placed)])
            placed += self._fill(state, room, fitting, shadow, later)
        return [place(state, job, held) for job, held in placed]

    def reserve(
        self, state: BatchState, room: Room, placed: list[tuple[int, Held]], head: int
    ) -> tuple[int, Room]:
        """Give when the first job will start at the latest, and what is free then beside it."""
        now, need = state.now_s, state.need
        started = dict(placed)
        ends = sorted([*state.running, *((now + state.limit_s[job], job) for job in started)])
        later = room.copy()
        for at, (end, job) in enumerate(ends):
            later.give(need[job], started[job] if job in started else state.held[job])
            if at + 1 < len(ends) and ends[at + 1][0] == end:
                continue
            held = later.place(need[head])
            if held is not None:
                later.take(need[head], held)
                return end, later
        raise AssertionError("a job that the empty machine cannot hold")

    def _fill(
        self, state: BatchState, room: Room, fitting: list[int], shadow: int, later: Room
    ) -> list[tuple[int, Held]]:
        placed = []
        for job in fitting:
            need = state.need[job]
            over = state.now_s + state.limit_s[job] <= shadow
            held = room.place(need, None if over else later)
            if held is None:
                continue
            room.take(need, held)
            if not over:
                later.take(need, held)
            placed.append((job, held))
        return placed
