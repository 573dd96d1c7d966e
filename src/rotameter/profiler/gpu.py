"""What GPUs did and waited for: the device timeline of a trace as rows, a sentence and figures.

The timeline is metadata, ``device_timeline``, made by importers from :mod:`devices`. It may come
from a file of someone else, so nothing in it is taken for granted.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from rotameter.profiler.usage import percent
from rotameter.units import format_seconds, many
from rotameter.values import Figure

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = [
    "ALL_WORK",
    "NO_ACTIVITY",
    "WAITS",
    "device_rows",
    "divided",
    "gpu_figures",
    "gpu_sentence",
    "listed",
    "mapping",
    "number",
    "ranks",
    "text",
]

NO_ACTIVITY = "no GPU activity recorded"
ALL_WORK = "all device work"
_BREAKDOWN = (
    "window_s",
    "busy_s",
    "idle_s",
    "compute_s",
    "communication_s",
    "exposed_communication_s",
    "overlap_s",
    "copy_s",
)
_CAUSES = ("host_wait_s", "kernel_wait_s", "other_s")
WAITS = {
    "host_wait_s": "the host",
    "exposed_communication_s": "communication",
    "copy_only_s": "copies",
    "other_s": "other work (events, other streams, launches not on record)",
    "kernel_wait_s": "launches (short gaps)",
}
"""What a device can wait for, with the words for it."""

_BY = {"host": "the host", "compute": "computing", "communication": "communication"}


def mapping(value: Any) -> Mapping[str, Any]:
    """Give a mapping, an empty one where there is none."""
    return value if isinstance(value, dict) else {}


def listed(value: Any) -> list[Any]:
    """Give a list, an empty one where there is none."""
    return value if isinstance(value, list) else []


def number(value: Any) -> float | None:
    """Give a finite number that is not below 0, else None."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        real = float(value)
    except OverflowError:
        return None
    return value if math.isfinite(real) and real >= 0 else None


def text(value: Any, limit: int = 200) -> str | None:
    """Give a text or a number as text, None where there is neither."""
    if isinstance(value, (str, int)) and not isinstance(value, bool):
        return str(value)[:limit] if isinstance(value, str) else str(value)
    return None


def ranks(meta: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Give the ranks of the device timeline; none where the trace has no such timeline."""
    found = mapping(meta.get("device_timeline")).get("ranks")
    return [rank for rank in listed(found) if isinstance(rank, dict)]


def device_rows(meta: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Give one row for each device of each rank, and one for a rank without any.

    Returns
    -------
    list of dict
        ``worker``, ``rank``, ``device`` (None: no GPU activity recorded), ``name``, ``words``, the
        seconds of the breakdown, the idle causes, and the bound if everything overlapped, all of
        the device's whole work. ``stepped``: the same seconds of the work launched in the recorded
        steps, as Holistic Trace Analysis counts; None where that is all work. Unknown is None.

    Examples
    --------
    >>> rows = device_rows({"device_timeline": {"ranks": [{"worker": "rank 0", "devices": []}]}})
    >>> rows[0]["words"], rows[0]["busy_s"]
    ('no GPU activity recorded', None)
    """
    return _rows(meta, "whole")


def _rows(meta: Mapping[str, Any], within: str) -> list[dict[str, Any]]:
    rows = []
    for rank in ranks(meta):
        devices = [one for one in listed(rank.get("devices")) if isinstance(one, dict)]
        rows += [_row(rank, one, within) for one in devices or [{}]]
    return rows


def divided(device: Mapping[str, Any], within: str) -> Mapping[str, Any]:
    """Give how a device's time divides: of its ``whole`` work, or of what lies ``in_run``.

    Where the timeline does not say it (older ones), its breakdown, of whatever that counts.
    """
    order = ("in_run", "whole") if within == "in_run" else ("whole",)
    known = (parts for name in order if (parts := mapping(device.get(name))))
    return next(known, mapping(device.get("breakdown")))


def _counted(parts: Mapping[str, Any]) -> dict[str, float | None]:
    causes = mapping(parts.get("idle_causes"))
    return {
        **{name: number(parts.get(name)) for name in _BREAKDOWN},
        **{name: number(causes.get(name)) for name in _CAUSES},
    }


def _row(
    rank: Mapping[str, Any], device: Mapping[str, Any], within: str = "whole"
) -> dict[str, Any]:
    parts, stepped = divided(device, within), mapping(device.get("breakdown"))
    bound = mapping(parts.get("fully_overlapped"))
    exactly = mapping(parts.get("exactly_s"))
    counts = _counted(parts)
    busy, window = counts["busy_s"], counts["window_s"]
    left_out, of = number(stepped.get("left_out")), text(stepped.get("of"))
    apart = bool(left_out) and parts is not stepped
    return {
        "worker": text(rank.get("worker")),
        "rank": text(rank.get("rank")),
        "device": text(device.get("device")),
        "name": text(device.get("name")),
        "words": None if device else NO_ACTIVITY,
        "of": ALL_WORK if apart else of,
        "events": number(device.get("events")),
        "left_out": 0 if apart else left_out,
        "utilisation": number(round(busy / window, 6)) if window and busy is not None else None,
        "span_s": number(rank.get("span_s")),
        **counts,
        "copy_only_s": number(exactly.get("copy")) or (0.0 if device else None),
        "stepped": {"of": of, "left_out": left_out, **_counted(stepped)} if apart else None,
        "bound_s": number(bound.get("bound_s")),
        "bound_by": text(bound.get("by")),
        "saving_s": number(bound.get("saving_s")),
        "saving_share": number(bound.get("saving_share")),
    }


def _seen(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [row for row in rows if row["window_s"]]


def _sum(rows: Sequence[Mapping[str, Any]], name: str) -> float:
    return float(sum(row[name] or 0.0 for row in rows))


def gpu_sentence(meta: Mapping[str, Any]) -> str | None:
    """Say what the GPUs waited for, with numbers; None where the trace has no device timeline.

    All work counts that lies in the run, as in the findings that are said next to it.

    Examples
    --------
    >>> gpu_sentence({"device_timeline": {"ranks": [{"worker": "rank 0", "devices": []}]}})
    'No GPU activity recorded: nothing can be said about the GPU.'
    """
    rows = _rows(meta, "in_run")
    if not rows:
        return None
    busy = _seen(rows)
    silent = len(rows) - len(busy)
    if not busy:
        lone = len(rows) == 1
        return (
            "No GPU activity recorded: nothing can be said about the GPU."
            if lone
            else f"No GPU activity recorded in any of {len(rows):,} ranks."
        )
    window = _sum(busy, "window_s")
    computing = _sum(busy, "compute_s") / window
    waits = {name: _sum(busy, name) for name in WAITS}
    first, second = sorted(waits, key=lambda name: -waits[name])[:2]
    who, whose = _who(busy)
    span = f"{format_seconds(window)}{' of GPU time' if len(busy) > 1 else ''}"
    if waits[first] < 0.05 * window:
        said = f"{who} computed {percent(computing)} of {span} and hardly waited"
    else:
        said = (
            f"{who} computed {percent(computing)} of {span}. {whose} waited most for {WAITS[first]}"
        )
        said += f": {format_seconds(waits[first])} ({percent(waits[first] / window)})"
        if waits[second] >= 0.05 * window:
            said += f"; for {WAITS[second]}: {format_seconds(waits[second])}"
            said += f" ({percent(waits[second] / window)})"
    said += f".{_bound(busy)}"
    if silent:
        said += f" {many(silent, 'rank')} recorded no GPU activity."
    return said


def _who(rows: Sequence[Mapping[str, Any]]) -> tuple[str, str]:
    if len(rows) == 1:
        return "The GPU", "It"
    places = len({row["worker"] for row in rows})
    return f"{len(rows):,} GPUs" + (f" of {places:,} ranks" if places > 1 else ""), "They"


def _bound(rows: Sequence[Mapping[str, Any]]) -> str:
    """Say how fast it could be if everything overlapped: the slowest device decides."""
    known = [row for row in rows if row["bound_s"] is not None]
    if not known:
        return ""
    last = max(known, key=lambda row: row["bound_s"])
    longest = max(row["window_s"] for row in known)
    if last["bound_s"] >= 0.95 * longest:
        return " Overlapping more would win little."
    by = _BY.get(last["bound_by"] or "", last["bound_by"] or "its longest part")
    saved = 1 - last["bound_s"] / longest
    return (
        f" If all overlapped it would take {format_seconds(last['bound_s'])} at least "
        f"({percent(saved)} less), limited by {by}."
    )


def gpu_figures(meta: Mapping[str, Any]) -> tuple[Figure, ...]:
    """Give three figures of the GPUs; none where the trace has no device timeline."""
    rows = _rows(meta, "in_run")
    if not rows:
        return ()
    busy = _seen(rows)
    if not busy:
        none = [
            Figure(label, None, unit, "–", NO_ACTIVITY)
            for label, unit in (
                ("GPU busy", "ratio"),
                ("GPU waited most for", "s"),
                ("If all overlapped", "s"),
            )
        ]
        return tuple(none)
    window, work = _sum(busy, "window_s"), _sum(busy, "busy_s")
    waits = {name: _sum(busy, name) for name in WAITS}
    worst = max(waits, key=lambda name: waits[name])
    known = [row for row in busy if row["bound_s"] is not None]
    last = max(known, key=lambda row: row["bound_s"]) if known else None
    return (
        Figure(
            "GPU busy",
            work / window,
            "ratio",
            f"{percent(work / window)} of {format_seconds(window)}",
            f"computing {percent(_sum(busy, 'compute_s') / window)}; "
            f"from first to last work of {many(len(busy), 'device')}, in the run",
        ),
        Figure(
            "GPU waited most for",
            waits[worst],
            "s",
            f"{WAITS[worst].partition(' (')[0]}: {format_seconds(waits[worst])}",
            f"{percent(waits[worst] / window)} of the window",
        ),
        Figure(
            "If all overlapped",
            last["bound_s"] if last else None,
            "s",
            f"≥ {format_seconds(last['bound_s'])}" if last else "–",
            (
                f"a bound, no forecast; limited by {_BY.get(last['bound_by'], last['bound_by'])}; "
                f"saves at most {format_seconds(last['saving_s'])}"
                if last
                else "not known"
            ),
        ),
    )
