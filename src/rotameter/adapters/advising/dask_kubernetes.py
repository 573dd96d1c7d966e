"""A worker of the Dask operator for Kubernetes that holds the largest request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rotameter.adapters.advising._workers import worker_text

if TYPE_CHECKING:
    from rotameter.allocator.advice import Advice

__all__ = ["text"]


def text(advice: Sequence[Advice], machine_bytes: float | None) -> str:
    """Write a worker's memory; tasks spill from 70 % of it on, so it is larger than any need."""

    def body(mib: int) -> list[str]:
        return [
            "spec:",
            "  containers:",
            "    - name: worker",
            f'      args: [dask, worker, --nthreads, "1", --memory-limit, "{mib}MiB"]',
            "      resources:",
            f'        requests: {{memory: "{mib}Mi"}}',
            f'        limits: {{memory: "{mib}Mi"}}',
        ]

    return worker_text(advice, machine_bytes, "Belongs under spec.worker of a DaskCluster.", body)
