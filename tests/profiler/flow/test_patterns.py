"""Each pattern where it is, and not where something like it is."""

from __future__ import annotations

from typing import Any

import pytest

from rotameter.profiler.flow.graph import flow_graph
from rotameter.profiler.flow.patterns import PATTERNS, Pattern, patterns
from rotameter.profiler.trace import Trace

S = 10**9
Row = dict[str, Any]


def find(*flows: Row, **tables: list[Row]) -> dict[str, Pattern]:
    made = patterns(flow_graph(Trace.from_tables({"flows": list(flows), **tables})))
    assert [p.kind for p in made] == [k for k in PATTERNS if k in {p.kind for p in made}]
    return {p.kind: p for p in made}


def read(task: str, thing: str, size: int | None = 10, **more: Any) -> Row:
    return {"task_id": task, "object": thing, "op": "read", "bytes": size, **more}


def write(task: str, thing: str, size: int | None = 10, **more: Any) -> Row:
    return {"task_id": task, "object": thing, "op": "write", "bytes": size, **more}


def groups(**of: str) -> list[Row]:
    return [{"task_id": t, "group": g, "outcome": "ok"} for t, g in of.items()]


def test_nothing_from_nothing() -> None:
    assert find() == {}
    assert find(read("a", "x"), write("a", "y")) == {}


def test_fan_in_and_fan_out_begin_at_three() -> None:
    two = [read("a", f"x{i}") for i in range(2)] + [read(f"b{i}", "y") for i in range(2)]
    assert not {"fan_in", "fan_out"} & set(find(*two))
    three = [*two, read("a", "x2"), read("b2", "y", 30)]
    found = find(*three, tasks=groups(a="ga", b0="gb"))
    fan_in, fan_out = found["fan_in"], found["fan_out"]
    assert (fan_in.count, fan_in.bytes, fan_in.examples[0].task) == (1, 30.0, "a")
    assert (fan_in.groups, fan_in.examples[0].value) == ((("ga", 1),), 3.0)
    assert (fan_out.count, fan_out.bytes, fan_out.examples[0].object) == (1, 50.0, "y")


def joined(out_bytes: int) -> list[Row]:
    rows = [write(f"m{i}", f"part{i}") for i in range(4)]
    rows += [read("join", f"part{i}") for i in range(4)]
    return [*rows, write("join", "all", out_bytes)]


def test_an_aggregator_makes_less_of_many() -> None:
    found = find(*joined(20))
    assert found["aggregator"].examples[0].task == "join"
    assert found["aggregator"].bytes == 40.0
    assert "aggregator" not in find(*joined(40))
    assert "aggregator" not in find(*[read("a", f"in{i}") for i in range(4)], write("a", "all", 1))


def test_a_splitter_feeds_several_with_what_it_makes() -> None:
    rows = [read("cut", "in", 30), *(write("cut", f"part{i}") for i in range(3))]
    assert "splitter" not in find(*rows)
    found = find(*rows, *(read(f"m{i}", f"part{i}") for i in range(3)))
    assert (found["splitter"].examples[0].task, found["splitter"].bytes) == ("cut", 30.0)
    one = find(*rows, *(read("m", f"part{i}") for i in range(3)))
    assert "splitter" not in one


def test_reuse_inside_counts_the_repeats() -> None:
    rows = [read("a", "x", 100, footprint_bytes=20), read("b", "y", 25, footprint_bytes=20)]
    found = find(*rows, read("c", "z", 100))["reuse_inside"]
    assert (found.count, found.bytes, found.examples[0].value) == (1, 80.0, 5.0)


def test_reuse_between_counts_all_but_the_largest_reader() -> None:
    found = find(read("a", "x", 30), read("b", "x", 50), read("c", "y", 9))["reuse_between"]
    assert (found.count, found.bytes) == (1, 30.0)
    unknown = find(read("a", "x", None), read("b", "x", None))["reuse_between"]
    assert (unknown.count, unknown.bytes, unknown.unknown) == (1, None, 1)


def test_unread_are_side_products_and_not_the_final_outputs() -> None:
    rows = [write("a", "x"), write("a", "debug", 70), read("b", "x"), write("b", "result", 9)]
    found = find(*rows)["unread"]
    assert [e.object for e in found.examples] == ["debug"]
    assert found.bytes == 70.0


def test_rates_differ_only_where_both_are_known() -> None:
    rows = [write("a", "x", 80, busy_s=1.0), read("b", "x", 80, busy_s=10.0)]
    rows += [write("a", "y", 80, busy_s=1.0), read("b", "y", 80, busy_s=2.0)]
    rows += [write("a", "z", 80, busy_s=1.0), read("b", "z", 80)]
    found = find(*rows)["rate_mismatch"]
    assert (found.count, found.bytes, found.examples[0].value) == (1, 80.0, 10.0)
    slow = find(write("a", "x", 8, busy_s=8.0), read("b", "x", 8, busy_s=1.0))["rate_mismatch"]
    assert slow.examples[0].value == pytest.approx(1 / 8)


def test_disposable_is_written_once_and_read_once_by_another() -> None:
    rows = [write("a", "tmp", 40), read("b", "tmp", 40), read("b", "in", 5)]
    rows += [write("c", "own"), read("c", "own")]
    rows += [write("a", "two"), read("b", "two"), read("c", "two")]
    found = find(*rows)["disposable"]
    assert [e.object for e in found.examples] == ["tmp"]


def at(first: float, last: float) -> Row:
    return {"first_ns": int((100 + first) * S), "last_ns": int((100 + last) * S)}


def test_write_after_read_needs_an_order() -> None:
    assert "write_after_read" not in find(read("a", "x"), write("a", "x"), write("b", "x"))
    update = find(read("a", "x", **at(0, 1)), write("a", "x", **at(2, 3)))
    assert update["write_after_read"].examples[0].object == "x"
    normal = find(write("a", "x", **at(0, 1)), read("b", "x", **at(2, 3)))
    assert "write_after_read" not in normal
    later = find(
        read("a", "x"),
        write("b", "x", 7),
        tasks=[
            {"task_id": t, "started_ns": (100 + s) * S, "ended_ns": (101 + s) * S}
            for t, s in (("a", 0), ("b", 1))
        ],
    )
    assert later["write_after_read"].bytes == 7.0


def test_examples_are_those_with_most_bytes_and_few() -> None:
    rows = [read(f"t{i}", f"x{j}", i) for i in range(9) for j in range(3)]
    found = find(*rows)
    fan_in = found["fan_in"]
    assert fan_in.count == 9
    assert [e.task for e in fan_in.examples] == ["t8", "t7", "t6", "t5", "t4"]
    assert fan_in.to_dict()["examples"][0]["bytes"] == 24.0
