"""Data-flow graphs as GraphML: task and file nodes, edges with the bytes that moved.

As FlowForecaster writes them (https://github.com/pnnl/FlowForecaster): nodes carry ``type`` (task
or file) and ``size``, edges ``data_volume`` and ``access_size``. Other names for the same are
known; a plain graph without them is not for this importer.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

from rotameter.adapters.importers._graphml_parse import Edge, Graph, Node, read_graph
from rotameter.errors import BadInput
from rotameter.profiler.live.redact import clean_name

if TYPE_CHECKING:
    from rotameter.adapters.importers.building import Builder
    from rotameter.adapters.importers.inputs import InputFile
    from rotameter.values import Head

__all__ = ["Importer"]

_TYPE = ("type", "node_type", "kind", "ntype")
_TASK = frozenset({"task", "process", "job", "function", "program"})
_FILE = frozenset({"file", "data", "dataset", "object"})
_GROUP = ("group", "task_name", "stage", "label", "name")
_SIZE = ("size", "file_size", "size_bytes")
_VOLUME = ("data_volume", "volume", "bytes", "volume_bytes")
_ACCESS = ("access_size", "transfer_size")
_OPS = ("access_count", "ops", "op_count", "count")
_FOOTPRINT = ("footprint", "footprint_bytes")
_BUSY = ("busy_s", "io_time_s")
_WALL = ("wall_s", "runtime_s", "runtimeInSeconds")
_LIMIT = float(1 << 62)
# individuals_taskid12, mProject_ID0000002, sift-3
_SERIAL = re.compile(r"[_.\-]*(?:task[_\-]?id|id)?[_.\-]?\d+$", re.IGNORECASE)
_SCALE = re.compile(r"(?:^|[_.\-])([a-z]{1,20})_scale_(\d{1,9}(?:\.\d{1,6})?)(?![\d])", re.I)
_ROOT = re.compile(r"<(?:\w+:)?graphml\b")
_ATTRIBUTES = re.compile(r"attr\.name\s*=\s*[\"'](\w+)[\"']")


class Importer:
    """Reads GraphML of data-flow graphs."""

    name = "graphml"
    engine = "graphml"
    options: frozenset[str] = frozenset()

    def __init__(self) -> None:
        self._graphs: list[tuple[str, str, Graph]] = []

    def sniff(self, head: Head) -> float:
        """Look for a ``graphml`` root and keys for a node's type and an edge's volume."""
        text = head.text
        if not text.lstrip().startswith("<") or not _ROOT.search(text[:4000]):
            return 0.0
        known = set(_ATTRIBUTES.findall(text))
        if known.intersection(_TYPE) and known.intersection((*_VOLUME, *_ACCESS)):
            return 0.95
        return 0.6 if known.intersection((*_TYPE, *_VOLUME)) else 0.3

    def read(self, file: InputFile, build: Builder, **options: Any) -> None:
        """Read one graph."""
        graph = read_graph(file)
        records = len(graph.nodes) + len(graph.edges) + len(graph.hyperedges)
        if not records:
            raise BadInput(f"{file.name} holds no nodes", hint="check the file")
        if not any(_kind(node) for node in graph.nodes):
            raise BadInput(
                f"{file.name}: no node has a type",
                hint="each node needs data 'type' = task or file",
            )
        build.records_in += records
        if graph.damage:
            build.warn(f"{file.name} is damaged ({graph.damage}): what follows is missing")
        for line in graph.hyperedges:
            build.reject(file.name, line, "an edge with more than two ends")
        if found := _SCALE.search(file.stem):
            name, value = found[1].lower(), float(found[2])
            scales = build.meta.setdefault("scale", {})
            if value > 0 and scales.setdefault(name, value) == value:
                build.warn(f"scale {name} = {value:g} is taken from the file's name")
        self._graphs.append((file.name, file.stem, graph))

    def finish(self, build: Builder) -> None:
        """Put the graphs into the trace; several are kept apart by their files' names."""
        stems = [stem for _, stem, _ in self._graphs]
        out = 0
        for name, stem, graph in self._graphs:
            prefix = ""
            if len(stems) > 1:
                prefix = (stem if stems.count(stem) == 1 else name) + "/"
            out += _emit(graph, name, prefix, build)
        if len(stems) > 1:
            build.meta.pop("scale", None)  # one run has one scale
        build.records_out = out
        build.not_measured("times and outcomes: the format has none")


def _emit(graph: Graph, source: str, prefix: str, build: Builder) -> int:
    """Add one graph; give how many records went in."""
    kinds: dict[str, str] = {}
    out = 0
    for node in graph.nodes:
        kind = _kind(node)
        if not node.name or kind is None:
            what = "no id" if not node.name else "no known type (task or file)"
            build.reject(source, node.line, f"a node with {what}")
        elif node.name in kinds:
            build.reject(source, node.line, "a second node of the same id")
        else:
            kinds[node.name] = kind
            _node(node, kind, prefix, build)
            out += 1
    for edge in graph.edges:
        trouble = _trouble(edge, kinds)
        if trouble:
            build.reject(source, edge.line, trouble)
            continue
        _edge(edge, kinds, prefix, build)
        out += 1
    return out


def _kind(node: Node) -> str | None:
    word = (_first(node.data, _TYPE) or "").lower()
    return "task" if word in _TASK else "file" if word in _FILE else None


def _node(node: Node, kind: str, prefix: str, build: Builder) -> None:
    name = clean_name(prefix + node.name)
    if kind == "file":
        build.add("objects", {"object": name, "size_bytes": _whole(node.data, _SIZE, build)})
        return
    given = _first(node.data, _GROUP)
    build.add(
        "tasks",
        {
            "task_id": name,
            "group": clean_name(given) if given else _group(node.name),
            "wall_s": _number(node.data, _WALL, build),
            "outcome": "unknown",
            "source": "graphml",
        },
    )


def _group(name: str) -> str | None:
    """Give a task's name without its serial number; None where nothing telling is left."""
    stem = _SERIAL.sub("", name)
    return clean_name(stem) if len(stem) > 1 else None


def _trouble(edge: Edge, kinds: dict[str, str]) -> str | None:
    if edge.source not in kinds or edge.target not in kinds:
        return "an edge whose ends are not both known nodes"
    if not edge.directed:
        return "an edge without a direction"
    if kinds[edge.source] == kinds[edge.target] == "file":
        return "an edge from file to file: no task moves it"
    return None


def _edge(edge: Edge, kinds: dict[str, str], prefix: str, build: Builder) -> None:
    source, target = (clean_name(prefix + str(end)) for end in (edge.source, edge.target))
    write = kinds[str(edge.source)] == "task"
    if write and kinds[str(edge.target)] == "task":
        build.add("deps", {"task_id": target, "depends_on": source})
        return
    volume, ops = _whole(edge.data, _VOLUME, build), _whole(edge.data, _OPS, build)
    access = _number(edge.data, _ACCESS, build)
    if ops is None and volume is not None and access:
        ops = max(1, round(volume / access)) if volume else 0
        build.warn("ops are worked out: data volume / access size")
    build.add(
        "flows",
        {
            "task_id": source if write else target,
            "object": target if write else source,
            "medium": "file",
            "op": "write" if write else "read",
            "bytes": volume,
            "footprint_bytes": _whole(edge.data, _FOOTPRINT, build),
            "ops": ops,
            "busy_s": _number(edge.data, _BUSY, build),
        },
    )


def _first(data: dict[str, str], names: tuple[str, ...]) -> str | None:
    return next((data[name] for name in names if data.get(name)), None)


def _number(data: dict[str, str], names: tuple[str, ...], build: Builder) -> float | None:
    name = next((name for name in names if data.get(name)), None)
    if name is None:
        return None
    try:
        value = float(data[name])
    except ValueError:
        value = math.nan
    if math.isfinite(value) and 0 <= value < _LIMIT:
        return value
    build.warn(f"values of {name} that are no number, negative or beyond all bounds are unknown")
    return None


def _whole(data: dict[str, str], names: tuple[str, ...], build: Builder) -> int | None:
    value = _number(data, names, build)
    return None if value is None else round(value)
