"""Trace events sorted out: slices by track, flows, counters, instants, names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from decimal import Decimal, DecimalException
from math import isfinite
from sys import intern
from typing import TYPE_CHECKING, Any, NamedTuple

from rotameter.adapters.importers._chrome_slices import Mark, Slice, Track

if TYPE_CHECKING:
    from rotameter.adapters.importers._json_events import EventReader

__all__ = ["Events", "Flow", "Instant", "Sample", "micro_ns", "natural"]

LIMIT_NS = 4_500_000_000_000_000_000
"""Times beyond this (year 2112, as µs since the epoch) are none."""
_INSTANTS = frozenset("iIRnPNODvVcTp()=")
_ASYNC = {"b": "b", "S": "b", "e": "e", "F": "e"}
_FLOWS = {"s": 0, "t": 1, "f": 2}
_FACTS = ("num_cpus", "trace_buffer_overflowed", "process_labels")
_SERIES = 64


class Flow(NamedTuple):
    """One end (or station) of an arrow: rank 0 begins it, 1 passes it on, 2 ends it."""

    key: tuple[str, ...]
    at: int
    rank: int
    track: tuple[str, ...]
    to_next: bool


class Sample(NamedTuple):
    """One value of a counter."""

    at: int
    pid: str | None
    name: str
    value: float


class Instant(NamedTuple):
    """Something at one moment."""

    at: int
    pid: str | None
    tid: str | None
    name: str | None
    phase: str


def micro_ns(value: Any) -> int | None:
    """Read µs (number or text) as whole nanoseconds; None where it is no such time.

    Examples
    --------
    >>> micro_ns(1.5), micro_ns("11550183666"), micro_ns("nan"), micro_ns(None)
    (1500, 11550183666000, None, None)
    """
    kind = type(value)
    if kind is int:
        at: int = value * 1000
    elif kind is float:
        if not isfinite(value) or abs(value) > LIMIT_NS:
            return None
        at = round(value * 1000)
    elif kind is str or kind is Decimal:
        if kind is str and len(value) > 40:
            return None
        try:
            exact = Decimal(str(value).strip())
            if not exact.is_finite() or abs(exact) > LIMIT_NS:
                return None
            at = int((exact * 1000).to_integral_value())
        except DecimalException:
            return None
    else:
        return None
    return at if -LIMIT_NS <= at <= LIMIT_NS else None


def natural(text: str | None) -> tuple[int, int, str]:
    """Sort numbers as numbers, before names."""
    if text is None:
        return (2, 0, "")
    if text.isdecimal() and len(text) < 20:
        return (0, int(text), text)
    return (1, 0, text)


def _label(value: Any) -> str | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, (int, str)):
        return str(value)
    number = _number(value)
    if number is None or abs(number) >= 1e15:
        return None
    return str(int(number)) if number == int(number) else str(number)


def _text(value: Any) -> str | None:
    # The same names come again and again: one object each.
    return intern(value) if type(value) is str and value else None


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else repr(value)[:200]


class Events:
    """The events of one file.

    Attributes
    ----------
    records_in, out, merged : int
        Events seen; those that are rows of their own; those that belong to another's row.
    rejects : list of tuple of (int, str)
        Line and reason of the others.
    """

    def __init__(self) -> None:
        self.threads: dict[tuple[str, ...], Track] = {}
        self.asyncs: dict[tuple[str, ...], Track] = {}
        self.flows: list[Flow] = []
        self.samples: list[Sample] = []
        self.instants: list[Instant] = []
        self.processes: dict[str | None, str] = {}
        self.thread_names: dict[tuple[str | None, str | None], str] = {}
        self.facts: dict[str, Any] = {}
        self.phases: Counter[str] = Counter()
        self.first: int | None = None
        self.last: int | None = None
        self.own, self.epoch, self.base = False, False, 0
        self.deps: set[tuple[str, str]] = set()
        self.thread_clock = 0
        self.no_length = 0
        self.sums = 0
        self.records_in = self.out = self.merged = 0
        self.rejects: list[tuple[int, str]] = []

    def read(self, reader: EventReader) -> None:
        """Take all events of a file."""
        for event in reader:
            if not self.records_in:
                self._whose(reader.header.get("otherData"))
            if event == {} or event is None:
                continue  # some writers end their list so
            self.records_in += 1
            if not isinstance(event, dict):
                self.rejects.append((reader.line, "not an event"))
                continue
            wrong = self._take(event, reader)
            if wrong:
                self.rejects.append((reader.line, wrong))

    def _whose(self, other: Any) -> None:
        """Look whether rotameter wrote the file: then times count from its base."""
        if isinstance(other, dict) and other.get("exporter") == "rotameter":
            self.own = True
            self.epoch = other.get("time_base") == "epoch_ns"
            base = other.get("base_ns")
            if isinstance(base, str) and base.lstrip("-").isdecimal() and len(base) < 20:
                self.base = max(-LIMIT_NS, min(LIMIT_NS, int(base)))

    def _take(self, event: Mapping[str, Any], reader: EventReader) -> str | None:
        phase = event.get("ph")
        if not isinstance(phase, str):
            return "no phase (ph)"
        self.phases[phase] += 1
        if phase == "M":
            return self._meta(event)
        at = micro_ns(event.get("ts"))
        if at is None:
            return f"phase {phase[:8]}: ts is no time"
        at += self.base
        pid, tid = _label(event.get("pid")), _label(event.get("tid"))
        if phase == "X":
            return self._complete(event, at, pid, tid)
        if phase in ("B", "E"):
            self._seen(at)
            self._mark(self._thread(pid, tid), event, at, phase == "B", reader.line)
        elif phase in _ASYNC:
            self._seen(at)
            track = self._async(event, pid, tid)
            self._mark(track, event, at, _ASYNC[phase] == "b", reader.line)
        elif phase in _FLOWS:
            self._own_dep(event) if self.own else self._arrow(
                event, at, _FLOWS[phase], (pid or "", tid or "")
            )
            self.merged += 1
        elif phase == "C":
            return self._counter(event, at, pid)
        elif phase in _INSTANTS:
            self._seen(at)
            self.instants.append(Instant(at, pid, tid, _text(event.get("name")), phase))
            self.out += 1
        else:
            return f"unknown phase {phase[:8]!r}"
        return None

    def _seen(self, at: int, last: int | None = None) -> None:
        if self.first is None or at < self.first:
            self.first = at
        last = at if last is None else last
        if self.last is None or last > self.last:
            self.last = last

    def _thread(self, pid: str | None, tid: str | None) -> Track:
        key = (pid or "", tid or "")
        track = self.threads.get(key)
        if track is None:
            track = self.threads[key] = Track(pid, tid)
        return track

    def _complete(
        self, event: Mapping[str, Any], at: int, pid: str | None, tid: str | None
    ) -> str | None:
        if _is_sum(event):
            self.sums += 1
            self.merged += 1
            return None
        lasts, cpu = micro_ns(event.get("dur")), micro_ns(event.get("tdur"))
        cpu = cpu if cpu is not None and cpu >= 0 else None
        if lasts is None and event.get("dur") is None and cpu is not None:
            lasts = cpu
            self.thread_clock += 1
        if lasts is None or lasts < 0 or at + lasts > LIMIT_NS:
            lasts = None
            self.no_length += 1
        end = None if lasts is None else at + lasts
        self._seen(at, end)
        args = event.get("args")
        # What a whole slice's arguments say may be its result: only our own marks are kept.
        kept = args if self.own and isinstance(args, dict) and "task_id" in args else None
        item = Slice(at, end, _text(event.get("name")), _text(event.get("cat")), cpu, kept)
        self._thread(pid, tid).slices.append(item)
        self.out += 1
        bind = event.get("bind_id")
        if bind is not None:
            where, key = (pid or "", tid or ""), ("bind", _plain(bind))
            if event.get("flow_in"):
                self.flows.append(Flow(key, at, 2 - bool(event.get("flow_out")), where, False))
            elif event.get("flow_out"):
                self.flows.append(Flow(key, at, 0, where, False))
        return None

    def _mark(
        self, track: Track, event: Mapping[str, Any], at: int, begins: bool, line: int
    ) -> None:
        args = event.get("args") if begins else None
        kept = args if isinstance(args, dict) and args else None
        name, cat = _text(event.get("name")), _text(event.get("cat"))
        clock = micro_ns(event.get("tts"))
        track.marks.append(Mark(at, begins, name, cat, clock, kept, line))

    def _async(self, event: Mapping[str, Any], pid: str | None, tid: str | None) -> Track:
        cat, scope = _plain(event.get("cat", "")), _plain(event.get("scope", ""))
        ident, local = event.get("id"), event.get("id2")
        owner = ""
        if isinstance(local, dict) and local:
            owner = (pid or "") if "local" in local else ""
            ident = local.get("local", local.get("global"))
        key = (cat, scope, _plain(ident), owner)
        track = self.asyncs.get(key)
        if track is None:
            track = self.asyncs[key] = Track(pid, tid)
        elif natural(pid) < natural(track.pid):
            track.pid, track.tid = pid, tid
        return track

    def _arrow(self, event: Mapping[str, Any], at: int, rank: int, where: tuple[str, ...]) -> None:
        ident = event.get("id")
        if ident is None:
            ident = event.get("id2", event.get("bind_id"))
        key = ("flow", _plain(event.get("cat", "")), _plain(event.get("name", "")), _plain(ident))
        self.flows.append(Flow(key, at, rank, where, rank == 2 and event.get("bp") != "e"))

    def _own_dep(self, event: Mapping[str, Any]) -> None:
        args = event.get("args")
        if isinstance(args, dict):
            task, other = args.get("task_id"), args.get("depends_on")
            if isinstance(task, str) and isinstance(other, str) and task != other:
                self.deps.add((task, other))

    def _counter(self, event: Mapping[str, Any], at: int, pid: str | None) -> str | None:
        name, args = _text(event.get("name")) or "counter", event.get("args")
        if event.get("id") is not None:
            name = f"{name}[{_plain(event['id'])}]"
        found = []
        for series, value in list(args.items())[:_SERIES] if isinstance(args, dict) else ():
            number = _number(value)
            if number is not None:
                found.append((series, number))
        if not found:
            return "a counter without numbers"
        self._seen(at)
        for series, number in found:
            alone = len(found) == 1 and series in ("value", name, "")
            label = name if alone else f"{name}.{series}"
            self.samples.append(Sample(at, pid, label, number))
        self.out += 1
        return None

    def _meta(self, event: Mapping[str, Any]) -> str | None:
        """Take a name of a process or thread; the greatest one where there are several."""
        self.merged += 1
        name, args = event.get("name"), event.get("args")
        if not isinstance(args, dict):
            return None
        pid, tid = _label(event.get("pid")), _label(event.get("tid"))
        value = args.get("name")
        if name == "process_name" and isinstance(value, str) and value:
            self.processes[pid] = max(self.processes.get(pid, ""), value)
        elif name == "thread_name" and isinstance(value, str) and value:
            key = (pid, tid)
            self.thread_names[key] = max(self.thread_names.get(key, ""), value)
        elif name in _FACTS:
            given = next(iter(args.values()), None)
            if isinstance(given, (int, str)) and not isinstance(given, bool):
                self.facts[name] = max(str(self.facts.get(name, "")), str(given)[:200])
        return None


def _is_sum(event: Mapping[str, Any]) -> bool:
    """Say whether a slice only tells again what others told.

    clang closes its trace with one slice for all of a name ("Total Frontend"); Bazel repeats the
    actions of its critical path on a thread of their own.

    Examples
    --------
    >>> _is_sum({"name": "Total Frontend", "args": {"count": 3, "avg ms": 2}})
    True
    """
    if event.get("cat") == "critical path component":
        return True
    args = event.get("args")
    total = isinstance(args, dict) and "count" in args and "avg ms" in args
    return total and _plain(event.get("name")).startswith("Total ")


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float, str, Decimal)):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if isfinite(number) else None
