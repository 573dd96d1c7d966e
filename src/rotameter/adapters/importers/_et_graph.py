"""Nodes of a PyTorch execution trace, and which waits for whose tensors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from sys import intern
from typing import Any

__all__ = ["Node", "data_deps", "node_of", "tensors_of"]

_DEPTH = 16
_REACH = 256  # callers looked at: bounds the work on absurd nesting
_TENSORS = 4096
_FAR = 1 << 62
Tensor = tuple[int, int, int, str]


@dataclass(slots=True)
class Node:
    """One operator or annotation.

    Parameters
    ----------
    ident, parent : int
        Numbers of the node and of the one that called it.
    inputs, outputs : sequence of tuple
        Tensors: (number, elements, bytes, device).
    waits : tuple of int
        Nodes that it waits for beside those of its tensors.
    """

    ident: int
    name: str
    parent: int | None
    inputs: Sequence[Tensor]
    outputs: Sequence[Tensor]
    waits: tuple[int, ...] = ()
    rf_id: int | None = None
    tid: int | None = None
    scope: int | None = None
    leaf: bool = True


def _whole(value: Any) -> int | None:
    whole = isinstance(value, int) and not isinstance(value, bool)
    return value if whole and abs(value) < _FAR else None


def node_of(record: Any) -> Node | str:
    """Read a node of any version of the schema, or give the reason why it is none.

    Examples
    --------
    >>> node_of({"id": 5, "name": "aten::add", "ctrl_deps": 4}).parent
    4
    >>> node_of({"name": "aten::add"})
    'a node without an id'
    """
    if not isinstance(record, dict):
        return "not a node"
    ident = _whole(record.get("id"))
    if ident is None:
        return "a node without an id"
    name = record.get("name")
    if not isinstance(name, str) or not name:
        return "a node without a name"
    attributes = _attributes(record)
    control = record.get("ctrl_deps", record.get("parent"))
    controls = [c for c in map(_whole, control if isinstance(control, list) else [control])
                if c is not None and c != ident]  # fmt: skip
    forward = _whole(attributes.get("fw_parent"))
    data = record.get("data_deps")
    waits = [w for w in map(_whole, data if isinstance(data, list) else ()) if w is not None]
    waits += controls[1:]
    if forward:
        waits.append(forward)
    return Node(
        ident,
        intern(name),
        controls[0] if controls else None,
        _side(record, "inputs", "input"),
        _side(record, "outputs", "output"),
        tuple(w for w in waits if w != ident),
        _whole(attributes.get("rf_id")),
        _whole(attributes.get("tid")),
        _whole(attributes.get("scope")),
    )


def _attributes(record: Mapping[str, Any]) -> Mapping[str, Any]:
    """Give the named values of a node: in it (schema 1.0), or in its list of attributes."""
    listed = record.get("attrs")
    if not isinstance(listed, list):
        return record
    found = {}
    for item in listed:
        if isinstance(item, dict) and isinstance(item.get("name"), str):
            found[item["name"]] = item.get("value")
    return found


def _side(record: Mapping[str, Any], name: str, single: str) -> tuple[Tensor, ...]:
    side = record.get(name)
    if isinstance(side, dict):
        return tuple(tensors_of(side.get("values"), side.get("types")))
    return tuple(tensors_of(side, record.get(f"{single}_types")))


def tensors_of(values: Any, types: Any) -> Iterator[Tensor]:
    """Give the tensors among the values of a node, also those in lists.

    A tensor is ``[number, storage, offset, elements, bytes of one, device]``.

    Examples
    --------
    >>> list(tensors_of([[6, 7, 0, 10, 4, "cuda:0"], 1.0], ["Tensor(float)", "Double"]))
    [(6, 10, 40, 'cuda:0')]
    """
    if not isinstance(values, list):
        return
    types = types if isinstance(types, list) else []
    for place, value in enumerate(values[:_TENSORS]):
        kind = types[place] if place < len(types) else None
        if isinstance(value, list) and (not isinstance(kind, str) or "Tensor" in kind):
            yield from _tensors(value, _DEPTH)


def _tensors(value: list[Any], depth: int) -> Iterator[Tensor]:
    if len(value) >= 5 and not any(isinstance(item, (list, dict)) for item in value):
        number, elements, size = _whole(value[0]), _whole(value[3]), _whole(value[4])
        if number is not None and (len(value) == 5 or isinstance(value[5], str)):
            elements = elements if elements is not None and 0 <= elements < 1 << 48 else 0
            size = size if size is not None and 0 <= size < 1 << 12 else 0
            yield number, elements, elements * size, intern(value[5]) if len(value) > 5 else ""
        return
    if depth:
        for item in value[:_TENSORS]:
            if isinstance(item, list):
                yield from _tensors(item, depth - 1)


class _Open:
    """A node whose callees are being looked at."""

    __slots__ = ("node", "seen", "wants")

    def __init__(self, node: Node, wants: dict[int, int]) -> None:
        self.node, self.wants = node, wants
        self.seen: set[int] = set()


def data_deps(nodes: Mapping[int, Node]) -> set[tuple[int, int]]:
    """Give (node, node it waits for): who last made a tensor that a node reads.

    Numbers of nodes are in the order of their starts, so that a pair always points back. The
    innermost operators count; a caller only for tensors that none of its callees touches.

    Examples
    --------
    >>> a = Node(2, "a", None, (), ((9, 1, 4, "cpu"),))
    >>> b = Node(3, "b", None, ((9, 1, 4, "cpu"),), ())
    >>> data_deps({2: a, 3: b})
    {(3, 2)}
    """
    found: set[tuple[int, int]] = set()
    maker: dict[int, int] = {}
    stacks: dict[int | None, list[_Open]] = {}

    def finish(item: _Open) -> None:
        for tensor, source in item.wants.items():
            if tensor not in item.seen and not _within(nodes, source, item.node.ident):
                found.add((item.node.ident, source))
        for tensor, *_ in item.node.outputs:
            now = maker.get(tensor)
            if now is None or not _within(nodes, now, item.node.ident):
                maker[tensor] = item.node.ident

    for ident in sorted(nodes):
        node = nodes[ident]
        stack = stacks.setdefault(node.tid, [])
        while stack and stack[-1].node.ident != node.parent:
            finish(stack.pop())
        wants = {tensor: maker[tensor] for tensor, *_ in node.inputs if tensor in maker}
        for above in stack[-_REACH:] if node.inputs else ():
            above.seen.update(tensor for tensor, *_ in node.inputs)
        stack.append(_Open(node, wants))
        if node.leaf:
            finish(stack.pop())
    for stack in stacks.values():
        while stack:
            finish(stack.pop())
    for ident, node in nodes.items():
        for other in node.waits:
            if other in nodes and other < ident and not _within(nodes, ident, other):
                found.add((ident, other))
    return {(a, b) for a, b in found if a != b and not _within(nodes, a, b)}


def _within(nodes: Mapping[int, Node], ident: int, above: int) -> bool:
    """Whether a node is another one or was called from it."""
    for _ in range(_REACH):
        if ident == above:
            return True
        node = nodes.get(ident)
        # A caller has the smaller number; anything else is damage, and would go in circles.
        if node is None or node.parent is None or node.parent >= ident:
            return False
        ident = node.parent
    return False
