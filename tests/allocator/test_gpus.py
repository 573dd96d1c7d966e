"""Advice on GPUs: none where none was used, as the finding has it; else they are kept."""

from __future__ import annotations

import math
from typing import Any

import pytest

from rotameter.allocator.advice import Advice
from rotameter.allocator.by_resource import advise_on, needs_of
from rotameter.profiler.findings.base import Tools
from rotameter.profiler.findings.gpu_unused import Advisor
from rotameter.profiler.trace import Trace

SECOND = 10**9


def runs(used: list[float | None], asked: float | None = 1.0, **more: Any) -> list[dict[str, Any]]:
    """Make tasks of 100 s that follow one another."""
    return [
        {"task_id": str(k), "group": "g", "outcome": "ok", "started_ns": 100 * k * SECOND,
         "ended_ns": 100 * (k + 1) * SECOND, "wall_s": 100.0, "gpu_s": one,
         "requested_gpus": asked, **more}
        for k, one in enumerate(used)
    ]  # fmt: skip


def found(rows: list[dict[str, Any]]) -> tuple[list[Advice], list[Any]]:
    """Give the advice, and the findings of the same trace."""
    trace = Trace.from_tables({"tasks": rows}, {"engine": "slurm"})
    return advise_on(needs_of(trace, "gpus")), Advisor().check(trace, Tools())


def test_none_is_asked_for_where_none_was_used() -> None:
    (made,), findings = found(runs([0.0] * 6, 2.0))
    assert (made.request, made.asked, made.keep, made.runs) == (0.0, 2.0, "", 6)
    assert made.asked_held == pytest.approx(2 * 600 / 3600) and made.advised_held == 0.0
    assert made.reason == "none of 6 runs used the GPUs that it held"
    assert [one.kind for one in findings] == ["gpu_unused"]


@pytest.mark.parametrize(
    ("rows", "keep"),
    [
        (runs([0.0] * 5 + [50.0]), "it uses them"),
        (runs([None] * 6, gpu_peak_bytes=10**9), "it uses them"),
        # Without a GPU these would fail, however little they compute on it.
        (runs([0.9] * 6), "it uses them"),
        (runs([0.0] * 6, gpu_peak_bytes=4 * 10**9), "it uses them"),
        (runs([0.0] * 2), "fewer than 3 runs"),
        (runs([None] * 6), "no run has a reading of its GPU"),
        (runs([math.inf] * 6), "it uses them"),
    ],
)
def test_what_is_not_clear_is_kept_and_is_no_finding(rows: list[dict[str, Any]], keep: str) -> None:
    (made,), findings = found(rows)
    assert made.request is None and made.keep == keep and not findings
    assert made.reason.startswith(f"keep, because {keep}")


@pytest.mark.parametrize(
    "rows",
    [
        runs([0.0] * 6),
        runs([0.0, None, None]),
        runs([None] * 6, gpu_peak_bytes=0),
        runs([0.0] * 6, gpu_peak_bytes=4 * 10**8),
        runs([0.0] * 6, outcome="failed"),
        runs([0.0] * 6, granted_gpus=4.0),
        runs([0.0] * 6, 0.25),
        runs([-5.0] * 6),
    ],
)
def test_it_agrees_with_the_finding(rows: list[dict[str, Any]]) -> None:
    (made,), findings = found(rows)
    assert (made.request == 0.0) == bool(findings) is True


def test_readings_that_are_missing_are_told_of() -> None:
    (made,), _ = found(runs([0.0, None, None]))
    assert made.reason.endswith("of 2 more runs it is not known")
    assert made.used_held is None


@pytest.mark.parametrize("asked", [0.0, None, -1.0, math.nan])
def test_what_holds_none_is_not_meant(asked: float | None) -> None:
    made, findings = found(runs([0.0] * 6, asked))
    assert made == [] and not findings


def test_tasks_without_a_group_or_from_a_cache_are_not_meant() -> None:
    assert found(runs([0.0] * 6, group=None)) == ([], [])
    assert found(runs([0.0] * 6, outcome="cached"))[0] == []
    assert found(runs([0.0] * 6, math.inf))[0] == []


def test_groups_that_hold_most_come_first() -> None:
    few = [{**row, "task_id": f"x{row['task_id']}", "group": "few"} for row in runs([0.0] * 3)]
    made, _ = found([*few, *runs([0.0] * 9)])
    assert [one.group for one in made] == ["g", "few"]
