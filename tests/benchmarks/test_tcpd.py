from __future__ import annotations

import numpy as np
import pytest
from benchmarks.tcpd import bocpd, cover, f1


def test_cover_by_hand() -> None:
    # Parts [0, 40) and [40, 100) against [0, 50), [50, 100): 40 / 50 and 50 / 60.
    assert cover({"a": [40]}, [50], 100) == pytest.approx(0.4 * 40 / 50 + 0.6 * 50 / 60)
    assert cover({"a": [], "b": [50]}, [], 100) == pytest.approx((1.0 + 0.5) / 2)
    assert cover({"a": [30, 60]}, [30, 60], 90) == 1.0


def test_f1_by_hand() -> None:
    # 0 and one of two found changes are right: 2/3; one annotator 2/2, the other 2/3.
    precision, recall = 2 / 3, (1.0 + 2 / 3) / 2
    expected = 2 * precision * recall / (precision + recall)
    assert f1({"a": [50], "b": [50, 80]}, [53, 20]) == pytest.approx(expected)


def test_the_margin_is_five() -> None:
    assert f1({"a": [50]}, [55]) == f1({"a": [50]}, [45]) == 1.0
    assert f1({"a": [50]}, [56]) == pytest.approx(0.5)


def test_one_found_change_serves_one_mark() -> None:
    # 0 and one of the two marks: recall 2/3, precision 1.
    assert f1({"a": [50, 53]}, [51]) == pytest.approx(2 * (2 / 3) / (1 + 2 / 3))


def test_the_published_method_finds_a_clear_step() -> None:
    rng = np.random.default_rng(1)
    values = np.concatenate([rng.normal(0, 1, 80), rng.normal(9, 1, 80)])
    assert bocpd(values) == [80]
