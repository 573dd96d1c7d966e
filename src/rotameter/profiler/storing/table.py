"""A table of measured bandwidths: which store gave how many MiB/s to which access."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rotameter.errors import BadInput

__all__ = ["COPY_OPS", "DIMENSIONS", "MIB", "BandwidthTable", "Floats"]

Floats = NDArray[np.float64]
MIB = float(2**20)

# What a query gives besides operation and store; each may be unknown in a whole table.
DIMENSIONS = ("transfer_bytes", "size_bytes", "nodes", "tasks")
COPY_OPS = frozenset({"cp", "scp", "copy", "rsync", "mv", "rcp", "stage"})


@dataclass(frozen=True, slots=True, eq=False)
class BandwidthTable:
    """Measured bandwidths, one row a measurement.

    Parameters
    ----------
    op : tuple of str, length n
        ``read``, ``write``, or a copy (``cp``, ``scp``, …).
    store : tuple of str, length n
        The store's name; ``from-to`` for a copy.
    dims : array, shape (n, 4)
        Columns ``DIMENSIONS``: bytes a call, bytes moved by all tasks together, nodes, and
        tasks at once over all nodes. NaN where the table does not say.
    rate_mib_s : array, shape (n,)
        MiB a second of all tasks together, above 0.
    rejects : tuple of str
        Rows refused and why.

    Raises
    ------
    BadInput
        With no usable row.

    Examples
    --------
    >>> table = BandwidthTable.from_rows([("read", "ssd", 4096, 2**30, 1, 4, 900.0)])
    >>> len(table), table.stores
    (1, ('ssd',))
    """

    op: tuple[str, ...]
    store: tuple[str, ...]
    dims: Floats
    rate_mib_s: Floats
    rejects: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        n = len(self.op)
        if n == 0:
            raise BadInput(
                "the bandwidth table has no usable row",
                hint="it needs an operation, a store and MiB/s in each row",
            )
        if len(self.store) != n or self.dims.shape != (n, 4) or self.rate_mib_s.shape != (n,):
            raise BadInput("the columns of the bandwidth table differ in length")

    def __len__(self) -> int:
        return len(self.op)

    @classmethod
    def from_rows(cls, rows: Sequence[Sequence[Any]]) -> BandwidthTable:
        """Make a table of (op, store, transfer_bytes, size_bytes, nodes, tasks, MiB/s) rows."""
        dims = [[np.nan if v is None else float(v) for v in row[2:6]] for row in rows]
        return cls(
            tuple(str(row[0]) for row in rows),
            tuple(str(row[1]) for row in rows),
            np.array(dims, dtype=np.float64).reshape(-1, 4),
            np.array([float(row[6]) for row in rows], dtype=np.float64),
        )

    @property
    def stores(self) -> tuple[str, ...]:
        """The stores with both a read and a write measured, or either if none has both."""
        reads = {s for o, s in zip(self.op, self.store, strict=True) if o == "read"}
        writes = {s for o, s in zip(self.op, self.store, strict=True) if o == "write"}
        return tuple(sorted(reads & writes or reads | writes))

    @property
    def copies(self) -> Mapping[tuple[str, str], tuple[str, ...]]:
        """Which copies were measured: (from, to) → names of the operations."""
        known = {s for o, s in zip(self.op, self.store, strict=True) if o not in COPY_OPS}
        found: dict[tuple[str, str], set[str]] = {}
        for op, pair in sorted(set(zip(self.op, self.store, strict=True))):
            if op in COPY_OPS and (ends := _ends(pair, known)):
                found.setdefault(ends, set()).add(op)
        return {ends: tuple(sorted(ops)) for ends, ops in sorted(found.items())}

    def take(self, rows: NDArray[Any]) -> BandwidthTable:
        """Give some of the rows (a mask or indices)."""
        index = np.arange(len(self))[rows]
        return BandwidthTable(
            tuple(self.op[i] for i in index),
            tuple(self.store[i] for i in index),
            self.dims[index],
            self.rate_mib_s[index],
        )

    def configurations(self) -> NDArray[np.int64]:
        """Give each row its configuration's number, shape (n,): repeats share one."""
        names, codes = np.unique(
            np.array([f"{o}\t{s}" for o, s in zip(self.op, self.store, strict=True)]),
            return_inverse=True,
        )
        del names
        key = np.column_stack([codes.astype(np.float64), np.nan_to_num(self.dims, nan=-1.0)])
        _, number = np.unique(key, axis=0, return_inverse=True)
        return np.asarray(number, dtype=np.int64).reshape(-1)

    def merged(self) -> BandwidthTable:
        """Average repeated measurements of one configuration: the median of log MiB/s.

        Repeats of one access differ by more than ×100 where another user was busy; a mean would
        follow the odd one.
        """
        number = self.configurations()
        _, first, count = np.unique(number, return_index=True, return_counts=True)
        logs = np.log(self.rate_mib_s)
        logs = logs[np.lexsort((logs, number))]
        begin = np.cumsum(count) - count
        middle = 0.5 * (logs[begin + (count - 1) // 2] + logs[begin + count // 2])
        kept = self.take(first)
        return BandwidthTable(kept.op, kept.store, kept.dims, np.exp(middle))


def _ends(pair: str, known: set[str]) -> tuple[str, str] | None:
    """Split ``from-to``; a store's own name may hold a dash."""
    cuts = [i for i, letter in enumerate(pair) if letter == "-"]
    options = [(pair[:i], pair[i + 1 :]) for i in cuts if pair[:i] and pair[i + 1 :]]
    both = [ends for ends in options if ends[0] in known and ends[1] in known]
    return (both or options or [None])[0]  # type: ignore[list-item]
