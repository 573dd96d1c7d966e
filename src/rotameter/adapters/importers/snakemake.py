"""Snakemake's benchmark files (``benchmark:``), TSV and JSONL, of all versions.

The format: ``snakemake/benchmark.py``. One file a job, one row a repeat; ``cpu_time`` since 5.30,
the extended columns since 8.11, ``s`` is text in JSONL until 9.13; unknown columns are accepted.
So is a table of many benchmarks that was saved with commas.
"""

from __future__ import annotations

import csv
import json
import re
from array import array
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from rotameter.adapters.importers._nextflow_columns import Columns
from rotameter.adapters.importers._nextflow_end import End, watch
from rotameter.adapters.importers._snakemake_names import WAYS, clean, distinct, guess
from rotameter.adapters.importers._snakemake_rows import MEASURED, NULLS, make, mapping
from rotameter.adapters.importers.building import Builder
from rotameter.adapters.importers.inputs import FOREIGN
from rotameter.errors import BadInput, UsageError
from rotameter.profiler.live.redact import redact
from rotameter.units import many

if TYPE_CHECKING:
    from rotameter.adapters.importers.inputs import InputFile
    from rotameter.values import Head

__all__ = ["Importer", "entries"]

_MEASURED = frozenset(MEASURED)
_BROKEN_LINES = 400
_LINE_CHARS = 1 << 24
_WHOLE = re.compile(r"-?\d+\.\d\d")  # as Snakemake writes all that it measures
Entry = tuple[int, Mapping[str, Any] | None, str | None]


class Importer:
    """Reads benchmark files of Snakemake.

    The option ``rule`` says where the name of the rule is, for files that do not hold it:
    ``folder``, ``first`` or ``last`` part of the file's name, ``stem`` (all of it) or ``auto``.
    """

    name = "snakemake"
    engine = "snakemake"
    options: frozenset[str] = frozenset(("rule",))

    def __init__(self) -> None:
        self._kept = Columns("tasks", late=("group", "task_id"))
        self._unnamed: dict[str, array[int]] = {}
        self._jobs: list[tuple[str, str]] = []
        self._job_of, self._repeats = array("q"), array("q")  # a value a row
        self._way = "auto"

    def sniff(self, head: Head) -> float:
        """Look for the columns ``s`` and ``h:m:s``."""
        for line in head.text.split("\n")[:20]:
            text = line.strip()
            if not text:
                continue
            if text.startswith("{"):
                return 0.9 if '"h:m:s"' in text and '"s"' in text else 0.0
            columns, separator = _header(text) or ((), "")
            sure = 0.95 if separator == "\t" else 0.7  # with commas others write too
            return sure if "h:m:s" in columns and len(columns) > 1 else 0.0
        return 0.0

    def read(self, file: InputFile, build: Builder, **options: Any) -> None:
        """Read one benchmark file."""
        way = str(options.get("rule", "auto"))
        if way not in WAYS:
            raise UsageError(f"not a way to find a rule: {way!r}", hint=f"one of {', '.join(WAYS)}")
        self._way = way
        here: dict[str, tuple[int, int]] = {}
        for found in rows(file, build):
            row, named = found["_row"], found["_name"]
            job, count = here.get(named) or (len(self._jobs), 0)
            if not count:
                self._jobs.append((named, file.name))
            here[named] = job, count + 1
            self._job_of.append(job)
            self._repeats.append(count)
            number = self._kept.add(row)
            if row["group"] is None:
                self._unnamed.setdefault(file.name, array("q")).append(number)

    def finish(self, build: Builder) -> None:
        """Name the rules that only files' names tell, and say what the format cannot tell."""
        if self._unnamed:
            names = list(self._unnamed)
            rules, way = guess(names, self._way)
            for name, numbers in self._unnamed.items():
                for number in numbers:
                    self._kept.put(number, "group", rules[name])
            if len(names) > 1:
                place = {"folder": "folder", "stem": "file name"}.get(
                    way, f"{way} part of the name"
                )
                build.warn(
                    f"{many(len(names), 'file does', 'files do')} not name the rule: taken from "
                    f"the {place} "
                    "(--opt rule=folder, first, last or stem)"
                )
        self._name_jobs()
        self._kept.give(build)
        build.not_measured(
            "when jobs ran, their retries and failures: a benchmark has only jobs "
            "that ended well; import the run's folder for the rest"
        )
        build.not_measured(
            "memory between readings: max_rss is sampled every 0.5 and later every 30 seconds"
        )

    def _name_jobs(self) -> None:
        """Tell jobs of several files apart that would be called the same."""
        names = distinct(self._jobs)
        for row, (job, repeat) in enumerate(zip(self._job_of, self._repeats, strict=True)):
            # A repeat is no further attempt: each is a task of its own.
            name = f"{names[job]} repeat {repeat + 1}" if repeat else names[job]
            self._kept.put(row, "task_id", name)


def rows(file: InputFile, build: Builder) -> Iterator[dict[str, Any]]:
    """Give the rows of a file with their names; records that cannot be read go to the rejects.

    Yields
    ------
    dict
        ``_row`` as for the table ``tasks``, ``_name`` of the job, ``_record`` as it was read.
    """
    watched, end = watch(file)
    for line, record, reason in _settled(entries(watched), end, build):
        if record is None and reason is None:
            build.warn("a benchmark without rows: only its header is there")
            continue
        build.records_in += 1
        if record is None:
            build.reject(file.name, line, reason or "cannot be read")
            continue
        try:
            row = make(record, build.warn)
        except ValueError as error:
            build.reject(file.name, line, str(error))
            continue
        yield {"_row": row, "_name": _name(file.name, row, record), "_record": record}
    if file.told_foreign():
        build.warn(FOREIGN)


def _settled(found: Iterator[Entry], end: End, build: Builder) -> Iterator[Entry]:
    """Give the entries as they are, the last value of a file that ends inside it as unknown."""
    held: Entry | None = None
    forms: set[str] = set()
    for entry in found:
        if held is not None:
            forms.update(_form(held[1]))
            yield held
        held = entry
    if held is None:
        return
    line, record, reason = held
    if record is not None and not end.text.lstrip().startswith("{") and end.is_open(record):
        column = list(record)[-1]
        cut = _cut(column, str(record[column]), forms)
        if cut:
            record = {**record, column: "NA"}
        end.say(column, cut, build)
    yield line, record, reason


def _form(record: Mapping[str, Any] | None) -> Iterator[str]:
    """Say that the file's last column holds numbers that Snakemake itself would write otherwise."""
    if record:
        text = str(list(record.values())[-1]).strip()
        if text not in NULLS and not _WHOLE.fullmatch(text):
            yield "odd"


def _cut(column: str, text: str, forms: set[str]) -> bool | None:
    """Say whether a last value is cut; None if that cannot be told.

    Examples
    --------
    >>> _cut("cpu_time", "90.45", set()), _cut("cpu_time", "9", set()), _cut("x", "9", set())
    (False, True, None)
    """
    text = text.strip()
    if text in NULLS:
        return False
    if text.startswith("{"):
        return not text.endswith("}")
    if column == "h:m:s":
        return re.fullmatch(r"(?:\d+ days?, )?\d+:\d\d:\d\d", text) is None
    if column not in _MEASURED or forms:
        return None
    return _WHOLE.fullmatch(text) is None


def _name(file: str, row: Mapping[str, Any], record: Mapping[str, Any]) -> str:
    cards = mapping(record.get("wildcards"))
    if row["group"] is None:
        return clean(file)
    if not cards:
        # A column of other programs, which put the benchmarks of several jobs into one table.
        many_jobs = "rule" in record
        return redact(f"{row['group']}[{clean(file)}]"[:400]) if many_jobs else clean(file)
    said = ",".join(f"{k}={v}" for k, v in sorted(cards.items()))
    return redact(f"{row['group']}[{said}]"[:400])


def _header(line: str) -> tuple[tuple[str, ...], str] | None:
    r"""Give the columns that a line names and what stands between them; None if it is no header.

    Examples
    --------
    >>> _header("s\th:m:s"), _header("s,h:m:s,max_rss"), _header("s,max_rss")
    ((('s', 'h:m:s'), '\t'), (('s', 'h:m:s', 'max_rss'), ','), None)
    """
    line = line.rstrip("\r")
    separator = "," if "\t" not in line and "," in line else "\t"
    columns = tuple(part.strip() for part in _fields(line, separator))
    figures = "s" in columns and not _MEASURED.isdisjoint(columns)
    clock = "h:m:s" in columns
    told = clock or figures if separator == "\t" else clock and figures
    return (columns, separator) if told and len(set(columns)) == len(columns) else None


def _fields(text: str, separator: str) -> list[str]:
    """Cut a row; Snakemake quotes nothing, what writes commas does."""
    if separator == "\t":
        return text.rstrip("\r").split("\t")
    try:
        return next(csv.reader([text.rstrip("\r")]), [""])
    except csv.Error:
        return text.split(separator)


def entries(file: InputFile) -> Iterator[Entry]:
    """Give (line, record or None, why not); (line, None, None) is a header without rows.

    Raises
    ------
    BadInput
        If the file is empty or no benchmark.
    """
    columns: tuple[str, ...] | None = None
    separator = "\t"
    held, first, seen, lines = "", 0, False, False
    for number, line in file.lines():
        if not line.strip() and not held:
            continue
        if not held and line.lstrip().startswith("{"):
            yield (number, *_json(line))
            seen = lines = True
            continue
        found = _header(line)
        if found is not None:
            if held:
                yield first, None, "the row is cut"
            (columns, separator), held = found, ""
            continue
        if columns is None:
            if lines:
                yield number, None, "not a JSON object"
                continue
            raise BadInput(
                f"{file.name} is not a Snakemake benchmark: its first line names neither h:m:s "
                "nor s and a figure",
                hint="check the file",
            )
        seen = True
        text, held = (f"{held}\n{line}", "") if held else (line, "")
        first = first if text is not line else number
        fields = _fields(text, separator)
        if len(fields) < len(columns) and "params" in columns:
            # The text of an object may hold line breaks.
            if number - first < _BROKEN_LINES and not _starts(line, text):
                held = text
                continue
            if text is not line and _starts(line, text):
                yield first, None, "the row is cut"
                text, fields, first = line, _fields(line, separator), number
        yield (first, *_tsv(columns, fields))
    if held:
        yield first, None, "the row is cut"
    if not seen:
        if columns is None:
            raise BadInput(f"{file.name} is empty", hint="the job may not have ended")
        yield 1, None, None


def _starts(line: str, text: str) -> bool:
    """Say whether a line that should go on with a row begins another."""
    if text == line:
        return False
    fields = line.split("\t", 2)
    return len(fields) == 3 and any(text.count(":") == 2 for text in fields[:2])


def _tsv(
    columns: tuple[str, ...], fields: list[str]
) -> tuple[Mapping[str, Any] | None, str | None]:
    while len(fields) > len(columns) and not fields[-1].strip():
        fields = fields[:-1]
    if len(fields) != len(columns):
        return None, f"{len(fields)} fields for {len(columns)} columns"
    return dict(zip(columns, fields, strict=True)), None


def _json(line: str) -> tuple[Mapping[str, Any] | None, str | None]:
    if len(line) > _LINE_CHARS:
        return None, "a line of more than 16 MiB"
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        return None, f"not JSON: {str(error)[:80]}"
    return (record, None) if isinstance(record, dict) else (None, "not a JSON object")
