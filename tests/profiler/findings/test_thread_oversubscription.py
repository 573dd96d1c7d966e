from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rotameter.profiler.findings.base import Tools
from rotameter.profiler.findings.thread_oversubscription import Advisor
from rotameter.profiler.replaying.savings import Replayer
from rotameter.profiler.trace import Trace

Make = Callable[..., Any]


def check(trace: Trace) -> list[Any]:
    return Advisor().check(trace, Tools(replay=Replayer(trace)))


def blas(
    made_run: Make,
    *,
    cpu_s: float = 0.45,
    process_s: float = 1.05,
    cores: int = 2,
    workers: int = 2,
) -> Any:
    run = made_run(workers=workers, threads=1)
    run.meta["machines"] = [{"host": "h", "cores": cores}]
    run.step("matmul", [1.0] * 16, cpu_s=cpu_s, process_cpu_s=process_s, concurrency=1.0)
    return run


def test_more_library_threads_than_cores(made_run: Make) -> None:
    (finding,) = check(blas(made_run).trace())
    assert (finding.code, finding.kind) == ("RM111", "thread_oversubscription")
    assert finding.cost_s == pytest.approx(8 * 0.75, rel=0.1)
    low, high = finding.cost_s_interval80
    assert low < 0.6 * finding.cost_s
    assert high > finding.cost_s
    assert "OPENBLAS_NUM_THREADS" in finding.change


@pytest.mark.parametrize(
    "more",
    [
        {"cpu_s": 0.95, "process_s": 3.5, "cores": 16},  # threads that have their cores
        {"cpu_s": 0.97, "process_s": 1.05},  # no library threads
        {"cpu_s": 0.3, "process_s": 0.4},  # waits; a worker's own threads
        {"cpu_s": 0.5, "process_s": 0.95, "cores": 8},  # two threads of two processes fit
    ],
)
def test_decoys(made_run: Make, more: Any) -> None:
    assert check(blas(made_run, **more).trace()) == []


def test_one_process_can_be_too_much_for_a_container(made_run: Make) -> None:
    run = blas(made_run, cpu_s=0.25, process_s=1.1, workers=1, cores=64)
    for row in run.tables["tasks"]:
        row["granted_cores"] = 1.0
    assert [f.kind for f in check(run.trace())] == ["thread_oversubscription"]


def test_unpacking_data_is_no_library(made_run: Make) -> None:
    run = blas(made_run)
    for row in run.tables["tasks"]:
        begin = (row["started_ns"] - run.ns(0)) / 1e9
        run.interval("transfer", row["worker"], begin, begin + 0.5, peer="elsewhere", bytes=10**8)
    assert check(run.trace()) == []


def test_missing_columns(made_run: Make) -> None:
    run = blas(made_run)
    for row in run.tables["tasks"]:
        row.pop("process_cpu_s")
    assert check(run.trace()) == []
    run = blas(made_run)
    run.meta.pop("machines")
    assert check(run.trace()) == []
    assert check(Trace.from_tables({})) == []


@pytest.mark.parametrize(
    ("cpu_s", "process_s"),
    [
        (0.003, 1.0),  # work handed to one helper thread, which had its core
        (0.02, 0.3),  # the same on a machine that others kept busy
        (0.01, 0.075),  # sleeps: all that is left are the worker's own threads
    ],
)
@pytest.mark.parametrize("busy", [0.5, 1.0])
def test_a_task_thread_that_waits_has_no_library_threads(
    made_run: Make, cpu_s: float, process_s: float, busy: float
) -> None:
    run = blas(made_run, cpu_s=cpu_s, process_s=process_s)
    for tick in range(1, 20):
        run.sample("h", "cpu_ratio", tick / 2, busy)
    assert check(run.trace()) == []


def test_cores_that_idle_are_not_too_few(made_run: Make) -> None:
    """Two of three seconds nothing used half of the machine: its threads wait for each other."""
    run = blas(made_run, cpu_s=0.3, process_s=0.75)
    assert check(run.trace()) == []
    for tick in range(1, 20):
        run.sample("h", "cpu_ratio", tick / 2, 0.5)
    assert check(run.trace()) == []


def test_on_a_machine_that_others_fill_it_is_less_sure(made_run: Make) -> None:
    run = blas(made_run, cpu_s=0.15, process_s=0.42)
    for tick in range(1, 20):
        run.sample("h", "cpu_ratio", tick / 2, 1.0)
    (finding,) = check(run.trace())
    assert finding.confidence == "medium"
    (finding,) = check(blas(made_run).trace())
    assert finding.confidence == "high"


def test_a_pool_beside_a_waiting_thread_counts_as_what_ran_at_once(made_run: Make) -> None:
    """Four of eight cores' worth in each of four processes, whose tasks' threads wait."""
    run = blas(made_run, cpu_s=0.01, process_s=4.0, workers=4, cores=8)
    (finding,) = check(run.trace())
    assert "4 processes of 4 or more" in finding.title
    # Two at once in each of four processes are not too many for eight.
    assert check(blas(made_run, cpu_s=0.01, process_s=2.0, workers=4, cores=8).trace()) == []


def test_processes_that_take_turns_are_not_beside_each_other(made_run: Make) -> None:
    run = made_run(workers=2, threads=1)
    run.meta["machines"] = [{"host": "h", "cores": 2}]
    for number in range(16):
        worker = f"w{number % 2}"
        run.task(
            f"m{number}", "matmul", worker, number, 1.0, cpu_s=0.8, process_cpu_s=1.8, concurrency=1
        )
    assert check(run.trace()) == []


def test_the_waste_is_measured_where_some_ran_with_few_beside_them(made_run: Make) -> None:
    """Alone a task needs 0.6 s of CPU, beside another 1.0 s: 40 % was waiting."""
    run = made_run(workers=2, threads=1)
    run.meta["machines"] = [{"host": "h", "cores": 2}]
    facts = {"group": "matmul", "concurrency": 1.0}
    for number in range(4):
        more = {"cpu_s": 0.33, "process_cpu_s": 0.62, **facts}
        run.task(f"a{number}", worker="w0", start=0.4 * number, duration=0.4, **more)
    for number in range(16):
        more = {"cpu_s": 0.5, "process_cpu_s": 1.05, **facts}
        start = 2.0 + number // 2
        run.task(f"b{number}", worker=f"w{number % 2}", start=start, duration=1.0, **more)
    (finding,) = check(run.trace())
    assert finding.cost_s == pytest.approx(8 * 0.38, rel=0.15)
    assert "used that much less" in finding.cost_how
