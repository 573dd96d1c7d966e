"""Job arrays of PBS, whose parent is listed beside its parts, and what JSON begins with."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.adapters.importers.test_table import rows

from rotameter.adapters.importers.table import Importer
from rotameter.errors import BadInput
from rotameter.testing.importers import import_bytes
from rotameter.values import Head

TIMES = {"ctime": "Mon Mar  3 10:00:00 2025", "stime": "Mon Mar  3 10:01:00 2025"}
ASKED = {"Resource_List": {"ncpus": 2, "walltime": "02:00:00"}}
PART: dict[str, Any] = {
    **TIMES, **ASKED, "Job_Name": "sim", "job_state": "F", "Exit_status": 0, "queue": "w",
    "array_id": "70[].m", "resources_used": {"walltime": "00:20:00", "cput": "00:30:00"},
}  # fmt: skip
PARENT = {**TIMES, **ASKED, "Job_Name": "sim", "job_state": "F", "Exit_status": 0, "array": True}
SPARSE = {"Job_Name": "sim", "job_state": "B", "array": "True", "array_state_count": "Queued:0"}
E = "03/03/2025 10:21:00;E;{};jobname=sim ctime=1740996000 start=1740996060 end=1740997260 "
LOG = "".join(
    E.format(job) + "Exit_status=0 resources_used.walltime=00:20:00\n"
    for job in ("70[].m", "70[4].m", "71.m")
)
TABLE = "Job Id,Job_Name,Job_Owner,job_state,stime,resources_used.walltime\n" + "".join(
    f"{job},sim,ann@m,F,Mon Mar  3 10:01:00 2025,00:20:00\n" for job in ("70[]", "70[4]", "71")
)


def qstat(parent: dict[str, Any]) -> bytes:
    jobs = {"70[].m": parent, "70[1].m": PART, "70[2].m": PART}
    return json.dumps({"timestamp": 1741000000, "pbs_version": "23", "Jobs": jobs}).encode()


@pytest.mark.parametrize("parent", [PARENT, SPARSE, {**PARENT, "array": None}])
def test_the_parent_of_an_array_is_no_job(parent: dict[str, Any]) -> None:
    trace = import_bytes(Importer, {"q.json": qstat(parent)})
    tasks = trace.table("tasks").to_pylist()
    assert [(t["task_id"], t["wall_s"]) for t in tasks] == [("70[1].m", 1200), ("70[2].m", 1200)]
    assert any("passed over: 1 parent of job arrays" in text for text in trace.warnings)
    assert not len(trace.table("rejects"))


@pytest.mark.parametrize(("data", "name"), [(LOG, "20250303"), (TABLE, "q.csv")])
def test_nor_is_it_in_texts(data: str, name: str) -> None:
    trace = import_bytes(Importer, {name: data.encode()})
    ids = [str(job).partition(".")[0] for job in trace.table("tasks")["task_id"].to_pylist()]
    assert ids == ["70[4]", "71"]
    assert any("passed over: 1 parent of job arrays" in text for text in trace.warnings)


def test_a_parent_without_its_parts_is_refused() -> None:
    jobs = {"70[].m": PARENT, "71.m": {**PART, "array_id": None}}
    trace = import_bytes(Importer, {"q.json": json.dumps({"Jobs": jobs}).encode()})
    assert trace.table("tasks")["task_id"].to_pylist() == ["71.m"]
    (reject,) = trace.table("rejects").to_pylist()
    assert reject["line"] == 1 and "qstat -t" in reject["reason"]
    with pytest.raises(BadInput, match="parts are not there"):
        rows(json.dumps({"Jobs": {"70[].m": PARENT, "72[].m": SPARSE}}).encode(), "q.json")


@pytest.mark.parametrize("cut", [None, -40])
def test_a_sparse_first_record_does_not_hide_what_the_file_is(cut: int | None) -> None:
    found = qstat(SPARSE)[:cut]
    assert Importer().sniff(Head("q.json", found)) == 0.8
    one, other = {"id": 1}, {"id": 2, "start_time": "2025-03-03T10:00:00Z", "runtime_s": 5}
    listed = json.dumps([one, other, other]).encode()[: None if cut is None else -5]
    lines = b"\n".join(json.dumps(record).encode() for record in (one, other, other))
    for data in (listed, lines[: None if cut is None else -5]):
        assert Importer().sniff(Head("t.json", data)) >= 0.6
