"""Darshan logs: what one program did to which files, counted by an I/O library inside it.

The format: https://www.mcs.anl.gov/research/projects/darshan (versions 3.00 to 3.41). Logs are
binary and read with pydarshan (extra ``darshan``); the text of ``darshan-parser`` needs nothing.
"""

from __future__ import annotations

import re
import shutil
import struct
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rotameter.adapters.importers._darshan_emit import emit
from rotameter.adapters.importers._darshan_log import Log, from_child
from rotameter.adapters.importers._darshan_reader import Reader
from rotameter.adapters.importers._darshan_text import read_parser, read_table
from rotameter.errors import BadInput

if TYPE_CHECKING:
    from rotameter.adapters.importers.building import Builder
    from rotameter.adapters.importers.inputs import InputFile
    from rotameter.values import Head

__all__ = ["Importer"]

_MAGIC = 6567223
_TEXT = re.compile(r"# darshan log version:", re.I)
_TABLE = re.compile(r"module\s*,(?:[a-z_ ,]*)\bbytes_(?:read|written)\b", re.I)


class Importer:
    """Reads Darshan logs, the text of ``darshan-parser``, and per-module tables."""

    name = "darshan"
    engine = "darshan"
    options: frozenset[str] = frozenset()

    def __init__(self) -> None:
        self._reader = Reader()
        self._ids: dict[str, int] = {}

    def sniff(self, head: Head) -> float:
        """Look for the magic number of a log, or the first line of a text."""
        return {"log": 0.98, "text": 0.95, "table": 0.8}.get(_kind(head.data, head.text), 0.0)

    def read(self, file: InputFile, build: Builder, **options: Any) -> None:
        """Read one log, of one program's run."""
        kind = _kind(file.head, file.head_text)
        if kind == "log":
            log = self._binary(file)
        elif kind == "text":
            log = read_parser(file, build)
        elif kind == "table":
            log = read_table(file, build)
        else:
            raise BadInput(f"{file.name} is no Darshan log", hint="check the file")
        emit(log, self._task_id(log, file.stem), kind, build)

    def finish(self, build: Builder) -> None:
        """End the reading process; say what Darshan cannot tell."""
        self._reader.close()
        build.not_measured("memory, CPU time and exit status: Darshan watches I/O only")

    def _binary(self, file: InputFile) -> Log:
        if file.path is not None:
            return self._made(str(file.path.absolute()), file.name)
        with tempfile.TemporaryDirectory(prefix="rotameter-") as place:
            path = Path(place) / "log.darshan"
            with file.open() as source, path.open("wb") as target:
                shutil.copyfileobj(source, target, 1 << 20)
            return self._made(str(path), file.name)

    def _made(self, path: str, name: str) -> Log:
        try:
            return from_child(self._reader.read(path, name), name)
        except (KeyError, TypeError, AttributeError, ValueError):
            raise BadInput(f"{name} is a damaged Darshan log", hint="copy it again") from None

    def _task_id(self, log: Log, stem: str) -> str:
        """Give the job's id; a job's second program gets a number behind it."""
        name = log.job_id or stem
        count = self._ids[name] = self._ids.get(name, 0) + 1
        return name if count == 1 else f"{name}/{count}"


def _kind(data: bytes, text: str) -> str:
    if re.match(rb"[1-9]\.\d\d\x00", data) and len(data) >= 16:
        magic = {*struct.unpack("<q", data[8:16]), *struct.unpack(">q", data[8:16])}
        if _MAGIC in magic:
            return "log"
    if _TEXT.search(text[:2000]) and text.lstrip().startswith("#"):
        return "text"
    return "table" if _TABLE.match(text) else ""
