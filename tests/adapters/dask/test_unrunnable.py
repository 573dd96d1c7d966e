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


def told(looks, workers=None):
    got = []
    recorder = Recorder(CallSink(got.append), {"role": "scheduler"}, flush_s=60)
    scheduler = SimpleNamespace(workers=workers or {}, unrunnable={})
    unrunnable = Unrunnable(scheduler, recorder)
    for at, tasks in enumerate(looks):
        scheduler.unrunnable = tasks
        unrunnable.tick(at)
    recorder.close()
    rows = []
    for frame in read_segment(MAGIC + b"".join(got)).frames:
        if frame.table == "events":
            names = frame.columns
            rows += [dict(zip(names, row, strict=True)) for row in zip(*frame.values, strict=True)]
    return [(row["at_ns"], row["group"], row["count"], row["reason"]) for row in rows]


CPU = {"a": SimpleNamespace(resources={}), "b": SimpleNamespace(resources={"GPU": 1})}


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
