"""The scheduler's plug-in on replayed transitions."""

from __future__ import annotations

import os
import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest
from distributed.scheduler import SourceCode

from rotameter.adapters.dask.deaths import Hello
from rotameter.adapters.dask.slots import SlotFile
from rotameter.adapters.dask.tally import Tally
from rotameter.profiler.live.segment import MAGIC, read_segment

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
from benchmarks.dask_hooks import (
    WORKERS,
    FakeScheduler,
    Key,
    batches,
    plugin_memory,
    replay,
    tracer,
)


def rows(got, table):
    out = []
    for frame in read_segment(MAGIC + b"".join(got)).frames:
        if frame.table == table:
            out += [
                dict(zip(frame.columns, row, strict=True))
                for row in zip(*frame.values, strict=True)
            ]
    return out


@pytest.fixture
def replayed():
    got = []
    scheduler = FakeScheduler(30)
    plugin = tracer(got.append, scheduler)
    yield plugin, scheduler, got
    plugin.recorder.close()
    assert plugin.tally.count == 0, plugin.tally.first


def begin(plugin, scheduler, key, stimulus="s"):
    plugin.transition(key, "released", "waiting", stimulus_id=stimulus)
    plugin.transition(key, "waiting", "processing", stimulus_id=stimulus)


@pytest.mark.slow
def test_a_quarter_of_a_million_attempts_none_lost_in_bounded_memory():
    facts = plugin_memory(250_000)
    assert facts["dropped"] == 0
    assert facts["records"] >= 250_000
    assert facts["peak_bytes"] <= 50e6


def test_one_row_an_attempt_and_one_a_dependency(replayed):
    plugin, scheduler, got = replayed
    work = batches(scheduler, 10)
    replay(plugin, scheduler, work)
    plugin.update_graph(scheduler, client="c", tasks=[], keys=set())
    plugin.recorder.flush()
    tasks = rows(got, "tasks")
    assert len(tasks) == len({t["task_id"] for t in tasks}) == 30
    assert {t["outcome"] for t in tasks} == {"ok"}
    assert {t["group"] for t in tasks} == {"load", "inc", "sum"}
    assert all(t["submitted_ns"] <= t["ready_ns"] for t in tasks)
    deps = [(d["task_id"], d["depends_on"]) for d in rows(got, "deps")]
    assert len(deps) == len(set(deps)) == 20
    assert plugin._submitted == {} and plugin._ready == {}


def test_ends_of_an_attempt(replayed):
    plugin, scheduler, got = replayed
    keys = list(scheduler.tasks)
    worker = WORKERS[0]
    ends = {
        keys[0]: ("memory", "task-finished-1", {"worker": worker, "nbytes": 1}),
        keys[1]: ("erred", "task-erred-1", {"worker": worker, "exception_text": "KeyError('a')"}),
        keys[2]: ("erred", "task-erred-2", {"worker": worker, "exception_text": "MemoryError()"}),
        keys[3]: ("released", "task-erred-3", {}),
        keys[4]: ("released", "reschedule-4", {}),
        keys[5]: ("released", "client-releases-keys-5", {}),
        keys[6]: ("erred", "handle-worker-cleanup-6", {"worker": "tcp://gone:1"}),
    }
    for key, (finish, stimulus, kwargs) in ends.items():
        begin(plugin, scheduler, key)
        plugin.transition(key, "processing", finish, stimulus_id=stimulus, **kwargs)
    plugin.recorder.flush()
    found = {t["task_id"]: (t["outcome"], t["error"]) for t in rows(got, "tasks")}
    assert found == {
        keys[0]: ("ok", None),
        keys[1]: ("failed", "KeyError('a')"),
        keys[2]: ("oom", "MemoryError()"),
        keys[3]: ("failed", None),
        keys[4]: ("rescheduled", None),
    }


def death(plugin, scheduler, keys, slots=None):
    worker = WORKERS[0]
    state = scheduler.workers[worker]
    state.executing = {Key(keys[1]): 0.7}
    plugin.deaths.knows(worker, state)
    pid, path = (slots.pid, slots.path) if slots else (1, None)
    plugin.deaths.hello(worker, Hello("o", "elsewhere", pid, path))
    for key in keys:
        begin(plugin, scheduler, key)
    scheduler.loop = SimpleNamespace(add_callback=lambda *a: None, call_later=lambda *a: None)
    message = {
        "action": "remove-worker",
        "processing-tasks": set(keys),
        "expected": False,
        "stimulus_id": "handle-worker-cleanup-1",
        "worker": worker,
    }
    plugin.log_event("all", message)
    for key in keys:
        plugin.transition(key, "processing", "released", stimulus_id="handle-worker-cleanup-1")
    plugin.recorder.flush()


def test_a_death_with_slots_is_reported(replayed, tmp_path):
    plugin, scheduler, got = replayed
    keys = list(scheduler.tasks)[:5]
    slots = SlotFile(str(tmp_path / "1.slots"))
    slots.pid = os.getpid()
    slots.begin(keys[2], scheduler.tasks[keys[2]].run_id, 77)
    slots.memory(5_000)
    death(plugin, scheduler, keys, slots)
    (lost,) = rows(got, "tasks")
    assert (lost["task_id"], lost["outcome"], lost["outcome_kind"]) == (
        keys[2],
        "worker_lost",
        "reported",
    )
    assert lost["started_ns"] == 77 and lost["source"] == "slot"
    kinds = Counter(e["kind"] for e in rows(got, "events"))
    assert kinds["executing_at_death"] == 1 and kinds["queued_at_death"] == 4
    slots.close(remove=True)


def test_a_death_without_slots_is_inferred_within_the_threads(replayed):
    plugin, scheduler, got = replayed
    keys = list(scheduler.tasks)[:5]
    death(plugin, scheduler, keys)
    lost = rows(got, "tasks")
    # Two threads: the one of the heartbeat, and the first by priority.
    assert {t["task_id"] for t in lost} == {keys[1], keys[0]}
    assert {t["outcome_kind"] for t in lost} == {"inferred"}
    assert {t["started_ns"] for t in lost} == {None}


def test_errors_of_our_own_are_counted_and_do_not_spread(replayed):
    plugin, _scheduler, got = replayed
    plugin.transition("unknown", "processing", "memory", stimulus_id="x")
    plugin.update_graph(None, client="c", tasks=["a"], keys=set())
    plugin.log_event("worker-restart-memory", {"worker": ["not", "hashable"]})
    assert plugin.tally.count == 3
    plugin.tally = Tally()
    assert got is not None


def test_secrets_in_keys_and_errors(replayed):
    plugin, scheduler, got = replayed
    key = "s3://ann:hunter2@bucket/x?sig=abc"
    state = scheduler.tasks.pop(next(iter(scheduler.tasks)))
    scheduler.tasks[key] = state
    begin(plugin, scheduler, key)
    text = "ValueError('password=hunter2')"
    plugin.transition(
        key, "processing", "erred", stimulus_id="s", worker=WORKERS[0], exception_text=text
    )
    plugin.recorder.flush()
    data = b"".join(got)
    assert b"hunter2" not in data and b"sig=abc" not in data
    assert rows(got, "tasks")[0]["task_id"].startswith("s3://bucket/x#")


def test_secrets_in_where_groups_come_from(replayed):
    """The span, the layer and the line; the line is cleaned before it is cut."""
    plugin, _, got = replayed
    layer = SimpleNamespace(name="load-token=layersecret", span_id="s")
    state = SimpleNamespace(group=layer)
    span = SimpleNamespace(name=("load https://ann:spansecret@host/x?sig=abc",))
    url = "https://ann:" + "linesecret" * 20 + "@host/x"
    frame = SourceCode(f"submit(works, 'literal-55')  # {url}", 1, 0, "run.py")
    scheduler = SimpleNamespace(
        computations=[SimpleNamespace(code=[(frame,)])],
        extensions={"spans": SimpleNamespace(spans={"s": span})},
    )
    plugin.origins.observe(scheduler, {"load": (state, 1)})
    plugin.recorder.flush()
    (event,) = [e for e in rows(got, "events") if e["kind"] == "group_origin"]
    assert event["text"] == "submit(works, '...')  # https://host/x"
    assert event["span"] == "load https://host/x"
    assert event["layer"].startswith("load-token=[redacted]#")


def test_secrets_in_what_workers_say(replayed):
    """The reason of a plug-in that did not start, also behind what a shorter text would keep."""
    plugin, _, got = replayed
    reason = "OSError: https://ann:bootsecret@host/x password=bootsecret"
    plugin.events.event("rotameter-not-started", {"role": "worker", "reason": reason})
    plugin.recorder.flush()
    (event,) = [e for e in rows(got, "events") if e["kind"] == "not_measured"]
    assert event["reason"] == "OSError: https://host/x password=[redacted]"
    assert plugin.tally.count == 1 and "bootsecret" not in plugin.tally.first
    plugin.tally = Tally()
