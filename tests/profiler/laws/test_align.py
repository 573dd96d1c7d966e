"""Folds found again in runs of different scale."""

from __future__ import annotations

import random

from rotameter.profiler.flow.graph import flow_graph
from rotameter.profiler.laws.align import align
from rotameter.profiler.trace import Trace


def run(k, n=4, *, names="s", seed=None, groups=("split", "work", "join"), extra=False):
    """Split one input, work on the parts, join them; bytes and tasks grow with k and n."""
    ids = {f"{names}{i}": f"{names}{i}" for i in range(n + 2)}
    rng = random.Random(seed)
    if seed is not None:
        ids = {name: f"{rng.random()}" for name in ids}
    first, *middle, last = ids.values()
    tasks = [{"task_id": first, "group": groups[0], "wall_s": 1.0 * k}]
    tasks += [{"task_id": t, "group": groups[1], "wall_s": 2.0 * k} for t in middle]
    tasks.append({"task_id": last, "group": groups[2], "wall_s": None})
    flows = [(first, "in", "read", 100 * k)]
    for t in middle:
        flows += [(first, f"p{t}", "write", 10 * k), (t, f"p{t}", "read", 10 * k)]
        flows += [(t, f"q{t}", "write", 5 * k), (last, f"q{t}", "read", 5 * k)]
    if extra:
        flows.append((last, "report", "write", 7))
    rng.shuffle(flows)
    keys = ("task_id", "object", "op", "bytes")
    rows = [dict(zip(keys, flow, strict=True)) for flow in flows]
    return flow_graph(Trace.from_tables({"tasks": tasks, "flows": rows}))


def test_by_name():
    found = align([run(1), run(2, n=8)], [1, 2])
    assert found.by_name and not found.notes
    assert sorted(found.edges) == [
        "join reads [work > join]",
        "split reads [outside > split]",
        "split writes [split > work]",
        "work reads [split > work]",
        "work writes [work > join]",
    ]
    writes = found.edges["split writes [split > work]"]
    assert [v.tolist() for v in writes["bytes"].samples] == [[10] * 4, [20] * 8]
    assert [v.tolist() for v in writes["count"].samples] == [[4], [8]]
    assert "ops" not in writes and "busy_s" not in writes
    assert [len(v) for v in found.groups["work"]["wall_s"].samples] == [4, 8]
    assert "wall_s" not in found.groups["join"]
    assert [v.tolist() for v in found.whole["all reads"]["bytes"].samples] == [[160], [440]]


def test_by_place_with_every_name_at_random():
    graphs = [run(k, seed=k, groups=(f"a{k}", f"b{k}", f"c{k}")) for k in (1, 2, 3)]
    found = align(graphs, [1, 2, 3])
    named = align([run(k) for k in (1, 2, 3)], [1, 2, 3])
    assert not found.by_name and any("by place" in note for note in found.notes)

    def values(aligned):
        return sorted(
            tuple(tuple(v.tolist()) for v in m["bytes"].samples) for m in aligned.edges.values()
        )

    assert values(found) == values(named)


def test_roles_that_only_some_runs_have_are_joined():
    found = align([run(1), run(2, extra=True)], [1, 2])
    assert "join reads [work > join]" in found.edges
    only = found.edges["join writes [join > nobody]"]
    assert [v.size for v in only["bytes"].samples] == [0, 1]
    assert any("not in all runs" in note for note in found.notes)
    other = align([run(1), run(2, groups=("split", "work", "work"))], [1, 2])
    assert any("not told apart" in note for note in other.notes)
    assert "work reads" in other.edges


def test_nothing_recorded():
    empty = flow_graph(Trace.from_tables({}))
    found = align([empty, empty], [1, 2])
    assert not found.edges and not found.groups and not found.whole
    bare = flow_graph(Trace.from_tables({"tasks": [{"task_id": "a", "wall_s": 1.0}]}))
    assert list(align([bare, bare], [1, 2]).groups)
