from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rotameter.profiler.findings.base import Tools
from rotameter.profiler.findings.idle_parallelism import Advisor as Idle
from rotameter.profiler.findings.large_graph import Advisor
from rotameter.profiler.replaying.savings import Replayer
from rotameter.profiler.trace import Trace

Make = Callable[..., Any]
MB = 1_000_000


def check(advisor: Any, trace: Trace) -> list[Any]:
    return advisor.check(trace, Tools(replay=Replayer(trace)))


def shipped(made_run: Make, *, each: int = 50 * MB, **more: Any) -> Any:
    """Load, then the client packs for 3 s, then 8 tasks that bring ``each`` bytes with them."""
    run = made_run(workers=2, threads=1)
    run.step("load", [0.5] * 4, start_memory_bytes=150 * MB)
    for number in range(8):
        worker = f"w{number % 2}"
        start = 4.0 + 0.5 * (number // 2)
        row = {
            "submitted": 4.0,
            "ready": 4.0,
            "start_memory_bytes": 150 * MB + each * (number // 2 + 1),
        }
        run.task(f"sum-{number}", "sum", worker, start + 0.2, 0.3, **{**row, **more})
    for tick in range(12):
        grown = min(max(tick / 2 - 1.0, 0.0) / 3.0, 1.0) * 8 * each
        run.sample("client-1", "process_rss_bytes", tick / 2, 200 * MB + grown)
    return run


def test_data_in_the_graph_is_priced_with_the_silence_before(made_run: Make) -> None:
    trace = shipped(made_run).trace()
    (finding,) = check(Advisor(), trace)
    assert (finding.code, finding.kind) == ("RM113", "large_graph")
    assert finding.groups == ("sum",)
    assert finding.cost_s == pytest.approx(3.0 + 4 * 0.2, rel=0.1)
    assert "client.scatter" in finding.change
    # The cores idled for that, and not for want of parallel work.
    assert check(Idle(), trace) == []


@pytest.mark.parametrize(
    ("each", "more"),
    [
        (1 * MB, {}),  # a usual graph
        (50 * MB, {"output_bytes": 50 * MB}),  # results that stay are no arguments
        (50 * MB, {"read_bytes": 60 * MB}),  # nor is what tasks read and keep
    ],
)
def test_decoys(made_run: Make, each: int, more: Any) -> None:
    assert check(Advisor(), shipped(made_run, each=each, **more).trace()) == []


def test_a_client_that_is_silent_ships_nothing(made_run: Make) -> None:
    run = shipped(made_run)
    for row in run.tables["tasks"]:
        row["start_memory_bytes"] = 150 * MB
    assert check(Advisor(), run.trace()) == []
    assert [f.kind for f in check(Idle(), run.trace())] == ["idle_parallelism"]


def test_missing_columns(made_run: Make) -> None:
    assert check(Advisor(), Trace.from_tables({}, {"engine": "dask"})) == []
    run = shipped(made_run)
    run.tables["samples"].clear()
    (finding,) = check(Advisor(), run.trace())
    assert finding.confidence == "medium"
    for row in run.tables["tasks"]:
        row.pop("start_memory_bytes")
    assert check(Advisor(), run.trace()) == []
