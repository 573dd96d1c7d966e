"""From a Darshan log to the rows of a trace: a task a log, a flow a file and direction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rotameter.adapters.importers._darshan_log import (
    LAYERS,
    FileRecord,
    Log,
    moved,
    per_second,
)
from rotameter.profiler.live.redact import clean_name

if TYPE_CHECKING:
    from rotameter.adapters.importers.building import Builder

__all__ = ["emit"]

_METRICS = {
    "records": "records",
    "shared_records": "shared_records",
    "bytes_read": "read_bytes",
    "bytes_written": "write_bytes",
    "f_read_time": "read_s",
    "f_write_time": "write_s",
    "f_meta_time": "meta_s",
}


def emit(log: Log, task_id: str, kind: str, build: Builder) -> None:
    """Give the task, flows, objects and module totals of one log."""
    task_id = clean_name(task_id)
    sums = {n: m.sums(n) for n, m in log.modules.items() if n in LAYERS or m.totals is not None}
    base = log.base()
    partial = [name for name, module in log.modules.items() if module.partial]
    if partial:
        build.warn(
            f"{clean_name(log.source)}: {', '.join(map(clean_name, sorted(partial)))} ran out of "
            "memory for records (partial): the counts are at least that"
        )
    if not moved(sums.values()):
        build.warn(f"{clean_name(log.source)}: no I/O recorded")
    if log.lossy:
        build.warn(
            f"{clean_name(log.source)}: lines could not be read, or the text is cut: the counts "
            "are at least that"
        )
    beside = _beside(log, sums, base, build)
    total = sums[base] if base is not None else {"bytes_read": 0, "bytes_written": 0}
    low = beside or base in partial or log.lossy
    build.add("tasks", _task(log, task_id, total, kind, low=low))
    build.records_in += 1
    build.records_out = (build.records_out or 0) + 1
    _flows(log, task_id, build)
    _totals(log, sums, build)
    build.meta.setdefault("logs", []).append(_facts(log, task_id, sums, total, base))


def _beside(log: Log, sums: dict[str, dict[str, Any]], base: str | None, build: Builder) -> bool:
    """Say what another layer moved in files of its own; it is not added to the job's total."""
    seen = {record.id for record in log.modules[base].records} if base is not None else set()
    more = False
    for layer in LAYERS:
        module = log.modules.get(layer)
        if layer == base or module is None:
            continue
        own = [r for r in module.records if r.id not in seen]
        size = sum(r.get(layer, n) or 0 for r in own for n in ("BYTES_READ", "BYTES_WRITTEN"))
        if size:
            more = True
            build.warn(
                f"{clean_name(log.source)}: {layer} moved {int(size):,} bytes in files that {base} "
                "did not see: they are in the flows, not in the job's total (layers are not added)"
            )
    return more


def _task(log: Log, task_id: str, total: dict[str, Any], kind: str, *, low: bool) -> dict[str, Any]:
    sizes = [_whole(total.get(name)) for name in ("bytes_read", "bytes_written")]
    if log.lossy:  # what is missing may be all there was
        sizes = [size or None for size in sizes]
    row: dict[str, Any] = {
        "task_id": task_id,
        "attempt": 1,
        "run_id": clean_name(log.job_id) if log.job_id else None,
        "group": _program(log.exe),
        "user": clean_name(f"uid {log.uid}") if log.uid else None,
        "started_ns": log.start_ns,
        "ended_ns": log.end_ns,
        "wall_s": log.run_time_s,
        "outcome": "unknown",
        "read_bytes": sizes[0],
        "write_bytes": sizes[1],
        "io_kind": None if sizes == [None, None] else "lower_bound" if low else "exact",
        "source": "darshan",
    }
    if log.nprocs:
        row["features"] = {"nprocs": float(log.nprocs)}
        # Times are sums over all processes; their mean fits into the job's duration.
        times = [total.get(f"f_{part}_time") for part in ("read", "write", "meta")]
        known = [time for time in times if time is not None]
        row["io_s"] = sum(known) / log.nprocs if known else None
    return row


def _program(exe: str | None) -> str | None:
    """Give the program's name; arguments may hold anything and are left out."""
    words = (exe or "").split()
    return clean_name(words[0].rpartition("/")[2] or words[0]) if words else None


def _whole(value: Any) -> int | None:
    return None if value is None or not 0 <= value < 2**62 else int(value)


def _flows(log: Log, task_id: str, build: Builder) -> None:
    """Give each file through the lowest layer that saw it: two layers are one and the same I/O."""
    done: set[str] = set()
    objects: dict[str, str | None] = {}
    for layer in LAYERS:
        module = log.modules.get(layer)
        records = module.records if module is not None else []
        for record in records:
            if record.id in done:
                continue
            name = log.names.get(record.id, f"record {record.id}")
            label, tier = clean_name(name), log.tier(name)
            objects[label] = tier
            for row in _moves(log, layer, record):
                build.add(
                    "flows",
                    {
                        "task_id": task_id,
                        "attempt": 1,
                        "worker": None if record.rank < 0 else f"rank {record.rank}",
                        "object": label,
                        "medium": "file",
                        "tier": tier,
                        **row,
                    },
                )
        done |= {record.id for record in records}
    for label, tier in objects.items():
        build.add("objects", {"object": label, "tier": tier})


def _moves(log: Log, layer: str, record: FileRecord) -> list[dict[str, Any]]:
    made = []
    for op, kind, size in (("read", "READ", "BYTES_READ"), ("write", "WRITE", "BYTES_WRITTEN")):
        count, moved_ = record.ops(layer, f"{kind}S"), record.get(layer, size)
        if not count and not moved_:
            continue
        made.append(
            {
                "op": op,
                "bytes": _whole(moved_),
                "ops": _whole(count),
                "busy_s": record.get(layer, f"F_{kind}_TIME"),
                "first_ns": _at(log, record.get(layer, f"F_{kind}_START_TIMESTAMP")),
                "last_ns": _at(log, record.get(layer, f"F_{kind}_END_TIMESTAMP")),
            }
        )
    opens = record.ops(layer, "OPENS")
    if opens:
        made.append(
            {
                "op": "open",
                "ops": _whole(opens),
                "busy_s": record.get(layer, "F_META_TIME"),
                "first_ns": _at(log, record.get(layer, "F_OPEN_START_TIMESTAMP")),
                "last_ns": _at(log, record.get(layer, "F_OPEN_END_TIMESTAMP")),
            }
        )
    return made


def _at(log: Log, seconds: float | None) -> int | None:
    if not seconds or log.start_ns is None or seconds >= 1e9:
        return None
    return log.start_ns + round(seconds * 1e9)


def _totals(log: Log, sums: dict[str, dict[str, Any]], build: Builder) -> None:
    for name, made in sums.items():
        partial = log.modules[name].partial
        for key, metric in _METRICS.items():
            if made.get(key) is not None:
                build.add(
                    "samples",
                    {
                        "at_ns": log.end_ns,
                        "subject": clean_name(name),
                        "metric": metric,
                        "value": float(made[key]),
                        "quality": "lower_bound" if partial else "exact",
                    },
                )


def _facts(
    log: Log, task_id: str, sums: dict[str, dict[str, Any]], total: dict[str, Any], base: str | None
) -> dict[str, Any]:
    modules: dict[str, Any] = {}
    for name, module in log.modules.items():
        made = sums.get(name, {})
        modules[clean_name(name)] = {
            "partial": module.partial,
            "ver": module.version,
            "bytes": module.size_bytes,
            **made,
            "read_bytes_per_busy_s": per_second(made.get("bytes_read"), made.get("f_read_time")),
            "write_bytes_per_busy_s": per_second(
                made.get("bytes_written"), made.get("f_write_time")
            ),
        }
    size = (total.get("bytes_read") or 0) + (total.get("bytes_written") or 0)
    files = {r.id for layer in LAYERS if layer in log.modules for r in log.modules[layer].records}
    return {
        "task_id": task_id,
        "log_version": log.version,
        "nprocs": log.nprocs,
        "run_time_s": log.run_time_s,
        "files": len(files),
        "layer": base,
        "bandwidth_bytes_per_s": per_second(size, log.run_time_s),
        "modules": modules,
    }
