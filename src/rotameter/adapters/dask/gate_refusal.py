"""What is said of a task that no worker can hold."""

from __future__ import annotations

from typing import Any

from rotameter.errors import PolicyError
from rotameter.units import format_bytes

__all__ = ["too_large"]


def too_large(
    key: Any,
    asked_bytes: float,
    failed_bytes: float | None,
    most_bytes: float,
    words: str = "",
) -> PolicyError:
    """Give the error, which names what is needed and the most that there is.

    Parameters
    ----------
    key : str or tuple
        Of the task.
    asked_bytes : float
        What was set for its group; 0 where nothing was.
    failed_bytes : float or None
        What was not enough: what it was given when it ran out of memory, or what it said that it
        wanted, which is maybe more than there ever was.
    most_bytes : float
        What the largest worker has for tasks.
    words : str
        What the task said itself when it ran out of memory.

    Examples
    --------
    >>> print(too_large("load-1", 0.0, 4e9, 4e9).args[0])
    task 'load-1' needs more than 4 GB of memory, which it was given; the largest worker has 4 GB
    >>> print(too_large("load-1", 0.0, 8e15, 4e9).args[0])
    task 'load-1' needs more than 8 PB of memory; the largest worker has 4 GB
    """
    needs = f"{format_bytes(asked_bytes)} of memory, which was set for its group"
    if failed_bytes is not None and failed_bytes >= asked_bytes:
        given = ", which it was given" if failed_bytes <= most_bytes else ""
        needs = f"more than {format_bytes(failed_bytes)} of memory{given}"
    said = f"; it said: {words}" if words else ""
    return PolicyError(
        f"task {key!r} needs {needs}; the largest worker has {format_bytes(most_bytes)}{said}",
        hint="start a worker with more memory, or split the task",
    )
