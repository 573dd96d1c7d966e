"""Interval arithmetic against counting every nanosecond."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rotameter.profiler.devices.timeline import (
    clip,
    gaps,
    grouped_length,
    intersect,
    length,
    outermost,
    partition,
    subtract,
    union,
)

SIZE = 60
spans = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 15)), max_size=12)


def arrays(pairs: list[tuple[int, int]]) -> tuple[Any, Any]:
    start = np.array([a for a, _ in pairs], dtype=np.int64)
    return start, start + np.array([d for _, d in pairs], dtype=np.int64)


def cells(pairs: list[tuple[int, int]]) -> Any:
    made = np.zeros(SIZE, dtype=bool)
    for start, lasting in pairs:
        made[start : start + lasting] = True
    return made


def of(made: tuple[Any, Any]) -> Any:
    return cells([(int(a), int(b - a)) for a, b in zip(*made, strict=True)])


@given(spans)
def test_union_covers_the_same_cells_once(pairs):
    made = union(*arrays(pairs))
    assert (of(made) == cells(pairs)).all()
    assert length(made) == cells(pairs).sum()
    assert (made[0][1:] > made[1][:-1]).all()
    low, high = gaps(made)
    if len(made[0]):
        whole = np.zeros(SIZE, dtype=bool)
        whole[made[0][0] : made[1][-1]] = True
        assert (of((low, high)) == (whole & ~cells(pairs))).all()


@given(spans, spans)
def test_sets_of_intervals(a, b):
    one, two = union(*arrays(a)), union(*arrays(b))
    assert (of(intersect(one, two)) == (cells(a) & cells(b))).all()
    assert (of(subtract(one, two)) == (cells(a) & ~cells(b))).all()
    assert length(intersect(one, two)) + length(subtract(one, two)) == length(one)


@given(spans, spans, spans)
def test_partition_adds_up(a, b, c):
    sets = [union(*arrays(pairs)) for pairs in (a, b, c)]
    made = partition(sets)
    on = cells(a) * 1 + cells(b) * 2 + cells(c) * 4
    assert made == {mask: int((on == mask).sum()) for mask in range(1, 8) if (on == mask).any()}


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 40), st.integers(0, 15))))
def test_grouped_length_is_each_groups_union(rows):
    group = np.array([g for g, _, _ in rows], dtype=np.int64)
    start, end = arrays([(a, d) for _, a, d in rows])
    want = [cells([(a, d) for g, a, d in rows if g == n]).sum() for n in range(3)]
    assert grouped_length(group, start, end, 3).tolist() == want


def test_grouped_length_of_far_times():
    far = np.array([0, 1 << 61], dtype=np.int64)
    made = grouped_length(np.array([0, 1]), far, far + 5, 4)
    assert made.tolist() == [5, 5, 0, 0]


@given(spans, st.integers(0, 40), st.integers(0, 20))
def test_clip(pairs, low, width):
    window = np.zeros(SIZE, dtype=bool)
    window[low : low + width] = True
    assert (of(clip(*arrays(pairs), low, low + width)) == (cells(pairs) & window)).all()


def test_outermost_of_nested_calls():
    start, end = np.array([0, 2, 3, 10, 10, 20]), np.array([9, 5, 4, 15, 15, 20])
    group = np.array([0, 0, 0, 0, 0, 1])
    assert outermost(group, start, end).tolist() == [True, False, False, True, False, True]
