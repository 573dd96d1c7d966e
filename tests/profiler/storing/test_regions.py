from __future__ import annotations

import itertools

import numpy as np

from rotameter.profiler.storing.regions import wildcard_rule


def grid(*sizes: int) -> np.ndarray:
    return np.array(list(itertools.product(*map(range, sizes))), dtype=np.int64)


def test_only_the_knob_that_matters_is_named() -> None:
    knobs = {"training": ["beegfs", "ssd"], "merge": ["beegfs", "ssd"], "nodes": [1, 2, 4]}
    codes = grid(2, 2, 3)
    noise = np.random.default_rng(0).normal(0, 0.01, len(codes))
    rule = wildcard_rule(knobs, codes, np.where(codes[:, 0] == 0, 100.0, 300.0) + noise)
    assert rule is not None
    assert rule.to_text() == "training=beegfs, rest any"
    assert rule.n == 6
    assert rule.regret_ratio < 0.01


def test_two_knobs_that_matter_only_together() -> None:
    knobs = {name: ["x", "y", "z"] for name in "abcd"}
    codes = grid(3, 3, 3, 3)
    seconds = np.where((codes[:, 1] == 2) & (codes[:, 3] == 0), 10.0, 50.0)
    rule = wildcard_rule(knobs, codes, seconds)
    assert rule is not None
    assert rule.conditions == (("b", ("z",)), ("d", ("x",)))
    assert rule.worst_ratio == 0.0


def test_never_more_than_three_conditions() -> None:
    knobs = {name: [0, 1, 2] for name in "abcde"}
    codes = grid(3, 3, 3, 3, 3)
    seconds = 1.0 + (codes * np.array([16, 8, 4, 2, 1])).sum(1)
    rule = wildcard_rule(knobs, codes, seconds)
    assert rule is not None
    assert len(rule.conditions) <= 3
    assert rule.error_ratio <= 1.02
    assert "a" in dict(rule.conditions)


def test_when_nothing_matters_everything_is_any() -> None:
    rule = wildcard_rule({"a": [0, 1], "b": [0, 1, 2]}, grid(2, 3), np.full(6, 5.0))
    assert rule is not None
    assert rule.to_text() == "any: no knob matters"
    assert rule.regret_ratio == 0.0


def test_nothing_possible_gives_no_rule() -> None:
    assert wildcard_rule({"a": [0, 1]}, grid(2), np.full(2, np.inf)) is None


def test_impossible_configurations_are_left_out() -> None:
    rule = wildcard_rule({"a": [0, 1], "b": [0, 1]}, grid(2, 2), np.array([1.0, np.inf, 1.0, 2.0]))
    assert rule is not None
    assert rule.n <= 3


def test_a_hundred_thousand_configurations_deterministic() -> None:
    knobs = {str(i): list(range(4)) for i in range(8)}
    codes = grid(*[4] * 8)
    seconds = 10.0 + 5.0 * (codes[:, 2] != 1) + 0.1 * codes[:, 5]
    first = wildcard_rule(knobs, codes, seconds)
    assert first == wildcard_rule(knobs, codes, seconds)
    assert first is not None
    assert dict(first.conditions)["2"] == (1,)


def test_prices_that_differ_are_never_said_not_to_matter() -> None:
    # Two stages on two stores, 1, 2, 4 or 8 tasks at once. By hand: a pass over the data takes
    # 70 s on pfs and 16 s on ssd (at 8 tasks), with 20 s of copies where any is on ssd.
    knobs = {"prep": ["pfs", "ssd"], "use": ["pfs", "ssd"], "tasks": [1, 2, 4, 8]}
    codes = grid(2, 2, 4)
    each = np.where(codes[:, :2] == 0, 35.0, 8.0).sum(1) * 8 / 2.0 ** codes[:, 2]
    seconds = each + 20.0 * (codes[:, :2] == 1).any(1)
    rule = wildcard_rule(knobs, codes, seconds)
    assert rule is not None
    assert seconds.min() == 36.0 and seconds.mean() > 2 * seconds.min()
    assert dict(rule.conditions)["tasks"] == (8,) and dict(rule.conditions)["use"] == ("ssd",)
    assert rule.alike and "no knob matters" not in rule.to_text()


def test_a_region_without_conditions_says_what_it_is() -> None:
    from dataclasses import replace

    rule = wildcard_rule({"a": [0, 1]}, grid(2), np.full(2, 5.0))
    assert rule is not None
    assert replace(rule, regret_ratio=1.5).to_text() == "no knob alone, only all together"
