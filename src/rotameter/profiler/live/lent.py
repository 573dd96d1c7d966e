"""What others moved through the descriptor of a counted file, numpy's ``tofile`` for one.

Whoever asks a file for its descriptor can read and write without a call that is counted. Where the
file stands afterwards, or how long it is, tells of it; but a position moves by seeking as well.
Hence no more is taken for moved than the kernel counted for the process meanwhile.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from typing import Any

from rotameter.profiler.live.context import hook

__all__ = ["Lent", "lend"]


def _standing(fd: int, session: Any) -> tuple[int, int, int, int]:
    """Give position, length, and all that the process has read and written (bytes)."""
    return (os.lseek(fd, 0, os.SEEK_CUR), os.fstat(fd).st_size, *session.moved_bytes())


class Lent:
    """A file whose descriptor somebody else has.

    Parameters
    ----------
    session : Session
    start : tuple of int
        Position, length, and the process's bytes read and written when it was asked for.

    Attributes
    ----------
    seen : list of int
        Bytes read and written since by counted calls.
    """

    __slots__ = ("_session", "_start", "seen")

    def __init__(self, session: Any, start: tuple[int, int, int, int]) -> None:
        self._session = session
        self._start = start
        self.seen = [0, 0]

    def unseen(self, file: Any) -> Iterator[tuple[str, int]]:
        """Give ``("read" or "write", bytes)`` that moved by no counted call; never raises."""
        if hook.active is not self._session:
            return
        try:
            end = _standing(io.FileIO.fileno(file), self._session)
            at, length, read, written = (b - a for a, b in zip(self._start, end, strict=True))
            if not file.writable():
                found = ("read", min(at, read) - self.seen[0])
            else:
                found = ("write", min(length, written) - self.seen[1])
        except Exception:
            return
        if found[1] > 0:
            yield found


def lend(fd: int) -> Lent | None:
    """Take note that a file's descriptor was asked for; None where nothing can be told of it."""
    session = hook.active
    if session is None:
        return None
    try:
        return Lent(session, _standing(fd, session))
    except Exception:
        return None
