"""What a group should ask for, lent to rules that find that its requests were not enough."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rotameter.allocator.advised import Advice
    from rotameter.profiler.trace import Trace

__all__ = ["Suggestion", "suggester"]


@dataclass(frozen=True, slots=True)
class Suggestion:
    """What to ask for, as ``rotameter size`` has it.

    Attributes
    ----------
    amount : float
        In the unit of the resource.
    retries : tuple of float
        What to ask for after a kill, and after the next.
    is_guess : bool
        Whether too little is known for a request.
    reason : str
        From what it comes, in words.
    """

    amount: float
    retries: tuple[float, ...]
    is_guess: bool
    reason: str


def suggester(trace: Trace) -> Callable[[str, str], Suggestion | None]:
    """Give what answers, for a resource and a group, with what the group should ask for.

    Parameters
    ----------
    trace : Trace

    Examples
    --------
    >>> from rotameter.profiler.trace import Trace
    >>> ended = {"group": "g", "outcome": "ok", "wall_s": 3600.0}
    >>> rows = [{"task_id": str(k), **ended} for k in range(9)]
    >>> suggest = suggester(Trace.from_tables({"tasks": rows}))
    >>> suggest("time", "g").amount, suggest("time", "other"), suggest("memory", "g")
    (4500.0, None, None)
    """
    known: dict[str, dict[str, Advice]] = {}

    def suggest(resource: str, group: str) -> Suggestion | None:
        """Give what a group should ask for; None where that is no more than what it asks for."""
        from rotameter.allocator.by_resource import advise_on, needs_of

        if resource not in known:
            made = advise_on(needs_of(trace, resource))
            known[resource] = {one.group: one for one in made}
        one = known[resource].get(group)
        if one is None:
            return None
        if one.request is not None:
            return Suggestion(one.request, one.retries, False, one.reason)
        return None if one.guess is None else Suggestion(one.guess, (), True, one.reason)

    return suggest
