"""Job arrays of PBS: the parent (``5[]``) is no job of its own, its parts (``5[1]``) are."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from rotameter.adapters.importers._table_rows import Chunk
from rotameter.units import many

if TYPE_CHECKING:
    from rotameter.adapters.importers.building import Builder

__all__ = ["Arrays"]

_IDS = ("id", "Job_Id", "Job Id", "job_id")
_ID = re.compile(r"\s*(\d+)\[([^\]]*)\]")
NO_PARTS = "the parent of a job array whose parts are not there: qstat -t lists them"


class Arrays:
    """Passes over the parents of one file's arrays; those whose parts are not there are refused.

    Parameters
    ----------
    build : Builder
        Takes the counts, the refusals, and what is to be said.
    file : str
        The file's name.
    """

    def __init__(self, build: Builder, file: str) -> None:
        self._build, self._file = build, file
        self._parents: list[tuple[str | None, int]] = []
        self._split: set[str] = set()

    def without(self, chunk: Chunk) -> Chunk:
        """Give a chunk without its parents."""
        size = len(chunk.lines)
        named = [chunk.columns[name].to_pylist() for name in _IDS if name in chunk.columns]
        ids = [next((str(i) for i in row if i), "") for row in zip(*named, strict=True)]
        flags = chunk.columns["array"].to_pylist() if "array" in chunk.columns else [None] * size
        keep = np.ones(size, dtype=bool)
        for row, (job, flag) in enumerate(zip(ids or [""] * size, flags, strict=True)):
            match = _ID.match(job)
            if match is not None and match[2]:
                self._split.add(match[1])
            elif match is not None or str(flag).strip().lower() == "true":
                keep[row] = False
                self._parents.append((match[1] if match else None, chunk.lines[row]))
        if keep.all():
            return chunk
        rows = np.flatnonzero(keep)
        columns = {name: column.take(pa.array(rows)) for name, column in chunk.columns.items()}
        return Chunk([chunk.lines[row] for row in rows.tolist()], columns)

    def finish(self) -> str:
        """Count the parents, now that all parts were seen; say why some are refused, if any."""
        self._build.records_in += len(self._parents)
        alone = [line for job, line in self._parents if job not in self._split]
        for line in alone:
            self._build.reject(self._file, int(line), NO_PARTS)
        passed = len(self._parents) - len(alone)
        if passed:
            self._build.merged += passed
            self._build.note(
                f"passed over: {many(passed, 'parent')} of job arrays, whose parts are the jobs"
            )
        return NO_PARTS if alone else ""
