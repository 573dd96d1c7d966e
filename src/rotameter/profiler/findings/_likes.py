"""What makes attempts of one group unlike each other: size, place, order, moment.

Stragglers, skew, cold first tasks, slow workers and a change in mid-run all show as long attempts
of a group. Each attempt is given to one of them, by what goes with its length.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rotameter.profiler.findings.base import OUTLIER, group_median
from rotameter.profiler.groups import moved, quantiles, rows_of
from rotameter.profiler.open_ends import complete
from rotameter.profiler.view import floats

if TYPE_CHECKING:
    from rotameter.profiler.view import Codes, Floats, Mask, View

__all__ = [
    "Grown",
    "behind",
    "beyond_spread",
    "comparable",
    "families",
    "grown_with",
    "in_blocks",
    "long_ones",
    "sizes",
    "together",
]

FEWEST = 4
"""Attempts of a group before one can be called unlike the others."""

MOST_SHARE = 0.34
"""Where more of a group are long, long is what it is like."""

GROWN = 1.15
"""Data this many times as large are more data."""

APART_RATIO, APART_RANGES, APART_FEWEST = 1.25, 6.0, 8
"""Where a group's tasks are very much alike, a quarter longer is far longer already: six ranges
between the quartiles are no chance."""

AFTER_S = 0.1

FEW_BYTES = {
    "input_bytes": 1e5, "received_bytes": 1e5, "output_bytes": 1e5,
    "read_bytes": 1e6, "write_bytes": 1e6,
}  # fmt: skip
"""So few bytes are no work. A process that runs longer reads more of the system's own files, so
that little that was read goes with the time and not the time with it."""


def comparable(seen: View) -> Mask:
    """Say which attempts can be compared: ended and not known as lost, timed, of a group."""
    if "comparable" not in seen.memo:
        seen.memo["comparable"] = seen.ran & complete(seen) & (seen.group >= 0) & (seen.wall > 0)
    made: Mask = seen.memo["comparable"]
    return made


def sizes(seen: View) -> dict[str, Floats]:
    """Give what each attempt had to do, by measure; NaN = unknown; shape (n,) each.

    ``input_bytes`` is the size of all results that it depends on, wherever they were. Where that is
    known, what came over the network says more of its place than of its work; where it is not,
    ``received_bytes`` is all that is known of its input.
    """
    if "sizes" in seen.memo:
        kept: dict[str, Floats] = seen.memo["sizes"]
        return kept
    output = seen.number("output_bytes")
    result = np.full(len(seen.task_ids) + 1, np.nan)
    good = complete(seen) & ~np.isnan(output)
    np.fmax.at(result, seen.task[good], output[good])
    task, on = seen.deps
    known = (task >= 0) & (on >= 0)
    known[known] = ~np.isnan(result[on[known]])
    total = np.zeros(len(seen.task_ids) + 1)
    count = np.zeros(len(seen.task_ids) + 1, dtype=np.int64)
    np.add.at(total, task[known], result[on[known]])
    np.add.at(count, task[known], 1)
    inputs = np.where(count > 0, total, np.nan)[seen.task]
    of_group = (seen.group >= 0) & ~np.isnan(inputs)
    told = np.bincount(seen.group[of_group], minlength=len(seen.groups) + 1) > 0
    received = _else(seen, seen.number("received_bytes"), "network", ("receive", "read"))
    found = {
        "input_bytes": inputs,
        "received_bytes": np.where(told[seen.group], np.nan, received),
        "read_bytes": _else(seen, moved(seen, "read")[0], "object_store", ("read",)),
        "output_bytes": output,
        "write_bytes": _else(seen, moved(seen, "write")[0], "object_store", ("write",)),
    }
    for name, fewest in FEW_BYTES.items():
        top = np.zeros(len(seen.groups) + 1)
        np.fmax.at(top, seen.group, np.nan_to_num(found[name]))
        found[name] = np.where(top[seen.group] >= fewest, found[name], np.nan)
    found |= _features(seen)
    seen.memo["sizes"] = found
    return found


def _else(seen: View, size: Floats, medium: str, ops: tuple[str, ...]) -> Floats:
    """Fill unknown amounts with what the flows of a medium say; NaN where they say nothing."""
    flows = seen.table("flows")
    mine = flows.filter(
        pc.and_(
            pc.equal(flows["medium"], medium),
            pc.is_in(flows["op"], value_set=pa.array(ops, pa.string())),
        )
    )
    if not mine.num_rows or not np.isnan(size).any():
        return size
    row, moved_bytes = rows_of(seen, mine), floats(mine["bytes"])
    known = (row >= 0) & ~np.isnan(moved_bytes)
    total = np.bincount(row[known], moved_bytes[known], minlength=seen.n)
    has = np.bincount(row[known], minlength=seen.n) > 0
    return np.asarray(np.where(np.isnan(size) & has, total, size))


def _features(seen: View) -> dict[str, Floats]:
    """Give numbers that were known before the run (rows, bytes …), as the trace has them."""
    column = seen.tasks["features"]
    if column.null_count == seen.n:
        return {}
    found: dict[str, Floats] = {}
    for row, pairs in enumerate(column.to_pylist()):
        for name, value in pairs or ():
            if value is not None:
                found.setdefault(str(name), np.full(seen.n, np.nan))[row] = float(value)
    return {name: found[name] for name in sorted(found)[:8]}


def long_ones(seen: View, rows: Mask) -> Mask:
    """Say which attempts are far longer than their group's median, and are a minority in it.

    Twice the median, as others call a straggler (Zaharia 2008 and Ananthanarayanan 2010 say half as
    fast as usual), or less where the group is that narrow.
    """
    count = np.bincount(seen.group[rows], minlength=len(seen.groups) + 1)
    median = group_median(seen, seen.wall, rows)
    with np.errstate(invalid="ignore"):
        long = rows & (seen.wall > OUTLIER * median[seen.group])
        low, high = quantiles(seen.group[rows], seen.wall[rows], len(seen.groups), (0.25, 0.75))
        clear = np.append(np.maximum(APART_RANGES * (high - low), 0.0), np.nan)[seen.group]
        clear = np.maximum(clear, (APART_RATIO - 1.0) * median[seen.group])
        clear[count[seen.group] < APART_FEWEST] = np.inf
        long |= rows & (seen.wall - median[seen.group] > clear)
    many = np.bincount(seen.group[long], minlength=len(seen.groups) + 1)
    few = (count >= FEWEST) & (many <= np.maximum(1, MOST_SHARE * count))
    made: Mask = long & few[seen.group]
    return made


SPREAD_FEWEST, BY_CHANCE = 8, 0.01
"""So many attempts tell how a group's durations spread; and how often chance may go beyond."""

CUT_OFF = 1.15
"""What is left of a spread without its long ones looks this much narrower."""


def beyond_spread(seen: View, rows: Mask, long: Mask) -> Mask:
    """Say which of the long attempts are longer than their group's own spread explains.

    Durations that vary are log-normal, roughly: some of them are twice the median, and nothing is
    wrong with those. The middle half of the others tells how wide it is, and that with how many
    there are how long the longest may be by chance.
    """
    found = long.copy()
    for group in np.unique(seen.group[long]).tolist():
        mine = rows & (seen.group == group)
        usual = seen.wall[mine & ~long]
        if len(usual) < SPREAD_FEWEST:
            continue
        low, high = np.log(np.quantile(usual, (0.25, 0.75)))
        far = NormalDist().inv_cdf(1.0 - BY_CHANCE / float(mine.sum()))
        most = float(np.median(usual)) * np.exp(CUT_OFF * far * (high - low) / QUARTILES_APART)
        found &= ~(mine & (seen.wall <= most))
    return found


QUARTILES_APART = 1.349
"""Standard deviations between the quartiles of a normal distribution."""


BLOCK_SIGMA, BLOCK_SPREAD = 2.3, 1.3
"""Neighbours that are this much more alike than chance has it, in a side that varies that much."""

NEAR, KIN_RATIO = 3, 1.5
"""Kin: at least two of the three before and the three after took as long, within this ratio."""


def in_blocks(wall: Floats) -> bool:
    """Say whether durations in order of start come in blocks of like ones, so that work differs.

    The von Neumann ratio of ranks (Bartels 1982), whose mean is 2 in a random order.
    """
    n = len(wall)
    if n < FEWEST:
        return False
    low, high = np.quantile(wall, (0.2, 0.8))
    if high < BLOCK_SPREAD * low:
        return False
    rank = np.empty(n)
    rank[np.argsort(wall, kind="stable")] = np.arange(n)
    ratio = float((np.diff(rank) ** 2).sum() / ((rank - rank.mean()) ** 2).sum())
    return bool((2.0 - ratio) / np.sqrt(4.0 / n) >= BLOCK_SIGMA)


def families(seen: View, rows: Mask, long: Mask) -> Mask:
    """Find the long attempts that computed as long as their neighbours in order of start.

    A parameter's few settings are run one after another: those of a costly setting are long
    together, and computing. What strikes single attempts leaves their neighbours as they are.
    """
    found = np.zeros(seen.n, dtype=bool)
    cpu = seen.number("cpu_s")
    with np.errstate(invalid="ignore"):
        computing = long & (cpu > 0.5 * seen.wall)
    for group in np.unique(seen.group[computing]).tolist():
        mine = np.flatnonzero(rows & (seen.group == group))
        mine = mine[np.argsort(seen.started[mine], kind="stable")]
        wall = np.pad(seen.wall[mine], NEAR, constant_values=np.nan)
        near = np.stack([wall[NEAR + k : NEAR + k + len(mine)] for k in _STEPS])
        with np.errstate(invalid="ignore"):
            kin = (near * KIN_RATIO >= seen.wall[mine]) & (near <= KIN_RATIO * seen.wall[mine])
        found[mine] = kin.sum(axis=0) >= 2
    return found & computing


_STEPS = [k for k in range(-NEAR, NEAR + 1) if k]


@dataclass(frozen=True, slots=True, eq=False)
class Grown:
    """Which attempts are long because they had more to do.

    Attributes
    ----------
    ratio : ndarray of float64, shape (n,)
        How many times the group's median the measure is that grew most in step with the time.
    measure : list of str or None, one a group
    is_ : ndarray of bool, shape (n,)
    known : ndarray of bool, shape (n,)
        Some measure of the group is on record.
    """

    ratio: Floats
    measure: list[str | None]
    is_: Mask
    known: Mask


def grown_with(seen: View, rows: Mask, long: Mask) -> Grown:
    """Find the long attempts that had more data than their mates.

    Work that grows with the square of its data or slower takes at most the square of the data's
    ratio: data that grew by less than the root of the time's ratio do not explain the time.
    """
    if "grown" in seen.memo and seen.memo["grown"][0] is rows:
        made: Grown = seen.memo["grown"][1]
        return made
    n_groups = len(seen.groups)
    wall = seen.wall / group_median(seen, seen.wall, rows)[seen.group]
    best = np.full(seen.n, np.nan)
    known = np.zeros(seen.n, dtype=bool)
    measure: list[str | None] = [None] * n_groups
    for name, size in sizes(seen).items():
        has = rows & (size > 0)
        share = np.bincount(seen.group[has], minlength=n_groups + 1) / np.maximum(
            np.bincount(seen.group[rows], minlength=n_groups + 1), 1
        )
        median = np.append(quantiles(seen.group[has], size[has], n_groups, (0.5,))[0], np.nan)
        median[share < 0.8] = np.nan
        with np.errstate(invalid="ignore", divide="ignore"):
            ratio = size / median[seen.group]
        known |= rows & ~np.isnan(ratio)
        with np.errstate(invalid="ignore"):
            explains = long & (ratio >= GROWN) & (ratio >= np.sqrt(wall))
        for group in np.unique(seen.group[explains]).tolist():
            measure[group] = measure[group] or name
        best = np.fmax(best, ratio)
    with np.errstate(invalid="ignore"):
        is_ = long & (best >= GROWN) & (best >= np.sqrt(wall))
    found = Grown(best, measure, is_, known)
    seen.memo["grown"] = (rows, found)
    return found


def behind(seen: View, long: Mask) -> Mask:
    """Say which attempts began while one of the long ones ran, or right after it.

    Some had been given to its worker and stood behind it until they were moved, while others had
    no task: had it been short, nobody would have stood still.
    """
    ran = np.flatnonzero(long)
    order = ran[np.argsort(seen.started[ran], kind="stable")]
    last = np.concatenate([[-np.inf], np.maximum.accumulate(seen.ended[order])])
    at = np.searchsorted(seen.started[order], seen.started, "left")
    with np.errstate(invalid="ignore"):
        made: Mask = (seen.started <= last[at] + AFTER_S) & ~long
    return made


def together(seen: View, rows: Codes, since_s: float) -> bool:
    """Say whether attempts ended at one instant without having computed: all waited for one thing.

    Parameters
    ----------
    rows : ndarray of int64
        Long attempts.
    since_s : float
        Their usual length.
    """
    if len(rows) < 2:
        return False
    cpu = seen.number("cpu_s")[rows]
    wall, ends = seen.wall[rows], seen.ended[rows]
    extra = wall - since_s
    if np.isnan(cpu).any():
        return False
    busy = cpu + np.nan_to_num(seen.number("io_s")[rows]) > 0.5 * wall
    # On a crowded machine they wait for cores as well: then more CPU time than usual tells.
    mates = group_median(seen, seen.number("cpu_s"), comparable(seen))[seen.group[rows]]
    busy |= (cpu > OUTLIER * mates) & (cpu > 0.05)
    near = float(np.ptp(ends)) <= max(0.05, 0.03 * float(extra.max())) + 2.0 * since_s
    return bool(near and not busy.any())
