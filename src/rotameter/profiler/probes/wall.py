"""Wall time."""

from __future__ import annotations

from typing import Any

from rotameter.profiler.live.clock import SYSTEM, Clock

__all__ = ["Probe"]


class Probe:
    """Seconds from start to stop, by the monotonic clock.

    Parameters
    ----------
    clock : Clock

    Examples
    --------
    >>> probe = Probe()
    >>> probe.stop(probe.start(None))["wall_s"] >= 0
    True
    """

    columns = ("wall_s",)

    def __init__(self, clock: Clock = SYSTEM) -> None:
        self._clock = clock

    def start(self, context: Any) -> int:
        """Begin; ``context`` is the attempt (not used)."""
        return self._clock.wall()

    def stop(self, token: int) -> dict[str, Any]:
        """Give ``wall_s``."""
        return {"wall_s": (self._clock.wall() - token) / 1e9}
