"""Units at the end of a column's name, sizes of Grid Engine, and what PBS's exit codes mean."""

from __future__ import annotations

from typing import Any

import pytest
from tests.adapters.importers.test_table import QACCT, rows

from rotameter.adapters.importers.table import Importer
from rotameter.testing.importers import import_bytes

E = (
    "01/02/2024 10:07:00;E;{id}.srv;user=bob ctime=1704189600 start=1704189700 {more} "
    "Resource_List.walltime=00:10:00 end=1704190305 Exit_status={status} "
    "resources_used.mem=1gb resources_used.walltime={wall}\n"
)


def job(status: int, wall: str = "00:05:00", more: str = "queue=b") -> dict[str, Any]:
    data = E.format(id=1, status=status, wall=wall, more=more)
    (made,) = rows(data.encode(), "log")
    return made


@pytest.mark.parametrize("mapped", [True, False])
@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("elapsed (h)", 5400), ("elapsed [h]", 5400), ("runtime (min)", 90), ("elapsed[min]", 90),
        ("wall_time_h", 5400), ("duration_hrs", 5400), ("elapsed (s)", 1.5),
        ("elapsed (ms)", 0.0015), ("elapsed (d)", 129600), ("elapsed (minutes)", 90),
        ("duration_hours", 5400),
    ],
)  # fmt: skip
def test_a_duration_counts_what_its_name_says(header: str, seconds: float, mapped: bool) -> None:
    data = f"job_id,{header},state\n1,1.5,ok\n".encode()
    options: dict[str, Any] = {"map": [f"wall={header}"]} if mapped else {}
    trace = import_bytes(Importer, {"t.csv": data}, **options)
    assert trace.table("tasks")["wall_s"].to_pylist() == [pytest.approx(seconds)]
    assert not any("is read as seconds" in text for text in trace.warnings)
    short = (
        header.rstrip(")]")[-2:] in ("(h", "[h", "in", "_h", "rs", "(d") and "hours" not in header
    )
    assert any("as its name says" in text for text in trace.warnings) == short


@pytest.mark.parametrize("header", ["time_m", "elapsed_min"])
def test_a_name_that_may_mean_several_things_says_no_unit(header: str) -> None:
    data = f"job_id,{header},state\n1,1.5,ok\n".encode()
    trace = import_bytes(Importer, {"t.csv": data}, map=[f"wall={header}"])
    assert trace.table("tasks")["wall_s"].to_pylist() == [1.5]
    assert any(f"say --map wall={header}:min" in text for text in trace.warnings)


@pytest.mark.parametrize(
    ("header", "size"),
    [("mem (GB)", 10**9), ("mem [MiB]", 1 << 20), ("mem_gb", 10**9), ("mem (G)", 1 << 30),
     ("mem[kB]", 1000), ("mem (K)", 1 << 10)],
)  # fmt: skip
def test_a_size_counts_what_its_name_says(header: str, size: int) -> None:
    data = f"job_id,wall_s,{header}\n1,1,2\n".encode()
    trace = import_bytes(Importer, {"t.csv": data}, map=[f"peak={header}"])
    assert trace.table("tasks")["peak_memory_bytes"].to_pylist() == [2 * size]
    decimal = [text for text in trace.warnings if f"is read as {size:,} bytes" in text]
    assert len(decimal) == (size % 1000 == 0)


def test_a_letter_is_no_unit_of_other_numbers() -> None:
    data = b"job_id,wall_s,grid_h,length (m),heat (k),start_h\n1,1,2,3,4,1704189600\n"
    given = ["feature.a=grid_h", "feature.b=length (m)", "feature.c=heat (k)", "start=start_h"]
    (made,) = rows(data, map=given)
    assert made["features"] == [("a", 2.0), ("b", 3.0), ("c", 4.0)]
    assert made["started_ns"] == 1704189600 * 10**9


@pytest.mark.parametrize(
    ("text", "size"),
    [("512.000MB", 512 << 20), ("512.000M", 512 << 20), ("1.500GB", 3 << 29), ("2048", 2 << 20),
     ("12.000B", 12), ("2.000KB", 2048)],
)  # fmt: skip
def test_grid_engine_counts_in_1024(text: str, size: int) -> None:
    data = QACCT.replace(b"2.000KB", text.encode())
    assert rows(data, "q.txt")[0]["peak_memory_bytes"] == size
    table = f"qname,jobnumber,ru_wallclock,ru_maxrss\nq,1,5,{text}\n"
    assert rows(table.encode())[0]["peak_memory_bytes"] == size


@pytest.mark.parametrize(
    ("more", "outcomes"),
    [
        ("Resource_List.nodes=1:ppn=2", ["oom", "timeout", "timeout"]),
        ("owner=bob@head", ["oom", "timeout", "timeout"]),
        ("exec_vnode=(n1:ncpus=1) Resource_List.nodes=1:ppn=2", ["failed"] * 3),
        ("queue=b", ["failed"] * 3),
    ],
)
def test_torques_own_exit_codes(more: str, outcomes: list[str]) -> None:
    found = [job(status, more=more)["outcome"] for status in (-10, -11, -12)]
    assert found == outcomes
    data = E.format(id=1, status=-11, wall="00:05:00", more=more).encode()
    said = [text for text in import_bytes(Importer, {"a": data}).warnings if "in Torque" in text]
    assert len(said) == (more == "queue=b")


@pytest.mark.parametrize("status", [271, 265, 143, 137])
def test_a_signal_once_the_time_is_up_is_a_timeout(status: int) -> None:
    over, early = job(status, "00:10:05"), job(status)
    assert (over["outcome"], over["outcome_kind"]) == ("timeout", "inferred")
    assert (early["outcome_kind"], early["signal"]) == ("reported", over["signal"])
    assert early["outcome"] == ("cancelled" if status == 271 else "failed")
    assert job(1, "00:10:05")["outcome"] == "failed" and job(0, "00:10:05")["outcome"] == "ok"
