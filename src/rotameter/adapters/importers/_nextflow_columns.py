"""Rows kept as columns while a file is read: a tenth of what a mapping a row would take."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rotameter.adapters.importers.building import Builder

__all__ = ["Columns"]


class Columns:
    """Rows of one table of the schema; columns come and go with what rows hold.

    Examples
    --------
    >>> kept = Columns("tasks")
    >>> kept.add({"task_id": "a", "wall_s": 1.0}), kept.add({"task_id": "b", "cpu_s": None})
    (0, 1)
    >>> kept.put(1, "wall_s", 2.0)
    >>> kept.values
    {'task_id': ['a', 'b'], 'wall_s': [1.0, 2.0]}
    """

    def __init__(self, table: str) -> None:
        self.table = table
        self.values: dict[str, list[Any]] = {}
        self._rows = 0
        self._texts: dict[str, str] = {}

    def __len__(self) -> int:
        return self._rows

    def add(self, row: Mapping[str, Any]) -> int:
        """Add a row; give its number."""
        for name, value in row.items():
            if value is None:
                continue
            if isinstance(value, str):
                value = self._texts.setdefault(value, value)
            self._column(name).append(value)
        self._rows += 1
        for column in self.values.values():
            if len(column) < self._rows:
                column.append(None)
        return self._rows - 1

    def put(self, row: int, name: str, value: Any) -> None:
        """Change one value."""
        column = self._column(name)
        if len(column) < self._rows:
            column.append(None)
        column[row] = value

    def _column(self, name: str) -> list[Any]:
        column = self.values.get(name)
        if column is None:
            column = self.values[name] = [None] * self._rows
        return column

    def give(self, build: Builder) -> None:
        """Hand all rows to the builder and begin anew."""
        if self._rows:
            build.extend(self.table, self.values)
        self.values, self._rows, self._texts = {}, 0, {}
