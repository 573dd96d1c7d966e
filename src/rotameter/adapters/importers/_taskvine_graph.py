"""The taskgraph: which task reads and writes which file.

Older versions write Graphviz (``digraph "taskvine" {``), newer ones version 2, a line a task
(``TASK id "name" INPUTS file … OUTPUTS file …``) and a line a file (``FILE id "name" size``).
"""

from __future__ import annotations

import re
import shlex
from array import array
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from rotameter.adapters.importers._taskvine_lines import Cut, size_bytes

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["VERSION_2", "Graph"]

_WRITERS = 64

VERSION_2 = re.compile(r"#\s*taskvine\s+taskgraph\s+version", re.I)
_NODE = r'"((?:task|file)-(?:[^"\\]|\\.)*)"'
_EDGE = re.compile(rf"\s*{_NODE}\s*->\s*{_NODE}\s*(?:\[.*\])?\s*;?\s*")
_LONE = re.compile(rf"\s*{_NODE}\s*\[.*\]\s*;?\s*")
_PLAIN = re.compile(r"\s*(?:digraph\b.*\{|node\s*\[.*\]\s*;?|edge\s*\[.*\]\s*;?|\}|)\s*")


@dataclass
class Graph:
    """Tasks with the files that they read and write, in order of appearance.

    Edges are kept as pairs of numbers: that of the task, that of the file.
    """

    source: str
    tasks: dict[str, int] = field(default_factory=dict)
    files: dict[str, int] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    closed: bool = False
    _edges: dict[str, array[int]] = field(
        default_factory=lambda: {op: array("q") for op in ("read", "write")}
    )

    def line(self, text: str) -> bool:
        """Take one line; say whether it was a record.

        Raises
        ------
        Cut
            If it is none of this kind of log.
        """
        if text.startswith("#"):
            return False
        if text.startswith(("TASK ", "FILE ")):
            self._version_2(text)
            return True
        edge = _EDGE.fullmatch(text)
        if edge:
            self._edge(edge[1], edge[2])
            return True
        lone = _LONE.fullmatch(text)
        if lone:
            if lone[1].startswith("task-"):
                self._task(_task_id(lone[1]))
            return True
        if not _PLAIN.fullmatch(text):
            raise Cut("not a line of a taskgraph")
        self.closed = self.closed or text.strip() == "}"
        return False

    def _task(self, key: str) -> str:
        self.tasks.setdefault(key, len(self.tasks))
        return key

    def _add(self, op: str, task: str, files: Iterable[str]) -> None:
        edges, number = self._edges[op], self.tasks[self._task(task)]
        for name in files:
            edges.append(number)
            edges.append(self.files.setdefault(name, len(self.files)))

    def _edge(self, source: str, target: str) -> None:
        if source.startswith("file-") and target.startswith("task-"):
            self._add("read", _task_id(target), [source.removeprefix("file-")])
        elif source.startswith("task-") and target.startswith("file-"):
            self._add("write", _task_id(source), [target.removeprefix("file-")])
        else:
            raise Cut("an edge that joins no task with a file")

    def _version_2(self, text: str) -> None:
        try:
            words = shlex.split(text)
        except ValueError:
            raise Cut("a quote is not closed") from None
        if words[0] == "FILE":
            size = size_bytes(words[3]) if len(words) == 4 else None
            if size is None:
                raise Cut("not: FILE id name size")
            self.sizes[_file_id(words[1])] = size
            return
        if len(words) < 5 or words[3] != "INPUTS" or "OUTPUTS" not in words[4:]:
            raise Cut("not: TASK id name INPUTS … OUTPUTS …")
        key, middle = self._task(_task_id(words[1])), words.index("OUTPUTS", 4)
        self.names[key] = words[2]
        self._add("read", key, map(_file_id, words[4:middle]))
        self._add("write", key, map(_file_id, words[middle + 1 :]))

    def side(self, op: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Give (tasks, files) of all edges of an op as numbers, each edge once, task by task."""
        pairs = np.frombuffer(self._edges[op], np.int64).reshape(-1, 2)
        _, first = np.unique(pairs[:, 0] * (len(self.files) + 1) + pairs[:, 1], return_index=True)
        pairs = pairs[np.sort(first)]
        pairs = pairs[np.argsort(pairs[:, 0], kind="stable")]
        return pairs[:, 0], pairs[:, 1]

    def deps(self, warn: Callable[[str], None]) -> Iterator[tuple[str, str]]:
        """Give (task, the task that wrote a file it reads), each once, in order."""
        writers, written = self.side("write")
        order = np.argsort(written, kind="stable")
        writers = writers[order]
        edges = np.searchsorted(written[order], np.arange(len(self.files) + 1))
        if (np.diff(edges) > 1).any():
            warn("files with several writers: a reader depends on each of them")
        names = list(self.tasks)
        tasks, files = self.side("read")
        bounds = np.searchsorted(tasks, np.arange(len(names) + 1)).tolist()
        for number, (first, last) in enumerate(pairwise(bounds)):
            found: dict[int, None] = {}
            for file in files[first:last].tolist():
                for on in writers[edges[file] : edges[file + 1]][:_WRITERS].tolist():
                    if on != number:
                        found[on] = None
            for on in found:
                yield names[number], names[on]


def _task_id(node: str) -> str:
    """Give the number of a task as the transactions log has it.

    Examples
    --------
    >>> _task_id("task-84"), _task_id("T7"), _task_id("84")
    ('84', '7', '84')
    """
    match = re.fullmatch(r"(?:task-|T)?(-?\d+)", node)
    return match[1] if match else node.removeprefix("task-")


def _file_id(word: str) -> str:
    return word.removeprefix("file-")
