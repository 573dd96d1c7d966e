"""A worker of the Dask operator for Kubernetes that holds the largest request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rotameter.adapters.advising._workers import no_cores, worker_text

if TYPE_CHECKING:
    from rotameter.adapters.advising._wanted import Most, Wanted

__all__ = ["left_out", "text"]


def left_out(wanted: Sequence[Wanted]) -> list[str]:
    """Say what a worker's pod has no place for."""
    made = no_cores(wanted)
    if any(one.rungs("time") for one in wanted):
        made.append("time is left out: a worker's pod has no limit of time, it serves many tasks")
    return made


def text(wanted: Sequence[Wanted], limits: Most) -> str:
    """Write a worker's memory; tasks spill from 70 % of it on, so it is larger than any need."""

    def body(mib: int | None) -> list[str]:
        """Write the lines for a worker of so much memory; none where nothing is advised."""
        if mib is None:
            return []
        return [
            "spec:",
            "  containers:",
            "    - name: worker",
            f'      args: [dask, worker, --nthreads, "1", --memory-limit, "{mib}MiB"]',
            "      resources:",
            f'        requests: {{memory: "{mib}Mi"}}',
            f'        limits: {{memory: "{mib}Mi"}}',
        ]

    return worker_text(wanted, limits.memory, "Belongs under spec.worker of a DaskCluster.", body)
