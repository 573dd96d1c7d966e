"""Descriptors that the tracer keeps open, told apart from those of the user.

A program may close descriptors that are not its own (``os.closerange``, daemonising) and get the
same numbers for its own files. So what is kept open here lies at high numbers, which the kernel
gives out last, and its identity is looked at before anything is written to it or it is closed.
"""

from __future__ import annotations

import os

try:
    import fcntl as _fcntl
except ImportError:  # not a POSIX system
    _fcntl = None  # type: ignore[assignment, unused-ignore]

__all__ = ["HeldFd", "identity"]

_HIGH_FD = 500


def identity(fd: int) -> tuple[int, int] | None:
    """Give (device, inode) of what a descriptor stands for, None where it is closed.

    Examples
    --------
    >>> identity(-1) is None
    True
    """
    try:
        found = os.fstat(fd)
    except (OSError, OverflowError):
        return None
    return found.st_dev, found.st_ino


class HeldFd:
    """A descriptor that knows whether it is still the one that was opened.

    Parameters
    ----------
    path : str
    flags : int
        As for :func:`os.open`; it never passes to programs that this one starts.

    Raises
    ------
    OSError
        If the file cannot be opened.

    Examples
    --------
    >>> held = HeldFd(os.devnull, os.O_RDONLY)
    >>> held.ours()
    True
    >>> held.close()
    >>> held.ours()
    False
    """

    __slots__ = ("fd", "mark")

    def __init__(self, path: str, flags: int, mode: int = 0o600) -> None:
        fd = os.open(path, flags | getattr(os, "O_CLOEXEC", 0), mode)
        if _fcntl is not None:
            try:
                high = _fcntl.fcntl(fd, _fcntl.F_DUPFD_CLOEXEC, _HIGH_FD)
            except (OSError, AttributeError, ValueError):
                pass  # the limit is lower: the number stays as it is
            else:
                os.close(fd)
                fd = high
        self.fd = fd
        self.mark = identity(fd)

    def ours(self) -> bool:
        """Tell whether the number still stands for what was opened."""
        return self.fd >= 0 and self.mark is not None and identity(self.fd) == self.mark

    def close(self) -> None:
        """Close the descriptor, unless somebody else has the number by now."""
        ours, fd = self.ours(), self.fd
        self.fd = -1
        if ours:
            os.close(fd)
