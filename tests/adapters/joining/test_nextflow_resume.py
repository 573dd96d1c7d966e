"""A folder in which Nextflow ran several times: what failed and ran again is one task."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path

import pytest

import rotameter
from rotameter.adapters.importers._nextflow_rows import Link, chain_runs

COLUMNS = "hash name status exit attempt submit start complete duration realtime"
OK, BAD, CACHED, KILLED = "COMPLETED\t0", "FAILED\t1", "CACHED\t0", "ABORTED\t-"


def trace(*rows: tuple[str, str, str, int, int], attempts: bool = True) -> str:
    """Write rows of (hash, name, end, attempt, day)."""
    lines = [
        f"{key * 2}/{key * 6}\t{name}\t{end}\t{attempt if attempts else '-'}\t"
        f"2025-01-{day:02} 10:0{attempt}:00.000\t2025-01-{day:02} 10:0{attempt}:01.000\t"
        f"2025-01-{day:02} 10:0{attempt}:11.000\t11s\t10s\n"
        for key, name, end, attempt, day in rows
    ]
    return COLUMNS.replace(" ", "\t") + "\n" + "".join(lines)


def ran(folder: Path, *traces: str, names: str = "abc") -> dict[tuple[str, int], str]:
    (folder / "work").mkdir(exist_ok=True)
    for name, text in zip(names, traces, strict=False):
        (folder / f"trace-{name}.txt").write_text(text)
    made = rotameter.open(folder)
    records = made.meta["importer"]["records"]
    assert records["in"] == records["out"] + records["merged"] + records["rejected"]
    tasks = made.table("tasks").to_pylist()
    found = {(task["task_id"], task["attempt"]): task["outcome"] for task in tasks}
    assert len(found) == len(tasks)
    return found


FIRST = (("a", "A (1)", OK, 1, 14), ("b", "B (1)", BAD, 1, 14))
SECOND = (("a", "A (1)", CACHED, 1, 14), ("c", "B (1)", OK, 1, 15))
RESUMED = {("A (1)", 1): "ok", ("B (1)", 1): "failed", ("B (1)", 2): "ok"}


@pytest.mark.parametrize("attempts", [True, False])
@pytest.mark.parametrize("names", ["ab", "ba"])
def test_what_a_later_run_did_again_is_an_attempt_of_the_same_task(tmp_path, attempts, names):
    texts = [trace(*rows, attempts=attempts) for rows in (FIRST, SECOND)]
    assert ran(tmp_path, *texts, names=names) == RESUMED
    warnings = rotameter.open(tmp_path).warnings
    assert (
        "2 runs (traces) lie in this folder: all are joined, and the makespan spans all of them"
        in warnings
    )


def test_nothing_failed_for_good_once_a_later_run_did_it(tmp_path):
    from rotameter.profiler.diagnose import diagnose

    ran(tmp_path, trace(*FIRST), trace(*SECOND))
    (tmp_path / ".nextflow.log").write_text("x > Execution complete -- Goodbye\n")
    said = str(diagnose(rotameter.open(tmp_path)))
    assert "for good" not in said and "never ended well" not in said


def test_retries_within_runs_go_on_counting(tmp_path):
    first = trace(("b", "B (1)", BAD, 1, 14), ("c", "B (1)", BAD, 2, 14))
    second = trace(("d", "B (1)", BAD, 1, 15), ("e", "B (1)", OK, 2, 15))
    ends = ["failed", "failed", "failed", "ok"]
    assert ran(tmp_path, first, second) == {("B (1)", i + 1): end for i, end in enumerate(ends)}


def test_three_runs_and_one_that_was_killed(tmp_path):
    rows = [("b", "B", KILLED, 1, 14), ("c", "B", BAD, 1, 15), ("d", "B", OK, 1, 16)]
    texts = [trace(row) for row in rows]
    assert ran(tmp_path, *texts) == {("B", 1): "cancelled", ("B", 2): "failed", ("B", 3): "ok"}


def test_what_ended_well_and_ran_again_is_another_task(tmp_path):
    second = trace(("d", "A (1)", OK, 1, 15), ("e", "B (1)", BAD, 1, 15))
    found = ran(tmp_path, trace(*FIRST), second)
    assert found == {
        ("A (1)", 1): "ok", ("A (1) [dd/dddddd]", 1): "ok",
        ("B (1)", 1): "failed", ("B (1)", 2): "failed",
    }  # fmt: skip


def test_a_failure_after_it_is_not_the_attempt_before(tmp_path):
    found = ran(tmp_path, trace(("b", "B", OK, 1, 14)), trace(("c", "B", BAD, 1, 15)))
    assert found == {("B", 1): "ok", ("B [cc/cccccc]", 1): "failed"}


def test_runs_of_which_only_logs_are_left(tmp_path):
    def log(key: str, exit: int) -> str:
        return (
            "x DEBUG n.processor.TaskPollingMonitor - Task completed > TaskHandler[id: 1; name: B; "
            f"status: COMPLETED; exit: {exit}; error: -; workDir: /w/{key * 2}/{key * 6}00 ]\n"
            "x > Execution complete -- Goodbye\n"
        )

    (tmp_path / ".nextflow.log.1").write_text(log("b", 1))
    (tmp_path / ".nextflow.log").write_text(log("c", 0))
    assert ran(tmp_path) == {("B", 1): "failed", ("B", 2): "ok"}


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_the_order_of_runs_is_that_of_their_times(order):
    runs = [[Link("B", str(day), day, day + 1, 1, day < 2, 1, done=day == 2)] for day in range(3)]
    taken: set[str] = set()
    chain_runs([runs[i] for i in order], taken)
    assert [run[0].attempt for run in runs] == [1, 2, 3] and taken == {"B"}


THIRD = (("a", "A (1)", CACHED, 1, 14), ("d", "B (1)", OK, 1, 16))
FAILED_TWICE = (("a", "A (1)", CACHED, 1, 14), ("c", "B (1)", BAD, 1, 15))


def read_alone(folder: Path, *traces: str) -> dict[tuple[str, int], str]:
    """Read traces that lie in no run's folder."""
    for number, text in enumerate(traces):
        (folder / f"trace-{number}.txt").write_text(text)
    made = rotameter.open(folder)
    records = made.meta["importer"]["records"]
    assert records["in"] == records["out"] + records["merged"] + records["rejected"]
    tasks = made.table("tasks").to_pylist()
    return {(task["task_id"], task["attempt"]): task["outcome"] for task in tasks}


@pytest.mark.parametrize("attempts", [True, False])
@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_a_cached_row_that_two_runs_have_links_them(tmp_path, order, attempts):
    texts = [trace(*rows, attempts=attempts) for rows in (FIRST, FAILED_TWICE, THIRD)]
    assert read_alone(tmp_path, *(texts[i] for i in order)) == {
        ("A (1)", 1): "ok", ("B (1)", 1): "failed", ("B (1)", 2): "failed", ("B (1)", 3): "ok",
    }  # fmt: skip


def test_the_first_trace_is_gone(tmp_path):
    found = read_alone(tmp_path, trace(*FAILED_TWICE), trace(*THIRD))
    assert found == {("A (1)", 1): "cached", ("B (1)", 1): "failed", ("B (1)", 2): "ok"}


@pytest.mark.parametrize("early", [1, 2])
@pytest.mark.parametrize("first", [True, False])
def test_an_earlier_copy_of_a_trace_beside_it(tmp_path, first, early):
    rows = [("b", "B", BAD, 1, 14), ("e", "C", OK, 1, 14), ("c", "B", OK, 2, 14)]
    texts = [trace(*rows[:early], attempts=False), trace(*rows, attempts=False)]
    found = read_alone(tmp_path, *(texts if first else texts[::-1]))
    assert found == {("B", 1): "failed", ("B", 2): "ok", ("C", 1): "ok"}


def test_a_whole_copy_links_those_that_it_has_rows_of(tmp_path):
    both = trace(*FIRST) + trace(*FAILED_TWICE).partition("\n")[2]
    found = read_alone(tmp_path, trace(*FIRST), trace(*FAILED_TWICE), both)
    assert found == {("A (1)", 1): "ok", ("B (1)", 1): "failed", ("B (1)", 2): "failed"}


def test_traces_without_a_row_in_common_stay_apart(tmp_path):
    found = read_alone(tmp_path, trace(("b", "B", BAD, 1, 14)), trace(("c", "B", OK, 1, 15)))
    assert found == {("B", 1): "failed", ("B [cc/cccccc]", 1): "ok"}
