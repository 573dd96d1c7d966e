from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rotameter.profiler.findings import metadata_io, small_io
from rotameter.profiler.findings.base import Tools
from rotameter.profiler.replaying.savings import Replayer

Make = Callable[..., Any]
MS = 1_000_000


def folders(made_run: Make, files: int = 1000, gap_ms: float = 0.9, **columns: Any) -> Any:
    """Four tasks of 1 s on two threads, each reading so many files of 200 bytes."""
    run = made_run(workers=2, threads=1)
    for number, task in enumerate(run.step("gather", [1.0] * 4)):
        begun = run.tables["tasks"][-4 + number]["started_ns"]
        for file in range(files):
            at = begun + round(file * gap_ms * MS)
            run.tables["flows"].append(
                {
                    "task_id": task, "object": f"/in/{number}/s{file}.txt", "medium": "file",
                    "op": "read", "bytes": 200, "ops": 1, "busy_s": 1e-5,
                    "first_ns": at, "last_ns": at + 10_000, **columns,
                }
            )  # fmt: skip
    return run


def check(rule: Any, run: Any) -> list[Any]:
    trace = run.trace()
    return list(rule.Advisor().check(trace, Tools(replay=Replayer(trace))))


def test_the_time_between_tiny_files_is_the_cost(made_run: Make) -> None:
    run = folders(made_run)
    (finding,) = check(metadata_io, run)
    assert finding.kind == "metadata_io"
    assert finding.cost_s == pytest.approx(2 * 0.9, abs=0.1)
    assert check(small_io, run) == []


def test_computing_between_few_files_is_not_opening_them(made_run: Make) -> None:
    assert check(metadata_io, folders(made_run, files=20, gap_ms=40.0)) == []


def test_a_long_pause_in_the_middle_is_not_the_files(made_run: Make) -> None:
    run = folders(made_run, gap_ms=0.1)
    for row in run.tables["flows"]:
        if int(row["object"].rpartition("s")[2][:-4]) >= 500:
            row["first_ns"] += 800 * MS
            row["last_ns"] += 800 * MS
    (finding,) = check(metadata_io, run)
    assert finding.cost_s < 0.3


def test_large_files_are_not_tiny(made_run: Make) -> None:
    assert check(metadata_io, folders(made_run, bytes=10**6)) == []


def test_seconds_that_a_tool_puts_down_to_metadata_count(made_run: Make) -> None:
    run = folders(made_run, first_ns=None, last_ns=None)
    assert check(metadata_io, run) == []
    for number in range(4):
        run.sample(f"gather-{number}", "metadata_s", 0.0, 0.7)
    (finding,) = check(metadata_io, run)
    assert finding.cost_s == pytest.approx(1.4, abs=0.1)
