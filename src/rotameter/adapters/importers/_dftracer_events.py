"""DFTracer's events added up: a row a process, file and kind of call; a row a span."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rotameter.adapters.importers._dftracer_names import Names, hash_key
from rotameter.adapters.importers._dftracer_ops import operation, size_of, whole

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Events", "Process", "Use"]

_BATCH = 100_000
_COMPLETE = ("X", 1, "1")
_AGGREGATED = ("A", 3, "3")
_COUNTER = ("C", 2, "2")
_METADATA = ("M", 4, "4")
_CALLS = frozenset(("POSIX", "STDIO"))
_KINDS = {
    "compute": "compute",
    "mpi": "communication",
    "comm": "communication",
    "communication": "communication",
    "hip": "kernel",
    "kernel": "kernel",
    "kernel_dispatch": "kernel",
    "memory_copy": "transfer",
}
_NS_LIMIT = 4_500_000_000_000_000_000
_SERIES = 128

Span = tuple[tuple[str, str | None], str, str, str, int, int]


@dataclass(slots=True)
class Use:
    """What one process did to one file by one kind of call; times in ns, ``busy_ns`` summed."""

    ops: int = 0
    bytes: int = 0
    unknown: int = 0
    first_ns: int | None = None
    last_ns: int | None = None
    busy_ns: int = 0


@dataclass(slots=True)
class Process:
    """One traced process."""

    pid: str
    host: str | None
    first_ns: int | None = None
    last_ns: int | None = None
    began: bool = False
    ended: bool = False
    facts: dict[str, Any] = field(default_factory=dict)
    calls: array[int] = field(default_factory=lambda: array("q"))
    more_io_ns: int = 0
    events: int = 0
    lossy: bool = False

    def seen(self, start_ns: int, end_ns: int) -> None:
        """Stretch its life over a moment."""
        if self.first_ns is None or start_ns < self.first_ns:
            self.first_ns = start_ns
        if self.last_ns is None or end_ns > self.last_ns:
            self.last_ns = end_ns


class Events:
    """Takes events in and adds them up.

    Parameters
    ----------
    spans : callable
        Gets the spans of the program in batches of (process, lane, kind, name, start, end).
    """

    def __init__(self, spans: Callable[[list[Span]], None]) -> None:
        self.processes: dict[tuple[str, str | None], Process] = {}
        # The file is a name (True), a hash (False), or None where the event names none.
        self.uses: dict[tuple[tuple[str, str | None], tuple[bool, str] | None, str], Use] = {}
        self.deleted: dict[tuple[bool, str], int] = {}
        self.samples: list[tuple[int, str | None, str, float]] = []
        self.files, self.hosts, self.texts = Names(), Names(), Names()
        self.aggregated = 0
        self.relative = False
        self.out = self.merged = 0
        self._spans, self._pending = spans, list[Span]()
        self._host: dict[str, str] = {}
        self._opened: dict[tuple[str, int], str] = {}
        self._unit = 0
        self._here: dict[tuple[str, str | None], Process] = {}
        self._lost: set[str | None] = set()

    def begin(self) -> None:
        """Begin a file: descriptors and the unit of time are its own."""
        self._host, self._opened, self._unit = {}, {}, 0
        self._here, self._lost = {}, set()

    def lose(self, pid: str | None) -> None:
        """Note that an event of a process could not be read; None: of whom is not known."""
        self._lost.add(pid)

    def close(self) -> None:
        """End a file: what was lost in it is missing in the sums of its processes."""
        known = {pid for pid, _ in self._here}
        of_all = not self._lost <= known
        for (pid, _), process in self._here.items():
            process.lossy |= of_all or pid in self._lost
        self.end()

    def end(self) -> None:
        """Hand over the spans that are left."""
        if self._pending:
            self._spans(self._pending)
            self._pending = []

    def take(self, event: Mapping[str, Any]) -> str | None:
        """Take one event in; give why it cannot be, or None."""
        name, category, phase = event.get("name"), event.get("cat"), event.get("ph")
        pid = _label(event.get("pid"))
        args = event.get("args")
        if not isinstance(args, dict):
            args = {}
        if not isinstance(name, str) or not name or pid is None:
            return "no name or process"
        if phase in _METADATA:
            self._metadata(name, pid, args)
            self.merged += 1
            return None
        if phase not in _COMPLETE and phase not in _AGGREGATED and phase not in _COUNTER:
            return f"an event of a phase that is not known: {str(phase)[:20]}"
        times = self._times(event)
        if times is None:
            return "no time"
        start, end, unit = times
        process = self._process(pid, args)
        process.seen(start, end)
        calls = whole(args.get("dft_cnt")) if phase not in _COMPLETE else 1
        category = category if isinstance(category, str) else ""
        if calls is None or calls < 1:
            self._counter(start, process, name, args)
            return None
        process.events += 1
        if category.lower() == "dftracer":
            self._life(process, name, args)
        elif category.upper() in _CALLS:
            self._call(process, name, args, (start, end, unit), calls, phase not in _COMPLETE)
        elif phase in _COMPLETE:
            self._span(process, event, category, start, end)
        else:
            self.aggregated += 1
            self.merged += 1
        return None

    # -- parts --------------------------------------------------------------------------------

    def _times(self, event: Mapping[str, Any]) -> tuple[int, int, int] | None:
        """Give start, end and the unit, in ns."""
        start, lasted = whole(event.get("ts")), whole(event.get("dur", 0))
        if start is None or start < 0:
            return None
        if not self._unit and start:
            self._unit = 1 if start >= 10**17 else 1000
            self.relative |= start < 10**14
        unit = self._unit or 1000
        start, lasted = start * unit, max(lasted or 0, 0) * unit
        if start > _NS_LIMIT or lasted > _NS_LIMIT:
            return None
        return start, start + lasted, unit

    def _process(self, pid: str, args: Mapping[str, Any]) -> Process:
        host = args.get("hostname")
        key = f"={host[:200]}" if isinstance(host, str) and host else hash_key(args.get("hhash"))
        if key is None:
            key = self._host.get(pid)
        elif pid not in self._host:
            self._host[pid] = key
        found = self.processes.get((pid, key))
        if found is None:
            found = self.processes[pid, key] = Process(pid, key)
        self._here[pid, key] = found
        return found

    def _metadata(self, name: str, pid: str, args: Mapping[str, Any]) -> None:
        text, value = args.get("name"), args.get("value")
        tables = {"FH": self.files, "HH": self.hosts, "SH": self.texts}
        if name in tables:
            key = hash_key(value)
            if key is not None and isinstance(text, str) and text:
                tables[name].declare(pid, key, text)
                if name == "HH":
                    self._host.setdefault(pid, key)
        elif name == "PR" and isinstance(text, str):
            number = whole(value)
            if text == "rank" and number is not None:
                self._process(pid, args).facts["rank"] = number

    def _life(self, process: Process, name: str, args: Mapping[str, Any]) -> None:
        self.merged += 1
        if name == "start":
            process.began = True
            for fact in ("cmd_hash", "exec_hash", "version", "ppid"):
                if (key := hash_key(args.get(fact))) is not None:
                    process.facts.setdefault(fact, key)
        elif name == "end":
            process.ended = True

    def _call(
        self,
        process: Process,
        name: str,
        args: Mapping[str, Any],
        times: tuple[int, int, int],
        calls: int,
        added_up: bool,
    ) -> None:
        start, end, unit = times
        op = operation(name)
        file = self._file(process.pid, op, args)
        key = ((process.pid, process.host), file, op)
        use = self.uses.get(key)
        if use is None:
            use = self.uses[key] = Use()
        use.ops += calls
        if added_up:
            total = whole(args.get("dur_sum"))
            total = (whole(args.get("dur")) or 0) * calls if total is None else total
            busy = min(max(total, 0) * unit, _NS_LIMIT)
            process.more_io_ns += busy
        else:
            busy = end - start
            if busy:
                process.calls.append(start)
                process.calls.append(end)
        use.busy_ns += busy
        if use.first_ns is None or start < use.first_ns:
            use.first_ns = start
        if use.last_ns is None or end > use.last_ns:
            use.last_ns = end
        if op in ("read", "write"):
            size = size_of(name, args, calls)
            if size is None:
                use.unknown += calls
            else:
                use.bytes += size
        elif op == "delete" and file is not None and (whole(args.get("ret")) or 0) >= 0:
            self.deleted[file] = max(self.deleted.get(file, end), end)
        self.merged += 1

    def _file(self, pid: str, op: str, args: Mapping[str, Any]) -> tuple[bool, str] | None:
        name = args.get("fname")
        if isinstance(name, str) and name:
            return True, name
        key = hash_key(args.get("fhash"))
        if key is None:
            return None
        descriptor = whole(args.get("fd"))
        opened = self._opened.get((pid, descriptor)) if descriptor is not None else None
        found = self.files.find(pid, key, opened)
        if found is None:
            return False, key
        if op == "open" and (given := whole(args.get("ret"))) is not None and given >= 0:
            self._opened[pid, given] = found
        return True, found

    def _span(
        self, process: Process, event: Mapping[str, Any], category: str, start: int, end: int
    ) -> None:
        kind = _KINDS.get(category.lower(), "span")
        lane = _label(event.get("tid")) or process.pid
        self._pending.append(((process.pid, process.host), lane, kind, event["name"], start, end))
        self.out += 1
        if len(self._pending) >= _BATCH:
            self.end()

    def _counter(self, at: int, process: Process, name: str, args: Mapping[str, Any]) -> None:
        """Keep a reading of the host: the numbers of one moment."""
        self.out += 1
        for key, value in list(args.items())[:_SERIES]:
            if key == "hhash" or isinstance(value, bool) or not isinstance(value, (int, float)):
                continue
            if abs(value) < 1e300:
                self.samples.append((at, process.host, f"{name}.{key}", float(value)))


def _label(value: Any) -> str | None:
    number = whole(value)
    return None if number is None else str(number)
