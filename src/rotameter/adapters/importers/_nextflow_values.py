"""The values of Nextflow's trace, in their human and their raw form.

The forms: ``Duration``, ``MemoryUnit`` and ``TraceRecord`` of Nextflow. Memory is in multiples of
1024 whatever the unit is called; a bare number is milliseconds or bytes; ``-`` is not available.
"""

from __future__ import annotations

import re
from functools import lru_cache

from rotameter.adapters.importers.times import binary_bytes, local_ns, number

__all__ = ["FIELDS", "LATEST_MS", "TEXTS", "Bad", "Seen", "is_null", "parse", "ungrouped"]

FIELDS: dict[str, str] = {
    **dict.fromkeys(("task_id", "hash", "native_id", "status", "hostname"), "word"),
    **dict.fromkeys(("process", "module", "container", "tag", "name", "workdir", "script"), "text"),
    **dict.fromkeys(("scratch", "queue", "env", "error_action", "cpu_model"), "text"),
    **dict.fromkeys(("exit", "syscr", "syscw", "attempt", "cpus", "vol_ctxt", "inv_ctxt"), "num"),
    **dict.fromkeys(("submit", "start", "complete"), "date"),
    **dict.fromkeys(("duration", "realtime", "time"), "time"),
    **dict.fromkeys(("%cpu", "%mem"), "perc"),
    **dict.fromkeys(("rss", "vmem", "peak_rss", "peak_vmem", "rchar", "wchar"), "mem"),
    **dict.fromkeys(("read_bytes", "write_bytes", "memory", "disk"), "mem"),
}
"""The columns that Nextflow knows, and what they hold."""

TEXTS = tuple(name for name, kind in FIELDS.items() if kind == "text")
"""Columns of free text: nothing is quoted in a trace, so these may hold separators."""

_NULLS = frozenset(("", "-", "--", "null", "NULL", "NA", "N/A", "nan", "NaN"))
_STEP = re.compile(
    r"(\d+(?:[.,]\d+)?)\s*(milliseconds?|millis?|ms|seconds?|secs?|s|minutes?|mins?|m"
    r"|hours?|h|days?|d)\s*"
)
_UNIT_S = {"m": 60.0, "s": 1.0, "h": 3600.0, "d": 86400.0}
_CLOCK = re.compile(r"(\d+):(\d\d):(\d\d)(?:[.,](\d+))?")
_MAX_S = 1e10
LATEST_MS = 7_258_118_400_000
"""The year 2200: what is later is no time."""
_INT = re.compile(r"-?\d{1,18}")
_MARKS = re.compile("[.,]")
_GROUPED = re.compile(
    r"(?<![\d.,:])[1-9]\d{0,2}(?:(?:,\d{3})+\.\d+|(?:,\d{3}){2,}|(?:\.\d{3})+,\d+|(?:\.\d{3}){2,})"
    r"(?![\d.,])"
)
_NONE = 2**31 - 1  # Integer.MAX_VALUE: no exit code


class Bad(ValueError):
    """A value that is none of its kind."""


def is_null(text: str) -> bool:
    """Say whether a field says that there is no value.

    Examples
    --------
    >>> is_null(" - "), is_null("0")
    (True, False)
    """
    return text.strip() in _NULLS


def ungrouped(text: str) -> str:
    """Take the signs between thousands out where they can be nothing else.

    Examples
    --------
    >>> ungrouped("1,234.5 MB"), ungrouped("1.234,5 MB"), ungrouped("1,234 MB")
    ('1234.5 MB', '1234,5 MB', '1,234 MB')
    """
    return _GROUPED.sub(lambda found: found[0].replace(_MARKS.findall(found[0])[0], ""), text)


def seconds(text: str) -> float:
    """Read a duration: milliseconds if bare, else such as ``1d 2h 3m 4s``.

    Examples
    --------
    >>> seconds("1500"), seconds("2,5s"), seconds("1h 3s"), seconds("3s 1000ms")
    (1.5, 2.5, 3603.0, 4.0)
    """
    text = text.strip()
    try:
        total = number(text) / 1000
    except ValueError:
        total = _spelled(text)
    if not 0 <= total < _MAX_S:
        raise Bad(f"not a duration: {text[:40]!r}")
    return total


def _spelled(text: str) -> float:
    clock = _CLOCK.fullmatch(text)
    if clock:
        hours, minutes, whole, part = clock.groups()
        return int(hours) * 3600 + int(minutes) * 60 + int(whole) + float(f"0.{part or 0}")
    at, total = 0, 0.0
    while at < len(text):
        step = _STEP.match(text, at)
        if step is None:
            raise Bad(f"not a duration: {text[:40]!r}")
        unit = step[2]
        scale = 1e-3 if unit == "ms" or unit.startswith("mill") else _UNIT_S[unit[0]]
        total += float(step[1].replace(",", ".")) * scale
        at = step.end()
    if not text:
        raise Bad("not a duration: ''")
    return total


def _date(text: str) -> tuple[int, bool]:
    """Give (ns, whether the zone is known)."""
    text = text.strip()
    if re.fullmatch(r"\d{9,14}(?:\.0+)?", text):
        ms = int(text.partition(".")[0])
        if ms > LATEST_MS:
            raise Bad(f"not a time: {text!r}")
        return ms * 10**6, True
    at, zoned = local_ns(text)
    if not 0 <= at <= LATEST_MS * 10**6:
        raise Bad(f"not a time: {text[:40]!r}")
    return at, zoned


def _memory(text: str) -> int:
    return binary_bytes(text)


def _percent(text: str) -> float:
    value = number(text.strip().removesuffix("%"))
    if not 0 <= value < 1e9:
        raise Bad(f"not a percentage: {text[:40]!r}")
    return value


def _number(text: str) -> int | None:
    text = text.strip()
    text = text.removesuffix(".0")
    if not _INT.fullmatch(text):
        raise Bad(f"not a number: {text[:40]!r}")
    value = int(text)
    return None if value == _NONE else value


def _word(text: str) -> str:
    return text.strip()


_AMOUNTS = frozenset(("mem", "time", "perc"))
_PARSERS = {
    "word": _word,
    "text": _word,
    "num": _number,
    "date": _date,
    "time": seconds,
    "mem": _memory,
    "perc": _percent,
}


@lru_cache(maxsize=1 << 14)  # a value is checked first and taken later; many come again
def parse(column: str, text: str) -> object:
    """Read one field; None where there is no value.

    Raises
    ------
    ValueError
        If it is no value of the column's kind.

    Examples
    --------
    >>> parse("peak_rss", "1.5 KB"), parse("exit", "-"), parse("%cpu", "97,5%")
    (1536, None, 97.5)
    """
    if is_null(text):
        return None
    kind = FIELDS[column]
    return _PARSERS[kind](ungrouped(text).replace(",", ".") if kind in _AMOUNTS else text)


_LOOKED = 200
_HUMAN = re.compile(r".*\d ?(?:[kKMGTPEZY]?B|ms|[smhd]|%)")
_FORMS = {
    # What nothing can follow, in the human form.
    "mem": re.compile(r"0|\d+(?:[.,]\d+)* ?[kKMGTPEZY]?B"),
    "time": re.compile(r"(?:.* )?\d+(?:[.,]\d+)*m?s"),
    "perc": re.compile(r".*%"),
    "date": re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}"),
}
_STATUSES = frozenset(("COMPLETED", "FAILED", "CACHED", "ABORTED", "RUNNING", "SUBMITTED", "NEW"))


class Seen:
    """How the rows before write their values: what tells whether the very last one is whole."""

    def __init__(self) -> None:
        self._human = False
        self._looked = 0
        self._sizes: set[int] = set()

    def add(self, fields: dict[str, str]) -> None:
        """Take a whole row in."""
        if not fields:
            return
        if not self._human and self._looked < _LOOKED:
            self._human, self._looked = _is_human(fields), self._looked + 1
        last = next(reversed(fields.values())).strip()
        if not is_null(last) and len(self._sizes) < 3:
            self._sizes.add(len(last))

    def cut(self, fields: dict[str, str]) -> bool | None:
        """Say whether the last value of a row is cut; None if that cannot be told.

        Examples
        --------
        >>> seen = Seen()
        >>> seen.add({"rchar": "1 GB", "wchar": "5 KB"})
        >>> [seen.cut({"rchar": "1 GB", "wchar": text}) for text in ("1", "1 G", "1 GB")]
        [True, True, False]
        >>> Seen().cut({"rchar": "12345", "wchar": "1"}) is None
        True
        """
        column, text = next(reversed(fields.items()))
        kind, text = FIELDS.get(column), text.strip()
        if text == "-":
            return False
        if kind in ("date", "word") and column in ("submit", "start", "complete", "hash"):
            if len(self._sizes) == 1:
                return len(text) < min(self._sizes)
            return False if _FORMS["date"].fullmatch(text) else None
        if column == "status":
            return text not in _STATUSES
        form = _FORMS.get(kind or "")
        whole = form is not None and form.fullmatch(text) is not None
        before = dict(list(fields.items())[:-1])
        if form is None or not (self._human or _is_human(before)):
            return False if whole and text != "0" else None
        if whole:
            return False
        # "1h 3m" may be all, or the beginning of "1h 3m 20s".
        return None if kind == "time" and text[-1:] in "mhd" else True


def _is_human(fields: dict[str, str]) -> bool:
    kinds = ("mem", "time", "perc")
    return any(FIELDS.get(c) in kinds and _HUMAN.fullmatch(t.strip()) for c, t in fields.items())
