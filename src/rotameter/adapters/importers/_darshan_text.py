"""Darshan as text: what ``darshan-parser`` prints (also ``--total``), and per-module tables."""

from __future__ import annotations

import csv
import math
import re
from typing import TYPE_CHECKING

from rotameter.adapters.importers._darshan_log import (
    LAYERS,
    FileRecord,
    Log,
    Module,
    moment,
    seconds,
)
from rotameter.errors import BadInput

if TYPE_CHECKING:
    from rotameter.adapters.importers.building import Builder
    from rotameter.adapters.importers.inputs import InputFile

__all__ = ["read_parser", "read_table"]

_HEADER = re.compile(r"# ([a-z_ ]+?):\s*(.*)")
_REGION = re.compile(r"# (\S+) module:\s*(\d+) bytes.*?(?:ver=(\d+))?\s*")
_PARTIAL = re.compile(
    r"# \*(?:WARNING|ERROR)\*: The (\S+) module (?:contains incomplete|.*partial)"
)
_MOUNT = re.compile(r"# mount entry:\s*(\S+)\s+(\S+)")
_METADATA = re.compile(r"# metadata:\s*([^=]+?)\s*=\s*(.*)")
_TOTAL = re.compile(r"total_([A-Z0-9\-]+?)_([A-Z0-9_]+):\s*(\S+)")
_NAMES = {"MPIIO": "MPI-IO"}
_COUNTERS = {
    "BYTES_READ": "bytes_read",
    "BYTES_WRITTEN": "bytes_written",
    "F_READ_TIME": "f_read_time",
    "F_WRITE_TIME": "f_write_time",
    "F_META_TIME": "f_meta_time",
}
_TABLE = {
    "bytes_read": "bytes_read",
    "bytes_written": "bytes_written",
    "read_time_s": "f_read_time",
    "write_time_s": "f_write_time",
    "meta_time_s": "f_meta_time",
    "records": "records",
    "files": "records",
}


def _number(text: str) -> float | None:
    try:
        value = float(text) if any(c in text for c in ".eEnN") else int(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and abs(value) < 2**63 else None


class _Parser:
    def __init__(self, source: str) -> None:
        self.log = Log(source)
        self._records: dict[tuple[str, str, str], dict[str, float]] = {}

    def module(self, name: str) -> Module:
        return self.log.modules.setdefault(_NAMES.get(name, name), Module())

    def comment(self, line: str) -> None:
        """Take a line that begins with ``#``."""
        for pattern, take in (
            (_REGION, self._region),
            (_PARTIAL, self._partial),
            (_MOUNT, self._mount),
            (_METADATA, self._metadata),
            (_HEADER, self._header),
        ):
            match = pattern.match(line)
            if match:
                take(match)
                return

    def _region(self, match: re.Match[str]) -> None:
        module = self.module(match[1])
        module.size_bytes = int(match[2]) if len(match[2]) < 18 else None
        version = re.search(r"ver=(\d{1,9})\b", match.string)
        module.version = int(version[1]) if version else None

    def _partial(self, match: re.Match[str]) -> None:
        self.module(match[1]).partial = True

    def _mount(self, match: re.Match[str]) -> None:
        self.log.mounts.append((match[1], match[2]))

    def _metadata(self, match: re.Match[str]) -> None:
        self.log.facts[match[1][:80]] = match[2][:200]

    def _header(self, match: re.Match[str]) -> None:
        log, key, text = self.log, match[1], match[2].strip()
        if key == "darshan log version":
            log.version = text[:20]
        elif key == "exe":
            log.exe = text or None
        elif key == "uid":
            log.uid = text[:40] or None
        elif key == "jobid":
            log.job_id = text[:80] or None
        elif key == "nprocs":
            value = _number(text)
            log.nprocs = int(value) if value and 0 < value < 2**62 else None
        elif key == "run time":
            log.run_time_s = seconds(_number(text))
        elif key in ("start_time", "end_time"):
            value = _number(text)
            at = moment(int(value)) if value is not None else None
            log.start_ns, log.end_ns = (at, log.end_ns) if key[0] == "s" else (log.start_ns, at)

    def row(self, line: str) -> str | None:
        """Take a line of data; says why where it is none."""
        total = _TOTAL.fullmatch(line.strip())
        if total:
            return self._total(total[1], total[2], total[3])
        cells = line.split("\t")
        if len(cells) < 6:
            return "not: module, rank, record id, counter, value, file name"
        module, rank, key, counter, value = cells[:5]
        number = _number(value)
        if number is None or not rank.lstrip("-").isdigit() or len(rank) > 18:
            return "a rank or a value that is no number"
        if counter.startswith((f"{module.replace('-', '')}_", f"{module}_")):
            self._records.setdefault((module, rank, key), {})[counter] = number
        if cells[5] and cells[5] != "<STDOUT>":
            self.log.names.setdefault(key, cells[5])
        if len(cells) > 7 and cells[6].startswith("/") and cells[7]:
            mount = (cells[6], cells[7].strip())
            if mount not in self.log.mounts:
                self.log.mounts.append(mount)
        return None

    def _total(self, prefix: str, counter: str, value: str) -> str | None:
        number = _number(value)
        if number is None:
            return "a total that is no number"
        module = self.module(prefix)
        if module.totals is None:
            module.totals = {}
        key = _COUNTERS.get(counter)
        if key is not None and number >= 0:
            module.totals[key] = number
        return None

    def done(self) -> Log:
        """Give the log; single records are believed before totals."""
        for (name, rank, key), counters in self._records.items():
            self.module(name).records.append(FileRecord(key, int(rank), counters))
        for module in self.log.modules.values():
            if module.records:
                module.totals = None
        self.log.lossy |= self._cut()
        return self.log

    def _cut(self) -> bool:
        """Say whether the text ends too early: in a record, or before a module it announced."""
        for layer in LAYERS:
            module = self.log.modules.get(layer)
            if module and module.size_bytes and not module.records and module.totals is None:
                return True
        if not self._records:
            return False
        (name, *_), last = list(self._records.items())[-1]
        others = [list(record) for (module, *_), record in self._records.items() if module == name]
        return (
            len(others) > 1
            and len(last) < len(others[-2])
            and (others[-2][: len(last)] == list(last))
        )


def read_parser(file: InputFile, build: Builder) -> Log:
    """Read the text that ``darshan-parser`` printed."""
    parser, bad = _Parser(file.name), 0
    for number, line in file.lines():
        if line.startswith("#"):
            parser.comment(line)
        elif line.strip():
            why = parser.row(line)
            if why is not None:
                bad += 1
                build.records_in += 1
                build.reject(file.name, number, why)
    log = parser.done()
    log.lossy |= bad > 0
    found = any(module.records or module.totals for module in log.modules.values())
    if not found and (bad or log.version is None):
        raise BadInput(
            f"{file.name} holds no counters of Darshan 3",
            hint="print it with the darshan-parser of Darshan 3.0 or newer",
        )
    return log


def read_table(file: InputFile, build: Builder) -> Log:
    """Read a table of module, bytes_read, bytes_written and so on, a row a module."""
    rows = csv.reader(line + "\n" for _, line in file.lines())
    log = Log(file.name)
    try:
        header = [cell.strip().lower() for cell in next(rows, [])]
        if not header or header[0] != "module":
            raise BadInput(f"{file.name} is no table of modules", hint="check its first line")
        for row in rows:
            if any(cell.strip() for cell in row):
                _table_row(log, header, row, rows.line_num, build)
    except csv.Error as error:
        raise BadInput(f"{file.name} is damaged: {error}", hint="check the file") from None
    return log


def _table_row(log: Log, header: list[str], row: list[str], line: int, build: Builder) -> None:
    cells = dict(zip(header, row, strict=False))
    totals: dict[str, float] = {}
    bad = len(row) != len(header) or not cells.get("module", "").strip()
    for column, key in _TABLE.items():
        text = cells.get(column, "").strip()
        if text:
            value = _number(text)
            bad = bad or value is None or value < 0
            totals[key] = value or 0
    if bad:
        build.records_in += 1
        build.reject(log.source, line, "not a module and its numbers")
        log.lossy = True
        return
    log.modules[cells["module"].strip()[:80]] = Module(totals=totals)
