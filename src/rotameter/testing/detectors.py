"""What every detector of change points must do: the conformance kit for ``rotameter.detectors``."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Iterable
from typing import Any

from rotameter.protocols import Detector
from rotameter.values import Change

__all__ = ["check_detector", "detector_trouble"]

_BEFORE, _AFTER = 300, 120
_ODD = (math.nan, math.inf, -math.inf, -1.0, -1e300, 1e300, 1e-300, 0.0, -0.0, 0, True)
_SECOND = 1_000_000_000


def check_detector(make: Callable[[], Any]) -> None:
    """Check a detector of change points.

    Parameters
    ----------
    make : callable
        Gives a fresh one; its class has ``from_state``.

    Raises
    ------
    AssertionError
        Saying what it does wrong.
    """
    found = detector_trouble(make)
    assert not found, found


def detector_trouble(make: Callable[[], Any]) -> str:
    """Say what a detector does wrong; empty where nothing was found.

    Examples
    --------
    >>> from rotameter.forecasting.changes.cusum import Cusum
    >>> detector_trouble(Cusum)
    ''
    """
    for part in (_finds, _repeats, _keeps, _unit_free, _odd_values, _odd_times, _quiet):
        try:
            found = part(make)
        except Exception as error:
            found = f"raises {type(error).__name__}: {error}"
        if found:
            return f"{part.__doc__.split('.')[0].lower()}: {found}" if part.__doc__ else found
    return ""


def _stream(seed: int, *levels: tuple[int, int]) -> list[int]:
    """Give counts whose variance is about twice their mean, with one level after the other."""
    draw = random.Random(seed)
    return [
        round(draw.gammavariate(level / 2.0, 2.0))
        for level, length in levels
        for _ in range(length)
    ]


def _shifting(seed: int = 1) -> list[int]:
    return _stream(seed, (20, _BEFORE), (70, _AFTER), (25, _AFTER))


def _run(watch: Any, values: Iterable[Any], *, since: int = 0) -> list[tuple[int, Change]]:
    found = []
    for step, x in enumerate(values, since):
        change = watch.update(step * _SECOND, x)
        if change is not None:
            found.append((step, change))
    return found


def _wrong(change: Any, step: int) -> str:
    if not isinstance(change, Change):
        return f"gives a {type(change).__name__}, no Change"
    at_ns: Any = change.at_ns
    if not isinstance(at_ns, int) or at_ns % _SECOND or not 0 <= at_ns <= step * _SECOND:
        return f"at value {step} it finds a change at {at_ns!r} ns, which was not given"
    for level in (change.before, change.after):
        if level is not None and not math.isfinite(level):
            return f"a level is {level!r}"
    sure = change.confidence
    return "" if sure is None or 0.0 <= sure <= 1.0 else f"a confidence of {sure!r}"


def _finds(make: Callable[[], Any]) -> str:
    """Find a level that is three times as high."""
    watch = make()
    if not isinstance(watch, Detector):
        return "has no update(at_ns, x)"
    found = _run(watch, _shifting())
    for step, change in found:
        wrong = _wrong(change, step)
        if wrong:
            return wrong
    for begin in (_BEFORE, _BEFORE + _AFTER):
        if not any(begin <= step < begin + _AFTER // 2 for step, _ in found):
            return f"nothing within {_AFTER // 2} values of the change at value {begin}"
    return ""


def _repeats(make: Callable[[], Any]) -> str:
    """Repeats itself exactly."""
    one, two = (_run(make(), _shifting()) for _ in range(2))
    return "" if one == two else "two fresh ones differ on the same values"


def _keeps(make: Callable[[], Any]) -> str:
    """Goes on from its state bit by bit."""
    values = _shifting()
    for cut in (0, 1, 11, 40, _BEFORE + 3, _BEFORE + 30):
        first = make()
        _run(first, values[:cut])
        kept = first.state()
        text = json.dumps(kept, allow_nan=False)
        second = type(first).from_state(json.loads(text))
        if json.dumps(second.state(), allow_nan=False) != text:
            return f"after {cut} values the state of what was made from it differs"
        ends = [_run(watch, values[cut:], since=cut) for watch in (first, second)]
        if ends[0] != ends[1]:
            return f"after {cut} values what was made from the state finds other changes"
        if json.dumps(first.state()) != json.dumps(second.state()):
            return f"states differ at the end when cut after {cut} values"
    return ""


def _unit_free(make: Callable[[], Any]) -> str:
    """Is free of units."""
    values = _shifting(3)
    plain = [(step, change.at_ns) for step, change in _run(make(), values)]
    for factor in (100, 0.001):
        other = [(s, c.at_ns) for s, c in _run(make(), [x * factor for x in values])]
        if other != plain:
            return f"the values times {factor} give other changes"
    return ""


def _odd_values(make: Callable[[], Any]) -> str:
    """Survives values that are no measurements."""
    for place in (0, 5, 60, _BEFORE):
        watch, values = make(), [float(x) for x in _shifting()]
        for at, odd in enumerate(_ODD):
            values.insert(place + at, float(odd))
        for step, change in _run(watch, values):
            wrong = _wrong(change, step)
            if wrong:
                return wrong
        json.dumps(watch.state(), allow_nan=False)
        more = _run(watch, _stream(5, (20, 700), (90, 300)), since=len(values))
        if not any(step >= len(values) + 700 for step, _ in more):
            return f"after odd values at {place} it finds nothing any more"
    return ""


def _odd_times(make: Callable[[], Any]) -> str:
    """Survives times that stand still or go back."""
    values = _shifting()
    for times in (
        [0] * len(values),
        [max(0, step - 50 * (step % 7 == 0)) * _SECOND for step in range(len(values))],
        [(len(values) - step) * _SECOND for step in range(len(values))],
    ):
        watch, found = make(), 0
        for at, x in zip(times, values, strict=True):
            found += watch.update(at, x) is not None
        if not found:
            return "finds nothing"
    return ""


def _quiet(make: Callable[[], Any]) -> str:
    """Is quiet where nothing changes."""
    for level in (0.0, 7.0, -3.5):
        if _run(make(), [level] * 2000):
            return f"finds a change where all values are {level}"
    found = len(_run(make(), _stream(7, (20, 5000))))
    return f"{found} changes in 5,000 values of one kind" if found > 10 else ""
