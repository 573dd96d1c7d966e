from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from rotameter.profiler.findings.base import Tools
from rotameter.profiler.findings.cold_first_task import Advisor as Cold
from rotameter.profiler.findings.skewed_partitions import Advisor as Skew
from rotameter.profiler.findings.straggler import Advisor
from rotameter.profiler.findings.uneven_workers import Advisor as Uneven
from rotameter.profiler.replaying.savings import Replayer
from rotameter.profiler.trace import Trace

Make = Callable[..., Any]


def check(advisor: Any, run: Any) -> list[Any]:
    trace = run if isinstance(run, Trace) else run.trace()
    return advisor.check(trace, Tools(replay=Replayer(trace)))


def late_run(made_run: Make, *, cpu_s: float = 5.0, bytes_: int = 2_000_000) -> Any:
    run = made_run(workers=2, threads=1)
    run.step("map", [0.5] * 20, cpu_s=0.48, read_bytes=2_000_000)
    begin = max(slots[0] for slots in run.free.values()) - 0.5
    run.tables["tasks"].pop()
    run.task("map-last", "map", "w1", begin, 5.0, ready=0.0, cpu_s=cpu_s, read_bytes=bytes_)
    return run


def test_one_long_task_on_as_much_data_is_a_straggler(made_run: Make) -> None:
    (finding,) = check(Advisor(), late_run(made_run))
    assert (finding.code, finding.kind) == ("RM106", "straggler")
    assert finding.groups == ("map",)
    assert finding.cost_s == pytest.approx(4.5, abs=0.1)
    assert finding.cost_s_interval80[0] <= finding.cost_s <= finding.cost_s_interval80[1]
    assert "computed all that time" in finding.advice
    assert finding.change is None  # The price is that of the same work done as fast as its like.
    facts = {e.name: e.value for e in finding.evidence}
    assert facts["its data against the others'"] == pytest.approx(1.0)


def test_one_that_waits_is_told_apart(made_run: Make) -> None:
    (finding,) = check(Advisor(), late_run(made_run, cpu_s=0.4))
    assert "hardly computed" in finding.advice
    assert finding.change is None


def test_more_data_is_skew_and_no_straggler(made_run: Make) -> None:
    run = late_run(made_run, bytes_=20_000_000)
    assert check(Advisor(), run) == []
    assert [f.kind for f in check(Skew(), run)] == ["skewed_partitions"]


def test_a_long_task_that_nobody_waits_for_costs_nothing(made_run: Make) -> None:
    run = made_run(workers=3, threads=1)
    run.task("other", "other", "w2", 0.0, 6.0, ready=0.0)
    run.task("map-long", "map", "w0", 0.0, 4.0, ready=0.0)
    for number in range(8):
        run.task(f"map-{number}", "map", "w1", number * 0.5, 0.5, ready=0.0)
    assert check(Advisor(), run) == []


def test_first_tasks_on_each_worker_are_cold_and_no_stragglers(made_run: Make) -> None:
    run = made_run()
    run.step("map", [2.0] * 4 + [0.3] * 60 + [1.5] + [0.3] * 60)
    assert check(Advisor(), run) == []
    assert [f.kind for f in check(Cold(), run)] == ["cold_first_task"]


def test_a_slow_worker_is_no_straggler(made_run: Make) -> None:
    run = made_run(workers=3)
    run.slowness["w0"] = 3.0
    run.step("map", [0.5 + 0.01 * (i % 5) for i in range(60)])
    assert check(Advisor(), run) == []
    assert [f.kind for f in check(Uneven(), run)] == ["uneven_workers"]


def test_tasks_that_waited_for_one_thing_are_no_stragglers(made_run: Make) -> None:
    run = made_run(workers=2, threads=1)
    run.step("map", [0.5] * 10, cpu_s=0.5)
    at = run.free["w0"][0]
    for worker in ("w0", "w1"):
        run.task(f"map-{worker}", "map", worker, at, 4.0, ready=0.0, cpu_s=0.01)
    assert check(Advisor(), run) == []


def test_the_costly_setting_of_a_sweep_is_no_straggler(made_run: Make) -> None:
    """Its folds are long together, and computing; a single one among short ones is not."""
    run = made_run(workers=2, threads=1)
    walls = [0.2] * 8 + [0.3] * 8 + [2.0] * 4 + [0.2] * 8
    for wall in walls:
        run.step("train", [wall], ready=0.0, cpu_s=0.95 * wall)
    for number, row in enumerate(run.tables["tasks"]):
        row["task_id"] = f"train-{number}"
    assert check(Advisor(), run) == []
    for row in run.tables["tasks"]:
        row["cpu_s"] = 0.05
    assert [f.kind for f in check(Advisor(), run)] == ["straggler"]  # They all waited.


def test_who_stood_still_behind_it_is_in_the_price(made_run: Make) -> None:
    """w1 had nothing to do while a task that stood behind the long one was not moved to it."""
    run = made_run(workers=2, threads=1)
    for number in range(8):
        run.task(f"m{number}", "map", f"w{number % 2}", number // 2 * 0.5, 0.5, ready=0.0)
    run.task("m8", "map", "w0", 2.0, 6.0, ready=0.0)
    run.task("m9", "map", "w1", 2.0, 0.5, ready=0.0)
    run.task("m10", "map", "w1", 7.5, 0.5, ready=0.0)
    (finding,) = check(Advisor(), run)
    # Without it all is done in 11 / 2 times half a second.
    assert finding.cost_s == pytest.approx(8.0 - 3.0, abs=0.3)


def test_missing_columns(made_run: Make) -> None:
    rows = [{"task_id": f"t{i}", "group": "g", "wall_s": 1.0, "outcome": "ok"} for i in range(9)]
    assert check(Advisor(), Trace.from_tables({"tasks": rows})) == []
    assert check(Advisor(), Trace.from_tables({})) == []
    run = late_run(made_run)
    for row in run.tables["tasks"]:
        row.pop("cpu_s")
        row.pop("read_bytes")
    (finding,) = check(Advisor(), run)
    assert finding.confidence == "medium"
    # No CPU time is on record: no word on whether it computed or waited.
    assert "comput" not in finding.advice
    assert finding.change is None


def test_without_a_replay_the_cost_is_a_stated_bound(made_run: Make) -> None:
    (finding,) = Advisor().check(late_run(made_run).trace(), Tools())
    assert "at most" in finding.cost_how
    assert finding.cost_s == pytest.approx(4.5)


@pytest.mark.parametrize(("longs", "said"), [([5.0], True), ([1.6, 3.4], False)])
def test_on_a_crowded_machine_tasks_wait_for_cores(
    made_run: Make, longs: list[float], said: bool
) -> None:
    run = made_run(workers=2, threads=1)
    run.meta["machines"] = [{"host": "h", "cores": 2}]
    run.step("map", [0.5] * 20 + longs, cpu_s=0.1)
    for tick in range(1, 40):
        run.sample("h", "cpu_ratio", tick / 2, 1.0)
    trace = run.trace()
    tools = Tools(replay=Replayer(trace))
    assert bool(Advisor().check(trace, tools)) is said
    assert bool(tools.notes) is not said


def crowded(made_run: Make, longs: list[tuple[float, float]], **more: Any) -> Any:
    """Tasks of 0.3 s of CPU in half a second, and long ones, while nothing idles."""
    run = made_run(workers=2, threads=1)
    run.meta["machines"] = [{"host": "h", "cores": 2}]
    run.step("map", [0.5] * 20, cpu_s=0.3, **more)
    for wall, cpu_s in longs:
        run.step("long", [wall], ready=0.0, cpu_s=cpu_s, **more)
    for number, row in enumerate(run.tables["tasks"]):
        row.update(group="map", task_id=f"map-{number}")
    for tick in range(1, 60):
        run.sample("h", "cpu_ratio", tick / 2, 1.0)
    return run


@pytest.mark.parametrize(
    ("longs", "said"),
    [
        ([(3.5, 0.55)], False),  # it got a core as rarely as the others, roughly
        ([(5.0, 0.05)], True),  # far less than the others got: it waited for something else
        ([(5.0, 3.0)], True),  # far more CPU time than its mates'
        ([(2.0, 0.9), (2.0, 0.9)], False),  # all that ran slowed at once, to the CPU
        ([(3.0, 1.2), (0.5, 0.3), (0.5, 0.3)], True),
        ([(2.0, 1.0), (1.2, 1.1), (1.7, 0.9), (1.5, 0.9), (2.4, 1.0)], False),  # a dear setting
    ],
)
def test_on_a_crowded_machine_cpu_time_tells(
    made_run: Make, longs: list[tuple[float, float]], said: bool
) -> None:
    run = crowded(made_run, longs)
    trace = run.trace()
    tools = Tools(replay=Replayer(trace))
    assert bool(Advisor().check(trace, tools)) is said
    assert bool(tools.notes) is not said


def test_what_others_got_meanwhile_tells_how_crowded_it_was(made_run: Make) -> None:
    """One of ten times the median; so was the other worker's task of another group."""
    for cpu_s, said in ((0.3, False), (2.0, True)):
        run = crowded(made_run, [(5.0, 0.4)])
        run.task("other", "other", "w1", 5.0, 3.0, cpu_s=cpu_s)
        assert bool(check(Advisor(), run)) is said


def test_one_that_computed_on_a_crowded_machine_did_not_hardly_compute(made_run: Make) -> None:
    (finding,) = check(Advisor(), crowded(made_run, [(6.0, 2.0)]))
    assert "hardly computed" not in finding.advice
    assert "waited for a core besides" in finding.advice


def test_as_much_data_is_said_only_where_they_are_on_record(made_run: Make) -> None:
    (finding,) = check(Advisor(), late_run(made_run))
    assert finding.title.endswith("on as much data")
    run = late_run(made_run)
    for row in run.tables["tasks"]:
        row.pop("read_bytes")
    (finding,) = check(Advisor(), run)
    assert finding.title.endswith("for no reason on record")


def without_data(made_run: Make, number: int, cpu_s: float) -> Any:
    """Twenty tasks of half a second, then one of 5 s; what they had to do is not on record."""
    run = made_run(workers=2, threads=1)
    run.step("map", [0.5] * number, cpu_s=0.45)
    run.step("long", [5.0], ready=0.0, cpu_s=cpu_s)
    for place, row in enumerate(run.tables["tasks"]):
        row.update(group="map", task_id=f"map-{place}")
    return run


def test_more_work_does_not_vanish(made_run: Make) -> None:
    """It computed ten times as long: split, both workers share it; text and price say the same."""
    (finding,) = check(Advisor(), without_data(made_run, 4, cpu_s=4.8))
    assert "split it into some 10 pieces" in finding.advice
    assert "10 pieces" in (finding.change or "")
    assert "10 pieces" in finding.cost_how
    assert "priority" not in (finding.change or "")
    assert finding.cost_s == pytest.approx(2.5, abs=0.1)  # Not the 4.5 s of its extra time.
    assert finding.cost_s_interval80[0] < finding.cost_s < finding.cost_s_interval80[1]


def test_begun_first_is_advised_and_priced_where_that_saves_as_much(made_run: Make) -> None:
    """The others' 10 s of work go on beside its 5 s: begun first it is hidden."""
    (finding,) = check(Advisor(), without_data(made_run, 20, cpu_s=4.8))
    assert "begin it before the others" in finding.advice
    assert "priority=10" in (finding.change or "")
    assert "begun first" in finding.cost_how
    # 15 s of work on two workers, in pieces of half a second.
    assert finding.cost_s == pytest.approx(10.0 - 7.5, abs=0.1)
    assert finding.cost_s_interval80[0] < finding.cost_s < finding.cost_s_interval80[1]


def test_one_that_waited_is_priced_as_if_it_had_not(made_run: Make) -> None:
    (finding,) = check(Advisor(), without_data(made_run, 4, cpu_s=0.45))
    assert "hardly computed" in finding.advice
    assert finding.change is None
    assert finding.cost_s == pytest.approx(4.5, abs=0.1)
    assert finding.cost_s_interval80[0] < finding.cost_s < finding.cost_s_interval80[1]


def test_a_price_has_the_spread_of_what_its_like_took(made_run: Make) -> None:
    run = made_run(workers=2, threads=1)
    run.step("map", [0.2, 0.5, 0.8] * 6 + [0.5, 5.0], cpu_s=0.1)
    (finding,) = check(Advisor(), run)
    low, high = finding.cost_s_interval80
    assert low < 0.95 * finding.cost_s
    assert high > 1.05 * finding.cost_s


def test_a_trace_of_cpu_time_is_no_computing(made_run: Make) -> None:
    """All sleep, on a crowded machine: 0.7 ms of 7 s is no work, though its like used 0.26 ms."""
    run = crowded(made_run, [(7.2, 0.0007)])
    for row in run.tables["tasks"][:-1]:
        row["cpu_s"] = 0.00026
    (finding,) = check(Advisor(), run)
    assert "hardly computed" in finding.advice
    assert finding.change is None


def test_more_data_that_do_not_explain_it_are_not_the_same_work(made_run: Make) -> None:
    """Twice the data, ten times the time: no skew, and more work all the same."""
    (finding,) = check(Advisor(), late_run(made_run, bytes_=4_000_000))
    assert finding.title.endswith("for no reason on record")
    assert "pieces" in finding.advice or "begin it" in finding.advice


def test_a_straggler_is_found_beside_tasks_of_no_group(made_run: Make) -> None:
    run = made_run(workers=2, threads=1)
    made = run.step("made", [1.0] * 12, output_bytes=10**7)
    between = run.step("between", [1.0] * 12, after=made, output_bytes=10**7)
    for row in run.tables["tasks"]:
        row["group"] = None
    run.step("fit", [1.0] * 11 + [21.0], after=between, cpu_s=0.9)
    (finding,) = check(Advisor(), run)
    assert finding.groups == ("fit",)
    assert finding.cost_s == pytest.approx(20.0, abs=0.5)


def spread_out(made_run: Make, seed: int, sigma: float = 0.6, **more: Any) -> Any:
    """Tasks of log-normal durations on four cores, the longest in the first half: none is idle."""
    durations = np.random.default_rng(seed).lognormal(0.0, sigma, 160)
    order, rng = np.argsort(-durations), np.random.default_rng(seed)
    durations = durations[
        np.concatenate([rng.permutation(order[:80]), rng.permutation(order[80:])])
    ]
    run = made_run(workers=4, threads=1)
    run.step("map", durations.tolist(), ready=0.0, **more)
    return run


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("more", [{}, {"cpu_s": 0.01}, {"read_bytes": 10**7}])
def test_durations_that_vary_beside_busy_cores_are_no_stragglers(
    made_run: Make, seed: int, more: dict[str, float]
) -> None:
    """Some of 160 take twice the median and more; all cores were busy to the end."""
    assert check(Advisor(), spread_out(made_run, seed, **more)) == []


def test_one_beyond_that_spread_is_a_straggler_though_others_were_busy(made_run: Make) -> None:
    run = made_run(workers=2, threads=1)
    durations = np.random.default_rng(1).lognormal(0.0, 0.1, 160)
    durations[20] = 40.0
    run.step("map", durations.tolist(), ready=0.0, cpu_s=0.01)
    (finding,) = check(Advisor(), run)
    assert finding.title.startswith("`map`: 1 of 160 took 40 s")


def test_one_of_that_spread_that_all_wait_for_is_a_straggler(made_run: Make) -> None:
    run = spread_out(made_run, 1, cpu_s=0.01)
    run.step("last", [6.0], ready=0.0, cpu_s=0.01)
    run.tables["tasks"][-1]["group"] = "map"
    (finding,) = check(Advisor(), run)
    assert "1 of 161 took 6 s" in finding.title
    assert finding.cost_s == pytest.approx(5.0, abs=0.6)
