"""DataLife's files, read one by one: block traces, timers of a process, older block histograms."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rotameter.errors import BadInput

__all__ = [
    "BLOCK_BYTES",
    "HISTOGRAM_HEAD",
    "TIMER_NAME",
    "TRACE_NAME",
    "Timer",
    "Touched",
    "histogram_of",
    "named",
    "timer_of",
    "touched_of",
]

BLOCK_BYTES = 4096
HISTOGRAM_HEAD = re.compile(r"Block\s+no\.?\s+Frequency\s+Access\s+size", re.IGNORECASE)
TRACE_NAME = re.compile(r"(.+)\.([rw])_blk_trace(?:\.json)?")
TIMER_NAME = re.compile(r"monitor_timer\.(.+?)\.datalife(?:\.json)?")
_STAT_NAME = re.compile(r"(.+?)(?:_(\d+(?:-[^_/]+)?))?_([rw])_stat")
_PACKING = (".gz", ".bz2", ".xz")
_READS = frozenset(("read", "readv", "pread", "preadv", "fread", "fgets", "fgetc", "mmap"))
_WRITES = frozenset(("write", "writev", "pwrite", "pwritev", "fwrite", "fputs", "fputc"))
_OURS = frozenset(("constructor", "destructor", "dummy"))
_NOTHING = [0.0, 0, 0]
_LARGEST = 1 << 62
_SECONDS_LIMIT = 1e10
_BLOCKS_LIMIT = 1 << 50
_TEXT_LIMIT = 4096


@dataclass(slots=True)
class Timer:
    """Calls of one process by (level, kind): seconds, calls, bytes.

    Levels are ``traced`` (files that match the patterns) and ``other``; kinds are ``read``,
    ``write`` and ``metadata``.
    """

    calls: dict[tuple[str, str], list[float]] = field(default_factory=dict)
    program: str | None = None
    lossy: bool = False


@dataclass(slots=True)
class Touched:
    """Which blocks of one file a process touched in one direction; None = unknown."""

    file: str
    op: str
    extent_blocks: int | None = None
    volume_blocks: int | None = None
    footprint_blocks: int | None = None
    sampled_blocks: int | None = None
    ops: int | None = None
    data_volume: int | None = None
    task: str | None = None
    pid: str | None = None
    name: str = ""


def named(path: str) -> tuple[str, str]:
    """Split a path into folder and name without packing.

    Examples
    --------
    >>> named("run.tar.gz/a/x.1.r_blk_trace.json.gz")
    ('run.tar.gz/a', 'x.1.r_blk_trace.json')
    """
    folder, _, base = path.replace("\\", "/").rpartition("/")
    for suffix in _PACKING:
        base = base.removesuffix(suffix)
    return folder, base


def parsed(data: str, name: str) -> Any:
    """Read a JSON document.

    Raises
    ------
    BadInput
        If it is none.
    """
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise BadInput(f"{name} is not JSON: {reason[:200]}", hint="copy it again") from None


def whole(value: Any, limit: int = _LARGEST) -> int | None:
    """Give a whole number that is not negative and fits; None for everything else.

    Examples
    --------
    >>> whole(3.0), whole(True), whole(-1), whole("3")
    (3, None, None, None)
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return int(value) if 0 <= value < limit else None


def text(value: Any) -> str | None:
    """Give a text that is not blank, bounded."""
    return value.strip()[:_TEXT_LIMIT] or None if isinstance(value, str) else None


def timer_of(document: Any) -> Timer | None:
    """Read the timers of a process: program → level → call → [seconds, calls, bytes].

    Of programs that one process ran in turn, the one that moved most gives the name.
    """
    if not isinstance(document, dict):
        return None
    found = Timer()
    most: tuple[float, float] = (-1.0, -1.0)
    known = False
    for program, levels in document.items():
        if not isinstance(levels, dict):
            continue
        mine = [0.0, 0.0]
        for level, calls in levels.items():
            if level not in ("monitor", "local", "system") or not isinstance(calls, dict):
                continue
            known = True
            for call, values in calls.items():
                _count(found, "traced" if level == "monitor" else "other", call, values, mine)
        if known and (mine[0], mine[1]) > most:
            most, found.program = (mine[0], mine[1]), text(program)
    return found if known else None


def _count(found: Timer, level: str, call: str, values: Any, mine: list[float]) -> None:
    if values == _NOTHING or call in _OURS:
        return
    if not isinstance(values, list) or len(values) != 3:
        found.lossy = True
        return
    seconds = values[0]
    usable = isinstance(seconds, (int, float)) and not isinstance(seconds, bool)
    count, size = whole(values[1]), whole(values[2])
    if not usable or not 0 <= seconds < _SECONDS_LIMIT or count is None or size is None:
        found.lossy = True
        return
    kind = "read" if call in _READS else "write" if call in _WRITES else "metadata"
    if not count and not size:
        return
    total = found.calls.setdefault((level, kind), [0.0, 0, 0])
    for place, value in enumerate((seconds, count, size)):
        total[place] += value
    if kind != "metadata":
        mine[0] += size if level == "traced" else 0
    mine[1] += count


def touched_of(document: Any, op: str, file: str) -> Touched | str:
    """Read a block trace; give what is wrong with it in words where it is none."""
    if not isinstance(document, dict) or "io_blk_range" not in document:
        return "no io_blk_range"
    blocks = document["io_blk_range"]
    if not isinstance(blocks, list):
        return "io_blk_range is no list"
    found = Touched(file, op)
    wrong = _ranges(blocks, found)
    if wrong:
        return wrong
    found.file = text(document.get("file_name")) or file
    found.task = text(document.get("task_name"))
    pid = document.get("pid")
    found.pid = text(pid) if isinstance(pid, str) else None if whole(pid) is None else str(pid)
    found.ops = whole(document.get("access_frequency"))
    found.data_volume = whole(document.get("data_volume"))
    return found


def _ranges(blocks: list[Any], found: Touched) -> str | None:
    """Take [first, last, max, -1 or -2] summaries and plain [from, to) pairs."""
    if any(isinstance(b, bool) or not isinstance(b, (int, float)) for b in blocks):
        return "io_blk_range holds more than numbers"
    try:
        numbers = np.array(blocks, dtype=np.float64)
    except OverflowError:
        return "a block number that does not fit"
    if not (np.abs(numbers) < _BLOCKS_LIMIT).all():  # nan too
        return "a block number that does not fit"
    marks = np.flatnonzero(numbers < 0)
    pairs, spans, begin = [], [], 0
    for mark in [*marks.tolist(), len(numbers)]:
        part = numbers[begin:mark]
        begin = mark + 1
        if mark < len(numbers) and len(part) == 3:
            spans.append((part[0], part[1] + 1))
        elif len(part) % 2:
            return "io_blk_range is neither a summary nor pairs"
        elif len(part):
            pairs.append(part.reshape(-1, 2))
    every = np.concatenate([np.array(spans).reshape(-1, 2), *pairs])
    if (every[:, 1] < every[:, 0]).any():
        return "a range of blocks that ends before it begins"
    if not len(every):
        return None
    found.extent_blocks = _union(every)
    if pairs and not spans:
        found.footprint_blocks = found.extent_blocks
        found.volume_blocks = int((every[:, 1] - every[:, 0]).sum())
    return None


def _union(ranges: Any) -> int:
    """Count the blocks in the union of [from, to) ranges."""
    ranges = ranges[np.argsort(ranges[:, 0], kind="stable")]
    reach = np.maximum.accumulate(ranges[:, 1])
    before = np.concatenate([[ranges[0, 0]], reach[:-1]])
    return int(np.maximum(0, ranges[:, 1] - np.maximum(ranges[:, 0], before)).sum())


def histogram_of(
    lines: Any, name: str, op: str | None
) -> tuple[Touched, int, list[tuple[int, str]]]:
    """Read an older block histogram.

    The size of a call stands at each block that it spans, and the file is appended to at each
    close, with the frequencies of before counted again: neither adds up, and a frequency is no
    bound of the number of calls. What holds is which blocks were touched.

    Returns
    -------
    Touched, int, list
        What holds, the number of good rows, and (line, reason) of those refused.
    """
    stat = _STAT_NAME.fullmatch(name)
    found = Touched(stat[1] if stat else name, op or (stat[3] if stat else "r"))
    found.pid = stat[2] if stat else None
    seen: set[int] = set()
    refused, good = [], 0
    for number, line in lines:
        if HISTOGRAM_HEAD.search(line):
            # The title is the name at opening, before a rename; the file's own name is newer.
            title = HISTOGRAM_HEAD.split(line)[0].strip().removeprefix("./")
            found.file = found.file if stat else title[:_TEXT_LIMIT] or name
            continue
        if not line.strip():
            continue
        row = _block(line)
        if isinstance(row, str):
            refused.append((number, row))
            continue
        good += 1
        seen.add(row)
    found.sampled_blocks = len(seen)
    return found, good, refused


def _block(line: str) -> int | str:
    if "\0" in line:
        return "NUL bytes"
    fields = line.split()
    if len(fields) != 3 or not all(f.isascii() and f.isdecimal() and len(f) < 19 for f in fields):
        return "not a block number, a frequency and a size"
    block = int(fields[0])
    return block if block < _BLOCKS_LIMIT else "a block number that does not fit"
