"""What errors say that an attempt ran out of, where no outcome says it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pyarrow.compute as pc

if TYPE_CHECKING:
    from rotameter.profiler.view import Mask, View

__all__ = ["DISK", "GPU_MEMORY", "out_of", "out_of_disk"]

DISK = r"^(?:RESOURCE_EXHAUSTION: (?:\w+, )*disk\b|SANDBOX_EXHAUSTION\b|DISK_ALLOC_FULL\b)"
"""An attempt that outgrew its own share of a disk (TaskVine, Work Queue). A disk that is full ("no
space left on device") is no such thing: others may have filled it."""

GPU_MEMORY = (
    r"(?i)\b(?:CUDA|HIP|GPU)(?: error:)? out of memory|CUDA_ERROR_OUT_OF_MEMORY"
    r"|cudaErrorMemoryAllocation|hipErrorOutOfMemory"
)
"""An attempt that found too little memory on its GPU (PyTorch, CuPy, the drivers)."""


def out_of_disk(error: str | None) -> bool:
    """Say whether an error is that of an attempt that outgrew its share of a disk.

    Examples
    --------
    >>> [out_of_disk(x) for x in ("RESOURCE_EXHAUSTION: disk", "SANDBOX_EXHAUSTION", "disk", None)]
    [True, True, False, False]
    """
    return error is not None and re.search(DISK, error) is not None


def out_of(seen: View, pattern: str) -> Mask:
    """Say which attempts ended with an error of a pattern."""
    found = pc.match_substring_regex(seen.tasks["error"], pattern)
    mask: Mask = pc.fill_null(found, False).to_numpy().astype(bool)
    return mask
