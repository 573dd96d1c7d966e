"""How Snakemake's log ends: by itself, after a failure, or not at all."""

from __future__ import annotations

from pathlib import Path

import rotameter

LOG = """Building DAG of jobs...

[Tue Jan 14 10:00:00 2025]
rule a:
    output: one.txt
    jobid: 1

[Tue Jan 14 10:02:00 2025]
Error in rule a:
    jobid: 1
    output: one.txt

"""
KILLED = "the last log is not closed: the run was killed, or is still going on"


def opened(folder: Path, text: str) -> rotameter.Trace:
    path = folder / ".snakemake" / "log" / "2025-01-14T100000.000000.snakemake.log"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    return rotameter.open(folder)


def test_a_run_that_ended_itself_after_a_failure_was_not_killed(tmp_path: Path) -> None:
    end = "Exiting because a job execution failed. Look above for error message\n"
    trace = opened(tmp_path, f"{LOG}Shutting down, this might take some time.\n{end}")
    assert not any("not closed" in said for said in trace.warnings)
    assert trace.meta["run"]["status"] == "failed"


def test_a_log_that_tells_of_an_error_and_breaks_off(tmp_path: Path) -> None:
    trace = opened(tmp_path, f"{LOG}WorkflowError:\nAt least one job did not complete.\n")
    assert "the last log says that the run failed, and is not closed" in trace.warnings
    assert KILLED not in trace.warnings and trace.meta["run"]["status"] == "failed"


def test_a_log_that_just_breaks_off_may_be_of_a_run_that_goes_on(tmp_path: Path) -> None:
    assert KILLED in opened(tmp_path, LOG).warnings
