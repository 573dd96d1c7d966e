"""Rules, one a file: each looks for one cause of loss in a trace and prices it.

A rule is a class ``Advisor`` with a ``name`` and ``check(trace, tools) -> list[Finding]``. Ours
register through the entry-point group ``rotameter.advisors`` exactly like anyone's.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rotameter.profiler.findings.base import Advisor

__all__ = ["BUILT_IN", "built_in"]

BUILT_IN = (
    "workers_died",
    "tiny_tasks",
    "latency_bound_roots",
    "transfer_bound",
    "spill",
    "straggler",
    "idle_parallelism",
    "gil_contention",
    "thread_oversubscription",
    "scheduler_bound",
    "large_graph",
    "skewed_partitions",
    "cold_first_task",
    "uneven_workers",
    "over_requested_cores",
    "queue_wait",
    "regime_change",
    "slow_storage",
    "small_io",
    "random_io",
    "metadata_io",
    "latency_bound_reads",
    "repeated_reads",
    "unread_outputs",
    "staging_cost",
    "dominant_input",
    "gpu_idle_host",
    "gpu_idle_input",
    "gpu_idle_communication",
    "gpu_unused",
    "unmanaged_memory",
    "root_overproduction",
    "over_requested_memory",
    "under_requested_memory",
    "failed_work",
    "lost_attempts",
    "recomputed_work",
    "cache_missed",
    "walltime_loss",
    "no_progress",
    "network_import_or_spill",
    "unrunnable",
)


def built_in() -> list[Advisor]:
    """Make one of each of our own rules.

    Examples
    --------
    >>> [advisor.name for advisor in built_in()][:2]
    ['workers_died', 'tiny_tasks']
    """
    return [import_module(f"{__name__}.{name}").Advisor() for name in BUILT_IN]
