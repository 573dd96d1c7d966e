"""The sign that keeps spreadsheets from taking a text for a formula: where it is undone.

A cell of delimited text that is ``'`` followed by ``=``, ``+``, ``-``, ``@``, a tab or a carriage
return is what stands behind the ``'``: in tables of ours and of others, with ``--map`` and without.
Tables of ours guard two more, which mean something else in those of others: a text that begins with
``'`` itself, and an empty text (``'`` alone; an empty cell is null). Parquet and JSON keep texts as
they are: nothing is undone there.
"""

from __future__ import annotations

from collections.abc import Collection

import pyarrow as pa
import pyarrow.compute as pc

from rotameter.adapters.importers._table_rows import Chunk
from rotameter.profiler.schema import TABLES

__all__ = ["mostly_ours", "unguarded"]

_FORMULA = r"^'([=+\-@\t\r])"
_OURS = r"^'([=+\-@\t\r'])"


def mostly_ours(headers: Collection[str]) -> bool:
    """Say whether a table is an export of ours, also one of which some headers were renamed.

    Examples
    --------
    >>> mostly_ours(["task_id", "group", "begin"]), mostly_ours(["id", "group", "begin"])
    (True, False)
    """
    given = set(headers)
    known = max(len(given & {name for name, _ in columns}) for columns in TABLES.values())
    return known > len(given) - known


def unguarded(chunk: Chunk, *, delimited: bool, ours: bool) -> Chunk:
    """Undo the guard of a chunk's cells.

    Examples
    --------
    >>> chunk = Chunk([2], {"a": pa.array(["'=1"]), "b": pa.array(["''x"]), "c": pa.array(["'"])})
    >>> made = unguarded(chunk, delimited=True, ours=True)
    >>> [column.to_pylist() for column in made.columns.values()]
    [['=1'], ["'x"], ['']]
    >>> made = unguarded(chunk, delimited=True, ours=False)
    >>> [column.to_pylist() for column in made.columns.values()]
    [['=1'], ["''x"], ["'"]]
    """
    return Chunk(
        chunk.lines,
        {name: _column(cells, delimited, ours) for name, cells in chunk.columns.items()},
    )


def _column(cells: pa.Array, delimited: bool, ours: bool) -> pa.Array:
    if not pa.types.is_string(cells.type):
        return cells
    if ours:
        empty = pc.equal(cells, "")
        if pc.any(empty).as_py():
            cells = pc.if_else(empty, pa.scalar(None, pa.string()), cells)
    if not delimited or not pc.any(pc.starts_with(cells, "'")).as_py():
        return cells
    made = pc.replace_substring_regex(cells, _OURS if ours else _FORMULA, r"\1")
    return pc.if_else(pc.equal(cells, "'"), "", made) if ours else made
