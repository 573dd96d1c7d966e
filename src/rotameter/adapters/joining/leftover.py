"""Files of a run folder that an importer knows and that are no part of the run: named, not read."""

from __future__ import annotations

from collections.abc import Container, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rotameter.adapters.importers import reading
from rotameter.adapters.joining.scanning import named, opened
from rotameter.errors import RotameterError
from rotameter.units import many

if TYPE_CHECKING:
    from rotameter.adapters.importers.building import Builder

__all__ = ["may_be_another", "say"]

_OTHERS = frozenset(
    (".html", ".htm", ".darshan", ".sqlite", ".db", ".pfw", ".swf", ".xml", ".graphml")
)
"""Suffixes of logs that no part of a run has."""
_LOOKED = 500
_SHOWN = 3
_NOT_ASKED = ("table", "slurm")
"""Results are tables too; Slurm's listings are part of a run, and were looked for."""


def may_be_another(path: Path) -> bool:
    """Say whether a file may be a log of something else, by its name.

    Examples
    --------
    >>> may_be_another(Path("dask-report.html")), may_be_another(Path("a.bam"))
    (True, False)
    """
    name = path.name.lower()
    return Path(name.removesuffix(".gz")).suffix in _OTHERS


def say(folder: Path, paths: Sequence[Path], read: Container[Path], build: Builder) -> None:
    """Name the files that an importer would read by themselves.

    Parameters
    ----------
    folder : pathlib.Path
    paths : sequence of pathlib.Path
        What may be such a file; the first hundreds are looked at.
    read : container of pathlib.Path
        Those that were read.
    build : Builder
    """
    known = {name: made for name, made in reading.formats().items() if name not in _NOT_ASKED}
    found = []
    for path in [path for path in paths if path not in read][:_LOOKED]:
        pair = opened(folder, path)
        try:
            guesses = reading.sniff(pair[0], known) if pair is not None else []
        except RotameterError:
            continue
        if guesses and guesses[0][0] >= reading.SURE:
            found.append(f"{named(folder, path)} ({guesses[0][1]})")
    if found:
        more = len(found) - _SHOWN
        rest = f" and {more:,} more" if more > 0 else ""
        build.note(  # of the run itself nothing is lost
            f"{many(len(found), 'file')} not read, as no part of this run: "
            f"{', '.join(found[:_SHOWN])}{rest}; name one by itself to read it"
        )
