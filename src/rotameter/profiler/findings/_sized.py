"""What sizing says of a group whose request was not enough, so that both give one number."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rotameter.profiler.findings.base import Tools

__all__ = ["sized"]


def sized(
    tools: Tools,
    resource: str,
    group: str,
    text: Callable[[float], str],
    *,
    above: float | None = None,
) -> tuple[float, str] | None:
    """Give what ``rotameter size`` asks for, and the words for it; None where it was not lent.

    Parameters
    ----------
    tools : Tools
    resource, group : str
    text : callable
        Writes an amount.
    above : float, optional
        What was not enough: no less than that is an answer.
    """
    found = None if tools.suggest is None else tools.suggest(resource, group)
    if found is None or found.amount <= (above or 0.0):
        return None
    by = "`rotameter size`" if resource == "memory" else f"`rotameter size --resource {resource}`"
    if found.is_guess:
        return found.amount, f"{text(found.amount)} (a guess; {by} says why)"
    words = text(found.amount)
    if found.retries:
        words += f", after another kill for {', then '.join(map(text, found.retries))}"
    return found.amount, f"{words} ({by} says why)"
