"""Where the numbers of a report come from, in words."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

import numpy as np

from rotameter.profiler.groups import moved
from rotameter.profiler.view import view
from rotameter.units import many
from rotameter.viz.columns import floats
from rotameter.viz.formats import clip, count, ratio, seconds, size

if TYPE_CHECKING:
    from rotameter.profiler.trace import Trace

__all__ = ["never_measured", "provenance_rows"]

SHOWN = 30


def _some(items: list[str], what: str) -> list[str]:
    if len(items) <= SHOWN:
        return items
    return [*items[:SHOWN], f"and {len(items) - SHOWN:,} more {what} (in the findings file)"]


def _pairs(value: Any) -> list[str]:
    if isinstance(value, dict):
        return _some([f"{clip(k, 60)}: {clip(v, 200)}" for k, v in value.items()], "entries")
    return [] if value in (None, [], "") else [clip(value, 400)]


def _machine(machine: Any) -> str:
    if not isinstance(machine, dict):
        return clip(machine, 200)
    cores, memory = machine.get("cores"), machine.get("memory_bytes")
    parts = [
        clip(machine.get("host") or "unnamed host", 100),
        f"{count(cores)} cores" if isinstance(cores, (int, float)) else "cores not known",
        size(memory) if isinstance(memory, (int, float)) else "memory not known",
        clip(machine.get("system") or "", 100),
    ]
    return ", ".join(part for part in parts if part)


def _missing(item: Any) -> str:
    if not isinstance(item, dict):
        return clip(item, 300)
    text = f"{clip(item.get('what'), 200)}: {clip(item.get('reason') or 'no reason given', 300)}"
    return f"{text}; {clip(item['enable'], 200)}" if item.get("enable") else text


def _overhead(overhead: Any, task_time_s: float | None) -> list[str]:
    """Say what the tracer itself cost, against the task time it watched."""
    if not isinstance(overhead, dict) or not overhead:
        return ["not recorded"]
    lines = []
    for key, value in overhead.items():
        known = isinstance(value, (int, float)) and not isinstance(value, bool)
        if known and key.endswith("_s"):
            part = f" ({ratio(value / task_time_s)} of task time)" if task_time_s else ""
            lines.append(f"{clip(key[:-2], 60).replace('_', ' ')}: {seconds(value)}{part}")
        else:
            lines.append(f"{clip(key, 60)}: {clip(value, 100)}")
    return lines


def _segments(number: Any) -> str:
    return many(number, "segment") if isinstance(number, int) else f"{count(number)} segments"


def _levels(levels: Any) -> list[str]:
    if isinstance(levels, list):
        return ["everything, then less to stay cheap:", *_some([clip(x, 300) for x in levels], "")]
    return _pairs(levels) or ["no step down was recorded"]


_ZONELESS = ("slurm", "nextflow", "snakemake", "parsl", "table", "dask")
"""Tools that write times of day without saying of which zone."""

_TIME_BASE = {
    "epoch_ns": "nanoseconds since 1970 (UTC), by the clocks of the machines",
    "relative_ns": "from the first time in the record; no calendar time is known",
}


def _imported(facts: dict[str, Any]) -> list[str]:
    """Say what became of the records of a foreign input."""
    counts = facts.get("records") or {}
    said = [
        f"{many(counts.get('in') or 0, 'record')} in {many(facts.get('files') or 0, 'file')}",
        f"{many(counts.get('out') or 0, 'record')} taken",
    ]
    said += [f"{count(counts['merged'])} merged into others"] if counts.get("merged") else []
    return [*said, f"{count(counts.get('rejected'))} refused"]


_COLUMNS = (
    ("submitted_ns", "when tasks were submitted"),
    ("cpu_s", "CPU time of tasks"),
    ("peak_memory_bytes", "peak memory of tasks"),
    ("read_bytes", "bytes read by tasks"),
    ("write_bytes", "bytes written by tasks"),
    ("output_bytes", "sizes of results"),
    ("received_bytes", "bytes received by tasks"),
    ("gpu_s", "GPU time"),
    ("energy_j", "energy"),
)


def never_measured(trace: Trace, said: list[Any]) -> list[dict[str, Any]]:
    """Say in plain words which facts no attempt of a trace has, or not all that ran.

    Parameters
    ----------
    trace : Trace
    said : list
        What the trace itself says was not measured; not said twice.
    """
    seen = view(trace)
    ran = int(seen.could_measure.sum())
    told = " ".join(str(item).lower() for item in said)
    found: list[dict[str, Any]] = []
    for column, words in _COLUMNS if ran else ():
        if words.split(" of ")[0].removeprefix("bytes ").lower() in told:
            continue
        if column in ("read_bytes", "write_bytes"):
            values = moved(seen, column.removesuffix("_bytes"))[0]
        else:
            values = floats(seen.tasks, column)
        known = int((~np.isnan(values) & seen.could_measure).sum())
        if known == 0:
            found.append({"what": words, "reason": "no attempt has it"})
        elif known < ran and column in ("cpu_s", "peak_memory_bytes", "read_bytes", "write_bytes"):
            found.append(
                {"what": words, "reason": f"not for {many(ran - known, 'attempt')} of {ran:,}"}
            )
    return found


def provenance_rows(document: dict[str, Any]) -> list[tuple[str, list[str]]]:
    """Give label and texts of each line of the provenance section.

    Parameters
    ----------
    document : dict
        As :func:`rotameter.viz.document.findings_document` gives it.
    """
    facts, run = document["provenance"], document["run"]
    command = facts["command"]
    line = shlex.join(map(str, command)) if isinstance(command, list) else command
    task_time_s = sum(g["total_wall_s"] or 0.0 for g in document["groups"]) or None
    base = str(facts["time_base"]) if facts["time_base"] is not None else None
    machines = facts["machines"] if isinstance(facts["machines"], list) else []
    missing = facts["not_measured"] if isinstance(facts["not_measured"], list) else []
    rejected = [
        f"{clip(r['source'] or 'input', 100)}, line {r['line'] if r['line'] is not None else '?'}: "
        f"{clip(r['reason'] or 'no reason recorded', 200)}"
        for r in facts["rejected_examples"]
    ]
    imported = facts["importer"] if isinstance(facts["importer"], dict) else None
    records = (
        _imported(imported)
        if imported
        else [
            f"{count(facts['records'])} in {_segments(facts['segments'])}",
            f"{count(facts['dropped'])} dropped",
            f"{count(facts['rejected'])} refused",
        ]
    )
    outcomes = [f"{count(n)} {name.replace('_', ' ')}" for name, n in run["outcomes"].items()]
    engine = facts["engine"] or ("python" if facts["origin"] == "recorded" else None)
    started = run["started_utc"] or "not known"
    if imported and not run["started_utc"] and base == "relative_ns":
        started = "not known: the times are relative"
        if facts["engine"] in _ZONELESS:
            started = "not known: the times carry no zone (--utc-offset says which)"
    origin = clip(facts["origin"] or "unknown", 60)
    origin += f", engine {clip(engine, 60)}" if engine else ", engine not recorded"
    rows: list[tuple[str, list[str]]] = [
        ("Command", [clip(line, 600)] if line else ["not recorded"]),
        ("Started", [started]),
        ("Origin", [origin]),
        ("Versions", _pairs(facts["versions"]) or ["not recorded"]),
        ("Machines", _some([_machine(m) for m in machines], "machines") or ["not recorded"]),
        ("Records", [*records, *rejected]),
        ("Outcomes", outcomes or ["no attempt"]),
        *([] if imported else [("Cost of the tracer", _overhead(facts["overhead"], task_time_s))]),
        ("Not measured", _some([_missing(m) for m in missing], "entries") or ["nothing listed"]),
        ("Tracer levels", _levels(facts["levels"])),
        ("Time base", [_TIME_BASE.get(base or "", base or "not recorded")]),
        ("Warnings", _some([clip(w, 500) for w in facts["warnings"]], "warnings") or ["none"]),
    ]
    if imported:  # Nothing of ours ran there: no level, and no word where the input has none.
        absent = {"Tracer levels"} | (
            set() if run["span_s"] is not None else {"Time base", "Started"}
        )
        rows = [row for row in rows if row[0] not in absent and row[1] != ["not recorded"]]
    scale = _pairs(facts["scale"])
    return [*rows, ("Scale", scale)] if scale else rows
