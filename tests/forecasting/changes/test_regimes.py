from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from rotameter.errors import UsageError
from rotameter.forecasting.changes import Bayesian, Confirmed, Cusum, EDetector
from rotameter.forecasting.changes.regimes import SERIES, changes_in, regimes, regimes_of
from rotameter.profiler.trace import Trace

SECOND = 1_000_000_000


def noisy(seed: int, *levels: tuple[float, int]) -> list[float]:
    rng = np.random.default_rng(seed)
    return [level * x for level, n in levels for x in rng.lognormal(0.0, 0.1, n).tolist()]


def trace(values: list[float], column: str = "wall_s", **more: Any) -> Trace:
    rows = [
        {
            "task_id": f"t{k}",
            "group": "load",
            "outcome": "ok",
            "started_ns": (k + 1) * SECOND,
            "ended_ns": (k + 2) * SECOND,
            "io_s": 2.0,
            column: x if column == "wall_s" else int(x),
            **more,
        }
        for k, x in enumerate(values)
    ]
    return Trace.from_tables({"tasks": rows})


@pytest.mark.parametrize("make", [None, Cusum, EDetector, lambda: Bayesian("values")])
def test_a_group_that_became_slower_has_two_regimes(make: Any) -> None:
    found = regimes_of(trace(noisy(1, (2.0, 100), (5.0, 60))), make=make)
    assert [one.group for one in found] == ["load", "load"]
    assert abs(found[0].n - 100) <= 2 and sum(one.n for one in found) == 160
    assert found[0].change is None and found[1].change is not None
    assert found[0].level == pytest.approx(2.0, rel=0.05)
    assert found[1].change.before == found[0].level and found[1].change.after == found[1].level
    assert found[1].change.at_ns == found[1].begins_ns == (found[0].n + 1) * SECOND


@pytest.mark.parametrize(
    "series, column, factor",
    [
        ("memory", "peak_memory_bytes", 1.0),
        ("read bandwidth", "read_bytes", 0.5),
        ("write bandwidth", "write_bytes", 0.5),
    ],
)
def test_memory_and_bandwidth(series: str, column: str, factor: float) -> None:
    values = noisy(2, (2e9, 80), (8e9, 40))
    found = regimes_of(trace(values, column), series)
    assert [abs(one.n - n) <= 2 for one, n in zip(found, (80, 40), strict=True)] == [True, True]
    assert found[1].level == pytest.approx(8e9 * factor, rel=0.1)


def test_what_a_trace_does_not_hold_gives_no_regimes() -> None:
    for series in SERIES:
        assert regimes_of(Trace.from_tables({}), series) == []
    assert regimes_of(trace([1.0] * 30), "memory") == []
    with pytest.raises(UsageError, match="no series"):
        regimes_of(trace([1.0]), "mood")


def test_groups_are_judged_each_by_itself() -> None:
    slow, fast = noisy(3, (9.0, 60)), noisy(4, (1.0, 60))
    values = [x for pair in zip(slow, fast, strict=True) for x in pair]
    found = regimes(range(120), values, ["slow", "fast"] * 60)
    assert [(one.group, one.n) for one in found] == [("slow", 60), ("fast", 60)]


def test_the_order_of_the_rows_does_not_matter() -> None:
    values = noisy(5, (2.0, 80), (6.0, 40))
    at = np.arange(120) * SECOND
    order = np.random.default_rng(6).permutation(120)
    one = regimes(at, values, ["g"] * 120)
    two = regimes(at[order], np.array(values)[order], ["g"] * 120)
    assert one == two and len(one) == 2


def test_units_do_not_matter() -> None:
    values = np.array(noisy(7, (2.0, 80), (3.0, 60), (1.0, 60)))
    one, two = (changes_in(range(200), values * factor) for factor in (1.0, 1e3))
    assert len(one) == 2
    assert [c.at_ns for c in one] == [c.at_ns for c in two]


def test_all_at_one_time_is_taken_in_the_order_given() -> None:
    values = noisy(8, (2.0, 80), (6.0, 40))
    found = regimes([7] * 120, values)
    assert [one.begins_ns for one in found] == [7, 7]
    assert abs(found[0].n - 80) <= 2


def test_odd_values_are_left_out() -> None:
    values = noisy(9, (2.0, 60))
    odd = [math.nan, math.inf, 0.0, -1.0]
    (found,) = regimes(range(64), [*values, *odd], ["g"] * 64)
    assert found.n == 60
    assert regimes([], [], []) == []
    assert regimes([1, 2], [1.0, 2.0], [None, None]) == []
    with pytest.raises(UsageError, match="do not match"):
        regimes([1], [1.0, 2.0])


def test_a_detector_that_answers_nonsense_breaks_nothing() -> None:
    from rotameter.values import Change

    class Nonsense:
        def update(self, at_ns: int, x: float) -> Change:
            return Change(at_ns * 7 - 50, None, None)

    found = regimes(range(50), noisy(10, (1.0, 50)), make=Nonsense)
    assert sum(one.n for one in found) == 50


@pytest.mark.parametrize("make", [Cusum, EDetector, lambda: Bayesian("values"), Confirmed])
def test_the_allocator_takes_them(make: Any) -> None:
    from rotameter.allocator.default import Default
    from rotameter.allocator.needs import Record, Task

    found = []

    def watched() -> Any:
        watch = make()
        update = watch.update

        class Told:
            def update(self, at_ns: int, x: float) -> Any:
                change = update(at_ns, x)
                found.append(change) if change is not None else None
                return change

        return Told()

    allocator = Default(detector=watched)
    for number, need in enumerate(noisy(11, (20e9, 60), (1e9, 20))):
        allocator.observe(Record(f"t{number}", "g", "ok", {"memory_bytes": need}, wall_s=1.0))
    assert [abs(change.at_ns - 61) <= 1 for change in found] == [True]
    assert allocator.request(Task("next", "g")).memory_bytes < 2e9  # type: ignore[union-attr, operator]
