"""The summary of a Dask performance report: text for people, read back into numbers.

The text is made in ``distributed/scheduler.py`` (``performance_report``) with ``format_time`` and
``format_bytes`` of ``dask.utils``.
"""

from __future__ import annotations

import html
import re
from dataclasses import dataclass, field
from typing import Any

from rotameter.adapters.importers._dask_bokeh import unescaped
from rotameter.adapters.importers.times import binary_bytes
from rotameter.profiler.live.redact import clip, redact

__all__ = ["Summary", "printed_seconds", "read_summary"]

_TAG = re.compile(r"<[^<>]{0,300}>")
_DURATION = re.compile(r"Duration:\s*([^\n<]{1,40})")
_TASKS = re.compile(r"number of tasks:\s*(\d{1,15})")
_ACTION = re.compile(r"([a-z][a-z\- ]{0,40}?) time:\s*([^\n<]{1,40})")
_FACT = re.compile(
    r"(Address|Workers|Threads|Memory|Dask Version|Dask\.Distributed Version):\s*([^\n<]{1,200})"
)
_PART = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(days?|d|hours?|hr|h|min|ms|us|µs|μs|ns|m|s)(?![a-z])")
_UNITS = {
    **dict.fromkeys(("d", "day", "days"), 86400.0),
    **dict.fromkeys(("hr", "h", "hour", "hours"), 3600.0),
    **dict.fromkeys(("m", "min"), 60.0),
    "s": 1.0,
    "ms": 1e-3,
    **dict.fromkeys(("us", "µs", "μs"), 1e-6),
    "ns": 1e-9,
}
_LIMIT = 200_000


@dataclass
class Summary:
    """What the report says of the run; each printed time with its rounding, in seconds."""

    duration: tuple[float, float] | None = None
    tasks: int | None = None
    actions: dict[str, tuple[float, float]] = field(default_factory=dict)
    workers: int | None = None
    threads: int | None = None
    memory_bytes: int | None = None
    address: str | None = None
    versions: dict[str, str] = field(default_factory=dict)
    twice: bool = False

    def facts(self) -> dict[str, Any]:
        """Plain data for the trace's metadata."""
        made = {
            "duration_s": self.duration[0] if self.duration else None,
            "tasks": self.tasks,
            "action_s": {name: seconds for name, (seconds, _) in self.actions.items()} or None,
            "workers": self.workers,
            "threads": self.threads,
            "memory_bytes": self.memory_bytes,
            "scheduler": self.address,
        }
        return {name: value for name, value in made.items() if value is not None}


def printed_seconds(text: str) -> tuple[float, float] | None:
    """Read a time as Dask prints it.

    Returns
    -------
    tuple of (float, float) or None
        Seconds, and by how much the printed number may be off.

    Examples
    --------
    >>> printed_seconds("1.28 s"), printed_seconds("47.06 ms"), printed_seconds("20m 34s")
    ((1.28, 0.005), (0.04706, 5e-06), (1234.0, 1.0))
    >>> printed_seconds("soon") is None
    True
    """
    total, unit, at = 0.0, 0.0, 0
    digits = 0
    while match := _PART.match(text, at):
        unit, at = _UNITS[match[2]], match.end()
        digits = len(match[1].partition(".")[2])
        total += float(match[1]) * unit
    if not at or text[at:].strip():
        return None
    # Whole numbers are cut off, decimals are rounded.
    return round(total, 12), unit * (0.5 * 10.0**-digits if digits else 1.0)


def read_summary(texts: list[str]) -> Summary:
    """Find the summary among a page's texts; empty if there is none."""
    for text in texts:
        for escapes, plain in enumerate(unescaped(text[:_LIMIT])):
            if "<h" not in plain or ("Duration:" not in plain and "number of tasks" not in plain):
                continue
            made = _parse(plain)
            made.twice = escapes > 0
            return made
    return Summary()


def _parse(text: str) -> Summary:
    # The caller's code follows; what it says is none of our business.
    text = html.unescape(_TAG.sub("\n", re.split(r"Calling Code|<pre\b", text, maxsplit=1)[0]))
    made = Summary()
    if match := _DURATION.search(text):
        made.duration = printed_seconds(match[1].strip())
    if match := _TASKS.search(text):
        made.tasks = int(match[1])
    for match in _ACTION.finditer(text):
        seconds = printed_seconds(match[2].strip())
        if seconds is not None:
            made.actions.setdefault(match[1].strip(), seconds)
    for match in _FACT.finditer(text):
        _fact(made, match[1], match[2].strip())
    return made


def _fact(made: Summary, name: str, value: str) -> None:
    count = int(value) if value.isascii() and value.isdigit() and len(value) < 10 else None
    if name == "Workers":
        made.workers = count
    elif name == "Threads":
        made.threads = count
    elif name == "Memory":
        try:
            made.memory_bytes = _bytes(value)
        except ValueError:
            return
    elif name == "Address":
        made.address = clip(redact(value))
    else:
        which = "dask" if name == "Dask Version" else "distributed"
        made.versions[which] = clip(redact(value), 60)


def _bytes(text: str) -> int:
    """Read ``format_bytes``: before Dask 2021 MB were a million bytes, then MiB."""
    if "i" in text or text.endswith(" B"):
        return binary_bytes(text)
    match = re.fullmatch(r"(\d+(?:\.\d+)?) ([kMGTP])B", text)
    if match is None:
        raise ValueError(text)
    power: int = " kMGTP".index(match[2])
    return round(float(match[1]) * 10.0 ** (3 * power))
