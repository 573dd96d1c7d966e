from __future__ import annotations

import base64
import gzip
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from rotameter.viz.attempts import names, tick_ns


def _planes(packed: dict[str, Any]) -> Any:
    raw = np.frombuffer(gzip.decompress(base64.b64decode(packed["data"])), np.uint8)
    planes = raw.reshape(packed["width"], packed["n"]).astype(np.int64)
    return (planes << (8 * np.arange(packed["width"])[:, None])).sum(axis=0)


def _lines(packed: dict[str, Any]) -> list[str]:
    return gzip.decompress(base64.b64decode(packed["data"])).decode().split("\n")


def _joined(packed: dict[str, Any]) -> list[str]:
    """What the browser's code does with packed names."""
    zigzag = _planes(packed["number"])
    number = np.cumsum(np.where(zigzag % 2, -(zigzag + 1) // 2, zigzag // 2))
    before, after = _lines(packed["before"]), _lines(packed["after"])
    return [
        f"{before[p]}{n - 1 if n > 0 else ''}{after[p]}"
        for p, n in zip(_planes(packed["pattern"]).tolist(), number.tolist(), strict=True)
    ]


text = st.text(st.sampled_from("ab-_(', )0123456789é"), max_size=20)


@given(st.lists(text, min_size=1, max_size=30))
def test_names_come_back(given_names: list[str]) -> None:
    table = pa.table({"task_id": pa.array(given_names, pa.string())})
    packed = names(table, np.arange(len(given_names)))
    assert packed is not None
    assert _joined(packed) == given_names


def test_names_in_another_order_and_none() -> None:
    table = pa.table({"task_id": pa.array(["x-10", None, "x-9"], pa.string())})
    packed = names(table, np.array([2, 0, 1]))
    assert packed is not None
    assert _joined(packed) == ["x-9", "x-10", ""]


def test_numbered_names_are_small_and_random_ones_are_left_out() -> None:
    order = np.arange(50_000)
    plain = pa.table({"task_id": [f"('shuffle-1a2b3c4d', {i})" for i in range(50_000)]})
    packed = names(plain, order)
    assert packed is not None
    assert sum(len(part["data"]) for part in packed.values()) < 20_000
    rng = np.random.default_rng(0)
    odd = pa.table({"task_id": [rng.bytes(16).hex() for _ in range(50_000)]})
    assert names(odd, order) is None


@given(st.lists(st.integers(0, 10**15), min_size=1, max_size=30))
def test_ticks_are_fine_for_nearly_all_and_fit_32_bits(lengths: list[int]) -> None:
    values = np.array(lengths, dtype=np.int64)
    span = int(values.sum()) + 1
    tick = tick_ns(values, span)
    assert tick >= 1_000
    assert span // tick < 2**32
    positive = np.sort(values[values > 0])
    if len(positive) and span < 10**12:
        assert tick <= max(int(positive[0]) // 100, 1_000)
