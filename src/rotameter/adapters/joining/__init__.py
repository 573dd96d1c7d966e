"""A run's folder as a whole: what several files of it say of the same tasks, joined."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rotameter.adapters.joining import nextflow_run, snakemake_run
from rotameter.errors import UsageError

if TYPE_CHECKING:
    from rotameter.profiler.trace import Trace

__all__ = ["join"]


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
    made = _joiner(folder)
    if made is None:
        return None
    if options:
        raise UsageError(
            f"a run's folder has no option {min(options)!r}",
            hint="name files, or the format with --format, to give an importer's option",
        )
    return made(utc_offset_s)


def _joiner(folder: Path) -> Callable[[float | None], Trace] | None:
    snakemake = snakemake_run.find(folder)
    if snakemake is not None:
        return lambda zone: snakemake_run.join(snakemake, utc_offset_s=zone)
    nextflow = nextflow_run.find(folder)
    if nextflow is not None:
        return lambda zone: nextflow_run.join(nextflow, utc_offset_s=zone)
    return None
