"""Folders of runs that are named together, twice, or by a folder above them."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path

import pytest

import rotameter
from rotameter.cli import _main
from rotameter.errors import TraceNotFound, UsageError

HEADER = "s\th:m:s\tmax_rss\tmax_vms\tmax_uss\tmax_pss\tio_in\tio_out\tmean_load\tcpu_time\n"
BENCHMARK = HEADER + "{s}\t0:00:30\t100\t200\t90\t95\t1\t1\t50\t20\n"
COLUMNS = "task_id hash native_id name status exit submit duration realtime peak_rss peak_vmem"
TRACE = COLUMNS.replace(" ", "\t") + "\n"
LOG = (
    "May-0{day} 10:01:00.000 [Task monitor] DEBUG n.processor.TaskPollingMonitor - Task completed "
    "> TaskHandler[id: 2; name: SORT (1); status: COMPLETED; exit: 0; error: -; "
    "workDir: /w/{key}/00000200 ]\n"
)
SACCT = "JobID|JobName|State|Elapsed|Submit\n7|x|COMPLETED|00:00:10|2024-05-01T10:00:00\n"


def snakemake(folder: Path, day: int, *, benchmark: bool = True, wall_s: float = 30.5) -> Path:
    """Write a run with a job that ended well and one that failed."""
    at = f"[Wed May  {day} 10:0{{}}:00 2024]\n"
    jobs = "".join(
        f"{at.format(0)}localrule go:\n    output: {name}\n    jobid: {n}\n"
        + (f"    benchmark: benchmarks/{name}.tsv\n" if n == 1 else "")
        for n, name in ((1, "a.out"), (2, "b.out"))
    )
    log = (
        "Building DAG of jobs...\nProvided cores: 2\n"
        f"{jobs}{at.format(1)}Finished jobid: 1 (Rule: go)\n1 of 2 steps (50%) done\n"
        f"RuleException:\n{at.format(2)}Error in rule go:\n    message: None\n    jobid: 2\n"
        "Exiting because a job execution failed. Look above for error message\n"
    )
    logs = folder / ".snakemake" / "log"
    logs.mkdir(parents=True)
    (logs / f"2024-05-0{day}T100000.000000.snakemake.log").write_text(log)
    if benchmark:
        (folder / "benchmarks").mkdir()
        (folder / "benchmarks" / "a.out.tsv").write_text(BENCHMARK.format(s=wall_s))
    return folder


def nextflow(folder: Path, day: int, key: str, zone: bool = False) -> Path:
    """Write a run with a task in the trace and one that only the log has."""
    submit = f"{1714557600000 + day}" if zone else f"2024-05-0{day} 10:00:00.000"
    times = "20000\t10000\t1000\t2000" if zone else "20s\t10s\t100 MB\t1 GB"
    folder.mkdir(parents=True)
    row = f"1\t{key}/000001\t11\tALIGN (1)\tCOMPLETED\t0\t{submit}\t{times}\n"
    (folder / "trace.txt").write_text(TRACE + row)
    (folder / ".nextflow.log").write_text(LOG.format(day=day, key=key))
    return folder


def outcomes(trace) -> Counter[str]:
    return Counter(trace.table("tasks")["outcome"].to_pylist())


def records_add_up(trace) -> bool:
    records = trace.meta["importer"]["records"]
    return records["in"] == records["out"] + records["merged"] + records["rejected"]


def same(one, other) -> bool:
    return one.table("tasks").equals(other.table("tasks"))


@pytest.mark.parametrize("benchmark", [True, False])
def test_two_runs_of_snakemake_are_each_joined(tmp_path, benchmark):
    runs = [snakemake(tmp_path / f"r{day}", day, benchmark=benchmark) for day in (1, 2)]
    trace = rotameter.open(runs)
    assert outcomes(trace) == {"ok": 2, "failed": 2} and records_add_up(trace)
    ids = trace.table("tasks")["task_id"].to_pylist()
    assert sorted(ids) == ["1:a.out", "1:b.out", "2:a.out", "2:b.out"]
    assert trace.meta["importer"]["records"]["out"] == 4 and trace.meta["engine"] == "snakemake"
    assert trace.meta["run"]["status"] == "failed" and trace.meta["merged_from"] == 2
    # Both have local times: they are set against each other by them.
    assert trace.meta["time_base"] == "relative_ns" and trace.makespan_s == 86400 + 120
    assert any("2 runs put together" in text for text in trace.warnings)
    assert set(trace.table("samples")["subject"].to_pylist()) <= {*ids}


def test_the_folder_above_them_is_the_same(tmp_path):
    runs = [snakemake(tmp_path / "deep" / f"r{day}", day) for day in (1, 2)]
    assert same(rotameter.open(tmp_path), rotameter.open(runs))


def test_times_with_the_zone_given_are_dates(tmp_path):
    runs = [snakemake(tmp_path / f"r{day}", day) for day in (1, 3)]
    trace = rotameter.open(runs, utc_offset="+00:00")
    assert trace.meta["time_base"] == "epoch_ns" and trace.makespan_s == 2 * 86400 + 120


def test_what_is_named_twice_counts_once(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = snakemake(Path("run"), 1)
    alone = rotameter.open(run)
    for paths in (
        [run, run], [run, tmp_path / "run"], [run, run / "benchmarks"], [tmp_path, run],
        [run, run / "benchmarks" / "a.out.tsv"], [run / "benchmarks" / "a.out.tsv", run],
        [run, "run/benchmarks/*.tsv"],
    ):  # fmt: skip
        trace = rotameter.open(paths)
        assert same(trace, alone), paths
    assert "named twice, read once: 1 path" in rotameter.open([run, run]).warnings
    said = rotameter.open([run, run / "benchmarks" / "a.out.tsv"]).warnings
    assert any("read as a part of that: run/benchmarks/a.out.tsv" in text for text in said)


@pytest.mark.parametrize("above", [True, False])
def test_tasks_that_only_the_logs_of_nextflow_have(tmp_path, above):
    runs = [nextflow(tmp_path / f"r{day}", day, f"{day}a") for day in (1, 2)]
    trace = rotameter.open(tmp_path if above else runs)
    assert outcomes(trace) == {"ok": 4} and records_add_up(trace)
    assert trace.makespan_s == 86400 + 20  # no record tells the clock of the logs
    said = [text for text in trace.warnings if "in no trace" in text]
    assert len(said) == 2 and all(str(runs[n]) in said[n] for n in (0, 1))
    assert any(row.startswith("1:") for row in trace.table("samples")["subject"].to_pylist())


def test_nextflow_twice_with_its_accounting(tmp_path):
    run = nextflow(tmp_path / "run", 1, "1a")
    (run / "sacct.txt").write_text(SACCT)
    assert same(rotameter.open([run, run]), rotameter.open(run))


def test_times_of_one_run_that_cannot_be_set_against_the_other(tmp_path):
    runs = [nextflow(tmp_path / "r1", 1, "1a"), nextflow(tmp_path / "r2", 2, "2a", zone=True)]
    trace = rotameter.open(runs)
    assert len(trace.table("tasks")) == 4 and trace.meta["time_base"] == "epoch_ns"
    assert trace.makespan_s == rotameter.open(runs[1]).makespan_s
    assert trace.table("tasks")["wall_s"].null_count == 2  # those of the logs
    assert any("when tasks ran is left out of 1 run" in text for text in trace.warnings)
    both = rotameter.open(runs, utc_offset=0.0)
    assert not any("is left out of" in text for text in both.warnings)


def test_a_log_without_a_year_beside_a_trace_with_one(tmp_path):
    runs = [nextflow(tmp_path / f"r{day}", day, f"{day}a") for day in (1, 2)]
    (runs[0] / "trace.txt").unlink()
    trace = rotameter.open(runs)
    assert len(trace.table("tasks")) == 3 and trace.makespan_s == 20
    assert sum("is left out of" in text for text in trace.warnings) == 1


def test_copies_of_a_run(tmp_path):
    run = snakemake(tmp_path / "run", 1)
    shutil.copytree(run, tmp_path / "copy")
    trace = rotameter.open([run, tmp_path / "copy"], utc_offset=0.0)
    assert len(trace.table("tasks")) == 2
    assert any("copies of the folders of other runs" in text for text in trace.warnings)
    (tmp_path / "copy" / "benchmarks" / "a.out.tsv").write_text(BENCHMARK.format(s=29))
    trace = rotameter.open([run, tmp_path / "copy"])
    assert len(trace.table("tasks")) == 4
    assert any("2 attempts with the same name and times" in text for text in trace.warnings)


def test_files_beside_runs(tmp_path):
    for day in (1, 2):
        snakemake(tmp_path / f"r{day}", day)
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "c.tsv").write_text(BENCHMARK.format(s=7))
    (tmp_path / "sacct.txt").write_text(SACCT)
    (tmp_path / "log.swf").write_text("1 0 10 30 4 -1 -1 4 60 -1 1 1 1 1 1 1 -1 -1\n")
    trace = rotameter.open(tmp_path)
    assert len(trace.table("tasks")) == 5 and records_add_up(trace)
    assert any("1 file of Slurm beside" in text for text in trace.warnings)
    assert any("log.swf (swf)" in text for text in trace.warnings)
    assert trace.makespan_s == 86400 + 120
    named = rotameter.open([tmp_path / "r1", tmp_path / "r2", tmp_path / "old"])
    assert len(named.table("tasks")) == 5


def test_a_listing_beside_a_run_belongs_into_it(tmp_path):
    run = snakemake(tmp_path / "run", 1)
    (tmp_path / "sacct.txt").write_text(SACCT)
    with pytest.raises(UsageError, match="slurm, beside the folder of a snakemake run") as error:
        rotameter.open([run, tmp_path / "sacct.txt"])
    assert "into its folder" in error.value.hint


def test_a_saved_trace_beside_a_run(tmp_path):
    run = snakemake(tmp_path / "run", 1)
    saved = rotameter.open(run).save(tmp_path / "saved.rmt")
    with pytest.raises(UsageError, match="saved.rmt: a trace of rotameter"):
        rotameter.open([run, saved])


def test_runs_of_two_managers_are_refused(tmp_path):
    snakemake(tmp_path / "s", 1)
    nextflow(tmp_path / "n", 1, "1a")
    with pytest.raises(UsageError, match="nextflow, snakemake"):
        rotameter.open(tmp_path)


def test_a_run_that_holds_nothing_is_said(tmp_path):
    run = snakemake(tmp_path / "run", 1)
    (tmp_path / "new" / ".snakemake").mkdir(parents=True)
    trace = rotameter.open([tmp_path / "new", run])
    assert len(trace.table("tasks")) == 2
    assert any("without metadata, logs and benchmarks" in text for text in trace.warnings)


def test_what_holds_nothing_beside_a_run(tmp_path):
    run = snakemake(tmp_path / "run", 1)
    (tmp_path / "empty").mkdir()
    (tmp_path / "README.md").write_text("Words.\n")
    trace = rotameter.open([run, tmp_path / "empty", tmp_path / "README.md"])
    assert same(trace, rotameter.open(run))
    assert any("no importer knows this file" in text for text in trace.warnings)
    assert any("neither a run nor a file of snakemake in" in text for text in trace.warnings)


def test_a_path_that_is_not_there(tmp_path):
    run = snakemake(tmp_path / "run", 1)
    with pytest.raises(TraceNotFound):
        rotameter.open([run, tmp_path / "nothing"])


def test_the_command_line(tmp_path, capsys):
    runs = [str(snakemake(tmp_path / f"r{day}", day)) for day in (1, 2)]
    assert _main(["stats", *runs, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["attempts"] == 4
    assert _main(["diagnose", *runs]) == 0
    assert "could not be kept" not in capsys.readouterr().out
