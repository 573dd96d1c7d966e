"""Rows of totals in a table of tasks: the first or last one, where it is one beyond doubt."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from rotameter.adapters.importers._table_names import plain, words

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["NO_TASK", "Totals"]

NO_TASK = "a row of totals, not a task"
"""Why such a row is refused."""

_LABELS = frozenset(
    words(
        "total totals sum sums overall grand_total total_sum subtotal average averages avg mean "
        "median maximum max minimum min summe gesamt insgesamt mittelwert durchschnitt somme suma"
    )
)
_NAMES = ("task_id", "group")
_TIMES = ("started_ns", "ended_ns", "submitted_ns", "ready_ns")
_NUMBERS = words(
    "wall_s cpu_s io_s gpu_s read_bytes write_bytes output_bytes peak_memory_bytes energy_j "
    "requested_memory_bytes requested_cores"
)
_WHOSE = (*_NAMES, "user", "host", "queue", "outcome", "started_ns", "ended_ns")
_MOST = 3
_ROUNDED, _EXACT = 0.01, 1e-9


class Totals:
    """Finds such rows, chunk by chunk.

    One that is called so (``Total``, ``Average``) has no time of its own, and a number that the
    others add up to, or lacks what each other row has. One without a name is the sum of the others
    to the last digit.
    """

    def __init__(self) -> None:
        self._begun, self._rows = False, 0
        self._known = dict.fromkeys(_WHOSE, 0)
        self._sums = dict.fromkeys(_NUMBERS, 0.0)
        self._most = dict.fromkeys(_NUMBERS, 0.0)
        self._counts = dict.fromkeys(_NUMBERS, 0)

    def see(self, columns: Mapping[str, pa.Array], size: int, *, last: bool) -> list[int]:
        """Give the rows of totals of the next chunk.

        Parameters
        ----------
        columns : mapping
            Columns of ``tasks``.
        size : int
            Rows of the chunk.
        last : bool
            Whether it is the table's last chunk.
        """
        first, self._begun = not self._begun, True
        edges = [*range(min(_MOST, size) if first else 0)]
        edges += [*range(max(0, size - _MOST) if last else size, size)]
        rows = {row for row in edges if _untimed(columns, row)}
        called = {row for row in rows if _label(columns, row)}
        called = {row for row in called if _at_edge(row, called, size, first=first, last=last)}
        nameless = {
            row
            for row in rows - called
            if (last and row == size - 1) and "task_id" in columns and not _named(columns, row)
        }
        self._add(columns, size, called | nameless)
        called = {r for r in called if self._adds_up(columns, r) or self._lacks(columns, r)}
        nameless = {r for r in nameless if self._adds_up(columns, r, unnamed=True)}
        return sorted(called | nameless)

    def _add(self, columns: Mapping[str, pa.Array], size: int, without: set[int]) -> None:
        """Take note of the rows that are tasks."""
        keep = np.ones(size, dtype=bool)
        keep[list(without)] = False
        self._rows += int(keep.sum())
        for name in _WHOSE:
            if name in columns:
                self._known[name] += int((_valid(columns[name], name) & keep).sum())
        for name in _NUMBERS:
            if name in columns:
                values = _floats(columns[name])[keep]
                values = values[np.isfinite(values)]
                self._sums[name] += float(values.sum())
                self._counts[name] += len(values)
                self._most[name] = max(self._most[name], float(values.max(initial=0.0)))

    def _adds_up(self, columns: Mapping[str, pa.Array], row: int, *, unnamed: bool = False) -> bool:
        """Whether a number of the row is the sum (of a named row also mean or most) of others."""
        if unnamed and (self._rows < 2 or self._known["task_id"] < self._rows):
            return False
        near = _EXACT if unnamed else _ROUNDED
        for name in _NUMBERS:
            n = self._counts[name]
            if name not in columns or not n or not self._sums[name]:
                continue
            value = _floats(columns[name].slice(row, 1))[0]
            whole = self._sums[name]
            likely = (whole,) if unnamed else (whole, whole / n, self._most[name])
            if any(abs(value - one) <= near * abs(one) for one in likely):
                return not unnamed or n > 1
        return False

    def _lacks(self, columns: Mapping[str, pa.Array], row: int) -> bool:
        """Whether it has a number, and lacks what each row of a task has."""
        numbers = [columns[name][row].is_valid for name in _NUMBERS if name in columns]
        return any(numbers) and any(
            self._rows and self._known[name] == self._rows
            for name in _WHOSE
            if name in columns and not _valid(columns[name].slice(row, 1), name)[0]
        )


def _at_edge(row: int, called: set[int], size: int, *, first: bool, last: bool) -> bool:
    """Whether only other such rows lie between the row and the table's first or last."""
    before, after = set(range(row)), set(range(row + 1, size))
    return (first and before <= called) or (last and after <= called)


def _untimed(columns: Mapping[str, pa.Array], row: int) -> bool:
    return not any(columns[name][row].is_valid for name in _TIMES if name in columns)


def _label(columns: Mapping[str, pa.Array], row: int) -> bool:
    texts = [columns[name][row].as_py() for name in _NAMES if name in columns]
    return any(plain(text) in _LABELS for text in texts if text)


def _named(columns: Mapping[str, pa.Array], row: int) -> bool:
    return any(columns[name][row].as_py() for name in _NAMES if name in columns)


def _valid(column: pa.Array, name: str) -> NDArray[np.bool_]:
    known: NDArray[np.bool_] = column.is_valid().to_numpy(zero_copy_only=False)
    if name == "outcome":
        known &= np.array([text != "unknown" for text in column.to_pylist()], dtype=bool)
    return known


def _floats(column: pa.Array) -> NDArray[np.float64]:
    values: NDArray[np.float64] = column.to_numpy(zero_copy_only=False).astype(np.float64)
    return values
