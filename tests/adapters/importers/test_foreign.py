"""Files that are not read by themselves: one line says what each is, one what to give instead."""

from __future__ import annotations

import gzip
import json
import sqlite3
from pathlib import Path

import pytest

import rotameter
from rotameter.adapters.importers import reading
from rotameter.errors import BadInput, InputError, UnknownFormat

NEXTFLOW = (
    "Mar-01 10:00:00.000 [main] DEBUG nextflow.cli.Launcher - $> nextflow run main.nf\n"
    "Mar-01 10:00:01.000 [main] INFO  nextflow.cli.CmdRun - N E X T F L O W  ~  version 23.10.0\n"
    "Mar-01 10:00:09.000 [Task submitter] DEBUG n.processor.TaskProcessor - Process started\n"
)
SNAKEMAKE = (
    "Building DAG of jobs...\nUsing shell: /usr/bin/bash\nProvided cores: 4\nJob stats:\n"
    "job      count\n-----  -------\nalign        2\ntotal        2\n\n"
    "[Sun Nov 29 20:13:52 2026]\nrule align:\n    output: out/a.bam\n    jobid: 2\n\n"
    "[Sun Nov 29 20:13:55 2026]\nFinished job 2.\n1 of 2 steps (50%) done\n"
)
SEFF = (
    "Job ID: 123456\nCluster: alpha\nUser/Group: ann/lab\nState: COMPLETED (exit code 0)\n"
    "Cores: 4\nCPU Utilized: 01:00:00\nCPU Efficiency: 25.00% of 04:00:00 core-walltime\n"
    "Job Wall-clock time: 01:00:00\nMemory Utilized: 1.50 GB\n"
    "Memory Efficiency: 18.75% of 8.00 GB\n"
)
SPAN = {"traceId": "0af7651916cd43dd", "id": "b7ad6b7169203331", "name": "load",
        "timestamp": 1714557600000000, "duration": 1500000}  # fmt: skip
REPORT = (
    ",JobID,JobName,RuleName,Elapsed,TotalCPU,NNodes,NCPUS,MaxRSS,ReqMem,Elapsed_sec,TotalCPU_sec,"
    "MaxRSS_MB,RequestedMem_MB,MainJobID,CPU Efficiency (%),Memory Usage (%)\n"
    "2,71.0,python,rule_align,00:01:05,00:59,1,2,512000K,,65,59,500.0,954.0,71,45.4,52.41\n"
)
REPORTSEFF = (
    "     JobID    State       Elapsed  TimeEff   CPUEff   MemEff \n"
    "  24418435    COMPLETED  01:27:42   29.2%    99.8%    47.6%  \n"
)
ZIPKIN = json.dumps([SPAN, {**SPAN, "id": "c", "localEndpoint": {"serviceName": "wf"}}])
JAEGER = json.dumps(
    {"data": [{"traceID": "a", "spans": [{"traceID": "a", "spanID": "b", "operationName": "load",
     "startTime": 1714557600000000, "duration": 5, "processID": "p1"}],
     "processes": {"p1": {"serviceName": "wf"}}}]}
)  # fmt: skip

LOGS = {
    ".nextflow.log": (NEXTFLOW, "log of Nextflow", "the trace (-with-trace), or the folder"),
    "nextflow.out": ("N E X T F L O W  ~  version 23.10.0\nLaunching `m`\n", "log of Nextflow",
                     "the folder of the run"),
    "2026-11-29T201352.1.snakemake.log": (SNAKEMAKE, "log of Snakemake", "holds .snakemake"),
    "seff.txt": (SEFF, "seff", "rotameter collect slurm"),
    "efficiency_report_1.csv": (REPORT, "efficiency report", "the folder in which Snakemake ran"),
    "seff.out": (REPORTSEFF, "reportseff", "sacct's listing"),
    "spans.json": (ZIPKIN, "spans in Zipkin's own form", "OTLP JSON"),
    "traces.json": (f"[{ZIPKIN}]", "spans in Zipkin's own form", "OTLP JSON"),
    "lines.jsonl": (f"{json.dumps(SPAN)}\n" * 3, "spans in Zipkin's own form", "OTLP JSON"),
    "indented.json": (json.dumps([SPAN] * 3, indent=2), "spans in Zipkin's", "OTLP JSON"),
    "jaeger.json": (JAEGER, "spans in Jaeger's own form", "OTLP JSON"),
}  # fmt: skip


def refused(*paths: Path) -> InputError:
    with pytest.raises(InputError) as caught:
        rotameter.open(list(paths))
    assert "\n" not in str(caught.value) and caught.value.hint
    assert "\n" not in caught.value.hint and caught.value.exit_code == 4
    return caught.value


@pytest.mark.parametrize("name", LOGS)
@pytest.mark.parametrize("packed", [False, True])
def test_what_it_is_and_what_to_give(tmp_path: Path, name: str, packed: bool) -> None:
    text, what, instead = LOGS[name]
    path = tmp_path / (f"{name}.gz" if packed else name)
    path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    error = refused(path)
    assert isinstance(error, UnknownFormat)
    assert what in str(error) and str(path) in str(error) and instead in (error.hint or "")


def test_in_a_folder_what_can_be_told_comes_before_what_cannot(tmp_path: Path) -> None:
    (tmp_path / "README").write_text("words\n")
    (tmp_path / "run.snakemake.log").write_text(SNAKEMAKE)
    assert "log of Snakemake" in str(refused(tmp_path))


def test_beside_files_that_are_read_it_is_said(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,start,wall_s\na,1704189600,5\n")
    (tmp_path / ".nextflow.log").write_text(NEXTFLOW)
    trace = rotameter.open([tmp_path / "a.csv", tmp_path / ".nextflow.log"])
    assert len(trace.tasks) == 1
    assert any("is a log of Nextflow" in text for text in trace.warnings)


def test_spans_of_others_are_read_where_the_user_says_how(tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text(ZIPKIN)
    maps = ["id=id", "start=timestamp:us", "wall=duration:us", "group=name"]
    (first, _) = rotameter.open(tmp_path / "s.json", map=maps).table("tasks").to_pylist()
    assert (first["wall_s"], first["started_ns"]) == (1.5, 1714557600 * 10**9)


def test_a_database_of_another_program(tmp_path: Path) -> None:
    for name in ("history.db", "x.sqlite"):
        base = sqlite3.connect(tmp_path / name)
        base.execute("CREATE TABLE notes (id INTEGER, start TEXT)")
        base.commit()
        base.close()
        error = refused(tmp_path / name)
        assert "SQLite database of a program that no importer knows" in str(error)
        assert "monitoring.db" in (error.hint or "") and "Nsight" in (error.hint or "")
    (tmp_path / "x.sqlite").rename(tmp_path / "monitoring.db")
    error = refused(tmp_path / "monitoring.db")
    assert "none of Parsl's tables" in str(error) and "monitoring.db that" in (error.hint or "")


def listing(jobs: int) -> bytes:
    rows = (
        f"{n}|job{n * 7919 % 1000}|COMPLETED|2024-05-{n % 28 + 1:02}T10:{n % 60:02}:00|00:01:40\n"
        for n in range(jobs)
    )
    return ("JobID|JobName|State|Start|Elapsed\n" + "".join(rows)).encode()


@pytest.mark.parametrize("share", [0.1, 0.5, 0.99])
@pytest.mark.parametrize("format", [None, "slurm"])
def test_a_listing_that_was_packed_and_cut(
    tmp_path: Path, share: float, format: str | None
) -> None:
    whole = gzip.compress(listing(20_000))
    path = tmp_path / "jobs.txt.gz"
    path.write_bytes(whole[: int(len(whole) * share)])
    with pytest.raises(BadInput, match="is damaged after") as caught:
        reading.read([path], format=format)
    assert "gzip -dc FILE > PART" in (caught.value.hint or "")
    assert "copy the file again" in (caught.value.hint or "")


def test_a_packed_file_that_is_cut_too_early_to_be_known_is_called_damaged(tmp_path: Path) -> None:
    for text in (listing(50), NEXTFLOW.encode(), b"words " * 500):
        whole = gzip.compress(text)
        for size in range(11, len(whole) - 8, 7):
            path = tmp_path / "x.gz"
            path.write_bytes(whole[:size])
            error = refused(path)
            known = isinstance(error, UnknownFormat)
            assert "damaged" in str(error) or (known and "log of Nextflow" in str(error))
