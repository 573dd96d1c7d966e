"""How a run ends: workers that are asked to stop, programs that are killed, clients that die."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
import warnings
from collections import Counter

import pytest
from distributed import Client, LocalCluster

from rotameter.adapters.dask import leave
from rotameter.adapters.dask.attach import attach
from rotameter.profiler.diagnose import diagnose
from rotameter.profiler.store import open_trace

pytestmark = pytest.mark.e2e

MODULE = "rotameter.adapters.dask"
HEAD = """
import asyncio, os, sys, time
from distributed import Client, LocalCluster

def nap(x):
    time.sleep(0.01)
    return x
"""
SCHEDULER = {"DASK_DISTRIBUTED__SCHEDULER__PRELOAD": f"['{MODULE}']"}
CLIENT = {"DASK_DISTRIBUTED__CLIENT__PRELOAD": f"['{MODULE}']"}


def start(tmp_path, body, env):
    script = tmp_path / "script.py"
    script.write_text(HEAD + textwrap.dedent(body))
    folder = tmp_path / "run.rmt"
    env = {**os.environ, "ROTAMETER_TRACE": str(folder), **env}
    env["DASK_DISTRIBUTED__DASHBOARD__LINK"] = ""
    process = subprocess.Popen(
        [sys.executable, str(script)],
        env=env,
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    return process, folder


def read(folder):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trace = open_trace(str(folder))
    events = trace.table("events").to_pylist()
    return trace, events, trace.table("tasks").to_pylist(), trace.table("workers").to_pylist()


@pytest.mark.parametrize("processes", [True, False])
def test_scaling_down_and_closing_are_no_deaths(tmp_path, processes):
    body = f"""
    if __name__ == "__main__":
        cluster = LocalCluster(n_workers=2, threads_per_worker=1, processes={processes},
                               dashboard_address=":0")
        client = Client(cluster)
        client.gather(client.map(nap, range(10)))
        cluster.scale(1)
        while len(client.scheduler_info()["workers"]) > 1:
            time.sleep(0.05)
        client.close()
        cluster.close()
    """
    process, folder = start(tmp_path, body, SCHEDULER)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    trace, events, _, workers = read(folder)
    removed = [(e["expected"], e["reason"]) for e in events if e["kind"] == "worker_removed"]
    assert removed == [(True, "closed")] * 2
    assert [w["end_reason"] for w in workers] == ["closed"] * 2
    meta = folder / "meta.json"
    run = json.loads(meta.read_text())["run"]
    assert run["status"] == "ok" and run["ended_ns"] > run["started_ns"]
    assert meta.stat().st_mode & 0o777 == 0o600
    assert trace.meta["engine"] == "dask" and trace.warnings == []


def test_an_interrupt_from_the_keyboard_is_no_death(tmp_path):
    body = """
    if __name__ == "__main__":
        with LocalCluster(n_workers=1, dashboard_address=":0") as cluster:
            with Client(cluster) as client:
                client.gather(client.map(nap, range(10)))
                print("ready", flush=True)
                time.sleep(30)
    """
    process, folder = start(tmp_path, body, SCHEDULER)
    assert process.stdout.readline() == "ready\n"
    os.killpg(process.pid, signal.SIGINT)
    process.communicate(timeout=60)
    _, events, _, _ = read(folder)
    assert [e["expected"] for e in events if e["kind"] == "worker_removed"] == [True]


def test_a_program_that_is_killed_leaves_what_ran_and_who_worked(tmp_path):
    body = """
    if __name__ == "__main__":
        cluster = LocalCluster(n_workers=1, threads_per_worker=2, dashboard_address=":0")
        client = Client(cluster)
        client.gather(client.map(nap, range(10)))
        futures = client.map(time.sleep, [40 + i for i in range(4)])
        while not any(client.run(
            lambda dask_worker: any(time.time() - t.start_time > 2 for t in
                                    dask_worker.state.tasks.values() if t.state == "executing")
        ).values()):
            time.sleep(0.2)
        time.sleep(4)
        print("ready", flush=True)
        time.sleep(60)
    """
    process, folder = start(tmp_path, body, SCHEDULER)
    try:
        assert process.stdout.readline() == "ready\n"
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate(timeout=20)
    _, events, tasks, workers = read(folder)
    assert Counter((t["group"], t["outcome"]) for t in tasks) == {
        ("nap", "ok"): 10,
        ("sleep", "running"): 2,
    }
    for task in tasks:
        assert task["submitted_ns"] <= task["ready_ns"] <= task["started_ns"]
    assert sum(e["count"] for e in events if e["kind"] == "graph_submitted") == 14
    (worker,) = workers
    assert worker["started_ns"] and worker["cores"] == 2 and worker["host"] and worker["name"]
    run = json.loads((folder / "meta.json").read_text())["run"]
    assert run["status"] == "running"


def test_how_many_were_submitted_is_on_disk_at_once(tmp_path):
    body = """
    if __name__ == "__main__":
        client = Client(n_workers=1, threads_per_worker=1, dashboard_address=":0")
        futures = client.map(nap, range(5_000))
        client.run_on_scheduler(lambda: None)
        time.sleep(2)
        print("ready", flush=True)
        time.sleep(60)
    """
    process, folder = start(tmp_path, body, CLIENT)
    try:
        assert process.stdout.readline() == "ready\n"
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate(timeout=20)
    _, events, _, _ = read(folder)
    assert [e["count"] for e in events if e["kind"] == "graph_submitted"] == [5_000]


@pytest.mark.parametrize("processes", [True, False])
def test_an_asynchronous_client_that_is_never_closed(tmp_path, processes):
    body = f"""
    async def main():
        client = await Client(asynchronous=True, n_workers=2, threads_per_worker=1,
                              processes={processes}, dashboard_address=":0", silence_logs=60)
        print(sum(await client.gather(client.map(nap, range(40)))), flush=True)

    if __name__ == "__main__":
        asyncio.run(main())
        from rotameter.adapters.dask import finish_all
        finish_all()
    """
    process, folder = start(tmp_path, body, CLIENT)
    out, errors = process.communicate(timeout=60)
    assert out == "780\n", errors
    _, events, tasks, _ = read(folder)
    assert Counter(t["outcome"] for t in tasks) == {"ok": 40}
    kinds = {e["kind"] for e in events}
    assert "scheduler_lost" not in kinds
    assert {e["expected"] for e in events if e["kind"] == "worker_removed"} <= {True}
    assert "the program ended without closing its client" in {e["reason"] for e in events}


def test_a_scheduler_that_is_killed_is_told_though_the_program_dies_at_once(tmp_path):
    body = """
    import subprocess

    def part(name, *more):
        argv = [sys.executable, "-m", f"distributed.cli.dask_{name}", "--scheduler-file", "s.json"]
        return subprocess.Popen([*argv, *more], stderr=subprocess.DEVNULL)

    if __name__ == "__main__":
        scheduler = part("scheduler", "--port", "0", "--no-dashboard")
        worker = part("worker", "--nthreads", "1", "--no-dashboard", "--death-timeout", "5")
        client = Client(scheduler_file="s.json", timeout=30)
        client.wait_for_workers(1)
        futures = client.map(nap, range(40))
        client.gather(futures)
        scheduler.kill()
        time.sleep(3)
        worker.terminate()
        worker.wait(20)
        print("out", flush=True)
        os._exit(3)
    """
    process, folder = start(tmp_path, body, CLIENT)
    out, errors = process.communicate(timeout=90)
    assert (out, process.returncode) == ("out\n", 3), errors
    trace, events, _, _ = read(folder)
    (lost,) = [event for event in events if event["kind"] == "scheduler_lost"]
    assert "lost its scheduler" in lost["reason"]
    assert diagnose(trace).sentence.startswith("Scheduler lost")


def open_files():
    names = []
    for number in os.listdir("/proc/self/fd"):
        try:
            names.append(os.readlink(f"/proc/self/fd/{number}"))
        except OSError:
            continue
    return sum(name.startswith("/proc/") for name in names)


def double(x):
    return 2 * x


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="no /proc here")
def test_traces_leave_no_open_files_in_workers(tmp_path):
    with (
        LocalCluster(n_workers=1, threads_per_worker=3, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        (before,) = client.run(open_files).values()
        for n in range(3):
            attachment = attach(client, str(tmp_path / f"{n}.rmt"))
            client.gather(client.map(double, range(20 * n, 20 * n + 20)))
            attachment.finish()
        assert list(client.run(open_files).values()) == [before]


def ours(dask_scheduler):
    known = (dask_scheduler.plugins, dask_scheduler.worker_plugins, dask_scheduler.nanny_plugins)
    return [name for names in known for name in names if name == "rotameter"]


def wrapped():
    import distributed.worker

    return hasattr(distributed.worker._run_task, "rotameter_original")


@pytest.mark.parametrize("grace_over", [False, True])
def test_a_client_that_dies_leaves_nothing_to_the_next(tmp_path, grace_over):
    body = """
    if __name__ == "__main__":
        from rotameter.adapters.dask.attach import attach
        client = Client(sys.argv[1])
        attach(client, sys.argv[2])
        client.gather(client.map(nap, range(20)))
        os.kill(os.getpid(), 9)
    """
    script = tmp_path / "script.py"
    script.write_text(HEAD + textwrap.dedent(body))
    with (
        LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        first = [sys.executable, str(script), cluster.scheduler_address, str(tmp_path / "1.rmt")]
        env = {**os.environ, "TMPDIR": str(tmp_path)}
        assert subprocess.run(first, timeout=60, env=env).returncode == -signal.SIGKILL
        deadline = time.monotonic() + leave.GRACE_S + 10
        while grace_over and client.run_on_scheduler(ours) and time.monotonic() < deadline:
            time.sleep(0.2)
        if grace_over:
            assert client.run_on_scheduler(ours) == []
            assert list(client.run(wrapped).values()) == [False]
        while len(client.run_on_scheduler(lambda dask_scheduler: list(dask_scheduler.clients))) > 2:
            time.sleep(0.05)
        attachment = attach(client, str(tmp_path / "2.rmt"))
        client.gather(client.map(double, range(5)))
        facts = attachment.finish()
    assert facts["missing"] == []
    _, _, tasks, _ = read(tmp_path / "2.rmt")
    assert Counter((t["group"], t["outcome"]) for t in tasks) == {("double", "ok"): 5}


def test_the_same_keys_on_two_clusters_are_two_attempts(tmp_path):
    folder = str(tmp_path / "run.rmt")
    for _ in range(2):
        with (
            LocalCluster(
                n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0"
            ) as cluster,
            Client(cluster) as client,
        ):
            attachment = attach(client, folder)
            client.gather(client.map(double, range(5)))
            attachment.finish()
    _, _, tasks, _ = read(folder)
    prefixes = Counter(t["run_id"].partition(":")[0] for t in tasks)
    assert sorted(prefixes.values()) == [5, 5]
    assert all(t["submitted_ns"] and t["cpu_s"] is not None for t in tasks)


def test_workers_that_a_signal_ends_are_no_deaths(tmp_path):
    place, folder = str(tmp_path / "scheduler.json"), tmp_path / "run.rmt"
    env = {**os.environ, "ROTAMETER_TRACE": str(folder)}
    dask = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--port", "0"]
    dask += ["--dashboard-address", ":0", "--scheduler-file", place, "--preload", MODULE]
    worker = [sys.executable, "-m", "distributed.cli.dask_worker", "--scheduler-file", place]
    worker += ["--nthreads", "1", "--dashboard-address", ":0"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": tmp_path}
    running = [subprocess.Popen(dask, env=env, **quiet)]
    try:
        running += [subprocess.Popen([*worker, *how], **quiet) for how in ([], ["--no-nanny"])]
        while not os.path.exists(place):
            time.sleep(0.05)
        with Client(scheduler_file=place, timeout=20) as client:
            client.wait_for_workers(2, timeout=30)
            client.gather(client.map(abs, range(10)))
            for process in running[1:]:
                process.terminate()
            while client.scheduler_info()["workers"]:
                time.sleep(0.05)
        for process in reversed(running):
            process.terminate()
            process.wait(30)
    finally:
        for process in running:
            process.kill()
            process.wait(30)
    _, events, _, workers = read(folder)
    removed = [(e["expected"], e["reason"]) for e in events if e["kind"] == "worker_removed"]
    # The nanny's worker says that it closes, or its stream ends before: then our word of it counts.
    reasons = sorted(reason for _, reason in removed)
    assert reasons in (["asked to stop", "closed"], ["asked to stop"] * 2)
    assert all(expected for expected, _ in removed)
    assert sorted(w["end_reason"] for w in workers) == reasons


def test_a_cluster_that_another_client_traces(tmp_path):
    body = """
    if __name__ == "__main__":
        with Client(sys.stdin.readline().strip()) as client:
            print(client.submit(nap, 1).result())
    """
    with (
        LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        attachment = attach(client, str(tmp_path / "1.rmt"))
        script = tmp_path / "script.py"
        script.write_text(HEAD + textwrap.dedent(body))
        done = subprocess.run(
            [sys.executable, str(script)],
            env={**os.environ, **CLIENT, "ROTAMETER_TRACE": str(tmp_path / "2.rmt")},
            input=f"{cluster.scheduler_address}\n",
            capture_output=True,
            text=True,
            timeout=60,
        )
        attachment.finish()
        assert done.stdout == "1\n", done.stderr
        said = (
            "rotameter does not trace this Dask cluster: another client traces this cluster already"
        )
        assert done.stderr.count(f"{said} ({client.id})") == 1
