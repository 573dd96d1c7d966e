"""Forecasters on recorded series: losses over the last 30 %, at every origin, horizon 6.

The boosted baseline takes minutes. Its losses are kept in ``recorded_boosted.json`` with a digest
of the series: a short run takes them from there, ``--full`` makes them anew.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.arrival_series import Recorded, digest

__all__ = ["BASELINES", "HORIZON", "boosted", "foretold", "score", "truth_of"]

HORIZON = 6
KEPT = Path(__file__).with_name("recorded_boosted.json")


def truth_of(recorded: Recorded, first: int, last: int) -> np.ndarray:
    """Give what came after each origin, shape (origins, HORIZON)."""
    return np.array([recorded.values[at : at + HORIZON] for at in range(first, last)])


def foretold(
    made: Any, values: np.ndarray, first: int, last: int | None = None
) -> tuple[np.ndarray, float]:
    """Give quantiles at each origin of ``first`` to ``last``, and CPU seconds an update."""
    from rotameter.forecasting.arrivals.levels import ASKED

    last = len(values) - HORIZON + 1 if last is None else last
    made.fit(values[:first])
    rows, spent = [], 0.0
    for at in range(first, last):
        rows.append(made.predict(HORIZON, ASKED))
        began = time.thread_time()
        made.update(at, float(values[at]))
        spent += time.thread_time() - began
    return np.array(rows), spent / max(last - first, 1)


def score(grids: np.ndarray, truth: np.ndarray) -> tuple[float | None, float]:
    """Give the weighted quantile loss and the coverage of the 80 % interval."""
    from rotameter.forecasting.arrivals.levels import ASKED, weighted_loss

    known = np.isfinite(truth)
    low, high = ASKED.index(0.1), ASKED.index(0.9)
    inside = (truth >= grids[..., low]) & (truth <= grids[..., high])
    return weighted_loss(grids, truth, ASKED), float(inside[known].mean())


def _features(recorded: Recorded) -> tuple[np.ndarray, np.ndarray]:
    """Give the features of each origin and step, and log counts."""
    from rotameter.forecasting.arrivals.past import Past

    past = Past(recorded.season, HORIZON)
    rows = []
    for x in recorded.values:
        rows.append(past.tracks["log"].now.copy())
        past.append(float(x))
    return np.array(rows), np.log1p(np.nan_to_num(recorded.values))


def _fit_boosted(recorded: Recorded, first: int) -> np.ndarray:
    """Fit each step and quantile once, to what came before ``first``; give all later quantiles."""
    from rotameter.forecasting.arrivals.boosted import fit_quantiles

    x, z = _features(recorded)
    last = len(z) - HORIZON + 1
    begin = max(first - 12_000, 2)
    out = []
    for step in range(HORIZON):
        models = fit_quantiles(x[begin : first - step, step], z[begin + step : first])
        out.append(np.column_stack([m.predict(x[first:last, step]) for m in models]))
    return np.maximum(np.expm1(np.sort(np.stack(out, axis=1), axis=-1)), 0.0)


def boosted(recorded: Recorded, *, anew: bool) -> tuple[float | None, float, bool]:
    """Give loss and coverage of the boosted baseline, and whether they were kept from before."""
    kept = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    known = kept.get(recorded.name, {}).get(str(len(recorded.values)))
    if known and known["digest"] == digest(recorded) and not anew:
        return known["loss"], known["cover"], True
    grids = _fit_boosted(recorded, recorded.start)
    loss, cover = score(
        grids, truth_of(recorded, recorded.start, len(recorded.values) - HORIZON + 1)
    )
    kept.setdefault(recorded.name, {})[str(len(recorded.values))] = {
        "digest": digest(recorded), "loss": loss, "cover": cover
    }  # fmt: skip
    KEPT.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")
    return loss, cover, False


def _baselines() -> dict[str, Callable[[int], Any]]:
    from rotameter.forecasting.arrivals.ewma import EwmaNegativeBinomial
    from rotameter.forecasting.arrivals.last import LastValue
    from rotameter.forecasting.arrivals.ridge import RidgeLog
    from rotameter.forecasting.arrivals.seasonal import SeasonalNaive

    return {
        "seasonal": SeasonalNaive,
        "last": LastValue,
        "ewma_nb": EwmaNegativeBinomial,
        "ridge": lambda season: RidgeLog(season, refit=None),
    }


BASELINES = ("seasonal", "last", "ewma_nb", "ridge", "boosted")


def _ours() -> dict[str, Callable[[int], Any]]:
    from rotameter.forecasting.arrivals.default import Default
    from rotameter.forecasting.arrivals.least_squares import RecursiveLeastSquares

    return {"default": Default, "least_squares": RecursiveLeastSquares}


@cache
def table(recorded_key: tuple[str, str, bool], names: Sequence[str] = ()) -> dict[str, Any]:
    """Give loss, coverage and seconds an update of every forecaster on one series."""
    from benchmarks.arrival_series import load

    shared, name, full = recorded_key
    recorded = load(shared, name, full)
    last = len(recorded.values) - HORIZON + 1
    truth = truth_of(recorded, recorded.start, last)
    out: dict[str, Any] = {}
    for kind, make in {**_ours(), **_baselines()}.items():
        grids, seconds = foretold(make(recorded.season), recorded.values, recorded.start, last)
        loss, cover = score(grids, truth)
        out[kind] = {"loss": loss, "cover": cover, "update_us": seconds * 1e6}
    loss, cover, old = boosted(recorded, anew=full)
    out["boosted"] = {"loss": loss, "cover": cover, "kept": old}
    return out
