from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rotameter.profiler.findings.base import Tools
from rotameter.profiler.findings.latency_bound_reads import Advisor
from rotameter.profiler.replaying.savings import Replayer
from rotameter.profiler.trace import Trace

Make = Callable[..., Any]


def reading(made_run: Make, **columns: Any) -> Any:
    """Eight tasks of 3 s on two threads, each with 100 requests of 20 ms for 10 kB."""
    run = made_run(workers=2, threads=1)
    for number, task in enumerate(run.step("fetch", [3.0] * 8)):
        run.tables["flows"].append(
            {
                "task_id": task, "object": f"bucket/{number}", "medium": "object_store",
                "op": "read", "bytes": 1_000_000, "ops": 100, "busy_s": 2.0, **columns,
            }
        )  # fmt: skip
    return run


def check(run: Any) -> list[Any]:
    trace = run.trace()
    return Advisor().check(trace, Tools(replay=Replayer(trace)))


def test_requests_that_wait_are_priced_against_large_ones(made_run: Make) -> None:
    (finding,) = check(reading(made_run))
    assert finding.kind == "latency_bound_reads"
    assert finding.cost_s == pytest.approx(4 * 2.0, rel=0.05)


def test_large_requests_are_bound_by_bandwidth(made_run: Make) -> None:
    assert check(reading(made_run, bytes=10**8, ops=10)) == []


def test_a_local_file_has_no_requests(made_run: Make) -> None:
    assert check(reading(made_run, medium="file")) == []


def test_an_url_is_a_store_whatever_the_medium(made_run: Make) -> None:
    assert check(reading(made_run, medium="file", object="s3://bucket/a"))


def test_bytes_that_nobody_used_are_amplified(made_run: Make) -> None:
    (finding,) = check(reading(made_run, bytes=10**8, ops=10, used_bytes=10**7))
    assert "needed" in finding.title
    assert finding.cost_s == pytest.approx(4 * 1.8, rel=0.05)


@pytest.mark.parametrize("lacking", ["bytes", "ops", "busy_s", "task_id", "object"])
def test_a_missing_column_is_no_error(made_run: Make, lacking: str) -> None:
    assert isinstance(check(reading(made_run, **{lacking: None})), list)
    assert Advisor().check(Trace.from_tables({}), Tools()) == []
