"""Whether a worker's death was one of memory, and who filled it.

It was where the nanny said so. Else it may have been where the last heartbeat was near the limit:
that is inferred, and only every second such death of a group counts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection
from typing import Any

__all__ = ["Blame"]

NEAR = 0.7
"""A heartbeat above this part of the limit makes a silent death one of memory, likely."""

_TOLD = 100


class Blame:
    """Judges deaths of workers.

    Parameters
    ----------
    group_of : callable
        Gives the group of a task's key.
    is_small : callable
        ``is_small(group)``: its tasks are known to need little.
    """

    def __init__(self, group_of: Callable[[Any], str], is_small: Callable[[str], bool]) -> None:
        self._group_of, self._is_small = group_of, is_small
        self._said: set[str] = set()
        self._silent: dict[str, int] = {}
        self.told: deque[dict[str, Any]] = deque(maxlen=_TOLD)
        """The last deaths that were taken for ones of memory, and the groups that got more."""

    def nanny_says(self, worker: str) -> None:
        """Note that a nanny ends its worker for memory."""
        self._said.add(worker)

    def of_memory(self, worker: str, used_bytes: float, limit_bytes: float) -> str | None:
        """Say whether a death was one of memory: ``reported``, ``inferred`` or None."""
        if worker in self._said:
            self._said.discard(worker)
            return "reported"
        return "inferred" if used_bytes >= NEAR * limit_bytes else None

    def culprits(
        self, tasks: Collection[Any], ws: Any, admitted: Collection[Any], how: str
    ) -> dict[str, Any]:
        """Give one task of each group that is to get more: group → key.

        Parameters
        ----------
        tasks : collection of TaskState
            What the worker had; as many ran as it has threads, those it told of or the first.
        ws : WorkerState
        admitted : collection
            Keys that the gate let run there. Beside large tasks that nobody admitted, they are not
            to blame.
        how : str
            What :meth:`of_memory` said.
        """
        # What left its thread waits for tasks of its own, and is not what grew.
        tasks = [t for t in tasks if t not in ws.long_running] or tasks
        ran = [t for t in tasks if t in ws.executing]
        ran = ran or sorted(tasks, key=lambda t: t.priority)
        ran = ran[: max(1, ws.nthreads)]
        large = [t for t in ran if not self._is_small(self._group_of(t.key))] or ran
        strangers = [t for t in large if t.key not in admitted]
        made: dict[str, Any] = {}
        for ts in strangers or large:
            made.setdefault(self._group_of(ts.key), ts.key)
        made = {g: key for g, key in made.items() if how == "reported" or self._again(g)}
        self.told.append({"worker": ws.address, "how": how, "enlarged": sorted(made)})
        return made

    def _again(self, group: str) -> bool:
        """Count a silent death; say whether it is a group's second, fourth and so on."""
        self._silent[group] = self._silent.get(group, 0) + 1
        return self._silent[group] % 2 == 0
