"""From the bytes of a ``sacct`` listing to columns of text, block by block.

A block whose lines all have the right number of fields goes to Arrow as a whole. In any other,
lines are put together and fields aligned one by one: sacct escapes nothing, so that a
SubmitLine, Comment or JobName may hold the delimiter and the end of a line.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rotameter.adapters.importers._slurm_align import align
from rotameter.adapters.importers._slurm_blocks import Rows, after, blocks, fast, from_lists
from rotameter.adapters.importers._slurm_columns import Layout, fits, from_names, header
from rotameter.adapters.importers._slurm_content import infer
from rotameter.adapters.importers._slurm_values import JOB_ID
from rotameter.errors import BadInput

if TYPE_CHECKING:
    from rotameter.adapters.importers.building import Builder
    from rotameter.adapters.importers.inputs import InputFile

__all__ = ["head_layout", "read_rows"]

_OPEN_END = (
    "the last line has no end: it may be cut, its last value or job with it; list the jobs again"
)
_UNIT = "\x1f"
_SAMPLE = 2000
_SEARCHED = 20
_KEPT_LIMIT = 100_000
_OF_LINES = frozenset({"comment", "admincomment", "systemcomment", "submitline", "extra"})
"""Text that often has several lines; a job's name or folder hardly ever has."""
_COMPOUND = ("^|^", ";|;", "@|@", "~|~")


@dataclass(slots=True)
class _Reader:
    file: InputFile
    build: Builder
    layout: Layout | None
    padded: int = 0
    pending: list[str] = field(default_factory=list)
    began: int = 0
    kept: str = ""
    kept_at: int = 0
    unfinished: bool = False
    strays: list[tuple[int, str]] = field(default_factory=list)


def read_rows(
    file: InputFile, build: Builder, *, columns: str | None = None, delimiter: str | None = None
) -> Iterator[Rows]:
    """Give the rows of a file; what is no row is rejected with its line.

    Raises
    ------
    BadInput
        If no job id can be found in it.
    """
    given = _given(columns, delimiter)
    reader = _Reader(file, build, given)
    found = False
    for number, block in blocks(file):
        if reader.layout is None or not found:
            text = block[: 4 << 20].decode("utf-8", "replace")
            layout, skip = head_layout(text, delimiter, given)
            if layout is None:
                raise BadInput(
                    f"{file.name}: its columns cannot be told",
                    hint="keep sacct's header line, or name them: --opt columns=JobID,State,…",
                )
            _say_how(layout, build)
            reader.layout, found = layout, True
            number += skip
            block = after(block, skip)
        yield from _block_rows(reader, number, block)
    yield from _flush(reader, last=True)
    yield from _stray_rows(reader)
    if reader.padded:
        rows = "1 row has" if reader.padded == 1 else f"{reader.padded:,} rows have"
        build.warn(f"{rows} fewer fields than the header: the last are unknown")


def _given(columns: str | None, delimiter: str | None) -> Layout | None:
    if columns is None:
        return None
    names = [name.strip() for name in columns.replace("|", ",").split(",")]
    made = from_names(names, delimiter or "|", how="given")
    if made is None:
        raise BadInput(
            "columns= names no JobID, or nothing of the job",
            hint="such as --opt columns=JobID,State,Elapsed",
        )
    return made


def _say_how(layout: Layout, build: Builder) -> None:
    if layout.how in ("header", "given"):
        return
    said = ", ".join(f"{i} {name}" for i, name in enumerate(layout.names, 1) if name)
    how = "their contents" if layout.how == "content" else layout.how
    build.warn(f"there is no header: columns are told by {how} ({said})")


def head_layout(
    text: str, delimiter: str | None = None, given: Layout | None = None
) -> tuple[Layout | None, int]:
    """Tell the layout from the first lines, and how many of them are no rows."""
    lines = text.split("\n")
    for at, line in enumerate(lines[:_SEARCHED]):
        after = lines[at + 1] if at + 1 < len(lines) else ""
        made = header(line, after, delimiter)
        if made is not None:
            return made, at + (2 if made.spans else 1)
    if given is not None:
        return given, 0
    sample = [line for line in lines[: _SAMPLE + 1][: len(lines) - 1 or 1] if line.strip()]
    marks = [delimiter] if delimiter else [*_COMPOUND, "|", "\t", ";", ","]
    for mark in marks:
        rows = [line.split(mark) for line in sample if mark in line]
        if len(rows) < 0.5 * len(sample) or not rows:
            continue
        sizes = [len(row) for row in rows]
        most = max(set(sizes), key=lambda size: (sizes.count(size), size))
        made = infer([row for row in rows if len(row) == most], mark) if most > 2 else None
        if made is not None and (delimiter or mark not in ",;\t" or "state" in made.names):
            return made, 0
    return None, 0


# -- blocks to rows --------------------------------------------------------------------------------


def _block_rows(reader: _Reader, number: int, block: bytes) -> Iterator[Rows]:
    layout = reader.layout
    assert layout is not None
    if layout.spans or layout.quoted or (layout.delimiter in ",;\t" and b'"' in block):
        yield from _slow(reader, number, block.decode("utf-8", "replace").split("\n"))
        return
    mark = layout.delimiter.encode()
    if len(mark) > 1:
        unit = _UNIT.encode()
        lines = block.replace(unit, b" ").replace(mark, unit).split(b"\n")
        rows, left = fast(layout, number, lines, unit)
        text = [(at, line.decode("utf-8", "replace").replace(_UNIT, layout.delimiter))
                for at, line in left]  # fmt: skip
    else:
        lines = block.split(b"\n")
        rows, left = fast(layout, number, lines, mark)
        text = [(at, line.decode("utf-8", "replace")) for at, line in left]
    if rows is not None:
        reader.build.records_in += len(rows.lines)
        yield rows
    reader.unfinished = bool(lines[-1])
    yield from _gathered(reader, _joined(reader, text))


def _slow(reader: _Reader, number: int, lines: list[str]) -> Iterator[Rows]:
    """Read columns of fixed width, or fields in quotes."""
    layout = reader.layout
    assert layout is not None
    records = _fixed(reader, layout, number, lines) if layout.spans else _quoted(
        reader, layout, number, lines
    )  # fmt: skip
    yield from _gathered(reader, records)


def _gathered(reader: _Reader, records: Iterator[tuple[int, list[str]]]) -> Iterator[Rows]:
    """Make rows of records, each fitted to its layout."""
    layout = reader.layout
    assert layout is not None
    good: list[list[str]] = []
    at: list[int] = []
    for line, fields in records:
        if reader.layout is not layout:  # another header came: listings were put together
            if (rows := from_lists(layout.names, good, at)) is not None:
                yield rows
            assert reader.layout is not None
            layout, good, at = reader.layout, [], []
        if not fields:
            continue
        reader.build.records_in += 1
        row = _fitted(reader, layout, line, fields)
        if row is not None:
            good.append(row)
            at.append(line)
    if (rows := from_lists(layout.names, good, at)) is not None:
        yield rows


def _fitted(reader: _Reader, layout: Layout, line: int, fields: list[str]) -> list[str] | None:
    """Give a record as many fields as there are columns, or refuse it."""
    wide = len(layout.names)
    row: list[str] | None = None
    if len(fields) == wide + 1 and not fields[-1] and _is_job(layout, fields):
        row = fields[:-1]
    elif len(fields) > wide:
        row = align(layout, fields)
    elif _is_job(layout, fields):
        reader.padded += len(fields) < wide
        row = fields + [""] * (wide - len(fields))
    if row is None:
        reason = f"{len(fields)} fields for {wide} columns, or no job id"
        reader.build.reject(reader.file.name, line, reason)
    return row


def _is_job(layout: Layout, fields: Sequence[str]) -> bool:
    return len(fields) > layout.job and JOB_ID.fullmatch(fields[layout.job].strip()) is not None


def _fixed(
    reader: _Reader, layout: Layout, number: int, lines: list[str]
) -> Iterator[tuple[int, list[str]]]:
    """Cut lines of fixed width; what sacct has cut short ends in ``+``."""
    for line_number, line in enumerate(lines, number):
        if not line.strip() or set(line) <= {"-", " "} or header(line, "-- --"):
            continue
        edges = [start for start, _ in layout.spans]
        ends = [*[start - 1 for start in edges[1:]], len(line)]
        fields = [line[a:b].strip() for a, b in zip(edges, ends, strict=True)]
        if fields[layout.job].endswith("+"):
            reader.build.records_in += 1
            reader.build.reject(reader.file.name, line_number, "the job id is cut short")
            continue
        if any(value.endswith("+") for value in fields):
            reader.build.warn("values ending in + were cut short by sacct: use sacct -P")
        yield line_number, fields


def _quoted(
    reader: _Reader, layout: Layout, number: int, lines: list[str]
) -> Iterator[tuple[int, list[str]]]:
    rows = csv.reader((f"{line}\n" for line in lines), delimiter=layout.delimiter)
    while True:
        line = number + rows.line_num
        try:
            fields = next(rows)
        except StopIteration:
            return
        except csv.Error as error:
            reader.build.records_in += 1
            reader.build.reject(reader.file.name, line, str(error))
            continue
        if any(fields) and header(layout.delimiter.join(fields), "", layout.delimiter) is None:
            yield line, fields


def _joined(reader: _Reader, lines: Sequence[tuple[int, str]]) -> Iterator[tuple[int, list[str]]]:
    """Put the lines of one record together: a record begins where a job id stands."""
    for at, line in lines:
        if not line.strip():
            continue
        layout = reader.layout
        assert layout is not None
        fields = _first_fields(reader, layout, line)
        if fields:
            yield reader.began, reader.pending
            reader.pending, reader.began = fields, reader.kept_at or at
            reader.kept, reader.kept_at = "", 0
        elif (made := header(line)) is not None:
            _settle_kept(reader, layout)
            yield reader.began, reader.pending
            reader.pending, reader.layout = [], made
        elif _foreign(line, layout):
            reader.strays.append((at, line))
        else:
            _continue(reader, layout, at, line)


def _first_fields(reader: _Reader, layout: Layout, line: str) -> list[str]:
    """Give the fields of a record that begins with this line, or with the lines kept before it."""
    alone = line.split(layout.delimiter)
    begins = _begins(layout, alone, reader.pending)
    if not reader.kept:
        return alone if begins else []
    both = f"{reader.kept}\n{line}".split(layout.delimiter)
    whole = begins and len(alone) >= len(layout.names)
    if _begins(layout, both, reader.pending) and not (whole and _ends_record(reader, layout)):
        return both
    if begins:
        _settle_kept(reader, layout)
        return alone
    return []


def _ends_record(reader: _Reader, layout: Layout) -> bool:
    """Say whether kept lines belong to the record before, where the next line is whole alone."""
    first, last = layout.names[0], layout.names[-1]
    if layout.delimiter in reader.kept or 0 not in layout.free:
        return True
    open_ended = bool(reader.pending) and len(layout.names) - 1 in layout.free
    return open_ended and (last in _OF_LINES or first not in _OF_LINES)


def _settle_kept(reader: _Reader, layout: Layout) -> None:
    """Give lines that begin no record to the record before, or refuse them."""
    kept, at = reader.kept, reader.kept_at
    reader.kept, reader.kept_at = "", 0
    if not kept:
        return
    if reader.pending and (len(layout.names) - 1 in layout.free):
        _append(reader, layout, kept)
        return
    reader.build.records_in += 1
    reader.build.reject(reader.file.name, at, "no job id in its column")


def _append(reader: _Reader, layout: Layout, line: str) -> None:
    more = line.split(layout.delimiter)
    reader.pending[-1] += "\n" + more[0]
    reader.pending += more[1:]


def _continue(reader: _Reader, layout: Layout, at: int, line: str) -> None:
    """Add a line to the record before it, or keep it for the one that follows."""
    open_ended = len(layout.names) - 1 in layout.free
    before = any(i < layout.job for i in layout.free)
    whole = not reader.pending or _whole(layout, reader.pending)
    if reader.pending and (not whole or (open_ended and not before)):
        _append(reader, layout, line)
    elif before and len(reader.kept) < _KEPT_LIMIT:
        reader.kept = f"{reader.kept}\n{line}" if reader.kept else line
        reader.kept_at = reader.kept_at or at
    elif open_ended and reader.pending:
        _settle_kept(reader, layout)
        _append(reader, layout, line)
    else:
        reader.build.records_in += 1
        reader.build.reject(reader.file.name, at, "no job id in its column")


def _whole(layout: Layout, fields: Sequence[str]) -> bool:
    return len(fields) >= len(layout.names) and align(layout, fields) is not None


def _flush(reader: _Reader, *, last: bool) -> Iterator[Rows]:
    """Give the record that was open at the end of a block."""
    layout = reader.layout
    if layout is not None:
        _settle_kept(reader, layout)
    pending, reader.pending = reader.pending, []
    if not pending or layout is None:
        return
    reader.build.records_in += 1
    if last and reader.unfinished and len(pending) < len(layout.names):
        reader.build.reject(reader.file.name, reader.began, "the file ends inside this record")
        return
    if last and reader.unfinished and len(pending) == len(layout.names):
        reader.build.warn(_OPEN_END)
    row = _fitted(reader, layout, reader.began, pending)
    if row and (rows := from_lists(layout.names, [row], [reader.began])) is not None:
        yield rows


def _begins(layout: Layout, fields: Sequence[str], pending: Sequence[str]) -> bool:
    """Say whether a line is the beginning of a record, not the rest of the one before."""
    if not _is_job(layout, fields):
        return len(fields) > len(layout.names) and align(layout, fields) is not None
    if not pending or len(fields) >= len(layout.names):
        return True
    told = [
        fits(kind, value)
        for kind, value in zip(layout.kinds, fields, strict=False)
        if value and kind in ("time", "clock", "state", "exit", "reqmem", "jobid")
    ]
    whole = len(pending) >= len(layout.names) and len(layout.names) - 1 not in layout.free
    return all(told) and (len(told) > 1 or whole)


# -- rows of another form in the same file ---------------------------------------------------------


def _foreign(line: str, layout: Layout) -> bool:
    for mark in (*_COMPOUND, layout.delimiter):
        if line.count(mark) < 4 or (mark == layout.delimiter and len(mark) == 1):
            continue
        fields = line.split(mark)
        if any(JOB_ID.fullmatch(value) for value in fields[:8]):
            return True
    return False


def _stray_rows(reader: _Reader) -> Iterator[Rows]:
    """Read rows that are no rows of the header, run by run, by what is in them."""
    run: list[tuple[int, list[str]]] = []
    mark = ""
    for at, line in [*reader.strays, (0, "")]:
        here = next((m for m in _COMPOUND if m in line), "")
        fields = line.split(here) if here else []
        if run and (here != mark or len(fields) != len(run[0][1])):
            yield from _stray_run(reader, mark, run)
            run = []
        if fields:
            mark = here
            run.append((at, fields))


def _stray_run(reader: _Reader, mark: str, run: list[tuple[int, list[str]]]) -> Iterator[Rows]:
    layout = infer([fields for _, fields in run], mark)
    reader.build.records_in += len(run)
    if layout is None:
        for at, _ in run:
            reader.build.reject(reader.file.name, at, "a row of another form than the header")
        return
    _say_how(layout, reader.build)
    wide = len(layout.names)
    rows = from_lists(layout.names, [fields[:wide] for _, fields in run], [at for at, _ in run])
    if rows is not None:
        yield rows
