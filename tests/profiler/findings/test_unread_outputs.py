from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rotameter.profiler.diagnose import diagnose
from rotameter.profiler.findings.base import Tools
from rotameter.profiler.findings.unread_outputs import Advisor
from rotameter.profiler.replaying.savings import Replayer
from rotameter.profiler.trace import Trace

Make = Callable[..., Any]


def writing(made_run: Make, onward: bool = True, flush_s: float = 0.4, **columns: Any) -> Any:
    """Eight tasks on two threads write 0.4 s and wait for the disk; merge; perhaps more."""
    run = made_run(workers=2, threads=1)
    run.meta["origin"] = "recorded"
    run.step("before", [0.5] * 8, cpu_s=0.5)
    tasks = run.step("simulate", [1.0] * 8, cpu_s=1.0 - 0.4 - flush_s + 0.1)
    for number, task in enumerate(tasks):
        begun = run.tables["tasks"][8 + number]["started_ns"]
        run.tables["flows"].append(
            {
                "task_id": task, "object": f"/out/{number}.dat", "medium": "file", "op": "write",
                "bytes": 80_000_000, "ops": 20, "busy_s": 0.35,
                "first_ns": begun + 200_000_000, "last_ns": begun + 600_000_000, **columns,
            }
        )  # fmt: skip
    merge = run.step("merge", [0.1], after=tasks)
    if onward:
        run.step("next", [1.0] * 4, after=merge)
    return run


def check(run: Any) -> list[Any]:
    trace = run.trace()
    return Advisor().check(trace, Tools(replay=Replayer(trace)))


def test_writing_and_waiting_for_the_disk_are_the_cost(made_run: Make) -> None:
    (finding,) = check(writing(made_run))
    assert finding.kind == "unread_outputs"
    assert finding.groups == ("simulate",)
    assert finding.cost_s == pytest.approx(4 * 0.8, abs=0.1)


def test_computing_after_the_last_write_is_not_the_disk(made_run: Make) -> None:
    (finding,) = check(writing(made_run, flush_s=0.0))
    assert finding.cost_s == pytest.approx(4 * 0.4, abs=0.3)


def test_what_the_run_ends_with_is_its_result(made_run: Make) -> None:
    assert check(writing(made_run, onward=False)) == []


def test_what_a_task_reads_is_read(made_run: Make) -> None:
    run = writing(made_run)
    run.tables["flows"] += [
        {**row, "op": "read", "task_id": "next-0"} for row in run.tables["flows"]
    ]
    assert check(run) == []


def test_small_notes_cost_nothing(made_run: Make) -> None:
    run = writing(made_run, bytes=500, ops=1, busy_s=1e-5, last_ns=None, flush_s=0.0)
    assert check(run) == []


NOTE = "cannot tell which outputs nobody reads because no reads of files were recorded"


@pytest.mark.parametrize("linked", [True, False])
def test_where_no_reads_are_recorded_it_says_that_it_cannot_tell(
    made_run: Make, linked: bool
) -> None:
    run = writing(made_run)
    run.meta["origin"] = "imported"
    if not linked:
        run.tables["deps"] = []
    verdict = diagnose(run.trace(), [Advisor()])
    assert verdict.findings == ()
    assert verdict.notes.count(NOTE) == 1


def test_reads_past_the_tracer_leave_it_blind(made_run: Make) -> None:
    """The counters of the last tasks say that they read as much as was written."""
    run = writing(made_run)
    for row in run.tables["tasks"][-4:]:
        row["read_bytes"] = 200_000_000
    assert diagnose(run.trace(), [Advisor()]).notes.count(NOTE) == 1
    for row in run.tables["tasks"][-4:]:
        row["read_bytes"] = 1_000_000
    verdict = diagnose(run.trace(), [Advisor()])
    assert (len(verdict.findings), verdict.notes.count(NOTE)) == (1, 0)


@pytest.mark.parametrize("case", ["no files", "a read", "only code written"])
def test_where_reads_could_be_seen_nothing_is_said(made_run: Make, case: str) -> None:
    run = writing(made_run)
    run.meta["origin"] = "imported"
    flows = run.tables["flows"]
    if case == "no files":
        flows.clear()
    elif case == "a read":
        flows.append({**flows[0], "op": "read", "object": "/in/0", "task_id": "before-0"})
    else:
        for row in flows:
            row["object"] = f"/x/site-packages{row['object']}.pyc"
    assert NOTE not in diagnose(run.trace(), [Advisor()]).notes


@pytest.mark.parametrize("lacking", ["bytes", "ops", "busy_s", "first_ns", "task_id", "object"])
def test_a_missing_column_is_no_error(made_run: Make, lacking: str) -> None:
    assert isinstance(check(writing(made_run, **{lacking: None})), list)
    assert Advisor().check(Trace.from_tables({}), Tools()) == []
