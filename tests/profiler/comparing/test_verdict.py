"""Comparisons of runs whose changes are known."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from rotameter.errors import UsageError
from rotameter.profiler.comparing.predictions import Prediction
from rotameter.profiler.comparing.verdict import Comparison, compare
from rotameter.profiler.trace import Trace
from rotameter.values import Finding, Verdict

Make = Callable[..., Trace]
BASE = [("load", 40, 1.0), ("join", 40, 2.0)]


def nothing(trace: Trace) -> Verdict:
    return Verdict("s", "ok")


def both(one: Any, other: Any, **options: Any) -> Comparison:
    sides = [x if isinstance(x, list) else [x] for x in (one, other)]
    return compare(*sides, **{"diagnose": nothing, **options})


def test_a_faster_group_is_named_with_the_seconds_it_took_off(run: Make) -> None:
    found = both(run(BASE), run([("load", 40, 1.0), ("join", 40, 1.0)], seed=1))
    (change,) = found.changes
    assert (change.label, change.told) == ("join", "faster")
    moved = (found.makespan.after or 0) - (found.makespan.before or 0)
    assert change.contribution_s == pytest.approx(moved, rel=0.1)
    low, high = change.contribution_interval90 or (0, 0)
    assert low <= change.contribution_s <= high < 0
    assert found.makespan.is_change


def test_changes_are_ranked_and_the_rest_is_said(run: Make) -> None:
    after = [("load", 40, 2.0), ("join", 40, 1.4), ("write", 1, 3.0)]
    found = both(run(BASE), run(after, seed=1))
    assert [g.label for g in found.changes] == ["load", "join", "write"]
    assert [g.told for g in found.changes] == ["slower", "faster", "new"]
    document = found.to_dict()
    assert document["only_after"] == ["write"] and document["only_before"] == []
    known = sum(g.contribution_s or 0.0 for g in found.groups)
    moved = (found.makespan.after or 0) - (found.makespan.before or 0)
    assert known + (found.unexplained_s or 0.0) == pytest.approx(
        moved - sum(c.seconds or 0.0 for _, c in found.others)
    )
    back = both(run(after, seed=1), run(BASE)).to_dict()
    assert back["only_before"] == ["write"] and back["only_after"] == []


def test_with_one_run_a_side_nothing_under_ten_percent_is_called(run: Make) -> None:
    slower = [("load", 40, 1.09), ("join", 40, 2.17)]
    found = both(run(BASE, spread=1e-6), run(slower, spread=1e-6))
    assert not found.changes and not found.makespan.is_change
    assert not any(total.is_change for total in found.totals)
    assert any("how much runs vary is unknown" in note for note in found.notes)


def test_several_runs_tell_a_change_of_five_percent(run: Make) -> None:
    before = [run(BASE, seed=n, spread=0.02) for n in range(4)]
    after = [run([("load", 40, 1.0), ("join", 40, 2.1)], seed=9 + n, spread=0.02) for n in range(4)]
    found = both(before, after)
    assert [(g.label, g.told) for g in found.changes] == [("join", "slower")]
    assert found.makespan.interval90 is not None


def test_runs_that_vary_are_no_change(run: Make) -> None:
    paces = (0.8, 1.25, 1.0), (1.3, 0.9, 1.1)
    sides = [[run(BASE, seed=n, pace=p) for n, p in enumerate(side)] for side in paces]
    found = both(*sides)
    assert not found.changes and not found.makespan.is_change


def test_more_tasks_are_no_slower_tasks(run: Make) -> None:
    found = both(run(BASE), run([("load", 80, 1.0), ("join", 80, 2.0)], seed=1))
    assert {g.told for g in found.changes} == {"more"}
    assert found.total("wall_per_task_s").is_change is False
    assert any("2 x the tasks" in note for note in found.notes)


def test_fewer_and_larger_tasks_of_the_same_work_add_nothing(run: Make) -> None:
    one = run([("load", 80, 1.0)], spread=1e-6)
    found = both(one, run([("load", 40, 2.0)], spread=1e-6))
    (change,) = found.changes
    assert change.told == "slower"  # a task; and the whole is as long
    assert change.contribution_s == pytest.approx(0.0, abs=0.1)


def test_more_bytes_a_task_are_told_from_a_slower_byte(run: Make) -> None:
    found = both(
        run([("load", 40, 1.0)], task_bytes=1e8), run([("load", 40, 2.0)], seed=1, task_bytes=2e8)
    )
    (change,) = found.changes
    assert change.byte_ratio is not None and change.ratio is not None
    assert change.ratio.value == pytest.approx(2.0, rel=0.05)
    assert change.byte_ratio.value == pytest.approx(1.0, rel=0.05)


def test_a_straggler_that_is_gone_is_seen_in_the_seconds(run: Make) -> None:
    found = both(run([("load", 40, 1.0)], tail={"load": 20.0}), run([("load", 40, 1.0)], seed=1))
    (group,) = found.groups
    moved = (found.makespan.after or 0) - (found.makespan.before or 0)
    assert not group.is_change  # one task of 40
    assert (group.contribution_s or 0.0) < 0.6 * moved


def test_settings_and_the_cluster(run: Make) -> None:
    found = both(
        run(BASE, settings={"distributed.scheduler.worker-saturation": 1.1}),
        run(BASE, settings={"distributed.scheduler.worker-saturation": 2.0}, slots=8),
    )
    texts = [d.text for d in found.differences]
    assert "worker-saturation 1.1 -> 2" in texts and "workers 4 -> 8" in texts
    assert dict(found.others)["the cluster's size"].seconds < -5  # type: ignore[operator]


# -- predictions ---------------------------------------------------------------------------------


def said(mid: float, low: float, high: float, action: str = "do", kind: str = "spill"):
    return Prediction("RM1", kind, ("join",), low, mid, high, action)


def half(run: Make, **options: Any) -> tuple[Trace, Trace]:
    return run(BASE), run([("load", 40, 1.0), ("join", 40, 1.0)], seed=1, **options)


def test_a_prediction_that_came_true(run: Make) -> None:
    (judged,) = both(*half(run), predictions=[said(10.0, 8.0, 12.0)]).predictions
    assert (judged.outcome, judged.applied) == ("came true", "unknown")
    assert judged.left_s == 0.0


@pytest.mark.parametrize(
    ("mid", "low", "high", "outcome"),
    [
        (3.0, 2.0, 4.0, "more than predicted"),
        (25.0, 20.0, 30.0, "less than predicted"),
    ],
)
def test_predictions_that_did_not(
    run: Make, mid: float, low: float, high: float, outcome: str
) -> None:
    (judged,) = both(*half(run), predictions=[said(mid, low, high)]).predictions
    assert judged.outcome == outcome


def test_nothing_saved(run: Make) -> None:
    one, other = run(BASE), run([("load", 40, 1.0), ("join", 40, 2.3)], seed=1)
    (judged,) = both(one, other, predictions=[said(10.0, 8.0, 12.0)]).predictions
    assert judged.outcome == "did not come true"


def test_what_shows_that_advice_was_followed(run: Make) -> None:
    name = "distributed.scheduler.worker-saturation"
    one = run(BASE, settings={name: 1.1})
    other = run([("load", 40, 1.0), ("join", 40, 1.0)], seed=1, settings={name: 2.0})
    advised = [
        said(10.0, 8.0, 12.0, 'dask.config.set({"distributed.scheduler.worker-saturation": 2.0})'),
        said(10.0, 8.0, 12.0, "worker-saturation: 1.0"),
        said(9.0, 8.0, 12.0, "Buy a faster disk."),
    ]
    first, second, third = both(one, other, predictions=advised).predictions
    assert (first.applied, first.outcome) == ("yes", "came true")
    assert second.applied == "otherwise"
    assert (third.applied, third.applied_how) == ("unknown", "unknown whether applied")
    assert third.outcome == "cannot tell"


def test_fewer_tasks_follow_advice_on_their_size(run: Make) -> None:
    one, other = run([("join", 80, 1.0)]), run([("join", 10, 4.0)])
    advised = [said(10.0, 8.0, 12.0, "Use larger chunks.", "tiny_tasks")]
    (judged,) = both(one, other, predictions=advised).predictions
    assert judged.applied == "yes" and "80 -> 10" in judged.applied_how


def test_a_cause_that_is_still_there(run: Make) -> None:
    def still(trace: Trace) -> Verdict:
        finding = Finding("RM1", "spill", "warning", "t", ("join",), cost_s=10.0)
        return Verdict("s", "ok", findings=(finding,))

    (judged,) = both(*half(run), diagnose=still).predictions
    assert judged.left_s == 10.0 and judged.outcome == "cannot tell"
    assert judged.how == "the cause is still there"


def test_causes_that_are_gone_together_may_have_been_one(run: Make) -> None:
    same = [said(10.0, 9.0, 11.0), said(9.5, 9.0, 10.0, kind="straggler")]
    for judged in both(*half(run), predictions=same).predictions:
        assert judged.outcome == "came true" and "may overlap" in judged.how


def test_large_runs_are_not_replayed(run: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rotameter.profiler.comparing.contributions.BUDGET_NODES", 10)
    found = both(*half(run))
    (change,) = found.changes
    assert change.contribution_s == pytest.approx(-10.0, rel=0.1)
    assert change.contribution_how == "task time over the tasks that run at once, not replayed"


def test_without_task_times_reads_and_writes_are_compared() -> None:
    def made(seconds: float) -> Trace:
        tasks = [{"task_id": f"t{n}", "group": "g"} for n in range(9)]
        flows = [
            {"task_id": f"t{n}", "object": "x", "op": "read", "bytes": 10**9, "busy_s": seconds}
            for n in range(9)
        ]
        return Trace.from_tables({"tasks": tasks, "flows": flows})

    found = both(made(1.0), made(2.0))
    (change,) = found.changes
    assert (change.told, change.per_task_s) == ("slower", (1.0, 2.0))
    assert change.contribution_s is None and found.makespan.before is None
    assert any("reads and writes" in note for note in found.notes)


def test_runs_of_other_scale_say_nothing_of_predictions(run: Make) -> None:
    one, other = run(BASE, meta={"scale": {"k": 1}}), run(BASE, meta={"scale": {"k": 2}})
    (judged,) = both(one, other, predictions=[said(10.0, 8.0, 12.0)]).predictions
    assert judged.outcome == "cannot tell" and "scale" in judged.how


# -- laws and bad input --------------------------------------------------------------------------


def test_same_input_same_bytes(run: Make) -> None:
    texts = {json.dumps(both(run(BASE), run(BASE, seed=1)).to_dict()) for _ in range(2)}
    assert len(texts) == 1


def test_a_run_and_itself(run: Make) -> None:
    found = both(run(BASE), run(BASE))
    assert not found.changes and not found.differences and found.unexplained_s == 0.0


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [{"task_id": "a"}],
        [{"task_id": "a", "group": "g", "wall_s": 1.0}],
        [{"group": "g", "started_ns": 0, "ended_ns": 10**9}],
        [{"task_id": "a", "group": "g", "outcome": "cached"}],
    ],
)
def test_little_is_compared_without_an_error(run: Make, rows: list[dict[str, Any]]) -> None:
    poor = Trace.from_tables(
        {"tasks": rows, "deps": [{"task_id": "a", "depends_on": "a"}]},
    )
    for one, other in ((poor, poor), (run(BASE), poor), (poor, run(BASE))):
        json.dumps(compare([one], [other]).to_dict(), allow_nan=False)


def test_a_side_without_runs_is_refused(run: Make) -> None:
    with pytest.raises(UsageError):
        compare([], [run(BASE)])
