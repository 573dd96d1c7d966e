from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from rotameter.profiler.findings._likes import in_blocks
from rotameter.profiler.findings.base import Tools
from rotameter.profiler.findings.regime_change import Advisor, _step
from rotameter.profiler.replaying.savings import Replayer
from rotameter.profiler.trace import Trace
from rotameter.profiler.view import view

Make = Callable[..., Any]


def check(trace: Trace) -> list[Any]:
    return Advisor().check(trace, Tools(replay=Replayer(trace)))


def durations(seed: int = 0, before: int = 24, after: int = 24, factor: float = 3.0) -> list[float]:
    rng = np.random.default_rng(seed)
    return [*rng.uniform(0.45, 0.55, before), *(factor * rng.uniform(0.45, 0.55, after))]


def test_a_change_in_mid_run_is_found_and_priced(made_run: Make) -> None:
    run, calm = made_run(threads=1), made_run(threads=1)
    run.step("map", durations())
    calm.step("map", durations(factor=1.0))
    (finding,) = check(run.trace())
    assert (finding.code, finding.kind) == ("RM119", "regime_change")
    truth = (view(run.trace()).makespan or 0.0) - (view(calm.trace()).makespan or 0.0)
    assert finding.cost_s == pytest.approx(truth, rel=0.1)


@pytest.mark.parametrize(
    "walls",
    [
        durations(factor=1.0),
        [*durations(factor=1.0), 5.0, 5.0, 5.0],  # a few long ones at the end
        durations()[::-1],  # faster, not slower
        [*durations(), *durations(factor=1.0)],  # it did not last
        list(np.linspace(0.5, 0.65, 48)),  # a drift that is hardly one
        list(np.linspace(0.5, 1.5, 48)),  # a straight one
        [*np.full(24, 0.5), *np.linspace(0.5, 2.0, 24)],  # one that sets in half way
        list(0.5 * np.geomspace(1.0, 4.0, 48)),
    ],
)
def test_decoys(made_run: Make, walls: list[float]) -> None:
    run = made_run(threads=1)
    run.step("map", walls)
    assert check(run.trace()) == []


def test_a_sweep_of_settings_is_no_change(made_run: Make) -> None:
    """Each setting runs a few folds one after another, and costs what it costs."""
    settings = [0.02, 0.03, 0.02, 0.05, 0.12, 0.2, 0.15, 0.35, 1.0, 0.2, 0.25]
    for seed in range(20):
        rng = np.random.default_rng(seed)
        run = made_run(threads=1)
        run.step("train", [s * rng.uniform(0.9, 1.1) for s in settings for _ in range(4)])
        assert check(run.trace()) == []


def test_later_tasks_that_are_each_dearer_in_their_own_way_are_other_tasks(
    made_run: Make,
) -> None:
    """A sweep whose settings come in no order: cheap models first, then forests of all sizes."""
    for seed in range(10):
        rng = np.random.default_rng(seed)
        run = made_run(threads=1)
        dear = rng.permutation([0.06, 0.3, 1.0, 3.0, 0.08, 2.0, 0.5, 0.9] * 3)
        for cost in [*rng.uniform(0.02, 0.05, 20), *(dear * rng.uniform(0.9, 1.1, 24))]:
            # The machine is crowded: what each took hides what it computed.
            run.step("train", [cost * rng.uniform(1.5, 5.0)], ready=0.0, cpu_s=cost)
        for number, row in enumerate(run.tables["tasks"]):
            row["task_id"] = f"train-{number}"
        assert check(run.trace()) == []


def test_changes_are_found_in_spite_of_noise() -> None:
    found = 0
    for seed in range(50):
        rng = np.random.default_rng(seed)
        walls = np.r_[rng.lognormal(0, 0.2, 25), rng.lognormal(np.log(2.5), 0.2, 25)]
        found += _step(walls) is not None and not any(
            in_blocks(side) for side in (walls[:25], walls[25:])
        )
    assert found >= 47


@pytest.mark.parametrize(
    ("n", "grown", "noise"), [(80, 2.0, 0.03), (400, 2.0, 0.03), (80, 3.0, 0.1)]
)
def test_a_straight_drift_is_no_change(n: int, grown: float, noise: float) -> None:
    """Split in the middle, the halves' medians of a drift from 1 to 2 are 1.4 times apart."""
    for seed in range(30):
        rng = np.random.default_rng(seed)
        assert _step(np.linspace(1.0, grown, n) * rng.normal(1.0, noise, n)) is None


def test_a_step_is_found_where_a_side_drifts_a_little() -> None:
    for seed in range(30):
        rng = np.random.default_rng(seed)
        walls = np.r_[np.linspace(1.0, 1.1, 30), np.linspace(2.5, 3.0, 30)]
        assert _step(walls * rng.normal(1.0, 0.05, 60)) == 30


def test_larger_later_pieces_are_no_change_of_the_machine(made_run: Make) -> None:
    run = made_run(threads=1)
    run.step("map", durations())
    for row in run.tables["tasks"]:
        row["read_bytes"] = round(row["wall_s"] * 1e8)
    assert check(run.trace()) == []


def test_a_change_on_one_worker_only_is_none(made_run: Make) -> None:
    run = made_run(threads=1)
    for number in range(30):
        run.task(f"a{number}", "map", "w0", 2.0 * number, 0.5 if number < 15 else 1.5, ready=0.0)
        run.task(f"b{number}", "map", "w1", 2.0 * number, 0.5, ready=0.0)
    assert check(run.trace()) == []


def with_cpu(made_run: Make, *, later: float, beside: float | None = None) -> Any:
    """Tasks of 0.5 s, then of 1.5 s that compute ``later`` times as long; another group beside."""
    run = made_run(threads=1)
    run.step("map", durations())
    for number, row in enumerate(run.tables["tasks"]):
        row["cpu_s"] = 0.45 if number < 24 else 0.45 * later
    if beside is not None:
        for number in range(20):
            wall = 0.4 if number < 10 else 0.4 * beside
            start = 0.5 * number if number < 10 else 7.0 + 1.5 * (number - 10)
            run.task(f"b{number}", "beside", "w2", start, wall, ready=0.0, cpu_s=0.9 * wall)
        run.lives["w2"] = {"start": 0.0, "end": None}
    return run


def test_later_tasks_that_compute_longer_may_be_bigger_items(made_run: Make) -> None:
    (finding,) = check(with_cpu(made_run, later=3.0).trace())
    assert finding.confidence == "low"
    assert finding.severity == "info"
    assert "computed longer each" in finding.title
    assert finding.title.endswith("bigger items or a slower machine")
    assert finding.cost_s_interval80[0] == 0.0
    assert "nothing if the later items were bigger" in finding.cost_how


@pytest.mark.parametrize(
    ("later", "beside", "sure"),
    [
        (1.0, None, True),  # they waited longer, and computed as long
        (3.0, None, False),
        (3.0, 1.0, False),  # another group beside kept its pace: the items
        (3.0, 2.5, True),  # it became slower too: the machine
    ],
)
def test_what_ran_beside_tells_a_slower_machine_from_bigger_items(
    made_run: Make, later: float, beside: float | None, sure: bool
) -> None:
    run = with_cpu(made_run, later=later, beside=beside)
    (finding,) = [f for f in check(run.trace()) if f.groups == ("map",)]
    assert (finding.confidence == "high") is sure
    assert ("bigger items" in finding.title) is not sure


def test_a_trace_of_cpu_time_does_not_tell_of_bigger_items(made_run: Make) -> None:
    run = made_run(threads=1)
    run.step("map", durations())
    for number, row in enumerate(run.tables["tasks"]):
        row["cpu_s"] = 0.0003 if number < 24 else 0.0009
    (finding,) = check(run.trace())
    assert finding.confidence == "high"


def test_chance_alone_makes_no_step() -> None:
    rng = np.random.default_rng(3)
    assert all(_step(rng.lognormal(0, 0.5, 40)) is None for _ in range(300))


def test_missing_columns() -> None:
    assert check(Trace.from_tables({})) == []
    rows = [{"task_id": f"t{i}", "group": "g", "outcome": "ok", "wall_s": 1.0} for i in range(30)]
    assert check(Trace.from_tables({"tasks": rows})) == []
