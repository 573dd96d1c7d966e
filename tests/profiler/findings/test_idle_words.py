"""RM107 in the words of what ran the tasks, with the right group and a level that fits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rotameter.profiler.diagnose import diagnose
from rotameter.profiler.findings.base import Tools, severity_of
from rotameter.profiler.findings.idle_parallelism import Advisor
from rotameter.profiler.replaying.savings import Replayer
from rotameter.profiler.view import view
from rotameter.values import Finding

Make = Callable[..., Any]


def only(found: list[Finding]) -> Finding:
    assert len(found) == 1
    return found[0]


@pytest.mark.parametrize(
    ("engine", "key", "waits", "has", "lacks"),
    [
        ("dask", "('step', {})", False, "split_out", "Executor"),
        ("dask", "step-{}", False, "client.map", "split_out"),
        ("python", "s{}", False, "ProcessPoolExecutor", "split_out"),
        ("python", "s{}", True, "ThreadPoolExecutor", "dask"),
        ("nextflow", "s{}", False, None, ""),
    ],
)
def test_advice_is_in_the_terms_of_what_ran_the_tasks(
    made_run: Make, engine: str, key: str, waits: bool, has: str | None, lacks: str
) -> None:
    run = made_run(workers=1, threads=2, engine=engine)
    for i in range(10):
        run.task(key.format(i), "step", "w0", i, 1.0, cpu_s=0.01 if waits else 0.99)
    finding = only(Advisor().check(run.trace(), Tools()))
    if has is None:
        assert finding.change is None
    else:
        assert has in (finding.change or "")
        assert lacks not in finding.advice + (finding.change or "")


def test_a_program_without_an_engine_has_no_client_to_wait_for(made_run: Make) -> None:
    for engine, words in (("python", "the code between tasks"), ("dask", "the client")):
        run = made_run(workers=1, threads=2, engine=engine)
        for start in (0.0, 10.0):
            for slot in range(2):
                name = f"a{start}{slot}"
                run.task(name, "a", "w0", start, 1.0, submitted=start)
        assert words in only(Advisor().check(run.trace(), Tools())).title


@pytest.mark.parametrize("pause", [0.0, 0.001, 0.05])
def test_a_long_chain_of_like_tasks_is_no_last_wave(made_run: Make, pause: float) -> None:
    """100 serial tasks on 2 cores waste one core, as four of them do."""
    for count in (4, 100):
        run = made_run(workers=1, threads=2, engine="python")
        for i in range(count):
            at = i * (0.1 + pause)
            run.task(f"s{i}", "step", "w0", at, 0.1, submitted=at)
        finding = only(Advisor().check(run.trace(), Tools()))
        idle_s = count * 0.05 + (count - 1) * pause
        assert finding.cost_s == pytest.approx(idle_s, rel=0.05)


@pytest.mark.parametrize("latency", [0.001, 0.015])
def test_a_chain_whose_next_task_waits_a_moment_is_one_too(made_run: Make, latency: float) -> None:
    """Each is ready when the one before has ended, and begins a little later."""
    run = made_run(workers=2, threads=1)
    for i in range(16):
        at = i * (0.1 + latency)
        run.task(f"s{i}", "step", f"w{i // 8}", at, 0.1, ready=at - latency)
    finding = only(Advisor().check(run.trace(), Tools()))
    assert finding.cost_s == pytest.approx(16 * 0.05, rel=0.3)
    assert "`step` ran" in finding.title


def test_the_group_that_ran_most_of_that_time_is_named_with_its_share(made_run: Make) -> None:
    run = made_run(workers=1, threads=2, engine="python")
    for i in range(10):
        run.task(f"s{i}", f"step{i}", "w0", i, 1.3 if i == 9 else 1.0)
    assert "10 groups ran, `step9` most (13%)" in only(Advisor().check(run.trace(), Tools())).title
    run = made_run(workers=1, threads=2, engine="python")
    run.task("a", "long", "w0", 0.0, 6.0)
    run.task("b", "rest", "w0", 6.0, 4.0)
    assert "`long` ran 60% of it" in only(Advisor().check(run.trace(), Tools())).title


@pytest.mark.parametrize(
    ("makespan", "cost", "level"),
    [(0.169, 0.16, "info"), (2.0, 0.9, "warning"), (10.0, 4.0, "critical"), (100.0, 2.0, "info")],
)
def test_a_level_is_relative_and_absolute(
    made_run: Make, makespan: float, cost: float, level: str
) -> None:
    run = made_run()
    run.task("a", "a", "w0", 0.0, makespan)
    assert severity_of(view(run.trace()), cost) == level


def test_what_tracing_took_is_said_first(made_run: Make) -> None:
    run = made_run(workers=1, threads=2, engine="python")
    for i in range(200):
        run.task(f"s{i}", "tiny", "w0", i * 0.01, 0.0001)
    run.meta["overhead"] = {"probe_s": 1.0}
    verdict = diagnose(run.trace())
    assert verdict.sentence.startswith("Tracing itself took 1 s (50% of the run): 200 calls of")
    assert verdict.notes[0].startswith("Tracing itself took")
    run.meta["overhead"] = {"probe_s": 0.01}
    assert "Tracing itself" not in diagnose(run.trace()).sentence


@pytest.mark.parametrize("side", [0.05, 0.3])
def test_a_chain_with_short_side_tasks_is_no_wide_step(made_run: Make, side: float) -> None:
    """While each step's result is saved both cores are busy; then the next step runs alone."""
    run = made_run(workers=2, threads=1)
    for i in range(20):
        at = 0.5 * i
        run.task(f"s{i}", "step", "w0", at, 0.5, ready=at)
        run.task(f"v{i}", "save", "w1", at + 0.5, side, ready=at + 0.5)
    finding = only(Advisor().check(run.trace(), Tools()))
    assert "`step` ran" in finding.title
    assert finding.cost_s == pytest.approx((20 * 0.5 - 19 * side) / 2, rel=0.1)


def test_a_wide_step_of_the_same_function_elsewhere_makes_a_chain_no_wide_step(
    made_run: Make,
) -> None:
    run = made_run(workers=2, threads=1)
    run.step("step", [0.5] * 16, ready=0.0)
    for i in range(12):
        at = 4.0 + 0.5 * i
        run.task(f"s{i}", "step", "w0", at, 0.5, ready=at)
        run.task(f"v{i}", "save", "w1", at + 0.5, 0.1, ready=at + 0.5)
    finding = only(Advisor().check(run.trace(), Tools()))
    assert finding.cost_s == pytest.approx((12 * 0.5 - 11 * 0.1) / 2, rel=0.1)


def test_the_last_wave_of_a_wide_step_stays_its_grain(made_run: Make) -> None:
    """Whether its tasks were ready at once, or each only as it ran."""
    for ready in (0.0, None):
        run = made_run(workers=2, threads=1)
        for number in range(9):
            run.step("map", [1.0], ready=ready if ready is not None else float(number // 2))
        for number, row in enumerate(run.tables["tasks"]):
            row["task_id"] = f"map-{number}"
        assert Advisor().check(run.trace(), Tools()) == []


def test_a_few_short_tasks_that_stand_behind_a_long_one_fill_no_core(made_run: Make) -> None:
    """They had been given to its worker; many that wait are another matter."""
    for behind, said in ((2, True), (40, False)):
        run = made_run(workers=2, threads=1)
        run.task("one", "segment", "w0", 0.0, 4.0)
        for number in range(behind):
            at = 4.0 + 0.01 * number
            run.task(f"s{number}", "small", "w0", at, 0.01, ready=0.0)
        found = Advisor().check(run.trace(), Tools())
        assert bool(found) is said
        if said:
            assert "`segment` ran" in only(found).title
            assert only(found).cost_s == pytest.approx(2.0, rel=0.1)


@pytest.mark.parametrize("moved", [False, True])
def test_what_stood_behind_one_that_ran_alone_holds_nothing_up(made_run: Make, moved: bool) -> None:
    """A tiny task was given to the busy worker, and stolen from it late."""
    run = made_run(workers=2, threads=1)
    first = run.step("load", [0.1])
    run.task("all", "all", "w0", 0.1, 3.0, ready=0.1)
    run.task("note", "note", "w1", 1.6, 0.001, ready=0.1)
    ends = ["all", *run.step("after", [0.2, 0.2], after=["all"])]
    run.tables["deps"] += [{"task_id": name, "depends_on": first[0]} for name in ("all", "note")]
    if moved:
        run.interval("transfer", "w1", 1.597, 1.599, task_id="note", peer="w0", bytes=100)
        run.tables["tasks"][2]["transfer_s"] = 0.002
        run.tables["flows"].append(
            {"task_id": "note", "object": first[0], "medium": "network", "op": "receive",
             "bytes": 100, "worker": "w1", "peer": "w0", "last_ns": run.ns(1.599)}
        )  # fmt: skip
    assert ends
    trace = run.trace()
    finding = only(Advisor().check(trace, Tools(replay=Replayer(trace))))
    assert finding.cost_s == pytest.approx(1.5, rel=0.06)


def test_the_time_of_killed_jobs_is_no_narrow_step(made_run: Make) -> None:
    """Two of four jobs end well after 50 min; two run on and are killed at their limit, 1 h."""
    run = made_run(workers=1, threads=4, engine="slurm")
    for k in range(4):
        more = {"outcome": "timeout"} if k < 2 else {}
        run.task(f"j{k}", "sim", "w0", 0.0, 3600.0 if k < 2 else 3000.0, ready=0.0, **more)
    assert Advisor().check(run.trace(), Tools()) == []


def test_splitting_each_step_of_a_chain_is_an_ideal(made_run: Make) -> None:
    """By hand: ten steps of 10 s one after another; in four pieces each they take 25 s."""
    run = made_run(workers=4, threads=1, engine="table")
    for k in range(10):
        run.task(f"t{k}", f"g{k}", f"w{k % 4}", 10.0 * k, 10.0)
        if k:
            run.tables["deps"].append({"task_id": f"t{k}", "depends_on": f"t{k - 1}"})
    trace = run.trace()
    finding = only(Advisor().check(trace, Tools(replay=Replayer(trace))))
    assert finding.cost_s == pytest.approx(75.0)
    assert finding.cost_s_interval80 == (0.0, pytest.approx(75.0))
    assert finding.cost_how.startswith("at most, if what ran alone were split")
    assert "at most that is saved, if each of them can be split into 4 tasks" in finding.advice


def test_groups_side_by_side_are_no_chain(made_run: Make) -> None:
    """By hand: 1 s, then four groups of one task of 100 s at once on 16 cores; each in 4: 25 s."""
    run = made_run(workers=1, threads=16, engine="table")
    run.task("setup", "setup", "w0", 0.0, 1.0)
    for k in range(4):
        run.task(f"t{k}", f"branch{k}", "w0", 1.0, 100.0)
        run.tables["deps"].append({"task_id": f"t{k}", "depends_on": "setup"})
    trace = run.trace()
    finding = only(Advisor().check(trace, Tools(replay=Replayer(trace))))
    assert "one after another" not in finding.advice
    assert finding.advice.startswith("5 groups ran about 4 at a time: at most that is saved, if")
    assert "each of them can be split into 4 tasks" in finding.advice
    assert finding.cost_s_interval80[0] == 0.0


@pytest.mark.parametrize(
    ("columns", "has", "sure"),
    [
        ({}, "how many cores it used or asked for is not on record, nor whether it can be", False),
        ({"cpu_s": 39.0}, "used 0.97 of its worker's 4 cores: give it more of them, if its", True),
        ({"requested_cores": 1.0, "cpu_s": 39.0}, "asked for 1 of its worker's 4 cores", True),
        ({"requested_cores": 1.0}, "asked for 1 of its worker's 4 cores: give it more", True),
        ({"requested_cores": 1.0, "cpu_s": 4.0}, "used 0.1 of the 1 core that it asked for", False),
        ({"requested_cores": 4.0, "cpu_s": 150.0}, "asked for all that its worker has", False),
    ],
)
def test_one_task_is_told_to_split_only_where_cores_were_there_to_give(
    made_run: Make, columns: dict[str, float], has: str, sure: bool
) -> None:
    """A static table: eight short tasks side by side, then one of 40 s alone, on 2 x 4 cores."""
    run = made_run(workers=2, threads=4, engine="table")
    first = run.step("parts", [5.0] * 8)
    run.task("all", "join", "w0", 5.0, 40.0, ready=5.0, **columns)
    run.tables["deps"] += [{"task_id": "all", "depends_on": name} for name in first]
    trace = run.trace()
    finding = only(Advisor().check(trace, Tools(replay=Replayer(trace))))
    assert finding.advice.startswith("`join` is one task")
    assert has in finding.advice
    assert ("split it into several" in finding.advice) is sure
    assert finding.confidence == ("medium" if sure else "low")
    assert finding.cost_s_interval80 is not None
    assert (finding.cost_s_interval80[0] > 0.0) is sure
    assert "avoidable" not in diagnose(trace, [Advisor()]).sentence or sure


def test_a_step_of_several_tasks_can_be_of_more(made_run: Make) -> None:
    run = made_run(workers=1, threads=4, engine="table")
    for number in range(4):
        run.task(f"s{number}", "step", "w0", 10.0 * number, 10.0)
    finding = only(Advisor().check(run.trace(), Tools()))
    assert finding.advice.startswith("Split that step into more tasks")


@pytest.mark.parametrize("engine", ["table", "parsl", "python"])
def test_what_waits_in_a_queue_is_work_that_was_there(made_run: Make, engine: str) -> None:
    """Three jobs are ready from the start, and begin at 60 s: cores did not idle for their lack."""
    run = made_run(workers=4, threads=1, engine=engine)
    run.task("one", "sim", "w0", 0.0, 60.0, ready=0.0)
    for number in range(1, 4):
        run.task(f"t{number}", "fit", f"w{number}", 60.0, 10.0, ready=0.0)
    assert Advisor().check(run.trace(), Tools()) == []


def test_what_waits_for_a_slow_worker_is_work_that_was_there(made_run: Make) -> None:
    """Each worker has six tasks; one takes four times as long, and its last ones wait for it."""
    run = made_run(workers=2, threads=1)
    for number in range(6):
        run.task(f"a{number}", "map", "w0", 4.0 * number, 4.0, ready=0.0, cpu_s=4.0)
        run.task(f"b{number}", "map", "w1", 1.0 * number, 1.0, ready=0.0, cpu_s=1.0)
    assert Advisor().check(run.trace(), Tools()) == []
    assert [f.kind for f in diagnose(run.trace()).findings] == ["uneven_workers"]


def scaled_down(made_run: Make, *, keep: bool) -> Finding:
    """Two workers come and go with each of two computations, six seconds apart; or one stays."""
    run = made_run(workers=2, threads=1)
    run.lives["w0"]["end"] = None if keep else 3.0
    run.lives["w1"]["end"] = 3.0
    for name in ("w2", "w3"):
        run.lives[name] = {"start": 9.0, "end": 12.0}
    for number, (start, worker) in enumerate([(0, "w0"), (0, "w1"), (9, "w2"), (9, "w3")]):
        for k in range(3):
            at = float(start + k)
            run.task(f"t{number}{k}", "f", worker, at, 1.0, submitted=start, ready=start)
    return only(Advisor().check(run.trace(), Tools()))


def test_a_gap_counts_in_full_where_the_workers_had_gone_meanwhile(made_run: Make) -> None:
    finding = scaled_down(made_run, keep=False)
    assert finding.title == "For 6 s no task was submitted: the run waited for the client"
    assert finding.cost_s == pytest.approx(6.0, abs=0.1)
    finding = scaled_down(made_run, keep=True)
    words = "For 6 s no task was submitted: the core held then waited for the client"
    assert finding.title == words and finding.cost_s == pytest.approx(6.0, abs=0.1)


@pytest.mark.parametrize(("cpu_s", "other"), [(0.1, "processes"), (0.001, "threads")])
def test_dask_without_a_cluster_is_advised_in_its_own_terms(
    made_run: Make, cpu_s: float, other: str
) -> None:
    run = made_run(workers=1, threads=2, engine="python")
    run.meta["dask_local"] = "synchronous"
    for i in range(40):  # All are ready at once, and run one after the other.
        run.task(f"f-{i}", "f", "w0", 0.1 * i, 0.1, submitted=0.0, ready=0.0, cpu_s=cpu_s)
    finding = only(Advisor().check(run.trace(), Tools(replay=Replayer(run.trace()))))
    assert "only 1 of 2 cores had a task" in finding.title
    assert f'scheduler="{other}"' in (finding.change or "")
    assert "Executor" not in finding.advice + (finding.change or "")
    assert finding.cost_s == pytest.approx(2.0, rel=0.1)


def test_a_gap_between_two_clusters_is_told_as_that(made_run: Make) -> None:
    run = made_run(workers=1, threads=1)
    for number, start in enumerate((0.0, 5.0)):
        for k in range(2):
            name, at = f"t{number}{k}", start + k
            run.task(
                name, "f", "w0", at, 1.0, submitted=start, ready=start, run_id=f"{number}a:{k}"
            )
    finding = only(Advisor().check(run.trace(), Tools()))
    assert "one cluster" in finding.advice and "dask.compute" not in (finding.change or "")
