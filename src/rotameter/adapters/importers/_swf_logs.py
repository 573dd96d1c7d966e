"""Jobs of several SWF logs in one import: a job's number is a counter of its own log."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rotameter.adapters.importers._table_attempts import codes

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["labelled", "sources", "told_apart"]

_SAME = ("task_id", "submitted_ns", "wall_s", "granted_cores")


def told_apart(
    tasks: pa.Table, sizes: Sequence[int], *, dated: bool
) -> tuple[NDArray[np.bool_], bool, set[tuple[int, int]]]:
    """Find the jobs to keep, whether logs have different ones of equal numbers, and cuts.

    The last are pairs of logs (by number) that have a job in common.

    A job of two logs is one where its number, submission and run time are the same; where a log
    does not say from which moment its seconds count (not ``dated``), the whole line must be.

    Examples
    --------
    >>> jobs = pa.table({"task_id": ["1", "2", "2"], "submitted_ns": [0, 5, 5],
    ...                  "wall_s": [9.0, 9.0, 9.0], "granted_cores": [1.0, 1.0, 1.0]})
    >>> keep, equal, cuts = told_apart(jobs, [2, 1], dated=True)
    >>> keep.tolist(), equal, cuts
    ([True, True, False], False, {(0, 1)})
    """
    keep = np.ones(len(tasks), dtype=bool)
    log = np.repeat(np.arange(len(sizes)), sizes)
    rows = np.flatnonzero(_in_several(codes(tasks["task_id"]), log))
    if not len(rows):
        return keep, False, set()
    jobs, log = tasks.take(pa.array(rows)), log[rows]
    key = np.zeros(len(rows), dtype=np.int64)
    for name in _SAME if dated else jobs.column_names:
        if pa.types.is_nested(jobs[name].type):
            continue
        code = _codes(jobs[name])
        key = np.unique(key * (int(code.max()) + 1) + code, return_inverse=True)[1]
    first = np.full(int(key.max()) + 1, len(sizes))
    np.minimum.at(first, key, log)
    known = pc.and_(jobs["submitted_ns"].is_valid(), jobs["wall_s"].is_valid()).to_numpy()
    again = known & (log > first[key])
    keep[rows[again]] = False
    left = ~again
    equal = bool(_in_several(codes(jobs["task_id"].filter(pa.array(left))), log[left]).any())
    return keep, equal, set(zip(first[key[again]].tolist(), log[again].tolist(), strict=True))


def sources(machines: Sequence[str], cuts: Iterable[tuple[int, int]]) -> list[int]:
    """Give of each log the first one that is of the same machine.

    Parameters
    ----------
    machines : sequence of str
        What the header of each log says of its machine; empty if nothing.
    cuts : iterable of tuple of int
        Pairs of logs that have a job in common.

    Examples
    --------
    >>> sources(["", "x", "x", ""], {(0, 3)})
    [0, 1, 1, 0]
    """
    up = list(range(len(machines)))
    first: dict[str, int] = {}
    named = [(first.setdefault(name, log), log) for log, name in enumerate(machines) if name]
    for one, other in sorted([*named, *cuts]):
        low, high = sorted((up[one], up[other]))
        up = [low if log == high else log for log in up]
    return up


def labelled(ids: pa.ChunkedArray, labels: Sequence[str], sizes: Sequence[int]) -> pa.Array:
    """Put the name of each job's log before its number, or before another name; none stays none.

    Examples
    --------
    >>> labelled(pa.chunked_array([["1", "1"]]), ["a", "b"], [1, 1]).to_pylist()
    ['a/1', 'b/1']
    """
    names = pa.array(labels, pa.string()).take(pa.array(np.repeat(np.arange(len(sizes)), sizes)))
    return pc.binary_join_element_wise(names, ids.combine_chunks(), "/")


def _in_several(code: NDArray[np.int64], log: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Say of each row whether its number comes in several logs."""
    if not len(code):
        return np.zeros(0, dtype=bool)
    first = np.zeros(int(code.max()) + 1, dtype=np.int64)
    first[code[::-1]] = log[::-1]
    several = np.zeros(len(first), dtype=bool)
    several[code[log != first[code]]] = True
    return np.asarray(several[code])


def _codes(column: pa.ChunkedArray) -> NDArray[np.int64]:
    """Give equal values, unknown ones among them, equal numbers from 0 on."""
    encoded: Any = pc.dictionary_encode(column.combine_chunks(), null_encoding="encode")
    encoded = encoded if isinstance(encoded, pa.Array) else encoded.combine_chunks()
    made: NDArray[np.int64] = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return made
