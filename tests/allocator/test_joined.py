"""Several runs taken together: each task once, each run with its weight."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rotameter.allocator.advice import advise
from rotameter.allocator.by_resource import needs_of
from rotameter.allocator.joined import join
from rotameter.allocator.recorded import from_trace
from rotameter.allocator.workload import Workload
from rotameter.profiler.trace import Trace

GB = 10**9
DAY_NS = 86_400 * 10**9
NOON_NS = 1_700_000_000 * 10**9


def run(name: str, *rows: dict[str, Any], begins_ns: int | None = NOON_NS, **more: Any) -> Workload:
    """Give a run: each task a second after the one before, 2 GB where nothing is said."""
    plain = {"group": "g", "outcome": "ok", "wall_s": 60.0, "peak_memory_bytes": 2 * GB,
             "requested_memory_bytes": 16 * GB, "peak_memory_kind": "exact"}  # fmt: skip
    made = [{**plain, **row} for row in rows]
    for at, row in enumerate(made):
        row.setdefault("task_id", f"{name}{at}")
        if begins_ns is not None and row["outcome"] != "cached":
            row["started_ns"] = begins_ns + at * 10**9
            row["ended_ns"] = row["started_ns"] + 60 * 10**9
    return from_trace(Trace.from_tables({"tasks": made}, **more), name)


def test_runs_count_by_their_tasks_and_groups_are_matched_by_name() -> None:
    one = run("a", *[{}] * 6, *[{"group": "only a"}] * 2)
    two = run("b", *[{"group": "only b"}] * 3, *[{"peak_memory_bytes": 5 * GB}] * 4)
    made = join([one, two])
    assert made.parts == (("a", 8), ("b", 7)) and len(made.work) == 15
    assert made.by_group == {
        "g": (("a", 6), ("b", 4)), "only a": (("a", 2),), "only b": (("b", 3),)}  # fmt: skip
    (found,) = [one for one in advise(made.work) if one.group == "g"]
    assert found.runs == 10 and (found.least, found.most) == (2 * GB, 5 * GB)
    assert found.request is not None and found.request >= 5.5 * GB
    assert made.words()[1:] == ["  a: 8 tasks, 53.3% of all", "  b: 7 tasks, 46.7% of all"]


def test_what_was_killed_or_cut_short_in_any_run_counts_and_is_named_with_it() -> None:
    dead = {"outcome": "oom", "peak_memory_bytes": None, "task_id": "big"}
    cut = {"outcome": "cancelled", "peak_memory_bytes": 9 * GB, "task_id": "late"}
    one = run("a", *[{}] * 6, {**dead, "requested_memory_bytes": 4 * GB})
    two = run("b", *[{}] * 6, cut, {"group": "other"})
    (found, _) = advise(join([one, two]).work)
    assert (found.killed, found.killed_with, found.lacking) == (1, 4 * GB, 1)
    assert found.request == pytest.approx(9.9 * GB) and found.rests_on == ("late of b",)
    (found,) = advise(join([one, two.only(np.arange(6))]).work)  # Bounds stay with their run.
    assert found.rests_on == ("late of b",)


def test_growth_from_run_to_run_is_seen_in_whatever_order_they_are_named() -> None:
    early = run("early", *[{}] * 20)
    late = run("late", *[{"peak_memory_bytes": 3 * GB}] * 20, begins_ns=NOON_NS + DAY_NS)
    asked = [advise(join(both).work)[0].request for both in ([early, late], [late, early])]
    assert asked[0] == asked[1] == pytest.approx(1.5 * 1.1 * 3 * GB)


def test_without_real_times_the_order_in_which_they_are_named_stands_for_time() -> None:
    early = run("early", *[{}] * 20, begins_ns=0)
    late = run("late", *[{"peak_memory_bytes": 3 * GB}] * 20, begins_ns=0)
    assert advise(join([early, late]).work)[0].request == pytest.approx(4.95 * GB)
    assert advise(join([late, early]).work)[0].request == pytest.approx(3.3 * GB)


def test_what_a_later_run_took_from_the_cache_of_another_counts_once() -> None:
    rows = [{"peak_memory_bytes": 2 * GB + k, "wall_s": 60.0 + k} for k in range(6)]
    again = [{**row, "outcome": "cached"} for row in rows]
    one, two = run("a", *rows), run("b", *again, *[{"peak_memory_bytes": 3 * GB}] * 2)
    assert len(two) == 8
    for both in ([one, two], [two, one]):
        made = join(both)
        assert len(made.work) == 8 and dict(made.parts) == {"a": 6, "b": 2}
    # Where nobody tells of the run itself, one of those that tell of it counts.
    assert len(join([two, run("c", *again)]).work) == 8


@pytest.mark.parametrize("resource", ["memory", "time", "cores", "disk", "gpus"])
def test_every_resource_can_be_taken_together(resource: str) -> None:
    row = {
        "group": "g", "outcome": "ok", "wall_s": 60.0, "peak_memory_bytes": GB, "cpu_s": 30.0,
        "requested_cores": 4.0, "peak_disk_bytes": GB, "requested_gpus": 1.0, "cores": 4.0,
        "gpu_util": 0.0,
    }  # fmt: skip
    tables = {"tasks": [{**row, "task_id": str(k)} for k in range(6)]}
    columns = Trace.from_tables({}).table("tasks").column_names
    tables = {"tasks": [{k: row[k] for k in row if k in columns} for row in tables["tasks"]]}
    runs = [needs_of(Trace.from_tables(tables), resource, name) for name in "ab"]
    made = join(runs)
    assert len(made.work) == sum(map(len, runs)) and made.work.resource.name == resource
    if len(runs[0]) and not np.isnan(runs[0].need).all():
        assert made.by_group["g"] == (("a", 6), ("b", 6))


def test_columns_that_only_some_runs_have_are_filled() -> None:
    one, codes = np.ones(2), np.zeros(2, dtype=np.int64)
    plain = Workload("a", codes, ("g",), one, one, one, one)
    kinds = np.array(["upper_bound"] * 2, dtype=object)
    more = {"at_most": codes == 0, "kinds": kinds, "cached": np.array([False, True])}
    rich = Workload("b", codes, ("g",), one, one, one, one, **more)
    made = join([plain, rich]).work
    # The second of `rich` is one that `a` ran.
    assert made.at_most is not None and made.at_most.tolist() == [False, False, True]
    assert made.kinds is not None and made.kinds.tolist() == ["exact", "exact", "upper_bound"]
    assert made.cached is not None and not made.cached.any()
    assert made.begun is None and join([plain]).work.at_most is None
