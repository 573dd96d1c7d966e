"""The Slurm importer on own small listings: conformance and each trap of the format."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rotameter.adapters.importers.slurm import Importer
from rotameter.errors import BadInput
from rotameter.testing import check_importer, import_bytes

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


def test_without_a_header_a_peak_may_have_decimals() -> None:
    lines = []
    for job, rss, moved in ((1, "1640K", "0.02M"), (2, "96.50M", "1.66M"), (3, "4880K", "0.05M")):
        lines.append(f"{job}|COMPLETED|00:01:00|00:30.500|4G||")
        lines.append(f"{job}.batch|COMPLETED|00:01:00|00:30.500||{rss}|{moved}")
    found = [row["peak_memory_bytes"] for row in rows("\n".join(lines) + "\n")]
    assert found == [1640 << 10, 98816 << 10, 4880 << 10]


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
