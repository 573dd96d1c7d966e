"""Findings of one code share the headline: one replay without all of their causes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from rotameter.profiler.diagnose import diagnose, to_json
from rotameter.profiler.findings._resources import Resources, resources
from rotameter.profiler.findings._together import Joint, _merged
from rotameter.profiler.findings.base import Tools
from rotameter.profiler.findings.latency_bound_roots import Advisor as Latency
from rotameter.profiler.findings.skewed_partitions import Advisor as Skew
from rotameter.profiler.findings.straggler import Advisor as Straggler
from rotameter.profiler.findings.tiny_tasks import Advisor as Tiny
from rotameter.profiler.findings.walltime_loss import Advisor as Walltime
from rotameter.profiler.trace import Trace
from rotameter.profiler.view import view
from rotameter.values import Finding

Make = Callable[..., Any]
S = 10**9


@pytest.fixture
def chained(made_run: Make) -> Callable[..., Any]:
    """Groups of a run one after another, each begun when all of the one before had ended."""

    def make(groups: int, durations: list[float], gap: float = 0.0, **more: Any) -> Any:
        run = made_run(**more)
        at, before = 0.0, None
        for number in range(groups):
            run.free = {w: [at] * run.threads for w in run.free}
            names = run.step(f"g{number}", durations, ready=at, gap=gap)
            if before is not None:
                run.tables["deps"] += [{"task_id": n, "depends_on": before} for n in names]
            rows = run.tables["tasks"][-len(names) :]
            before = max(rows, key=lambda row: row["ended_ns"])["task_id"]
            at = max(run.end(names), at)
        return run

    return make


def test_tiny_tasks_of_four_groups_are_priced_together(chained: Callable[..., Any]) -> None:
    """By hand: 100 tasks a thread and group of 0.5 ms, each after 2 ms: 4 x 0.25 s, nearly all."""
    trace = chained(4, [0.0005] * 400, gap=0.002).trace()
    verdict = diagnose(trace, [Tiny()])
    costs = [finding.cost_s or 0.0 for finding in verdict.findings]
    assert len(costs) == 4
    figure = verdict.figures[3]
    assert figure.value is not None
    assert figure.value > 3.0 * max(costs)
    assert figure.value == pytest.approx(4 * 0.2, rel=0.12)
    assert figure.value <= (view(trace).makespan or 0.0)
    assert figure.text.endswith("tiny tasks in 4 groups")
    assert "avoidable: tiny tasks in 4 groups, priced together. The largest: 400 tasks of" in (
        verdict.sentence
    )
    assert "more cause" not in verdict.sentence
    (shared,) = verdict.together
    assert shared.ranks == (1, 2, 3, 4)
    assert sorted(shared.groups) == ["g0", "g1", "g2", "g3"]
    low, high = shared.saving_s_interval80
    assert low <= shared.saving_s <= high <= (view(trace).makespan or 0.0)
    assert to_json(trace, verdict)["together"][0]["saving_s"] == shared.saving_s


def test_stragglers_of_three_groups_are_priced_together(chained: Callable[..., Any]) -> None:
    """By hand: each group takes 4 s on four threads, and 8 s more for its long one."""
    verdict = diagnose(chained(3, [1.0] * 15 + [9.0]).trace(), [Straggler()])
    assert [f.cost_s for f in verdict.findings] == [pytest.approx(8.0, abs=0.3)] * 3
    assert verdict.figures[3].value == pytest.approx(24.0, abs=0.9)
    assert "stragglers in 3 groups" in verdict.sentence


def test_stragglers_of_more_groups_than_are_named_count_all_the_same(
    chained: Callable[..., Any],
) -> None:
    """By hand: each of six groups takes 4 s on four threads, and 3 s more for its long one."""
    verdict = diagnose(chained(6, [1.0] * 15 + [4.0]).trace(), [Straggler()])
    assert verdict.figures[3].value == pytest.approx(18.0, abs=0.9)
    assert "stragglers in 6 groups" in verdict.sentence


def test_skew_of_more_groups_than_are_named_counts_all_the_same(
    chained: Callable[..., Any],
) -> None:
    """By hand: 19 s of work on four threads take 4.75 s, where they took 7 s: 2.25 s a group."""
    run = chained(5, [1.0] * 15 + [4.0])
    for row in run.tables["tasks"]:
        row["read_bytes"] = row["ended_ns"] - row["started_ns"]
    verdict = diagnose(run.trace(), [Skew()])
    assert verdict.figures[3].value == pytest.approx(5 * 2.25, abs=0.6)
    assert "skewed partitions in 5 groups" in verdict.sentence


def test_what_was_replayed_is_no_part_of_what_is_kept(chained: Callable[..., Any]) -> None:
    trace = chained(2, [1.0] * 15 + [9.0]).trace()
    verdict = diagnose(trace, [Straggler()])
    assert all(finding.what_if is None for finding in verdict.findings)
    assert all("what_if" not in finding.to_dict() for finding in verdict.findings)


def test_idle_cores_are_not_counted_for_each_group_that_waited(made_run: Make) -> None:
    """Two groups of roots are held back at the same time: the idle cores are the same."""
    run = made_run()
    run.event("setting", 0, text="worker-saturation", value=1.1)
    for number in range(500):
        for group in "ab":
            at = 0.007 * number + (0.0035 if group == "b" else 0.0)
            run.task(f"{group}{number}", group, "w0", at, 0.003, ready=0.0, output_bytes=100)
    trace = run.trace()
    found = Latency().check(trace, Tools())
    assert len(found) == 2
    joint = found[0].what_if.with_([found[1].what_if], view(trace), None)
    assert joint is not None
    makespan = view(trace).makespan or 0.0
    assert joint.mid_s <= makespan
    assert joint.mid_s < sum(finding.cost_s or 0.0 for finding in found)


def test_attempts_lost_in_several_groups_cost_no_more_than_their_times(made_run: Make) -> None:
    """Two groups after each other, each of a job killed after 10 s and run again in 12 s."""
    run = made_run(workers=1, threads=1, engine="nextflow")
    at = 0.0
    for number, group in enumerate("ab"):
        more = {"requested_wall_s": 10.0, "submitted": at}
        run.task(group, group, "w0", at, 10.0, ready=at, outcome="timeout", **more)
        run.task(group, group, "w0", at + 10.0, 12.0, ready=at + 10.0, attempt=2,
                 submitted=at + 10.0)  # fmt: skip
        if number:
            run.tables["deps"].append({"task_id": group, "depends_on": "a"})
        at += 22.0
    verdict = diagnose(run.trace(), [Walltime()])
    assert [finding.cost_s for finding in verdict.findings] == [pytest.approx(10.0, abs=0.1)] * 2
    (shared,) = verdict.together
    assert shared.saving_s == pytest.approx(20.0, abs=0.1)
    assert shared.saving_s_interval80[1] <= 20.0 + 1e-6


# -- made-up prices -----------------------------------------------------------------------------


class Fixed:
    """A price together that is known beforehand."""

    def __init__(self, mid_s: float) -> None:
        self.mid_s = mid_s

    def with_(self, others: Any, seen: Any, replay: Any) -> Joint:
        if self.mid_s < 0:
            raise ZeroDivisionError("no price")
        return Joint(self.mid_s, 0.8 * self.mid_s, 1.2 * self.mid_s, "as told")


class Says:
    name = "says"

    def __init__(self, *findings: Finding) -> None:
        self.findings = list(findings)

    def check(self, trace: Trace, tools: Any) -> list[Finding]:
        return self.findings


def finding(cost_s: float, group: str, joint_s: float | None, code: str = "RM900") -> Finding:
    what_if = None if joint_s is None else Fixed(joint_s)
    return Finding(
        code, "slow_thing", "info", f"Thing {group}", (group,), cost_s=cost_s, what_if=what_if
    )


TRACE = Trace.from_tables(
    {"tasks": [{"task_id": "a", "outcome": "ok", "started_ns": 0, "ended_ns": 10 * S}]}
)


@pytest.mark.parametrize(
    ("joint_s", "value", "words"),
    [
        (7.0, 7.0, "About 7 s of 10 s (70%) avoidable: slow thing in 2 groups, priced together. "
                   "The largest: thing a. 1 more cause found."),
        (99.0, 10.0, "About 10 s of 10 s (100%) avoidable: slow thing in 2 groups"),
        (4.1, 4.0, "About 4 s of 10 s (40%) avoidable: thing a. 2 more causes found."),
        (0.5, 4.0, "About 4 s of 10 s (40%) avoidable: thing a. 2 more causes found."),
        (-1.0, 4.0, "About 4 s of 10 s (40%) avoidable: thing a. 2 more causes found."),
    ],
)  # fmt: skip
def test_the_headline_is_what_one_replay_without_all_of_them_saves(
    joint_s: float, value: float, words: str
) -> None:
    said = Says(
        finding(4.0, "a", joint_s), finding(3.0, "b", joint_s), finding(2.0, "c", None, "RM901")
    )
    verdict = diagnose(TRACE, [said])
    assert verdict.figures[3].value == value
    assert verdict.sentence.startswith(words)
    assert [f.title for f in verdict.findings] == ["Thing a", "Thing b", "Thing c"]
    assert bool(verdict.together) == (value > 4.0)
    failed = [note for note in verdict.notes if "together" in note]
    assert bool(failed) == (joint_s < 0)


def test_like_findings_that_save_more_come_before_a_larger_one_of_another_code() -> None:
    said = Says(
        finding(5.0, "x", None, "RM901"), finding(4.0, "a", 7.5), finding(3.5, "b", 7.5)
    )  # fmt: skip
    verdict = diagnose(TRACE, [said])
    assert verdict.sentence == (
        "About 7.5 s of 10 s (75%) avoidable: slow thing in 2 groups, priced together. "
        "The largest: thing a. 1 more cause found."
    )


def test_prices_that_may_as_well_be_none_take_no_part() -> None:
    sure = finding(4.0, "a", 9.0)
    doubted = dataclasses.replace(
        finding(3.0, "b", 9.0), confidence="low", cost_s_interval80=(0.0, 4.0)
    )
    assert diagnose(TRACE, [Says(sure, doubted)]).figures[3].value == 4.0


def test_changes_that_say_all_requests_anew_are_made_one(made_run: Make) -> None:
    run = made_run(workers=1, threads=4, engine="slurm")
    for number in range(2):
        run.task(f"t{number}", f"g{number}", "w0", 0.0, 1.0, requested_cores=4.0)
    seen = view(run.trace())
    one = resources(seen, cores=np.array([1.0, np.nan]))
    other = resources(seen, cores=np.array([np.nan, 2.0]))
    (both,) = _merged([one, other])
    assert isinstance(both, Resources)
    assert both.cores.tolist() == [1.0, 2.0]
