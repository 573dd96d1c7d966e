"""Iterations: stages that recur, with the values of each round."""

from __future__ import annotations

import numpy as np

from rotameter.profiler.flow.folding import fold
from rotameter.profiler.flow.graph import FlowGraph, flow_graph
from rotameter.profiler.flow.iterations import iterations
from rotameter.profiler.trace import Trace


def rounds_of(count: int, width: int = 4, named: bool = True) -> FlowGraph:
    """Make load → (step × width → reduce) × count → save, through files."""
    tasks = [{"task_id": "load", "group": "load", "wall_s": 1.0}]
    flows = [{"task_id": "load", "object": "state-0", "op": "write", "bytes": 7}]
    for at in range(count):
        for i in range(width):
            name = f"step-{at}-{i}"
            tasks.append({"task_id": name, "group": "step", "wall_s": 10.0 + at})
            flows += [
                {"task_id": name, "object": f"state-{at}", "op": "read", "bytes": 100 * (at + 1)},
                {"task_id": name, "object": f"part-{at}-{i}", "op": "write", "bytes": 5},
                {"task_id": f"reduce-{at}", "object": f"part-{at}-{i}", "op": "read", "bytes": 5},
            ]
        tasks.append({"task_id": f"reduce-{at}", "group": "reduce", "wall_s": 0.5})
        flows.append({"task_id": f"reduce-{at}", "object": f"state-{at + 1}", "op": "write"})
    tasks.append({"task_id": "save", "group": "save", "wall_s": 2.0})
    flows.append({"task_id": "save", "object": f"state-{count}", "op": "read", "bytes": 9})
    if not named:
        tasks = [{**row, "group": None} for row in tasks]
    return flow_graph(Trace.from_tables({"tasks": tasks, "flows": flows}))


def test_rounds_of_two_stages_are_one_loop_with_a_series_of_values():
    (loop,) = iterations(fold(rounds_of(5)))
    assert (loop.first_stage, loop.period, loop.count) == (1, 2, 5)
    assert loop.roles == ["step", "reduce"]
    assert loop.tasks.tolist() == [[4, 1]] * 5
    assert loop.wall_s[:, 0].tolist() == [40.0, 44.0, 48.0, 52.0, 56.0]
    assert loop.read_bytes[:, 0].tolist() == [400.0, 800.0, 1200.0, 1600.0, 2000.0]
    assert loop.read_bytes[:, 1].tolist() == [20.0] * 5
    assert loop.write_bytes[:, 0].tolist() == [20.0] * 5
    assert np.isnan(loop.write_bytes[:, 1]).all()
    assert np.isnan(loop.busy_s).all()


def test_without_names_the_shape_decides():
    (loop,) = iterations(fold(rounds_of(6, named=False)))
    assert loop.period == 2
    assert loop.count >= 5
    assert iterations(fold(rounds_of(2, named=False))) == []


def test_a_workflow_without_rounds_has_no_loop():
    assert iterations(fold(rounds_of(1))) == []
    assert iterations(fold(flow_graph(Trace.from_tables({})))) == []


def test_a_chain_of_equal_steps_is_one_loop():
    tasks = [{"task_id": f"t{i}", "group": "inc"} for i in range(500)]
    deps = [{"task_id": f"t{i}", "depends_on": f"t{i - 1}"} for i in range(1, 500)]
    (loop,) = iterations(fold(flow_graph(Trace.from_tables({"tasks": tasks, "deps": deps}))))
    assert (loop.period, loop.count) == (1, 500)
    assert np.isnan(loop.wall_s).all()


def test_two_loops_do_not_overlap():
    names = ["a", "b"] * 3 + ["c"] * 4 + ["d"]
    tasks = [{"task_id": f"t{i}", "group": g} for i, g in enumerate(names)]
    deps = [{"task_id": f"t{i}", "depends_on": f"t{i - 1}"} for i in range(1, len(names))]
    found = iterations(fold(flow_graph(Trace.from_tables({"tasks": tasks, "deps": deps}))))
    assert [(loop.first_stage, loop.period, loop.count) for loop in found] == [(0, 2, 3), (6, 1, 4)]
