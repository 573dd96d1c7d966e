"""Traces of DFTracer (and its forerunner DLIO Profiler): ``*.pfw`` and ``*.pfw.gz``.

A process writes one file: one JSON object a line, of Chrome's shape but of its own meaning. The
forms are those of https://dftracer.readthedocs.io (trace format): phases as letters, or as numbers
since version 3; names in the events, or as hashes since version 1; with or without the brackets of
a list; single calls, or calls added up (``dft_cnt``).

A process becomes a task; its calls of libc become flows, one a file and kind of call; spans of the
program itself become intervals.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from rotameter.adapters.importers._dftracer_events import Events, Process, Use
from rotameter.adapters.importers._dftracer_ops import whole
from rotameter.adapters.importers._json_events import EventReader
from rotameter.errors import BadInput
from rotameter.profiler.live.redact import clean_name
from rotameter.units import many

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rotameter.adapters.importers._dftracer_events import Span
    from rotameter.adapters.importers.building import Builder
    from rotameter.adapters.importers.inputs import InputFile
    from rotameter.values import Head

__all__ = ["Importer"]

_OWN = re.compile(r'"cat"\s*:\s*"dftracer"', re.I)
_CALLS = re.compile(r'"cat"\s*:\s*"(?:POSIX|STDIO)"')
_ARGUMENTS = re.compile(r'"(?:fhash|hhash|dft_cnt|fname|hostname)"\s*:')
_EVENT = re.compile(r'\{\s*"')
_DECODE_LIMIT = 1 << 20
_PID = re.compile(r'"pid"\s*:\s*"?(\d{1,18})\b')
_SCRIPTED = re.compile(r"(?:^|/)(?:python[\d.]*|bash|sh|Rscript|julia|perl)$")

Key = tuple[str, str | None]


class Importer:
    """Reads DFTracer files; those of several processes are one run."""

    name = "dftracer"
    engine = "dftracer"
    options: frozenset[str] = frozenset()

    def __init__(self) -> None:
        self._ids: dict[Key, str] = {}
        self._hosts: dict[Key, str | None] = {}
        self._spans: list[list[Span]] = []
        self._events = Events(self._spans.append)

    def sniff(self, head: Head) -> float:
        """Look for events of DFTracer's own, or of libc's calls with its arguments."""
        text = head.text
        if '"ph"' not in text or _EVENT.search(text[:4096]) is None:
            return 0.0
        if _OWN.search(text):
            return 0.97
        named = head.name.lower().removesuffix(".gz").endswith(".pfw")
        if _CALLS.search(text) and _ARGUMENTS.search(text):
            return 0.97
        return 0.96 if named and '"pid"' in text else 0.0

    def read(self, file: InputFile, build: Builder, **options: Any) -> None:
        """Read one file.

        Raises
        ------
        BadInput
            If it holds no events.
        """
        events = self._events
        events.begin()
        taken = 0
        for line, found in _records(file, build, events):
            build.records_in += 1
            if not isinstance(found, dict):
                build.reject(file.name, line, "not an event")
                continue
            reason = events.take(found)
            if reason is not None:
                build.reject(file.name, line, reason)
                number = whole(found.get("pid"))
                events.lose(None if number is None else str(number))
            else:
                taken += 1
        events.close()
        if not taken:
            raise BadInput(f"{file.name} holds no events of DFTracer", hint="check the file")

    def finish(self, build: Builder) -> None:
        """Give tasks, flows, intervals and samples of all processes."""
        events = self._events
        build.records_out, build.merged = events.out, build.merged + events.merged
        build.local = events.relative
        self._name(events)
        names = {key: _program(process, events) for key, process in events.processes.items()}
        _tasks(self, events, names, build)
        _flows(self, events, build)
        self._intervals(build)
        if events.samples:
            at, hosts, metrics, values = zip(*events.samples, strict=True)
            build.extend(
                "samples",
                {
                    "at_ns": list(at),
                    "subject": [clean_name(self._host(h) or "host") for h in hosts],
                    "metric": [clean_name(m) for m in metrics],
                    "value": list(values),
                    "quality": ["exact"] * len(at),
                },
            )
        self._say(events, build)

    # -- names --------------------------------------------------------------------------------

    def _host(self, key: str | None) -> str | None:
        if key is None:
            return None
        return key[1:] if key.startswith("=") else self._events.hosts.late(key, 0)

    def _name(self, events: Events) -> None:
        """Name each process by its host and number."""
        for key, process in events.processes.items():
            host = self._host(process.host)
            self._hosts[key] = clean_name(host) if host else None
            self._ids[key] = clean_name(f"{host}:{process.pid}" if host else process.pid)
        # One name twice: a host known by hash alone in one file and by name in another.
        seen: Counter[str] = Counter()
        for key, label in self._ids.items():
            seen[label] += 1
            if seen[label] > 1:
                self._ids[key] = f"{label} ({seen[label]})"

    def id_of(self, key: Key) -> str:
        """Give a process's task id."""
        return self._ids[key]

    def host_of(self, key: Key) -> str | None:
        """Give a process's host."""
        return self._hosts[key]

    # -- tables -------------------------------------------------------------------------------

    def _intervals(self, build: Builder) -> None:
        for spans in self._spans:
            keys, lanes, kinds, names, starts, ends = zip(*spans, strict=True)
            texts = {name: clean_name(name) for name in set(names)}
            build.extend(
                "intervals",
                {
                    "task_id": [self._ids[key] for key in keys],
                    "attempt": np.ones(len(keys), np.int64),
                    "worker": [self._ids[key] for key in keys],
                    "lane": [f"thread {lane}" for lane in lanes],
                    "kind": list(kinds),
                    "name": [texts[name] for name in names],
                    "start_ns": np.array(starts, np.int64),
                    "end_ns": np.array(ends, np.int64),
                },
            )

    def _say(self, events: Events, build: Builder) -> None:
        if events.files.shared:
            text = (
                f"file hashes that stand for several files: {events.files.shared:,}; "
                f"{many(events.files.doubtful, 'call')} may be counted for the wrong one of them"
            )
            build.warn(text)
        if events.aggregated:
            build.not_measured("single spans: the tracer added them up")
        lossy = sum(p.lossy for p in events.processes.values())
        if lossy:
            build.warn(
                f"processes whose events could not all be read (the file is cut or damaged): "
                f"{lossy:,}; their bytes, calls and seconds are lower bounds"
            )
        open_ = sum(p.began and not p.ended for p in events.processes.values())
        if open_:
            build.warn(
                "processes without an end (killed, still running, or the file is cut): "
                f"{open_:,}; their bytes are lower bounds"
            )
        if not all(p.began and p.ended for p in events.processes.values()):
            build.not_measured("the whole life of processes: from their first to their last event")
        build.not_measured("whether processes failed, their CPU time and memory")
        build.not_measured("bytes through mapped memory (mmap): they go by without a call")


def _records(file: InputFile, build: Builder, events: Events) -> Iterator[tuple[int, Any]]:
    """Give (line, what stands there): an event a line, else whatever objects are in the file."""
    found = 0
    try:
        for line, text in file.lines():
            text = text.strip(" \t\r,\x00\ufeff")
            if not text or text in "[]":
                continue
            try:
                value = json.loads(text) if len(text) <= _DECODE_LIMIT else None
            except (ValueError, RecursionError):
                value = None
            if not found and not (isinstance(value, dict) and "name" in value):
                break
            found += 1
            if not isinstance(value, dict):
                pid = _PID.search(text)
                events.lose(str(int(pid[1])) if pid else None)
            yield line, value
        else:
            return
    except BadInput as error:
        if not found:
            raise
        build.warn(str(error))
        events.lose(None)
        return
    yield from _loose(file, build, events)


def _loose(file: InputFile, build: Builder, events: Events) -> Iterator[tuple[int, Any]]:
    """Read a file whose first line is no event: written anew by another tool, or damaged."""
    reader = EventReader(file, mark="name")
    for value in reader:
        yield reader.line, value
    for damage in reader.damage:
        build.records_in += 1
        build.reject(file.name, damage.line, "not JSON")
    if reader.damage or reader.broken:
        events.lose(None)
    if reader.broken:
        build.warn(reader.broken)


def _program(process: Process, events: Events) -> str | None:
    """Give what ran in a process: the script, else the program; never its arguments."""
    for fact in ("cmd_hash", "exec_hash"):
        key = process.facts.get(fact)
        text = events.texts.late(key, 0) if key is not None else None
        words = (text or "").split()
        if not words or words[0] in ("DEFAULT", "UNKNOWN"):
            continue
        if _SCRIPTED.search(words[0]):
            words = [w for w in words[1:] if not w.startswith("-")][:1] or words[:1]
        return clean_name(words[0].rpartition("/")[2] or words[0])
    return None


def _io_s(process: Process) -> float:
    """Give the seconds in which at least one call was under way."""
    calls = np.frombuffer(process.calls, np.int64).reshape(-1, 2) if process.calls else None
    total = 0
    if calls is not None:
        calls = calls[np.argsort(calls[:, 0], kind="stable")]
        reach = np.maximum.accumulate(calls[:, 1])
        before = np.concatenate(([calls[0, 0]], reach[:-1]))
        total = int(np.maximum(calls[:, 1] - np.maximum(calls[:, 0], before), 0).sum())
    life = (process.last_ns or 0) - (process.first_ns or 0)
    more = process.more_io_ns
    # Calls added up may have run at the same time, and their record ends where it begins.
    return (min(total + more, life) if more and life else total + more) / 1e9


def _life_s(process: Process) -> float | None:
    if process.first_ns is None or process.last_ns is None:
        return None
    return (process.last_ns - process.first_ns) / 1e9


def _tasks(
    importer: Importer, events: Events, names: dict[Key, str | None], build: Builder
) -> None:
    moved: dict[tuple[Key, str], list[int]] = {}
    for (key, _, op), use in events.uses.items():
        if op in ("read", "write"):
            sums = moved.setdefault((key, op), [0, 0, 0])
            sums[0] += use.bytes
            sums[1] += use.unknown
            sums[2] += use.ops
    ids = {
        (p.pid, importer.host_of(key)): importer.id_of(key) for key, p in events.processes.items()
    }
    for key, process in sorted(events.processes.items(), key=lambda item: importer.id_of(item[0])):
        if not process.events:
            continue
        low = process.lossy or (process.began and not process.ended)
        pair = [moved.get((key, op), [0, 0, 0]) for op in ("read", "write")]
        # Where no call says its bytes, or what is missing may be all there was: not known.
        read, wrote = (
            None if (ops and unknown == ops) or (low and not ops) else min(size, 2**62)
            for size, unknown, ops in pair
        )
        low |= bool(pair[0][1] or pair[1][1])
        kind = None if read is None and wrote is None else "lower_bound" if low else "exact"
        parent = process.facts.get("ppid")
        rank = process.facts.get("rank")
        build.add(
            "tasks",
            {
                "task_id": importer.id_of(key),
                "attempt": 1,
                "run_id": process.pid,
                "parent": ids.get((parent, importer.host_of(key))) if parent else None,
                "group": names[key],
                "worker": importer.id_of(key),
                "host": importer.host_of(key),
                "started_ns": process.first_ns,
                "ended_ns": process.last_ns,
                "wall_s": _life_s(process),
                "outcome": "unknown",
                "io_s": _io_s(process),
                "read_bytes": read,
                "write_bytes": wrote,
                "io_kind": kind,
                "features": None if rank is None else {"rank": float(rank)},
                "source": "dftracer",
            },
        )


def _flows(importer: Importer, events: Events, build: Builder) -> None:
    total: dict[str, int] = {}
    for (_, file, _), use in events.uses.items():
        if file is not None and not file[0]:
            total[file[1]] = total.get(file[1], 0) + use.ops
    late = {key: events.files.late(key, calls) for key, calls in total.items()}
    nameless = [key for key, name in late.items() if name is None]
    if nameless:
        build.warn(f"the names of {many(len(nameless), 'file')} are not in the trace")

    def label(key: Key, file: tuple[bool, str] | None) -> str:
        if file is None:
            return f"unnamed files of {importer.id_of(key)}"
        name = file[1] if file[0] else late.get(file[1])
        return f"file {file[1]}" if name is None else clean_name(name)

    rows: dict[tuple[str, str, str], Use] = {}
    for (key, file, op), use in events.uses.items():
        place = importer.id_of(key), label(key, file), op
        rows[place] = _joined(rows[place], use) if place in rows else use
    if rows:
        build.extend("flows", _columns(rows))
    objects = dict.fromkeys(name for _, name, _ in rows)
    gone: dict[str, int] = {}
    for file, at in events.deleted.items():
        name = label(("", None), file)
        gone[name] = max(gone.get(name, at), at)
    if objects:
        build.extend(
            "objects",
            {"object": sorted(objects), "deleted_ns": [gone.get(n) for n in sorted(objects)]},
        )


def _joined(one: Use, other: Use) -> Use:
    firsts = [u.first_ns for u in (one, other) if u.first_ns is not None]
    lasts = [u.last_ns for u in (one, other) if u.last_ns is not None]
    return Use(
        one.ops + other.ops,
        one.bytes + other.bytes,
        one.unknown + other.unknown,
        min(firsts, default=None),
        max(lasts, default=None),
        one.busy_ns + other.busy_ns,
    )


def _columns(rows: dict[tuple[str, str, str], Use]) -> dict[str, Any]:
    keys = sorted(rows)
    uses = [rows[key] for key in keys]
    moves = [key[2] in ("read", "write") for key in keys]
    return {
        "task_id": [key[0] for key in keys],
        "attempt": np.ones(len(keys), np.int64),
        "worker": [key[0] for key in keys],
        "object": [key[1] for key in keys],
        "medium": ["file"] * len(keys),
        "op": [key[2] for key in keys],
        "bytes": [
            min(u.bytes, 2**62) if moved and u.unknown < u.ops else None
            for u, moved in zip(uses, moves, strict=True)
        ],
        "ops": [min(u.ops, 2**62) for u in uses],
        "first_ns": [u.first_ns for u in uses],
        "last_ns": [u.last_ns for u in uses],
        "busy_s": [u.busy_ns / 1e9 for u in uses],
    }
