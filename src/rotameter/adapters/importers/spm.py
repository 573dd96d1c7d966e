"""Workflow tables of FastFlow, SPM and their neighbours: what each process moved, by file.

One row a (process, direction, file): ``operation, transferSize, aggregateFilesizeMB, numTasks,
parallelism, totalTime, numNodes, tasksPerNode, storageType, opCount, taskName, taskPID, fileName,
stageOrder, prevTask``, as published with https://github.com/pnnl/FastFlow and
https://github.com/candiceT233/spm. Rows repeat for each candidate number of nodes, and the total
of a process stands at each of its files: both are undone here.
"""

from __future__ import annotations

import csv
import re
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

from rotameter.adapters.importers._spm_rows import MIB, Reader, Row, columns_of, unit_of
from rotameter.adapters.importers._spm_totals import Flow, Measured, measured
from rotameter.errors import BadInput, UsageError
from rotameter.units import many

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rotameter.adapters.importers.building import Builder
    from rotameter.adapters.importers.inputs import InputFile
    from rotameter.values import Head

__all__ = ["Importer"]

_DELIMITERS = ",;\t|"
_OUTSIDE = frozenset(("", "initial_data", "final_data"))
_HOST = re.compile(r"\d+-(.+)")
_MEANINGS = ("process", "file")


class Importer:
    """Reads workflow tables of FastFlow/SPM."""

    name = "spm"
    engine = "spm"
    options: frozenset[str] = frozenset(("bytes", "tier"))

    def __init__(self) -> None:
        self._ids: set[str] = set()

    def sniff(self, head: Head) -> float:
        """Look at the first line for the columns."""
        if b"\0" in head.data[:4096] and head.data[:2] not in (b"\xff\xfe", b"\xfe\xff"):
            return 0.0
        first = head.text.lstrip("\n").split("\n", 1)[0]
        if "operation" not in first.lower():
            return 0.0
        return 0.95 if _header(first)[1] is not None else 0.0

    def read(self, file: InputFile, build: Builder, **options: Any) -> None:
        """Read one table.

        Raises
        ------
        BadInput
            If it has no such columns, or no rows.
        UsageError
            If an option is not one of its values.
        """
        asked = options.get("bytes")
        if asked is not None and asked not in _MEANINGS:
            raise UsageError(f"bytes={asked!r}: not process or file", hint="see the format's page")
        lines = (line.replace("\0", "") + "\n" for _, line in file.lines())
        first = next((line for line in lines if line.strip()), "")
        delimiter, columns = _header(first)
        if columns is None:
            raise BadInput(
                f"{file.name} has no columns operation, taskName, fileName and a size",
                hint="name the columns of another table with --map",
            )
        reader = Reader(columns)
        reader.read(lines, delimiter)
        build.records_in += reader.records + len(reader.refused)
        for number, reason in reader.refused:
            build.reject(file.name, number, reason)
        if not reader.rows:
            raise BadInput(f"{file.name} holds no rows that can be read", hint="check the file")
        if options.get("tier"):
            for row in reader.rows:
                row.tier = str(options["tier"])[:100]
        build.merged += reader.records - self._table(reader, file, build, asked)

    def finish(self, build: Builder) -> None:
        """Say what the format cannot tell."""
        build.not_measured("start, end and duration of tasks: the table has seconds in I/O only")
        build.not_measured("which bytes of a file were used, and sizes of files")

    def _table(self, reader: Reader, file: InputFile, build: Builder, asked: str | None) -> int:
        """Add what the rows say, and give the number of tasks."""
        rows = reader.rows
        unit, seen = unit_of(rows)
        known = measured(rows, unit, asked)
        ids = self._names(known, file)
        _tasks(rows, known, ids, build, reader.lost)
        _flows(known.flows, ids, build)
        _stages(rows, known.flows, ids, build)
        _say(rows, known, build, unit, seen)
        return len(ids)

    def _names(self, known: Measured, file: InputFile) -> dict[tuple[str, str], str]:
        """Give each (task name, process) an id; a second table's get its name in front."""
        keys = dict.fromkeys(known.totals)
        ids = {key: "-".join(filter(None, key)) for key in keys}
        if len(set(ids.values())) < len(ids):
            ids = {key: f"{key[0]} {key[1]}".rstrip() for key in keys}
        label, number = file.stem, 1
        while self._ids & set(ids.values()):
            number += 1
            ids = {key: f"{label}:{key[0]}-{key[1]}" for key in keys}
            label = f"{file.stem}.{number}"
        self._ids.update(ids.values())
        return ids


def _header(line: str) -> tuple[str, Any]:
    line = line.strip("\r\n\ufeff")
    delimiter = max(_DELIMITERS, key=line.count)
    try:
        return delimiter, columns_of(next(csv.reader([line], delimiter=delimiter), []))
    except csv.Error:
        return delimiter, None


def _host(pid: str) -> str | None:
    match = _HOST.fullmatch(pid)
    return match[1] if match else None


def _tasks(
    rows: Sequence[Row],
    known: Measured,
    ids: dict[tuple[str, str], str],
    build: Builder,
    lost: set[tuple[str, str]],
) -> None:
    features: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    guessed: set[tuple[str, str]] = set()
    for row in rows:
        features[(row.task, row.pid)] = {**row.features, **features[(row.task, row.pid)]}
        if row.unread:
            guessed.add((row.task, row.pid))
    # A row that does not say whose it is may be anyone's.
    lossy = {key for key in ids if key in lost} if lost <= ids.keys() else set(ids)
    if lossy:
        build.warn(f"rows of {many(len(lossy), 'task')} were refused: their bytes are lower bounds")
    for key, task_id in ids.items():
        totals = known.totals[key]
        every = [triple for triples in totals.values() for triple in triples]
        copies = totals.get("copy", [])
        read, written = (_total([*totals.get(op, []), *copies], 0) for op in ("read", "write"))
        part = any(triple[0] is None for triple in every)
        has = read is not None or written is not None
        host = _host(key[1])
        build.add(
            "tasks",
            {
                "task_id": task_id,
                "attempt": 1,
                "group": key[0] or None,
                "host": host,
                "worker": host,
                "outcome": "ok",
                "outcome_kind": "inferred",
                "read_bytes": read,
                "write_bytes": written,
                "io_kind": _kind(part or key in lossy, key in guessed) if has else None,
                "io_s": _total(every, 2),
                "transfer_s": _total(copies, 2),
                "features": features[key],
                "source": "spm",
            },
        )


def _kind(low: bool, guessed: bool) -> str:
    return "lower_bound" if low else "estimate" if guessed else "exact"


def _total(triples: Iterable[tuple[Any, Any, Any]], place: int) -> Any:
    values = [triple[place] for triple in triples if triple[place] is not None]
    return sum(values) if values else None


def _sides(flows: Iterable[Flow]) -> Iterator[tuple[Flow, str, float | None, str | None]]:
    """Give (flow, op, seconds, store); a copy is read from one store and written to the other."""
    for flow in flows:
        if flow.op != "copy":
            yield flow, flow.op, flow.seconds, flow.tier
            continue
        source, _, target = (flow.tier or "").partition("-")
        # Its seconds stand at one side only, so that they count once.
        yield flow, "read", None, source or None
        yield flow, "write", flow.seconds, target or source or None


def _flows(flows: Sequence[Flow], ids: dict[tuple[str, str], str], build: Builder) -> None:
    sides = list(_sides(flows))
    build.extend(
        "flows",
        {
            "task_id": [ids[(flow.task, flow.pid)] for flow, *_ in sides],
            "attempt": [1] * len(sides),
            "worker": [_host(flow.pid) for flow, *_ in sides],
            "object": [flow.file for flow, *_ in sides],
            "medium": ["file"] * len(sides),
            "op": [op for _, op, _, _ in sides],
            "bytes": [flow.bytes for flow, *_ in sides],
            "ops": [flow.ops for flow, *_ in sides],
            "busy_s": [seconds for _, _, seconds, _ in sides],
            "tier": [tier for *_, tier in sides],
        },
    )


def _stages(
    rows: Sequence[Row], flows: Sequence[Flow], ids: dict[tuple[str, str], str], build: Builder
) -> None:
    """Add dependencies between stages where no file shows them; never n times m of them."""
    said = {(r.task, r.previous) for r in rows if r.previous not in _OUTSIDE}
    writers: dict[str, set[str]] = defaultdict(set)
    for flow in flows:
        if flow.op != "read":
            writers[flow.file].add(flow.task)
    shown = {(f.task, maker) for f in flows if f.op != "write" for maker in writers[f.file]}
    members: dict[str, list[str]] = defaultdict(list)
    for key, task_id in ids.items():
        members[key[0]].append(task_id)
    open_ends = []
    for name, previous in sorted(said - shown):
        if name == previous or previous not in members:
            continue
        mine, theirs = members[name], members[previous]
        if min(len(mine), len(theirs)) > 1:
            open_ends.append(f"{previous} to {name}")
            continue
        for task in mine:
            for other in theirs:
                build.add("deps", {"task_id": task, "depends_on": other})
    if open_ends:
        build.warn(
            "stages that follow each other without a file between them in the table, so which "
            f"task waited for which is not known: {', '.join(open_ends[:10])}"
        )


def _say(rows: Sequence[Row], known: Measured, build: Builder, unit: int, unit_seen: bool) -> None:
    """Warn about what was ambiguous, and keep how it was decided."""
    one_of_several = any(row.trace_name for row in rows) and not known.groups.keys() - {"one_file"}
    exact = Counter(flow.exact and not one_of_several for flow in known.flows)
    facts: dict[str, Any] = build.meta.setdefault("dataflow", {})
    facts["size_unit_bytes"] = unit
    facts["rows_mean"] = {True: "process", False: "file", None: "file"}[known.copied]
    for name, count in (("flows_exact", exact[True]), ("flows_estimated", exact[False])):
        facts[name] = facts.get(name, 0) + count
    if one_of_several:
        build.warn(
            "the table names one file for each process and direction, and others are left out: "
            "which files the bytes belong to is not known; totals a task are exact"
        )
        build.not_measured("bytes per file: the table names one file for each process")
    elif exact[False]:
        build.warn(
            f"bytes, operations and seconds of {many(exact[False], 'flow')} are estimates: the "
            "table repeats a process's total at each of its files; totals a task are exact"
        )
        build.not_measured("bytes per file, where a process went through several files")
    if known.groups["different"] and known.groups["same"]:
        build.warn(
            f"of the processes with several files, {known.groups['same']:,} repeat one total and "
            f"{known.groups['different']:,} have values of their own; taken as "
            f"{'totals' if known.copied else 'values of files'} (--opt bytes=process or file)"
        )
    if known.untimed:
        build.warn(
            "without seconds, a repeated total and files of one size look alike: taken as totals "
            "(--opt bytes=file if they are sizes of files)"
        )
    if not unit_seen:
        build.warn("the unit of the size column is not shown by the table: taken as MiB")
    elif unit != MIB:
        build.warn("the size column is in MB of 1,000,000 bytes")
    for count, text in (
        (known.ambiguous, "records of one file differ: added up within the first number of nodes"),
        (known.unnamed, "records name no file: their bytes are in the totals of tasks only"),
        (known.names_of_pid, "processes have more than one task name: each is a task"),
        (
            sum(row.unread for row in rows),
            "rows have a size that cannot be read: taken from operations and their size, an "
            "estimate, or not known",
        ),
        (sum(row.corrected for row in rows), "rows whose operation is not that of their trace"),
    ):
        if count:
            build.warn(f"{count:,} {text}")
    if any((row.tier or "").startswith("store ") for row in rows):
        build.warn("stores are given as code numbers: name them with --opt tier=NAME")
