"""A workflow profile for ``snakemake --workflow-profile``; its ``MB`` is 10^6 bytes.

``runtime`` is in minutes. Snakemake does not tell why a job failed: each retry asks for more of all
that has rungs. Retries are the user's choice: a profile has them for all rules or for none.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from rotameter.adapters.advising._wanted import minutes, whole
from rotameter.adapters.advising._words import HEAD, plain

if TYPE_CHECKING:
    from rotameter.adapters.advising._wanted import Most, Wanted

__all__ = ["left_out", "text"]


_RETRIES = (
    "# Nothing is tried again because of this file: a profile can only say so for all rules that",
    "# do not say it themselves. What is asked for after a kill takes effect in rules that have",
    "#     retries: {}",
    "# or for every rule: uncomment the next line, or give --retries {}.",
    "# retries: {}",
)
"""Whether rules that were not sized are tried again is not for a file of requests to say."""


def _nameable(group: str) -> bool:
    """Say whether a profile can name a rule: it becomes ``RULE:RESOURCE=VALUE,…``."""
    return plain(group) == group and not group.startswith("-") and not set(group) & set(":,")


def _threadable(group: str) -> bool:
    """Say whether a profile can name a rule's threads: they become ``RULE=VALUE``."""
    return _nameable(group) and "=" not in group


def left_out(wanted: Sequence[Wanted]) -> list[str]:
    """Say which groups with a request cannot be named."""
    names = [
        plain(one.group)
        for one in wanted
        if one.any and not (_nameable(one.group) and (one.cores is None or _threadable(one.group)))
    ]
    if not names:
        return []
    it = "it" if len(names) == 1 else "them"
    return [f"left out, because Snakemake's profile cannot name {it}: {'; '.join(names)}"]


def text(wanted: Sequence[Wanted], limits: Most) -> str:
    """Write ``set-resources``: for each rule its rungs by attempt; and ``set-threads``."""
    lines = [
        f"# {HEAD}",
        "# Save as FOLDER/config.yaml:  snakemake --workflow-profile FOLDER",
    ]
    told = {one.group: _rungs(one, limits) if _nameable(one.group) else {} for one in wanted}
    most = max((len(made) for rungs in told.values() for made in rungs.values()), default=0)
    if any(len(rungs) > 1 for rungs in told.values()):
        more = "more memory, time and disk" if _climbs_disk(told.values()) else (
            "more memory and more time"
        )  # fmt: skip
        lines.append(f"# Why a job failed is not told: a retry asks for {more}.")
    if most > 1:
        lines += [line.format(most - 1) for line in _RETRIES]
    body = []
    for one in wanted:
        body += [f"  # {said}" for said in one.reasons()]
        if one.any and not _nameable(one.group):
            body.append("  # left out: a profile cannot name this rule")
        if told[one.group]:
            body.append(f"  {json.dumps(plain(one.group))}:")
            body += [f'    {name}: "{_ladder(made)}"' for name, made in told[one.group].items()]
    if most:
        lines.append("set-resources:")
    threads = _threads(wanted)
    # A profile of comments alone is none: Snakemake stops.
    nothing = [] if most or threads else ["{}  # nothing is changed"]
    return "\n".join([*lines, *body, *threads, *nothing, ""])


def _climbs_disk(told: Iterable[dict[str, list[int]]]) -> bool:
    return any(len(rungs.get("disk_mb", ())) > 1 for rungs in told)


def _rungs(one: Wanted, limits: Most) -> dict[str, list[int]]:
    made = {
        "mem_mb": whole(one.rungs("memory"), 10**6, limits.memory),
        "runtime": minutes(one.rungs("time"), limits.time),
        "disk_mb": whole(one.rungs("disk"), 10**6, limits.disk),
        "gpu": [0] if one.no_gpu else [],
    }
    return {name: rungs for name, rungs in made.items() if rungs}


def _ladder(made: list[int]) -> str:
    return f"{made}[min(attempt, {len(made)}) - 1]" if len(made) > 1 else f"{made[0]}"


def _threads(wanted: Sequence[Wanted]) -> list[str]:
    made = {one.group: one.cores for one in wanted if one.cores and _threadable(one.group)}
    if not made:
        return []
    return ["set-threads:", *(f"  {json.dumps(name)}: {cores}" for name, cores in made.items())]
