"""Slurm: job statistics in comments, old JSON, and dumps without a header."""

from __future__ import annotations

import base64
import gzip
import json
import random
from pathlib import Path
from typing import Any

import pytest
from tests.adapters.importers.test_slurm import DOCUMENT, GIB, JOB, one, rows, triple

import rotameter
from rotameter.adapters.importers._slurm_content import infer
from rotameter.adapters.importers.slurm import Importer
from rotameter.testing import import_bytes
from rotameter.values import Head


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
