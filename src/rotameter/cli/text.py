"""Plain text for the terminal: counts and checks, aligned, at most 80 columns wide."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from rotameter.units import format_bytes, format_count, format_seconds, many

__all__ = ["doctor_text", "stats_text"]

_WIDTH = 80
_DEVICES = 8
_IDLE = (
    ("waiting for host", "host_wait_s"),
    ("between launches", "kernel_wait_s"),
    ("for other work", "other_s"),
)


def _line(label: str, value: str, note: str = "") -> str:
    return f"  {label:<22}{value:>14}  {note}".rstrip()


def stats_text(found: Mapping[str, Any]) -> str:
    """Lay out what `rotameter.profiler.stats.stats` counted.

    Examples
    --------
    >>> print(stats_text({"tasks": 2, "attempts": 3, "deps": 0, "rejected": 0,
    ...     "outcomes": {"ok": 3}, "makespan_s": 1.5, "task_wall_s": None, "sums": {}}))
      tasks                              2
      attempts                           3  ok 3
      makespan                       1.5 s
    """
    outcomes = ", ".join(f"{name} {count:,}" for name, count in found["outcomes"].items())
    never = found.get("never_started") or 0
    unborn = f"{format_count(never)} more never started" if never else ""
    lines = [_line("tasks", format_count(found["tasks"]), unborn)]
    lines.append(_line("attempts", format_count(found["attempts"]), outcomes))
    kinds = {"dependencies": "deps", "rejected records": "rejected", "dropped records": "dropped"}
    for label, key in kinds.items():
        if found.get(key):
            lines.append(_line(label, format_count(found[key])))
    if found["makespan_s"] is not None:
        least = "≥ " if found.get("makespan_at_least") else ""
        stated = "as the input states it" if found.get("makespan_how") == "recorded" else ""
        lines.append(_line("makespan", f"{least}{format_seconds(found['makespan_s'])}", stated))
    if found["task_wall_s"] is not None:
        least = "≥ " if (found["sums"].get("wall_s") or {}).get("at_least") else ""
        lines.append(_line("task time", f"{least}{format_seconds(found['task_wall_s'])}"))
    for name, total in found["sums"].items():
        if total["n"] and name != "wall_s":
            shown = format_bytes if name.endswith("_bytes") else format_seconds
            text = f"{total['sum']:,.1f} J" if name == "energy_j" else shown(total["sum"])
            text = f"≥ {text}" if total.get("at_least") else text
            known = "" if total["n"] == total.get("of") else f"from {many(total['n'], 'attempt')}"
            lines.append(_line(name.rsplit("_", 1)[0].replace("_", " "), text, known))
    if found.get("usage"):
        from rotameter.profiler.usage import usage_words

        lines += [line for row in usage_words(found["usage"]) for line in _noted(*row)]
    return "\n".join([*lines, *_devices(found.get("devices") or [])])


def _noted(label: str, value: str, note: str) -> list[str]:
    """Lay out a line whose note may need a second one."""
    room = _WIDTH - 40
    notes = textwrap.wrap(note, room) or [""]
    return [_line(label, value, notes[0]), *(f"{'':40}{more}" for more in notes[1:])]


def _devices(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Lay out what each GPU did, the one that idled longest first."""
    lines: list[str] = []
    ranked = sorted(rows, key=lambda row: -(row["idle_s"] or 0.0))
    for row in ranked[:_DEVICES]:
        lines += ["", _shown(f"GPU timeline: {_place(row)}")]
        if row["window_s"] is None:
            lines.append(f"  {row['words'] or 'nothing is known'}")
            continue
        lines += _device(row)
    if len(ranked) > _DEVICES:
        lines += ["", f"{len(ranked) - _DEVICES:,} more devices in --json and in the report."]
    return lines


def _place(row: Mapping[str, Any]) -> str:
    parts = [row["worker"] or "rank unknown"]
    if row["window_s"] is not None:
        parts.append(f"device {row['device'] if row['device'] is not None else 'unknown'}")
    if row["name"]:
        parts.append(str(row["name"]))
    return ", ".join(parts)


def _shown(text: str) -> str:
    clean = "".join(c if c.isprintable() else " " for c in text)
    return clean if len(clean) <= _WIDTH else clean[: _WIDTH - 1] + "…"


def _device(row: Mapping[str, Any]) -> list[str]:
    from rotameter.profiler.usage import percent

    window = row["window_s"]

    def part(label: str, name: str, note: str = "") -> str:
        share = percent(row[name] / window) if window and row[name] is not None else ""
        return _line(label, format_seconds(row[name]), f"{share:>4} {note}".rstrip())

    lines = [
        _line("first to last work", format_seconds(window)),
        part("busy", "busy_s"),
        part("computing", "compute_s"),
    ]
    if row["communication_s"]:
        lines += [
            part("communicating", "communication_s"),
            part("  exposed", "exposed_communication_s", "while nothing computed"),
            part("  overlapped", "overlap_s", "while something computed"),
        ]
    if row["copy_s"]:
        lines.append(part("copies and fills", "copy_s"))
    lines.append(part("idle", "idle_s"))
    for label, name in _IDLE:
        if row[name]:
            lines.append(part(f"  {label}", name))
    if row["bound_s"] is not None:
        note = f"at least; by {row['bound_by']}, saves {format_seconds(row['saving_s'])}"
        lines.append(_shown(_line("if all overlapped", format_seconds(row["bound_s"]), note)))
    return lines


def doctor_text(checks: Sequence[Mapping[str, Any]]) -> str:
    """Lay out what can be measured here, then what cannot, why, and what would enable it."""
    lines = []
    for check in sorted(checks, key=lambda c: not c["available"]):
        lines.append(f"{'yes' if check['available'] else 'no ':<4} {check['what']}")
        for label, key in (("why", "reason"), ("enable", "enable")):
            if check[key]:
                text = f"{label}: {check[key]}"
                lines += textwrap.wrap(
                    text, _WIDTH, initial_indent="     ", subsequent_indent="       "
                )
    return "\n".join(lines)
