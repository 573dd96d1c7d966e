"""What an importer knows and is no part of a run's folder is named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import rotameter
from rotameter.adapters.joining import leftover

TRACE = "task_id\thash\tname\tstatus\texit\trealtime\n1\taa/000001\tA\tCOMPLETED\t0\t10s\n"
BENCH = "s\th:m:s\tmax_rss\tmax_vms\tmax_uss\tmax_pss\tio_in\tio_out\tmean_load\tcpu_time\n" + (
    "10.0\t0:00:10\t100.0\t200\t90\t95\t1\t2\t80\t8.0\n"
)
SLICE = {"name": "x", "ph": "X", "ts": 0, "dur": 1, "pid": 1, "tid": 1}
CHROME = json.dumps({"traceEvents": [SLICE]})
SACCT = "JobID|State|Elapsed|Submit\n7|COMPLETED|00:01:40|2025-01-01T00:00:00\n"


def put(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        path = folder / name.replace("__", "/").replace("_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def said(folder: Path) -> list[str]:
    return [word for word in rotameter.open(folder).warnings if "not read" in word]


def nextflow(folder: Path, **files: str) -> Path:
    (folder / ".nextflow.log").write_text("x > Execution complete -- Goodbye\n")
    return put(folder, trace_txt=TRACE, **files)


def test_beside_a_run_of_nextflow(tmp_path):
    folder = nextflow(tmp_path, bench_tsv=BENCH, sub__prof_json=CHROME, notes_txt="x\n")
    put(folder, results_csv="sample,reads\na,1\n", jobs_psv=SACCT)
    assert said(folder) == [
        "2 files not read, as no part of this run: bench.tsv (snakemake), sub/prof.json "
        "(chrome_trace); name one by itself to read it"
    ]
    assert rotameter.open(folder / "bench.tsv").table("tasks").num_rows == 1


def test_beside_a_run_of_snakemake(tmp_path):
    folder = put(tmp_path, bench__a_tsv=BENCH, trace_txt=TRACE, jobs_psv=SACCT)
    put(folder / ".snakemake/log", x_snakemake_log="")
    (said_once,) = said(folder)
    assert said_once.startswith("1 file not read, as no part of this run: trace.txt (nextflow);")


def test_many_are_counted_and_the_search_has_an_end(tmp_path, monkeypatch):
    folder = nextflow(tmp_path, **{f"b{i}_tsv": BENCH for i in range(9)})
    (word,) = said(folder)
    assert word.startswith("9 files not read") and " and 6 more;" in word
    monkeypatch.setattr(leftover, "_LOOKED", 4)
    assert said(folder)[0].startswith("4 files not read")


@pytest.mark.parametrize("text", ["", "\x00\xff", "{", "a\tb\n"])
def test_other_files_are_passed_over(tmp_path, text):
    assert said(nextflow(tmp_path, x_txt=text, y_json=text, z_html=text)) == []
