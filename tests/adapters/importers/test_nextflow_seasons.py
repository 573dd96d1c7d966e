"""Nextflow's times far from a change of the clocks, in an hour that came twice, by two clocks."""

from __future__ import annotations

from calendar import timegm
from datetime import UTC, date, datetime
from pathlib import Path

import numpy as np
import pytest

import rotameter
from rotameter.adapters.importers._clock_changes import others, whole_hours
from rotameter.adapters.importers._nextflow_clock import sides
from rotameter.adapters.importers.nextflow import Importer
from rotameter.testing import import_bytes

HEAD = "task_id\thash\tname\tstatus\tsubmit\tcomplete\tduration\n"
HOUR = 3600


def row(name: str, submit: str, complete: str, took: str) -> str:
    key = f"{ord(name):02x}/{ord(name):06}"
    return f"{ord(name)}\t{key}\t{name}\tCOMPLETED\t{submit}\t{complete}\t{took}\n"


def read(*files: str, **options):
    named = {f"t{i}.txt": (HEAD + text).encode() for i, text in enumerate(files)}
    return import_bytes(Importer, named, **options)


def hours(trace, first: str = "A") -> dict[str, tuple[float, float]]:
    """Give submission and end of each task, in hours since the first one's submission."""
    rows = {task["task_id"]: task for task in trace.table("tasks").to_pylist()}
    zero = rows[first]["submitted_ns"]
    return {
        name: tuple((task[f"{side}_ns"] - zero) / 3600e9 for side in ("submitted", "ended"))
        for name, task in rows.items()
    }


def said(trace, word: str) -> list[str]:
    return [text for text in trace.warnings if word in text]


MARCH = row("A", "2024-03-31 01:00:00", "2024-03-31 03:30:00", "1h 30m")
DECEMBER = row("B", "2024-12-10 10:00:00", "2024-12-10 10:30:00", "30m")
JULY = row("C", "2024-07-10 10:00:00", "2024-07-10 10:30:00", "30m")


@pytest.mark.parametrize("files", [(MARCH, DECEMBER, JULY), (DECEMBER + JULY + MARCH,)])
def test_a_change_holds_until_the_next_one(tmp_path: Path, files: tuple[str, ...]) -> None:
    for number, text in enumerate(files):
        (tmp_path / f"t{number}.txt").write_text(HEAD + text)
    trace = rotameter.open(tmp_path, utc_offset="+01:00")
    ends = {t["task_id"]: t["ended_ns"] // 10**9 for t in trace.table("tasks").to_pylist()}
    assert ends == {
        "A": timegm((2024, 3, 31, 1, 30, 0)),
        "B": timegm((2024, 12, 10, 9, 30, 0)),
        "C": timegm((2024, 7, 10, 8, 30, 0)),
    }
    (word,) = said(trace, "no task shows")
    assert "times of 1 attempt lie" in word and "(2024-10-27)" in word


def test_a_change_is_not_taken_to_have_been_before_its_like() -> None:
    summer = row("Z", "2023-07-10 10:00:00", "2023-07-10 10:30:00", "30m")
    made = hours(read(summer + MARCH))
    # The zone is that before the change of March: in July the clock was an hour ahead of it.
    before_s = timegm((2024, 3, 31, 1, 0, 0)) - timegm((2023, 7, 10, 9, 0, 0))
    assert made["Z"][0] == -before_s / HOUR


def test_tasks_that_ran_over_the_usual_date_show_that_nothing_changed() -> None:
    steady = row("D", "2024-10-26 20:00:00", "2024-10-27 08:00:00", "12h")
    trace = read(MARCH + steady + DECEMBER)
    assert not said(trace, "no task shows")
    assert hours(trace)["D"][1] - hours(trace)["D"][0] == 12


@pytest.mark.parametrize(
    "shown, by_h, expected",
    [
        ((2024, 3, 10, 3), 1, ["2023-11-05 02", "2024-03-10 03", "2024-11-03 02"]),
        ((2024, 11, 3, 2), -1, ["2023-11-05 02", "2024-03-10 03", "2024-11-03 02"]),
        ((2024, 3, 31, 2), 1, ["2023-10-29 02", "2024-03-31 02", "2024-10-27 02"]),
        ((2024, 4, 7, 3), -1, ["2023-10-01 03", "2024-04-07 03", "2024-10-06 03"]),
        ((2024, 9, 29, 3), 1, ["2023-09-24 03", "2024-04-07 03", "2024-09-29 03"]),
    ],
)
def test_the_usual_changes(shown: tuple[int, ...], by_h: int, expected: list[str]) -> None:
    low, high = (timegm((*day, 0, 0, 0)) * 10**9 for day in ((2023, 9, 1), (2024, 12, 31)))
    at = timegm((*shown, 0, 0)) * 10**9
    found = [at for at, _ in others(at, by_h * HOUR * 10**9, low, high)]
    texts = [datetime.fromtimestamp(at // 10**9, UTC).strftime("%Y-%m-%d %H") for at in found]
    assert [text for text in texts if text in expected] == expected
    assert {by for _, by in others(at, by_h * HOUR * 10**9, low, high)} == {
        HOUR * 10**9, -HOUR * 10**9}  # fmt: skip


NIGHT = (
    row("B", "2024-10-27 02:10:00", "2024-10-27 02:50:00", "40m"),
    row("C", "2024-10-27 02:10:00", "2024-10-27 02:20:00", "10m"),
    row("A", "2024-10-27 01:00:00", "2024-10-27 05:00:00", "5h"),
    row("D", "2024-10-27 05:10:00", "2024-10-27 05:20:00", "10m"),
)


def test_the_order_of_rows_tells_before_the_first_that_ran_over_it_too() -> None:
    trace = read("".join(NIGHT))
    made = hours(trace)
    assert made["B"] == pytest.approx((70 / 60, 110 / 60))
    assert made["C"] == pytest.approx((130 / 60, 140 / 60))
    assert made["D"] == pytest.approx((310 / 60, 320 / 60))
    assert not said(trace, "nothing tells")


def test_where_the_order_tells_nothing_that_is_said() -> None:
    made = read("".join(NIGHT[1:]))
    assert hours(made)["C"][0] == pytest.approx(70 / 60)
    assert "1 attempt" in said(made, "nothing tells")[0]
    # By name and not by end: no row says anything of another.
    first = row("0", "2024-10-27 20:00:00", "2024-10-27 20:10:00", "10m")
    by_name = read(first + NIGHT[2] + NIGHT[0] + NIGHT[1] + NIGHT[3])
    assert hours(by_name)["B"][0] == hours(by_name)["C"][0] == pytest.approx(70 / 60)
    assert "2 attempts" in said(by_name, "nothing tells")[0]


def test_what_ends_behind_the_hour_without_having_lasted_longer_began_in_the_second() -> None:
    late = row("E", "2024-10-27 02:50:00", "2024-10-27 03:10:00", "20m")
    made = hours(read(late + NIGHT[2]))
    assert made["E"] == pytest.approx((170 / 60, 190 / 60))


def test_sides() -> None:
    ends = np.array([10, 55, 20, 50, 130]) * 60 * 10**9
    behind, unsure = sides(ends, np.arange(5) < 4)
    assert behind.tolist() == [False, False, True, True, False] and unsure == 0
    behind, unsure = sides(ends[::-1], np.arange(5) > 0)
    assert behind.tolist() == [False, True, True, True, True] and unsure == 0
    nothing = np.array([-(1 << 62)] * 2)
    assert sides(nothing, np.array([True, False]))[1] == 1


def test_the_usual_hour_is_that_of_the_date() -> None:
    night = timegm((2024, 11, 2, 22, 0, 0)) * 10**9
    assert whole_hours(night, night + 8 * HOUR * 10**9, -1)[0] == night + 4 * HOUR * 10**9
    night = timegm((2024, 10, 26, 22, 0, 0)) * 10**9
    assert whole_hours(night, night + 8 * HOUR * 10**9, -1)[0] == night + 5 * HOUR * 10**9


def test_an_hour_that_is_a_guess_is_said_where_it_counts() -> None:
    long = row("A", "2024-11-02 22:00:00", "2024-11-03 05:00:00", "8h")
    after = row("D", "2024-11-03 05:10:00", "2024-11-03 05:20:00", "10m")
    inside = row("C", "2024-11-03 02:10:00", "2024-11-03 02:20:00", "10m")
    trace = read(inside + long + after)
    assert hours(trace)["C"] == pytest.approx((5 + 10 / 60, 5 + 20 / 60))
    assert "set back at 2024-11-03 02:00" in said(trace, "not certain")[0]
    assert not said(read(long + after), "not certain")


@pytest.mark.parametrize(
    "other",
    [row("U", "2024-03-30 22:00:00", "2024-03-31 10:00:00", "12h"),
     row("U", "2024-03-31 02:10:00", "2024-03-31 02:20:00", "10m")
     + row("V", "2024-03-31 09:50:00", "2024-03-31 10:00:00", "10m")],
)  # fmt: skip
def test_a_trace_by_a_clock_that_did_not_change_stays_as_it_is(other: str) -> None:
    narrow = row("A", "2024-03-31 01:50:00", "2024-03-31 03:20:00", "30m")
    trace = read(narrow, other)
    end = max(at for name, times in hours(trace).items() if name in "UV" for at in times)
    assert end == pytest.approx(8 + 10 / 60)
    assert "1 trace had another clock" in said(trace, "another clock")[0]


def test_dates_of_each_change_are_sundays() -> None:
    low, high = (timegm((year, 1, 1, 0, 0, 0)) * 10**9 for year in (1990, 2030))
    for at, _ in others(timegm((2024, 3, 31, 3, 0, 0)) * 10**9, HOUR * 10**9, low, high):
        day = date.fromtimestamp(at // 10**9)
        assert day.weekday() == 6 and day.month in (3, 10)


def test_the_order_of_rows_tells_the_hour_too() -> None:
    """In London 02:00 becomes 01:00: rows in the hour after that go back."""
    trace = read(
        row("B", "2024-10-27 01:10:00", "2024-10-27 01:50:00", "40m")
        + row("C", "2024-10-27 01:10:00", "2024-10-27 01:20:00", "10m")
        + row("E", "2024-10-27 02:10:00", "2024-10-27 02:20:00", "10m")
        + row("A", "2024-10-26 22:00:00", "2024-10-27 05:00:00", "8h")
    )
    made = hours(trace)
    assert made["B"] == pytest.approx((3 + 10 / 60, 3 + 50 / 60))
    assert made["C"] == pytest.approx((4 + 10 / 60, 4 + 20 / 60))
    assert made["E"] == pytest.approx((5 + 10 / 60, 5 + 20 / 60))
    assert not said(trace, "nothing tells") and not said(trace, "not certain")
