"""JSON values one after the other: a list, one document, one document a line, or a cut file."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

__all__ = ["Broken", "values"]

_SPACE = re.compile(r"[\s,;\x00\x1e]*")
_BLANK = re.compile(r"\s*")
_NEXT_LINE = re.compile(r"\n\s*(?=[{\[])")
_BROKEN_LIMIT = 1000


@dataclass(frozen=True)
class Broken:
    """A stretch of text that is no JSON, and why."""

    reason: str


def values(text: str) -> Iterator[tuple[int, Any]]:
    r"""Give (line, value) of every JSON value; lists at the top give their items.

    What cannot be read is a :class:`Broken`, after which reading goes on at the next line that
    begins a value; never raises.

    Examples
    --------
    >>> list(values('[{"a": 1},\n {"a": 2}]\n{"a": 3}'))
    [(1, {'a': 1}), (2, {'a': 2}), (3, {'a': 3})]
    >>> list(values('[1, {"a": '))
    [(1, 1), (1, Broken(reason='the text ends in the middle of a value'))]
    """
    scan = json.JSONDecoder().raw_decode
    at, line, depth, broken = 0, 1, 0, 0
    while True:
        begin = _SPACE.match(text, at).end()  # type: ignore[union-attr]
        line += text.count("\n", at, begin)
        at = begin
        if at >= len(text):
            if depth:
                yield line, Broken("the list is not closed: the file is cut")
            return
        if text[at] == "[" and not depth:
            depth, at = 1, at + 1
            continue
        if text[at] == "]" and depth:
            depth, at = 0, at + 1
            continue
        try:
            value, end = scan(text, at)
        except (ValueError, RecursionError) as error:
            yield line, Broken(_why(error, text))
            broken += 1
            follow = _NEXT_LINE.search(text, at) if broken < _BROKEN_LIMIT else None
            if follow is None:
                return
            end, depth = follow.end(), 0
        else:
            yield line, value
        line += text.count("\n", at, end)
        at = end


def _why(error: Exception, text: str) -> str:
    if isinstance(error, RecursionError):
        return "nested too deeply"
    at = getattr(error, "pos", None)
    if not isinstance(at, int):  # a number of too many digits
        return str(error)[:100]
    cut = _BLANK.match(text, at).end() >= len(text)  # type: ignore[union-attr]
    if cut or str(error).startswith("Unterminated string"):
        return "the text ends in the middle of a value"
    return f"not JSON: {str(error)[:80]}"
