"""The five laws as shapes: a level times g(k), with at most one unknown in g.

Each law is written ``level · g(k)`` with g(k0) = 1 at the geometric mean k0 of the scales, so that
the level means the same in all of them and laws can be compared. ``c + d·k`` has the unknown
``w``, the share of the growing part at k0; ``c·k^a`` has the exponent.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

__all__ = ["LAWS", "Law", "laws_for", "log_shape"]

_POWER_USUAL = (-2.0, 3.0)
_POWER_LIMITS = (-6.0, 8.0)
_USUAL = 0.9
"""Prior mass of unknowns in their usual range; the rest of the mass is spread over the limits."""


@dataclass(frozen=True, slots=True)
class Law:
    """One family of curves.

    Parameters
    ----------
    name : str
        As printed: ``c``, ``c*k^a``, ``c+d*k``, ``c*k*log(k)``, ``a/k``.
    unknowns : int
        Free numbers, the level included.
    usual, limits : (float, float)
        Of the unknown in the shape: where it is expected, and where it may be at all.
    """

    name: str
    kind: str
    unknowns: int
    usual: tuple[float, float] = (0.0, 0.0)
    limits: tuple[float, float] = (0.0, 0.0)

    def log_prior(self, unknown: Floats) -> Floats:
        """Give the log density of the unknown; flat inside its usual range, thin outside."""
        if self.unknowns < 2:
            return np.zeros_like(unknown)
        low, high = self.usual
        wide = (1 - _USUAL) / (self.limits[1] - self.limits[0])
        inside = (unknown >= low) & (unknown <= high)
        return np.log(wide + np.where(inside, _USUAL / (high - low), 0.0))


def laws_for(scale: Floats) -> list[Law]:
    """Give the laws that make sense at these scales.

    Parameters
    ----------
    scale : ndarray of float64, shape (n_runs,)
        All > 0.

    Examples
    --------
    >>> [law.name for law in laws_for(np.array([2.0, 4.0]))]
    ['c', 'a/k', 'c*k*log(k)', 'c*k^a', 'c+d*k']
    """
    k0 = math.exp(float(np.log(scale).mean()))
    # Positive at every scale that was run; w > 1 is a negative constant part.
    highest = min(1e6, 1 / (1 - float(scale.min()) / k0)) if scale.min() < k0 else 1.0
    straight = Law("c+d*k", "linear", 2, (0.0, 1.0), (0.0, max(highest, 1.0 + 1e-9)))
    power = Law("c*k^a", "power", 2, _POWER_USUAL, _POWER_LIMITS)
    made = [Law("c", "constant", 1), Law("a/k", "inverse", 1)]
    if scale.min() > 1:
        made.append(Law("c*k*log(k)", "klog", 1))
    else:
        # log 1 = 0: where a scale is a label that begins at 1, k·log k cannot be meant literally.
        made.append(Law("c*k*log(1+k)", "klog1", 1))
    return [*made, power, straight]


def log_shape(kind: str, unknown: Floats, scale: Floats, k0: float) -> Floats:
    """Give log g(k) of a law; -inf where the curve is not positive.

    Parameters
    ----------
    unknown : ndarray of float64, shape (m,)
    scale : ndarray of float64, shape (n,)

    Returns
    -------
    ndarray of float64, shape (m, n)

    Examples
    --------
    >>> log_shape("power", np.array([2.0]), np.array([3.0]), 1.0).round(3).tolist()
    [[2.197]]
    """
    ratio = np.log(scale / k0)[None, :]
    with np.errstate(divide="ignore", invalid="ignore"):
        curve = _CURVES[kind](unknown[:, None], scale[None, :], ratio, k0)
    return np.broadcast_to(curve, (len(unknown), len(scale)))


Curve = Callable[["Floats", "Floats", "Floats", float], "Floats"]


def _log(values: Floats) -> Floats:
    return np.log(np.maximum(values, 0.0))


def _klog(_: Floats, k: Floats, ratio: Floats, k0: float) -> Floats:
    return ratio + _log(np.log(k)) - math.log(math.log(k0))


def _klog1(_: Floats, k: Floats, ratio: Floats, k0: float) -> Floats:
    return ratio + _log(np.log1p(k)) - math.log(math.log1p(k0))


_CURVES: dict[str, Curve] = {
    "constant": lambda u, k, ratio, k0: np.zeros_like(ratio),
    "inverse": lambda u, k, ratio, k0: -ratio,
    "klog": _klog,
    "klog1": _klog1,
    "power": lambda u, k, ratio, k0: u * ratio,
    "linear": lambda u, k, ratio, k0: _log(1 + u * np.expm1(ratio)),
}

LAWS = ("c", "c*k^a", "c+d*k", "c*k*log(k)", "a/k")
"""The names, as the reference gives them."""
