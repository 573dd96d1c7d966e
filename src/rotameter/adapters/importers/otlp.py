"""OpenTelemetry traces and metrics as OTLP writes them in JSON.

The format: https://opentelemetry.io/docs/specs/otlp/ and
https://github.com/open-telemetry/opentelemetry-proto (``resourceSpans``, ``scopeSpans``, ``spans``;
one document, or one a line as the collector's file exporter writes them). A span is a task, its
parent is the task that it runs in, its links to other spans are dependencies.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rotameter.adapters.importers import _otlp_read as read
from rotameter.adapters.importers._dask_json import Broken, values
from rotameter.adapters.importers._otlp_join import Joined, join
from rotameter.adapters.importers._otlp_metrics import add_point, points
from rotameter.adapters.importers._otlp_spans import OWN, Resource, Span, resource_of, span_of
from rotameter.errors import BadInput
from rotameter.profiler.live.redact import clip, redact

if TYPE_CHECKING:
    from rotameter.adapters.importers.building import Builder
    from rotameter.adapters.importers.inputs import InputFile
    from rotameter.values import Head

__all__ = ["Importer"]

_WORDS = "resourceSpans|resource_spans|resourceMetrics|resource_metrics|resourceLogs|resource_logs"
_FIRST = re.compile(rf'\s*\[?\s*\{{\s*"(?:{_WORDS})"\s*:')
_ANY = re.compile(rf'"(?:{_WORDS})"\s*:\s*\[')
_BATCHES = re.compile(r'"batches"\s*:\s*\[')
_SPANS = ("resourceSpans", "batches")
_SCOPES = ("scopeSpans", "instrumentationLibrarySpans")
_LOGS = ("scopeLogs", "instrumentationLibraryLogs")
_VERSIONS = ("telemetry.sdk.name", "telemetry.sdk.language", "telemetry.sdk.version")


class Importer:
    """Reads spans as tasks and metric points as samples."""

    name = "otlp"
    engine = "otlp"
    options: frozenset[str] = frozenset()

    def __init__(self) -> None:
        self._spans: list[Span] = []
        self._seen: set[tuple[Any, ...]] = set()
        self._points = 0
        self._logs = 0

    def sniff(self, head: Head) -> float:
        """Look for the fields that OTLP documents begin with."""
        text = head.text
        if text.lstrip()[:1] not in ("{", "["):
            return 0.0
        if _FIRST.match(text):
            return 0.95
        if _ANY.search(text):
            return 0.7
        scoped = '"scopeSpans"' in text or '"instrumentationLibrarySpans"' in text
        return 0.8 if scoped and _BATCHES.search(text) else 0.0

    def read(self, file: InputFile, build: Builder, **options: Any) -> None:
        """Read one file of documents."""
        before = (len(self._spans), self._points, build.merged)
        logs, bad, known = 0, [], False
        for line, document in values(file.read_text()):
            if isinstance(document, Broken):
                bad.append((line, document.reason))
                continue
            is_otlp, count = self._document(document, line, file, build)
            known, logs = known or is_otlp, logs + count
            if not is_otlp:
                bad.append((line, "not an OTLP document"))
        if before == (len(self._spans), self._points, build.merged):
            raise BadInput(f"{file.name} {_why_not(known, logs, bad)}", hint="check what wrote it")
        for line, reason in bad:
            build.records_in += 1
            build.reject(file.name, line, reason)
        if logs:
            build.records_in += 1
            build.reject(
                file.name, None, f"{logs:,} log records: rotameter reads spans and metrics"
            )

    def finish(self, build: Builder) -> None:
        """Join spans over all files: ids, parents, links."""
        joined = join(self._spans)
        _words(joined, build)
        for row in joined.tasks:
            build.add("tasks", row)
        for table, rows in (("deps", joined.deps), ("intervals", joined.moments)):
            for row in rows:
                build.add(table, row)
        for row in joined.samples:
            build.add("samples", row)
        build.records_out = len(joined.tasks) + self._points
        build.not_measured("CPU time, memory and requests: unless spans carry them as attributes")
        build.not_measured("queueing: a span has a start and an end only")

    def _document(
        self, document: Any, line: int, file: InputFile, build: Builder
    ) -> tuple[bool, int]:
        """Take one document: whether it is OTLP, and how many log records it holds."""
        known, logs = False, 0
        for block in read.resources(document, *_SPANS):
            known = True
            self._block(block, line, file, build)
        for block in read.resources(document, "resourceMetrics"):
            known = True
            resource = resource_of(block)
            for metric, kind, point in points(block):
                build.records_in += 1
                why = add_point(metric, kind, point, resource, build)
                if why is None:
                    self._points += 1
                else:
                    build.reject(file.name, line, why)
        for block in read.resources(document, "resourceLogs"):
            known = True
            for scope in read.items(block, *_LOGS):
                logs += sum(1 for _ in read.items(scope, "logRecords"))
        names = ("resourceSpans", "resourceMetrics", "resourceLogs")
        empty = isinstance(document, Mapping) and any(
            isinstance(read.field(document, name), list) for name in names
        )
        return known or empty, logs

    def _block(self, block: Any, line: int, file: InputFile, build: Builder) -> None:
        resource = resource_of(block)
        _facts(resource, build)
        for scope in read.items(block, *_SCOPES):
            for given in read.items(scope, "spans"):
                build.records_in += 1
                try:
                    span = span_of(given, resource)
                except ValueError as error:
                    build.reject(file.name, line, str(error))
                    continue
                if span.mark in self._seen:
                    build.merged += 1
                    build.warn("a span occurs twice: it counts once")
                    continue
                self._seen.add(span.mark)
                self._spans.append(span)


def _facts(resource: Resource, build: Builder) -> None:
    sdk = [str(resource.facts[n]) for n in _VERSIONS if isinstance(resource.facts.get(n), str)]
    if sdk:
        build.meta.setdefault("versions", {}).setdefault(
            "opentelemetry", clip(redact(" ".join(sdk)))
        )
    base, engine = resource.facts.get(f"{OWN}time_base"), resource.facts.get(f"{OWN}engine")
    if base in ("epoch_ns", "relative_ns"):
        build.meta["time_base"] = base
    if isinstance(engine, str) and engine:
        build.meta["engine"] = clip(redact(engine), 60)


def _why_not(known: bool, logs: int, bad: list[tuple[int, str]]) -> str:
    if logs:
        return "holds OpenTelemetry log records only: rotameter reads spans and metrics"
    if known:
        return "holds no span and no metric that can be read"
    return f"holds no OTLP document{f': {bad[0][1]}' if bad else ''}"


def _words(joined: Joined, build: Builder) -> None:
    said: Counter[str] = joined.counts
    for words, count in (
        ("spans that name a parent outside the input, taken as roots", said["orphan"]),
        ("spans that are their own ancestors, taken as roots", said["cycle"]),
        ("links to spans outside the input, left out", said["outside"]),
        ("links to spans that did not begin before, left out", said["later"]),
        ("span ids that stand for several different spans", said["clash"]),
        (
            "spans that begin before their parent, by more than 5 ms: the clocks of their hosts "
            "may be apart; times are left as they are",
            said["early"],
        ),
        ("spans without an end: they may have been running still", said["open"]),
        ("spans without a start", said["unstarted"]),
        (
            "spans that begin before 1973: their times count from some start, or are not in "
            "nanoseconds as OTLP has them",
            0 if build.meta.get("time_base") == "relative_ns" else said["old"],
        ),
    ):
        if count:
            build.warn(f"{words}: {count:,}")
