"""All sections of a report: the facts of those that can be made, the reasons for the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rotameter.viz.sections.flow import data_flow
from rotameter.viz.sections.io import io_over_time
from rotameter.viz.sections.path import path_of_run
from rotameter.viz.sections.requests import memory_requests
from rotameter.viz.sections.sizing import sizing
from rotameter.viz.sections.waste import what_was_held

if TYPE_CHECKING:
    from rotameter.profiler.trace import Trace

__all__ = ["BROKEN", "SECTIONS", "TABLES", "TITLES", "sections"]

BROKEN = "could not be made"
SECTIONS: dict[str, Callable[[Trace], dict[str, Any] | str]] = {
    "flow": data_flow,
    "critical_path": path_of_run,
    "memory_requests": memory_requests,
    "io": io_over_time,
    "waste": what_was_held,
}
"""Those that are drawn; their facts go to the browser."""

TABLES: dict[str, Callable[[Trace], dict[str, Any] | str]] = {"sizing": sizing}
"""Those that are a table and no drawing."""

TITLES = {
    "flow": "Data flow",
    "critical_path": "Critical path",
    "memory_requests": "Memory: request against peak",
    "io": "Reading and writing over time",
    "waste": "What was held, and where it went",
    "sizing": "Sizing: what to ask for, and why",
}


def sections(trace: Trace, say: Callable[[str], None] = lambda _: None) -> dict[str, Any]:
    """Give the facts of each section, None where there are none, and ``left_out``: why.

    A section that fails is left out and said to be broken: the rest of the page is worth more.

    Parameters
    ----------
    trace : Trace
    say : callable, optional
        Is told the title of each section before it is made.

    Examples
    --------
    >>> from rotameter.profiler.trace import Trace
    >>> made = sections(Trace.from_tables({}))
    >>> made["flow"] is None, made["left_out"][1]["section"], made["left_out"][1]["reason"]
    (True, 'critical_path', 'no task has times: no critical path of the run')
    """
    made: dict[str, Any] = {}
    left_out = []
    for name, make in {**SECTIONS, **TABLES}.items():
        say(TITLES[name].lower())
        try:
            facts = make(trace)
        except Exception as error:
            facts = f"{BROKEN} ({type(error).__name__}); please report this"
        if isinstance(facts, str):
            left_out.append({"section": name, "title": TITLES[name], "reason": facts})
        made[name] = None if isinstance(facts, str) else facts
    if made["memory_requests"] is not None:
        _advised(made["memory_requests"]["groups"], (made["sizing"] or {"groups": []})["groups"])
    return {**made, "left_out": left_out}


def _advised(drawn: list[dict[str, Any]], sized: list[dict[str, Any]]) -> None:
    """Put what each group should ask for beside its peaks: the drawing shows both."""
    known: dict[str | None, int | None] = {}
    for row in sized:
        # Long names are clipped: of two that then read alike neither is known.
        known[row["group"]] = None if row["group"] in known else row["request_bytes"]
    for row in drawn:
        row["advised_bytes"] = known.get(row["group"])
