"""The straight way of an attempt that is timed only does what the long one does."""

from __future__ import annotations

import asyncio
import threading
import time
from types import SimpleNamespace

import pytest

from rotameter.adapters.dask import slots
from rotameter.adapters.dask.names import task_id_of
from rotameter.adapters.dask.worker_plugin import WorkerTracer
from rotameter.profiler.live import rows
from rotameter.profiler.live.context import current
from rotameter.profiler.live.timed import Brief

COLUMNS = (*rows.TASK_COLUMNS, "transfer_s", "received_bytes", "spill_s", "output_bytes")
MESSAGE = {"start": 100.0, "stop": 100.25, "nbytes": 28}


def task(key, run_id):
    more = {"state": "executing", "startstops": [], "start_time": 0.0, "nbytes": 28}
    return SimpleNamespace(key=key, run_id=run_id, prefix="inc", exception_text="", **more)


@pytest.fixture
def plugin():
    stream = SimpleNamespace(comm=SimpleNamespace(closed=lambda: False), send=lambda message: None)
    worker = SimpleNamespace(
        address="tcp://10.0.0.1:40000",
        nanny="tcp://10.0.0.1:40001",
        loop=SimpleNamespace(add_callback=lambda function, *args: function(*args)),
        batched_stream=stream,
        batched_send=lambda message: None,
        handlers={},
        data={},
        scheduler_delay=0.0,
        status=SimpleNamespace(name="running"),
        memory_manager=None,
        state=SimpleNamespace(tasks={}, nbytes=0, nthreads=1),
        transfer_incoming_log=None,
        log_event=print,
    )
    plugin = WorkerTracer({"level": "time", "prefix": "ab:"})
    plugin.setup(worker)
    plugin.recorder._closed = True  # its thread takes no rows away
    plugin.recorder._wake.set()
    plugin.recorder._thread.join()
    plugin.recorder._closed = False
    add(plugin, "first", 1)
    plugin.end(plugin.begin("first"), MESSAGE, 0.0)  # the prefix is known from now on
    plugin.transition("first", "executing", "memory")
    yield plugin
    assert plugin.errors == 0, plugin._first_error
    asyncio.run(plugin.teardown(worker))


def add(plugin, key, run_id):
    plugin.worker.state.tasks[key] = task(key, run_id)


def last_row(plugin):
    session = plugin._session
    item = session._dask.rows.pop()
    row = item if type(item) is tuple else session._dask_row(item)
    return dict(zip(COLUMNS, row, strict=True))


def running(plugin):
    return [(r.run_id, r.task_id) for r in slots.read_slots(plugin._slots.path).running]


KEYS = [
    "inc-0123abcd",
    ("inc-0123abcd", 0),
    "Inc-0123ABCD",
    "12345",
    "grüße-1",
    "s3://key:secret@bucket/inc-1",
    "token=abcdef0123456789",
    "a" * 300,
    "ü" * 190,
    "bad-\udc80",
    "",
]


@pytest.mark.parametrize("key", KEYS, ids=range(len(KEYS)))
def test_any_key(plugin, key):
    add(plugin, key, 7)
    attempt = plugin.begin(key)
    assert type(attempt) is Brief and current.get() is attempt
    assert attempt.task_id == task_id_of(key)
    text = task_id_of(key).encode("utf-8", "replace")[: slots.KEY_LIMIT]
    assert running(plugin) == [("7", text.decode("utf-8", "replace"))]
    plugin.end(attempt, MESSAGE, 0.5)
    assert current.get() is None and running(plugin) == [] and not plugin._open
    assert plugin._done == {7}
    plugin.transition(key, "executing", "memory")
    assert not plugin._done
    row = last_row(plugin)
    assert row["task_id"] == task_id_of(key) and row["run_id"] == "ab:00000007"
    assert (row["started_ns"], row["ended_ns"]) == (99_500_000_000, 99_750_000_000)
    assert row["worker"] == plugin.worker.address and row["outcome"] == "ok"


@pytest.mark.parametrize("ends", ["well", "failed", "nothing", "cancelled", "file", "fetched"])
def test_both_ways_make_the_same_row(plugin, ends):
    found = []
    for run_id, straight in ((7, True), (8, False)):
        way, plugin._way_in = plugin._way_in, plugin._way_in if straight else None
        message = dict(MESSAGE)
        add(plugin, "inc-1", run_id)
        if ends == "fetched":
            plugin.arrivals.waiting["inc-1"] = [0.25, 10]
            item = {"action": "disk-read", "start": 1.0, "stop": 3.0}
            plugin.worker.state.tasks["inc-1"].startstops.append(item)
        attempt = plugin.begin("inc-1")
        assert (type(attempt) is Brief) is straight
        end = time.thread_time() + 0.002  # of its own CPU time, however busy the machine is
        while time.thread_time() < end:
            pass
        if ends == "failed":
            message["actual_exception"] = ValueError("no")
        elif ends == "nothing":
            message = None
        elif ends == "cancelled":
            plugin.worker.state.tasks["inc-1"].state = "cancelled"
        elif ends == "file":
            attempt.running.files = {("data", "read"): [5, 1, 10, 20, 10]}
        plugin.end(attempt, message, 0.0)
        plugin.transition("inc-1", "executing", "memory")
        plugin._way_in = way
        row = last_row(plugin)
        assert row["cpu_s"] > 0.001
        assert 0.99 <= row.pop("concurrency") <= 1.01
        row["wall_s"] = row["wall_s"] if message else None
        found.append({**row, "cpu_s": None, "run_id": None})
        if not message:
            found[-1].update(started_ns=None, ended_ns=None)
    assert found[0] == found[1]


def test_tasks_side_by_side_share_their_worker(plugin):
    began, done = threading.Event(), threading.Event()
    found = []
    for run_id in (7, 8):
        add(plugin, f"inc-{run_id}", run_id)

    def other():
        attempt = plugin.begin("inc-8")
        began.set()
        done.wait(10)
        plugin.end(attempt, MESSAGE, 0.0)

    thread = threading.Thread(target=other)
    thread.start()
    began.wait(10)
    attempt = plugin.begin("inc-7")
    assert attempt.shared and len(running(plugin)) == 2
    time.sleep(0.02)
    plugin.end(attempt, MESSAGE, 0.0)
    found.append(last_row(plugin)["concurrency"])
    done.set()
    thread.join()
    assert found[0] == pytest.approx(2)
    assert 1 < last_row(plugin)["concurrency"] < 2
    assert not plugin._session._active


def test_one_begun_before_the_end_of_the_trace_is_told_once(plugin):
    add(plugin, "inc-1", 7)
    attempt = plugin.begin("inc-1")
    session = plugin._session
    session._dask.rows.clear()
    plugin._record_open("running")
    plugin.end(attempt, MESSAGE, 0.0)
    assert len(session._dask.rows) == 1 and not session._tasks.rows and current.get() is None
    assert last_row(plugin)["outcome"] == "running"
    assert running(plugin) == [] and not plugin._open


def test_more_at_once_than_slots(plugin):
    attempts = []
    for run_id in range(10, 150):
        add(plugin, f"inc-{run_id}", run_id)
        attempts.append(plugin.begin(f"inc-{run_id}"))
    assert len(running(plugin)) == 128
    for attempt in reversed(attempts):
        plugin.end(attempt, MESSAGE, 0.0)
    assert running(plugin) == [] and not plugin._open and len(plugin._slots._free) == 128
