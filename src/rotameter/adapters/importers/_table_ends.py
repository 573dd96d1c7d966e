"""Whether the last line of a table, one without an end, was cut inside its last value."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

__all__ = ["OPEN_END", "Fed", "is_cut", "may_be_cut"]

OPEN_END = (
    "the last line has no end: it may be cut, its last value or row with it; copy the file again"
)
_RUNS = re.compile(r"\d+")
_LETTER = re.compile(r"[^\W\d_]")
_FRACTION = re.compile(r"\d[.,](\d+)(?!.*\d[.,]\d)")
_USUAL = 3  # as many values show what is usual: numbers may lack a part by themselves


class Fed:
    """Lines on their way to a reader of rows, and what the last of them ended in."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._lines = lines
        self._last = ""

    def __iter__(self) -> Iterator[str]:
        for line in self._lines:
            self._last = line
            yield line

    @property
    def is_open(self) -> bool:
        """Whether the last line has no end, and no quote closes it."""
        return bool(self._last) and self._last[-1] not in '\r\n"'


def _form(text: str) -> str:
    """Write each run of digits as 9, and each letter as a."""
    return _LETTER.sub("a", _RUNS.sub("9", text))


def is_cut(last: str, others: Sequence[str]) -> bool:
    """Say whether a value is only the beginning of one, as the others of its column show.

    Examples
    --------
    >>> is_cut("1", ["2 GB", "1 GB"]), is_cut("COMPL", ["COMPLETED"]), is_cut("20", ["2048000"])
    (True, True, False)
    >>> is_cut("9", ["90.45", "12.00", "3.10"]), is_cut("9", ["90.45", "12"])
    (True, False)
    >>> is_cut("2024-03-01 10:0", ["2024-03-01 10:00:00"]), is_cut("", ["5", ""])
    (True, False)
    """
    last, others = last.strip(), [text for o in others if (text := o.strip())]
    if not last or not others or last in others:
        return False
    form, forms = _form(last), {_form(text) for text in others}
    if not any(map(str.isdigit, last + "".join(others))):
        return any(text.startswith(last) for text in others)
    if form in forms:
        width = {len(text) for text in others}
        dated = len(re.findall(r"9[^9.,]+", form)) > 1
        return dated and forms == {form} and len(width) == 1 and len(last) < min(width)
    if not all(one.startswith(form) for one in forms):
        return False
    part = all(set(one[len(form) :]) <= set("9.,") for one in forms)
    return not part or len(others) >= _USUAL


def may_be_cut(last: str, others: Sequence[str]) -> bool:
    """Say whether a value may be only the beginning of one: shorter than the others of its form.

    Examples
    --------
    >>> may_be_cut("20", ["2048000", "512000"]), may_be_cut("600", ["540", "1200"])
    (True, False)
    >>> may_be_cut("90.4", ["90.45", "12.00"]), may_be_cut("5", []), may_be_cut("", ["5", ""])
    (True, True, False)
    """
    last, others = last.strip(), [o.strip() for o in others]
    if last in others:
        return False
    form = _form(last)
    words = not any(map(str.isdigit, last + "".join(others)))
    alike = [text for text in others if text and (words or _form(text) == form)]
    if not alike or len(last) < min(map(len, alike)):
        return True
    found = _FRACTION.search(last)
    parts = [len(match[1]) for text in alike if (match := _FRACTION.search(text))]
    return found is not None and bool(parts) and len(found[1]) < min(parts)
