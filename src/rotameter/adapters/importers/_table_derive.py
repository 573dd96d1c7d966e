"""What follows from columns of a table that were read: times of times, edges, maps, signals."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rotameter.adapters.importers._table_mapping import Candidate
from rotameter.adapters.importers._table_plain import exact_ints, split_exits
from rotameter.adapters.importers._table_rows import Chunk
from rotameter.adapters.importers._table_values import Read, as_text, without_formula

__all__ = ["begins_bare", "between", "edges", "maps", "moved", "peaks", "split_ends"]

_SPLIT = ";, \t\n"


def split_ends(chunk: Chunk, exits: Sequence[Candidate]) -> tuple[Chunk, pa.Array | None]:
    """Split exit codes written as ``code:signal``; give the signals, if any is written so."""
    columns, signals = dict(chunk.columns), None
    for one in exits:
        if len(one.names) == 1 and one.names[0] in columns:
            both = {"exit_code": columns[one.names[0]]}
            split_exits(both)
            columns[one.names[0]] = both["exit_code"]
            if "signal" in both:
                found = exact_ints(both["signal"])[0]
                signals = found if signals is None else pc.coalesce(signals, found)
    return (chunk if signals is None else Chunk(chunk.lines, columns)), signals


def begins_bare(column: pa.Array) -> bool:
    """Whether a text column begins with a plain number."""
    if not pa.types.is_string(column.type):
        return False
    for text in without_formula(column.slice(0, 200)).to_pylist():
        if text and text.strip():
            try:
                float(text)
            except ValueError:
                continue
            return True
    return False


def between(start: Any, end: Any) -> Any:
    """Give seconds from start to end; null where the end lies before."""
    if start is None or end is None:
        return None
    held = pc.divide(pc.cast(pc.subtract(end, start), pa.float64(), safe=False), 1e9)
    return pc.if_else(pc.less(held, 0.0), pa.scalar(None, pa.float64()), held)


def moved(at: pa.Array, by_s: pa.Array, sign: int) -> pa.Array:
    """Move instants by seconds; null where the result is no instant."""
    ns = np.rint(by_s.to_numpy(zero_copy_only=False) * 1e6)
    usable = np.isfinite(ns) & (np.abs(ns) < 4e15)
    shift = pa.array(np.where(usable, ns, 0).astype(np.int64) * (1000 * sign), mask=~usable)
    return pc.add(at, shift)


def maps(column: pa.Array) -> Read:
    """Read features: a map, or the text of a JSON object."""
    if pa.types.is_map(column.type):
        return Read(column)
    out: list[list[tuple[str, float]] | None] = []
    bad = np.zeros(len(column), dtype=bool)
    for row, text in enumerate(as_text(column).to_pylist()):
        items = None
        if text is not None:
            try:
                document = json.loads(text)
                items = [(str(k), float(v)) for k, v in document.items() if v is not None]
            except (ValueError, TypeError, AttributeError, OverflowError, RecursionError):
                bad[row] = True
        out.append(items)
    return Read(pa.array(out, pa.map_(pa.string(), pa.float64())), bad)


def edges(column: pa.Array) -> list[list[str]]:
    """Split what a task waits for: a JSON list, or names with ``;``, ``,`` or blanks between."""
    out = []
    for text in column.to_pylist():
        items: list[str] = []
        if text:
            try:
                document = json.loads(text) if text[0] == "[" else None
            except (ValueError, RecursionError):
                document = None
            if isinstance(document, list):
                items = [str(item) for item in document if isinstance(item, (str, int))]
            else:
                sign = next((s for s in _SPLIT if s in text), ";")
                items = [part.strip() for part in text.split(sign) if part.strip()]
        out.append(list(dict.fromkeys(items)))
    return out


def peaks(columns: dict[str, pa.Array], size: int, kind_of_peaks: str) -> None:
    """Say how peaks were obtained; that of a task killed for memory is a lower bound."""
    disk, found = columns.get("peak_disk_bytes"), columns.get("peak_disk_kind")
    if disk is not None:
        sampled = pc.if_else(pc.is_valid(disk), "sampled", pa.scalar(None, pa.string()))
        columns["peak_disk_kind"] = sampled if found is None else pc.coalesce(found, sampled)
    peak = columns.get("peak_memory_bytes")
    if peak is not None:  # nothing runs in no memory: 0 is "not measured"
        nothing = pc.fill_null(pc.equal(peak, 0.0), False)
        peak = pc.if_else(nothing, pa.scalar(None, pa.float64()), peak)
        columns["peak_memory_bytes"] = peak
    outcome = columns.get("outcome")
    request = columns.get("requested_memory_bytes")
    if outcome is not None and (peak is not None or request is not None):
        killed = pc.fill_null(pc.equal(outcome, "oom"), False)
        empty = pa.nulls(size, pa.float64())
        peak = empty if peak is None else peak
        most = pc.max_element_wise(peak, empty if request is None else request)
        peak = columns["peak_memory_bytes"] = pc.if_else(killed, most, peak)
        kind = pc.if_else(killed, "lower_bound", kind_of_peaks)
    elif peak is not None:
        kind = pa.array([kind_of_peaks] * size, pa.string())
    else:
        return
    said = columns.get("peak_memory_kind")
    kind = pc.if_else(pc.is_valid(peak), kind, pa.scalar(None, pa.string()))
    columns["peak_memory_kind"] = kind if said is None else pc.coalesce(said, kind)
