"""What ran on a worker that died, by its slots and by what the scheduler last heard."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from rotameter.adapters.dask import deaths
from rotameter.adapters.dask.slots import KEY_LIMIT, SlotRead, SlotRecord
from rotameter.profiler.live.recorder import CallSink, Recorder


@pytest.fixture
def recorder():
    made = Recorder(CallSink(lambda frames: None), {"role": "scheduler"})
    yield made
    made.close()


def settled(recorder, running, executing, ended=(), names=("task_id", "outcome_kind", "source")):
    """Settle the death of a worker with two tasks; gives some columns of the rows made."""
    scheduler = SimpleNamespace(tasks={}, workers={})
    book = deaths.Deaths(scheduler, recorder, lambda key: (None, None))
    tasks = [
        deaths._Task(name, name, "g", None, None, name in executing, (number,))
        for number, name in enumerate(("a", "b"))
    ]
    prefix = deaths.run_id_of("", 0)[:-1]
    tasks = [task._replace(run_id=f"{prefix}{n}") for n, task in enumerate(tasks)]
    found = []
    book._rows = SimpleNamespace(add=found.append)
    records = tuple(SlotRecord(5, str(n), "x") for n in running)
    over = tuple(SlotRecord(5, str(n), f"('x-{n}', 0)", 7) for n in ended)
    book._settle(deaths._Death("tcp://w", tasks, 1), SlotRead(1, None, None, records, over))
    columns = deaths.LOST_COLUMNS
    places = [columns.index(name) for name in names]
    return [tuple(row[place] for place in places) for row in found]


def test_slots_name_who_ran(recorder):
    assert settled(recorder, [1], ["a"]) == [("b", "reported", "slot")]


def test_slots_that_name_none_of_its_tasks_leave_the_heartbeat_s_word(recorder):
    assert settled(recorder, [], ["a"]) == [("a", "inferred", "scheduler")]
    assert settled(recorder, [7], ["a"]) == [("a", "inferred", "scheduler")]
    assert settled(recorder, [], []) == []


def test_what_ended_unheard_is_lost_with_its_own_end(recorder):
    columns = ("task_id", "started_ns", "ended_ns", "outcome", "outcome_kind", "source")
    assert settled(recorder, [], [], [0], columns) == [
        ("a", 5, 7, "worker_lost", "reported", "slot")
    ]
    both = settled(recorder, [1], ["a"], [0], ("task_id", "outcome"))
    assert both == [("a", "worker_lost"), ("b", "worker_lost")]


def test_what_ended_and_was_heard_of_gets_its_times(recorder):
    """The scheduler told how it ended; the record of the worker may have died with it."""
    columns = ("task_id", "group", "worker", "started_ns", "ended_ns", "outcome", "source")
    lost, heard = settled(recorder, [1], [], [7], columns)
    assert lost[0] == "b"
    assert heard == ("('x-7', 0)", "x", "tcp://w", 5, 7, None, "slot")


def test_a_name_that_was_cut_gets_no_row(recorder):
    scheduler = SimpleNamespace(tasks={}, workers={})
    book = deaths.Deaths(scheduler, recorder, lambda key: (None, None))
    found = []
    book._rows = SimpleNamespace(add=found.append)
    long = SlotRecord(5, "7", "x" * KEY_LIMIT, 7)
    book._settle(deaths._Death("tcp://w", [], 1), SlotRead(1, None, None, (), (long,)))
    assert found == []
