"""Critical path: what the end of the run waited for, summed by group and kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rotameter.profiler.flow.critical import KINDS, critical_path, waterfall
from rotameter.profiler.usage import is_job_log
from rotameter.profiler.view import view
from rotameter.viz.formats import clip

if TYPE_CHECKING:
    from rotameter.profiler.trace import Trace

__all__ = ["KIND_WORDS", "path_of_run"]

KIND_WORDS = {
    "compute": "running",  # A task ran; how much of that it computed, CPU time tells.
    "read": "reading",
    "write": "writing",
    "transfer": "transfer between workers",
    "spill": "spilling to disk",
    "queue": "waiting for a slot",
    "retry": "earlier attempts of the same task",
    "wait_client": "not yet submitted",
    "other": "other or not known",
}


def path_of_run(trace: Trace) -> dict[str, Any] | str:
    """Give the realised critical path: seconds by kind, and by group and kind.

    Parameters
    ----------
    trace : Trace

    Returns
    -------
    dict or str
        ``parts`` sum to ``makespan_s``, groups below 1 % of it as group None with ``rest``; or
        why there is no path.

    Examples
    --------
    >>> from rotameter.profiler.trace import Trace
    >>> task = {"task_id": "a", "group": "g", "started_ns": 0, "ended_ns": 2 * 10**9}
    >>> path = path_of_run(Trace.from_tables({"tasks": [task]}))
    >>> path["makespan_s"], [(p["group"], p["kind"], p["seconds"]) for p in path["parts"]]
    (2.0, [('g', 'compute', 2.0)])
    """
    if is_job_log(view(trace)):
        return "jobs of a log are no run whose end waited for something"
    path = critical_path(trace)
    if path.makespan_s is None or not path.segments:
        return path.notes[0] if path.notes else "no task has times"
    if path.makespan_s <= 0:
        return "the run took no time"
    return {
        "makespan_s": path.makespan_s,
        "segments": len(path.segments),
        "kinds": [
            {
                "kind": kind,
                "words": KIND_WORDS[kind],
                "seconds": path.by_kind[kind],
                "ratio": path.by_kind[kind] / path.makespan_s,
            }
            for kind in KINDS
            if kind in path.by_kind
        ],
        "parts": [
            {**part, "group": None if part["group"] is None else clip(part["group"], 200)}
            for part in waterfall(path)
        ],
        "notes": list(path.notes),
    }
