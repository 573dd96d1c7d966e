"""The zones of Snakemake's logs: changes of the clocks, and a zone that the user gives."""

from __future__ import annotations

from calendar import timegm
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.adapters.joining.test_snakemake_run import T0, Run, block, done, failed, tries

from rotameter.adapters.joining._snakemake_clocks import _marks
from rotameter.adapters.joining._snakemake_jobs import Job
from rotameter.adapters.joining._snakemake_metadata import Job as Record
from rotameter.adapters.joining.merging import Joined

AHEAD = timegm((2025, 3, 30, 1, 0, 0))  # 02:00 becomes 03:00 in Central Europe
BACK = timegm((2025, 10, 26, 1, 0, 0))  # 03:00 becomes 02:00


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path / "run")


class Clock:
    """Writes times around a change as a log has them."""

    def __init__(self, change: int, before_h: int, after_h: int) -> None:
        self.change, self.zones = change, (before_h, after_h)

    def __call__(self, minutes: float) -> str:
        zone = self.zones[minutes >= 0]
        at = datetime.fromtimestamp(self.change + 60 * minutes, UTC) + timedelta(hours=zone)
        return at.strftime("[%a %b %d %H:%M:%S %Y]")

    def ns(self, minutes: float, more_s: float = 0) -> int:
        return round((self.change + 60 * minutes + more_s) * 1000) * 10**6


def over(run: Run, clock: Clock, *, later: bool = False) -> None:
    """Make a run with a job over the change and a failure after it."""
    parts = [block(clock(-30), "x", 1, "o/1"), done(clock(30), "x", 1),
             block(clock(31), "x", 2, "o/2"), failed(clock(51), "x", 2, 1)]  # fmt: skip
    if later:
        parts += [block(clock(100), "x", 3, "o/3"), done(clock(110), "x", 3)]
        run.metadata("o/3", "x", clock.change + 6000.3 - T0, clock.change + 6599.7 - T0, job_hash=3)
    run.log(*parts)
    run.metadata("o/1", "x", clock.change - 1799.8 - T0, clock.change + 1799.7 - T0)


@pytest.mark.parametrize("later", [False, True])
@pytest.mark.parametrize("clock", [Clock(AHEAD, 1, 2), Clock(BACK, 2, 1)], ids=["ahead", "back"])
def test_the_clocks_changed_while_a_log_was_written(run, clock, later):
    over(run, clock, later=later)
    trace = run.open()
    made = tries(trace)
    one, two = made["o/1", 1], made["o/2", 1]
    assert one["started_ns"] == pytest.approx(clock.ns(-30, 0.2), abs=1e6)
    assert one["ended_ns"] == pytest.approx(clock.ns(30, -0.3), abs=1e6)
    assert (two["started_ns"], two["ended_ns"]) == (clock.ns(31), clock.ns(51))
    assert one["wall_s"] == pytest.approx(3599.5, abs=0.01) and two["wall_s"] == 1200.0
    (zone,) = trace.meta["join"]["zones"].values()
    before, after = (3600.0 * hours for hours in clock.zones)
    assert (zone["utc_offset_s"], zone["utc_offset_behind_change_s"]) == (before, after)
    assert any("clocks changed while a log was written" in word for word in trace.warnings)
    assert not trace.meta["join"]["conflicts"]


def test_an_output_that_was_done_long_before_its_job_is_said(run):
    clock = Clock(BACK - 86_400 * 99, 2, 2)
    over(run, clock)
    run.metadata("o/1", "x", clock.change - 1799.8 - T0, clock.change + 999.0 - T0)
    trace = run.open()
    assert tries(trace)["o/1", 1]["ended_ns"] == clock.ns(30)
    assert trace.meta["join"]["conflicts"] == {"ended_ns": 1}


@pytest.mark.parametrize("given, said", [("+05:00", True), ("+02:00", False), (None, False)])
def test_a_zone_that_the_run_contradicts_is_said_and_not_taken(run, given, said):
    clock = Clock(BACK - 86_400 * 99, 2, 2)
    over(run, clock)
    trace = run.open(**({"utc_offset": given} if given else {}))
    assert tries(trace)["o/2", 1]["started_ns"] == clock.ns(31)
    words = [word for word in trace.warnings if "--utc-offset" in word]
    assert bool(words) is said
    assert all("+05:00 is not what the run's own times tell (+02:00)" in w for w in words)


def test_tries_are_counted_by_job(run):
    clock = Clock(BACK, 0, 0)
    run.log(block(clock(1), "x", 1, "o/1"), done(clock(2), "x", 1),
            block(clock(2), "y", 2, "o/2"), failed(clock(3), "y", 2, 1),
            "Trying to restart job 2.\n",
            block(clock(3), "y", 2, "o/2"), done(clock(5), "y", 2))  # fmt: skip
    made = tries(run.open())
    ids = {key: row["run_id"].partition(" ")[2] for key, row in made.items()}
    assert ids == {
        ("o/1", 1): "job 1 try 1",
        ("o/2", 1): "job 2 try 1",
        ("o/2", 2): "job 2 try 2",
    }
    assert [row["wall_s"] for row in made.values()] == [60.0, 60.0, 120.0]


JULY = timegm((2026, 7, 1, 12, 45, 0))
NIGHT = timegm((2025, 10, 26, 12, 45, 0))  # the day on which the clocks were set back


@pytest.mark.parametrize("others", [0, 6])
@pytest.mark.parametrize("more_s", [0, 20, -90])
@pytest.mark.parametrize("day", [JULY, NIGHT])
def test_the_start_of_a_run_an_hour_before_is_no_change_of_the_clocks(run, day, more_s, others):
    clock = Clock(day, 0, 0)
    run.metadata("o/x", "x", clock.change - 3600 + more_s - T0, clock.change + 300 - T0)
    parts = [block(clock(-40), "t", 20, "o/t"), done(clock(-39), "t", 20)] if others else []
    for i in range(others):
        run.metadata(f"o/{i}", f"r{i}", day - 2000 + 100 * i - T0, day - 1950 + 100 * i - T0,
                     job_hash=i + 2)  # fmt: skip
        first = -2000 / 60 + i * 100 / 60
        parts += [block(clock(first), f"r{i}", 2 + i, f"o/{i}"),
                  done(clock(first + 50 / 60), f"r{i}", 2 + i)]  # fmt: skip
    run.log(*parts, block(clock(0), "x", 1, "o/x"), done(clock(5), "x", 1))
    trace = run.open()
    made = tries(trace)
    one = made["o/x", 1]
    assert (one["started_ns"], one["wall_s"]) == (clock.ns(0), 300.0)
    if others:
        assert made["o/t", 1]["started_ns"] == clock.ns(-40)
    assert not any("clocks changed" in word for word in trace.warnings)


def test_an_older_start_of_a_job_without_an_end_is_no_change_either(run):
    clock = Clock(JULY, 0, 0)
    run.metadata("o/y", "y", JULY - 2000 - T0, JULY - 1400 - T0, job_hash=2)
    run.metadata("o/x", "x", JULY - 3600 - T0, JULY + 300 - T0)
    run.log(block(clock(-2000 / 60), "y", 2, "o/y"), done(clock(-1400 / 60), "y", 2),
            block(clock(0), "x", 1, "o/x"))  # fmt: skip
    trace = run.open()
    assert tries(trace)["o/y", 1]["started_ns"] == clock.ns(-2000 / 60)
    assert not any("clocks changed" in word for word in trace.warnings)


def test_zones_further_from_utc_than_any_are_none():
    day = timegm((2025, 10, 26, 3, 0, 0)) * 10**9
    hour = 3600 * 10**9
    job = Job(Joined({"started_ns": day, "ended_ns": day + hour}))
    far = Record("x", [], [], day - 40 * hour, day - 39 * hour)
    assert not list(_marks([(far, job)]))
