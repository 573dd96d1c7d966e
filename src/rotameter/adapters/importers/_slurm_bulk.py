"""Whole columns of numbers at once: the forms that nearly all values of a large listing have.

What has another form is left to `_slurm_values`, value by value; both give the same numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rotameter.adapters.importers._slurm_values import amount, clock, count, joules

__all__ = ["numbers"]

_FEW = 64  # below, setting up costs more than it saves
_DIGITS = r"^\d{1,15}$"

Reader = Callable[[pa.Array], Any]


def _whole(column: pa.Array) -> Any:
    return pc.cast(column, pa.int64()).to_numpy(zero_copy_only=False).astype(np.float64)


def _part(column: pa.Array, start: int, stop: int | None) -> Any:
    return _whole(pc.utf8_slice_codeunits(column, start, stop))


def _kibi(column: pa.Array) -> Any:
    return _part(column, 0, -1) * 1024


def _joules(column: pa.Array) -> Any:
    values = _whole(column)
    return np.where(values > 0, values, np.nan)


def _day(column: pa.Array) -> Any:
    """Read ``HH:MM:SS`` at the end of each text."""
    hours, minutes = _part(column, -8, -6), _part(column, -5, -3)
    return hours * 3600 + minutes * 60 + _part(column, -2, None)


def _days(column: pa.Array) -> Any:
    return _part(column, 0, -9) * 86400 + _day(column)


def _minutes(column: pa.Array) -> Any:
    """Read ``MM:SS.mmm``."""
    seconds = _part(column, 0, 2) * 60 + _part(column, 3, 5)
    return (seconds * 1000 + _part(column, 6, 9)) / 1000


_FORMS: dict[Callable[[str], float], tuple[tuple[str, Reader], ...]] = {
    amount: ((r"^\d{1,15}K$", _kibi), (_DIGITS, _whole)),
    count: ((_DIGITS, _whole),),
    joules: ((_DIGITS, _joules),),
    clock: (
        (r"^\d\d:\d\d:\d\d$", _day),
        (r"^\d\d:[0-5]\d\.\d{3}$", _minutes),
        (r"^\d{1,3}-[01]\d:[0-5]\d:[0-5]\d$", _days),
    ),
}


def numbers(values: pa.Array, function: Callable[[str], float]) -> Any:
    """Apply one of the functions of `_slurm_values` to many texts.

    Examples
    --------
    >>> numbers(pa.array(["12K", "1.5K", ""]), amount)
    array([12288.,  1536.,    nan])
    """
    forms = _FORMS.get(function, ()) if len(values) >= _FEW else ()
    if not forms:
        return np.array([function(text) for text in values.to_pylist()], dtype=np.float64)
    out = np.full(len(values), np.nan)
    left = np.ones(len(values), dtype=bool)
    for pattern, reader in forms:
        match = pc.match_substring_regex(values, pattern)
        here = match.to_numpy(zero_copy_only=False)
        if here.any():
            out[here] = reader(values.filter(match))
            left &= ~here
    if left.any():
        rest = values.filter(pa.array(left)).to_pylist()
        out[left] = [function(text) for text in rest]
    return out
