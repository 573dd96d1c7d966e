"""The one schema: every table of a trace, as plain data.

Pure standard library, so that the live half (shipped by value to workers) can use it; the Arrow
form is made on demand by :func:`arrow_schema`. Times are integer nanoseconds since the epoch,
unknown is null and never 0.

Types: ``i`` int64, ``f`` float64, ``s`` string, ``b`` bool, ``m`` map of string to float64.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "EVENT_KINDS",
    "INTERVAL_KINDS",
    "KINDS",
    "MEDIA",
    "OUTCOMES",
    "SCHEMA_VERSION",
    "TABLES",
    "arrow_schema",
    "columns_of",
]

SCHEMA_VERSION = 1

_TASKS = """
task_id:s attempt:i run_id:s parent:s group:s worker:s host:s user:s account:s queue:s priority:f
submitted_ns:i ready_ns:i started_ns:i ended_ns:i
outcome:s outcome_kind:s error:s
wall_s:f cpu_s:f process_cpu_s:f io_s:f transfer_s:f spill_s:f deserialize_s:f gpu_s:f concurrency:f
peak_memory_bytes:i peak_memory_kind:s start_memory_bytes:i peak_disk_bytes:i peak_disk_kind:s
read_bytes:i write_bytes:i io_kind:s received_bytes:i output_bytes:i
gpu_peak_bytes:i gpu_kind:s energy_j:f energy_meter:s energy_quality:s
requested_cores:f requested_memory_bytes:i requested_disk_bytes:i requested_gpus:f
requested_gpu_share:f requested_gpu_memory_bytes:i requested_nodes:i requested_exclusive:b
requested_wall_s:f
granted_cores:f granted_memory_bytes:i granted_disk_bytes:i granted_gpus:f granted_gpu_share:f
granted_gpu_memory_bytes:i granted_nodes:i granted_exclusive:b granted_wall_s:f
features:m exit_code:i signal:i source:s
"""

_EVENTS = """
at_ns:i kind:s subject:s worker:s host:s group:s task_id:s run_id:s
expected:b reason:s pid:i exit_code:i signal:i rss_bytes:i limit_bytes:i count:i duration_s:f
size_bytes:i file:s line:i text:s span:s layer:s value:f
"""

_RAW: dict[str, str] = {
    "tasks": _TASKS,
    "intervals": """
        task_id:s attempt:i run_id:s worker:s lane:s kind:s name:s start_ns:i end_ns:i bytes:i
        peer:s parent:s""",
    "flows": """
        task_id:s attempt:i run_id:s worker:s object:s medium:s op:s bytes:i used_bytes:i
        footprint_bytes:i ops:i first_ns:i last_ns:i busy_s:f tier:s peer:s""",
    "objects": "object:s size_bytes:i tier:s created_ns:i deleted_ns:i",
    "deps": "task_id:s depends_on:s",
    "workers": """
        worker:s host:s name:s pid:i started_ns:i ended_ns:i end_reason:s cores:f memory_bytes:i
        devices:s""",
    "samples": "at_ns:i subject:s metric:s value:f quality:s",
    "decisions": """
        at_ns:i policy:s version:s subject:s action:s predicted_low:f predicted_mid:f
        predicted_high:f reason:s""",
    "events": _EVENTS,
    "rejects": "source:s line:i reason:s",
}


def _parse(text: str) -> tuple[tuple[str, str], ...]:
    return tuple((name, kind) for name, kind in (item.split(":") for item in text.split()))


TABLES: dict[str, tuple[tuple[str, str], ...]] = {name: _parse(t) for name, t in _RAW.items()}
"""Table name → ((column, type code), …), in order."""

OUTCOMES = (
    "ok",
    "failed",
    "oom",
    "timeout",
    "preempted",
    "worker_lost",
    "cancelled",
    "cached",
    "rescheduled",
    "running",
    "unknown",
)
KINDS = ("exact", "sampled", "lower_bound", "upper_bound", "estimate", "missing")
MEDIA = ("file", "object_store", "memory", "network", "device")
INTERVAL_KINDS = (
    "compute",
    "transfer",
    "disk",
    "span",
    "kernel",
    "communication",
    "hold",
    "stall",
)

EVENT_KINDS: dict[str, tuple[str, ...]] = {
    "worker_added": ("worker", "host", "count", "limit_bytes"),
    "worker_removed": ("worker", "expected", "reason"),
    "worker_memory_kill": ("worker", "pid", "rss_bytes", "limit_bytes"),
    "worker_exit": ("worker", "pid", "exit_code", "signal"),
    "worker_paused": ("worker", "rss_bytes", "limit_bytes"),
    "worker_resumed": ("worker", "rss_bytes", "limit_bytes"),
    # What really ran on a worker when it died (from the memory-mapped slots).
    "executing_at_death": ("worker", "task_id", "run_id", "group", "rss_bytes", "duration_s"),
    # What was merely assigned to the worker and had not begun.
    "queued_at_death": ("worker", "task_id", "run_id", "group"),
    "graph_submitted": ("count", "duration_s", "size_bytes"),
    # Where a group of tasks comes from in the user's code.
    "group_origin": ("group", "file", "line", "text", "span", "layer", "count"),
    "setting": ("text", "value"),
    # Tasks that no worker may take, and what they ask for; 0 = no longer.
    "unrunnable": ("group", "count", "reason"),
    "tasks_stolen": ("count", "worker"),
    "level_changed": ("worker", "reason", "value"),
    "records_dropped": ("worker", "count"),
    "not_measured": ("text", "reason"),
    "hook_error": ("worker", "text", "reason"),
    # The user's program ended: exit_code, or text = redacted error.
    "run_ended": ("exit_code", "signal", "text", "reason"),
    "scheduler_lost": ("reason",),
    # Of imported traces: a mark without duration, and a pilot job's state.
    "instant": ("worker", "task_id", "text"),
    "block_status": ("text", "reason", "host"),
}
"""Event kind → the detail columns that it fills (subject and at_ns always)."""


def columns_of(table: str) -> tuple[str, ...]:
    """Give the column names of a table, in order.

    Examples
    --------
    >>> columns_of("deps")
    ('task_id', 'depends_on')
    """
    return tuple(name for name, _ in TABLES[table])


@cache
def arrow_schema(table: str) -> pa.Schema:
    """Give the Arrow schema of a table.

    Examples
    --------
    >>> arrow_schema("deps").names
    ['task_id', 'depends_on']
    """
    import pyarrow as pa

    types = {
        "i": pa.int64(),
        "f": pa.float64(),
        "s": pa.string(),
        "b": pa.bool_(),
        "m": pa.map_(pa.string(), pa.float64()),
    }
    return pa.schema([pa.field(name, types[kind]) for name, kind in TABLES[table]])
