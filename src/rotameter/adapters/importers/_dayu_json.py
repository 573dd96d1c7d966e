"""Records out of DaYu's files, which are written by hand: cut, joined, with commas too many."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

__all__ = ["Damage", "microseconds", "plain_name", "records", "whole"]

_START = re.compile(r'\{\s*"(?:file-\d+|Task)"\s*:')
_BETWEEN = re.compile(r"[\s,\[\]\x00\ufeff]*")
_COMMA = re.compile(r",(?=\s*[}\]])")
_ATTEMPTS = 2_000
_REPAIR_CHARS = 64 << 20
_LIMIT = 1 << 62
_TWICE = "\x00again"
_UNITS = {"ns": 1e-3, "us": 1.0, "ms": 1e3, "s": 1e6}


class Damage(NamedTuple):
    """A stretch that is no record: the line where it begins."""

    line: int


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Keep what stands twice under one name: groups of a file may hold datasets of one name."""
    made = dict(pairs)
    if len(made) == len(pairs):
        return made
    made = {}
    for number, (key, value) in enumerate(pairs):
        made[f"{key}{_TWICE}{number}" if key in made else key] = value
    return made


def plain_name(key: str) -> str:
    """Give a key as it stands in the file."""
    return key.partition(_TWICE)[0]


def records(text: str) -> Iterator[tuple[int, Any]]:
    r"""Give (line, record) of each object of a list, whole, cut, joined or without its brackets.

    What can be read neither as it is nor without trailing commas is a :class:`Damage`; after it
    the next record is looked for.

    Examples
    --------
    >>> list(records('[{"Task": {"a": 1,}}, {"Task": {}},\n{"Task": {"a"'))
    [(1, {'Task': {'a': 1}}), (1, {'Task': {}}), (2, Damage(line=2))]
    """
    scan = json.JSONDecoder(strict=False, object_pairs_hook=_pairs).raw_decode
    at, line, counted, attempts = 0, 1, 0, 0
    while True:
        between = _BETWEEN.match(text, at)
        at = between.end() if between else at
        if at >= len(text):
            return
        line += text.count("\n", counted, at)
        counted = at
        try:
            value, at = scan(text, at)
        except (ValueError, RecursionError):
            attempts += 1
            found = _START.search(text, at + 1) if attempts < _ATTEMPTS else None
            end = found.start() if found else len(text)
            yield line, _repaired(text[at:end], scan, line)
            at = end
            continue
        yield line, value


def _repaired(stretch: str, scan: Any, line: int) -> Any:
    if len(stretch) > _REPAIR_CHARS:
        return Damage(line)
    text = _COMMA.sub("", stretch.rstrip(" \t\r\n,["))
    try:
        value, end = scan(text, 0)
    except (ValueError, RecursionError):
        return Damage(line)
    return value if not text[end:].strip(" \t\r\n,[]") else Damage(line)


def whole(value: Any) -> int | None:
    """Read a count or a number of bytes; None where it is none.

    Examples
    --------
    >>> whole(3), whole(3.0), whole(-1), whole("3"), whole(True), whole(1e300)
    (3, 3, None, None, None, None)
    """
    if isinstance(value, float):
        value = int(value) if 0 <= value < _LIMIT and value == int(value) else None
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if 0 <= value < _LIMIT else None


def microseconds(record: dict[str, Any], name: str) -> float | None:
    """Give a time or duration as µs, by the unit in its name; without one µs are meant.

    Examples
    --------
    >>> microseconds({"a(ms)": 2}, "a"), microseconds({"a": 5}, "a"), microseconds({}, "a")
    (2000.0, 5.0, None)
    """
    found: list[tuple[Any, float]] = [
        (record[key], size) for unit, size in _UNITS.items() if (key := f"{name}({unit})") in record
    ]
    if not found and name in record:
        found = [(record[name], 1.0)]
    if not found or isinstance(found[0][0], bool) or not isinstance(found[0][0], (int, float)):
        return None
    value, size = found[0]
    return float(value) * size if 0 <= value < 4.4e15 / size else None
