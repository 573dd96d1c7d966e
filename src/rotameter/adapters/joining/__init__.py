"""A run's folder as a whole: what several files of it say of the same tasks, joined."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rotameter.adapters.importers.building import Builder
from rotameter.adapters.joining.finding import find
from rotameter.adapters.joining.several import join_several
from rotameter.errors import UsageError

if TYPE_CHECKING:
    from rotameter.profiler.trace import Trace

__all__ = ["join", "join_several"]


def join(folder: Path, *, utc_offset_s: float | None, options: Mapping[str, Any]) -> Trace | None:
    """Join the folder of a workflow's run; None when it is none that is known.

    Parameters
    ----------
    folder : path
        Where ``nextflow`` or ``snakemake`` was called.
    utc_offset_s : float, optional
        Zone of times that carry none, seconds east of UTC.
    options : mapping
        None are known.

    Raises
    ------
    BadInput
        If it is a run's folder that holds nothing usable.
    """
    run = find(folder)
    if run is None:
        return None
    if options:
        raise UsageError(
            f"a run's folder has no option {min(options)!r}",
            hint="name files, or the format with --format, to give an importer's option",
        )
    return run.join(utc_offset_s, Builder(run.engine, run.engine))
