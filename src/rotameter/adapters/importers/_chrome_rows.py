"""From the sorted events of trace files to rows: tasks, intervals, deps, samples, events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from rotameter.adapters.importers._chrome_events import Events, Flow, natural
from rotameter.adapters.importers._chrome_slices import (
    Slice,
    Track,
    enclosing,
    nest,
    pair,
    starting,
)
from rotameter.profiler.live.redact import clean_name
from rotameter.profiler.schema import INTERVAL_KINDS, OUTCOMES

if TYPE_CHECKING:
    from rotameter.adapters.importers.building import Builder

__all__ = ["Rows"]

_OPEN = "no end event: closed at the end of the slice around it or of the trace"
_FEATURES = 32
_NOTHING: Mapping[str, Any] = {}


@dataclass(slots=True)
class _Placed:
    """The slices of one track, sorted, with what they lie in."""

    track: Track
    worker: str | None
    lane: str | None
    slices: list[Slice]
    parents: list[int]
    starts: list[int]
    tasks: list[str | None]
    roots: list[int]


class Rows:
    """Makes the rows of one file.

    Parameters
    ----------
    build : Builder
        Where they go.
    source : str
        The file's name, for rejects.
    events : Events
        What was read.
    prefix : str
        Put before task ids and workers, to tell files apart.
    spans : bool
        Whether nested slices stay spans of their outermost slice, rather than tasks.
    """

    def __init__(
        self, build: Builder, source: str, events: Events, prefix: str, spans: bool
    ) -> None:
        self.build, self.source, self.events = build, source, events
        self.prefix, self.own, self.spans = prefix, events.own, spans
        self.said: Counter[str] = Counter()
        self._tasks: list[tuple[Any, ...]] = []
        self._names: dict[str, str] = {}
        self._used: set[str] = set()
        self._workers = self._labels()

    def write(self) -> None:
        """Give everything to the builder."""
        events = self.events
        threads = self._placed(events.threads, _thread_lane(events))
        asyncs = self._placed(events.asyncs, lambda track, key: f"async {key[0]}".rstrip())
        busy = any(item.slices for item in threads)
        rows: dict[tuple[str, ...], _Placed] = {}
        for key, item in zip(sorted(events.threads, key=_track_order), threads, strict=True):
            base = f"{item.track.pid or ''}/{item.track.tid or ''}"
            self._emit(item, base)
            rows[key] = item
        for key, item in zip(sorted(events.asyncs, key=_track_order), asyncs, strict=True):
            name = f"{item.track.pid or ''}/{key[0]}:{key[2]}"
            self._emit(item, None if busy else name)
        self._arrows(rows)
        self._write_tasks()
        self._others()

    # -- who and where ------------------------------------------------------------------------

    def _labels(self) -> dict[str | None, str | None]:
        """Give each process its worker's name: as it is called, told apart by its number."""
        events = self.events
        seen = {track.pid for track in (*events.threads.values(), *events.asyncs.values())}
        seen |= {item.pid for item in events.samples} | {item.pid for item in events.instants}
        names = Counter(events.processes.get(pid) for pid in seen)
        labels: dict[str | None, str | None] = {}
        for pid in seen:
            name = events.processes.get(pid)
            if name is None:
                labels[pid] = None if pid is None else f"{self.prefix}{clean_name(pid)}"
            else:
                alone = names[name] == 1
                label = name if alone else f"{name} {pid or ''}".rstrip()
                labels[pid] = self.prefix + clean_name(label)
        return labels

    def _placed(self, tracks: Mapping[tuple[str, ...], Track], lane: Any) -> list[_Placed]:
        events, made = self.events, []
        for key in sorted(tracks, key=_track_order):
            track = tracks[key]
            slices = track.slices
            if track.marks:
                paired, stray = pair(track.marks, events.last or 0)
                slices = slices + paired
                events.out += len(paired)
                ends = sum(not mark.begins for mark in track.marks)
                events.merged += ends - len(stray)
                opened = sum(item.open for item in paired)
                self.said["slices without an end event, closed at the end"] += opened
                self.said["ends without a begin, ignored"] += len(stray)
                for mark in stray:
                    reason = f"an end ({mark.name or 'without name'}) that no begin belongs to"
                    events.rejects.append((mark.line, reason))
            parents, crossing = nest(slices)
            self.said["slices that overlap on one thread without lying in one another"] += crossing
            starts = [item.start for item in slices]
            worker = self._workers.get(track.pid)
            label = clean_name(lane(track, key)) if lane(track, key) else None
            roots: list[int] = []
            for place, parent in enumerate(parents):
                roots.append(place if parent < 0 else roots[parent])
            made.append(_Placed(track, worker, label, slices, parents, starts, [], roots))
        return made

    # -- slices -------------------------------------------------------------------------------

    def _emit(self, item: _Placed, base: str | None) -> None:
        """Make tasks of the outermost slices (of none without ``base``), intervals of all."""
        names = self._names
        labels = []
        for one in item.slices:
            name = one.name
            if name is not None and name not in names:
                names[name] = clean_name(name)
            labels.append(None if name is None else names[name])
        root = None if base is None else clean_name(self.prefix + base)
        marks: list[tuple[str | None, Mapping[str, Any]]] = []
        count = 0
        for place, one in enumerate(item.slices):
            above = item.parents[place]
            task = item.tasks[above] if above >= 0 else None
            kind, given = self._own_kind(one) if self.own else (None, _NOTHING)
            if kind is None and root is not None and (above < 0 or not self.spans or given):
                parent, task = task, self._id(given, f"{root}/{count}")
                count += 1
                self._tasks.append((one, labels[place], task, parent, item.worker, given))
            elif kind is not None:
                own = given.get("task_id")
                task = None if own is None else self.prefix + clean_name(str(own))
            item.tasks.append(task)
            if self.own:
                marks.append((kind, given))
        size = len(labels)
        columns: dict[str, Any] = {
            "task_id": _strings(item.tasks),
            "worker": _same(item.worker, size),
            "lane": _same(item.lane, size),
            "kind": _same("span", size),
            "name": _strings(labels),
            "start_ns": pa.array(item.starts, pa.int64()),
            "end_ns": pa.array([one.end for one in item.slices], pa.int64()),
            "parent": _strings([labels[p] if p >= 0 else None for p in item.parents]),
        }
        if self.own:
            columns |= _own_columns(marks, labels, item.lane)
        self.build.extend("intervals", columns)

    def _own_kind(self, one: Slice) -> tuple[str | None, Mapping[str, Any]]:
        """Read the marks of our own exporter: (kind of an interval or None, its arguments)."""
        if one.cat is None or one.args is None:
            return None, _NOTHING
        if one.cat == "task":
            return None, one.args
        kind = one.cat.removeprefix("interval:")
        return (kind if kind in INTERVAL_KINDS else "span"), one.args

    def _id(self, given: Mapping[str, Any], made: str) -> str:
        if given.get("task_id") is not None:
            return self.prefix + clean_name(str(given["task_id"]))  # attempts of one task share it
        while made in self._used:
            made += "'"
        self._used.add(made)
        return made

    def _write_tasks(self) -> None:
        if not self._tasks:
            return
        slices, names, ids, parents, workers, given = zip(*self._tasks, strict=True)
        self._tasks = []
        ends = [one.end for one in slices]
        columns: dict[str, Any] = {
            "task_id": _strings(ids),
            "parent": _strings(parents),
            "group": _strings(names),
            "worker": _strings(workers),
            "started_ns": pa.array([one.start for one in slices], pa.int64()),
            "ended_ns": pa.array(ends, pa.int64()),
            "wall_s": pa.array(
                [None if s.end is None else (s.end - s.start) / 1e9 for s in slices], pa.float64()
            ),
            "outcome": _strings([_outcome(one) for one in slices]),
            "outcome_kind": _same("inferred", len(slices)),
            "source": _same("chrome_trace", len(slices)),
        }
        if any(one.cpu_ns is not None for one in slices):
            columns["cpu_s"] = [None if s.cpu_ns is None else s.cpu_ns / 1e9 for s in slices]
        if any(one.open for one in slices):
            columns["error"] = [_OPEN if one.open else None for one in slices]
        if any(one.args for one in slices):
            columns["features"] = [_features(one) if one.args else None for one in slices]
        if self.own:
            _restore(columns, slices, given)
        self.build.extend("tasks", columns)

    # -- arrows -------------------------------------------------------------------------------

    def _arrows(self, rows: Mapping[tuple[str, ...], _Placed]) -> None:
        """Make deps of arrows between tasks that follow each other, peers of the others."""
        chains: dict[tuple[str, ...], list[Flow]] = {}
        for flow in self.events.flows:
            chains.setdefault(flow.key, []).append(flow)
        deps: set[tuple[str, str]] = set()
        loose = 0
        for chain in chains.values():
            chain.sort(key=lambda flow: (flow.at, flow.rank, flow.track, flow.to_next))
            before: tuple[Slice, str] | None = None
            for flow in chain:
                here = self._at(rows.get(flow.track), flow)
                if flow.rank and (before is None or here is None):
                    loose += 1
                if flow.rank and before is not None and here is not None:
                    _join(before, here, deps, self.said)
                if flow.rank < 2:
                    before = here
        self.said["arrows (flow events) from or to no slice"] += loose
        for ours in self.events.deps:
            task, other = (self.prefix + clean_name(name) for name in ours)
            deps.add((task, other))
        for task, other in sorted(deps):
            self.build.add("deps", {"task_id": task, "depends_on": other})

    def _at(self, item: _Placed | None, flow: Flow) -> tuple[Slice, str] | None:
        if item is None:
            return None
        place = starting(item.starts, flow.at) if flow.to_next else -1
        if place < 0:
            place = enclosing(item.slices, item.starts, item.parents, flow.at)
        if place < 0:
            return None
        task = item.tasks[place]
        if self.spans:
            place = item.roots[place]  # the slice that is the task
        return None if task is None else (item.slices[place], task)

    # -- the rest -----------------------------------------------------------------------------

    def _others(self) -> None:
        events, build = self.events, self.build
        samples = sorted(
            (s.at, self._workers.get(s.pid) or "", clean_name(s.name), s.value)
            for s in events.samples
        )
        for at, subject, metric, value in samples:
            build.add(
                "samples",
                {"at_ns": at, "subject": subject or None, "metric": metric, "value": value},
            )
        instants = sorted(
            (i.at, self._workers.get(i.pid) or "", i.name or "", i.phase) for i in events.instants
        )
        for at, worker, name, phase in instants:
            build.event(
                "instant", at, subject=clean_name(name) or None, worker=worker or None,
                text=f"ph {phase}",
            )  # fmt: skip
        pids = [p for p in self._workers if any(t.pid == p for t in events.threads.values())]
        for pid in sorted(pids, key=natural):
            if pid is not None:
                number = int(pid) if pid.isdecimal() and len(pid) < 18 else None
                row = {"worker": self._workers[pid], "pid": number}
                build.add("workers", {**row, "name": self._workers[pid]})


def _join(
    before: tuple[Slice, str],
    here: tuple[Slice, str],
    deps: set[tuple[str, str]],
    said: Counter[str],
) -> None:
    (source, task), (target, other) = before, here
    if task == other:
        return
    follows = source.end is not None and source.end <= target.start
    if follows and (source.start, source.last) < (target.start, target.last):
        deps.add((other, task))
    else:
        said["arrows into a slice that had begun by then, no dependencies"] += 1


def _thread_lane(events: Events) -> Any:
    """Name lanes as threads are called, told apart by their numbers."""
    names = Counter(
        (track.pid, events.thread_names.get((track.pid, track.tid)))
        for track in events.threads.values()
    )

    def lane(track: Track, key: tuple[str, ...]) -> str | None:
        name = events.thread_names.get((track.pid, track.tid))
        if name is None:
            return track.tid
        return name if names[track.pid, name] == 1 else f"{name} {track.tid or ''}".rstrip()

    return lane


def _track_order(key: tuple[str, ...]) -> list[tuple[int, int, str]]:
    return [natural(part) for part in key]


def _outcome(one: Slice) -> str:
    return "running" if one.open else "unknown" if one.end is None else "ok"


def _attempt(given: Mapping[str, Any]) -> int | None:
    value = given.get("attempt")
    whole = not isinstance(value, bool)
    return value if isinstance(value, int) and whole and 0 < value < 1 << 31 else None


def _features(one: Slice) -> dict[str, float] | None:
    found: dict[str, float] = {}
    for name, value in (one.args or _NOTHING).items():
        if isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 1e300:
            found[clean_name(str(name))] = float(value)
        if len(found) >= _FEATURES:
            break
    return dict(sorted(found.items())) or None


def _own_columns(
    marks: Sequence[tuple[str | None, Mapping[str, Any]]],
    labels: Sequence[str | None],
    lane: str | None,
) -> dict[str, Any]:
    """Take back what our exporter wrote about intervals."""

    def text(given: Mapping[str, Any], name: str) -> str | None:
        value = given.get(name)
        return clean_name(value) if isinstance(value, str) else None

    sizes = [given.get("bytes") for _, given in marks]
    return {
        "kind": [kind or "span" for kind, _ in marks],
        "lane": [text(given, "lane") or lane for _, given in marks],
        "name": [
            None if given.get("unnamed") is True else label
            for (_, given), label in zip(marks, labels, strict=True)
        ],
        "attempt": [_attempt(given) for _, given in marks],
        "peer": [text(given, "peer") for _, given in marks],
        "parent": [text(given, "parent") if kind else None for kind, given in marks],
        "bytes": [n if type(n) is int and 0 <= n < 1 << 62 else None for n in sizes],
    }


def _restore(
    columns: dict[str, Any], slices: Sequence[Slice], given: Sequence[Mapping[str, Any]]
) -> None:
    rows = [_restored(marks) for marks in given]
    for row, one in zip(rows, slices, strict=True):
        if row and one.open:
            row |= {"ended_ns": None, "wall_s": None}
    for name in sorted({name for row in rows for name in row}):
        old = columns.get(name)
        values = [None] * len(rows) if old is None else _listed(old)
        columns[name] = [row.get(name, value) for row, value in zip(rows, values, strict=True)]


def _listed(values: Any) -> list[Any]:
    return list(values.to_pylist() if isinstance(values, pa.Array) else values)


def _strings(values: Sequence[str | None]) -> pa.Array:
    return pa.array(values, pa.string())


def _same(value: str | None, size: int) -> pa.Array:
    return pa.nulls(size, pa.string()) if value is None else pa.repeat(value, size)


def _restored(given: Mapping[str, Any]) -> dict[str, Any]:
    """Take back what our exporter wrote into the arguments, where it is sound."""
    if not given:
        return {}
    row: dict[str, Any] = {"attempt": _attempt(given), "features": None, "parent": None}
    for name in ("run_id", "group", "parent", "outcome_kind"):
        value = given.get(name)
        if isinstance(value, str) or (name == "group" and value is None):
            row[name] = None if value is None else clean_name(value)
    if isinstance(given.get("outcome"), str) and given["outcome"] in OUTCOMES:
        row |= {"outcome": given["outcome"], "error": None}
    wall = given.get("wall_s")
    if isinstance(wall, (int, float)) and not isinstance(wall, bool) and 0 <= wall < 1e12:
        row["wall_s"] = float(wall)
    return row
