"""Children of every kind join the trace by themselves; every task arrives exactly once."""

from __future__ import annotations

import collections
import json
import os
import subprocess
import sys

import pytest

from rotameter.profiler.live.segment import read_segment
from rotameter.profiler.replaceable import why_kept

pytestmark = pytest.mark.e2e

MODULE = """
import concurrent.futures, multiprocessing, os, subprocess, sys, time
from rotameter.profiler.live.tracer import span, task

@task(group="square")
def square(x):
    if x == 13:
        raise ValueError("thirteen")
    return x * x

@task(group="outer")
def outer(x):
    with span("inner"):
        try:
            return square(x)
        except ValueError:
            return -1

def into(queue, x):
    queue.put(outer(x))
"""

MAIN = """
from work import *
from rotameter.profiler.live import process

def run(kind, folder):
    session = process.start(folder)
    name, _, method = kind.partition("-")
    context = multiprocessing.get_context(method or None)
    if name == "executor":
        with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as pool:
            result = list(pool.map(outer, range(30)))
    elif name == "open":  # the pool outlives the trace
        pool = concurrent.futures.ProcessPoolExecutor(2, mp_context=context)
        result = list(pool.map(outer, range(30)))
    elif name == "pool":
        with context.Pool(2) as pool:
            result = pool.map(outer, range(30))
    elif name == "process":
        queue = context.Queue()
        children = [context.Process(target=into, args=(queue, x)) for x in range(3)]
        for child in children:
            child.start()
        result = sorted(queue.get() for _ in children)
        for child in children:
            child.join()
    elif name == "fork":
        @task(group="parent")
        def parent():
            pid = os.fork()
            if pid == 0:
                outer(1)
                process._stop_own()
                os._exit(0)
            os.waitpid(pid, 0)
            return outer(2)
        result = [parent()]
    elif name == "script":
        code = "import work; print([work.outer(x) for x in range(3)])"
        result = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True,
                                text=True).stdout.strip()
    process.stop(session)
    assert "ROTAMETER_LIVE" not in os.environ
    if name == "open":
        result = list(pool.map(outer, range(30)))
        pool.shutdown()
    print(result)

if __name__ == "__main__":
    run(*sys.argv[1:])
"""


def _run(tmp_path, kind):
    (tmp_path / "work.py").write_text(MODULE)
    (tmp_path / "main.py").write_text(MAIN)
    folder = tmp_path / "t.rmt"
    command = [sys.executable, "-W", "error", str(tmp_path / "main.py"), kind, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout.strip(), _tables(folder)


def _tables(folder):
    tables = collections.defaultdict(list)
    for path in (folder / "segments").glob("*.seg"):
        read = read_segment(path.read_bytes())
        assert not read.torn_bytes
        for frame in read.frames:
            for row in zip(*frame.values, strict=True):
                tables[frame.table].append(dict(zip(frame.columns, row, strict=True)))
    return tables


METHODS = ["fork", "spawn", "forkserver"]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", ["executor", "pool", "open"])
def test_every_task_of_a_pool_arrives_once(tmp_path, name, method):
    printed, tables = _run(tmp_path, f"{name}-{method}")
    assert json.loads(printed) == [-1 if x == 13 else x * x for x in range(30)]
    tasks = tables["tasks"]
    assert len({row["task_id"] for row in tasks}) == len(tasks) == 60
    groups = collections.Counter((row["group"], row["outcome"]) for row in tasks)
    assert groups == {("outer", "ok"): 30, ("square", "ok"): 29, ("square", "failed"): 1}
    outer = {row["task_id"] for row in tasks if row["group"] == "outer"}
    assert {row["parent"] for row in tasks if row["group"] == "square"} == outer
    assert len(tables["intervals"]) == 30


@pytest.mark.parametrize("method", METHODS)
def test_every_process_of_its_own_arrives(tmp_path, method):
    printed, tables = _run(tmp_path, f"process-{method}")
    assert json.loads(printed) == [0, 1, 4]
    assert len(tables["tasks"]) == 6
    assert len({row["worker"] for row in tables["tasks"]}) == 3
    # The machine's cores and memory are everybody's: they are counted once.
    assert {row["name"] for row in tables["workers"]} == {"client", "process"}
    for row in tables["workers"]:
        known = row["cores"] is not None, row["memory_bytes"] is not None
        assert known == ((row["name"] == "client"),) * 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_bare_fork_inside_a_task(tmp_path):
    printed, tables = _run(tmp_path, "fork")
    assert printed == "[4]"
    tasks = tables["tasks"]
    (parent,) = [row for row in tasks if row["group"] == "parent"]
    outers = [row for row in tasks if row["group"] == "outer"]
    assert len(outers) == 2 and len(tasks) == 5
    assert {row["parent"] for row in outers} == {parent["task_id"]}
    assert len({row["worker"] for row in outers}) == 2


def test_a_script_that_is_started_joins(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *filter(None, sys.path)]))
    printed, tables = _run(tmp_path, "script")
    assert printed == "[0, 1, 4]"
    assert len(tables["tasks"]) == 6


KILLED = """
import os, signal, sys, time
from concurrent.futures import ProcessPoolExecutor
import rotameter as rm

@rm.task
def quick(i):
    return i

@rm.task
def victim(i):
    time.sleep(1.5)
    os.kill(os.getpid(), signal.SIGKILL)

if __name__ == "__main__":
    with rm.trace("q.rmt"):
        with ProcessPoolExecutor(1) as pool:
            print(list(pool.map(quick, range(3))))
        try:
            with ProcessPoolExecutor(1) as pool:
                pool.submit(victim, 1).result()
        except Exception as error:
            print(type(error).__name__)
        if len(sys.argv) > 1:
            victim(2)
"""


@pytest.mark.parametrize("main_too", [False, True])
def test_what_a_killed_process_ran_is_in_the_trace(tmp_path, main_too):
    import warnings

    import rotameter as rm

    (tmp_path / "killed.py").write_text(KILLED)
    argv = [sys.executable, "killed.py", *(["too"] if main_too else [])]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.stdout.split()[-1] == "BrokenProcessPool"
    assert why_kept(tmp_path / "q.rmt") is None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rm.errors.TraceWarning)
        trace = rm.open(tmp_path / "q.rmt")
    rows = {
        (row["group"].rpartition(".")[2], row["outcome"]): row
        for row in trace.table("tasks").to_pylist()
    }
    lost = rows["victim", "worker_lost"] if not main_too else rows.get(("victim", "worker_lost"))
    if lost is None:  # The program itself was killed before it could say how the run ended.
        assert ("victim", "running") in rows
        assert "running when it was killed" in rm.diagnose(trace).sentence
        return
    assert (lost["ended_ns"] - lost["started_ns"]) / 1e9 == pytest.approx(1.0, abs=0.7)
    run_s = rm.diagnose(trace).figures[0].value
    assert run_s > 0.9  # Not only what the quick ones took.
    if main_too:
        assert ("victim", "running") in rows
