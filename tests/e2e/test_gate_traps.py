"""The gate where Dask's abstract resources fail: each of their traps, and what the gate does.

Clusters live in this process, with sizes that are only said: nothing fills memory here. The
canaries show what Dask alone does today; one that begins to pass tells that Dask has changed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dask
import pytest
from distributed import Client, LocalCluster, get_client, secede, wait

import rotameter as rm
from rotameter.adapters.dask.gate_state import read_state
from rotameter.errors import AttachError, PolicyError, TracerWarning, UsageError

pytestmark = pytest.mark.e2e

ROOM, HALF = "20 GB", {"big": "10 GB"}
_go = threading.Event()


def big(number: int) -> int:
    _go.wait(20)
    return number


def small(number: int) -> int:
    return number


def little(number: int) -> int:
    time.sleep(0.01)
    return number


@pytest.fixture(autouse=True)
def closed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr("rotameter.adapters.dask.gate.GRACE_S", 0.5)
    _go.clear()
    yield
    _go.set()


@pytest.fixture
def start() -> Iterator[Callable[..., tuple[Any, Any]]]:
    """Make clusters of threads with workers of 20 GB, said to be so."""
    made: list[Any] = []

    def start(workers: int = 1, threads: int = 2, **more: Any) -> tuple[Any, Any]:
        options = {"memory_limit": ROOM, "dashboard_address": ":0", **more}
        cluster = LocalCluster(
            n_workers=workers, threads_per_worker=threads, processes=False, **options
        )
        client = Client(cluster)
        made.extend([cluster, client])
        client.wait_for_workers(workers)
        return cluster, client

    with dask.config.set({"distributed.worker.memory.terminate": False}):
        yield start
        _go.set()
        for one in reversed(made):
            one.close()


def until(true: Callable[[], bool], limit_s: float = 15.0) -> None:
    """Wait for something that another thread brings about."""
    end = time.monotonic() + limit_s
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)


def empty(allocating: Any) -> bool:
    facts = allocating.facts()
    assert not facts["faults"]
    return facts["waiting"] == facts["granted"] == 0


def ledger(dask_scheduler: Any = None) -> list[tuple[float, int]]:
    books = dask_scheduler.plugins["rotameter-gate"].books
    return [(room.granted_bytes, room.running) for room in books.rooms.values()]


def queued(dask_scheduler: Any = None) -> int:
    return len(dask_scheduler.queued)


def test_a_small_task_passes_a_large_one_that_waits(start: Any) -> None:
    _, client = start(workers=1, threads=4)
    with rm.dask.allocate(client, memory={**HALF, "small": "6 GB"}) as allocating:
        held = client.map(big, range(2), pure=False)
        until(lambda: allocating.facts()["waiting"] == 1)
        assert client.submit(small, 1, pure=False).result(timeout=5) == 1
        assert sum(f.status == "finished" for f in held) == 0
        _go.set()
        assert client.gather(held) == [0, 1]


def test_light_tasks_are_still_queued_while_large_ones_are_held(start: Any) -> None:
    _, client = start(workers=2, threads=2)
    with rm.dask.allocate(client, memory=HALF) as allocating:
        held = client.map(big, range(4), pure=False)
        until(lambda: allocating.facts()["waiting"] == 2)
        many = client.map(little, range(60), pure=False)
        until(lambda: client.run_on_scheduler(queued) > 20)
        assert client.gather(many) == list(range(60))
        _go.set()
        assert client.gather(held) == list(range(4))
        until(lambda: empty(allocating))


def test_what_was_queued_when_its_group_was_gated_is_held_too(start: Any) -> None:
    _, client = start(workers=2, threads=2)
    with rm.dask.allocate(client) as allocating:
        futures = client.map(big, range(40), pure=False)
        until(lambda: client.run_on_scheduler(queued) > 20)
        client.run_on_scheduler(gate_group, group="big", amount_bytes=10e9)
        until(lambda: client.run_on_scheduler(queued) == 0)
        until(lambda: allocating.facts()["waiting"] >= 34)
        _go.set()
        assert client.gather(futures) == list(range(40))
        until(lambda: empty(allocating))


def gate_group(group: str, amount_bytes: float, dask_scheduler: Any = None) -> None:
    gate = dask_scheduler.plugins["rotameter-gate"]
    gate._asked[group] = amount_bytes
    gate._gate(group)


def test_what_the_user_restricted_loosely_is_left_to_dask(start: Any) -> None:
    _, client = start(workers=2, threads=2)
    _go.set()
    with rm.dask.allocate(client, memory=HALF) as allocating:
        worker = next(iter(client.scheduler_info()["workers"]))
        futures = client.map(big, range(6), workers=[worker], allow_other_workers=True, pure=False)
        assert client.gather(futures) == list(range(6))
        assert allocating.facts()["held"] == 0


def test_stealing_leaves_nothing_in_the_books(start: Any) -> None:
    _, client = start(workers=2, threads=2)
    _go.set()
    with (
        dask.config.set({"distributed.scheduler.work-stealing": True}),
        rm.dask.allocate(client, memory={**HALF, "little": "6 GB"}) as allocating,
    ):
        futures = client.map(big, range(20), pure=False) + client.map(little, range(80), pure=False)
        wait(futures)
        until(lambda: empty(allocating))
        assert client.run_on_scheduler(ledger) == [(0.0, 0)] * 2


def test_a_worker_that_comes_later_takes_what_waits(start: Any) -> None:
    cluster, client = start(workers=1, threads=2)
    with rm.dask.allocate(client, memory=HALF) as allocating:
        futures = client.map(big, range(3), pure=False)
        until(lambda: allocating.facts()["waiting"] == 2)
        cluster.scale(3)
        until(lambda: allocating.facts()["granted"] == 3)
        assert allocating.facts()["waiting"] == 0
        _go.set()
        assert client.gather(futures) == [0, 1, 2]


def test_what_runs_when_its_group_is_gated_runs_on(start: Any) -> None:
    _, client = start(workers=1, threads=2)
    with rm.dask.allocate(client) as allocating:
        futures = client.map(big, range(2), pure=False)
        until(
            lambda: (
                len(client.processing()) > 0 and sum(map(len, client.processing().values())) == 2
            )
        )
        client.run_on_scheduler(gate_group, group="big", amount_bytes=10e9)
        later = client.map(big, range(10, 13), pure=False)
        until(lambda: allocating.facts()["waiting"] == 3)
        _go.set()
        assert client.gather(futures + later) == [0, 1, 10, 11, 12]
        until(lambda: empty(allocating))


def test_a_large_task_goes_to_the_large_worker(start: Any) -> None:
    cluster, client = start(workers=2, threads=2, memory_limit="4 GB")
    _go.set()
    with rm.dask.allocate(client, memory=HALF) as allocating:
        future = client.submit(big, 1, pure=False)
        assert client.gather(client.map(little, range(8), pure=False)) == list(range(8))
        cluster.new_spec["options"]["memory_limit"] = ROOM
        cluster.scale(3)
        assert future.result(timeout=15) == 1
        limits = {w: i["memory_limit"] for w, i in client.scheduler_info()["workers"].items()}
        (where,) = client.who_has([future])[future.key]
        assert limits[where] == max(limits.values()) > min(limits.values())
        until(lambda: empty(allocating))


def test_what_was_set_above_any_worker_is_an_error_that_names_both(start: Any) -> None:
    _, client = start(workers=1, threads=2, memory_limit="4 GB")
    _go.set()
    with rm.dask.allocate(client, memory=HALF):
        future = client.submit(big, 1, pure=False)
        wait([future], timeout=20)
        with pytest.raises(PolicyError, match="needs 10 GB of memory, which was set .* has 3.. GB"):
            future.result()


def test_what_is_cancelled_while_it_waits_is_forgotten(start: Any) -> None:
    _, client = start(workers=1, threads=2)
    with rm.dask.allocate(client, memory=HALF) as allocating:
        futures = client.map(big, range(6), pure=False)
        until(lambda: allocating.facts()["waiting"] == 5)
        client.cancel(futures)
        _go.set()
        until(lambda: empty(allocating))
        assert client.submit(big, 7, pure=False).result(timeout=10) == 7
        until(lambda: client.run_on_scheduler(ledger) == [(0.0, 0)])


def pause(dask_worker: Any) -> None:
    from distributed.core import Status

    dask_worker.status = Status.paused


def resume(dask_worker: Any) -> None:
    from distributed.core import Status

    dask_worker.status = Status.running


def running(dask_scheduler: Any = None) -> int:
    return len(dask_scheduler.running)


def test_a_paused_worker_is_given_nothing_until_it_goes_on(start: Any) -> None:
    with dask.config.set({"distributed.worker.memory.pause": False}):
        _, client = start(workers=1, threads=2)
    with rm.dask.allocate(client, memory=HALF) as allocating:
        client.run(pause)
        until(lambda: client.run_on_scheduler(running) == 0)
        futures = client.map(big, range(2), pure=False)
        until(lambda: allocating.facts()["waiting"] == 2)
        _go.set()
        client.run(resume)
        assert client.gather(futures) == [0, 1]
        until(lambda: empty(allocating))


def test_a_worker_that_is_retired_gives_back_what_it_had(start: Any) -> None:
    cluster, client = start(workers=2, threads=2)
    with rm.dask.allocate(client, memory=HALF) as allocating:
        futures = client.map(big, range(4), pure=False)
        until(lambda: allocating.facts()["granted"] == 2)
        cluster.scale(1)
        until(lambda: allocating.facts()["granted"] == 1)
        _go.set()
        assert client.gather(futures) == list(range(4))
        until(lambda: empty(allocating))
        assert client.run_on_scheduler(ledger) == [(0.0, 0)]


def test_a_restart_leaves_nothing_and_goes_on(start: Any) -> None:
    cluster, client = start(workers=1, threads=2)
    with rm.dask.allocate(client, memory=HALF) as allocating:
        held = client.map(big, range(4), pure=False)
        until(lambda: allocating.facts()["waiting"] == 3)
        _go.set()
        client.restart(wait_for_workers=False)  # workers without a nanny do not come back
        del held
        assert empty(allocating)
        cluster.scale(0)
        until(lambda: not cluster.workers)
        cluster.scale(1)
        assert client.submit(big, 5, pure=False).result(timeout=20) == 5


def demand(dask_scheduler: Any = None) -> tuple[int, int]:
    seconds = sum(
        dask_scheduler._get_prefix_duration(ts.prefix) for ts in dask_scheduler.unrunnable
    )
    return dask_scheduler.adaptive_target(target_duration=0.5), int(seconds * 1000)


def test_what_is_held_counts_once_where_a_cluster_adapts(start: Any) -> None:
    _, client = start(workers=1, threads=2)
    with rm.dask.allocate(client, memory=HALF) as allocating:
        futures = client.map(big, range(9), pure=False)
        until(lambda: allocating.facts()["waiting"] == 8)
        target, milliseconds = client.run_on_scheduler(demand)
        # Dask takes half a second for a task of which it knows nothing: nine are 4.5 s of work.
        assert milliseconds == 8 * 500 and target == 5  # of two threads each
        _go.set()
        wait(futures)


def test_a_cluster_that_adapts_grows_for_what_is_held(start: Any) -> None:
    cluster, client = start(workers=1, threads=2)
    with rm.dask.allocate(client, memory=HALF) as allocating:
        cluster.adapt(minimum=1, maximum=3, interval="50ms", target_duration="0.5s")
        futures = client.map(big, range(6), pure=False)
        until(lambda: allocating.facts()["granted"] == 3)
        _go.set()
        assert sorted(client.gather(futures)) == list(range(6))


def parent(number: int) -> int:
    client = get_client()
    futures = client.map(big, range(number), pure=False)
    secede()
    return sum(client.gather(futures))


def test_tasks_that_wait_for_tasks_of_their_own_let_them_run(start: Any) -> None:
    _, client = start(workers=1, threads=2)
    _go.set()
    with rm.dask.allocate(client, memory={**HALF, "parent": "10 GB"}) as allocating:
        futures = client.map(parent, range(2, 4), pure=False)
        assert client.gather(futures) == [1, 3]
        until(lambda: empty(allocating))


def short(number: int) -> int:
    raise MemoryError("40 TiB in step 7")


def test_what_was_set_too_low_grows_and_ends(start: Any) -> None:
    _, client = start(workers=1, threads=2)
    with rm.dask.allocate(client, memory={"short": "1 GB"}) as allocating:
        future = client.submit(short, 1, pure=False)
        wait([future], timeout=30)
        with pytest.raises(PolicyError, match="the largest worker has .*40 TiB in step 7"):
            future.result()
        assert allocating.facts()["memory_errors"] < 12


def test_a_client_that_closes_takes_the_gate_along(start: Any, tmp_path: Path) -> None:
    cluster, client = start(workers=1, threads=2)
    _go.set()
    state = tmp_path / "learnt.json"
    with Client(cluster) as other:
        allocating = rm.dask.allocate(other, memory=HALF, state=state)
        with pytest.raises(AttachError):
            rm.dask.allocate(client)
        assert other.submit(big, 1, pure=False).result(timeout=10) == 1
    assert read_state(state) is not None
    allocating.close()
    with rm.dask.allocate(client, memory=HALF) as again:
        assert client.submit(big, 2, pure=False).result(timeout=10) == 2
        again.close()


def disown(dask_scheduler: Any = None) -> None:
    dask_scheduler.plugins["rotameter-gate"].owner = "Client-that-died"


def test_a_gate_that_was_left_behind_is_replaced(start: Any) -> None:
    _, client = start(workers=1, threads=2)
    old = rm.dask.allocate(client, memory=HALF)
    futures = client.map(big, range(3), pure=False)
    until(lambda: old.facts()["waiting"] == 2)
    client.run_on_scheduler(disown)
    with rm.dask.allocate(client, memory=HALF):
        _go.set()
        assert client.gather(futures) == [0, 1, 2]


@pytest.mark.filterwarnings("ignore:sizing did not end:rotameter.errors.TracerWarning")
def test_a_cluster_that_is_gone_is_no_error(start: Any) -> None:
    cluster, client = start(workers=1, threads=2)
    with rm.dask.allocate(client, memory=HALF) as allocating:
        cluster.close()
    allocating.close()  # once more, without a word
    assert allocating._over.is_set()


@pytest.mark.parametrize("amount", ["much", -1, 0, float("nan"), True, None, 4, 512.0, "4", "4e3"])
def test_what_is_no_amount_is_refused(amount: Any) -> None:
    with pytest.raises(UsageError, match="memory of 'big'"):
        rm.dask.allocate(None, memory={"big": amount})
    with pytest.raises(UsageError, match="no mapping"):
        rm.dask.allocate(None, memory="2 GB")  # type: ignore[arg-type]


def test_what_cannot_be_done_is_said_at_once(start: Any, tmp_path: Path) -> None:
    cluster, client = start(workers=1, threads=2)
    with pytest.raises(UsageError, match="no such folder"):
        rm.dask.allocate(client, state=tmp_path / "none" / "learnt.json")

    async def run() -> None:
        async with Client(cluster.scheduler_address, asynchronous=True) as other:
            with pytest.raises(UsageError, match="asynchronous"):
                rm.dask.allocate(other)

    client.sync(run)


def test_a_site_can_set_it_up_in_its_configuration(start: Any, tmp_path: Path) -> None:
    state = tmp_path / "learnt.json"
    site = {
        "distributed.scheduler.preload": ["rotameter.adapters.dask.preload_allocate"],
        "rotameter.allocate": {"memory": HALF, "state": str(state)},
    }
    with dask.config.set(site):
        cluster, client = start(workers=1, threads=2)
    futures = client.map(big, range(4), pure=False)
    until(lambda: client.run_on_scheduler(ledger) == [(10e9, 1)])
    with pytest.raises(AttachError, match="sizes its tasks already"):
        rm.dask.allocate(client)
    _go.set()
    assert client.gather(futures) == list(range(4))
    client.close()
    cluster.close()
    assert read_state(state) is not None


@pytest.mark.parametrize("given", [{"memory": {"big": "much"}}, 5, {"state": 7}])
def test_what_a_site_got_wrong_leaves_the_cluster_as_it_is(start: Any, given: Any) -> None:
    site = {
        "distributed.scheduler.preload": ["rotameter.adapters.dask.preload_allocate"],
        "rotameter.allocate": given,
    }
    with dask.config.set(site), pytest.warns(TracerWarning, match="does not size"):
        _, client = start(workers=1, threads=2)
    assert client.submit(small, 3).result(timeout=5) == 3


# -- what Dask's resources do ------------------------------------------------------------------


@pytest.mark.xfail(strict=True, reason="any restriction turns queuing off (distributed #9164)")
def test_canary_restricted_tasks_are_queued(start: Any) -> None:
    _, client = start(workers=2, threads=2, resources={"MB": 100})
    futures = client.map(big, range(50), resources={"MB": 10}, pure=False)
    until(lambda: sum(map(len, client.processing().values())) > 0)
    seen = client.run_on_scheduler(queued)
    _go.set()
    wait(futures)
    assert seen > 0


@pytest.mark.xfail(strict=True, reason="only the first of the constrained is looked at (#6136)")
def test_canary_a_small_request_passes_a_large_one(start: Any) -> None:
    _, client = start(workers=1, threads=4, resources={"MB": 100})
    held = client.map(big, range(2), resources={"MB": 60}, pure=False)
    until(lambda: list(client.run(begun).values()) == [(1, 2)])
    future = client.submit(small, 1, resources={"MB": 10}, priority=-1, pure=False)
    wait_ended = wait_for(future, 1.0)
    _go.set()
    wait(held)
    assert wait_ended


def begun(dask_worker: Any) -> tuple[int, int]:
    return dask_worker.state.executing_count, len(dask_worker.state.tasks)


def wait_for(future: Any, limit_s: float) -> bool:
    try:
        future.result(timeout=limit_s)
    except TimeoutError:
        return False
    return True
