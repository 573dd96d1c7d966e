"""Tasks that ran beside others: what the process tells of them is said, and used as a bound."""

from __future__ import annotations

import asyncio
import json
import threading
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest
from tests.support.scheduler import GB, Scheduler

from rotameter.adapters.dask.gate import Gate
from rotameter.adapters.dask.gate_worker import TOPIC, GateWorker
from rotameter.allocator.default import Default


def cluster(threads: int = 2, **options: Any) -> tuple[Scheduler, Gate]:
    scheduler = Scheduler()
    for name in ("a", "b"):
        scheduler.worker(name, threads=threads)
    gate = scheduler.gate = Gate(**options)
    asyncio.run(gate.start(scheduler))
    return scheduler, gate


def ran(gate: Gate, key: str, gb: float, kind: str = "upper_bound", **more: Any) -> None:
    said = {"key": key, "op": "task-finished", "peak": int(gb * GB), "kind": kind, "wall": 5.0}
    gate.log_event(TOPIC, {"tasks": [said | more]})


def beside(gb: float, *names: str, at_once: int = 2, left: float = 0.0) -> dict[str, Any]:
    return {"beside": names, "at_once": at_once, "grew": int(gb * GB), "left": int(left * GB)}


@pytest.mark.parametrize("observe", [True, False])
def test_explain_says_what_was_seen_of_tasks_that_ran_beside_others(observe: bool) -> None:
    _, gate = cluster(observe=observe)
    for number in range(9):
        ran(gate, f"train-{number}", 8.0 - number / 8)
    said = gate.explain("train")
    assert "no task of this group has completed" not in said
    assert "of none of the 9 tasks that completed the need is known by itself" in said
    assert "9 completed tasks used at most 7 GB to 8 GB" in said
    assert "not held: no task is known to need more than comes with a thread (5 GB)" in said
    assert gate.facts()["hungry"] == [] and not gate.facts()["faults"]
    # It is kept, and told of by the next gate too.
    kept = json.loads(json.dumps(gate.learnt()))
    _, other = cluster(state=kept, observe=observe)
    assert other.explain("train") == said


def test_a_bound_is_what_a_task_that_ran_out_gets_next() -> None:
    """It held all that was seen; without it four times as much is tried."""
    given = {}
    for bounded in (True, False):
        scheduler, gate = cluster()
        for number in range(3 if bounded else 0):
            ran(gate, f"train-{number}", 7.0)
        ts = scheduler.task("train-9")
        ts.state, ts.processing_on = "processing", scheduler.workers["a"]
        gate._exceeded("train", "train-9", scheduler.workers["a"])
        given[bounded] = gate._amount("train", "train-9", 0.0)
    assert given[True] == pytest.approx(7.0 * 1.01 * GB)
    assert given[False] == pytest.approx(10 * GB)


def test_light_groups_that_ran_beside_each_other_are_known_to_be_small() -> None:
    """So they are not blamed for a death that another group's task caused."""
    scheduler, gate = cluster()
    for number in range(4):
        ran(gate, f"light-{number}", 0.3)
    ws = scheduler.workers["a"]
    tasks = [scheduler.task("light-9"), scheduler.task("train-0")]
    ws.executing = dict.fromkeys(tasks, 1.0)
    assert gate._blame.culprits(tasks, ws, {}, "reported") == {"train": "train-0"}


def test_a_large_task_beside_small_ones_is_known_to_be_large() -> None:
    _, gate = cluster(observe=True)
    for number in range(2):
        ran(gate, f"light-{number}", 0.1, kind="exact")
    for number in range(2):
        ran(gate, f"train-{number}", 6.2, **beside(6.1, "light"))
    assert gate.facts()["hungry"] == ["train"]
    # What observing has taught serves the next run: nothing dies first.
    scheduler, other = cluster(state=gate.learnt())
    assert other.facts()["hungry"] == ["train"]
    scheduler.task("train-9")
    scheduler.submit("train-9")
    scheduler.loop.run()
    assert len(other.books.grants) == 1


def test_like_tasks_beside_each_other_have_their_part_each() -> None:
    _, gate = cluster(threads=4)
    for number in range(2):
        ran(gate, f"train-{number}", 8.0, **beside(6.0, "train"))
    assert gate.facts()["hungry"] == ["train"]


@pytest.mark.parametrize(
    ("what", "gb"),
    [
        (beside(6.1, "other"), 6.2),  # of which nothing is known
        (beside(6.1, "light", "train"), 6.2),
        (beside(6.1, "light", left=2.0), 6.2),  # results that others left
        (beside(4.0, "light"), 8.2),  # it grew by less
        (beside(6.1, "train"), 8.2),  # two of 3 GB
        ({}, 8.0),
    ],
)
def test_where_nothing_tells_how_much_it_needs_no_group_is_taken_for_a_large_one(
    what: dict[str, Any], gb: float
) -> None:
    _, gate = cluster()
    for number in range(2):
        ran(gate, f"light-{number}", 0.1, kind="exact")
    for number in range(5):
        ran(gate, f"train-{number}", gb, **what)
    assert gate.facts()["hungry"] == []


def test_one_of_its_like_that_needed_little_keeps_a_group_from_being_a_large_one() -> None:
    _, gate = cluster()
    for number in range(2):
        ran(gate, f"light-{number}", 0.1, kind="exact")
    ran(gate, "train-0", 1.0)
    for number in range(1, 5):
        ran(gate, f"train-{number}", 6.2, **beside(6.1, "light"))
    assert gate.facts()["hungry"] == []


def test_bounds_are_no_needs_in_what_is_kept() -> None:
    _, gate = cluster()
    for number in range(3):
        ran(gate, f"train-{number}", 8.0)
    made = Default.from_state(gate.learnt())
    assert made.largest("train", "memory_bytes") is None
    assert made.ceilings("train", "memory_bytes").n == 3
    # What an earlier version kept has none.
    old = gate.learnt()
    for group in old["groups"].values():
        for learner in group["learners"].values():
            del learner["ceilings"], learner["forgotten"]
    assert Default.from_state(old).ceilings("train", "memory_bytes").n == 0


# -- the worker's half -----------------------------------------------------------------------


class Process:
    """A process whose memory is set by hand."""

    def __init__(self) -> None:
        self.now = self.high = 0

    def set(self, gb: float) -> None:
        self.now = int(gb * GB)
        self.high = max(self.high, self.now)

    def rss_bytes(self) -> int:
        return self.now

    def hwm_bytes(self) -> int:
        return self.high


@pytest.fixture
def half() -> Any:
    """Give a worker's half, its process, and what it said."""
    made, process, said = GateWorker(), Process(), []
    keys = [f"{name}-{number}" for name in ("train", "light") for number in range(30)]
    made.worker = SimpleNamespace(
        state=SimpleNamespace(tasks={key: SimpleNamespace(run_id=1) for key in keys}, nbytes=0),
        log_event=lambda topic, msg: said.extend(msg["tasks"]),
        loop=SimpleNamespace(add_callback=lambda *words: None, call_later=None),
    )
    made._lock, made._proc, made._running, made._base = threading.Lock(), process, {}, 0
    made._said, made._raised = [], Counter()
    made._kept, made._high = False, 0
    made._meter = SimpleNamespace(
        exact=True, missed_bytes=0, reset=lambda: setattr(process, "high", process.now)
    )
    return made, process, said


def test_a_worker_tells_beside_whom_a_task_ran_and_by_how_much_it_grew(half: Any) -> None:
    made, process, _ = half
    process.set(1.0)
    large = made._begin("train-0")
    for number in range(3):
        small = made._begin(f"light-{number}")
        process.set(7.0)
        made.worker.state.nbytes += GB // 10
        told = made._end(small, f"light-{number}", "task-finished")
        assert told["kind"] == "upper_bound" and told["beside"] == ["train"]
    told = made._end(large, "train-0", "task-finished")
    assert told["beside"] == ["light"] and told["at_once"] == 2
    assert told["grew"] == 6 * GB and told["left"] == 3 * (GB // 10)
    alone = made._begin("train-1")
    assert "beside" not in made._end(alone, "train-1", "task-finished")


def test_a_peak_that_nobody_resets_is_told_of_once(half: Any) -> None:
    """Else what comes after a large task would count as large itself."""
    made, process, _ = half
    made._meter = SimpleNamespace(exact=False, missed_bytes=0, reset=lambda: None)
    made._kept = True
    process.set(1.0)
    found = {}
    for key, gb in (("light-0", 1.0), ("train-0", 7.0), ("light-1", 1.2), ("train-1", 8.0)):
        mine = made._begin(key)
        process.set(gb)
        told = made._end(mine, key, "task-finished")
        found[key] = (told["kind"], round(told["peak"] / GB, 1))
        process.set(1.0)
    assert found == {
        "light-0": ("sampled", 0.0), "train-0": ("sampled", 6.0),
        "light-1": ("sampled", 0.2), "train-1": ("sampled", 7.0)}  # fmt: skip


def test_a_task_nobody_gives_more_to_keeps_its_memory_error(half: Any) -> None:
    made, _, said = half

    def short(*_: Any) -> dict[str, Any]:
        return {"op": "task-erred", "actual_exception": MemoryError("no more"), "exception": None}

    ends = [
        made._around(short, None, None, {"worker": made.worker}, "train-0")["actual_exception"]
        for _ in range(100)
    ]
    kept = [error for error in ends if isinstance(error, MemoryError)]
    assert kept and not isinstance(ends[0], MemoryError)
    assert len(said) == len(ends) - len(kept)
