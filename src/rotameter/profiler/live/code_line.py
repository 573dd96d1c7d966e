"""One line of a user's code, fit to be kept: what stands in its strings is left out."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rotameter.profiler.live.redact import clip, redact

__all__ = ["code_line"]

_SHORT = 3
"""Strings of so few characters are kept: modes, operators, column letters."""
_MASK = "..."
_LIMIT = 160
_BEFORE = 4_000
"""Lines before the wanted one that are read for a string which began there."""
_TOKEN = re.compile(
    r"""
      (?P<comment>\#[^\n]*)
    | (?P<prefix>(?:(?<![A-Za-z0-9_])[A-Za-z]{1,2})?)(?P<quote>\"\"\"|'''|"|')
    | (?P<number>(?<![A-Za-z0-9_.])[0-9][0-9A-Za-z_.]*)
    """,
    re.X,
)


def _string_end(text: str, at: int, quote: str, formatted: bool) -> int:
    """Give where the string ends whose content begins at ``at``: behind its quotes.

    Strings inside the braces of a formatted one may use the same quotes (Python 3.12).
    """
    depth, size = 0, len(text)
    while at < size:
        letter = text[at]
        if letter == "\\":
            at += 2
        elif letter == "\n" and len(quote) == 1:
            return at
        elif not depth and text.startswith(quote, at):
            return at + len(quote)
        elif formatted and letter in "{}":
            if not depth and text[at : at + 2] in ("{{", "}}"):
                at += 2
                continue
            depth = max(0, depth + (1 if letter == "{" else -1))
            at += 1
        elif depth and letter in "\"'":
            inner = letter * 3 if text.startswith(letter * 3, at) else letter
            at = _string_end(text, at + len(inner), inner, formatted)
        else:
            at += 1
    return size


def _pieces(text: str) -> list[tuple[int, int, str]]:
    """Give what is to be replaced: start, end, what comes in its place."""
    out: list[tuple[int, int, str]] = []
    at = 0
    while (match := _TOKEN.search(text, at)) is not None:
        at = match.end()
        if match["comment"] is not None:
            continue
        if match["number"] is not None:
            if sum(letter.isdigit() for letter in match["number"]) > 6:
                out.append((match.start(), at, _MASK))
            continue
        quote, start = match["quote"], at
        at = _string_end(text, start, quote, "f" in match["prefix"].lower())
        closed = text.endswith(quote, start, at)
        inside = text[start : at - len(quote)] if closed else text[start:at]
        if len(inside) > _SHORT or not closed:
            out.append((start, at, _MASK + quote))
    return out


def code_line(lines: Sequence[str], at: int, first: int = 0) -> str:
    r"""Give line ``at`` without the content of its strings and its long numbers.

    Parameters
    ----------
    lines : sequence of str
        Lines of source text.
    at : int
        Which one is wanted, from 0.
    first : int
        Where the code that it is part of begins; a string may begin before its last line.

    Returns
    -------
    str
        At most 160 characters; what looks like a secret is taken out before it is cut.

    Examples
    --------
    >>> code_line(["f = client.submit(load, 'my-argument', 3)"], 0)
    "f = client.submit(load, '...', 3)"
    >>> code_line(["x = '''first", "second'''.join(y.compute())"], 1)
    "...'''.join(y.compute())"
    """
    if not 0 <= at < len(lines):
        return ""
    begin = max(0, min(first, at), at - _BEFORE)
    before = "".join(line.rstrip("\r\n") + "\n" for line in lines[begin:at])
    text = before + lines[at].rstrip("\r\n")
    start, parts = len(before), []
    here = start
    try:
        pieces = _pieces(text)
    except RecursionError:
        return ""
    for piece_start, piece_end, put in pieces:
        if piece_end <= start:
            continue
        parts.append(text[here : max(here, piece_start)])
        parts.append(put)
        here = max(here, piece_end)
    parts.append(text[here:])
    return clip(redact("".join(parts).strip()), _LIMIT)
