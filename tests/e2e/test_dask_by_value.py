"""Schedulers, workers and nannies that have no rotameter: what they need is shipped to them."""

from __future__ import annotations

import contextlib
import math
import os
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import dask
import pytest
from distributed import Client

from rotameter.adapters.dask.attach import attach
from rotameter.profiler.store import open_trace

pytestmark = pytest.mark.e2e

# With this on its path a process cannot import rotameter, as if it were not installed.
ABSENT = "import sys; sys.modules['rotameter'] = None\n"


class Cluster:
    """A scheduler and workers as separate processes that lack the package."""

    def __init__(self, place: Path, python: str = sys.executable) -> None:
        self.place = place
        self.python = python
        (place / "sitecustomize.py").write_text(ABSENT)
        self.file = place / "scheduler.json"
        self.processes: list[subprocess.Popen[bytes]] = []
        self.env = {
            **os.environ,
            "PYTHONPATH": str(place),
            "DASK_DISTRIBUTED__ADMIN__LOW_LEVEL_LOG_LENGTH": "100",
        }
        self.start("scheduler", "--scheduler-file", str(self.file), "--port", "0",
                   "--dashboard-address", ":0", "--host", "127.0.0.1")  # fmt: skip

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [self.python, "-m", "dask", *words],
            env=self.env,
            cwd=self.place,
            stdout=subprocess.DEVNULL,
            stderr=open(self.place / f"log{len(self.processes)}", "wb"),
            start_new_session=True,
        )
        self.processes.append(process)
        return process

    def worker(self, *words: str) -> subprocess.Popen[bytes]:
        return self.start(
            "worker", "--scheduler-file", str(self.file), "--nthreads", "1",
            "--no-dashboard", "--host", "127.0.0.1",
            "--local-directory", str(self.place / "scratch"), *words,
        )  # fmt: skip

    def told(self, tasks, events) -> str:
        """Give what a failure is to be understood by: the record, and the processes' own words."""
        rows = [[t["task_id"], t["run_id"], t["outcome"], t["source"], t["worker"]] for t in tasks]
        kinds = [[e["kind"], e["worker"], e["task_id"], e["reason"], e["text"]] for e in events]
        logs = [(self.place / f"log{i}").read_text()[-1500:] for i in range(len(self.processes))]
        return "\n".join(map(str, [*rows, *(k for k in kinds if k[0] != "setting"), *logs]))

    def close(self) -> None:
        for process in self.processes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(10)


@pytest.fixture
def cluster(tmp_path):
    place = tmp_path / "far"
    place.mkdir()
    made = Cluster(place)
    try:
        yield made
    finally:
        made.close()


def read(folder):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return open_trace(str(folder))


# Functions of a test module cannot be imported over there.
double = eval("lambda x: 2 * x")
dies = eval("lambda: (__import__('time').sleep(1.0), __import__('os').killpg(0, 9))")


@pytest.mark.timeout(60)
def test_processes_without_the_package_are_traced(cluster, tmp_path):
    cluster.worker()
    folder = tmp_path / "run.rmt"
    with Client(scheduler_file=str(cluster.file), timeout=30) as client:
        client.wait_for_workers(1, timeout=30)
        absent = eval("lambda: __import__('sys').modules.get('rotameter', 1) is None")
        assert all(client.run(absent).values())
        assert client.run_on_scheduler(absent)
        attachment = attach(client, str(folder))
        assert sum(client.gather(client.map(double, range(20)))) == 380
        # A later worker, with a nanny as well, joins by itself.
        late = cluster.worker("--name", "late")
        client.wait_for_workers(2, timeout=30)
        address = next(
            w for w, i in client.scheduler_info()["workers"].items() if i["name"] == "late"
        )
        futures = client.map(double, range(100, 110), workers=[address])
        assert sum(client.gather(futures)) == 2090
        facts = attachment.finish()
        assert facts["missing"] == [] and facts["workers"] == 2
        names = client.run(eval("lambda: __import__('distributed').worker._run_task.__name__"))
        assert set(names.values()) == {"_run_task"}
        assert client.submit(double, 7).result() == 14
        late.terminate()
    trace = read(folder)
    tasks = trace.table("tasks").to_pylist()
    assert len(tasks) == 30
    assert {t["outcome"] for t in tasks} == {"ok"}
    assert all(t["cpu_s"] is not None and t["wall_s"] >= 0 for t in tasks)
    assert all(t["ready_ns"] <= t["started_ns"] + 50_000_000 for t in tasks)
    assert sum(t["worker"] == address for t in tasks) >= 10


# An address that a cut at 200 characters would halve, before its "@".
_BROKEN = f"raise OSError('no https://ann:{'bootsecret' * 25}@host/x')"


@pytest.mark.timeout(60)
def test_what_fails_at_boot_leaves_the_worker_alone(cluster, tmp_path, monkeypatch):
    """The worker lives, the result is the same, and the trace says what is missing."""
    from rotameter.adapters.dask import ship

    cargo = ship.Shipment({**_sources(ship), "adapters.dask.worker_plugin": _BROKEN})
    monkeypatch.setattr(ship.ShippedWorker, "__init__", _with_cargo(ship, cargo))
    cluster.worker()
    folder = tmp_path / "run.rmt"
    with Client(scheduler_file=str(cluster.file), timeout=30) as client:
        client.wait_for_workers(1, timeout=30)
        attachment = attach(client, str(folder))
        assert client.submit(double, 21).result() == 42
        time.sleep(0.3)
        attachment.finish()
        assert len(client.scheduler_info()["workers"]) == 1
    trace = read(folder)
    reasons = [
        e["reason"] for e in trace.table("events").to_pylist() if e["kind"] == "not_measured"
    ]
    assert any("OSError" in str(reason) for reason in reasons)
    assert "bootsecret" not in str(reasons)
    (task,) = trace.table("tasks").to_pylist()
    assert task["outcome"] == "ok" and task["cpu_s"] is None and task["wall_s"] is not None


@pytest.mark.timeout(60)
def test_worker_and_nanny_killed_together(cluster, tmp_path):
    """Nobody is left to tell: the scheduler reads the dead worker's slots itself."""
    cluster.worker()
    folder = tmp_path / "run.rmt"
    with Client(scheduler_file=str(cluster.file), timeout=30) as client:
        client.wait_for_workers(1, timeout=30)
        attachment = attach(client, str(folder))
        killer = client.submit(dies, retries=0)
        queued = client.map(double, range(50, 53))
        wait_until(lambda: not client.scheduler_info(n_workers=-1)["workers"])
        client.cancel([killer])
        cluster.worker()
        assert client.gather(queued) == [100, 102, 104]
        facts = attachment.finish()
        assert facts["missing"] == [] and facts["workers"] == 1
    trace = read(folder)
    tasks, events = (trace.table(name).to_pylist() for name in ("tasks", "events"))
    lost = [t for t in tasks if t["outcome"] == "worker_lost"]
    assert [t["outcome_kind"] for t in lost] == ["reported"], cluster.told(tasks, events)
    assert lost[0]["started_ns"] is not None and lost[0]["source"] == "slot"
    (ran,) = [e for e in events if e["kind"] == "executing_at_death"]
    assert ran["rss_bytes"] > 10e6 and 0.5 < ran["duration_s"] < 10
    assert not [e for e in events if e["kind"] == "worker_exit"]
    assert len([t for t in trace.table("tasks").to_pylist() if t["outcome"] == "ok"]) == 3


@pytest.mark.timeout(60)
def test_a_scheduler_that_dies_leaves_what_had_arrived(cluster, tmp_path):
    cluster.worker()
    folder = tmp_path / "run.rmt"
    client = Client(scheduler_file=str(cluster.file), timeout=3)
    try:
        client.wait_for_workers(1, timeout=30)
        attachment = attach(client, str(folder))
        assert sum(client.gather(client.map(double, range(10)))) == 90
        wait_until(lambda: sum(t["source"] == "worker" for t in tasks_of(folder)) == 10)
        os.killpg(cluster.processes[0].pid, signal.SIGKILL)
        wait_until(lambda: client.status != "running")
        facts = attachment.finish(timeout_s=2)
        assert facts["missing"]
    finally:
        client.close()
    trace = read(folder)
    assert trace.table("tasks").num_rows == 10
    assert "scheduler_lost" in trace.table("events")["kind"].to_pylist()


@pytest.mark.timeout(60)
@pytest.mark.filterwarnings("ignore:(?s).*Mismatched versions")
@pytest.mark.parametrize("version", ["3.12", "3.13"])
def test_a_worker_of_another_python(cluster, tmp_path, version):
    python = other_python(version)
    cluster.env["PYTHONPATH"] += os.pathsep + str(Path(dask.__file__).parents[1])
    cluster.python = python
    cluster.worker()
    folder = tmp_path / "run.rmt"
    with Client(scheduler_file=str(cluster.file), timeout=30) as client:
        client.wait_for_workers(1, timeout=30)
        attachment = attach(client, str(folder))
        roots = client.map(math.sqrt, [1.0, 4.0, 9.0])
        assert client.gather(roots) == [1.0, 2.0, 3.0]
        assert isinstance(client.submit(math.sqrt, -1.0).exception(), ValueError)
        assert attachment.finish()["missing"] == []
    tasks = tasks_of(folder)
    assert sorted(t["outcome"] for t in tasks) == ["failed", "ok", "ok", "ok"]
    assert all(t["source"] == "worker" and t["cpu_s"] is not None for t in tasks)


def other_python(version):
    """Find an interpreter of another version that can run a worker."""
    roots = [Path(sys.base_prefix).parent, Path("/usr"), Path("/usr/local")]
    found = [p for root in roots for p in (*root.glob(f"{version}.*/bin/python"),
                                           root / "bin" / f"python{version}")]  # fmt: skip
    if f"{sys.version_info.major}.{sys.version_info.minor}" == version:
        pytest.skip("that is this Python")
    env = {**os.environ, "PYTHONPATH": str(Path(dask.__file__).parents[1])}
    for python in found:
        if python.exists():
            command = [str(python), "-c", "import distributed.cli.dask_worker"]
            if subprocess.run(command, env=env, capture_output=True).returncode == 0:
                return str(python)
    pytest.skip(f"no Python {version} that can import distributed")


def tasks_of(folder):
    return read(folder).table("tasks").to_pylist() if list(folder.glob("segments/*")) else []


def wait_until(condition, timeout_s=20.0):
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _sources(ship):
    import json
    import zlib

    return json.loads(zlib.decompress(ship.shipment().packed))


def _with_cargo(ship, cargo):
    def init(self, name, config, cargo_=None):
        ship._Shipped.__init__(self, name, config, cargo)

    return init
