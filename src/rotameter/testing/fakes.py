"""Fakes that stand in for time and clusters."""

from __future__ import annotations

__all__ = ["FakeClock"]


class FakeClock:
    """A clock that stands still until told to move; offers the `Clock` interface.

    Parameters
    ----------
    now_ns : int
        Where wall time starts, in nanoseconds since the epoch.

    Examples
    --------
    >>> clock = FakeClock(now_ns=5)
    >>> clock.advance(1e-9)
    >>> clock.now_ns(), clock.monotonic_ns(), clock.thread_ns(), clock.process_ns()
    (6, 1, 0, 0)
    """

    def __init__(self, now_ns: int = 0) -> None:
        self._start_ns = now_ns
        self._passed_ns = 0
        self._cpu_ns = 0

    def advance(self, seconds: float, *, cpu_s: float = 0.0) -> None:
        """Let time pass; ``cpu_s`` of it was spent on the CPU."""
        self._passed_ns += round(seconds * 1e9)
        self._cpu_ns += round(cpu_s * 1e9)

    def now_ns(self) -> int:
        """Nanoseconds since the epoch."""
        return self._start_ns + self._passed_ns

    def monotonic_ns(self) -> int:
        """Nanoseconds that have passed."""
        return self._passed_ns

    def thread_ns(self) -> int:
        """CPU nanoseconds of the thread."""
        return self._cpu_ns

    def process_ns(self) -> int:
        """CPU nanoseconds of the process."""
        return self._cpu_ns
