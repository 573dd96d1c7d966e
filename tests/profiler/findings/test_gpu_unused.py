from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rotameter.profiler.findings.base import Tools
from rotameter.profiler.findings.gpu_unused import Advisor
from rotameter.profiler.replaying.savings import Replayer
from rotameter.profiler.trace import Trace

Make = Callable[..., Any]


def sharing(made_run: Make, used_s: float | None = 0.0, asks: float = 1.0) -> Any:
    """Eight tasks of 1 s hold the one GPU of a worker of four threads, one after the other."""
    run = made_run(workers=1, threads=4, engine="nextflow")
    for number in range(8):
        at = float(number) if asks else float(number // 4)
        run.task(f"prep-{number}", "prep", "w0", at, 1.0, ready=0.0,
                 requested_gpus=asks, gpu_s=used_s)  # fmt: skip
    end = 8.0 if asks else 2.0
    run.task("train", "train", "w0", end, 4.0, ready=0.0, requested_gpus=1.0, gpu_s=3.5)
    return run


def check(run: Any) -> list[Any]:
    trace = run.trace()
    return Advisor().check(trace, Tools(replay=Replayer(trace)))


def test_what_waited_for_the_gpu_is_the_cost(made_run: Make) -> None:
    (finding,) = check(sharing(made_run))
    assert finding.kind == "gpu_unused"
    assert finding.groups == ("prep",)
    # Four threads do the others in two rounds, then the training of 4 s.
    assert finding.cost_s == pytest.approx(12.0 - 6.0, abs=0.5)
    # 0 would be a request for none of some kind; null is none.
    assert "accelerator = null" in finding.change


def test_a_gpu_that_is_used_is_not_unused(made_run: Make) -> None:
    assert check(sharing(made_run, used_s=0.8)) == []


def test_tasks_that_ask_for_none_are_not_meant(made_run: Make) -> None:
    assert check(sharing(made_run, asks=0.0)) == []


def test_without_readings_it_cannot_be_told(made_run: Make) -> None:
    run = sharing(made_run, used_s=None)
    run.tables["tasks"][-1]["gpu_s"] = None
    tools = Tools()
    assert Advisor().check(run.trace(), tools) == []
    assert any("GPU" in note for note in tools.notes)


def test_gpus_that_nobody_waited_for_cost_no_second(made_run: Make) -> None:
    run = sharing(made_run)
    run.tables["tasks"] = [row for row in run.tables["tasks"] if row["group"] == "prep"]
    for number, row in enumerate(run.tables["tasks"]):
        row["ready_ns"] = row["submitted_ns"] = run.ns(float(number))
    for number, row in enumerate(run.tables["tasks"][1:], start=1):
        run.tables["deps"].append({"task_id": row["task_id"], "depends_on": f"prep-{number - 1}"})
    (finding,) = check(run)
    assert finding.cost_s == 0.0
    assert finding.severity == "info"


def test_no_replay_no_seconds(made_run: Make) -> None:
    (finding,) = Advisor().check(sharing(made_run).trace(), Tools())
    assert finding.cost_s is None
    assert Advisor().check(Trace.from_tables({}), Tools()) == []
