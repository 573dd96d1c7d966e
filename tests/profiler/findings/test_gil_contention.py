from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rotameter.profiler.findings.base import Tools
from rotameter.profiler.findings.gil_contention import Advisor
from rotameter.profiler.replaying.savings import Replayer
from rotameter.profiler.trace import Trace

Make = Callable[..., Any]


def check(run: Any, tools: Tools | None = None) -> list[Any]:
    trace = run if isinstance(run, Trace) else run.trace()
    return Advisor().check(trace, tools or Tools(replay=Replayer(trace)))


def turns(
    made_run: Make, *, share: float = 0.5, busy: float | None = 0.55, threads: int = 2
) -> Any:
    """One worker; tasks that get ``share`` of a core while they run side by side."""
    run = made_run(workers=1, threads=threads)
    run.meta["machines"] = [{"host": "h", "cores": threads}]
    run.step("parse", [1.0] * 20, cpu_s=share, concurrency=float(threads))
    if busy is not None:
        for tick in range(1, 21):
            run.sample("h", "cpu_ratio", tick / 2, busy)
    return run


def test_threads_that_share_one_core(made_run: Make) -> None:
    (finding,) = check(turns(made_run))
    assert (finding.code, finding.kind) == ("RM110", "gil_contention")
    # 20 tasks of 0.5 s of CPU on two processes: 5 s instead of 10.
    assert finding.cost_s == pytest.approx(5.0, rel=0.05)
    assert finding.confidence == "high"
    assert "threads_per_worker=1" in finding.change


def test_four_threads_share_one_core_too(made_run: Make) -> None:
    (finding,) = check(turns(made_run, share=0.25, threads=4))
    assert finding.cost_s == pytest.approx(5 - 1.25, rel=0.05)


@pytest.mark.parametrize("share", [0.95, 0.05])  # free of the lock; waiting for something else
def test_decoys(made_run: Make, share: float) -> None:
    assert check(turns(made_run, share=share)) == []


def test_tasks_that_wait_when_alone_too_do_not_wait_for_the_lock(made_run: Make) -> None:
    run = turns(made_run)
    for number in range(3):
        run.task(f"parse-alone{number}", "parse", "w0", 20.0 + number, 1.0, cpu_s=0.5,
                 concurrency=1.0)  # fmt: skip
    assert check(run) == []


def test_busy_machines_leave_it_open(made_run: Make) -> None:
    run = turns(made_run, busy=1.0)
    trace = run.trace()
    tools = Tools(replay=Replayer(trace))
    assert check(trace, tools) == []
    assert "all cores of the machines were busy" in tools.notes[0]


def test_tasks_of_one_thread_a_worker_have_no_lock_to_share(made_run: Make) -> None:
    run = made_run(workers=2, threads=1)
    run.step("parse", [1.0] * 20, cpu_s=0.5)
    assert check(run) == []


def test_time_in_files_is_no_lock(made_run: Make) -> None:
    run = turns(made_run)
    for row in run.tables["tasks"]:
        row["io_s"] = 0.5
    assert check(run) == []


def test_missing_columns(made_run: Make) -> None:
    run = turns(made_run, busy=None)
    for row in run.tables["tasks"]:
        row.pop("concurrency")
    (finding,) = check(run)  # swept instead; the machine's load is not known
    assert finding.confidence == "medium"
    for row in run.tables["tasks"]:
        row.pop("cpu_s")
    trace = run.trace()
    tools = Tools(replay=Replayer(trace))
    assert check(trace, tools) == []
    assert "no CPU time" in tools.notes[0]
    assert check(Trace.from_tables({})) == []


def beside_python(made_run: Make, *, elsewhere: float | None = None) -> Any:
    """One task that got next to nothing beside pure Python; then Python beside Python."""
    run = made_run(workers=1, threads=2)
    run.meta["machines"] = [{"host": "h", "cores": 2}]
    for number in range(20):
        run.task(f"p-{number}", "parse", "w0", 0.2 * number, 0.2, cpu_s=0.19, ready=0.0)
    run.task("fit", "fit", "w0", 0.0, 4.0, cpu_s=0.05, ready=0.0)
    for number in range(6):
        run.task(
            f"q-{number}", "parse", "w0", 4.0 + 0.4 * (number // 2), 0.4, cpu_s=0.19, ready=0.0
        )
    if elsewhere is not None:
        run.task("fit-2", "fit", "w0", 5.2, 1.0, cpu_s=elsewhere, ready=5.2)
    for tick in range(1, 15):
        run.sample("h", "cpu_ratio", tick / 2, 0.53)
    return run


def test_what_starves_beside_the_lock_does_not_hide_it(made_run: Make) -> None:
    (finding,) = check(beside_python(made_run))
    # 26 tasks of 0.19 s and 0.05 s on two processes, instead of 5.2 s.
    assert finding.cost_s == pytest.approx(5.2 - 2.5, rel=0.1)
    assert finding.groups == ("parse",)
    facts = {e.name: e.value for e in finding.evidence}
    assert facts["cores that they got together"] == pytest.approx(0.95, abs=0.05)
    assert facts["lost by others"] == pytest.approx(3.95)
    assert finding.cost_s_interval80[0] < 0.5 * finding.cost_s  # It may have slept.


@pytest.mark.parametrize(("share", "lost"), [(0.05, False), (0.95, True)])
def test_what_waits_elsewhere_too_is_not_starved(made_run: Make, share: float, lost: bool) -> None:
    found = check(beside_python(made_run, elsewhere=share))
    named = {e.name for finding in found for e in finding.evidence}
    assert ("lost by others" in named) is lost


def test_one_that_sleeps_beside_python_does_not_make_a_lock(made_run: Make) -> None:
    run = beside_python(made_run)
    rows = run.tables["tasks"]
    rows[:] = [row for row in rows if not row["task_id"].startswith("q-")]
    assert check(run) == []
