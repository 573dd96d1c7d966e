"""OpenTelemetry traces: attempts as spans, in the JSON of OTLP.

The format: https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding. Names follow the
semantic conventions of OpenTelemetry where there is one (``service.name`` is the worker,
``host.name``, ``process.exit.code``, ``user.name``); all other columns of an attempt are
attributes ``rotameter.<column>``, so that the importer gives the same attempts again.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from rotameter import __version__
from rotameter.errors import TraceError, UsageError
from rotameter.profiler.live.redact import clean_name, clip, redact

if TYPE_CHECKING:
    from rotameter.profiler.trace import Trace

__all__ = ["Exporter"]

_OWN = "rotameter."
_NAMED = {"exit_code": "process.exit.code", "user": "user.name"}
_UNKNOWN_SERVICE = "unknown_service"
_INTERNAL = 1
_OK, _ERROR = 1, 2
_GOOD = ("ok", "cached")
_BAD = ("failed", "oom", "timeout", "preempted", "worker_lost")
_CHUNK = 4096
# What a span has a field of its own for.
_PLACED = ("started_ns", "ended_ns", "worker", "host", "group", "parent", "error", "features")


class Exporter:
    """Writes one OTLP document; a path that ends in ``.gz`` is compressed.

    Examples
    --------
    >>> import tempfile, json
    >>> from rotameter.profiler.trace import Trace
    >>> trace = Trace.from_tables({"tasks": [{"task_id": "a", "group": "load", "outcome": "ok"}]})
    >>> with tempfile.TemporaryDirectory() as place:
    ...     Exporter().write(trace, f"{place}/trace.json")
    ...     made = json.loads(open(f"{place}/trace.json").read())
    >>> made["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["name"]
    'load'
    """

    name = "otlp"

    def write(self, trace: Trace, path: str, **options: Any) -> None:
        """Write the attempts of a trace as spans.

        Parameters
        ----------
        trace : Trace
        path : str
            The file; one that is there is replaced, whole or not at all.

        Raises
        ------
        UsageError
            If an option is given: there are none.
        TraceError
            If the file cannot be written.
        """
        if options:
            first = sorted(options)[0]
            raise UsageError(f"the exporter otlp has no option {first!r}", hint="it has none")
        target = Path(path)
        draft = target.with_name(f".{target.name}.{os.getpid()}.tmp")
        try:
            with _open(draft, packed=target.suffix == ".gz") as stream:
                for text in _document(trace):
                    stream.write(text.encode("ascii"))
            draft.replace(target)
        except OSError as error:
            with contextlib.suppress(OSError):
                draft.unlink()
            raise TraceError(
                f"cannot write {path}: {error.strerror or error}", hint="check the folder"
            ) from None


@contextlib.contextmanager
def _open(path: Path, *, packed: bool) -> Iterator[Any]:
    with path.open("wb") as stream:
        if packed:  # without name and time, so that equal traces give equal files
            with gzip.GzipFile(filename="", fileobj=stream, mode="wb", mtime=0) as inner:
                yield inner
        else:
            yield stream


def _document(trace: Trace) -> Iterator[str]:
    """Give the document piece by piece."""
    plan = _Plan(trace)
    yield '{"resourceSpans":['
    for number, (place, rows) in enumerate(plan.places.items()):
        head = json.dumps({"attributes": _resource(place, trace.meta)}, separators=(",", ":"))
        scope = json.dumps({"name": "rotameter", "version": __version__}, separators=(",", ":"))
        yield ("," if number else "") + f'{{"resource":{head},"scopeSpans":[{{"scope":{scope},'
        yield '"spans":['
        for at in range(0, len(rows), _CHUNK):
            some = rows[at : at + _CHUNK]
            spans = plan.tasks.take(pa.array(some)).to_pylist()
            texts = (
                json.dumps(plan.span(index, row), separators=(",", ":"))
                for index, row in zip(some, spans, strict=True)
            )
            yield ("," if at else "") + ",".join(texts)
        yield "]}]}"
    yield "]}\n"


def _resource(place: tuple[str | None, str | None], meta: Mapping[str, Any]) -> list[Any]:
    worker, host = place
    facts = {
        "service.name": worker or _UNKNOWN_SERVICE,
        "host.name": host,
        f"{_OWN}engine": meta.get("engine"),
        f"{_OWN}time_base": meta.get("time_base"),
    }
    return [_attribute(k, v) for k, v in facts.items() if isinstance(v, str) and v]


class _Plan:
    """Which span each attempt is, where it stands and what it rests on."""

    def __init__(self, trace: Trace) -> None:
        self.tasks = trace.table("tasks")
        columns = {
            name: self.tasks[name].to_pylist()
            for name in ("task_id", "attempt", "run_id", "started_ns", "worker", "host")
        }
        self.started = columns["started_ns"]
        self.trace_id = _trace_id(columns)
        keys = zip(columns["task_id"], columns["attempt"], columns["run_id"], strict=True)
        self.ids = [self._id("task", number, *key) for number, key in enumerate(keys)]
        self.attempts: dict[str, list[int]] = {}
        self.places: dict[tuple[str | None, str | None], list[int]] = {}
        for number, task_id in enumerate(columns["task_id"]):
            if task_id is not None:
                self.attempts.setdefault(task_id, []).append(number)
            place = (columns["worker"][number], columns["host"][number])
            self.places.setdefault(place, []).append(number)
        self.before: dict[str, list[str]] = {}
        deps = trace.table("deps")
        pairs = zip(deps["task_id"].to_pylist(), deps["depends_on"].to_pylist(), strict=True)
        for task_id, other in pairs:
            if task_id is not None and other is not None:
                self.before.setdefault(task_id, []).append(other)
        self.moments = _moments(trace)

    def _id(self, *parts: Any) -> str:
        text = "\0".join((self.trace_id, *map(str, parts)))
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def _other(self, task_id: str, by_ns: int | None) -> str:
        """Give the span of a task: its last attempt that began by a moment, else its first."""
        rows = self.attempts.get(task_id)
        if not rows:
            return self._id("outside", task_id)
        begun = [
            (start, row)
            for row in rows
            if by_ns is not None and (start := self.started[row]) is not None and start <= by_ns
        ]
        return self.ids[max(begun)[1] if begun else rows[0]]

    def span(self, number: int, row: Mapping[str, Any]) -> dict[str, Any]:
        """Give the span of one attempt."""
        start, end, parent = row["started_ns"], row["ended_ns"], row["parent"]
        made: dict[str, Any] = {"traceId": self.trace_id, "spanId": self.ids[number]}
        if parent is not None:
            made["parentSpanId"] = self._other(parent, start)
        made |= {
            "name": row["group"] or row["task_id"] or "task",
            "kind": _INTERNAL,
            "startTimeUnixNano": str(max(0, start or 0)),
            "endTimeUnixNano": str(max(0, end or 0)),
            "attributes": list(_attributes(row, outside=parent not in self.attempts)),
        }
        moments = self.moments.get((row["task_id"], row["attempt"]))
        if moments:
            made["events"] = moments
        links = self.before.get(row["task_id"])
        if links:
            made["links"] = [
                {
                    "traceId": self.trace_id,
                    "spanId": self._other(other, start),
                    "attributes": [_attribute(f"{_OWN}depends_on", other)],
                }
                for other in links
            ]
        status = _status(row)
        if status:
            made["status"] = status
        return made


def _trace_id(columns: Mapping[str, Sequence[Any]]) -> str:
    """Give an id that the same attempts always have."""
    digest = hashlib.sha256(b"rotameter")
    for row in zip(columns["task_id"], columns["attempt"], columns["started_ns"], strict=True):
        digest.update(repr(row).encode("utf-8", "replace"))
    return digest.hexdigest()[:32]


def _moments(trace: Trace) -> dict[tuple[Any, Any], list[dict[str, Any]]]:
    """Give the instants that were marked inside attempts."""
    table = trace.table("intervals")
    instant = pc.and_(pc.equal(table["kind"], "span"), pc.equal(table["start_ns"], table["end_ns"]))
    found: dict[tuple[Any, Any], list[dict[str, Any]]] = {}
    rows = table.filter(pc.fill_null(instant, False))
    for row in rows.select(["task_id", "attempt", "name", "start_ns"]).to_pylist():
        if row["name"] and row["start_ns"] > 0:
            event = {"timeUnixNano": str(row["start_ns"]), "name": row["name"]}
            found.setdefault((row["task_id"], row["attempt"]), []).append(event)
    return found


def _status(row: Mapping[str, Any]) -> dict[str, Any]:
    if row["outcome"] in _GOOD:
        return {"code": _OK}
    if row["outcome"] not in _BAD:
        return {}
    return {"code": _ERROR, **({"message": row["error"]} if row["error"] else {})}


def _attributes(row: Mapping[str, Any], *, outside: bool) -> Iterator[dict[str, Any]]:
    """Give what a span has no field for, and what its fields would not give back exactly."""
    for column in ("group", "outcome_kind", "wall_s"):
        if row[column] is None:  # the importer would infer it from the span
            yield {"key": f"{_OWN}{column}", "value": {}}
    for column, value in row.items():
        if value is None or (column in _PLACED and not _lost(row, column, outside=outside)):
            continue
        name = _NAMED.get(column, f"{_OWN}{column}")
        if column == "features":
            pairs = [_attribute(k, v) for k, v in value if v is not None and math.isfinite(v)]
            if pairs:
                yield {"key": name, "value": {"kvlistValue": {"values": pairs}}}
        elif not isinstance(value, float) or math.isfinite(value):
            yield _attribute(name, value)


def _lost(row: Mapping[str, Any], column: str, *, outside: bool) -> bool:
    """Say whether a value would not come back from the span's own fields."""
    value = row[column]
    if column in ("started_ns", "ended_ns"):
        return bool(value <= 0)  # 0 is unknown in OTLP
    if column == "parent":
        return outside
    if column == "features":
        return True
    if column == "error":
        first = clip(redact(value.split("\n", 1)[0]))
        return row["outcome"] not in _BAD or not value or first != value
    if column == "worker":
        return value.startswith(_UNKNOWN_SERVICE) or clean_name(value) != value or not value.strip()
    return not value.strip() or clean_name(value) != value


def _attribute(key: str, value: Any) -> dict[str, Any]:
    kind: dict[str, Any]
    if isinstance(value, bool):
        kind = {"boolValue": value}
    elif isinstance(value, int):
        kind = {"intValue": str(value)}  # 64 bits do not fit into the numbers of JSON
    elif isinstance(value, float):
        kind = {"doubleValue": value}
    else:
        kind = {"stringValue": str(value)}
    return {"key": key, "value": kind}
