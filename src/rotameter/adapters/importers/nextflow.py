"""Nextflow's trace file (``-with-trace``): one row an attempt, any columns, human or raw.

The format: ``TraceRecord``, ``TraceFileObserver``, ``Duration`` and ``MemoryUnit`` of Nextflow and
the chapter on reports of its documentation (https://nextflow.io/docs/latest/reports.html).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rotameter.adapters.importers._nextflow_commas import Commas
from rotameter.adapters.importers._nextflow_end import End, watch
from rotameter.adapters.importers._nextflow_lines import Header, Record, find_header, records
from rotameter.adapters.importers._nextflow_part import Part, give_all
from rotameter.adapters.importers._nextflow_rows import (
    ENERGY,
    KILLED,
    Attempt,
    chain_runs,
    link,
    make,
)
from rotameter.adapters.importers._nextflow_same import Known, Same
from rotameter.adapters.importers._nextflow_values import Seen
from rotameter.adapters.importers.building import Builder
from rotameter.adapters.importers.inputs import FOREIGN
from rotameter.errors import BadInput, InputError
from rotameter.profiler.view import short
from rotameter.units import format_seconds, many

if TYPE_CHECKING:
    from rotameter.adapters.importers.inputs import InputFile
    from rotameter.values import Head

__all__ = ["Importer"]


class Importer:
    """Reads trace files of Nextflow."""

    name = "nextflow"
    engine = "nextflow"
    options: frozenset[str] = frozenset()

    def __init__(self) -> None:
        self.taken: set[str] = set()
        self._known = Known()
        self._headers = 0
        self._same = Same()
        self._twice = 0
        self._zoned: bool | None = None
        self._parts: list[Part] = []
        self._commas = Commas()
        self._beyond: list[Any] = [0]
        self._batch = 0

    def sniff(self, head: Head) -> float:
        """Look for a header with Nextflow's columns."""
        for line in head.text.split("\n")[:20]:
            if line.strip():
                header = find_header(line, sure=True)
                if header is None:
                    return 0.0
                return 0.7 if header.unknown or "task_id" not in header.columns else 0.95
        return 0.0

    def in_order(self, files: Sequence[InputFile]) -> list[InputFile]:
        """Put traces that have more columns first: of a row in several the first is kept."""
        return sorted(files, key=_width, reverse=True)

    def read(self, file: InputFile, build: Builder, **options: Any) -> None:
        """Read one trace."""
        number = None
        for at, made in self.rows(file, build):
            if at != number:
                self._parts.append(Part(at))
                number = at
            self._parts[-1].add(made)

    def attempts(self, file: InputFile, build: Builder) -> list[list[Attempt]]:
        """Give the attempts of one trace, a list for each header; for joining them with others.

        Raises
        ------
        BadInput
            If it is no trace.
        """
        found: dict[int, list[Attempt]] = {}
        for part, made in self.rows(file, build):
            found.setdefault(part, []).append(made)
        return list(found.values())

    def number(self, runs: Sequence[Sequence[Attempt]]) -> None:
        """Name the tasks of a workflow's runs and number their attempts, in place."""
        links = [[link(made) for made in rows] for rows in runs]
        chain_runs(links, self.taken)
        for rows, linked in zip(runs, links, strict=True):
            for made, one in zip(rows, linked, strict=True):
                made.row.update(task_id=one.task_id, attempt=one.attempt)

    def rows(self, file: InputFile, build: Builder) -> Iterator[tuple[int, Attempt]]:
        """Give the rows of one trace with the number of the header that they stand under.

        The numbers go on from one trace to the next. Rows that cannot be read go to the rejects.

        Raises
        ------
        BadInput
            If it is no trace.
        """
        header, counts = None, Counter[str]()
        before = self._headers
        watched, end = watch(file)
        self._commas.begin(lambda: (record.fields for _, record in records(file.lines())))
        for columns, record in _settled(records(watched.lines()), end, build):
            header = columns
            build.records_in += 1
            made = self._attempt(file, build, record)
            at = before + record.header
            self._headers = at + 1
            if made is not None and self._again(record, made, at):
                build.merged += 1
                self._twice += 1
            elif made is not None:
                self._look(made)
                counts[made.row["outcome"]] += 1
                yield at, made
        if file.told_foreign():
            build.warn(FOREIGN)
        _say(header or _empty(file, build), counts, build)

    def finish(self, build: Builder) -> None:
        """Hand over the rows, and say what the format cannot tell."""
        parts, self._parts = self._parts, []
        give_all(parts, self.taken, build, self._same)
        self._commas.say(build)
        if self._beyond[0]:
            count, first, wall, whole = self._beyond
            build.warn(
                f"realtime is longer than duration in {many(count, 'attempt')}, such as "
                f"{short(first, 60)} ({format_seconds(wall)} and {format_seconds(whole)}): "
                "realtime is kept"
            )
        if self._twice:
            build.note(
                "rows that are there more than once (one trace under two names, or a row "
                f"repeated) are counted once: {self._twice:,} left out"
            )
        if self._batch:
            build.meta.setdefault("executors", {"batch": self._batch})
        build.not_measured("dependencies and the size of inputs: Nextflow's trace has none")
        build.not_measured(
            "memory between readings: peak_rss is sampled every 1, 5 and then 30 seconds"
        )

    def _look(self, made: Attempt) -> None:
        """Note a task that ran longer than it took in all, and one whose id is no process."""
        if made.native_id and not made.native_id.isdigit() and made.row["outcome"] != "cached":
            self._batch += 1
        if made.beyond_s is not None:
            self._beyond[0] += 1
            self._beyond[1:] = self._beyond[1:] or [made.row["task_id"], *made.beyond_s]

    def _again(self, record: Record, made: Attempt, header: int) -> bool:
        """Say whether this attempt came before, in any of the files.

        The hash stands for one execution's work folder; other rows must be the same in all that
        both traces have, with something in it that tells executions apart. Traces with a row in
        common are of one workflow.
        """
        ran = bool(made.hash) and made.row["outcome"] != "cached"
        found = self._known.again(record.fields, header, ran=ran)
        if found is not None:
            self._same.add(found, header)
        return found is not None

    def _attempt(self, file: InputFile, build: Builder, record: Record) -> Attempt | None:
        if record.reason is not None:
            build.reject(file.name, record.line, record.reason)
            return None
        made = make(record.fields, build.warn, self._commas)
        if made.row["task_id"] is None:
            build.reject(file.name, record.line, "neither name nor process nor an id")
            return None
        if record.repaired:
            build.warn("rows that a separator or a line break in a text had shifted are put right")
        made.file, made.line = file.name, record.line
        self._agree_on_zone(made, build)
        return made

    def _agree_on_zone(self, made: Attempt, build: Builder) -> None:
        """Keep the times of one kind only: with and without a zone cannot be compared."""
        if made.zoned is None:
            return
        if not made.zoned and build.zone_ns is not None:
            for name in ("submitted_ns", "started_ns", "ended_ns"):
                if made.row.get(name) is not None:
                    made.row[name] -= build.zone_ns
            made.zoned = True
        if self._zoned is None:
            self._zoned = made.zoned
        if made.zoned != self._zoned:
            made.row.update(submitted_ns=None, started_ns=None, ended_ns=None)
            made.local, made.crossing, made.counted = False, None, False
            kind = "local" if self._zoned else "epoch"
            build.warn(f"{kind} times among others cannot be compared with them: left out")
        elif not made.zoned:
            build.local = True


def _width(file: InputFile) -> int:
    """Count the columns that Nextflow knows in a trace's first header; 0 if it has none."""
    try:
        lines = file.head_text.split("\n")
    except InputError:  # said when it is read
        return 0
    header = find_header(next((line for line in lines if line.strip()), ""))
    return 0 if header is None else len(header.columns) - len(header.unknown)


def _settled(
    found: Iterator[tuple[Header, Record]], end: End, build: Builder
) -> Iterator[tuple[Header, Record]]:
    """Give the rows as they are, the last value of a file that ends inside it as unknown."""
    held: tuple[Header, Record] | None = None
    seen = Seen()
    for one in found:
        if held is not None:
            seen.add(held[1].fields)
            yield held
        held = one
    if held is None:
        return
    header, record = held
    if record.reason is None and end.is_open(record.fields):
        column = next(reversed(record.fields))
        cut = seen.cut(record.fields)
        if cut:
            record = replace(record, fields={**record.fields, column: "-"})
        end.say(column, cut, build)
    yield header, record


def _empty(file: InputFile, build: Builder) -> Header:
    """Give the header of a trace without rows."""
    for _, line in file.lines():
        if line.strip():
            header = find_header(line)
            if header is not None:
                build.warn("a trace without tasks: only its header is there")
                return header
            raise BadInput(
                f"{file.name} is not a Nextflow trace: no header with name, status and times",
                hint="the first line must name the columns",
            )
    raise BadInput(f"{file.name} is empty", hint="check what should have written it")


def _say(header: Header, counts: Counter[str], build: Builder) -> None:
    """Say how the numbers came about where that is not plain."""
    columns = set(header.columns)
    unknown = [c for c in header.unknown if c != ENERGY]
    if unknown:
        named = ", ".join(unknown[:8])
        build.warn(f"columns that Nextflow itself does not write are passed over: {named}")
    if not columns & {"submit", "start", "complete"}:
        build.not_measured("when tasks ran: the trace has no submit, start or complete")
    elif "start" not in columns:
        build.not_measured(
            "when tasks started: the trace has no column start, so it is taken as the end less "
            "realtime; waiting and staging cannot be told apart"
        )
    if not columns & {"peak_rss", "rss"}:
        build.not_measured("memory: the trace has no peak_rss")
    if not columns & {"cpus", "memory"}:
        build.not_measured("what tasks asked for: the trace has no cpus, memory, time")
    cached, killed, every = counts["cached"], counts["oom"], counts.total()
    if cached:
        build.note(
            f"from the cache came {cached:,} of {many(every, 'task')}: their figures are those of "
            "an earlier run; when they ran, CPU time and bytes are left out, their durations and "
            "peaks are kept, as what the tasks need; no sum holds them"
        )
    if killed:
        build.note(f"{KILLED}: {killed:,} of {many(every, 'attempt')}")
