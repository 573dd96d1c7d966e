"""What lies in a run's folder and is not of the run: other jobs with the same numbers."""

from __future__ import annotations

from pathlib import Path

import pytest

import rotameter
from rotameter.adapters.joining import _nextflow_log
from rotameter.adapters.joining.slurm_side import at_another_time
from rotameter.errors import UsageError

COLUMNS = "task_id hash native_id name status exit submit duration realtime %cpu peak_rss"
TRACE = COLUMNS.replace(" ", "\t") + "\n" + "".join(
    f"{i}\t0{i}/00000{i}\t7000{i}\tA ({i})\tCOMPLETED\t0\t2025-01-14 10:00:0{i}.000\t12s\t10s\t"
    "90%\t9 MB\n"
    for i in (1, 2, 3)
)  # fmt: skip
HEAD = "JobID|JobName|State|Submit|Start|End|Elapsed|TotalCPU|AllocCPUS|ReqMem|MaxRSS|User\n"
OLD = (
    "70003|md|FAILED|2024-06-01T08:00:00|2024-06-01T08:01:00|2024-06-02T08:01:00|1-00:00:00|"
    "23:00:00|16|64G|50G|eve\n"
)
OWN = (
    "7000{0}|nf-A|COMPLETED|2025-01-14T{1}:00:0{0}|2025-01-14T{1}:00:0{0}|2025-01-14T{1}:00:1{0}|"
    "00:00:10|00:00:09|1|1G|9M|ann\n"
)
LOG = (
    "Jan-14 10:00:00.100 [main] INFO  nextflow.cli.CmdRun - N E X T F L O W  ~  version 23.10.0\n"
    "{}Jan-14 10:00:30.500 [main] DEBUG nextflow.script.ScriptRunner - > Execution complete -- "
    "Goodbye\n"
)
LOCAL = "Jan-14 10:00:00.500 [main] DEBUG n.executor.Executor - [warm up] executor > local\n"
SLURM = "Jan-14 10:00:00.500 [main] DEBUG n.executor.ExecutorFactory - >> processorType: 'slurm'\n"


def folder(tmp_path: Path, sacct: str, log: str | None = "") -> Path:
    (tmp_path / "trace.txt").write_text(TRACE)
    (tmp_path / "jobs.psv").write_text(HEAD + sacct)
    if log is not None:
        (tmp_path / ".nextflow.log").write_text(LOG.format(log))
    return tmp_path


def users(trace) -> list[str | None]:
    records = trace.meta["importer"]["records"]
    assert records["in"] == records["out"] + records["merged"] + records["rejected"]
    return trace.table("tasks")["user"].to_pylist()


@pytest.mark.parametrize("log", ["", LOCAL, SLURM])
def test_a_job_of_another_time_is_not_a_task_s(tmp_path, log):
    trace = rotameter.open(folder(tmp_path, OLD, log))
    assert users(trace) == [None] * 3
    tasks = trace.table("tasks").to_pylist()
    assert {(task["outcome"], task["peak_memory_bytes"]) for task in tasks} == {("ok", 9 << 20)}
    assert max(t["ended_ns"] for t in tasks) - min(t["submitted_ns"] for t in tasks) == 14 * 10**9
    assert trace.meta["join"]["unmatched"] == {"sacct": 1} and not trace.meta["join"]["conflicts"]
    assert "1 record of sacct belongs to no task of the others" in trace.warnings
    assert any("another time" in w for w in trace.warnings) == (log != LOCAL)


@pytest.mark.parametrize("hour", ["10", "03"])
def test_beside_an_old_job_the_run_s_own_are_joined(tmp_path, hour):
    own = OWN.format(1, hour) + OWN.format(2, hour)
    assert users(rotameter.open(folder(tmp_path, OLD + own, SLURM))) == ["ann", "ann", None]


def test_the_numbers_of_a_local_run_are_no_jobs(tmp_path):
    # At the same time, by chance.
    trace = rotameter.open(folder(tmp_path, OWN.format(1, "10"), LOCAL))
    assert users(trace) == [None] * 3
    assert any("3 tasks ran under the executor local" in word for word in trace.warnings)
    assert users(rotameter.open(folder(tmp_path, OWN.format(1, "10"), LOCAL + SLURM)))[0] == "ann"


def test_an_old_job_makes_no_run_of_a_trace_beside_it(tmp_path):
    with pytest.raises(UsageError, match=r"nextflow \(1\), slurm \(1\)"):
        rotameter.open(folder(tmp_path, OLD, None))


def test_the_log_says_which_task_was_a_batch_job():
    line = (
        "x [Task monitor] DEBUG n.processor.TaskPollingMonitor - Task completed > TaskHandler["
        "{0}id: 1; name: A; status: COMPLETED; exit: 0; error: -; workDir: /w/ab/012345ff ]"
    )
    for job, batch in (("jobId: 7; ", True), ("", False)):
        log = _nextflow_log.read([LOCAL, line.format(job)])
        assert log.executors == {"local"} and log.tasks["ab/012345"].batch is batch


HOUR = 3600 * 10**9


@pytest.mark.parametrize(
    ("task", "job", "apart"),
    [
        ((0, HOUR), (0, HOUR), False),
        ((0, HOUR), (HOUR // 2, HOUR + 60 * 10**9), False),  # requeued: only the last run is known
        ((0, HOUR), (None, None), False),
        ((None, None), (0, HOUR), False),
        ((0, HOUR), (0, None), False),  # still running
        ((0, HOUR), (-HOUR, HOUR), True),  # there before it was handed over
        ((0, HOUR), (0, 4 * HOUR), True),
        ((0, HOUR), (2 * HOUR, 3 * HOUR), True),
        ((3 * HOUR, None), (0, HOUR), True),
    ],
)
def test_which_times_contradict(task, job, apart):
    row, run = ({"submitted_ns": a, "ended_ns": b} for a, b in (task, job))
    assert at_another_time(row, [run]) is apart
