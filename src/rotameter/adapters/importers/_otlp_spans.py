"""Spans of OTLP, and how they become attempts of tasks."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rotameter.adapters.importers import _otlp_read as read
from rotameter.profiler.live.redact import clean_name, clip, redact
from rotameter.profiler.schema import KINDS, OUTCOMES, TABLES

__all__ = ["OWN", "Resource", "Span", "resource_of", "safe_id", "span_of"]

OWN = "rotameter."
"""Attributes of this prefix hold columns that OpenTelemetry has no name for."""

_TYPES = dict(TABLES["tasks"])
_STANDARD = {
    "process.exit.code": "exit_code",
    "host.name": "host",
    "user.name": "user",
    "enduser.id": "user",
}
_NOISE = re.compile(r"(?:^|[._])(?:port|id|pid|ppid|lineno|line|number|code|version|flags)$")
_ALLOWED = {
    "outcome": OUTCOMES,
    "outcome_kind": ("reported", "inferred"),
    **dict.fromkeys(("peak_memory_kind", "peak_disk_kind", "gpu_kind", "io_kind"), KINDS),
}
_BYTES_LIMIT = 1 << 53
_UNKNOWN_SERVICE = "unknown_service"
_MEMORY = ("MemoryError", "OutOfMemoryError", "OutOfMemoryException")


@dataclass(frozen=True)
class Resource:
    """What made a span: the worker, its instance, its host."""

    service: str | None = None
    instance: str | None = None
    host: str | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Span:
    """One span: its place in the trace, its row and what hangs on it."""

    trace: str | None
    span: str | None
    parent: str | None
    row: dict[str, Any]
    resource: Resource
    links: list[tuple[str | None, str | None, str | None]]
    moments: list[tuple[int, str]]
    numbers: dict[str, float]
    named: str | None = None

    @property
    def mark(self) -> tuple[Any, ...]:
        """By which a span that was sent twice is known."""
        row = self.row
        return self.trace, self.span, row["started_ns"], row["ended_ns"], row["group"], self.named


def resource_of(block: Any) -> Resource:
    """Read a resource block."""
    facts = read.attributes(read.field(block, "resource"))
    service = _name(facts.get("service.name"))
    if service is not None and service.partition(":")[0] == _UNKNOWN_SERVICE:
        service = None  # what SDKs write where nobody gave a name
    host = facts.get("host.name") or facts.get("k8s.node.name") or facts.get("host.id")
    return Resource(service, _name(facts.get("service.instance.id")), _name(host), facts)


def span_of(given: Any, resource: Resource) -> Span:
    """Read one span.

    Raises
    ------
    ValueError
        If it is none, with the reason.
    """
    if not isinstance(given, Mapping):
        raise ValueError("a span that is no object")
    trace = read.hex_id(read.field(given, "traceId"), 16)
    span = read.hex_id(read.field(given, "spanId"), 8)
    found = read.attributes(given)
    own = {k[len(OWN) :]: v for k, v in found.items() if k.startswith(OWN)}
    named = own.get("task_id")
    task = safe_id(named) if isinstance(named, str) and named else None
    if span is None and task is None:
        raise ValueError("a span without a spanId")
    start, end = _times(given)
    row: dict[str, Any] = {
        "started_ns": start,
        "ended_ns": end,
        "source": "otlp",
        "host": resource.host,
    }
    if start is not None and end is not None and end >= start:
        row["wall_s"] = (end - start) / 1e9
    name = read.field(given, "name")
    row["group"] = clean_name(name) if isinstance(name, str) and name else None
    row.update(_outcome(given, found, end))
    for key, column in _STANDARD.items():
        value = _typed(column, found.get(key))
        if value is not None:
            row[column] = value
    row.update(_own(own))
    numbers = {
        clean_name(key): float(value)
        for key, value in found.items()
        if type(value) in (int, float)
        and not key.startswith(OWN)
        and key not in _STANDARD
        and not _NOISE.search(key)
    }
    parent = read.hex_id(read.field(given, "parentSpanId"), 8)
    links, moments = _links(given), _moments(given)
    return Span(trace, span, parent, row, resource, links, moments, numbers, task)


def safe_id(text: str) -> str:
    """Take secrets out of an id and keep different ids different; most come back as they are."""
    clean = redact(text)
    if clean == text:
        return text
    return f"{clip(clean)}#{hashlib.sha256(text.encode('utf-8', 'replace')).hexdigest()[:12]}"


def _times(given: Any) -> tuple[int | None, int | None]:
    made = []
    for name in ("startTimeUnixNano", "endTimeUnixNano"):
        try:
            made.append(read.time_ns(read.field(given, name)))
        except ValueError:
            raise ValueError(f"{name} is no time in nanoseconds") from None
    return made[0], made[1]


def _name(value: Any) -> str | None:
    if isinstance(value, str) and value.strip():
        return clean_name(value)
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else None


def _outcome(given: Any, found: Mapping[str, Any], end: int | None) -> dict[str, Any]:
    """Tell the outcome from the status; unset is how a span says that nothing went wrong."""
    code, message = read.status_of(given)
    if code == 1:
        return {"outcome": "ok", "outcome_kind": "reported"}
    if code == 2:
        kind, text = _exception(given)
        kind = kind or (str(found["error.type"]) if found.get("error.type") else "")
        said = f"{kind}: {text or message}" if kind and (text or message) else kind or message
        error = clip(redact(said.split("\n", 1)[0])) if said else None
        oom = kind.rpartition(".")[2] in _MEMORY
        made = {"outcome": "oom" if oom else "failed", "outcome_kind": "reported"}
        return {**made, "error": error} if error else made
    if code < 0:
        return {"outcome": "unknown"}
    outcome = "ok" if end is not None else "running"
    return {"outcome": outcome, "outcome_kind": "inferred"}


def _exception(given: Any) -> tuple[str, str | None]:
    for event in read.items(given, "events"):
        if read.field(event, "name") == "exception":
            found = read.attributes(event)
            kind, text = found.get("exception.type"), found.get("exception.message")
            return (kind if isinstance(kind, str) else ""), (
                text if isinstance(text, str) and text else None
            )
    return "", None


def _own(own: Mapping[str, Any]) -> dict[str, Any]:
    """Give the columns that our exporter wrote as attributes."""
    row: dict[str, Any] = {}
    for column, value in own.items():
        if column == "features" and isinstance(value, Mapping):
            pairs = ((k, read.number(v)) for k, v in value.items())
            row[column] = {clean_name(k): v for k, v in pairs if v is not None}
        elif column in _TYPES and column not in ("task_id", "features"):
            made = safe_id(value) if column == "parent" and isinstance(value, str) else None
            made = _typed(column, value) if made is None else made
            if made is not None or value is None:  # an empty value says that it is not known
                row[column] = made
    return row


def _typed(column: str, value: Any) -> Any:
    """Give a value as its column's type, None if it does not fit."""
    kind = _TYPES[column]
    if kind == "i":
        made = read.integer(value)
        beyond = made is not None and column.endswith("_bytes") and abs(made) > _BYTES_LIMIT
        return None if beyond else made
    if kind == "f":
        return read.number(value)
    if kind == "b":
        return value if isinstance(value, bool) else None
    if not isinstance(value, str):
        return None
    allowed = _ALLOWED.get(column)
    if allowed is not None:
        return value if value in allowed else None
    return clip(redact(value))


def _links(given: Any) -> list[tuple[str | None, str | None, str | None]]:
    found = []
    for link in read.items(given, "links"):
        own = read.attributes(link).get(f"{OWN}depends_on")
        trace = read.hex_id(read.field(link, "traceId"), 16)
        span = read.hex_id(read.field(link, "spanId"), 8)
        if span is not None or isinstance(own, str):
            found.append((trace, span, own if isinstance(own, str) else None))
    return found


def _moments(given: Any) -> list[tuple[int, str]]:
    found = []
    for event in read.items(given, "events"):
        name = read.field(event, "name")
        try:
            at = read.time_ns(read.field(event, "timeUnixNano"))
        except ValueError:
            at = None
        if at is not None and isinstance(name, str):
            found.append((at, clean_name(name)))
    return found
