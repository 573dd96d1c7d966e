"""Attempts of one task in a table, numbered by when they began."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["by_start", "codes"]


def codes(ids: pa.ChunkedArray) -> NDArray[np.int64]:
    """Give equal ids, unknown ones among them, equal numbers from 0 on.

    Examples
    --------
    >>> codes(pa.chunked_array([["a", "b"], ["a", None]])).tolist()
    [0, 1, 0, 2]
    """
    coded = pc.dictionary_encode(pc.fill_null(ids, "")).unify_dictionaries().combine_chunks()
    coded = coded if isinstance(coded, pa.Array) else pa.concat_arrays(coded.chunks)
    numbers: NDArray[np.int64] = coded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return numbers


def by_start(
    task_id: pa.ChunkedArray, started_ns: pa.ChunkedArray, counted: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Give the attempts of equal ids numbers by start, then by line; without starts by line.

    Parameters
    ----------
    task_id, started_ns : pyarrow.ChunkedArray
        Of all rows, in the order of their lines.
    counted : numpy.ndarray of bool
        Rows whose table does not number them itself; others, and theirs, are left as they are.

    Returns
    -------
    tuple of numpy.ndarray
        Rows, and the number of each.

    Examples
    --------
    >>> ids, starts = (pa.chunked_array([values]) for values in (["a", "b", "a"], [7, 1, 5]))
    >>> [part.tolist() for part in by_start(ids, starts, np.ones(3, dtype=bool))]
    [[2, 0], [1, 2]]
    """
    counted = counted & ~task_id.is_null().to_numpy()
    code = codes(task_id)
    often = np.bincount(code) > 1
    often[code[~counted]] = False
    rows = np.flatnonzero(often[code])
    if not len(rows):
        return rows, rows
    start = started_ns.take(pa.array(rows))
    known = ~start.is_null().to_numpy()
    whole = np.ones(len(often), dtype=bool)
    whole[code[rows[~known]]] = False
    at = np.where(whole[code[rows]], pc.fill_null(start, 0).to_numpy().astype(np.int64), 0)
    rows = rows[np.lexsort((rows, at, code[rows]))]
    begins = np.concatenate(([True], code[rows][1:] != code[rows][:-1]))
    first = np.maximum.accumulate(np.where(begins, np.arange(len(rows)), 0))
    return rows, np.arange(len(rows)) - first + 1
