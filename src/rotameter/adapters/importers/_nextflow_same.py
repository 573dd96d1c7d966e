"""Which traces are of one workflow, as they have a row in common."""

from __future__ import annotations

__all__ = ["Same"]


class Same:
    """Puts numbers together, and gives one number for all that are.

    Examples
    --------
    >>> same = Same()
    >>> same.add(1, 2)
    >>> same.add(3, 2)
    >>> same.of(1) == same.of(3), same.of(1) == same.of(4)
    (True, False)
    """

    def __init__(self) -> None:
        self._up: dict[int, int] = {}

    def of(self, number: int) -> int:
        """Give the number that stands for all that it was put together with."""
        while (above := self._up.get(number, number)) != number:
            number = above
        return number

    def add(self, one: int, other: int) -> None:
        """Put two together."""
        if one != other and (first := self.of(one)) != (second := self.of(other)):
            self._up[max(first, second)] = min(first, second)
