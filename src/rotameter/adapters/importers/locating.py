"""What a user may mean by a path: a trace, files of others, a run folder, a Slurm job."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rotameter.adapters.importers import reading, rundirs
from rotameter.adapters.importers.walking import readable
from rotameter.errors import BadInput, UnknownFormat, UsageError
from rotameter.profiler.store import is_trace, open_trace
from rotameter.profiler.trace import Trace
from rotameter.units import many

__all__ = ["open_any", "positive_scale_of", "scale_of", "utc_offset_seconds"]

_OFFSET = re.compile(r"(?:UTC|GMT)?([+-])(\d{1,2})(?::?(\d\d))?")
_JOB = re.compile(r"\d{1,12}(?:_\d+)?(?:,\d{1,12}(?:_\d+)?)*")
_NAME_CHARS = 100


def utc_offset_seconds(text: str | float | None) -> float | None:
    """Read a zone as seconds east of UTC.

    Raises
    ------
    UsageError
        If it is no zone.

    Examples
    --------
    >>> utc_offset_seconds("+02:00"), utc_offset_seconds("UTC"), utc_offset_seconds(-3.5)
    (7200.0, 0.0, -12600.0)
    """
    if text is None:
        return None
    if isinstance(text, (int, float)):
        hours = float(text)
    elif text.strip().upper() in ("Z", "UTC", "GMT"):
        hours = 0.0
    else:
        match = _OFFSET.fullmatch(text.strip().upper())
        if match is None:
            raise UsageError(
                f"not an offset from UTC: {text[:40]!r}",
                hint="such as +02:00, -05:30 or UTC; a place has two in a year",
            )
        hours = (int(match[2]) + int(match[3] or 0) / 60) * (1 if match[1] == "+" else -1)
    if not -15 <= hours <= 15:
        raise UsageError(
            f"not an offset from UTC: {text!r}", hint="hours east of UTC, such as +02:00"
        )
    return hours * 3600


def scale_of(given: object) -> dict[str, float]:
    """Check what a user says about a run's scale: how much data, how many tasks, nodes, ….

    Parameters
    ----------
    given : mapping of str to float, or None
        Names are the user's own; values are finite numbers.

    Raises
    ------
    UsageError
        If it is no such mapping.

    Examples
    --------
    >>> scale_of({"events": "3000", "nodes": 4})
    {'events': 3000.0, 'nodes': 4.0}
    """
    if given is None:
        return {}
    hint = "such as {'events': 3000, 'nodes': 4}"
    if not isinstance(given, Mapping):
        raise UsageError(f"not a scale: {str(given)[:40]!r}", hint=hint)
    scale: dict[str, float] = {}
    for key, value in given.items():
        name = str(key).strip()
        try:
            number = math.nan if isinstance(value, bool) else float(value)
        except (TypeError, ValueError, OverflowError):
            number = math.nan
        if not name or len(name) > _NAME_CHARS or not math.isfinite(number):
            raise UsageError(
                f"not a scale: {str(key)[:40]!r} = {str(value)[:40]!r}",
                hint=f"a name and a number above zero, {hint}",
            )
        scale[name] = number
    return scale


def positive_scale_of(given: object) -> dict[str, float]:
    """Check the scale of a run, as :func:`scale_of` does; no run is of scale zero or below.

    Raises
    ------
    UsageError
        If it is no such mapping.
    """
    scale = scale_of(given)
    for name, number in scale.items():
        if number <= 0:
            raise UsageError(
                f"not a scale: {name!r} = {number:g}",
                hint="a scale is above zero, such as {'events': 3000, 'nodes': 4}",
            )
    return scale


def open_any(
    paths: Sequence[str | os.PathLike[str]],
    *,
    format: str | None = None,
    utc_offset: str | float | None = None,
    progress: Callable[[int, int], None] | None = None,
    options: Mapping[str, Any] | None = None,
) -> Trace:
    """Open what the paths stand for; see :func:`rotameter.open`.

    ``scale`` among the options is the run's and no importer's: it goes into the trace's metadata,
    over what is there already.
    """
    options = dict(options or {})
    scale = positive_scale_of(options.pop("scale", None))
    trace = _open(paths, format=format, utc_offset=utc_offset, progress=progress, options=options)
    if scale:
        trace.meta["scale"] = {**(trace.meta.get("scale") or {}), **scale}
    return trace


def _open(
    paths: Sequence[str | os.PathLike[str]],
    *,
    format: str | None,
    utc_offset: str | float | None,
    progress: Callable[[int, int], None] | None,
    options: Mapping[str, Any],
) -> Trace:
    if not paths or not all(os.fspath(path) for path in paths):
        raise UsageError("no path given", hint="name a trace, a file or a folder")
    offset_s = utc_offset_seconds(utc_offset)
    for path in paths:
        readable(Path(os.path.expanduser(os.fspath(path))))
    foreign = [path for path in paths if not _is_trace(path)]
    folders = any(os.path.isdir(os.path.expanduser(path)) for path in foreign)
    # Beside a run's folder a trace may be of that run: it is told apart further on.
    if len(paths) > 1 and format is None and len(foreign) < len(paths) and not folders:
        ours = [open_trace(Path(os.path.expanduser(os.fspath(p)))) for p in paths if _is_trace(p)]
        if not foreign:
            return _unused(Trace.merge(ours), options, utc_offset)
        rest = _open(
            foreign, format=None, utc_offset=utc_offset, progress=progress, options=options
        )
        return Trace.merge([*ours, rest])
    first = Path(os.path.expanduser(os.fspath(paths[0])))
    if len(paths) == 1 and format is None:
        if is_trace(first) or (not first.exists() and first.suffix == ".rmt"):
            return _unused(open_trace(first), options, utc_offset)
        if not first.exists() and _JOB.fullmatch(str(paths[0])):
            from rotameter.adapters.collect.slurm import open_jobs

            return open_jobs(str(paths[0]), utc_offset_s=offset_s)
        if first.is_dir():
            from rotameter.adapters import joining

            joined = joining.join(first, utc_offset_s=offset_s, options=options)
            if joined is not None:
                return joined
    if format is None and not options:
        from rotameter.adapters.joining import join_several

        given = [Path(os.path.expanduser(os.fspath(path))) for path in paths]
        folders = any(path.is_dir() and not is_trace(path) for path in given)
        several = join_several(given, utc_offset_s=offset_s) if folders else None
        if several is not None:
            return several
    if format is None and not options:  # Who gives an importer's options knows what is there.
        for path in paths:
            folder = Path(os.path.expanduser(os.fspath(path)))
            if folder.is_dir():
                rundirs.check_folder(folder, progress)
    try:
        return reading.read(
            paths, format=format, utc_offset_s=offset_s, options=options, progress=progress
        )
    except (BadInput, UnknownFormat) as error:
        inside = sorted(str(one) for one in first.glob("*.rmt") if is_trace(one))
        if len(paths) > 1 or not inside:
            raise
        what = f"{many(len(inside), 'trace')} of rotameter, such as {inside[0]}"
        raise BadInput(
            f"{first} is no trace; it holds {what}", hint=f"name them: {first}/*.rmt"
        ) from error


def _is_trace(path: str | os.PathLike[str]) -> bool:
    return is_trace(Path(os.path.expanduser(os.fspath(path))))


def _unused(trace: Trace, options: Mapping[str, Any], utc_offset: str | float | None) -> Trace:
    """Say which words on how to read another tool's files a trace of ours has no use for."""
    given = [f"--{name}" if name == "map" else f"--opt {name}" for name in options]
    given += ["--utc-offset"] if utc_offset is not None else []
    if given:
        said = f"not used, as this is a trace of rotameter already: {', '.join(given)}"
        trace.meta["warnings"] = [*(trace.meta.get("warnings") or []), said]
    return trace
