"""What needs all spans of an input: ids of tasks, parents, links between spans, workers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from rotameter.adapters.importers._otlp_spans import Span, safe_id

__all__ = ["Joined", "join"]

_Id = tuple[str | None, str | None]


@dataclass
class Joined:
    """Rows of the tables, and how often something was odd."""

    tasks: list[dict[str, Any]] = field(default_factory=list)
    deps: list[dict[str, Any]] = field(default_factory=list)
    moments: list[dict[str, Any]] = field(default_factory=list)
    samples: list[dict[str, Any]] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)


def join(spans: Sequence[Span]) -> Joined:
    """Turn spans into rows.

    Examples
    --------
    >>> from rotameter.adapters.importers._otlp_spans import Resource
    >>> root = Span("t", "a", None, {"started_ns": 1, "ended_ns": 3}, Resource(), [], [], {})
    >>> leaf = Span("t", "b", "a", {"started_ns": 1, "ended_ns": 2}, Resource(), [], [], {})
    >>> [(row["task_id"], row["parent"]) for row in join([root, leaf]).tasks]
    [('a', None), ('b', 'a')]
    """
    made = Joined()
    by_id: dict[_Id, int] = {}
    by_span: dict[str | None, list[int]] = {}
    for number, span in enumerate(spans):
        if span.span is None:
            continue
        if (span.trace, span.span) in by_id:
            made.counts["clash"] += 1
        by_id.setdefault((span.trace, span.span), number)
        by_span.setdefault(span.span, []).append(number)
    ids = [_task_id(span, by_span, spans) for span in spans]
    parents = _parents(spans, by_id, by_span, made.counts)
    workers = _workers(spans)
    seen: set[tuple[str, str]] = set()
    for number, span in enumerate(spans):
        orphan = parents[number] == _MISSING
        parent = ids[parents[number]] if parents[number] >= 0 else None
        made.counts["early"] += _begins_before(span, parents[number], spans)
        row = {"task_id": ids[number], "parent": parent, "worker": workers[number], **span.row}
        made.tasks.append(row)
        made.counts["open"] += row.get("ended_ns") is None
        made.counts["unstarted"] += row.get("started_ns") is None
        made.counts["old"] += (row.get("started_ns") or _OLD_NS) < _OLD_NS
        _hang_on(made, row, span, orphan and "parent" not in span.row)
        for target in _targets(span, number, spans, by_id, ids, made.counts):
            if target != ids[number] and (ids[number], target) not in seen:
                seen.add((ids[number], target))
                made.deps.append({"task_id": ids[number], "depends_on": target})
    return made


_ROOT, _MISSING = -1, -2
_NEAR_NS = 5_000_000  # clocks of one network keep together to some milliseconds
_OLD_NS = 10**17  # 1973: in ms and us, times of today come before it


def _begins_before(span: Span, parent: int, spans: Sequence[Span]) -> bool:
    """Say whether a span begins before its parent, by more than clocks are apart anyway."""
    begun = span.row.get("started_ns")
    since = spans[parent].row.get("started_ns") if parent >= 0 else None
    return begun is not None and since is not None and begun < since - _NEAR_NS


def _task_id(span: Span, by_span: dict[str | None, list[int]], spans: Sequence[Span]) -> str:
    if span.named is not None:
        return span.named
    same = by_span[span.span]
    if len(same) > 1 and any(spans[n].trace != span.trace for n in same):
        return f"{span.trace}:{span.span}"
    return str(span.span)


def _find(
    trace: str | None,
    span: str | None,
    by_id: dict[_Id, int],
    by_span: dict[str | None, list[int]],
) -> int:
    """Give the number of a span, by both ids, or by its own where no trace id is given."""
    found = by_id.get((trace, span))
    if found is None and trace is None and len(by_span.get(span, ())) == 1:
        return by_span[span][0]
    return _MISSING if found is None else found


def _parents(
    spans: Sequence[Span],
    by_id: dict[_Id, int],
    by_span: dict[str | None, list[int]],
    counts: Counter[str],
) -> list[int]:
    found = []
    for span in spans:
        if span.parent is None:
            found.append(_ROOT)
            continue
        number = _find(span.trace, span.parent, by_id, by_span)
        counts["orphan"] += number == _MISSING and "parent" not in span.row
        found.append(number)
    return _without_cycles(found, counts)


def _without_cycles(parents: list[int], counts: Counter[str]) -> list[int]:
    """Make a root of one span of each circle."""
    done = [False] * len(parents)
    for first in range(len(parents)):
        path: set[int] = set()
        at = first
        while at >= 0 and not done[at]:
            path.add(at)
            if parents[at] in path:
                parents[at] = _ROOT
                counts["cycle"] += 1
            at = parents[at]
        for number in path:
            done[number] = True
    return parents


def _workers(spans: Sequence[Span]) -> list[str | None]:
    """Give the service of each span, with its instance where a service has several."""
    instances: dict[str | None, set[str | None]] = {}
    for span in spans:
        instances.setdefault(span.resource.service, set()).add(span.resource.instance)
    names = []
    for span in spans:
        service, instance = span.resource.service, span.resource.instance
        several = len(instances[service]) > 1 and instance
        names.append(f"{service}/{instance}" if several and service else service)
    return names


def _targets(
    span: Span,
    number: int,
    spans: Sequence[Span],
    by_id: dict[_Id, int],
    ids: Sequence[str],
    counts: Counter[str],
) -> list[str]:
    """Give the tasks that a span depends on: those it links to, if they began before it."""
    found = []
    for trace, target, own in span.links:
        if own is not None:  # written by our exporter
            found.append(safe_id(own))
            continue
        other = by_id.get((trace if trace is not None else span.trace, target))
        if other is None:
            counts["outside"] += 1
            continue
        starts = (spans[other].row.get("started_ns"), span.row.get("started_ns"))
        if None not in starts and (starts[0], other) < (starts[1], number):
            found.append(ids[other])  # by this order there are no circles
        else:
            counts["later"] += other != number
    return found


def _hang_on(made: Joined, row: dict[str, Any], span: Span, orphan: bool) -> None:
    """Add what hangs on a span: its moments, its numbers, the flag of a missing parent."""
    for at, name in span.moments:
        made.moments.append(
            {
                "task_id": row["task_id"],
                "attempt": row.get("attempt"),
                "run_id": row.get("run_id"),
                "worker": row["worker"],
                "kind": "span",
                "name": name,
                "start_ns": at,
                "end_ns": at,
            }
        )
    at_ns = row.get("started_ns")
    numbers = {**span.numbers, **({"parent_missing": 1.0} if orphan else {})}
    for metric, value in numbers.items():
        made.samples.append(
            {"at_ns": at_ns, "subject": row["task_id"], "metric": metric, "value": value}
        )
