"""From what the logs say to the rows of a trace."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from rotameter.adapters.importers._nextflow_columns import Columns
from rotameter.adapters.importers._taskvine_graph import Graph
from rotameter.adapters.importers._taskvine_txn import Attempt, Log, Worker, wished
from rotameter.profiler.live.redact import clean_name
from rotameter.profiler.ran_out import out_of_disk
from rotameter.units import many

if TYPE_CHECKING:
    from rotameter.adapters.importers.building import Builder

__all__ = ["emit_graph", "emit_log"]

_DONE = Attempt()
"""Stands for an attempt that has become a row."""


def emit_log(log: Log, prefix: str, build: Builder) -> None:
    """Give tasks, workers, transfers and libraries of one transactions log."""
    hosts = {worker.name: _host(worker) for worker in log.workers}
    users = {key: attempts for key, attempts in log.tasks.items() if key not in log.libraries}
    states = Counter(attempts[-1].state for attempts in users.values())
    rows = Columns("tasks")
    for key, attempts in users.items():
        for number, attempt in enumerate(attempts, start=1):
            row = _task_row(attempt, log.closed)
            row["host"] = hosts.get(attempt.worker or "")
            row.update(task_id=prefix + key, run_id=key, attempt=number)
            rows.add(row)
            if row["outcome"] == "running":
                _so_far(log, attempt, prefix + key, build)
        attempts[:] = [_DONE] * len(attempts)
    rows.give(build)
    for worker in log.workers:
        build.add("workers", _worker_row(worker))
    for at, name in log.joins:
        build.event("worker_added", at, worker=clean_name(name), host=hosts.get(name))
    for at, left, reason in log.leaves:
        build.event(
            "worker_removed",
            at,
            worker=None if left is None else clean_name(left),
            expected=wished(reason),
            reason=clean_name(reason),
        )
    _libraries(log, build)
    _transfers(log, prefix, build)
    out = sum(log.events.values()) - log.merged
    build.merged += log.merged
    build.records_out = (build.records_out or 0) + out
    _facts(log, states, build)


def _so_far(log: Log, attempt: Attempt, task_id: str, build: Builder) -> None:
    """Say how long an attempt has run at the log's last instant: its duration is at least that."""
    if attempt.started_ns is not None and log.last_ns is not None:
        value = max(0, log.last_ns - attempt.started_ns) / 1e9
        row = {"at_ns": log.last_ns, "subject": task_id, "metric": "wall_s", "value": value}
        build.add("samples", {**row, "quality": "lower_bound"})


def _facts(log: Log, states: Counter[str], build: Builder) -> None:
    facts: dict[str, Any] = {
        "events": dict(log.events),
        "log_closed": log.closed,
        "last_states": dict(states),
        "libraries": len(log.libraries),
        "disconnections": dict(Counter(reason for _, _, reason in log.leaves)),
    }
    if log.first_ns is not None and log.last_ns is not None:
        facts["span_s"] = (log.last_ns - log.first_ns) / 1e9
    build.meta.setdefault("runs", []).append(facts)
    if log.libraries:
        build.warn(
            f"{many(len(log.libraries), 'library instance is', 'library instances are')} "
            "listed apart (intervals of lane library), not among the tasks"
        )


def _task_row(attempt: Attempt, closed: bool) -> dict[str, Any]:
    row: dict[str, Any] = {
        "group": clean_name(attempt.category) if attempt.category else None,
        "worker": clean_name(attempt.worker) if attempt.worker else None,
        "submitted_ns": attempt.ready_ns,
        "started_ns": attempt.started_ns,
        "ended_ns": attempt.ended_ns,
        "wall_s": attempt.wall_s,
        "cpu_s": attempt.measured.get("cpu_time"),
        "received_bytes": attempt.measured.get("received"),
        "output_bytes": attempt.measured.get("sent"),
        "exit_code": attempt.exit_code,
        "source": "taskvine",
        "error": clean_name(attempt.error) if attempt.error else None,
    }
    _asked(row, "requested", attempt.requested)
    _asked(row, "granted", attempt.granted)
    if attempt.wall_s is None and attempt.started_ns is not None and attempt.ended_ns is not None:
        row["wall_s"] = max(0, attempt.ended_ns - attempt.started_ns) / 1e9
    row.update(_outcome(attempt, closed))
    _memory(row, attempt)
    _disk(row, attempt)
    return row


def _outcome(attempt: Attempt, closed: bool) -> dict[str, Any]:
    if attempt.outcome is not None:
        return {
            "outcome": attempt.outcome,
            "outcome_kind": "inferred" if attempt.inferred else "reported",
        }
    if attempt.started_ns is None:
        return {"outcome": "unknown", "outcome_kind": "reported", "error": "WAITING"}
    if not closed and attempt.state == "RUNNING":
        return {"outcome": "running", "outcome_kind": "reported"}
    return {"outcome": "unknown", "outcome_kind": "reported", "error": attempt.state}


def _asked(row: dict[str, Any], kind: str, amounts: Any) -> None:
    # A function call runs inside a library and gets nothing of its own: 0 is no request.
    for name, column in (("cores", "cores"), ("memory", "memory_bytes"), ("disk", "disk_bytes")):
        row[f"{kind}_{column}"] = amounts.get(name) or None
    if amounts.get("cores"):
        row[f"{kind}_gpus"] = amounts.get("gpus")
    row[f"{kind}_wall_s"] = amounts.get("wall_time") or None


def _memory(row: dict[str, Any], attempt: Attempt) -> None:
    """Take a peak that was measured; without a monitor the log repeats the allocation."""
    peak, given = attempt.measured.get("memory"), attempt.granted.get("memory")
    if not peak or (not attempt.monitored and peak == given):
        peak = None
    if attempt.outcome == "oom":
        known = [x for x in (peak, given or attempt.requested.get("memory")) if x]
        row["peak_memory_bytes"] = max(known, default=None)
        row["peak_memory_kind"] = "lower_bound" if known else None
    elif peak:
        row["peak_memory_bytes"], row["peak_memory_kind"] = peak, "sampled"


def _disk(row: dict[str, Any], attempt: Attempt) -> None:
    """Take a peak of the sandbox, by the same rule; one that ran out of it had used its share."""
    peak, given = attempt.measured.get("disk"), attempt.granted.get("disk")
    if peak is None or (not attempt.monitored and (not peak or peak == given)):
        peak = None
    if out_of_disk(attempt.error):
        known = [x for x in (peak, given or attempt.requested.get("disk")) if x]
        row["peak_disk_bytes"] = max(known, default=None)
        row["peak_disk_kind"] = "lower_bound" if known else None
    elif peak is not None:
        row["peak_disk_bytes"], row["peak_disk_kind"] = peak, "sampled"


def _host(worker: Worker) -> str | None:
    address = (worker.address or "").strip()
    host = address.rpartition(":")[0] if ":" in address else address
    return clean_name(host) if host else None


def _worker_row(worker: Worker) -> dict[str, Any]:
    return {
        "worker": clean_name(worker.name),
        "host": _host(worker),
        "name": clean_name(worker.name),
        "started_ns": worker.started_ns,
        "ended_ns": worker.ended_ns,
        "end_reason": clean_name(worker.reason) if worker.reason else None,
        "cores": worker.cores,
        "memory_bytes": worker.memory,
        "devices": f"{worker.gpus:g} gpu" if worker.gpus else None,
    }


def _libraries(log: Log, build: Builder) -> None:
    for key in log.libraries:
        times = log.libraries[key]
        last = log.tasks.get(key, [Attempt()])[-1]
        start = last.started_ns or times.get("SENT") or min(times.values())
        # One without an end was there until the log's last instant.
        end = last.ended_ns or times.get("FAILURE") or log.last_ns
        build.add(
            "intervals",
            {
                "worker": clean_name(last.worker) if last.worker else None,
                "lane": "library",
                "kind": "span",
                "name": f"library {clean_name(key)}",
                "start_ns": start,
                "end_ns": max(start, end or start),
            },
        )


def _transfers(log: Log, prefix: str, build: Builder) -> None:
    for columns in log.transfers.batches():
        workers = [clean_name(name) for name in columns["worker"]]
        objects = [prefix + clean_name(name) for name in columns["object"]]
        build.extend("flows", {**columns, "worker": workers, "object": objects})
    made = Columns("objects")
    for name, (size, at) in log.objects.items():
        row = {"object": prefix + clean_name(name), "size_bytes": size, "created_ns": at}
        made.add(row)
    made.give(build)


def emit_graph(graph: Graph, log: Log | None, prefix: str, build: Builder) -> None:
    """Give dependencies and files of one taskgraph; its tasks too where no log has them."""
    known = set(graph.tasks) if log is None else set(log.tasks) - set(log.libraries)
    listed = set() if log is None else set(log.objects)
    rows = Columns("tasks")
    if log is None:
        for key in graph.tasks:
            name = graph.names.get(key)
            group = clean_name(name) if name else None
            row = {"task_id": prefix + key, "run_id": key, "attempt": 1, "source": "taskvine"}
            rows.add({**row, "group": group, "outcome": "unknown"})
    outside = 0
    deps, flows, objects = Columns("deps"), Columns("flows"), Columns("objects")
    for task, on in graph.deps(build.warn):
        if task in known and on in known:
            deps.add({"task_id": prefix + task, "depends_on": prefix + on})
        else:
            outside += 1
    if outside:
        build.warn(
            f"left out: {many(outside, 'dependency', 'dependencies')} on the manager's helper tasks"
        )
    tasks, files = list(graph.tasks), list(graph.files)
    used: dict[str, None] = {}
    for op in ("read", "write"):
        for number, file in zip(*graph.side(op), strict=True):
            task, name = tasks[number], files[file]
            if task in known:
                used[name] = None
                flows.add(_flow(graph, log, task, name, op, prefix))
    for name in used:
        if name not in listed:
            row = {"object": prefix + clean_name(name), "size_bytes": graph.sizes.get(name)}
            objects.add(row)
    for made in (rows, deps, flows, objects):
        made.give(build)


def _flow(
    graph: Graph, log: Log | None, task: str, name: str, op: str, prefix: str
) -> dict[str, Any]:
    size = graph.sizes.get(name)
    if size is None and log is not None and name in log.objects:
        size = log.objects[name][0]
    return {
        "task_id": prefix + task,
        "attempt": len(log.tasks[task]) if log is not None else 1,
        "object": prefix + clean_name(name),
        "medium": "file",
        "op": op,
        "footprint_bytes": size,
    }
