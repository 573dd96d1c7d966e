"""Caterpillars: spine, legs, forest."""

from __future__ import annotations

import pytest

from rotameter.errors import UsageError
from rotameter.profiler.flow.caterpillar import caterpillar, caterpillars
from rotameter.profiler.flow.graph import FlowGraph, flow_graph
from rotameter.profiler.trace import Trace


def graph(*moved: tuple[str, str, str, int | None]) -> FlowGraph:
    flows = [{"task_id": t, "object": o, "op": op, "bytes": n} for t, o, op, n in moved]
    return flow_graph(Trace.from_tables({"flows": flows}))


WIDE = (
    ("a", "in", "read", 10),
    ("a", "x", "write", 5),
    ("a", "log", "write", 1),
    ("b", "x", "read", 5),
    ("c", "x", "read", 2),
    ("c", "z", "write", 1),
    ("b", "out", "write", 7),
)


def test_the_spine_is_the_path_and_the_legs_its_neighbours() -> None:
    made = graph(*WIDE)
    tree = caterpillar(made, "bytes")
    assert tree is not None
    assert [made.tasks[t] for t in tree.spine] == ["a", "b"]
    assert [made.objects[o] for o in tree.spine_objects] == ["in", "x", "out"]
    assert [made.tasks[t] for t in tree.leg_tasks] == ["c"]
    assert [made.objects[o] for o in tree.leg_objects] == ["log"]
    assert (tree.length, tree.bytes) == (27.0, 28.0)


def test_a_forest_has_each_task_on_one_spine() -> None:
    made = graph(*WIDE)
    forest = caterpillars(made, "bytes")
    spines = [t for tree in forest.trees for t in tree.spine]
    assert sorted(spines) == list(range(len(made.tasks)))
    lengths = [tree.length for tree in forest.trees]
    assert lengths == sorted(lengths, reverse=True)
    assert forest.rest_tasks == 0


def test_a_limit_says_what_it_left_out() -> None:
    made = graph(*((f"t{i}", f"x{i}", "read", i) for i in range(5)))
    forest = caterpillars(made, "bytes", limit=2)
    assert [made.tasks[t.spine[0]] for t in forest.trees] == ["t4", "t3"]
    assert forest.rest_tasks == 3


def test_without_tasks_or_bytes_there_is_what_can_be() -> None:
    assert caterpillar(graph()) is None
    tree = caterpillar(graph(("a", "x", "read", None)), "bytes")
    assert tree is not None
    assert (tree.length, tree.bytes) == (0.0, None)
    with pytest.raises(UsageError, match="no weight"):
        caterpillar(graph(), "colour")
