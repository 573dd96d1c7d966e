"""Nextflow runs that were killed: what the log and the work folders still tell."""

from __future__ import annotations

from pathlib import Path

import pytest

import rotameter

TASK = (
    "{at} [Task monitor] DEBUG n.processor.TaskPollingMonitor - Task completed > TaskHandler[{job}"
    "id: 1; name: A (1); status: COMPLETED; exit: 0; error: -; "
    "workDir: /w/work/aa/000001aa{more}]\n"
)
TRACE = "nextflow.trace/v2\nrealtime=30000\n%cpu=500\nrchar=1\nwchar=1\npeak_rss=2097152\n"
HEAD = "hash\tname\tstatus\texit\tsubmit\tstart\tcomplete\tduration\trealtime\n"
DAY = "2024-05-01 10:"


def sent(at: str, number: int) -> str:
    line = f"[aa/{number:06}] Submitted process > A ({number})\n"
    return f"{at} [Task submitter] INFO  nextflow.Session - {line}"


LOCAL = (
    sent("May-01 10:00:00.101", 1)
    + sent("May-01 10:00:00.201", 2)
    + sent("May-01 10:00:00.301", 3)
    + TASK.format(at="May-01 10:01:30.101", job="", more="")
)
BATCH = LOCAL.replace("TaskHandler[id", "TaskHandler[jobId: 7; id").replace(
    "000001aa]", "000001aa started: 1714550405000; exited: 2024-05-01T08:01:25Z; ]"
)
ENDED = "> Execution complete -- Goodbye\n"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    for number, code in ((1, "0"), (2, "137"), (3, None)):
        task = tmp_path / f"work/aa/{number:06}aa"
        task.mkdir(parents=True)
        if code is not None:
            (task / ".exitcode").write_text(code)
            (task / ".command.trace").write_text(TRACE)
    (tmp_path / ".nextflow.log").write_text(LOCAL)
    return tmp_path


def opened(run: Path, **options) -> dict[str, dict]:
    trace = rotameter.open(run, **options)
    records = trace.meta["importer"]["records"]
    assert records["in"] == records["out"] + records["merged"] + records["rejected"]
    return {row["task_id"]: row for row in trace.table("tasks").to_pylist()}


def test_a_task_with_an_exit_code_has_ended(run):
    tasks = opened(run)
    two, three = tasks["A (2)"], tasks["A (3)"]
    assert (two["outcome"], two["outcome_kind"], two["signal"]) == ("oom", "inferred", 9)
    assert (two["wall_s"], two["error"]) == (30.0, "exit 137")
    assert (two["peak_memory_bytes"], two["peak_memory_kind"]) == (2 << 30, "lower_bound")
    assert three["outcome"] == "running" and three["exit_code"] is None
    said = rotameter.open(run).warnings
    assert any("how 1 task ended is taken from the exit code" in word for word in said)


@pytest.mark.parametrize(
    "code, closed, outcome",
    [
        ("0", "", "ok"),
        ("1", "", "failed"),
        ("143", "", "failed"),
        ("0", ENDED, "ok"),
        ("2", ENDED, "failed"),
        ("143", ENDED, "cancelled"),  # what the run that ended did itself
        ("x", "", "running"),
        ("x", ENDED, "cancelled"),
    ],
)
def test_how_it_ended(run, code, closed, outcome):
    (run / ".nextflow.log").write_text(LOCAL + closed)
    (run / "work/aa/000002aa/.exitcode").write_text(code)
    assert opened(run)["A (2)"]["outcome"] == outcome


def test_an_end_that_only_the_folder_tells_counts_for_the_next_try(run):
    again = sent("May-01 10:05:00.000", 3).replace("A (3)", "A (2)")
    (run / ".nextflow.log").write_text(LOCAL.replace(sent("May-01 10:00:00.301", 3), "") + again)
    rows = rotameter.open(run).table("tasks").to_pylist()
    tries = [(r["task_id"], r["attempt"], r["outcome"]) for r in rows if r["task_id"] != "A (1)"]
    assert sorted(tries) == [("A (2)", 1, "oom"), ("A (2)", 2, "running")]


def test_times_without_a_year_are_relative(run):
    tasks = opened(run)
    assert [tasks[f"A ({n})"]["submitted_ns"] / 1e9 for n in (1, 2, 3)] == [0.0, 0.1, 0.2]
    one = tasks["A (1)"]
    assert (one["started_ns"], one["ended_ns"]) == (60 * 10**9, 90 * 10**9)
    trace = rotameter.open(run, utc_offset="+02:00")
    assert trace.meta["time_base"] == "relative_ns"
    assert any("no record tells the year" in word for word in trace.warnings)


def test_the_year_turns(run):
    text = LOCAL.replace("May-01 10:01", "Jan-01 00:01").replace("May-01 10:00", "Dec-31 23:59")
    (run / ".nextflow.log").write_text(text)
    assert opened(run)["A (1)"]["ended_ns"] == 150 * 10**9
    (run / ".nextflow.log.1").write_text(sent("Dec-30 23:59:00.101", 9))
    assert opened(run)["A (1)"]["ended_ns"] == (86400 + 150) * 10**9


def test_times_since_the_epoch_tell_year_and_zone(run):
    (run / ".nextflow.log").write_text(BATCH)
    tasks = opened(run)
    assert tasks["A (1)"]["started_ns"] == 1714550405 * 10**9
    assert tasks["A (1)"]["ended_ns"] == 1714550485 * 10**9
    assert tasks["A (3)"]["submitted_ns"] == 1714550400301 * 10**6
    assert rotameter.open(run).meta["join"]["zones"]["log"]["utc_offset_s"] == 7200.0
    trace = rotameter.open(run, utc_offset="+05:00")
    assert any("+05:00 is not what the run's own" in word for word in trace.warnings)
    assert opened(run, utc_offset="+05:00") == tasks
    assert not any("is not what" in w for w in rotameter.open(run, utc_offset="+02:00").warnings)


def test_starts_tell_the_year_and_the_user_the_zone(run):
    (run / ".nextflow.log").write_text(BATCH.replace("exited: 2024-05-01T08:01:25Z", "exited: -"))
    assert opened(run)["A (3)"]["submitted_ns"] is None
    assert opened(run)["A (1)"]["started_ns"] == 1714550405 * 10**9
    assert opened(run, utc_offset="+02:00")["A (3)"]["submitted_ns"] == 1714550400301 * 10**6


@pytest.mark.parametrize("raw", [False, True])
def test_beside_a_trace_times_are_on_its_clock(run, raw):
    times = [f"{DAY}00:00.101", f"{DAY}00:01.000", f"{DAY}01:30.101", "1m 30s", "1m"]
    if raw:
        times = ["1714550400101", "1714550401000", "1714550490101", "90000", "60000"]
    line = "\t".join(["aa/000001", "A (1)", "COMPLETED", "0", *times])
    (run / "trace.txt").write_text(f"{HEAD}{line}\n")
    tasks = opened(run)
    gap = tasks["A (3)"]["submitted_ns"] - tasks["A (1)"]["submitted_ns"]
    assert gap == 200 * 10**6 and tasks["A (2)"]["outcome"] == "oom"
    assert (tasks["A (3)"]["submitted_ns"] > 10**18) is raw


def test_slurm_tells_the_year(run):
    job = "May-01 10:00:00.150 [x] DEBUG GridTaskHandler - [SLURM] submitted process A (2) > "
    (run / ".nextflow.log").write_text(LOCAL + f"{job}jobId: 502; workDir: /w/work/aa/000002aa\n")
    (run / "sacct.txt").write_text(
        "JobID|JobName|State|ExitCode|Submit|Start|End|Elapsed|NCPUS|User\n"
        "502|nf-A|OUT_OF_MEMORY|0:125|2024-05-01T10:00:00|2024-05-01T10:00:05|"
        "2024-05-01T10:00:45|00:00:40|1|ann\n"
    )
    tasks = opened(run, utc_offset="+02:00")
    assert tasks["A (3)"]["submitted_ns"] == 1714550400301 * 10**6
    assert tasks["A (2)"]["ended_ns"] == 1714550445 * 10**9
    assert (tasks["A (2)"]["outcome"], tasks["A (2)"]["user"]) == ("oom", "ann")


def test_logs_more_than_a_year_apart_have_no_year_of_one_another(run):
    (run / ".nextflow.log").write_text(BATCH)
    old = BATCH.replace("aa/", "ab/").replace("1714550405000", "1680336005000")
    old = old.replace("2024-05-01T08:01:25Z", "2023-04-01T08:01:25Z").replace("May", "Apr")
    (run / ".nextflow.log.1").write_text(old)
    rows = rotameter.open(run).table("tasks").to_pylist()
    ends = {r["run_id"]: r["ended_ns"] for r in rows if r["ended_ns"]}
    assert ends == {"aa/000001": 1714550485 * 10**9, "ab/000001": 1680336085 * 10**9}
    assert all(r["submitted_ns"] is None for r in rows)
