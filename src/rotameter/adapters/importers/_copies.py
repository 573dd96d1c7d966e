"""Files of one import with the same contents: which are copies, and which may be of two runs."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rotameter.errors import InputError
from rotameter.units import many

if TYPE_CHECKING:
    from rotameter.adapters.importers.building import Builder
    from rotameter.adapters.importers.inputs import InputFile

__all__ = ["once"]

_LOGS = frozenset(
    "nextflow parsl wfformat slurm darshan dftracer otlp dask_report dask_stream chrome_trace "  # noqa: SIM905
    "kineto nsys swf spm".split()
)
"""Formats whose files say which run they are of: two files with the same contents are one."""
_MAYBE = frozenset({"snakemake", "table", "graphml", "execution_trace"})
"""Formats of which two runs may have left the same contents: copies are said, and counted."""
_NAMED = {
    "dayu": re.compile(r"(?:^|/)\d+[-_]v(?:fd|ol)[^/]*$"),
    "datalife": re.compile(
        r"[._]\d+(?:-[^/_]+)?(?:\.[rw]_blk_trace|_[rw]_stat|\.datalife)(?:\.\w+)*$"
    ),
}
"""Formats of many small files: those of a process (its number is in the name) say what they are of.

Of others, copies are told by name and contents in two folders.
"""
_TAKEN = re.compile(rb"\s*(?:#|\d+ )")  # transactions and performance have times, a graph has none


def once(name: str, files: Sequence[InputFile], build: Builder) -> Sequence[InputFile]:
    """Leave out copies of logs; of what does not say its run, only say that there are some.

    Parameters
    ----------
    name : str
        The importer's.
    """
    small = name in _NAMED
    if len(files) < 2 or name not in _LOGS | _MAYBE | _NAMED.keys() | {"taskvine"}:
        return files
    heads = [(_base(file) if small else "", _head(file)) for file in files]
    counts = Counter(heads)
    seen: set[tuple[str, bytes]] = set()
    again = []
    for file, (base, head) in zip(files, heads, strict=True):
        digest = _digest(file) if head and counts[base, head] > 1 else None
        again.append(digest is not None and (base, digest) in seen)
        if digest is not None:
            seen.add((base, digest))
    out = _left_out(name, files, again)
    if any(out):
        copies = many(sum(out), "file")
        build.warn(f"copies of other files, with the same contents, are left out: {copies}")
    said = _said(name, files, again, out)
    if said:
        how = "counted (rows told twice once)" if name == "table" else "counted"
        copies = many(said, "file")
        build.warn(f"with the same contents as others, and {how}, though perhaps copies: {copies}")
    return [file for file, left in zip(files, out, strict=True) if not left]


def _left_out(name: str, files: Sequence[InputFile], again: Sequence[bool]) -> list[bool]:
    """Say of each file whether it is left out.

    What lies beside the logs of a folder (lists, graphs) goes where all of these are copies.
    """
    if name in _LOGS or name in _MAYBE:
        return [one and name in _LOGS for one in again]
    tells = [_tells(name, file) for file in files]
    logs = [file for file, told in zip(files, tells, strict=True) if told]
    whole = _whole(logs, [one for one, told in zip(again, tells, strict=True) if told])
    beside = name != "datalife"
    return [
        copied and (told or (beside and whole.get(_folder(file), False)))
        for file, told, copied in zip(files, tells, again, strict=True)
    ]


def _said(name: str, files: Sequence[InputFile], again: Sequence[bool], out: Sequence[bool]) -> int:
    """Count the files that may be copies; of many small ones where all of a folder are."""
    if name not in (*_MAYBE, "datalife"):
        return 0  # lists and graphs that are kept have no figures of their own
    whole = _whole(files, again)
    small = name in _NAMED
    return sum(
        copied and not left and (not small or whole[_folder(file)])
        for file, copied, left in zip(files, again, out, strict=True)
    )


def _whole(files: Sequence[InputFile], again: Sequence[bool]) -> dict[str, bool]:
    """Say of each folder whether all of its files are there again."""
    made: dict[str, bool] = {}
    for file, copied in zip(files, again, strict=True):
        folder = _folder(file)
        made[folder] = made.get(folder, True) and copied
    return made


def _tells(name: str, file: InputFile) -> bool:
    """Say whether a file says which run or process it is of."""
    if name in _NAMED:
        return _NAMED[name].search(file.name.replace("\\", "/")) is not None
    try:
        return _TAKEN.match(file.head) is not None
    except InputError:  # said when it is read
        return False


def _folder(file: InputFile) -> str:
    return file.name.replace("\\", "/").rpartition("/")[0]


def _base(file: InputFile) -> str:
    base = file.name.replace("\\", "/").rpartition("/")[2]
    return re.sub(r"\.(?:gz|bz2|xz)$", "", base)


def _head(file: InputFile) -> bytes:
    try:
        return hashlib.sha256(file.head).digest() if file.head.strip() else b""
    except InputError:  # said when it is read
        return b""


def _digest(file: InputFile) -> bytes | None:
    found = hashlib.sha256()
    try:
        with file.open() as stream:
            while part := stream.read(1 << 20):
                found.update(part)
    except InputError:
        return None
    return found.digest()
