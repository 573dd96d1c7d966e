"""Requests written for other tools: each gives a file to include, in the tool's own units."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from rotameter.adapters.advising._places import no_place, placed
from rotameter.adapters.advising._wanted import Most, grouped
from rotameter.adapters.advising._words import plain, share
from rotameter.adapters.advising._workers import tight

if TYPE_CHECKING:
    from rotameter.adapters.advising._wanted import Wanted
    from rotameter.allocator.advice import Advice

__all__ = ["TARGETS", "left_out", "plain", "share", "write"]

TARGETS = ("slurm", "nextflow", "snakemake", "jobqueue", "dask-kubernetes", "kubernetes")
"""Tools that a request can be written for; ``json`` is the command's own."""

_WORKERS = ("jobqueue", "dask-kubernetes")
"""Those that get one worker for all groups."""


def write(
    target: str,
    advice: Sequence[Advice],
    machine_bytes: float | None,
    queue_s: float | None = None,
    *,
    disk_bytes: float | None = None,
    notes: Sequence[str] = (),
) -> str:
    """Write requests as a file of a tool.

    Parameters
    ----------
    target : str
        One of :data:`TARGETS`.
    advice : sequence of Advice
        Of one resource or several. What the tool has no request for is kept, and the file says so.
    machine_bytes : float, optional
        What the largest machine has; without it no limit is written.
    queue_s : float, optional
        The longest time limit that the queue allows, as that.
    disk_bytes : float, optional
        What the largest machine's disk has, as that.
    notes : sequence of str
        Lines of comment below the file's first line.

    Returns
    -------
    str
        The file's text.
    """
    text: Callable[[Sequence[Wanted], Most], str] = _module(target).text
    most = Most(memory=machine_bytes, time=queue_s, disk=disk_bytes)
    head, _, rest = text(grouped(placed(target, advice)), most).partition("\n")
    mark = "//" if target == "nextflow" else "#"
    return "\n".join([head, *(f"{mark} {plain(note)}" for note in notes), rest])


def left_out(
    target: str, advice: Sequence[Advice], machine_bytes: float | None = None
) -> list[str]:
    """Say which groups a tool's file cannot name, what it has no place for, what does not fit well.

    Parameters
    ----------
    target : str
    advice : sequence of Advice
    machine_bytes : float, optional
        As in :func:`write`.

    Examples
    --------
    >>> from rotameter.allocator.advice import Advice
    >>> one = Advice("a:b", 9, 1e9, 2e9, None, 3e9, (), 0.0, (0.0, 0.3), None)
    >>> left_out("snakemake", [one])
    ["left out, because Snakemake's profile cannot name it: a:b"]
    """
    find: Callable[[Sequence[Wanted]], list[str]] | None
    find = getattr(_module(target), "left_out", None)
    wanted = grouped(placed(target, advice))
    found = [] if find is None else find(wanted)
    short = tight(wanted, machine_bytes) if target in _WORKERS else []
    return [*found, *no_place(target, advice), *short]


def _module(target: str) -> Any:
    return import_module(f"rotameter.adapters.advising.{target.replace('-', '_')}")
