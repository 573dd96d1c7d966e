"""The checks that every plug-in of a kind must pass; raise `AssertionError` where one fails.

Use them in your own tests: ``check_advisor(MyAdvisor())``.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from rotameter.protocols import Advisor, Probe, Tools

if TYPE_CHECKING:
    from rotameter.profiler.trace import Trace

__all__ = ["check_advisor", "check_probe", "partial_traces"]

_SEVERITIES = ("critical", "warning", "info")


def partial_traces() -> Iterator[tuple[str, Trace]]:
    """Give traces that lack something: an advisor must say what it can and never raise."""
    from rotameter.profiler.trace import Trace

    second = 1_000_000_000
    full = [
        {
            "task_id": f"t{i}",
            "group": f"g{i % 3}",
            "worker": f"w{i % 2}",
            "attempt": 1,
            "ready_ns": i * second,
            "started_ns": i * second,
            "ended_ns": (i + 2) * second,
            "wall_s": 2.0,
            "outcome": "ok",
        }
        for i in range(12)
    ]
    yield "nothing", Trace.from_tables({})
    yield "one task", Trace.from_tables({"tasks": full[:1]})
    yield "no groups", Trace.from_tables({"tasks": [{**r, "group": None} for r in full]})
    no_times = [{"task_id": r["task_id"], "group": r["group"], "outcome": "ok"} for r in full]
    yield "no times", Trace.from_tables({"tasks": no_times})
    yield "only failures", Trace.from_tables({"tasks": [{**r, "outcome": "failed"} for r in full]})
    yield "no workers", Trace.from_tables({"tasks": [{**r, "worker": None} for r in full]})
    yield (
        "zero span",
        Trace.from_tables({"tasks": [{**r, "ended_ns": r["started_ns"]} for r in full]}),
    )
    yield "plain", Trace.from_tables({"tasks": full})
    hostile = "<script>'\"\n\0🐟" + "x" * 10_000
    yield "hostile", Trace.from_tables({"tasks": [{**r, "group": hostile} for r in full]})


def check_advisor(advisor: Any) -> None:
    """Check an advisor against partial traces, and that it repeats itself exactly.

    Examples
    --------
    >>> from rotameter.profiler.findings.tiny_tasks import Advisor as TinyTasks
    >>> check_advisor(TinyTasks())
    """
    assert isinstance(advisor, Advisor), "an advisor has a name and check(trace, tools)"
    assert advisor.name, "an advisor has a name"
    for label, trace in partial_traces():
        found = advisor.check(trace, Tools())
        again = advisor.check(trace, Tools())
        assert found == again, f"{advisor.name}: two checks of {label!r} differ"
        for finding in found:
            _check_finding(advisor.name, label, finding, trace.makespan_s)


def _check_finding(name: str, label: str, finding: Any, makespan_s: float | None) -> None:
    where = f"{name} on {label!r}"
    assert finding.severity in _SEVERITIES, f"{where}: severity {finding.severity!r}"
    assert finding.title and finding.advice, f"{where}: a finding says what and what to do"
    if finding.cost_s is None:
        assert finding.cost_how, f"{where}: an unknown cost needs a reason in cost_how"
    else:
        assert math.isfinite(finding.cost_s) and finding.cost_s >= 0, f"{where}: {finding.cost_s}"
        limit = (makespan_s or 0.0) * (1 + 1e-9)
        assert finding.cost_s <= limit, f"{where}: saves more than the run lasted"
    json.dumps(finding.to_dict(), allow_nan=False)


def check_probe(probe: Any) -> None:
    """Check that a probe starts, stops and nests, and that its readings can be recorded.

    A reading named as a column of ``tasks`` fills it; any other must be a number (or None) and
    becomes a sample of the task.

    Examples
    --------
    >>> from rotameter.profiler.probes.wall import Probe as Wall
    >>> check_probe(Wall())
    """
    from rotameter.profiler.schema import columns_of

    assert isinstance(probe, Probe), "a probe has start(context) and stop(token)"
    outer = probe.start(None)
    inner = probe.start(None)
    for token in (inner, outer):
        readings = probe.stop(token)
        others = {k: v for k, v in readings.items() if k not in columns_of("tasks")}
        wrong = [k for k, v in others.items() if v is not None and not isinstance(v, (int, float))]
        assert not wrong, f"neither columns of the tasks table nor numbers: {sorted(wrong)}"
