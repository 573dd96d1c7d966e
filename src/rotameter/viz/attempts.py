"""Attempts as packed arrays for the browser: as fine as the eye needs, and no finer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rotameter.viz.columns import Floats, Ints, Mask, Spans, codes
from rotameter.viz.formats import clip
from rotameter.viz.payload import pack, pack_text

__all__ = ["names", "pack_attempts", "tick_ns"]

NAMES_LIMIT_BYTES = 200_000
# Packed bytes that both times of an attempt may take: with them, a page of 100,000 is below 3 MB.
TIMES_LIMIT_BYTES = 4.8
_FEW = 20_000
_PARTS_PER_SHORT = 128  # ticks in an attempt of the shortest hundredth
_STATES = {"ok": 0, "cached": 0, "rescheduled": 0, "running": 2, "unknown": 2}
_TICKS = 4_000_000_000
# The last number of a name tells the tasks of a group apart.
_NUMBERED = r"(?s)^(?P<before>.*?)(?P<number>[1-9][0-9]{0,8}|0)(?P<after>[^0-9]*)$"


def tick_ns(length_ns: Floats | Ints, span_ns: int) -> int:
    """Give the unit in which times are sent: a 1, 2 or 5 of some power of ten.

    A hundred and more of them fit into all but the shortest hundredth of the attempts, which is
    finer than a line; what is finer still only makes the file larger.

    Parameters
    ----------
    length_ns : ndarray, shape (n_attempts,), nanoseconds
    span_ns : int
        Of the whole run; no time has more than 32 bits.

    Returns
    -------
    int
        Nanoseconds, at least 1,000.

    Examples
    --------
    >>> tick_ns(np.full(10, 10**9), 10**11)
    5000000
    """
    some = length_ns[length_ns > 0]
    short = float(np.quantile(some, 0.01, method="lower")) if len(some) else 0.0
    fine = max(short / _PARTS_PER_SHORT, 1_000.0)
    power = 10 ** int(np.floor(np.log10(fine)))
    nice = max(power * step for step in (1, 2, 5) if power * step <= fine)
    return max(int(nice), -(-span_ns // _TICKS))


def names(tasks: pa.Table, order: Ints) -> dict[str, Any] | None:
    """Pack the names of tasks: patterns, which one each has, and its number in it.

    Parameters
    ----------
    tasks : pyarrow.Table
    order : ndarray of int64, shape (n,)
        Rows, in the order of drawing: numbers are sent as steps from one to the next.

    Returns
    -------
    dict or None
        None where they would take too much room.
    """
    column = pc.fill_null(tasks.column("task_id").take(pa.array(order)), "")
    column = column.combine_chunks()
    parts = pc.extract_regex(column, _NUMBERED)
    found = np.asarray(pc.is_valid(parts).to_numpy(zero_copy_only=False), dtype=bool)
    before = pc.if_else(pa.array(found), pc.struct_field(parts, 0), column)
    after = pc.fill_null(pc.struct_field(parts, 2), "")
    number = pc.cast(pc.fill_null(pc.struct_field(parts, 1), "0"), pa.int64())
    digits = np.asarray(number.to_numpy(zero_copy_only=False), dtype=np.int64)
    digits = np.where(found, digits + 1, 0)  # 0: the name has no number
    whole = pc.binary_join_element_wise(before, after, "\x00")
    coded = (whole.chunk(0) if isinstance(whole, pa.ChunkedArray) else whole).dictionary_encode()
    code = np.asarray(coded.indices.to_numpy(zero_copy_only=False), dtype=np.int64)
    patterns = [text.split("\x00") for text in coded.dictionary.to_pylist()]
    step = np.diff(digits, prepend=0)
    zigzag = np.where(step < 0, -2 * step - 1, 2 * step)
    packed = {
        "before": pack_text([clip(text[0], 90) for text in patterns]),
        "after": pack_text([clip(text[-1], 40) for text in patterns]),
        "pattern": pack(code.astype(np.uint16 if len(patterns) <= 65_536 else np.uint32)),
        "number": pack(zigzag.astype(np.uint32)),
    }
    return packed if sum(len(p["data"]) for p in packed.values()) <= NAMES_LIMIT_BYTES else None


def pack_attempts(
    tasks: pa.Table, when: Spans, use: Mask, row: Ints, slot_of: Ints, group: Ints
) -> dict[str, Any]:
    """Pack the attempts, sorted by row and start.

    Parameters
    ----------
    tasks : pyarrow.Table
    when : Spans
    use : ndarray of bool, shape (n_attempts,)
        Which are drawn.
    row : ndarray of int64, shape (n_drawn,)
    slot_of : ndarray of int64, shape (n_groups + 1,)
        Colour of each group, the last one for none.
    group : ndarray of int64, shape (n_attempts,)

    Returns
    -------
    dict
        JSON-ready. Times are in ticks: a step from the start before, and a length.
    """
    first = when.first_ns or 0
    span_ns = max((when.last_ns or 0) - first, 1)
    start, end = when.start_ns[use] - first, when.end_ns[use] - first
    order = np.lexsort((start, row))
    times = _times(start[order], end[order], row[order], tick_ns(end - start, span_ns))
    rows = row[order]
    outcome, outcomes = codes(tasks, "outcome")
    states = np.array([_STATES.get(name, 1) for name in outcomes] + [0], dtype=np.int64)
    state = np.where(when.open, 2, states[outcome])[use][order]
    where = np.where(group[use][order] >= 0, group[use][order], len(slot_of) - 1)
    return {
        "span_ns": int(span_ns),
        "counts": pack(np.bincount(rows, minlength=int(rows.max()) + 1).astype(np.uint32)),
        **times,
        "slot_of": slot_of.tolist(),
        "group": pack(_least(where)),
        "state": pack(state.astype(np.uint8)),
        "names": names(tasks, np.flatnonzero(use)[order]),
    }


def _times(start: Ints, end: Ints, row: Ints, tick: int) -> dict[str, Any]:
    """Pack when attempts ran, in a coarser unit where they would take too much room."""
    turns = np.flatnonzero(np.diff(row, prepend=-1))
    while True:
        begin = start // tick
        # Both ends are rounded the same way, so that neighbours touch and busy time stays.
        length = np.maximum(end // tick - begin, 0)
        step = np.diff(begin, prepend=0)
        step[turns] = begin[turns]
        made = {"step": pack(_least(step)), "length": pack(_least(length))}
        room = TIMES_LIMIT_BYTES * max(len(start), _FEW)
        if sum(len(packed["data"]) for packed in made.values()) <= room:
            return {"tick_ns": int(tick), **made}
        tick *= 5


def _least(values: Ints) -> Any:
    """Give unsigned integers in as few bytes each as they need."""
    most = int(values.max(initial=0))
    kind: Any = np.uint8 if most < 256 else np.uint16 if most < 65_536 else np.uint32
    return values.astype(kind)
