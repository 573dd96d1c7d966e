"""Cells of tables as truth values and exact whole numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rotameter.adapters.importers._table_values import _INT_LIMIT, Read, _known, as_text

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["booleans", "exact_ints"]


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
