"""Rows of DataLife's processes: exact totals a process, bytes of files in proportion to blocks."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rotameter.adapters.importers._datalife_names import Kind, groups_of, template
from rotameter.adapters.importers._datalife_read import BLOCK_BYTES, Timer, Touched
from rotameter.adapters.importers._spm_split import shared_out, shared_seconds
from rotameter.units import many

if TYPE_CHECKING:
    from rotameter.adapters.importers.building import Builder

__all__ = ["Process", "emit"]

_HOST = re.compile(r"\d+-(.+)")
_OPS = {"r": "read", "w": "write"}
_FLOW_COLUMNS = ("task_id", "worker", "object", "op", "bytes", "footprint_bytes", "ops", "busy_s")


@dataclass(slots=True)
class Process:
    """One process: its timers, and the files that it touched."""

    folder: str
    pid: str
    timer: Timer | None = None
    touched: list[Touched] = field(default_factory=list)
    label: str | None = None
    task: str | None = None
    task_id: str = ""

    @property
    def host(self) -> str | None:
        """The host, as the name of the process tells."""
        match = _HOST.fullmatch(self.pid)
        return match[1] if match else None

    def total(self, op: str, level: str = "traced") -> list[float] | None:
        """Seconds, calls and bytes; None without timers."""
        if self.timer is None:
            return None
        return self.timer.calls.get((level, op), [0.0, 0, 0])


@dataclass(slots=True)
class _Facts:
    exact: int = 0
    estimated: int = 0
    unknown: int = 0
    lost_bytes: int = 0
    untouched: int = 0
    sampled: int = 0
    volumes: Counter[str] = field(default_factory=Counter)


def emit(processes: Sequence[Process], build: Builder) -> None:
    """Add tasks, flows, objects and samples, and say what is estimated."""
    facts = _Facts()
    flows: dict[str, list[Any]] = {name: [] for name in _FLOW_COLUMNS}
    volumes: dict[str, Counter[str]] = {}
    for process in processes:
        volumes[process.task_id] = _flows(process, flows, facts)
    groups = groups_of({p.task_id: _kind(p) for p in processes if not p.task}, volumes)
    for process in processes:
        _task(process, groups.get(process.task_id), build)
        _samples(process, build)
    count = len(flows["task_id"])
    if count:
        build.extend("flows", {**flows, "attempt": [1] * count, "medium": ["file"] * count})
        build.extend("objects", {"object": sorted(set(flows["object"]))})
    _say(processes, facts, bool(groups), build)


def _kind(process: Process) -> Kind:
    sides = {
        side: frozenset(template(one.file) for one in process.touched if one.op == side)
        for side in _OPS
    }
    program = (process.timer.program if process.timer else None) or "process"
    return Kind(program, sides["r"], sides["w"])


def _flows(process: Process, flows: dict[str, list[Any]], facts: _Facts) -> Counter[str]:
    """Share a process's bytes, calls and seconds among its files; give bytes by kind of file."""
    volume: Counter[str] = Counter()
    for side, op in _OPS.items():
        total = process.total(op)
        mine = _by_file([one for one in process.touched if one.op == side])
        # What was opened and not touched is no flow, unless bytes say that it was.
        touched = [one for one in mine if any(_size(one)) or one.data_volume]
        facts.untouched += len(mine) - len(touched)
        mine = touched or (mine if total and total[2] else [])
        if not mine:
            facts.lost_bytes += int(total[2]) if total else 0
            continue
        weights = _weights(mine, None if total is None else int(total[2]), facts)
        size, calls, seconds = _shares(mine, weights, total)
        known = total is not None
        facts.exact += known and len(mine) == 1
        facts.estimated += len(mine) if known and len(mine) > 1 else 0
        facts.unknown += 0 if known else len(mine)
        for one, part, count, took in zip(mine, size, calls, seconds, strict=True):
            volume[template(one.file)] += part or 0
            facts.sampled += one.sampled_blocks is not None
            row = (
                process.task_id, process.host, one.file, op, part,
                _footprint(one, part), count, took,
            )  # fmt: skip
            for name, value in zip(_FLOW_COLUMNS, row, strict=True):
                flows[name].append(value)
    return volume


def _by_file(touched: Sequence[Touched]) -> list[Touched]:
    """Give one entry a file, in order of name; of several traces of one file the larger counts."""
    found: dict[str, Touched] = {}
    for one in touched:
        other = found.get(one.file)
        if other is None or _size(one) > _size(other):
            found[one.file] = one
    return [found[name] for name in sorted(found)]


def _size(one: Touched) -> tuple[int, int, int]:
    return (one.volume_blocks or 0, one.extent_blocks or 0, one.sampled_blocks or 0)


def _weights(mine: Sequence[Touched], total: int | None, facts: _Facts) -> list[int]:
    """Choose the evidence of how much each file had: the kind whose sum is nearest to the total.

    Extents are right for files that are streamed once, sums of ranges for full lists of accesses;
    ``data_volume`` counts re-reads, but is wrong by the size of calls.
    """
    kinds: dict[str, list[int | None]] = {
        "ranges": [_bytes(one.volume_blocks) for one in mine],
        "extents": [_bytes(one.extent_blocks) for one in mine],
        "data_volume": [one.data_volume for one in mine],
        "blocks": [_bytes(one.sampled_blocks) for one in mine],
    }
    best: tuple[float, str, list[int]] | None = None
    for name, values in kinds.items():
        whole = [value for value in values if value is not None]
        if len(whole) < len(mine) or not sum(whole):
            continue
        far = abs(math.log(sum(whole) / total)) if total else 0.0
        if best is None or far < best[0]:
            best = (far, name, whole)
    if best is None:
        return [0] * len(mine)
    if len(mine) > 1 and total:
        facts.volumes[best[1]] += 1
    return best[2]


def _bytes(blocks: int | None) -> int | None:
    return None if blocks is None else blocks * BLOCK_BYTES


def _shares(
    mine: Sequence[Touched], weights: Sequence[int], total: list[float] | None
) -> tuple[list[int | None], list[int | None], list[float | None]]:
    """Give bytes, calls and seconds a file; without timers none of them is known."""
    if total is None:
        nothing: list[Any] = [None] * len(mine)
        return list(nothing), list(nothing), list(nothing)
    seconds, calls, size = total
    parts = shared_out(int(size), weights)
    counted = [one.ops for one in mine if one.ops is not None]
    ops = shared_out(int(calls), counted if len(counted) == len(mine) else parts)
    return [*parts], [*ops], [*shared_seconds(seconds, parts)]


def _footprint(one: Touched, moved: int | None) -> int | None:
    """Bound the bytes that were touched: by blocks, and by what was moved."""
    blocks = one.footprint_blocks if one.footprint_blocks is not None else one.extent_blocks
    if blocks is None:
        return _bytes(one.sampled_blocks)
    size = blocks * BLOCK_BYTES
    return size if moved is None else min(size, moved)


def _task(process: Process, group: str | None, build: Builder) -> None:
    read, written = process.total("read"), process.total("write")
    known = read is not None and written is not None
    lossy = process.timer is not None and process.timer.lossy
    build.add(
        "tasks",
        {
            "task_id": process.task_id,
            "attempt": 1,
            "group": process.task or group,
            "worker": process.host,
            "host": process.host,
            "outcome": "ok" if known else "unknown",
            "outcome_kind": "inferred",
            "read_bytes": _seen(read, lossy=lossy),
            "write_bytes": _seen(written, lossy=lossy),
            "io_kind": ("lower_bound" if lossy else "exact") if known else None,
            "io_s": read[0] + written[0] if read and written else None,
            "source": "datalife",
        },
    )


def _seen(total: list[float] | None, *, lossy: bool) -> int | None:
    """Give bytes; of timers that could not all be read, those of no call are not known."""
    return None if total is None or (lossy and not total[1]) else int(total[2])


def _samples(process: Process, build: Builder) -> None:
    """Keep what no column holds: metadata calls, and I/O on files outside the patterns."""
    if process.timer is None:
        return
    for (level, kind), (seconds, calls, size) in sorted(process.timer.calls.items()):
        if level == "traced" and kind != "metadata":
            continue
        name = "metadata" if level == "traced" else f"untraced_{kind}"
        values = {f"{name}_calls": calls, f"{name}_s": seconds}
        if kind != "metadata":
            values[f"{name}_bytes"] = size
        for metric, value in values.items():
            build.add(
                "samples",
                {
                    "subject": process.task_id,
                    "metric": metric,
                    "value": float(value),
                    "quality": "exact",
                },
            )


def _say(processes: Sequence[Process], facts: _Facts, inferred: bool, build: Builder) -> None:
    idle = [p for p in processes if not p.touched and p.timer is not None]
    totals = {op: [p.total(op, "other") for p in processes] for op in _OPS.values()}
    other = {op: int(sum(one[2] for one in found if one)) for op, found in totals.items()}
    build.meta["dataflow"] = {
        "flows_exact": int(facts.exact),
        "flows_estimated": int(facts.estimated),
        "flows_without_bytes": int(facts.unknown),
        "shared_out_by": dict(sorted(facts.volumes.items())),
        "files_opened_only": facts.untouched,
        "footprint_kind": "lower_bound" if facts.sampled else "upper_bound",
        "processes_without_traced_files": len(idle),
        "untraced_read_bytes": other["read"],
        "untraced_write_bytes": other["write"],
    }
    if facts.estimated:
        build.warn(
            f"bytes, calls and seconds of {many(facts.estimated, 'flow')} are estimates: timers "
            "are totals of a process, shared out by the blocks touched; totals a task are exact"
        )
    lossy = sum(p.timer is not None and p.timer.lossy for p in processes)
    if lossy:
        build.warn(
            f"timers of processes that could not all be read: {lossy:,}; their bytes, calls and "
            "seconds are lower bounds"
        )
    if facts.unknown:
        build.warn(
            f"bytes of {many(facts.unknown, 'flow')} are not known: there are no timers of their "
            "process, and counted blocks do not add up to bytes"
        )
    if facts.sampled:
        build.warn("block histograms may be of a sample of blocks: footprints are lower bounds")
    if facts.lost_bytes:
        build.warn(f"{facts.lost_bytes:,} bytes of processes are of files without a trace")
    if idle:
        programs = Counter(p.timer.program or "?" for p in idle if p.timer)
        names = ", ".join(f"{name} ({count:,})" for name, count in programs.most_common(5))
        build.warn(f"{len(idle):,} of {len(processes):,} processes touched no traced file: {names}")
    if any(other.values()):
        build.warn(
            f"{other['read']:,} bytes read and {other['write']:,} written are of files outside "
            "the trace's patterns: in samples, not in the tasks"
        )
    if inferred:
        build.warn("groups are named by program and kinds of files: the traces have no task names")
    build.not_measured("start, end and duration of tasks: DataLife measures calls only")
    build.not_measured("bytes, calls and seconds per file: its timers are per process")
    build.not_measured("outcomes of tasks, sizes of files")
