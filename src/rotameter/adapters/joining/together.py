"""The traces of several runs as one: clocks, names, metadata and what was said of each."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rotameter.profiler.schema import TABLES
from rotameter.profiler.trace import Trace
from rotameter.units import many

__all__ = ["Part", "put_together"]

_TIMES = {name: [c for c, _ in columns if c.endswith("_ns")] for name, columns in TABLES.items()}
_SUMMED = ("executors", "column_sources", "join", "importer")
_MERGED = frozenset(
    "schema origin engine warnings lossless machines not_measured dropped records segments run "  # noqa: SIM905
    "merged_from time_base".split()
)
_YEAR_UNKNOWN_NS = round(datetime(2001, 1, 1, tzinfo=UTC).timestamp() * 1e9)
"""Local times before this are of a Nextflow log that does not tell its year."""


@dataclass(frozen=True)
class Part:
    """One run: its name in what is said, its trace, and the local time that is 0 in that."""

    label: str
    trace: Trace
    zero_ns: int | None = None


def put_together(parts: Sequence[Part]) -> Trace:
    """Make one trace of those of several runs.

    Task ids that are in more than one get the run's number before them. Runs with the same tasks
    at the same instants are copies: one of them is kept.
    """
    said: list[str] = []
    parts = _without_copies(parts, said)
    if len(parts) > 1:
        parts = _on_one_clock(parts, said)
        _say_alike(parts, said)
        trace = Trace.merge(_with_subjects([part.trace for part in parts]))
        _merge_meta(trace.meta, parts)
        note = (
            f"{many(len(parts), 'run')} put together, each joined by itself: the makespan spans "
            "all of them"
        )
        trace.meta["warnings"].insert(0, note)
        trace.meta["lossless"] = [note, *trace.meta.get("lossless", ())]
    else:
        trace = parts[0].trace
    trace.meta["warnings"] = [*trace.meta.get("warnings", ()), *said]
    return trace


def _without_copies(parts: Sequence[Part], said: list[str]) -> list[Part]:
    kept: list[Part] = []
    copies = []
    for part in parts:
        tasks = part.trace.table("tasks")
        dated = _is_dated(part) and tasks["ended_ns"].null_count < len(tasks)
        if dated and any(tasks.equals(one.trace.table("tasks")) for one in kept if _is_dated(one)):
            copies.append(part.label)
        else:
            kept.append(part)
    if copies:
        said.append(
            f"copies of the folders of other runs, with the same tasks at the same times, are "
            f"left out: {', '.join(copies[:3])}{' …' if len(copies) > 3 else ''}"
        )
    return kept


def _with_subjects(traces: Sequence[Trace]) -> Sequence[Trace]:
    """Put the run's number before samples' tasks too, where merging puts it before the ids."""
    ids = [pc.unique(trace.table("tasks")["task_id"]) for trace in traces]
    if sum(map(len, ids)) == len(pc.unique(pa.concat_arrays(ids))):
        return traces
    made = []
    for number, (trace, own) in enumerate(zip(traces, ids, strict=True), 1):
        table = trace.table("samples")
        at, given = table.column_names.index("subject"), table["subject"]
        named = pc.binary_join_element_wise(f"{number}:", given, "")
        subject = pc.if_else(pc.is_in(given, value_set=own), named, given)
        tables = {name: trace.table(name) for name in TABLES}
        tables["samples"] = table.set_column(at, table.schema.field(at), subject)
        made.append(Trace(tables, trace.meta))
    return made


def _is_dated(part: Part) -> bool:
    return part.trace.meta.get("time_base") != "relative_ns"


def _say_alike(parts: Sequence[Part], said: list[str]) -> None:
    """Count attempts that are the same in several runs: a folder may be an earlier copy."""
    seen: set[tuple[Any, ...]] = set()
    alike = 0
    for part in parts:
        table = part.trace.table("tasks").select(["task_id", "run_id", "started_ns", "ended_ns"])
        rows = {tuple(row.values()) for row in table.to_pylist() if row["ended_ns"] is not None}
        alike += len(rows & seen)
        seen |= rows
    if alike:
        said.append(
            f"{many(alike, 'attempt')} with the same name and times in folders of several runs, "
            "counted in each: perhaps one folder is an earlier copy of another"
        )


def _on_one_clock(parts: Sequence[Part], said: list[str]) -> list[Part]:
    """Set the times of runs against each other, and leave out those of which that cannot be."""
    timed = [part for part in parts if _has_times(part.trace)]
    dates = [part for part in timed if _is_dated(part)]
    local = [part for part in timed if not _is_dated(part)]
    # A part whose times stand as they were written has no zero: its first instant counts.
    lows = [_low(part.trace) + (part.zero_ns or 0) for part in local]
    first = min((low for low in lows if low >= _YEAR_UNKNOWN_NS), default=min(lows, default=0))
    known = first >= _YEAR_UNKNOWN_NS
    gone = [
        part.label
        for part, low in zip(local, lows, strict=True)
        if dates or (known and low < _YEAR_UNKNOWN_NS)
    ]
    made = []
    for part in parts:
        if part.label in gone:
            part = _changed(part, lambda column: pa.nulls(len(column), pa.int64()))
        elif not _is_dated(part) and not dates:
            part = _changed(part, partial(pc.add, (part.zero_ns or 0) - first))
        part.trace.meta["time_base"] = "epoch_ns" if dates or not local else "relative_ns"
        made.append(part)
    if gone:
        said.append(
            f"when tasks ran is left out of {many(len(gone), 'run')} whose times carry no zone or "
            f"no year, as those of others do: {', '.join(gone[:3])}"
            f"{' …' if len(gone) > 3 else ''}; give --utc-offset, or name one folder a command"
        )
    return made


def _has_times(trace: Trace) -> bool:
    return any(
        trace.table(name)[c].null_count < len(trace.table(name))
        for name, columns in _TIMES.items()
        for c in columns
    )


def _low(trace: Trace) -> int:
    lows = [pc.min(trace.table(name)[c]).as_py() for name, cs in _TIMES.items() for c in cs]
    return int(min(low for low in lows if low is not None))


def _changed(part: Part, change: Callable[[Any], Any]) -> Part:
    tables = {}
    for name, columns in _TIMES.items():
        table = part.trace.table(name)
        for column in columns:
            at = table.column_names.index(column)
            table = table.set_column(at, table.schema.field(at), change(table[column]))
        tables[name] = table
    return replace(part, trace=Trace(tables, dict(part.trace.meta)))


def _merge_meta(meta: dict[str, Any], parts: Sequence[Part]) -> None:
    """Sum what counts records; keep of the other facts those that all runs agree on."""
    metas = [part.trace.meta for part in parts]
    for key in sorted({key for one in metas for key in one} - _MERGED):
        values = [one.get(key) for one in metas]
        if key in _SUMMED:
            meta[key] = _sum([value for value in values if value])
        elif all(value == values[0] for value in values):
            meta[key] = values[0]
        else:
            meta.pop(key, None)
    for key in ("dropped", "records", "segments"):  # counts of a recorder: here was none
        if not any(key in one for one in metas):
            meta.pop(key, None)
    zones = {
        f"{part.label}: {source}": zone
        for part in parts
        for source, zone in (part.trace.meta.get("join") or {}).get("zones", {}).items()
    }
    if "join" in meta:
        meta["join"]["zones"] = zones
    for key in ("warnings", "lossless", "not_measured"):
        texts = _said_by_whom([(part.label, part.trace.meta.get(key) or ()) for part in parts])
        if texts or key in meta:
            meta[key] = texts


def _said_by_whom(said: Sequence[tuple[str, Sequence[str]]]) -> list[str]:
    """Give what all runs have in common once, and the rest, and all that counts, with its run."""
    every = set.intersection(*(set(texts) for _, texts in said))
    every = {text for text in every if not re.search(r"\d", text)}
    found = [
        text if text in every else f"{label}: {text}" for label, texts in said for text in texts
    ]
    return list(dict.fromkeys(found))


def _sum(values: Sequence[Any]) -> Any:
    """Add numbers of equal place; of other values the first stands.

    Examples
    --------
    >>> _sum([{"a": 1, "b": {"c": 2}}, {"b": {"c": 3}, "d": "x"}])
    {'a': 1, 'b': {'c': 5}, 'd': 'x'}
    """
    if all(isinstance(value, Mapping) for value in values):
        keys = dict.fromkeys(key for value in values for key in value)
        return {key: _sum([value[key] for value in values if key in value]) for key in keys}
    if all(isinstance(value, int) and not isinstance(value, bool) for value in values):
        return sum(values)
    return values[0]
