"""Faults of the tracer itself, on workers, the scheduler and the client: counted, told once.

A fault is counted where it strikes. A worker tells the scheduler of its first at once, and how many
there were when its part of the trace ends; the client gets all of them with the end of the trace.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rotameter.profiler.live.redact import first_line

__all__ = ["Tally", "guarded"]


def guarded(call: Callable[..., Any], failed: Callable[[BaseException], None]) -> Any:
    """Give ``call`` such that it never raises: what it raises goes to ``failed``.

    Examples
    --------
    >>> seen = []
    >>> guarded(int, seen.append)("a"), [type(error).__name__ for error in seen]
    (None, ['ValueError'])
    """

    def run(*args: Any) -> Any:
        try:
            return call(*args)
        except Exception as error:
            failed(error)
            return None

    return run


class Tally:
    """How many faults struck, by who, and the first of all.

    Attributes
    ----------
    cause : str or None
        The cause of the first fault.
    first : str or None
        The same, and where it struck.

    Examples
    --------
    >>> tally = Tally()
    >>> tally.note("the scheduler", RuntimeError("planted"))
    >>> tally.word("tcp://a:1", 1, "KeyError: 'x'")
    >>> tally.word("tcp://a:1", 5, "KeyError: 'x'")
    >>> tally.count, tally.first
    (6, 'RuntimeError: planted (the scheduler)')
    """

    def __init__(self) -> None:
        self.first: str | None = None
        self.cause: str | None = None
        self._by: dict[str, int] = {}
        self._firsts: dict[str, str | None] = {}

    @property
    def count(self) -> int:
        """How many faults struck, as far as is known."""
        return sum(self._by.values())

    def of(self, who: str) -> tuple[int, str | None]:
        """Give how many faults struck one, and the cause of the first."""
        return self._by.get(who, 0), self._firsts.get(who)

    def note(self, who: str, error: BaseException | str) -> None:
        """Count one fault."""
        text = error if isinstance(error, str) else first_line(error)
        self.word(who, self._by.get(who, 0) + 1, text)

    def word(self, who: str, count: int, first: str | None) -> None:
        """Take the word of one that counts its own; of a whole tally where ``who`` is empty."""
        if not count:
            return
        self._firsts.setdefault(who, first)
        self._by[who] = max(count, self._by.get(who, 0))
        if self.first is None:
            self.cause = first
            cause = first or "cause unknown"
            self.first = f"{cause} ({who})" if who else cause

    def facts(self) -> dict[str, Any]:
        """Give what the client is told."""
        return {"errors": self.count, "first_error": self.first}
