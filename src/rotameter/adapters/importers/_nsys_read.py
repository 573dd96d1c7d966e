"""What a Nsight Systems export says, read table by table; tables and columns may be missing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rotameter.adapters.importers._chrome_slices import Slice
from rotameter.profiler.live.redact import clean_name, redact

if TYPE_CHECKING:
    from rotameter.adapters.importers._parsl_db import Database
    from rotameter.adapters.importers.building import Builder

__all__ = ["Call", "Operation", "Session", "process_of", "read_session", "thread_of"]

_COPIES = {
    1: "Host-to-Device",
    2: "Device-to-Host",
    3: "Host-to-Array",
    4: "Array-to-Host",
    5: "Array-to-Array",
    6: "Array-to-Device",
    7: "Device-to-Array",
    8: "Device-to-Device",
    9: "Host-to-Host",
    10: "Peer-to-Peer",
    11: "Unified Host-to-Device",
    12: "Unified Device-to-Host",
    13: "Unified Device-to-Device",
}
_RANGES = {59: "nest", 60: "free", 70: "nest", 71: "free"}
_MARKS = (34, 65)
_THREAD_NAMES = (39, 72)
_GPU_TABLES = (
    ("CUPTI_ACTIVITY_KIND_KERNEL", "kernel"),
    ("CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL", "kernel"),
    ("CUPTI_ACTIVITY_KIND_MEMCPY", "copy"),
    ("CUPTI_ACTIVITY_KIND_MEMCPY2", "copy"),
    ("CUPTI_ACTIVITY_KIND_MEMSET", "set"),
    ("CUPTI_ACTIVITY_KIND_GRAPH_TRACE", "graph"),
)
_FINE = (0, 34, 600)  # cudaErrorNotReady, by its old and its new number, is an answer
_FAR_NS = 4 * 10**18
_NUMBER = (1 << 24) - 1


def process_of(serial: Any) -> int | None:
    """Give the process id in a serialised global id.

    Examples
    --------
    >>> process_of(297345569681193), thread_of(297345569681193)
    (945961, 945961)
    """
    return serial >> 24 & _NUMBER if isinstance(serial, int) else None


def thread_of(serial: Any) -> int | None:
    """Give the thread id in a serialised global id."""
    return serial & _NUMBER if isinstance(serial, int) else None


@dataclass(slots=True)
class Operation:
    """Something that a device did, ns."""

    start: int
    end: int
    kind: str
    name: str
    pid: int | None
    device: int | None
    stream: int | None
    correlation: int | None
    size: int | None = None
    peer: str | None = None


@dataclass(slots=True)
class Call:
    """A call into the CUDA runtime or driver, ns."""

    start: int
    end: int | None
    name: str | None
    serial: int | None


@dataclass
class Session:
    """One export.

    Attributes
    ----------
    base_ns : int or None
        Epoch time of the session's start; None where the export does not say.
    ranges : dict of (int or None) to list of Slice
        NVTX ranges by global thread id; ``flow`` of a slice is "free" for start/end ranges.
    """

    base_ns: int | None = None
    end_ns: int | None = None
    host: str | None = None
    strings: dict[int, str] = field(default_factory=dict)
    ranges: dict[int | None, list[Slice]] = field(default_factory=dict)
    marks: list[tuple[int, str | None, int | None]] = field(default_factory=list)
    operations: list[Operation] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    syncs: list[Operation] = field(default_factory=list)
    launches: dict[tuple[int | None, int], Call] = field(default_factory=dict)
    processes: dict[int, str] = field(default_factory=dict)
    threads: dict[int, str] = field(default_factory=dict)
    gpus: dict[int, str] = field(default_factory=dict)
    tables: set[str] = field(default_factory=set)
    failed_calls: int = 0
    unended: int = 0
    records: int = 0
    rejects: list[tuple[int | None, str]] = field(default_factory=list)
    facts: dict[str, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)


def read_session(base: Database, build: Builder) -> Session:
    """Read an open export."""
    session = Session(tables=set(base.tables))
    for _, number, text in base.rows("StringIds", "id", "value"):
        if isinstance(number, int) and text is not None:
            session.strings[number] = str(text)
    _read_target(base, session)
    _read_names(base, session)
    _read_calls(base, session)
    _read_operations(base, session)
    _read_syncs(base, session)
    _read_ranges(base, session)
    return session


def _text(session: Session, value: Any) -> str | None:
    """Give a text that is stored by its number, or as it is."""
    if isinstance(value, int):
        value = session.strings.get(value)
    return clean_name(value) if isinstance(value, str) and value else None


def _times(
    session: Session, table: str, row: int, start: Any, end: Any
) -> tuple[int, int | None] | None:
    """Check the two times of a record."""
    session.records += 1
    sound = isinstance(start, int) and abs(start) < _FAR_NS
    if not sound:
        session.rejects.append((row, f"{table}: no start time"))
        return None
    if end is not None and not (isinstance(end, int) and abs(end) < _FAR_NS):
        end = None
    if end is not None and end < start:
        session.rejects.append((row, f"{table}: it ends before it starts"))
        return None
    return start, end


def _read_target(base: Database, session: Session) -> None:
    for _, epoch in base.rows("TARGET_INFO_SESSION_START_TIME", "utcEpochNs"):
        if isinstance(epoch, int) and 0 < epoch < _FAR_NS:
            session.base_ns = epoch
    for _, start, stop in base.rows("ANALYSIS_DETAILS", "startTime", "stopTime"):
        if isinstance(start, int) and isinstance(stop, int) and 0 <= stop - start < _FAR_NS:
            session.end_ns = stop - start
    for _, name, value in base.rows("TARGET_INFO_SYSTEM_ENV", "name", "value"):
        if name == "Hostname" and isinstance(value, str) and value:
            session.host = clean_name(value)
        elif name in ("CpuCores", "NvDriverVersion", "CudaDriverVersion", "OsDescription"):
            session.facts[str(name)] = redact(str(value))[:120]
    for _, name, value in base.rows("META_DATA_EXPORT", "name", "value"):
        if name in ("EXPORT_PRODUCT_VERSION", "EXPORT_SCHEMA_VERSION"):
            session.facts[str(name)] = redact(str(value))[:60]
    for _, number, name in base.rows("TARGET_INFO_GPU", "id", "name"):
        if isinstance(number, int):
            session.gpus[number] = clean_name(str(name)) if name else "GPU"
    for _, severity, text in base.rows("DIAGNOSTIC_EVENT", "severity", "text"):
        if severity == 3 and len(session.warnings) < 5:
            session.warnings.append(redact(str(text))[:200])


def _read_names(base: Database, session: Session) -> None:
    for _, serial, pid, name in base.rows("PROCESSES", "globalPid", "pid", "name"):
        number = pid if isinstance(pid, int) else process_of(serial)
        if number is not None and isinstance(name, str) and name:
            session.processes[number] = clean_name(name)
    for _, serial, name in base.rows("ThreadNames", "globalTid", "nameId"):
        text = _text(session, name)
        if isinstance(serial, int) and text:
            session.threads[serial] = text


def _read_calls(base: Database, session: Session) -> None:
    table = "CUPTI_ACTIVITY_KIND_RUNTIME"
    columns = ("start", "end", "globalTid", "correlationId", "nameId", "returnValue")
    for row, start, end, serial, correlation, name, returned in base.rows(table, *columns):
        times = _times(session, table, row, start, end)
        if times is None:
            continue
        thread = serial if isinstance(serial, int) else None
        call = Call(times[0], times[1], _text(session, name), thread)
        session.calls.append(call)
        session.failed_calls += isinstance(returned, int) and returned not in _FINE
        if isinstance(correlation, int):
            session.launches[process_of(thread), correlation] = call


def _read_operations(base: Database, session: Session) -> None:
    labels = dict(_COPIES)
    for _, number, label in base.rows("ENUM_CUDA_MEMCPY_OPER", "id", "label"):
        if isinstance(number, int) and isinstance(label, str) and label:
            labels[number] = clean_name(label)
    columns = ("start", "end", "deviceId", "streamId", "correlationId", "globalPid",
               "shortName", "demangledName", "bytes", "copyKind", "dstDeviceId")  # fmt: skip
    for table, what in _GPU_TABLES:
        for row, start, end, device, stream, *rest in base.rows(table, *columns):
            times = _times(session, table, row, start, end)
            if times is None:
                continue
            correlation, serial, short, full, size, copy, target = rest
            kind, name = "kernel", _text(session, short) or _text(session, full) or "kernel"
            if what == "copy":
                kind, name = "transfer", labels.get(copy, "copy")
            elif what == "set":
                kind, name = "transfer", "memset"
            elif what == "graph":
                name = "CUDA graph"
            elif name.lower().startswith("nccl"):
                kind = "communication"
            session.operations.append(
                Operation(
                    times[0],
                    times[0] if times[1] is None else times[1],
                    kind,
                    name,
                    process_of(serial),
                    _small(device),
                    _small(stream),
                    correlation if isinstance(correlation, int) else None,
                    size if isinstance(size, int) and 0 <= size < 1 << 62 else None,
                    f"device {target}" if isinstance(target, int) and target != device else None,
                )
            )


def _small(value: Any) -> int | None:
    return value if isinstance(value, int) and 0 <= value < 1 << 40 else None


def _read_syncs(base: Database, session: Session) -> None:
    kinds = {
        number: str(label)
        for _, number, label in base.rows("ENUM_CUPTI_SYNC_TYPE", "id", "label")
        if isinstance(number, int) and label
    }
    table = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"
    columns = ("start", "end", "deviceId", "streamId", "correlationId", "globalPid", "syncType")
    for row, start, end, device, stream, correlation, serial, kind in base.rows(table, *columns):
        times = _times(session, table, row, start, end)
        if times is None:
            continue
        end = times[0] if times[1] is None else times[1]
        name = clean_name(kinds.get(kind, "synchronization"))
        number = correlation if isinstance(correlation, int) else None
        session.syncs.append(
            Operation(times[0], end, "stall", name, process_of(serial), _small(device),
                      _small(stream), number)
        )  # fmt: skip


def _range_kinds(base: Database) -> tuple[dict[int, str], set[int]]:
    """Give the numbers of the kinds of ranges and of marks, as this export defines them."""
    ranges, marks = dict(_RANGES), set(_MARKS)
    names = {"NvtxPushPopRange": "nest", "NvtxStartEndRange": "free",
             "NvtxtPushPopRange": "nest", "NvtxtStartEndRange": "free"}  # fmt: skip
    for _, number, name in base.rows("ENUM_NSYS_EVENT_TYPE", "id", "name"):
        if isinstance(number, int) and isinstance(name, str):
            if name in names:
                ranges[number] = names[name]
            elif name in ("NvtxMark", "NvtxtMark"):
                marks.add(number)
    return ranges, marks


def _read_ranges(base: Database, session: Session) -> None:
    ranges, marks = _range_kinds(base)
    domains: dict[tuple[int | None, int], str] = {}
    table = "NVTX_EVENTS"
    columns = ("start", "end", "eventType", "globalTid", "text", "textId", "domainId")
    rows: Iterator[tuple[Any, ...]] = base.rows(table, *columns)
    for row, start, end, kind, serial, text, number, domain in rows:
        thread = serial if isinstance(serial, int) else None
        name = _text(session, text) or _text(session, number)
        if kind == 75 and isinstance(domain, int) and name:
            domains[process_of(thread), domain] = name
        elif kind in _THREAD_NAMES and thread is not None and name:
            session.threads.setdefault(thread, name)
        elif kind in marks:
            times = _times(session, table, row, start, None)
            if times is not None:
                session.marks.append((times[0], name, thread))
        elif kind in ranges:
            times = _times(session, table, row, start, end)
            if times is None:
                continue
            made = Slice(times[0], times[1], name, None, None, None, times[1] is None)
            made.flow = ranges[kind]
            made.cat = domains.get((process_of(thread), domain)) if domain else None
            session.unended += made.open
            session.ranges.setdefault(thread, []).append(made)
