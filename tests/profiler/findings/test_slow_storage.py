from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rotameter.profiler.findings import slow_storage, staging_cost
from rotameter.profiler.findings.base import Tools
from rotameter.profiler.replaying.savings import Replayer
from rotameter.profiler.trace import Trace

Make = Callable[..., Any]
FAST = 4e8


def stages(made_run: Make, rates: dict[str, tuple[str | None, float]]) -> Any:
    """Each stage: eight tasks on four threads, 1 s of work and 0.4 GB read from its store."""
    run = made_run(workers=2, threads=2, engine="workflow")
    before: list[str] = []
    for group, (tier, rate) in rates.items():
        busy = 4e8 / rate
        before = run.step(group, [1.0 + busy] * 8, after=before)
        run.tables["flows"] += [
            {
                "task_id": task, "object": f"/{tier}/{task}.dat", "medium": "file", "op": "read",
                "bytes": 400_000_000, "ops": 100, "busy_s": busy, "tier": tier,
            }
            for task in before
        ]  # fmt: skip
    return run


def check(rule: Any, run: Any) -> list[Any]:
    trace = run.trace()
    return list(rule.Advisor().check(trace, Tools(replay=Replayer(trace))))


def test_a_stage_on_a_slow_store_is_priced_at_the_rate_of_the_others(made_run: Make) -> None:
    run = stages(made_run, {"a": ("ssd", FAST), "b": ("nfs", FAST / 10), "c": ("ssd", FAST)})
    (finding,) = check(slow_storage, run)
    assert finding.kind == "slow_storage"
    assert finding.groups == ("b",)
    assert finding.cost_s == pytest.approx(2 * 9.0, rel=0.05)


def test_a_store_twice_as_slow_is_of_the_same_class(made_run: Make) -> None:
    run = stages(made_run, {"a": ("ssd", FAST), "b": ("nfs", FAST / 2), "c": ("ssd", FAST)})
    assert check(slow_storage, run) == []


def test_a_fast_store_that_one_of_three_stages_uses_is_the_exception(made_run: Make) -> None:
    run = stages(made_run, {"a": ("nfs", FAST / 5), "b": ("nfs", FAST / 5), "c": ("ssd", FAST)})
    assert check(slow_storage, run) == []


def test_without_stores_nothing_is_compared(made_run: Make) -> None:
    run = stages(made_run, {"a": (None, FAST), "b": (None, FAST / 10), "c": (None, FAST)})
    assert check(slow_storage, run) == []


@pytest.mark.parametrize("lacking", ["bytes", "ops", "busy_s", "tier", "task_id", "object"])
@pytest.mark.parametrize("rule", [slow_storage, staging_cost])
def test_a_missing_column_is_no_error(made_run: Make, rule: Any, lacking: str) -> None:
    run = stages(made_run, {"a": ("ssd", FAST), "b": ("nfs", FAST / 10)})
    for row in run.tables["flows"]:
        row[lacking] = None
    assert isinstance(check(rule, run), list)
    assert rule.Advisor().check(Trace.from_tables({}), Tools()) == []
