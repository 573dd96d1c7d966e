"""A name that people can read for a set of names; display only."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["pattern"]

_PIECES = re.compile(r"\d+|[^\W\d_]+|[\W_]+")
_LETTER = re.compile(r"[^\W\d_]")
_LOOK_AT = 4096
_REPEATS = re.compile(r"\*(?:[\W_]?\*)+")


def pattern(names: Sequence[str]) -> str:
    """Give the pattern that all names fit, ``*`` for what differs between them.

    Names of the same number of pieces (digits, letters, signs) are compared piece by piece,
    others by what they begin and end with. Names that have nothing in common give the
    first one and how many more there are.

    Examples
    --------
    >>> pattern(["chr3n-1-201.tar.gz", "chr10n-201-401.tar.gz"])
    'chr*n-*.tar.gz'
    >>> pattern(["a.csv", "summary"])
    'a.csv and 1 more'
    """
    distinct = sorted(set(names[:: max(1, len(names) // _LOOK_AT)]))
    if not distinct:
        return "(none)"
    if len(distinct) == 1:
        return distinct[0]
    split = [_PIECES.findall(name) for name in distinct]
    if len({len(pieces) for pieces in split}) == 1:
        columns = zip(*split, strict=True)
        made = _REPEATS.sub("*", "".join(c[0] if len(set(c)) == 1 else "*" for c in columns))
        if _LETTER.search(made):
            return made
    first = _shared_start(distinct)
    last = _shared_start([name[len(first) :][::-1] for name in distinct])[::-1]
    made = _REPEATS.sub("*", f"{first}*{last}")
    return made if _LETTER.search(made) else f"{names[0]} and {len(set(names)) - 1:,} more"


def _shared_start(names: list[str]) -> str:
    """Give what all names begin with."""
    low, high = min(names), max(names)
    for place, letter in enumerate(low):
        if high[place : place + 1] != letter:
            return low[:place]
    return low
