from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rotameter.profiler.diagnose import diagnose
from rotameter.profiler.findings.base import Tools
from rotameter.profiler.findings.uneven_workers import Advisor
from rotameter.profiler.replaying.savings import Replayer
from rotameter.profiler.trace import Trace
from rotameter.profiler.view import view

Make = Callable[..., Any]


def check(trace: Trace) -> list[Any]:
    return Advisor().check(trace, Tools(replay=Replayer(trace)))


def slow_run(made_run: Make, slowness: float = 3.0, **more: Any) -> Any:
    run = made_run(**{"workers": 3, **more})
    run.slowness["w0"] = slowness
    run.step("map", [0.5 + 0.01 * (i % 5) for i in range(60)])
    return run


def test_a_slow_worker_is_named_by_host_and_not_by_address(made_run: Make) -> None:
    (finding,) = check(slow_run(made_run).trace())
    assert (finding.code, finding.kind) == ("RM116", "uneven_workers")
    assert "on host h" in finding.title
    assert finding.change is None
    assert "retire_workers" not in finding.advice
    assert "host h" in finding.advice
    assert "pinning" in finding.advice  # the host's other workers are fast


@pytest.mark.parametrize("workers", [2, 3])
def test_its_cost_is_what_equal_workers_save(made_run: Make, workers: int) -> None:
    slow = slow_run(made_run, workers=workers).trace()
    even = slow_run(made_run, 1.0, workers=workers).trace()
    (finding,) = check(slow)
    truth = (view(slow).makespan or 0.0) - (view(even).makespan or 0.0)
    assert finding.cost_s == pytest.approx(truth, rel=0.25)


@pytest.mark.parametrize("how", ["oom", "late"])
def test_a_worker_that_died_or_lived_little_is_not_blamed(made_run: Make, how: str) -> None:
    run = slow_run(made_run)
    assert check(run.trace())
    end = max(row["ended_ns"] for row in run.tables["tasks"])
    if how == "oom":
        run.event("worker_memory_kill", (end - run.ns(0)) / 1e9, worker="w0", rss_bytes=2 * 10**9)
        run.lives["w0"]["end"] = (end - run.ns(0)) / 1e9
    else:
        run.lives["w0"]["start"] = 0.0
        run.task("tail", "tail", "w1", 25.0, 1.0)
        run.lives["w0"]["end"] = 9.0
    assert check(run.trace()) == []


def test_groups_that_differ_by_worker_are_not_compared(made_run: Make) -> None:
    run = made_run(threads=1)
    for n in range(10):
        run.task(f"big-{n}", "big", "w0", float(n), 1.0)
        run.task(f"small-{n}", "small", "w1", n * 0.3, 0.3)
    assert check(run.trace()) == []


def test_one_long_task_does_not_make_a_worker_slow(made_run: Make) -> None:
    run = made_run(threads=1)
    run.step("map", [0.3] * 39 + [6.0])
    assert check(run.trace()) == []


def test_other_load_hides_in_durations_what_cpu_time_shows(made_run: Make) -> None:
    run = made_run(threads=1)
    noise = [0.5, 0.9, 0.4, 1.3, 0.7, 0.45, 1.0, 0.6]
    for number in range(16):
        for worker, factor in (("w0", 2.0), ("w1", 1.0)):
            wall = noise[(number * (3 if factor > 1 else 5)) % 8] * (1.25 if factor > 1 else 1.0)
            run.task(f"m{worker}{number}", "map", worker, 2.0 * number, wall, ready=0.0,
                     cpu_s=0.2 * factor)  # fmt: skip
    assert [f.kind for f in check(run.trace())] == ["uneven_workers"]


def test_missing_columns() -> None:
    assert check(Trace.from_tables({})) == []
    rows = [
        {"task_id": f"t{i}", "group": "g", "outcome": "ok", "started_ns": i, "ended_ns": i + 9}
        for i in range(12)
    ]
    assert check(Trace.from_tables({"tasks": rows})) == []


def test_a_worker_that_was_alone_for_a_while_is_no_measure(made_run: Make) -> None:
    run = made_run(threads=1)
    for number in range(10):  # both, and the machine is full
        run.task(f"a{number}", "map", "w0", number, 0.9, ready=0.0)
        run.task(f"b{number}", "map", "w1", number, 0.9, ready=0.0)
    for number in range(24):  # w1 is paused
        run.task(f"c{number}", "map", "w0", 10.0 + 0.5 * number, 0.45, ready=0.0)
    assert check(run.trace()) == []


def test_tasks_that_take_no_time_have_no_say(made_run: Make) -> None:
    run = made_run(threads=1)
    for number in range(24):
        if number < 6:
            run.task(f"s{number}", "map", "w0", 1.2 * number, 1.2, cpu_s=1.2, ready=0.0)
        run.task(f"f{number}", "map", "w1", 0.4 * number, 0.4, cpu_s=0.4, ready=0.0)
    for number in range(40):  # Short, and by chance the other way round.
        worker, took = ("w0", 0.001) if number % 2 else ("w1", 0.002)
        run.task(f"n{number}", "note", worker, 10.0 + 0.01 * number, took, cpu_s=took, ready=10.0)
    assert [f.kind for f in check(run.trace())] == ["uneven_workers"]


def placed(made_run: Make, workers: int, each: int, *, submitted: bool) -> Any:
    """Each worker has ``each`` tasks of 1 s of its own beforehand; w1 takes 3 s for each."""
    run = made_run(workers=workers, threads=1, engine="table")
    for worker in range(workers):
        for number in range(each):
            long = 3.0 if worker == 1 else 1.0
            at = (long + 0.01 * worker) * number
            run.task(f"m-{worker}-{number}", "map", f"w{worker}", at, long + 0.01 * worker, ready=0)
    if not submitted:
        for row in run.tables["tasks"]:
            row["submitted_ns"] = row["ready_ns"] = None
    return run


@pytest.mark.parametrize("submitted", [True, False])
@pytest.mark.parametrize(("workers", "each"), [(4, 10), (2, 12), (8, 12)])
def test_tasks_that_had_their_workers_beforehand_keep_them(
    made_run: Make, workers: int, each: int, submitted: bool
) -> None:
    """By hand: the slow one ends after 3.01 s a task, all others after about 1 s a task."""
    (finding,) = check(placed(made_run, workers, each, submitted=submitted).trace())
    truth = 3.01 * each - (1.0 + 0.01 * (workers - 1)) * each
    assert finding.cost_s == pytest.approx(truth, rel=0.05)
    low, high = finding.cost_s_interval80
    assert low <= truth <= high
    assert "each task had stayed where it ran" in finding.cost_how


def test_tasks_of_a_work_queue_go_to_any_free_worker(made_run: Make) -> None:
    """By hand: 60 tasks of 1 s on four workers take 15 s; with w0 at a third of the speed 18 s."""
    run = made_run(workers=4, threads=1, engine="table")
    run.slowness["w0"] = 3.0
    run.step("map", [1.0] * 60)
    (finding,) = check(run.trace())
    assert finding.cost_s == pytest.approx(3.0, abs=0.1)
    assert "gone to whichever worker was free" in finding.cost_how


@pytest.mark.parametrize("beside", [165, 190])
def test_what_letting_tasks_go_saves_is_not_the_workers_doing(made_run: Make, beside: int) -> None:
    """w0 has 100 tasks of 1.5 s, w1 more of 1 s; no hand said so beforehand, and none moved."""
    run = made_run(workers=2, threads=1)
    for worker, n, took in (("w0", 100, 1.5), ("w1", beside, 1.0)):
        for number in range(n):
            run.task(f"{worker}-{number}", "map", worker, took * number, took, ready=0.0,
                     cpu_s=0.95 * took)  # fmt: skip
    (finding,) = check(run.trace())
    # By hand: work is shared out to the end; w0's share of it is 3/2 of what a fast one takes.
    loose_s, fast_s = (150.0 + beside) / 2, (100.0 + beside) / 2
    truth = (loose_s - fast_s) * max(150.0, beside) / loose_s
    assert finding.cost_s == pytest.approx(truth, rel=0.25)
    low, high = finding.cost_s_interval80
    assert low <= truth <= high


def test_a_slow_workers_last_tasks_are_no_narrow_step(made_run: Make) -> None:
    found = diagnose(placed(made_run, 2, 12, submitted=True).trace()).findings
    assert [finding.kind for finding in found] == ["uneven_workers"]


@pytest.mark.parametrize("slowness", [2.0, 3.0, 5.0])
@pytest.mark.parametrize("stages", [1, 3])
def test_a_slow_worker_beside_barriers_is_neither_straggler_nor_nothing(
    made_run: Make, slowness: float, stages: int
) -> None:
    """Four workers have six tasks of half a second a stage each; one takes longer for its own."""
    run = made_run(workers=4, threads=1)
    begin, before = 0.0, []
    for stage in range(stages):
        made = []
        for worker in range(4):
            took = 0.5 * (slowness if worker == 0 else 1.0)
            for number in range(6):
                name = f"s{stage}-{worker}-{number}"
                wall = took * (0.95 + 0.01 * ((7 * number + worker) % 5))
                run.task(
                    name, f"stage{stage}", f"w{worker}", begin + number * took, wall,
                    ready=begin, cpu_s=0.9 * took,
                )  # fmt: skip
                run.tables["deps"] += [{"task_id": name, "depends_on": on} for on in before]
                made.append(name)
        begin, before = begin + 6 * 0.5 * slowness, made
    trace = run.trace()
    (finding,) = diagnose(trace).findings
    assert finding.kind == "uneven_workers"
    assert finding.cost_s == pytest.approx(stages * 3.0 * (slowness - 1.0), rel=0.15)


def handed_out(made_run: Make, slowness: float, moved: int) -> Any:
    """Two workers get 20 tasks each beforehand; ``moved`` go from the slow one to the idle one."""
    run = made_run(workers=2, threads=1)
    for worker, took in (("w0", slowness), ("w1", 1.0)):
        count = 20 - moved if worker == "w0" else 20 + moved
        for number in range(count):
            run.task(
                f"{worker}-{number}", "map", worker, number * took, took, ready=0.0, cpu_s=took
            )
    return run


@pytest.mark.parametrize(("slowness", "moved"), [(2.0, 4), (2.0, 5), (3.0, 8), (3.0, 9)])
def test_what_waited_for_the_slow_worker_is_in_its_price(
    made_run: Make, slowness: float, moved: int
) -> None:
    """Some were moved, but too late: the other idled in the end. Equal workers take 20 s."""
    trace = handed_out(made_run, slowness, moved).trace()
    (finding,) = check(trace)
    truth = slowness * (20 - moved) - 20.0
    assert finding.cost_s == pytest.approx(truth, rel=0.12)
