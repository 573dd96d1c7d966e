"""Requests written for other tools: each gives a file to include, in the tool's own units."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from rotameter.adapters.advising._wanted import grouped
from rotameter.adapters.advising._words import plain

if TYPE_CHECKING:
    from rotameter.adapters.advising._wanted import Wanted
    from rotameter.allocator.advice import Advice

__all__ = ["TARGETS", "left_out", "plain", "write"]

TARGETS = ("slurm", "nextflow", "snakemake", "jobqueue", "dask-kubernetes", "kubernetes")
"""Tools that a request can be written for; ``json`` is the command's own."""


def write(
    target: str,
    advice: Sequence[Advice],
    machine_bytes: float | None,
    queue_s: float | None = None,
) -> str:
    """Write requests as a file of a tool.

    Parameters
    ----------
    target : str
        One of :data:`TARGETS`.
    advice : sequence of Advice
        Of one resource or several.
    machine_bytes : float, optional
        What the largest machine has; without it no limit is written.
    queue_s : float, optional
        The longest time limit that the queue allows, as that.

    Returns
    -------
    str
        The file's text.
    """
    text: Callable[[Sequence[Wanted], float | None, float | None], str] = _module(target).text
    return text(grouped(advice), machine_bytes, queue_s)


def left_out(target: str, advice: Sequence[Advice]) -> list[str]:
    """Say which groups a tool's file cannot name, or what it has no place for.

    Examples
    --------
    >>> from rotameter.allocator.advice import Advice
    >>> one = Advice("a:b", 9, 1e9, 2e9, None, 3e9, (), 0.0, (0.0, 0.3), None)
    >>> left_out("snakemake", [one])
    ["left out, because Snakemake's profile cannot name it: a:b"]
    """
    find: Callable[[Sequence[Wanted]], list[str]] | None
    find = getattr(_module(target), "left_out", None)
    return [] if find is None else find(grouped(advice))


def _module(target: str) -> Any:
    return import_module(f"rotameter.adapters.advising.{target.replace('-', '_')}")
