"""A run's folder as a whole: what several files of it say of the same tasks, joined."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rotameter.profiler.trace import Trace

__all__ = ["join"]


def join(folder: Path, *, utc_offset_s: float | None, options: Mapping[str, Any]) -> Trace | None:
    """Join the folder of a workflow's run; None when it is none that is known."""
    return None
