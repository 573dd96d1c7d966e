"""Chrome Trace Event JSON: slices, arrows, counters and marks of threads and processes.

The format: "Trace Event Format", https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
(array form with an optional closing bracket, object form with ``traceEvents``; times in µs; events
in any order). Written by Chrome, clang, Bazel, Ray, viztracer, TensorFlow and many others. What
PyTorch's profiler writes is read by the importer ``kineto``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from rotameter.adapters.importers._chrome_events import Events
from rotameter.adapters.importers._chrome_rows import Rows
from rotameter.adapters.importers._json_events import EventReader
from rotameter.adapters.importers.building import Builder
from rotameter.errors import BadInput, UsageError
from rotameter.profiler.live.redact import redact
from rotameter.units import many

if TYPE_CHECKING:
    from rotameter.adapters.importers.inputs import InputFile
    from rotameter.values import Head

__all__ = ["Importer"]

_FILES_SAID = 20
_START = re.compile(r"[\s,\x00]*[\[{]")
_PHASE = re.compile(r'"ph"\s*:\s*"[A-Za-z(),=]"')
_LIST = re.compile(r'"traceEvents"\s*:\s*\[')
_KINETO_KEYS = re.compile(
    r'"(?:schemaVersion|deviceProperties|distributedInfo|baseTimeNanoseconds|trace_id)"\s*:'
)
_KINETO_CATS = re.compile(
    r'"cat"\s*:\s*"(?:kernel|cpu_op|Kernel|Operator|Runtime|Memcpy|Memset|gpu_memcpy|gpu_memset|'
    r"gpu_user_annotation|user_annotation|cuda_runtime|cuda_driver|hip_runtime|ac2g|fwdbwd|"
    r'python_function|cpu_instant_event|privateuse1_runtime|overhead)"'
)
_EPOCH_NS = 946_684_800 * 10**9
_FACTS = ("displayTimeUnit", "source", "startTime", "hardwareConcurrency", "version", "exporter")
_NESTED = ("spans", "tasks")


class Importer:
    """Reads Chrome Trace Event JSON.

    Options: ``nested`` = ``spans`` (the outermost slices of a thread are tasks, those in them
    their intervals) or ``tasks`` (every slice is a task, with its parent).
    """

    name = "chrome_trace"
    engine = "chrome_trace"
    options: frozenset[str] = frozenset({"nested"})

    def __init__(self) -> None:
        self._read: list[tuple[str, str, Events, dict[str, Any]]] = []
        self._nested = "spans"

    def sniff(self, head: Head) -> float:
        """Look for a list of events with phases, and for none of the marks of Kineto."""
        text = head.text
        if not _START.match(text):
            return 0.0
        phases = len(_PHASE.findall(text))
        listed = _LIST.search(text) is not None
        if not phases and not listed:
            return 0.0
        if _KINETO_KEYS.search(text[: _first_event(text)]) or _KINETO_CATS.search(text):
            return 0.3
        return 0.9 if phases else 0.6

    def read(self, file: InputFile, build: Builder, **options: Any) -> None:
        """Read one file."""
        self._nested = str(options.get("nested", "spans"))
        if self._nested not in _NESTED:
            hint = f"one of: {', '.join(_NESTED)}"
            raise UsageError(f"nested cannot be {self._nested[:40]!r}", hint=hint)
        reader, events = EventReader(file), Events()
        events.read(reader)
        if not events.records_in and not reader.lists:
            said = reader.broken or f"{file.name} holds no trace events"
            raise BadInput(said, hint="is it whole, and Chrome Trace Event JSON?")
        self._say_damage(file, build, reader, events)
        self._read.append((file.name, file.stem, events, reader.header))

    def finish(self, build: Builder) -> None:
        """Make the rows, tell files apart, say what the format cannot tell."""
        stems: dict[str, int] = {}
        for source, stem, events, header in self._read:
            stems[stem] = stems.get(stem, 0) + 1
            once = stem if stems[stem] == 1 else f"{stem} {stems[stem]}"
            self._one(build, source, f"{once}/" if len(self._read) > 1 else "", events, header)
        self._read = []
        build.not_measured("memory, bytes and requests: the format has none")
        build.not_measured("whether a slice failed: the format does not say")

    def _one(
        self, build: Builder, source: str, prefix: str, events: Events, header: dict[str, Any]
    ) -> None:
        rows = Rows(build, source, events, prefix, self._nested == "spans")
        rows.write()
        for line, reason in events.rejects:
            build.reject(source, line, reason)
        build.records_in += events.records_in
        build.records_out = (build.records_out or 0) + events.out
        build.merged += events.merged
        epoch = events.epoch if events.own else (events.first or 0) >= _EPOCH_NS
        if events.first is not None and not epoch:
            build.local = True  # some clock of its own: only differences mean something
        rows.said["slices without dur, whose thread time (tdur) is taken"] += events.thread_clock
        rows.said["slices without a length (dur), whose end is unknown"] += events.no_length
        if events.sums:
            told = f"{source}: slices that only sum up or repeat others are left out"
            build.note(told, events.sums)
        for words, count in rows.said.items():
            if count:
                build.warn(f"{source}: {words}: {count:,}")
        self._facts(build, source, events, header)

    def _facts(self, build: Builder, source: str, events: Events, header: dict[str, Any]) -> None:
        facts: dict[str, Any] = {"events": dict(sorted(events.phases.items())[:40])}
        for part in (header, header.get("metadata"), header.get("otherData")):
            for name in _FACTS:
                value = part.get(name) if isinstance(part, dict) else None
                if isinstance(value, (str, int)):
                    facts[name] = redact(str(value))[:200]
        facts |= {name: redact(str(value)) for name, value in sorted(events.facts.items())}
        kept = build.meta.setdefault("chrome_trace", {})
        if len(kept) < _FILES_SAID:
            kept[source.rpartition("/")[2]] = facts
        samples = header.get("samples")
        if isinstance(samples, list) and samples:
            build.warn(f"{source}: {len(samples):,} sampled stacks are not read")
            build.not_measured("sampled stacks: only slices are read")
        if "trace_buffer_overflowed" in events.facts:
            build.warn(f"{source}: the writer's buffer overflowed, events are missing")
        if not events.threads and not events.asyncs:
            build.warn(f"{source}: holds no slices")

    def _say_damage(
        self, file: InputFile, build: Builder, reader: EventReader, events: Events
    ) -> None:
        """Count what was recovered from a cut, damaged or joined file."""
        kept = f"{many(events.records_in, 'event')} recovered"
        if reader.broken:
            build.warn(f"{reader.broken}; {kept}")
        for damage in reader.damage:
            events.records_in += 1
            if damage.cut:
                said = f"last event cut at byte {damage.end:,} (it begins at byte {damage.first:,})"
                build.warn(f"{file.name}: {said}; {kept}")
                events.rejects.append((damage.line, said))
            else:
                size = f"bytes {damage.first:,} to {damage.end:,}"
                events.rejects.append((damage.line, f"not JSON: {size}"))
        whole = [damage for damage in reader.damage if not damage.cut]
        if whole:
            at = f"{whole[0].first:,}"
            build.warn(
                f"{file.name}: {len(whole):,} damaged places, the first at byte {at}; {kept}"
            )
        elif reader.object_form and not reader.closed and not reader.damage:
            build.warn(f"{file.name}: the file ends before its closing bracket; {kept}")
        if reader.lists > 1:
            build.warn(f"{file.name}: {reader.lists:,} lists of events in one file")


def _first_event(text: str) -> int:
    """Where the list begins: what stands before it is the file's own header."""
    match = _LIST.search(text)
    return match.start() if match else 0
