"""Data points of OTLP metrics, as samples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from rotameter.adapters.importers import _otlp_read as read
from rotameter.adapters.importers._otlp_spans import Resource
from rotameter.profiler.live.redact import clean_name, redact

if TYPE_CHECKING:
    from rotameter.adapters.importers.building import Builder

__all__ = ["add_point", "points"]

_PLAIN = ("gauge", "sum")
_COUNTED = ("histogram", "exponentialHistogram", "summary")
_TOTALS = ("count", "sum", "min", "max")
_TEMPORALITY = {1: "delta", 2: "cumulative", "1": "delta", "2": "cumulative"}
_LABELS = 8


def points(block: Any) -> Iterator[tuple[Any, str, Any]]:
    """Give (metric, kind, data point) of all metrics of a resource block."""
    for scope in read.items(block, "scopeMetrics", "instrumentationLibraryMetrics"):
        for metric in read.items(scope, "metrics"):
            for kind in (*_PLAIN, *_COUNTED):
                data = read.field(metric, kind)
                if isinstance(data, Mapping):
                    for point in read.items(data, "dataPoints"):
                        yield metric, kind, point


def add_point(metric: Any, kind: str, point: Any, resource: Resource, build: Builder) -> str | None:
    """Add the readings of one data point; give why not, if there are none."""
    name = read.field(metric, "name")
    if not isinstance(name, str) or not name:
        return "a metric without a name"
    try:
        at_ns = read.time_ns(read.field(point, "timeUnixNano"))
    except ValueError:
        at_ns = None
    if at_ns is None:
        return "a data point without a time"
    values = _values(kind, point)
    if not values:
        return "a data point without a number"
    unit = read.field(metric, "unit")
    label = (
        f"{clean_name(name)} ({unit})" if isinstance(unit, str) and unit not in ("", "1") else ""
    )
    for part, value in values:
        build.add(
            "samples",
            {
                "at_ns": at_ns,
                "subject": _subject(resource, point),
                "metric": (clean_name(label) or clean_name(name)) + part,
                "value": value,
                "quality": _TEMPORALITY.get(_temporality(metric, kind)),
            },
        )
    return None


def _values(kind: str, point: Any) -> list[tuple[str, float]]:
    if kind in _PLAIN:
        for name in ("asDouble", "asInt"):
            value = read.number(read.field(point, name))
            if value is not None:
                return [("", value)]
        return []
    found = ((name, read.number(read.field(point, name))) for name in _TOTALS)
    return [(f".{name}", value) for name, value in found if value is not None]


def _temporality(metric: Any, kind: str) -> Any:
    found = read.field(read.field(metric, kind), "aggregationTemporality")
    return found if isinstance(found, (int, str)) else None


def _subject(resource: Resource, point: Any) -> str | None:
    """Give the worker, with the point's own labels, which tell its series from others."""
    base = resource.service or resource.host
    labels = read.attributes(point)
    texts = [
        f"{key}={value}"
        for key, value in sorted(labels.items())[:_LABELS]
        if isinstance(value, (str, int, float))
    ]
    if not texts:
        return base
    return clean_name(f"{base or ''}{{{redact(', '.join(texts))}}}")
