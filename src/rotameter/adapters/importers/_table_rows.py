"""Tables as streams of chunks: delimited text, JSON lines and lists, Parquet.

A chunk is a run of records as Arrow columns, with the line (or number) of each, so that memory
stays small and a record that is refused can be named.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from rotameter.adapters.importers._table_ends import OPEN_END, Fed, is_cut, may_be_cut
from rotameter.errors import BadInput
from rotameter.profiler.parquet_words import why_unreadable

if TYPE_CHECKING:
    from rotameter.adapters.importers.inputs import InputFile

__all__ = [
    "Chunk",
    "column_of",
    "delimited",
    "flat",
    "json_records",
    "parquet",
    "records_to_chunks",
    "said_sign",
    "sniff_delimiter",
]

CHUNK_ROWS = 20_000
_FIELD_LIMIT = 1 << 20
_JSON_LIMIT_BYTES = 512 << 20
_DEPTH = 8
_COLUMNS_LIMIT = 5_000
_DELIMITERS = ",;\t|"
_PEERS = 1_000
_SAID_SIGN = re.compile(r'\ufeff?"?sep=([^"\r\n])"?(?=[\r\n]|$)', re.I)
Reject = Callable[[int | None, str], None]


@dataclass(frozen=True)
class Chunk:
    """Some records: where each one is, and its columns by the table's own names."""

    lines: Sequence[int]
    columns: dict[str, pa.Array]


# -- delimited text ---------------------------------------------------------------------------


def sniff_delimiter(text: str) -> str | None:
    r"""Find what separates the columns of a text: the sign that all lines have equally often.

    Examples
    --------
    >>> sniff_delimiter("a;b;c\n1,5;2;3\n"), sniff_delimiter("just words\nand more\n")
    (';', None)
    """
    lines = [line for line in text.split("\n")[:50] if line.strip() and not line.startswith("#")]
    if not lines:
        return None
    best: tuple[float, int, str] | None = None
    for sign in _DELIMITERS:
        try:
            rows = list(csv.reader(lines[:20], delimiter=sign))
        except csv.Error:
            continue
        width = len(rows[0])
        if width < 2:
            continue
        same = sum(len(row) == width for row in rows) / len(rows)
        rank = (same, width, sign)
        if best is None or rank > best:
            best = rank
    return best[2] if best and best[0] >= 0.5 else None


def said_sign(text: str) -> str | None:
    r"""Give the sign that a spreadsheet names in a line of its own, before the header.

    Examples
    --------
    >>> said_sign("sep=;\r\na;b\r\n"), said_sign("sep=,b\n1,2\n")
    (';', None)
    """
    match = _SAID_SIGN.match(text)
    return match[1] if match else None


def delimited(
    file: InputFile,
    delimiter: str,
    reject: Reject,
    names: Sequence[str] | None = None,
    warn: Callable[[str], None] = lambda text: None,
) -> Iterator[Chunk]:
    """Read text with a header line (or with ``names``), chunk by chunk.

    Rows of another length than the header's are refused, as is a header that comes again. Where
    the last line has no end, ``warn`` is told, unless its last value is as long as others are.
    """
    csv.field_size_limit(_FIELD_LIMIT)
    utf16 = file.head[:2] in (b"\xff\xfe", b"\xfe\xff")
    with file.open() as stream:
        text = io.TextIOWrapper(
            stream,
            encoding="utf-16" if utf16 else "utf-8-sig",
            errors="replace" if utf16 else "surrogateescape",
            newline="",
        )
        fed = Fed(_fed(text, file.spelled))
        reader = csv.reader(fed, delimiter=delimiter)
        header = list(names) if names else None
        folded = file.head.partition(b"\n")[0].endswith(b"\r")
        lines: list[int] = []
        rows: list[list[str]] = []
        peers: list[str] = []
        short = False
        for row in _rows(reader, reject):
            short = False
            if reader.line_num == 1 and said_sign(delimiter.join(row)):
                continue
            if header is None and (not any(row) or row[0].startswith("#")):
                continue
            if header is None:
                header = _header(row, file.name)
                continue
            if len(row) != len(header):
                extra = row[len(header) :]
                if len(row) < len(header) or any(extra):
                    reject(reader.line_num, f"{len(row)} fields, the header has {len(header)}")
                    short = len(row) < len(header)
                    continue
                row = row[: len(header)]
            if row == header:
                reject(reader.line_num, "the header again")
                continue
            rows.append(row)
            lines.append(reader.line_num)
            if len(rows) > CHUNK_ROWS:  # the last row waits: it may be the one that is cut
                yield _text_chunk(header, lines[:-1], rows[:-1], folded)
                peers = [one[-1] for one in rows[-_PEERS:-1]]
                lines, rows = lines[-1:], rows[-1:]
        if header is None:
            raise BadInput(f"{file.name} is empty", hint="check what should have written it")
        if fed.is_open and reader.line_num > 1:
            whole = not short and lines[-1:] == [reader.line_num]
            if short or (whole and _ends_open(rows, peers)):
                warn(OPEN_END)
        yield _text_chunk(header, lines, rows, folded)


def _ends_open(rows: list[list[str]], peers: Sequence[str]) -> bool:
    """Whether the last value may be cut; one that is for certain is taken out."""
    others = [*peers, *(row[-1] for row in rows[-_PEERS - 1 : -1])]
    last = rows[-1][-1]
    if is_cut(last, others):
        rows[-1] = [*rows[-1][:-1], ""]
        return True
    return may_be_cut(last, others)


def _fed(text: Iterable[str], spelled: Callable[[str], str]) -> Iterator[str]:
    for line in text:
        line = line if line.isascii() else spelled(line)
        yield line.replace("\0", "") if "\0" in line else line


def _rows(reader: Any, reject: Reject) -> Iterator[list[str]]:
    while True:
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            reject(reader.line_num, f"not a row: {error}")
            continue
        if row and (len(row) > 1 or row[0].strip()):
            yield row


def _header(row: Sequence[str], name: str) -> list[str]:
    """Give each column a name of its own."""
    if len(row) > _COLUMNS_LIMIT:
        raise BadInput(f"{name} has {len(row):,} columns: refused", hint="keep the ones needed")
    made: list[str] = []
    seen: dict[str, int] = {}
    for number, cell in enumerate(row, 1):
        word = cell.strip() or f"column{number}"
        seen[word] = seen.get(word, 0) + 1
        made.append(word if seen[word] == 1 else f"{word}.{seen[word] - 1}")
    return made


def _text_chunk(
    header: Sequence[str], lines: list[int], rows: Sequence[Sequence[str]], folded: bool
) -> Chunk:
    columns = list(zip(*rows, strict=True)) if rows else [() for _ in header]
    made = {}
    for name, cells in zip(header, columns, strict=True):
        if folded:
            cells = tuple(c.replace("\r\n", "\n") if "\r" in c else c for c in cells)
        made[name] = pa.array(cells, pa.string())
    return Chunk(lines, made)


# -- records ----------------------------------------------------------------------------------


def flat(record: dict[str, Any], prefix: str = "", depth: int = 0) -> dict[str, Any]:
    """Flatten nested objects to dotted names; lists stay, as text of JSON.

    Examples
    --------
    >>> flat({"a": 1, "used": {"mem": "5kb"}, "tags": ["x"]})
    {'a': 1, 'used.mem': '5kb', 'tags': '["x"]'}
    """
    out: dict[str, Any] = {}
    for key, value in record.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict) and depth < _DEPTH:
            out.update(flat(value, f"{name}.", depth + 1))
        elif isinstance(value, (dict, list)):
            out[name] = json.dumps(value, ensure_ascii=True, default=str)
        else:
            out[name] = value
    return out


def column_of(values: Sequence[Any]) -> pa.Array:
    """Make one column of mixed values: numbers where all are, else text."""
    kinds = {type(value) for value in values if value is not None}
    if kinds == {bool}:
        return pa.array(values, pa.bool_())
    try:
        if kinds == {int}:
            return pa.array(values, pa.int64())
        if kinds and kinds <= {int, float}:
            return pa.array([None if v is None else float(v) for v in values], pa.float64())
    except (OverflowError, pa.ArrowInvalid):
        pass  # Numbers beyond 64 bits stay text, as they are.
    return pa.array([_text(value) for value in values], pa.string())


def _text(value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "replace").decode()
    if isinstance(value, bool):
        return "true" if value else "false"
    try:
        return str(value)
    except ValueError:  # an integer of thousands of digits
        return "inf"


def records_to_chunks(records: Iterable[tuple[int, dict[str, Any]]]) -> Iterator[Chunk]:
    """Gather records into chunks; each chunk has the columns that its records have."""
    lines: list[int] = []
    rows: list[dict[str, Any]] = []
    for number, record in records:
        rows.append(record)
        lines.append(number)
        if len(rows) >= CHUNK_ROWS:
            yield _record_chunk(lines, rows)
            lines, rows = [], []
    yield _record_chunk(lines, rows)


def _record_chunk(lines: list[int], rows: Sequence[dict[str, Any]]) -> Chunk:
    names: dict[str, None] = {}
    for row in rows:
        names.update(dict.fromkeys(row))
    if len(names) > _COLUMNS_LIMIT:
        raise BadInput(f"records with {len(names):,} names: refused", hint="it is no table")
    return Chunk(lines, {name: column_of([row.get(name) for row in rows]) for name in names})


def json_records(file: InputFile, reject: Reject) -> Iterator[tuple[int, dict[str, Any]]]:
    """Give the records of JSON lines, a JSON list, or a document that holds a list of them."""
    start = file.head_text.lstrip()[:1]
    if start == "{" and _is_lines(file.head_text):
        yield from _json_lines(file, reject)
    elif start == "[":
        yield from _json_list(file, reject)
    else:
        yield from _json_document(file, reject)


def _is_lines(head: str) -> bool:
    """Whether the first line is an object of its own (one object over many lines is none)."""
    first, _, rest = head.lstrip().partition("\n")
    try:
        document = json.loads(first)
    except (ValueError, RecursionError):
        return False
    return isinstance(document, dict) and (bool(rest.strip()) or not _holder(document))


def _json_lines(file: InputFile, reject: Reject) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in file.lines():
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            reject(number, "not a JSON object")
            continue
        if isinstance(record, dict):
            yield number, flat(record)
        else:
            reject(number, "not a JSON object")


def _json_list(file: InputFile, reject: Reject) -> Iterator[tuple[int, dict[str, Any]]]:
    text = file.read_text(_JSON_LIMIT_BYTES)
    decoder = json.JSONDecoder()
    at = text.find("[") + 1
    number = 0
    while True:
        while at < len(text) and text[at] in " \t\r\n,":
            at += 1
        if at >= len(text) or text[at] == "]":
            if at >= len(text):
                reject(None, "the list is not closed: the file was cut")
            return
        number += 1
        try:
            record, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            reject(number, "not JSON from here on: the file was cut or damaged")
            return
        if isinstance(record, dict):
            yield number, flat(record)
        else:
            reject(number, "not a JSON object")


def _json_document(file: InputFile, reject: Reject) -> Iterator[tuple[int, dict[str, Any]]]:
    try:
        document = json.loads(file.read_text(_JSON_LIMIT_BYTES))
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else "not JSON"
        raise BadInput(f"{file.name} is {reason}", hint="was it cut? copy it again") from None
    if not isinstance(document, dict):
        raise BadInput(f"{file.name} holds no records", hint="a list of objects is needed")
    held = _holder(document)
    for number, record in enumerate([document] if held is None else held, 1):
        if isinstance(record, dict):
            yield number, flat(record)
        else:
            reject(number, "not a JSON object")


def _holder(document: dict[str, Any], depth: int = 0) -> list[Any] | None:
    """Find the list of records in a document, or a mapping of names to records."""
    lists = [v for v in document.values() if isinstance(v, list) and v and isinstance(v[0], dict)]
    if lists:
        return max(lists, key=len)
    inner = [(key, value) for key, value in document.items() if isinstance(value, dict)]
    for _, value in inner:
        if value and all(isinstance(v, dict) for v in value.values()):
            return [{"id": key, **record} for key, record in value.items()]
    if depth < 4:
        for _, value in inner:
            found = _holder(value, depth + 1)
            if found is not None:
                return found
    if any(isinstance(v, list) and not v for v in document.values()):
        return []
    return None


# -- Parquet ----------------------------------------------------------------------------------


def parquet(file: InputFile) -> Iterator[Chunk]:
    """Read a Parquet file, row group by row group; nested columns get dotted names."""
    import pyarrow.parquet as pq

    try:
        source: Any = file.path if file.path is not None else io.BytesIO(file.read_bytes())
        number = 1
        with pq.ParquetFile(source) as opened:
            if len(opened.schema_arrow.names) > _COLUMNS_LIMIT:
                raise BadInput(f"{file.name} has too many columns", hint="keep the ones needed")
            if not opened.metadata.num_rows:
                empty = opened.schema_arrow.empty_table()
                yield Chunk([], {n: _plain_array(empty[n]) for n in empty.column_names})
            for batch in opened.iter_batches(batch_size=CHUNK_ROWS * 5):
                table = pa.Table.from_batches([batch])
                for _ in range(4):
                    if any(pa.types.is_struct(f.type) for f in table.schema):
                        table = table.flatten()
                lines = range(number, number + len(table))
                number += len(table)
                yield Chunk(lines, {n: _plain_array(table[n]) for n in table.column_names})
    except (pa.ArrowException, OSError, ValueError, KeyError, OverflowError) as error:
        held = Path(file.path) if file.path is not None else file.read_bytes()
        raise BadInput(f"{file.name} {why_unreadable(held, error)}", hint="copy it again") from None


def _plain_array(column: pa.ChunkedArray) -> pa.Array:
    array = column.combine_chunks()
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    kind = array.type
    if pa.types.is_dictionary(kind):
        array, kind = array.dictionary_decode(), kind.value_type
    if pa.types.is_map(kind):
        return array
    if pa.types.is_large_string(kind) or str(kind) == "string_view":
        return array.cast(pa.string())
    if pa.types.is_decimal(kind):
        return array.cast(pa.float64())
    if pa.types.is_nested(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return column_of([v if v is None else str(v) for v in array.to_pylist()])
    return array
