"""Traces as Chrome Trace Event JSON, which the public trace viewers open.

Workers are processes, lanes are threads; tasks and their intervals are slices that never cross,
dependencies are arrows, samples are counters, events are marks. The format: "Trace Event Format",
https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
"""

from __future__ import annotations

import contextlib
import gzip
import json
import os
from collections.abc import Iterator, Mapping
from math import isfinite
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from rotameter import __version__
from rotameter.adapters.exporters._perfetto_lanes import Item, Lanes
from rotameter.adapters.exporters._writing import Written
from rotameter.errors import TraceError, UsageError

if TYPE_CHECKING:
    from rotameter.profiler.trace import Trace

__all__ = ["Exporter", "events"]

_SLOT = "slot"
_NO_WORKER = "(no worker)"
_APART = ("started_ns", "ended_ns", "worker", "group")
_TIMES = ("submitted_ns", "ready_ns")
_MARK_APART = ("at_ns", "kind", "worker")


class Exporter:
    """Writes JSON for Perfetto, ``chrome://tracing`` and speedscope; gzipped for ``*.gz``.

    Examples
    --------
    >>> from rotameter.profiler.trace import Trace
    >>> rows = [{"task_id": "a", "group": "load", "worker": "w", "started_ns": 0, "ended_ns": 2000}]
    >>> [e["name"] for e in events(Trace.from_tables({"tasks": rows})) if e["ph"] == "X"]
    ['load']
    """

    name = "perfetto"

    def __init__(self) -> None:
        self.written: Written | None = None

    def write(self, trace: Trace, path: str, **options: Any) -> None:
        """Write the trace; an existing file is replaced only when all of it is written."""
        for option in options:
            raise UsageError(f"the exporter perfetto has no option {option!r}", hint="it has none")
        target = Path(path)
        self.written = None
        draft = target.with_name(f".{target.name}.{os.getpid()}.part")
        try:
            with draft.open("wb") as raw:
                if target.suffix == ".gz":
                    with gzip.GzipFile(filename="", fileobj=raw, mode="wb", mtime=0) as packed:
                        said = _write(trace, packed)
                else:
                    said = _write(trace, raw)
            os.replace(draft, target)
            self.written = said
        except OSError as error:
            reason = error.strerror or error
            raise TraceError(f"cannot write {path}: {reason}", hint="check the folder") from None
        finally:
            with contextlib.suppress(OSError):
                draft.unlink(missing_ok=True)


class _Raw(float):
    """Microseconds with their nanoseconds: printed exactly."""

    def __new__(cls, at_ns: int) -> _Raw:
        made = super().__new__(cls, at_ns / 1000)
        made.ns = at_ns
        return made

    ns: int

    def __repr__(self) -> str:
        whole, rest = divmod(self.ns, 1000)
        return f"{whole}.{rest:03d}" if rest else str(whole)


def _write(trace: Trace, stream: IO[bytes] | gzip.GzipFile) -> Written:
    drawn = _Drawing(trace)
    head = {"displayTimeUnit": "ms", "otherData": drawn.facts()}
    stream.write(json.dumps(head, separators=(",", ":"))[:-1].encode() + b',"traceEvents":[\n')
    before = b""
    for event in drawn.events():
        stream.write(before + _line(event).encode())
        before = b",\n"
    stream.write(b"\n]}\n")
    return drawn.written()


def _line(event: Mapping[str, Any]) -> str:
    # float.__repr__ is what json prints of a float's subclass: times are put in as text.
    parts = [
        f'"{name}":{value!r}'
        if isinstance(value, _Raw)
        else f'"{name}":{json.dumps(value, separators=(",", ":"))}'
        for name, value in event.items()
    ]
    return "{" + ",".join(parts) + "}"


def events(trace: Trace) -> Iterator[dict[str, Any]]:
    """Give the events of a trace, as they are written; times in µs from the first instant."""
    return _Drawing(trace).events()


class _Drawing:
    """A trace laid out for a viewer."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._read: dict[str, list[dict[str, Any]]] = {}
        self._tasks, self._intervals = self._rows("tasks"), self._rows("intervals")
        self._left_out = 0
        self._items: list[Item] = []
        self._spans: dict[int, tuple[int, int, bool]] = {}
        self._owners: dict[str, list[int]] = {}
        self._lay_out()
        self._pids = self._number_processes()
        self._nobody = self._pids.get(None, 0)
        self._tids: dict[tuple[str | None, str | None, int], int] = {}
        self._drawn: dict[int, tuple[int, int]] = {}
        self._aside: dict[int, str] = {}
        self._place()

    # -- times and lanes ----------------------------------------------------------------------

    def _lay_out(self) -> None:
        """Find out when each task ran; intervals then lie in their task or on their own lane."""
        lanes = self._task_lanes()
        for row, task in enumerate(self._tasks):
            span = _span(task)
            if span is None:
                self._left_out += 1
                continue
            self._spans[row] = span
            self._owners.setdefault(task["task_id"], []).append(row)
            start, end, _ = span
            lane = lanes.get((task["task_id"], task.get("attempt")))
            self._items.append(Item(start, end, task.get("worker"), lane, 0, None, row))
        last = max((item.end for item in self._items), default=0)
        for item in self._items:
            if not self._spans[item.row][2]:
                item.end = last  # still open: nothing may be drawn after it on its thread
            item.inside = self._around(self._tasks[item.row].get("parent"), item, None)
        size = len(self._tasks)
        for row, interval in enumerate(self._intervals):
            if "start_ns" not in interval:
                self._left_out += 1
                continue
            start, lane = interval["start_ns"], interval.get("lane")
            end = max(start, interval.get("end_ns", start))
            item = Item(start, end, interval.get("worker"), lane, 1, None, size + row)
            item.inside = self._around(
                interval.get("task_id"), item, interval.get("attempt"), interval.get("run_id")
            )
            if item.inside is not None:
                item.worker = item.worker or self._tasks[item.inside].get("worker")
                if self._is_task_itself(interval, item):
                    continue
            self._items.append(item)

    def _task_lanes(self) -> dict[tuple[Any, Any], str]:
        """Give the lane of each attempt, as its first interval says."""
        found: dict[tuple[Any, Any], tuple[int, int, str]] = {}
        for row in self._intervals:
            if row.get("lane") is None or row.get("task_id") is None or "start_ns" not in row:
                continue
            if row.get("kind") not in ("span", "compute"):
                continue
            key = (row["task_id"], row.get("attempt"))
            new = (row["start_ns"], -row.get("end_ns", row["start_ns"]), row["lane"])
            if key not in found or new < found[key]:
                found[key] = new
        return {key: lane for key, (_, _, lane) in found.items()}

    def _around(
        self, task_id: Any, item: Item, attempt: int | None, run_id: str | None = None
    ) -> int | None:
        """Give the row of the attempt of that task that holds the item."""
        rows = self._owners.get(task_id, ()) if task_id is not None else ()
        for row in rows:
            start, end, _ = self._spans[row]
            task = self._tasks[row]
            same = attempt in (None, task.get("attempt")) and run_id in (None, task.get("run_id"))
            if row != item.row and same and start <= item.start and item.end <= end:
                return row
        return None

    def _is_task_itself(self, interval: Mapping[str, Any], item: Item) -> bool:
        """Whether an interval only says on which lane its task ran."""
        assert item.inside is not None
        task, span = self._tasks[item.inside], self._spans[item.inside]
        same = (item.start, item.end) == span[:2] and interval.get("kind") == "span"
        return same and interval.get("name") == task.get("group") and "bytes" not in interval

    def _number_processes(self) -> dict[str | None, int]:
        workers = {item.worker for item in self._items}
        workers |= {row.get("worker") for row in self._rows("events") if row.get("worker")}
        workers |= {row["worker"] for row in self._rows("workers") if row.get("worker")}
        ordered = sorted(workers, key=lambda w: (w is None, w or ""))
        return {worker: number for number, worker in enumerate(ordered, start=1)}

    def _rows(self, table: str) -> list[dict[str, Any]]:
        if table not in self._read:
            rows = self._trace.table(table)
            used = [n for n in rows.column_names if rows[n].null_count < rows.num_rows]
            self._read[table] = [_known(row) for row in rows.select(used).to_pylist()]
        return self._read[table]

    def _place(self) -> None:
        lanes = Lanes()
        self._items.sort(key=lambda item: (item.start, -item.end, item.rank, item.row))
        # Lanes know items by their row, so that "inside" points at the right one.
        placed = {item.row: lanes.place(item.row, item) for item in self._items}
        order = sorted(set(placed.values()), key=lambda w: (self._pids[w[0]], w[1] or "", w[2]))
        self._tids = {where: number for number, where in enumerate(order, start=1)}
        for row, (worker, lane, slot) in placed.items():
            self._drawn[row] = (self._pids[worker], self._tids[worker, lane, slot])
            if lane is not None and slot:
                self._aside[row] = lane

    # -- events -------------------------------------------------------------------------------

    def facts(self) -> dict[str, Any]:
        """Give what a reader of the file may want to know."""
        meta = self._trace.meta
        return {
            "exporter": "rotameter",
            "version": __version__,
            "base_ns": str(self._base()),
            "time_base": str(meta.get("time_base", "epoch_ns")),
            "engine": str(meta.get("engine", "")),
            "left_out": self._left_out,
        }

    def written(self) -> Written:
        """Give how many attempts are drawn, and what is not."""
        count, of = len(self._spans), len(self._tasks)
        hidden = self._left_out - (of - count)
        left = {"have no start": of - count, "intervals have no start": hidden}
        return Written(count, of, left)

    def _base(self) -> int:
        known = [item.start for item in self._items]
        known += [row["at_ns"] for t in ("events", "samples") for row in self._rows(t)
                  if "at_ns" in row]  # fmt: skip
        return min(known, default=0)

    def events(self) -> Iterator[dict[str, Any]]:
        """Give all events: names first, then slices in the order of time, arrows, the rest."""
        base = self._base()
        yield from self._names()
        if None not in self._pids and (self._rows("samples") or self._rows("events")):
            yield _meta("process_name", 0, 0, {"name": _NO_WORKER})
        size = len(self._tasks)
        for item in self._items:
            if item.row < size:
                yield self._task(item, base)
            else:
                yield self._interval(item, self._intervals[item.row - size], base)
        yield from self._arrows(base)
        yield from self._counters(base)
        yield from self._marks(base)

    def _names(self) -> Iterator[dict[str, Any]]:
        for worker, pid in self._pids.items():
            name = _NO_WORKER if worker is None else worker
            yield _meta("process_name", pid, 0, {"name": name})
            yield _meta("process_sort_index", pid, 0, {"sort_index": pid})
        for (worker, lane, slot), tid in sorted(self._tids.items(), key=lambda kv: kv[1]):
            if lane is None:
                name = f"{_SLOT} {slot + 1}"
            else:
                name = lane if slot == 0 else f"{lane} ({slot + 1})"
            yield _meta("thread_name", self._pids[worker], tid, {"name": name})

    def _task(self, item: Item, base: int) -> dict[str, Any]:
        task = self._tasks[item.row]
        pid, tid = self._drawn[item.row]
        args = {k: v for k, v in task.items() if k not in _APART and not k.endswith("_ns")}
        args |= {f"{k[:-3]}_us": (task[k] - base) / 1000 for k in _TIMES if k in task}
        args["group"] = task.get("group")
        if item.row in self._aside:
            args["lane"] = self._aside[item.row]
        start, end, known = self._spans[item.row]
        made = {
            "ph": "X" if known else "B",
            "cat": "task",
            "name": task.get("group") or task["task_id"],
            "pid": pid,
            "tid": tid,
            "ts": _Raw(start - base),
        }
        if known:
            made["dur"] = _Raw(end - start)
        return {**made, "args": _sound(args)}

    def _interval(self, item: Item, row: Mapping[str, Any], base: int) -> dict[str, Any]:
        pid, tid = self._drawn[item.row]
        kind = row.get("kind") or "span"
        args = {k: v for k, v in row.items() if k not in ("worker", "lane", "kind", "name")}
        args.pop("start_ns", None)
        args.pop("end_ns", None)
        if item.row in self._aside:
            args["lane"] = self._aside[item.row]
        if "name" not in row:
            args["unnamed"] = True
        return {
            "ph": "X",
            "cat": f"interval:{kind}",
            "name": row.get("name") or kind,
            "pid": pid,
            "tid": tid,
            "ts": _Raw(item.start - base),
            "dur": _Raw(item.end - item.start),
            "args": _sound({"task_id": None, **args}),
        }

    def _arrows(self, base: int) -> Iterator[dict[str, Any]]:
        """Draw each dependency from the last end of one task to the first start of the other."""
        for number, row in enumerate(self._rows("deps"), start=1):
            sources = self._owners.get(row.get("depends_on", ""))
            targets = self._owners.get(row.get("task_id", ""))
            if not sources or not targets:
                continue
            source = max(sources, key=lambda r: self._spans[r][1])
            target = min(targets, key=lambda r: self._spans[r][0])
            start, end, _ = self._spans[source]
            same = {"cat": "dep", "name": "dep", "id": number}
            pid, tid = self._drawn[source]
            at = _Raw(max(start, end - 1) - base)  # at its end it holds nothing any more
            yield {"ph": "s", **same, "pid": pid, "tid": tid, "ts": at, "args": row}
            pid, tid = self._drawn[target]
            at = _Raw(self._spans[target][0] - base)
            yield {"ph": "f", "bp": "e", **same, "pid": pid, "tid": tid, "ts": at}

    def _counters(self, base: int) -> Iterator[dict[str, Any]]:
        for row in self._rows("samples"):
            if "at_ns" not in row or "value" not in row or not isfinite(row["value"]):
                continue
            subject, metric = row.get("subject"), row.get("metric") or "value"
            known = subject in self._pids
            name = metric if known or subject is None else f"{metric} {subject}"
            yield {
                "ph": "C",
                "name": name,
                "pid": self._pids[subject] if known else self._nobody,
                "ts": _Raw(row["at_ns"] - base),
                "args": {"value": row["value"]},
            }

    def _marks(self, base: int) -> Iterator[dict[str, Any]]:
        for row in self._rows("events"):
            if "at_ns" not in row:
                continue
            worker, kind = row.get("worker"), row.get("kind") or "event"
            yield {
                "ph": "i",
                "s": "g" if worker is None else "p",
                "cat": "event",
                "name": row.get("subject") or kind if kind == "instant" else kind,
                "pid": self._pids.get(worker, self._nobody),
                "tid": 0,
                "ts": _Raw(row["at_ns"] - base),
                "args": _sound({k: v for k, v in row.items() if k not in _MARK_APART}),
            }


def _meta(name: str, pid: int, tid: int, args: dict[str, Any]) -> dict[str, Any]:
    return {"ph": "M", "name": name, "pid": pid, "tid": tid, "args": args}


def _known(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if value is not None}


def _span(task: Mapping[str, Any]) -> tuple[int, int, bool] | None:
    """Give (start, end, whether the end is known) of an attempt, ns; None where nothing tells."""
    start, end, wall = task.get("started_ns"), task.get("ended_ns"), task.get("wall_s")
    if start is None and end is not None and wall is not None and 0 <= wall < 1e9:
        start = end - round(wall * 1e9)
    if start is not None and end is None and wall is not None and 0 <= wall < 1e9:
        end = start + round(wall * 1e9)
    if start is None or task.get("task_id") is None:
        return None
    return (start, max(start, end), True) if end is not None else (start, start, False)


def _sound(args: Mapping[str, Any]) -> dict[str, Any]:
    """Make arguments that JSON can say: no NaN; pairs of numbers as an object."""
    out: dict[str, Any] = {}
    for name, value in args.items():
        if isinstance(value, float) and not isfinite(value):
            continue
        if name == "features":
            value = {k: v for k, v in value if v is not None and isfinite(v)}
        out[name] = value
    return out
