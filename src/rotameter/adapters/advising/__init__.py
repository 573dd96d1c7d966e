"""Requests written for other tools: each gives a file to include, in the tool's own units."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from rotameter.adapters.advising._words import plain

if TYPE_CHECKING:
    from rotameter.allocator.advice import Advice

__all__ = ["TARGETS", "left_out", "plain", "write"]

TARGETS = ("slurm", "nextflow", "snakemake", "jobqueue", "dask-kubernetes", "kubernetes")
"""Tools that a request can be written for; ``json`` is the command's own."""


def write(target: str, advice: Sequence[Advice], machine_bytes: float | None) -> str:
    """Write requests as a file of a tool.

    Parameters
    ----------
    target : str
        One of :data:`TARGETS`.
    advice : sequence of Advice
    machine_bytes : float, optional
        What the largest machine has; without it no limit is written.

    Returns
    -------
    str
        The file's text.
    """
    text: Callable[[Sequence[Advice], float | None], str] = _module(target).text
    return text(advice, machine_bytes)


def left_out(target: str, advice: Sequence[Advice]) -> list[str]:
    """Say which groups a tool's file cannot name, so that they are left out of it.

    Examples
    --------
    >>> from rotameter.allocator.advice import Advice
    >>> one = Advice("a:b", 9, 1e9, 2e9, None, 3e9, (), 0.0, (0.0, 0.3), None)
    >>> left_out("snakemake", [one])
    ["left out, because Snakemake's profile cannot name it: a:b"]
    """
    find: Callable[[Sequence[Advice]], list[str]] | None
    find = getattr(_module(target), "left_out", None)
    return [] if find is None else find(advice)


def _module(target: str) -> Any:
    return import_module(f"rotameter.adapters.advising.{target.replace('-', '_')}")
