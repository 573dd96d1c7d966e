"""GraphML read as a stream of elements: nodes, edges and their attributes by name.

The format: http://graphml.graphdrawing.org/specification.html. Keys give names and defaults to the
``data`` of nodes and edges; two keys may carry one name (networkx writes one for each type).
Document types and entities are refused: they are how a small XML file grows without bound.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from xml.parsers import expat

from rotameter.errors import BadInput

if TYPE_CHECKING:
    from rotameter.adapters.importers.inputs import InputFile

__all__ = ["Edge", "Graph", "Node", "read_graph"]

_DEPTH_LIMIT = 64
_TEXT_LIMIT = 4096
_PIECE = 1 << 16


@dataclass(slots=True)
class Node:
    """One vertex, with the line that it begins on."""

    name: str
    line: int
    data: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Edge:
    """One edge; ``source`` or ``target`` is None where the file does not say."""

    source: str | None
    target: str | None
    directed: bool
    line: int
    data: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Graph:
    """What a file holds.

    Parameters
    ----------
    nodes, edges : list
    hyperedges : list of int
        Lines of edges with more than two ends.
    damage : str or None
        Where and why reading ended early.
    """

    nodes: list[Node] = field(default_factory=list)
    edges: list[Edge] = field(default_factory=list)
    hyperedges: list[int] = field(default_factory=list)
    damage: str | None = None


class _Reader:
    """Handlers of one parse."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.graph = Graph()
        self.is_graphml = False
        self._depth = 0
        self._names: dict[str, str] = {}
        self._defaults: dict[str, dict[str, str]] = {"node": {}, "edge": {}}
        self._directed = [True]
        self._open: list[Node | Edge | None] = []
        self._key: str | None = None
        self._text: list[str] | None = None
        self._size = 0
        self.parser = expat.ParserCreate(namespace_separator=" ")
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._characters
        self.parser.StartDoctypeDeclHandler = self._refuse
        self.parser.EntityDeclHandler = self._refuse

    def _refuse(self, *_: object) -> None:
        raise BadInput(
            f"{self.name} declares a document type or entities: refused",
            hint="GraphML needs none; take them out",
        )

    def _start(self, tag: str, given: dict[str, str]) -> None:
        self._depth += 1
        if self._depth > _DEPTH_LIMIT:
            raise BadInput(f"{self.name} is nested too deeply", hint="check the file")
        word = tag.rpartition(" ")[2]
        line = self.parser.CurrentLineNumber
        if self._depth == 1:
            self.is_graphml = word == "graphml"
        elif word == "key":
            self._key = given.get("id")
            if self._key is not None:
                self._names[self._key] = given.get("attr.name") or self._key
                self._kinds = (
                    ("node", "edge")
                    if given.get("for", "all") == "all"
                    else (given.get("for", ""),)
                )
        elif word == "graph":
            self._directed.append(given.get("edgedefault") != "undirected")
        elif word == "node":
            node = Node(given.get("id", ""), line, dict(self._defaults["node"]))
            self.graph.nodes.append(node)
            self._open.append(node)
        elif word == "edge":
            directed = given.get("directed", "").lower()
            flag = self._directed[-1] if directed not in ("true", "false") else directed == "true"
            ends = given.get("source"), given.get("target")
            edge = Edge(*ends, flag, line, dict(self._defaults["edge"]))
            self.graph.edges.append(edge)
            self._open.append(edge)
        elif word == "hyperedge":
            self.graph.hyperedges.append(line)
            self._open.append(None)
        elif word in ("data", "default"):
            self._key = given.get("key") if word == "data" else self._key
            self._text, self._size = [], 0

    def _characters(self, text: str) -> None:
        if self._text is not None and self._size < _TEXT_LIMIT:
            self._text.append(text)
            self._size += len(text)

    def _end(self, tag: str) -> None:
        self._depth -= 1
        word = tag.rpartition(" ")[2]
        if word in ("node", "edge", "hyperedge"):
            self._open.pop()
        elif word == "graph":
            self._directed.pop()
        elif word in ("data", "default") and self._text is not None:
            text, self._text = "".join(self._text)[:_TEXT_LIMIT].strip(), None
            name = self._names.get(self._key or "")
            if name is None:
                return
            if word == "default":
                for kind in self._kinds:
                    self._defaults.setdefault(kind, {})[name] = text
            elif self._open and (item := self._open[-1]) is not None:
                item.data[name] = text


def read_graph(file: InputFile) -> Graph:
    """Read a file; what lies before a damage is kept.

    Raises
    ------
    BadInput
        If it is no GraphML, nested too deeply, or declares entities.
    """
    reader = _Reader(file.name)
    with file.open() as stream:
        try:
            while piece := stream.read(_PIECE):
                reader.parser.Parse(piece, False)
            reader.parser.Parse(b"", True)
        except expat.ExpatError as error:
            reader.graph.damage = f"line {error.lineno}: {expat.ErrorString(error.code)}"
        except (ValueError, LookupError) as error:  # an encoding that Python does not know
            raise BadInput(f"{file.name}: {str(error)[:100]}", hint="check the file") from None
    if not reader.is_graphml:
        reason = reader.graph.damage or "its root is another element"
        raise BadInput(f"{file.name} is no GraphML ({reason})", hint="check the file")
    return reader.graph
