r"""The Weighted Wait-time Score: one bounded number for how long people wait.

The name is used in the literature without a public formula; this definition is ours. For a class
:math:`c` of jobs with median wait :math:`m_c` and 95th percentile :math:`t_c`

.. math:: W_c = w\,g(m_c, \tau_m) + (1 - w)\,g(t_c, \tau_t), \qquad g(x, \tau) = x / (x + \tau)

and :math:`W = \sum_c s_c W_c` with the classes' shares :math:`s_c`. It lies in [0, 1), is 0 where
nobody waits, never falls when a wait grows, is one half where both waits are the reference waits,
and one outlier does not move it far.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rotameter.errors import UsageError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

__all__ = ["Terms", "WaitScore", "wait_score"]


@dataclass(frozen=True, slots=True)
class Terms:
    """The parameters of the score.

    Parameters
    ----------
    median_s, tail_s : float
        Reference waits: at them the median's part and the tail's part are one half.
    median_weight : float
        Weight of the median's part; the rest is the tail's.
    median_q, tail_q : float
        Which quantiles they are.
    """

    median_s: float = 900.0
    tail_s: float = 14_400.0
    median_weight: float = 0.5
    median_q: float = 0.5
    tail_q: float = 0.95

    def __post_init__(self) -> None:
        if not (self.median_s > 0 and self.tail_s > 0):
            raise UsageError("reference waits must be above 0", hint="such as 900 and 14400 s")
        if not (0 <= self.median_weight <= 1 and 0 < self.median_q <= self.tail_q <= 1):
            raise UsageError(
                "weights and quantiles lie between 0 and 1, the median's below the tail's",
                hint="such as a weight of 0.5 and the quantiles 0.5 and 0.95",
            )


@dataclass(frozen=True, slots=True)
class WaitScore:
    """The score, its classes and its parameters.

    Attributes
    ----------
    score : float, optional
        0: nobody waits; towards 1: everybody waits for long. None without jobs.
    classes : tuple of dict
        ``name``, ``jobs``, ``share``, ``wait_median_s``, ``wait_tail_s``, ``score`` of each.
    terms : Terms
    """

    score: float | None
    classes: tuple[dict[str, Any], ...]
    terms: Terms

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON, the parameters with it."""
        return {
            "score": self.score,
            "parameters": asdict(self.terms),
            "classes": [dict(one) for one in self.classes],
        }


def wait_score(
    waits_s: Sequence[float] | Floats,
    *,
    classes: Sequence[str] | None = None,
    weights: Sequence[float] | Floats | None = None,
    terms: Terms | None = None,
) -> WaitScore:
    """Score waits.

    Parameters
    ----------
    waits_s : sequence of float
        Non-negative.
    classes : sequence of str, optional
        The class of each job; without it there is one.
    weights : sequence of float, optional
        What each job counts for in the share of its class, such as its core-hours; 1 each where
        it is not given, or all are 0.
    terms : Terms, optional

    Examples
    --------
    >>> wait_score([0, 0, 0]).score, wait_score([900.0]).terms.median_s
    (0.0, 900.0)
    >>> round(wait_score([60.0] * 90 + [14_400.0] * 10).score, 3)
    0.281
    """
    terms = terms or Terms()
    waits = np.asarray(waits_s, np.float64)
    if not len(waits):
        return WaitScore(None, (), terms)
    names = np.asarray(["all"] * len(waits) if classes is None else list(classes), object)
    counts = np.ones(len(waits)) if weights is None else np.asarray(weights, np.float64)
    if not counts.sum() > 0:
        counts = np.ones(len(waits))
    rows = []
    for name in sorted(set(names.tolist())):
        inside = names == name
        mid, tail = np.quantile(waits[inside], [terms.median_q, terms.tail_q])
        part = terms.median_weight * mid / (mid + terms.median_s)
        part += (1 - terms.median_weight) * tail / (tail + terms.tail_s)
        rows.append(
            {
                "name": name,
                "jobs": int(inside.sum()),
                "share": float(counts[inside].sum() / counts.sum()),
                "wait_median_s": float(mid),
                "wait_tail_s": float(tail),
                "score": float(part),
            }
        )
    score = float(sum(row["share"] * row["score"] for row in rows))
    return WaitScore(score, tuple(rows), terms)
