"""What allocators are told: a task to size, the situation, and what an attempt used."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["RESOURCES", "Record", "Resource", "Task", "View", "usable"]


@dataclass(frozen=True, slots=True)
class Resource:
    """A dimension of an allocation.

    Attributes
    ----------
    name : str
        Field of :class:`rotameter.values.Allocation`.
    default : float
        What a task of an unknown group gets; 0: none.
    whole : bool
        It is given in whole units.
    start : float
        What one that had none and wanted some gets.
    """

    name: str
    default: float
    whole: bool = False
    start: float = 1.0


RESOURCES = {
    one.name: one
    for one in (
        Resource("memory_bytes", 1e9, whole=True, start=1e9),
        Resource("cores", 1.0),
        Resource("disk_bytes", 1e9, whole=True, start=1e9),
        Resource("gpus", 0.0, whole=True),
        Resource("gpu_share", 0.0),
        Resource("gpu_memory_bytes", 0.0, whole=True, start=1e9),
        Resource("wall_s", 3600.0, start=60.0),
    )
}
"""The dimensions that can be sized, by name."""


@dataclass(frozen=True, slots=True)
class Task:
    """A task that is to be given resources.

    Attributes
    ----------
    task_id, group : str
    size : float, optional
        A number known before the run that its needs may follow, such as bytes of input.
    asked : mapping of str to float
        What its user set, by resource; not touched.
    """

    task_id: str
    group: str
    size: float | None = None
    asked: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class View:
    """The situation in which a task is sized.

    Attributes
    ----------
    spare : bool
        The slot would stay empty if this task were held: no other task wants it.
    share : mapping of str to float
        What comes with one slot where nodes are divided evenly: less saves nothing.
    free : mapping of str to float
        What the emptiest worker can give now.
    few : bool
        Fewer tasks are left than there are workers.
    """

    spare: bool = False
    share: Mapping[str, float] = field(default_factory=dict)
    free: Mapping[str, float] = field(default_factory=dict)
    few: bool = False


@dataclass(frozen=True, slots=True)
class Record:
    """An attempt that ended, or a reading of one that still runs.

    Attributes
    ----------
    task_id, group : str
    outcome : str
        As in the schema: ``ok``, ``oom``, ``running``, ``worker_lost`` …
    used : mapping of str to float
        Peak use by resource; what is unknown is left out.
    kinds : mapping of str to str
        How a use was obtained, by resource; ``exact`` if not said.
    granted : mapping of str to float
        What it had.
    exceeded : frozenset of str
        Resources of which it wanted more than that.
    wall_s : float, optional
    size : float, optional
        As in :class:`Task`.
    """

    task_id: str
    group: str
    outcome: str
    used: Mapping[str, float] = field(default_factory=dict)
    kinds: Mapping[str, str] = field(default_factory=dict)
    granted: Mapping[str, float] = field(default_factory=dict)
    exceeded: frozenset[str] = frozenset()
    wall_s: float | None = None
    size: float | None = None


def usable(value: object) -> bool:
    """Say whether a value is a finite number above zero.

    Examples
    --------
    >>> usable(1.5), usable(0), usable(float("nan")), usable(None), usable(True)
    (True, False, False, False, False)
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return math.isfinite(value) and value > 0
