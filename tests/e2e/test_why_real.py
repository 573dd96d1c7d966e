"""`rm.dask.why` and `rotameter live` on a real cluster that was never attached."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time

import pytest
from distributed import Client, LocalCluster

import rotameter as rm

pytestmark = pytest.mark.e2e

PATIENCE_S = 20.0  # the machine may be busy; the time limits are rows of the benchmark


def nap(x, seconds=0.1):
    time.sleep(seconds)
    return x


@pytest.fixture(scope="module")
def cluster():
    with LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=":0", memory_limit="1GiB"
    ) as made:
        yield made


@pytest.fixture
def client(cluster):
    with Client(cluster) as made:
        yield made


def why(client):
    return rm.dask.why(client, timeout_s=PATIENCE_S)


def plugins_of(dask_scheduler=None, dask_worker=None):
    return sorted((dask_scheduler or dask_worker).plugins)


def live(*arguments):
    command = [sys.executable, "-m", "rotameter", "live", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=100)


def until(client, wanted):
    """Look until a state is reached that needs a moment to come about."""
    end = time.monotonic() + 60
    while True:
        found = why(client)
        if wanted(found) or time.monotonic() > end:
            return found
        time.sleep(0.2)


def test_a_healthy_run_then_nothing_and_nothing_stays(client):
    before = client.run_on_scheduler(plugins_of), client.run(plugins_of)
    futures = client.map(nap, range(40), seconds=0.2, pure=False)
    found = until(client, lambda w: w.eta_s is not None and 0 < w.n_done < 40)
    assert found.status == "running"
    assert found.eta_interval80_s[0] <= found.eta_s <= found.eta_interval80_s[1]
    assert [g.group for g in found.groups] == ["nap"]
    client.gather(futures)
    assert why(client).status == "idle"
    assert (client.run_on_scheduler(plugins_of), client.run(plugins_of)) == before


def test_an_unmet_resource_on_the_command_line(client):
    held = client.map(nap, range(3), resources={"GPU": 2}, pure=False)
    total = client.submit(sum, held)
    until(client, lambda w: w.status == "stuck")
    address = client.scheduler.address
    ran = live(address, "--json", "--timeout", str(PATIENCE_S))
    assert (ran.returncode, ran.stderr) == (0, "")
    found = json.loads(ran.stdout)
    assert {g["group"]: g["code"] for g in found["groups"]} == {
        "nap": "unmet_resource",
        "sum": "unmet_resource",
    }
    ran = live(address.removeprefix("tcp://"), "--timeout", str(PATIENCE_S))
    assert "asks for GPU=2, which no worker offers" in ran.stdout
    assert max(map(len, ran.stdout.splitlines())) <= 80
    del total


def test_a_stopped_worker(client):
    pids = client.run(os.getpid)
    address, pid = sorted(pids.items())[0]
    futures = client.map(nap, range(20), seconds=0.3, pure=False, workers=[address])
    os.kill(pid, signal.SIGSTOP)
    try:
        found = until(client, lambda w: w.causes)
    finally:
        os.kill(pid, signal.SIGCONT)
    assert found.causes[0].code == "worker_stopped"
    assert found.causes[0].workers == (address,)
    assert f"kill -CONT {pid}" in found.groups[0].advice
    client.gather(futures)


def test_a_task_that_the_worker_does_not_know(client):
    address = sorted(client.scheduler_info(n_workers=-1)["workers"])[0]

    def lose(address, dask_scheduler=None):
        comm = dask_scheduler.stream_comms[address]
        send = comm.send
        comm.send = lambda *msgs: send(*(m for m in msgs if m["op"] != "compute-task"))

    def keep(address, dask_scheduler=None):
        del dask_scheduler.stream_comms[address].send

    client.run_on_scheduler(lose, address)
    try:
        futures = client.map(nap, range(3), pure=False, workers=[address])
        found = until(client, lambda w: w.causes)
    finally:
        client.run_on_scheduler(keep, address)
    assert [(c.code, c.workers) for c in found.causes] == [("disagreement", (address,))]
    del futures


def test_no_scheduler_there():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    ran = live(f"tcp://127.0.0.1:{port}", "--timeout", "0.5")
    assert ran.returncode == 1
    assert ran.stdout == ""
    lines = ran.stderr.splitlines()
    assert len(lines) == 2
    assert lines[0].startswith("error: no Dask scheduler answers at")
    assert lines[1].startswith("hint: ")


def test_something_else_there():
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        ran = live(f"127.0.0.1:{port}", "--timeout", "0.5")
    assert ran.returncode == 1
    assert len(ran.stderr.splitlines()) == 2
