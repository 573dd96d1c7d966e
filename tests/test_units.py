from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rotameter.units import (
    format_bytes,
    format_count,
    format_number,
    format_seconds,
    parse_bytes,
    parse_seconds,
)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0 B"),
        (1, "1 B"),
        (999, "999 B"),
        (1000, "1 kB"),
        (999_600, "1 MB"),
        (5_800_000_000, "5.8 GB"),
        (16e9, "16 GB"),
        (128e9, "128 GB"),
        (9.99e20, "999 EB"),
        (1e24, "1,000,000 EB"),
        (-2_500, "-2.5 kB"),
        (None, "–"),
        (math.nan, "–"),
        (math.inf, "–"),
    ],
)
def test_bytes_read_well(value: float | None, text: str) -> None:
    assert format_bytes(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0 s"),
        (2e-9, "2 ns"),
        (4.7e-5, "47 µs"),
        (0.0034, "3.4 ms"),
        (0.9996, "1 s"),
        (12.34, "12.3 s"),
        (59.96, "1 min"),
        (95, "1 min 35 s"),
        (3599.7, "1 h"),
        (7265, "2 h 1 min"),
        (86400 * 3 + 3600, "3 d 1 h"),
        (-1.5, "-1.5 s"),
        (None, "–"),
    ],
)
def test_seconds_read_well(value: float | None, text: str) -> None:
    assert format_seconds(value) == text


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2GiB", 2**31),
        ("128GB", 128 * 10**9),
        ("128 gb", 128 * 10**9),
        ("1.5kB", 1500),
        ("4096", 4096),
        ("4096 B", 4096),
        ("3M", 3_000_000),
        ("3Mi", 3 * 2**20),
        ("1e3", 1000),
        (12, 12),
        (9_007_199_254_740_993, 9_007_199_254_740_993),
    ],
)
def test_bytes_are_parsed(text: str | int, value: int) -> None:
    assert parse_bytes(text) == value


@pytest.mark.parametrize("text", ["", "GB", "-1GB", "1 parsec", "nan", "inf", "1GB2", "1,5GB"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="bytes|unit"):
        parse_bytes(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("90", 90.0),
        ("250 ms", 0.25),
        ("1h30m", 5400.0),
        ("1:30:00", 5400.0),
        ("2:05", 125.0),
        ("7-00:00:00", 604800.0),
        ("1-12:30", 131400.0),
    ],
)
def test_durations_are_parsed(text: str, value: float) -> None:
    assert parse_seconds(text) == value


@pytest.mark.parametrize("text", ["", "h", "-3 s", "1:2:3:4", "a:b", "5 lightyears", "nan"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="duration|unit"):
        parse_seconds(text)


@given(st.integers(min_value=0, max_value=10**21))
def test_bytes_survive_the_round_trip_within_their_digits(value: int) -> None:
    back = parse_bytes(format_bytes(value, digits=4).replace(",", ""))
    assert abs(back - value) <= max(0.001 * value, 0)


def test_counts_and_numbers() -> None:
    assert format_count(1368) == "1,368"
    assert format_count(None) == "–"
    assert format_number(0.001234, 2) == "0.0012"
    assert format_number(math.nan) == "–"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(1e300, "3.2e+292 years"), (-1e300, "-3.2e+292 years"), (1e12, "31,688 years"),
     (86400.0 * 400, "400 d")],
)  # fmt: skip
def test_huge_durations_stay_short(seconds: float, text: str) -> None:
    assert format_seconds(seconds) == text
