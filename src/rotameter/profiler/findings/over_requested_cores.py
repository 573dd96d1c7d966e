"""RM117 over_requested_cores: tasks ask for more cores than they use, so that few run at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rotameter.profiler.findings._replayed import Cost, by_replay, held_in_vain
from rotameter.profiler.findings._resources import asked_cores, resources
from rotameter.profiler.findings.base import Tools
from rotameter.profiler.groups import quantiles
from rotameter.profiler.open_ends import complete
from rotameter.profiler.view import View, view
from rotameter.profiler.whole_cores import SHORTEST_S, whole_cores
from rotameter.units import format_number
from rotameter.values import Evidence, Finding

if TYPE_CHECKING:
    from rotameter.profiler.trace import Trace
    from rotameter.profiler.view import Floats, Mask

__all__ = ["Advisor", "needed_cores"]

FEWEST = 3
MOST_GROUPS = 4


class Advisor:
    """Find groups that ask for more cores than they use."""

    name = "over_requested_cores"

    def check(self, trace: Trace, tools: Tools) -> list[Finding]:
        """Look for cores asked for in vain."""
        seen = view(trace)
        asked = asked_cores(seen)
        rows = complete(seen) & (seen.wall > 0) & (seen.group >= 0) & ~seen.nested & (asked > 1)
        if not rows.any():
            return []
        cpu = seen.number("cpu_s")
        if np.isnan(cpu[rows]).all():
            tools.cannot_tell(
                "whether tasks use the cores that they ask for", "no CPU time was recorded"
            )
            return []
        need = needed_cores(seen, rows, asked)
        waste = np.where(np.isnan(need), 0.0, (asked - need) * np.nan_to_num(seen.wall))
        sums = np.bincount(seen.group[rows], waste[rows], minlength=len(seen.groups))
        order = np.argsort(-sums, kind="stable")[:MOST_GROUPS]
        found = [
            self._group(seen, tools, int(g), rows & (seen.group == g), asked, need)
            for g in order
            if sums[g] > 0
        ]
        return [finding for finding in found if finding is not None]

    def _group(
        self, seen: View, tools: Tools, group: int, rows: Mask, asked: Floats, need: Floats
    ) -> Finding | None:
        rows = rows & ~np.isnan(need)
        n = int(rows.sum())
        cpu, wall = seen.number("cpu_s")[rows], seen.wall[rows]
        wanted, enough = float(np.median(asked[rows])), float(np.median(need[rows]))
        vain_s = float(((asked - need)[rows] * wall).sum())
        cost = self._cost(seen, tools, rows, need, vain_s)
        if cost is None:
            return None
        used = cpu / wall
        share = float(cpu.sum() / (asked[rows] * wall).sum())
        label = seen.label(group)
        return Finding(
            code="RM117",
            kind="over_requested_cores",
            severity=cost.severity,
            title=(
                f"{label}: {n:,} tasks asked for {format_number(wanted)} cores and used "
                f"{format_number(float(np.median(used)), 2)}"
            ),
            groups=(seen.groups[group],),
            evidence=(
                Evidence("cores asked for", wanted, "cores", "median of the requests", n),
                Evidence(
                    "cores used",
                    round(float(np.median(used)), 3),
                    "cores",
                    "median of CPU time / duration",
                    n,
                ),
                Evidence(
                    "cores used, most",
                    round(float(used.max()), 3),
                    "cores",
                    "CPU time / duration",
                    n,
                ),
                Evidence("share of the asked cores in use", round(share, 3), "ratio", "summed", n),
                Evidence("held in vain", round(vain_s / 3600.0, 6), "core·h", "summed", n),
            ),
            **cost.fields,
            confidence="high" if n >= 8 else "medium",
            advice=(
                f"Ask for {format_number(enough)}, so that more tasks run side by side; or let the "
                "program use what it holds (its number of threads)."
            ),
            change=_change(seen, group, int(enough)),
            apply={"core_request": {"value": enough}},
        )

    def _cost(
        self, seen: View, tools: Tools, rows: Mask, need: Floats, vain_s: float
    ) -> Cost | None:
        slots = max(1.0, seen.slots or 1.0)
        cost = by_replay(
            seen,
            tools,
            resources(seen, cores=np.where(rows, need, np.nan)),
            base=(resources(seen),),
            bound_s=vain_s / slots,
            bound_how="the core time held in vain over all cores",
            how="as if they had asked for the cores that they use, within the memory they ask for",
        )
        asked = asked_cores(seen) * seen.wall
        why = "the run would not be shorter, but these cores were held and not used"
        if seen.makespan is None:
            why = "how long the run took is not on record; these cores were held and not used"
        return cost or held_in_vain(seen, vain_s, None, why, float(np.nansum(asked[~seen.nested])))


def needed_cores(seen: View, rows: Mask, asked: Floats) -> Floats:
    """Give the whole cores that each attempt's group needs; NaN where no less than was asked for.

    All but the highest twentieth of its tasks used no more; a task that only sometimes uses its
    cores still needs them where it does, which a mean over its time does not tell: where a group's
    tasks used over half of what they asked for, nothing is said.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        used = np.where(rows & (seen.wall >= SHORTEST_S), seen.number("cpu_s") / seen.wall, np.nan)
    n_groups = len(seen.groups)
    count = np.bincount(seen.group[rows & ~np.isnan(used)], minlength=n_groups)
    top = quantiles(seen.group[rows], used[rows], n_groups, (0.95,))[0]
    need = whole_cores(top)
    need[count < FEWEST] = np.nan
    mine = np.append(need, np.nan)[seen.group]
    top_mine = np.append(top, np.nan)[seen.group]
    with np.errstate(invalid="ignore"):
        less = rows & (mine < asked) & (top_mine <= 0.6 * asked)
    return np.where(less, mine, np.nan)


def _change(seen: View, group: int, cores: int) -> str | None:
    """Write the line to paste for the engine that ran."""
    engine = seen.meta.get("engine")
    name = seen.groups[group]
    lines: dict[Any, str] = {
        "slurm": f"#SBATCH --cpus-per-task={cores}",
        "nextflow": f"process {{ withName: '{name}' {{ cpus = {cores} }} }}",
        "snakemake": f"rule {name}:  threads: {cores}",
        "dask": f"client.submit(f, x, resources={{'cores': {cores}}})",
    }
    return lines.get(engine)
