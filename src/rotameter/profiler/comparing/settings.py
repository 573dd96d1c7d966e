"""What was set differently: settings, the cluster, what tasks asked for, how many there are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rotameter.profiler.view import view
from rotameter.units import format_bytes, format_number

if TYPE_CHECKING:
    from rotameter.profiler.comparing.align import Pair
    from rotameter.profiler.comparing.facts import RunFacts
    from rotameter.profiler.trace import Trace

__all__ = ["Difference", "differences", "most_at_once"]

SAME_RATIO = 0.02
"""Numbers this near each other were set alike (measured memory limits vary a little)."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that was set differently.

    Attributes
    ----------
    what : {"setting", "cluster", "tasks", "request"}
    name : str
    before, after : float, str or None
        None: not on record there.
    group : str or None
        On the later side, where it is of one group.
    """

    what: str
    name: str
    before: float | str | None
    after: float | str | None
    group: str | None = None

    @property
    def text(self) -> str:
        """Give it as words.

        Examples
        --------
        >>> Difference("tasks", "tasks", 1000.0, 100.0, "load").text
        'load: tasks 1,000 -> 100'
        """
        name = f"{self.group}: {self.name}" if self.group is not None else self.name
        return f"{name} {self._shown(self.before)} -> {self._shown(self.after)}"

    def _shown(self, value: float | str | None) -> str:
        if value is None:
            return "unset"
        if isinstance(value, str):
            return value
        return format_bytes(value) if "memory" in self.name else format_number(value)


def differences(
    before: Sequence[RunFacts], after: Sequence[RunFacts], pairs: Sequence[Pair]
) -> list[Difference]:
    """List what differs between two sides in what a user sets.

    Parameters
    ----------
    before, after : sequence of RunFacts
    pairs : sequence of Pair

    Returns
    -------
    list of Difference
        Settings first, then the cluster, requests and numbers of tasks; by name.
    """
    found = []
    sides = [_side([run.trace for run in runs]) for runs in (before, after)]
    for what, key in (("setting", 0), ("cluster", 1)):
        old, new = sides[0][key], sides[1][key]
        for name in sorted(old.keys() | new.keys()):
            # A cluster's fact that one side did not record is no difference.
            if what == "cluster" and (name not in old or name not in new):
                continue
            if old and new and not _same(old.get(name), new.get(name)):
                found.append(Difference(what, name, old.get(name), new.get(name)))
    requests = [_requests(runs) for runs in (before, after)]
    for pair in pairs:
        if not (pair.before and pair.after):
            continue
        for name in ("memory", "cores"):
            asked = [
                _first(side, names, name)
                for side, names in zip(requests, (pair.before, pair.after), strict=True)
            ]
            if None not in asked and not _same(*asked):
                found.append(
                    Difference("request", f"requested {name}", asked[0], asked[1], pair.label)
                )
        counts = [
            float(np.mean([len(run.tasks_of(names)) for run in runs]))
            for runs, names in ((before, pair.before), (after, pair.after))
        ]
        if not _same(*counts):
            found.append(Difference("tasks", "tasks", counts[0], counts[1], pair.label))
    return found


def most_at_once(starts: Any, ends: Any) -> int:
    """Give how many spans overlap at most; one that begins where another ends does not.

    Examples
    --------
    >>> most_at_once([0.0, 0.0, 5.0], [9.0, 4.0, float("inf")]), most_at_once([], [])
    (2, 0)
    """
    times = np.concatenate([np.asarray(starts, dtype=float), np.asarray(ends, dtype=float)])
    change = np.repeat([1, -1], len(times) // 2)
    order = np.lexsort((change, times))
    return int(np.cumsum(change[order]).max(initial=0))


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return abs(one - other) <= SAME_RATIO * max(abs(one), abs(other))
    return bool(one == other)


def _first(side: dict[tuple[str, str], float], names: tuple[str, ...], what: str) -> float | None:
    return next((side[n, what] for n in names if (n, what) in side), None)


def _side(traces: Sequence[Trace]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Give settings and facts of the cluster that all runs of a side share."""
    each = [(_settings(trace), _cluster(trace)) for trace in traces]
    made: list[dict[str, Any]] = []
    for key in (0, 1):
        facts = [one[key] for one in each]
        common = set(facts[0]).intersection(*facts[1:]) if facts else set()
        made.append(
            {n: facts[0][n] for n in common if all(_same(facts[0][n], f[n]) for f in facts)}
        )
    return made[0], made[1]


def _settings(trace: Trace) -> dict[str, Any]:
    """Give the recorded settings by the end of their name: a number, else a text."""
    found: dict[str, Any] = {}
    for event in view(trace).events("setting"):
        name, text = event["subject"], event["text"]
        if not name:  # A setting that is only a number has its name in the text.
            name, text = text, None
        value = float(event["value"]) if event["value"] is not None else text
        if name and value is not None:
            found.setdefault(_short(str(name)), value)
    return found


def _short(name: str) -> str:
    """Give the last part of a setting's name; a plain word keeps the part before it."""
    parts = name.split(".")
    return parts[-1] if "-" in parts[-1] else ".".join(parts[-2:])


def _cluster(trace: Trace) -> dict[str, Any]:
    table = trace.table("workers").to_pylist()
    made: dict[str, Any] = {}
    if table:
        made["workers"] = float(_side_by_side(trace) or len({row["worker"] for row in table}))
        for name, column in (("threads a worker", "cores"), ("memory a worker", "memory_bytes")):
            values = Counter(float(row[column]) for row in table if row[column])
            if values:
                made[name] = max(values.items(), key=lambda item: (item[1], -item[0]))[0]
    return made


def _side_by_side(trace: Trace) -> int | None:
    """Give the most workers that lived at one time; None where no life has a length.

    A worker that its nanny started again has a new address, and is no further worker.
    """
    lives = view(trace).lives
    return most_at_once(lives["started"], lives["ended"]) if len(lives) else None


def _requests(runs: Sequence[RunFacts]) -> dict[tuple[str, str], float]:
    """Give the median of what the attempts of each group asked for."""
    made: dict[tuple[str, str], float] = {}
    for run in runs:
        seen = view(run.trace)
        for name, column in (("memory", "requested_memory_bytes"), ("cores", "requested_cores")):
            values = seen.number(column)
            known = ~np.isnan(values) & (seen.group >= 0)
            for code in np.unique(seen.group[known]).tolist():
                middle = float(np.median(values[known & (seen.group == code)]))
                made.setdefault((seen.groups[code], name), middle)
    return made
