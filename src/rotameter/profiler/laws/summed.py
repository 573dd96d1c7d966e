"""What a sum is expected to be, from the laws of its parts.

A sum of parts that grow by different laws follows none of the laws itself: ``16·k + 0.5·k²`` is
no straight line and no power. Where the law of each part is known, the sum is that of the parts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rotameter.profiler.laws.fit import Fit, Prediction

if TYPE_CHECKING:
    from rotameter.profiler.laws.sample import Series

__all__ = ["agrees", "makes_up", "sum_of"]

_WHOLE_RATIO = 1e-6
_ALIKE_RATIO = 0.05
"""A law of the sum that is as near to the parts everywhere says the same."""


def sum_of(parts: Sequence[Prediction]) -> Prediction:
    """Add predictions at one scale.

    Ends are added too: that holds whatever the parts share, such as a slow day, and is too wide
    where they share nothing.

    Parameters
    ----------
    parts : sequence of Prediction
        One at least.

    Examples
    --------
    >>> made = sum_of([Prediction(16, 256, 250, 260, None, None, 2.0),
    ...                Prediction(16, 128, 120, 140, None, None, 2.0)])
    >>> made.value, made.low, made.high, made.law_low
    (384.0, 370.0, 400.0, None)
    """

    def added(name: str) -> float | None:
        ends = [getattr(part, name) for part in parts]
        return None if any(end is None for end in ends) else math.fsum(ends)

    return Prediction(
        parts[0].scale,
        math.fsum(part.value for part in parts),
        added("low"),
        added("high"),
        added("law_low"),
        added("law_high"),
        max(part.extrapolation_ratio for part in parts),
    )


def makes_up(whole: Series, parts: Sequence[Series]) -> bool:
    """Say whether the parts add up to the whole in every run that has it, none missing.

    Parameters
    ----------
    whole : Series
        One value a run.
    parts : sequence of Series

    Examples
    --------
    >>> import numpy as np
    >>> from rotameter.profiler.laws.sample import Series
    >>> def one(*values):
    ...     return Series("x", "wall_s", (1.0, 2.0), tuple(np.array(v) for v in values))
    >>> makes_up(one([3.0], [6.0]), [one([1.0, 1.0], [4.0]), one([1.0], [2.0])])
    True
    >>> makes_up(one([3.0], [6.0]), [one([3.0], [4.0]), one([], [2.0])])
    False
    """
    if not parts:
        return False
    for n, found in enumerate(whole.samples):
        if any(not part.samples[n].size for part in parts):
            return False
        total = math.fsum(float(part.samples[n].sum()) for part in parts)
        if not found.size or not abs(total - float(found[0])) <= _WHOLE_RATIO * abs(total):
            return False
    return True


def agrees(law: Fit, scales: Sequence[float], expected: Sequence[float]) -> bool:
    """Say whether a law of the sum says what its parts say, within 5 % at each scale.

    Parameters
    ----------
    law : Fit
    scales, expected : sequence of float
        What the parts add up to at each scale.
    """
    if not law.certain:
        return False
    own = [law.predict(scale).value for scale in scales]
    return all(
        abs(mine - value) <= _ALIKE_RATIO * max(abs(mine), abs(value))
        for mine, value in zip(own, expected, strict=True)
    )
