"""Levels step down by themselves and say so."""

from __future__ import annotations

from types import SimpleNamespace

from rotameter.profiler.live.clock import Clock
from rotameter.profiler.live.levels import GROUPS_LIMIT, LevelGuard

MS = 10**6


def _guard(adapt=True, level="default"):
    told = []
    return LevelGuard(level, adapt=adapt, note=lambda *args: told.append(args)), told


def _attempt(wall_ns, level=1, group="g"):
    return SimpleNamespace(group=group, level=level, wall_ns=wall_ns)


def test_tiny_groups_step_down_once_and_come_back_when_they_grow():
    guard, told = _guard()
    group = guard.group("g")
    guard.ended(group, _attempt(1 * MS), 0, 0)
    assert group.level == 0 and len(told) == 1
    for _ in range(30):
        guard.ended(group, _attempt(50 * MS, level=0), 0, 0)
    assert group.level == 1
    for _ in range(50):
        guard.ended(group, _attempt(1 * MS), 0, 0)
    assert group.level == 0 and len(told) == 1
    assert guard.group("other").level == 1


def test_long_groups_stay():
    guard, told = _guard()
    group = guard.group("g")
    for _ in range(100):
        guard.ended(group, _attempt(60 * MS), 20_000, 0)
    assert group.level == 1 and not told


def test_of_many_short_tasks_every_nth_is_measured_in_full():
    guard, told = _guard()
    group = guard.group("g")
    levels = []
    for _ in range(200):
        levels.append(group.level)
        guard.ended(group, _attempt(10 * MS, level=group.level), 100_000, 0)
    assert levels[:16] == [1] * 16
    assert levels[20:].count(1) == 8  # 100 µs of 10 ms is 1 %: one in 21, hence 0.05 %
    assert [step[0] for step in told] == ["g"] and "not all" in told[0][1]
    cheap = guard.group("cheap")
    for _ in range(100):
        guard.ended(cheap, _attempt(40 * MS, level=cheap.level, group="cheap"), 15_000, 0)
        assert cheap.level == 1


def test_an_overrun_budget_steps_everything_down():
    guard, told = _guard()
    group = guard.group("g")
    for turn in range(20):
        guard.ended(group, _attempt(100 * MS), 3_000_000, turn * 100 * MS)
    assert guard.level == 0 and group.level == 0 and guard.group("new").level == 0
    (step,) = told
    assert step[0] is None and "2 %" in step[1] and step[2] > 0.02


def test_within_budget_nothing_happens():
    guard, told = _guard()
    group = guard.group("g")
    for turn in range(400):
        guard.ended(group, _attempt(100 * MS), 1_500_000, turn * 100 * MS)
    assert guard.level == 1 and not told


def test_a_few_tasks_in_a_second_are_no_overrun():
    guard, told = _guard()
    group = guard.group("g")
    for turn in range(10):
        guard.ended(group, _attempt(6 * MS), 900_000, turn * 2_000 * MS)
    assert guard.level == 1 and not told


def test_without_adapting_all_stays():
    guard, told = _guard(adapt=False)
    group = guard.group("g")
    for turn in range(200):
        guard.ended(group, _attempt(1), 10 * MS, turn * 100 * MS)
    assert group.level == 1 and not told


def test_groups_are_bounded():
    guard, _ = _guard()
    for number in range(GROUPS_LIMIT + 10):
        guard.group(str(number))
    assert len(guard.groups) == GROUPS_LIMIT


def test_a_session_records_the_step(lab):
    now = [0]

    def wall():
        now[0] += 100_000
        return now[0]

    clock = Clock(wall, lambda: now[0], lambda: 0, lambda: 0)
    traced = lab(adapt=True, clock=clock)
    for number in range(5):
        traced.session.end(traced.session.begin(f"t{number}", "tiny"))
    (event,) = traced.rows("events")
    assert event["kind"] == "level_changed" and event["group"] == "tiny"
    assert "5 ms" in event["reason"] and 0 < event["value"] < 0.005
    rows = traced.rows("tasks")
    assert rows[0]["process_cpu_s"] is not None
    assert rows[-1]["process_cpu_s"] is None and rows[-1]["wall_s"] > 0
