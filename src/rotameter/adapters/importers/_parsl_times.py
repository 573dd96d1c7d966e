"""Times of a monitoring.db: seconds since the epoch in the oldest, local text without a zone later.

The oldest generation has both: tasks in epoch seconds, status and resource rows in local text.
Its ``workflow_version`` repeats the run's beginning as local text, which gives the zone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from rotameter.adapters.importers.times import epoch_ns, local_ns

__all__ = ["Clock", "is_epoch"]

_QUARTER_S = 900
_DAY_S = 86_400
_EPOCH = re.compile(r"\d{9,10}(?:\.\d+)?")


def is_epoch(value: Any) -> bool:
    """Say whether a time is written as seconds since the epoch.

    Examples
    --------
    >>> is_epoch("1550507327.54"), is_epoch("2024-03-06 12:38:05.2"), is_epoch("None")
    (True, False, False)
    """
    if isinstance(value, bool):
        return False
    if isinstance(value, (int, float)):
        return 1e8 < value < 7e9
    return isinstance(value, str) and _EPOCH.fullmatch(value.strip()) is not None


class Clock:
    """Reads both ways of writing a time onto one axis.

    Parameters
    ----------
    began : iterable of (time_began, workflow_version)
        Of the runs in the file; from them the zone of local text is found where tasks have epoch
        seconds.
    zone_ns : int, optional
        What the user says of text without a zone, nanoseconds east of UTC.

    Attributes
    ----------
    epoch : bool
        Whether times are on the axis of the epoch: the file's own are, or the zone is known.
    """

    def __init__(self, began: Iterable[tuple[Any, Any]], zone_ns: int | None = None) -> None:
        pairs = list(began)
        self.epoch = any(is_epoch(first) for first, _ in pairs)
        east_s = _zone(pairs) if self.epoch else None
        self._east_ns = zone_ns if east_s is None else east_s * 10**9
        if not self.epoch and self._east_ns is None:
            self._east_ns = 0
        self.epoch |= zone_ns is not None
        self.unreadable = 0
        self.lost = 0

    def ns(self, value: Any) -> int | None:
        """Read a time; None where there is none or it cannot be placed."""
        if value is None or value == "" or value == "None":
            return None
        try:
            if is_epoch(value):
                if not self.epoch:
                    self.lost += 1  # an absolute time among local ones
                    return None
                return epoch_ns(value if isinstance(value, str) else float(value))
            at, _ = local_ns(str(value))
        except (ValueError, OverflowError):
            self.unreadable += 1
            return None
        if self._east_ns is None:
            self.lost += 1
            return None
        return at - self._east_ns


def _zone(pairs: list[tuple[Any, Any]]) -> int | None:
    """Give seconds east of UTC of the local text, from runs that have both ways of writing."""
    found: dict[int, int] = {}
    for began, version in pairs:
        if not is_epoch(began) or not isinstance(version, str):
            continue
        try:
            local, zoned = local_ns(version)
        except ValueError:
            continue
        gap = local / 1e9 - float(began)
        east = round(gap / _QUARTER_S) * _QUARTER_S
        if not zoned and abs(gap - east) < 60 and abs(east) < _DAY_S:
            found[east] = found.get(east, 0) + 1
    return max(found, key=lambda east: found[east]) if found else None
