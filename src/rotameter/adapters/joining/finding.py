"""Which folders are those of a workflow's run: the one that is given, or those below it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rotameter.adapters.importers.building import Builder
from rotameter.adapters.importers.walking import Unread, entries
from rotameter.adapters.joining import nextflow_run, snakemake_run
from rotameter.adapters.joining.scanning import SKIPPED

if TYPE_CHECKING:
    from rotameter.profiler.trace import Trace

__all__ = ["Run", "find", "find_below"]

_MARK = re.compile(r"\.snakemake|\.nextflow|\.nextflow\.log(?:\.\d+)?|work")
_ENTRIES_LIMIT = 200_000


@dataclass(frozen=True)
class Run:
    """The folder of a run, and how it is joined."""

    path: Path
    engine: str
    join: Callable[[float | None, Builder], Trace]


def find(folder: Path) -> Run | None:
    """Look for a run in a folder; None if it is none that is known."""
    snakemake = snakemake_run.find(folder)
    if snakemake is not None:
        return Run(
            folder,
            "snakemake",
            lambda zone, build: snakemake_run.join(snakemake, utc_offset_s=zone, build=build),
        )
    nextflow = nextflow_run.find(folder)
    if nextflow is not None:
        return Run(
            folder,
            "nextflow",
            lambda zone, build: nextflow_run.join(nextflow, utc_offset_s=zone, build=build),
        )
    return None


def find_below(folder: Path, unread: Unread) -> list[Run]:
    """Look for the folders of runs below one that is none; not in those of runs themselves."""
    found: list[Run] = []
    waiting, left = [folder], _ENTRIES_LIMIT
    while waiting and left > 0:
        here = waiting.pop()
        inside = entries(here, unread)
        left -= len(inside)
        if here != folder and any(_MARK.fullmatch(entry.name) for entry in inside):
            run = find(here)
            if run is not None:
                found.append(run)
                continue
        below = []
        for entry in inside:
            try:
                if entry.name[0] != "." and entry.is_dir(follow_symlinks=False):
                    below.append(Path(entry.path))
            except OSError as error:
                unread.add(entry.path, error.strerror)
        waiting += [path for path in reversed(below) if path.name not in SKIPPED]
    return found
