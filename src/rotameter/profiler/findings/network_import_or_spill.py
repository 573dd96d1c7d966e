"""RM129 network_import_or_spill: modules are imported, or data spilled, over a network."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from rotameter.profiler.findings._basis import basis
from rotameter.profiler.findings._moves import busy_or_span, moves
from rotameter.profiler.findings._replayed import Cost, by_replay
from rotameter.profiler.findings._saved import Saved, Shorter, by_attempt, outermost, priced
from rotameter.profiler.findings.base import Tools
from rotameter.profiler.view import View, view
from rotameter.units import format_seconds
from rotameter.values import Evidence, Finding

if TYPE_CHECKING:
    from rotameter.profiler.trace import Trace
    from rotameter.profiler.view import Floats, Mask

__all__ = ["Advisor", "import_seconds"]

NETWORK = re.compile(
    r"\b(nfs\d?|lustre|gpfs|beegfs|ceph(fs)?|cifs|smb\d?|afs|panfs|glusterfs|efs|wekafs|sshfs|"
    r"spectrum|network)\b",
    re.IGNORECASE,
)
"""Names of file systems that lie behind a network, as logs write them."""

_SPILLED = re.compile(r"dask-(scratch|worker)-space|/storage/[^/]*$|\bspill")

FEWEST_FILES = 50
"""An import of a few modules is no package on a slow disk."""

LOCAL_FILE_S = 2e-4
"""What a local disk takes for a small file, opened and read."""


class Advisor:
    """Find imports and spilled data on a network file system."""

    name = "network_import_or_spill"

    def check(self, trace: Trace, tools: Tools) -> list[Finding]:
        """Look for module files and spilled data behind a network."""
        seen = view(trace)
        if not seen.n or not seen.table("flows").num_rows:
            return []
        imported, spilled, tier = _marks(seen)
        found = []
        for mask, spill in ((imported, False), (spilled, True)):
            if mask.any():
                made = _finding(seen, tools, mask, tier, spill=spill)
                if made is not None:
                    found.append(made)
        return found


def import_seconds(seen: View) -> Floats:
    """Give what each attempt lost to imports over a network; seconds, shape (n,)."""
    if not seen.n or not seen.table("flows").num_rows:
        return np.zeros(seen.n)
    imported, _, _ = _marks(seen)
    return _lost(seen, imported)


def _marks(seen: View) -> tuple[Mask, Mask, str]:
    """Say which moves are module files and which spilled data, behind a network, and which."""
    made = moves(seen)
    names = np.array([bool(NETWORK.search(name)) for name in made.tiers] + [False])
    away = names[made.tier]
    # Where no tier is on record, the path's mount point may tell.
    bare = made.tier < 0
    if bare.any():
        mount = np.array([bool(NETWORK.search("/".join(t.split("/")[:3]))) for t in made.things])
        away = away | (bare & np.append(mount, False)[made.thing])
    spill = np.array([bool(_SPILLED.search(name)) for name in made.things] + [False])
    imported = away & made.program & ~made.write & (made.row >= 0)
    count = len(np.unique(made.thing[imported]))
    if count < FEWEST_FILES:
        imported = np.zeros(made.n, dtype=bool)
    spilled = away & spill[made.thing] & ~made.program & (made.row >= 0)
    which = np.unique(made.tier[imported | spilled])
    tier = ", ".join(made.tiers[k] for k in which.tolist() if k >= 0) or "a network file system"
    return imported, spilled, tier


def _lost(seen: View, mask: Mask) -> Floats:
    made = moves(seen)
    local = np.nan_to_num(made.bytes) / 1e9 + LOCAL_FILE_S
    seconds = np.maximum(np.nan_to_num(busy_or_span(made)) - local, 0.0)
    return by_attempt(seen, made.row, seconds, mask)


def _finding(seen: View, tools: Tools, mask: Mask, tier: str, *, spill: bool) -> Finding | None:
    made = moves(seen)
    lost = _lost(seen, mask)
    what = "spilled data" if spill else "imports"
    how = f"time in calls on {what} on {tier}, less that of a local disk"
    saved = _priced(seen, tools, lost, how)
    if saved is None:
        return None
    rows = np.flatnonzero(lost > 0)
    sums = np.bincount(
        seen.group[rows[seen.group[rows] >= 0]],
        lost[rows[seen.group[rows] >= 0]],
        minlength=len(seen.groups),
    )
    groups = [int(g) for g in np.argsort(-sums, kind="stable") if sums[g] > 0]
    files = len(np.unique(made.thing[mask]))
    n = len(rows)
    workers = len(np.unique(seen.worker[rows]))
    each = float(np.median(lost[rows])) if n else 0.0
    package = _package([made.things[k] for k in np.unique(made.thing[mask]).tolist()])
    title = (
        f"{n:,} tasks spilled to {tier}: {format_seconds(float(lost.sum()))} in calls on it"
        if spill
        else f"{package} is imported from {tier}: {files:,} files, {format_seconds(each)} for each "
        f"of {n:,} tasks on {workers:,} workers"
    )
    return Finding(
        code="RM129",
        kind="network_import_or_spill",
        severity=saved.severity,
        title=title,
        groups=tuple(seen.groups[g] for g in groups[:3]),
        evidence=(
            Evidence("files", files, "", "distinct, by name", int(mask.sum())),
            Evidence("tasks that waited for them", n, "", "counted", seen.n),
            Evidence(
                "time in calls on them",
                round(float(lost.sum()), 3),
                "s",
                "less what a local disk takes, summed",
                n,
            ),
            Evidence(
                "bytes", round(float(np.nansum(made.bytes[mask]))), "B", "summed", int(mask.sum())
            ),
            Evidence("where", tier, "", "tier on record, else the path"),
        ),
        **saved.fields,
        confidence="high" if n >= 3 else "medium",
        advice=(
            "Let workers spill to a local disk."
            if spill
            else "Put the environment on a local disk (a packed environment or a container image "
            "unpacked once a node), or import before the work begins."
        ),
        change=(
            "dask worker --local-directory $TMPDIR"
            if spill
            else "conda pack -o env.tar.gz; srun --ntasks-per-node=1 tar -C $TMPDIR -xf env.tar.gz"
        ),
        apply={"placement": {"factor": None}},
    )


def _priced(seen: View, tools: Tools, lost: Floats, how: str) -> Saved | Cost | None:
    """Price by a replay in which requests decide who waits, where the engine places by them."""
    base = basis(seen, tools) if tools.replay is not None else None
    if base:
        cost = by_replay(
            seen,
            tools,
            *base,
            Shorter(outermost(seen, lost)),
            base=base,
            bound_s=float(lost.max()),
            bound_how=how,
            how=how,
        )
        if cost is not None:
            return cost
    return priced(seen, tools, lost, how)


def _package(names: list[str]) -> str:
    """Name the package that most of the files belong to."""
    count: dict[str, int] = {}
    for name in names:
        _, found, rest = name.rpartition("-packages/")
        head = rest.split("/")[0] if found else name.rsplit("/", 2)[-2] if "/" in name else name
        count[head] = count.get(head, 0) + 1
    best = max(sorted(count), key=lambda head: count[head])
    return f"`{best}`"
