"""Requests written for other tools: each gives a file to include, in the tool's own units."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING

from rotameter.adapters.advising._words import plain

if TYPE_CHECKING:
    from rotameter.allocator.advice import Advice

__all__ = ["TARGETS", "plain", "write"]

TARGETS = ("slurm", "nextflow", "snakemake", "jobqueue", "dask-kubernetes", "kubernetes")
"""Tools that a request can be written for; ``json`` is the command's own."""


def write(target: str, advice: Sequence[Advice], machine_bytes: float) -> str:
    """Write requests as a file of a tool.

    Parameters
    ----------
    target : str
        One of :data:`TARGETS`.
    advice : sequence of Advice
    machine_bytes : float
        What the largest machine has.

    Returns
    -------
    str
        The file's text.
    """
    module = import_module(f"rotameter.adapters.advising.{target.replace('-', '_')}")
    text: Callable[[Sequence[Advice], float], str] = module.text
    return text(advice, machine_bytes)
