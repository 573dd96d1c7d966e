"""One log has one answer: findings ask for what `rotameter size` asks for."""

from __future__ import annotations

from typing import Any

import pytest

import rotameter
from rotameter.adapters.advising import write
from rotameter.allocator.by_resource import advise_on, needs_of
from rotameter.allocator.suggesting import suggester
from rotameter.profiler.trace import Trace
from rotameter.values import Finding

GB = 10**9


def job(number: int, outcome: str = "ok", wall_s: float = 6500.0, **more: Any) -> dict[str, Any]:
    start = 1e9 + 10.0 * number
    return {
        "task_id": f"j{number}", "group": "relax", "outcome": outcome, "wall_s": wall_s,
        "started_ns": int(start * 1e9), "ended_ns": int((start + wall_s) * 1e9),
        "requested_wall_s": 7200.0, "requested_cores": 1.0, "requested_memory_bytes": 4 * GB,
        "peak_memory_bytes": 3 * GB, "peak_memory_kind": "sampled", **more,
    }  # fmt: skip


def log(rows: list[dict[str, Any]]) -> Trace:
    return Trace.from_tables({"tasks": rows}, {"engine": "slurm", "origin": "imported"})


def found(trace: Trace, kind: str) -> Finding:
    (one,) = [one for one in rotameter.diagnose(trace).findings if one.kind == kind]
    return one


@pytest.mark.parametrize("n", [20, 3])
def test_a_time_limit_that_was_too_short(n: int) -> None:
    rows = [job(k) for k in range(n)]
    rows += [job(100 + k, "timeout", 7200.0, peak_memory_bytes=None) for k in range(6)]
    trace = log(rows)
    finding = found(trace, "walltime_loss")
    (made,) = advise_on(needs_of(trace, "time"))
    if n == 20:
        assert f"#SBATCH --time={finding.change.split('=')[1]}\n" in write("slurm", [made], None)
        assert finding.change == "#SBATCH --time=02:30:00"
        assert "Ask for 2 h 30 min, after another kill for 5 h, then 10 h" in finding.advice
    else:
        assert made.guess == 14400.0 and finding.change == "#SBATCH --time=04:00:00"
        assert "a guess" in finding.advice
    assert "`rotameter size --resource time` says why" in finding.advice


def test_memory_that_was_too_little() -> None:
    rows = [job(k) for k in range(20)]
    rows += [job(100 + k, "oom", 6000.0, peak_memory_bytes=None) for k in range(6)]
    trace = log(rows)
    finding = found(trace, "under_requested_memory")
    (made,) = advise_on(needs_of(trace, "memory"))
    assert finding.change in write("slurm", [made], None)
    assert finding.apply == {"memory_request": {"value": made.request}}
    assert {one.name: one.value for one in finding.evidence}["enough"] == made.request
    assert "`rotameter size` says why" in finding.advice


def test_memory_that_was_too_much() -> None:
    """A tenth more than 900 MiB is 990, whoever says it."""
    trace = log([job(k, peak_memory_bytes=900 * 2**20) for k in range(20)])
    finding = found(trace, "over_requested_memory")
    (made,) = advise_on(needs_of(trace, "memory"))
    assert finding.change == "#SBATCH --mem=990M" in write("slurm", [made], None)
    assert finding.advice.startswith("Ask for 1.04 GB")


def test_requests_of_several_nodes_are_not_sized() -> None:
    rows = [job(k, granted_nodes=2) for k in range(20)]
    rows += [job(100 + k, "oom", 6000.0, granted_nodes=2) for k in range(6)]
    assert "rotameter size" not in found(log(rows), "under_requested_memory").advice


def test_what_is_no_answer_is_none() -> None:
    suggest = suggester(log([job(k) for k in range(3)]))
    assert suggest("time", "relax") is None and suggest("time", "other") is None
