"""The admission gate on real workers: what Dask loses to memory comes back and completes."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import dask
import pytest
from distributed import Client, LocalCluster, wait

import rotameter as rm
from rotameter.errors import PolicyError

pytestmark = pytest.mark.e2e

MIB = 2**20
LIMIT = 420 * MIB
QUIET = {
    "distributed.worker.memory.target": False,
    "distributed.worker.memory.spill": False,
    "distributed.worker.memory.pause": False,
    "distributed.admin.log-format": "%(message)s",
}


def fill(number: int, size_mib: int, seconds: float) -> int:
    """Hold so much memory for a while."""
    data = bytearray(size_mib * MIB)
    data[::4096] = b"x" * len(data[::4096])
    time.sleep(seconds)
    return len(data) // MIB


def light(number: int) -> int:
    time.sleep(0.02)
    return number


def short(number: int, where: str) -> int:
    """Run out of memory, as Python says it, the first time."""
    mark = Path(where) / f"tried-{number}"
    if not mark.exists():
        mark.touch()
        raise MemoryError("no more")
    return number


@pytest.fixture
def cluster() -> Any:
    with (
        dask.config.set(QUIET),
        LocalCluster(
            n_workers=2, threads_per_worker=2, memory_limit=LIMIT, dashboard_address=":0"
        ) as made,
        Client(made) as client,
    ):
        client.wait_for_workers(2)
        yield client


def both(client: Client, heavy: int = 8) -> list[Any]:
    large = client.map(fill, range(heavy), size_mib=170, seconds=0.6, pure=False)
    small = client.map(light, range(30), pure=False)
    return [*large, *small]


def test_two_modes_of_memory_complete_without_a_failure(cluster: Any, tmp_path: Path) -> None:
    state = tmp_path / "learnt.json"
    with rm.dask.allocate(cluster, state=state) as allocating:
        made = cluster.gather(both(cluster))
        assert made[:8] == [170] * 8 and made[8:] == list(range(30))
        facts = allocating.facts()
        assert facts["hungry"] == ["fill"] and facts["granted"] == facts["waiting"] == 0
        assert "memory" in allocating.explain("fill")
    assert state.exists()
    # What was learnt serves the next time: nothing dies any more.
    with rm.dask.allocate(cluster, state=state) as allocating:
        made = cluster.gather(both(cluster))
        assert made[:8] == [170] * 8
        assert allocating.facts()["killed"] == 0


def test_a_python_memory_error_comes_back_with_more_and_costs_no_retry(
    cluster: Any, tmp_path: Path
) -> None:
    with rm.dask.allocate(cluster) as allocating:
        futures = cluster.map(short, range(4), where=str(tmp_path), retries=0, pure=False)
        assert cluster.gather(futures) == [0, 1, 2, 3]
        assert allocating.facts()["memory_errors"] == 4


def test_what_no_worker_can_hold_is_an_error_that_says_so(cluster: Any) -> None:
    def always(number: int) -> int:
        raise MemoryError("never enough")

    with rm.dask.allocate(cluster):
        future = cluster.submit(always, 1, pure=False)
        began = time.monotonic()
        wait([future], timeout=30)
        assert time.monotonic() - began < 12
        with pytest.raises(PolicyError, match="the largest worker has") as caught:
            future.result()
        # The task's own error is not lost: its cause, and what a program may catch.
        assert isinstance(caught.value, MemoryError)
        assert repr(caught.value.__cause__) == "MemoryError('never enough')"
        assert cluster.submit(light, 5).result() == 5


def test_what_the_user_set_is_left_alone(cluster: Any) -> None:
    (worker, _) = cluster.scheduler_info()["workers"]
    with rm.dask.allocate(cluster, memory={"light": "300 MiB"}) as allocating:
        pinned = cluster.map(light, range(6), workers=[worker], pure=False)
        assert cluster.gather(pinned) == list(range(6))
        assert {tuple(where) for where in cluster.who_has(pinned).values()} == {(worker,)}
        assert allocating.facts()["held"] == 0


def never(number: int) -> int:
    raise MemoryError(f"never enough for {number}")


def test_the_memory_error_of_what_is_left_alone_is_the_users(cluster: Any) -> None:
    """Nobody gives it more, so it does not run again for ever."""
    (worker, _) = cluster.scheduler_info()["workers"]
    with rm.dask.allocate(cluster) as allocating:
        future = cluster.submit(never, 7, workers=[worker], pure=False)
        with pytest.raises(MemoryError, match="never enough for 7"):
            future.result(timeout=20)
        assert allocating.facts()["memory_errors"] == 1 and not allocating.facts()["faults"]
        assert cluster.submit(light, 5).result(timeout=20) == 5


def test_explain_tells_of_tasks_that_ran_beside_others(cluster: Any) -> None:
    with rm.dask.allocate(cluster, observe=True) as allocating:
        cluster.gather(cluster.map(fill, range(8), size_mib=30, seconds=0.2, pure=False))
        limit = time.monotonic() + 10
        while "no task of this group has completed" in allocating.explain("fill"):
            assert time.monotonic() < limit
            time.sleep(0.05)
        said = allocating.explain("fill")
        assert "used at most" in said and "on this cluster: not held" in said


def test_watching_alone_holds_nothing(cluster: Any) -> None:
    with rm.dask.allocate(cluster, observe=True) as allocating:
        futures = cluster.map(fill, range(4), size_mib=60, seconds=0.1, pure=False)
        assert cluster.gather(futures) == [60] * 4
        facts = allocating.facts()
        assert facts["held"] == facts["admitted"] == facts["forgiven"] == 0
