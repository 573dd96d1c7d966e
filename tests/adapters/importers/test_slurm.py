"""The Slurm importer on own small listings: conformance and each trap of the format."""

from __future__ import annotations

import base64
import gzip
import json
import random
from pathlib import Path
from typing import Any

import pytest

import rotameter
from rotameter.adapters.importers._slurm_content import infer
from rotameter.adapters.importers.slurm import Importer
from rotameter.errors import BadInput
from rotameter.testing import check_importer, import_bytes
from rotameter.values import Head

GIB = 1 << 30
FULL = """\
JobID|JobIDRaw|JobName|State|ExitCode|Submit|Start|End|Elapsed|TotalCPU|AllocCPUS|NNodes|NTasks|ReqMem|MaxRSS|Timelimit|AllocTRES
11|11|align|COMPLETED|0:0|2025-02-01T08:00:00|2025-02-01T08:01:00|2025-02-01T08:31:00|00:30:00|00:55:00|2|1||4G||01:00:00|cpu=2,mem=4G,node=1
11.batch|11.batch|batch|COMPLETED|0:0|2025-02-01T08:01:00|2025-02-01T08:01:00|2025-02-01T08:31:00|00:30:00|00:01.500|2|1|1||21000K||cpu=2,mem=4G,node=1
11.0|11.0|tool|COMPLETED|0:0|2025-02-01T08:01:05|2025-02-01T08:01:05|2025-02-01T08:31:00|00:29:55|00:54:58|2|1|1||1536000K||cpu=2,mem=4G,node=1
12_3|14|align|OUT_OF_MEMORY|0:125|2025-02-01T08:00:00|2025-02-01T08:01:00|2025-02-01T08:02:00|00:01:00|00:30.000|1|1||4G||01:00:00|cpu=1,mem=4G,node=1
12_3.batch|14.batch|batch|OUT_OF_MEMORY|0:125|2025-02-01T08:01:00|2025-02-01T08:01:00|2025-02-01T08:02:00|00:01:00|00:30.000|1|1|1||1258291K||cpu=1,mem=4G,node=1
13+0|13|het|RUNNING|0:0|2025-02-01T08:00:00|2025-02-01T08:01:00|Unknown|00:10:00|00:00:00|2|1||4G||UNLIMITED|cpu=2,mem=4G,node=1
13+1|15|het|PENDING|0:0|2025-02-01T08:00:00|Unknown|Unknown|00:00:00|00:00:00|0|1||4G||Partition_Limit|
"""
BARE = """\
700|700|c|p|q|a|g|1|u|2|NOW|NOW|BEGIN|Unknown|00:01:00|0:0|COMPLETED|1|12|12|1Gn|||LIM|n1|one
701|701|c|p|q|a|g|1|u|2|NOW|NOW|Unknown|Unknown|ZERO|0:0|PENDING|1|40|40|1Gn|||LIM|None assigned|two
"""
for _short, _long in (
    ("NOW", "2020-06-24T15:06:34"),
    ("BEGIN", "2020-06-24T15:06:44"),
    ("LIM", "3-00:00:00"),
    ("ZERO", "00:00:00"),
):
    BARE = BARE.replace(_short, _long)


def triple(number: int | None, infinite: bool = False) -> dict[str, Any]:
    return {"set": number is not None, "infinite": infinite, "number": number or 0}


JOB: dict[str, Any] = {
    "job_id": 15,
    "name": "train",
    "array": {"job_id": 10, "task_id": triple(5), "task": ""},
    "het": {"job_id": 0, "job_offset": triple(None)},
    "state": {"current": ["COMPLETED"], "reason": "None"},
    "time": {
        "submission": 1738396800,
        "start": 1738396860,
        "end": 1738400460,
        "elapsed": 3600,
        "limit": triple(0, infinite=True),
        "total": {"seconds": 1800, "microseconds": 500000},
    },
    "required": {"CPUs": 4, "memory_per_cpu": triple(1024), "memory_per_node": triple(None)},
    "tres": {
        "allocated": [
            {"type": "cpu", "name": "", "id": 1, "count": 4},
            {"type": "mem", "name": "", "id": 2, "count": 4096},
            {"type": "node", "name": "", "id": 4, "count": 1},
            {"type": "gres", "name": "gpu", "id": 1001, "count": 2},
            {"type": "energy", "name": "", "id": 3, "count": -2},
        ]
    },
    "exit_code": {"status": ["SUCCESS"], "return_code": triple(0), "signal": {"id": triple(None)}},
    "comment": {"administrator": "", "job": "", "system": ""},
    "user": "ann",
    "nodes": "n7",
    "steps": [
        {
            "step": {"id": "15.batch", "name": "batch"},
            "state": ["COMPLETED"],
            "tasks": {"count": 1},
            "time": {"elapsed": 3600, "total": {"seconds": 1800, "microseconds": 500000}},
            "tres": {
                "requested": {
                    "max": [{"type": "mem", "name": "", "id": 2, "count": 2 * GIB}],
                    "total": [{"type": "fs", "name": "disk", "id": 6, "count": 1000}],
                },
                "consumed": {"total": [{"type": "fs", "name": "disk", "id": 6, "count": 50}]},
            },
            "statistics": {"energy": {"consumed": triple(7000)}},
        }
    ],
}
DOCUMENT = {"meta": {"slurm": {"release": "24.05.1"}}, "errors": [], "jobs": [JOB]}


def rows(text: str | bytes, name: str = "jobs.txt", **options: Any) -> list[dict[str, Any]]:
    data = text.encode() if isinstance(text, str) else text
    return import_bytes(Importer, {name: data}, **options).table("tasks").to_pylist()


def one(header: str, *lines: str) -> dict[str, Any]:
    (row,) = rows("\n".join((header, *lines)) + "\n")
    return row


def test_conformance() -> None:
    samples = {
        "sacct.txt": FULL.encode(),
        "trailing.txt": FULL.replace("\n", "|\n").encode(),
        "own.txt": FULL.replace("|", "^|^").encode(),
        "table.csv": FULL.replace(",", ";").replace("|", ",").encode(),
        "bare.txt": BARE.encode(),
        "jobs.json": json.dumps(DOCUMENT, indent=1).encode(),
        "jobs.jsonl": b'{"JobID": "7", "State": "FAILED", "Elapsed": "00:01:00"}\n',
    }
    check_importer(Importer, samples, cuts=20)


def test_steps_arrays_het_jobs_and_states() -> None:
    trace = import_bytes(Importer, {"jobs.txt": FULL.encode()})
    job, killed, running, pending = trace.table("tasks").to_pylist()
    assert (job["task_id"], job["group"], job["outcome"]) == ("11", "align", "ok")
    assert job["peak_memory_bytes"] == 1536000 * 1024
    assert job["peak_memory_kind"] == "sampled"
    assert (job["cpu_s"], job["wall_s"], job["exit_code"], job["signal"]) == (3300, 1800, 0, None)
    assert killed["task_id"] == "12_3" and killed["run_id"] == "14"
    assert (killed["outcome"], killed["signal"]) == ("oom", 125)
    assert killed["peak_memory_bytes"] == 4 * GIB
    assert killed["peak_memory_kind"] == "lower_bound"
    assert (running["task_id"], running["outcome"], running["ended_ns"]) == (
        "13+0",
        "running",
        None,
    )
    assert running["cpu_s"] is None and running["features"] == [("wall_limit_unlimited", 1.0)]
    assert pending["outcome"] == "unknown" and pending["error"] == "PENDING"
    assert pending["started_ns"] is None and pending["wall_s"] is None
    assert pending["requested_wall_s"] is None and not pending["features"]
    records = trace.meta["importer"]["records"]
    assert records == {"in": 7, "out": 4, "merged": 3, "rejected": 0}
    assert trace.meta["time_base"] == "relative_ns"


@pytest.mark.parametrize("mark", ["|", "^|^", ";|;", "\t", ";", "@@"])
def test_any_delimiter(mark: str) -> None:
    assert rows(FULL.replace("|", mark)) == rows(FULL)


def test_columns_in_any_order_and_in_small_letters() -> None:
    lines = [line.split("|") for line in FULL.splitlines()]
    turned = ["|".join(reversed(fields)) for fields in lines]
    turned[0] = turned[0].lower()
    assert rows("\n".join(turned) + "\n") == rows(FULL)


def test_shuffled_rows_find_their_job() -> None:
    head, *lines = FULL.splitlines()
    turned = rows("\n".join([head, *reversed(lines)]) + "\n")
    assert sorted(turned, key=lambda r: r["task_id"]) == sorted(
        rows(FULL), key=lambda r: r["task_id"]
    )


def test_steps_in_another_file_than_their_job() -> None:
    head, *lines = FULL.splitlines(keepends=True)
    files = {
        "a.txt": "".join([head, lines[0], *lines[3:]]).encode(),
        "b.txt": "".join([head, *lines[1:3]]).encode(),
    }
    trace = import_bytes(Importer, files)
    assert trace.table("tasks").to_pylist() == rows(FULL)


def test_listings_that_overlap_are_counted_once() -> None:
    trace = import_bytes(Importer, {"a.txt": FULL.encode(), "b.txt": FULL.encode()})
    assert trace.table("tasks").to_pylist() == rows(FULL)
    assert trace.meta["importer"]["records"]["merged"] == 10


def test_requeued_job_has_attempts_by_start() -> None:
    text = """\
JobID|State|Submit|Start|End|Elapsed|MaxRSS
5|COMPLETED|2025-01-01T02:00:00|2025-01-01T02:10:00|2025-01-01T02:20:00|00:10:00|
5.batch|COMPLETED|2025-01-01T02:10:00|2025-01-01T02:10:00|2025-01-01T02:20:00|00:10:00|300K
5|NODE_FAIL|2025-01-01T00:00:00|2025-01-01T00:10:00|2025-01-01T01:00:00|00:50:00|
5.batch|NODE_FAIL|2025-01-01T00:10:00|2025-01-01T00:10:00|2025-01-01T01:00:00|00:50:00|200K
"""
    last, first = rows(text)
    assert (first["attempt"], first["outcome"], first["peak_memory_bytes"]) == (
        1,
        "worker_lost",
        200 * 1024,
    )
    assert (last["attempt"], last["outcome"], last["peak_memory_bytes"]) == (2, "ok", 300 * 1024)


def test_running_then_done_is_one_run() -> None:
    row = one(
        "JobID|State|Start|End|Elapsed",
        "5|RUNNING|2025-01-01T00:00:00|Unknown|00:10:00",
        "5|COMPLETED|2025-01-01T00:00:00|2025-01-01T01:00:00|01:00:00",
    )
    assert (row["attempt"], row["outcome"], row["wall_s"]) == (1, "ok", 3600)


def test_same_id_on_two_clusters_is_two_jobs() -> None:
    found = rows("JobID|Cluster|State\n5|a|COMPLETED\n5|b|FAILED\n5.batch|b|FAILED\n")
    assert [(r["task_id"], r["outcome"]) for r in found] == [("a:5", "ok"), ("b:5", "failed")]


def test_several_tasks_in_a_step_bound_the_peak() -> None:
    text = "JobID|State|NTasks|MaxRSS\n5|COMPLETED||\n5.0|COMPLETED|8|100K\n"
    trace = import_bytes(Importer, {"jobs.txt": text.encode()})
    (row,) = trace.table("tasks").to_pylist()
    assert (row["peak_memory_bytes"], row["peak_memory_kind"]) == (102400, "lower_bound")
    (sample,) = trace.table("samples").to_pylist()
    assert sample["metric"] == "peak_memory_upper_bound_bytes" and sample["subject"] == "5"
    assert sample["value"] == 8 * 102400


def test_no_sample_of_memory_is_unknown_not_zero() -> None:
    row = one("JobID|State|MaxRSS|ReqMem", "5|FAILED||4G", "5.batch|FAILED|0|")
    assert row["peak_memory_bytes"] is None and row["peak_memory_kind"] is None


@pytest.mark.parametrize(
    ("asked", "nodes", "cpus", "reached"),
    [
        ("64G", 4, 4, 16),  # the job's, from Slurm 21.08 on
        ("16Gn", 4, 4, 16),
        ("4Gc", 4, 16, 16),
        ("4Gc", 2, 5, 4),  # how many CPUs that node had is not known
        ("64G", 1, 4, 64),
    ],
)
def test_out_of_memory_reached_the_limit_of_one_node(
    asked: str, nodes: int, cpus: int, reached: int
) -> None:
    row = one(
        "JobID|State|ReqMem|NNodes|AllocCPUS|MaxRSS",
        f"5|OUT_OF_MEMORY|{asked}|{nodes}|{cpus}|",
        f"5.0|OUT_OF_MEMORY||{nodes}|{cpus}|1G",
    )
    assert (row["peak_memory_bytes"], row["peak_memory_kind"]) == (reached * 2**30, "lower_bound")
    assert ("memory_per_cpu" in dict(row["features"] or ())) == asked.endswith("c")


def test_oom_without_request_is_still_a_lower_bound() -> None:
    row = one("JobID|State|MaxRSS", "5|OUT_OF_MEMORY|100K")
    assert (row["peak_memory_bytes"], row["peak_memory_kind"]) == (102400, "lower_bound")


def test_failed_job_with_a_killed_step_ran_out_of_memory() -> None:
    row = one("JobID|State|ReqMem", "5|FAILED|1G", "5.0|OUT_OF_MEMORY|")
    assert (row["outcome"], row["outcome_kind"]) == ("oom", "inferred")
    assert row["peak_memory_bytes"] == GIB


@pytest.mark.parametrize(
    ("text", "asked"),
    [("2500Mc", 2500 << 24), ("16Gn", 48 * GIB), ("8G", 8 * GIB), ("0n", None), ("0", None),
     ("1.50T", 1536 * GIB), ("", None), ("4096", 4 * GIB)],
)  # fmt: skip
def test_request_per_cpu_per_node_and_in_all(text: str, asked: int | None) -> None:
    row = one("JobID|State|AllocCPUS|NNodes|ReqMem", f"5|COMPLETED|16|3|{text}")
    assert row["requested_memory_bytes"] == asked


@pytest.mark.parametrize(
    ("text", "outcome", "error"),
    [
        ("CANCELLED by 1005", "cancelled", "CANCELLED by 1005"),
        ("CANCELLED+", "cancelled", None),
        ("OUT_OF_ME+", "oom", None),
        ("BOOT_FAIL", "worker_lost", "BOOT_FAIL"),
        ("DEADLINE", "timeout", "DEADLINE"),
        ("PREEMPTED", "preempted", None),
        ("REQUEUED", "rescheduled", "REQUEUED"),
        ("SUSPENDED", "running", "SUSPENDED"),
        ("TO", "timeout", None),
        ("STAGE_OUT_FAIL", "unknown", "STAGE_OUT_FAIL"),
    ],
)
def test_states(text: str, outcome: str, error: str | None) -> None:
    row = one("JobID|State|Elapsed", f"5|{text}|00:01:00")
    assert (row["outcome"], row["error"]) == (outcome, error)


def test_command_lines_with_delimiters_and_line_ends() -> None:
    text = """\
JobID|SubmitLine|State|Elapsed|Comment|AllocCPUS
5|srun sh -c "a | b &&
c | d"|FAILED|00:02:00|x
y|z|4
6|sbatch job.sh|COMPLETED|00:03:00||2
"""
    first, second = rows(text)
    assert (first["outcome"], first["wall_s"], first["granted_cores"]) == ("failed", 120, 4)
    assert (second["outcome"], second["granted_cores"]) == ("ok", 2)


def test_text_before_the_job_id_may_have_several_lines() -> None:
    first, second = rows("Comment|JobID|State\none\ntwo|5|FAILED\n|6|COMPLETED\n")
    assert (first["task_id"], second["task_id"]) == ("5", "6")


def test_record_over_many_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    from rotameter.adapters.importers import _slurm_blocks

    text = "JobID|State|Elapsed|SubmitLine\n" + "".join(
        f"{i}|COMPLETED|00:01:00|srun a |\n b{i}\n" if i % 7 == 0 else f"{i}|FAILED|00:02:00|x\n"
        for i in range(1, 200)
    )
    whole = rows(text)
    monkeypatch.setattr(_slurm_blocks, "BLOCK_BYTES", 100)
    assert rows(text) == whole
    assert [r["task_id"] for r in whole] == [str(i) for i in range(1, 200)]


def test_broken_rows_are_refused_with_their_line() -> None:
    text = "JobID|State|Elapsed\nx|y|z\n5|FAILED|00:01:00\n6|COMPL"
    trace = import_bytes(Importer, {"jobs.txt": text.encode()})
    assert trace.table("tasks")["task_id"].to_pylist() == ["5"]
    assert [r["line"] for r in trace.table("rejects").to_pylist()] == [2, 4]


def test_two_listings_put_together() -> None:
    text = "JobID|State\n5|FAILED\nState|JobID|AllocCPUS\nCOMPLETED|6|3\n"
    first, second = rows(text)
    assert (first["outcome"], second["outcome"], second["granted_cores"]) == ("failed", "ok", 3)


def test_listing_of_fixed_width() -> None:
    text = """\
JobID           JobName      State    Elapsed
------------ ---------- ---------- ----------
5                 align CANCELLED+   00:01:00
5.batch           batch  CANCELLED   00:01:00
"""
    trace = import_bytes(Importer, {"jobs.txt": text.encode()})
    (row,) = trace.table("tasks").to_pylist()
    assert (row["group"], row["outcome"], row["wall_s"]) == ("align", "cancelled", 60)
    assert any("cut short" in word for word in trace.warnings)


def test_without_a_header_columns_are_told_and_said() -> None:
    trace = import_bytes(Importer, {"jobs.txt": BARE.encode()})
    first, second = trace.table("tasks").to_pylist()
    assert (first["group"], first["queue"], first["wall_s"]) == ("one", "p", 60)
    assert second["started_ns"] is None and second["host"] is None
    assert any("XDMoD" in word for word in trace.warnings)
    lines = ("5001|COMPLETED|00:01:00|00:00.500|4G", "5001.batch|COMPLETED|00:01:00|00:00.500|")
    (row,) = rows("\n".join(lines) + "\n")
    assert (row["wall_s"], row["cpu_s"], row["requested_memory_bytes"]) == (60, 0.5, 4 * GIB)


def test_columns_may_be_named() -> None:
    (row,) = rows("5|x|90\n", columns="JobID,JobName,ElapsedRaw")
    assert (row["group"], row["wall_s"]) == ("x", 90)


def test_what_no_column_tells_is_refused() -> None:
    with pytest.raises(BadInput, match="columns cannot be told"):
        rows("a|b|c\n1|2|3\n")
    with pytest.raises(BadInput, match="columns cannot be told"):
        rows("1|2|3\n4|5|6\n")


def test_header_alone_is_an_empty_listing() -> None:
    assert rows("JobID|State|Elapsed\n") == []


def test_times_with_a_zone_are_absolute() -> None:
    text = "JobID|State|Start|End\n5|COMPLETED|2025-02-01T08:00:00+0200|2025-02-01T09:00:00+0200\n"
    trace = import_bytes(Importer, {"jobs.txt": text.encode()})
    (row,) = trace.table("tasks").to_pylist()
    assert trace.meta["time_base"] == "epoch_ns" and row["wall_s"] == 3600
    assert row["started_ns"] == 1738389600 * 10**9


def test_energy_and_bytes() -> None:
    row = one(
        "JobID|State|NTasks|AveDiskRead|AveDiskWrite|ConsumedEnergy",
        "5|COMPLETED||||54.16K",
        "5.0|COMPLETED|2|1M|0|",
    )
    assert (row["energy_j"], row["energy_meter"]) == (54160, "slurm acct_gather_energy")
    assert (row["read_bytes"], row["write_bytes"]) == (2 << 20, None)


def test_gpus_by_kind_and_in_all() -> None:
    header = "JobID|State|AllocTRES"
    for text, gpus in (
        ("billing=6,cpu=6,gres/gpu:tesla=4", 4),
        ("gres/gpu=2,gres/gpu:a=1,gres/gpu:b=1", 2),
        ("cpu=1,mem=1000M", 0),
        ("", None),
    ):
        assert one(header, f"5|COMPLETED|{text}")["granted_gpus"] == gpus


def _packed(stats: dict[str, Any]) -> str:
    return "JS1:" + base64.b64encode(gzip.compress(json.dumps(stats).encode())).decode()


STATS = {
    "nodes": {
        "n1": {
            "cpus": 4,
            "used_memory": 3 * GIB,
            "total_time": 100.0,
            "gpu_utilization": {"0": 90.0, "1": 0.0, "2": 0, "3": 0},
            "gpu_used_memory": {"0": GIB, "1": 5, "2": 5, "3": 5},
        }
    },
    "gpus": 4,
}


@pytest.mark.parametrize("comment", [_packed(STATS), json.dumps(STATS)])
def test_job_statistics_in_the_comment(comment: str) -> None:
    text = (
        f"JobID|State|Elapsed|AdminComment|AllocTRES\n5|COMPLETED|01:00:00|{comment}|gres/gpu=4\n"
    )
    trace = import_bytes(Importer, {"jobs.txt": text.encode()})
    (row,) = trace.table("tasks").to_pylist()
    assert row["gpu_s"] == pytest.approx(0.9 * 3600)
    assert row["gpu_s"] / row["wall_s"] / row["granted_gpus"] == pytest.approx(0.225)
    assert (row["gpu_peak_bytes"], row["gpu_kind"]) == (GIB + 15, "upper_bound")
    assert (row["peak_memory_bytes"], row["peak_memory_kind"]) == (3 * GIB, "sampled")
    assert row["cpu_s"] == 100
    values = {s["metric"]: s["value"] for s in trace.table("samples").to_pylist()}
    assert values["gpus_idle"] == 3 and values["gpu_utilization_percent/n1/0"] == 90


@pytest.mark.parametrize(
    "comment",
    ["JS1:Short", "JS1:None", "JS1:H4sI", "{", "hello", json.dumps({"nodes": {"n": {}}}),
     json.dumps({"nodes": {"n": {"gpu_utilization": {"0": None}}}}),
     json.dumps({"nodes": {"n": {"gpu_utilization": {"0": 5.0}}}, "gpus": 2})],
)  # fmt: skip
def test_gpu_without_a_reading_is_unknown(comment: str) -> None:
    text = f"JobID|State|Elapsed|AdminComment\n5|COMPLETED|01:00:00|{comment}\n"
    trace = import_bytes(Importer, {"jobs.txt": text.encode()})
    assert trace.table("tasks")["gpu_s"].to_pylist() == [None]
    metrics = trace.table("samples")["metric"].to_pylist()
    assert "gpus_idle" not in metrics


def test_sacct_json() -> None:
    trace = import_bytes(Importer, {"jobs.json": json.dumps(DOCUMENT).encode()})
    (row,) = trace.table("tasks").to_pylist()
    assert (row["task_id"], row["run_id"], row["group"]) == ("10_5", "15", "train")
    assert (row["wall_s"], row["cpu_s"], row["exit_code"]) == (3600, 1800.5, 0)
    assert row["requested_memory_bytes"] == row["granted_memory_bytes"] == 4 * GIB
    assert (row["peak_memory_bytes"], row["granted_gpus"]) == (2 * GIB, 2)
    assert (row["read_bytes"], row["write_bytes"], row["energy_j"]) == (1000, 50, 7000)
    features = {"wall_limit_unlimited": 1.0, "memory_per_cpu": 1.0}
    assert dict(row["features"]) == features and row["user"] == "ann"
    assert row["started_ns"] == 1738396860 * 10**9
    assert trace.meta["slurm_version"] == "24.05.1"


def old_json(**more: Any) -> dict[str, Any]:
    """Give a job as 22.05 (data parser 0.0.38) does: plain numbers, no CPU time, no code."""
    zero = {"seconds": 0, "microseconds": 0}
    asked = [{"type": "cpu", "name": None, "count": 3}, {"type": "mem", "name": None, "count": 450}]
    step = {
        "step": {"job_id": 9, "id": "batch", "name": "batch"},
        "state": "COMPLETED",
        "tasks": {"count": 1},
        "time": {"elapsed": 9, "total": {"seconds": 2, "microseconds": 1413936}},
        "exit_code": {"status": "SUCCESS", "return_code": 0},
    }
    second = {"step": {"job_id": 9, "id": 0, "name": "x"}, "state": "COMPLETED",
              "time": {"user": {"seconds": 1, "microseconds": 250000},
                       "system": {"seconds": 0, "microseconds": 250000}}}  # fmt: skip
    job = {
        "job_id": 9,
        "name": "steps",
        "state": {"current": "COMPLETED", "reason": "None"},
        "time": {"elapsed": 9, "start": 1686088321, "end": 1686088330, "limit": 10,
                 "total": zero, "user": zero, "system": zero},
        "required": {"CPUs": 3, "memory": 150},
        "tres": {"allocated": asked, "requested": asked},
        "exit_code": {"status": "SUCCESS", "return_code": 0},
        "steps": [step, second],
    }  # fmt: skip
    return job | more


def of_json(job: dict[str, Any]) -> dict[str, Any]:
    (row,) = rows(json.dumps({"jobs": [job], "meta": {"Slurm": {"release": "22.05.8"}}}))
    return row


def test_json_of_22_05() -> None:
    row = of_json(old_json())
    assert row["requested_memory_bytes"] == 450 << 20  # 150 are for a CPU, which nothing says
    assert row["cpu_s"] == pytest.approx(3.413936 + 1.5)
    assert row["exit_code"] == 0
    lossy = of_json(old_json(state={"current": "FAILED", "reason": "None"}))
    assert (lossy["outcome"], lossy["exit_code"], lossy["signal"]) == ("failed", None, None)
    code = {"status": "ERROR", "return_code": 3}
    told = of_json(old_json(state={"current": "FAILED"}, exit_code=code))
    assert told["exit_code"] == 3
    killed = {"status": "SIGNALED", "return_code": 0, "signal": {"signal_id": 11, "name": "SEGV"}}
    hit = of_json(old_json(state={"current": "FAILED"}, exit_code=killed))
    assert (hit["exit_code"], hit["signal"]) == (0, 11)


def test_json_of_newer_versions() -> None:
    newer = {
        "state": {"current": ["FAILED"], "reason": "None"},
        "exit_code": {"status": ["SUCCESS"], "return_code": triple(0), "signal": {}},
        "required": {"CPUs": 3, "memory_per_cpu": triple(150), "memory_per_node": triple(None)},
    }
    row = of_json(old_json(**newer))
    assert (row["exit_code"], row["requested_memory_bytes"]) == (None, 450 << 20)
    bare = old_json(**newer | {"tres": {"requested": []}})
    assert of_json(bare)["requested_memory_bytes"] == 450 << 20
    whole = {"required": {"CPUs": 3, "memory_per_node": triple(0)}}
    assert of_json(old_json(**whole))["requested_memory_bytes"] is None


def test_old_and_other_json() -> None:
    old = {
        "job_id": 9,
        "array": {"job_id": 0, "task_id": None, "task": None},
        "state": {"current": "TIMEOUT", "reason": "None"},
        "time": {"elapsed": 60, "start": 1686088321, "end": 1686088381, "limit": 1},
        "required": {"CPUs": 8, "memory": (1 << 63) + 100},
        "exit_code": {"status": "SIGNALED", "return_code": 0, "signal": {"signal_id": 9}},
        "tres": {"allocated": [{"type": "cpu", "name": None, "count": 8}]},
    }
    queue = {
        "job_id": 10,
        "job_state": ["PENDING"],
        "array_job_id": triple(3),
        "array_task_id": triple(4),
        "time_limit": triple(60),
        "start_time": triple(1901982989),
        "submit_time": triple(1701982989),
        "tres_req_str": "cpu=4,mem=2M,node=2",
        "cpus": triple(4),
        "exit_code": triple(0),
    }
    text = json.dumps({"jobs": [old, queue, {"name": "no id"}, 5], "derived_exit_code": 0})
    trace = import_bytes(Importer, {"jobs.json": text.encode()})
    first, second = trace.table("tasks").to_pylist()
    assert (first["outcome"], first["signal"], first["requested_wall_s"]) == ("timeout", 9, 60)
    assert first["requested_memory_bytes"] == 800 << 20
    assert (second["task_id"], second["requested_cores"], second["started_ns"]) == ("3_4", 4, None)
    assert trace.meta["importer"]["records"]["rejected"] == 2


def test_json_that_was_cut_is_read_as_far_as_it_is_whole() -> None:
    text = json.dumps({"meta": {}, "jobs": [JOB, JOB | {"job_id": 16, "array": {}}]})[:-200]
    trace = import_bytes(Importer, {"jobs.json": text.encode()})
    assert trace.table("tasks").num_rows == 1
    assert any("cut" in word for word in trace.warnings)


@pytest.mark.parametrize("indent", [None, 0, 1])
def test_json_documents_put_one_after_the_other(indent: int | None) -> None:
    def text(*numbers: int) -> str:
        jobs = [JOB | {"job_id": number, "array": {}} for number in numbers]
        return json.dumps({"meta": {}, "jobs": jobs, "errors": []}, indent=indent)

    def ids(data: str) -> tuple[list[str], int]:
        trace = import_bytes(Importer, {"jobs.json": data.encode()})
        records = trace.meta["importer"]["records"]
        return sorted(trace.table("tasks")["task_id"].to_pylist()), records["rejected"]

    both = f"{text(5, 6)}\n{text(7)}\n"
    assert ids(both) == (["5", "6", "7"], 0)
    assert ids(f"{text()}{text(7)}") == (["7"], 0)
    # The first is cut: what is whole in it and the second one are read.
    cut = text(5, 6)
    assert ids(f"{cut[: len(cut) * 2 // 3]}\n{text(7)}") == (["5", "7"], 1)
    lines = "".join(
        json.dumps({"JobID": n, "State": "FAILED", "Elapsed": "1:00"}) + "\n" for n in "12"
    )
    assert ids(f"{lines}{text(7)}\n{lines.replace('1', '3')}")[0][-2:] == ["3", "7"]


@pytest.mark.parametrize("indent", [None, 1])
def test_json_without_jobs_is_an_empty_trace(tmp_path: Path, indent: int | None) -> None:
    meta = {"plugins": {"data_parser": "data_parser/v0.0.40"}, "Slurm": {"release": "23.11.1"}}
    path = tmp_path / "jobs.json"
    path.write_text(json.dumps({"jobs": [], "meta": meta, "errors": []}, indent=indent))
    trace = rotameter.open(path)
    assert trace.table("tasks").num_rows == 0 and trace.meta["importer"]["name"] == "slurm"
    assert any("there are no jobs in" in w for w in trace.warnings)


def test_secrets_stay_out() -> None:
    text = "JobID|JobName|State|Reason\n5|run --password=hunter2|FAILED|token=abcdefghij\n"
    trace = import_bytes(Importer, {"jobs.txt": text.encode()})
    assert "hunter2" not in str(trace.table("tasks").to_pylist())
    assert "abcdefghij" not in str(trace.table("tasks").to_pylist())


@pytest.mark.parametrize(
    ("comment", "group"),
    [
        ("rule_align", "align"),
        ("rule_call_variants_wildcards_a_1,b.2", "call_variants"),
        ("group_mine", "group_mine"),
        ("", None),
        ("my own", None),
    ],
)
def test_snakemake_rules_are_groups(comment: str, group: str | None) -> None:
    uuid = "0e5c1fd4-3b02-4a8b-9d35-9c3f0f8a1b2c"
    row = one("JobID|JobName|Comment|State", f"5|{uuid}|{comment}|COMPLETED")
    assert row["group"] == (group or uuid)
    row = one("JobID|JobName|Comment|State", f"5|mine|{comment}|COMPLETED")
    assert row["group"] == "mine"


def test_knows_no_other_table() -> None:
    importer = Importer()
    for text in (
        "task_id\thash\tname\tstatus\n1\tab/cd\tx\tCOMPLETED\n",
        "job_id,num_cores,max_mem_gb\n1,2,3\n",
        '{"jobid": 1, "rule_name": "a", "s": 1.0, "max_rss": 5}\n',
        '{"jobs": []}',
        "job_id,task_type,user,start,end,maxrss_kib,state,exit_code,cores\n1,a,b,2,3,4,ok,0,1\n",
        "job_id|user|state|start|end|elapsed\n1|u|done|2|3|4\n",
        "jobid,user,state,start,end\n1,u,done,2,3\n",
        '{"job_id": 1, "user": "u", "state": "done", "elapsed": 5, "start": 3}\n',
        "1 2 3 4\n",
    ):
        assert importer.sniff(Head("x.txt", text.encode())) < 0.5


def test_knows_its_own_names_in_any_letters() -> None:
    importer = Importer()
    for text in (
        "jobid|state\n5|COMPLETED\n",
        "JOBIDRAW,STATE,ELAPSED\n5,COMPLETED,00:01:00\n",
        '"JobID";"State";"MaxRSS"\n"5";"FAILED";""\n',
        "JobID%20|State%20|Elapsed\n5|FAILED|00:01:00\n",
        '{"job_id": 1, "job_state": ["RUNNING"], "time_limit": 5, "user": "u"}\n',
    ):
        assert importer.sniff(Head("x.txt", text.encode())) >= 0.5, text
    # What has other names is read all the same where the user says what it is.
    assert rows("job_id,state,elapsed\n5,FAILED,00:01:00\n")[0]["outcome"] == "failed"


def test_cancelled_in_the_queue_never_ran() -> None:
    row = one(
        "JobID|State|Submit|Start|End|Elapsed|TotalCPU|AllocCPUS|NodeList",
        "5|CANCELLED by 7|2025-01-01T00:00:00|2025-01-01T01:00:00|2025-01-01T01:00:00|"
        "00:00:00|00:00:00|0|None assigned",
    )
    assert (row["started_ns"], row["wall_s"], row["cpu_s"]) == (None, 0, None)
    assert row["granted_cores"] is None and row["exit_code"] is None


def test_steps_without_their_job_stand_for_it() -> None:
    text = """\
JobID|JobName|State|Start|End|Elapsed|TotalCPU|MaxRSS
5.batch|batch|COMPLETED|2025-01-01T00:00:00|2025-01-01T01:00:00|01:00:00|00:10.500|100K
5.0|tool|COMPLETED|2025-01-01T00:10:00|2025-01-01T01:00:00|00:50:00|00:20.000|900K
"""
    trace = import_bytes(Importer, {"jobs.txt": text.encode()})
    (row,) = trace.table("tasks").to_pylist()
    assert (row["task_id"], row["group"], row["outcome_kind"]) == ("5", None, "inferred")
    assert (row["wall_s"], row["cpu_s"], row["peak_memory_bytes"]) == (3600, 30.5, 900 * 1024)
    assert trace.meta["importer"]["records"] == {"in": 2, "out": 1, "merged": 1, "rejected": 0}
    assert any("only steps" in word for word in trace.warnings)


@pytest.mark.parametrize(
    ("header", "lines", "names"),
    [
        # Before the id: of the next record, whatever ends the one before.
        (
            "Account|Comment|JobID|JobName|State|Elapsed|WorkDir",
            ["a||5|one|FAILED|00:01:00|/w", "a|two", "lines|6|two|COMPLETED|00:02:00|/w"],
            ["one", "two"],
        ),
        (
            "Comment|JobID|JobName|State|Elapsed|WorkDir",
            ["|5|one|FAILED|00:01:00|/w", "x", "y", "z|6|two|COMPLETED|00:02:00|/w"],
            ["one", "two"],
        ),
        # Before and after the id.
        (
            "Account|Comment|JobID|JobName|State|Elapsed|SubmitLine|WorkDir",
            ["a||5|one|FAILED|00:01:00|sbatch x|/w", "a|u", "v|6|two|COMPLETED|00:02:00|sbatch u",
             "v|/w", "a||7|three|FAILED|00:03:00|sbatch|/w"],
            ["one", "two", "three"],
        ),
        # After it: names hardly ever have several lines.
        (
            "JobName|JobID|State|Elapsed|SubmitLine",
            ["one|5|FAILED|00:01:00|sbatch \\", "  --mem=1G", "two|6|COMPLETED|00:02:00|x"],
            ["one", "two"],
        ),
    ],
)  # fmt: skip
@pytest.mark.parametrize("others", [0, 30])
def test_text_of_several_lines_around_the_job_id(
    header: str, lines: list[str], names: list[str], others: int
) -> None:
    alike = [lines[0].replace("|5|", f"|{i}|") for i in range(100, 100 + others)]
    found = rows("\n".join([header, *alike, *lines]) + "\n")
    assert [row["group"] for row in found[others:]] == names
    assert found[-1]["wall_s"] == 60 * len(names)


HEADLESS = """\
JobID|JobIDRaw|JobName|User|State|ExitCode|Submit|Eligible|Start|End|Elapsed|Suspended|Timelimit|AllocCPUS|AllocNodes|AllocTRES|ReqCPUS|ReqMem|ReqTRES|NTasks|TotalCPU|MaxRSS|MaxDiskRead
1|1|late|root|TIMEOUT|0:0|T00:00:00|T00:00:03|T00:00:10|T00:01:40|00:01:30|00:00:00|00:01:00|1|1|cpu=1,mem=64M,node=1|1|64M|cpu=1,mem=64M,node=1||00:00.003||
1.batch|1.batch|batch||CANCELLED|0:15|T00:00:10|T00:00:10|T00:00:10|T00:01:40|00:01:30|00:00:00||1|1|cpu=1,mem=64M,node=1|1|||1|00:00.003|1640K|0.01M
2|2|never|root|CANCELLED|0:0|T00:00:00|Unknown|None|T00:00:50|00:00:00|00:00:00|00:10:00|1|0||1|64M|cpu=1,mem=64M,node=1||00:00:00||
11_3|3|array|ann|COMPLETED|0:0|T00:00:01|T00:00:04|T00:00:20|T01:00:20|01:00:00|00:00:00|02:00:00|4|2|cpu=4,mem=2G,node=2|4|2G|cpu=4,mem=2G,node=2||03:10:00||
11_3.batch|3.batch|batch||COMPLETED|0:0|T00:00:20|T00:00:20|T00:00:20|T01:00:20|01:00:00|00:00:00||2|1|cpu=2,mem=1G,node=1|2|||1|00:01.200|139192K|1.62M
11_3.0|3.0|tool||COMPLETED|0:0|T00:00:20|T00:00:20|T00:00:20|T01:00:19|00:59:59|00:00:00||4|2|cpu=4,mem=2G,node=2|4|||4|03:09:58|239192K|1.62M
""".replace("T00", "2026-11-29T00").replace("|T01", "|2026-11-29T01")  # fmt: skip


@pytest.mark.parametrize("seed", range(40))
def test_without_a_header_any_order_of_fields_tells_the_truth(seed: int) -> None:
    lines = [line.split("|") for line in HEADLESS.splitlines()]
    order = list(range(len(lines[0])))
    random.Random(seed).shuffle(order)
    names, *turned = [[line[i] for i in order] for line in lines]
    found = infer(turned, "|")
    assert found is not None
    columns = {
        name.lower(): list(c) for name, c in zip(names, zip(*turned, strict=True), strict=True)
    }
    for name, told in zip(names, found.names, strict=False):
        assert not told or columns[told] == columns[name.lower()]  # ReqCPUS is AllocCPUS here
    # Only what stands in no relation to another column stays unknown.
    assert {n for n, told in zip(names, found.names, strict=False) if not told} <= {
        "User", "Suspended", "MaxDiskRead"
    }  # fmt: skip
    text = "".join("|".join(line) + "\n" for line in turned)
    assert Importer().sniff(Head("x.txt", text.encode())) >= 0.5
    kept = [
        "task_id",
        "group",
        "outcome",
        "started_ns",
        "ended_ns",
        "wall_s",
        "cpu_s",
        "exit_code",
        "requested_memory_bytes",
        "peak_memory_bytes",
        "granted_cores",
        "requested_wall_s",
    ]
    for row, wanted in zip(rows(text), rows(HEADLESS), strict=True):
        assert {k: row[k] for k in kept} == {k: wanted[k] for k in kept}


@pytest.mark.parametrize(
    ("fields", "unknown"),
    [
        # CPUTime, Suspended or two times may be anything where Elapsed is not there.
        (("JobID", "State", "Suspended"), "wall_s"),
        (("JobID", "State", "Submit", "End"), "started_ns"),
        (("JobID", "State", "MaxDiskRead"), "peak_memory_bytes"),
        (("JobID", "State", "User", "JobName"), "user"),
    ],
)
def test_a_column_that_may_be_many_things_is_none(fields: tuple[str, ...], unknown: str) -> None:
    names, *lines = [line.split("|") for line in HEADLESS.splitlines()]
    at = [names.index(field) for field in fields]
    found = rows("".join("|".join(line[i] for i in at) + "\n" for line in lines))
    assert {row[unknown] for row in found} == {None}
    assert [row["outcome"] for row in found] == ["timeout", "cancelled", "ok"]


def test_a_last_line_without_an_end_may_be_cut() -> None:
    text = "JobID|State|Elapsed\n1|COMPLETED|00:01:00\n2|COMPLETED|00:01"
    trace = import_bytes(Importer, {"jobs.txt": text.encode()})
    assert any("the last line has no end" in w for w in trace.warnings)
    whole = import_bytes(Importer, {"jobs.txt": f"{text}:00\n".encode()})
    assert not any("no end" in w for w in whole.warnings)
