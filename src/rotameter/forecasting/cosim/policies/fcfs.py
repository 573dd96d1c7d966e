"""First come, first served: none overtakes another."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rotameter.forecasting.cosim.state import place
from rotameter.values import Action, Place

if TYPE_CHECKING:
    from rotameter.forecasting.cosim.state import BatchState

__all__ = ["Fcfs"]


class Fcfs:
    """Starts jobs in order of arrival; the first that does not fit holds up all behind it."""

    needs: frozenset[type[Action]] = frozenset({Place})

    def decide(self, state: BatchState) -> list[Action]:
        """Start what fits, up to the first that does not."""
        room = state.room.copy()
        actions: list[Action] = []
        for job in state.waiting:
            held = room.place(state.need[job])
            if held is None:
                break
            room.take(state.need[job], held)
            actions.append(place(state, job, held))
        return actions
