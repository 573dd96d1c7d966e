"""From a path to a trace: which files, which format, one builder for all of them."""

from __future__ import annotations

import atexit
import contextlib
import os
import stat
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rotameter import plugins
from rotameter.adapters.importers._copies import once
from rotameter.adapters.importers._foreign import check_whole, foreign
from rotameter.adapters.importers.building import Builder
from rotameter.adapters.importers.inputs import FOREIGN, InputFile, open_members
from rotameter.adapters.importers.walking import Unread, files_below, matching
from rotameter.errors import (
    BadInput,
    InputError,
    PluginError,
    RotameterError,
    TraceNotFound,
    UnknownFormat,
    UsageError,
)
from rotameter.units import many
from rotameter.values import Head

if TYPE_CHECKING:
    from rotameter.profiler.trace import Trace

__all__ = ["formats", "read", "seekable", "sniff"]

SURE = 0.5
"""From this certainty on an importer is asked to read."""
_FILES_LIMIT = 200_000
_PIPE_LIMIT_BYTES = 2 << 30
_PACKED = frozenset({".zst", ".tgz", ".tar", ".tbz2", ".txz", ".7z", ".lz4", ".rar", ".lzma"})
"""Files that are not unpacked in a folder, or not at all."""
_SHOWN = 5
_LOOKED = 100
"""Files that nobody knows of which it is looked what they are."""
_OF_A_TABLE = {"map", "mapping", "columns", "table"}

Progress = Callable[[int, int], None]


def formats() -> dict[str, Any]:
    """Give the importers by name, loaded.

    Examples
    --------
    >>> "swf" in formats()
    True
    """
    found = {}
    for name in plugins.names("importers"):
        with contextlib.suppress(PluginError):  # `rotameter plugins` says what is wrong with it
            found[name] = plugins.get("importers", name)
    return found


def sniff(file: InputFile, known: Mapping[str, Any] | None = None) -> list[tuple[float, str]]:
    """Give (certainty 0 to 1, importer) of those that think they know a file, the surest first.

    ``known`` is what :func:`formats` gives, where many files are asked about.
    """
    head = Head(file.name, file.head, file.path)
    found = []
    for name, importer in (formats() if known is None else known).items():
        try:
            sure = float(importer().sniff(head))
        except Exception:  # a sniffer must not raise; one that does knows nothing
            sure = 0.0
        if sure > 0:
            found.append((min(1.0, sure), name))
    return sorted(found, key=lambda item: (-item[0], item[1]))


def read(
    paths: Sequence[str | os.PathLike[str]],
    *,
    format: str | None = None,
    utc_offset_s: float | None = None,
    options: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> Trace:
    """Import files, folders and glob patterns as one trace.

    Parameters
    ----------
    paths : sequence of path
        Files (plain, gz, bz2, xz, zip, tar), folders (all files in them that an importer knows) and
        patterns.
    format : str, optional
        The importer's name; by default it is found out, file by file.
    utc_offset_s : float, optional
        Zone of times that carry none, seconds east of UTC.
    options : mapping, optional
        Handed to the importer; see its page.
    progress : callable, optional
        Called as ``progress(files_done, files)``.

    Raises
    ------
    TraceNotFound
        If there is no such file.
    UnknownFormat
        If no importer knows any of them.
    BadInput
        If nothing usable is in them.
    UsageError
        If the files are of different formats, or an option is not one of the importer's.
    """
    if format is None and _OF_A_TABLE & set(options or {}):
        format = "table"
    given = [Path(os.path.expanduser(os.fspath(p))) for p in paths]
    named = [p for p in given if not p.is_dir()]
    files, troubles, errors = _expand(given)
    if not files and not troubles:
        shown = ", ".join(map(str, given))
        raise BadInput(f"no files in {shown}", hint="check the path: names with a dot are left out")
    chosen = _choose(files, format, troubles, errors, strict=bool(named))
    kinds = {name for _, name in chosen}
    if len(kinds) > 1:
        counts = Counter(name for _, name in chosen)
        said = ", ".join(f"{name} ({count:,})" for name, count in sorted(counts.items()))
        raise UsageError(
            f"these files are of several formats: {said}",
            hint="name one with --format; a Nextflow or Snakemake run folder is joined as a whole",
        )
    importer = plugins.get("importers", kinds.pop())()
    build = Builder(importer.name, importer.engine)
    build.zone_ns = None if utc_offset_s is None else round(utc_offset_s * 1e9)
    known = set(importer.options)
    for name in options or {}:
        if name not in known:
            hint = f"its options: {', '.join(sorted(known)) or 'none'}"
            raise UsageError(f"the importer {importer.name} has no option {name!r}", hint=hint)
    broken = _read_files(importer, [f for f, _ in chosen], build, options or {}, progress)
    if broken and len(broken) == len(chosen):
        raise broken[0]
    for trouble in [*troubles, *map(str, broken)]:
        build.warn(trouble)
    importer.finish(build)
    build.usable()
    build.meta.setdefault("input", {"files": [f.name for f, _ in chosen[:20]]})
    return build.build(utc_offset_s=utc_offset_s)


def _read_files(
    importer: Any,
    files: Sequence[InputFile],
    build: Builder,
    options: Mapping[str, Any],
    progress: Progress | None,
) -> list[InputError]:
    """Read file after file; a broken one costs an error, the others go on."""
    broken: list[InputError] = []
    files = once(importer.name, files, build)
    if hasattr(importer, "in_order"):
        files = importer.in_order(files)
    for done, file in enumerate(files):
        if progress is not None:
            progress(done, len(files))
        try:
            importer.read(file, build, **options)
            build.files += 1
        except InputError as error:
            broken.append(error)
        except RecursionError:
            broken.append(BadInput(f"{file.name} is nested too deeply", hint="check the file"))
        if file.told_foreign():
            build.warn(FOREIGN)
    if progress is not None:
        progress(len(files), len(files))
    return broken


def _expand(
    given: Sequence[Path],
) -> tuple[list[InputFile], list[str], list[RotameterError]]:
    """Give the files behind paths, folders and patterns, in order of name.

    Beside them what is to be said, and the errors of what cannot be opened (said there too).
    """
    files: list[InputFile] = []
    troubles: list[str] = []
    errors: list[RotameterError] = []
    seen: set[Path] = set()
    twice, unread = 0, Unread()
    for path in given:
        if path.is_dir():
            found = sorted(files_below(path, unread))
        elif path.exists():
            found = [seekable(path)]
        else:
            found = matching(path, unread)
            if not found:
                why = "; ".join(unread.words()) or "check the path"
                raise TraceNotFound(f"no such file or folder: {path}", hint=why)
        if len(found) > _FILES_LIMIT:
            raise BadInput(f"{path} holds {len(found):,} files: refused", hint="name a part of it")
        for one in found:
            if (place := one.resolve()) in seen:
                twice += 1
                continue
            seen.add(place)
            try:
                files += open_members(one, troubles, tar=not path.is_dir())
            except InputError as error:
                troubles.append(str(error))
                errors.append(error)
    troubles += unread.words()
    if twice:
        troubles.append(f"named twice, read once: {many(twice, 'file')}")
    return files, troubles, errors


def seekable(path: Path) -> Path:
    """Give a path that can be read more than once: what comes through a pipe is kept in a file.

    Raises
    ------
    BadInput
        If it is a device, or a pipe that is too long for one piece.
    """
    mode = path.stat().st_mode
    if stat.S_ISREG(mode):
        return path
    piped = str(path).startswith(("/dev/fd/", "/dev/stdin", "/proc/"))
    if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)) or not piped:
        raise BadInput(f"{path} is no ordinary file", hint="copy it to one")
    kept = tempfile.NamedTemporaryFile(prefix="rotameter-pipe-", delete=False)  # noqa: SIM115
    atexit.register(lambda: Path(kept.name).unlink(missing_ok=True))
    with path.open("rb") as stream, kept:
        size = 0
        while part := stream.read(1 << 20):
            size += len(part)
            if size > _PIPE_LIMIT_BYTES:
                raise BadInput(f"{path} is too long", hint="write it to a file first")
            kept.write(part)
    return Path(kept.name)


def _choose(
    files: Sequence[InputFile],
    format: str | None,
    troubles: list[str],
    errors: list[RotameterError],
    *,
    strict: bool,
) -> list[tuple[InputFile, str]]:
    """Give each file its importer; in folders, what nobody knows is passed over."""
    if format is not None:
        plugins.get("importers", format)
        if errors and not files:
            raise errors[0]
        return [(file, format) for file in files]
    chosen, unknown = [], []
    known = formats()
    for file in files:
        try:
            # Its head is a name and numbers, behind which a text of any format may stand.
            guesses = [] if file.head[257:262] == b"ustar" else sniff(file, known)
        except RotameterError as error:
            troubles.append(str(error))
            errors.append(error)
            continue
        if guesses and guesses[0][0] >= SURE:
            chosen.append((file, guesses[0][1]))
        else:
            unknown.append((file, guesses))
    if not chosen:
        if errors and not unknown:
            raise errors[0]
        _refuse(unknown, troubles)
    if strict:
        troubles += [
            str(foreign(file) or f"{file.name}: no importer knows this file")
            if file.head.strip()
            else _empty(file)
            for file, _ in unknown
        ]
    elif alike := _alike([file for file, _ in chosen], [file for file, _ in unknown]):
        troubles.append(alike)
    return chosen


def _alike(read: Sequence[InputFile], unread: Sequence[InputFile]) -> str:
    """Say which files that nobody knows look like those that are read, or are packed."""
    ends = {_end(file) for file in read} | _PACKED
    names = [file.name for file in unread if file.head.strip() and _end(file) in ends]
    if not names:
        return ""
    shown = ", ".join(names[:_SHOWN]) + (" …" if len(names) > _SHOWN else "")
    return f"{many(len(names), 'file')} beside them that no importer knows left out: {shown}"


def _end(file: InputFile) -> str:
    return Path(file.name).suffix.lower()


def _empty(file: InputFile) -> str:
    return f"{file.name} is empty"


def _refuse(unknown: Sequence[tuple[InputFile, Any]], troubles: Sequence[str]) -> None:
    if not unknown:
        raise BadInput(troubles[0] if troubles else "no files there", hint="check the path")
    file, guesses = unknown[0]
    if not file.head.strip():
        raise BadInput(_empty(file), hint="check what should have written it")
    if file.head[257:262] == b"ustar":
        raise UnknownFormat(
            f"{file.name} is a tar archive", hint="name the archive itself, or unpack it"
        )
    for other, _ in unknown[:_LOOKED]:
        if (refusal := foreign(other)) is not None:
            raise refusal
    check_whole(file)
    if guesses and guesses[0][1] == "table":
        # Its refusal shows the columns and how to name them.
        plugins.get("importers", "table")().read(file, Builder("table", "table"))
    near = ", ".join(name for _, name in guesses[:3])
    hint = f"it may be: {near}; say so with --format" if near else "name it with --format"
    raise UnknownFormat(
        f"{file.name}: no importer knows this file", hint=f"{hint} (see rotameter plugins)"
    )
