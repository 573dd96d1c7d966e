"""What every forecaster of counts must do: the conformance kit for ``rotameter.forecasters``."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from typing import Any

from rotameter.protocols import Forecaster

__all__ = ["check_forecaster", "hostile_series"]

_QUANTILES = (0.05, 0.1, 0.5, 0.9, 0.95)
_STEP_NS = 60_000_000_000


def hostile_series() -> dict[str, list[float]]:
    """Give short series that are hard: nothing, one bin, zeros, bursts, no numbers, no ends."""
    nan, inf = math.nan, math.inf
    return {
        "nothing": [],
        "one sample": [3.0],
        "one missing": [nan],
        "only zeros": [0.0] * 60,
        "zeros, then a burst": [0.0] * 80 + [5_000.0, 20_000.0, 3.0, 0.0, 0.0, 9_000.0],
        "missing bins": [nan if k % 3 else 5.0 for k in range(60)],
        "only missing": [nan] * 40,
        "below zero": [-1.0, 4.0, -1e300, 2.0] * 12,
        "without end": [inf, 2.0, -inf, 1e308, 1.7e308, 5.0] * 10,
        "tiny": [1e-300, 5e-324, 0.0, 1e-9] * 12,
        "a step": [2.0] * 40 + [9_000.0] * 40,
        "alternating": [0.0, 1e9] * 40,
        "a level": [208.0] * 90,
    }


def check_forecaster(make: Callable[[], Any], *, horizon: int = 3) -> None:
    """Check a forecaster.

    Parameters
    ----------
    make : callable
        Gives a fresh one.
    horizon : int
        What it was made for; more is asked for as well.

    Raises
    ------
    AssertionError
        Saying what it does wrong.

    Examples
    --------
    >>> from rotameter.forecasting.arrivals.last import LastValue
    >>> check_forecaster(LastValue)
    """
    assert isinstance(make(), Forecaster), "a forecaster has fit, update and predict"
    _answers(make, horizon)
    _repeats(make, horizon)
    _goes_on(make, horizon)
    _does_not_peek(make, horizon)
    _survives_clocks(make, horizon)


def _plain() -> list[float]:
    """Give a series with a season, a little noise and a gap, the same at each call."""
    made = [round(8 + 6 * math.sin(k / 8 * 2 * math.pi) + (k * 7919 % 13) / 4) for k in range(160)]
    return [math.nan if 70 <= k < 73 else float(x) for k, x in enumerate(made)]


def _asked(made: Any, horizon: int, quantiles: Sequence[float] = _QUANTILES) -> list[list[float]]:
    """Ask, and check the form of what is said."""
    got = made.predict(horizon, quantiles)
    rows = [[float(value) for value in row] for row in got]
    assert len(rows) == horizon, f"predict gave {len(rows)} rows for {horizon} bins"
    assert all(len(row) == len(quantiles) for row in rows), "one value for each quantile"
    return rows


def _check(rows: list[list[float]], where: str) -> None:
    for row in rows:
        assert all(math.isfinite(value) for value in row), f"{where}: not finite: {row}"
        assert all(value >= 0.0 for value in row), f"{where}: below 0: {row}"
        assert row == sorted(row), f"{where}: a larger quantile is less: {row}"


def _answers(make: Callable[[], Any], horizon: int) -> None:
    """Check that whatever came, what is said is finite, not negative and in order."""
    for name, series in hostile_series().items():
        for learnt in ("fit", "updates"):
            made = make()
            where = f"{name!r} by {learnt}"
            try:
                if learnt == "fit":
                    made.fit(series)
                else:
                    for k, x in enumerate(series):
                        made.update(k * _STEP_NS, x)
                for ahead in (1, horizon, horizon + 4):
                    _check(_asked(made, ahead), where)
                for k in range(3):
                    made.update((len(series) + k) * _STEP_NS, 7.0)
                    _check(_asked(made, horizon), f"{where}, and then some")
            except Exception as error:
                if isinstance(error, AssertionError):
                    raise
                raise AssertionError(f"{where}: raises {type(error).__name__}: {error}") from error
    made = make()
    made.fit(_plain())
    up, down = _asked(made, horizon, (0.2, 0.8)), _asked(made, horizon, (0.8, 0.2))
    assert up == [row[::-1] for row in down], "quantiles are given in the order they are asked in"


def _told(made: Any, series: Sequence[float], start: int = 0) -> list[Any]:
    said = []
    for k, x in enumerate(series, start):
        made.update(k * _STEP_NS, x)
        said.append(_asked(made, 2))
    return said


def _repeats(make: Callable[[], Any], horizon: int) -> None:
    """Check that the same bins give the same quantiles, however often one asks."""
    series = _plain()
    one, other = make(), make()
    one.fit(series[:100])
    other.fit(series[:100])
    for k, x in enumerate(series[100:], 100):
        for _ in range(2):
            said = _asked(one, horizon)
        assert said == _asked(other, horizon), "two of the same make, told the same, differ"
        one.update(k * _STEP_NS, x)
        other.update(k * _STEP_NS, x)


def _goes_on(make: Callable[[], Any], horizon: int) -> None:
    """Check that what was stored goes on bit for bit."""
    series = _plain()
    for at in (0, 1, 50, 120):
        made = make()
        for k, x in enumerate(series[:at]):
            made.update(k * _STEP_NS, x)
        stored = json.dumps(made.state())
        again = type(made).from_state(json.loads(stored))
        assert json.dumps(again.state()) == stored, f"state after {at} bins is not kept"
        assert _asked(made, horizon) == _asked(again, horizon), f"after {at} bins it says another"
        assert _told(made, series[at:], at) == _told(again, series[at:], at), (
            f"stored after {at} bins it does not go on bit for bit"
        )
        assert json.dumps(made.state()) == json.dumps(again.state())


def _does_not_peek(make: Callable[[], Any], horizon: int) -> None:
    """Check that what comes later changes nothing of what was said."""
    series = _plain()
    one, other = make(), make()
    one.fit(series[:110])
    other.fit(series[:110])
    future = [x * 50 + 3 if math.isfinite(x) else x for x in series[110:]]
    kept = [_asked(one, horizon), _asked(other, horizon)]
    assert kept[0] == kept[1]
    for k, x in enumerate(series[110:], 110):
        one.update(k * _STEP_NS, x)
    assert _asked(other, horizon) == kept[1], "one forecaster learns from what another is told"
    for k, x in enumerate(future, 110):
        other.update(k * _STEP_NS, x)


def _survives_clocks(make: Callable[[], Any], horizon: int) -> None:
    """Check that times that stand still, jump ahead or go back do no harm."""
    made = make()
    for at in (0, 1, 2, 2, 2, 900, 901, 5, 6, 7, 10_000_000, -4, 10**9):
        made.update(at * _STEP_NS, 3.0)
        _check(_asked(made, horizon), f"a clock at {at} minutes")
