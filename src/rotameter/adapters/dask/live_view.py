"""What `Why` looks like: plain text for a terminal, static HTML for a notebook."""

from __future__ import annotations

import textwrap
from html import escape
from typing import TYPE_CHECKING

from rotameter.profiler.live.redact import clip
from rotameter.units import format_count, format_seconds, many

if TYPE_CHECKING:
    from rotameter.adapters.dask._why_values import GroupWhy, Why

__all__ = ["html", "text"]

_WIDTH = 80
_LINES = 25
_STATES = ("processing", "queued", "waiting", "no-worker", "erred", "memory", "released")


def _wrap(words: str, first: str, rest: str, most: int) -> list[str]:
    lines = textwrap.wrap(
        clip(words, 2000), _WIDTH, initial_indent=first, subsequent_indent=rest
    ) or [first.rstrip()]
    if len(lines) > most:
        lines = [*lines[: most - 1], lines[most - 1][: _WIDTH - 2].rstrip() + " …"]
    return lines


def _states(group: GroupWhy) -> str:
    found = group.n_by_state
    return ", ".join(f"{found[s]:,} {s}" for s in _STATES if found.get(s))


def _eta(why: Why) -> str:
    if why.eta_s is None:
        return f"ETA unknown: {why.eta_reason}" if why.eta_reason else "ETA unknown"
    if why.eta_interval80_s is None:
        return f"ETA at least {format_seconds(why.eta_s)}: {why.eta_reason}"
    low, high = why.eta_interval80_s
    return (
        f"ETA {format_seconds(why.eta_s)} (80 % between {format_seconds(low)} and "
        f"{format_seconds(high)}); from {why.eta_reason}"
    )


def text(why: Why) -> str:
    """Lay out an answer in at most 25 lines of 80 columns.

    Examples
    --------
    >>> from rotameter.adapters.dask._why_values import Why
    >>> print(text(Why("Nothing to do: no task is known.", "idle")))
    Nothing to do: no task is known.
    """
    head = _wrap(why.sentence, "", "", 4)
    if why.status != "idle":
        head += _wrap(_eta(why), "", "", 2)
    tail = []
    for note in why.notes[:2]:
        tail += _wrap(note, "note: ", "      ", 2)
    room = _LINES - len(head) - len(tail) - 1
    body: list[str] = []
    said: set[tuple[str, tuple[str, ...]]] = set()
    for number, group in enumerate(why.groups):
        lines = _wrap(f"{clip(group.group, 60)}: {_states(group)}", "  ", "    ", 1)
        reasons = [r for r in group.reasons if r.blocking] or list(group.reasons[:1])
        for reason in reasons[:2]:
            count = f"{format_count(reason.n_tasks)}: " if len(group.reasons) > 1 else ""
            at = (reason.code, reason.workers)
            words, again = reason.text, reason.blocking and at in said
            if again:  # the same cause, told in full above
                words = words.partition(": ")[0] + " (see above)"
            said.add(at)
            lines += _wrap(f"{count}{words} [{reason.code}]", "    ", "    ", 4)
            if reason.advice and not again:
                lines += _wrap(f"→ {reason.advice}", "    ", "      ", 3)
        left = len(why.groups) - number
        if len(body) + len(lines) + (left > 1) > room:
            body.append(f"  … {many(left, 'further group')}")
            break
        body += lines
    return "\n".join(head + body + tail)


def html(why: Why) -> str:
    """Give static, escaped HTML without script, style sheet or outside reference."""
    rows = []
    for group in why.groups[:30]:
        reasons = "".join(
            f"<div>{escape(r.text)} <code>{escape(r.code)}</code></div>"
            + (f"<div><em>{escape(r.advice)}</em></div>" if r.advice else "")
            for r in group.reasons[:3]
        )
        rows.append(
            f'<tr><th scope="row">{escape(clip(group.group, 120))}</th>'
            f"<td>{escape(_states(group))}</td><td>{reasons}</td></tr>"
        )
    table = ""
    if rows:
        table = (
            "<table><thead><tr><th>group</th><th>tasks</th><th>why</th></tr></thead><tbody>"
            + "".join(rows)
            + "</tbody></table>"
        )
    more = len(why.groups) - 30
    notes = [*why.notes, *([f"{many(more, 'further group')}"] if more > 0 else [])]
    under = "".join(f"<div>{escape(note)}</div>" for note in notes)
    return (
        f"<div><strong>{escape(why.sentence)}</strong><div>{escape(_eta(why))}</div>"
        f"{table}{under}</div>"
    )
