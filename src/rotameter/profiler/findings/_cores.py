"""CPU of tasks, of processes and of hosts, side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow.compute as pc

from rotameter.profiler.groups import quantiles
from rotameter.profiler.view import floats

if TYPE_CHECKING:
    from rotameter.profiler.view import Codes, Floats, Mask, View

__all__ = [
    "beside",
    "controller",
    "host_cores",
    "idle_cores_beside",
    "idle_host_cores",
    "processes_beside",
    "spare_share",
    "threads_of",
]


def threads_of(seen: View) -> Floats:
    """Give the cores of each worker on record; NaN = unknown; shape (n_workers + 1,)."""
    made = np.full(len(seen.workers) + 1, np.nan)
    for life in seen.lives:
        made[life["worker"]] = np.fmax(made[life["worker"]], life["cores"])
    return made


def host_cores(seen: View) -> Floats:
    """Give the cores of the machine that each worker runs on; NaN = unknown."""
    table = seen.table("workers")
    hosts = dict(zip(table["worker"].to_pylist(), table["host"].to_pylist(), strict=True))
    cores = seen.machines("cores")
    return np.array([cores.get(hosts.get(name) or "", np.nan) for name in [*seen.workers, ""]])


def neighbours(seen: View) -> Floats:
    """Give how many workers that ran something share each worker's machine, itself included."""
    table = seen.table("workers")
    hosts = dict(zip(table["worker"].to_pylist(), table["host"].to_pylist(), strict=True))
    busy = {seen.workers[code] for code in np.unique(seen.worker[seen.ran]).tolist() if code >= 0}
    count: dict[str | None, int] = {}
    for name in sorted(busy):
        count[hosts.get(name)] = count.get(hosts.get(name), 0) + 1
    return np.array([float(count.get(hosts.get(n), 1) or 1) for n in [*seen.workers, ""]])


def beside(seen: View) -> Floats:
    """Give how many tasks ran on each attempt's worker at once, itself included; shape (n,).

    The mean over its time: recorded, else swept.
    """
    if "beside" in seen.memo:
        kept: Floats = seen.memo["beside"]
        return kept
    made = seen.number("concurrency").copy()
    rows = np.flatnonzero(seen.ran & (seen.worker >= 0) & np.isnan(made))
    for code in np.unique(seen.worker[rows]).tolist():
        here = np.flatnonzero(seen.ran & (seen.worker == code))
        edges = np.unique(np.concatenate([seen.started[here], seen.ended[here]]))
        begun = np.searchsorted(np.sort(seen.started[here]), edges, "right")
        gone = np.searchsorted(np.sort(seen.ended[here]), edges, "right")
        total = np.concatenate([[0.0], np.cumsum((begun - gone)[:-1] * np.diff(edges))])
        mine = rows[seen.worker[rows] == code]
        area = np.interp(seen.ended[mine], edges, total) - np.interp(
            seen.started[mine], edges, total
        )
        length = seen.ended[mine] - seen.started[mine]
        made[mine] = np.where(length > 0, area / np.where(length > 0, length, 1.0), 1.0)
    seen.memo["beside"] = made
    return made


def processes_beside(seen: View) -> Floats:
    """Give how many workers of each attempt's machine ran something during it, itself included.

    The mean over its time, swept; NaN = it did not run; shape (n,).
    """
    if "processes beside" in seen.memo:
        kept: Floats = seen.memo["processes beside"]
        return kept
    made = np.full(seen.n, np.nan)
    rows = np.flatnonzero(seen.ran & (seen.worker >= 0))
    host = _hosts(seen)[seen.worker[rows]]
    for place in np.unique(host).tolist():
        mine = rows[host == place]
        begun, gone = _busy(seen.worker[mine], seen.started[mine], seen.ended[mine])
        edges = np.unique(np.concatenate([begun, gone]))
        count = np.searchsorted(np.sort(begun), edges, "right") - np.searchsorted(
            np.sort(gone), edges, "right"
        )
        total = np.concatenate([[0.0], np.cumsum(count[:-1] * np.diff(edges))])
        length = seen.ended[mine] - seen.started[mine]
        area = np.interp(seen.ended[mine], edges, total) - np.interp(
            seen.started[mine], edges, total
        )
        made[mine] = np.where(length > 0, area / np.where(length > 0, length, 1.0), 1.0)
    seen.memo["processes beside"] = made
    return made


def _hosts(seen: View) -> Codes:
    """Give a number for the machine of each worker; those without one on record share one."""
    table = seen.table("workers")
    hosts = dict(zip(table["worker"].to_pylist(), table["host"].to_pylist(), strict=True))
    places = [hosts.get(name) or "" for name in [*seen.workers, ""]]
    number = {host: code for code, host in enumerate(sorted(set(places)))}
    return np.array([number[place] for place in places])


def _busy(lane: Codes, start: Floats, end: Floats) -> tuple[Floats, Floats]:
    """Join the intervals of each lane that touch or overlap; gives their starts and ends."""
    order = np.lexsort((start, lane))
    lane, start, end = lane[order], start[order], end[order]
    stride = float(end.max() - start.min()) + 1.0
    last = np.maximum.accumulate(end + lane * stride) - lane * stride
    new = np.concatenate([[True], (lane[1:] != lane[:-1]) | (start[1:] > last[:-1])])
    first = np.flatnonzero(new)
    return start[first], last[np.append(first[1:] - 1, len(last) - 1)]


def idle_cores_beside(seen: View, rows: Codes) -> Floats:
    """Give the cores of its own machine that nothing used during each of some attempts.

    Median of the readings; NaN = not sampled then; shape (len(rows),).
    """
    if "cpu readings" not in seen.memo:
        table = seen.table("samples")
        table = table.filter(pc.equal(table["metric"], "cpu_ratio"))
        order = np.argsort(seen.seconds(table["at_ns"]), kind="stable")
        names = np.array(table["subject"].to_pylist(), dtype=object)[order]
        at, value = seen.seconds(table["at_ns"])[order], floats(table["value"])[order]
        seen.memo["cpu readings"] = {
            name: (at[names == name], value[names == name])
            for name in sorted({n for n in names.tolist() if n is not None})
        }
    cores = seen.machines("cores")
    table = seen.table("workers")
    hosts = dict(zip(table["worker"].to_pylist(), table["host"].to_pylist(), strict=True))
    places = [hosts.get(name) or "" for name in [*seen.workers, ""]]
    made = np.full(len(rows), np.nan)
    for number, row in enumerate(rows.tolist()):
        host = places[seen.worker[row]]
        at, value = seen.memo["cpu readings"].get(host, (np.zeros(0), np.zeros(0)))
        # A reading is about the half second before it.
        low = np.searchsorted(at, seen.started[row], "right")
        high = np.searchsorted(at, seen.ended[row] + 0.5, "right")
        if high > low and host in cores:
            made[number] = cores[host] * (1.0 - float(np.median(value[low:high])))
    return made


def idle_host_cores(seen: View, begin_s: float, end_s: float) -> float | None:
    """Give the cores of the machines that nothing at all used, on the mean; None = not sampled."""
    table = seen.table("samples")
    rows = table.filter(pc.equal(table["metric"], "cpu_ratio"))
    if not rows.num_rows:
        return None
    cores = seen.machines("cores")
    at, value = seen.seconds(rows["at_ns"]), floats(rows["value"])
    # A reading is about the half second before it.
    inside = (at > begin_s) & (at <= end_s + 0.5)
    total, known = 0.0, False
    names = np.array(rows["subject"].to_pylist(), dtype=object)
    for host in sorted(set(names[inside].tolist()) & set(cores)):
        mine = inside & (names == host)
        total += cores[host] * (1.0 - float(np.median(value[mine])))
        known = True
    return total if known else None


def spare_share(seen: View, begin_s: float, end_s: float) -> float | None:
    """Give the part of the machines' cores that the run's own processes did not use; None: unknown.

    Workers, scheduler and client, as far as they were sampled; what others use meanwhile they might
    have to give up.
    """
    hosts = {host for host in seen.table("workers")["host"].to_pylist() if host}
    cores = seen.machines("cores")
    table = seen.table("samples")
    rows = table.filter(pc.equal(table["metric"], "process_cpu_cores"))
    at, value = seen.seconds(rows["at_ns"]), floats(rows["value"])
    # A reading is about the half second before it.
    inside = (at > begin_s) & (at <= end_s + 0.5) & ~np.isnan(value)
    names = np.array(rows["subject"].to_pylist(), dtype=object)[inside].tolist()
    busy = {seen.workers[code] for code in np.unique(seen.worker[seen.ran]).tolist() if code >= 0}
    if not hosts or not hosts <= set(cores) or not busy or not busy <= set(names):
        return None
    readings = max(names.count(name) for name in set(names))
    total = float(sum(cores[host] for host in hosts))
    used = float(value[inside].sum()) / (readings * total)
    return float(max(0.0, 1.0 - used))


def controller(seen: View, metric: str) -> tuple[Floats, Floats]:
    """Give the readings of the processes that are no workers: the scheduler's, the client's.

    Returns
    -------
    at_s, value : ndarray
        Of the one whose readings are highest in the median; empty where none is on record.
    """
    table = seen.table("samples")
    rows = table.filter(pc.equal(table["metric"], metric))
    subjects = np.array(rows["subject"].to_pylist(), dtype=object)
    at, value = seen.seconds(rows["at_ns"]), floats(rows["value"])
    others = sorted({s for s in subjects.tolist() if s is not None} - set(seen.workers))
    best: tuple[Floats, Floats] = (np.zeros(0), np.zeros(0))
    for name in others:
        mine = subjects == name
        if not len(best[1]) or np.median(value[mine]) > np.median(best[1]):
            best = (at[mine], value[mine])
    order = np.argsort(best[0], kind="stable")
    return best[0][order], best[1][order]


def group_share(seen: View, rows: Mask, values: Floats) -> Floats:
    """Give the median of values by group over some attempts; shape (n_groups,)."""
    mine = rows & ~np.isnan(values)
    return np.asarray(quantiles(seen.group[mine], values[mine], len(seen.groups), (0.5,))[0])
