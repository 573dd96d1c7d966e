"""Plain words for why a task gets what it gets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rotameter.units import format_bytes, format_number, format_seconds, many

if TYPE_CHECKING:
    from rotameter.allocator.learner import Learner

__all__ = ["amount", "words"]

_WAYS = {
    "all": "all that earlier ones used",
    "latest": "what the latest ones used",
    "few": "what the few latest ones used",
    "largest": "the largest that one used",
    "size": "what tasks of this size used",
}
_NAMES = {
    "memory_bytes": "memory",
    "cores": "cores",
    "disk_bytes": "disk",
    "gpus": "GPUs",
    "gpu_share": "share of a GPU",
    "gpu_memory_bytes": "GPU memory",
    "wall_s": "time",
}


def amount(name: str, value: float) -> str:
    """Write an amount of a resource.

    Examples
    --------
    >>> amount("memory_bytes", 2e9), amount("cores", 2.0), amount("wall_s", 90.0)
    ('2 GB', '2', '1 min 30 s')
    """
    if name.endswith("_bytes"):
        return format_bytes(value)
    return format_seconds(value) if name.endswith("_s") else format_number(value)


def words(name: str, learner: Learner | None, first: float) -> str:
    """Say what the next task gets of a resource, from how many, and what after a failure.

    Examples
    --------
    >>> print(words("memory_bytes", None, 1e9))
    memory: 1 GB: no task of this group has completed
    """
    label = f"{_NAMES.get(name, name)}: {amount(name, first)}"
    if learner is None or not learner.n:
        bound = max(learner.failed.values(), default=0.0) if learner is not None else 0.0
        more = f"; one needed more than {amount(name, bound)}" if bound else ""
        return f"{label}: no task of this group has completed{more}"
    rungs = [rung for rung in learner.ladder().rungs if rung > first][:3]
    then = ", ".join(amount(name, rung) for rung in rungs)
    way = _WAYS[learner.expert().removesuffix(" boldly")]
    seen = f"{many(learner.n, 'task')}, largest {amount(name, learner.largest)}"
    said = f"{label}: from {way} ({seen})"
    if then:
        said += f"; after a failure {then}"
    if learner.failed:
        least = max(learner.failed.values())
        said += f"; {many(len(learner.failed), 'task')} need more than what they had, "
        said += f"one more than {amount(name, least)}"
    return said
