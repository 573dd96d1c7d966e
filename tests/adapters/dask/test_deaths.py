"""What ran on a worker that died, by its slots and by what the scheduler last heard."""

from __future__ import annotations

import os
from types import SimpleNamespace

import pytest

from rotameter.adapters.dask import deaths
from rotameter.adapters.dask.slots import KEY_LIMIT, SlotFile, SlotRead, SlotRecord
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


def removed(recorder, tmp_path, reason, running=()):
    """Remove a worker that is asked to go while a task runs; gives the rows made, and events."""
    slot_file = SlotFile(str(tmp_path / "1.slots"))
    for number in running:
        slot_file.begin("a", number, 5)
    task = SimpleNamespace(key="a", run_id=3, prefix=SimpleNamespace(name="a"), priority=(0,))
    scheduler = SimpleNamespace(tasks={"a": task}, workers={})
    book = deaths.Deaths(scheduler, recorder, lambda key: (1, 2))
    book.hello("tcp://w", deaths.Hello("o", "elsewhere", os.getpid(), slot_file.path))
    book._workers["tcp://w"] = SimpleNamespace(nthreads=1, executing={})
    found = []
    book._rows = SimpleNamespace(add=found.append)
    book.closing("tcp://w", reason)
    message = {"worker": "tcp://w", "processing-tasks": ["a"], "stimulus_id": "x-1"}
    book.removed(message)
    slot_file.close(remove=True)
    kinds = [row[1] for row in recorder.channel("events", recorder_columns(recorder)).rows]
    return [(row[0], row[7], row[9], row[11]) for row in found], kinds


def recorder_columns(recorder):
    return next(columns for table, columns in recorder._channels if table == "events")


def test_what_ran_on_a_worker_that_a_signal_ended_is_in_its_slots(recorder, tmp_path):
    rows, kinds = removed(recorder, tmp_path, "asked to stop", running=[3])
    assert rows == [("a", 5, "worker_lost", "slot")]
    assert "executing_at_death" not in kinds  # it was asked to go
    assert removed(recorder, tmp_path, "cluster closing", running=[3])[0] == rows


def test_what_only_queued_on_a_worker_that_a_signal_ended_gets_no_row(recorder, tmp_path):
    rows, kinds = removed(recorder, tmp_path, "asked to stop")
    assert rows == [] and "queued_at_death" not in kinds


def test_a_worker_that_retires_sends_its_rows_itself(recorder, tmp_path):
    assert removed(recorder, tmp_path, "retired", running=[3])[0] == []


def test_a_worker_that_does_not_answer_is_read_only_if_it_is_gone(recorder, tmp_path):
    state = SimpleNamespace(processing={"a": 1}, nthreads=1, executing={})
    scheduler = SimpleNamespace(tasks={}, workers={"tcp://w": state})
    book = deaths.Deaths(scheduler, recorder, lambda key: (1, 2))
    seen = []
    book._look = seen.append
    book.hello("tcp://w", deaths.Hello("o", deaths.host_name(), os.getpid(), None))
    book.unheard("tcp://w")
    assert seen == []
    book.hello("tcp://w", deaths.Hello("o", deaths.host_name(), 2**22 + 1, None))
    book.unheard("tcp://w")
    assert [death.asked for death in seen] == [True]
