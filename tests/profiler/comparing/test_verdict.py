"""Comparisons of runs whose changes are known."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from rotameter.errors import UsageError
from rotameter.profiler.comparing.facts import facts_of
from rotameter.profiler.comparing.judging import Measured, judge
from rotameter.profiler.comparing.predictions import Prediction
from rotameter.profiler.comparing.settings import Difference
from rotameter.profiler.comparing.spread import spread_of
from rotameter.profiler.comparing.totals import least_ratio
from rotameter.profiler.comparing.verdict import Comparison, compare
from rotameter.profiler.trace import Trace
from rotameter.values import Finding, Verdict
from rotameter.viz.comparison import comparison_text

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


def test_a_worker_that_was_started_again_is_no_further_one(run: Make) -> None:
    calm = run(BASE)
    rows, workers = calm.table("tasks").to_pylist(), calm.table("workers").to_pylist()
    dies = max(r["ended_ns"] for r in rows if r["worker"] == "w0" and r["started_ns"] < 10**10)
    for row in rows:
        if row["worker"] == "w0" and row["started_ns"] >= dies:
            row["worker"] = "w9"
    workers.append({**workers[0], "worker": "w9", "started_ns": dies})
    workers[0]["ended_ns"] = dies
    tables = {"tasks": rows, "workers": workers, "deps": calm.table("deps").to_pylist()}
    found = both(Trace.from_tables(tables, calm.meta), calm)
    assert not [d for d in found.differences if d.name == "workers"]
    assert "the cluster's size" not in dict(found.others)


def test_a_few_kilobytes_are_no_workload(run: Make) -> None:
    sizes = {"write_bytes": 1.0}
    found = both(run(BASE, task_bytes=4e3, **sizes), run(BASE, seed=1, task_bytes=9e3, **sizes))
    assert not any("bytes read" in note for note in found.notes)
    assert not found.total("read_bytes").is_change and not found.total("read_bytes").matters
    assert found.total("wall_per_gb_s").before is None
    assert all(g.byte_ratio is None and not g.bytes_matter for g in found.groups)
    assert found.groups[0].bytes[0] == pytest.approx(40 * 4001.0)


def test_bytes_that_take_no_time_do_not_matter_and_those_that_do_matter(run: Make) -> None:
    one, other = (run([("load", 40, 100.0)], seed=s, task_bytes=1e6 * s) for s in (1, 2))
    assert not both(one, other).total("read_bytes").matters  # 40 MB of 1,000 s
    slow = [run([("load", 40, 1.0)], task_bytes=1e6, io_s=0.5) for _ in range(2)]
    assert both(*slow).total("read_bytes").matters


def test_one_run_a_side_that_varies_inside_varies_between_runs(run: Make) -> None:
    one = run([("work", 40, 1.0)], spread=0.8, seed=3)
    other = run([("work", 40, 1.0)], spread=0.8, seed=3, pace=1.12)
    found = both(one, other)
    assert abs(found.makespan.change_ratio or 0) > 0.10
    assert not found.changes and not found.makespan.is_change
    assert not found.total("task_wall_s").is_change
    same = both(run([("work", 40, 1.0)], spread=1e-6), run([("work", 40, 1.12)], spread=1e-6))
    assert same.makespan.is_change and same.changes


def test_a_straggler_that_is_gone_is_a_change_of_the_run_time(run: Make) -> None:
    calm = run([("load", 28, 0.45)], slots=2)
    late = run([("load", 17, 0.4)], slots=2, tail={"load": 7.0})
    found = both(late, calm)
    assert found.makespan.is_change and (found.makespan.change_ratio or 0) < -0.3
    assert both(calm, late).makespan.is_change
    again = both(late, run([("load", 17, 0.4)], slots=2, seed=5, tail={"load": 7.0}))
    assert not any(total.is_change for total in again.totals)


def test_the_bound_is_that_of_both_sides_and_below_the_whole(run: Make) -> None:
    def within(one: Trace, other: Trace, sign: int) -> float:
        sides = [facts_of(one), facts_of(other)]
        return least_ratio("makespan_s", sign, spread_of(sides, 4.0))

    calm, wild = run([("a", 12, 1.0)], spread=1e-6), run([("a", 4, 1.0)], spread=3.0)
    for sign in (-1, 1):
        assert within(calm, wild, sign) == within(wild, calm, sign)
        assert within(calm, calm, sign) == pytest.approx(0.10, abs=1e-3)
    assert 0.5 < within(wild, wild, -1) < 1.0 < within(wild, wild, 1)


def test_a_long_tail_is_no_straggler(run: Make) -> None:
    skewed = facts_of(run([("a", 40, 1.0)], spread=1.2))
    late = facts_of(run([("a", 40, 1.0)], tail={"a": 30.0}))
    calm = facts_of(run([("a", 40, 1.0)]))
    assert spread_of([skewed, skewed], 4.0).tasks > 0.3
    assert spread_of([late, late], 4.0).tasks <= spread_of([calm, calm], 4.0).tasks


def test_what_is_held_as_long_as_the_run_lasts_varies_as_it_does(run: Make) -> None:
    def held(pace: float) -> Trace:
        made = run([("work", 40, 1.0)], spread=0.8, seed=3, pace=pace, peak_memory_bytes=1)
        workers = [{**w, "memory_bytes": 2 * 2**30} for w in made.table("workers").to_pylist()]
        return Trace.from_tables(
            {"tasks": made.table("tasks").to_pylist(), "workers": workers}, made.meta
        )

    found = both(held(1.0), held(1.12))
    kept = found.total("wasted_gbh")
    assert abs(kept.change_ratio or 0) > 0.11  # nothing was used: it is run time x limit
    assert not found.makespan.is_change and not kept.is_change


def test_waste_is_judged_beside_what_was_held(run: Make) -> None:
    found = both(run([("a", 41, 1.0)], spread=1e-6), run([("a", 42, 1.0)], spread=1e-6))
    wasted = found.total("wasted_core_s")
    assert abs(wasted.change_ratio or 0) > 0.10 and not wasted.is_change


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
    assert second.applied == "opposite"  # It was to go down, and went up.
    assert (third.applied, third.applied_how) == ("unknown", "unknown whether applied")
    assert third.outcome == "cannot tell"


def test_fewer_tasks_follow_advice_on_their_size(run: Make) -> None:
    one, other = run([("join", 80, 1.0)]), run([("join", 10, 4.0)])
    advised = [said(10.0, 8.0, 12.0, "Use larger chunks.", "tiny_tasks")]
    (judged,) = both(one, other, predictions=advised).predictions
    assert judged.applied == "yes" and "80 -> 10" in judged.applied_how


@pytest.mark.parametrize(
    ("kind", "action", "counts", "applied"),
    [
        ("tiny_tasks", "Use larger chunks.", (80, 10), "yes"),
        ("tiny_tasks", "Use larger chunks.", (10, 80), "opposite"),
        ("skewed_partitions", "Split the large pieces.", (10, 80), "yes"),
        ("skewed_partitions", "Split the large pieces.", (80, 10), "opposite"),
        ("of_theirs", "Use fewer, larger tasks.", (10, 80), "opposite"),
        ("of_theirs", "Change the chunks.", (10, 80), "yes"),
        ("gil_contention", "Use fewer threads.", (10, 80), "unknown"),
    ],
)
def test_a_change_the_other_way_is_no_advice_applied(
    run: Make, kind: str, action: str, counts: tuple[int, int], applied: str
) -> None:
    one, other = (run([("join", n, 1.0)]) for n in counts)
    advised = [said(10.0, 8.0, 12.0, action, kind)]
    (judged,) = both(one, other, predictions=advised).predictions
    assert judged.applied == applied
    if applied == "opposite":
        assert judged.outcome == "cannot tell"
        assert "changed the other way than advised" in comparison_text(
            both(one, other, predictions=advised)
        )


@pytest.mark.parametrize(
    ("before", "after", "applied"),
    [(2.0, 4.0, "yes"), (2.0, 3.0, "otherwise"), (2.0, 1.0, "opposite"), (8.0, 16.0, "opposite")],
)
def test_a_number_that_was_advised_says_which_way(
    before: float, after: float, applied: str
) -> None:
    advised = said(10.0, 8.0, 12.0, "LocalCluster(n_workers=4, threads_per_worker=1)")
    changed = Difference("cluster", "workers", before, after)
    (judged,) = judge([advised], Measured(None, None, None, 0.0), [changed], [], None)
    assert judged.applied == applied


@pytest.mark.parametrize(
    ("kind", "name", "before", "after", "applied"),
    [
        ("over_requested_memory", "requested memory", 8e9, 2e9, "yes"),
        ("over_requested_memory", "requested memory", 2e9, 8e9, "opposite"),
        ("under_requested_memory", "requested memory", 2e9, 8e9, "yes"),
        ("under_requested_memory", "requested memory", 8e9, 2e9, "opposite"),
        ("over_requested_cores", "requested cores", 1.0, 4.0, "opposite"),
    ],
)
def test_requests_have_a_direction_too(
    kind: str, name: str, before: float, after: float, applied: str
) -> None:
    advised = said(10.0, 8.0, 12.0, "Ask for 3 GB.", kind)
    changed = Difference("request", name, before, after, "join")
    (judged,) = judge([advised], Measured(None, None, None, 0.0), [changed], [], None)
    assert judged.applied == applied


def test_a_cause_that_is_still_there(run: Make) -> None:
    def still(trace: Trace) -> Verdict:
        finding = Finding("RM1", "spill", "warning", "t", ("join",), cost_s=10.0)
        return Verdict("s", "ok", findings=(finding,))

    (judged,) = both(*half(run), diagnose=still).predictions
    assert judged.left_s == 10.0 and judged.outcome == "cannot tell"
    assert judged.how == "the cause is still there"


WORKED = [("load", 40, 1.0), ("join", 40, 1.0)]


def with_columns(trace: Trace, **columns: float) -> Trace:
    """Give each task of ``join`` values of its duration's part."""
    rows = trace.table("tasks").to_pylist()
    for row in rows:
        row |= {name: share * row["wall_s"] for name, share in columns.items()}
    tables = {name: trace.table(name).to_pylist() for name in ("deps", "workers")}
    return Trace.from_tables({"tasks": rows, **tables}, trace.meta)


def test_a_cause_that_went_with_its_work_was_not_put_right(run: Make) -> None:
    # Half the time with half the CPU time: the tasks do less, and do not wait less.
    sides = [with_columns(t, cpu_s=0.9) for t in half(run)]
    (judged,) = both(*sides, predictions=[said(10.0, 8.0, 12.0)]).predictions
    assert judged.outcome == "cannot tell"
    assert "another reason: its tasks compute less (-5" in judged.how
    # The same CPU time in half the time: what they waited for is gone.
    waited = [with_columns(t, cpu_s=s) for t, s in zip(half(run), (0.45, 0.9), strict=True)]
    (judged,) = both(*waited, predictions=[said(10.0, 8.0, 12.0)]).predictions
    assert judged.outcome == "came true"


def test_threads_that_are_still_there_were_not_put_right(run: Make) -> None:
    advised = [said(10.0, 8.0, 12.0, kind="thread_oversubscription")]
    many = {"cpu_s": 0.1, "process_cpu_s": 0.6}
    one, other = half(run)
    for after, outcome in ((many, "cannot tell"), ({**many, "process_cpu_s": 0.1}, "came true")):
        sides = with_columns(one, **many), with_columns(other, **after)
        (judged,) = both(*sides, predictions=advised).predictions
        assert judged.outcome == outcome
        assert ("several threads" in judged.how) == (outcome == "cannot tell")


def test_tasks_that_are_gone_or_fewer_are_another_reason(run: Make) -> None:
    one = run(BASE)
    advised = [said(10.0, 8.0, 12.0)]
    gone = run([("load", 40, 1.0), ("merge", 13, 3.0)], seed=1)
    (judged,) = both(one, gone, predictions=advised).predictions
    assert judged.outcome == "cannot tell" and "not there any more" in judged.how
    (judged,) = both(one, run([BASE[0], ("join", 20, 2.0)]), predictions=advised).predictions
    assert judged.outcome == "cannot tell" and "20 now, not 40" in judged.how


def test_tiny_tasks_that_became_others_came_true(run: Make) -> None:
    one, other = run([("price", 400, 0.05)]), run([("many", 5, 1.0)])
    saved = 5.0 - (other.meta["run"]["ended_ns"] / 1e9)
    tiny = Prediction("RM1", "tiny_tasks", ("price",), None, saved, None, "do")
    (judged,) = both(one, other, predictions=[tiny]).predictions
    assert judged.outcome == "came true"


def test_advice_that_was_followed_while_the_cause_stays(run: Make) -> None:
    def still(trace: Trace) -> Verdict:
        finding = Finding("RM1", "spill", "warning", "t", ("join",), cost_s=10.0)
        return Verdict("s", "ok", findings=(finding,))

    name = "distributed.scheduler.worker-saturation"
    one = run(BASE, settings={name: 1.1})
    other = run(WORKED, seed=1, settings={name: 2.0})
    advised = [said(10.0, 8.0, 12.0, 'set "distributed.scheduler.worker-saturation": 2.0')]
    (judged,) = both(one, other, predictions=advised, diagnose=still).predictions
    assert (judged.applied, judged.outcome) == ("yes", "cannot tell")
    assert "faster for another reason" in judged.how


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
