"""A storage cost model: MiB/s of an access, learned from a table of measurements.

Gradient boosting on log features learns what stores and operations have in common and where a
curve has steps; kriging of each (operation, store) interpolates the grid smoothly between its
levels. The prediction is a fixed weighted mean of the two in log space. Ideas: Friedman, "Greedy
function approximation" (2001); Rasmussen & Williams (2006); Clemen, "Combining forecasts" (1989).
The interval is that of the model's own error on configurations left out (cross-validation grouped
by configuration), as in split conformal prediction (Lei et al. 2018).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rotameter.profiler.storing.kriging import Kriging, fit_kriging
from rotameter.profiler.storing.ranges import Range, ranges_of
from rotameter.profiler.storing.table import MIB, BandwidthTable, Floats
from rotameter.values import Evidence

__all__ = ["Bandwidth", "BandwidthModel", "fit_bandwidth", "seconds_of"]

Codes = NDArray[np.int64]

# Boosting: many small steps, half of the features a split (two such models averaged), leaves of
# two because the rows are averages of repeats and the grid is sparse. Chosen once from three
# settings, by cross-validation within a random 80 % of the IOR table's configurations.
_BOOST: dict[str, Any] = {
    "max_iter": 600,
    "learning_rate": 0.06,
    "max_leaf_nodes": 63,
    "min_samples_leaf": 2,
    "max_features": 0.5,
    "early_stopping": False,
}
_BOOSTED = 2
# Share of kriging in the mean, chosen in the same way: 0.65 has the best median, 0.5 the best
# tail, and it is flat between.
_SURFACE = 0.6
_TREES_FROM = 200  # rows; with fewer, kriging alone: trees have too little to split
_LEFT_OUT = 5  # groups of the cross-validation behind the interval
_FEW = 8  # rows of one (operation, store) below which it has no error of its own


@dataclass(frozen=True, slots=True)
class Bandwidth:
    """One prediction; ``interval80`` is None where the query was not interpolated."""

    op: str
    store: str
    rate_mib_s: float | None
    interval80: tuple[float, float] | None
    flags: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class BandwidthModel:
    """A fitted model; make one with `fit_bandwidth`."""

    keys: tuple[tuple[str, str], ...]
    ranges: tuple[Range, ...]  # of what is asked
    spans: tuple[Range, ...]  # of the axes that it is learned on
    surfaces: tuple[Kriging, ...]
    boosted: tuple[Any, ...]
    half_width: Floats  # (n_keys,) of log MiB/s, 80 %; NaN not known
    n: int
    table: BandwidthTable

    def _codes(self, op: Sequence[str], store: Sequence[str]) -> Codes:
        number = {key: i for i, key in enumerate(self.keys)}
        pairs = zip(op, store, strict=True)
        return np.array([number.get(pair, -1) for pair in pairs], dtype=np.int64)

    def log_rates(self, op: Sequence[str], store: Sequence[str], dims: Floats) -> Floats:
        """Predict log MiB/s, shape (m,), NaN for an operation on a store never measured.

        A query outside the measured range is answered by the nearest value within it.

        Parameters
        ----------
        op, store : sequence of str, length m
        dims : array, shape (m, 4)
            Columns `DIMENSIONS`.
        """
        with _one_thread():
            return self._log_rates(self._codes(op, store), _axes(_log2(dims)))

    def _log_rates(self, code: Codes, at: Floats) -> Floats:
        out = np.full(len(code), np.nan)
        for i in np.unique(code[code >= 0]):
            rows = np.flatnonzero(code == i)
            inside = np.nan_to_num(self.spans[i].clamp(at[rows]))
            trees = np.zeros(len(rows))
            for model in self.boosted:
                trees += model.predict(_features(inside, np.full(len(rows), i), self.keys))
            out[rows] = self.surfaces[i].mean(inside)
            if self.boosted:
                boosted = trees / len(self.boosted)
                out[rows] = _SURFACE * out[rows] + (1.0 - _SURFACE) * boosted
        return out

    def rates(self, op: Sequence[str], store: Sequence[str], dims: Floats) -> Floats:
        """Predict MiB/s, shape (m,), NaN for an operation on a store never measured."""
        return np.asarray(np.exp(self.log_rates(op, store, dims)), dtype=np.float64)

    def flags(self, op: Sequence[str], store: Sequence[str], dims: Floats) -> list[tuple[str, ...]]:
        """Say for each query why it is no interpolation; empty where it is one."""
        code, at = self._codes(op, store), _log2(dims)
        out: list[tuple[str, ...]] = [
            (f"{o} on {s} was never measured",) for o, s in zip(op, store, strict=True)
        ]
        for i in np.unique(code[code >= 0]):
            rows = np.flatnonzero(code == i)
            for row, texts in zip(rows, self.ranges[i].flags(at[rows]), strict=True):
                out[row] = texts
        return out

    def predict(self, op: Sequence[str], store: Sequence[str], dims: Floats) -> list[Bandwidth]:
        """Predict with intervals and flags.

        Parameters
        ----------
        op, store : sequence of str, length m
        dims : array, shape (m, 4)
            Bytes a call, bytes of all tasks together, nodes, tasks at once; NaN unknown.
        """
        log_rate = self.log_rates(op, store, dims)
        flags, code = self.flags(op, store, dims), self._codes(op, store)
        out = []
        for i, value in enumerate(log_rate):
            known = bool(np.isfinite(value))
            half = float(self.half_width[code[i]]) if known else float("nan")
            interval = None
            if known and not flags[i] and np.isfinite(half):
                interval = (float(np.exp(value - half)), float(np.exp(value + half)))
            rate = float(np.exp(value)) if known else None
            out.append(Bandwidth(op[i], store[i], rate, interval, flags[i]))
        return out

    def checks(self) -> tuple[Evidence, ...]:
        """Check what physics says: moving more bytes in the same way never takes less time."""
        merged = self.table.merged()
        larger = merged.dims.copy()
        larger[:, 1] *= 2.0
        op, store = merged.op, merged.store
        before = merged.dims[:, 1] / self.rates(op, store, merged.dims)
        after = larger[:, 1] / self.rates(op, store, larger)
        known = np.isfinite(before) & np.isfinite(after)
        broken = int((after[known] < 0.98 * before[known]).sum())
        how = "predicted seconds at twice the bytes against those at the measured ones"
        return (Evidence("less time for more bytes", broken, "queries", how, int(known.sum())),)


def _log2(dims: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        out = np.log2(np.asarray(dims, dtype=np.float64))
    out[~np.isfinite(out)] = np.nan
    return np.asarray(out, dtype=np.float64)


def _axes(logs: Floats) -> Floats:
    """Give the axes of log2 dims (m, 4): the last becomes tasks on a node.

    Both of its two are what an experiment varies; together they may be beyond all that was
    measured where each of them is not.
    """
    out = logs.copy()
    out[:, 3] -= logs[:, 2]
    return out


def _features(at: Floats, code: Codes, keys: tuple[tuple[str, str], ...]) -> Floats:
    """Give log features of axes (m, 4): per task, per node, calls; then op and store."""
    transfer, size, nodes, tasks = at.T
    tasks = tasks + nodes
    ops, stores = sorted({k[0] for k in keys}), sorted({k[1] for k in keys})
    op = np.array([ops.index(k[0]) for k in keys])[code]
    store = np.array([stores.index(k[1]) for k in keys])[code]
    return np.column_stack(
        [
            *(transfer, size, nodes, tasks, tasks - nodes, size - tasks, size - nodes),
            *(size - tasks - transfer, size - transfer, transfer + tasks, code, op, store),
        ]
    )


def _boost(at: Floats, code: Codes, y: Floats, keys: Any, seed: int) -> tuple[Any, ...]:
    from sklearn.ensemble import HistGradientBoostingRegressor

    if len(y) < _TREES_FROM:
        return ()
    features = _features(at, code, keys)
    categories = [10, 11, 12] if len(keys) <= 255 else None
    return tuple(
        HistGradientBoostingRegressor(
            random_state=seed + k, categorical_features=categories, **_BOOST
        ).fit(features, y)
        for k in range(_BOOSTED)
    )


def _one_thread() -> Any:
    """Limit BLAS and OpenMP to one thread.

    Threads that spin on a shared machine cost far more than a table of this size gains; and sums
    in one order are the same everywhere.
    """
    # Loaded first: a library that is loaded under the limit would not heed it.
    import sklearn.ensemble  # noqa: F401
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    return threadpool_limits(limits=1)


def _fit_once(table: BandwidthTable, seed: int) -> BandwidthModel:
    merged = table.merged()
    keys = tuple(sorted(set(zip(merged.op, merged.store, strict=True))))
    number = {key: i for i, key in enumerate(keys)}
    code = np.array([number[k] for k in zip(merged.op, merged.store, strict=True)], dtype=np.int64)
    logs = _log2(merged.dims)
    ranges = tuple(ranges_of(logs, code, len(keys)))
    at, y = _axes(logs), np.log(merged.rate_mib_s)
    spans = tuple(ranges_of(at, code, len(keys)))
    for i, span in enumerate(spans):
        at[code == i] = np.nan_to_num(span.clamp(at[code == i]))
    with _one_thread():
        surfaces = tuple(fit_kriging(at[code == i], y[code == i], seed) for i in range(len(keys)))
        boosted = _boost(at, code, y, keys, seed)
    unknown = np.full(len(keys), np.nan)
    return BandwidthModel(keys, ranges, spans, surfaces, boosted, unknown, len(merged), table)


def fit_bandwidth(
    table: BandwidthTable, *, seed: int = 0, intervals: bool = True
) -> BandwidthModel:
    """Learn MiB/s of (operation, store, bytes a call, bytes, nodes, tasks).

    Repeated measurements of a configuration are averaged (median).

    Parameters
    ----------
    table : BandwidthTable
    seed : int
        Same table, same seed: the same model.
    intervals : bool
        Cross-validate for the 80 % intervals (six fits instead of one).

    Examples
    --------
    >>> rows = [("read", "ssd", 4096, 2**30, n, 4 * n, 500.0 * n) for n in (1, 2, 4, 8, 16)]
    >>> model = fit_bandwidth(BandwidthTable.from_rows(rows), intervals=False)
    >>> [answer] = model.predict(["read"], ["ssd"], np.array([[4096, 2**30, 64.0, 256.0]]))
    >>> answer.flags[0]
    'nodes 64 is above the measured 16'
    """
    model = _fit_once(table, seed)
    if not intervals:
        return model
    merged = table.merged()
    fold = np.random.default_rng(seed).permutation(len(merged)) % _LEFT_OUT
    if len(merged) < 2 * _LEFT_OUT:
        return model
    miss = np.full(len(merged), np.nan)
    for k in range(_LEFT_OUT):
        left, rest = merged.take(fold == k), merged.take(fold != k)
        guess = _fit_once(rest, seed).log_rates(left.op, left.store, left.dims)
        miss[fold == k] = np.abs(guess - np.log(left.rate_mib_s))
    code = model._codes(merged.op, merged.store)
    half = np.full(len(model.keys), np.nan)
    for i in range(len(half)):
        own = miss[(code == i) & np.isfinite(miss)]
        if len(own) >= _FEW:
            share = min(1.0, 0.8 * (len(own) + 1) / len(own))
            half[i] = float(np.quantile(own, share, method="higher"))
    return BandwidthModel(
        *(model.keys, model.ranges, model.spans, model.surfaces, model.boosted),
        *(half, model.n, table),
    )


def seconds_of(size_bytes: Floats, rate_mib_s: Floats) -> Floats:
    """Give the seconds to move bytes at MiB/s; 0 bytes take 0 s, an unknown rate gives NaN."""
    with np.errstate(divide="ignore", invalid="ignore"):
        seconds = size_bytes / (rate_mib_s * MIB)
    return np.asarray(np.where(size_bytes == 0.0, 0.0, seconds), dtype=np.float64)
