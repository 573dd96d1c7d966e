"""Whether a run's jobs ran in a batch system or on the engine's own machine is kept."""

from __future__ import annotations

from pathlib import Path

import pytest

import rotameter
from rotameter.adapters.anonymise import anonymise
from rotameter.adapters.importers.nextflow import Importer
from rotameter.testing import import_bytes

COLUMNS = "task_id hash native_id name status exit submit duration realtime"
LINE = (
    "x [Task monitor] DEBUG n.processor.TaskPollingMonitor - Task completed > TaskHandler[{}id: "
    "{}; name: A ({}); status: COMPLETED; exit: 0; error: -; workDir: /w/0{}/00000{}ff ]\n"
)
WARM = "Jan-14 10:00:00.500 [main] DEBUG n.executor.Executor - [warm up] executor > {}\n"
TYPE = "Jan-14 10:00:00.500 [main] DEBUG n.executor.ExecutorFactory - >> processorType: '{}'\n"


def table(ids: tuple[str, ...] = ("71", "72", "73"), status: str = "COMPLETED") -> str:
    return COLUMNS.replace(" ", "\t") + "\n" + "".join(
        f"{i}\t0{i}/00000{i}\t{native}\tA ({i})\t{status}\t0\t2025-01-14 10:00:0{i}.000\t12s\t10s\n"
        for i, native in enumerate(ids, start=1)
    )  # fmt: skip


@pytest.mark.parametrize(
    ("log", "executors"),
    [
        (WARM.format("local"), {"local": 3, "batch": 0}),
        (TYPE.format("slurm"), {"local": 0, "batch": 3}),
        (WARM.format("local") + TYPE.format("slurm"), None),
        ("", None),
        (
            WARM.format("local") + TYPE.format("slurm") + LINE.format("", 1, 1, 1, 1)
            + LINE.format("jobId: 72; ", 2, 2, 2, 2),
            {"local": 1, "batch": 1},
        ),
    ],
)  # fmt: skip
def test_the_log_of_nextflow_tells(
    tmp_path: Path, log: str, executors: dict[str, int] | None
) -> None:
    (tmp_path / "trace.txt").write_text(table())
    (tmp_path / ".nextflow.log").write_text(
        f"Jan-14 10:00:00.100 [main] INFO  nextflow.cli.CmdRun - N E X T F L O W\n{log}"
    )
    trace = rotameter.open(tmp_path)
    assert trace.meta.get("executors") == executors
    assert anonymise(trace).meta.get("executors") == executors


@pytest.mark.parametrize(
    ("ids", "executors"),
    [
        (("71", "72", "73"), None),  # processes, or numbers of jobs
        (("-", "-", "-"), None),
        (("nf-8a1c", "nf-8a1d", "73"), {"batch": 2}),
    ],
)
def test_an_id_that_is_no_number_is_no_process(
    ids: tuple[str, ...], executors: dict[str, int] | None
) -> None:
    made = import_bytes(Importer, {"trace.txt": table(ids).encode()})
    assert made.meta.get("executors") == executors
    again = import_bytes(Importer, {"trace.txt": table(ids, "CACHED").encode()})
    assert "executors" not in again.meta


@pytest.mark.parametrize(
    ("given", "sent", "executors"),
    [
        ("Provided cores: 2", "", {"local": 1, "batch": 0}),
        (
            "Provided remote nodes: 9",
            "Job 1 has been submitted with SLURM jobid 71 (log: x/71.log).\n",
            {"local": 0, "batch": 1},
        ),
        ("Provided remote nodes: 9", "", None),
    ],
)
def test_the_log_of_snakemake_tells(
    tmp_path: Path, given: str, sent: str, executors: dict[str, int] | None
) -> None:
    folder = tmp_path / ".snakemake/log"
    folder.mkdir(parents=True)
    (folder / "2023-11-14T221320.000000.snakemake.log").write_text(
        f"Building DAG of jobs...\n{given}\n"
        "[Tue Nov 14 22:13:20 2023]\nrule a:\n    output: out/a\n    jobid: 1\n"
        f"{sent}"
        "[Tue Nov 14 22:13:30 2023]\nFinished jobid: 1 (Rule: a)\n1 of 1 steps (100%) done\n"
        "Complete log(s): x\n"
    )
    assert rotameter.open(tmp_path).meta.get("executors") == executors
