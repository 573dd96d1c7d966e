"""A run's own jobs among others of the same number: of another cluster, or of earlier years."""

from __future__ import annotations

from pathlib import Path

import pytest

import rotameter

HEAD = "JobID|JobIDRaw|User|JobName|Partition|State|Submit|Start|End|Elapsed|NodeList|AllocCPUS\n"
OLD = (
    "5|5|bob|x|long|COMPLETED|2024-06-05T10:00:00|2024-06-05T10:00:05|2024-06-05T10:30:00|00:29:55|"
    "old1|4\n"
)
TODAY = (
    "5|5|bob|x|long|COMPLETED|2026-01-05T10:02:00|2026-01-05T10:02:05|2026-01-05T10:20:00|00:17:55|"
    "old1|4\n"
)
OWN = (
    "5|5|ann|y|short|COMPLETED|2026-01-05T10:00:01|2026-01-05T10:00:05|2026-01-05T10:10:00|00:09:55|"
    "new1|2\n"
)
LISTINGS = {
    "ours is the second": HEAD + OLD + OWN,
    "two clusters": f"Cluster|{HEAD}old|{OLD}new|{OWN}",
    "two clusters that morning": f"Cluster|{HEAD}old|{TODAY}new|{OWN}",
}
TRACE = (
    "task_id\thash\tnative_id\tname\tstatus\texit\tsubmit\tstart\tcomplete\tduration\trealtime\n"
    "1\taa/111111\t5\tA (1)\tCOMPLETED\t0\t2026-01-05 10:00:01.000\t2026-01-05 10:00:05.000\t"
    "2026-01-05 10:10:00.000\t9m 59s\t9m 55s\n"
)
NEXTFLOW = (
    "Jan-05 10:00:00.000 [main] INFO  x - N E X T F L O W  ~  version 23.10.1\n"
    "Jan-05 10:00:01.000 [Task submitter] DEBUG x - [SLURM] submitted process A (1) > jobId: 5; "
    "workDir: /w/aa/1111110000\n"
)
SNAKEMAKE = """Building DAG of jobs...
[Mon Jan  5 10:00:01 2026]
rule a:
    output: out.txt
    jobid: 1
    reason: Missing output files: out.txt
    resources: tmpdir=<TBD>

Job 1 has been submitted with SLURM jobid 5 (log: x/5.log).
[Mon Jan  5 10:10:05 2026]
Finished jobid: 1 (Rule: a)
Complete log: x
"""


def nextflow(folder: Path) -> None:
    (folder / "trace.txt").write_text(TRACE)
    (folder / ".nextflow.log").write_text(NEXTFLOW)


def snakemake(folder: Path) -> None:
    logs = folder / ".snakemake" / "log"
    logs.mkdir(parents=True)
    (logs / "2026-01-05T100000.000000.snakemake.log").write_text(SNAKEMAKE)


@pytest.mark.parametrize("engine", [nextflow, snakemake])
@pytest.mark.parametrize("listing", LISTINGS)
def test_the_run_s_own_job_is_joined(tmp_path: Path, engine, listing: str) -> None:
    engine(tmp_path)
    (tmp_path / "sacct.txt").write_text(LISTINGS[listing])
    trace = rotameter.open(tmp_path)
    (row,) = trace.table("tasks").to_pylist()
    assert (row["host"], row["user"], row["granted_cores"]) == ("new1", "ann", 2)
    assert (row["attempt"] or 1, row["outcome"]) == (1, "ok")
    assert not any("number in common" in text for text in trace.warnings)
    records = trace.meta["importer"]["records"]
    assert records["in"] == records["out"] + records["merged"] + records["rejected"]
    assert trace.meta["join"]["unmatched"] == {"sacct": 1}


@pytest.mark.parametrize("engine", [nextflow, snakemake])
def test_where_times_do_not_tell_nothing_is_joined_and_it_is_said(tmp_path: Path, engine) -> None:
    engine(tmp_path)
    blank = "2026-01-05T10:00:01|2026-01-05T10:00:05|2026-01-05T10:10:00"
    listing = f"Cluster|{HEAD}old|{OWN}new|{OWN}".replace(blank, "Unknown|Unknown|Unknown")
    (tmp_path / "sacct.txt").write_text(listing)
    trace = rotameter.open(tmp_path)
    (row,) = trace.table("tasks").to_pylist()
    assert row["host"] is row["user"] is None
    assert any("1 task has its number in common with several" in text for text in trace.warnings)
