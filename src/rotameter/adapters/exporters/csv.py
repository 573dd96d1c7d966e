"""One table of a trace as CSV (RFC 4180), for spreadsheets and scripts.

The header has the schema's names and an empty cell is null. Numbers are written so that they read
back bit by bit, maps as JSON. A text that a spreadsheet would take for a formula (it begins with
``=``, ``+``, ``-``, ``@``, a tab or ``'``) gets a ``'`` in front, and an empty text is ``'`` alone;
the table importer takes both away again.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterable
from typing import IO, TYPE_CHECKING, Any

from rotameter.adapters.exporters._writing import known_table, whole_file
from rotameter.profiler.schema import TABLES

if TYPE_CHECKING:
    import pyarrow as pa

    from rotameter.profiler.trace import Trace

__all__ = ["Exporter", "write_csv"]

_BATCH_ROWS = 1 << 14
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "'")
_QUOTED = frozenset('",\r\n')


class Exporter:
    """Writes one table as CSV."""

    name = "csv"

    def write(
        self, trace: Trace, path: str, *, table: str = "tasks", guard: bool = True, **options: Any
    ) -> None:
        """Write a table.

        Parameters
        ----------
        trace : Trace
            What to write of.
        path : str
            The file, replaced when there; ``-`` is standard output.
        table : str
            Its name in the schema.
        guard : bool
            Whether texts that look like formulas get a ``'`` in front.
        """
        rows = trace.table(known_table(table))
        if path == "-":
            write_csv(rows, table, sys.stdout, guard=guard)
            return
        with whole_file(path) as place, open(place, "w", encoding="utf-8", newline="") as out:
            write_csv(rows, table, out, guard=guard)


def write_csv(rows: pa.Table, table: str, out: IO[str], *, guard: bool = True) -> None:
    r"""Write the rows of a table of the schema as CSV.

    Examples
    --------
    >>> import io
    >>> from rotameter.profiler.trace import Trace
    >>> out = io.StringIO()
    >>> trace = Trace.from_tables({"deps": [{"task_id": "b", "depends_on": "=a"}]})
    >>> write_csv(trace.table("deps"), "deps", out)
    >>> out.getvalue()
    "task_id,depends_on\nb,'=a\n"
    """
    kinds = dict(TABLES[table])
    out.write(",".join(rows.column_names) + "\n")
    for batch in rows.to_batches(max_chunksize=_BATCH_ROWS):
        cells = [
            _cells(batch.column(i).to_pylist(), kinds[name], guard=guard)
            for i, name in enumerate(batch.schema.names)
        ]
        out.writelines(",".join(row) + "\n" for row in zip(*cells, strict=True))


def _cells(values: list[Any], kind: str, *, guard: bool) -> list[str]:
    write = _WRITERS.get(kind, str)
    if kind == "s":
        made: dict[str, str] = {}
        for value in values:
            if value is not None and value not in made:
                made[value] = _text(value, guard=guard)
        return ["" if value is None else made[value] for value in values]
    return ["" if value is None else write(value) for value in values]


def _text(value: str, *, guard: bool) -> str:
    if guard and (not value or value.startswith(_FORMULA)):
        value = f"'{value}"
    return _quoted(value)


def _quoted(text: str) -> str:
    if _QUOTED & set(text) or text != text.strip():
        return '"' + text.replace('"', '""') + '"'
    return text


def _float(value: float) -> str:
    if math.isnan(value):
        return ""
    return repr(value)


def _map(items: Iterable[tuple[str, float]]) -> str:
    known = {k: v for k, v in sorted(items) if math.isfinite(v)}
    return _quoted(json.dumps(known, ensure_ascii=False))


_WRITERS: dict[str, Callable[[Any], str]] = {
    "f": _float,
    "b": lambda value: "true" if value else "false",
    "m": _map,
}
