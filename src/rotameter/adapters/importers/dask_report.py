"""Dask performance reports and saved task streams: Bokeh pages, parsed and never executed.

The format: https://distributed.dask.org/en/stable/diagnosing-performance.html,
``distributed/diagnostics/task_stream.py`` (``rectangles``: one a startstop, ``start`` is its middle
in epoch milliseconds, ``name`` carries the action as a prefix) and Bokeh 0.12 to 3.9.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from rotameter.adapters.importers._dask_bokeh import Page, numbers, read_page, texts
from rotameter.adapters.importers._dask_common import (
    Attempts,
    Stretch,
    group_name,
    not_measured,
)
from rotameter.adapters.importers._dask_monitor import add_samples
from rotameter.adapters.importers._dask_summary import Summary, read_summary
from rotameter.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from rotameter.adapters.importers.building import Builder
    from rotameter.adapters.importers.inputs import InputFile
    from rotameter.values import Head

__all__ = ["Importer"]

_HTML = re.compile(rb"<!doctype html|<html|<head|<script|<div", re.I)
_TITLE = re.compile(rb"<title>\s*Dask (?:Performance Report|Task Stream|Profile)", re.I)
_PREFIXES = ("transfer-", "disk-read-", "disk-write-", "deserialize-")
_BEFORE_COMPUTE = ("compute", "transfer", "deserialize", "disk-read")
_LATEST_MS = 7_258_118_400_000.0
_BUFFER = 100_000
"""Default of distributed.scheduler.dashboard.tasks.task-stream-length."""


class Importer:
    """Reads the task stream of a performance report and checks it against the summary."""

    name = "dask_report"
    engine = "dask"
    options: frozenset[str] = frozenset()

    def __init__(self) -> None:
        self._attempts = Attempts(self.name)
        self._again = 0
        self._cores: set[float | None] = set()
        self._profiles = False

    def sniff(self, head: Head) -> float:
        """Look for a Bokeh page that Dask made."""
        data = head.data.replace(b"\0", b"")  # UTF-16 too
        if not _HTML.search(data[:4096]):
            return 0.0
        if _TITLE.search(data[:16384]):
            return 0.95
        if not re.search(rb"bokeh", data, re.I):
            return 0.0
        dask = re.search(rb"worker_thread|Task Stream|\bdask\b|distributed", data)
        return 0.8 if dask else 0.3

    def read(self, file: InputFile, build: Builder, **options: Any) -> None:
        """Read one page."""
        page = read_page(file.read_text())
        streams, seen = [], []
        for table in page.tables:
            if "start" in table and "duration" in table and not {"worker", "key"}.isdisjoint(table):
                if table not in seen:
                    streams.append(_Stream(table))
                seen.append(table)
        if not streams:
            raise BadInput(f"{file.name} {_why_not(page)}", hint="save it with performance_report")
        if not any(stream.readable for stream in streams):
            raise BadInput(
                f"{file.name}: the task stream is encoded in a way that is not known",
                hint="please report it with the Bokeh version",
            )
        summary = read_summary(page.texts)
        self._facts(page, summary, build)
        before, rows = len(self._attempts) + self._again, 0
        spans: list[Stretch] = []
        for stream in streams:
            rows += stream.rows
            self._stream(stream, summary.twice, file, build, spans)
        _check(file, summary, spans, len(self._attempts) + self._again - before, rows, build)
        self._cores.add(_cores(summary))
        self._attempts.flush(build)
        add_samples(page, build)

    def finish(self, build: Builder) -> None:
        """Add the workers; say what the format cannot tell."""
        cores = self._cores.pop() if len(self._cores) == 1 else None
        self._attempts.finish(build, cores)
        not_measured(build)
        build.not_measured("bytes of results and of transfers: the report's task stream has none")
        build.not_measured("error messages: the report shows failed tasks by their colour only")
        build.not_measured("profiles: sampled call stacks are not imported")
        build.meta.setdefault("clock", "epoch milliseconds by the workers' clocks")

    def _facts(self, page: Page, summary: Summary, build: Builder) -> None:
        versions = dict(summary.versions)
        if page.versions:
            versions["bokeh"] = page.versions[0]
        build.meta.setdefault("versions", {}).update(versions)
        facts = summary.facts()
        if facts:
            build.meta.setdefault("reports", []).append(facts)

    def _stream(
        self, stream: _Stream, twice: bool, file: InputFile, build: Builder, spans: list[Stretch]
    ) -> None:
        """Turn rectangles into attempts: those of one message stand together."""
        build.records_in += stream.rows
        current: tuple[str, str | None, str | None] = ("", None, None)
        parts: list[Stretch] = []
        failed = False
        for number in range(stream.rows):
            why = stream.wrong(number)
            if why is not None:
                build.reject(file.name, None, f"rectangle {number + 1} of the task stream {why}")
                continue
            key, worker, thread, one, black = stream.row(number, twice)
            spans.append(one)
            who = (key, worker, thread)
            done = any(p.action == "compute" for p in parts)
            if parts and (who != current or (done and one.action in _BEFORE_COMPUTE)):
                self._attempt(current, parts, failed, build)
                parts, failed = [], False
            current, failed = who, failed or black
            parts.append(one)
        if parts:
            self._attempt(current, parts, failed, build)

    def _attempt(
        self,
        who: tuple[str, str | None, str | None],
        parts: Sequence[Stretch],
        failed: bool,
        build: Builder,
    ) -> None:
        key, worker, thread = who
        if self._attempts.twice(key, worker, thread, parts):
            self._again += 1
            build.merged += len(parts)
            build.warn("a task of another task stream occurs again: it counts once")
            return
        build.merged += len(parts) - 1
        done = failed or any(p.action == "compute" for p in parts)
        outcome = "failed" if failed else "ok" if done else "unknown"
        self._attempts.add(key, worker, thread, parts, outcome=(outcome, "inferred"))


class _Stream:
    """The columns of one task stream."""

    def __init__(self, table: dict[str, Any]) -> None:
        middle, length = numbers(table["start"]), numbers(table["duration"])
        self.columns: dict[str, list[str | None]] = {}
        for name in ("key", "name", "worker", "worker_thread", "color"):
            self.columns[name] = texts(table.get(name)) or []
        named = self.columns["key"] or self.columns["name"]
        self.readable = middle is not None and length is not None
        empty: NDArray[np.float64] = np.empty(0)
        self.middle_ms = empty if middle is None else middle
        self.length_ms = empty if length is None else length
        sizes = {len(self.middle_ms), len(self.length_ms), len(named)}
        self.readable = self.readable and len(sizes) == 1
        self.rows = len(named) if self.readable else 0

    def _text(self, name: str, number: int, twice: bool) -> str | None:
        values = self.columns[name]
        value = values[number] if number < len(values) else None
        return html.unescape(value) if value and twice else value

    def wrong(self, number: int) -> str | None:
        """Say what is wrong with a rectangle, if anything."""
        middle, length = self.middle_ms[number], self.length_ms[number]
        if not (np.isfinite(middle) and np.isfinite(length)):
            return "has no start or no duration"
        if not length >= 0:
            return "lasts less than no time"
        if middle - length / 2 < 0 or middle + length / 2 >= _LATEST_MS:
            return "lies before 1970 or after 2200"
        if not (self._text("key", number, False) or self._text("name", number, False)):
            return "has no key"
        return None

    def row(self, number: int, twice: bool) -> tuple[str, str | None, str | None, Stretch, bool]:
        """Give key, worker, thread, stretch and whether it is drawn black, as failed tasks are."""
        key = self._text("key", number, twice)
        name = self._text("name", number, twice)
        worker = self._text("worker", number, twice)
        both = self._text("worker_thread", number, twice)
        thread = None
        if both and worker and both.startswith(f"{worker}-"):
            thread = both[len(worker) + 1 :]
        elif both and not worker:
            worker, _, thread = both.rpartition("-")
        elif both:
            thread = both
        key = key or name or ""
        length_ns = round(self.length_ms[number] * 1e6)
        start_ns = round((self.middle_ms[number] - self.length_ms[number] / 2) * 1e6)
        one = Stretch(_action(name, key), start_ns, start_ns + length_ns)
        return (
            key,
            worker or None,
            thread or None,
            one,
            self._text("color", number, False) == "black",
        )


def _action(name: str | None, key: str) -> str:
    """Give the action that the name of a rectangle begins with; a plain name is computing."""
    if not name:
        return "compute"
    group = group_name(key)
    if name == group:
        return "compute"  # also of a function that is called transfer-…
    for prefix in _PREFIXES:
        if name.startswith(prefix):
            return prefix[:-1]
    if name.endswith(f"-{group}") and len(name) > len(group) + 1:
        return name[: -len(group) - 1]
    return "compute"


def _why_not(page: Page) -> str:
    if any("line_number" in table for table in page.tables):
        return "holds a Dask profile (sampled call stacks) and no task stream"
    if page.documents:
        return "is a Bokeh page without a task stream"
    return "holds no Bokeh document that can be read: it may be cut"


def _cores(summary: Summary) -> float | None:
    """Give the threads of each worker, where the summary leaves no doubt."""
    if not summary.workers or not summary.threads or summary.threads % summary.workers:
        return None
    return float(summary.threads // summary.workers)


def _check(
    file: InputFile,
    summary: Summary,
    spans: Sequence[Stretch],
    attempts: int,
    rows: int,
    build: Builder,
) -> None:
    """Hold the rows against what the summary says."""
    if not rows:
        build.warn(f"{file.name}: the task stream is empty: no task ran while it was recorded")
    if summary.tasks is not None and summary.tasks != attempts:
        build.warn(
            f"{file.name}: the summary counts {summary.tasks:,} tasks, the task stream holds "
            f"{attempts:,}: tasks without timing or beyond the dashboard's buffer are not in it"
        )
    if attempts >= _BUFFER:
        build.warn(
            f"{file.name}: {attempts:,} tasks fill the dashboard's buffer (task-stream-length): "
            "earlier ones may be missing"
        )
    sums: Counter[str] = Counter()
    for one in spans:
        sums[one.action] += one.end_ns - one.start_ns
    for action in sorted({*summary.actions, *sums} if summary.actions else ()):
        said, off = summary.actions.get(action, (0.0, 0.005))
        found = sums[action] / 1e9
        if abs(found - said) > off * 1.01 + 1e-6:
            build.warn(
                f"{file.name}: the summary says {said:g} s of {action}, the task stream holds "
                f"{found:.6g} s"
            )
    if summary.duration and spans:
        length = (max(s.end_ns for s in spans) - min(s.start_ns for s in spans)) / 1e9
        said, off = summary.duration
        if length > said + off + 1e-6:
            build.warn(
                f"{file.name}: the task stream spans {length:.6g} s, the report {said:g} s: "
                "tasks began before it, or the workers' clocks differ"
            )
