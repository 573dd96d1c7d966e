"""Rows of sizing on Dask where memory is no matter: what the gate costs then."""

from __future__ import annotations

import time
from functools import cache
from typing import Any

from benchmarks.harness import Context, Result, bench, paired_ratio, ratio_result

__all__ = ["small"]

TASKS, TASK_S = 160, 0.05
PLAIN = "rotameter-count"


def small(number: int) -> int:
    """Touch a megabyte and wait."""
    data = bytearray(2**20)
    data[::4096] = b"x" * len(data[::4096])
    time.sleep(TASK_S)
    return len(data)


def total(parts: list[int]) -> int:
    """Add up."""
    time.sleep(TASK_S)
    return sum(parts)


def _count(dask_scheduler: Any = None) -> None:
    """Let the scheduler count how many tasks were queued, without a gate of ours."""
    from distributed.diagnostics.plugin import SchedulerPlugin

    class Counting(SchedulerPlugin):  # type: ignore[misc]
        name = PLAIN
        queued = 0

        def transition(self, key: Any, start: str, finish: str, *_: Any, **__: Any) -> None:
            self.queued += finish == "queued"

    dask_scheduler.add_plugin(Counting())


def _counted(dask_scheduler: Any = None) -> int:
    plugin = dask_scheduler.plugins[PLAIN]
    queued, plugin.queued = plugin.queued, 0
    return int(queued)


@cache
def _measured(rounds: int) -> tuple[Any, dict[bool, set[int]]]:
    from distributed import Client, LocalCluster, wait

    import rotameter as rm

    queued: dict[bool, set[int]] = {True: set(), False: set()}
    with (
        LocalCluster(
            n_workers=2,
            threads_per_worker=2,
            memory_limit="2GiB",
            dashboard_address=":0",
            silence_logs=50,
        ) as made,
        Client(made) as client,
    ):
        client.wait_for_workers(2)
        client.run_on_scheduler(_count)

        def once(on: bool) -> dict[str, float]:
            allocating = rm.dask.allocate(client) if on else None
            began = time.perf_counter()
            parts = client.map(small, range(TASKS), pure=False)
            sums = [
                client.submit(total, parts[n : n + 16], pure=False) for n in range(0, TASKS, 16)
            ]
            wait(sums)
            took = time.perf_counter() - began
            del parts, sums
            queued[on].add(client.run_on_scheduler(_counted))
            if allocating is not None:
                allocating.close()
            return {"wall": took}

        return paired_ratio(once, rounds=rounds), queued


@bench("allocate_no_harm_ratio", issue=5, target="<= 1.02")
def no_harm(context: Context) -> Result:
    """Makespan of light tasks with the gate over without."""
    return ratio_result(_measured(15)[0], 1.02)


@bench("allocate_no_harm_queued", issue=5, target="== 0")
def queued(context: Context) -> Result:
    """Tasks that were queued with the gate, less those without it."""
    with_gate, without = _measured(15)[1][True], _measured(15)[1][False]
    wrong = max(with_gate | without) - min(with_gate | without)
    return Result(float(wrong), "tasks", note=f"{sorted(with_gate)} against {sorted(without)}")
