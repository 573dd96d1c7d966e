"""Nodes, blocks and single readings: what stands around the tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rotameter.adapters.importers._parsl_db import Database
from rotameter.adapters.importers._parsl_runs import Runs, named, number, plain
from rotameter.adapters.importers._parsl_tasks import worker_name
from rotameter.profiler.live.redact import clean_name
from rotameter.units import many

if TYPE_CHECKING:
    from rotameter.adapters.importers.building import Builder

__all__ = ["emit_world"]

_BATCH = 50_000
_FINAL = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "MISSING", "HELD")


def emit_world(database: Database, runs: Runs, build: Builder) -> None:
    """Give workers from nodes, events from blocks, samples from the monitor's readings."""
    _nodes(database, runs, build)
    _blocks(database, runs, build)
    _readings(database, runs, build)


def _nodes(database: Database, runs: Runs, build: Builder) -> None:
    """Join the rows of a node's manager (one a change) to one life."""
    lives: dict[tuple[str, ...], dict[str, Any]] = {}
    columns = ("run_id", "hostname", "uid", "block_id", "cpu_count", "total_memory", "active")
    for row in database.rows("node", *columns, "worker_count", "timestamp", "last_heartbeat"):
        _, run, host, uid, block, cpus, memory, active, _, at, beat = row
        name = plain(host)
        if name is None or not runs.wants(plain(run)):
            continue
        when = runs.clock.ns(at)
        key = (str(run), name, str(uid), str(block))
        life = lives.setdefault(
            key,
            {
                "worker": worker_name(clean_name(name), plain(block)),
                "host": clean_name(name),
                "name": named(uid),
                "started_ns": when,
                "cores": number(cpus) or None,
                "memory_bytes": number(memory) or None,
            },
        )
        if plain(active) in ("0", "False"):
            life["ended_ns"] = runs.clock.ns(beat) or when
            life["end_reason"] = "inactive"
    for life in lives.values():
        first, last = life["started_ns"], life.get("ended_ns")
        if first is not None and last is not None and last < first:
            life["ended_ns"] = None
        build.add("workers", life)


def _blocks(database: Database, runs: Runs, build: Builder) -> None:
    last: dict[tuple[str, str, str], tuple[str, str | None]] = {}
    columns = ("run_id", "executor_label", "block_id", "job_id", "timestamp", "status")
    for _, run, executor, block, job, at, status in database.rows("block", *columns):
        key, state = plain(run), plain(status)
        if key is None or state is None or not runs.wants(key):
            continue
        label = clean_name(f"{plain(executor) or 'executor'}/block {plain(block) or '?'}")
        word = f"job {named(job)}" if plain(job) else None
        build.event(
            "block_status", runs.clock.ns(at), subject=label, reason=clean_name(state), text=word
        )
        last[key, str(executor), str(block)] = (state, word)
    waiting = [word or "job unknown" for state, word in last.values() if state == "PENDING"]
    if last:
        build.meta["blocks"] = build.meta.get("blocks", 0) + len(last)
    if waiting:
        told = ", ".join(waiting[:5]) + (" …" if len(waiting) > 5 else "")
        verb = "was" if len(waiting) == 1 else "were"
        build.warn(f"{many(len(waiting), 'block')} {verb} still pending: {told}")
    open_ = sum(state not in _FINAL and state != "PENDING" for state, _ in last.values())
    if open_:
        build.warn(f"{many(open_, 'block')} without an end")


def _readings(database: Database, runs: Runs, build: Builder) -> None:
    """Give resident memory over time, a sample a reading."""
    names = ("run_id", "task_id", "timestamp", "psutil_process_memory_resident")
    at: list[int | None] = []
    subject: list[str] = []
    value: list[float] = []
    for _, run, task, when, resident in database.rows("resource", *names):
        key, name, size = plain(run), plain(task), number(resident)
        if key is None or name is None or not size or not runs.wants(key):
            continue
        at.append(runs.clock.ns(when))
        subject.append(runs.task_id(key, name))
        value.append(size)
        if len(at) >= _BATCH:
            _flush(build, at, subject, value)
            at, subject, value = [], [], []
    if at:
        _flush(build, at, subject, value)


def _flush(build: Builder, at: list[int | None], subject: list[str], value: list[float]) -> None:
    size = len(at)
    build.extend(
        "samples",
        {
            "at_ns": at,
            "subject": subject,
            "metric": ["memory_bytes"] * size,
            "value": value,
            "quality": ["sampled"] * size,
        },
    )
