"""Jobs of a batch system as columns, read from a trace; what cannot be simulated is counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rotameter.errors import EmptyTrace, UsageError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rotameter.profiler.trace import Trace

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]
    Mask = NDArray[np.bool_]

__all__ = ["Intake", "Jobs", "jobs_of", "make_jobs"]

_NS = 1_000_000_000
_DIFFER = 0.05
"""Requests that differ from grants in a larger part of the jobs count something else than cores."""

_LONGEST_S = 10**9  # some 30 years: what is longer is no time of a job


@dataclass(frozen=True, slots=True, eq=False)
class Jobs:
    """Jobs in order of arrival; equal arrivals in order of their ids.

    Attributes
    ----------
    ids : tuple of str
    arrive_s : ndarray of int64, shape (n,)
        When a job could first have started, seconds from ``zero_ns``.
    run_s : ndarray of int64, shape (n,)
        How long it runs if nothing stops it.
    limit_s : ndarray of int64, shape (n,)
        After how long it is killed; what the scheduler plans with. At least 1.
    cores, memory_bytes, gpus, nodes : ndarray of int64, shape (n,)
        What it holds; 0 in the last three: not known.
    exclusive : ndarray of bool, shape (n,)
        It wants its nodes for itself.
    user : ndarray of int64, shape (n,)
        Codes; jobs of unknown users have one code together.
    started_s : ndarray of float64, shape (n,)
        When it started as recorded, NaN = unknown.
    zero_ns : int
        The moment from which seconds count, nanoseconds since the epoch.
    table : pyarrow.Table, optional
        The rows of ``tasks`` that the jobs come from, in the same order.
    """

    ids: tuple[str, ...]
    arrive_s: Ints
    run_s: Ints
    limit_s: Ints
    cores: Ints
    memory_bytes: Ints
    gpus: Ints
    nodes: Ints
    exclusive: Mask
    user: Ints
    started_s: Floats
    zero_ns: int = 0
    table: Any = None

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def held_s(self) -> Ints:
        """How long a job holds what it has: its run time, cut at its limit."""
        return np.minimum(self.run_s, self.limit_s)

    def take(self, places: Ints | Mask) -> Jobs:
        """Give the jobs at these places alone, in the order given."""
        at = np.flatnonzero(places) if places.dtype == bool else places
        return Jobs(
            ids=tuple(self.ids[i] for i in at),
            **{name: getattr(self, name)[at] for name in _COLUMNS},
            zero_ns=self.zero_ns,
            table=None if self.table is None else self.table.take(pa.array(at)),
        )


_COLUMNS = (
    "arrive_s", "run_s", "limit_s", "cores", "memory_bytes", "gpus", "nodes", "exclusive", "user",
    "started_s",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Intake:
    """What became of the rows of a log.

    Attributes
    ----------
    rows : int
        All rows, refused lines among them.
    unusable : dict of str to int
        Why rows cannot be simulated, and how many.
    without_limit : int
        Jobs without a known limit: the run time stands for it, as if it were known before.
    beyond_limit : int
        Jobs that ran longer than their limit: they are killed at it.
    cores_from : {"requested", "granted"}
        Which of the two a job is taken to hold, where both are known.
    cores_differ : int
        Jobs that were granted other than they asked for.
    """

    rows: int
    unusable: dict[str, int] = field(default_factory=dict)
    without_limit: int = 0
    beyond_limit: int = 0
    cores_from: str = "requested"
    cores_differ: int = 0

    @property
    def lost(self) -> int:
        """Rows that cannot be simulated."""
        return sum(self.unusable.values())


def make_jobs(
    arrive_s: Sequence[int] | Ints,
    run_s: Sequence[int] | Ints,
    cores: Sequence[int] | Ints,
    *,
    limit_s: Sequence[int] | Ints | None = None,
    ids: Sequence[str] | None = None,
    **columns: Any,
) -> Jobs:
    """Make jobs from plain columns; what is left out is unknown.

    Parameters
    ----------
    arrive_s, run_s, cores : sequence of int
    limit_s : sequence of int, optional
        Without it the run time stands for the limit.
    ids : sequence of str, optional
        Numbers from 1 where they are not given.
    **columns
        Others of :class:`Jobs`.

    Examples
    --------
    >>> jobs = make_jobs([5, 0], [10, 20], [1, 2])
    >>> jobs.ids, jobs.arrive_s.tolist()
    (('2', '1'), [0, 5])
    """
    n = len(arrive_s)
    run = np.asarray(run_s, np.int64)
    none = np.zeros(n, np.int64)
    made = Jobs(
        ids=tuple(ids) if ids is not None else tuple(str(i + 1) for i in range(n)),
        arrive_s=np.asarray(arrive_s, np.int64),
        run_s=run,
        limit_s=np.maximum(run if limit_s is None else np.asarray(limit_s, np.int64), 1),
        cores=np.asarray(cores, np.int64),
        memory_bytes=np.asarray(columns.get("memory_bytes", none), np.int64),
        gpus=np.asarray(columns.get("gpus", none), np.int64),
        nodes=np.asarray(columns.get("nodes", none), np.int64),
        exclusive=np.asarray(columns.get("exclusive", none), np.bool_),
        user=np.asarray(columns.get("user", none), np.int64),
        started_s=np.asarray(columns.get("started_s", np.full(n, np.nan)), np.float64),
        zero_ns=columns.get("zero_ns", 0),
    )
    return made.take(np.lexsort((np.arange(n), made.arrive_s)))


def jobs_of(trace: Trace, *, cores_from: str | None = None) -> tuple[Jobs, Intake]:
    """Read the jobs of a trace.

    A job arrives when it is ready, else when it was submitted. It holds the cores that it asked
    for, which is what a scheduler knows; where that is not known, or differs from what was granted
    in more than 5 % of the jobs (some logs mix nodes and cores there), what it was granted. Parts
    of a second count as whole ones of the run time, and are dropped from moments. Rows that are
    parts of another (steps of a job) are no jobs.

    Parameters
    ----------
    trace : Trace
    cores_from : {"requested", "granted"}, optional
        Take the one or the other; what is not known comes from the other one.

    Raises
    ------
    EmptyTrace
        If not one row can be simulated.
    """
    tasks = trace.table("tasks")
    tasks = tasks.filter(pc.is_null(tasks["parent"]))
    refused = len(trace.table("rejects"))
    ready = pc.coalesce(tasks["ready_ns"], tasks["submitted_ns"])
    run = _run_s(tasks)
    cores_from, differ = _which_cores(tasks, cores_from)
    other = "granted" if cores_from == "requested" else "requested"
    cores = np.ceil(_first_positive(tasks, f"{cores_from}_cores", f"{other}_cores"))
    reasons: dict[str, Mask] = {
        "submission unknown": np.asarray(pc.is_null(ready)),
        "run time unknown or of decades": ~((run >= 0) & (run < _LONGEST_S)),
        "processors unknown": ~((cores >= 1) & (cores < 1 << 53)),
    }
    unusable = Counter({"line refused": refused} if refused else {})
    good = np.ones(len(tasks), np.bool_)
    for reason, bad in reasons.items():
        count = int((good & bad).sum())
        good &= ~bad
        if count:
            unusable[reason] = count
    if not good.any():
        words = ", ".join(f"{reason}: {count:,}" for reason, count in unusable.items())
        raise EmptyTrace(
            f"no job that can be simulated ({words or 'no rows'})",
            hint="a job needs a submission, a run time and a number of processors",
        )
    kept = tasks.filter(pa.array(good))
    jobs, limited = _columns(kept, ready.filter(pa.array(good)), run[good], cores[good], trace)
    intake = Intake(
        rows=len(tasks) + refused,
        unusable=dict(unusable),
        without_limit=int((~limited).sum()),
        beyond_limit=int((jobs.run_s > jobs.limit_s).sum()),
        cores_from=cores_from,
        cores_differ=int(differ[good].sum()),
    )
    return jobs, intake


def _which_cores(tasks: pa.Table, wanted: str | None) -> tuple[str, Mask]:
    """Say which cores to take, and where the two differ."""
    asked = _first_positive(tasks, "requested_cores")
    given = _first_positive(tasks, "granted_cores")
    both = ~np.isnan(asked) & ~np.isnan(given)
    differ = both & (asked != given)
    if wanted is None:
        wanted = "granted" if differ.sum() > _DIFFER * both.sum() else "requested"
    if wanted not in ("requested", "granted"):
        raise UsageError(f"no cores that are {wanted}", hint="requested or granted")
    return wanted, differ


def _columns(
    kept: pa.Table, ready: pa.ChunkedArray, run: Floats, cores: Floats, trace: Trace
) -> tuple[Jobs, Mask]:
    arrive_ns = ready.to_numpy().astype(np.int64)
    zero_ns = trace.meta.get("log_start_ns")
    zero_ns = zero_ns if isinstance(zero_ns, int) else int(arrive_ns.min())
    arrive = (arrive_ns - zero_ns) // _NS
    run_s = np.ceil(np.round(run, 6)).astype(np.int64)
    limit = np.floor(_numbers(kept["requested_wall_s"]))
    limited = (limit >= 1) & (limit < _LONGEST_S)
    limit_s = np.where(limited, np.nan_to_num(limit, posinf=0), np.maximum(run_s, 1))
    started = np.asarray(pc.fill_null(kept["started_ns"], 0)).astype(np.int64)
    started_s = np.where(
        np.asarray(pc.is_null(kept["started_ns"])), np.nan, (started - zero_ns) // _NS
    )
    exclusive = pc.fill_null(
        pc.coalesce(kept["granted_exclusive"], kept["requested_exclusive"]), False
    )
    jobs = Jobs(
        ids=_ids(kept),
        arrive_s=arrive,
        run_s=run_s,
        limit_s=limit_s.astype(np.int64),
        cores=cores.astype(np.int64),
        memory_bytes=_held(kept, "granted_memory_bytes", "requested_memory_bytes"),
        gpus=_held(kept, "granted_gpus", "requested_gpus"),
        nodes=_held(kept, "granted_nodes", "requested_nodes"),
        exclusive=np.asarray(exclusive),
        user=_codes(kept["user"]),
        started_s=started_s,
        zero_ns=zero_ns,
        table=kept,
    )
    order = np.lexsort((np.arange(len(kept)), _rank(kept["task_id"]), arrive))
    return jobs.take(order), limited


def _numbers(column: pa.ChunkedArray) -> Floats:
    """Give a column as floats, NaN where it is null."""
    return np.asarray(pc.fill_null(column.cast(pa.float64(), safe=False), np.nan))


def _run_s(tasks: pa.Table) -> Floats:
    known = _numbers(tasks["wall_s"])
    between = pc.subtract(tasks["ended_ns"], tasks["started_ns"])
    return np.where(np.isnan(known), _numbers(between) / _NS, known)


def _first_positive(tasks: pa.Table, *names: str) -> Floats:
    """Give the first of the columns that is known and above 0, else NaN."""
    value = np.full(len(tasks), np.nan)
    for name in reversed(names):
        column = _numbers(tasks[name])
        with np.errstate(invalid="ignore"):
            value = np.where(column > 0, column, value)
    return value


def _held(tasks: pa.Table, *names: str) -> Ints:
    value = np.nan_to_num(np.ceil(_first_positive(tasks, *names)), posinf=0)
    return np.where(value < 1 << 62, value, 0).astype(np.int64)


def _codes(column: pa.ChunkedArray) -> Ints:
    coded = pc.fill_null(column, "").combine_chunks().dictionary_encode()
    if isinstance(coded, pa.ChunkedArray):
        coded = coded.combine_chunks()
    return np.asarray(coded.indices).astype(np.int64)


def _rank(ids: pa.ChunkedArray) -> Ints:
    """Give what orders jobs that arrive together: their numbers, or the log's order."""
    try:
        numbers: Ints = np.asarray(ids.cast(pa.int64()))
    except (pa.ArrowInvalid, ValueError):
        return np.zeros(len(ids), np.int64)
    return numbers


def _ids(kept: pa.Table) -> tuple[str, ...]:
    """Give the jobs' ids; a later row of the same id gets its attempt or its place behind it."""
    names = pc.fill_null(kept["task_id"], "").to_pylist()
    seen: set[str] = set()
    attempts = kept["attempt"].to_pylist()
    for at, name in enumerate(names):
        if name in seen or not name:
            again = f"{name}#{attempts[at] or at + 1}"
            names[at] = name = again if again not in seen else f"{name}#row-{at + 1}"
        seen.add(name)
    return tuple(names)
