"""Rows of the tables, made from what was measured."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from rotameter.profiler.live.context import TASK_COLUMNS, Measured, Running
from rotameter.profiler.schema import columns_of

if TYPE_CHECKING:
    from rotameter.profiler.live.session import Session

__all__ = [
    "ALL_TASK_COLUMNS",
    "FLOW_COLUMNS",
    "LEVEL_COLUMNS",
    "SAMPLE_COLUMNS",
    "SPAN_COLUMNS",
    "TASK_COLUMNS",
    "flow_rows",
    "number",
    "outcome_of",
    "task_row",
]

_FLOWS = "task_id run_id attempt worker object medium op bytes ops first_ns last_ns busy_s"
_SPANS = "task_id run_id attempt worker lane kind name start_ns end_ns parent"
FLOW_COLUMNS = tuple(_FLOWS.split())
SPAN_COLUMNS = tuple(_SPANS.split())
LEVEL_COLUMNS = ("at_ns", "kind", "worker", "host", "group", "reason", "value")
SAMPLE_COLUMNS = ("at_ns", "subject", "metric", "value", "quality")
ALL_TASK_COLUMNS = frozenset(columns_of("tasks"))


def number(value: Any) -> float | None:
    """Give a finite float, or None.

    Examples
    --------
    >>> number(3), number("x"), number(float("nan"))
    (3.0, None, None)
    """
    try:
        result = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return result if math.isfinite(result) else None


def outcome_of(error: BaseException) -> str:
    """Give the outcome of an attempt that ended with ``error``.

    Examples
    --------
    >>> outcome_of(ValueError()), outcome_of(MemoryError()), outcome_of(SystemExit(0))
    ('failed', 'oom', 'ok')
    """
    if isinstance(error, MemoryError):
        return "oom"
    if isinstance(error, asyncio.CancelledError | KeyboardInterrupt):
        return "cancelled"
    if isinstance(error, GeneratorExit | StopIteration | StopAsyncIteration):
        return "ok"
    if isinstance(error, SystemExit):
        return "ok" if error.code in (None, 0) else "failed"
    return "failed"


def _io(r: Measured) -> tuple[int | None, int | None, str | None]:
    """Bytes read and written by the attempt and the kind of the two numbers."""
    if r.untimed:
        return _io_counted(r)
    if not r.shared and r.process_read_bytes is not None:
        kind = "estimate" if r.io_busy else "exact"
        return max(0, r.process_read_bytes), max(0, r.process_write_bytes), kind
    if r.thread_read_bytes is not None:
        # Pools of other threads (Arrow, BLAS) are not in it.
        return max(0, r.thread_read_bytes), max(0, r.thread_write_bytes), "lower_bound"
    return _io_counted(r)


def _io_counted(r: Running) -> tuple[int | None, int | None, str | None]:
    """Give what the counted files say; other ways of reading are not in it."""
    if r.files is None:
        return None, None, None
    sums = {"read": 0, "write": 0}
    for (_, op), entry in r.files.items():
        sums[op] += entry[0]
    return sums["read"], sums["write"], "lower_bound"


def _io_s(r: Running, read: int | None, write: int | None) -> float | None:
    """Seconds inside counted calls, unless much of the traffic went other ways."""
    if read is None or write is None:
        return None
    if not r.files:
        return 0.0 if read + write == 0 else None
    # Bytes that others moved through a lent descriptor (a sixth number) took unknown time.
    counted = sum(entry[0] - sum(entry[5:]) for entry in r.files.values())
    if counted < 0.9 * (read + write):
        return None
    return sum(entry[4] for entry in r.files.values()) / 1e9


def _peak_kind(r: Measured) -> str | None:
    if r.added_bytes is None:
        return None
    return "lower_bound" if r.untimed else r.added_kind


def task_row(r: Running) -> tuple[Any, ...]:
    """Give the values of :data:`TASK_COLUMNS` of an ended attempt."""
    session = r.session
    wall_ns, cpu_ns = r.wall_ns, r.cpu_ns
    if cpu_ns is not None:
        # Read just outside the wall clock, which shows in tiny tasks.
        cpu_ns = max(0, min(cpu_ns, wall_ns))
    read = write = io_kind = io_s = process_cpu_s = peak = peak_kind = start = None
    if r.__class__ is Measured:
        read, write, io_kind = _io(r)
        io_s = _io_s(r, read, write)
        peak, peak_kind, start = r.added_bytes, _peak_kind(r), r.start_memory_bytes
        # Beside others the process's CPU time is nobody's own, and a sum of it counts it twice.
        process_cpu_s = None if r.shared else r.process_cpu_s
    return (
        r.task_id,
        r.run_name,
        r.attempt,
        r.parent,
        r.group,
        session.worker,
        session.host,
        r.started_ns,
        r.ended_ns,
        r.outcome,
        "reported",
        r.error,
        wall_ns / 1e9,
        None if cpu_ns is None else cpu_ns / 1e9,
        process_cpu_s,
        io_s,
        r.area_ns / r.area_wall_ns if r.area_wall_ns > 0 else None,
        peak,
        peak_kind,
        start,
        read,
        write,
        io_kind,
        r.requested_memory_bytes,
        r.features,
        session.source,
    )


def flow_rows(
    r: Running | None, session: Session, files: Mapping[tuple[str, str], list[int]]
) -> Iterator[tuple[Any, ...]]:
    """Give a row of :data:`FLOW_COLUMNS` for each file that the attempt (or none) touched.

    An entry of ``files`` is ``[bytes, ops, first_ns, last_ns, busy_ns]``, times monotonic, and
    where it is not 0 how many of the bytes moved by calls that were not seen.
    """
    offset, worker = session.offset_ns, session.worker
    head = (None, None, None) if r is None else (r.task_id, r.run_name, r.attempt)
    for (name, op), (size, ops, first, last, busy, *_) in list(files.items()):
        times = (first + offset, last + offset, busy / 1e9)
        yield (*head, worker, name, "file", op, size, ops, *times)
