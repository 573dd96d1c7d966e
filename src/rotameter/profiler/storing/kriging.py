"""Kriging (Gaussian-process regression) with one length scale a dimension.

A grid of measurements with few levels a dimension is what trees do worst and a smooth
interpolator does best. Method: Rasmussen & Williams, *Gaussian Processes for Machine Learning*
(2006), chapters 2 and 5: Matérn-3/2 kernel, hyperparameters by the marginal likelihood.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Kriging", "fit_kriging"]

Floats = NDArray[np.float64]
_ROOT3 = 3.0**0.5
_LIMIT = 350  # points that the likelihood is maximised on: its cost is cubic
_LOW, _HIGH = np.log(0.05), np.log(50.0)


@dataclass(frozen=True, slots=True, eq=False)
class Kriging:
    """A fitted surface: predict with `mean`."""

    points: Floats
    weights: Floats
    centre: Floats
    scale: Floats
    lengths: Floats
    signal: float
    level: float
    spread: float

    def mean(self, at: Floats) -> Floats:
        """Predict, shape (m,), at points of shape (m, d) in the units of the fit."""
        scaled = (at - self.centre) / self.scale
        kernel = self.signal * _matern(_squares(scaled / self.lengths, self.points / self.lengths))
        return np.asarray(self.level + self.spread * (kernel @ self.weights), dtype=np.float64)


def _squares(a: Floats, b: Floats) -> Floats:
    gram = (a**2).sum(1)[:, None] + (b**2).sum(1)[None] - 2.0 * (a @ b.T)
    return np.asarray(np.maximum(gram, 0.0), dtype=np.float64)


def _matern(squares: Floats) -> Floats:
    distance = _ROOT3 * np.sqrt(squares)
    return np.asarray((1.0 + distance) * np.exp(-distance), dtype=np.float64)


def _objective(theta: Floats, steps: Floats, y: Floats) -> tuple[float, Floats]:
    """Negative log marginal likelihood and its gradient; ``steps`` (d, n, n) squared gaps."""
    d, n = len(steps), len(y)
    lengths2 = np.exp(2.0 * theta[:d])
    signal, noise = float(np.exp(theta[d])), float(np.exp(theta[d + 1]))
    distance = _ROOT3 * np.sqrt(np.tensordot(1.0 / lengths2, steps, axes=1))
    decay = signal * np.exp(-distance)
    kernel = (1.0 + distance) * decay
    try:
        factor = np.linalg.cholesky(kernel + (noise + 1e-8) * np.eye(n))
    except np.linalg.LinAlgError:
        return 1e12, np.zeros_like(theta)
    root = np.linalg.solve(factor, np.eye(n))
    inverse = root.T @ root
    alpha = inverse @ y
    value = 0.5 * float(y @ alpha) + float(np.log(np.diag(factor)).sum())
    inner = np.outer(alpha, alpha) - inverse
    shared = inner * decay * 3.0
    gradient = [-0.5 * float((shared * steps[i]).sum()) / lengths2[i] for i in range(d)]
    gradient.append(-0.5 * float((inner * kernel).sum()))
    gradient.append(-0.5 * noise * float(np.trace(inner)))
    return value, np.array(gradient)


def fit_kriging(points: Floats, values: Floats, seed: int = 0) -> Kriging:
    """Fit a surface through noisy values.

    Parameters
    ----------
    points : array, shape (n, d)
        Where it was measured (log units).
    values : array, shape (n,)
        What was measured there.
    seed : int
        Draws the points of the likelihood where there are more than 350.

    Examples
    --------
    >>> x = np.linspace(0.0, 4.0, 9)[:, None]
    >>> surface = fit_kriging(x, 2.0 * x[:, 0])
    >>> bool(abs(surface.mean(np.array([[2.25]]))[0] - 4.5) < 0.1)
    True
    """
    from scipy.linalg import cho_factor, cho_solve
    from scipy.optimize import minimize

    centre, scale = points.mean(0), points.std(0)
    scale = np.where(scale > 1e-9, scale, 1.0)
    x = (points - centre) / scale
    level, spread = float(values.mean()), max(float(values.std()), 1e-9)
    y = (values - level) / spread
    d = x.shape[1]
    theta = np.concatenate([np.zeros(d + 1), [np.log(0.05)]])
    chosen = np.random.default_rng(seed).permutation(len(x))[:_LIMIT]
    if len(x) > 2 * d:
        steps = (x[chosen, None, :] - x[None, chosen, :]).transpose(2, 0, 1) ** 2
        bounds = [(_LOW, _HIGH)] * d + [(np.log(0.05), np.log(50.0)), (np.log(1e-4), 0.0)]
        found = minimize(
            _objective,
            theta,
            args=(steps, y[chosen]),
            jac=True,
            method="L-BFGS-B",
            bounds=bounds,
            options={"maxiter": 60},
        )
        theta = np.asarray(found.x, dtype=np.float64)
    lengths, signal = np.exp(theta[:d]), float(np.exp(theta[d]))
    kernel = signal * _matern(_squares(x / lengths, x / lengths))
    kernel[np.diag_indices(len(x))] += np.exp(theta[d + 1]) + 1e-8
    weights = cho_solve(cho_factor(kernel, lower=True), y)
    return Kriging(x, weights, centre, scale, lengths, signal, level, spread)
