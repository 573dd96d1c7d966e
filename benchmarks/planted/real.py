"""Real runs: a cluster, a traced workflow of sections in a row, the seconds it took."""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import time
import uuid
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dask
from distributed import Client, LocalCluster, SchedulerPlugin, wait

from benchmarks.planted import decoys, work
from benchmarks.planted.base import Cluster, RealCause

__all__ = ["Env", "Plan", "base_sizes", "cluster", "run_once", "run_sections"]

_WORDS = (
    "open_store", "ingest", "regrid", "clean", "align", "smooth", "project", "mosaic", "stack",
    "filter", "score", "label", "train", "predict", "quantise", "pack", "annotate", "resample",
    "detrend", "mask", "segment", "register", "normalise", "index", "convolve", "tile",
    "histogram", "enrich", "join_years", "window", "fit_curve", "rank_genes", "sift",
)  # fmt: skip


class BusyScheduler(SchedulerPlugin):
    """A user's plug-in that computes at each transition, in the scheduler's loop."""

    name = "user-bookkeeping"

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def transition(self, key: Any, start: str, finish: str, *args: Any, **kwargs: Any) -> None:
        until = time.thread_time() + self.seconds
        while time.thread_time() < until:
            sum(range(200))


@contextlib.contextmanager
def cluster(shape: Cluster) -> Iterator[Client]:
    """Start a cluster of worker processes, warm them up, and give a client."""
    env = dict.fromkeys(
        ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), shape.blas_threads
    )
    for name in env:  # a nanny leaves them in our own environment, where they would win
        os.environ.pop(name, None)
    settings = {
        "distributed.scheduler.worker-saturation": shape.saturation,
        "distributed.nanny.pre-spawn-environ": env,
        "distributed.worker.memory.terminate": False,
        "distributed.admin.large-graph-warning-threshold": "1GB",
    }
    with (
        dask.config.set(settings),
        LocalCluster(
            n_workers=shape.workers,
            threads_per_worker=shape.threads,
            memory_limit=shape.memory_bytes,
            processes=True,
            dashboard_address=":0",
            silence_logs=50,
        ) as made,
        Client(made) as client,
    ):
        client.run(work.warm)
        client.gather(client.map(work.load, [(number, 0.002, 80) for number in range(40)]))
        if shape.plugin_s:
            client.register_plugin(BusyScheduler(shape.plugin_s))
        yield client


class Env:
    """What a section of a workflow is built with.

    Sections follow each other: the root tasks of one depend on ``after``, the last result of
    the section before it.
    """

    def __init__(self, client: Client, place: Path, inputs: Path, seed: int) -> None:
        self.client = client
        self.place = place
        self.inputs = inputs
        self.tag = uuid.uuid4().hex
        self.after: Any = None
        self.kept: list[Any] = []
        self.held: list[Any] = []
        words = list(_WORDS)
        random.Random(seed).shuffle(words)
        self._words = itertools.chain(words, (f"stage_{w}" for w in words))

    def name(self) -> str:
        """Give a name for a group of tasks, another one each time."""
        return next(self._words)

    def workers(self) -> list[str]:
        """Give the addresses of the workers, in the order of their names."""
        known = self.client.scheduler_info(n_workers=-1)["workers"]
        return sorted(known, key=lambda address: str(known[address]["name"]))

    def map(
        self,
        function: Any,
        items: Sequence[Any],
        name: str = "",
        keep: bool = False,
        **more: Any,
    ) -> list[Any]:
        """Submit a group of tasks; its root tasks wait for the section before.

        What nothing later depends on has to be kept, else Dask forgets it before it runs.
        """
        prefix = f"{name or self.name()}-{uuid.uuid4().hex}"
        keys = [(prefix, number) for number in range(len(items))]
        futures = self.client.map(function, items, key=keys, after=self.after, **more)
        if keep:
            self.kept.extend(futures)
        return list(futures)

    def one(
        self, function: Any, *args: Any, name: str = "", keep: bool = False, **more: Any
    ) -> Any:
        """Submit one task."""
        key = f"{name or self.name()}-{uuid.uuid4().hex}"
        future = self.client.submit(function, *args, key=key, after=self.after, **more)
        if keep:
            self.kept.append(future)
        return future

    def finish(self, parts: Sequence[Any], seconds: float = 0.005) -> None:
        """End a section: what follows depends on the merge of its parts."""
        self.after = self.one(work.merge, list(parts), seconds)

    def barrier(self) -> None:
        """Wait for the sections before, as a script does that looks at a result."""
        if self.after is not None:
            self.after.result()

    def folder(self, name: str) -> Path:
        """Give a new folder of this run."""
        made = self.place / f"{name}-{uuid.uuid4().hex[:8]}"
        made.mkdir(parents=True)
        return made


@dataclass(frozen=True, slots=True)
class Plan:
    """One workflow: its sizes, its decoys, its causes in their order."""

    seed: int
    causes: tuple[RealCause, ...]
    sizes: tuple[dict[str, Any], ...]
    before: dict[str, Any]
    ending: dict[str, Any]
    decoys: tuple[str, ...]

    def shape(self, on: Sequence[bool]) -> Cluster:
        """Give the cluster; the first cause that wants another than the usual one decides."""
        for cause, sizes, planted in zip(self.causes, self.sizes, on, strict=True):
            for probe in (planted, not planted):
                if cause.cluster(sizes, probe) != Cluster():
                    return cause.cluster(sizes, planted)
        return Cluster()


def base_sizes(rng: random.Random) -> dict[str, Any]:
    """Draw the sizes of a section without a cause."""
    return {
        "pieces": rng.randrange(3, 6),
        "load_s": rng.uniform(0.02, 0.05),
        "transform_s": rng.uniform(0.03, 0.08),
        "bytes": rng.randrange(1, 12) * 100_000,
        "ways": rng.randrange(1, 3),
        "merge_s": rng.uniform(0.005, 0.03),
    }


def base_section(env: Env, sizes: Mapping[str, Any]) -> None:
    """Load pieces, transform each in one or two ways, merge."""
    rng = random.Random(sizes["pieces"])
    items = [
        (number, sizes["load_s"] * rng.uniform(0.85, 1.15), sizes["bytes"])
        for number in range(2 * sizes["pieces"])
    ]
    pieces = env.map(work.load, items)
    for _ in range(sizes["ways"]):
        pieces = env.map(work.transform, pieces, seconds=sizes["transform_s"])
    env.finish(env.map(work.shrink, pieces), sizes["merge_s"])


def workflow(env: Env, plan: Plan, on: Sequence[bool]) -> None:
    """Submit all sections, wait for the end."""
    base_section(env, plan.before)
    decoys.plant(env, plan.decoys, plan.seed)
    for cause, sizes, planted in zip(plan.causes, plan.sizes, on, strict=True):
        cause.section(env, sizes, planted)
    base_section(env, plan.ending)
    env.after.result()
    wait(env.kept)


def _timed(client: Client, trace: Path, submit: Callable[[], None]) -> float:
    """Call something inside a trace; give its seconds, without the tracer's start and end."""
    import rotameter

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with rotameter.trace(trace, client=client):
            began = time.perf_counter()
            submit()
            return time.perf_counter() - began


def run_once(
    client: Client, plan: Plan, on: Sequence[bool], trace: Path, place: Path, inputs: Path
) -> float:
    """Run a workflow traced; give its seconds, as the script that runs it would take them."""
    env = Env(client, place, inputs, plan.seed)
    for cause, sizes, planted in zip(plan.causes, plan.sizes, on, strict=True):
        if cause.setup is not None:
            cause.setup(env, sizes, planted)
    took = _timed(client, trace, lambda: workflow(env, plan, on))
    env.kept.clear()
    env.held.clear()
    env.after = None
    return took


def run_sections(
    client: Client,
    sections: Sequence[Mapping[str, Any]],
    chosen: Sequence[str],
    seed: int,
    trace: Path,
    place: Path,
) -> float:
    """Run sections without a cause, with decoys after the first."""
    env = Env(client, place, place, seed)

    def submit() -> None:
        for number, sizes in enumerate(sections):
            base_section(env, sizes)
            if number == 0:
                decoys.plant(env, chosen, seed)
        env.after.result()
        wait(env.kept)

    took = _timed(client, trace, submit)
    env.kept.clear()
    env.after = None
    return took
