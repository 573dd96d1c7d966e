"""A Nextflow run's folder: trace, log, work folders and Slurm's accounting as one table."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import rotameter
from rotameter.adapters.joining import join
from rotameter.errors import BadInput, UsageError

COLUMNS = (
    "task_id\thash\tnative_id\tname\tstatus\texit\tsubmit\tstart\tcomplete\tduration\trealtime\t"
    "%cpu\tpeak_rss\tcpus\tmemory\n"
)
DAY = "2024-05-01 12:"
TRACE = COLUMNS + (
    f"1\tab/012345\t501\tA (1)\tCOMPLETED\t0\t{DAY}00:00.000\t{DAY}00:10.100\t{DAY}01:40.000\t"
    "1m 40s\t1m 20s\t180.0%\t1.1 GB\t2\t4 GB\n"
    f"2\tcd/6789ab\t502\tB (x)\tFAILED\t1\t{DAY}00:01.000\t{DAY}00:11.000\t{DAY}02:00.000\t"
    "1m 59s\t1m 30s\t-\t-\t1\t4 GB\n"
    f"3\tef/000001\t503\tC\tABORTED\t-\t{DAY}00:01.000\t-\t-\t-\t-\t-\t-\t1\t4 GB\n"
)
WRAPPER = (
    "nextflow.trace/v2\nrealtime=80123\n%cpu=1801\nrchar=1000000\nwchar=2000\n"
    "peak_rss=1153000\npeak_vmem=5000000\nvmem=5\nrss=3\n"
)
DONE = (
    "May-01 12:01:40.100 [Task monitor] DEBUG n.processor.TaskPollingMonitor - Task completed > "
    "TaskHandler[jobId: 501; id: 1; name: A (1); status: COMPLETED; exit: 0; error: -; "
    "workDir: /data/run/ab/01234500ff started: 1714557610100; exited: 2024-05-01T10:01:35Z; ]\n"
)
LOG = (
    "May-01 11:59:50.000 [main] DEBUG nextflow.cli.Launcher - $> nextflow run main.nf "
    "--token s3cr3t\n"
    "May-01 11:59:50.100 [main] INFO  nextflow.cli.CmdRun - N E X T F L O W  ~  version 23.10.1\n"
    "May-01 11:59:51.100 [main] DEBUG nextflow.Session - Run name: happy_x\n"
    "May-01 12:00:00.101 [Task submitter] INFO  nextflow.Session - [ab/012345] "
    "Submitted process > A (1)\n"
    + DONE
    + "May-01 12:02:00.100 [main] DEBUG nextflow.script.ScriptRunner - > "
    "Execution complete -- Goodbye\n"
)
SACCT = (
    "JobID|JobName|State|ExitCode|Submit|Start|End|Elapsed|TotalCPU|MaxRSS|ReqMem|NCPUS|NodeList|User\n"
    "501|nf-A|COMPLETED|0:0|2024-05-01T12:00:00|2024-05-01T12:00:05|2024-05-01T12:01:38|00:01:33|"
    "02:24.000||4G|2|n1|ann\n"
    "501.batch|batch|COMPLETED|0:0|2024-05-01T12:00:05|2024-05-01T12:00:05|2024-05-01T12:01:38|"
    "00:01:33|02:24.000|1100000K||2|n1|\n"
    "502|nf-B|OUT_OF_MEMORY|0:125|2024-05-01T12:00:01|2024-05-01T12:00:06|2024-05-01T12:01:58|"
    "00:01:52|01:00.000||4G|1|n2|ann\n"
    "502.batch|batch|OUT_OF_MEMORY|0:125|2024-05-01T12:00:06|2024-05-01T12:00:06|"
    "2024-05-01T12:01:58|00:01:52|01:00.000|3000000K||1|n2|\n"
    "400|nf-head|RUNNING|0:0|2024-05-01T11:59:00|2024-05-01T11:59:10|Unknown|01:00:00|00:01.000||"
    "4G|1|n0|ann\n"
)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """An untouched folder of a run under Slurm."""
    folder = tmp_path / "run"
    (folder / "results/pipeline_info").mkdir(parents=True)
    (folder / "results/pipeline_info/execution_trace.txt").write_text(TRACE)
    (folder / ".nextflow.log").write_text(LOG)
    task = folder / "work/ab/01234500ff"
    task.mkdir(parents=True)
    (task / ".command.trace").write_text(WRAPPER)
    (task / ".exitcode").write_text("0")
    other = folder / "work/cd/6789ab00"
    other.mkdir(parents=True)
    (other / ".exitcode").write_text("1")
    (folder / "results/out.bam").write_bytes(b"\x00\x01" * 99)
    return folder


def by_id(trace) -> dict[str, dict]:
    return {row["task_id"]: row for row in trace.table("tasks").to_pylist()}


def counted(trace) -> None:
    records = trace.meta["importer"]["records"]
    assert records["in"] == records["out"] + records["merged"] + records["rejected"]


def test_trace_log_and_work_folders(run):
    trace = rotameter.open(run)
    counted(trace)
    a = by_id(trace)["A (1)"]
    assert a["wall_s"] == 80.123 and a["cpu_s"] == pytest.approx(80.123 * 1.801)
    assert a["peak_memory_bytes"] == 1153000 * 1024 and a["read_bytes"] == 1_000_000
    sources = trace.meta["column_sources"]
    assert sources["wall_s"] == {"trace": 1, "work": 1} and sources["read_bytes"] == {"work": 1}
    assert sources["requested_memory_bytes"] == {"trace": 3}
    join_meta = trace.meta["join"]
    assert join_meta["records"] == {"log": 1, "trace": 3, "work": 2}
    assert join_meta["matched"] == {"log": 1, "work": 2} and not join_meta["conflicts"]
    assert trace.meta["versions"] == {"nextflow": "23.10.1"}
    assert "s3cr3t" not in json.dumps(trace.meta) and trace.meta["command"][0] == "nextflow"
    assert trace.meta["run"]["status"] == "ok" and trace.meta["run_name"] == "happy_x"


def test_the_log_tells_the_zone(run):
    trace = rotameter.open(run)
    assert trace.meta["time_base"] == "epoch_ns"
    assert by_id(trace)["A (1)"]["started_ns"] == 1714557610100 * 10**6
    assert trace.meta["join"]["zones"]["trace"]["utc_offset_s"] == 7200.0
    (run / ".nextflow.log").write_text("")
    trace = rotameter.open(run)
    assert trace.meta["time_base"] == "relative_ns"
    assert min(r["submitted_ns"] for r in trace.table("tasks").to_pylist()) == 0
    trace = rotameter.open(run, utc_offset="+02:00")
    assert by_id(trace)["A (1)"]["started_ns"] == 1714557610100 * 10**6


@pytest.mark.parametrize("ahead_h", [0, -7])
def test_slurm_by_native_id(run, ahead_h):
    text = SACCT.replace("T12:", f"T{12 + ahead_h:02}:").replace("T11:", f"T{11 + ahead_h:02}:")
    (run / "sacct.txt").write_text(text)
    trace = rotameter.open(run)
    counted(trace)
    tasks = by_id(trace)
    assert (tasks["A (1)"]["host"], tasks["A (1)"]["user"]) == ("n1", "ann")
    b = tasks["B (x)"]
    assert (b["outcome"], b["outcome_kind"]) == ("oom", "reported")
    assert (b["peak_memory_bytes"], b["peak_memory_kind"]) == (4 << 30, "lower_bound")
    assert b["cpu_s"] == 60.0 and b["wall_s"] == 90.0
    meta = trace.meta["join"]
    assert meta["matched"]["sacct"] == 2 and meta["unmatched"] == {"sacct": 1}
    assert meta["zones"]["sacct"]["ahead_of_trace_s"] == ahead_h * 3600
    assert any("to no task of the others" in word for word in trace.warnings)
    (refused,) = trace.table("rejects").to_pylist()
    assert "job 400" in refused["reason"]
    assert trace.meta["column_sources"]["outcome"]["sacct"] == 1


def test_sources_that_disagree_are_counted(run):
    (run / "work/ab/01234500ff/.exitcode").write_text("7")
    (run / "sacct.txt").write_text(SACCT.replace("1100000K", "3100000K"))
    trace = rotameter.open(run)
    assert trace.meta["join"]["conflicts"] == {"exit_code": 1, "peak_memory_bytes": 1}
    assert any("disagree" in word for word in trace.warnings)
    assert by_id(trace)["A (1)"]["peak_memory_bytes"] == 3100000 * 1024


def test_a_failed_task_gets_what_its_wrapper_still_wrote(run):
    (run / "work/cd/6789ab00/.command.trace").write_text(WRAPPER)
    b = by_id(rotameter.open(run))["B (x)"]
    assert b["peak_memory_bytes"] == 1153000 * 1024 and b["outcome"] == "failed"


def test_several_runs_with_cached_rows(run):
    cached = TRACE.replace("COMPLETED", "CACHED").replace("ABORTED", "COMPLETED")
    cached = cached.replace("cd/6789ab", "cd/777777").replace("FAILED\t1", "COMPLETED\t0")
    cached = cached.replace("ef/000001", "ef/000002")
    (run / "results/pipeline_info/execution_trace_2.txt").write_text(cached)
    trace = rotameter.open(run)
    counted(trace)
    outcomes = [row["outcome"] for row in trace.table("tasks").to_pylist()]
    assert len(outcomes) == 5 and "cached" not in outcomes
    assert any("2 runs (traces)" in word for word in trace.warnings)


def test_a_killed_run_without_a_trace(run):
    (run / "results/pipeline_info/execution_trace.txt").unlink()
    (run / ".nextflow.log").write_text(LOG.rpartition("May-01 12:02")[0] + (
        "May-01 12:01:50.101 [Task submitter] INFO  nextflow.Session - [cd/6789ab] "
        "Submitted process > B (x)\n"
    ))  # fmt: skip
    trace = rotameter.open(run)
    counted(trace)
    tasks = by_id(trace)
    assert tasks["A (1)"]["outcome"] == "ok" and tasks["A (1)"]["wall_s"] == 80.123
    assert (tasks["B (x)"]["outcome"], tasks["B (x)"]["outcome_kind"]) == ("failed", "inferred")
    assert tasks["A (1)"]["submitted_ns"] == 1714557600101 * 10**6
    (run / "work/cd/6789ab00/.exitcode").unlink()
    assert by_id(rotameter.open(run))["B (x)"]["outcome"] == "running"
    assert any("not closed" in word for word in trace.warnings)


def test_a_task_of_the_log_alone_is_said_to_have_the_figures_of_its_folder(run):
    (run / "results/pipeline_info/execution_trace.txt").write_text(
        "\n".join(line for line in TRACE.split("\n") if "A (1)" not in line)
    )
    trace = rotameter.open(run)
    assert by_id(trace)["A (1)"]["wall_s"] == 80.123
    (said,) = [word for word in trace.warnings if "in no trace" in word]
    assert ": 1, figures from work folders" in said
    (run / "work/ab/01234500ff/.command.trace").unlink()
    (said,) = [word for word in rotameter.open(run).warnings if "in no trace" in word]
    assert said.endswith(": 1, without figures")


def test_a_trace_beside_the_accounting_of_its_jobs_is_a_run(tmp_path):
    (tmp_path / "trace.txt").write_text(TRACE)
    (tmp_path / "sacct.txt").write_text(SACCT)
    assert by_id(rotameter.open(tmp_path))["A (1)"]["user"] == "ann"
    (tmp_path / "sacct.txt").write_text(SACCT.replace("501", "601").replace("502", "602"))
    with pytest.raises(UsageError, match="several formats"):
        rotameter.open(tmp_path)


def test_other_folders_are_none_of_ours(tmp_path):
    assert join(tmp_path, utc_offset_s=None, options={}) is None
    (tmp_path / "trace.txt").write_text(TRACE)
    assert join(tmp_path, utc_offset_s=None, options={}) is None
    (tmp_path / ".nextflow.log").write_text("nothing\n")
    with pytest.raises(UsageError, match="option 'x'"):
        join(tmp_path, utc_offset_s=None, options={"x": "1"})
    (tmp_path / "trace.txt").unlink()
    with pytest.raises(BadInput, match="without a trace"):
        join(tmp_path, utc_offset_s=None, options={})


def test_the_same_folder_twice_is_the_same(run):
    (run / "sacct.txt").write_text(SACCT)
    a, b = rotameter.open(run), rotameter.open(run)
    assert a.table("tasks").equals(b.table("tasks"))
    assert json.dumps(a.meta) == json.dumps(b.meta)


@pytest.mark.parametrize("junk", [b"", b"\x00\xff" * 40, b"nextflow.trace/v2\n%cpu=" + b"9" * 99])
def test_damaged_pieces_cost_only_themselves(run, junk):
    (run / "work/ab/01234500ff/.command.trace").write_bytes(junk)
    (run / "work/ab/01234500ff/.exitcode").write_bytes(junk)
    (run / ".nextflow.log").write_bytes(junk)
    assert by_id(rotameter.open(run))["A (1)"]["wall_s"] == 80.0
