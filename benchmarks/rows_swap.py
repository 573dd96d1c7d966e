"""Rows of replacing an allocator while it serves."""

from __future__ import annotations

import threading
import time
from functools import cache
from typing import Any

import numpy as np

from benchmarks.harness import Context, Result, bench

__all__ = ["SWAPS"]

SWAPS = 1_000
RATE_PER_S = 10_000
BATCH = 5


class _Constant:
    """Gives one amount, and says by its policy's name which one it is."""

    def __init__(self, number: int) -> None:
        self.number = number

    def request(self, task: Any, view: Any = None) -> Any:
        from rotameter.values import Allocation

        return Allocation(memory_bytes=10**9 + self.number, policy=str(self.number))

    def observe(self, record: Any) -> None:
        """Learn nothing."""

    def exceeded(self, task: Any, attempt: Any) -> Any:
        from rotameter.values import Allocation

        return Allocation(memory_bytes=2 * 10**9 + self.number)

    def explain(self, task: Any) -> str:
        return "memory: a constant"


@cache
def _run() -> dict[str, Any]:
    """Swap while another thread decides at a steady rate in batches of five."""
    from rotameter.allocator.needs import Record, Task
    from rotameter.allocator.swap import Swappable

    held = Swappable(_Constant(0), 64e9)  # type: ignore[arg-type]
    for number in range(2_000):
        held.observe(Record(str(number), "g", "ok", {"memory_bytes": 1e9}, wall_s=1.0))
    stop = threading.Event()
    stalls: list[float] = []
    counts = {"asked": 0, "answered": 0, "mixed": 0, "doubled": 0}

    def serve() -> None:
        due, number = time.perf_counter(), 0
        while not stop.is_set():
            due += BATCH / RATE_PER_S
            tasks = [Task(str(number + k), "g") for k in range(BATCH)]
            number += BATCH
            began = time.perf_counter()
            made = held.batch(tasks)
            stalls.append(time.perf_counter() - began)
            counts["asked"] += BATCH
            counts["answered"] += len(made)
            counts["mixed"] += len({one.version for one in made}) > 1
            counts["mixed"] += len({one.made.policy for one in made}) > 1  # type: ignore[union-attr]
            wait = due - time.perf_counter()
            if wait > 0:
                time.sleep(wait)
            else:
                due = time.perf_counter()

    thread = threading.Thread(target=serve)
    began = time.perf_counter()
    thread.start()
    versions = []
    for number in range(1, SWAPS + 1):
        versions.append(held.swap(lambda n=number: _Constant(n)))
        time.sleep(0.004)
    took = time.perf_counter() - began
    stop.set()
    thread.join()
    counts["doubled"] = len(versions) - len(set(versions))
    return {
        **counts,
        "p99_ms": float(np.percentile(stalls, 99)) * 1e3,
        "most_ms": max(stalls) * 1e3,
        "rate": counts["asked"] / took,
    }


@bench("sizing_swap_wrong", issue=5, target="== 0")
def wrong(context: Context) -> Result:
    """Decisions lost, doubled or mixed in a batch over 1,000 swaps at 10,000 decisions a second."""
    got = _run()
    lost = got["asked"] - got["answered"]
    note = f"{got['asked']:,} decisions, {got['rate']:,.0f} a second"
    return Result(lost + got["doubled"] + got["mixed"], "decisions", note=note, detail=got)


@bench("sizing_swap_stall_ms", issue=5, target="<= 5")
def stall(context: Context) -> Result:
    """How long a batch of decisions takes meanwhile, 99th percentile."""
    got = _run()
    return Result(got["p99_ms"], "ms", note=f"longest {got['most_ms']:.1f} ms", detail=got)
