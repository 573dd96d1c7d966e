"""What happened when: deaths, pauses and losses, in time order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from rotameter.viz.columns import spans
from rotameter.viz.formats import clip, size

if TYPE_CHECKING:
    from rotameter.profiler.trace import Trace

__all__ = ["incidents"]

NAME_LIMIT = 1_000

_INCIDENTS: dict[str, tuple[str, str | None]] = {
    "worker_memory_kill": ("worker killed for memory", "death"),
    "worker_removed": ("worker lost", "death"),
    "worker_exit": ("worker process ended", None),
    "worker_paused": ("worker paused for memory", "pause"),
    "executing_at_death": ("was running when the worker died", None),
    "scheduler_lost": ("scheduler lost", "death"),
    "run_ended": ("program ended with an error", "death"),
    "level_changed": ("tracer measured less to stay cheap", None),
    "hook_error": ("a hook of the tracer failed (the run went on)", None),
}


_RSS_SOURCES = {
    "worker_memory_kill": "read by the nanny",
    "executing_at_death": "the worker's last own reading",
    "worker_exit": "the worker's last own reading",
    "worker_paused": "read at the pause",
    "worker_resumed": "read at the end of the pause",
}
"""Readings of one death differ by who took them and when."""


def _detail(row: dict[str, Any]) -> str:
    """Say in words what the detail columns of an event hold."""
    parts = [
        row["group"] and f"group {clip(row['group'], 80)}",
        row["reason"] and clip(row["reason"], 300),
        row["text"] and clip(row["text"], 300),
        _resident(row),
        f"exit code {row['exit_code']}" if row["exit_code"] is not None else "",
        f"signal {row['signal']}" if row["signal"] is not None else "",
    ]
    return "; ".join(part for part in parts if part)


def _resident(row: dict[str, Any]) -> str:
    if row["rss_bytes"] is None:
        return ""
    limit = f" of {size(row['limit_bytes'])}" if row["limit_bytes"] is not None else ""
    source = _RSS_SOURCES.get(row["kind"])
    said = f" ({source})" if source else ""
    return f"resident memory {size(row['rss_bytes'])}{limit}{said}"


def _follows(at_ns: int | None, kill_ns: int | None) -> bool:
    """Say whether a removal is the end of a kill seen shortly before."""
    return at_ns is not None and kill_ns is not None and 0 <= at_ns - kill_ns <= 120 * 10**9


def _is_news(row: dict[str, Any]) -> bool:
    if row["kind"] == "worker_removed":
        return row["expected"] is not True
    if row["kind"] == "worker_exit":
        return bool(row["exit_code"]) or row["signal"] is not None
    if row["kind"] == "run_ended":
        return bool(row["exit_code"]) or row["signal"] is not None or row["text"] is not None
    return True


def incidents(trace: Trace) -> list[dict[str, Any]]:
    """List deaths, pauses and losses in time order.

    Returns
    -------
    list of dict
        ``at_s`` from the start of the run (None without a time base), ``until_s`` for a pause
        that ended, ``mark`` ("death", "pause" or None), ``what``, ``worker``, ``detail``.
    """
    events = trace.table("events")
    wanted = pa.array([*_INCIDENTS, "worker_resumed"])
    rows = events.filter(pc.is_in(events["kind"], wanted)).sort_by("at_ns").to_pylist()
    when = spans(trace)
    first = when.first_ns
    found: list[dict[str, Any]] = []
    paused: dict[str | None, dict[str, Any]] = {}
    killed: dict[str | None, int | None] = {}
    for row in rows:
        known = first is not None and row["at_ns"] is not None
        at_s = round((row["at_ns"] - first) / 1e9, 6) if known else None
        if row["kind"] == "worker_resumed":
            if (open_pause := paused.pop(row["worker"], None)) is not None:
                open_pause["until_s"] = at_s
            continue
        if not _is_news(row):
            continue
        what, mark = _INCIDENTS[row["kind"]]
        if row["kind"] == "worker_memory_kill":
            killed[row["worker"]] = row["at_ns"]
        elif row["kind"] == "worker_removed" and _follows(
            row["at_ns"], killed.pop(row["worker"], None)
        ):
            mark = None  # the death has its mark already
        item = {
            "at_s": at_s,
            "until_s": None,
            "mark": mark,
            "kind": row["kind"],
            "what": what,
            "worker": None if row["worker"] is None else clip(row["worker"], NAME_LIMIT),
            "detail": _detail(row),
        }
        found.append(item)
        if row["kind"] == "worker_paused":
            paused.setdefault(row["worker"], item)
    return found
