"""The facts of a report as plain data: what the page shows and what findings.json holds."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.compute as pc

from rotameter.profiler.usage import usage
from rotameter.units import many
from rotameter.values import to_dict
from rotameter.viz.columns import codes, spans
from rotameter.viz.devices import devices
from rotameter.viz.formats import clip, plain
from rotameter.viz.incidents import incidents
from rotameter.viz.matrix import pairs
from rotameter.viz.overview import overview
from rotameter.viz.provenance import never_measured
from rotameter.viz.sections.configuration import configuration
from rotameter.viz.sections.gather import sections
from rotameter.viz.tables import failures, groups, workers

if TYPE_CHECKING:
    from rotameter.profiler.storing.advice import Advice
    from rotameter.profiler.trace import Trace
    from rotameter.values import Verdict

__all__ = ["findings_document"]

TEXT_LIMIT = 4_000
_DROPPED = (
    "records were dropped: they could not be written in time, or at all; sums are low by them."
)
_UTC_FROM_NS = 10**17  # 1973: anything before is not a time since the epoch


def _clean(value: Any) -> Any:
    """Make a value fit for JSON: finite numbers, text that can be encoded, no foreign types."""
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, np.generic):
        return _clean(value.item())
    if isinstance(value, Mapping):
        return {clip(key, 200): _clean(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        items = sorted(value, key=str) if isinstance(value, (set, frozenset)) else value
        return [_clean(item) for item in items]
    text = str(value).encode("utf-8", "replace").decode("utf-8")
    return text if len(text) <= TEXT_LIMIT else clip(text, TEXT_LIMIT)


def _run(trace: Trace, group_rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Give what the run was: when, how many, how it ended."""
    tasks = trace.table("tasks")
    when = spans(trace)
    outcome, names = codes(tasks, "outcome")
    amounts = np.bincount(outcome + 1, minlength=len(names) + 1).tolist()
    outcomes = {
        clip(name, 40): n for name, n in zip(["unknown", *names], amounts, strict=True) if n
    }
    if "unknown" in names:
        outcomes["unknown"] = amounts[0] + amounts[names.index("unknown") + 1]
    facts = trace.meta.get("run")
    facts = facts if isinstance(facts, dict) else {}
    first, last = when.first_ns, when.last_ns
    absolute = first is not None and first > _UTC_FROM_NS
    span_s = None if first is None or last is None else round((last - first) / 1e9, 6)
    return {
        "status": facts.get("status"),
        "error": facts.get("error"),
        "exit_code": facts.get("exit_code"),
        "engine": trace.meta.get("engine"),
        "origin": trace.meta.get("origin"),
        "started_utc": _utc(first) if absolute and first is not None else None,
        "span_s": span_s,
        "tasks": sum(row["tasks"] for row in group_rows),
        "attempts": tasks.num_rows,
        "failed": sum(row["failed"] for row in group_rows),
        "retries": sum(row["retries"] for row in group_rows),
        "recomputed": sum(row["recomputed"] for row in group_rows),
        "nested": sum(row["nested"] for row in group_rows),
        "with_times": int(when.known.sum()),
        "without_end": int(when.open.sum()),
        "outcomes": dict(sorted(outcomes.items())),
    }


def _utc(at_ns: int) -> str | None:
    try:
        return datetime.fromtimestamp(at_ns // 10**9, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (OverflowError, OSError, ValueError):
        return None


def _provenance(trace: Trace) -> dict[str, Any]:
    meta = trace.meta
    keys = (
        "schema",
        "origin",
        "engine",
        "importer",
        "time_base",
        "command",
        "versions",
        "machines",
        "segments",
        "records",
        "dropped",
        "overhead",
        "not_measured",
        "levels",
        "scale",
        "warnings",
    )
    facts = {key: meta.get(key) for key in keys}
    facts["warnings"] = list(trace.warnings)
    facts["levels"] = meta.get("levels") or _steps(trace)
    said = [*_listed(meta.get("not_measured")), *_found_missing(trace)]
    facts["not_measured"] = said
    rejects = trace.table("rejects")
    facts["rejected"] = rejects.num_rows
    facts["rejected_examples"] = rejects.slice(0, 20).to_pylist()
    return facts


def _steps(trace: Trace) -> list[str] | None:
    """Say from which groups the tracer took less, where it noted that."""
    events = trace.table("events")
    events = events.filter(pc.equal(events["kind"], "level_changed"))
    distinct = events.group_by(["group", "reason"], use_threads=False).aggregate(
        [([], "count_all")]
    )
    return [
        plain(row["reason"] or f"{row['group'] or 'all tasks'}: time and CPU only")
        for row in distinct.to_pylist()
    ] or None


def _found_missing(trace: Trace) -> list[dict[str, Any]]:
    """Give what turned out not to be measurable while the run went on."""
    events = trace.table("events")
    events = events.filter(pc.equal(events["kind"], "not_measured")).select(["text", "reason"])
    distinct = events.group_by(["text", "reason"], use_threads=False).aggregate([]).to_pylist()
    return [{"what": row["text"], "reason": row["reason"]} for row in distinct if row["text"]]


def _listed(value: Any) -> list[Any]:
    if isinstance(value, (list, tuple)):
        return list(value)
    return [] if value is None else [value]


def _losses(
    trace: Trace, run: dict[str, Any], happened: list[dict[str, Any]], missing: list[Any]
) -> list[str]:
    """Say in words what the record lacks."""
    meta = trace.meta
    lost = []
    dropped = meta.get("dropped")
    if isinstance(dropped, int) and dropped:
        lost.append(f"{dropped:,} {_DROPPED}")
    lost += [plain(text) for text in _listed(meta.get("warnings"))]
    stepped = [i for i in happened if i["kind"] == "level_changed"]
    if stepped:
        where = {i["worker"] for i in stepped if i["worker"]}
        on = f" on {many(len(where), 'worker')}" if where else ""
        why = f" ({stepped[0]['detail']})" if stepped[0]["detail"] else ""
        lost.append(f"The tracer measured less for part of the run{on} to stay cheap{why}.")
    if trace.table("rejects").num_rows:
        refused = trace.table("rejects").num_rows
        were = "was" if refused == 1 else "were"
        # The importer says how many of how many in a warning.
        if not any("records were refused" in str(text) for text in trace.warnings):
            lost.append(f"{many(refused, 'input record')} {were} refused.")
    if run["attempts"] and not run["with_times"]:
        lost.append("No attempt has a start time: no timeline, waiting time or busy share.")
    elif run["attempts"] > run["with_times"]:
        lost.append(f"{_have(run['attempts'] - run['with_times'])} no start time.")
    if run["without_end"]:
        lost.append(f"{_have(run['without_end'])} no recorded end.")
    lost += [
        f"{clip(item.get('what'), 200)} was not measured: {clip(item.get('reason'), 300)}."
        for item in missing
        if isinstance(item, dict) and item.get("reason")
    ]
    return lost


def _have(count: int) -> str:
    return f"{many(count, 'attempt')} {'has' if count == 1 else 'have'}"


def _told(notes: set[str]) -> bool:
    """Say whether the verdict itself speaks of dropped records."""
    return any("records were dropped" in note for note in notes)


def findings_document(
    trace: Trace,
    verdict: Verdict,
    say: Callable[[str], None] = lambda _: None,
    *,
    advice: Advice | None = None,
) -> dict[str, Any]:
    """Give the facts of the report as plain data; every number of the page is in it.

    Parameters
    ----------
    trace : Trace
    verdict : Verdict
    say : callable, optional
        Is told what is being made.
    advice : Advice, optional
        Storage configurations that were priced: ``configuration``.

    Returns
    -------
    dict
        JSON-ready, described by ``findings.schema.json``. Unknown is None. Times are seconds
        from the start of the run.

    Examples
    --------
    >>> from rotameter.profiler.trace import Trace
    >>> from rotameter.values import Verdict
    >>> findings_document(Trace.from_tables({}), Verdict("Nothing ran.", "ok"))["run"]["tasks"]
    0
    """
    say("tables")
    group_rows = groups(trace)
    run = _run(trace, group_rows)
    happened = incidents(trace)
    facts = _provenance(trace)
    said = {plain(note) for note in verdict.notes}
    losses = _losses(trace, run, happened, facts["not_measured"])
    # Those that the tables show are for the provenance: the losses say what went wrong.
    facts["not_measured"] += never_measured(trace, facts["not_measured"])
    document = {
        "schema": 1,
        "verdict": {"sentence": verdict.sentence, "status": verdict.status},
        "figures": [
            {
                "label": figure.label,
                "value": figure.value,
                "unit": figure.unit,
                "text": figure.text,
                "how": figure.how,
            }
            for figure in verdict.figures
        ],
        "findings": [
            {"id": f"F{rank:02d}", "rank": rank, **finding.to_dict()}
            for rank, finding in enumerate(verdict.findings, 1)
        ],
        "together": to_dict(verdict.together),
        "notes": list(verdict.notes),
        "losses": [
            text
            for text in losses
            if text not in said and not (text.endswith(_DROPPED) and _told(said))
        ],
        "run": run,
        "groups": group_rows,
        "failures": failures(trace),
        "workers": workers(trace),
        "pairs": pairs(trace),
        "incidents": happened,
        "overview": overview(trace),
        "usage": usage(trace),
        "devices": devices(trace),
        **sections(trace, say),
        "provenance": facts,
        **({"configuration": configuration(advice)} if advice is not None else {}),
    }
    cleaned: dict[str, Any] = _clean(document)
    return cleaned
