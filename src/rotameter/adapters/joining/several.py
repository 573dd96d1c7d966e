"""Several folders of runs, named together or by one above them: each joined, then put together.

This decides what is read, and how often; :mod:`rotameter.adapters.joining.together` does the rest.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from rotameter import plugins
from rotameter.adapters.importers import reading
from rotameter.adapters.importers.building import Builder
from rotameter.adapters.importers.slurm import Importer as Slurm
from rotameter.adapters.importers.walking import Unread, matching
from rotameter.adapters.joining import leftover
from rotameter.adapters.joining.finding import Run, find, find_below
from rotameter.adapters.joining.leftover import may_be_another
from rotameter.adapters.joining.scanning import named, opened, plausible, walk
from rotameter.adapters.joining.together import Part, put_together
from rotameter.errors import InputError, UsageError
from rotameter.profiler.store import is_trace
from rotameter.units import many

if TYPE_CHECKING:
    from rotameter.profiler.trace import Trace

__all__ = ["join_several"]

_SHOWN = 3


@dataclass
class _Given:
    """What the paths stand for."""

    runs: dict[Path, Run] = field(default_factory=dict)
    folders: list[Path] = field(default_factory=list)
    rest: list[Path] = field(default_factory=list)
    inside: list[Path] = field(default_factory=list)
    twice: int = 0
    unread: Unread = field(default_factory=Unread)


def join_several(paths: Sequence[Path], *, utc_offset_s: float | None) -> Trace | None:
    """Join the folders of runs among some paths, or below them, and put them together.

    Parameters
    ----------
    paths : sequence of pathlib.Path
        Files, folders and patterns. A folder that is named twice, or lies in the folder of a run
        that is named too, counts once; so does a file.
    utc_offset_s : float, optional
        Zone of times that carry none, seconds east of UTC.

    Returns
    -------
    Trace or None
        None if no folder of a run is there.

    Raises
    ------
    UsageError
        If files are named that are no part of a run, and are not of the runs' format.
    BadInput
        If nothing usable is in any of the folders.
    """
    given = _sorted_out(paths)
    if not given.runs:
        return None
    engines = sorted({run.engine for run in given.runs.values()})
    if len(engines) > 1:
        raise UsageError(
            f"these are the folders of runs of several workflow managers: {', '.join(engines)}",
            hint="name those of one, or one folder a command",
        )
    parts: list[Part] = []
    said: list[str] = []
    errors: list[InputError] = []
    for run in given.runs.values():
        build = Builder(run.engine, run.engine)
        try:
            trace = run.join(utc_offset_s, build)
        except InputError as error:
            errors.append(error)
            continue
        parts.append(Part(str(run.path), trace, build.zero_ns))
    rest = list(given.rest)
    for folder in given.folders:
        rest += _beside(folder, given, engines[0], said)
    if rest:
        try:
            parts.append(_others(rest, engines[0], utc_offset_s))
        except InputError as error:
            errors.append(error)
    if not parts:
        raise errors[0]
    trace = put_together(parts)
    lost = [*map(str, errors), *given.unread.words(), *said]
    _say(trace, lost, _counted_once(given))
    return trace


def _sorted_out(paths: Sequence[Path]) -> _Given:
    given = _Given()
    others: list[Path] = []
    folders: list[Path] = []
    for path in dict.fromkeys(paths):
        if not path.is_dir() or is_trace(path):
            # What a pattern means may lie in a run's folder.
            others += [path] if path.exists() else matching(path, given.unread) or [path]
            continue
        if path.resolve() in given.runs:
            given.twice += 1
            continue
        run = find(path)
        if run is not None:
            given.runs[path.resolve()] = run
            continue
        below = find_below(path, given.unread)
        folders.append(path)
        for run in below:
            given.runs.setdefault(run.path.resolve(), run)
    given.twice += len(paths) - len(set(paths))
    for place in [place for place in given.runs if _within(place.parent, given.runs)]:
        given.inside.append(given.runs.pop(place).path)
    for path in others:
        (given.inside if _within(path.resolve(), given.runs) else given.rest).append(path)
    for path in folders:
        (given.inside if _within(path.resolve(), given.runs) else given.folders).append(path)
    return given


def _within(place: Path, runs: dict[Path, Run]) -> bool:
    return any(folder in runs for folder in (place, *place.parents))


def _counted_once(given: _Given) -> list[str]:
    said = []
    if given.twice:
        said.append(f"named twice, read once: {many(given.twice, 'path')}")
    if given.inside:
        shown = ", ".join(map(str, given.inside[:_SHOWN]))
        shown += " …" if len(given.inside) > _SHOWN else ""
        said.append(
            f"in the folder of a run that is named too, and read as a part of that: {shown}"
        )
    return said


def _beside(folder: Path, given: _Given, engine: str, said: list[str]) -> list[Path]:
    """Give the files below a folder that are of the format, and in no run's folder.

    Of others that an importer knows it is said that they are not read.
    """
    importer, slurm = plugins.get("importers", engine)(), Slurm()
    mine, others, listings = [], [], []
    for path in walk(folder, given.unread):
        if _within(path.resolve(), given.runs):
            continue
        pair = opened(folder, path, given.unread) if plausible(path) else None
        if pair is None:
            others += [path] if may_be_another(path) else []
        elif importer.sniff(pair[1]) >= 0.9 or (
            engine == "snakemake" and importer.sniff(pair[1]) >= reading.SURE
        ):
            mine.append(path)
        elif slurm.sniff(pair[1]) >= reading.SURE:
            listings.append(named(folder, path))
        else:
            others.append(path)
    if not mine and not any(folder.resolve() in place.parents for place in given.runs):
        said.append(f"neither a run nor a file of {engine} in the folder {folder}")
    build = Builder(engine, engine)
    leftover.say(folder, others, (), build)
    said += build.words()
    if listings:
        shown = ", ".join(listings[:_SHOWN]) + (" …" if len(listings) > _SHOWN else "")
        said.append(
            f"{many(len(listings), 'file')} of Slurm beside folders of runs not read: {shown}; "
            "what lies in a run's folder is joined with that run"
        )
    return mine


def _others(paths: Sequence[Path], engine: str, utc_offset_s: float | None) -> Part:
    """Read files that lie in no run's folder."""
    for path in paths:
        if is_trace(path):
            raise UsageError(
                f"{path}: a trace of rotameter, beside the folder of a {engine} run",
                hint="save the run first (rotameter convert RUN -o run.rmt), then name both traces",
            )
    trace = reading.read(paths, utc_offset_s=utc_offset_s)
    name = trace.meta["importer"]["name"]
    if name != engine:
        shown = ", ".join(os.fspath(path) for path in paths[:_SHOWN])
        raise UsageError(
            f"{shown}: {name}, beside the folder of a {engine} run",
            hint="put what belongs to the run into its folder, or name one of the two",
        )
    zero = None
    if trace.meta.get("time_base") == "relative_ns":
        # The same times as they stand there, to be set against those of the runs.
        trace, zero = reading.read(paths, utc_offset_s=0.0), 0
        trace.meta["time_base"] = "relative_ns"
    return Part(os.fspath(paths[0]), trace, zero)


def _say(trace: Trace, lost: Sequence[str], fine: Sequence[str]) -> None:
    trace.meta["warnings"] = [*trace.meta.get("warnings", ()), *lost, *fine]
    if fine:
        trace.meta["lossless"] = [*trace.meta.get("lossless", ()), *fine]
