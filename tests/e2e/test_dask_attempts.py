"""Every attempt on a real cluster: once, with its outcome, whatever happens to it."""

from __future__ import annotations

import asyncio
import os
import signal
import time
import warnings
from collections import Counter
from pathlib import Path

import pytest
from distributed import Client, LocalCluster, Reschedule, wait

from rotameter.adapters.dask.attach import attach
from rotameter.profiler.store import open_trace

pytestmark = pytest.mark.e2e


def traced(client, folder, work):
    attachment = attach(client, str(folder))
    try:
        result = work()
    finally:
        facts = attachment.finish()
    return result, read(folder), facts


def read(folder):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return open_trace(str(folder))


def rows(trace, table, **wanted):
    return [
        row
        for row in trace.table(table).to_pylist()
        if all(row[name] == value for name, value in wanted.items())
    ]


def outcomes(trace):
    return Counter((t["group"], t["outcome"]) for t in trace.table("tasks").to_pylist())


def nap(x, seconds=0.01):
    time.sleep(seconds)
    return x


def fail(x):
    raise ValueError("see s3://ann:pw@bucket/key?sig=1\nsecond line")


def flaky(path):
    with open(path, "a") as file:
        file.write("x")
    if os.path.getsize(path) < 3:
        raise RuntimeError("not yet")
    return 1


def moved(path):
    with open(path, "a") as file:
        file.write("x")
    if os.path.getsize(path) < 2:
        raise Reschedule
    return 1


def greedy(x):
    raise MemoryError("no more")


async def doze(x):
    await asyncio.sleep(0.05)
    return x


def die_once(path):
    if not os.path.exists(path):
        Path(path).touch()
        time.sleep(0.2)
        os.kill(os.getpid(), signal.SIGKILL)
    return 1


@pytest.fixture(scope="module", params=[True, False], ids=["processes", "threads"])
def client(request):
    with (
        LocalCluster(
            n_workers=2,
            threads_per_worker=2,
            processes=request.param,
            dashboard_address=":0",
            silence_logs=50,
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client


def test_failures_retries_and_reschedules(client, tmp_path):
    def work():
        assert isinstance(client.submit(fail, 1).exception(), ValueError)
        assert client.submit(flaky, str(tmp_path / "f"), retries=5).result() == 1
        assert client.submit(moved, str(tmp_path / "m")).result() == 1
        assert isinstance(client.submit(greedy, 1).exception(), MemoryError)
        assert client.gather(client.map(doze, range(3))) == [0, 1, 2]
        return client.gather(client.map(nap, range(20)))

    result, trace, facts = traced(client, tmp_path / "run.rmt", work)
    assert result == list(range(20))
    assert facts["missing"] == [] and facts["workers"] == 2
    assert outcomes(trace) == {
        ("fail", "failed"): 1,
        ("flaky", "failed"): 2,
        ("flaky", "ok"): 1,
        ("moved", "rescheduled"): 1,
        ("moved", "ok"): 1,
        ("greedy", "oom"): 1,
        ("doze", "ok"): 3,
        ("nap", "ok"): 20,
    }
    (failed,) = rows(trace, "tasks", group="fail")
    assert failed["error"] == "ValueError: see s3://bucket/key"
    retried = rows(trace, "tasks", group="flaky")
    assert sorted(t["attempt"] for t in retried) == [1, 2, 3]
    for task in trace.table("tasks").to_pylist():
        assert task["submitted_ns"] <= task["ready_ns"] <= task["ended_ns"]
        assert task["run_id"] and task["worker"] and task["host"]
        assert task["source"] == "worker"
    for task in rows(trace, "tasks", group="doze"):
        assert 0.04 < task["wall_s"] < 1.0
    assert all(t["output_bytes"] for t in trace.table("tasks").to_pylist() if t["outcome"] == "ok")


def test_compute_seconds_are_the_clusters_own(client, tmp_path):
    own: dict[str, float] = {}

    def work():
        client.get_task_stream(start=0, stop=0)
        begin = time.time()
        client.gather(client.map(nap, range(1000, 1100), seconds=0.003))
        for record in client.get_task_stream(start=begin - 1):
            for item in record["startstops"]:
                if item["action"] == "compute":
                    own[record["key"]] = item["stop"] - item["start"]

    _, trace, _ = traced(client, tmp_path / "run.rmt", work)
    ours = {t["task_id"]: t["wall_s"] for t in rows(trace, "tasks", group="nap")}
    assert ours.keys() == own.keys()
    assert sum(ours.values()) == pytest.approx(sum(own.values()), rel=0.01)


def test_group_origin_and_dependencies(client, tmp_path):
    def work():
        parts = client.map(nap, range(2000, 2003))
        return client.submit(sum, parts).result()  # the line that is found again

    result, trace, _ = traced(client, tmp_path / "run.rmt", work)
    assert result == 6003
    (origin,) = rows(trace, "events", kind="group_origin", group="sum")
    assert origin["file"] == __file__
    assert "the line that is found again" in origin["text"]
    deps = trace.table("deps").to_pylist()
    assert len(deps) == 3 and len({d["task_id"] for d in deps}) == 1
    workers = trace.table("workers").to_pylist()
    assert len({w["worker"] for w in workers}) == 2 and {w["cores"] for w in workers} == {2.0}
    assert {e["subject"] for e in rows(trace, "events", kind="setting")} >= {
        "distributed.scheduler.worker-saturation",
        "distributed.worker.memory.target",
    }


def test_what_still_runs_when_the_trace_ends(client, tmp_path):
    attachment = attach(client, str(tmp_path / "run.rmt"))
    futures = client.map(nap, range(3000, 3002), seconds=1.0)
    time.sleep(0.4)
    attachment.finish()
    trace = read(tmp_path / "run.rmt")
    assert outcomes(trace) == {("nap", "running"): 2}
    assert all(t["ended_ns"] is None for t in trace.table("tasks").to_pylist())
    assert client.gather(futures) == [3000, 3001]


def test_an_attempt_that_was_given_up_and_runs_on_is_cancelled(client, tmp_path):
    mark = tmp_path / "let go"

    def until(n):
        while not mark.exists():
            time.sleep(0.02)

    def work():
        futures = client.map(until, range(4500, 4504))
        time.sleep(0.4)
        client.cancel(futures)
        time.sleep(0.2)

    _, trace, _ = traced(client, tmp_path / "run.rmt", work)
    mark.touch()
    client.gather(client.map(nap, range(4510, 4522), seconds=0.05))  # all threads are free again
    tasks = trace.table("tasks").to_pylist()
    assert tasks and {t["outcome"] for t in tasks} == {"cancelled"}
    assert all(t["ended_ns"] is None for t in tasks)


def test_cancelled_attempts(client, tmp_path):
    def work():
        futures = client.map(nap, range(4000, 4012), seconds=0.4)
        time.sleep(0.2)
        client.cancel(futures)
        time.sleep(0.6)

    _, trace, _ = traced(client, tmp_path / "run.rmt", work)
    tasks = trace.table("tasks").to_pylist()
    # Only what began is an attempt: at most one a thread.
    assert 1 <= len(tasks) <= 4
    assert {t["outcome"] for t in tasks} == {"cancelled"}


def test_a_restart_is_no_death(client, tmp_path):
    if client.scheduler.address.startswith("inproc"):
        pytest.skip("workers without nannies are not restarted")

    def work():
        client.gather(client.map(nap, range(6000, 6005)))
        client.restart()
        client.gather(client.map(nap, range(6005, 6010)))

    _, trace, facts = traced(client, tmp_path / "run.rmt", work)
    assert outcomes(trace) == {("nap", "ok"): 10} and facts["missing"] == []
    removed = rows(trace, "events", kind="worker_removed")
    assert [(e["expected"], e["reason"]) for e in removed] == [(True, "restart")] * 2


def test_a_trace_after_a_trace(client, tmp_path):
    for n in range(2):
        folder = tmp_path / f"run{n}.rmt"
        start = 5000 + 10 * n
        _, trace, facts = traced(
            client, folder, lambda at=start: client.gather(client.map(nap, range(at, at + 5)))
        )
        assert outcomes(trace) == {("nap", "ok"): 5} and facts["missing"] == []


@pytest.mark.parametrize("victims", ["worker", "worker and nanny"])
def test_a_worker_killed_in_mid_run(tmp_path, victims):
    with (
        LocalCluster(
            n_workers=2, threads_per_worker=2, dashboard_address=":0", silence_logs=60
        ) as cluster,
        Client(cluster) as client,
    ):
        folder = tmp_path / "run.rmt"
        attachment = attach(client, str(folder))
        begin = time.time()
        client.get_task_stream(start=0, stop=0)
        futures = client.map(nap, range(10), seconds=0.3)
        killer = client.submit(die_once, str(tmp_path / "once"), priority=10)
        if victims != "worker":
            # The nanny is part of this process; that it says nothing is what matters here.
            for nanny in cluster.workers.values():
                nanny.log_event = lambda topic, message: None
        assert killer.result(timeout=20) == 1
        assert client.gather(futures) == list(range(10))
        stream = client.get_task_stream(start=begin - 1)
        facts = attachment.finish()
    assert facts["missing"] == []
    trace = read(folder)
    (lost,) = rows(trace, "tasks", group="die_once", outcome="worker_lost")
    assert lost["outcome_kind"] == "reported" and lost["started_ns"] is not None
    dead = lost["worker"]
    ran = {e["task_id"] for e in rows(trace, "events", kind="executing_at_death")}
    queued = {e["task_id"] for e in rows(trace, "events", kind="queued_at_death")}
    assert lost["task_id"] in ran and len(ran) <= 2 and not ran & queued
    (removed,) = rows(trace, "events", kind="worker_removed", worker=dead)
    assert removed["expected"] is False
    exits = rows(trace, "events", kind="worker_exit", worker=dead)
    if victims == "worker":
        assert [(e["exit_code"], e["signal"]) for e in exits] == [(-9, 9)]
    else:
        assert exits == []
    # Every end that the cluster itself recorded is there once, also from the dead worker.
    tasks = trace.table("tasks").to_pylist()
    assert len({(t["task_id"], t["run_id"]) for t in tasks}) == len(tasks)
    finished = Counter(t["task_id"] for t in tasks if t["outcome"] == "ok")
    assert finished == Counter(record["key"] for record in stream)
    assert sum(t["outcome"] == "worker_lost" for t in tasks) == len(ran)


def mixed(n, folder):
    if n % 50 == 1:
        raise ValueError(n)
    if n % 50 == 2:
        return flaky(f"{folder}/f{n}")
    if n % 50 == 3:
        return moved(f"{folder}/m{n}")
    if n % 10 == 4:
        time.sleep(0.003)
    return n


@pytest.mark.slow
def test_every_attempt_of_a_mixed_run_with_a_killed_worker(tmp_path):
    with (
        LocalCluster(
            n_workers=2, threads_per_worker=2, dashboard_address=":0", silence_logs=60
        ) as cluster,
        Client(cluster) as client,
    ):
        attachment = attach(client, str(tmp_path / "run.rmt"))
        client.get_task_stream(start=0, stop=0)
        begin = time.time()
        futures = client.map(mixed, range(2_000), folder=str(tmp_path), retries=5, batch_size=500)
        killer = client.submit(die_once, str(tmp_path / "once"), priority=10)
        wait(futures, timeout=60)
        assert killer.result(timeout=20) == 1
        stream = client.get_task_stream(start=begin - 1)
        facts = attachment.finish()
    assert facts["missing"] == []
    trace = read(tmp_path / "run.rmt")
    assert trace.meta["dropped"] == 0
    tasks = rows(trace, "tasks")
    assert len({(t["task_id"], t["run_id"]) for t in tasks}) == len(tasks)
    count = Counter(t["outcome"] for t in tasks)
    # The worker that died may have had the last words of some; then the scheduler's stand.
    # A task that fails twice counts its tries on disk: one that died with the worker after it
    # had counted, and before anybody heard that it failed, is a lost attempt instead.
    lost = count["worker_lost"]
    assert 1 <= lost <= 4
    assert 40 * 6 + 40 * 2 - lost <= count["failed"] <= 40 * 6 + 40 * 2
    assert 40 - lost <= count["rescheduled"] <= 40
    own = {record["key"]: 0.0 for record in stream if record["status"] == "OK"}
    for record in stream:
        for item in record["startstops"]:
            if item["action"] == "compute" and record["key"] in own:
                own[record["key"]] += item["stop"] - item["start"]
    finished = [t for t in tasks if t["outcome"] == "ok"]
    assert Counter(t["task_id"] for t in finished) == Counter(
        record["key"] for record in stream if record["status"] == "OK"
    )
    assert sum(t["wall_s"] for t in finished) == pytest.approx(sum(own.values()), rel=0.01)
