from __future__ import annotations

from typing import Any

import pytest

from rotameter.profiler.diagnose import diagnose
from rotameter.profiler.trace import Trace
from rotameter.profiler.verdict import status_of

S = 10**9


def task(name: str, outcome: str = "ok", hours: float = 1.0, **more: Any) -> dict[str, Any]:
    return {
        "task_id": name,
        "group": "assemble",
        "outcome": outcome,
        "wall_s": hours * 3600,
        **more,
    }


def sentence(tasks: list[dict[str, Any]], **meta: Any) -> str:
    events = meta.pop("events", [])
    return diagnose(Trace.from_tables({"tasks": tasks, "events": events}, meta)).sentence


def test_a_failed_pipeline_begins_with_where_the_hours_went() -> None:
    tasks = [task(f"a{i}") for i in range(4)]
    tasks += [task(f"b{i}", "failed", 2.0, exit_code=137) for i in range(3)]
    tasks[-1]["exit_code"] = 1
    assert sentence(tasks, run={"status": "failed"}) == (
        "Run failed. 6 of 10 task-hours (60%) went into failed tasks; "
        "2 of 7 tasks exited with 137 (probably out of memory). "
        "Failed tasks have no memory record, so needs are lower bounds."
    )


def test_a_raised_error_is_named_with_its_group() -> None:
    origin = {"kind": "group_origin", "group": "assemble", "file": "x/run.py", "line": 7}
    tasks = [task("a"), task("b", "failed", 0.0, error="ValueError: bad")]
    assert sentence(tasks, run={"status": "failed"}, events=[origin]) == (
        "Run failed. 1 task of 2 failed: `assemble` (run.py:7) raised ValueError."
    )
    tasks.append(task("c", "failed", 0.0))
    assert "2 tasks of 3 failed for good: `assemble` raised ValueError in 1 of them" in sentence(
        tasks, run={"status": "failed"}
    )


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        ({"status": "failed", "error": "KeyError: 'x'"}, "Run failed: KeyError: 'x'."),
        ({"status": "failed", "exit_code": 3}, "Run failed with exit code 3; no task failed."),
        ({"status": "failed"}, "Run failed; why was not recorded."),
        (
            {"status": "interrupted", "started_ns": 0, "ended_ns": 9 * S},
            "Run interrupted after 9 s: 1 of 2 tasks were done.",
        ),
        (
            {"status": "interrupted", "signal": 15},
            "Run interrupted by signal 15: 1 of 2 tasks were done.",
        ),
    ],
)
def test_why_comes_first(run: dict[str, Any], expected: str) -> None:
    assert sentence([task("a"), task("b", "running")], run=run) == expected


def test_a_lost_scheduler_comes_before_all_else() -> None:
    lost = {"kind": "scheduler_lost", "reason": "connection closed", "at_ns": 5 * S}
    tasks = [task("a", started_ns=0, ended_ns=S), task("b", "running", started_ns=S)]
    found = sentence(tasks, run={"status": "failed", "error": "CommClosedError"}, events=[lost])
    assert found == (
        "Scheduler lost (connection closed) after 5 s: 1 of 2 tasks were done by then; "
        "what came later is unknown."
    )


@pytest.mark.parametrize(
    ("tasks", "meta", "expected"),
    [
        ([task("a", "failed"), task("a")], {}, "ok"),  # the retry went well
        ([task("a", "failed")], {}, "failed"),
        ([task("a", "failed")], {"engine": "slurm"}, "unknown"),
        ([task("a", "failed")], {"run": {"status": "ok"}}, "ok"),
        ([task("a")], {"run": {"status": "unknown"}}, "ok"),
        ([task("a", "running")], {}, "unknown"),
        ([], {}, "unknown"),
        ([task("a")], {"run": {"status": "interrupted"}}, "interrupted"),
    ],
)
def test_the_status(tasks: list[dict[str, Any]], meta: dict[str, Any], expected: str) -> None:
    assert status_of(Trace.from_tables({"tasks": tasks}, meta)) == expected


def test_nothing_worth_changing_is_said() -> None:
    worker = {"worker": "w", "started_ns": 0, "ended_ns": 10 * S, "cores": 1.0,
              "memory_bytes": 4 * S}  # fmt: skip
    tasks = [
        task(f"a{i}", worker="w", started_ns=i * S, ended_ns=(i + 1) * S) | {"wall_s": 1.0}
        for i in range(10)
    ]
    verdict = diagnose(Trace.from_tables({"tasks": tasks, "workers": [worker]}))
    assert verdict.sentence == (
        "Nothing worth changing: 10 tasks in 10 s, 100% of the held core time had a task."
    )
    assert [figure.label for figure in verdict.figures] == [
        "Run time", "Efficiency", "Memory held, not used", "Avoidable",
    ]  # fmt: skip
    assert verdict.figures[0].text == "10 s"
    assert verdict.figures[1].text == "100% of 10 core·s busy"
    assert verdict.figures[2].value is None
    assert verdict.figures[2].text == "not measured"
    assert "100% more could not be judged" in verdict.figures[2].how
    assert verdict.figures[3].value == 0.0


def test_failed_hours_become_the_fourth_figure() -> None:
    verdict = diagnose(Trace.from_tables({"tasks": [task("a"), task("b", "failed", 3.0)]}))
    assert verdict.figures[3].label == "In failed tasks"
    assert verdict.figures[3].text == "3 h of 4 h (75%)"


def test_unknown_figures_say_why() -> None:
    verdict = diagnose(Trace.from_tables({"tasks": [{"task_id": "a"}]}))
    assert all(figure.text == "–" and figure.how for figure in verdict.figures)
    assert any("no task has times" in note for note in verdict.notes)


def test_without_workers_it_does_not_claim_that_all_is_well() -> None:
    assert sentence([task("a")], run={"status": "ok"}) == (
        "No cause of loss found: 1 task; workers and their cores were not recorded, "
        "so idle time cannot be told."
    )


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        (
            {"status": "interrupted", "error": "the program was killed"},
            "Run interrupted, or still writing its trace: 2 tasks were recorded as done; what ran "
            "when it was killed is unknown.",
        ),
        (
            {"status": "failed", "error": "killed by SIGKILL", "signal": 9},
            "Run failed: killed by SIGKILL. 2 tasks were recorded as done; what ran when it was "
            "killed is unknown.",
        ),
        ({"status": "running"}, "Still running: 2 tasks were recorded as done so far."),
    ],
)
def test_what_was_not_recorded_is_not_called_done(run: dict[str, Any], expected: str) -> None:
    assert sentence([task("a"), task("b")], run=run) == expected


def test_a_program_that_is_the_only_task_is_worded_as_such() -> None:
    row = task("1", "failed", 0.55 / 3600, exit_code=4) | {"group": "job.py"}
    assert sentence([row], run={"status": "failed"}) == (
        "Run failed: job.py exited with 4 after 550 ms."
    )


def test_a_task_that_was_killed_did_not_raise() -> None:
    tasks = [task("a"), task("b", "failed", 0.0, error="killed by SIGKILL")]
    assert "`assemble` was killed by SIGKILL" in sentence(tasks, run={"status": "failed"})


def test_the_error_that_ended_a_run_comes_before_dead_workers() -> None:
    tasks = [
        task("a", worker="w", started_ns=0, ended_ns=S),
        task("b", "failed", 0.0, error="ValueError: bad row", worker="v"),
        task("c", "worker_lost", 1 / 3600, worker="w", started_ns=S, ended_ns=2 * S),
    ]
    events = [
        {"kind": "worker_removed", "worker": "w", "expected": False, "at_ns": 2 * S},
        {"kind": "worker_exit", "worker": "w", "exit_code": -9, "signal": 9, "at_ns": 2 * S},
        {"kind": "executing_at_death", "worker": "w", "task_id": "c", "group": "assemble",
         "at_ns": 2 * S},
    ]  # fmt: skip
    run = {"status": "failed", "error": "ValueError: bad row"}
    found = sentence(tasks, run=run, events=events)
    assert found.startswith("Run failed: ValueError: bad row. Besides, one worker died")
    assert "or the task itself" in found


def test_sleeping_is_not_called_useful() -> None:
    worker = {"worker": "w", "started_ns": 0, "ended_ns": 10 * S, "cores": 1.0}
    tasks = [
        task(f"a{i}", worker="w", started_ns=i * S, ended_ns=(i + 1) * S, cpu_s=0.001)
        | {"wall_s": 1.0}
        for i in range(10)
    ]
    verdict = diagnose(
        Trace.from_tables({"tasks": tasks, "workers": [worker]}, {"engine": "python"})
    )
    assert "useful" not in verdict.sentence
    assert "100% of the held core time had a task and 0% computed" in verdict.sentence
    assert "0% computed (CPU time)" in verdict.figures[1].how
    assert verdict.figures[2].how == "no memory was requested"


@pytest.mark.parametrize("engine", ["taskvine", "parsl", None])
def test_a_trace_with_many_open_tasks_says_how_many_ended(engine: str | None) -> None:
    rows = [
        {"task_id": "a", "worker": "w", "outcome": "ok", "started_ns": 0, "ended_ns": 10 * S},
        {"task_id": "b", "worker": "w", "outcome": "running", "started_ns": 0},
        *({"task_id": f"c{i}", "outcome": "unknown", "submitted_ns": 0} for i in range(8)),
    ]
    life = {"worker": "w", "started_ns": 0, "ended_ns": 10 * S, "cores": 1.0}
    said = diagnose(
        Trace.from_tables({"tasks": rows, "workers": [life]}, {"engine": engine})
    ).sentence
    assert "1 of 10 tasks had ended, 1 was running and 8 had never started" in said
    assert "othing worth changing" not in said


def test_a_failed_import_with_open_tasks_says_so_too() -> None:
    rows = [
        {"task_id": "a", "outcome": "failed", "started_ns": 0, "ended_ns": S, "error": "E: x"},
        {"task_id": "b", "outcome": "running", "started_ns": 0},
    ]
    said = diagnose(Trace.from_tables({"tasks": rows}, {"origin": "imported"})).sentence
    assert said.startswith("Run failed")
    assert said.endswith("1 of 2 tasks had ended and 1 was running.")


def test_a_run_whose_tasks_ended_has_no_such_sentence() -> None:
    rows = [
        {"task_id": "a", "outcome": "ok", "started_ns": 0, "ended_ns": S},
        {"task_id": "b", "outcome": "ok"},  # No times, but its end is told.
    ]
    assert "When the trace ends" not in diagnose(Trace.from_tables({"tasks": rows})).sentence


@pytest.mark.parametrize("outcome", ["unknown", None])
def test_a_task_with_an_unknown_end_is_not_called_running(outcome: str | None) -> None:
    rows = [
        {"task_id": "a", "outcome": "ok", "started_ns": 0, "ended_ns": S},
        {"task_id": "b", "outcome": outcome, "started_ns": 600 * S},
    ]
    said = diagnose(Trace.from_tables({"tasks": rows}, {"origin": "imported"})).sentence
    assert "1 of 2 tasks had ended; 1 with an unknown end." in said and "running" not in said
    assert "2 tasks in at least 10 min" in said
    rows.append({"task_id": "c", "outcome": "running", "started_ns": S})
    said = diagnose(Trace.from_tables({"tasks": rows}, {"origin": "imported"})).sentence
    assert "1 of 3 tasks had ended and 1 was running; 1 with an unknown end." in said


def test_a_run_without_any_end_says_so() -> None:
    rows = [{"task_id": name, "outcome": "unknown", "started_ns": 5 * S} for name in "ab"]
    made = diagnose(Trace.from_tables({"tasks": rows}, {"origin": "imported"}))
    assert made.sentence.startswith("No task has an end on record (2 tasks began).")
    assert any("because no task has an end" in note for note in made.notes)
    rows = [{"task_id": "a", "outcome": "ok", "ended_ns": 5 * S}]
    made = diagnose(Trace.from_tables({"tasks": rows}, {"origin": "imported"}))
    assert any("because no task has a start" in note for note in made.notes)


def test_only_an_error_is_raised() -> None:
    def said(error: str) -> str:
        rows = [task("a"), task("b", "failed", error=error)]
        return sentence(rows, origin="imported")

    assert "`assemble` raised ValueError" in said("ValueError: no")
    assert "`assemble` (no exit code)" in said("no exit code")
    assert "`assemble` was killed by SIGKILL" in said("killed by SIGKILL")


def test_a_cancelled_attempt_had_its_core() -> None:
    workers = [
        {"worker": w, "started_ns": 0, "ended_ns": 100 * S, "cores": 1.0} for w in ("v", "w")
    ]
    times = [("a", "v", 0, 100, "cancelled"), ("a", "w", 50, 80, "ok"), ("b", "w", 80, 100, "ok")]
    tasks = [
        {"task_id": t, "group": t, "worker": w, "started_ns": s * S, "ended_ns": e * S,
         "outcome": how, "cpu_s": float(e - s)}
        for t, w, s, e, how in times
    ]  # fmt: skip
    verdict = diagnose(Trace.from_tables({"tasks": tasks, "workers": workers}))
    # 150 of 200 s had a task, 50 s of them one that ended well.
    assert "75% of the held core time had a task (25% one that ended well)" in verdict.sentence
    assert verdict.figures[1].text == "25% of 200 core·s in attempts that ended well"


def run_of(cpu_s: float, **more: Any) -> Trace:
    worker = {"worker": "w", "started_ns": 0, "ended_ns": 10 * S, "cores": 1.0}
    tasks = [
        task(f"a{i}", worker="w", started_ns=i * S, ended_ns=(i + 1) * S)
        | {"wall_s": 1.0, "cpu_s": cpu_s, "group": "g", **more}
        for i in range(10)
    ]
    return Trace.from_tables({"tasks": tasks, "workers": [worker]}, {"engine": "dask"})


def test_tasks_that_only_wait_are_not_called_nothing_worth_changing() -> None:
    said = diagnose(run_of(0.01)).sentence
    assert said.startswith("No cause of loss found: 10 tasks") and "Tasks mostly waited" in said
    assert diagnose(run_of(0.9)).sentence.startswith("Nothing worth changing")


def test_what_counting_calls_on_files_took_is_told_as_that() -> None:
    trace = run_of(0.9)
    trace.meta["overhead"] = {"probe_s": 3.0, "files_s": 2.9}
    said = diagnose(trace).sentence
    assert said.startswith("Tracing itself took 3 s (30% of the run): calls on files were counted")
    trace = run_of(0.9)
    trace.meta["overhead"] = {"probe_s": 3.0}
    assert "let each do more" in diagnose(trace).sentence
