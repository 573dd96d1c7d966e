"""Rows kept as columns while a file is read: a tenth of what a mapping a row would take."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rotameter.adapters.importers.building import _array
from rotameter.profiler.schema import arrow_schema

if TYPE_CHECKING:
    from rotameter.adapters.importers.building import Builder

__all__ = ["Columns"]

_BATCH = 8_192


class Columns:
    """Rows of one table of the schema, turned into Arrow batch by batch.

    Columns come and go with what rows hold.

    Parameters
    ----------
    table : str
        The table's name.
    late : iterable of str
        Columns whose values may be put in until the rows are given away.

    Examples
    --------
    >>> kept = Columns("tasks", late=["group"])
    >>> kept.add({"task_id": "a", "wall_s": 1.0}), kept.add({"task_id": "b", "wall_s": None})
    (0, 1)
    >>> kept.put(1, "group", "sort")
    >>> (batch,) = kept.batches()
    >>> {name: list(values) for name, values in batch.items() if name == "group"}
    {'group': [None, 'sort']}
    """

    def __init__(self, table: str, late: Iterable[str] = ()) -> None:
        self.table = table
        self._late: dict[str, list[Any]] = {name: [] for name in late}
        self._values: dict[str, list[Any]] = {}
        self._sealed: list[tuple[int, dict[str, Any]]] = []
        self._here = self._rows = 0
        self._texts: dict[str, str] = {}

    def __len__(self) -> int:
        return self._rows

    def add(self, row: Mapping[str, Any]) -> int:
        """Add a row; give its number."""
        for name, value in row.items():
            if value is None:
                continue
            if name in self._late:
                self._late[name].append(self._texts.setdefault(value, value))
                continue
            column = self._values.get(name)
            if column is None:
                column = self._values[name] = [None] * self._here
            column.append(value)
        self._here += 1
        self._rows += 1
        for column in self._values.values():
            if len(column) < self._here:
                column.append(None)
        for column in self._late.values():
            if len(column) < self._rows:
                column.append(None)
        if self._here >= _BATCH:
            self._seal()
        return self._rows - 1

    def put(self, row: int, name: str, value: Any) -> None:
        """Change one value of a late column."""
        self._late[name][row] = value

    def _seal(self) -> None:
        """Turn the rows since the last time into Arrow."""
        if self._here:
            schema = arrow_schema(self.table)
            made = {n: _array(values, schema.field(n).type) for n, values in self._values.items()}
            self._sealed.append((self._here, made))
        self._values, self._here = {}, 0

    def batches(self) -> Sequence[dict[str, Any]]:
        """Give the columns, batch by batch, and begin anew."""
        self._seal()
        sealed, late, at = self._sealed, self._late, 0
        self._sealed, self._rows, self._texts = [], 0, {}
        self._late = {name: [] for name in late}
        made = []
        for size, columns in sealed:
            parts = {name: values[at : at + size] for name, values in late.items()}
            made.append({**columns, **parts})
            at += size
        return made

    def give(self, build: Builder) -> None:
        """Hand all rows to the builder and begin anew."""
        for columns in self.batches():
            build.extend(self.table, columns)
