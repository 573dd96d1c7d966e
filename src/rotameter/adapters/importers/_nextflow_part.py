"""The rows under one header of a Nextflow trace, kept small until all of them are known."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rotameter.adapters.importers._nextflow_columns import Columns
from rotameter.adapters.importers._nextflow_rows import Attempt, Link, chain

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rotameter.adapters.importers.building import Builder

__all__ = ["Part"]

_NONE = -(1 << 62)
_WELL = pa.array(["ok", "cached", "running"])


class Part:
    """Takes attempts in; names and numbers them once the last one is there."""

    def __init__(self) -> None:
        self._tasks, self._samples = Columns("tasks"), Columns("samples")
        self._tried, self._lines, self._of = array("q"), array("q"), array("q")

    def add(self, made: Attempt) -> None:
        """Add one attempt, its task's name being the name in the trace."""
        row = self._tasks.add(made.row)
        self._tried.append(_NONE if made.tried is None else made.tried)
        self._lines.append(made.line or 0)
        for metric, value in made.samples.items():
            quality = "estimate" if metric == "staging_s" else "sampled"
            at = made.row["ended_ns"]
            self._samples.add({"at_ns": at, "metric": metric, "value": value, "quality": quality})
            self._of.append(row)

    def give(self, taken: set[str], build: Builder) -> None:
        """Hand all rows to the builder.

        Parameters
        ----------
        taken : set of str
            Names that tasks have; those of this part are added.
        build : Builder
        """
        batches = self._tasks.batches()
        if not batches:
            return
        ids, attempts = self._named(batches, taken)
        at = 0
        for batch in batches:
            size = len(batch["task_id"])
            batch["task_id"], batch["attempt"] = ids[at : at + size], attempts[at : at + size]
            build.extend("tasks", batch)
            at += size
        whole = pa.chunked_array([pa.array(ids[i : i + 8192]) for i in range(0, len(ids), 8192)])
        at = 0
        for batch in self._samples.batches():
            size = len(batch["metric"])
            rows = pa.array(np.frombuffer(self._of, np.int64, size, 8 * at))
            build.extend("samples", {**batch, "subject": whole.take(rows)})
            at += size

    def _named(self, batches: Any, taken: set[str]) -> tuple[list[str], NDArray[np.int64]]:
        """Give the task and the number of each attempt.

        Rows of one name are linked by themselves, one name after the other, so that only theirs
        are there as objects.
        """
        names = pa.chunked_array([batch["task_id"] for batch in batches], pa.string())
        coded = names.combine_chunks().dictionary_encode()
        codes = coded.indices.to_numpy(zero_copy_only=False)
        texts = coded.dictionary
        order = np.argsort(codes, kind="stable")
        edges = np.searchsorted(codes[order], np.arange(len(texts) + 1)).tolist()
        facts = _Facts(batches, self._tried, self._lines)
        ids: list[str] = [""] * len(codes)
        attempts = np.ones(len(codes), np.int64)
        for first, last, name in zip(edges, edges[1:], texts, strict=False):
            rows = order[first:last].tolist()
            links = [facts.link(row, name.as_py()) for row in rows]
            chain(links, taken)
            for row, one in zip(rows, links, strict=True):
                ids[row], attempts[row] = one.task_id, one.attempt
        return ids, attempts


class _Facts:
    """What decides of a row's task, out of the columns."""

    def __init__(self, batches: Any, tried: array[int], lines: array[int]) -> None:
        self._tried, self._lines = tried, lines
        submitted, started, ended = (
            _whole(batches, name, pa.int64()) for name in ("submitted_ns", "started_ns", "ended_ns")
        )
        self._begin = _numbers(pc.coalesce(submitted, started))
        self._end = _numbers(ended)
        well = pc.is_in(_whole(batches, "outcome", pa.string()), value_set=_WELL)
        self._well = well.to_numpy(zero_copy_only=False)
        self._keys = _whole(batches, "run_id", pa.string())

    def link(self, row: int, name: str) -> Link:
        begin, end, tried = int(self._begin[row]), int(self._end[row]), self._tried[row]
        return Link(
            name,
            self._keys[row].as_py(),
            None if begin == _NONE else begin,
            None if end == _NONE else end,
            None if tried == _NONE else tried,
            not self._well[row],
            self._lines[row],
        )


def _whole(batches: Any, name: str, kind: pa.DataType) -> pa.Array:
    parts = [
        batch[name] if name in batch else pa.nulls(len(batch["task_id"]), kind) for batch in batches
    ]
    return pa.concat_arrays(parts)


def _numbers(column: pa.Array) -> NDArray[np.int64]:
    filled: NDArray[np.int64] = pc.fill_null(column, _NONE).to_numpy(zero_copy_only=False)
    return filled
