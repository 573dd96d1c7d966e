"""What ran on a worker that died, by its slots and by what the scheduler last heard."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from rotameter.adapters.dask import deaths
from rotameter.adapters.dask.slots import SlotRead, SlotRecord
from rotameter.profiler.live.recorder import CallSink, Recorder


@pytest.fixture
def recorder():
    made = Recorder(CallSink(lambda frames: None), {"role": "scheduler"})
    yield made
    made.close()


def settled(recorder, running, executing):
    """Settle the death of a worker with two tasks; gives task, kind and source of the lost."""
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
    book._settle(deaths._Death("tcp://w", tasks, 1), SlotRead(1, None, None, records))
    columns = deaths.LOST_COLUMNS
    places = [columns.index(name) for name in ("task_id", "outcome_kind", "source")]
    return [tuple(row[place] for place in places) for row in found]


def test_slots_name_who_ran(recorder):
    assert settled(recorder, [1], ["a"]) == [("b", "reported", "slot")]


def test_slots_that_name_none_of_its_tasks_leave_the_heartbeat_s_word(recorder):
    assert settled(recorder, [], ["a"]) == [("a", "inferred", "scheduler")]
    assert settled(recorder, [7], ["a"]) == [("a", "inferred", "scheduler")]
    assert settled(recorder, [], []) == []
