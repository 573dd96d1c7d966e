"""Which tools have a request for a disk, for GPUs and for their memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rotameter.allocator.advice import Advice

__all__ = ["no_place", "placed"]

_WHERE_KNOWN = frozenset(("disk", "gpus", "gpu_memory"))
"""Memory, time and cores have their places in each tool's own module."""

_PLACES = {
    "slurm": frozenset(("disk", "gpus")),
    "nextflow": frozenset(("disk", "gpus")),
    "snakemake": frozenset(("disk", "gpus")),
    "kubernetes": frozenset(("disk", "gpus")),
    "jobqueue": frozenset[str](),
    "dask-kubernetes": frozenset[str](),
}

_NAMES = {
    "slurm": "Slurm",
    "nextflow": "Nextflow",
    "snakemake": "Snakemake",
    "kubernetes": "Kubernetes",
    "jobqueue": "a Dask worker, which serves many tasks,",
    "dask-kubernetes": "a Dask worker, which serves many tasks,",
}


def _has_place(target: str, one: Advice) -> bool:
    name = one.resource.name
    return name not in _WHERE_KNOWN or name in _PLACES[target]


def placed(target: str, advice: Sequence[Advice]) -> list[Advice]:
    """Keep what a tool has no request for, and say what it would be.

    Examples
    --------
    >>> from rotameter.allocator.advice import Advice
    >>> from rotameter.allocator.resources import GPU_MEMORY
    >>> one = Advice("g", 9, 1e9, 2e9, None, 3e9, (), 0.0, (0, 0.3), None, resource=GPU_MEMORY)
    >>> placed("slurm", [one])[0].keep
    'Slurm has no request for GPU memory; it would be 3 GB'
    """
    return [
        one
        if one.request is None or _has_place(target, one)
        else replace(
            one,
            request=None,
            retries=(),
            kill_ratio=None,
            kill_interval=None,
            keep=f"{_NAMES[target]} has no request for {one.resource.word}; it would be "
            f"{one.resource.text(one.request)}",
        )
        for one in advice
    ]


def no_place(target: str, advice: Sequence[Advice]) -> list[str]:
    """Say of which resources a tool has no request."""
    words = dict.fromkeys(
        one.resource.word
        for one in advice
        if one.request is not None and not _has_place(target, one)
    )
    return [
        f"{word} are left out: {_NAMES[target]} has no request for them"
        if word.endswith("s")
        else f"{word} is left out: {_NAMES[target]} has no request for it"
        for word in words
    ]
