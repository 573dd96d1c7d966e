"""Folding of random staged workflows with known roles: agrees with them, loses nothing."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rotameter.profiler.flow.folding import Folded, fold
from rotameter.profiler.flow.graph import FlowGraph


@dataclass
class Role:
    """What the tasks of one kind do in a planned workflow."""

    stage: int
    n: int
    makers: list[int]
    wiring: str
    own: bool
    shared: bool
    ops: float
    outputs: list[int] = field(default_factory=list)


def graph_of(
    n_tasks: int, n_objects: int, edges: list[tuple[Any, ...]], deps: Any = ()
) -> FlowGraph:
    table = np.array(edges, dtype=np.float64).reshape(-1, 5)
    ends = table[:, :2].astype(np.int64)
    pairs = np.array(deps, dtype=np.int64).reshape(-1, 2)
    blank, unknown = np.full(len(table), np.nan), np.full(n_tasks, np.nan)
    return FlowGraph(
        tasks=[f"t{i}" for i in range(n_tasks)],
        group=np.full(n_tasks, -1),
        groups=[],
        objects=[f"o{i}" for i in range(n_objects)],
        size_bytes=np.full(n_objects, np.nan),
        edge_task=ends[:, 0],
        edge_object=ends[:, 1],
        edge_write=table[:, 2] > 0,
        bytes=table[:, 3],
        used_bytes=blank,
        footprint_bytes=blank,
        ops=table[:, 4],
        busy_s=blank,
        first_s=blank,
        last_s=blank,
        dep_task=pairs[:, 0],
        dep_on=pairs[:, 1],
        start_s=unknown,
        end_s=unknown,
        wall_s=unknown,
        lost_read_bytes=unknown,
        lost_write_bytes=unknown,
    )


def plan(rng: np.random.Generator) -> list[Role]:
    """Draw 2 to 5 stages of 1 to 3 roles, wired one to one, by windows, or all to all."""
    roles: list[Role] = []
    for stage in range(int(rng.integers(2, 6))):
        for _ in range(int(rng.integers(1, 4))):
            above = [i for i, r in enumerate(roles) if r.stage == stage - 1]
            older = [i for i, r in enumerate(roles) if r.stage < stage - 1]
            many = min(len(above), int(rng.integers(1, 3)))
            makers = rng.choice(above, many, replace=False).tolist() if above else []
            if older and rng.random() < 0.2:
                makers.append(int(rng.choice(older)))
            single = stage and rng.random() < 0.15
            roles.append(
                Role(
                    stage=stage,
                    n=1 if single else int(rng.integers(8, 60)),
                    makers=makers,
                    wiring=str(rng.choice(["match", "window", "all"], p=[0.5, 0.3, 0.2])),
                    own=stage == 0 or bool(rng.random() < 0.3),
                    shared=bool(rng.random() < 0.3),
                    ops=float(10 ** rng.uniform(1, 5)),
                )
            )
    return roles


def told_apart(roles: list[Role]) -> bool:
    """Say whether two rounds on the plan, or a factor of 40 in work, separate the roles."""
    colour: list[Any] = [(r.stage,) for r in roles]
    for _ in range(2):
        readers = [
            frozenset(colour[j] for j, q in enumerate(roles) if i in q.makers)
            for i in range(len(roles))
        ]
        made = list(zip(colour, readers, strict=True))
        colour = [
            (*made[i], frozenset(made[j] for j in r.makers), r.own, r.shared)
            for i, r in enumerate(roles)
        ]
    return all(
        colour[i] != colour[j] or max(a.ops / b.ops, b.ops / a.ops) >= 40
        for i, a in enumerate(roles)
        for j, b in enumerate(roles[:i])
    )


def grow(rng: np.random.Generator, roles: list[Role]) -> tuple[FlowGraph, list[int]]:
    """Make the instances of a plan: the graph, and the role of each task."""
    edges: list[tuple[Any, ...]] = []
    owner: list[int] = []
    things = 0
    for number, role in enumerate(roles):
        common = things
        things += role.shared
        for k in range(role.n):
            reads = [common] * role.shared
            if role.own:
                reads.append(things)
                things += 1
            for maker in role.makers:
                outs = roles[maker].outputs
                low, high = k * len(outs) // role.n, (k + 1) * len(outs) // role.n
                more = 1 if role.wiring == "window" else 0
                if role.wiring == "all" or role.n == 1:
                    low, high = 0, len(outs)
                reads += outs[max(0, low - more) : max(low + 1, high) + more]
            role.outputs.append(things)
            for thing in (*reads, things):
                moved = max(1, int(1e6 * np.exp(rng.normal())))
                ops = max(1, int(role.ops * np.exp(rng.normal(0, 0.15))))
                edges.append((len(owner), thing, thing == things, moved, ops))
            things += 1
            owner.append(number)
    return graph_of(len(owner), things, edges), owner


def edges(graph: FlowGraph) -> Counter[tuple[Any, ...]]:
    columns = (graph.edge_task, graph.edge_object, graph.edge_write, graph.bytes, graph.ops)
    return Counter(
        (graph.tasks[t], graph.objects[o], w, repr(b), repr(n))
        for t, o, w, b, n in zip(*(c.tolist() for c in columns), strict=True)
    )


def deps(graph: FlowGraph) -> Counter[tuple[str, str]]:
    pairs = zip(graph.dep_task.tolist(), graph.dep_on.tolist(), strict=True)
    return Counter((graph.tasks[t], graph.tasks[on]) for t, on in pairs)


def check_laws(folded: Folded) -> None:
    """Nothing lost, nothing mixed, sums exact."""
    graph, groups = folded.graph, folded.edges.groups
    back = folded.unfold()
    assert edges(back) == edges(graph)
    assert deps(back) == deps(graph)
    assert sorted(back.tasks) == sorted(graph.tasks)
    assert sorted(back.objects) == sorted(graph.objects)
    for at in range(len(folded.edges)):
        members = groups.members(at)
        assert set(folded.task_folds.of[graph.edge_task[members]]) == {folded.edges.task[at]}
        assert set(folded.object_folds.of[graph.edge_object[members]]) == {folded.edges.object[at]}
        assert set(graph.edge_write[members]) == {folded.edges.write[at]}
        for column, totals in ((graph.bytes, folded.edges.bytes), (graph.ops, folded.edges.ops)):
            known = column[members][~np.isnan(column[members])]
            expected = sum(int(v) for v in known) if len(known) else None
            assert (None if np.isnan(totals[at]) else int(totals[at])) == expected
    src, dst, _ = graph.links()
    assert (folded.task_folds.of[src] != folded.task_folds.of[dst]).all()
    for n in (2, 7, 40):
        view = folded.top(n)
        assert len(view.labels) <= n
        assert view.n.sum() == graph.n_edges + len(graph.dep_task)
        assert np.nansum(view.bytes) == np.nansum(graph.bytes)


@pytest.mark.parametrize("block", range(4))
def test_roles_agree_with_those_of_generated_workflows(block):
    """At most one workflow in 20 below 0.95: what is drawn may be alike within two rounds."""
    from sklearn.metrics import adjusted_rand_score

    scores = []
    for seed in range(40 * block, 40 * block + 40):
        rng = np.random.default_rng([4, seed])
        roles = plan(rng)
        if not told_apart(roles):
            continue
        graph, owner = grow(rng, roles)
        folded = fold(graph, use_names=False)
        check_laws(folded)
        scores.append(adjusted_rand_score(owner, folded.task_folds.of))
    assert len(scores) >= 20
    assert np.mean(np.array(scores) >= 0.95) >= 0.95
    assert min(scores) >= 0.75


whole = st.integers(0, 10**9) | st.just(float("nan"))


@st.composite
def any_graph(draw: Any) -> FlowGraph:
    """Draw any graph: several makers of an object, cycles, isolated vertices, unknown values."""
    n, m = draw(st.integers(1, 8)), draw(st.integers(0, 6))
    ends = st.tuples(st.integers(0, n - 1), st.integers(0, max(0, m - 1)), st.booleans())
    found = draw(st.sets(ends, max_size=25)) if m else set()
    pairs = draw(st.sets(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=8))
    rows = [(*end, draw(whole), draw(whole)) for end in sorted(found)]
    return graph_of(n, m, rows, sorted(pair for pair in pairs if pair[0] != pair[1]))


@settings(max_examples=150, deadline=None)
@given(any_graph(), st.integers(1, 3), st.booleans(), st.data())
def test_any_graph_folds_and_unfolds(graph, rounds, names, data):
    stage = data.draw(st.none() | st.lists(st.integers(-1, 2), min_size=len(graph.tasks),
                                           max_size=len(graph.tasks)))  # fmt: skip
    given_stage = None if stage is None else np.array(stage)
    folded = fold(graph, rounds=rounds, use_names=names, stage=given_stage)
    check_laws(folded)
    if stage is not None:
        for at in range(folded.task_folds.n):
            assert len({stage[i] for i in folded.task_folds.members(at)}) == 1


@pytest.mark.parametrize("seed", range(20))
def test_the_order_of_tasks_objects_and_edges_does_not_matter(seed):
    rng = np.random.default_rng([9, seed])
    graph, _ = grow(rng, plan(rng)[:4])
    task, thing = rng.permutation(len(graph.tasks)), rng.permutation(len(graph.objects))
    rows = [
        (task[t], thing[o], w, b, n)
        for t, o, w, b, n in zip(
            graph.edge_task,
            graph.edge_object,
            graph.edge_write,
            graph.bytes,
            graph.ops,
            strict=True,
        )
    ]
    rng.shuffle(rows)
    mixed = fold(graph_of(len(task), len(thing), rows), use_names=False)
    plain = fold(graph, use_names=False)
    pairs = set(zip(plain.task_folds.of.tolist(), mixed.task_folds.of[task].tolist(), strict=True))
    assert len(pairs) == plain.task_folds.n == mixed.task_folds.n
