"""Rows of several sources made one."""

from __future__ import annotations

from rotameter.adapters.importers.building import Builder
from rotameter.adapters.joining.merging import Joined, Ledger, offset_between

HOUR = 3600 * 10**9


def test_what_is_missing_is_filled_and_its_source_kept():
    one = Joined.of({"task_id": "a", "wall_s": 10.0, "cpu_s": None}, "x")
    one.fill({"wall_s": 10.4, "cpu_s": 5.0, "task_id": "other"}, "y")
    assert one.row == {"task_id": "a", "wall_s": 10.0, "cpu_s": 5.0}
    assert one.origin == {"wall_s": "x", "cpu_s": "y"} and not one.conflicts


def test_more_than_rounding_is_a_conflict():
    one = Joined.of({"wall_s": 100.0, "host": "a", "requested_memory_bytes": 1 << 30}, "x")
    one.fill(
        {"wall_s": 120.0, "host": "b", "requested_memory_bytes": 1 << 30}, "y", better=["host"]
    )
    assert one.conflicts == {"wall_s", "host"} and one.row["host"] == "b"
    assert one.row["wall_s"] == 100.0


def test_outcomes_are_told_more_closely_but_not_turned_round():
    one = Joined.of({"outcome": "failed", "outcome_kind": "reported"}, "x")
    one.fill({"outcome": "preempted", "outcome_kind": "reported"}, "y")
    assert one.row["outcome"] == "preempted" and not one.conflicts
    one = Joined.of({"outcome": "failed", "outcome_kind": "reported"}, "x")
    one.fill({"outcome": "ok", "outcome_kind": "reported"}, "y")
    assert one.row["outcome"] == "failed" and one.conflicts == {"outcome"}


def test_a_kill_for_memory_censors_the_peak():
    one = Joined.of(
        {"outcome": "failed", "peak_memory_bytes": 5, "peak_memory_kind": "sampled"}, "x"
    )
    one.fill({"outcome": "oom", "requested_memory_bytes": 100}, "y")
    assert (one.row["peak_memory_bytes"], one.row["peak_memory_kind"]) == (100, "lower_bound")


def test_zones_from_times_of_the_same_events():
    assert offset_between([(HOUR + 3, 0), (2 * HOUR, HOUR + 9), (None, 1)]) == HOUR
    assert offset_between([(HOUR, 0), (0, 0)]) is None
    assert offset_between([(400 * 10**9, 0)]) is None
    assert offset_between([(40 * HOUR, 0)]) is None
    assert offset_between([]) is None


def test_the_ledger():
    build, ledger = Builder("nextflow", "nextflow"), Ledger()
    one = Joined.of({"wall_s": 1.0, "cpu_s": 1.0}, "x")
    one.fill({"wall_s": 9.0}, "y")
    ledger.unmatched["y"] += 2
    ledger.close([one, Joined.of({"wall_s": 2.0}, "y")], build)
    assert build.meta["column_sources"] == {"cpu_s": {"x": 1}, "wall_s": {"x": 1, "y": 1}}
    assert build.meta["join"]["conflicts"] == {"wall_s": 1}
    warned = build.build().warnings
    assert any("2 records of y" in word for word in warned)
    assert any("wall_s (1)" in word for word in warned)
