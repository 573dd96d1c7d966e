"""Which way an advice has a thing go, and whether it went that way."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rotameter.profiler.comparing.settings import Difference

__all__ = ["advised_way", "went"]

_WAYS: dict[str, dict[str, int]] = {
    "tasks": {
        "failed_work": 1,
        "idle_parallelism": 1,
        "scheduler_bound": -1,
        "skewed_partitions": 1,
        "spill": 1,
        "straggler": 1,
        "tiny_tasks": -1,
        "uneven_workers": 1,
        "workers_died": 1,
    },
    "requested memory": {"over_requested_memory": -1, "under_requested_memory": 1},
    "requested cores": {"over_requested_cores": -1, "idle_parallelism": 1},
    "memory a worker": {"failed_work": 1, "spill": 1, "workers_died": 1},
    "threads a worker": {
        "failed_work": -1,
        "gil_contention": -1,
        "spill": -1,
        "thread_oversubscription": -1,
        "workers_died": -1,
    },
    "workers": {
        "cold_first_task": -1,
        "gil_contention": 1,
        "idle_parallelism": -1,
        "transfer_bound": -1,
    },
}
"""By what changed and the kind of finding: more (1) or less (-1) of it was advised."""

_FEWER = re.compile(
    r"fewer,?\s+(?:\w+,?\s+)?(?:tasks|partitions|chunks|calls)|larger\s+(?:chunks|partitions|tasks)"
    r"|(?:chunks|partitions) [\d.]+\s*[x×] larger|batch the|\bfuse\b",
    re.IGNORECASE,
)
_MORE = re.compile(
    r"more,?\s+(?:\w+,?\s+)?(?:tasks|partitions|chunks)|smaller\s+(?:chunks|partitions|tasks)"
    r"|(?:chunks|partitions)\s+(?:[\w ]+ )?smaller|[\d.]+\s*[x×] smaller|\bsplit\b",
    re.IGNORECASE,
)


def advised_way(kind: str, text: str, name: str) -> int:
    """Say whether more or less of something was advised.

    Parameters
    ----------
    kind : str
        Of the finding.
    text : str
        The advice.
    name : str
        What changed: see :class:`~rotameter.profiler.comparing.settings.Difference`.

    Returns
    -------
    int
        1 for more, -1 for less, 0 where the advice says neither or both.

    Examples
    --------
    >>> advised_way("tiny_tasks", "", "tasks"), advised_way("mine", "use larger chunks", "tasks")
    (-1, -1)
    """
    known = _WAYS.get(name, {}).get(kind)
    if known is not None:
        return known
    if name != "tasks":
        return 0
    return int(bool(_MORE.search(text))) - int(bool(_FEWER.search(text)))


def went(difference: Difference, way: int, value: float | None = None) -> bool | None:
    """Say whether a change went the advised way; None where there is no telling.

    Parameters
    ----------
    difference : Difference
    way : int
        1: more was advised, -1: less, 0: neither.
    value : float, optional
        What was advised, where that is a number; it says the way better.

    Examples
    --------
    >>> from rotameter.profiler.comparing.settings import Difference
    >>> went(Difference("tasks", "tasks", 1000.0, 10000.0, "load"), -1)
    False
    """
    old, new = difference.before, difference.after
    if not isinstance(old, float) or not isinstance(new, float) or old == new:
        return None
    if value is not None and not math.isclose(value, old):
        way = 1 if value > old else -1
    return (new > old) == (way > 0) if way else None
