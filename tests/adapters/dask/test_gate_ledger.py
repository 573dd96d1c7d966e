from __future__ import annotations

import pytest

from rotameter.adapters.dask.gate_ledger import Ledger, Waiting


def test_what_was_granted_and_given_back_leaves_nothing() -> None:
    books = Ledger()
    books.join("a", 100.0, 4)
    for number in range(3):
        books.grant(number, "a", 33.3)
    assert books.place(10.0) is None and books.place(0.05) == "a"
    for number in range(3):
        books.release(number)
    room = books.rooms["a"]
    assert (room.granted_bytes, room.running, books.grants) == (0.0, 0, {})
    assert books.release("unknown") is None


def test_a_task_goes_where_most_is_left() -> None:
    books = Ledger()
    books.join("small", 100.0, 2)
    books.join("large", 300.0, 2)
    assert books.place(50.0) == "large"
    books.grant("x", "large", 250.0)
    assert books.place(60.0) == "small"
    books.rooms["small"].open = False
    books.changed()
    assert books.place(60.0) is None


def test_results_count_and_what_is_as_large_as_a_worker_runs_there_alone() -> None:
    books = Ledger()
    books.join("a", 100.0, 2)
    books.rooms["a"].other_bytes = 30.0
    books.changed()
    assert books.place(100.0) == "a"
    books.grant("light", "a", 10.0)
    assert books.place(100.0) is None and books.place(60.0) == "a"
    assert books.capacity() == 100.0 and books.share() == 50.0


def test_a_worker_that_leaves_takes_its_grants_along() -> None:
    books = Ledger()
    books.join("a", 100.0, 2)
    books.grant("x", "a", 60.0)
    books.leave("a")
    assert not books.grants and books.place(1.0) is None
    assert books.capacity() == 0.0


def test_threads_bound_what_runs_at_once() -> None:
    books = Ledger()
    books.join("a", 100.0, 1)
    books.grant("x", "a", 1.0)
    assert books.place(1.0) is None


def test_order_is_by_priority_across_groups_and_a_large_one_lets_others_pass() -> None:
    line = Waiting()
    for number in range(4):
        line.push("large", (0, number), f"large-{number}")
        line.push("small", (0, 10 + number), f"small-{number}")
    assert line.walk(lambda group, key: group == "small") == [f"small-{k}" for k in range(4)]
    assert len(line) == 4 and line.groups() == ["large"]
    line.remove("large-0")
    assert line.walk(lambda *_: True) == ["large-1", "large-2", "large-3"]
    assert "large-1" not in line and list(line) == []


def test_who_waits_already_is_not_added_twice() -> None:
    line = Waiting()
    line.push("g", 1, "a")
    line.push("g", 1, "a")
    assert line.walk(lambda *_: True) == ["a"]
    line.push("g", 1, "a")
    assert line.walk(lambda *_: True) == ["a"]


@pytest.mark.parametrize("groups", [1, 20])
def test_a_decision_looks_at_groups_not_at_tasks(groups: int) -> None:
    line = Waiting()
    for number in range(10_000):
        line.push(f"g{number % groups}", number, number)
    asked: list[int] = []

    def refuse(group: str, key: int) -> bool:
        asked.append(key)
        return False

    assert line.walk(refuse) == [] and len(asked) == groups
