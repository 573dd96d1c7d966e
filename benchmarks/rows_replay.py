"""Rows of the replay engine: law 5, its speed, and how near it comes to real runs."""

from __future__ import annotations

import random
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import Context, Result, bench

__all__ = ["layered", "random_model", "traced"]

_MODELS = 1_000
_TASKS = 100_000


def random_model(rng: np.random.Generator) -> Any:
    """Make any small model: parts, gates, releases, memory, lives, links, storage."""
    from rotameter.profiler.replay import Worker, make_model

    n, w = int(rng.integers(0, 60)), int(rng.integers(1, 5))
    deps = [(i, j) for i in range(n) for j in range(max(0, i - 15), i) if rng.random() < 0.1]
    workers = [
        Worker(
            f"w{k}",
            cores=float(rng.integers(1, 5)),
            memory_bytes=float(rng.integers(1, 10)),
            from_s=float(rng.choice([0.0, 0.0, 1.5])),
            until_s=float(rng.choice([np.inf, np.inf, 5.0])),
        )
        for k in range(w)
    ]
    return make_model(
        rng.exponential(1.0, n),
        deps,
        workers,
        parts_s={name: rng.exponential(0.2, n) for name in ("read", "overhead", "latency")},
        group=rng.integers(-1, 3, n).tolist(),
        groups=("a", "b", "c"),
        cores=rng.choice([0.0, 1.0, 1.0, 1.0, 2.0, 9.0], n).tolist(),
        memory_bytes=rng.integers(0, 12, n).astype(float).tolist(),
        bytes_={name: rng.exponential(1.0, n) for name in ("read", "write", "received")},
        home=rng.integers(-1, w, n).tolist(),
        pinned=(rng.random(n) < 0.4).tolist(),
        release_s=(rng.exponential(2.0, n) * (rng.random(n) < 0.2)).tolist(),
        link_bps=[None, 3.0][int(rng.integers(0, 2))],
        storage_bps=[None, 5.0][int(rng.integers(0, 2))],
    )


@bench("replay_law5_violations", issue=4, target="== 0")
def law5(_: Context) -> Result:
    """Replay random models and random changes of them; count what breaks law 5."""
    from rotameter.profiler import replay
    from rotameter.profiler.replaying.check import violations

    seed = random.SystemRandom().randrange(2**32)
    rng = np.random.default_rng(seed)
    changes = [
        replay.Scale("a", "wall", 0.5),
        replay.Merge("a", 3),
        replay.Split("b", 3),
        replay.Drop("c"),
        replay.Workers(2),
        replay.Place("bytes"),
        replay.Order("critical"),
        replay.Stage("a", 1.0, 1.0, 0.1, 0.1),
    ]
    wrong, first = 0, ""
    for number in range(_MODELS):
        model = random_model(rng)
        if number % 2:
            model = changes[int(rng.integers(0, len(changes)))].apply(model)
        schedule = replay.simulate(model)
        found = violations(model, schedule)
        again = replay.simulate(model)
        if schedule.end_s.tobytes() != again.end_s.tobytes():
            found.append("two replays differ")
        wrong += len(found)
        first = first or "; ".join(found)
    return Result(wrong, "violations", note=f"seed {seed}, {_MODELS} models {first}".strip())


def layered(n: int, seed: int = 0) -> Any:
    """Make a trace of ``n`` tasks in 20 layers of two inputs each on 16 workers of 4 threads."""
    import pyarrow as pa

    from rotameter.profiler.replay import Worker, make_model, simulate
    from rotameter.profiler.trace import Trace

    rng = np.random.default_rng(seed)
    layer = np.arange(n) * 20 // n
    first = np.searchsorted(layer, np.arange(21))
    pairs = [
        np.stack([np.arange(first[k], first[k + 1]), rng.integers(first[k - 1], first[k], size)], 1)
        for k in range(1, 20)
        for size in [first[k + 1] - first[k]] * 2
    ]
    deps = np.unique(np.concatenate(pairs), axis=0)
    workers = [Worker(f"w{k}", cores=4) for k in range(16)]
    made = simulate(make_model(rng.lognormal(-1, 0.7, n), deps, workers))

    def ns(seconds: Any, late_ns: int = 0) -> Any:
        return pa.array((seconds * 1e9).astype("int64") + 10**9 + late_ns)

    tasks = pa.table(
        {
            "task_id": [f"t{k}" for k in range(n)],
            "group": [f"g{k}" for k in layer.tolist()],
            "worker": [f"w{k}" for k in made.worker.tolist()],
            "submitted_ns": ns(np.zeros(n)),
            "ready_ns": ns(made.ready_s),
            "started_ns": ns(made.begin_s, 1000),
            "ended_ns": ns(made.end_s),
            "outcome": ["ok"] * n,
        }
    )
    names = {
        "task_id": [f"t{k}" for k in deps[:, 0].tolist()],
        "depends_on": [f"t{k}" for k in deps[:, 1].tolist()],
    }
    lives = {
        "worker": [f"w{k}" for k in range(16)],
        "cores": [4.0] * 16,
        "started_ns": [10**9] * 16,
    }
    tables = {"tasks": tasks, "deps": pa.table(names), "workers": pa.table(lives)}
    return Trace.from_tables(tables, {"engine": "dask"})


@bench("replay_100k_s", issue=4, target="<= 5")
def speed(_: Context) -> Result:
    """Make the model of a trace of 100,000 tasks and replay it."""
    from rotameter.profiler.replay import Replayer

    made = Replayer(layered(_TASKS))
    began = time.perf_counter()
    model = made.model
    built = time.perf_counter()
    done = made.replay
    ended = time.perf_counter()
    assert model is not None and done is not None
    nodes, error = model.n, done.replay_error_ratio
    note = f"{nodes:,} nodes: model {built - began:.2f} s, replay {ended - built:.2f} s"
    return Result(ended - began, "s", note=f"{note}, error {error:.5f}")


@bench("replay_saving_call_100k_s", issue=4, target="<= 2")
def saving(_: Context) -> Result:
    """Price one change of 100,000 tasks, the baseline being there."""
    from rotameter.profiler.replay import Replayer, Scale

    made = Replayer(layered(_TASKS))
    made.saving(Scale("g1", "wall", 0.9))
    began = time.perf_counter()
    found = made.saving(Scale("g3", "wall", 0.5))
    return Result(time.perf_counter() - began, "s", note=f"{found.mid_s} s saved, {found.how}")


# ---------------------------------------------------------------------- real runs


def _nap(x: int, seconds: float) -> int:
    time.sleep(seconds)
    return x


def _uneven(x: int, seed: int) -> int:
    time.sleep(random.Random(seed + x).choice([0.05, 0.1, 0.2, 0.6]))
    return x


def _block(x: int) -> Any:
    time.sleep(0.02)
    return np.ones(400_000) * x


def _add(a: Any, b: Any) -> Any:
    time.sleep(0.02)
    return a + b


def _map(client: Any, seed: int) -> None:
    client.gather(client.map(_uneven, range(40), seed=seed))


def _tree(client: Any, _: int) -> None:
    parts = client.map(_block, range(24))
    while len(parts) > 1:
        pairs = zip(parts[::2], parts[1::2], strict=False)
        parts = [client.submit(_add, a, b) for a, b in pairs] + parts[len(parts) // 2 * 2 :]
    parts[0].result()


def _shuffle(client: Any, seed: int) -> None:
    import dask.dataframe as dd
    import pandas as pd

    rng = np.random.default_rng(seed)
    table = pd.DataFrame({"k": rng.integers(0, 1000, 400_000), "v": rng.random(400_000)})
    frame = dd.from_pandas(table, npartitions=24)
    frame.shuffle("k").map_partitions(lambda part: part.groupby("k").v.sum()).sum().compute()
    del client


def _rounds(client: Any, _: int) -> None:
    for number in range(5):
        client.gather(client.map(_nap, range(number * 20, number * 20 + 9), seconds=0.1))
        time.sleep(0.15)


def traced(work: Any, threads: int, seed: int) -> Any:
    """Run work on a real cluster of two worker processes and give its trace."""
    from distributed import Client, LocalCluster

    import rotameter as rm

    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "run.rmt")
        with (
            LocalCluster(
                n_workers=2,
                threads_per_worker=threads,
                dashboard_address=":0",
                memory_limit="2GiB",
            ) as cluster,
            Client(cluster) as client,
        ):
            client.wait_for_workers(2)
            with rm.trace(path, client=client):
                work(client, seed)
        return rm.open(path)


def _error(work: Any) -> Result:
    from rotameter.profiler.replay import Replayer

    seed = random.SystemRandom().randrange(2**31)
    found, words = 0.0, []
    for threads in (1, 2):
        done = Replayer(traced(work, threads, seed)).replay
        assert done is not None
        found = max(found, abs(done.replay_error_ratio))
        words.append(
            f"{threads} threads: {done.replay_error_ratio:+.4f} of {done.recorded_s:.2f} s"
        )
    return Result(found, "ratio", note=f"seed {seed}; " + "; ".join(words))


@bench("replay_error_ratio_map", issue=4, target="<= 0.05")
def error_map(_: Context) -> Result:
    """Replay a real map of uneven tasks."""
    return _error(_map)


@bench("replay_error_ratio_tree", issue=4, target="<= 0.05")
def error_tree(_: Context) -> Result:
    """Replay a real tree reduction of 3.2 MB arrays."""
    return _error(_tree)


@bench("replay_error_ratio_shuffle", issue=4, target="<= 0.05")
def error_shuffle(_: Context) -> Result:
    """Replay a real peer-to-peer shuffle."""
    return _error(_shuffle)


@bench("replay_error_ratio_rounds", issue=4, target="<= 0.05")
def error_rounds(_: Context) -> Result:
    """Replay a real program that submits, waits and works by turns."""
    return _error(_rounds)


@bench("replay_error_ratio_demo", issue=4, target="<= 0.05")
def error_demo(_: Context) -> Result:
    """Replay a real run of examples/demo.py."""
    import subprocess
    import sys

    import rotameter as rm
    from rotameter.profiler.replay import Replayer

    script = Path(__file__).parent.parent / "examples" / "demo.py"
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "demo.rmt")
        command = [sys.executable, "-m", "rotameter", "run", "-o", path, str(script)]
        subprocess.run(command, check=True, capture_output=True, timeout=300)
        done = Replayer(rm.open(path)).replay
    assert done is not None
    note = f"{done.replay_error_ratio:+.4f} of {done.recorded_s:.2f} s, {done.model.n} nodes"
    return Result(abs(done.replay_error_ratio), "ratio", note=note)
