"""How believable each law is, and what all of them together expect.

Log means are normal around ``level + log g(k; unknown)`` with variance spread² / weight. The level
(flat prior) and the spread (Jeffreys' prior, informed by the scatter of instances) are integrated
in closed form, which gives Student's t; the one unknown of a shape is integrated on a grid around
its best value. Laws are equally likely beforehand, so that the posterior compares their evidence
(Jeffreys, "Theory of Probability"; Kass & Raftery, JASA 90, 1995), and predictions average over
laws and unknowns (Hoeting et al., "Bayesian Model Averaging", Statistical Science 14, 1999).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rotameter.profiler.laws.shapes import log_shape

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rotameter.profiler.laws.sample import Sample
    from rotameter.profiler.laws.shapes import Law

    Floats = NDArray[np.float64]

__all__ = ["Candidate", "candidate", "predictive", "shares"]

_BLIND_NOISE = 1e-3
"""Least relative noise of a mean assumed where nothing tells how far single values scatter."""
_GRID = np.sinh(np.linspace(-8.0, 8.0, 241)) / 4
_COARSE = 100
_SIMPLE = {"constant": 0, "proportional": 1, "inverse": 2, "klog": 3, "klog1": 3}
_SIMPLE |= {"power": 4, "linear": 4}
_PROPORTIONAL = 1 / 3
"""Prior mass, within ``c + d·k``, of c = 0."""
_NEGLIGIBLE = 1e-6
_TAIL = 6.0
_REACH = float(np.sinh(_TAIL))
"""How many widths of Student's t are looked at on each side."""


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """One law on one sample.

    Parameters
    ----------
    law : Law
    k0 : float
        Scale at which the level is taken.
    best, level : float
        Most likely unknown of the shape, and the log level with it.
    misfit : float
        Weighted sum of squared residuals there.
    proportional : bool
        The straight line goes through 0: ``d·k``, with one number free.
    unknown, levels, misfits, log_weight : ndarray of float64, shape (m,)
        The grid; ``log_weight`` is the log evidence of each point.
    """

    law: Law
    k0: float
    best: float
    level: float
    misfit: float
    proportional: bool
    unknown: Floats
    levels: Floats
    misfits: Floats
    log_weight: Floats

    @property
    def free(self) -> int:
        """Free numbers of the curve, the level included."""
        return 1 if self.proportional else self.law.unknowns

    @property
    def rank(self) -> int:
        """Place from the simplest (a constant, then ``d·k``) to those with two free numbers."""
        return _SIMPLE["proportional" if self.proportional else self.law.kind]

    @property
    def log_evidence(self) -> float:
        """Log of the marginal likelihood, up to a constant that all laws share."""
        top = float(self.log_weight.max())
        if not math.isfinite(top):
            return -math.inf
        return top + math.log(float(np.exp(self.log_weight - top).sum()))

    def at(self, scale: float) -> float:
        """Give the curve with the most likely unknown."""
        return float(self.curve(np.array([scale]))[0])

    def curve(self, scales: Floats) -> Floats:
        """Give the curve with the most likely unknown; shape as ``scales``."""
        log = log_shape(self.law.kind, np.array([self.best]), scales, self.k0)[0]
        made: Floats = np.exp(np.minimum(self.level + log, 700.0))
        return made


def residual_squares(sample: Sample) -> float:
    """Give the squares that instances bring, or the little that is assumed without them."""
    return sample.squares if sample.df > 0 else len(sample.scale) * _BLIND_NOISE**2


def candidate(law: Law, sample: Sample, fixed: float | None = None) -> Candidate:
    """Fit one law.

    Parameters
    ----------
    fixed : float, optional
        The unknown of the shape, where it follows from the data already.
    """
    k0 = math.exp(float(np.log(sample.scale).mean()))
    if law.unknowns < 2 or fixed is not None:
        grid = np.array([0.0 if fixed is None else fixed])
        step = np.zeros(1)
        best = float(grid[0])
    else:
        best = _best(law, sample, k0)
        grid, step = _grid(law, sample, k0, best)
    levels, misfits = _fit(law, sample, k0, grid)
    squares = residual_squares(sample) + misfits
    order = (sample.df + len(sample.scale) - 1) / 2
    with np.errstate(divide="ignore", invalid="ignore"):
        log_weight = -order * np.log(squares) + step
        if fixed is None:
            log_weight = log_weight + law.log_prior(grid)
    log_weight = np.where(np.isfinite(misfits), log_weight, -np.inf)
    proportional = False
    if law.kind == "linear" and fixed is None:
        grid, levels, misfits, log_weight = _with_atom(
            law, sample, k0, (grid, levels, misfits, log_weight)
        )
        proportional = bool(log_weight[-1] > np.logaddexp.reduce(log_weight[:-1]))
        best = 1.0 if proportional else best
    level, misfit = (float(v[0]) for v in _fit(law, sample, k0, np.array([best])))
    return Candidate(law, k0, best, level, misfit, proportional, grid, levels, misfits, log_weight)


def _with_atom(
    law: Law, sample: Sample, k0: float, grid: tuple[Floats, Floats, Floats, Floats]
) -> tuple[Floats, Floats, Floats, Floats]:
    """Add the line through 0 as the grid's last point: ``d·k`` is common, and one number less."""
    unknown, levels, misfits, log_weight = grid
    one = np.ones(1)
    level, misfit = _fit(law, sample, k0, one)
    order = (sample.df + len(sample.scale) - 1) / 2
    atom = math.log(_PROPORTIONAL) - order * np.log(residual_squares(sample) + misfit)
    return (
        np.concatenate([unknown, one]),
        np.concatenate([levels, level]),
        np.concatenate([misfits, misfit]),
        np.concatenate([log_weight + math.log(1 - _PROPORTIONAL), atom]),
    )


def _fit(law: Law, sample: Sample, k0: float, unknown: Floats) -> tuple[Floats, Floats]:
    """Give (log level, weighted misfit) for each value of the unknown; inf where impossible."""
    curve = log_shape(law.kind, unknown, sample.scale, k0)
    share = sample.weight / sample.weight.sum()
    good = np.logical_and.reduce(np.isfinite(curve), axis=1)
    gap = sample.log_mean - np.where(good[:, None], curve, 0.0)
    levels = gap @ share
    misfit = ((gap - levels[:, None]) ** 2) @ sample.weight
    return levels, np.where(good, misfit, np.inf)


def _best(law: Law, sample: Sample, k0: float) -> float:
    """Find the unknown with the least misfit: closed form, or a search that narrows."""
    low, high = law.limits
    if law.kind == "power":
        share = sample.weight / sample.weight.sum()
        x = np.log(sample.scale / k0)
        x = x - x @ share
        spread = float((x**2) @ share)
        slope = float((x * sample.log_mean) @ share) / spread if spread > 0 else 0.0
        return min(max(slope, low), high)
    # Dense towards 1, where the curve of a small constant part bends most.
    near = np.concatenate([[0.0], np.geomspace(1e-9, 1.0, _COARSE)])
    points = np.unique(
        np.concatenate([near, 1 - near, np.linspace(1.0, high, _COARSE)[:-1]]).clip(low, high)
    )
    for _ in range(14):
        misfits = _fit(law, sample, k0, points)[1]
        at = int(np.argmin(misfits))
        left, right = points[max(at - 1, 0)], points[min(at + 1, len(points) - 1)]
        best = float(points[at])
        if right - left <= 1e-12 * max(abs(best), 1e-3):
            break
        points = np.unique(np.append(np.linspace(left, right, 25), best))
    return best


def _grid(law: Law, sample: Sample, k0: float, best: float) -> tuple[Floats, Floats]:
    """Give points around the best value, and the log of the stretch that each stands for."""
    low, high = law.limits
    step = max(1e-7, 1e-6 * abs(best))
    inward = -step if best + step > high else step
    pair = np.array([best, best + inward])
    level = _fit(law, sample, k0, pair)[0]
    curve = log_shape(law.kind, pair, sample.scale, k0)
    slope = (curve[1] - curve[0] + level[1] - level[0]) / inward
    df = sample.df + len(sample.scale) - 2
    misfit = float(_fit(law, sample, k0, np.array([best]))[1][0])
    noise = (residual_squares(sample) + misfit) / max(df, 1.0)
    bend = float((slope**2) @ sample.weight)
    width = math.sqrt(noise / bend) if bend > 0 else high - low
    width = min(max(width, 1e-13), high - low)
    points = best + width * _GRID
    points = np.concatenate([points, np.linspace(low, high, 101)])
    points = np.unique(points.clip(low, high))
    edges = np.concatenate([[low], (points[1:] + points[:-1]) / 2, [high]])
    with np.errstate(divide="ignore"):
        return points, np.log(np.diff(edges))


def shares(candidates: list[Candidate]) -> Floats:
    """Give the posterior probability of each law, all being equally likely beforehand.

    Returns
    -------
    ndarray of float64, shape (len(candidates),)
        Zeros where no law is possible.
    """
    logs = np.array([c.log_evidence for c in candidates])
    if not len(logs) or not np.isfinite(logs.max()):
        return np.zeros(len(logs))
    made = np.exp(logs - logs.max())
    total: Floats = made / made.sum()
    return total


def predictive(
    candidates: list[Candidate],
    sample: Sample,
    scale: float,
    levels: Floats,
    *,
    instances: float | None = None,
) -> Floats:
    """Give quantiles of the log mean at a scale, over all laws and unknowns.

    Parameters
    ----------
    levels : ndarray of float64, shape (m,)
        Probabilities between 0 and 1, ascending.
    instances : float, optional
        How many instances the run at that scale will have: the noise of their mean is added.
        None = the law alone.

    Returns
    -------
    ndarray of float64, shape (m,)
        -inf where the mass lies at zero (a straight line that has fallen to nothing).
    """
    from scipy.special import stdtr

    centre, width, weight, zero = _mixture(candidates, sample, scale, instances)
    if not len(centre):
        return np.full(len(levels), -np.inf)
    df = sample.df + len(sample.scale) - 1
    # The distribution function from a table: it is asked for some 10,000 times.
    steps = np.sinh(np.linspace(-_TAIL, _TAIL, 1601))
    table = stdtr(df, steps)
    low, high = float((centre - _REACH * width).min()), float((centre + _REACH * width).max())
    below, above = np.full(len(levels), low), np.full(len(levels), high)
    for _ in range(44):
        middle = (below + above) / 2
        mass = np.interp((middle[:, None] - centre) / width, steps, table) @ weight + zero
        below, above = (
            np.where(mass < levels, middle, below),
            np.where(mass < levels, above, middle),
        )
    made: Floats = np.where(levels <= zero, -np.inf, (below + above) / 2)
    return made


def _mixture(
    candidates: list[Candidate], sample: Sample, scale: float, instances: float | None
) -> tuple[Floats, Floats, Floats, float]:
    """Give centres, widths and weights of the parts, and the weight of those that are 0."""
    logs = np.concatenate([c.log_weight for c in candidates])
    weight = np.exp(logs - logs.max())
    centre = np.concatenate(
        [
            c.levels + log_shape(c.law.kind, c.unknown, np.array([scale]), c.k0)[:, 0]
            for c in candidates
        ]
    )
    squares = residual_squares(sample) + np.concatenate([c.misfits for c in candidates])
    keep = (weight > _NEGLIGIBLE * weight.max()) & np.isfinite(squares)
    total = float(weight[keep].sum())
    keep &= np.isfinite(centre)
    df = sample.df + len(sample.scale) - 1
    part = 1 / float(sample.weight.sum())
    part += sample.of_new_run(instances) if instances else 0.0
    width = np.maximum(np.sqrt(squares[keep] / df * part), 1e-15)
    weight = weight[keep] / total
    return centre[keep], width, weight, max(0.0, 1 - float(weight.sum()))
