"""Cells of tables as truth values and exact whole numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rotameter.adapters.importers._table_values import _INT_LIMIT, Read, _known, as_text
from rotameter.units import many

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["booleans", "differing", "exact_ints", "split_exits", "without_nan"]

_DIFFER_S, _DIFFER_RATIO = 2.0, 0.05  # clocks and rounding apart

_EXIT_AND_SIGNAL = r"^\s*[0-9]{1,9}:[0-9]{1,3}\s*$"


def split_exits(columns: dict[str, pa.Array], code: str = "exit_code") -> None:
    """Split ``1:0`` (exit code and signal, as batch systems write them) into two columns.

    Examples
    --------
    >>> columns = {"exit_code": pa.array(["0:0", "1:0", "0:9", "7"])}
    >>> split_exits(columns)
    >>> columns["exit_code"].to_pylist(), columns["signal"].to_pylist()
    (['0', '1', None, '7'], [None, None, '9', None])
    """
    column = columns.get(code)
    if column is None or not pa.types.is_string(column.type):
        return
    both = pc.fill_null(pc.match_substring_regex(column, _EXIT_AND_SIGNAL), False)
    if not pc.any(both).as_py():
        return
    nothing = pa.scalar(None, pa.string())
    texts = pc.utf8_trim_whitespace(column)
    first = pc.replace_substring_regex(texts, ":.*$", "")
    last = pc.replace_substring_regex(texts, "^.*:", "")
    killed = pc.and_(both, pc.invert(pc.match_substring_regex(last, "^0+$")))
    # A process that a signal ended has no exit code of its own: `0:9` did not end well.
    kept = pc.if_else(pc.and_(killed, pc.match_substring_regex(first, "^0+$")), nothing, first)
    columns[code] = pc.if_else(both, kept, column)
    signals = pc.if_else(pc.fill_null(killed, False), last, nothing)
    said = columns.get("signal")
    if said is None:
        columns["signal"] = signals
    elif pa.types.is_string(said.type):
        empty = pc.fill_null(pc.equal(pc.utf8_trim_whitespace(said), ""), True)
        columns["signal"] = pc.if_else(empty, signals, said)


def booleans(column: pa.Array) -> Read:
    """Read a column of yes and no."""
    if pa.types.is_boolean(column.type):
        return Read(column)
    words = {"true": True, "yes": True, "y": True, "1": True, "t": True, "exclusive": True}
    words |= {"false": False, "no": False, "n": False, "0": False, "f": False, "shared": False}
    text = as_text(column).to_pylist()
    values = [None if t is None else words.get(t.lower()) for t in text]
    bad = np.array(
        [t is not None and v is None for t, v in zip(text, values, strict=True)], dtype=bool
    )
    return Read(pa.array(values, pa.bool_()), bad)


def without_nan(column: pa.Array, name: str, warn: Callable[[str], None]) -> pa.Array:
    """Leave NaN out of a column of floats, and say so: it is no number, and no word for none."""
    if not pa.types.is_floating(column.type):
        return column
    nan = pc.fill_null(pc.is_nan(column), False)
    if not pc.any(nan).as_py():
        return column
    warn(f"values of {name} that are not a number (NaN) are left out")
    return pc.if_else(nan, pa.scalar(None, column.type), column)


def differing(wall: pa.Array, held: pa.Array) -> str | None:
    """Say how many durations are not what lies between start and end, with one of them.

    Examples
    --------
    >>> differing(pa.array([5000.0, 60.2]), pa.array([60.0, 60.0]))
    'durations and end - start differ in 1 row, such as 5,000 s and 60 s: the durations are kept'
    >>> differing(pa.array([60.0, None]), pa.array([60.0, 60.0]))
    """
    off = pc.abs(pc.subtract(wall, held))
    most = pc.max_element_wise(pc.multiply(held, _DIFFER_RATIO), pa.scalar(_DIFFER_S))
    rows = pc.fill_null(pc.greater(off, most), False).to_numpy(zero_copy_only=False).nonzero()[0]
    if not len(rows):
        return None
    first, between = wall[int(rows[0])].as_py(), held[int(rows[0])].as_py()
    return (
        f"durations and end - start differ in {many(len(rows), 'row')}, such as {first:,.0f} s and "
        f"{between:,.0f} s: the durations are kept"
    )


def exact_ints(column: pa.Array) -> tuple[pa.Array, NDArray[np.bool_]]:
    """Read whole numbers exactly; marks what is none or does not fit 64 bits."""
    if pa.types.is_integer(column.type) and column.type != pa.uint64():
        return pc.cast(column, pa.int64()), np.zeros(len(column), dtype=bool)
    text = _known(as_text(column))
    try:
        return pc.cast(text, pa.int64()), np.zeros(len(column), dtype=bool)
    except pa.ArrowInvalid:
        pass
    out: list[Any] = []
    bad = np.zeros(len(column), dtype=bool)
    for i, word in enumerate(text.to_pylist()):
        value: int | None = None
        if word is not None:
            try:
                number = float(word)
                value = int(word) if word.lstrip("+-").isdigit() else round(number)
                if number != round(number) or not -_INT_LIMIT <= value < _INT_LIMIT:
                    value = None
            except (ValueError, OverflowError):
                value = None
            bad[i] = value is None
        out.append(value)
    return pa.array(out, pa.int64()), bad
