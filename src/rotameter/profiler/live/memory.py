"""Peaks of resident memory and what can be said of them.

The kernel keeps the highest resident size of a process (VmHWM, ru_maxrss). Writing ``5`` to
/proc/self/clear_refs resets it, which makes the peak of a stretch exact however short the spike.
The reset also lowers ru_maxrss for everybody who reads it, hence it is done only where asked for.

With the peak reset at every task boundary of the process, each stretch between two boundaries has
an exact peak and a known set of running tasks. For a task that ran alone (its ancestors and
descendants aside) the peak is its own. For overlapping tasks the process is

    resident(t) = base(t) + sum over running tasks of own(t),   own(t) >= 0,

so own(t) <= peak of the stretch - base. The base is the resident size when last nothing ran,
lowered to the smallest resident size that any boundary has shown since; results that tasks leave
behind only raise the true base and keep the bound true.
"""

from __future__ import annotations

import ctypes
import os
import sys
import weakref
from typing import Any

from rotameter.profiler.live import proc as _proc
from rotameter.profiler.live.fds import HeldFd
from rotameter.profiler.live.proc import Proc, usage

__all__ = ["PeakMeter", "bound", "clear_refs_reason"]

_SLACK_BYTES = 2 << 20
# All that reset the kernel's one peak (the tracer, the gate): each tells the others what it was.
_armed: weakref.WeakSet[PeakMeter] = weakref.WeakSet()


def clear_refs_reason() -> str | None:
    """Say why the kernel's peak cannot be reset here, or None when it can."""
    if not os.path.exists("/proc/self/clear_refs"):
        return "no /proc/self/clear_refs (not Linux, or /proc is hidden)"
    if not os.access("/proc/self/clear_refs", os.W_OK):
        return "/proc/self/clear_refs is not writable"
    return None


class PeakMeter:
    """Reads, and where asked resets, the kernel's peak of resident memory.

    Parameters
    ----------
    proc : Proc
        For the slow but always right reading.
    exact : bool
        Reset the peak at task boundaries.

    Attributes
    ----------
    exact : bool
        Whether resets work here.
    base_bytes : int
        The base of the bound above; see :func:`bound`.
    missed_bytes : int
        The highest peak, since the last reset here, that a reset by somebody else has wiped out.
    """

    def __init__(self, proc: Proc, *, exact: bool) -> None:
        self.proc = proc
        self.base_bytes = 0
        self.missed_bytes = 0
        self.exact = False
        self._held: HeldFd | None = None
        self._args: tuple[Any, ...] = ()
        self._stat: Any = None
        self._stat_args: tuple[Any, ...] = ()
        self._seen = ctypes.create_string_buffer(512)
        self._seen_mark = memoryview(self._seen).cast("B")[:16]
        self._mark = b""
        self._five = ctypes.create_string_buffer(b"5", 1)
        # ru_maxrss of a process started by a large one begins at that one's size.
        self._usage_floor_bytes = 0
        if exact and clear_refs_reason() is None:
            self._arm()

    def _arm(self) -> None:
        if not self._open():
            return
        self.exact = True
        self.reset()
        hwm = self.proc.hwm_bytes()
        usage = self._usage_bytes()
        if hwm is None:
            self.exact = False
        elif usage > hwm + _SLACK_BYTES:
            self._usage_floor_bytes = usage
        if self.exact:
            _armed.add(self)

    def _open(self) -> bool:
        try:
            held = self._held = HeldFd("/proc/self/clear_refs", os.O_WRONLY)
        except OSError:
            return False
        if held.mark is None:
            return False
        self._args = (
            ctypes.c_int(held.fd),
            ctypes.c_void_p(ctypes.addressof(self._five)),
            ctypes.c_size_t(1),
            ctypes.c_long(0),
        )
        # The C structure begins with device and inode. Asked through it the lock is kept, as for
        # reads; where it is not so, os.fstat serves.
        self._stat = getattr(_proc._LIB, "fstat", None)
        self._stat_args = (ctypes.c_int(held.fd), ctypes.c_void_p(ctypes.addressof(self._seen)))
        self._mark = b"".join(part.to_bytes(8, sys.byteorder) for part in held.mark)
        if self._stat is not None and not self._ours():
            self._stat = None
        return True

    def _ours(self) -> bool:
        if self._stat is None:
            return self._held is not None and self._held.ours()
        return self._stat(*self._stat_args) == 0 and self._seen_mark == self._mark

    @staticmethod
    def _usage_bytes() -> int:
        return usage()[1]

    def reset(self) -> int:
        """Make the present size the peak; gives the bytes written for it (the tracer's own)."""
        if not self.exact:
            return 0
        if len(_armed) > 1:
            self._tell_others()
        self.missed_bytes = 0
        # The program may have closed the descriptor and got its number for a file of its own.
        if not self._ours() and not self._open():
            self.exact = False
            return 0
        lib = _proc._LIB
        if lib is None or lib.pwrite(*self._args) != 1:
            try:
                return os.pwrite(self._args[0].value, b"5", 0)
            except OSError:
                self.exact = False
                return 0
        return 1

    def _tell_others(self) -> None:
        peak = self.true_peak(self._usage_bytes())
        for other in list(_armed):
            if other is not self and other.missed_bytes < peak:
                other.missed_bytes = peak

    def true_peak(self, usage_bytes: int) -> int:
        """Turn a reading of ru_maxrss (bytes) into the peak since the last reset (bytes)."""
        if usage_bytes > self._usage_floor_bytes:
            return usage_bytes
        return self.proc.hwm_bytes() or 0

    def close(self) -> None:
        """Let go of the descriptor."""
        self.exact = False
        _armed.discard(self)
        held, self._held = self._held, None
        if held is not None:
            held.close()


def bound(
    *,
    exact: bool,
    shared: bool,
    peak_bytes: int,
    new_max: bool,
    start_bytes: int,
    base_bytes: int,
    sampled: bool,
) -> tuple[int, str]:
    """Give what a task added to the process's memory at its peak, and the kind of that number.

    Parameters
    ----------
    exact : bool
        The kernel's peak was reset at the boundaries.
    shared : bool
        Another task ran at the same time.
    peak_bytes : int
        Highest resident size seen while the task ran.
    new_max : bool
        Without resets: the kernel's peak rose while the task ran, hence ``peak_bytes`` is it.
    start_bytes : int
        Resident size at the task's start.
    base_bytes : int
        Resident size that no running task held (see the module's text).
    sampled : bool
        Readings were taken between start and end.

    Returns
    -------
    tuple of (int, str)
        Bytes (never negative) and ``exact``, ``upper_bound``, ``sampled``, ``lower_bound`` or
        ``estimate``.

    Examples
    --------
    >>> common = dict(peak_bytes=300, start_bytes=100, base_bytes=40, sampled=False)
    >>> bound(exact=True, shared=False, new_max=False, **common)
    (200, 'exact')
    >>> bound(exact=True, shared=True, new_max=False, **common)
    (260, 'upper_bound')
    >>> bound(exact=False, shared=False, new_max=False, **common)
    (200, 'lower_bound')
    """
    own = max(0, peak_bytes - start_bytes)
    known = exact or new_max
    if known and not shared:
        return own, "exact"
    if known:
        return max(0, peak_bytes - min(base_bytes, start_bytes)), "upper_bound"
    if shared:
        return own, "estimate"
    return own, "sampled" if sampled else "lower_bound"
