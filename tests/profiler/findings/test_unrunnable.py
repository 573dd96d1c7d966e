"""RM143: what no worker, or no node of the batch system, could ever take."""

from __future__ import annotations

from typing import Any

import pytest

from rotameter.profiler.diagnose import diagnose
from rotameter.profiler.findings.base import Tools
from rotameter.profiler.findings.unrunnable import Advisor
from rotameter.profiler.trace import Trace
from rotameter.values import Finding

S = 10**9


def check(trace: Trace) -> list[Finding]:
    return Advisor().check(trace, Tools())


def facts(finding: Finding) -> dict[str, Any]:
    return {fact.name: fact.value for fact in finding.evidence}


def event(why: str, at: float = 5.0, count: int = 1, group: str = "train") -> dict[str, Any]:
    row = {"kind": "unrunnable", "at_ns": round(at * S), "group": group, "count": count}
    return row | {"reason": why}


def dask(*events: dict[str, Any], status: str = "interrupted", begun: float = 1.0) -> Trace:
    """Ten tasks are done at 4 s; others wait to the end at 30 s."""
    rows = [
        {"task_id": f"t{n}", "group": "train", "outcome": "ok", "submitted_ns": S,
         "started_ns": round(begun * S), "ended_ns": round((begun + 3) * S), "worker": "w"}
        for n in range(10)
    ]  # fmt: skip
    worker = {"worker": "w", "started_ns": 0, "ended_ns": 30 * S, "cores": 10.0}
    run = {"status": status, "started_ns": 0, "ended_ns": 30 * S}
    tables = {"tasks": rows, "events": list(events), "workers": [worker]}
    return Trace.from_tables(tables, {"engine": "dask", "run": run})


def test_what_is_asked_for_and_what_any_worker_offers() -> None:
    (finding,) = check(dask(event("asks for GPU=2; the most that one offers is 1", count=3)))
    assert (finding.code, finding.kind, finding.severity) == ("RM143", "unrunnable", "critical")
    assert finding.title == (
        "3 tasks of `train` never started: each asks for GPU=2; the most that one offers is 1"
    )
    assert finding.groups == ("train",)
    assert facts(finding)["tasks that never started"] == 3
    assert facts(finding)["GPU asked for"] == 2.0
    assert facts(finding)["most GPU of any worker"] == 1.0
    assert (finding.cost_s, finding.confidence) == (None, "high")
    assert finding.change == 'dask worker … --resources "GPU=2"'


def test_several_resources_and_groups_of_one_cause() -> None:
    why = "asks for GPU=1, which no worker offers, and asks for MEM=1e+11; the most that one "
    why += "offers is 6.4e+10"
    (finding,) = check(dask(event(why), event(why, group="fit", count=2)))
    assert finding.groups == ("fit", "train")
    assert "3 tasks of `fit` and `train` never started" in finding.title
    assert facts(finding)["GPU asked for"] == 1.0
    assert facts(finding)["most GPU of any worker"] == 0.0
    assert facts(finding)["MEM asked for"] == 1e11
    assert facts(finding)["most MEM of any worker"] == 6.4e10


@pytest.mark.parametrize(
    ("why", "advice"),
    [
        ("may run on tcp://x:1 only", "allow_other_workers"),
        ("the cluster has no worker", "Start workers, and look why"),
        ("asks for GPU=1, TPU=1 on one worker", "all of it on one"),
        ("no worker may take it", "Look at what it asks for"),
    ],
)
def test_other_causes_have_their_own_advice(why: str, advice: str) -> None:
    (finding,) = check(dask(event(why)))
    assert why in finding.title
    assert advice in finding.advice
    assert finding.confidence == "medium"


@pytest.mark.parametrize("status", ["interrupted", "ok", "unknown"])
def test_it_comes_first(status: str) -> None:
    verdict = diagnose(dask(event("asks for GPU=1, which no worker offers"), status=status))
    assert verdict.findings[0].code == "RM143"
    assert "asks for GPU=1, which no worker offers" in verdict.sentence


def test_what_got_a_worker_is_not_told() -> None:
    why = "asks for GPU=1, which no worker offers"
    assert check(dask(event(why, 1.5), event(why, 5.0, 0), begun=5.0)) == []
    (given_up,) = check(dask(event(why, 5.0), event(why, 29.5, 0)))
    assert facts(given_up)["tasks that never started"] == 1
    assert check(dask()) == []
    assert check(Trace.from_tables({})) == []


def test_what_an_interrupted_client_lets_go_of_still_counts() -> None:
    why = "asks for GPU=1, which no worker offers"
    graph = {"kind": "graph_submitted", "at_ns": 4 * S, "count": 20}
    going = [event(why, at, count) for at, count in ((5.0, 10), (29.5, 5), (29.9, 0))]
    (finding,) = check(dask(graph, *going))
    assert facts(finding)["tasks that never started"] == 10
    # Five began meanwhile: five are left.
    (finding,) = check(dask(graph, *going[:2], begun=29.0))
    assert facts(finding)["tasks that never started"] == 5
    # An earlier computation was given up, and a smaller one is what the run hung on.
    before = [event(why, 2.0, 10), event(why, 3.0, 0)]
    (finding,) = check(dask(*before, graph, event(why, 6.0, 3), event(why, 29.5, 1)))
    assert facts(finding)["tasks that never started"] == 3


# -- jobs of a batch system -----------------------------------------------------------------------


def job(name: str, error: str | None = None, **more: Any) -> dict[str, Any]:
    row = {"task_id": name, "group": "sim", "outcome": "unknown", "error": error, "queue": "short",
           "submitted_ns": 0, "requested_wall_s": 90_000.0, "requested_cores": 4.0}  # fmt: skip
    return {**row, **more}


def ran(name: str, **more: Any) -> dict[str, Any]:
    times = {"started_ns": 1, "ended_ns": 60 * S, "outcome": "ok"}
    return job(name, **{**times, "requested_wall_s": 3600.0, **more})


def log(*rows: dict[str, Any], engine: str = "slurm") -> Trace:
    return Trace.from_tables({"tasks": list(rows)}, {"engine": engine, "origin": "imported"})


def test_jobs_whose_reason_stays_can_never_start() -> None:
    why = "PENDING: PartitionTimeLimit"
    (finding,) = check(log(job("1", why), job("2", why), ran("3"), ran("4", queue="long")))
    assert finding.title == (
        "2 jobs of `sim` can never start: they ask for more than is allowed or there "
        "(PartitionTimeLimit)"
    )
    assert finding.severity == "warning"
    assert facts(finding)["time limit asked for"] == 90_000.0
    assert facts(finding)["most time limit that a job started with"] == 3600.0
    assert "cores asked for" not in facts(finding)
    assert "sinfo" in finding.advice


def test_without_a_job_that_started_the_most_is_unknown() -> None:
    (finding,) = check(log(job("1", "PENDING: BadConstraints", requested_memory_bytes=2**40)))
    assert facts(finding)["memory asked for"] == 2**40
    assert facts(finding)["most memory that a job started with"] is None
    assert "no node has all that it asks for" in finding.title


@pytest.mark.parametrize(
    ("error", "said"),
    [
        ("PENDING: QOSMaxCpuPerJobLimit", True),
        ("PENDING: AssocMaxWallDurationPerJobLimit", True),
        ("PENDING: QOSMinGRES", True),
        ("PENDING: DependencyNeverSatisfied", True),
        ("Can Never Run: Insufficient amount of resource: ngpus (R: 9 A: 4 T: 4)", True),
        ("PENDING: Resources", False),
        ("PENDING: Priority", False),
        ("PENDING: QOSMaxCpuPerUserLimit", False),
        ("PENDING: AssocGrpCpuLimit", False),
        ("PENDING: JobHeldUser", False),
        ("PENDING: Dependency", False),
        (None, False),
    ],
)
def test_reasons_that_pass_by_themselves_are_not_told(error: str | None, said: bool) -> None:
    assert bool(check(log(job("1", error)))) is said


def test_what_ran_or_failed_after_all_is_not_told() -> None:
    why = "PENDING: BadConstraints"
    assert check(log(ran("1", error=why))) == []
    assert check(log(job("1", why, wall_s=5.0))) == []
    (finding,) = check(log(job("1", "CANCELLED: BadConstraints", outcome="cancelled")))
    assert "1 job of `sim`" in finding.title


def test_in_a_log_of_jobs_it_does_not_come_before_what_has_a_price() -> None:
    rows = [job("1", "PENDING: BadConstraints"), ran("2")]
    verdict = diagnose(log(*rows), [Says(), Advisor()])
    assert [finding.code for finding in verdict.findings] == ["RM900", "RM143"]


class Says:
    name = "says"

    def check(self, trace: Trace, tools: Tools) -> list[Finding]:
        return [Finding("RM900", "k", "info", "t", cost_s=5.0)]
