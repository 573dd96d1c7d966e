"""What a task added to the process's resident memory at its peak."""

from __future__ import annotations

from typing import Any

from rotameter.profiler.live.memory import PeakMeter, bound
from rotameter.profiler.live.proc import Own, Proc, usage

__all__ = ["Probe"]


class Probe:
    """Peak of resident memory from start to stop, over that at the start.

    Parameters
    ----------
    exact_peak : bool
        Reset the kernel's peak at the start. This lowers ru_maxrss for everybody who reads it,
        and makes an enclosing task's peak wrong: the session, which keeps a maximum over nested
        resets, is the place for that.

    Examples
    --------
    >>> probe = Probe()
    >>> sorted(probe.stop(probe.start(None)))
    ['peak_memory_bytes', 'peak_memory_kind', 'start_memory_bytes']
    """

    columns = ("peak_memory_bytes", "peak_memory_kind", "start_memory_bytes")

    def __init__(self, *, exact_peak: bool = False) -> None:
        self._proc = Proc(Own())
        self._meter = PeakMeter(self._proc, exact=exact_peak)

    def start(self, context: Any) -> tuple[Any, int | None, int]:
        """Begin; of the attempt ``context`` it is asked at the end whether it was ``shared``."""
        self._meter.reset()
        return context, self._proc.rss_bytes(), usage()[1]

    def stop(self, token: tuple[Any, int | None, int]) -> dict[str, Any]:
        """Give the peak over the start, its kind, and the resident memory at the start."""
        context, start, max0 = token
        max1, end = usage()[1], self._proc.rss_bytes()
        if start is None or end is None:
            return dict.fromkeys(self.columns)
        exact = self._meter.exact
        new_max = not exact and max1 > max0
        known = max1 if new_max else 0
        if exact:
            known = max(self._meter.true_peak(max1), self._meter.missed_bytes)
        added, kind = bound(
            exact=exact,
            shared=bool(getattr(context, "shared", False)),
            peak_bytes=max(start, end, known),
            new_max=new_max,
            start_bytes=start,
            base_bytes=start,
            sampled=False,
        )
        return dict(zip(self.columns, (added, kind, start), strict=True))
