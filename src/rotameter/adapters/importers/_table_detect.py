"""What kind of table a file is, whether its columns are clear, and what the user asked for."""

from __future__ import annotations

import contextlib
import csv
import itertools
import json
import re
from collections.abc import Iterable, Iterator
from collections.abc import Mapping as Mapped
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from rotameter.adapters.importers._table_mapping import Mapping, known_mappings, load_mapping
from rotameter.adapters.importers._table_names import target_of, well_known
from rotameter.adapters.importers._table_native import NATIVE, native_kind
from rotameter.adapters.importers._table_rows import _header, _holder, _is_lines, flat, said_sign
from rotameter.adapters.importers._table_rows import sniff_delimiter as guess
from rotameter.adapters.importers._table_schema import table_of
from rotameter.errors import BadInput, UsageError

if TYPE_CHECKING:
    from rotameter.adapters.importers.inputs import InputFile
    from rotameter.values import Head

__all__ = [
    "Settings",
    "Shape",
    "headers_of",
    "shape_of",
    "sureness",
    "too_little",
    "tracer_of",
]

_SIGNS = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "pipe": "|", "space": " "}
_CONTAINERS = ('"Jobs"', '"RECORDS"', '"task_instances"', '"result"', '"data"', '"task_runs"')
_LOOKED = 50
_DAMAGED = 0.3
_LEAST = 0.1
_NEXT = re.compile(r'\s*,\s*(?:"[^"]*"\s*:\s*)?(?=\{)')
_TIMES = frozenset(("started_ns", "ended_ns", "submitted_ns", "wall_s"))
_WHAT = frozenset(("task_id", "group", "outcome", "peak_memory_bytes", "exit_code", "user"))
_ZIPKIN = frozenset(("timestamp", "annotations", "binaryAnnotations"))
# Names by which formats with an importer of their own are known.
_FOREIGN = (
    frozenset(("native_id", "hash", "%cpu", "peak_vmem", "rchar", "wchar", "realtime")),
    frozenset(
        ("JobID", "JobIDRaw", "ReqMem", "AllocCPUS", "Elapsed", "MaxRSS", "TotalCPU", "AllocTRES",
         "ElapsedRaw", "ReqTRES", "NCPUS", "ReqCPUS", "CPUTimeRAW")
    ),
    frozenset(("s", "h:m:s", "max_rss", "max_vms", "max_uss", "max_pss", "io_in", "io_out")),
    frozenset(("ph", "ts", "pid", "tid", "cat", "args")),
    frozenset(("startstops", "thread", "worker", "nbytes")),
)  # fmt: skip


@dataclass(frozen=True)
class Shape:
    """What a file is: delimited, json, parquet, or one of the logs of batch systems."""

    kind: str
    delimiter: str | None = None


@dataclass(frozen=True)
class Settings:
    """The options of one import."""

    given: tuple[str, ...] = ()
    mapping: Mapping | None = None
    save: str | None = None
    delimiter: str | None = None
    decimal: str | None = None
    table: str | None = None
    columns: tuple[str, ...] | None = None

    @classmethod
    def of(cls, options: Mapped[str, Any]) -> Settings:
        """Read the options as given.

        Raises
        ------
        UsageError
            If one of them is wrong.
        """
        given = options.get("map") or ()
        if isinstance(given, Mapped):
            given = [f"{key}={value}" for key, value in given.items()]
        given = (given,) if isinstance(given, str) else tuple(map(str, given))
        sign = options.get("delimiter")
        if sign is not None:
            sign = _SIGNS.get(str(sign), str(sign))
            if len(sign) != 1 or sign in '"\r\n':
                raise UsageError(f"delimiter {sign!r}: not one character", hint="such as ; or tab")
        decimal = options.get("decimal")
        if decimal not in (None, "comma", "point"):
            raise UsageError(f"decimal {decimal!r}", hint="comma or point")
        columns = options.get("columns")
        if isinstance(columns, str):
            columns = [name.strip() for name in columns.split(",")]
        named = options.get("mapping")
        loaded = (
            named if isinstance(named, Mapping) else load_mapping(str(named)) if named else None
        )
        Mapping().with_given(given)  # says what is wrong before anything is read
        return cls(
            given=given,
            mapping=loaded,
            save=options.get("save"),
            delimiter=sign,
            decimal=decimal,
            table=options.get("table"),
            columns=tuple(_header(columns, "columns")) if columns else None,
        )

    @cached_property
    def targets(self) -> frozenset[str]:
        """The columns of ours that the user named."""
        return frozenset(
            target
            for text in self.given
            if (target := target_of(text.partition("=")[0].strip())) and text.partition("=")[2]
        )

    def mapping_for(self, headers: frozenset[str], shape: Shape) -> Mapping:
        """Choose the mapping: the one asked for, the log's, one that knows the columns, or none."""
        if self.mapping is not None:
            return self.mapping
        if shape.kind in NATIVE:
            return known_mappings()[NATIVE[shape.kind]]
        for mapping in known_mappings().values():
            if mapping.knows(headers):
                return mapping
        return Mapping()


def sign_of(text: str) -> str | None:
    r"""Say what separates columns: the sign of all lines, else that which makes a header clear.

    Examples
    --------
    >>> sign_of("task_id,wall_s\na,1,2\nb,3,4\n"), sign_of("words\nand more\n")
    (',', None)
    """
    sign = said_sign(text) or guess(text)
    if sign is not None:
        return sign
    lines = [line for line in text.split("\n")[:50] if line.strip() and not line.startswith("#")]
    for sign in ",;\t|":
        try:
            row = next(csv.reader(lines[:1], delimiter=sign), [])
        except csv.Error:
            continue
        if len(row) > 1 and (table_of(row) or len(well_known(tuple(row))) > 1):
            return sign
    return None


def shape_of(file: InputFile, settings: Settings) -> Shape:
    """Find out what a file is.

    Raises
    ------
    BadInput
        If it is no table.
    """
    if file.head[:4] == b"PAR1":
        return Shape("parquet")
    text = file.head_text
    if not text.strip():
        raise BadInput(f"{file.name} is empty", hint="check what should have written it")
    if settings.delimiter is not None or settings.columns is not None:
        return Shape("delimited", settings.delimiter or sign_of(text) or ",")
    kind = native_kind(text)
    if kind is not None:
        return Shape(kind)
    if text.lstrip()[:1] in "[{":
        return Shape("json")
    sign = sign_of(text)
    if sign is None:
        raise BadInput(
            f"{file.name} is no table: no sign separates its columns",
            hint="say which with --opt delimiter=…, if it is one",
        )
    return Shape("delimited", sign)


def headers_of(file: InputFile, settings: Settings, shape: Shape) -> list[str]:
    """Give the columns of a file that holds no record."""
    return list(settings.columns or ()) if shape.kind == "delimited" else []


def too_little(found: Mapped[str, Any]) -> bool:
    """Whether what is known of a table's columns is not enough to make tasks of it."""
    return not (_TIMES & set(found))


def sureness(head: Head) -> float:
    """Say how sure it is that a file is a table whose columns are clear."""
    if head.data[:4] == b"PAR1":
        # A damaged one is refused in the words of who reads it.
        return _known_columns(_parquet_columns(head), head.name) or _DAMAGED
    if b"\0" in head.data[:4096] and head.data[:2] not in (b"\xff\xfe", b"\xfe\xff"):
        return 0.0
    text = head.text
    start = text.lstrip()[:1]
    if not start:
        return 0.0
    if start in "[{":
        return _LEAST if tracer_of(text) is not None else _known_columns(_json_columns(text))
    if native_kind(text) is not None:
        return 0.9
    sign = sign_of(text)
    if sign is None:
        return 0.0
    lines = [line for line in text.split("\n") if line.strip() and not line.startswith("#")]
    lines = lines[1:] if said_sign(text) else lines
    row = next(csv.reader(lines[:1], delimiter=sign), [])
    return _known_columns(_header(row, head.name), head.name) if row else 0.0


def tracer_of(text: str) -> str | None:
    """Say whose spans a JSON text holds, in a form that is no OTLP; None if it holds none.

    Their times count microseconds without saying so, and their ids are in two columns: no table
    that can be read as it is.

    Examples
    --------
    >>> tracer_of('[{"traceId": "a", "id": "b", "timestamp": 1714557600000000, "duration": 5}]')
    'Zipkin'
    >>> tracer_of('{"data": [{"traceID": "a", "spans": [{"spanID": "b"}]}]}')
    'Jaeger'
    >>> tracer_of('[{"id": "b", "timestamp": 1714557600, "duration": 5}]')
    """
    if '"traceI' not in text:
        return None
    text = text.lstrip()
    if text[:1] == "[":  # Zipkin's API gives a list of traces, each a list of spans
        text = "[" + text.lstrip("[ \t\r\n")
    if text[:1] not in ("[", "{"):
        return None
    try:
        names = set(_json_columns(text))
    except RecursionError:
        return None
    if {"traceId", "id"} <= names and (
        names & _ZIPKIN or any(name.startswith("localEndpoint.") for name in names)
    ):
        return "Zipkin"
    if {"traceID", "spanID"} <= names or {"traceID", "spans"} <= names:
        return "Jaeger"
    return None


def _known_columns(headers: list[str], name: str = "") -> float:
    if not headers:
        return 0.0
    if any(len(names & set(headers)) >= 2 for names in _FOREIGN):
        return _LEAST
    if table_of(headers, name=name) is not None:
        return 0.8
    given = frozenset(headers)
    if any(mapping.knows(given) for mapping in known_mappings().values()):
        return 0.8
    found = set(well_known(tuple(headers)))
    if found & _TIMES and found & _WHAT and len(found) >= 3:
        return 0.6
    return 0.3 if len(headers) > 1 else 0.0


def _parquet_columns(head: Head) -> list[str]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    if head.path is None:
        return []
    try:
        return list(pq.read_schema(head.path).names)
    except (pa.ArrowException, OSError, ValueError):
        return []


def _json_columns(text: str) -> list[str]:
    """Give the names of the first records in the beginning of a JSON text: one may be sparse."""
    decoder = json.JSONDecoder()
    text = text.lstrip()
    if text[0] == "{" and _is_lines(text):
        return _names(_whole_lines(text))
    if text[0] == "[":
        at = text.find("{")
        if at < 0 or text[1:at].strip():
            return []
        return _names(_whole(text, at, decoder))
    if not any(word in text[:4096] for word in _CONTAINERS):
        return []
    try:
        document = json.loads(text)
    except ValueError:
        return _first_records(text, decoder)
    held = _holder(document) if isinstance(document, dict) else None
    return _names(held or ())


def _names(records: Iterable[Any]) -> list[str]:
    """Give the names that the first records have, in their order."""
    made: dict[str, None] = {}
    for record in itertools.islice(records, _LOOKED):
        if isinstance(record, dict):
            made.update(dict.fromkeys(flat(record)))
    return list(made)


def _whole_lines(text: str) -> Iterator[Any]:
    for line in text.split("\n"):
        with contextlib.suppress(ValueError):  # the last may go on beyond what is seen
            yield json.loads(line)


def _whole(text: str, at: int, decoder: json.JSONDecoder) -> Iterator[Any]:
    """Give the objects of a list from ``at`` on; a key before one is passed over."""
    while True:
        try:
            record, at = decoder.raw_decode(text, at)
        except ValueError:
            return
        yield record
        match = _NEXT.match(text, at)
        if match is None:
            return
        at = match.end()


def _first_records(text: str, decoder: json.JSONDecoder) -> list[str]:
    """Find the first whole records in a document that goes on beyond what is seen."""
    for word in _CONTAINERS:
        at = text.find(word)
        opened = text.find("{", text.find(":", at) + 1) if at >= 0 else -1
        for _ in range(3):
            if opened < 0:
                break
            names = _names(_whole(text, opened, decoder))
            if names:
                return [*names, "id"]
            opened = text.find("{", opened + 1)
    return []
