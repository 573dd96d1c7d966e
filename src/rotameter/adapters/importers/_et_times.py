"""Times for an execution trace's operators, out of the profiler's trace of the same run."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rotameter.adapters.importers._chrome_events import LIMIT_NS, micro_ns
from rotameter.adapters.importers._et_graph import Node
from rotameter.adapters.importers._json_events import EventReader
from rotameter.adapters.importers.inputs import open_members
from rotameter.errors import BadInput

__all__ = ["Times", "read_times"]

_KEYS = ("Record function id", "External id", "external id")
_HOST = ("cpu_op", "user_annotation", "Operator", "operator")
_EPOCH_NS = 946_684_800 * 10**9


@dataclass
class Times:
    """When host operators ran.

    Attributes
    ----------
    spans : dict of int to tuple of (str, int, int)
        Number of the record function → (name, start, end), ns.
    epoch : bool
        Whether the times count from the epoch.
    """

    spans: dict[int, tuple[str, int, int]] = field(default_factory=dict)
    epoch: bool = True

    def of(self, node: Node) -> tuple[int, int] | None:
        """Give (start, end) of a node, where number and name agree."""
        found = None if node.rf_id is None else self.spans.get(node.rf_id)
        return found[1:] if found is not None and found[0] == node.name else None


def read_times(path: Any) -> Times:
    """Read the profiler's trace.

    Raises
    ------
    BadInput
        If there is no such file, or it holds no host operators.
    """
    place = Path(os.path.expanduser(str(path)))
    members = open_members(place)
    times = Times()
    base: int | None = None
    for file in members[:1]:
        reader = EventReader(file)
        for event in reader:
            if isinstance(event, dict) and event.get("ph") == "X" and event.get("cat") in _HOST:
                _take(event, times)
        given = reader.header.get("baseTimeNanoseconds")
        base = given if isinstance(given, int) and 0 < given < LIMIT_NS else None
    if not times.spans:
        raise BadInput(f"{place} holds no host operators", hint="name the profiler's trace")
    if base is not None:
        times.spans = {k: (n, a + base, b + base) for k, (n, a, b) in times.spans.items()}
    times.epoch = min(start for _, start, _ in times.spans.values()) >= _EPOCH_NS
    return times


def _take(event: Mapping[str, Any], times: Times) -> None:
    args, name = event.get("args"), event.get("name")
    if not isinstance(args, dict) or not isinstance(name, str):
        return
    number = next((args[key] for key in _KEYS if isinstance(args.get(key), int)), None)
    start, lasts = micro_ns(event.get("ts")), micro_ns(event.get("dur"))
    if number is not None and start is not None and lasts is not None and lasts >= 0:
        times.spans.setdefault(number, (name, start, start + lasts))
