"""The words of a comparison: its headline, and what became of sums and task groups."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from rotameter.units import format_bytes, format_number, format_seconds, many
from rotameter.viz.formats import clip

if TYPE_CHECKING:
    from rotameter.profiler.comparing.changes import GroupChange
    from rotameter.profiler.comparing.judging import Judged
    from rotameter.profiler.comparing.totals import Total
    from rotameter.profiler.comparing.verdict import Comparison

__all__ = [
    "NAME",
    "applied_words",
    "headline",
    "row_place",
    "shown_name",
    "shown_total",
    "signed",
    "what_changed",
]

_NAMED = 0.2
"""A change that is less of the whole than this does not stand in the headline."""
NAME = 34
"""Characters of a group's name in text."""


def _core_s(value: float, most: float) -> str:
    if most >= 360_000:
        return f"{format_number(value / 3600)} core·h"
    return f"{format_number(value)} core·s"


def _gbh(value: float, most: float) -> str:
    if most < 0.01:  # Too small for hours: 1 GB·h is 3,600 GB·s.
        return f"{format_number(value * 3600, 2)} GB·s"
    return f"{format_number(value)} GB·h"


_UNITS: dict[str, Callable[[float, float], str]] = {"wasted_core_s": _core_s, "wasted_gbh": _gbh}
"""Sums whose unit follows from the larger side, so that a row has one."""
_ROWS: tuple[tuple[str, str, Callable[[float], str]], ...] = (
    ("makespan_s", "run time", format_seconds),
    ("tasks", "tasks", format_number),
    ("task_wall_s", "task time", format_seconds),
    ("wall_per_task_s", "task time a task", format_seconds),
    ("wall_per_gb_s", "task time a GB", format_seconds),
    ("io_s", "time in reads and writes", format_seconds),
    ("read_bytes", "read", format_bytes),
    ("write_bytes", "written", format_bytes),
    ("received_bytes", "received", format_bytes),
    ("peak_memory_bytes", "highest task peak", format_bytes),
    ("wasted_core_s", "cores held, not used", format_number),
    ("wasted_gbh", "memory held, not used", format_number),
    ("failed_attempts", "failed attempts", format_number),
    ("slots", "slots", format_number),
)


def _percent(ratio: float | None) -> str:
    if ratio is None:
        return ""
    if abs(ratio) >= 10:
        return f"x {format_number(1 + ratio, 2)}"
    return f"{100 * ratio:+.0f} %" if abs(ratio) >= 0.0995 else f"{100 * ratio:+.1f} %"


def shown_total(total: Total) -> tuple[str, str, str, str] | None:
    """Give (label, before, after, change) of a sum as text; None for one that is not shown."""
    found = next((row for row in _ROWS if row[0] == total.name), None)
    two = (total.before, total.after)
    if found is None or not total.matters or two == (None, None):
        return None
    _, label, write = found
    most = max(abs(v) for v in two if v is not None)
    scaled = _UNITS.get(total.name)
    old, new = ("–" if v is None else write(v) if scaled is None else scaled(v, most) for v in two)
    return label, old, new, _percent(total.change_ratio)


def row_place(label: str) -> int:
    """Give where a sum stands in the table, by its label."""
    return [known for _, known, _ in _ROWS].index(label)


def headline(found: Comparison, labels: tuple[str, str] = ("A", "B")) -> str:
    """Say in a sentence what became of the run time, and which change matters most.

    Parameters
    ----------
    found : Comparison
    labels : tuple of str
        Names of the sides.
    """
    a, b = labels
    time = found.makespan
    old, new, ratio = time.before, time.after, time.change_ratio
    failed = [label for label, state in zip(labels, found.status, strict=True) if state == "failed"]
    lead = f"{' and '.join(failed)} failed. " if failed else ""
    alone = "" if max(found.runs) > 1 else "; with one run a side, how much runs vary is unknown"
    if old is None or new is None or ratio is None:
        said = "Run times cannot be compared." + _io_words(found, b)
        named = _largest(found, 0.0, 0.0)
    elif not time.is_change:
        said = (
            f"No change that can be told: {a} took {format_seconds(old)}, "
            f"{b} {format_seconds(new)} ({_percent(ratio)}){alone}."
        )
        named = _largest(found, 0.0, 0.1 * old)
    else:
        word = "less" if new < old else "more"
        said = (
            f"{b} took {format_seconds(new)}, {format_seconds(abs(new - old))} "
            f"({100 * abs(ratio):.0f} %) {word} than {a} ({format_seconds(old)}){alone}."
        )
        named = _largest(found, new - old, 0.0)
    return f"{lead}{said}{named}"


def _largest(found: Comparison, moved_s: float, least_s: float) -> str:
    """Name what contributed most: a group's change, or what is in no task.

    Where the run time moved, that went its way; what went against it explains nothing.
    """
    parts = [(g.label, g.contribution_s or 0.0) for g in found.changes]
    if moved_s:
        parts += [(name, c.seconds or 0.0) for name, c in found.others]
    least = max(least_s, _NAMED * abs(moved_s))
    large = [part for part in parts if part[1] and abs(part[1]) >= least]
    along = [part for part in large if part[1] * moved_s >= 0]
    name, seconds = max(along or large, key=lambda part: abs(part[1]), default=("", 0.0))
    if not seconds:
        return ""
    said = f"{clip(name, NAME)} ({signed(seconds)})"
    if not along:
        return f" No change that was found explains it; against it went {said}."
    most = seconds * moved_s > 0 and abs(seconds) >= 0.5 * abs(moved_s)
    return f" {'Most of it' if most else 'Largest change'}: {said}."


def _io_words(found: Comparison, label: str) -> str:
    """Say how the time in reads and writes changed, where nothing else is known."""
    old, new = found.total("io_s").before, found.total("io_s").after
    if not old or new is None:
        return ""
    word = "less" if new < old else "more"
    return (
        f" {label} spent {format_seconds(new)} in reads and writes, "
        f"{100 * abs(new / old - 1):.0f} % {word}."
    )


def signed(seconds: float) -> str:
    """Write seconds with their sign.

    Examples
    --------
    >>> signed(2.0), signed(-0.5)
    ('+2 s', '-500 ms')
    """
    return f"{'+' if seconds > 0 else ''}{format_seconds(seconds)}"


def shown_name(group: GroupChange, limit: int) -> str:
    """Give a group's name, and what it was called before."""
    name = clip(group.label, limit)
    if group.how in ("digits", "place"):
        name += f" (was {clip(group.before[0], limit * 2 // 3)})"
    return name


def what_changed(group: GroupChange) -> str:
    """Word what became of a group's tasks."""
    old_n, new_n = group.tasks
    if group.told == "new":
        return f"new: {many(round(new_n), 'task')}, {format_seconds(group.wall_s[1])}"
    if group.told == "gone":
        return f"gone: it was {many(round(old_n), 'task')}, {format_seconds(group.wall_s[0])}"
    old, new = group.per_task_s
    if old is None or new is None:
        return f"tasks {_counts(group.tasks)}"
    parts = [f"{format_seconds(old)} -> {format_seconds(new)} a task"]
    if group.ratio is not None:
        parts[0] += f" ({_percent(group.ratio.value - 1)})"
    long = group.longest_s
    if long[0] and long[1] and old > 0 and new > 0 and not _alike(long[1] / long[0], new / old):
        parts.append(f"longest {format_seconds(long[0])} -> {format_seconds(long[1])}")
    if old_n != new_n:
        parts.append(f"tasks {format_number(old_n)} -> {format_number(new_n)}")
    size = group.bytes
    if group.byte_ratio is not None and size[0] and size[1]:
        each = (size[1] / max(new_n, 1)) / (size[0] / max(old_n, 1)) - 1
        if abs(each) >= 0.1:
            parts.append(f"bytes a task {_percent(each)}")
            parts.append(f"time a byte {_percent(group.byte_ratio.value - 1)}")
    elif group.bytes_matter and size[0] is not None and size[1] is not None:
        few = (size[0] / max(old_n, 1), size[1] / max(new_n, 1))
        parts.append(f"bytes a task {format_bytes(few[0])} -> {format_bytes(few[1])}")
    if group.failed[0] != group.failed[1]:
        parts.append(f"failed attempts {_counts(group.failed)}")
    if _shared_otherwise(group):
        parts.append("shared otherwise among the workers")
    if not group.is_change:
        parts.append("may be chance")
    return ", ".join(parts)


def _shared_otherwise(group: GroupChange) -> bool:
    """Say whether a group took off time though its tasks took more, or the other way round."""
    old, new, added = *group.wall_s, group.contribution_s
    if old is None or new is None or added is None or not group.contribution_how.startswith("rep"):
        return False
    return (new - old) * added < 0 and abs(new - old) >= 0.05 * max(new, old)


def _alike(one: float, other: float) -> bool:
    return abs(one - other) <= 0.25 * max(one, other)


def _counts(two: tuple[float, float]) -> str:
    return f"{format_number(two[0])} -> {format_number(two[1])}"


_APPLIED = {
    "yes": "applied: ",
    "otherwise": "set, but not as advised: ",
    "opposite": "changed the other way than advised: ",
}


def applied_words(judged: Judged) -> str:
    """Word whether an advice was applied, and how."""
    return _APPLIED.get(judged.applied, "") + judged.applied_how
