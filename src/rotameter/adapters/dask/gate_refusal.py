"""What is said of a task that no worker can hold; its own error stays to be seen."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

from rotameter.errors import PolicyError
from rotameter.units import format_bytes

__all__ = ["OutOfMemory", "Said", "too_large"]


@dataclass(frozen=True, slots=True)
class Said:
    """What a task said itself when it ran out of memory.

    Attributes
    ----------
    words : str
        First line of its error.
    error : bytes or None
        The error, pickled where it was raised. It is opened by the client alone, which has what
        it is made of.
    """

    words: str = ""
    error: bytes | None = None

    def pickled(self) -> bytes:
        """Give the error; made from its words where it could not be sent."""
        if self.error is not None:
            return self.error
        made: bytes = _pickle().dumps(MemoryError(self.words))
        return made


class _Sent(MemoryError):
    """A task's own error on its way: it is itself again where it arrives."""

    def __init__(self, said: Said) -> None:
        super().__init__(said.words)
        self.said = said

    def __reduce__(self) -> tuple[Any, ...]:
        return _opened, (self.said.words, self.said.error)


class OutOfMemory(PolicyError, MemoryError):
    """A task raised ``MemoryError`` with all that the largest worker has.

    Its own error is the cause (``__cause__``). It is a ``MemoryError`` too, so that what the
    user's program catches is what it would catch without an allocator.

    Parameters
    ----------
    message : str
    hint : str, optional
    said : Said, optional
    """

    def __init__(self, message: str, *, hint: str | None = None, said: Said | None = None) -> None:
        super().__init__(message, hint=hint)
        self.said = said or Said()
        self.__cause__ = _Sent(self.said) if self.said.error else MemoryError(self.said.words)

    def __reduce__(self) -> tuple[Any, ...]:
        return _arrived, (str(self), self.hint, self.said.words, self.said.error)


def _arrived(message: str, hint: str | None, words: str, error: bytes | None) -> OutOfMemory:
    """Make the error anew where the user sees it, with the task's own one as its cause."""
    made = OutOfMemory(message, hint=hint, said=Said(words, error))
    made.__cause__ = _opened(words, error)
    return made


def _opened(words: str, error: bytes | None) -> BaseException:
    """Give a task's own error; of its words alone, where it cannot be opened."""
    try:
        own = None if error is None else _pickle().loads(error)
    except Exception:  # of whatever its class is made
        own = None
    return own if isinstance(own, BaseException) else MemoryError(words)


def _pickle() -> Any:
    return importlib.import_module("distributed.protocol.pickle")


def too_large(
    key: Any,
    asked_bytes: float,
    failed_bytes: float | None,
    most_bytes: float,
    said: Said | None = None,
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
    said : Said, optional
        What the task said itself, where it raised ``MemoryError``: it is the cause then.

    Examples
    --------
    >>> print(too_large("load-1", 0.0, 4e9, 4e9).args[0])
    task 'load-1' needs more than 4 GB of memory, which it was given; the largest worker has 4 GB
    >>> print(too_large("load-1", 0.0, 8e15, 4e9).args[0])
    task 'load-1' needs more than 8 PB of memory; the largest worker has 4 GB
    >>> too_large("load-1", 0.0, 4e9, 4e9, Said("no more")).__cause__
    MemoryError('no more')
    """
    needs = f"{format_bytes(asked_bytes)} of memory, which was set for its group"
    if failed_bytes is not None and failed_bytes >= asked_bytes:
        given = ", which it was given" if failed_bytes <= most_bytes else ""
        needs = f"more than {format_bytes(failed_bytes)} of memory{given}"
    words = f"; it said: {said.words}" if said is not None and said.words else ""
    most = format_bytes(most_bytes)
    message = f"task {key!r} needs {needs}; the largest worker has {most}{words}"
    hint = "start a worker with more memory, or split the task"
    if said is None:
        return PolicyError(message, hint=hint)
    return OutOfMemory(message, hint=hint, said=said)
