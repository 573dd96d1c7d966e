"""What the tracers of one process share, and with whom they do not."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from rotameter.adapters.dask import worker_core


class Core:
    """In place of the real one, which needs a worker."""

    def __init__(self, worker, config):
        self.closed = False
        self.link = SimpleNamespace(trace=config.get("trace"), workers=[])

    def _stop(self):
        self.closed = True


class Tracer:
    def __init__(self, trace, scheduler="tcp://a:1"):
        self.config = {"trace": trace}
        self.worker = SimpleNamespace(scheduler=SimpleNamespace(address=scheduler))
        self.closed = False

    def stop_recording(self):
        self.closed = True


@pytest.fixture(autouse=True)
def empty(monkeypatch):
    monkeypatch.setattr(worker_core, "Core", Core)
    monkeypatch.setattr(worker_core, "_core", None)
    monkeypatch.setattr(worker_core, "_tracers", {})


def test_workers_of_one_trace_share_a_core():
    first, second = Tracer("t"), Tracer("t", "tcp://b:1")
    assert worker_core.join(first) is worker_core.join(second)


def test_a_core_of_an_earlier_trace_of_the_scheduler_is_not_joined():
    """One worker's new tracer may come before the old one of another has left."""
    old = Tracer("old")
    before = worker_core.join(old)
    new = Tracer("new")
    core = worker_core.join(new)
    assert core is not before and core.link.trace == "new" and core.link.workers == [new.worker]
    assert old.closed and before.closed
    assert worker_core.tracer_of(old.worker) is None


def test_traces_of_two_schedulers_go_on_side_by_side():
    one, other = Tracer("a"), Tracer("b", "tcp://b:1")
    core = worker_core.join(one)
    assert worker_core.join(other) is core and not one.closed
    assert core.link.trace is None  # of several: no mark tells of which
