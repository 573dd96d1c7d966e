"""rotameter measures a workflow and sets it.

The public names are loaded on first use, so that ``import rotameter`` costs next to nothing in a
program that may never open a trace.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rotameter import errors as errors
    from rotameter.api import Run as Run
    from rotameter.api import dask as dask
    from rotameter.api import diagnose as diagnose
    from rotameter.api import open as open
    from rotameter.api import report as report
    from rotameter.api import trace as trace
    from rotameter.profiler.live.tracer import span as span
    from rotameter.profiler.live.tracer import task as task
    from rotameter.profiler.trace import Trace as Trace

__all__ = [
    "Run",
    "Trace",
    "dask",
    "diagnose",
    "errors",
    "open",
    "report",
    "span",
    "task",
    "trace",
]

__version__ = "0.1.0"

_HOMES = {
    "Run": "rotameter.api",
    "Trace": "rotameter.profiler.trace",
    "dask": "rotameter.api",
    "diagnose": "rotameter.api",
    "open": "rotameter.api",
    "report": "rotameter.api",
    "span": "rotameter.profiler.live.tracer",
    "task": "rotameter.profiler.live.tracer",
    "trace": "rotameter.api",
}


def __getattr__(name: str) -> Any:
    if name == "errors":
        return import_module("rotameter.errors")
    if name in _HOMES:
        value = getattr(import_module(_HOMES[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'rotameter' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
