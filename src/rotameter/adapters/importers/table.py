"""Any table of tasks: CSV and the like, JSON records, Parquet, and logs that are tables.

What a column means is said with ``--map``, by a mapping (shipped, or a file), or is clear from
its name. A table that says too little is refused with its columns and an example.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rotameter.adapters.importers import _table_schema as own
from rotameter.adapters.importers._table_arrays import Arrays
from rotameter.adapters.importers._table_attempts import by_start
from rotameter.adapters.importers._table_convert import Converter, Made
from rotameter.adapters.importers._table_detect import (
    Settings,
    Shape,
    headers_of,
    shape_of,
    sureness,
    too_little,
)
from rotameter.adapters.importers._table_guard import mostly_ours, unguarded
from rotameter.adapters.importers._table_mapping import known_mappings
from rotameter.adapters.importers._table_native import ENRICH, NATIVE, READERS, SGE_READERS
from rotameter.adapters.importers._table_pbs import PbsLog
from rotameter.adapters.importers._table_rows import (
    Chunk,
    delimited,
    json_records,
    parquet,
    records_to_chunks,
)
from rotameter.adapters.importers._table_secrets import safe_name
from rotameter.adapters.importers._table_slaves import Slaves
from rotameter.adapters.importers._table_totals import NO_TASK, Totals
from rotameter.adapters.importers._table_twice import APART, TWICE, Part, told_by, told_twice
from rotameter.adapters.importers._table_values import Style
from rotameter.adapters.importers._table_zone import settle
from rotameter.errors import BadInput, UsageError
from rotameter.profiler.live.redact import redact

if TYPE_CHECKING:
    from rotameter.adapters.importers.building import Builder
    from rotameter.adapters.importers.inputs import InputFile
    from rotameter.values import Head

__all__ = ["Importer"]

_PAIRS = 50_000


class Importer:
    """Reads tables of tasks, and the tables that ``rotameter convert`` writes."""

    name = "table"
    engine = "table"
    options: frozenset[str] = frozenset(
        ("map", "mapping", "save", "delimiter", "decimal", "table", "columns")
    )

    def __init__(self) -> None:
        # One entry a task, and one object for all tasks of a group that ran equally often.
        self._seen: dict[str, tuple[str | None, int]] = {}
        self._pairs: dict[tuple[str | None, int], tuple[str | None, int]] = {}
        self._stems: dict[str, int] = {}
        self._files = 0
        self._flags: dict[int, Converter] = {}  # by the number of the file
        self._parts: list[Part] = []  # of ``tasks``, in order
        self._pbs, self._slaves = PbsLog(), Slaves()
        self._out = 0
        self._other = False
        self._save: Path | None = None

    def sniff(self, head: Head) -> float:
        """Say yes where the columns are the schema's, a mapping's, or well known."""
        try:
            return sureness(head)
        except Exception:  # whatever the bytes are, they are no table of ours
            return 0.0

    def read(self, file: InputFile, build: Builder, **options: Any) -> None:
        """Read one table."""
        settings = Settings.of(options)
        self._files += 1
        shape = shape_of(file, settings)
        stem = file.stem
        self._stems[stem] = self._stems.get(stem, 0) + 1
        label = safe_name(stem if self._stems[stem] == 1 else f"{stem}.{self._stems[stem]}")
        try:
            self._read(file, build, settings, shape, label)
        except RecursionError:
            raise BadInput(f"{file.name} is nested too deeply", hint="it is no table") from None
        except pa.ArrowException as error:
            text = " ".join(str(error).split())[:200]
            raise BadInput(f"{file.name}: {text}", hint="name its columns with --map") from None

    def finish(self, build: Builder) -> None:
        """Settle the zone of the times, and which attempt came first; save the mapping."""
        flags = self._flags.values()
        zoned = any(one.zoned for one in flags)
        local = any(one.local for one in flags)
        if local and zoned:
            settle(build, self._parts, self._flags)
        build.local = local and not zoned
        if any(one.relative for one in flags) and not zoned and not local:
            build.meta.setdefault("time_base", "relative_ns")
        self._slaves.finish(build)
        self._once(build)
        if self._other:
            build.records_out = self._out
        if self._save is not None and flags:
            _save(next(iter(flags)), self._save)
        if any(part.counted for part in self._parts):
            self._order(build)

    def _once(self, build: Builder) -> None:
        """Keep one row of each attempt that several rows tell."""
        tasks = build.gathered("tasks") if any(part.told for part in self._parts) else None
        if tasks is None or len(tasks) != sum(part.size for part in self._parts):
            return
        keep, spoken, apart = told_twice(tasks, self._parts)
        if apart:
            build.warn(APART, apart)
        lost = len(keep) - int(keep.sum())
        if not lost:
            return
        if spoken:
            build.note(TWICE, spoken)
        counted = np.repeat(
            [part.counted for part in self._parts], [part.size for part in self._parts]
        )
        again = pc.is_in(tasks["task_id"], value_set=tasks["task_id"].filter(pa.array(~keep)))
        attempts = np.where(
            again.to_numpy() & counted, 1, tasks["attempt"].to_numpy()
        )  # those that are several yet get their numbers by start
        build.replace("tasks", "attempt", pa.array(attempts, pa.int64()))
        build.keep("tasks", keep)
        build.once("deps")
        ends = np.cumsum([part.size for part in self._parts])
        self._parts = [
            Part(int(keep[end - part.size : end].sum()), part.counted, part.told, part.file)
            for end, part in zip(ends.tolist(), self._parts, strict=True)
        ]
        build.merged += lost
        self._out -= lost

    def _order(self, build: Builder) -> None:
        """Put attempts in the order of their starts, now that all are there."""
        tasks = build.gathered("tasks")
        sizes = [part.size for part in self._parts]
        counted = [part.counted for part in self._parts]
        if len(tasks) != sum(sizes):
            return
        rows, numbers = by_start(
            tasks["task_id"], tasks["started_ns"], np.repeat(np.array(counted, dtype=bool), sizes)
        )
        if len(rows):
            attempts = tasks["attempt"].to_numpy().copy()
            attempts[rows] = numbers
            build.replace("tasks", "attempt", pa.array(attempts, pa.int64()))

    # -- one file -----------------------------------------------------------------------------

    def _read(
        self, file: InputFile, build: Builder, settings: Settings, shape: Shape, label: str
    ) -> None:
        before = build.records_in
        chunks = self._chunks(file, build, settings, shape)
        first = next(chunks, None)
        if first is None:
            raise BadInput(f"{file.name} is empty", hint="check what should have written it")
        headers = list(first.columns) or headers_of(file, settings, shape)
        table = own.table_of(headers, settings.table, file.name)
        chunks = _undone(first, chunks, shape, ours=table is not None or mostly_ours(headers))
        first = next(chunks)
        if table is not None and not settings.given and settings.mapping is None:
            style = Style(delimiter=shape.delimiter or ",", decimal=settings.decimal)
            self._own(file, build, own.Own(table, build, style), first, chunks, before)
            return
        mapping = settings.mapping_for(frozenset(headers), shape)
        style = Style(delimiter=shape.delimiter or ",", decimal=settings.decimal)
        used = mapping.with_given(settings.given)
        converter = Converter(
            used, settings.targets, auto=mapping.name == "table", style=style, build=build
        )
        if headers and too_little(converter.plan(_enriched(headers, mapping.name))):
            raise too_little_error(file.name, headers)
        self._flags[self._files] = converter
        self._save = Path(settings.save).expanduser() if settings.save else self._save
        if mapping.engine != "table":
            build.meta["engine"] = mapping.engine
        good, rejected = 0, ""
        told = "" if "task_id" in settings.targets else told_by(mapping.name, headers)
        totals = None if shape.kind in NATIVE else Totals()
        arrays = Arrays(build, file.name) if mapping.engine == "pbs" else None
        while first is not None:
            chunk, after = _enrich(first, mapping.name), next(chunks, None)
            chunk = chunk if arrays is None else arrays.without(chunk)
            made = converter.convert(chunk)
            if totals is not None:
                self._totals(totals, made.columns, chunk, made.wrong, after is None, build)
            # Seconds from some start say nothing of a run of another file.
            sure = told or ("" if converter.relative else "file")
            good += self._add(file, build, label, chunk, made, sure)
            rejected = rejected or next(iter(made.wrong.values()), "")
            first = after
        rejected = (arrays.finish() if arrays is not None else "") or rejected
        if not good and rejected:
            shown = redact(rejected)
            raise BadInput(
                f"no record of {file.name} could be read: {shown}",
                hint="see the reference page of tables: times, and units"
                if "--map" in shown
                else "correct these values, or name other columns: --map start=NAME "
                "--map wall=NAME:s",
            )
        if build.records_in == before:
            build.warn(redact(f"{file.name} has columns and no rows"))
        if mapping.name == "table":
            _left(converter, headers, build)

    def _chunks(
        self, file: InputFile, build: Builder, settings: Settings, shape: Shape
    ) -> Iterator[Chunk]:
        def reject(line: int | None, reason: str) -> None:
            """Refuse a line of this file."""
            build.records_in += 1
            build.reject(file.name, line, reason)

        if shape.kind == "parquet":
            return parquet(file)
        if shape.kind == "json":
            return records_to_chunks(json_records(file, reject))
        if shape.kind == "pbs":
            return records_to_chunks(self._pbs.read(file, build))
        if shape.kind in SGE_READERS:
            return records_to_chunks(SGE_READERS[shape.kind](file, build, self._slaves))
        if shape.kind in READERS:
            return records_to_chunks(READERS[shape.kind](file, build))
        return delimited(file, shape.delimiter or ",", reject, settings.columns, build.warn)

    def _own(
        self,
        file: InputFile,
        build: Builder,
        converter: own.Own,
        first: Chunk | None,
        chunks: Iterator[Chunk],
        before: int,
    ) -> None:
        """Read a table that has the schema's own columns, to the letter."""
        table = converter.table
        self._other |= table != "tasks"
        totals = (
            None if table != "tasks" or "source" in (first.columns if first else ()) else Totals()
        )
        while first is not None:
            made, wrong = converter.convert(first)
            after = next(chunks, None)
            if totals is not None:
                self._totals(totals, made, first, wrong, after is None, build)
            build.records_in += len(first.lines)
            for row, reason in wrong.items():
                build.reject(file.name, int(first.lines[row]), reason)
            keep = [i for i in range(len(first.lines)) if i not in wrong]
            self._out += len(keep)
            if table == "rejects":
                build.records_in -= len(keep)
                self._out -= len(keep)
            if keep:
                rows = pa.array(keep)
                kept = {n: column.take(rows) for n, column in made.items()} if wrong else made
                build.extend(table, kept)
                if table == "tasks":
                    numbered = first.columns.keys() & {"attempt", "run_id"}
                    told = "" if numbered or converter.relative else "file"
                    self._parts.append(Part(len(keep), not numbered, told, self._files))
            first = after
        if build.records_in == before and table == "tasks":
            build.warn(redact(f"{file.name} has columns and no rows"))
        _unread(list(converter.left), build)
        if converter.relative:
            build.meta["time_base"] = "relative_ns"

    def _totals(
        self,
        totals: Totals,
        columns: dict[str, Any],
        chunk: Chunk,
        wrong: dict[int, str],
        last: bool,
        build: Builder,
    ) -> None:
        """Refuse rows of totals, and say so."""
        for row in totals.see(columns, len(chunk.lines), last=last):
            wrong[row] = NO_TASK
            build.warn(f"line {chunk.lines[row]:,} is {NO_TASK}: it is refused")

    def _add(
        self, file: InputFile, build: Builder, label: str, chunk: Chunk, made: Made, told: str
    ) -> int:
        """Hand the good rows on; number the attempts of equal ids."""
        build.records_in += made.size
        for row, reason in sorted(made.wrong.items()):
            build.reject(file.name, int(chunk.lines[row]), reason)
        keep = [row for row in range(made.size) if row not in made.wrong]
        if not keep:
            return 0
        rows = pa.array(keep)
        columns: dict[str, Any] = dict(made.columns)
        if made.wrong:
            columns = {n: c.take(rows) for n, c in columns.items()}
        ids = columns["task_id"].to_pylist() if "task_id" in columns else [None] * len(keep)
        groups = columns["group"].to_pylist() if "group" in columns else [None] * len(keep)
        names = [one or f"{label}:{chunk.lines[row]}" for one, row in zip(ids, keep, strict=True)]
        names, attempts = self._number(names, groups, build)
        columns["task_id"] = pa.array(names, pa.string())
        said = columns.get("attempt")
        counted = pa.array(attempts, pa.int64())
        columns["attempt"] = counted if said is None else pc.coalesce(said, counted)
        columns["source"] = pa.array(["table"] * len(keep), pa.string())
        if made.features:
            columns["features"] = _features(made, keep, columns.get("features"))
        build.extend("tasks", columns)
        if told in ("", "file"):
            numbered = said is not None and "task_id" in made.columns
            told = "both" if numbered else told
        self._parts.append(Part(len(keep), said is None, told, self._files))
        if made.edges:
            pairs = [(n, up) for n, row in zip(names, keep, strict=True) for up in made.edges[row]]
            if pairs:
                tasks, ups = zip(*pairs, strict=True)
                build.extend("deps", {"task_id": list(tasks), "depends_on": list(ups)})
        self._out += len(keep)
        return len(keep)

    def _number(
        self, names: list[str], groups: list[str | None], build: Builder
    ) -> tuple[list[str], list[int]]:
        """Tell runs of one task apart by number, tasks of different groups by the group."""
        attempts = []
        seen, pairs = self._seen, self._pairs
        for i, name in enumerate(names):
            group = groups[i]
            first, runs = seen.get(name) or (group, 0)
            if first != group:
                build.warn("equal ids in different groups: told apart by the group's name")
                name = names[i] = f"{group}/{name}"
                first, runs = seen.get(name) or (group, 0)
            pair = first, runs + 1
            if len(pairs) < _PAIRS:
                pair = pairs.setdefault(pair, pair)
            seen[name] = pair
            attempts.append(runs + 1)
        return names, attempts


def _undone(first: Chunk, chunks: Iterator[Chunk], shape: Shape, *, ours: bool) -> Iterator[Chunk]:
    """Undo the guard against formulas, whichever way the table is read then."""
    for chunk in itertools.chain([first], chunks):
        yield unguarded(chunk, delimited=shape.kind == "delimited", ours=ours)


def too_little_error(name: str, headers: list[str]) -> BadInput:
    """Make the refusal of a table that says too little about tasks."""
    shown = ", ".join(map(redact, headers[:30])) + (" …" if len(headers) > 30 else "")
    first = headers[0] if headers else "NAME"
    others = ", ".join(known_mappings())
    return BadInput(
        f"{name}: cannot tell which columns are a task's times; its columns: {shown}; name them, "
        f"such as --map id={first} --map start=NAME --map wall=NAME:s --map peak=NAME:MiB",
        hint=f"or --opt mapping= with one of {others}, or a file",
    )


def _enriched(headers: list[str], mapping: str) -> list[str]:
    """Give the columns as they will be once records are completed."""
    if mapping not in ENRICH:
        return headers
    return list(ENRICH[mapping](dict.fromkeys(headers))) + headers


def _enrich(chunk: Chunk, mapping: str) -> Chunk:
    if mapping not in ENRICH or not chunk.lines:
        return chunk
    more = ENRICH[mapping]
    names = list(chunk.columns)
    cells = [chunk.columns[name].to_pylist() for name in names]
    rows = [more(dict(zip(names, row, strict=True))) for row in zip(*cells, strict=True)]
    made = next(records_to_chunks(enumerate(rows)))
    return Chunk(chunk.lines, made.columns)


def _features(
    made: Made, keep: list[int], said: pa.Array | None
) -> list[list[tuple[str, float]] | None]:
    """Gather what is known before the run; what the table's own ``features`` say comes first."""
    names = list(made.features)
    cells = [made.features[name].to_pylist() for name in names]
    out: list[list[tuple[str, float]] | None] = []
    own_items = [None] * len(keep) if said is None else said.to_pylist()
    for row, first in zip(keep, own_items, strict=True):
        items = [(n, column[row]) for n, column in zip(names, cells, strict=True)]
        known = [(name, value) for name, value in items if value is not None]
        out.append([*(first or []), *known] or None)
    return out


def _left(converter: Converter, headers: list[str], build: Builder) -> None:
    used = {name for made in converter.used.values() for one in made for name in one.names}
    _unread([name for name in headers if name not in used], build)


def _unread(left: list[str], build: Builder) -> None:
    """Say which columns were not read."""
    if left:
        shown = ", ".join(map(redact, left[:20])) + (" …" if len(left) > 20 else "")
        build.warn(
            f"columns not read: {shown} (--map COLUMN=NAME reads one, --map feature.NAME=NAME a "
            "number known before the run)"
        )


def _save(converter: Converter, path: Path) -> None:
    """Write the mapping in use; an existing file with other words is not replaced."""
    columns = {
        target: tuple(
            f"'{one.constant}'"
            if one.constant is not None
            else "+".join(one.names) + (f":{one.unit}" if one.unit else "")
            for one in made
        )
        for target, made in converter.used.items()
    }
    mapping = type(converter.mapping)(**{**converter.mapping.__dict__, "columns": columns})
    text = mapping.to_json()
    try:
        if path.exists() and path.read_text(encoding="utf-8") != text:
            raise UsageError(f"{path} exists", hint="choose another name for --opt save=")
        path.write_text(text, encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot write {path}: {error}", hint="check the path") from None
