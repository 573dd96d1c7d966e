"""Which rows tell of an execution that another row tells, and which traces are of one workflow.

Two traces of one run need not have the same columns: what both have decides.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from itertools import islice

from rotameter.adapters.importers._nextflow_values import is_null

__all__ = ["Known", "Same"]

_OWN = ("hash", "native_id", "name", "status", "attempt")
"""What tells of an execution that has a work folder, which is its hash."""
_TELLING = ("hash", "native_id", "task_id", "submit", "start", "complete")
"""What tells executions of one trace apart, where all else is the same."""
_NAMES = ("name", "process", "task_id", "native_id")
_DATES = ("submit", "start", "complete")
_FIGURES = (
    "duration", "realtime", "%cpu", "peak_rss", "peak_vmem", "rss", "vmem", "rchar", "wchar",
    "read_bytes", "write_bytes", "syscr", "syscw", "vol_ctxt", "inv_ctxt",
)  # fmt: skip
_FIGURES_TELL = 3
"""So many equal measurements, and all else that both have: it is the same execution."""
_NEAR = 16
"""Layouts that are held against others."""

Fields = Mapping[str, str]


class Same:
    """Puts numbers together, and gives one number for all that are.

    Examples
    --------
    >>> same = Same()
    >>> same.add(1, 2)
    >>> same.add(3, 2)
    >>> same.of(1) == same.of(3), same.of(1) == same.of(4)
    (True, False)
    """

    def __init__(self) -> None:
        self._up: dict[int, int] = {}

    def of(self, number: int) -> int:
        """Give the number that stands for all that it was put together with."""
        while (above := self._up.get(number, number)) != number:
            number = above
        return number

    def add(self, one: int, other: int) -> None:
        """Put two together."""
        if one != other and (first := self.of(one)) != (second := self.of(other)):
            self._up[max(first, second)] = min(first, second)


class _Layout:
    """Rows that have the same columns, each value as a number."""

    def __init__(self, columns: tuple[str, ...]) -> None:
        self.columns = columns
        self._at = {name: at for at, name in enumerate(columns)}
        self._values, self._headers = array("q"), array("q")
        self._indexes: dict[tuple[str, ...], tuple[dict[int, int], dict[int, int]]] = {}

    def key(self, values: Sequence[int], names: tuple[str, ...]) -> int:
        """Give one number for some values of a row."""
        return hash(tuple([values[self._at[name]] for name in names]))

    def add(self, values: Sequence[int], header: int) -> None:
        self._values.extend(values)
        self._headers.append(header)
        for names, index in self._indexes.items():
            _put(index, self.key(values, names), header)

    def of(self, names: tuple[str, ...], key: int) -> tuple[int | None, int]:
        """Give a header under which a row has these values, and how many rows have them."""
        index = self._indexes.get(names)
        if index is None:
            index = self._indexes[names] = {}, {}
            wide = len(self.columns)
            for row, header in enumerate(self._headers):
                values = self._values[row * wide : (row + 1) * wide]
                _put(index, self.key(values, names), header)
        first, more = index
        header = first.get(key, -1)
        return (None, 0) if header < 0 else (header, 1 + more.get(key, 0))


def _put(index: tuple[dict[int, int], dict[int, int]], key: int, header: int) -> None:
    first, more = index
    if key in first:
        more[key] = more.get(key, 0) + 1
    else:
        first[key] = header


class Known:
    """Which executions came before, in any of the traces.

    Examples
    --------
    >>> known = Known()
    >>> row = {"name": "a", "status": "COMPLETED", "start": "5", "complete": "9"}
    >>> known.again({**row, "submit": "1"}, 0, ran=False)
    >>> known.again(row, 1, ran=False), known.again({**row, "start": "6"}, 1, ran=False)
    (0, None)
    """

    def __init__(self) -> None:
        self._layouts: dict[tuple[str, ...], _Layout] = {}
        self._of: dict[tuple[str, ...], _Layout] = {}  # by the columns in their order
        self._shared: dict[tuple[int, int, bool], tuple[str, ...]] = {}
        self._used: dict[int, int] = {}

    def again(self, fields: Fields, header: int, *, ran: bool) -> int | None:
        """Give the number of the header under which a row's execution stands already.

        Parameters
        ----------
        fields : mapping
        header : int
            The number of the row's own.
        ran : bool
            Whether the row has the hash of a work folder in which it ran.

        Returns
        -------
        int or None
            None for an execution that is new: it is known from now on.
        """
        mine = self._layout(tuple(fields))
        values = [hash(fields[name]) for name in mine.columns]
        own = _OWN if ran else mine.columns
        names = tuple([name for name in own if name in fields])
        if ran or any(c in fields and not is_null(fields[c]) for c in _TELLING):
            found, _ = mine.of(names, mine.key(values, names))
            if found is not None:
                return found
        found = self._elsewhere(mine, values, fields, header, ran=ran)
        mine.add(values, header)
        return found

    def _layout(self, columns: tuple[str, ...]) -> _Layout:
        found = self._of.get(columns)
        if found is None:
            names = tuple(sorted(columns))
            found = self._layouts.setdefault(names, _Layout(names))
            self._of[columns] = found
        return found

    def _elsewhere(
        self, mine: _Layout, values: Sequence[int], fields: Fields, header: int, *, ran: bool
    ) -> int | None:
        """Look for the execution in traces that have other columns; each row is one."""
        for number, other in enumerate(islice(self._layouts.values(), _NEAR)):
            if other is mine:
                continue
            pair = id(mine), number, ran
            names = self._shared.get(pair)
            if names is None:
                names = self._shared[pair] = _shared(mine.columns, other.columns, ran=ran)
            if not _tells(fields, names, ran=ran):
                continue
            key = mine.key(values, names)
            found, rows = other.of(names, key)
            place = hash((header, number, key))
            if found is not None and self._used.get(place, 0) < rows:
                self._used[place] = self._used.get(place, 0) + 1
                return found
        return None


def _shared(one: Sequence[str], other: Sequence[str], *, ran: bool) -> tuple[str, ...]:
    """Give the columns by which rows of two layouts are compared."""
    both = set(one) & set(other)
    if ran and "hash" in both:
        return tuple([name for name in _OWN if name in both])
    return tuple([name for name in one if name in both])


def _tells(fields: Fields, names: Sequence[str], *, ran: bool) -> bool:
    """Say whether equal values in these columns can only be of one execution."""
    if ran and "hash" in names:
        return True
    known = {name for name in names if not is_null(fields[name])}
    if known.isdisjoint(_NAMES):
        return False
    return not known.isdisjoint(_DATES) or len(known.intersection(_FIGURES)) >= _FIGURES_TELL
