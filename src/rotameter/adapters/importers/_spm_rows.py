"""Rows of a workflow table of FastFlow/SPM: which columns, which values, which record each is."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

__all__ = ["MIB", "Columns", "Reader", "Row", "columns_of", "number", "unit_of"]

MIB = 1 << 20
_MB = 1_000_000
_LARGEST = 1 << 62
_SECONDS_LIMIT = 1e10
_TEXT_LIMIT = 4096
_OPERATIONS = {
    "0": "write", "1": "read", "write": "write", "read": "read", "w": "write", "r": "read",
    "cp": "copy", "scp": "copy", "copy": "copy",
}  # fmt: skip
_LETTERS = {"r": "read", "w": "write"}
_TRACE = re.compile(r"\.(\d+(?:-[^/]*?)?)\.([rw])_blk_trace(?:\.json)?$")
_EMPTY = frozenset(("", "nan", "none", "null", "na", "n/a"))
_NAMES = {
    "operation": ("operation", "op"),
    "bytes": ("aggregatefilesizemb", "aggregatefilesizemib", "aggregatefilesize"),
    "size": ("transfersize",),
    "ops": ("opcount",),
    "seconds": ("totaltime",),
    "task": ("taskname",),
    "pid": ("taskpid",),
    "file": ("filename",),
    "tier": ("storagetype",),
    "stage": ("stageorder",),
    "previous": ("prevtask",),
    "tasks": ("numtasks",),
    "parallelism": ("parallelism",),
    "nodes": ("numnodes",),
    "per_node": ("taskspernode",),
}
_MEASURED = ("bytes", "size", "ops", "seconds")
_BEFORE = {"stage_order": "stage", "stage_tasks": "tasks", "parallelism": "parallelism"}
_MEMO_LIMIT = 50_000
Columns = Mapping[str, int]


@dataclass(slots=True)
class Row:
    """One record: a process, a direction, a file, and what was measured (None = unknown).

    The name of the task or of the file may be empty where the process is known.
    """

    line: int
    op: str
    task: str
    pid: str
    file: str
    size_mb: float | None
    call_bytes: float | None
    ops: int | None
    seconds: float | None
    tier: str | None
    candidates: tuple[tuple[str, str], ...]
    previous: str
    features: dict[str, float]
    corrected: bool = False
    trace_name: bool = False
    unread: bool = False


def columns_of(header: Sequence[str]) -> Columns | None:
    """Say where the columns are; None where it is no such table.

    Examples
    --------
    >>> columns_of(["operation", "aggregateFilesizeMB", "taskName", "fileName"])["file"]
    3
    >>> columns_of(["operation", "trMiB"]) is None
    True
    """
    places: dict[str, int] = {}
    for place, name in enumerate(header):
        places.setdefault("".join(c for c in name.lower() if c.isalnum()), place)
    found = {
        key: places[name]
        for key, names in _NAMES.items()
        for name in reversed(names)
        if name in places
    }
    measured = "bytes" in found or {"size", "ops"} <= set(found)
    return found if measured and {"operation", "task", "file"} <= set(found) else None


def number(text: str) -> float | None:
    """Read a number that is not negative; None for what is missing, infinite or none.

    Examples
    --------
    >>> number("1.5"), number("0,5"), number("nan"), number("-1"), number("1e999")
    (1.5, 0.5, None, None, None)
    """
    text = text.strip()
    if len(text) > 40 or not text.isascii() or "_" in text:
        return None
    try:
        value = float(text.replace(",", "."))
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None


class Reader:
    """Reads records, and keeps one row of those that say the same.

    Tables repeat a row for each candidate number of nodes; such rows are one row with several
    candidates, so that memory follows what is measured.

    Attributes
    ----------
    rows : list of Row
        In order of appearance.
    records : int
        Records that could be read, repeats included.
    refused : list of (int, str)
        Line and reason of the others.
    lost : set of (str, str)
        Task and process of those; both empty where the row does not say.
    """

    def __init__(self, columns: Columns) -> None:
        self.columns = columns
        self.rows: list[Row] = []
        self.records = 0
        self.refused: list[tuple[int, str]] = []
        self.lost: set[tuple[str, str]] = set()
        self._current: Row | None = None
        self._last = max(columns[key] for key in ("operation", "task", "file"))
        self._seen: dict[tuple[Any, ...], Row] = {}
        self._texts: dict[str, str] = {}
        self._numbers: dict[str, float | None] = {}
        self._features: dict[tuple[str, ...], dict[str, float]] = {}

    def read(self, lines: Iterable[str], delimiter: str) -> None:
        """Read all lines below the header."""
        reader = csv.reader(lines, delimiter=delimiter)
        places = [self.columns[key] for key in ("nodes", "per_node") if key in self.columns]
        before: list[str] = []
        last: Row | None = None
        while True:
            try:
                fields = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                self.refused.append((reader.line_num + 1, f"no line of a table: {error}"))
                self.lost.add(("", ""))
                continue
            if not any(fields) or not any(field.strip() for field in fields):
                continue
            line = reader.line_num + 1
            if len(fields) <= self._last:
                self.refused.append((line, f"{len(fields)} fields: too few"))
                self.lost.add(("", ""))
                continue
            candidate = (self._text(fields, "nodes"), self._text(fields, "per_node"))
            for place in places:
                if place < len(fields):
                    fields[place] = ""
            # Repeats mostly follow each other.
            if fields == before and last is not None:
                self._also(last, candidate)
                self.records += 1
                continue
            before, last = fields, None
            wrong = self._take(line, fields, candidate)
            if wrong:
                self.refused.append((line, wrong))
                pid = self._text(fields, "pid").removesuffix(".0")
                self.lost.add((self._text(fields, "task"), pid))
            else:
                self.records += 1
                last = self._current

    @staticmethod
    def _also(row: Row, candidate: tuple[str, str]) -> None:
        if candidate not in row.candidates:
            row.candidates = (*row.candidates, candidate)

    def _text(self, fields: Sequence[str], key: str) -> str:
        place = self.columns.get(key)
        if place is None or place >= len(fields):
            return ""
        raw = fields[place]
        known = self._texts.get(raw)
        if known is None:
            value = raw.strip()
            known = "" if value.lower() in _EMPTY else value[:_TEXT_LIMIT]
            _keep(self._texts, raw, known)
        return known

    def _number(self, fields: Sequence[str], key: str) -> float | None:
        place = self.columns.get(key)
        if place is None or place >= len(fields):
            return None
        raw = fields[place]
        if raw in self._numbers:
            return self._numbers[raw]
        value = number(raw)
        _keep(self._numbers, raw, value)
        return value

    def _take(self, line: int, fields: Sequence[str], candidate: tuple[str, str]) -> str | None:
        """Add one record, or give the reason why not."""
        text = self._text
        word = text(fields, "operation").lower()
        op = _OPERATIONS.get(word[:-2] if word.endswith(".0") else word)
        if op is None:
            return f"operation {word[:40]!r} is not read, write, cp or scp"
        task, file, pid = text(fields, "task"), text(fields, "file"), text(fields, "pid")
        if not (task and file) and not (pid and (task or file)):
            return "no task name, process and file name to tell whose it is"
        traced = _TRACE.search(file) if "_blk_trace" in file else None
        corrected = False
        if traced:
            file = file[: traced.start()].replace("\\", "/").rpartition("/")[2] or file
            pid = pid or traced[1]
            if op != "copy" and op != _LETTERS[traced[2]]:
                op, corrected = _LETTERS[traced[2]], True
        pid = pid.removesuffix(".0")
        size, call, ops, took = (self._number(fields, key) for key in _MEASURED)
        if max(size or 0, (call or 0) * (ops or 0) / MIB, (ops or 0) / MIB) * MIB >= _LARGEST:
            return "a size that does not fit"
        unread = size is None and bool(text(fields, "bytes"))
        unread |= size is None and any(
            value is None and bool(text(fields, name))
            for name, value in (("size", call), ("ops", ops))
        )
        key = (op, task, pid, file, size, call, ops, took, text(fields, "previous"), unread)
        row = self._seen.get(key)
        if row is not None:
            self._also(row, candidate)
            self._current = row
            return None
        self._seen[key] = self._current = row = Row(
            line=line,
            op=op,
            task=task,
            pid=pid,
            file=file,
            size_mb=size,
            call_bytes=call,
            ops=None if ops is None else round(ops),
            seconds=took if took is None or took < _SECONDS_LIMIT else None,
            tier=_tier(text(fields, "tier")),
            candidates=(candidate,),
            previous=text(fields, "previous"),
            features=self._known(fields),
            corrected=corrected,
            trace_name=traced is not None,
            unread=unread,
        )
        self.rows.append(row)
        return None

    def _known(self, fields: Sequence[str]) -> dict[str, float]:
        key = tuple(self._text(fields, name) for name in _BEFORE.values())
        known = self._features.get(key)
        if known is None:
            values = {name: self._number(fields, key) for name, key in _BEFORE.items()}
            known = {name: value for name, value in values.items() if value is not None}
            _keep(self._features, key, known)
        return known


def _keep(memo: dict[Any, Any], key: Any, value: Any) -> None:
    if len(memo) >= _MEMO_LIMIT:
        memo.clear()
    memo[key] = value


def _tier(text: str) -> str | None:
    """Name a store; a code number stays one, since what it stands for is not in the table."""
    code = text.removesuffix(".0")
    return f"store {code}" if code.isdecimal() else text or None


def unit_of(rows: Sequence[Row]) -> tuple[int, bool]:
    """Say how many bytes one unit of the size column is, and whether the table itself shows it.

    Operations times bytes an operation is the size in bytes, so the unit can be seen.
    """
    ratios = [
        row.call_bytes * row.ops / row.size_mb
        for row in rows
        if row.size_mb and row.ops and row.call_bytes
    ]
    if not ratios:
        return MIB, False
    middle = median(ratios)
    for unit in (MIB, _MB):
        if abs(middle / unit - 1) < 0.01:
            return unit, True
    return MIB, False
