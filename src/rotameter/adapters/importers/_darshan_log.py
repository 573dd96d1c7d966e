"""A Darshan log as plain data, however it was read, and its totals a module.

Counters are those of https://www.mcs.anl.gov/research/projects/darshan/docs/darshan-util.html.
POSIX lies below MPI-IO; STDIO stands beside it: the totals of two layers are never added.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["LAYERS", "FileRecord", "Log", "Module"]

LAYERS = ("POSIX", "STDIO", "MPI-IO")
"""The layers that move bytes, the one to believe first."""
_PREFIX = {"POSIX": "POSIX", "STDIO": "STDIO", "MPI-IO": "MPIIO"}
_KINDS = ("INDEP", "COLL", "SPLIT", "NB")
_LIMIT = 2**62
_RUN_LIMIT_S = 1e9

Counters = Mapping[str, float]


@dataclass
class FileRecord:
    """What one rank (-1: all of them) did with one file through one layer."""

    id: str
    rank: int
    counters: Counters

    def get(self, layer: str, name: str) -> float | None:
        """Give a counter; None where it is missing or -1 (not monitored)."""
        value = self.counters.get(f"{_PREFIX[layer]}_{name}")
        return value if value is not None and 0 <= value < _LIMIT else None

    def ops(self, layer: str, name: str) -> float | None:
        """Give how many operations there were; MPI-IO counts four kinds of each."""
        if layer != "MPI-IO":
            return self.get(layer, name)
        parts = [self.get(layer, f"{kind}_{name}") for kind in _KINDS]
        known = [part for part in parts if part is not None]
        return sum(known) if known else None


@dataclass
class Module:
    """One module's share of the log."""

    partial: bool = False
    version: int | None = None
    size_bytes: int | None = None
    records: list[FileRecord] = field(default_factory=list)
    totals: dict[str, float] | None = None

    def sums(self, layer: str) -> dict[str, Any]:
        """Give totals over all records, or those that the log was read with."""
        if self.totals is not None:
            return dict(self.totals)
        made: dict[str, Any] = {"records": len(self.records)}
        for key, name in (("bytes_read", "BYTES_READ"), ("bytes_written", "BYTES_WRITTEN")):
            made[key] = int(sum(r.get(layer, name) or 0 for r in self.records))
        for kind in ("read", "write", "meta"):
            name = f"F_{kind.upper()}_TIME"
            made[f"f_{kind}_time"] = math.fsum(r.get(layer, name) or 0.0 for r in self.records)
        made["shared_records"] = sum(record.rank == -1 for record in self.records)
        return made


@dataclass
class Log:
    """One log: a job that ran one program."""

    source: str
    version: str | None = None
    exe: str | None = None
    uid: str | None = None
    job_id: str | None = None
    nprocs: int | None = None
    run_time_s: float | None = None
    start_ns: int | None = None
    end_ns: int | None = None
    facts: dict[str, str] = field(default_factory=dict)
    mounts: list[tuple[str, str]] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)
    modules: dict[str, Module] = field(default_factory=dict)
    lossy: bool = False

    def base(self) -> str | None:
        """Give the layer whose totals stand for the job's: the lowest that has records."""
        for layer in LAYERS:
            module = self.modules.get(layer)
            if module is not None and (module.records or module.totals):
                return layer
        return None

    def tier(self, path: str) -> str | None:
        """Give the type of the file system that a path lies on."""
        best: tuple[str, str | None] = ("", None)
        for point, kind in self.mounts:
            inside = path == point or path.startswith(point.rstrip("/") + "/")
            if inside and len(point) > len(best[0]):
                best = (point, kind)
        return best[1]


def seconds(value: Any) -> float | None:
    """Give a duration that can be one, else None."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if math.isfinite(value) and 0 <= value < _RUN_LIMIT_S else None


def moment(whole: Any, rest: Any = 0) -> int | None:
    """Give ns since the epoch from seconds and ns; 0 is unknown."""
    if not isinstance(whole, int) or not isinstance(rest, int):
        return None
    return whole * 10**9 + rest if 0 < whole < 7_258_118_400 and 0 <= rest < 10**9 else None


def from_child(data: Mapping[str, Any], source: str) -> Log:
    """Make a log of what the child process says."""
    job = data["job"]
    log = Log(source, str(job.get("log_ver") or "") or None, str(data.get("exe") or "") or None)
    log.uid, log.job_id = str(job.get("uid")), str(job.get("jobid"))
    nprocs = job.get("nprocs")
    log.nprocs = nprocs if isinstance(nprocs, int) and 0 < nprocs < _LIMIT else None
    log.run_time_s = seconds(job.get("run_time"))
    log.start_ns = moment(job.get("start_time_sec"), job.get("start_time_nsec") or 0)
    log.end_ns = moment(job.get("end_time_sec"), job.get("end_time_nsec") or 0)
    log.facts = {str(k)[:80]: str(v)[:200] for k, v in (job.get("metadata") or {}).items()}
    log.mounts = [(str(a), str(b)) for a, b in data.get("mounts") or ()]
    log.names = dict(data.get("names") or {})
    for name, one in (data.get("modules") or {}).items():
        module = Module(bool(one.get("partial_flag")), one.get("ver"), one.get("len"))
        for key, rank, counters in (data.get("records") or {}).get(name, ()):
            module.records.append(FileRecord(key, rank, _finite(counters)))
        log.modules[str(name)] = module
    return log


def _finite(counters: Mapping[str, Any]) -> Counters:
    return {k: v for k, v in counters.items() if isinstance(v, (int, float)) and math.isfinite(v)}


def per_second(amount: Any, time_s: Any) -> float | None:
    """Give a rate; null where nothing was moved or no time was spent, never nan.

    Examples
    --------
    >>> per_second(10, 2.0), per_second(0, 0.0), per_second(5, 0)
    (5.0, None, None)
    """
    if not amount or not time_s:
        return None
    rate = amount / time_s
    return rate if math.isfinite(rate) else None


def moved(sums: Iterable[Mapping[str, Any]]) -> bool:
    """Say whether any of the totals shows I/O."""
    keys = ("bytes_read", "bytes_written", "f_read_time", "f_write_time", "f_meta_time", "records")
    return any(one.get(key) for one in sums for key in keys)
