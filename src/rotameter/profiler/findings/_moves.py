"""What attempts read and wrote, as arrays: shared by the rules of I/O."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rotameter.profiler.groups import rows_of
from rotameter.profiler.view import encode, floats, lookup

if TYPE_CHECKING:
    from rotameter.profiler.view import Codes, Floats, Mask, View

__all__ = [
    "LARGE_CALL_BYTES",
    "PROGRAM",
    "Moves",
    "busy_or_span",
    "crowding",
    "large_rate",
    "moves",
    "pattern",
    "patterns_of",
    "total_by",
]

LARGE_CALL_BYTES = 262_144
"""From this size on, what a call costs whatever its size no longer shows in its time."""

USUAL_RATE = 500e6
"""Bytes a second of large calls where the run has none to compare with: a plain local disk."""

PROGRAM = re.compile(r"\.(pyc?|pyi|so(\.\d+)*|pth|dll)$|/(site|dist)-packages/|\.(dist|egg)-info/")
"""Files that are a program, not its data."""

_REMOTE = re.compile(r"^(s3a?|gs|gcs|abfss?|az|https?|oss|swift)://")
_DIGITS = re.compile(r"\d+")


@dataclass(frozen=True, slots=True, eq=False)
class Moves:
    """Rows of ``flows`` in which a task read or wrote a file or a stored object.

    Attributes
    ----------
    row : ndarray of int64, shape (n,)
        Attempt (row of ``tasks``), -1 unknown.
    group, thing, tier : ndarray of int64, shape (n,)
        Codes: into the view's groups, ``things`` and ``tiers``; -1 unknown.
    write, remote : ndarray of bool, shape (n,)
        Written, not read; behind an object store's requests.
    bytes, ops, busy_s, first_s, last_s, footprint, used, size : ndarray of float64, shape (n,)
        NaN = unknown; ``size`` is the whole object's.
    """

    row: Codes
    group: Codes
    thing: Codes
    things: list[str]
    tier: Codes
    tiers: list[str]
    write: Mask
    remote: Mask
    bytes: Floats
    ops: Floats
    busy_s: Floats
    first_s: Floats
    last_s: Floats
    footprint: Floats
    used: Floats
    size: Floats
    program: Mask

    @property
    def n(self) -> int:
        """How many rows."""
        return len(self.row)

    @property
    def span_s(self) -> Floats:
        """Seconds from the first call's start to the last one's end."""
        return self.last_s - self.first_s

    @property
    def call_bytes(self) -> Floats:
        """Mean bytes of a call."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(self.ops > 0, self.bytes / self.ops, np.nan)


def moves(seen: View) -> Moves:
    """Give what the attempts of a view read and wrote."""
    if "moves" not in seen.memo:
        seen.memo["moves"] = _moves(seen)
    made: Moves = seen.memo["moves"]
    return made


def _moves(seen: View) -> Moves:
    table = seen.table("flows")
    kept = pc.and_(
        pc.is_in(table["medium"], value_set=pa.array(["file", "object_store"], pa.string())),
        pc.is_in(table["op"], value_set=pa.array(["read", "write"], pa.string())),
    )
    rows = table.filter(pc.and_(kept, pc.is_valid(table["object"])))
    row = rows_of(seen, rows) if seen.n else np.full(rows.num_rows, -1, dtype=np.int64)
    thing, things = encode(rows["object"])
    objects = seen.table("objects")
    place = lookup(objects["object"], things)
    known = place >= 0
    size = np.full(len(things) + 1, np.nan)
    np.fmax.at(size, place[known], floats(objects["size_bytes"])[known])
    codes, tiers = encode(rows["tier"])
    of_object, more = encode(objects["tier"])
    names = {name: code for code, name in enumerate(tiers)}
    for name in more:
        names.setdefault(name, len(names))
    table_of = np.array([names[name] for name in more] + [-1], dtype=np.int64)
    by_object = np.full(len(things) + 1, -1, dtype=np.int64)
    by_object[place[known]] = table_of[of_object[known]]
    write = pc.equal(rows["op"], "write").to_numpy().astype(bool)
    bytes_ = floats(rows["bytes"])
    # The size of what was written whole in this run is what was written.
    _size_of_written(size, thing, write, bytes_)
    remote = pc.equal(rows["medium"], "object_store").to_numpy().astype(bool)
    away = np.array([bool(_REMOTE.match(name)) for name in things] + [False])
    own = np.array([bool(PROGRAM.search(name)) for name in things] + [False])
    return Moves(
        row=row,
        group=np.append(seen.group, -1)[row],
        thing=thing,
        things=things,
        tier=np.where(codes >= 0, codes, by_object[thing]),
        tiers=list(names),
        write=write,
        remote=remote | away[thing],
        bytes=bytes_,
        ops=floats(rows["ops"]),
        busy_s=floats(rows["busy_s"]),
        first_s=seen.seconds(rows["first_ns"]),
        last_s=seen.seconds(rows["last_ns"]),
        footprint=floats(rows["footprint_bytes"]),
        used=floats(rows["used_bytes"]),
        size=size[thing],
        program=own[thing],
    )


def _size_of_written(size: Floats, thing: Codes, write: Mask, moved: Floats) -> None:
    mine = np.flatnonzero(write & ~np.isnan(moved))
    total = np.bincount(thing[mine], moved[mine], minlength=len(size))
    once = np.bincount(thing[mine], minlength=len(size)) == 1
    fill = np.isnan(size) & once & (total > 0)
    size[fill] = total[fill]


def busy_or_span(made: Moves) -> Floats:
    """Give the seconds in calls; where those are unknown NaN, never negative."""
    return np.where(made.busy_s >= 0, made.busy_s, np.nan)


def large_rate(made: Moves, rows: Mask) -> tuple[float, str, int]:
    """Give the bytes a second that large calls reach, how that is known, and from how many rows.

    The median by bytes of calls of the same kind and tiers that are large; where there are none,
    of a plain local disk.
    """
    writes = bool(made.write[rows].all()) if rows.any() else False
    tiers = np.unique(made.tier[rows])
    alike = np.isin(made.tier, tiers) & (made.write == writes) & ~made.remote
    good = alike & (made.call_bytes >= LARGE_CALL_BYTES) & (made.busy_s > 0)
    if not good.any():
        return USUAL_RATE, "assumed, as the run has no large calls there", 0
    size, busy = made.bytes[good], made.busy_s[good]
    rate = size / busy
    order = np.argsort(rate, kind="stable")
    weight = np.cumsum(size[order])
    middle = float(rate[order][np.searchsorted(weight, 0.5 * weight[-1])])
    return middle, "large calls of this run", int(good.sum())


def total_by(keys: Codes, values: Floats, n: int) -> Floats:
    """Sum known values by key (>= 0); 0 where there are none."""
    good = (keys >= 0) & ~np.isnan(values)
    return np.bincount(keys[good], values[good], minlength=n).astype(np.float64)


def crowding(seen: View) -> float:
    """Give how many seconds a second of CPU time took, of attempts that touch no file.

    1 on a machine with nothing else to do; more where others compute on it as well.
    """
    cpu, made = seen.number("cpu_s"), moves(seen)
    bare = np.ones(seen.n + 1, dtype=bool)
    bare[made.row] = False
    good = seen.ran & bare[:-1] & (cpu > 1e-3) & (seen.wall > 0)
    if good.sum() < 5:
        return 1.0
    return float(np.clip(np.median(seen.wall[good] / cpu[good]), 1.0, 50.0))


def pattern(name: str) -> str:
    """Give the pattern of a name: its numbers are stars.

    Examples
    --------
    >>> pattern("ALL.chr12.250000.vcf")
    'ALL.chr*.*.vcf'
    """
    return _DIGITS.sub("*", name)


def patterns_of(made: Moves) -> tuple[Codes, list[str]]:
    """Give the pattern of each row's object, as codes and names."""
    names: dict[str, int] = {}
    codes = [names.setdefault(pattern(name), len(names)) for name in made.things]
    table: Any = np.array([*codes, -1], dtype=np.int64)
    return table[made.thing], list(names)
