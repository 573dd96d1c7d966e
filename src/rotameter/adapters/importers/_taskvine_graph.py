"""The taskgraph: which task reads and writes which file.

Older versions write Graphviz (``digraph "taskvine" {``), newer ones version 2, a line a task
(``TASK id "name" INPUTS file … OUTPUTS file …``) and a line a file (``FILE id "name" size``).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass, field

from rotameter.adapters.importers._taskvine_lines import Cut, size_bytes

__all__ = ["VERSION_2", "Graph"]

VERSION_2 = re.compile(r"#\s*taskvine\s+taskgraph\s+version", re.I)
_NODE = r'"((?:task|file)-(?:[^"\\]|\\.)*)"'
_EDGE = re.compile(rf"\s*{_NODE}\s*->\s*{_NODE}\s*(?:\[.*\])?\s*;?\s*")
_LONE = re.compile(rf"\s*{_NODE}\s*\[.*\]\s*;?\s*")
_PLAIN = re.compile(r"\s*(?:digraph\b.*\{|node\s*\[.*\]\s*;?|edge\s*\[.*\]\s*;?|\}|)\s*")


@dataclass
class Graph:
    """Tasks with the files that they read and write, in order of appearance."""

    source: str
    reads: dict[str, dict[str, None]] = field(default_factory=dict)
    writes: dict[str, dict[str, None]] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    closed: bool = False

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
        self.reads.setdefault(key, {})
        self.writes.setdefault(key, {})
        return key

    def _edge(self, source: str, target: str) -> None:
        if source.startswith("file-") and target.startswith("task-"):
            self.reads[self._task(_task_id(target))][source.removeprefix("file-")] = None
        elif source.startswith("task-") and target.startswith("file-"):
            self.writes[self._task(_task_id(source))][target.removeprefix("file-")] = None
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
        self.reads[key].update(dict.fromkeys(map(_file_id, words[4:middle])))
        self.writes[key].update(dict.fromkeys(map(_file_id, words[middle + 1 :])))

    def deps(self, warn: Callable[[str], None]) -> list[tuple[str, str]]:
        """Give (task, the task that wrote a file it reads), each once, in order."""
        writers: dict[str, list[str]] = {}
        for task, files in self.writes.items():
            for name in files:
                writers.setdefault(name, []).append(task)
        if any(len(tasks) > 1 for tasks in writers.values()):
            warn("files with several writers: a reader depends on each of them")
        found: dict[tuple[str, str], None] = {}
        for task, files in self.reads.items():
            for name in files:
                for on in writers.get(name, ())[:64]:
                    if on != task:
                        found[task, on] = None
        return list(found)


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
