"""The rows under one header of a Nextflow trace, kept small until all of them are known."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rotameter.adapters.importers._nextflow_clock import NEVER, Crossing
from rotameter.adapters.importers._nextflow_columns import Columns
from rotameter.adapters.importers._nextflow_rows import Attempt, Link, chain, chain_runs, echoes
from rotameter.adapters.importers._nextflow_steady import on_one_clock

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rotameter.adapters.importers._nextflow_same import Same
    from rotameter.adapters.importers.building import Builder

__all__ = ["Part", "give_all", "say_echoes", "say_runs"]

_DONE = pa.array(["ok", "cached"])
_WELL = pa.array(["ok", "cached", "running"])


class Part:
    """Takes attempts in; names and numbers them once the last one is there.

    ``header`` is the number of the header that the rows stand under, in all traces.
    """

    def __init__(self, header: int = 0) -> None:
        self.header = header
        self._tasks, self._samples = Columns("tasks"), Columns("samples")
        self._tried, self._lines, self._of = array("q"), array("q"), array("q")
        self._counted = array("b")
        self._batches: list[dict[str, Any]] | None = None
        self._figures: list[dict[str, Any]] | None = None
        self.cached: set[str] = set()
        """Hashes of rows from the cache: of what an earlier run did."""
        self.crossings: list[tuple[int, Crossing]] = []
        """Rows during which the clocks changed."""
        self.local = False
        """Whether times stood there without a zone."""

    def add(self, made: Attempt) -> None:
        """Add one attempt, its task's name being the name in the trace."""
        row = self._tasks.add(made.row)
        self._tried.append(NEVER if made.tried is None else made.tried)
        self._lines.append(made.line or 0)
        if made.hash and made.row["outcome"] == "cached":
            self.cached.add(made.hash)
        self.local |= made.local
        self._counted.append(made.counted)
        if made.crossing is not None:
            self.crossings.append((row, made.crossing))
        for metric, value in made.samples.items():
            quality = "estimate" if metric == "staging_s" else "sampled"
            at = made.row["ended_ns"]
            self._samples.add({"at_ns": at, "metric": metric, "value": value, "quality": quality})
            self._of.append(row)

    @property
    def batches(self) -> Sequence[dict[str, Any]]:
        """The rows, as columns; no more can be added."""
        if self._batches is None:
            self._batches = list(self._tasks.batches())
        return self._batches

    def ran(self, hashes: pa.Array) -> list[str]:
        """Give those of some hashes that are rows of this part, and not from its cache."""
        keys = _whole(self.batches, "run_id", pa.string())
        cached = pc.equal(_whole(self.batches, "outcome", pa.string()), "cached")
        found = pc.and_not(pc.is_in(keys, value_set=hashes), cached)
        own: list[str] = keys.filter(found).to_pylist()
        return own

    def without(self, hashes: set[str]) -> int:
        """Leave out rows from the cache that have one of some hashes; give how many."""
        gone = self.cached & hashes
        if not gone:
            return 0
        keys = _whole(self.batches, "run_id", pa.string())
        cached = pc.equal(_whole(self.batches, "outcome", pa.string()), "cached")
        echo = pc.and_(cached, pc.is_in(keys, value_set=pa.array(sorted(gone))))
        kept = pc.invert(echo).to_numpy(zero_copy_only=False)
        at = 0
        for batch in self.batches:
            here = pa.array(kept[at : at + len(batch["task_id"])])
            at += len(here)
            batch.update({name: column.filter(here) for name, column in batch.items()})
        self._tried, self._lines = _kept(self._tried, kept), _kept(self._lines, kept)
        self._counted = array("b", np.frombuffer(self._counted, np.int8)[kept].tolist())
        place = np.cumsum(kept) - 1
        of = np.frombuffer(self._of, np.int64)
        at = 0
        for batch in self.figures:
            size = len(batch["metric"])
            here = pa.array(kept[of[at : at + size]])
            at += size
            batch.update({name: column.filter(here) for name, column in batch.items()})
        self._of = array("q", place[of[kept[of]]].tolist())
        self.crossings = [(int(place[row]), one) for row, one in self.crossings if kept[row]]
        return int((~kept).sum())

    @property
    def figures(self) -> list[dict[str, Any]]:
        """The samples, as columns; no more can be added."""
        if self._figures is None:
            self._figures = list(self._samples.batches())
        return self._figures

    def keys(self) -> NDArray[np.int64]:
        """Give a time of each row by which it is before or behind another."""
        return _numbers(
            pc.coalesce(
                *(
                    _whole(self.batches, name, pa.int64())
                    for name in ("submitted_ns", "started_ns", "ended_ns")
                )
            )
        )

    def ends(self) -> NDArray[np.int64]:
        """Give when each row ended."""
        return _numbers(_whole(self.batches, "ended_ns", pa.int64()))

    def counted(self) -> NDArray[np.bool_]:
        """Say of each row whether a change of the clocks would show in its duration."""
        return np.frombuffer(self._counted, np.int8).astype(bool)

    def name(self, row: int) -> str | None:
        """Give the name of a row in the trace."""
        name: str | None = self.names()[row].as_py()
        return name

    def shift(self, by_ns: NDArray[np.int64]) -> None:
        """Take something off the times of each row."""
        of, rows, at = np.frombuffer(self._of, np.int64), 0, 0
        for batch in self.batches:
            here = pa.array(by_ns[rows : rows + len(batch["task_id"])])
            rows += len(here)
            for name in ("submitted_ns", "started_ns", "ended_ns"):
                if name in batch:
                    batch[name] = pc.subtract(batch[name], here)
        for batch in self.figures:
            size = len(batch["metric"])
            if "at_ns" in batch:
                batch["at_ns"] = pc.subtract(batch["at_ns"], pa.array(by_ns[of[at : at + size]]))
            at += size

    def give(self, ids: list[str], attempts: NDArray[np.int64], build: Builder) -> None:
        """Hand all rows to the builder, with their task's name and the number of the attempt."""
        at = 0
        for batch in self.batches:
            size = len(batch["task_id"])
            batch["task_id"], batch["attempt"] = ids[at : at + size], attempts[at : at + size]
            build.extend("tasks", batch)
            at += size
        whole = pa.chunked_array([pa.array(ids[i : i + 8192]) for i in range(0, len(ids), 8192)])
        at = 0
        for batch in self.figures:
            size = len(batch["metric"])
            rows = pa.array(np.frombuffer(self._of, np.int64, size, 8 * at))
            build.extend("samples", {**batch, "subject": whole.take(rows)})
            at += size
        self._batches = self._figures = []

    def facts(self) -> _Facts:
        """Give what decides of the rows' tasks."""
        return _Facts(self.batches, self._tried, self._lines)

    def names(self) -> pa.ChunkedArray:
        """Give the names in the trace."""
        return pa.chunked_array([batch["task_id"] for batch in self.batches], pa.string())


def give_all(parts: Sequence[Part], taken: set[str], build: Builder, same: Same) -> None:
    """Hand the rows of all parts to the builder, attempts of a task numbered.

    Parts of which one has from its cache what another ran, or a row of another once more, are of
    one workflow: what failed in one and the next did again is one task. Others have nothing to do
    with each other.

    Parameters
    ----------
    parts : sequence of Part
    taken : set of str
        Names that tasks have; those of these parts are added.
    build : Builder
    same : Same
        Headers under which a row stands that stands under another too.
    """
    parts = [part for part in parts if part.batches]
    say_runs(len(parts), "input", build)
    groups = _workflows(parts, same)
    _without_echoes(parts, build)
    on_one_clock(parts, build, build.zone_ns or 0)
    for whole in groups:
        runs = [part for part in whole if any(len(batch["task_id"]) for batch in part.batches)]
        for part, (ids, attempts) in zip(runs, _named(runs, taken), strict=True):
            part.give(ids, attempts, build)


def say_runs(count: int, where: str, build: Builder) -> None:
    """Say that times from the first to the last are those of several runs, where they are."""
    if count > 1:
        build.note(
            f"{count:,} runs (traces) lie in this {where}: all are joined, and the makespan "
            "spans all of them"
        )


def say_echoes(count: int, build: Builder) -> None:
    """Count rows from the cache of what another row tells as merged into that."""
    if count:
        build.merged += count
        build.note(f"cached rows are the same work as rows of the run before: {count:,} merged")


def _without_echoes(parts: Sequence[Part], build: Builder) -> None:
    """Leave out rows from the cache whose own run is there too, and all but one of a kind."""
    wanted = pa.array(sorted({key for part in parts for key in part.cached}), pa.string())
    if not len(wanted):
        return
    gone = echoes([(set(part.ran(wanted)), part.cached) for part in parts])
    say_echoes(sum(part.without(keys) for part, keys in zip(parts, gone, strict=True)), build)


def _workflows(parts: Sequence[Part], same: Same) -> list[list[Part]]:
    """Put parts together that are runs of one workflow, each in its order."""
    wanted = pa.array(sorted({key for part in parts for key in part.cached}), pa.string())
    groups = {at: [part] for at, part in enumerate(parts)}
    group_of = list(range(len(parts)))
    first: dict[str | int, int] = {}
    for at, part in enumerate(parts):
        ran = part.ran(wanted) if len(wanted) else []
        keys: list[str | int] = [same.of(part.header), *ran, *part.cached]
        for key in keys:
            other = group_of[first.setdefault(key, at)]
            if other != group_of[at]:
                gone = group_of[at]
                groups[other] += groups.pop(gone)
                group_of = [other if group == gone else group for group in group_of]
    return list(groups.values())


def _named(runs: Sequence[Part], taken: set[str]) -> list[tuple[list[str], NDArray[np.int64]]]:
    """Give the task and the number of each attempt.

    Rows of one name are linked by themselves, one name after the other, so that only theirs are
    there as objects.
    """
    names = [part.names() for part in runs]
    sizes = [len(name) for name in names]
    coded = pa.chunked_array([c for n in names for c in n.chunks], pa.string())
    coded = coded.combine_chunks().dictionary_encode()
    codes = coded.indices.to_numpy(zero_copy_only=False)
    run_of = np.repeat(np.arange(len(runs)), sizes)
    firsts = np.cumsum([0, *sizes])
    order = np.argsort(codes, kind="stable")
    edges = np.searchsorted(codes[order], np.arange(len(coded.dictionary) + 1)).tolist()
    facts = [part.facts() for part in runs]
    ids: list[str] = [""] * len(codes)
    attempts = np.ones(len(codes), np.int64)
    for first, last, name in zip(edges, edges[1:], coded.dictionary, strict=False):
        rows = order[first:last].tolist()
        linked: dict[int, list[Link]] = {}
        links = []
        for row in rows:
            run = int(run_of[row])
            links.append(facts[run].link(row - int(firsts[run]), name.as_py()))
            linked.setdefault(run, []).append(links[-1])
        if len(linked) > 1:
            chain_runs(linked.values(), taken)
        else:
            chain(links, taken)
        for row, one in zip(rows, links, strict=True):
            ids[row], attempts[row] = one.task_id, one.attempt
    ends = zip(firsts.tolist(), firsts[1:].tolist(), strict=False)
    return [(ids[first:last], attempts[first:last]) for first, last in ends]


class _Facts:
    """What decides of a row's task, out of the columns."""

    def __init__(self, batches: Any, tried: array[int], lines: array[int]) -> None:
        self._tried, self._lines = tried, lines
        submitted, started, ended = (
            _whole(batches, name, pa.int64()) for name in ("submitted_ns", "started_ns", "ended_ns")
        )
        self._begin = _numbers(pc.coalesce(submitted, started))
        self._end = _numbers(ended)
        outcome = _whole(batches, "outcome", pa.string())
        self._well = pc.is_in(outcome, value_set=_WELL).to_numpy(zero_copy_only=False)
        self._done = pc.is_in(outcome, value_set=_DONE).to_numpy(zero_copy_only=False)
        self._keys = _whole(batches, "run_id", pa.string())

    def link(self, row: int, name: str) -> Link:
        """Give what decides of one row; ``name`` is that in the trace."""
        begin, end, tried = int(self._begin[row]), int(self._end[row]), self._tried[row]
        return Link(
            name,
            self._keys[row].as_py(),
            None if begin == NEVER else begin,
            None if end == NEVER else end,
            None if tried == NEVER else tried,
            not self._well[row],
            self._lines[row],
            done=bool(self._done[row]),
        )


def _whole(batches: Any, name: str, kind: pa.DataType) -> pa.Array:
    parts = [
        batch[name] if name in batch else pa.nulls(len(batch["task_id"]), kind) for batch in batches
    ]
    return pa.concat_arrays(parts)


def _kept(values: array[int], mask: Any) -> array[int]:
    return array("q", np.frombuffer(values, np.int64)[mask].tolist())


def _numbers(column: pa.Array) -> NDArray[np.int64]:
    filled: NDArray[np.int64] = pc.fill_null(column, NEVER).to_numpy(zero_copy_only=False)
    return filled
