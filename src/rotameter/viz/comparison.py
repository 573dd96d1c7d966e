"""A comparison as text for a terminal: at most 40 lines of 80 columns."""

from __future__ import annotations

import textwrap
import unicodedata
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rotameter.units import format_seconds, many
from rotameter.viz.comparison_words import (
    NAME,
    applied_words,
    headline,
    row_place,
    shown_name,
    shown_total,
    signed,
    what_changed,
)
from rotameter.viz.formats import clip, plain

if TYPE_CHECKING:
    from rotameter.profiler.comparing.changes import GroupChange
    from rotameter.profiler.comparing.judging import Judged
    from rotameter.profiler.comparing.verdict import Comparison
    from rotameter.profiler.scaling import Scaling

__all__ = ["MAX_LINES", "comparison_text", "laws_text"]

MAX_LINES = 40
WIDTH = 80
_TOP = 5
_JUDGED = 4
_SETTINGS = 4
_NOTES = 5
_LARGE = 0.1
"""A group that may be this part of what changed is shown, though it may be chance."""


def columns(text: str) -> int:
    """Give the number of columns that a text takes in a terminal."""
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text
    )


def _fit(text: str, width: int = WIDTH) -> str:
    """Cut a line to a number of columns."""
    text = plain(text)
    if columns(text) <= width:
        return text
    while columns(text) > width - 1:
        text = text[:-1]
    return f"{text.rstrip()}…"


def _wrapped(text: str, indent: str = "", most: int = 2) -> list[str]:
    lines = textwrap.wrap(plain(text), WIDTH, subsequent_indent=indent, break_on_hyphens=False) or [
        ""
    ]
    if len(lines) > most:
        lines = [*lines[: most - 1], f"{lines[most - 1]} {lines[most].strip()}"]
    return [_fit(line) for line in lines]


def comparison_text(found: Comparison, labels: tuple[str, str] = ("A", "B")) -> str:
    """Lay out a comparison.

    Parameters
    ----------
    found : Comparison
    labels : tuple of str
        Names of the sides.

    Returns
    -------
    str
        At most 40 lines of 80 columns.
    """
    labels = (clip(labels[0], 24), clip(labels[1], 24))
    lines = _wrapped(headline(found, labels), most=3)
    lines += [line for note in found.notes[:_NOTES] for line in _wrapped(f"note: {note}", "  ")]
    lines += ["", *_table(found, labels)]
    ends = [*_settings(found), *_predictions(found)]
    room = MAX_LINES - len(lines) - len(ends) - 1
    changes = _changes(found, max(4, room))
    return "\n".join([*lines, "", *changes, *ends][:MAX_LINES])


def _table(found: Comparison, labels: tuple[str, str]) -> list[str]:
    rows = [row for total in found.totals if (row := shown_total(total)) is not None]
    rows.sort(key=lambda row: row_place(row[0]))
    changed = {row[0] for t in found.totals if t.is_change and (row := shown_total(t))}
    head = f"  {'':<24}{_fit(labels[0], 15):>16}{_fit(labels[1], 15):>16}{'change':>12}"
    lines = [head.rstrip()]
    for label, old, new, change in rows[:14]:
        mark = " *" if label in changed else ""
        lines.append(f"  {label:<24}{old:>16}{new:>16}{change:>12}{mark}".rstrip())
    if changed:
        lines.append("  * called a change")
    return lines


def _changes(found: Comparison, room: int) -> list[str]:
    unsure = _unsure(found)
    changed = sorted([*found.changes, *unsure], key=found.groups.index)
    if not changed:
        return ["No task group changed by more than can be told from chance.", *_rest(found)]
    lines = ["Changes, by the seconds of the run time that each added (+) or took off (-):"]
    if all(group.contribution_s is None for group in changed):
        lines = ["Changes, by the time of their tasks:"]
    elif not any(group.contribution_how.startswith("replayed") for group in changed):
        lines.append("  (estimated from task time: these runs could not be replayed)")
    rest = _rest(found)
    shown = 0
    for rank, group in enumerate(changed[:_TOP], start=1):
        block = _change(rank, group)
        if len(lines) + len(block) + len(rest) + 1 > room:
            break
        lines += block
        shown += 1
    if len(changed) > shown:
        lines.append(f"  … and {many(len(changed) - shown, 'smaller change')} (--json has all)")
    return [*lines, *rest][: max(room, 2)]


def _unsure(found: Comparison) -> list[GroupChange]:
    """Give groups that are no sure change but may be why the run time changed."""
    time = found.makespan
    if not time.is_change or time.before is None or time.after is None:
        return []
    moved = time.after - time.before
    least = _LARGE * abs(moved)
    return [g for g in found.groups if not g.is_change and abs(g.contribution_s or 0.0) >= least]


def _rest(found: Comparison) -> list[str]:
    lines = []
    others = [(name, c.seconds) for name, c in found.others if c.seconds]
    said = [f"{name} {signed(seconds)}" for name, seconds in others[:3]]
    if found.unexplained_s is not None and found.makespan.before:
        said.append(f"not explained {signed(found.unexplained_s)}")
    if said:
        lines += _wrapped(f"  besides: {', '.join(said)}", "    ")
    for label, names in (
        ("only in the earlier", [n for g in found.groups if not g.after for n in g.before]),
        ("only in the later", [n for g in found.groups if not g.before for n in g.after]),
    ):
        if names:
            text = ", ".join(clip(name, NAME) for name in sorted(names)[:4])
            more = f" and {len(names) - 4} more" if len(names) > 4 else ""
            lines.append(_fit(f"  {label}: {text}{more}"))
    return lines


def _change(rank: int, group: GroupChange) -> list[str]:
    if group.contribution_s is None:
        old, new = group.wall_s
        added = f"{signed((new or 0.0) - (old or 0.0))} in all"
        if old is None and new is None:
            added = "no times"
    else:
        added = signed(group.contribution_s)
    if group.contribution_interval90 is not None:
        added += f" [{', '.join(signed(x) for x in group.contribution_interval90)}]"
    name = shown_name(group, NAME)
    return [*_wrapped(f"  {rank}. {name}: {added}; {what_changed(group)}", "     ")]


def _settings(found: Comparison) -> list[str]:
    # How many tasks a group has stands with the group.
    shown = [d for d in found.differences if d.what != "tasks"]
    if not shown:
        return []
    text = "; ".join(plain(clip(d.text, 60)) for d in shown[:_SETTINGS])
    more = f"; {len(shown) - _SETTINGS} more" if len(shown) > _SETTINGS else ""
    return _wrapped(f"Set differently: {text}{more}", "  ")


def _predictions(found: Comparison) -> list[str]:
    if not found.predictions:
        return []
    saved = found.measured.saved_s
    took = "unknown" if saved is None else format_seconds(saved)
    lines = [_fit(f"Predictions ({found.predictions_from}); measured saving {took}:")]
    # What was tried first: the rest has no outcome.
    order: Sequence[Judged] = sorted(
        found.predictions, key=lambda j: (j.outcome == "cannot tell", -j.prediction.mid_s)
    )
    for judged in order[:_JUDGED]:
        lines += _judged(judged)
    if len(order) > _JUDGED:
        lines.append(f"  … and {len(order) - _JUDGED} more (--json has all)")
    return lines


def _judged(judged: Judged) -> list[str]:
    p = judged.prediction
    names = ", ".join(clip(g, NAME) for g in p.groups[:2])
    about = f"{p.code} {p.kind}" + (f" {names}" if names else "")
    said = format_seconds(p.mid_s)
    if p.low_s is not None and p.high_s is not None:
        said += f" [{format_seconds(p.low_s)}, {format_seconds(p.high_s)}]"
    why = applied_words(judged)
    tail = [text for text in (judged.how, why) if text]
    return _wrapped(
        f"  {about}: {said} predicted; {judged.outcome} ({'; '.join(tail)})", "    ", most=4
    )


def laws_text(found: Scaling, at: float | None, most: int = 36) -> str:
    """Lay out laws of growth: as many whole rows as fit, and how many are left out.

    Parameters
    ----------
    found : Scaling
    at : float or None
        Scale of the prediction; by default twice the largest.
    most : int
        Lines.
    """
    notes: list[str] = []
    blocks: list[list[str]] = []
    for line in found.to_text(at).splitlines():
        if line.startswith("note: "):
            notes += _wrapped(line, "  ") if len(notes) < 4 else []
        elif line.startswith("    ") and blocks:
            blocks[-1] += _wrapped(line, "      ")
        else:
            blocks.append(_wrapped(line, "    "))
    lines: list[str] = []
    room = most - len(notes)
    for place, block in enumerate(blocks):
        rest = len(blocks) - place
        if len(lines) + len(block) + (rest > 1) > room:
            lines.append(f"  … and {rest:,} more laws (--json has all)")
            break
        lines += block
    return "\n".join([*lines, *notes])
