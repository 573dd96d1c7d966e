"""Lines of TaskVine and Work Queue logs: resources, amounts, results.

Checked against the writers (``vine_txn_log.c`` of several versions, ``work_queue.c``): MB is
1024 x 1024 bytes; sizes of files are MB where they have a point (older) and bytes where they are
whole numbers (newer, although the header still says MB); the same holds for seconds and us.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

__all__ = ["LINE", "MIB", "Cut", "amount", "dicts", "outcome_of", "size_bytes", "time_ns"]

MIB = 1 << 20
LINE = re.compile(
    r"\d{13,19} \d+ +(?:MANAGER|MASTER|TASK|WORKER|CATEGORY|LIBRARY|APPLICATION|TRANSFER)\b"
)
_DECODER = json.JSONDecoder()
_LIMIT = 2**62
_BYTES = {"B": 1, "KB": 1 << 10, "MB": MIB, "GB": 1 << 30, "TB": 1 << 40}
_SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "min": 60.0, "h": 3600.0}

_RESULTS = {
    "SUCCESS": "ok",
    "FORSAKEN": "rescheduled",
    "CANCELLED": "cancelled",
    "CANCELED": "cancelled",
    "MAX_WALL_TIME": "timeout",
    "MAX_WALLTIME": "timeout",
    "MAX_RUN_TIME": "timeout",
    "MAX_END_TIME": "timeout",
    "END_TIME": "timeout",
    "UNKNOWN": "unknown",
}
_FAILED = frozenset(
    (
        *("SIGNAL", "RESOURCE_EXHAUSTION", "MAX_RETRIES", "LIBRARY_EXIT", "LIBRARY_MISSING"),
        *("INPUT_MISSING", "OUTPUT_MISSING", "STDOUT_MISSING", "FIXED_LOCATION_MISSING"),
        *("OUTPUT_TRANSFER_ERROR", "TRANSFER_ERROR", "RMONITOR_ERROR", "MONITOR_ERROR"),
        *("DISK_ALLOC_FULL", "SANDBOX_EXHAUSTION"),
    )
)
_EXHAUSTED = {
    "memory": "oom",
    "virtual_memory": "oom",
    "swap_memory": "oom",
    "wall_time": "timeout",
}
_ENOUGH_DICTS = 8


class Cut(ValueError):
    """A line that is not whole."""


def dicts(text: str) -> tuple[list[str], list[Mapping[str, Any]]]:
    """Split the rest of a line into its words and its JSON objects.

    Raises
    ------
    Cut
        If an object is not whole.

    Examples
    --------
    >>> dicts('SUCCESS  0  {} {"cores":[1,"cores"]}')
    (['SUCCESS', '0'], [{}, {'cores': [1, 'cores']}])
    """
    at = text.find("{")
    if at < 0:
        return text.split(), []
    words = text[:at].split()
    found: list[Mapping[str, Any]] = []
    while at < len(text) and len(found) < _ENOUGH_DICTS:
        try:
            value, at = _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError):
            raise Cut("a JSON object is not whole") from None
        if not isinstance(value, dict):
            raise Cut("not a JSON object")
        found.append(value)
        while at < len(text) and text[at] == " ":
            at += 1
    return words, found


def amount(resources: Mapping[str, Any], name: str) -> float | None:
    """Give one resource in bytes, seconds or pieces; None where it is not said.

    Examples
    --------
    >>> made = {"memory": [500, "MB"], "wall_time": [2.0, "s"], "cores": [1, "cores"]}
    >>> amount(made, "memory"), amount(made, "wall_time"), amount(made, "cores"), amount(made, "x")
    (524288000.0, 2.0, 1.0, None)
    """
    value = resources.get(name)
    unit: Any = None
    if isinstance(value, list):
        value, unit = [*value, None, None][:2]
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    if unit is None and name in ("memory", "disk", "virtual_memory", "swap_memory"):
        unit = "MB"
    try:
        number = float(value) * _BYTES.get(str(unit), 1) * _SECONDS.get(str(unit), 1.0)
    except OverflowError:
        return None
    return number if math.isfinite(number) and 0 <= number < _LIMIT else None


def size_bytes(word: str) -> int | None:
    """Read the size of a file: with a point it counts MB, without one bytes.

    Examples
    --------
    >>> size_bytes("38386"), size_bytes("0.500000"), size_bytes("x")
    (38386, 524288, None)
    """
    try:
        size = round(float(word) * MIB) if "." in word else int(word)
    except (ValueError, OverflowError):
        return None
    return size if 0 <= size < _LIMIT else None


def duration_s(word: str) -> float | None:
    """Read how long a transfer took: with a point it counts seconds, without one us."""
    try:
        seconds = float(word) if "." in word else int(word) / 1e6
    except (ValueError, OverflowError):
        return None
    return seconds if 0 <= seconds < 1e9 else None


def time_ns(word: str) -> int | None:
    """Read a time in us since the epoch; 0 is unknown.

    Examples
    --------
    >>> time_ns("1700000000000000"), time_ns("0"), time_ns("soon")
    (1700000000000000000, None, None)
    """
    if not word.isascii() or not word.isdigit() or len(word) > 18:
        return None
    at = int(word) * 1000
    return at if 0 < at < 7_258_118_400 * 10**9 else None


def outcome_of(result: str, exit_code: int | None, limits: Mapping[str, Any]) -> tuple[str, str]:
    """Give (outcome, error) of a result as the manager words it.

    Examples
    --------
    >>> outcome_of("SUCCESS", 0, {}), outcome_of("SUCCESS", 2, {})
    (('ok', ''), ('failed', 'exit code 2'))
    >>> outcome_of("RESOURCE_EXHAUSTION", 9, {"memory": [210, "MB"]})
    ('oom', 'RESOURCE_EXHAUSTION: memory')
    """
    if result == "SUCCESS":
        return ("failed", f"exit code {exit_code}") if exit_code else ("ok", "")
    if result == "RESOURCE_EXHAUSTION":
        broken = list(limits)
        for name in broken:
            if name in _EXHAUSTED:
                return _EXHAUSTED[name], f"{result}: {name}"
        return "failed", f"{result}: {', '.join(broken)[:80]}" if broken else result
    if result in _FAILED:
        return "failed", result
    return _RESULTS.get(result, "unknown"), result
