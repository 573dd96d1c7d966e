"""Whatever fails in the tracer, the user's computation gives the same result."""

from __future__ import annotations

import contextlib
import time
import warnings

import pytest
from distributed import Client, LocalCluster

from rotameter.adapters.dask import (
    _compat,
    deaths,
    hub,
    names,
    origin,
    scheduler_events,
    scheduler_plugin,
    sites,
    transport,
    worker_attempts,
    worker_core,
    worker_flows,
    worker_plugin,
    worker_samples,
)
from rotameter.adapters.dask import (
    attach as attach_module,
)
from rotameter.adapters.dask.attach import attach
from rotameter.errors import AttachError, EmptyTrace, TracerWarning
from rotameter.profiler.diagnose import diagnose
from rotameter.profiler.live import recorder as recorder_module
from rotameter.profiler.live import session as session_module
from rotameter.profiler.store import open_trace

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def client():
    with (
        LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=False,
            dashboard_address=":0",
            silence_logs=60,
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client


def double(x):
    return 2 * x


def fail(x):
    raise KeyError(x)


def work(client, n):
    """Some of everything; gives what must not depend on us."""
    parts = client.map(double, range(100 * n, 100 * n + 20))
    total = client.submit(sum, parts)
    failed = client.submit(fail, n)
    return total.result(timeout=20), type(failed.exception(timeout=20)), len(client.gather(parts))


def broken(*args, **kwargs):
    struck.append(args)
    raise RuntimeError("planted")


struck = []


FAULTS = [
    (session_module.Session, "begin"),
    (session_module.Session, "end"),
    (session_module.Session, "close"),
    (session_module.Session, "before_flush"),
    (session_module.Session, "sample_rss"),
    (recorder_module.Recorder, "flush"),
    (recorder_module.Recorder, "close"),
    (recorder_module.Channel, "add"),
    (worker_plugin.WorkerTracer, "_setup"),
    (worker_plugin.WorkerTracer, "begin"),
    (worker_plugin.WorkerTracer, "sample"),
    (worker_plugin.WorkerTracer, "_settings"),
    (worker_plugin.WorkerTracer, "_record_open"),
    (worker_plugin, "task_id_of"),
    (worker_plugin, "group_of"),
    (worker_core.Core, "leave"),
    (worker_core.Core, "_open_slots"),
    (worker_core.DaskSession, "_record_wide"),
    (worker_core.DaskSession, "begin_attempt"),
    (worker_core.DaskSession, "end_attempt"),
    (worker_core.DaskSession, "_dask_row"),
    (worker_flows.Arrivals, "observe"),
    (worker_flows.Arrivals, "take"),
    (worker_flows.Arrivals, "forget"),
    (worker_samples.WorkerSampler, "sample"),
    (scheduler_plugin.SchedulerTracer, "_graph"),
    (scheduler_plugin.SchedulerTracer, "_left_processing"),
    (scheduler_plugin.SchedulerTracer, "_finish_workers"),
    (scheduler_plugin, "emit"),
    (scheduler_events.SchedulerEvents, "event"),
    (scheduler_events.SchedulerEvents, "tick"),
    (scheduler_events.SchedulerEvents, "end"),
    (deaths.Deaths, "hello"),
    (deaths.Deaths, "settle_all"),
    (origin.Origins, "observe"),
    (hub.Hub, "receive"),
    (hub.Hub, "acknowledge"),
    (transport.WorkerLink, "write"),
    (transport.SegmentStore, "append"),
    (sites, "_user_frame"),
    (_compat, "wrap_run_task"),
    (_compat, "wrap_shuffle_send"),
    (_compat, "tap_log"),
    (_compat, "send_to_client"),
    (names, "emit"),
    (worker_attempts, "task_id_of"),
    (worker_attempts, "group_of"),
    (worker_attempts, "live_above"),
    (worker_attempts.Attempts, "_begin"),
    (worker_attempts.Attempts, "_end"),
    (worker_core, "begin_alone"),
    (worker_core, "leave_alone"),
]


@pytest.mark.parametrize(
    "fault", FAULTS, ids=lambda f: f"{getattr(f[0], '__name__', f[0]).split('.')[-1]}.{f[1]}"
)
def test_the_result_is_the_same(client, tmp_path, monkeypatch, fault):
    number = FAULTS.index(fault) + 1
    struck.clear()
    monkeypatch.setattr(*fault, broken)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", TracerWarning)
        attachment = None
        with contextlib.suppress(AttachError):  # told to the caller, who warns of it
            attachment = attach(client, str(tmp_path / "run.rmt"))
        assert work(client, number) == (sum(2 * x for x in range(100 * number, 100 * number + 20)),
                                        KeyError, 20)  # fmt: skip
        facts = {}
        if attachment is not None:
            facts = attachment.finish(timeout_s=1.0)
        hits = len(struck)
        # On a busy machine the workers are not through by then; the next trace is not to meet them.
        until = time.monotonic() + 3
        while worker_core._tracers and time.monotonic() < until:
            time.sleep(0.02)
    monkeypatch.undo()
    said = [str(w.message) for w in caught if issubclass(w.category, TracerWarning)]
    # Where it could not be attached at all, the error names the cause; else one warning does.
    assert len(said) == (1 if hits and attachment is not None else 0), (hits, facts, said)
    assert all("planted" in text for text in said), said
    if said and "errors" in facts and fault[1] != "append":
        with warnings.catch_warnings(), contextlib.suppress(EmptyTrace):
            warnings.simplefilter("ignore")
            trace = open_trace(str(tmp_path / "run.rmt"))
            assert trace.meta["faults"] == facts["errors"] > 0
            assert any("planted" in note for note in diagnose(trace).notes)
    assert len(client.scheduler_info(n_workers=-1)["workers"]) == 2
    # And the next trace is whole.
    folder = tmp_path / "next.rmt"
    attachment = attach(client, str(folder))
    work(client, 1000 + number)
    facts = attachment.finish()
    assert facts["missing"] == [] and facts["workers"] == 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tasks = open_trace(str(folder)).table("tasks").to_pylist()
    odd = [(t["task_id"], t["run_id"], t["source"], t["worker"]) for t in tasks]
    assert len(tasks) == 22 and all(t["source"] == "worker" for t in tasks), odd


async def refuse(*args):
    raise OSError("not now")


@pytest.mark.parametrize("left", [False, True], ids=["late", "left on the workers"])
def test_an_earlier_trace_does_not_get_into_the_next(client, tmp_path, left):
    """Workers that were not asked to finish send their last rows when the next trace is there."""
    for n in range(2_000 + 10 * left, 2_008 + 10 * left):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(scheduler_plugin.SchedulerTracer, "_finish_workers", broken)
            if left:
                patch.setattr(attach_module.registration, "unregister_worker", refuse)
            attachment = attach(client, str(tmp_path / f"{n}.rmt"))
            work(client, n)
            attachment.finish(timeout_s=1.0)
        folder = str(tmp_path / f"{n}-next.rmt")
        attachment = attach(client, folder)
        work(client, 1_000 + n)
        facts = attachment.finish()
        assert facts["missing"] == [] and facts["workers"] == 2
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tasks = open_trace(folder).table("tasks").to_pylist()
        assert len(tasks) == 22 and {t["source"] for t in tasks} == {"worker"}, tasks


def test_a_failed_registration_is_withdrawn(client, tmp_path, monkeypatch):
    calls = []

    async def refuse(*args):
        calls.append(args)
        raise OSError("a worker left")

    with monkeypatch.context() as patch:
        patch.setattr(attach_module.registration, "register_worker", refuse)
        with pytest.warns(TracerWarning, match="could not register on all workers"):
            attachment = attach(client, str(tmp_path / "run.rmt"))
    assert len(calls) == 2
    plugins = client.run_on_scheduler(lambda dask_scheduler: list(dask_scheduler.worker_plugins))
    assert "rotameter" not in plugins
    assert client.submit(double, 9_999).result() == 19_998
    attachment.finish()


def test_a_client_is_attached_once(client, tmp_path):
    attachment = attach(client, str(tmp_path / "run.rmt"))
    with pytest.raises(AttachError, match="traced already"):
        attach(client, str(tmp_path / "other.rmt"))
    with (
        Client(client.scheduler.address) as other,
        pytest.raises(AttachError, match="another client"),
    ):
        attach(other, str(tmp_path / "third.rmt"))
    facts = attachment.finish()
    assert attachment.finish() == facts and facts["missing"] == []


def test_without_the_wrap_attempts_are_still_recorded(client, tmp_path, monkeypatch):
    """A version of distributed that runs tasks in another way: same columns, nulls, and said so."""
    monkeypatch.setattr(_compat, "_RUN_TASK", ("something", "else"))
    attachment = attach(client, str(tmp_path / "run.rmt"))
    result = work(client, 77)
    attachment.finish()
    assert result[1:] == (KeyError, 20)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trace = open_trace(str(tmp_path / "run.rmt"))
    tasks = trace.table("tasks").to_pylist()
    assert len(tasks) == 22 and {t["source"] for t in tasks} == {"worker"}
    odd = [t for t in tasks if t["wall_s"] is None or t["cpu_s"] is not None]
    assert odd == []
    (failed,) = [t for t in tasks if t["outcome"] == "failed"]
    assert failed["error"].startswith("KeyError")
    assert any("CPU, memory" in str(n.get("what")) for n in trace.meta["not_measured"])


def _break_begin():
    from rotameter.adapters.dask import worker_attempts

    def begin(*args):
        raise RuntimeError("planted")

    worker_attempts.Attempts._begin = begin


def test_a_fault_in_another_process_is_told_in_this_one(tmp_path):
    """A worker that is gone by the end has told of its fault before."""
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        client.run(_break_begin)
        attachment = attach(client, str(tmp_path / "run.rmt"))
        assert sum(client.gather(client.map(double, range(20)))) == 380
        client.retire_workers(list(client.scheduler_info(n_workers=-1)["workers"])[:1])
        with pytest.warns(TracerWarning, match="RuntimeError: planted") as got:
            facts = attachment.finish()
        # Its last word, how many there were, may come too late.
        assert len(got) == 1 and 1 < facts["errors"] <= 20
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert open_trace(str(tmp_path / "run.rmt")).meta["faults"] == facts["errors"]
