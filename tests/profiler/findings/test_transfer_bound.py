from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rotameter.profiler.diagnose import diagnose
from rotameter.profiler.findings.base import Tools
from rotameter.profiler.findings.transfer_bound import Advisor
from rotameter.profiler.replaying.savings import Replayer

Make = Callable[..., Any]


def chain(made_run: Make, beside: bool = False, task: bool = True) -> Any:
    """Ten steps of 1 s on two workers in turn; each waits 0.5 s for what the other made."""
    run = made_run(workers=2, threads=1)
    for number in range(10):
        worker, at = f"w{number % 2}", 1.5 * number
        run.task(f"s-{number}", "step", worker, at, 1.0, ready=max(0.0, at - 0.5),
                 transfer_s=0.5 if number else 0.0)  # fmt: skip
        if number:
            run.tables["deps"].append({"task_id": f"s-{number}", "depends_on": f"s-{number - 1}"})
            run.interval(
                "transfer", worker, at - 0.5, at, bytes=5 * 10**8, peer=f"w{(number + 1) % 2}",
                task_id=f"s-{number}" if task else None,
            )  # fmt: skip
    if beside:
        # Both workers compute for as long as anything moves, and longer.
        for worker in ("w2", "w3"):
            run.lives[worker] = {"start": 0.0, "end": None}
            run.task(f"other-{worker}", "other", worker, 0.0, 40.0)
    return run


def check(run: Any) -> list[Any]:
    trace = run.trace()
    return Advisor().check(trace, Tools(replay=Replayer(trace)))


def facts(finding: Any) -> dict[str, Any]:
    return {evidence.name: evidence.value for evidence in finding.evidence}


def test_moves_on_the_path_cost_what_they_take(made_run: Make) -> None:
    (finding,) = check(chain(made_run))
    assert finding.kind == "transfer_bound"
    assert finding.cost_s == pytest.approx(9 * 0.5, abs=0.1)
    assert "replayed" in finding.cost_how


def test_new_memory_for_what_moved_is_in_the_price(made_run: Make) -> None:
    """The first task on another worker has to get pages that the first worker had already."""
    run = chain(made_run)
    for row in run.tables["tasks"][1:]:
        row["received_bytes"] = 5 * 10**8
    for row in run.tables["tasks"][2:]:
        for name in ("ready_ns", "started_ns", "ended_ns"):
            row[name] += 2 * 10**9
    late = run.tables["tasks"][1]
    late["ended_ns"] += 2 * 10**9
    late["wall_s"] += 2.0
    for row in run.tables["intervals"][1:]:
        row["start_ns"] += 2 * 10**9
        row["end_ns"] += 2 * 10**9
    (finding,) = check(run)
    assert finding.cost_s == pytest.approx(9 * 0.5 + 2.0, abs=0.1)


def test_moves_off_the_path_cost_nothing(made_run: Make) -> None:
    assert check(chain(made_run, beside=True)) == []


def test_moves_that_no_task_asked_for_keep_the_bound(made_run: Make) -> None:
    (finding,) = check(chain(made_run, task=False))
    assert "upper bound" in finding.cost_how
    assert finding.cost_s > 0


def test_without_a_replay_the_bound_is_said(made_run: Make) -> None:
    (finding,) = Advisor().check(chain(made_run).trace(), Tools())
    assert "upper bound" in finding.cost_how


@pytest.mark.parametrize("told", ["intervals", "column", "inside"])
def test_transfers_between_tasks_are_found_however_they_are_told(made_run: Make, told: str) -> None:
    """By hand: ten tasks of 1 s a worker, each after 3 s of transfer: 50 s, 20 s without them."""
    run = made_run(workers=2, threads=1, engine="table")
    for w in range(2):
        for i in range(10):
            run.task(f"a{w}-{i}", "make", f"w{w}", i, 1.0, ready=0.0, cpu_s=0.98)
            at = 10.0 + 4.0 * i
            inside = told == "inside"
            run.task(
                f"b{w}-{i}", "use", f"w{w}", at + 3.0 * (not inside), 1.0 + 3.0 * inside,
                ready=10.0, cpu_s=0.98, received_bytes=10**9, transfer_s=3.0,
            )  # fmt: skip
            run.tables["deps"].append({"task_id": f"b{w}-{i}", "depends_on": f"a{1 - w}-{i}"})
            if told != "column":
                run.interval("transfer", f"w{w}", at, at + 3.0, bytes=10**9, peer=f"w{1 - w}",
                             task_id=f"b{w}-{i}")  # fmt: skip
    (finding,) = check(run)
    assert finding.cost_s == pytest.approx(30.0, abs=0.1)
    assert finding.title.startswith("Cores idled 1 min while 20 GB moved")
    assert [one.kind for one in diagnose(run.trace()).findings] == ["transfer_bound"]


def test_transfers_at_one_time_share_the_idle_core(made_run: Make) -> None:
    """By hand: of w1's four cores one idles for 9 s, in which the data of four tasks comes."""
    run = made_run(workers=2, threads=4, engine="taskvine")
    for number in range(3):
        run.task(f"a{number}", "load", "w1", 0.0, 10.0)
    for number in range(4):
        run.task(f"c{number}", "load", "w0", 0.0, 1.0)
        run.task(f"b{number}", "join", "w1", 10.0, 10.0, transfer_s=9.0, received_bytes=10**9)
        run.tables["deps"].append({"task_id": f"b{number}", "depends_on": f"c{number}"})
    (finding,) = check(run)
    assert finding.title.startswith("Cores idled 9 s while 4 GB moved")
    assert facts(finding)["cores idle during transfers"] == pytest.approx(9.0)
    (bound,) = Advisor().check(run.trace(), Tools())
    assert bound.cost_s == pytest.approx(9.0 / 8)


@pytest.mark.parametrize("blank", ["worker", "started_ns"])
def test_moves_without_a_place_are_told_not_to_be_known(made_run: Make, blank: str) -> None:
    run = made_run(workers=1, threads=1, engine="taskvine")
    for number in range(8):
        run.task(f"b{number}", "join", "w0", 20.0 * number + 10.0, 10.0, transfer_s=9.0)
        run.tables["tasks"][-1][blank] = None
    tools = Tools()
    assert Advisor().check(run.trace(), tools) == []
    assert any("what moving data cost" in note for note in tools.notes)
