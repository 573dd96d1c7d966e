"""What every allocator must do: the conformance kit for ``rotameter.allocators``."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from typing import Any

from rotameter.allocator.answers import trouble
from rotameter.allocator.needs import Record, Task, View
from rotameter.values import Hold

__all__ = ["check_allocator", "trouble_with"]

GB = 1e9
_TRIES = 64
_ODD = (0.0, -1.0, math.nan, math.inf, None, "4 GB", True)


def check_allocator(
    make: Callable[[Mapping[str, float]], Any], *, most_bytes: float = 64 * GB, limit_s: float = 0.1
) -> None:
    """Check an allocator of memory.

    Parameters
    ----------
    make : callable
        Gives a fresh one, told what the largest worker has by resource.
    most_bytes : float
    limit_s : float
        CPU time of the thread within which a single call must come back.

    Raises
    ------
    AssertionError
        Saying what it does wrong.
    """
    found = trouble_with(make, most_bytes=most_bytes, limit_s=limit_s)
    assert not found, found


def trouble_with(
    make: Callable[[Mapping[str, float]], Any], *, most_bytes: float = 64 * GB, limit_s: float = 0.1
) -> str:
    """Say what an allocator does wrong; empty where nothing was found.

    Examples
    --------
    >>> from rotameter.allocator.default import Default
    >>> trouble_with(Default)
    ''
    """
    most = {"memory_bytes": most_bytes}
    for part in (_quick, _sizes, _grows, _other_ends, _odd_readings, _holds):
        try:
            found = part(make(most), most_bytes, limit_s)
        except Exception as error:
            found = f"raises {type(error).__name__}: {error}"
        if found:
            return f"{part.__doc__.split('.')[0].lower()}: {found}" if part.__doc__ else found
    return ""


def _done(name: str, need: Any, wall: Any = 10.0, group: str = "g") -> Record:
    return Record(name, group, "ok", {"memory_bytes": need}, wall_s=wall)


def _failed(name: str, had: float) -> Record:
    return Record(
        name, "g", "oom", granted={"memory_bytes": had}, exceeded=frozenset({"memory_bytes"})
    )


def _asked(allocator: Any, name: str, group: str = "g") -> Any:
    """Ask as an engine does that has nothing else to run: it may not be held for ever."""
    made = allocator.request(Task(name, group), View())
    if isinstance(made, Hold):
        made = allocator.request(Task(name, group), View(spare=True))
    return made


def _sizes(allocator: Any, most: float, limit_s: float) -> str:
    """Sizes tasks."""
    for number, need in enumerate((1e6, GB, 3 * GB, 2 * GB, 63 * GB, 1e3, GB)):
        found = trouble(_asked(allocator, f"t{number}"), most, hold=False)
        if found:
            return found
        allocator.observe(_done(f"t{number}", need))
    explained = allocator.explain(Task("x", "g"))
    return "" if isinstance(explained, str) and explained else "explain gives no words"


def _grows(allocator: Any, most: float, limit_s: float) -> str:
    """Grows after a failure."""
    for learnt in range(4):
        name = f"grow{learnt}"
        had = float(_asked(allocator, name).memory_bytes)
        for _ in range(_TRIES):
            if had >= most:
                break
            made = allocator.exceeded(Task(name, "g"), _failed(name, had))
            found = trouble(made, most, above=had, hold=False)
            if found:
                return found
            had = float(made.memory_bytes)
        if had < most:
            return f"is at {had:,.0f} bytes after {_TRIES} failures"
        allocator.observe(_done(name, GB * (1 + learnt)))
    return ""


def _other_ends(allocator: Any, most: float, limit_s: float) -> str:
    """Enlarges nothing for pre-emption or a lost worker."""
    for number in range(12):
        _asked(allocator, f"t{number}")
        allocator.observe(_done(f"t{number}", GB))
    before = float(_asked(allocator, "x").memory_bytes)
    for outcome in ("preempted", "worker_lost", "cancelled", "failed"):
        allocator.observe(Record("x", "g", outcome, {"memory_bytes": 0.2 * GB}))
    after = float(_asked(allocator, "x").memory_bytes)
    return f"{before:,.0f} became {after:,.0f} bytes" if after > before else ""


def _odd_readings(allocator: Any, most: float, limit_s: float) -> str:
    """Survives readings that are no amounts."""
    for number, odd in enumerate(_ODD):
        _asked(allocator, f"odd{number}")
        allocator.observe(_done(f"odd{number}", odd))
        allocator.observe(_done(f"wall{number}", GB, odd))
        allocator.observe(Record(f"none{number}", "g", "ok"))
        found = trouble(_asked(allocator, f"next{number}"), most, hold=False)
        if found:
            return found
    return ""


def _holds(allocator: Any, most: float, limit_s: float) -> str:
    """Start something where nothing runs."""
    for group in ("g", "h"):
        made = allocator.request(Task("first", group), View(spare=True))
        if isinstance(made, Hold):
            return "the first task of a group is held"
        allocator.observe(Record("first", group, "ok"))
    return ""


def _quick(allocator: Any, most: float, limit_s: float) -> str:
    """Answers in time."""
    for number in range(60):
        began = time.thread_time()
        _asked(allocator, f"t{number}")
        allocator.observe(_done(f"t{number}", GB * (1 + number % 7)))
        took = time.thread_time() - began
        if took > limit_s:
            return f"a decision took {took:.3f} s"
    return ""
