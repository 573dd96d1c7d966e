"""Plain text for the terminal: counts and checks, aligned, at most 80 columns wide."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from rotameter.units import format_bytes, format_count, format_seconds

__all__ = ["doctor_text", "stats_text"]

_WIDTH = 80


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
    lines = [_line("tasks", format_count(found["tasks"]))]
    lines.append(_line("attempts", format_count(found["attempts"]), outcomes))
    for label, key in (("dependencies", "deps"), ("rejected records", "rejected")):
        if found[key]:
            lines.append(_line(label, format_count(found[key])))
    for label, key in (("makespan", "makespan_s"), ("task time", "task_wall_s")):
        if found[key] is not None:
            lines.append(_line(label, format_seconds(found[key])))
    for name, total in found["sums"].items():
        if total["n"] and name != "wall_s":
            shown = format_bytes if name.endswith("_bytes") else format_seconds
            text = f"{total['sum']:,.1f} J" if name == "energy_j" else shown(total["sum"])
            text = f"≥ {text}" if total.get("at_least") else text
            known = "" if total["n"] == total.get("of") else f"from {total['n']:,} attempts"
            lines.append(_line(name.rsplit("_", 1)[0].replace("_", " "), text, known))
    return "\n".join(lines)


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
