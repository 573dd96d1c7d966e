"""TaskVine and Work Queue logs: transactions, performance and taskgraph.

The formats: https://cctools.readthedocs.io (TaskVine manual, log file formats) and the writers in
https://github.com/cooperative-computing-lab/cctools. A run's folder ``vine-logs`` is one import;
several runs are kept apart by their folders' names.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from rotameter.adapters.importers._taskvine_emit import emit_graph, emit_log
from rotameter.adapters.importers._taskvine_graph import VERSION_2, Graph
from rotameter.adapters.importers._taskvine_lines import LINE, Cut, time_ns
from rotameter.adapters.importers._taskvine_perf import PERFORMANCE, read_performance
from rotameter.adapters.importers._taskvine_txn import Log
from rotameter.errors import BadInput

if TYPE_CHECKING:
    from rotameter.adapters.importers.building import Builder
    from rotameter.adapters.importers.inputs import InputFile
    from rotameter.values import Head

__all__ = ["Importer"]

_HEADER = re.compile(r"# time (?:manager|master)_pid ")
_DIGRAPH = re.compile(r'\s*digraph\s+"?(?:taskvine|work_queue)"?\s*\{')


class Importer:
    """Reads the logs of a TaskVine (or Work Queue) manager."""

    name = "taskvine"
    engine = "taskvine"
    options: frozenset[str] = frozenset()

    def __init__(self) -> None:
        self._logs: dict[str, Log] = {}
        self._graphs: dict[str, Graph] = {}
        self._heads: set[bytes] = set()

    def sniff(self, head: Head) -> float:
        """Look for the first lines of one of the three logs."""
        return 0.95 if _kind(head.text) else 0.0

    def read(self, file: InputFile, build: Builder, **options: Any) -> None:
        """Read one log of any of the three kinds."""
        kind = _kind(file.head_text)
        run = _folder(file.name)
        if kind == "performance":
            read_performance(file, build)
        elif kind == "transactions":
            log = Log(file.name)
            if file.head in self._heads:
                build.warn("logs of transactions begin alike: a copy of a run counts again")
            self._heads.add(file.head)
            self._logs[_free(run, self._logs)] = log
            _transactions(file, log, build)
        elif kind == "taskgraph":
            graph = Graph(file.name)
            self._graphs[_free(run, self._graphs)] = graph
            _taskgraph(file, graph, build)
        else:
            raise BadInput(
                f"{file.name} is no transactions, performance or taskgraph log",
                hint="import the folder vine-logs of the run",
            )

    def finish(self, build: Builder) -> None:
        """Put the logs of each run together."""
        runs = sorted({*self._logs, *self._graphs})
        for run in runs:
            prefix = f"{run or '.'}/" if len(runs) > 1 else ""
            log, graph = self._logs.get(run), self._graphs.get(run)
            if log is not None:
                emit_log(log, prefix, build)
            if graph is not None:
                emit_graph(graph, log, prefix, build)
        if any(log.work_queue for log in self._logs.values()):
            build.meta["engine"] = "work_queue"
        build.not_measured("commands of the tasks: these logs do not have them")


def _kind(text: str) -> str | None:
    """Tell the three logs apart by how they begin."""
    begin = text.lstrip("\n")
    if _DIGRAPH.match(begin):
        return "taskgraph"
    if VERSION_2.match(begin):
        return "taskgraph"
    if PERFORMANCE.match(begin):
        return "performance"
    if _HEADER.match(begin) or LINE.match(begin):
        return "transactions"
    return None


def _folder(name: str) -> str:
    """Give the run's folder: the last one that is not ``vine-logs``."""
    parts = [p for p in name.replace("\\", "/").split("/")[:-1] if p not in ("", ".", "vine-logs")]
    return "/".join(parts[-2:])


def _free(run: str, taken: dict[str, Any]) -> str:
    number, name = 1, run
    while name in taken:
        number += 1
        name = f"{run}#{number}"
    return name


def _transactions(file: InputFile, log: Log, build: Builder) -> None:
    cut: tuple[int, str] | None = None
    number, at = 0, None
    for number, text in file.lines():
        if not text or text.startswith("#") or text.isspace():
            continue
        build.records_in += 1
        try:
            log.line(text)
        except Cut as error:
            cut = (number, str(error))
            build.reject(file.name, number, str(error))
            at = time_ns(text.split(maxsplit=1)[0])
    if cut is not None and cut[0] == number:
        build.warn("the last line of the log is cut: ignored")
        if at is not None and at >= (log.last_ns or 0):
            log.last_ns = at
    log.settle()
    if not log.events and not cut:
        build.warn(f"{file.name} holds no transactions yet")
    elif not log.closed:
        build.warn("log not closed: the manager's end is not in it (still running, or killed)")


def _taskgraph(file: InputFile, graph: Graph, build: Builder) -> None:
    good = 0
    for number, text in file.lines():
        try:
            record = graph.line(text)
        except Cut as error:
            build.records_in += 1
            build.reject(file.name, number, str(error))
            continue
        build.records_in += record
        good += record
    build.records_out = (build.records_out or 0) + good
