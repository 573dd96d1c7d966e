"""What Dask's task stream and performance report have in common: messages and their stretches."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from rotameter.adapters.dask.names import group_of, task_id_of
from rotameter.profiler.live.redact import clean_name
from rotameter.units import many

if TYPE_CHECKING:
    from rotameter.adapters.importers.building import Builder

__all__ = ["KINDS", "Attempts", "Stretch", "group_name", "not_measured", "seconds_ns"]

KINDS = {
    "compute": "compute",
    "transfer": "transfer",
    "disk-read": "disk",
    "disk-write": "disk",
    "deserialize": "span",
}
"""Dask's actions → kinds of intervals; any other action is a ``span`` under its own name."""

_SECONDS = {
    "transfer": "transfer_s",
    "disk-read": "spill_s",
    "disk-write": "spill_s",
    "deserialize": "deserialize_s",
}
_LATEST_S = 7_258_118_400
_HOST = re.compile(r"[a-z]{2,10}://(?:\[([^\]]+)\]|([^:/\[\]]+))")
_LISTED = 5
_TASK_COLUMNS = (
    *("task_id", "attempt", "group", "worker", "host", "started_ns", "ended_ns"),
    *("outcome", "outcome_kind", "error", "wall_s", "transfer_s", "spill_s", "deserialize_s"),
    *("output_bytes", "source"),
)
_INTERVAL_COLUMNS = (
    *("task_id", "attempt", "worker", "lane", "kind", "name", "start_ns", "end_ns", "peer"),
)


@dataclass(frozen=True, slots=True)
class Stretch:
    """One action of one task: when it began and ended."""

    action: str
    start_ns: int
    end_ns: int
    peer: str | None = None


def seconds_ns(value: Any) -> int | None:
    """Turn epoch seconds into nanoseconds; None for what is no time between 1970 and 2200.

    Examples
    --------
    >>> seconds_ns(1.5), seconds_ns("2"), seconds_ns(float("nan")), seconds_ns(None)
    (1500000000, 2000000000, None, None)
    """
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        seconds = float(value)
    except (ValueError, OverflowError):
        return None
    if not math.isfinite(seconds) or not 0 <= seconds < _LATEST_S:
        return None
    return round(seconds * 1e9)


@lru_cache(maxsize=4096)
def group_name(key: str) -> str:
    """Give the group of a key as Dask's dashboard does.

    Examples
    --------
    >>> group_name("inc-3f"), group_name("('sum-part-0a1b2c3d', 0, 1)")
    ('inc', 'sum-part')
    """
    from dask.utils import key_split

    return group_of(str(key_split(key)))


@lru_cache(maxsize=4096)
def _host(worker: str) -> str | None:
    match = _HOST.match(worker)
    return (match[1] or match[2]) if match else None


def not_measured(build: Builder) -> None:
    """Say what Dask's task stream cannot tell."""
    build.not_measured("dependencies: the task stream has none")
    build.not_measured("memory, CPU time and requests: the task stream has none")
    build.not_measured("when tasks were submitted and became ready: the task stream has no times")


class Attempts:
    """Collects attempts of tasks and numbers those of each task, over all files of an import.

    Parameters
    ----------
    source : str
        The importer's name.
    """

    def __init__(self, source: str) -> None:
        self._source = source
        self._numbers: Counter[str] = Counter()
        self._seen: set[tuple[Any, ...]] = set()
        self._threads: dict[str, set[str]] = {}
        self._others: Counter[str] = Counter()
        self._untimed: list[str] = []
        self._untimed_count = 0
        self._tasks: dict[str, list[Any]] = {name: [] for name in _TASK_COLUMNS}
        self._intervals: dict[str, list[Any]] = {name: [] for name in _INTERVAL_COLUMNS}

    def twice(
        self, key: str, worker: str | None, thread: str | None, stretches: Sequence[Stretch]
    ) -> bool:
        """Say whether this attempt was there before: streams that were saved twice overlap.

        One thread does not do the same at the same instants twice. An attempt without stretches
        may be another one each time.
        """
        mark = (key, worker, thread, *stretches)
        if not stretches or mark not in self._seen:
            self._seen.add(mark)
            return False
        return True

    def add(
        self,
        key: str,
        worker: str | None,
        thread: str | None,
        stretches: Sequence[Stretch],
        *,
        outcome: tuple[str, str],
        error: str | None = None,
        output_bytes: int | None = None,
    ) -> None:
        """Add one attempt with its stretches; ``outcome`` is (outcome, how it is known)."""
        task_id = task_id_of(key)
        self._numbers[task_id] += 1
        attempt = self._numbers[task_id]
        worker = clean_name(worker) if worker else None
        thread = clean_name(thread) if thread else None
        times = _times(stretches)
        values = (
            *(task_id, attempt, group_name(key), worker, _host(worker) if worker else None),
            *times,
            *(*outcome, error),
            *_sums(stretches),
            *(output_bytes, self._source),
        )
        for name, value in zip(_TASK_COLUMNS, values, strict=True):
            self._tasks[name].append(value)
        for one in stretches:
            self._stretch((task_id, attempt, worker, thread), one)
        if not stretches:
            self._untimed_count += 1
            if len(self._untimed) < _LISTED:
                self._untimed.append(task_id)
        if worker:
            threads = self._threads.setdefault(worker, set())
            if thread and times[0] is not None:
                threads.add(thread)

    def _stretch(self, who: tuple[Any, ...], one: Stretch) -> None:
        kind = KINDS.get(one.action)
        action = one.action if kind else clean_name(one.action)
        if kind is None:
            self._others[action] += 1
        row = (*who, kind or "span", action, one.start_ns, one.end_ns, one.peer)
        for name, value in zip(_INTERVAL_COLUMNS, row, strict=True):
            self._intervals[name].append(value)

    def __len__(self) -> int:
        return self._numbers.total()

    def flush(self, build: Builder) -> None:
        """Hand over what was added since the last call."""
        if self._tasks["task_id"]:
            build.extend("tasks", self._tasks)
        if self._intervals["task_id"]:
            build.extend("intervals", self._intervals)
        self._tasks = {name: [] for name in _TASK_COLUMNS}
        self._intervals = {name: [] for name in _INTERVAL_COLUMNS}

    def finish(self, build: Builder, cores: float | None = None) -> None:
        """Add the workers and say what was odd; ``cores`` of each worker, if known."""
        for worker, threads in self._threads.items():
            build.add(
                "workers",
                {
                    "worker": worker,
                    "host": _host(worker),
                    "cores": cores if cores is not None else len(threads) or None,
                },
            )
        if cores is None and self._threads:
            build.not_measured("cores of a worker: counted are the threads that ran its tasks")
        for action, count in self._others.items():
            build.warn(
                f"the action {action!r} is none that rotameter knows: kept as spans of that "
                f"name ({count:,})"
            )
        if self._untimed_count:
            more = ", …" if self._untimed_count > len(self._untimed) else ""
            build.warn(
                f"{many(self._untimed_count, 'message carries', 'messages carry')} no "
                f"timing (their worker may have died): "
                f"{', '.join(self._untimed)}{more}"
            )


def _times(stretches: Sequence[Stretch]) -> tuple[int | None, int | None]:
    """Give when the attempt ran: its computing, else what no known action accounts for."""
    runs = [s for s in stretches if s.action == "compute"]
    runs = runs or [s for s in stretches if s.action not in KINDS]
    if not runs:
        return None, None
    return min(s.start_ns for s in runs), max(s.end_ns for s in runs)


def _sums(stretches: Sequence[Stretch]) -> tuple[float | None, ...]:
    """Give wall_s, transfer_s, spill_s, deserialize_s; None where no stretch says it."""
    sums: dict[str, int] = {}
    has_compute = any(s.action == "compute" for s in stretches)
    for one in stretches:
        name = _SECONDS.get(one.action)
        if one.action == "compute" or (name is None and not has_compute):
            name = "wall_s"
        if name is not None:
            sums[name] = sums.get(name, 0) + one.end_ns - one.start_ns
    names = ("wall_s", "transfer_s", "spill_s", "deserialize_s")
    return tuple(sums[name] / 1e9 if name in sums else None for name in names)
