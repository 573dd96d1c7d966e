"""A trace as numpy arrays: what the figures, the ledger and the rules compute on.

Times are seconds from the trace's first instant (float64, NaN = unknown); names are integer codes
(-1 = unknown) into lists. Everything is derived lazily, once per view.
"""

from __future__ import annotations

import ntpath
import weakref
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rotameter.profiler import open_ends
from rotameter.profiler.engines import is_dask, local_dask, plain_python

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from rotameter.profiler.trace import Trace

    Floats = NDArray[np.float64]
    Codes = NDArray[np.int64]
    Mask = NDArray[np.bool_]

__all__ = ["LOSSES", "View", "is_dask", "local_dask", "plain_python", "short", "view"]

LOSSES = ("failed", "oom", "timeout", "preempted", "worker_lost")
"""Outcomes after which an attempt's work is gone."""

_RUN = ("started_ns", "ended_ns")
_TIMES = ("submitted_ns", "ready_ns", "started_ns", "ended_ns")


def short(text: str | None, width: int = 40) -> str:
    r"""Make a name printable on one line, at most ``width`` characters.

    Examples
    --------
    >>> short("a\nb"), short("x" * 50, 10)
    ('a b', 'xxxxxxxxx…')
    """
    if text is None:
        return "(unnamed)"
    line = " ".join("".join(c if c.isprintable() else " " for c in text[: 4 * width + 64]).split())
    return line if len(line) <= width else line[: width - 1] + "…"


def floats(column: Any) -> Floats:
    """Turn an Arrow column into float64 with NaN for null."""
    values: Floats = pc.fill_null(column.cast(pa.float64(), safe=False), float("nan")).to_numpy()
    return values


def encode(column: Any) -> tuple[Codes, list[str]]:
    """Turn a string column into codes (-1 = null) and the names in order of appearance."""
    chunk = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    encoded = pc.dictionary_encode(chunk)
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    codes = pc.fill_null(encoded.indices, -1).to_numpy(zero_copy_only=False)
    return codes.astype(np.int64), encoded.dictionary.to_pylist()


def lookup(column: Any, names: Sequence[str]) -> Codes:
    """Turn a string column into codes of a given list of names (-1 = not among them)."""
    found = pc.index_in(column, value_set=pa.array(names, pa.string()))
    if isinstance(found, pa.ChunkedArray):
        found = found.combine_chunks()
    codes: Codes = pc.fill_null(found, -1).to_numpy(zero_copy_only=False).astype(np.int64)
    return codes


class View:
    """Arrays over the attempts (rows of ``tasks``) and workers of one trace.

    Parameters
    ----------
    trace : Trace
    """

    def __init__(self, trace: Trace) -> None:
        self.meta = trace.meta
        self.table = trace.table
        self.tasks = trace.table("tasks")
        self.n = self.tasks.num_rows
        self.group, self.groups = encode(self.tasks["group"])
        self.task, self.task_ids = encode(self.tasks["task_id"])
        self._numbers: dict[str, Floats] = {}
        self.memo: dict[Any, Any] = {}

    # -- time -------------------------------------------------------------------------------

    @cached_property
    def origin_ns(self) -> int:
        """The instant that is second 0: the first task time, else the run's start."""
        lows = [pc.min(self.tasks[name]).as_py() for name in _TIMES]
        lows.append((self.meta.get("run") or {}).get(_RUN[0]) if not any(lows) else None)
        if not any(lows):
            lows.append(pc.min(self.table("workers")["started_ns"]).as_py())
            lows.append(pc.min(self.table("events")["at_ns"]).as_py())
        return min((low for low in lows if isinstance(low, int)), default=0)

    def seconds(self, column: Any) -> Floats:
        """Turn an ns column into seconds from the trace's first instant."""
        return floats(pc.subtract(column, self.origin_ns)) / 1e9

    @cached_property
    def submitted(self) -> Floats:
        """When each attempt's task became known."""
        return self.seconds(self.tasks["submitted_ns"])

    @cached_property
    def started(self) -> Floats:
        """When each attempt began to run."""
        return self.seconds(self.tasks["started_ns"])

    @cached_property
    def ended(self) -> Floats:
        """When each attempt ended; one that its worker took along ends with the worker."""
        ended = self.seconds(self.tasks["ended_ns"])
        gone = np.isnan(ended) & ~np.isnan(self.started) & self.outcome_in("worker_lost", "oom")
        if gone.any() and len(self.lives):
            last = np.full(len(self.workers) + 1, np.nan)
            for code, end in zip(self.lives["worker"], self.lives["ended"], strict=True):
                last[code] = np.fmax(last[code], end)
            ended[gone] = last[self.worker[gone]]
        return ended

    @cached_property
    def wall(self) -> Floats:
        """Seconds each attempt ran, null where it did not or where it is unknown."""
        wall = self.number("wall_s").copy()
        blank = np.isnan(wall)
        wall[blank] = (self.ended - self.started)[blank]
        wall[wall < 0] = np.nan
        return wall

    @cached_property
    def ready(self) -> Floats:
        """When each attempt could begin: recorded, else its last input's end, else submitted."""
        ready = self.seconds(self.tasks["ready_ns"])
        blank = np.isnan(ready)
        if blank.any():
            done = np.full(len(self.task_ids) + 1, np.nan)
            good = open_ends.complete(self) & ~np.isnan(self.ended)
            np.fmax.at(done, self.task[good], self.ended[good])
            inputs = np.full(len(self.task_ids) + 1, np.nan)
            task, on = self.deps
            known = (task >= 0) & (on >= 0)
            np.fmax.at(inputs, task[known], done[on[known]])
            derived = np.fmax(inputs[self.task], self.submitted)
            ready[blank] = derived[blank]
        return ready

    @cached_property
    def makespan(self) -> float | None:
        """Seconds from the first submission (or start) to the last end; None without times.

        What still ran where the trace ends lasted to its end; what else has no end on record lasted
        at least to its start, and for what is known of its time.
        """
        return open_ends.makespan(self)

    @cached_property
    def makespan_at_least(self) -> bool:
        """Say whether the makespan lacks attempts that ran but have no place in time."""
        return self.makespan is not None and bool(open_ends.lacking(self).any())

    @cached_property
    def window(self) -> tuple[float, float] | None:
        """From the earliest to the latest instant: tasks, workers' lives, the client's run."""
        low, high = self._edges()
        ends = self.ended[~np.isnan(self.ended)]
        lows = np.array([low, *self.lives["started"]])
        highs = np.array([high, *self.lives["ended"], *ends])
        if np.isnan(lows).all() or np.isnan(highs).all():
            return None
        return float(np.nanmin(lows)), float(np.nanmax(highs))

    # -- attempts ---------------------------------------------------------------------------

    def number(self, name: str) -> Floats:
        """Give a numeric column of ``tasks`` as float64, NaN = unknown."""
        if name not in self._numbers:
            self._numbers[name] = floats(self.tasks[name])
        return self._numbers[name]

    def outcome_in(self, *outcomes: str | None) -> Mask:
        """Say which attempts ended in one of these outcomes; None is none on record."""
        found = pc.is_in(self.tasks["outcome"], value_set=pa.array(outcomes, pa.string()))
        mask: Mask = pc.fill_null(found, False).to_numpy().astype(bool)
        return mask

    @cached_property
    def ok(self) -> Mask:
        """Attempts that ended well (not those taken from a cache)."""
        return self.outcome_in("ok")

    @cached_property
    def unfinished(self) -> tuple[int, int]:
        """How many tasks still ran where the trace ends, and how many had never started.

        A task without a start is one that never did only where others have one. Of those that
        began, :attr:`unknown_ends` are not said to run.
        """
        running, waiting = self._open
        return len(running), len(waiting)

    @cached_property
    def unknown_ends(self) -> int:
        """How many tasks began, and neither an end nor that they still run is on record."""
        return len(np.setdiff1d(self._open[0], self.task[self.outcome_in("running")]))

    @cached_property
    def _open(self) -> tuple[Codes, Codes]:
        """Codes of the tasks that began and did not end, and of those that never started."""
        return open_ends.open_tasks(self)

    @cached_property
    def lost(self) -> Mask:
        """Attempts whose work is gone."""
        return self.outcome_in(*LOSSES)

    @cached_property
    def ran(self) -> Mask:
        """Attempts with a start and an end, not cached, not nested in another task."""
        timed = ~np.isnan(self.started) & ~np.isnan(self.ended) & (self.ended >= self.started)
        return timed & ~self.outcome_in("cached") & ~self.nested

    @cached_property
    def task_memory(self) -> Floats:
        """Bytes that each attempt itself needed at its peak, NaN = unknown."""
        return self.number("peak_memory_bytes")

    @cached_property
    def could_measure(self) -> Mask:
        """Attempts that really ran here, so that a reading of them could exist."""
        never = np.isnan(self.started) & np.isnan(self.number("wall_s")) & self.lost
        return ~never & ~self.outcome_in("cached")

    @cached_property
    def peak_kinds(self) -> NDArray[Any]:
        """How each attempt's peak was obtained; not said counts as an estimate."""
        kinds = self.tasks["peak_memory_kind"].fill_null("estimate")
        return np.array(kinds.to_pylist(), dtype=object)

    @cached_property
    def nested(self) -> Mask:
        """Attempts that run inside another recorded task of the same trace."""
        parents = self.tasks["parent"]
        if parents.null_count == self.n:
            return np.zeros(self.n, dtype=bool)
        return lookup(parents, self.task_ids) >= 0

    @cached_property
    def superseded(self) -> Mask:
        """Ok attempts of tasks that were computed again later (their results were lost)."""
        clusters = self.clusters
        key = self.task.astype(np.int64) * (int(clusters.max(initial=0)) + 1) + clusters
        _, key = np.unique(key, return_inverse=True)
        last = np.full(self.n + 1, -np.inf)
        np.maximum.at(last, key[self.ok], np.nan_to_num(self.ended[self.ok], nan=-np.inf))
        mask: Mask = self.ok & (np.nan_to_num(self.ended, nan=np.inf) < last[key])
        return mask

    @cached_property
    def clusters(self) -> NDArray[np.int64]:
        """A number for the scheduler of each attempt: equal keys in two clusters are two tasks."""
        runs = pc.fill_null(self.tasks["run_id"], "")
        place = pc.if_else(
            pc.match_substring(runs, ":"), pc.replace_substring_regex(runs, ":.*$", ""), ""
        )
        codes = place.combine_chunks().dictionary_encode().indices
        numbers: NDArray[np.int64] = codes.to_numpy(zero_copy_only=False).astype(np.int64)
        return numbers

    @cached_property
    def never_ok(self) -> Mask:
        """One attempt (the last) of each task that was lost and never ended well."""
        good = np.zeros(len(self.task_ids) + 1, dtype=bool)
        good[self.task[self.ok | self.outcome_in("cached")]] = True
        bad = self.lost & ~good[self.task]
        mask = np.zeros(self.n, dtype=bool)
        rows = np.flatnonzero(bad)
        _, first = np.unique(self.task[rows][::-1], return_index=True)
        mask[rows[::-1][first]] = True
        return mask

    @cached_property
    def worker(self) -> Codes:
        """Worker code of each attempt, into :attr:`workers`."""
        return lookup(self.tasks["worker"], self.workers)

    @cached_property
    def deps(self) -> tuple[Codes, Codes]:
        """Task codes of (dependent, what it depends on), one a dependency; -1 = no attempt."""
        table = self.table("deps")
        return lookup(table["task_id"], self.task_ids), lookup(table["depends_on"], self.task_ids)

    @cached_property
    def root(self) -> Mask:
        """Attempts of tasks without dependencies."""
        task, _ = self.deps
        dependent = np.zeros(len(self.task_ids) + 1, dtype=bool)
        dependent[task[task >= 0]] = True
        return ~dependent[self.task]

    # -- workers, events, samples -------------------------------------------------------------

    @cached_property
    def workers(self) -> list[str]:
        """Names of all workers, those with a recorded life first."""
        both = pa.chunked_array(
            [*self.table("workers")["worker"].chunks, *self.tasks["worker"].chunks], pa.string()
        )
        names: list[str] = pc.unique(pc.drop_null(both)).to_pylist()
        return names

    @cached_property
    def lives(self) -> NDArray[Any]:
        """Workers' lives inside the window: worker code, started, ended, cores, memory_bytes.

        A missing start or end is the window's; a life without a known number of cores has NaN.
        """
        table = self.table("workers")
        kinds = [("worker", "i8"), ("started", "f8"), ("ended", "f8"), ("cores", "f8")]
        lives = np.zeros(table.num_rows, dtype=[*kinds, ("memory", "f8"), ("died", "?")])
        lives["worker"] = lookup(table["worker"], self.workers)
        lives["started"] = self.seconds(table["started_ns"])
        lives["ended"] = self.seconds(table["ended_ns"])
        lives["died"] = ~np.isnan(lives["ended"])
        lives["cores"] = floats(table["cores"])
        lives["memory"] = floats(table["memory_bytes"])
        if plain_python(self.meta):  # A whole machine's memory is no one's request.
            whole = self.machines("memory_bytes")
            known_bytes = np.array([whole.get(h, np.inf) for h in table["host"].to_pylist()])
            lives["memory"][lives["memory"] >= 0.999 * known_bytes] = np.nan
        low, high = self._edges(lives)
        run = self.meta.get("run") or {}
        known = {k: (run[k] - self.origin_ns) / 1e9 for k in _RUN if isinstance(run.get(k), int)}
        for name, fill in (("started", low), ("ended", high)):
            lives[name] = np.clip(
                np.where(np.isnan(lives[name]), fill, lives[name]),
                known.get("started_ns", -np.inf),
                known.get("ended_ns", np.inf),
            )
        keep = (lives["worker"] >= 0) & (lives["ended"] > lives["started"])
        kept: NDArray[Any] = lives[keep]
        return kept

    def _edges(self, lives: Any = None) -> tuple[float, float]:
        """Give the earliest and latest recorded instant (``ended`` itself needs the lives)."""
        run = self.meta.get("run") or {}
        lows = [pc.min(self.tasks[name]).as_py() for name in _TIMES] + [run.get(_RUN[0])]
        highs = [pc.max(self.tasks[name]).as_py() for name in _TIMES] + [run.get(_RUN[1])]
        first = [(x - self.origin_ns) / 1e9 for x in lows if isinstance(x, int)]
        last = [(x - self.origin_ns) / 1e9 for x in highs if isinstance(x, int)]
        if lives is not None and not first:
            first = [float(x) for x in lives["started"] if not np.isnan(x)]
        if lives is not None and not last:
            last = [float(x) for x in lives["ended"] if not np.isnan(x)]
        return (min(first, default=np.nan), max(last, default=np.nan))

    def machines(self, fact: str) -> dict[str, float]:
        """Give a number that the trace holds for each host."""
        listed = self.meta.get("machines")
        machines = [m for m in listed if isinstance(m, dict)] if isinstance(listed, list) else []
        return {
            str(m["host"]): float(m[fact])
            for m in machines
            if m.get("host") and isinstance(m.get(fact), (int, float)) and m[fact] > 0
        }

    @cached_property
    def _seats(self) -> tuple[NDArray[Any], Codes]:
        from rotameter.profiler.occupancy import seats

        return seats(self)

    @property
    def held(self) -> NDArray[Any]:
        """Lives that hold cores, none of them twice; fields as in :attr:`lives`."""
        return self._seats[0]

    @property
    def seat(self) -> Codes:
        """Worker whose cores each worker uses (mostly its own); shape (n_workers + 1,)."""
        return self._seats[1]

    @cached_property
    def slots(self) -> float | None:
        """Most cores that workers offered at one time; None where lives are not recorded."""
        lives = self.held[np.nan_to_num(self.held["cores"]) > 0]
        if not len(lives):
            return None
        times = np.concatenate([lives["started"], lives["ended"]])
        change = np.concatenate([lives["cores"], -lives["cores"]])
        order = np.lexsort((change, times))
        return float(np.cumsum(change[order]).max())

    def events(self, *kinds: str) -> list[dict[str, Any]]:
        """Give the events of these kinds in order of time, with ``at_s``."""
        table = self.table("events")
        rows = table.filter(pc.is_in(table["kind"], value_set=pa.array(kinds, pa.string())))
        at = self.seconds(rows["at_ns"])
        found: list[dict[str, Any]] = [
            {**row, "at_s": None if np.isnan(s) else float(s)}
            for row, s in zip(rows.to_pylist(), at, strict=True)
        ]
        return sorted(found, key=lambda row: (row["at_s"] is None, row["at_s"] or 0.0))

    def samples(self, metric: str) -> tuple[Codes, Floats, Floats]:
        """Give a metric's readings: worker codes (-1 = no worker), seconds, values."""
        table = self.table("samples")
        rows = table.filter(pc.equal(table["metric"], metric))
        subjects = lookup(rows["subject"], self.workers)
        return subjects, self.seconds(rows["at_ns"]), floats(rows["value"])

    def intervals(self, *kinds: str) -> dict[str, Any]:
        """Give intervals of these kinds: task, worker, peer (codes), start, end (s), bytes.

        Transfers are those between two workers.
        """
        if kinds in self.memo:
            made: dict[str, Any] = self.memo[kinds]
            return made
        table = self.table("intervals")
        rows = table.filter(pc.is_in(table["kind"], value_set=pa.array(kinds, pa.string())))
        found = {
            "task": lookup(rows["task_id"], self.task_ids),
            "worker": lookup(rows["worker"], self.workers),
            "peer": lookup(rows["peer"], self.workers),
            "start": self.seconds(rows["start_ns"]),
            "end": self.seconds(rows["end_ns"]),
            "bytes": floats(rows["bytes"]),
        }
        good = ~(np.isnan(found["start"]) | np.isnan(found["end"]))
        good &= found["end"] >= found["start"]
        if kinds == ("transfer",):  # What a worker hands to itself does not travel.
            good &= (found["peer"] < 0) | (found["peer"] != found["worker"])
        self.memo[kinds] = {name: values[good] for name, values in found.items()}
        return dict(self.memo[kinds])

    @cached_property
    def origins(self) -> dict[str, str]:
        """Group → ``file.py:line`` of the call that computed it."""
        found: dict[str, str] = {}
        for event in self.events("group_origin"):
            if event["group"] is not None and event["file"]:
                place = ntpath.basename(event["file"])
                line = f":{event['line']}" if event["line"] is not None else ""
                found.setdefault(event["group"], f"{place}{line}")
        return found

    def label(self, code: int, width: int = 32) -> str:
        """Name a group for people: `` `name` (file.py:line)``."""
        name = self.groups[code]
        place = self.origins.get(name)
        if place and len(place) > 40:
            place = f"…{place[-39:]}"  # The line's number is at the end.
        return f"`{short(name, width)}`" + (f" ({short(place, 40)})" if place else "")


_LAST: list[tuple[weakref.ref[Any], View]] = []


def view(trace: Trace) -> View:
    """Give the view of a trace; the latest one is kept as long as its trace lives."""
    if _LAST and _LAST[0][0]() is trace:
        return _LAST[0][1]
    made = View(trace)
    try:
        _LAST[:] = [(weakref.ref(trace), made)]
    except TypeError:
        _LAST.clear()
    return made
