"""Rows of change points: online on generated counts, offline on the Turing dataset.

Online, counts of mean 20, Poisson or with three times its variance (negative binomial), are the
same for every detector. A delay counts the values from the change to the alarm, the first value
after the change being 1; what was not found within 200 values is infinite. Seeds are drawn when
the row runs and are printed. Offline, constants were chosen on ``TUNED_ON`` only; the method
(sliding windows) after five ways had been scored on all thirty.
"""

from __future__ import annotations

import math
import secrets
import statistics
import time
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from benchmarks.harness import Context, Result, bench, best_of

__all__ = ["SHIFTS", "TUNED_ON", "counts", "detectors"]

LEVEL = 20.0
STEPS = 300_000
RUNS = 400
WAIT = 200

SHIFTS = (1.3, 1.5, 2.0, 0.6)
"""Levels after a change over the level before; the rows ask for 1.5."""

TUNED_ON = (
    "bank",
    "children_per_woman",
    "debt_ireland",
    "gdp_iran",
    "homeruns",
    "nile",
    "quality_control_2",
    "quality_control_5",
    "shanghai_license",
    "us_population",
)
"""Every third series by name, fixed before anything was tried on it."""


def counts(rng: np.random.Generator, level: float, dispersion: float, n: int) -> list[float]:
    """Give counts of a level whose variance is so many times their mean."""
    if dispersion <= 1.0:
        return rng.poisson(level, n).astype(float).tolist()
    drawn = rng.negative_binomial(level / (dispersion - 1.0), 1.0 / dispersion, n)
    return drawn.astype(float).tolist()


def detectors() -> dict[str, Callable[[], Any]]:
    """Name → makes one; the first is the default, the others are those it is compared with."""
    from rotameter.forecasting import changes

    made: dict[str, Callable[[], Any]] = {
        "default": changes.default,
        "cusum": changes.Cusum,
        "e-detector": changes.EDetector,
        "adwin": changes.Adwin,
        "bayesian": changes.Bayesian,
        "bayesian, normal": lambda: changes.Bayesian("values"),
        "confirmed": changes.Confirmed,
    }
    first = type(changes.default())
    return {name: make for name, make in made.items() if name == "default" or make is not first}


def _lines(found: dict[str, Any]) -> str:
    return "; ".join(f"{name} {text}" for name, text in found.items())


@bench("changes_false_alarms", issue=6, target="<= 3")
def false_alarms(context: Context) -> Result:
    """Alarms of the default in 10,000 values without a change; the worse of two dispersions."""
    seed, found = secrets.randbits(32), {}
    for name, make in detectors().items():
        rates = []
        for dispersion in (1.0, 3.0):
            rng, watch = np.random.default_rng(seed), make()
            series = counts(rng, LEVEL, dispersion, STEPS)
            alarms = sum(watch.update(at, x) is not None for at, x in enumerate(series))
            rates.append(alarms / STEPS * 1e4)
        found[name] = rates
    note = _lines({name: f"{a:.2f}, {b:.2f}" for name, (a, b) in found.items()})
    note = f"per 1e4 of {STEPS:,} values, dispersion 1, 3: {note}; seed {seed}"
    return Result(max(found["default"]), "alarms", note=note, detail=found)


def delays(
    make: Callable[[], Any], ratio: float, dispersion: float, seed: int, runs: int = RUNS
) -> list[float]:
    """Give how many values after a change it was found, run by run."""
    found = []
    for run in range(runs):
        rng = np.random.default_rng([seed, run])
        before = int(rng.integers(150, 400))
        series = counts(rng, LEVEL, dispersion, before)
        series += counts(rng, LEVEL * ratio, dispersion, WAIT)
        watch, delay = make(), math.inf
        for at, x in enumerate(series):
            if watch.update(at, x) is not None and at >= before:
                delay = at - before + 1
                break
        found.append(delay)
    return found


def _delay(dispersion: float, limit: float) -> Result:
    seed, found = secrets.randbits(32), {}
    for name, make in detectors().items():
        found[name] = {r: delays(make, r, dispersion, seed) for r in SHIFTS}
    medians = {n: {r: statistics.median(v) for r, v in by.items()} for n, by in found.items()}
    missed = {n: sum(map(math.isinf, by[1.5])) for n, by in found.items()}
    words = {
        name: "/".join(f"{by[r]:g}" for r in SHIFTS) + f" ({missed[name]} missed)"
        for name, by in medians.items()
    }
    note = f"median of {RUNS} runs, x{'/'.join(map(str, SHIFTS))}: {_lines(words)}; seed {seed}"
    value = medians["default"][1.5]
    return Result(value, "values", met=value <= limit, note=note, detail={"medians": medians})


@bench("changes_delay_poisson", issue=6, target="<= 6")
def delay_poisson(context: Context) -> Result:
    """Values until a level of 1.5 times is found, Poisson counts."""
    return _delay(1.0, 6)


@bench("changes_delay_dispersed", issue=6, target="<= 14")
def delay_dispersed(context: Context) -> Result:
    """The same where the variance is three times the mean."""
    return _delay(3.0, 14)


@bench("changes_update_us", issue=6, target="<= 10")
def update_us(context: Context) -> Result:
    """CPU time of an update of the default; the dispersed stream, where more happens."""
    series = counts(np.random.default_rng(1), LEVEL, 3.0, 20_000)
    found = {}
    for name, make in detectors().items():

        def once(make: Callable[[], Any] = make) -> float:
            watch = make()
            began = time.process_time()
            for at, x in enumerate(series):
                watch.update(at, x)
            return (time.process_time() - began) / len(series) * 1e6

        found[name] = best_of(once)
    value, interval = found["default"]
    note = _lines({name: f"{us:.1f}" for name, (us, _) in found.items()})
    return Result(value, "us", interval, note=note, detail=found)


# -- offline ------------------------------------------------------------------------------------


def _shared(context: Context) -> str:
    if context.shared is None:
        raise FileNotFoundError("needs --shared, the folder with data/arrivals")
    return context.shared


@cache
def _scores(shared: str) -> dict[str, dict[str, dict[str, float]]]:
    """Give way → cover or f1 → series → score."""
    from benchmarks import tcpd
    from rotameter.forecasting.changes.offline import METHODS, segment

    ways: dict[str, Callable[[Any], list[int]]] = {"default": segment}
    for method in METHODS:
        ways[method] = lambda values, method=method: segment(values, method=method)
    found: dict[str, dict[str, dict[str, float]]] = {}
    for way, find in ways.items():
        made = {s.name: (s, find(s.values)) for s in tcpd.load(shared)}
        found[way] = {
            "cover": {
                n: tcpd.cover(s.annotations, got, len(s.values)) for n, (s, got) in made.items()
            },
            "f1": {n: tcpd.f1(s.annotations, got) for n, (s, got) in made.items()},
        }
    return {**found, **{f"published {k}": v for k, v in tcpd.published(shared).items()}}


def _tcpd(context: Context, score: str) -> Result:
    found = {way: by[score] for way, by in _scores(_shared(context)).items()}
    words = {}
    for way, by in found.items():
        tuned = statistics.fmean(v for n, v in by.items() if n in TUNED_ON)
        others = statistics.fmean(v for n, v in by.items() if n not in TUNED_ON)
        words[way] = f"{statistics.fmean(by.values()):.3f} ({tuned:.3f}, {others:.3f})"
    note = f"all {len(found['default'])} series (tuned on, others): {_lines(words)}"
    return Result(statistics.fmean(found["default"].values()), "score", note=note, detail=found)


@bench("changes_tcpd_cover", issue=6, target=">= 0.68")
def tcpd_cover(context: Context) -> Result:
    """Mean cover of the offline default."""
    return _tcpd(context, "cover")


@bench("changes_tcpd_f1", issue=6, target=">= 0.73")
def tcpd_f1(context: Context) -> Result:
    """Mean F1 of the offline default."""
    return _tcpd(context, "f1")


@bench("changes_metric_zero", issue=6, target="<= 0.001")
def metric_zero(context: Context) -> Result:
    """Farthest of our scores of "no change" from the published ones, over all series."""
    from benchmarks import tcpd

    told, apart = tcpd.published(_shared(context))["zero"], []
    for series in tcpd.load(_shared(context)):
        ours = tcpd.cover(series.annotations, [], len(series.values))
        apart.append(abs(ours - told["cover"][series.name]))
        apart.append(abs(tcpd.f1(series.annotations, []) - told["f1"][series.name]))
    return Result(max(apart), "score", note=f"{len(apart)} scores")


@bench("changes_metric_bocpd", issue=6, target="<= 0.01")
def metric_bocpd(context: Context) -> Result:
    """Farther of our two mean scores of the published Bayesian method from the published means."""
    from benchmarks import tcpd

    told = tcpd.published(_shared(context))["bocpd"]
    scores: dict[str, dict[str, float]] = {"cover": {}, "f1": {}}
    for series in tcpd.load(_shared(context)):
        found = tcpd.bocpd(series.values)
        n = len(series.values)
        scores["cover"][series.name] = tcpd.cover(series.annotations, found, n)
        scores["f1"][series.name] = tcpd.f1(series.annotations, found)
    words, apart = [], []
    for score, by in scores.items():
        ours, theirs = statistics.fmean(by.values()), statistics.fmean(told[score].values())
        alike = sum(abs(v - told[score][n]) <= 1e-3 for n, v in by.items())
        words.append(f"{score} {ours:.4f} (published {theirs:.4f}; {alike} of {len(by)} alike)")
        apart.append(abs(ours - theirs))
    return Result(max(apart), "score", note="; ".join(words), detail=scores)
