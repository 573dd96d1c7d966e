from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rotameter.profiler.diagnose import diagnose
from rotameter.profiler.findings import built_in
from rotameter.profiler.findings.base import Tools
from rotameter.profiler.findings.dominant_input import Advisor
from rotameter.profiler.trace import Trace


def untimed(main_s: float = 90.0, other_s: float = 1.0) -> Trace:
    """Thirty tasks that read three large files, ten that read a small one; no times of tasks."""
    tasks: list[dict[str, Any]] = []
    flows: list[dict[str, Any]] = []
    for number in range(40):
        big = number < 30
        tasks.append(
            {"task_id": f"t{number}", "group": "individuals" if big else "merge", "outcome": "ok"}
        )
        flows.append(
            {
                "task_id": f"t{number}", "medium": "file", "op": "read",
                "object": f"ALL.chr{number % 3}.vcf" if big else "columns.txt",
                "bytes": 10**9 if big else 10**6, "ops": 120_000 if big else 100,
                "busy_s": (main_s / 30) if big else (other_s / 10),
            }
        )  # fmt: skip
    return Trace.from_tables({"tasks": tasks, "flows": flows}, {"origin": "imported"})


def test_the_input_that_takes_nearly_all_io_is_named() -> None:
    (finding,) = Advisor().check(untimed(), Tools())
    assert finding.kind == "dominant_input"
    assert finding.groups == ("individuals",)
    assert finding.severity == "critical"
    assert finding.cost_s is None
    assert "no task has a start and an end" in finding.cost_how
    assert "ALL.chr*.vcf" in finding.title
    times = {one.name: one.value for one in finding.evidence}
    assert times["times that it was read"] == 10.0


def test_it_is_the_first_cause_where_nothing_can_be_priced() -> None:
    verdict = diagnose(untimed(), built_in())
    assert verdict.findings[0].kind == "dominant_input"


def test_two_inputs_of_half_the_time_each_are_not_one() -> None:
    assert Advisor().check(untimed(main_s=50.0, other_s=51.0), Tools()) == []


def test_a_moment_of_reading_is_nothing() -> None:
    trace = untimed(main_s=0.1, other_s=0.001)
    rows = [{**row, "bytes": 1000} for row in trace.table("flows").to_pylist()]
    small = Trace.from_tables({"tasks": trace.table("tasks"), "flows": rows})
    assert Advisor().check(small, Tools()) == []


@pytest.mark.parametrize(
    "name",
    [
        "io-aware/1000-genome-raw-json.tar.gz",
        "fastflow/1000genomes/1kg_workflow_data.csv",
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_individuals_is_the_first_cause_of_1000_genomes(rotameter_shared: Path, name: str) -> None:
    import rotameter

    trace = rotameter.open(rotameter_shared / "data/dataflow" / name)
    first = diagnose(trace, built_in()).findings[0]
    assert first.kind == "dominant_input"
    assert "ALL.chr*.*.vcf" in first.title
    seconds = {one.name: one.value for one in first.evidence}
    assert seconds["time in its calls"] == pytest.approx(5941, rel=0.01)
