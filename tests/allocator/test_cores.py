"""Advice on cores: fewer where it is clear, never more."""

from __future__ import annotations

from typing import Any

import pytest

from rotameter.allocator.advice import Advice
from rotameter.allocator.cores import advise_cores
from rotameter.allocator.recorded_cores import cores_from_trace
from rotameter.profiler.trace import Trace


def runs(busy: list[float], asked: float | None = 8.0, **more: Any) -> list[dict[str, Any]]:
    return [
        {"task_id": str(k), "group": "g", "outcome": "ok", "wall_s": 100.0, "cpu_s": 100.0 * one,
         "requested_cores": asked, **more}
        for k, one in enumerate(busy)
    ]  # fmt: skip


def advised(rows: list[dict[str, Any]], engine: str = "slurm", **more: Any) -> Advice:
    trace = Trace.from_tables({"tasks": rows}, {"engine": engine, "origin": "imported"})
    (made,) = advise_cores(cores_from_trace(trace), **more)
    return made


def test_the_highest_mean_with_headroom_in_whole_cores() -> None:
    made = advised(runs([1.3] + [1.0] * 8))
    assert (made.request, made.asked, made.most, made.runs) == (2.0, 8.0, 1.3, 9)
    assert made.reason == (
        "busy were 1.3 at most on average over 9 runs; 10 % is added; "
        "a run that at times kept more busy would last longer"
    )
    assert made.retries == () and made.kill_interval is None
    assert made.asked_held == pytest.approx(8 * 900 / 3600)
    assert made.advised_held == pytest.approx(2 * 900 / 3600)
    assert advised(runs([1.3] * 9), headroom=1.0).request == 3.0
    assert advised(runs([1.2] * 9, 2.0), headroom=0.0).keep == "it is not clear that fewer would do"
    # 10 % of 12 and a fifth of a core less: 13.2 - 0.2 is no more than 13.
    assert advised(runs([12.0] * 9, 32.0)).request == 13.0
    # One thread, and what collects its garbage, needs no second core.
    assert advised(runs([1.05] * 9)).request == 1.0


@pytest.mark.parametrize(
    ("rows", "word"),
    [
        (runs([1.0] * 4), "fewer than 5 runs"),
        (runs([3.9] + [1.0] * 8), "not clear that fewer would do"),
        (runs([7.9] * 9), "not clear that fewer would do"),
        (runs([20.0] * 9), "not clear that fewer would do"),
        # One would be asked for, and less than half of the two was idle.
        (runs([1.09] * 9, 2.0), "not clear that fewer would do"),
        (runs([0.4] * 9, 1.0), "asks for no more than one"),
        (runs([1.0] * 9, None), "what it asked for is not known"),
        (runs([1.0] * 9, features={"input_bytes": 5.0}), "the same input size"),
        (runs([1.0] * 9, 0.0), "what it asked for is not known"),
        (runs([1.0] * 7) + runs([float("nan")] * 3), "the CPU time of 3 of 10 runs is not known"),
    ],
)
def test_what_is_not_clear_is_kept(rows: list[dict[str, Any]], word: str) -> None:
    rows = [{**one, "task_id": str(k)} for k, one in enumerate(rows)]
    made = advised(rows)
    assert made.request is None and word in made.keep and made.reason.startswith("keep, because")


def test_the_least_that_a_run_asked_for_bounds_what_is_advised() -> None:
    rows = [*runs([1.9] * 8, 16.0), {**runs([1.9], 2.0)[0], "task_id": "x"}]
    assert advised(rows).keep == "it is not clear that fewer would do"


def test_few_runs_without_cpu_time_are_told_of() -> None:
    rows = [{**one, "task_id": str(k)} for k, one in enumerate(runs([1.0] * 19 + [float("nan")]))]
    made = advised(rows)
    assert made.request == 1.0 and "of 1 more run it is not known" in made.reason


@pytest.mark.parametrize("engine", ["dask", "python", "torch", "chrome_trace", "otlp"])
def test_cpu_time_of_one_thread_says_nothing(engine: str) -> None:
    trace = Trace.from_tables({"tasks": runs([1.0] * 9)}, {"engine": engine})
    assert not len(cores_from_trace(trace))


def test_cores_of_several_nodes_are_kept() -> None:
    rows = runs([1.0] * 9, 64.0, granted_nodes=4)
    trace = Trace.from_tables({"tasks": rows}, {"engine": "slurm"})
    assert not len(cores_from_trace(trace))


@pytest.mark.parametrize("cpu", [0.0, -1.0, float("nan"), float("inf")])
def test_cpu_times_that_are_none_are_not_known(cpu: float) -> None:
    rows = [*runs([1.0] * 19), {**runs([1.0])[0], "task_id": "odd", "cpu_s": cpu}]
    assert advised(rows).runs == 19


def test_short_runs_are_left_out() -> None:
    """Their CPU time counts in ticks."""
    rows = [*runs([1.0] * 9), {**runs([1.0])[0], "task_id": "odd", "wall_s": 0.01, "cpu_s": 0.1}]
    assert advised(rows).most == 1.0


def test_what_failed_says_nothing() -> None:
    rows = [*runs([1.0] * 9), {**runs([8.0])[0], "task_id": "odd", "outcome": "failed"}]
    assert advised(rows).request == 1.0


def test_a_cached_execution_of_unknown_cpu_time_counts_once() -> None:
    (one,) = runs([float("nan")], outcome="cached", run_id="first")
    rows = [*runs([1.0] * 19), *({**one, "task_id": f"c{k}"} for k in range(5))]
    made = advised(rows)
    assert made.keep == "" and made.reason.endswith("of 1 more run it is not known")


def test_what_came_from_a_cache_holds_nothing() -> None:
    made = advised(runs([1.0] * 9, outcome="cached"))
    assert made.request == 1.0
    assert (made.used_held, made.asked_held, made.advised_held) == (None, None, None)
