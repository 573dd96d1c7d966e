"""A task's work folder: ``.command.trace`` and ``.exitcode``, as the task's wrapper wrote them.

The format: ``command-trace.txt`` and ``TraceRecord.parseTraceFile`` of Nextflow. Resident and
virtual memory are in KiB, ``%cpu`` in tenths of a percent, ``realtime`` in milliseconds.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from rotameter.adapters.importers.walking import Unread, entries
from rotameter.adapters.joining.scanning import small_text

__all__ = ["exit_code", "find", "read"]

_HASH = re.compile(r"([0-9a-f]{2})/([0-9a-f]{6,30})")
_LIMIT = 1 << 16
_LEGACY = ("pid", "state", "%cpu", "%mem", "vmem", "rss", "peak_vmem", "peak_rss", "rchar", "wchar")
_BIG = 1 << 60


def find(work: Path, hash: str | None, unread: Unread) -> Path | None:
    """Find a task's folder by the beginning of its hash; None if it is gone or not clear."""
    match = _HASH.fullmatch(hash or "")
    if match is None:
        return None
    near = [e.name for e in entries(work / match[1], unread) if e.name.startswith(match[2])]
    if len(near) != 1:
        return None
    task = work / match[1] / near[0]
    if not os.access(task, os.X_OK):
        unread.add(task, "Permission denied")
        return None
    return task


def exit_code(folder: Path) -> int | None:
    """Give the exit code that the wrapper wrote when the task ended; None if there is none."""
    code = small_text(folder / ".exitcode", 64)
    return int(code) if code is not None and re.fullmatch(r"\s*\d{1,6}\s*", code) else None


def read(folder: Path) -> dict[str, Any]:
    """Give what the wrapper wrote, as columns of ``tasks``; ``vmem`` apart in ``_samples``."""
    row: dict[str, Any] = {}
    code = exit_code(folder)
    if code is not None:
        row["exit_code"] = code
    text = small_text(folder / ".command.trace", _LIMIT)
    if text:
        row.update(_trace(text))
    return row


def _trace(text: str) -> dict[str, Any]:
    lines = text.split("\n")
    if lines[0].strip() == "nextflow.trace/v2":
        value = dict(line.split("=", 1) for line in lines[1:] if "=" in line)
    elif lines[0].split()[:2] == ["pid", "state"] and len(lines) > 1:
        value = dict(zip(_LEGACY, lines[1].split(), strict=False))
        if len(lines) > 2:
            value["realtime"] = lines[2].strip()
    else:
        return {}
    known = {name: _whole(text) for name, text in value.items()}
    row: dict[str, Any] = {}
    wall, percent, peak = known.get("realtime"), known.get("%cpu"), known.get("peak_rss")
    if wall is not None:
        row["wall_s"] = wall / 1000
        if percent is not None and (peak or percent):
            row["cpu_s"] = percent / 1000 * row["wall_s"]
    if peak:
        row.update(peak_memory_bytes=peak * 1024, peak_memory_kind="sampled")
    if peak or known.get("rchar"):
        row.update(read_bytes=known.get("rchar"), write_bytes=known.get("wchar"))
        row["io_kind"] = "estimate"
    if known.get("peak_vmem"):
        row["_samples"] = {"peak_vmem_bytes": float(known["peak_vmem"] or 0) * 1024}
    return row


def _whole(text: str) -> int | None:
    text = text.strip()
    if not re.fullmatch(r"\d{1,18}", text):
        return None
    value = int(text)
    return value if value < _BIG // 1024 else None
