"""Rows of several sources about one attempt made into one; who said what, who disagrees."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rotameter.adapters.importers.times import zone_text
from rotameter.units import many

if TYPE_CHECKING:
    from rotameter.adapters.importers.building import Builder

__all__ = [
    "FURTHEST_NS",
    "QUARTER_NS",
    "Joined",
    "Ledger",
    "known_zone",
    "lost",
    "offset_between",
]

QUARTER_NS = 900 * 10**9
"""All zones lie whole quarters of an hour apart."""
_NEAR_NS = 120 * 10**9
FURTHEST_NS = 60 * QUARTER_NS
_LOST = frozenset(("failed", "oom", "timeout", "preempted", "worker_lost", "cancelled"))
_PRECISE = frozenset(("oom", "timeout", "preempted", "worker_lost", "cancelled"))
_NAMES = frozenset(("host", "queue", "account", "user", "exit_code"))
_SILENT = frozenset(("parent", "group", "worker", "features", "priority", "signal", "ready_ns"))
_OWN = frozenset(("task_id", "attempt", "run_id", "source"))


def lost(outcome: str | None) -> bool:
    """Say whether an attempt's work is gone.

    Examples
    --------
    >>> lost("oom"), lost("ok")
    (True, False)
    """
    return outcome in _LOST


def _differ(column: str, a: Any, b: Any) -> bool:
    """Say whether two values differ beyond how they are rounded."""
    if column in _SILENT or column.endswith("_kind"):
        return False
    if column in _NAMES:
        return bool(a != b)
    if isinstance(a, bool) or not isinstance(a, (int, float)) or not isinstance(b, (int, float)):
        return False
    gap = abs(a - b)
    if column.endswith("_ns"):
        return gap > 60e9  # engines look at jobs once in a while
    if column.endswith("_s"):
        return gap > max(2.0, 0.05 * max(abs(a), abs(b)))
    if column.endswith("_bytes"):
        return gap > max(1 << 20, 0.05 * max(abs(a), abs(b)))
    return gap > 0.05 * max(abs(a), abs(b))


@dataclass
class Joined:
    """One attempt, and for each column which source it is of."""

    row: dict[str, Any]
    origin: dict[str, str] = field(default_factory=dict)
    samples: dict[str, float] = field(default_factory=dict)
    conflicts: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, row: Mapping[str, Any], source: str) -> Joined:
        """Begin with what one source says."""
        made = cls(dict(row))
        made.origin = {c: source for c, v in row.items() if v is not None and c not in _OWN}
        return made

    def put(self, column: str, value: Any, source: str) -> None:
        """Set one value."""
        if value is not None:
            self.row[column] = value
            self.origin[column] = source

    def fill(
        self,
        other: Mapping[str, Any],
        source: str,
        better: Iterable[str] = (),
        apart: Iterable[str] = (),
    ) -> None:
        """Take what another source knows: where there is nothing yet, or where it is better.

        Columns ``apart`` mean something else there, so that a difference is no conflict.
        """
        wins, unlike = set(better), set(apart)
        self._outcome(other, source)
        self._peak(other, source)
        for column, value in other.items():
            if value is None or column in _OWN or column in _APART:
                continue
            mine = self.row.get(column)
            if mine is not None and column not in unlike and _differ(column, mine, value):
                self.conflicts.add(column)
            if mine is None or column in wins:
                self.put(column, value, source)
        self._censor()

    def _outcome(self, other: Mapping[str, Any], source: str) -> None:
        """Keep what the workflow says, told more closely by who ran it."""
        mine, theirs = self.row.get("outcome"), other.get("outcome")
        if theirs in (None, "unknown", "running") and mine is not None:
            return
        blank = mine in (None, "unknown", "running")
        closer = lost(mine) and theirs in _PRECISE
        if not blank and theirs is not None and lost(mine) != lost(theirs) and mine != "cached":
            self.conflicts.add("outcome")
        if blank or closer:
            for column in ("outcome", "outcome_kind"):
                self.put(column, other.get(column), source)
            if other.get("error") and (blank or not self.row.get("error")):
                self.put("error", other["error"], source)

    def _peak(self, other: Mapping[str, Any], source: str) -> None:
        """Keep the higher peak: each reading is one that the true peak is not below."""
        mine, theirs = self.row.get("peak_memory_bytes"), other.get("peak_memory_bytes")
        if theirs is None:
            return
        if mine is not None and _differ("peak_memory_bytes", mine, theirs):
            censored = "lower_bound" in (
                self.row.get("peak_memory_kind"),
                other.get("peak_memory_kind"),
            )
            if not censored:
                self.conflicts.add("peak_memory_bytes")
        if mine is None or theirs > mine:
            self.put("peak_memory_bytes", theirs, source)
            self.put("peak_memory_kind", other.get("peak_memory_kind"), source)

    def _censor(self) -> None:
        """Killed for memory: it needed at least what it had."""
        if self.row.get("outcome") != "oom":
            return
        peak, asked = self.row.get("peak_memory_bytes"), self.row.get("requested_memory_bytes")
        source = self.origin.get("outcome", "")
        if asked and asked > (peak or 0):
            self.put("peak_memory_bytes", asked, self.origin.get("requested_memory_bytes", source))
        if self.row.get("peak_memory_bytes") is not None:
            self.put("peak_memory_kind", "lower_bound", source)


_APART = frozenset(("outcome", "outcome_kind", "error", "peak_memory_bytes", "peak_memory_kind"))


class Ledger:
    """Counts what a join did, for the trace's metadata."""

    def __init__(self) -> None:
        self.records: Counter[str] = Counter()
        self.matched: Counter[str] = Counter()
        self.unmatched: Counter[str] = Counter()
        self.zones: dict[str, Any] = {}

    def close(self, rows: Iterable[Joined], build: Builder) -> None:
        """Write it down: metadata ``join`` and ``column_sources``, and the warnings."""
        columns: dict[str, Counter[str]] = defaultdict(Counter)
        conflicts: Counter[str] = Counter()
        for joined in rows:
            for column, source in joined.origin.items():
                if joined.row.get(column) is not None:
                    columns[column][source] += 1
            conflicts.update(joined.conflicts)
        build.meta["column_sources"] = {
            column: dict(sorted(columns[column].items())) for column in sorted(columns)
        }
        build.meta["join"] = {
            "records": dict(sorted(self.records.items())),
            "matched": dict(sorted(self.matched.items())),
            "unmatched": {k: v for k, v in sorted(self.unmatched.items()) if v},
            "conflicts": dict(sorted(conflicts.items())),
            "zones": dict(sorted(self.zones.items())),
        }
        for source, count in sorted(self.unmatched.items()):
            if count:
                belong = "belongs" if count == 1 else "belong"
                build.warn(f"{many(count, 'record')} of {source} {belong} to no task of the others")
        if conflicts:
            said = ", ".join(f"{column} ({n:,})" for column, n in sorted(conflicts.items()))
            build.warn(f"sources disagree beyond rounding on: {said}; see meta column_sources")


def known_zone(ledger: Ledger, given_s: float | None, build: Builder) -> None:
    """Say that the zone which the user gave is another than the files' times tell.

    What they tell stands: the records of one run would else be hours apart.
    """
    zones = [zone for zone in ledger.zones.values() if "inferred" in zone.get("how", "")]
    told = sorted({z["utc_offset_s"] for z in zones if z.get("utc_offset_s") is not None})
    if given_s is not None and told and given_s not in told:
        said = ", ".join(zone_text(zone_s * 1e9) for zone_s in told)
        build.warn(
            f"--utc-offset {zone_text(given_s * 1e9)} is not what the run's own times tell "
            f"({said}): theirs is taken"
        )


def offset_between(pairs: Iterable[tuple[int | None, int | None]]) -> int | None:
    """Find the zone between two clocks from times of the same events.

    Parameters
    ----------
    pairs : iterable of (int, int)
        Local and reference time of an event, ns.

    Returns
    -------
    int or None
        ns to take off the local times, whole quarters of an hour; None if the pairs do not agree.

    Examples
    --------
    >>> hour = 3600 * 10**9
    >>> offset_between([(2 * hour + 5, 1), (2 * hour + 10**9, 7)]) == 2 * hour
    True
    >>> offset_between([(hour, 1), (2 * hour, 1)]) is None
    True
    """
    found: Counter[int] = Counter()
    for local, reference in pairs:
        if local is None or reference is None:
            continue
        quarters = round((local - reference) / QUARTER_NS)
        near = abs(local - reference - quarters * QUARTER_NS) <= _NEAR_NS
        if near and abs(quarters * QUARTER_NS) <= FURTHEST_NS:  # else it is not the same event
            found[quarters] += 1
    if not found:
        return None
    quarters, agree = min(found.items(), key=lambda item: (-item[1], abs(item[0])))
    if agree < 0.8 * found.total():
        return None
    return quarters * QUARTER_NS
