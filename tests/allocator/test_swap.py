"""Allocators are replaced while they serve; unfit ones never serve, or not for long."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import Any

import pytest

from rotameter.allocator.baselines import ALLOCATORS, make_allocator
from rotameter.allocator.default import Default
from rotameter.allocator.needs import Record, Task, View
from rotameter.allocator.swap import Swappable
from rotameter.errors import PolicyError, TracerWarning
from rotameter.testing import check_allocator
from rotameter.testing.allocators import trouble_with
from rotameter.values import Allocation, Hold

GB = 1e9
MOST = 64 * GB


class Plain:
    """A constant first request, doubled after failures."""

    def __init__(self, first: float = GB, most: float = MOST) -> None:
        self.first, self.most, self.known = first, most, 0

    def request(self, task: Task, view: View | None = None) -> Any:
        return Allocation(memory_bytes=int(self.first), policy=str(self.first))

    def observe(self, record: Record) -> None:
        self.known += 1

    def exceeded(self, task: Task, attempt: Record) -> Any:
        return Allocation(memory_bytes=int(min(self.most, 2 * attempt.granted["memory_bytes"])))

    def explain(self, task: Task) -> str:
        return "memory: a constant"


def unsafe(**methods: Callable[..., Any]) -> Callable[[Any], Any]:
    made = type("Unsafe", (Plain,), methods)
    return lambda most: made()


def _raises(*_: Any) -> Any:
    raise RuntimeError("broken")


def _slow(self: Any, task: Any, view: Any = None) -> Any:
    sum(range(20_000_000))
    return Allocation(memory_bytes=10**9)


def _learns_down(self: Any, record: Record) -> None:
    self.first = 0.0


def _preempted_up(self: Any, record: Record) -> None:
    if record.outcome in ("preempted", "worker_lost"):
        self.first *= 2


UNSAFE = {
    "request raises": unsafe(request=_raises),
    "observe raises": unsafe(observe=_raises),
    "exceeded raises": unsafe(exceeded=_raises),
    "explain raises": unsafe(explain=_raises),
    "no allocation": unsafe(request=lambda *_: 10**9),
    "nothing": unsafe(request=lambda *_: None),
    "zero": unsafe(request=lambda *_: Allocation(memory_bytes=0)),
    "negative": unsafe(request=lambda *_: Allocation(memory_bytes=-5)),
    "not a number": unsafe(request=lambda *_: Allocation(memory_bytes=math.nan)),
    "infinite": unsafe(request=lambda *_: Allocation(memory_bytes=math.inf)),
    "text": unsafe(request=lambda *_: Allocation(memory_bytes="1GB")),
    "no memory": unsafe(request=lambda *_: Allocation(cores=1.0)),
    "beyond the worker": unsafe(request=lambda *_: Allocation(memory_bytes=10**15)),
    "does not grow": unsafe(
        exceeded=lambda s, t, a: Allocation(memory_bytes=int(a.granted["memory_bytes"]))
    ),
    "shrinks": unsafe(exceeded=lambda *_: Allocation(memory_bytes=1000)),
    "grows by a byte": unsafe(
        exceeded=lambda s, t, a: Allocation(memory_bytes=int(a.granted["memory_bytes"]) + 1)
    ),
    "holds all": unsafe(request=lambda s, t, v=None: Hold(t.task_id)),
    "learns to give nothing": unsafe(observe=_learns_down),
    "takes a lost worker for a need": unsafe(observe=_preempted_up),
    "slow": unsafe(request=_slow),
}

SAFE = {
    **{name: (lambda most, n=name: make_allocator(n, most["memory_bytes"])) for name in ALLOCATORS},
    "plain": lambda most: Plain(),
    "large": lambda most: Plain(8 * GB),
    "no scouts": lambda most: Default(most, scouts=0),
    "one scout": lambda most: Default(most, scouts=1),
}


@pytest.mark.parametrize("name", UNSAFE)
def test_an_unfit_one_never_serves(name: str) -> None:
    assert trouble_with(UNSAFE[name])
    held = Swappable(Plain(), MOST, check=lambda make: trouble_with(lambda most: make()))
    with pytest.raises(PolicyError, match="not put in service"):
        held.swap(lambda: UNSAFE[name]({"memory_bytes": MOST}))
    assert held.request(Task("a", "g")) == Plain().request(Task("a", "g"))


@pytest.mark.parametrize("name", SAFE)
def test_a_fit_one_passes(name: str) -> None:
    check_allocator(SAFE[name])


def test_there_are_enough_of_both() -> None:
    assert len(UNSAFE) >= 14 and len(SAFE) >= 20


def test_one_that_turns_bad_in_service_is_replaced_by_the_one_before() -> None:
    class Turns(Plain):
        def request(self, task: Task, view: View | None = None) -> Any:
            return Allocation(memory_bytes=-1) if self.known > 3 else super().request(task)

    held = Swappable(Plain(2 * GB), MOST)
    held.swap(lambda: Turns(5 * GB))
    assert held.request(Task("a", "g")).memory_bytes == 5 * GB
    for number in range(5):
        held.observe(Record(str(number), "g", "ok", {"memory_bytes": GB}))
    with pytest.warns(TracerWarning, match="taken out of service"):
        batch = held.batch([Task("b", "g"), Task("c", "g")])
    assert {one.version for one in batch} == {2}
    assert [one.made.memory_bytes for one in batch] == [2 * GB, 2 * GB]  # type: ignore[union-attr]
    assert len(held.faults) == 1


def test_the_last_resort_is_the_largest_worker() -> None:
    held = Swappable(UNSAFE["request raises"]({}), MOST)
    assert held.request(Task("a", "g")).memory_bytes == MOST  # type: ignore[union-attr]
    held = Swappable(UNSAFE["does not grow"]({}), MOST)
    record = Record("a", "g", "oom", granted={"memory_bytes": 3 * GB},
                    exceeded=frozenset({"memory_bytes"}))  # fmt: skip
    assert held.exceeded(Task("a", "g"), record).memory_bytes == 6 * GB


def test_a_new_one_is_taught_what_was_seen() -> None:
    held = Swappable(Plain(), MOST)
    for number in range(20):
        held.observe(Record(str(number), "g", "ok", {"memory_bytes": 7 * GB}, wall_s=1.0))
    held.swap(lambda: Default({"memory_bytes": MOST}))
    assert held.request(Task("a", "g")).memory_bytes >= 7 * GB  # type: ignore[union-attr]


def test_swaps_under_load_lose_double_and_mix_nothing() -> None:
    held = Swappable(Plain(1 * GB), MOST)
    stop = threading.Event()
    wrong: list[str] = []
    asked = [0]

    def serve() -> None:
        while not stop.is_set():
            batch = held.batch([Task(str(k), "g") for k in range(5)])
            asked[0] += len(batch)
            versions = {one.version for one in batch}
            sizes = {one.made.policy for one in batch}  # type: ignore[union-attr]
            if len(batch) != 5 or len(versions) != 1 or len(sizes) != 1:
                wrong.append(f"{versions} {sizes}")

    thread = threading.Thread(target=serve)
    thread.start()
    versions = [held.swap(lambda k=k: Plain(GB * (1 + k % 3))) for k in range(300)]
    stop.set()
    thread.join()
    assert versions == list(range(1, 301))
    assert not wrong and asked[0] > 0
