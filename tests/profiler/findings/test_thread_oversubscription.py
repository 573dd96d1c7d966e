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
