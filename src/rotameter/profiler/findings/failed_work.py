"""RM124 failed_work: attempts fail, and what they had done is done again or was for nothing."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from rotameter.profiler.findings._again import in_vain, memory_kills, redone, without
from rotameter.profiler.findings.base import Tools
from rotameter.profiler.view import View, is_dask, short, view
from rotameter.units import format_seconds, many
from rotameter.values import Evidence, Finding

if TYPE_CHECKING:
    from rotameter.profiler.trace import Trace
    from rotameter.profiler.view import Codes, Mask

__all__ = ["Advisor", "failed_attempts"]


class Advisor:
    """Find work that went into failed attempts."""

    name = "failed_work"

    def check(self, trace: Trace, tools: Tools) -> list[Finding]:
        """Look for failed attempts."""
        seen = view(trace)
        rows = failed_attempts(seen)
        if not rows.any():
            return []
        again = redone(seen, rows)
        found = []
        if again.any():
            cost = without(
                seen,
                tools,
                again,
                how="as if each of them had ended well at the first attempt",
                bound_how="the time of the failed attempts over all cores",
            )
            if cost is not None:
                found.append(_finding(seen, again, cost.fields, cost.severity, again_=True))
        lost = rows & ~again
        if lost.any():
            cost = in_vain(
                seen,
                lost,
                "they never ended well: what the run would take without these failures is unknown",
                seconds=None,
            )
            if cost is not None:
                found.append(_finding(seen, lost, cost.fields, cost.severity, again_=False))
        return found


def failed_attempts(seen: View) -> Mask:
    """Say which attempts failed by themselves: not for memory, time or with their worker."""
    timed = ~np.isnan(seen.wall) & ~seen.nested
    made: Mask = seen.outcome_in("failed") & ~memory_kills(seen) & timed
    return made


def _finding(
    seen: View, rows: Mask, fields: dict[str, Any], severity: Any, *, again_: bool
) -> Finding:
    at = np.flatnonzero(rows)
    spent = np.bincount(
        np.where(seen.group[at] >= 0, seen.group[at], len(seen.groups)),
        seen.wall[at],
        minlength=len(seen.groups) + 1,
    )[:-1]
    groups = [int(g) for g in np.argsort(-spent, kind="stable") if spent[g] > 0]
    label = seen.label(groups[0]) if groups else "tasks"
    tasks = len(np.unique(seen.task[at]))
    of = len(np.unique(seen.task))
    lost_s, all_s = float(np.nansum(seen.wall[at])), _all_s(seen)
    why = _errors(seen, at)
    what = "failed and ran again" if again_ else "failed for good"
    error = f": {why[0][0]}" if why else ""
    return Finding(
        code="RM124",
        kind="failed_work",
        severity=severity,
        title=(
            f"{label}: {many(tasks, 'task')} {what}{error}; "
            f"{format_seconds(lost_s)} of work went into failed attempts"
        ),
        groups=tuple(seen.groups[g] for g in groups[:3]),
        evidence=(
            Evidence("failed attempts", len(at), "", "counted", seen.n),
            Evidence("tasks that failed", tasks, "", "counted", of),
            Evidence("work in failed attempts", round(lost_s, 3), "s", "summed", len(at)),
            Evidence(
                "their part of all task time",
                round(lost_s / all_s, 4) if all_s > 0 else None,
                "ratio",
                "summed",
                seen.n,
            ),
            *(
                Evidence(f"error: {name}", count, "", "first line of the error", len(at))
                for name, count in why[:3]
            ),
            *_exits(seen, at),
        ),
        **fields,
        confidence="high" if again_ and why else "medium",
        advice=(
            f"Find out why {label} fails"
            + (f" ({why[0][0]})" if why else "")
            + ": fail early (check inputs first), keep what is done before the risky part, and "
            "retry only that."
        ),
        change=_change(seen, seen.groups[groups[0]] if groups else None),
        apply=None,
    )


def _all_s(seen: View) -> float:
    live = ~seen.outcome_in("cached") & ~seen.nested
    return float(np.nansum(seen.wall[live]))


def _errors(seen: View, at: Codes) -> list[tuple[str, int]]:
    """Count the errors of some attempts, the commonest first."""
    texts = seen.tasks["error"].take(at).to_pylist()
    count = Counter(short(str(t), 60) for t in texts if t)
    return sorted(count.items(), key=lambda pair: (-pair[1], pair[0]))


def _exits(seen: View, at: Codes) -> list[Evidence]:
    codes = seen.number("exit_code")[at]
    codes = codes[~np.isnan(codes) & (codes != 0)]
    values, counts = np.unique(codes, return_counts=True)
    order = np.lexsort((values, -counts))[:2]
    return [
        Evidence(f"exit code {int(values[k])}", int(counts[k]), "", "recorded", len(at))
        for k in order
    ]


def _change(seen: View, group: str | None) -> str | None:
    if is_dask(seen.meta):
        return "client.submit(check, item); client.submit(risky, part, retries=2)  # retry a part"
    lines: dict[Any, str] = {
        "nextflow": f"process {{ withName: '{group}' {{ errorStrategy = 'finish' }} }}",
        "snakemake": "snakemake --keep-going --retries 1",
    }
    return lines.get(seen.meta.get("engine"))
