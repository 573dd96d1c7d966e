from __future__ import annotations

import math
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rotameter.viz.formats import brief, clip, count, gigabyte_hours, plain, ratio, size, value


@given(st.text(), st.integers(4, 60))
def test_clipped_text_is_short_plain_and_keeps_both_ends(text: str, limit: int) -> None:
    short = clip(text, limit)
    assert len(short) <= limit
    assert not any(unicodedata.category(c) in ("Cc", "Zl", "Zp", "Cs") for c in short)
    whole = plain(text)
    assert short[0:1] == whole[0:1]
    assert short[-1:] == whole[-1:]
    assert len(brief(text, limit)) <= limit


@pytest.mark.parametrize("write", [count, gigabyte_hours, ratio, size])
@pytest.mark.parametrize("unknown", [None, math.nan, math.inf])
def test_unknown_is_a_dash_and_never_zero(write: object, unknown: float | None) -> None:
    assert callable(write)
    assert write(unknown) == "—"


def test_evidence_is_written_in_its_unit() -> None:
    written = [
        value(1_500_000_000, "bytes"),
        value(1_500_000_000, "B"),
        value(250, "ms"),
        value(2_000_000_000, "ns"),
        value(0.123, "ratio"),
        value(1.5, "GB·h"),
        value(12, "tasks"),
        value(True, ""),
        value("x" * 500, ""),
    ]
    assert written[:8] == [
        "1.5 GB",
        "1.5 GB",
        "250 ms",
        "2 s",
        "12 %",
        "1.50 GB·h",
        "12 tasks",
        "yes",
    ]
    assert len(written[8]) == 200
