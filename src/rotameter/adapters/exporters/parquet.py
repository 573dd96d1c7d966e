"""One table of a trace as Parquet, with the schema's types."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rotameter.adapters.exporters._writing import known_table, whole_file

if TYPE_CHECKING:
    from rotameter.profiler.trace import Trace

__all__ = ["Exporter"]


class Exporter:
    """Writes one table as Parquet."""

    name = "parquet"

    def write(self, trace: Trace, path: str, *, table: str = "tasks", **options: Any) -> None:
        """Write a table.

        Parameters
        ----------
        trace : Trace
            What to write of.
        path : str
            The file, replaced when there.
        table : str
            Its name in the schema.
        """
        import pyarrow.parquet as pq

        rows = trace.table(known_table(table))
        with whole_file(path) as place:
            pq.write_table(rows.combine_chunks(), place, compression="zstd")
