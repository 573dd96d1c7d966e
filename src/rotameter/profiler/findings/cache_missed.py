"""RM126 cache_missed: a resumed run executes again what was done, beside what it takes as done."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.compute as pc

from rotameter.profiler.findings._again import without
from rotameter.profiler.findings._basis import Turns
from rotameter.profiler.findings.base import Tools
from rotameter.profiler.findings.recomputed_work import computed_again
from rotameter.profiler.replaying.model import PARTS
from rotameter.profiler.view import View, short, view
from rotameter.units import format_seconds, many
from rotameter.values import Evidence, Finding

if TYPE_CHECKING:
    from rotameter.profiler.replaying.model import Model
    from rotameter.profiler.trace import Trace
    from rotameter.profiler.view import Codes, Mask

__all__ = ["Advisor"]

_ASKED = (
    "requested_cores",
    "requested_memory_bytes",
    "requested_disk_bytes",
    "requested_gpus",
    "requested_wall_s",
)
MOST_COMPARED = 2000


class Advisor:
    """Find tasks executed again in a run that takes others from its cache."""

    name = "cache_missed"

    def check(self, trace: Trace, tools: Tools) -> list[Finding]:
        """Look for tasks that a resumed run executed again."""
        seen = view(trace)
        cached = seen.outcome_in("cached")
        if not cached.any():
            return []
        again, earlier = computed_again(seen)
        if not again.any():
            _note(seen, tools)
            return []
        cost = without(
            seen,
            tools,
            again,
            more=(Resumed(seen, again), Turns(seen)),
            whole=True,
            how="as if they had come from the cache like the others",
            bound_how="the time of what ran again over all cores",
        )
        if cost is None:
            return []
        rows = np.flatnonzero(again)
        sums = np.bincount(
            np.where(seen.group[rows] >= 0, seen.group[rows], len(seen.groups)),
            seen.wall[rows],
            minlength=len(seen.groups) + 1,
        )[:-1]
        groups = [int(g) for g in np.argsort(-sums, kind="stable") if sums[g] > 0]
        changed = _changed(seen, rows[:MOST_COMPARED], earlier)
        first = _firsts(seen, rows)
        spent = float(np.nansum(seen.wall[rows]))
        n_cached = int(cached.sum())
        label = seen.label(groups[0]) if groups else "tasks"
        what = changed[0][0] if changed else ""
        return [
            Finding(
                code="RM126",
                kind="cache_missed",
                severity=cost.severity,
                title=(
                    f"{label}: {many(len(rows), 'task')} that had ended well ran again beside "
                    f"{n_cached:,} taken from the cache ({format_seconds(spent)} of work)"
                    + (f"; {what}" if what else "")
                ),
                groups=tuple(seen.groups[g] for g in groups[:3]),
                evidence=_evidence(seen, rows, n_cached, spent, changed, first),
                **cost.fields,
                confidence="high" if changed else "medium",
                advice=(
                    f"Find out why the cache did not know them ({what}). "
                    if what
                    else "The log shows no difference in inputs and requests: look for code, "
                    "environment or time stamps that changed. "
                )
                + "Begin with those whose inputs did not run again; the others follow from them.",
                change=_change(seen),
                apply={"caching": {"value": True}},
            )
        ]


def _evidence(
    seen: View,
    rows: Codes,
    n_cached: int,
    spent: float,
    changed: list[tuple[str, int]],
    first: Codes,
) -> tuple[Evidence, ...]:
    """Give the numbers behind the finding."""
    n = len(rows)
    compared = min(n, MOST_COMPARED)
    said = [
        Evidence("tasks executed again", n, "", "counted", len(seen.task_ids)),
        Evidence("taken from the cache", n_cached, "", "counted", seen.n),
        Evidence("work done again", round(spent, 3), "s", "summed", n),
    ]
    said += [
        Evidence(
            f"what differs: {name}",
            count,
            "tasks",
            "the attempt before against the one again",
            compared,
        )
        for name, count in changed[:4]
    ]
    if not changed:
        how = "inputs, sizes, requests and features compared"
        said.append(Evidence("what differs", "nothing on record", "", how, n))
    name = "of these, with no input that ran again"
    said.append(Evidence(name, len(first), "", "dependencies on record", n))
    if len(first):
        task = short(seen.task_ids[seen.task[first[0]]], 60)
        said.append(Evidence("the first of them", task, "", "recorded"))
    return tuple(said)


@dataclass(frozen=True, slots=True, eq=False)
class Resumed:
    """What a resumed run executes waits for its start and its inputs only.

    Where an input came from the cache, which takes no time, the record shows when what was behind
    it had been executed again: without that, nothing else is to be waited for.

    Attributes
    ----------
    seen : View
    again : ndarray of bool, shape (n attempts,)
        Executed again; dropped by another change.
    """

    seen: View
    again: Mask

    def apply(self, model: Model) -> Model:
        """Give the model with the change."""
        seen = self.seen
        since = seen.started[(seen.outcome_in("cached") | self.again) & ~np.isnan(seen.started)]
        known = model.row >= 0
        row = np.where(known, model.row, 0)
        head = np.flatnonzero(known & self.again[row])
        if not (since.size and head.size):
            return model
        start = float(since.min())
        late = known & (seen.started[row] >= start - 1e-6)
        before = np.flatnonzero(known & ~late)
        if not before.size or seen.ended[row[before]].max() > start + 1e-3:
            return model  # There were no two runs, one after the other.
        at = int(head[np.argmin(seen.started[row[head]])])
        parts = model.parts_s.copy()
        gap = start - float(seen.ended[row[before]].max())
        parts[at, PARTS.index("latency")] = max(0.0, gap)
        after = np.flatnonzero(late)
        after = after[after != at]
        gates = ~known
        keep = ~(late[model.dep_task] & gates[model.dep_on]) & (model.dep_task != at)
        keep &= ~(late[model.dep_on] & gates[model.dep_task])
        # Nothing was computed again to make up for a loss.
        anew = known & self.again[row]
        other = seen.task[row][model.dep_task] != seen.task[row][model.dep_on]
        keep &= ~(anew[model.dep_task] & model.lost[model.dep_on] & other)
        return replace(
            model,
            parts_s=parts,
            dep_task=np.concatenate([model.dep_task[keep], np.full(len(before), at), after]).astype(
                np.int64
            ),
            dep_on=np.concatenate([model.dep_on[keep], before, np.full(len(after), at)]).astype(
                np.int64
            ),
        )


def _note(seen: View, tools: Tools) -> None:
    """Say that a cause cannot be told where only the resumed run is in the trace."""
    rows = seen.ran & (seen.group >= 0)
    cached = np.bincount(
        seen.group[seen.outcome_in("cached") & (seen.group >= 0)], minlength=len(seen.groups) + 1
    )
    mixed = rows & (cached[seen.group] > 0)
    if mixed.any() and seen.wall[mixed].sum() > 0.05 * np.nansum(seen.wall):
        tools.cannot_tell(
            f"whether {many(int(mixed.sum()), 'task')} that ran beside cached ones had been done "
            "before",
            "the trace holds one run only; give the earlier run's log too",
        )


def _firsts(seen: View, rows: Codes) -> Codes:
    """Give the attempts none of whose inputs ran again."""
    mine = np.zeros(len(seen.task_ids) + 1, dtype=bool)
    mine[seen.task[rows]] = True
    task, on = seen.deps
    stale = np.zeros(len(seen.task_ids) + 1, dtype=bool)
    known = (task >= 0) & (on >= 0)
    # An input that ran again only after the task did cannot be why.
    begun = np.full(len(seen.task_ids) + 1, np.nan)
    np.fmax.at(begun, seen.task[rows], seen.started[rows])
    with np.errstate(invalid="ignore"):
        before = known & mine[on] & (begun[on] < begun[task])
    stale[task[before]] = True
    return rows[~stale[seen.task[rows]]]


def _changed(seen: View, rows: Codes, earlier: Codes) -> list[tuple[str, int]]:
    """Count what differs between attempts and those before; the commonest first."""
    count: dict[str, int] = {}

    def add(name: str, n: int) -> None:
        if n:
            count[name] = count.get(name, 0) + n

    before = earlier[rows]
    for column in _ASKED:
        now, then = seen.number(column)[rows], seen.number(column)[before]
        differs = (now != then) & ~(np.isnan(now) | np.isnan(then))
        add(column.replace("requested_", "asked ").replace("_", " "), int(differs.sum()))
    features = seen.tasks["features"]
    if features.null_count < seen.n:
        now_f, then_f = features.take(rows).to_pylist(), features.take(before).to_pylist()
        for a, b in zip(now_f, then_f, strict=True):
            for name in _different(dict(a or ()), dict(b or ())):
                add(name, 1)
    for name, n in _inputs(seen, rows, before).items():
        add(name, n)
    return sorted(count.items(), key=lambda pair: (-pair[1], pair[0]))


def _different(now: dict[str, Any], then: dict[str, Any]) -> list[str]:
    return sorted(name for name in now.keys() & then.keys() if now[name] != then[name])


def _inputs(seen: View, rows: Codes, before: Codes) -> dict[str, int]:
    """Count attempts that read other files, or the same ones with other sizes."""
    from rotameter.profiler.groups import rows_of

    flows = seen.table("flows")
    if not flows.num_rows:
        return {}
    flows = flows.filter(pc.equal(flows["op"], "read"))
    owner = rows_of(seen, flows)
    wanted = np.isin(owner, np.concatenate([rows, before]))
    reads: dict[int, dict[str, Any]] = {}
    names = flows["object"].filter(wanted).to_pylist()
    sizes = flows["footprint_bytes"].filter(wanted).to_pylist()
    for row, name, size in zip(owner[wanted].tolist(), names, sizes, strict=True):
        reads.setdefault(row, {})[name] = size
    found = {"other input files": 0, "inputs of another size": 0}
    for a, b in zip(rows.tolist(), before.tolist(), strict=True):
        now, then = reads.get(a), reads.get(b)
        if now is None or then is None:
            continue
        if now.keys() != then.keys():
            found["other input files"] += 1
        elif any(now[k] != then[k] for k in now if now[k] is not None and then[k] is not None):
            found["inputs of another size"] += 1
    return found


def _change(seen: View) -> str | None:
    lines: dict[Any, str] = {
        "nextflow": "nextflow run … -resume -dump-hashes  // shows which part of a hash changed",
        "snakemake": "snakemake --rerun-triggers mtime --summary  # shows why each would run again",
    }
    return lines.get(seen.meta.get("engine"))
