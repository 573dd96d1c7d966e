"""Attempts that run for long are told once, from the source that sorts last."""

from __future__ import annotations

from types import SimpleNamespace

from rotameter.adapters.dask.early import COLUMNS, EVERY_S, Early
from rotameter.profiler.live.recorder import CallSink, Recorder
from rotameter.profiler.live.segment import MAGIC, read_segment


def test_once_an_attempt_and_only_what_runs():
    got = []
    recorder = Recorder(CallSink(got.append), {"role": "scheduler"}, flush_s=60)
    now = [0.0]
    worker = SimpleNamespace()
    tasks = []
    for run_id, (seconds, place) in enumerate([(3.0, worker), (0.5, worker), (9.0, None)]):
        prefix = SimpleNamespace(name="inc")
        state = SimpleNamespace(key=f"inc-{run_id}", run_id=run_id, prefix=prefix)
        state.processing_on = place
        tasks.append((state, seconds))

    class Executing:
        def items(self):
            return list(tasks)

    worker.executing = Executing()
    scheduler = SimpleNamespace(workers={"tcp://a:1": worker})
    early = Early(scheduler, recorder, lambda key: (1, 2), "ab12:", clock=lambda: now[0])
    for _ in range(3):
        early.tick()
        now[0] += EVERY_S
    recorder.close()
    frames = read_segment(MAGIC + b"".join(got)).frames
    (frame,) = [frame for frame in frames if frame.table == "tasks"]
    (row,) = zip(*frame.values, strict=True)
    assert dict(zip(COLUMNS, row, strict=True)) == {
        "task_id": "inc-0",
        "run_id": "ab12:00000000",
        "group": "inc",
        "worker": "tcp://a:1",
        "submitted_ns": 1,
        "ready_ns": 2,
        "outcome": "running",
        "outcome_kind": "reported",
        "source": "early",
    }
