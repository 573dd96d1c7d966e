from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from rotameter.allocator.default import Default
from rotameter.allocator.follows import Follows
from rotameter.allocator.needs import Record, Task
from rotameter.allocator.online import sequential, teach
from rotameter.allocator.workload import Workload
from rotameter.values import Change


def test_a_need_that_follows_the_size_is_foretold() -> None:
    made = Follows(0.01, 1.0)
    for size in range(1, 30):
        made.learn(1e6 * size + 5e6, 10.0, float(size))
    ladder = made.ladder(100.0)
    assert ladder is not None
    # Twice the largest need seen is as far as the line is trusted.
    assert ladder.rungs[0] == pytest.approx(2 * 34e6, rel=0.1)
    inside = made.ladder(12.0)
    assert inside is not None and inside.rungs[0] == pytest.approx(17e6, rel=0.1)


def test_equal_sizes_and_few_tasks_draw_no_line() -> None:
    made = Follows(0.01, 1.0)
    assert made.ladder(3.0) is None
    for need in (1e6, 3e6, 2e6, 2e6, 2e6, 2e6, 2e6, 2e6, 2e6):
        made.learn(need, 1.0, 7.0)
    ladder = made.ladder(7.0)
    assert ladder is not None and 1e6 < ladder.rungs[0] < 6e6


def workload(n: int = 400) -> Workload:
    rng = np.random.default_rng(2)
    size = rng.uniform(1e6, 1e9, n)
    need = 3.0 * size + 2e8 + rng.normal(0, 1e6, n)
    return Workload("w", np.zeros(n, int), ("g",), need, np.full(n, 9.0), size, np.full(n, np.nan))


def test_who_is_told_the_size_wastes_less() -> None:
    work, most = workload(), 64e9
    blind = sequential(work, Default({"memory_bytes": most}), most).ledger
    told = sequential(work, Default({"memory_bytes": most}), most, sizes=True).ledger
    assert (told.efficiency or 0) > (blind.efficiency or 0) + 0.15


def test_a_task_without_a_size_is_sized_by_the_others() -> None:
    made = Default({"memory_bytes": 64e9})
    teach(made, workload(), sizes=True)
    small = made.request(Task("a", "g", size=1e6))
    large = made.request(Task("b", "g", size=1e9))
    blind = made.request(Task("c", "g"))
    assert small.memory_bytes < blind.memory_bytes <= 1.3 * large.memory_bytes  # type: ignore
    other = Default.from_state(json.loads(json.dumps(made.state())))
    assert other.request(Task("a", "g", size=1e6)) == small


def test_a_detector_that_finds_a_change_lets_it_forget() -> None:
    class Jump:
        def __init__(self) -> None:
            self.last: float | None = None

        def update(self, at_ns: int, x: float) -> object | None:
            found = self.last is not None and abs(x - self.last) > 1.0
            self.last = x
            return object() if found else None

    made = Default({"memory_bytes": 64e9}, detector=Jump)  # type: ignore[arg-type]
    plain = Default({"memory_bytes": 64e9})
    for allocator in (made, plain):
        for number in range(300):
            need = 30e9 if number < 295 else 1e9
            record = Record(str(number), "g", "ok", {"memory_bytes": need}, wall_s=1.0)
            allocator.observe(record)
    kept = made.state()["groups"]["g"]["learners"]["memory_bytes"]["latest"]
    assert len(kept) < 20 <= len(plain.state()["groups"]["g"]["learners"]["memory_bytes"]["latest"])


@pytest.mark.parametrize("late", [1, 2, 7, 12, 30, 50, 80])
def test_what_ran_since_the_change_is_kept_and_nothing_from_before(late: int) -> None:
    """Detectors say when a change was; it may be found some tasks later."""

    class Told:
        def update(self, at_ns: int, x: float) -> Change | None:
            return Change(201, None, None) if at_ns == 200 + late else None

    made = Default({"memory_bytes": 64e9}, detector=Told)
    for number in range(200 + late):
        need = 30e9 if number < 200 else 1e9
        made.observe(Record(str(number), "g", "ok", {"memory_bytes": need}, wall_s=1.0))
    kept = made.state()["groups"]["g"]["learners"]["memory_bytes"]
    assert [value for value, _ in kept["latest"]] == [pytest.approx(1.01e9)] * min(late, 50)
    assert kept["largest"] == pytest.approx(1e9)
    given = made.request(Task("next", "g"))
    assert 1e9 < given.memory_bytes < 3e9  # type: ignore[union-attr, operator]
    # Few tasks since then leave room for what was not seen, as few tasks of a new group do.
    fresh = Default({"memory_bytes": 64e9})
    for number in range(min(late, 2)):
        fresh.observe(Record(str(number), "g", "ok", {"memory_bytes": 1e9}, wall_s=1.0))
    as_new = fresh.request(Task("next", "g")).memory_bytes  # type: ignore[union-attr]
    assert late > 2 or given.memory_bytes == pytest.approx(as_new)  # type: ignore[union-attr]
    assert Default.from_state(json.loads(json.dumps(made.state()))).request(Task("n", "g")) == given


@pytest.mark.parametrize("at_ns", [None, 0, -5, 999, "soon", 3.5])
def test_a_change_without_a_time_of_its_own_leaves_the_few_latest(at_ns: Any) -> None:
    class Told:
        def update(self, at: int, x: float) -> Any:
            return SimpleNamespace(at_ns=at_ns) if at == 60 else None

    made = Default({"memory_bytes": 64e9}, detector=Told)
    for number in range(60):
        made.observe(Record(str(number), "g", "ok", {"memory_bytes": 1e9}, wall_s=1.0))
    assert len(made.state()["groups"]["g"]["learners"]["memory_bytes"]["latest"]) == 12
