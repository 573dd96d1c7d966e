"""Which column is which where a ``sacct`` listing has no header (``sacct -n``).

A few orders are known. In any other, a column is named only where its values, held against those of
the other columns, leave one answer: End - Start is Elapsed, AllocTRES tells the CPUs, steps have no
time limit. What stays open has no name: unknown, not guessed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import permutations
from typing import Any, NamedTuple

import numpy as np

from rotameter.adapters.importers._slurm_columns import Layout, fits, kind_of
from rotameter.adapters.importers._slurm_values import (
    JOB_ID,
    MISSING_NS,
    amount,
    clock,
    tres,
    when,
    words,
)

__all__ = ["infer"]

_XDMOD = words(
    """jobid jobidraw cluster partition qos account group gid user uid submit eligible
    start end elapsed exitcode state nnodes ncpus reqcpus reqmem reqtres alloctres
    timelimit nodelist jobname"""
)
_REPORTSEFF = "admincomment alloccpus elapsed jobid jobidraw maxrss nnodes ntasks reqmem state"
_ORDERS = {
    "the order of XDMoD": _XDMOD,
    "the default order of sacct": words("jobid jobname partition account alloccpus state exitcode"),
    "the order of the Snakemake plug-in's efficiency report": words(
        "jobid jobname comment elapsed totalcpu nnodes ncpus maxrss reqmem"
    ),
    "the order of reportseff": words(f"{_REPORTSEFF} timelimit totalcpu"),
    "the order of reportseff without limits": words(f"{_REPORTSEFF} totalcpu"),
}
_NAN = float("nan")
_ENOUGH = 0.8
_SAMPLED = 1000
_CLOCKS_LIMIT = 12
_NO_LIMIT = ("UNLIMITED", "Partition_Limit")

Column = Sequence[str]
Floats = np.ndarray[Any, np.dtype[np.float64]]


def infer(rows: Sequence[Sequence[str]], delimiter: str) -> Layout | None:
    """Tell columns by what is in them; None where that cannot be told.

    Parameters
    ----------
    rows : sequence of sequence of str
        Some rows, all of the same length.
    """
    columns = [list(column) for column in zip(*rows, strict=True)]
    while columns and not any(columns[-1]):
        columns.pop()
    for how, names in _ORDERS.items():
        if len(names) == len(columns) and _all_fit(columns, names):
            return Layout(delimiter, names, how)
    few = [column[:_SAMPLED] for column in columns]
    found = _Guess(few).names() if few else None
    return None if found is None else Layout(delimiter, tuple(found), "content")


def _all_fit(columns: Sequence[Column], names: Sequence[str]) -> bool:
    good = all(
        sum(fits(kind_of(name), value) for value in column) >= 0.9 * len(column)
        for name, column in zip(names, columns, strict=True)
    )
    # Kinds that take anything say nothing: what speaks must be there, not only be empty.
    told = [
        i
        for i, name in enumerate(names)
        if kind_of(name) in ("time", "clock", "state", "exit", "reqmem")
    ]
    return good and all(any(columns[i]) for i in told)


def _share(column: Column, kind: str) -> float:
    filled = [value for value in column if value]
    return sum(fits(kind, value) for value in filled) / len(filled) if filled else 0.0


def _whole(column: Column) -> float:
    """Give the share of amounts without decimals."""
    filled = [value for value in column if value]
    return sum(v[:-1].isdigit() or v == "0" for v in filled) / len(filled) if filled else 1.0


def _read(column: Column, function: Callable[[str], float]) -> Floats:
    return np.array([function(value) for value in column], dtype=np.float64)


def _same(a: object, b: object, off: float = 0.0) -> float:
    """Give the share of rows where both are known and equal (0 where none is known)."""
    left, right = np.asarray(a), np.asarray(b)
    known = ~np.isnan(left) & ~np.isnan(right)
    return float((np.abs(left[known] - right[known]) <= off).mean()) if known.any() else 0.0


def _never_below(a: object, b: object) -> bool:
    left, right = np.asarray(a), np.asarray(b)
    known = ~np.isnan(left) & ~np.isnan(right)
    return bool(known.any() and (left[known] >= right[known]).all())


def _moment(text: str) -> float:
    at, _ = when(text)
    return at / 1e9 if at != MISSING_NS else _NAN


class _Span(NamedTuple):
    """Columns of which the third is the second less the first, and how often."""

    share: float
    start: int
    end: int
    elapsed: int


class _Guess:
    """Names for columns, found one after the other."""

    def __init__(self, columns: Sequence[Column]) -> None:
        self.columns = columns
        self.found = [""] * len(columns)
        self.step = np.zeros(len(columns[0]), dtype=bool)
        self.timed = False

    def names(self) -> list[str] | None:
        """Give a name or "" for each column; None where the job or all of its story is missing."""
        if not self._ids():
            return None
        for kind, name in (("state", "state"), ("exit", "exitcode")):
            fit = [i for i in self._open() if _share(self.columns[i], kind) > 0.9]
            fit = [i for i in fit if not self._on_jobs_only(i)]  # DerivedExitCode is a job's alone
            if len(fit) == 1:
                self._name(fit[0], name)
        self._tres()
        clocks = [i for i in self._open() if _share(self.columns[i], "clock") > 0.9]
        self._times(clocks)
        self._clocks([i for i in clocks if not self.found[i]])
        self._counts()
        self._amounts()
        self._job_name()
        return self.found if {"state", "elapsed"} & set(self.found) else None

    def _open(self) -> list[int]:
        return [i for i, name in enumerate(self.found) if not name and any(self.columns[i])]

    def _name(self, at: int, name: str) -> None:
        if name not in self.found:
            self.found[at] = name

    def _filled(self, at: int) -> np.ndarray[Any, np.dtype[np.bool_]]:
        return np.array([bool(value) for value in self.columns[at]])

    def _on_jobs_only(self, at: int) -> bool:
        return bool(self.step.any() and not self._filled(at)[self.step].any())

    def _on_steps_only(self, at: int) -> bool:
        return bool(self.step.any() and not self._filled(at)[~self.step].any())

    # -- which job ---------------------------------------------------------------------------------

    def _ids(self) -> bool:
        """Find JobID and JobIDRaw: the same steps, and the one that shows arrays is JobID."""
        ids = [
            i
            for i, column in enumerate(self.columns)
            if all(column) and _share(column, "jobid") == 1 and _is_id(column)
        ]
        if not ids:
            return False
        shown = [i for i in ids if any("_" in v or "+" in v for v in self.columns[i])]
        first = (shown or ids)[0]
        self.found[first] = "jobid"
        self.step = np.array(["." in value for value in self.columns[first]])
        for i in ids:
            if i != first and _raw_of(self.columns[first], self.columns[i]):
                self._name(i, "jobidraw")
        return True

    # -- when --------------------------------------------------------------------------------------

    def _times(self, clocks: Sequence[int]) -> None:
        """Tell times by their order, and Start, End and Elapsed by one another."""
        dated = [i for i in self._open() if _share(self.columns[i], "time") > 0.9
                 and any("-" in value for value in self.columns[i])]  # fmt: skip
        values = {i: _read(self.columns[i], _moment) for i in dated}
        span = self._span(values, clocks)
        self.timed = len(dated) > 1
        if span is None:
            self._times_by_order(dated, values)
            return
        for at, name in ((span.start, "start"), (span.end, "end"), (span.elapsed, "elapsed")):
            self._name(at, name)
        before = [
            i for i in dated if not self.found[i] and _never_below(values[span.start], values[i])
        ]
        before.sort(key=lambda i: float(np.nansum(values[i] - values[span.start])))
        # On steps all three are the same; with AccrueTime or Planned… there are more than two.
        for at, name in zip(before, ("submit", "eligible") if len(before) == 2 else ("submit",),
                            strict=False):  # fmt: skip
            if len(before) < 3:
                self._name(at, name)

    def _span(self, values: dict[int, Floats], clocks: Sequence[int]) -> _Span | None:
        lasted = {
            i: _read(self.columns[i], clock)
            for i in clocks[:_CLOCKS_LIMIT]
            if not self._on_jobs_only(i) and not self._on_steps_only(i)
        }
        found = []
        for start, end in permutations(list(values)[:8], 2):
            apart = values[end] - values[start]
            ran = apart > 0
            if not ran.any() or (apart < 0).any():
                continue
            for i, wall in lasted.items():
                share = float((apart[ran] == wall[ran]).mean())  # less where it was suspended
                if share >= _ENOUGH:
                    found.append(_Span(share, start, end, i))
        if not found:
            return None
        # Of Submit (a step's own is its Start) and Start, the later one; of two walls the better.
        return max(found, key=lambda s: (s.share, float(np.nansum(values[s.start]))))

    def _times_by_order(self, dated: Sequence[int], values: dict[int, Floats]) -> None:
        """Tell four times by which is never before another; of fewer, which are there is open."""
        if len(dated) != 4:
            return
        rank = {
            i: sum(_never_below(values[i], values[k]) - _never_below(values[k], values[i])
                   for k in dated)
            for i in dated
        }  # fmt: skip
        names = ("submit", "eligible", "start", "end")
        for i, name in zip(sorted(dated, key=lambda i: rank[i]), names, strict=True):
            self._name(i, name)

    # -- how long ----------------------------------------------------------------------------------

    def _clocks(self, left: Sequence[int]) -> None:
        """Tell Elapsed, Timelimit (whole minutes, of jobs only) and TotalCPU (parts of seconds)."""
        values = {i: _read(self.columns[i], clock) for i in left}
        limits = [i for i in left if self._may_be_limit(i, values[i])]
        rest = [i for i in left if i not in limits and not self._on_jobs_only(i)
                and not self._on_steps_only(i)]  # fmt: skip
        parts = [
            i for i in rest if any("." in v or v.count(":") == 1 for v in self.columns[i] if v)
        ]
        # Suspended is 0 nearly everywhere.
        whole = [i for i in rest if i not in parts and (values[i] > 0).mean() >= 0.5]
        if len(limits) == 1:
            self._name(limits[0], "timelimit")
        # Where times are there and none has its Elapsed, what lasted is something else.
        if "elapsed" not in self.found and not self.timed:
            self._elapsed(whole, values)
        # TotalCPU is UserCPU and SystemCPU together: the one that is never below another.
        most = [i for i in parts if all(_never_below(values[i], values[k]) for k in parts)]
        if len(parts) in (1, 3) and most:
            self._name(most[0], "totalcpu")

    def _elapsed(self, whole: Sequence[int], values: dict[int, Floats]) -> None:
        if len(whole) == 1:
            self._name(whole[0], "elapsed")
        elif len(whole) == 2:
            # CPUTime is Elapsed times a whole number of CPUs, on every row.
            for short, long in (whole, whole[::-1]):
                known = values[short] > 0
                times = values[long][known] / values[short][known]
                if known.any() and (times >= 1).all() and (times == np.round(times)).all():
                    self._name(short, "elapsed")
                    return
            if self.step.any():  # steps have no limit: the second one is time on the CPU
                self._name(whole[0], "elapsed")
                self._name(whole[1], "totalcpu")
            elif "timelimit" not in self.found:
                self._name(whole[0], "elapsed")

    def _may_be_limit(self, at: int, values: Floats) -> bool:
        column = self.columns[at]
        if any(value in _NO_LIMIT for value in column):
            return True
        minutes = values[~np.isnan(values)]
        return bool(
            self._on_jobs_only(at) and len(minutes) and (minutes % 60 == 0).all() and minutes.any()
        )

    # -- how much ----------------------------------------------------------------------------------

    def _tres(self) -> None:
        """Tell AllocTRES (also of steps) from ReqTRES (of jobs; also of those that never ran)."""
        fit = [
            i
            for i in self._open()
            if _share(self.columns[i], "tres") > 0.9
            and not any("vmem=" in v or "pages=" in v or "fs/disk=" in v for v in self.columns[i])
            and any("cpu=" in v for v in self.columns[i])
        ]
        if len(fit) == 1:
            self._name(fit[0], "reqtres" if self._on_jobs_only(fit[0]) else "alloctres")
        if len(fit) != 2:
            return
        fit.sort(key=lambda i: (self._on_jobs_only(i), int(self._filled(i)[~self.step].sum())))
        for at, name in zip(fit, ("alloctres", "reqtres"), strict=True):
            self._name(at, name)

    def _counts(self) -> None:
        """Tell counts by TRES; a single small one is AllocCPUS."""
        fit = [i for i in self._open() if _share(self.columns[i], "count") == 1
               and all(v.isdigit() for v in self.columns[i] if v)]  # fmt: skip
        values = {i: _read(self.columns[i], lambda v: float(v) if v else _NAN) for i in fit}
        for of, names in (("alloctres", ("alloccpus", "allocnodes")),
                          ("reqtres", ("reqcpus", "reqnodes"))):  # fmt: skip
            if of not in self.found:
                continue
            told = [tres(text) for text in self.columns[self.found.index(of)]]
            for name, wanted in zip(
                names, ([t.cpus for t in told], [t.nodes for t in told]), strict=True
            ):
                # Where all is 1, one column may be the other: then both say the same.
                match = [
                    i
                    for i in fit
                    if not self.found[i]
                    and not self._on_steps_only(i)
                    and _same(values[i], wanted) == 1
                    and (np.asarray(wanted) > 1).any()
                ]
                if match:
                    self._name(match[0], name)
        tasks = [i for i in fit if not self.found[i] and self._on_steps_only(i)]
        if len(tasks) == 1 and np.nanmin(values[tasks[0]]) > 0:
            self._name(tasks[0], "ntasks")
        if len(fit) == 1 and not self.found[fit[0]] and self._may_be_cpus(fit[0], values[fit[0]]):
            self._name(fit[0], "alloccpus")

    def _may_be_cpus(self, at: int, values: Floats) -> bool:
        """Say whether a count may be AllocCPUS: small, also of steps, enough for TotalCPU."""
        if self._on_jobs_only(at) or self._on_steps_only(at) or not 2 <= np.nanmax(values) <= 9999:
            return False
        if not {"elapsed", "totalcpu"} <= set(self.found):
            return True
        wall, cpu = (
            _read(self.columns[self.found.index(name)], clock) for name in ("elapsed", "totalcpu")
        )
        known = ~np.isnan(values) & ~np.isnan(wall) & ~np.isnan(cpu)
        return bool((cpu[known] <= 1.1 * values[known] * wall[known] + 2).all())

    def _amounts(self) -> None:
        """Tell ReqMem (of jobs; with c or n also of steps) from MaxRSS (of steps)."""
        fit = [
            i
            for i in self._open()
            if _share(self.columns[i], "reqmem") > 0.9
            and any(v[-1:] in "KMGTcn" for v in self.columns[i] if v)
        ]
        suffix = [i for i in fit if any(v[-1:] in "cn" for v in self.columns[i] if v)]
        asked = suffix or [i for i in fit if not self._on_steps_only(i)]
        if len(asked) == 1:
            self._name(asked[0], "reqmem")
        # Sizes of I/O are shown with two digits, memory in whole K (96.50M is one, but rare).
        used = [i for i in fit if i not in asked and _whole(self.columns[i]) > 0.5]
        if len(used) == 2:
            # MaxRSS and AveRSS of steps with one task are the same; MaxVMSize is far above.
            a, b = (_read(self.columns[i], amount) for i in used)
            if _same(a, b) >= 0.5:
                used = [used[0] if np.nansum(a) >= np.nansum(b) else used[1]]
        if len(used) == 1:
            self._name(used[0], "maxrss")

    # -- what --------------------------------------------------------------------------------------

    def _job_name(self) -> None:
        """Tell JobName: that of a step ``batch`` is ``batch``; without steps, the only words."""
        numeric = ("count", "reqmem", "clock", "time", "amount")
        named = [
            i for i in self._open() if all(_share(self.columns[i], kind) < 0.5 for kind in numeric)
        ]
        ids = self.columns[self.found.index("jobid")]
        batch = [row for row, text in enumerate(ids) if text.endswith((".batch", ".extern"))]
        if batch:
            named = [
                i
                for i in named
                if all(self.columns[i][row] == ids[row].rpartition(".")[2] for row in batch)
            ]
        if len(named) == 1:
            self._name(named[0], "jobname")


def _is_id(column: Column) -> bool:
    """Say whether numbers are ids: long ones, or with the names of steps."""
    return min(map(len, column)) > 2 or any(v.endswith((".batch", ".extern")) for v in column)


def _raw_of(ids: Column, other: Column) -> bool:
    """Say whether a second column of numbers is JobIDRaw: a step has the same step in both."""
    ends = [(a.partition(".")[2], b.partition(".")[2]) for a, b in zip(ids, other, strict=True)]
    plain_ids = all(JOB_ID.fullmatch(b) and "_" not in b for b in other)
    long = all(len(b.partition(".")[0]) > 3 for b in other) or any(a for a, _ in ends)
    return plain_ids and long and all(a == b for a, b in ends)
