"""A worker of the Dask operator for Kubernetes that holds the largest request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rotameter.adapters.advising._words import HEAD
from rotameter.adapters.advising._workers import comments, worker_bytes

if TYPE_CHECKING:
    from rotameter.allocator.advice import Advice

__all__ = ["text"]


def text(advice: Sequence[Advice], machine_bytes: float) -> str:
    """Write the part of a DaskCluster that sizes its workers, of one thread each."""
    lines = [f"# {HEAD}", "# Belongs under spec.worker of a DaskCluster.", *comments(advice)]
    memory = worker_bytes(advice, machine_bytes)
    if memory is None:
        return "\n".join([*lines, "# nothing is changed", ""])
    size = f"{memory // 2**20}Mi"
    return "\n".join(
        [
            *lines,
            "spec:",
            "  containers:",
            "    - name: worker",
            f'      args: [dask, worker, --nthreads, "1", --memory-limit, "{size}B"]',
            "      resources:",
            f'        requests: {{memory: "{size}"}}',
            f'        limits: {{memory: "{size}"}}',
            "",
        ]
    )
