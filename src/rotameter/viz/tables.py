"""The tables of the report: groups, failures and workers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rotameter.profiler.groups import moved
from rotameter.profiler.view import LOSSES, View, view
from rotameter.viz.columns import Floats, Ints, Mask, codes, floats, ints, spans, wall_s
from rotameter.viz.formats import clip

if TYPE_CHECKING:
    from rotameter.profiler.trace import Trace

__all__ = ["failures", "groups", "joint_kind", "workers"]

NAME_LIMIT = 1_000
FINE = ("ok", "cached", "running", "unknown", "rescheduled")
_MOVED = ("read_bytes", "write_bytes")
_SUMMED = {
    "read_bytes": "read_bytes",
    "write_bytes": "write_bytes",
    "received_bytes": "received_bytes",
    "transfer_s": "transfer_s",
    "spill_s": "spill_s",
}


def _sum_known(group: Ints, values: Floats, count: int) -> list[float | None]:
    """Sum what is known per group; None where nothing is."""
    known = ~np.isnan(values)
    totals = np.bincount(group[known], weights=values[known], minlength=count)
    seen = np.bincount(group[known], minlength=count)
    return [
        round(float(t), 6) if n else None
        for t, n in zip(totals.tolist(), seen.tolist(), strict=True)
    ]


def _quantiles(group: Ints, values: Floats, count: int, at: tuple[float, ...]) -> list[Any]:
    """Give quantiles per group, None without any: observed values (nearest rank).

    The median of an even count is the mean of the two in the middle, as everywhere.
    """
    known = np.flatnonzero(~np.isnan(values))
    order = known[np.lexsort((values[known], group[known]))]
    amounts = np.bincount(group[known], minlength=count)
    first = np.concatenate(([0], np.cumsum(amounts)[:-1])) if count else np.zeros(0, np.int64)
    columns: list[Any] = [amounts.tolist()]
    for q in at:
        rank = np.clip(np.ceil(q * amounts).astype(np.int64) - 1, 0, None)
        places = np.where(amounts > 0, first + rank, 0)
        picked = values[order[places]] if len(order) else np.full(count, np.nan)
        if q == 0.5 and len(order):
            upper = np.where(amounts > 0, first + amounts // 2, 0)
            picked = picked + (values[order[upper]] - picked) / 2
        columns.append(
            [float(v) if n else None for v, n in zip(picked, amounts.tolist(), strict=True)]
        )
    return columns


def joint_kind(kinds: set[str]) -> str:
    """Give the kind of a statistic over numbers of several kinds."""
    kinds = kinds - {"missing"}
    if len(kinds) == 1:
        return kinds.pop()
    if not kinds:
        return "missing"
    if kinds <= {"exact", "sampled", "lower_bound"}:
        return "lower_bound"  # sampled readings miss what lies between them
    return "upper_bound" if kinds <= {"exact", "upper_bound"} else "estimate"


def _kinds(tasks: pa.Table, group: Ints, count: int, kind: str, value: str) -> list[str]:
    """Give the joint kind per group of the column that ``kind`` qualifies."""
    number, names = codes(tasks, kind)
    known = np.asarray(pc.is_valid(tasks.column(value)).to_numpy(), dtype=bool)
    label = np.where(number >= 0, number, len(names))
    labels = [*names, "estimate"]
    found: list[set[str]] = [set() for _ in range(count)]
    for pair in np.unique(group[known] * len(labels) + label[known]).tolist():
        found[pair // len(labels)].add(labels[pair % len(labels)])
    return [joint_kind(kinds) for kinds in found]


def _origins(trace: Trace) -> dict[str, str]:
    """Give where each group comes from in the user's code."""
    events = trace.table("events")
    events = events.filter(pc.equal(events["kind"], "group_origin"))
    found: dict[str, str] = {}
    for row in events.select(["group", "file", "line", "text", "span", "layer"]).to_pylist():
        if row["group"] is None:
            continue
        place = f"{row['file']}:{row['line']}" if row["line"] is not None else row["file"]
        parts = [place, row["text"], row["span"] and f"span {row['span']}"]
        if not row["text"] and row["layer"]:
            parts.append(f"layer {row['layer']}")
        text = " · ".join(clip(part, 300) for part in parts if part)
        if text:
            found.setdefault(row["group"], text)
    return found


def _distinct_tasks(tasks: pa.Table, group: Ints, count: int) -> tuple[list[int], ...]:
    """Give tasks, retries (attempts after a lost one) and recomputations per group."""
    name, _ = codes(tasks, "task_id")
    named = name >= 0
    pairs = np.stack([group[named], name[named]])
    _, firsts = np.unique(pairs, axis=1, return_index=True)
    distinct = np.bincount(group[named][firsts], minlength=count)
    unnamed = np.bincount(group[~named], minlength=count)
    attempts = np.bincount(group, minlength=count)
    total = distinct + unnamed
    # What came before an attempt says why there was another one.
    number, known = ints(tasks, "attempt")
    order = np.lexsort((np.where(known, number, 0)[named], *pairs))
    outcome, names = codes(tasks, "outcome")
    lost = np.array([name in LOSSES for name in names] + [False], dtype=bool)[outcome][named][order]
    where = pairs[:, order]
    again = (where[:, 1:] == where[:, :-1]).all(axis=0)
    retries = np.bincount(where[0][1:][again & lost[:-1]], minlength=count)
    return total.tolist(), retries.tolist(), (attempts - total - retries).tolist()


def _failed(tasks: pa.Table) -> Mask:
    outcome, names = codes(tasks, "outcome")
    bad = np.array([name not in FINE for name in names] + [False], dtype=bool)
    return np.asarray(bad[outcome], dtype=bool)


def _cached(tasks: pa.Table) -> Mask:
    outcome, names = codes(tasks, "outcome")
    is_cached = np.array([name == "cached" for name in names] + [False], dtype=bool)
    return np.asarray(is_cached[outcome], dtype=bool)


def groups(trace: Trace) -> list[dict[str, Any]]:
    """Sum up each task group, the one with the most task time first.

    Returns
    -------
    list of dict
        Unknown is None; ``share_ratio`` is the part of the time of attempts that run in no other
        one; ``known`` says how many attempts a sum holds, ``at_least`` which sums are lower
        bounds, ``io_kind`` the kind of the bytes that are none; ``retries`` follow a lost attempt,
        ``recomputed`` one that had ended well; ``total_wall_s`` counts attempts that were not
        cached; p95 are values that were observed;
        ``peak_memory_kind`` qualifies ``p95_peak_memory_bytes``.
    """
    tasks = trace.table("tasks")
    if not tasks.num_rows:
        return []
    code, names = codes(tasks, "group")
    group = np.where(code >= 0, code, len(names))
    count = len(names) + 1
    wall = np.where(_cached(tasks), np.nan, wall_s(tasks))
    cpu_ratio = _cpu_ratio(floats(tasks, "cpu_s"), wall, group, count)
    totals = _sum_known(group, wall, count)
    timed, median, p95 = _quantiles(group, wall, count, (0.5, 0.95))
    memory = _quantiles(group, floats(tasks, "peak_memory_bytes"), count, (0.95, 1.0))
    kinds = _kinds(tasks, group, count, "peak_memory_kind", "peak_memory_bytes")
    io_kinds = {op: _kinds(tasks, group, count, "io_kind", op) for op in _MOVED}
    distinct, retries, recomputed = _distinct_tasks(tasks, group, count)
    attempts = np.bincount(group, minlength=count).tolist()
    failed = np.bincount(group[_failed(tasks)], minlength=count).tolist()
    seen = view(trace)
    sums, known_of, at_least = _sums(seen, tasks, group, count)
    # An attempt inside another one is in that one's time already.
    load = _sum_known(group, np.where(seen.nested, np.nan, wall), count)
    whole = sum(t for t in load if t) or None
    nested = np.bincount(group[seen.nested], minlength=count).tolist()
    origins = _origins(trace)
    found = []
    for i in range(count):
        if not attempts[i]:
            continue
        name = names[i] if i < len(names) else None
        total = totals[i]
        row = {
            "group": None if name is None else clip(name, NAME_LIMIT),
            "tasks": distinct[i],
            "attempts": attempts[i],
            "failed": failed[i],
            "retries": retries[i],
            "recomputed": recomputed[i],
            "nested": nested[i],
            "timed": timed[i],
            "total_wall_s": total,
            "median_wall_s": median[i],
            "p95_wall_s": p95[i],
            "share_ratio": _share(load[i], whole),
            "cpu_ratio": cpu_ratio[i],
            "with_memory": memory[0][i],
            "p95_peak_memory_bytes": _whole(memory[1][i]),
            "max_peak_memory_bytes": _whole(memory[2][i]),
            "peak_memory_kind": kinds[i],
            "io_kind": _io_kind({op: (io_kinds[op][i], at_least[op][i]) for op in _MOVED}),
            "known": {key: amounts[i] for key, amounts in known_of.items()},
            "at_least": [key for key, bound in at_least.items() if bound[i]],
            "origin": origins.get(name or ""),
        }
        row |= {
            key: _whole(values[i]) if key.endswith("_bytes") else values[i]
            for key, values in sums.items()
        }
        found.append(row)
    return sorted(found, key=lambda r: (-(r["total_wall_s"] or 0.0), r["group"] or ""))


def _cpu_ratio(cpu: Floats, wall: Floats, group: Ints, count: int) -> list[float | None]:
    """Give CPU over wall time per group, from the attempts where both are known."""
    both = ~np.isnan(cpu) & ~np.isnan(wall)
    cpu_of = np.bincount(group[both], weights=cpu[both], minlength=count).tolist()
    wall_of = np.bincount(group[both], weights=wall[both], minlength=count).tolist()
    return [round(c / w, 4) if w > 0 else None for c, w in zip(cpu_of, wall_of, strict=True)]


def _share(part: float | None, whole: float | None) -> float | None:
    return None if part is None or not whole else round(part / whole, 6)


def _io_kind(sums: dict[str, tuple[str, bool]]) -> str:
    """Give the kind of read and written bytes, of those that are no lower bound where one is not.

    Which sums are lower bounds ``at_least`` says, so that one of them does not mark the other.
    """
    whole = {kind for kind, at_least in sums.values() if not at_least}
    return joint_kind(whole - {"missing"} or {_bound(*each) for each in sums.values()})


def _bound(kind: str, at_least: bool) -> str:
    """Give the kind of a sum: a lower bound where some of what it should hold is not known."""
    return "lower_bound" if at_least and kind in ("exact", "missing", "sampled") else kind


def _sums(
    seen: View, tasks: pa.Table, group: Ints, count: int
) -> tuple[dict[str, list[float | None]], dict[str, list[int]], dict[str, list[bool]]]:
    """Sum columns per group; how many attempts had a value, and which sums are lower bounds."""
    sums, known_of, at_least = {}, {}, {}
    for key, column in _SUMMED.items():
        values, least = floats(tasks, column), np.zeros(seen.n, dtype=bool)
        if key in _MOVED:
            values, least = moved(seen, key.removesuffix("_bytes"))
        known = ~np.isnan(values)
        amount = np.bincount(group[known], minlength=count)
        lacking = np.bincount(group[seen.could_measure & ~known], minlength=count)
        bound = np.bincount(group[known & least], minlength=count)
        sums[key] = _sum_known(group, values, count)
        known_of[key] = amount.tolist()
        at_least[key] = ((amount > 0) & (lacking + bound > 0)).tolist()
    return sums, known_of, at_least


def _whole(number: float | None) -> int | None:
    return None if number is None else round(number)


def failures(trace: Trace) -> list[dict[str, Any]]:
    """Count the attempts that did not succeed, by group, outcome and error."""
    tasks = trace.table("tasks")
    columns = ["group", "outcome", "outcome_kind", "error"]
    failed = _failed(tasks)
    bad = tasks.filter(pa.array(failed)).select([*columns, "task_id", "worker"])
    if not bad.num_rows:
        return []
    took = pa.array(wall_s(tasks)[failed], from_pandas=True)
    counted = (
        bad.append_column("took", took)
        .group_by(columns, use_threads=False)
        .aggregate(
            [
                ([], "count_all"),
                ("task_id", "min"),
                ("worker", "count_distinct"),
                ("took", "sum"),
                ("took", "count"),
            ]
        )
    )
    rows = [
        {
            "group": None if row["group"] is None else clip(row["group"], NAME_LIMIT),
            "outcome": row["outcome"],
            "inferred": row["outcome_kind"] == "inferred",
            "error": None if row["error"] is None else clip(row["error"], 400),
            "attempts": row["count_all"],
            "wall_s": round(row["took_sum"], 6) if row["took_count"] else None,
            "timed": row["took_count"],
            "workers": row["worker_count_distinct"] or None,
            "example": None if row["task_id_min"] is None else clip(row["task_id_min"], 200),
        }
        for row in counted.to_pylist()
    ]
    return sorted(
        rows, key=lambda r: (-r["attempts"], r["group"] or "", r["outcome"] or "", r["error"] or "")
    )


def _worker_memory(trace: Trace) -> dict[tuple[str, str], tuple[float, str]]:
    """Give the largest reading per (worker, metric) and its kind."""
    samples = trace.table("samples")
    metrics = pa.array(["rss_bytes", "spill_total_bytes"])
    samples = samples.filter(pc.is_in(samples["metric"], metrics))
    if not samples.num_rows:
        return {}
    most = samples.group_by(["subject", "metric"]).aggregate([("value", "max"), ("quality", "max")])
    # A reading of a process that several workers share bounds each of them from above.
    return {
        (row["subject"], row["metric"]): (
            row["value_max"],
            "upper_bound" if "several workers" in (row["quality_max"] or "") else "lower_bound",
        )
        for row in most.to_pylist()
        if row["value_max"] is not None
    }


def workers(trace: Trace) -> list[dict[str, Any]]:
    """Sum up each worker's life: how long it was there, how busy, how it ended."""
    tasks = trace.table("tasks")
    table = trace.table("workers")
    when = spans(trace)
    code, names = codes(tasks, "worker")
    here = when.known & (code >= 0) & ~view(trace).nested
    busy = np.bincount(
        code[here],
        weights=(when.end_ns - when.start_ns)[here] / 1e9,
        minlength=len(names),
    )
    attempts = np.bincount(code[code >= 0], minlength=len(names))
    failed = np.bincount(code[_failed(tasks) & (code >= 0)], minlength=len(names))
    at = {name: i for i, name in enumerate(names)}
    known = table.drop_columns(["devices"]).to_pylist()
    listed = {row["worker"] for row in known}
    blank = dict.fromkeys(table.column_names)
    known += [{**blank, "worker": name} for name in names if name not in listed]
    first, last = when.first_ns, when.last_ns
    memory = _worker_memory(trace)
    found = []
    for row in known:
        rss = memory.get((row["worker"], "rss_bytes"), (None, "missing"))
        spilled = memory.get((row["worker"], "spill_total_bytes"), (None, "missing"))
        i = at.get(row["worker"])
        begin = row["started_ns"]
        end = row["ended_ns"] if row["ended_ns"] is not None else last
        lived = None
        if begin is not None and end is not None and end > begin:
            # Idle time before the run's first task is not the run's loss.
            lived = (end - max(begin, first if first is not None else begin)) / 1e9
        busy_s = None if i is None or first is None else round(float(busy[i]), 6)
        held = lived * row["cores"] if lived and lived > 0 and row["cores"] else None
        found.append(
            {
                "worker": None if row["worker"] is None else clip(row["worker"], NAME_LIMIT),
                "name": None if row["name"] is None else clip(row["name"], 200),
                "host": None if row["host"] is None else clip(row["host"], 200),
                "pid": row["pid"],
                "cores": row["cores"],
                "memory_bytes": row["memory_bytes"],
                "peak_rss_bytes": _whole(rss[0]),
                "peak_rss_kind": rss[1],
                "spilled_bytes": _whole(spilled[0]),
                "lived_s": None if lived is None else round(max(lived, 0.0), 6),
                "attempts": 0 if i is None else int(attempts[i]),
                "failed": 0 if i is None else int(failed[i]),
                "busy_s": busy_s,
                "busy_ratio": None
                if held is None or busy_s is None
                else round(min(busy_s / held, 1.0), 6),
                "end_reason": None if row["end_reason"] is None else clip(row["end_reason"], 200),
            }
        )
    return sorted(found, key=lambda w: (w["host"] or "", w["worker"] or ""))
