"""Cost inside our Dask hooks, in thread CPU time: replayed transitions and wrapped tasks."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import statistics
import time
import tracemalloc
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from rotameter.adapters.dask.scheduler_plugin import SchedulerTracer
from rotameter.profiler.live.recorder import CallSink

__all__ = ["FakeScheduler", "plugin_memory", "replay", "scheduler_hook_us", "worker_hook_us"]

WORKERS = tuple(f"tcp://10.0.0.{i}:40000" for i in range(1, 9))


class FakeScheduler:
    """As much of a scheduler as the plug-in looks at."""

    def __init__(self, tasks: int, fan_in: int = 1) -> None:
        prefixes = [SimpleNamespace(name=name) for name in ("load", "inc", "sum")]
        self.groups = [SimpleNamespace(name=f"{p.name}-0", span_id=None) for p in prefixes]
        self.tasks: dict[str, Any] = {}
        before: list[Any] = []
        for i in range(tasks):
            prefix = prefixes[i % 3]
            state = SimpleNamespace(
                key=f"{prefix.name}-{i:032x}",
                run_id=i,
                prefix=prefix,
                group=self.groups[i % 3],
                dependencies=set() if i % 3 == 0 else {Key(k) for k in before[-fan_in:]},
                priority=(0, 1, i),
            )
            self.tasks[state.key] = state
            before.append(state.key)
        self.workers = {
            w: SimpleNamespace(processing={}, memory_limit=4 << 30, nthreads=2, host="h")
            for w in WORKERS
        }
        self.queued: list[Any] = []
        self.unrunnable: list[Any] = []
        self.computations: list[Any] = []
        self.extensions: dict[str, Any] = {}


class Key:
    """A dependency: an object with a key, cheap to hash."""

    __slots__ = ("key",)

    def __init__(self, key: str) -> None:
        self.key = key


def tracer(sink: Callable[[bytes], None], scheduler: Any) -> SchedulerTracer:
    """Make the scheduler's plug-in without a scheduler."""
    plugin = SchedulerTracer({})
    plugin.scheduler = scheduler
    plugin.bind(CallSink(sink))
    return plugin


def batches(scheduler: Any, graph: int) -> list[tuple[list[str], list[Any], list[str]]]:
    """Make the arguments of all calls beforehand: (keys, results, stimuli) a graph."""
    keys = list(scheduler.tasks)
    startstops = [{"action": "compute", "start": 1.7e9, "stop": 1.7e9 + 0.01}]
    out = []
    for at in range(0, len(keys), graph):
        part = keys[at : at + graph]
        done = [
            {"worker": WORKERS[i % 8], "nbytes": 28, "startstops": startstops, "thread": 1}
            for i in range(len(part))
        ]
        out.append((part, done, [f"task-finished-{i // 4}" for i in range(len(part))]))
    return out


def replay(plugin: SchedulerTracer, scheduler: Any, work: list[Any]) -> int:
    """Replay the life of every task, graph by graph; gives the thread CPU time in ns."""
    call = plugin.transition
    began = time.thread_time_ns()
    for part, done, stimuli in work:
        plugin.update_graph(scheduler, client="c", tasks=part, keys=set(), annotations={})
        for key, stimulus in zip(part, stimuli, strict=True):
            call(key, "released", "waiting", stimulus_id=stimulus)
            call(key, "waiting", "queued", stimulus_id=stimulus)
            call(key, "queued", "processing", stimulus_id=stimulus)
        for key, kwargs, stimulus in zip(part, done, stimuli, strict=True):
            call(key, "processing", "memory", stimulus_id=stimulus, **kwargs)
            call(key, "memory", "released", stimulus_id=stimulus)
            call(key, "released", "forgotten", stimulus_id=stimulus)
    return time.thread_time_ns() - began


def scheduler_hook_us(tasks: int = 100_000, rounds: int = 3) -> dict[str, float]:
    """Microseconds a task inside the scheduler's hooks, and in its flush thread."""
    inside, behind = [], []
    for _ in range(rounds):
        scheduler = FakeScheduler(tasks)
        plugin = tracer(lambda frames: None, scheduler)
        gc.collect()
        work = batches(scheduler, 10_000)
        inside.append(replay(plugin, scheduler, work) / 1e3 / tasks)
        plugin.recorder.close()
        behind.append(plugin.recorder.busy_ns / 1e3 / tasks)
    return {"hooks_us": statistics.median(inside), "encode_us": statistics.median(behind)}


def plugin_memory(tasks: int = 250_000) -> dict[str, int]:
    """Peak memory of the plug-in over a replay of ``tasks`` live tasks, and rows lost."""
    scheduler = FakeScheduler(tasks)
    work = batches(scheduler, tasks)
    written = [0]

    def take(frames: bytes) -> None:
        written[0] += len(frames)

    gc.collect()
    tracemalloc.start()
    try:
        plugin = tracer(take, scheduler)
        before = tracemalloc.get_traced_memory()[0]
        replay(plugin, scheduler, work)
        plugin.recorder.close()
        peak = tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
    return {
        "peak_bytes": peak,
        "records": plugin.recorder.records_written,
        "dropped": plugin.recorder.records_dropped,
        "written_bytes": written[0],
    }


class _FakeLoop:
    def add_callback(self, function: Callable[..., None], *args: Any) -> None:
        function(*args)


def _fake_worker(tasks: int) -> Any:
    states = {}
    for i in range(tasks):
        key = f"empty-{i:032x}"
        states[key] = SimpleNamespace(
            key=key,
            run_id=i + 1,
            prefix="empty",
            state="executing",
            startstops=[],
            metadata={},
            start_time=0.0,
            nbytes=28,
            exception_text="",
        )
    stream = SimpleNamespace(comm=SimpleNamespace(closed=lambda: False), send=lambda message: None)
    return SimpleNamespace(
        address="tcp://10.0.0.1:40000",
        nanny="tcp://10.0.0.1:40001",
        loop=_FakeLoop(),
        batched_stream=stream,
        batched_send=lambda message: None,
        handlers={},
        data={},
        scheduler_delay=0.0,
        status=SimpleNamespace(name="running"),
        memory_manager=None,
        state=SimpleNamespace(tasks=states, nbytes=0, nthreads=1),
        transfer_incoming_log=None,
        log_event=print,
    )


def worker_hook_us(
    tasks: int = 20_000, task_s: float = 0.0, exact_peak: bool | None = None
) -> float:
    """Microseconds of thread CPU that the worker's hooks add to a task (mean over all).

    Parameters
    ----------
    tasks : int
        Number of tasks.
    task_s : float
        Duration of a task in seconds, spent computing.
    exact_peak : bool, optional
        As for ``attach``.
    """
    from rotameter.adapters.dask import worker_core
    from rotameter.adapters.dask.worker_plugin import WorkerTracer

    worker = _fake_worker(tasks)
    plugin = WorkerTracer({"exact_peak": exact_peak})
    plugin.setup(worker)
    message = {"start": 1.7e9, "stop": 1.7e9 + max(task_s, 1e-5), "nbytes": 28}

    own = [0]

    def original(*args: Any) -> dict[str, Any]:
        began = time.thread_time_ns()
        if task_s:
            end = time.perf_counter() + task_s
            while time.perf_counter() < end:
                pass
        own[0] += time.thread_time_ns() - began
        return message

    state = {"worker": worker}
    spent: list[int] = []
    bare: list[int] = []
    around = worker_core._around
    gc.collect()
    try:
        for key in list(worker.state.tasks):
            plugin.transition(key, "ready", "executing")
            began = time.thread_time_ns()
            around(original, None, None, state, key, {}, None, 0.0)
            plugin.transition(key, "executing", "memory")
            plugin.transition(key, "memory", "released")
            spent.append(time.thread_time_ns() - began - own[0])
            # The same without hooks: what it takes to call and to look at the clocks.
            own[0] = 0
            began = time.thread_time_ns()
            original(None, None, state, key, {}, None, 0.0)
            bare.append(time.thread_time_ns() - began - own[0])
            own[0] = 0
    finally:
        with contextlib.suppress(Exception):
            asyncio.run(plugin.teardown(worker))
    if plugin.errors:
        raise RuntimeError(f"{plugin.errors} errors: {plugin._first_error}")
    return (statistics.fmean(spent) - statistics.fmean(bare)) / 1e3


if __name__ == "__main__":
    print("scheduler", scheduler_hook_us())
    print("memory", plugin_memory())
    print("worker, empty task", worker_hook_us(), "µs")
    print("worker, 10 ms task", worker_hook_us(200, 0.01), "µs")
