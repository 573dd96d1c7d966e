"""PyTorch execution traces: the operators of a model and the tensors between them, no times.

Written by ``torch.profiler.ExecutionTraceObserver``; the schema (1.0.x, 1.1.x, also with a
``-chakra`` suffix): https://github.com/pytorch/pytorch/blob/main/torch/csrc/profiler/standalone/execution_trace_observer.cpp
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from rotameter.adapters.importers._et_graph import Node, data_deps, node_of
from rotameter.adapters.importers._et_times import Times, read_times
from rotameter.adapters.importers._json_events import EventReader
from rotameter.adapters.importers.building import Builder
from rotameter.errors import BadInput
from rotameter.profiler.live.redact import clean_name, redact
from rotameter.units import many

if TYPE_CHECKING:
    from rotameter.adapters.importers.inputs import InputFile
    from rotameter.values import Head

__all__ = ["Importer"]

_FILES_SAID = 20
_SCHEMA = re.compile(r'"schema"\s*:\s*"\d+\.\d+(?:\.\d+)?(?:-[^"]{0,40})?"')
_NODES = re.compile(r'"nodes"\s*:\s*\[')
_FIELDS = re.compile(r'"(?:rf_id|ctrl_deps|op_schema|fw_parent)"')
_ROOT = re.compile(r"\[pytorch\|profiler\|execution_(?:trace|graph)\|(?:process|thread)\]")
_FACTS = ("schema", "pid", "time", "start_ts", "finish_ts")


class Importer:
    """Reads PyTorch execution traces.

    Option: ``kineto`` = the path of the profiler's trace of the same run, for the times.
    """

    name = "execution_trace"
    engine = "torch"
    options: frozenset[str] = frozenset({"kineto"})

    def __init__(self) -> None:
        self._times: Times | None = None
        self._read: list[tuple[str, dict[int, Node], dict[str, Any]]] = []

    def sniff(self, head: Head) -> float:
        """Look for the schema's version and a list of nodes with their callers."""
        text = head.text
        if not text.lstrip().startswith("{") or not _NODES.search(text):
            return 0.0
        schema = _SCHEMA.search(text) is not None
        fields = len(set(_FIELDS.findall(text)))
        return 0.9 if schema else 0.7 if fields >= 2 else 0.0

    def read(self, file: InputFile, build: Builder, **options: Any) -> None:
        """Read one file: the trace of one process."""
        if options.get("kineto") and self._times is None:
            self._times = read_times(options["kineto"])
        reader = EventReader(file, key="nodes", mark="id")
        nodes: dict[int, Node] = {}
        rejects: list[tuple[int, str]] = []
        seen = 0
        for record in reader:
            seen += 1
            node = node_of(record)
            if isinstance(node, Node) and node.ident in nodes:
                node = f"a second node {node.ident}"
            if isinstance(node, str):
                rejects.append((reader.line, node))
            else:
                nodes[node.ident] = node
        if not seen and not reader.lists:
            said = reader.broken or f"{file.name} holds no nodes"
            raise BadInput(said, hint="is it whole, and an execution trace?")
        if reader.broken:
            build.warn(f"{reader.broken}; {many(seen, 'node')} recovered")
        for damage in reader.damage:
            kind = "last node cut" if damage.cut else "not JSON"
            said = f"{kind} at byte {damage.end:,} (it begins at byte {damage.first:,})"
            build.warn(f"{file.name}: {said}; {many(seen, 'node')} recovered")
            rejects.append((damage.line, said))
        if not reader.closed and not reader.damage:
            build.warn(f"{file.name}: the file ends before its closing bracket")
        build.records_in += seen + len(reader.damage)
        for line, reason in rejects:
            build.reject(file.name, line, reason)
        self._read.append((file.stem, nodes, reader.header))

    def finish(self, build: Builder) -> None:
        """Make the rows, tell processes apart, say what the format cannot tell."""
        stems: dict[str, int] = {}
        for stem, nodes, header in self._read:
            stems[stem] = stems.get(stem, 0) + 1
            once = stem if stems[stem] == 1 else f"{stem} {stems[stem]}"
            self._rows(build, nodes, header, f"{once}/" if len(self._read) > 1 else "", stem)
        self._read = []
        if self._times is None:
            build.not_measured("times: an execution trace has none; see its option kineto")
        build.not_measured("memory peaks: the format has none")

    def _rows(
        self,
        build: Builder,
        nodes: dict[int, Node],
        header: dict[str, Any],
        prefix: str,
        stem: str,
    ) -> None:
        facts = {n: redact(str(header[n]))[:100] for n in _FACTS if n in header}
        kept = build.meta.setdefault("execution_trace", {})
        if len(kept) < _FILES_SAID:
            kept[stem] = facts
        roots = {ident for ident, node in nodes.items() if _ROOT.fullmatch(node.name)}
        build.merged += len(roots)
        for ident in roots:
            del nodes[ident]
        for node in nodes.values():
            if node.parent in nodes and node.parent is not None:
                nodes[node.parent].leaf = False
        worker = f"{prefix}pid {facts['pid']}" if "pid" in facts else None
        ordered = [nodes[ident] for ident in sorted(nodes)]
        self._tasks(build, ordered, nodes, worker, prefix)
        self._flows(build, ordered, worker, prefix)
        pairs = sorted(data_deps(nodes))
        if pairs:
            columns = {
                "task_id": [f"{prefix}{node}" for node, _ in pairs],
                "depends_on": [f"{prefix}{other}" for _, other in pairs],
            }
            build.extend("deps", columns)
        if worker is not None:
            number = header.get("pid")
            sound = isinstance(number, int) and 0 <= number < 1 << 40
            build.add("workers", {"worker": worker, "pid": number if sound else None})

    def _tasks(
        self,
        build: Builder,
        ordered: list[Node],
        nodes: dict[int, Node],
        worker: str | None,
        prefix: str,
    ) -> None:
        if not ordered:
            return
        size = len(ordered)
        spans = self._linked(build, ordered)
        build.extend(
            "tasks",
            {
                "task_id": [f"{prefix}{node.ident}" for node in ordered],
                "parent": [
                    f"{prefix}{node.parent}" if node.parent in nodes else None for node in ordered
                ],
                "group": [clean_name(node.name) for node in ordered],
                "worker": [worker] * size,
                "run_id": [None if n.rf_id is None else str(n.rf_id) for n in ordered],
                "output_bytes": [
                    sum(tensor[2] for tensor in node.outputs) if node.outputs else None
                    for node in ordered
                ],
                "features": [_features(node) for node in ordered],
                "started_ns": [None if span is None else span[0] for span in spans],
                "ended_ns": [None if span is None else span[1] for span in spans],
                "wall_s": [None if s is None else (s[1] - s[0]) / 1e9 for s in spans],
                "outcome": ["ok"] * size,
                "outcome_kind": ["inferred"] * size,
                "source": ["execution_trace"] * size,
            },
        )

    def _linked(self, build: Builder, ordered: list[Node]) -> list[tuple[int, int] | None]:
        """Give the times of nodes, from the profiler's trace; None without it."""
        if self._times is None:
            return [None] * len(ordered)
        build.local = not self._times.epoch
        spans = [self._times.of(node) for node in ordered]
        found = sum(span is not None for span in spans)
        build.meta["linked"] = {"operators": len(ordered), "with_times": found}
        if found < len(ordered) / 2:
            build.warn(
                f"the profiler's trace has only {found:,} of {len(ordered):,} operators: "
                "is it of the same run?"
            )
        return spans

    def _flows(self, build: Builder, ordered: list[Node], worker: str | None, prefix: str) -> None:
        """Say which tensor an innermost operator read and wrote."""
        rows = [
            (node, op, tensor)
            for node in ordered
            if node.leaf
            for op, side in (("read", node.inputs), ("write", node.outputs))
            for tensor in side
        ]
        if not rows:
            return
        build.extend(
            "flows",
            {
                "task_id": [f"{prefix}{node.ident}" for node, _, _ in rows],
                "run_id": [None if n.rf_id is None else str(n.rf_id) for n, _, _ in rows],
                "worker": [worker] * len(rows),
                "object": [f"{prefix}tensor {tensor[0]}" for _, _, tensor in rows],
                "medium": [
                    "memory" if tensor[3] in ("", "cpu") else "device" for _, _, tensor in rows
                ],
                "op": [op for _, op, _ in rows],
                "footprint_bytes": [tensor[2] for _, _, tensor in rows],
                "tier": [clean_name(tensor[3]) or None for _, _, tensor in rows],
            },
        )


def _features(node: Node) -> dict[str, float] | None:
    """Give what is known before an operator runs: the size of its inputs."""
    if not node.inputs:
        return None
    return {
        "input_bytes": float(sum(tensor[2] for tensor in node.inputs)),
        "input_elements": float(sum(tensor[1] for tensor in node.inputs)),
    }
