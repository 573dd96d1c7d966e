from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from rotameter.profiler.findings.base import Tools
from rotameter.profiler.findings.skewed_partitions import Advisor, Even
from rotameter.profiler.findings.straggler import Advisor as Straggler
from rotameter.profiler.replaying.model import make_model
from rotameter.profiler.replaying.savings import Replayer
from rotameter.profiler.trace import Trace
from rotameter.profiler.view import view

Make = Callable[..., Any]


def check(advisor: Any, trace: Trace) -> list[Any]:
    return advisor.check(trace, Tools(replay=Replayer(trace)))


def skewed(made_run: Make, *, scale: float = 1.0) -> Any:
    run = made_run(workers=2, threads=1)
    rng = np.random.default_rng(1)
    durations = [*rng.uniform(0.2, 0.4, 15), 6.0]
    for number, duration in enumerate(durations):
        worker = min(run.free, key=lambda w: (run.free[w][0], w))
        start = run.free[worker][0]
        run.free[worker][0] = start + duration
        run.task(f"agg-{number}", "agg", worker, start, float(duration), ready=0.0,
                 read_bytes=round(duration**scale * 1e7))  # fmt: skip
    return run


def test_skew_is_priced_as_even_pieces_of_the_same_work(made_run: Make) -> None:
    trace = skewed(made_run).trace()
    (finding,) = check(Advisor(), trace)
    assert (finding.code, finding.kind) == ("RM114", "skewed_partitions")
    work = sum(row["wall_s"] for row in trace.table("tasks").to_pylist())
    truth = (view(trace).makespan or 0.0) - work / 2
    assert finding.cost_s == pytest.approx(truth, rel=0.1)
    facts = {e.name: e.value for e in finding.evidence}
    assert facts["duration goes with read_bytes"] > 0.9
    assert finding.apply["partitioning"]["factor"] > 1


def test_work_that_grows_with_the_square_is_skew_too(made_run: Make) -> None:
    (finding,) = check(Advisor(), skewed(made_run, scale=0.5).trace())
    assert finding.kind == "skewed_partitions"


def test_the_same_data_is_a_straggler(made_run: Make) -> None:
    run = skewed(made_run, scale=0.0)
    assert check(Advisor(), run.trace()) == []
    assert [f.kind for f in check(Straggler(), run.trace())] == ["straggler"]


def test_little_data_explains_nothing(made_run: Make) -> None:
    run = skewed(made_run)
    for row in run.tables["tasks"]:
        row["read_bytes"] //= 10_000
    assert check(Advisor(), run.trace()) == []


def test_rows_known_before_the_run_count(made_run: Make) -> None:
    run = skewed(made_run)
    for row in run.tables["tasks"]:
        row["features"] = [("rows", row.pop("read_bytes") / 1e3)]
    (finding,) = check(Advisor(), run.trace())
    assert "rows" in finding.title


def test_big_pieces_behind_other_work_cost_nothing(made_run: Make) -> None:
    run = made_run(workers=2, threads=1)
    run.task("agg-big", "agg", "w0", 0.0, 4.0, ready=0.0, read_bytes=80_000_000)
    for number in range(8):
        run.task(f"agg-{number}", "agg", "w1", number * 0.5, 0.5, ready=0.0, read_bytes=10_000_000)
    assert check(Advisor(), run.trace()) == []


def test_missing_columns() -> None:
    assert check(Advisor(), Trace.from_tables({})) == []
    rows = [{"task_id": "a", "group": None, "started_ns": 1, "ended_ns": None}]
    assert check(Advisor(), Trace.from_tables({"tasks": rows})) == []


def test_even_keeps_the_sum() -> None:
    model = make_model([1.0, 2.0, 9.0])
    even = Even(np.array([True, True, True])).apply(model)
    assert even.parts_s.sum() == pytest.approx(model.parts_s.sum())
    assert np.ptp(even.wall_s) == 0


@pytest.mark.parametrize("cpu", [True, False])
@pytest.mark.parametrize(
    "column", ["received_bytes", "read_bytes", "write_bytes", "output_bytes", "flows"]
)
def test_data_of_any_column_is_skew(made_run: Make, column: str, cpu: bool) -> None:
    """By hand: 25 s of work on four workers is 6.25 s; the one of 6 s of 20 begins after 4 s."""
    run = made_run(workers=4, threads=1, engine="table")
    for number in range(20):
        times = 6 if number == 18 else 1
        more = {} if column == "flows" else {column: 10**8 * times}
        if cpu:
            more["cpu_s"] = 0.97 * times
        at = float(number // 4)
        run.task(f"p{number}", "join", f"w{number % 4}", at, times, ready=0.0, **more)
        run.tables["flows"] += [
            {"task_id": f"p{number}", "attempt": 1, "worker": f"w{number % 4}", "object": "x",
             "medium": "network", "op": "receive", "bytes": 10**8 * times}
        ] * (column == "flows")  # fmt: skip
    for row in run.tables["tasks"]:
        row["attempt"] = 1
    (finding,) = check(Advisor(), run.trace())
    assert finding.cost_s == pytest.approx(10.0 - 25.0 / 4, abs=0.1)
    assert "with 6 times the" in finding.title
    assert check(Straggler(), run.trace()) == []
