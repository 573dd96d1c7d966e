"""Tasks that no worker may take are told with what they ask for, and when they are no more."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from rotameter.adapters.dask.unrunnable import Unrunnable
from rotameter.profiler.live.recorder import CallSink, Recorder
from rotameter.profiler.live.segment import MAGIC, read_segment


def task(name="train-1", **asks):
    none = {"resource_restrictions": None, "worker_restrictions": None, "host_restrictions": None}
    return SimpleNamespace(prefix=SimpleNamespace(name=name.partition("-")[0]), **{**none, **asks})


def told(looks, workers=None, every=1):
    got = []
    recorder = Recorder(CallSink(got.append), {"role": "scheduler"}, flush_s=60)
    scheduler = SimpleNamespace(workers=workers or {}, unrunnable={})
    unrunnable = Unrunnable(scheduler, recorder)
    for at, tasks in enumerate(looks):
        scheduler.unrunnable = tasks
        unrunnable.tick(at * every)
    recorder.close()
    rows = []
    for frame in read_segment(MAGIC + b"".join(got)).frames:
        if frame.table == "events":
            names = frame.columns
            rows += [dict(zip(names, row, strict=True)) for row in zip(*frame.values, strict=True)]
    return [(row["at_ns"], row["group"], row["count"], row["reason"]) for row in rows]


CPU = {"a": SimpleNamespace(resources={}), "b": SimpleNamespace(resources={"GPU": 1})}


SECOND = 10**9


def test_what_lasts_is_told_once_and_when_it_ends():
    ask = task(resource_restrictions={"GPU": 2.0})
    looks = [[ask], [ask], [ask], [ask, ask], [ask, ask], [], []]
    why = "asks for GPU=2; the most that one offers is 1"
    assert told(looks, CPU) == [
        (1, "train", 1, why),
        (3, "train", 2, why),
        (5, "train", 0, why),
    ]


def test_what_a_moment_later_has_a_worker_is_not_told():
    assert told([[task()], [], []], CPU) == []


@pytest.mark.parametrize(
    ("asks", "workers", "words"),
    [
        ({"resource_restrictions": {"TPU": 1}}, CPU, "asks for TPU=1, which no worker offers"),
        ({"worker_restrictions": {"tcp://x:1"}}, CPU, "may run on tcp://x:1 only"),
        ({"host_restrictions": {"h"}}, CPU, "may run on h only"),
        ({}, {}, "the cluster has no worker"),
        ({}, CPU, "no worker may take it"),
    ],
)
def test_what_is_asked_for(asks, workers, words):
    ask = task(**asks)
    ((_, _, count, why),) = told([[ask], [ask]], workers)
    assert (count, why) == (1, words)


def test_all_are_counted_and_what_is_asked_for_is_worked_out_once():
    looked = []

    class Resources(dict):
        def get(self, name, default=None):
            looked.append(name)
            return super().get(name, default)

    workers = {f"w{at}": SimpleNamespace(resources=Resources(GPU=1)) for at in range(50)}
    many = [task(resource_restrictions={"GPU": 2.0}) for _ in range(5000)]
    many += [task("score-1", resource_restrictions={"GPU": 3.0}) for _ in range(300)]
    assert told([many, many], workers, every=SECOND) == [
        (SECOND, "train", 5000, "asks for GPU=2; the most that one offers is 1"),
        (SECOND, "score", 300, "asks for GPU=3; the most that one offers is 1"),
    ]
    assert len(looked) <= 2 * len(workers)


def test_many_are_looked_at_less_often_and_that_they_are_gone_is_told_at_once():
    many = [task() for _ in range(50_000)]  # 4.9 s apart
    looks = [many] * 12 + [[]]
    assert [row[:3] for row in told(looks, CPU, every=SECOND)] == [
        (5 * SECOND, "train", 50_000),
        (12 * SECOND, "train", 0),
    ]


def test_demands_beyond_the_largest_are_counted_by_group():
    asks = [task(worker_restrictions={f"tcp://x:{at}"}) for at in range(30)]
    rows = told([asks * 2, asks * 2], CPU, every=SECOND)
    assert sum(count for _, _, count, _ in rows) == 60 and len(rows) == 21
    assert rows[-1] == (SECOND, "train", 20, "no worker may take it")
