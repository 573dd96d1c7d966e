"""One row a task group: counts, times, bytes and memory, computed on whole columns."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.compute as pc

from rotameter.profiler.view import View, encode, floats, lookup, view
from rotameter.values import to_dict

if TYPE_CHECKING:
    from rotameter.profiler.trace import Trace
    from rotameter.profiler.view import Codes, Floats, Mask

__all__ = ["GroupRow", "cpu_used", "group_table", "moved"]

_FEW_GROUPS = 1_000
_DEEPEST = 64  # tasks inside tasks inside tasks

_TOTALS = {
    "cpu_s": "cpu_s",
    "transfer_s": "transfer_s",
    "spill_s": "spill_s",
    "io_s": "io_s",
    "read_bytes": "read_bytes",
    "write_bytes": "write_bytes",
    "received_bytes": "received_bytes",
    "output_bytes": "output_bytes",
}


@dataclass(frozen=True, slots=True)
class GroupRow:
    """What one group of tasks did. Seconds and bytes; None is unknown, never 0.

    ``peak_p50_bytes`` … ``peak_max_bytes`` are over attempts whose peak is measured;
    ``peak_kind`` is the weakest kind among them, and lower bounds (attempts killed for memory)
    enter only ``peak_max_bytes``, which is then "at least" (``peak_kind`` = lower_bound).
    ``known`` gives, per total, how many attempts had a value; ``at_least`` names the totals that
    are lower bounds, as an attempt that ran had none or has a lower bound itself.
    """

    group: str
    tasks: int
    attempts: int
    outcomes: dict[str, int] = field(hash=False)
    wall_s: float | None
    wall_p50_s: float | None
    wall_p95_s: float | None
    wall_max_s: float | None
    cpu_s: float | None
    transfer_s: float | None
    spill_s: float | None
    io_s: float | None
    read_bytes: int | None
    write_bytes: int | None
    received_bytes: int | None
    output_bytes: int | None
    peak_p50_bytes: int | None
    peak_p95_bytes: int | None
    peak_max_bytes: int | None
    peak_kind: str
    peak_n: int
    known: dict[str, int] = field(hash=False)
    at_least: tuple[str, ...]
    first_s: float | None
    last_s: float | None
    origin: str | None

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        data: dict[str, Any] = to_dict(self)
        return data


def matched(own: Codes, wanted: Codes) -> Codes:
    """Give for each wanted key (>= 0) the place of an equal own key, -1 where there is none."""
    order = np.argsort(own, kind="stable")
    at = np.minimum(np.searchsorted(own[order], wanted), max(len(own) - 1, 0))
    if not len(own):
        return np.full(len(wanted), -1, dtype=np.int64)
    return np.asarray(np.where((own[order][at] == wanted) & (wanted >= 0), order[at], -1))


def moved(seen: View, op: str) -> tuple[Floats, Mask]:
    """Give the bytes that each attempt read or wrote, and which of them are at least that.

    An attempt without a reading (the tracer measured time only) has what its counted files
    say, those of the attempts inside it too; other ways of reading are not in it.

    Parameters
    ----------
    op : {"read", "write"}

    Returns
    -------
    amount : ndarray of float64, shape (n,), bytes
        NaN = unknown.
    least : ndarray of bool, shape (n,)
    """
    if ("moved", op) not in seen.memo:
        seen.memo["moved", op] = _moved(seen, op)
    made: tuple[Floats, Mask] = seen.memo["moved", op]
    return made


def _moved(seen: View, op: str) -> tuple[Floats, Mask]:
    amount = seen.number(f"{op}_bytes").copy()
    least: Mask = pc.fill_null(pc.equal(seen.tasks["io_kind"], "lower_bound"), False)
    least = np.asarray(least).astype(bool) & ~np.isnan(amount)
    blank = np.isnan(amount)
    flows = seen.table("flows")
    flows = flows.filter(pc.equal(flows["medium"], "file"))
    if not blank.any() or not flows.num_rows:
        return amount, least
    row = rows_of(seen, flows)
    size = floats(flows["bytes"])
    known = (row >= 0) & ~np.isnan(size)
    # Files read say nothing of what was written: without a known size it stays unknown.
    mine = known & pc.fill_null(pc.equal(flows["op"], op), False).to_numpy().astype(bool)
    total = np.bincount(row[mine], size[mine], minlength=seen.n)
    has = np.bincount(row[mine], minlength=seen.n) > 0
    up = _outer(seen)
    # Counted files belong to the innermost attempt; what is around it did that too.
    part, part_has = total.copy(), has.copy()
    for _ in range(_DEEPEST):
        inner = np.flatnonzero((up >= 0) & part_has)
        if not inner.size:
            break
        part = np.bincount(up[inner], part[inner], minlength=seen.n)
        part_has = np.bincount(up[inner], minlength=seen.n) > 0
        total, has = total + part, has | part_has
    fill = blank & has
    amount[fill] = total[fill]
    return amount, least | fill


def cpu_used(seen: View) -> tuple[Floats, Mask]:
    """Give the CPU seconds of each attempt and what is nested in it, and which are at least that.

    An attempt's CPU time is that of its thread. Nested attempts that ran in other threads
    (``asyncio.to_thread``, pools) used time of their own: where they used more than what is around
    them, that one's thread was not theirs, and their sum is the lower bound.
    """
    used = seen.number("cpu_s").copy()
    up = _outer(seen)
    least = np.zeros(seen.n, dtype=bool)
    depth = np.zeros(seen.n, dtype=np.int64)
    above, steps = up.copy(), 0
    while (above >= 0).any() and steps < _DEEPEST:
        depth += above >= 0
        above = np.where(above >= 0, up[above], -1)
        steps += 1
    for level in range(int(depth.max(initial=0)), 0, -1):
        inner = np.flatnonzero((depth == level) & ~np.isnan(used))
        part = np.bincount(up[inner], used[inner], minlength=seen.n)
        # Of a row without a known one inside, `part` is 0 and says nothing.
        has = np.bincount(up[inner], minlength=seen.n) > 0
        more = has & (part > np.nan_to_num(used, nan=-1.0) + 1e-9)
        used[more], least[more] = part[more], True
    return used, least


def _outer(seen: View) -> Codes:
    """Row of the attempt around each attempt, -1 = none."""
    last = np.full(len(seen.task_ids) + 1, -1, dtype=np.int64)
    last[seen.task] = np.arange(seen.n)
    last[-1] = -1
    return np.asarray(last[lookup(seen.tasks["parent"], seen.task_ids)])


def rows_of(seen: View, table: Any) -> Codes:
    """Give the attempt (its row) that each row of another table is about, -1 = not known."""
    task = lookup(table["task_id"], seen.task_ids)
    count = np.bincount(seen.task[seen.task >= 0], minlength=len(seen.task_ids) + 1)
    only = np.full(len(seen.task_ids) + 1, -1, dtype=np.int64)
    only[seen.task] = np.arange(seen.n)
    only[-1] = -1
    found = np.where(count[task] == 1, only[task], -1)
    run, runs = encode(seen.tasks["run_id"])
    number = np.nan_to_num(seen.number("attempt"), nan=-1).astype(np.int64)
    other = np.nan_to_num(floats(table["attempt"]), nan=-1).astype(np.int64)
    pairs = ((number, other), (run, lookup(table["run_id"], runs)))
    for own, wanted in pairs:
        width = int(max(own.max(initial=0), wanted.max(initial=0))) + 1
        keys = np.where((own >= 0) & (seen.task >= 0), seen.task * width + own, -1)
        asked = np.where((wanted >= 0) & (task >= 0), task * width + wanted, -1)
        at = matched(keys, asked)
        found = np.where(at >= 0, at, found)
    return np.asarray(found)


def _runs(keys: Codes, n_groups: int) -> tuple[Codes, Codes]:
    """Order rows by group and give where each group begins and ends."""
    order = np.argsort(keys, kind="stable")
    bounds = np.searchsorted(keys[order], np.arange(n_groups + 1))
    return order, bounds


def _totals(keys: Codes, values: Floats, n_groups: int) -> Floats:
    """Sum values by group; NaN where a group has none."""
    known = ~np.isnan(values)
    total = np.bincount(keys[known], values[known], minlength=n_groups)
    count = np.bincount(keys[known], minlength=n_groups)
    return np.where(count > 0, total, np.nan)


def quantiles(keys: Codes, values: Floats, n_groups: int, at: tuple[float, ...]) -> Floats:
    """Take quantiles (linear) by group in one sort; shape (len(at), n_groups), NaN = none."""
    known = ~np.isnan(values)
    keys, values = keys[known], values[known]
    keys, values = _sorted(keys, values, n_groups)
    low = np.searchsorted(keys, np.arange(n_groups))
    size = np.searchsorted(keys, np.arange(n_groups), side="right") - low
    out = np.full((len(at), n_groups), np.nan)
    some = size > 0
    for row, q in enumerate(at):
        place = q * (size[some] - 1)
        base = low[some] + np.floor(place).astype(np.int64)
        above = np.minimum(base + 1, low[some] + size[some] - 1)
        share = place - np.floor(place)
        out[row, some] = values[base] * (1 - share) + values[above] * share
    return out


def _sorted(keys: Codes, values: Floats, n_groups: int) -> tuple[Codes, Floats]:
    """Sort values by key, then size."""
    if n_groups > _FEW_GROUPS:
        order = np.lexsort((values, keys))
        return keys[order], values[order]
    # Short keys have a sort of their own, and each group's values need no order kept.
    order = np.argsort(keys.astype(np.int16), kind="stable")
    keys, values = keys[order], values[order]
    bounds = [0, *(np.flatnonzero(np.diff(keys)) + 1).tolist(), len(keys)]
    for low, high in pairwise(bounds):
        values[low:high].sort()
    return keys, values


def _none(value: float) -> float | None:
    return None if np.isnan(value) else round(float(value), 9)


def _whole(value: float) -> int | None:
    return None if np.isnan(value) else round(float(value))


_WEAKEST = ("exact", "sampled", "estimate", "upper_bound", "lower_bound")


def _peak_kinds(seen: View, rows: Mask, n_groups: int) -> list[str]:
    """Give the weakest kind of the peaks of each group."""
    rank = {kind: place for place, kind in enumerate(_WEAKEST)}
    worst = np.full(n_groups, -1)
    places = np.array([rank.get(kind, 2) for kind in seen.peak_kinds[rows]], dtype=np.int64)
    np.maximum.at(worst, seen.group[rows], places)
    return ["missing" if place < 0 else _WEAKEST[place] for place in worst]


def group_table(trace: Trace) -> list[GroupRow]:
    """Summarise a trace by task group, the group that ran longest first.

    Attempts taken from a cache count in ``attempts`` and ``outcomes`` and in no time.

    Examples
    --------
    >>> from rotameter.profiler.trace import Trace
    >>> rows = group_table(Trace.from_tables({"tasks": [
    ...     {"task_id": f"a{i}", "group": "load", "wall_s": float(i)} for i in range(1, 4)]}))
    >>> rows[0].group, rows[0].tasks, rows[0].wall_s, rows[0].wall_p50_s, rows[0].cpu_s
    ('load', 3, 6.0, 2.0, None)
    """
    seen = view(trace)
    n_named = len(seen.groups)
    keys = np.where(seen.group < 0, n_named, seen.group)
    n = n_named + int((seen.group < 0).any())
    if not seen.n:
        return []
    names = [*seen.groups, "(no group)"][:n]
    live = ~seen.outcome_in("cached")
    wall = np.where(live, seen.wall, np.nan)
    p50, p95, top = quantiles(keys, wall, n, (0.5, 0.95, 1.0))
    peaks = _peaks(seen, keys, n)
    walls = _totals(keys, wall, n)
    first = quantiles(keys, seen.started, n, (0.0,))[0]
    last = quantiles(keys, seen.ended, n, (1.0,))[0]
    tasks = np.bincount(np.unique(np.stack([keys, seen.task], axis=1), axis=0)[:, 0], minlength=n)
    attempts = np.bincount(keys, minlength=n)
    outcomes = _outcomes(seen, keys, n)
    totals, known, at_least = _all_totals(seen, keys, n)
    sums: list[dict[str, Any]] = [
        {k: _none(v[g]) if k.endswith("_s") else _whole(v[g]) for k, v in totals.items()}
        for g in range(n)
    ]
    rows = [
        GroupRow(
            group=names[g],
            tasks=int(tasks[g]),
            attempts=int(attempts[g]),
            outcomes=outcomes[g],
            wall_s=_none(walls[g]),
            wall_p50_s=_none(p50[g]),
            wall_p95_s=_none(p95[g]),
            wall_max_s=_none(top[g]),
            **sums[g],
            **peaks[g],
            known={name: int(counts[g]) for name, counts in known.items()},
            at_least=tuple(name for name, bound in at_least.items() if bound[g]),
            first_s=_none(first[g]),
            last_s=_none(last[g]),
            origin=seen.origins.get(names[g]),
        )
        for g in range(n)
    ]
    return sorted(rows, key=lambda row: (-(row.wall_s or 0.0), row.group))


def _all_totals(
    seen: View, keys: Codes, n: int
) -> tuple[dict[str, Floats], dict[str, Codes], dict[str, Mask]]:
    """Give the totals of each group, how many attempts had a value, and what is a lower bound."""
    totals, count, at_least = {}, {}, {}
    could = seen.could_measure
    for out, name in _TOTALS.items():
        values, least = seen.number(name), np.zeros(seen.n, dtype=bool)
        if name in ("read_bytes", "write_bytes"):
            values, least = moved(seen, name.removesuffix("_bytes"))
        known = ~np.isnan(values)
        totals[out] = _totals(keys, values, n)
        count[out] = np.bincount(keys[known], minlength=n)
        lacking = np.bincount(keys[(could & ~known) | (known & least)], minlength=n)
        at_least[out] = (count[out] > 0) & (lacking > 0)
    return totals, count, at_least


def _peaks(seen: View, keys: Codes, n: int) -> list[dict[str, Any]]:
    """Give the memory columns of each group; lower bounds are no measurement."""
    peak = seen.task_memory
    bound = (seen.peak_kinds == "lower_bound") | seen.outcome_in("oom")
    p50, p95 = quantiles(keys, np.where(bound, np.nan, peak), n, (0.5, 0.95))
    top = quantiles(keys, peak, n, (1.0,))[0]
    kinds = _peak_kinds(seen, ~np.isnan(peak) & (seen.group >= 0), n)
    count = np.bincount(keys[~np.isnan(peak)], minlength=n)
    return [
        {
            "peak_p50_bytes": _whole(p50[g]),
            "peak_p95_bytes": _whole(p95[g]),
            "peak_max_bytes": _whole(top[g]),
            "peak_kind": kinds[g],
            "peak_n": int(count[g]),
        }
        for g in range(n)
    ]


def _outcomes(seen: View, keys: Codes, n_groups: int) -> list[dict[str, int]]:
    """Count outcomes by group."""
    codes, labels = encode(seen.tasks["outcome"].fill_null("unknown"))
    flat = np.bincount(keys * len(labels) + codes, minlength=n_groups * max(1, len(labels)))
    table = flat.reshape(n_groups, -1)
    by_name = sorted(range(len(labels)), key=lambda code: labels[code])
    return [{labels[c]: int(row[c]) for c in by_name if row[c]} for row in table]
