"""Snakemake's benchmark files: its header and units, one file a task group, one row an attempt.

The format: ``BenchmarkRecord`` of Snakemake. Only attempts that ended well are written, as
Snakemake does. Memory and bytes are in MiB, with all digits, so that they read back exactly.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from rotameter.adapters.exporters._writing import Written, whole_file
from rotameter.errors import UsageError

if TYPE_CHECKING:
    from rotameter.profiler.trace import Trace

__all__ = ["EXTENDED", "HEADER", "Exporter"]

_MEMORY = ("max_rss", "max_vms", "max_uss", "max_pss")
HEADER = ("s", "h:m:s", *_MEMORY, "io_in", "io_out", "mean_load", "cpu_time")
"""The columns of a benchmark."""
_JOB = ("jobid", "rule_name", "wildcards", "params", "threads")
EXTENDED = (*_JOB, "cpu_usage", "resources", "input_size_mb")
"""The further columns of ``--benchmark-extended``."""

_MIB = 1 << 20
_COLUMNS = ["task_id", "group", "outcome", "started_ns", "ended_ns", "wall_s", "cpu_s"]
_COLUMNS += ["peak_memory_bytes", "read_bytes", "write_bytes"]
_COLUMNS += ["requested_cores", "requested_memory_bytes", "requested_wall_s"]
_UNSAFE = re.compile(r"[^\w.-]+")
_UNNAMED = "tasks"


class Exporter:
    """Writes benchmark files."""

    name = "snakemake"

    def __init__(self) -> None:
        self.written: Written | None = None

    def write(
        self,
        trace: Trace,
        path: str,
        *,
        group: str | None = None,
        extended: bool = False,
        **options: Any,
    ) -> None:
        """Write one file for one group, or a folder with a file for each.

        Parameters
        ----------
        trace : Trace
            What to write of.
        path : str
            A file, replaced when there; ``-`` is standard output. A folder (a path that ends with
            a slash, has no suffix, or is there as one) gets a file ``GROUP.tsv`` for each group.
        group : str, optional
            Which group; needed where the trace has several and ``path`` is a file.
        extended : bool
            Whether to write the columns of ``--benchmark-extended`` too: rule, threads, resources.

        Raises
        ------
        UsageError
            If the trace has several groups and one file is asked for, or none of that name.
        """
        groups, left = _groups(trace)
        if group is not None:
            if group not in groups:
                near = ", ".join(sorted(groups)[:8]) or "none"
                raise UsageError(
                    f"no attempt of a group {group!r} ended well with a known duration",
                    hint=f"groups: {near}",
                )
            others = sum(len(rows) for name, rows in groups.items() if name != group)
            left["are of other groups"] = others
            groups = {group: groups[group]}
        count, of = sum(map(len, groups.values())), trace.table("tasks").num_rows
        self.written = None
        said = Written(count, of, left)
        if path != "-" and _is_folder(path, several=len(groups) > 1):
            _folder(Path(path), groups, extended=extended)
            self.written = said
            return
        if len(groups) > 1:
            raise UsageError(
                f"{len(groups):,} groups for one file: a benchmark is of one rule",
                hint="name a folder: -o benchmarks/ (with the slash; in Python also group=NAME)",
            )
        rows = next(iter(groups.values()), [])
        if path == "-":
            _write(rows, sys.stdout, extended=extended)
            self.written = said
            return
        with whole_file(path) as place, open(place, "w", encoding="utf-8", newline="") as out:
            _write(rows, out, extended=extended)
        self.written = said


def _is_folder(path: str, *, several: bool) -> bool:
    if path.endswith(("/", os.sep)) or os.path.isdir(path):
        return True
    return several and not Path(path).suffix


def _folder(folder: Path, groups: Mapping[str, list[dict[str, Any]]], *, extended: bool) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    taken: set[str] = set()
    for group, rows in groups.items():
        base = _UNSAFE.sub("_", group).strip("._")[:150] or _UNNAMED
        name, count = base, 2
        while name.lower() in taken:
            name, count = f"{base}_{count}", count + 1
        taken.add(name.lower())
        with (
            whole_file(folder / f"{name}.tsv") as place,
            open(place, "w", encoding="utf-8", newline="") as out,
        ):
            _write(rows, out, extended=extended)


def _groups(trace: Trace) -> tuple[dict[str, list[dict[str, Any]]], dict[str, int]]:
    """Give what ended well and took a known time, by group in order of name; count the others."""
    found: dict[str, list[dict[str, Any]]] = {}
    left = {"did not end well": 0, "have no known duration": 0}
    for row in trace.table("tasks").select(_COLUMNS).to_pylist():
        if row["outcome"] != "ok":
            left["did not end well"] += 1
            continue
        if row["wall_s"] is None and None not in (row["started_ns"], row["ended_ns"]):
            row["wall_s"] = (row["ended_ns"] - row["started_ns"]) / 1e9
        if row["wall_s"] is not None:
            found.setdefault(row["group"] or _UNNAMED, []).append(row)
        else:
            left["have no known duration"] += 1
    return {group: found[group] for group in sorted(found)}, left


def _write(rows: Iterable[Mapping[str, Any]], out: IO[str], *, extended: bool) -> None:
    header = (*HEADER, *EXTENDED) if extended else HEADER
    out.write("\t".join(header) + "\n")
    for row in rows:
        cells = [*_cells(row), *(_more(row) if extended else ())]
        out.write("\t".join(cells) + "\n")


def _cells(row: Mapping[str, Any]) -> list[str]:
    wall, cpu, peak = row["wall_s"], row["cpu_s"], row["peak_memory_bytes"]
    load = None if cpu is None or not wall else 100 * cpu / wall
    measured = any(row[c] is not None for c in ("cpu_s", "peak_memory_bytes", "read_bytes"))
    # "NA" is "no reading was got", "-" "the system does not tell": as Snakemake has it.
    io = "-" if measured else "NA"
    return [
        _number(wall),
        _clock(wall),
        _mib(peak, "NA"),
        *("NA",) * 3,
        _mib(row["read_bytes"], io),
        _mib(row["write_bytes"], io),
        "NA" if load is None else f"{load:.2f}",
        "NA" if cpu is None else _number(cpu),
    ]


def _more(row: Mapping[str, Any]) -> list[str]:
    asked: dict[str, float] = {}
    memory, wall = row["requested_memory_bytes"], row["requested_wall_s"]
    if memory is not None:
        asked = {"mem_mb": memory / 1e6, "mem_mib": memory / _MIB}
    if wall is not None:
        asked["runtime"] = wall / 60
    cores = row["requested_cores"]
    if cores is not None:
        asked["_cores"] = cores
    group = " ".join((row["group"] or _UNNAMED).split())
    threads = "NA" if cores is None else f"{cores:g}"
    return ["NA", group, "{}", "{}", threads, "NA", repr(asked), "{}"]


def _number(value: float) -> str:
    return repr(float(value))


def _mib(size: int | None, missing: str) -> str:
    return missing if size is None else _number(size / _MIB)


def _clock(seconds: float) -> str:
    """Write a duration as Snakemake does.

    Examples
    --------
    >>> _clock(93784.9), _clock(4)
    ('1 day, 2:03:04', '0:00:04')
    """
    minutes, second = divmod(int(seconds), 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    said = f"{hour}:{minute:02d}:{second:02d}"
    return f"{days} day{'s' if days != 1 else ''}, {said}" if days else said
