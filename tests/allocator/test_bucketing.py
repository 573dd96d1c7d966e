"""Golden vectors and brute force for the published family (TS-A1)."""

from __future__ import annotations

import numpy as np
import pytest

from rotameter.allocator.bucketing import exhaustive_tops, greedy_tops, shares

GOLDEN = []
_x = 2000
for _ in range(10):
    _x = 2 * _x % 7000
    GOLDEN.append(_x)
SIGNIFICANCE = range(1, 11)


@pytest.mark.parametrize("tops", [greedy_tops, exhaustive_tops])
@pytest.mark.parametrize("deterministic", [False, True])
def test_the_golden_vector_of_the_published_unit_test(tops, deterministic) -> None:
    made = tops(GOLDEN, SIGNIFICANCE, deterministic=deterministic)
    assert made.tolist() == [2000.0, 4000.0]
    assert shares(GOLDEN, SIGNIFICANCE, made) == pytest.approx([0.6, 0.4])


def break_cost(v, s, at, *, deterministic) -> float:
    """The published cost of one break, term by term."""
    total = sum(s)
    low, high = range(at + 1), range(at + 1, len(v))
    p1, p2 = sum(s[i] for i in low) / total, sum(s[i] for i in high) / total
    e1 = sum(s[i] * v[i] for i in low) / (p1 * total)
    e2 = sum(s[i] * v[i] for i in high) / (p2 * total) if p2 else 0.0
    if deterministic:
        return p1 * (v[at] - e1) + p2 * (v[at] + v[-1] - e2)
    return (
        p1 * p1 * (v[at] - e1) + p1 * p2 * (v[-1] - e1)
        + p2 * p1 * (v[at] + v[-1] - e2) + p2 * p2 * (v[-1] - e2)
    )  # fmt: skip


def greedy_by_hand(v, s, *, deterministic) -> list[float]:
    costs = [break_cost(v, s, at, deterministic=deterministic) for at in range(len(v))]
    at = max(i for i, cost in enumerate(costs) if cost <= min(costs) * (1 + 1e-12))
    if at == len(v) - 1:
        return [v[at]]
    first = greedy_by_hand(v[: at + 1], s[: at + 1], deterministic=deterministic)
    return first + greedy_by_hand(v[at + 1 :], s[at + 1 :], deterministic=deterministic)


def drawn_cost(v, s, tops) -> float:
    """Mean waste of drawing buckets by their shares, walked through attempt by attempt."""
    p = shares(v, s, np.array(tops))

    def spent(need, above, chance) -> float:
        open_ = [(t, q) for t, q in zip(tops, p, strict=True) if t > above]
        whole = sum(q for _, q in open_)
        return sum(
            chance * q / whole * (t - need if t >= need else t + spent(need, t, 1.0))
            for t, q in open_
        )

    return sum(w * spent(x, -1.0, 1.0) for x, w in zip(v, s, strict=True)) / sum(s)


def climbed_cost(v, s, tops) -> float:
    def spent(need) -> float:
        until = next(i for i, t in enumerate(tops) if t >= need)
        return sum(tops[: until + 1]) - need

    return sum(w * spent(x) for x, w in zip(v, s, strict=True)) / sum(s)


def grids(v) -> list[list[float]]:
    made = []
    for n in range(1, 11):
        wanted = [max(v) * i / n for i in range(1, n + 1)]
        if max(v) >= n:
            wanted += [2.0**k for k in range(int(np.floor(np.log2(max(v) / n))))]
        made.append(sorted({max(x for x in v if x <= w) for w in wanted if min(v) <= w}))
    return made


def test_equal_to_brute_force_on_random_small_cases() -> None:
    rng = np.random.default_rng(4)
    for _ in range(200):
        n = int(rng.integers(1, 13))
        v = sorted(rng.integers(1, 4000, n).astype(float).tolist())
        s = rng.permutation(np.arange(1.0, n + 1)).tolist()
        for deterministic in (False, True):
            by_hand = sorted(set(greedy_by_hand(v, s, deterministic=deterministic)))
            assert greedy_tops(v, s, deterministic=deterministic).tolist() == by_hand
            made = exhaustive_tops(v, s, deterministic=deterministic).tolist()
            cost = climbed_cost if deterministic else drawn_cost
            best = min(cost(v, s, grid) for grid in grids(v))
            assert cost(v, s, made) == pytest.approx(best, rel=1e-9, abs=1e-9)


def test_every_break_of_few_values_is_looked_at() -> None:
    """Two values far apart are two buckets, alike ones are one."""
    assert greedy_tops([1, 1000], [1, 1]).tolist() == [1.0, 1000.0]
    assert greedy_tops([999, 1000], [1, 1]).tolist() == [1000.0]
    assert greedy_tops([], []).tolist() == exhaustive_tops([], []).tolist() == []
