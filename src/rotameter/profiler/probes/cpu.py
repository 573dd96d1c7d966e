"""CPU time of the calling thread and of the whole process.

A thread's own clock does not see the pools of BLAS or Arrow, which work in other threads; the
process's clock sees everybody. Both are recorded.
"""

from __future__ import annotations

from typing import Any

from rotameter.profiler.live.clock import SYSTEM, Clock

__all__ = ["Probe"]


class Probe:
    """CPU seconds from start to stop; both must be called in the same thread.

    Parameters
    ----------
    clock : Clock

    Examples
    --------
    >>> probe = Probe()
    >>> sorted(probe.stop(probe.start(None)))
    ['cpu_s', 'process_cpu_s']
    """

    columns = ("cpu_s", "process_cpu_s")

    def __init__(self, clock: Clock = SYSTEM) -> None:
        self._clock = clock

    def start(self, context: Any) -> tuple[int, int]:
        """Begin; ``context`` is the attempt (not used)."""
        return self._clock.process(), self._clock.thread()

    def stop(self, token: tuple[int, int]) -> dict[str, Any]:
        """Give ``cpu_s`` and ``process_cpu_s``."""
        thread = self._clock.thread() - token[1]
        return {"cpu_s": thread / 1e9, "process_cpu_s": (self._clock.process() - token[0]) / 1e9}
