"""Which knobs matter: a rule with wildcards around the best configurations.

A regression tree on one-hot configurations, pruned by cost complexity; of the pruning strengths
whose cross-validated error is within 2 % of the best, the smallest tree. Ideas: Breiman et al.,
*Classification and Regression Trees* (1984), chapter 3; the regions of QoSFlow (IPDPS 2026).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Rule", "wildcard_rule"]

Floats = NDArray[np.float64]
_SAMPLE = 4000  # configurations that the tree is grown on
_FOLDS, _ALPHAS, _SLACK = 5, 12, 1.02


@dataclass(frozen=True, slots=True)
class Rule:
    """A region of configurations: knobs that matter and the values they may take.

    ``share`` is the part of all configurations inside, ``regret_ratio`` how much longer the
    region's mean is than the best of all, ``worst_ratio`` the same of its worst; ``error_ratio``
    is the tree's cross-validated mean absolute error over the best tree's.
    """

    conditions: tuple[tuple[str, tuple[Any, ...]], ...]
    n: int
    share: float
    mean_s: float
    regret_ratio: float
    worst_ratio: float
    error_ratio: float
    leaves: int

    def to_text(self) -> str:
        """Write the rule, as in ``train=beegfs, rest any``."""
        words = [f"{k}={'|'.join(str(v) for v in values)}" for k, values in self.conditions]
        if words:
            return ", ".join([*words, "rest any"])
        return "any: no knob matters" if self.alike else "no knob alone, only all together"

    @property
    def alike(self) -> bool:
        """Whether the region's configurations are on average as good as the best."""
        return self.regret_ratio <= _SLACK - 1


def _one_hot(codes: NDArray[np.int64], levels: Sequence[int]) -> NDArray[np.float32]:
    columns = [codes[:, k] == v for k, n in enumerate(levels) for v in range(n)]
    return np.column_stack(columns).astype(np.float32)


def _tree(alpha: float, n: int) -> Any:
    from sklearn.tree import DecisionTreeRegressor

    return DecisionTreeRegressor(
        ccp_alpha=alpha, random_state=0, min_samples_leaf=max(1, n // 400), max_leaf_nodes=200
    )


def _pruned(x: NDArray[np.float32], y: Floats) -> tuple[Any, float]:
    """Choose the pruning by cross-validation; give the tree and its error over the best's."""
    path = _tree(0.0, len(y)).cost_complexity_pruning_path(x, y).ccp_alphas
    alphas = np.unique(np.maximum(np.quantile(path, np.linspace(0.0, 1.0, _ALPHAS)), 0.0))
    if len(y) < 2 * _FOLDS:
        return _tree(0.0, len(y)).fit(x, y), 1.0
    fold = np.random.default_rng(0).permutation(len(y)) % _FOLDS
    error = np.zeros(len(alphas))
    for i, alpha in enumerate(alphas):
        for k in range(_FOLDS):
            guess = _tree(alpha, len(y)).fit(x[fold != k], y[fold != k]).predict(x[fold == k])
            error[i] += float(np.abs(guess - y[fold == k]).sum())
    best = max(float(error.min()), 1e-12 * float(np.abs(y).sum()))
    chosen = int(np.flatnonzero(error <= _SLACK * best + 1e-15)[-1])
    return _tree(float(alphas[chosen]), len(y)).fit(x, y), float(error[chosen] / best)


def _allowed(tree: Any, at: NDArray[np.float32], levels: Sequence[int]) -> list[set[int]]:
    """Values that the leaf of one configuration allows, a set a knob."""
    owner = [(k, v) for k, n in enumerate(levels) for v in range(n)]
    allowed = [set(range(n)) for n in levels]
    inner = tree.tree_
    node = 0
    while inner.children_left[node] != inner.children_right[node]:
        column = int(inner.feature[node])
        knob, value = owner[column]
        if at[column] > inner.threshold[node]:
            allowed[knob] = {value}
            node = int(inner.children_right[node])
        else:
            allowed[knob].discard(value)
            node = int(inner.children_left[node])
    return allowed


def wildcard_rule(
    knobs: Mapping[str, Sequence[Any]],
    codes: NDArray[np.int64],
    makespan_s: Floats,
    *,
    most: int = 3,
) -> Rule | None:
    """Say in at most ``most`` conditions what the best configurations have in common.

    Parameters
    ----------
    knobs : mapping
        Name → values that it can take.
    codes : array of int, shape (n, n_knobs)
        Value of each knob of each evaluated configuration.
    makespan_s : array, shape (n,)
        Infinite or NaN: cannot be done, left out.
    most : int
        Conditions at most; of more, those that matter least are dropped. One without which the
        region's mean rises by under 2 % is dropped in any case: its knob does not matter.

    Returns
    -------
    Rule or None
        None where nothing can be done at all.

    Examples
    --------
    >>> codes = np.array([[a, b] for a in range(2) for b in range(3)])
    >>> rule = wildcard_rule({"train": ["ssd", "nfs"], "merge": [1, 2, 3]}, codes,
    ...     np.array([1.0, 1.0, 1.0, 9.0, 9.0, 9.0]))
    >>> rule.to_text(), rule.n, rule.regret_ratio
    ('train=ssd, rest any', 3, 0.0)
    """
    names = list(knobs)
    levels = [len(knobs[name]) for name in names]
    good = np.isfinite(makespan_s)
    codes, seconds = codes[good], makespan_s[good]
    if not len(seconds):
        return None
    best = int(np.argmin(seconds))
    tree, error, conditions = _grown(codes, seconds, levels, best)
    conditions = _fewest(codes, seconds, conditions, most)
    region = seconds[_inside(codes, conditions)]
    fastest = max(float(seconds[best]), 1e-12)
    return Rule(
        tuple(
            (names[k], tuple(knobs[names[k]][v] for v in sorted(conditions[k])))
            for k in sorted(conditions)
        ),
        len(region),
        len(region) / len(seconds),
        float(region.mean()),
        max(0.0, float(region.mean()) / fastest - 1.0),
        max(0.0, float(region.max()) / fastest - 1.0),
        error,
        int(tree.get_n_leaves()),
    )


def _grown(
    codes: NDArray[np.int64], seconds: Floats, levels: Sequence[int], best: int
) -> tuple[Any, float, dict[int, set[int]]]:
    """Grow a tree of the makespans; give it, its error, and the conditions of the best's leaf."""
    rows = np.arange(len(seconds))
    if len(rows) > _SAMPLE:
        rows = np.sort(np.random.default_rng(0).permutation(len(rows))[:_SAMPLE])
    x, y = _one_hot(codes[rows], levels), np.log(np.maximum(seconds[rows], 1e-9))
    tree, error = _pruned(x, y)
    at = _one_hot(codes[[best]], levels)[0]
    conditions = _conditions(tree, at, levels)
    if not conditions and float(seconds.mean()) > _SLACK * float(seconds[best]):
        # A stump says that nothing is worth a knob, which the prices deny.
        tree = _tree(0.0, len(rows)).fit(x, y)
        conditions = _conditions(tree, at, levels)
    return tree, error, conditions


def _conditions(tree: Any, at: NDArray[np.float32], levels: Sequence[int]) -> dict[int, set[int]]:
    """Give knob → values of the leaf of one configuration; knobs that may take all are left out."""
    allowed = _allowed(tree, at, levels)
    return {k: v for k, v in enumerate(allowed) if len(v) < levels[k]}


def _fewest(
    codes: NDArray[np.int64], seconds: Floats, conditions: Mapping[int, set[int]], most: int
) -> dict[int, set[int]]:
    """Drop conditions that matter least, as long as there are too many or they hardly matter."""
    kept = dict(conditions)
    mean = float(seconds[_inside(codes, kept)].mean())
    while kept:
        # Without which condition does the region's mean rise least?
        rises = {knob: float(seconds[_inside(codes, _without(kept, knob))].mean()) for knob in kept}
        least = min(rises, key=lambda knob: (rises[knob], knob))
        if len(kept) <= most and rises[least] > _SLACK * mean:
            break
        del kept[least]
        mean = max(mean, rises[least]) if len(kept) >= most else mean
    return kept


def _without(conditions: Mapping[int, set[int]], knob: int) -> dict[int, set[int]]:
    return {k: v for k, v in conditions.items() if k != knob}


def _inside(codes: NDArray[np.int64], conditions: Mapping[int, set[int]]) -> NDArray[np.bool_]:
    mask = np.ones(len(codes), dtype=bool)
    for knob, values in conditions.items():
        mask &= np.isin(codes[:, knob], sorted(values))
    return mask
