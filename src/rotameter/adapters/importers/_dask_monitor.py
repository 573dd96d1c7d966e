"""What a performance report holds beside tasks: the scheduler's monitor and measured bandwidths."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rotameter.adapters.importers._dask_bokeh import Page, numbers, texts
from rotameter.profiler.live.redact import clean_name

if TYPE_CHECKING:
    from rotameter.adapters.importers.building import Builder

__all__ = ["add_samples"]

_SUBJECT = "scheduler"
# Network rates were called read_bytes and write_bytes before hosts were told apart.
_METRICS = {
    "cpu": ("cpu_ratio", 0.01),
    "memory": ("process_rss_bytes", 1.0),
    "num_fds": ("open_files", 1.0),
    "read_bytes": ("net_receive_bytes_per_s", 1.0),
    "write_bytes": ("net_send_bytes_per_s", 1.0),
    "host_net_io.read_bps": ("net_receive_bytes_per_s", 1.0),
    "host_net_io.write_bps": ("net_send_bytes_per_s", 1.0),
    "read_bytes_disk": ("disk_read_bytes_per_s", 1.0),
    "write_bytes_disk": ("disk_write_bytes_per_s", 1.0),
    "host_disk_io.read_bps": ("disk_read_bytes_per_s", 1.0),
    "host_disk_io.write_bps": ("disk_write_bytes_per_s", 1.0),
}
_LATEST_MS = 7_258_118_400_000.0


def add_samples(page: Page, build: Builder) -> None:
    """Add the readings of all tables that hold some."""
    seen: list[Any] = []
    for table in page.tables:
        if table in seen:
            continue
        seen.append(table)
        if "time" in table and "cpu" in table and "memory" in table:
            _monitor(table, build)
        elif "bandwidth" in table and "bandwidth_text" in table:
            _bandwidth(table, build)


def _monitor(table: dict[str, Any], build: Builder) -> None:
    """Add the scheduler process's readings (its own clock)."""
    at = numbers(table["time"])
    if at is None:
        return
    timed = np.isfinite(at) & (at >= 0) & (at < _LATEST_MS)
    for name, (metric, factor) in _METRICS.items():
        values = numbers(table.get(name))
        if values is None or len(values) != len(at):
            continue
        keep = timed & np.isfinite(values)
        count = int(keep.sum())
        if count:
            columns = {
                "at_ns": np.rint(at[keep] * 1e6),
                "subject": [_SUBJECT] * count,
                "metric": [metric] * count,
                "value": values[keep] * factor,
                "quality": ["exact"] * count,
            }
            build.extend("samples", columns)


def _bandwidth(table: dict[str, Any], build: Builder) -> None:
    """Add what the scheduler held for the bandwidth, over the cluster's life: it has no time."""
    values, words = numbers(table["bandwidth"]), texts(table["bandwidth_text"])
    if values is None or words is None or len(words) != len(values):
        return
    kinds, makers, takers = (texts(table.get(n)) for n in ("type", "source", "destination"))
    for number, value in enumerate(values):
        subject = None
        if kinds is not None and number < len(kinds):
            subject = kinds[number]
        elif makers and takers and number < min(len(makers), len(takers)):
            subject = f"{makers[number]} to {takers[number]}"
        # Dask fills a table that has no reading with 1, 2 for workers a and b.
        placeholder = words[number] in ("1", "2")
        if subject and not placeholder and np.isfinite(value) and value >= 0:
            build.add(
                "samples",
                {
                    "subject": clean_name(subject),
                    "metric": "bandwidth_bytes_per_s",
                    "value": float(value),
                    "quality": "estimate",
                },
            )
