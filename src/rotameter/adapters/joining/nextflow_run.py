"""The folder of a Nextflow run: traces, ``.nextflow.log``, work folders and Slurm's accounting.

Which task a record is of: the task's hash (work folder) and its native id (batch job).
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rotameter.adapters.importers._nextflow_lines import find_header
from rotameter.adapters.importers._nextflow_part import say_echoes, say_runs
from rotameter.adapters.importers._nextflow_rows import Attempt, echoes, make
from rotameter.adapters.importers.building import Builder
from rotameter.adapters.importers.inputs import InputFile
from rotameter.adapters.importers.nextflow import Importer
from rotameter.adapters.importers.walking import Unread, is_file, is_folder
from rotameter.adapters.joining import _nextflow_log, _nextflow_work, leftover
from rotameter.adapters.joining._nextflow_exits import place_of, places, with_exits
from rotameter.adapters.joining._nextflow_slurm import belong, with_slurm
from rotameter.adapters.joining._nextflow_times import (
    in_order,
    jobs_on_one_clock,
    times_of_logs,
    traces_on_one_clock,
    with_starts,
    with_times,
)
from rotameter.adapters.joining.leftover import may_be_another
from rotameter.adapters.joining.merging import Joined, Ledger, known_zone, offset_between
from rotameter.adapters.joining.scanning import opened, plausible, walk
from rotameter.adapters.joining.slurm_side import read_sacct
from rotameter.errors import BadInput, InputError
from rotameter.profiler.live.redact import redact_command
from rotameter.units import many

if TYPE_CHECKING:
    from rotameter.profiler.trace import Trace
    from rotameter.values import Head

__all__ = ["Folder", "find", "join"]

_LOG = re.compile(r"\.nextflow\.log(?:\.\d+)?")
_UNMARKED = 500
_FIGURES = ("wall_s", "cpu_s", "peak_memory_bytes", "read_bytes", "write_bytes")
_FINER = ("wall_s", "cpu_s", "read_bytes", "write_bytes")


@dataclass
class Folder:
    """What of a Nextflow run lies in a folder."""

    path: Path
    traces: list[tuple[InputFile, str]] = field(default_factory=list)
    logs: list[Path] = field(default_factory=list)
    others: list[Path] = field(default_factory=list)
    aside: list[Path] = field(default_factory=list)
    work: Path | None = None
    unread: Unread = field(default_factory=Unread)


def find(path: Path) -> Folder | None:
    """Look for a Nextflow run in a folder; None if there is none."""
    found = Folder(path)
    try:
        names = sorted(os.listdir(path))
    except OSError:
        return None
    logs = sorted((n for n in names if _LOG.fullmatch(n)), key=_age)
    found.logs = [path / n for n in logs if is_file(path / n, found.unread)]
    found.work = path / "work" if is_folder(path / "work", found.unread) else None
    marked = bool(found.logs) or is_folder(path / ".nextflow", found.unread)
    importer = Importer()
    for file in islice(
        walk(path, found.unread, depth=6 if marked else 2), None if marked else _UNMARKED
    ):
        pair = opened(path, file, found.unread) if plausible(file) else None
        if pair is None:
            if may_be_another(file):
                found.aside.append(file)
            continue
        if _is_trace(importer, pair[1], marked or found.work is not None):
            found.traces.append((pair[0], pair[1].name))
        else:
            found.others.append(file)
    if marked or (found.traces and found.work):
        return found if found.traces or found.logs else None
    return found if found.traces and _has_slurm(found) else None


def _age(name: str) -> int:
    """Give the place of a log among its likes, the newest first.

    Examples
    --------
    >>> sorted([".nextflow.log.10", ".nextflow.log.2", ".nextflow.log"], key=_age)
    ['.nextflow.log', '.nextflow.log.2', '.nextflow.log.10']
    """
    number = name.rpartition(".")[2]
    return int(number) if number.isdigit() else 0


def _is_trace(importer: Importer, head: Head, marked: bool) -> bool:
    """Say whether a file is a trace; in a run's folder, one that has no ``task_id`` is too.

    Tables that plug-ins make of a trace have columns of their own: they tell of the same tasks.
    """
    sure = importer.sniff(head)
    if sure >= 0.9 or not marked or sure < 0.7:
        return sure >= 0.9
    line = next((line for line in head.text.split("\n") if line.strip()), "")
    header = find_header(line)
    return header is not None and not header.unknown


def _has_slurm(found: Folder) -> bool:
    """Say whether Slurm's accounting beside the traces is of the same jobs."""
    probe, ledger = Builder("nextflow", "nextflow"), Ledger()
    runs = _traces(found, Importer(), probe, ledger)
    steady = traces_on_one_clock(runs, probe)
    attempts = [made for rows in runs for made in rows]
    slurm = read_sacct(found.path, found.others, probe, ledger)
    jobs_on_one_clock(slurm, steady)
    return belong(attempts, slurm, probe)


def join(folder: Folder, *, utc_offset_s: float | None, build: Builder | None = None) -> Trace:
    """Join what the folder holds, with an empty builder where the caller looks at it after."""
    build, ledger = build or Builder("nextflow", "nextflow"), Ledger()
    importer = Importer()
    runs = _traces(folder, importer, build, ledger)
    steady = traces_on_one_clock(runs, build)
    runs = _without_echoes(runs, build)
    logs = [(path, _read_log(path, build)) for path in folder.logs]
    known = {made.hash for rows in runs for made in rows if made.hash}
    traced = sum(map(len, runs))
    in_order(log for _, log in reversed(logs))
    runs += _only_in_logs(folder, logs, known, build, ledger)
    attempts = [made for rows in runs for made in rows]
    tasks = _merge_logs(logs)
    slurm = read_sacct(folder.path, folder.others, build, ledger)
    jobs_on_one_clock(slurm, steady)
    zone = _zone(attempts, tasks, build, ledger)
    told = logs[0][1].tasks if folder.traces and logs else tasks
    times = times_of_logs(attempts, told, slurm, build, ledger, zone, utc_offset_s, steady)
    with_times(attempts, told, times)
    given = utc_offset_s if times is None or times.dated else None
    workdirs = [made.workdir for made in attempts] + [task.workdir for task in tasks.values()]
    where = places(folder.work, workdirs, folder.unread)
    with_exits(attempts, tasks, where, folder.unread, build)
    importer.number(runs)
    if not attempts and not build.records_in:
        raise BadInput(
            f"{folder.path}: a Nextflow run without a trace, and its log names no task",
            hint="run it with -with-trace",
        )
    joined = [
        Joined.of(a.row, "log" if a.file.startswith(".nextflow") else "trace") for a in attempts
    ]
    for one, made in zip(joined, attempts, strict=True):
        one.samples = made.samples
    _with_logs(attempts, joined, tasks, build, ledger)
    _with_work(folder, attempts, joined, where, build, ledger)
    with_starts(zip(attempts[traced:], joined[traced:], strict=True))
    processes = _processes(attempts, logs, tasks)
    _executors(attempts, _batch(attempts, logs, tasks), build)
    if slurm.jobs and processes:
        build.note(
            f"{many(len(processes), 'task')} ran under the executor local, where the native id is "
            "a process: not joined with Slurm"
        )
    offset = given if zone is None else zone / 1e9
    known_zone(ledger, utc_offset_s, build)
    extra = with_slurm(attempts, joined, slurm, build, ledger, offset, processes)
    _facts(logs, build)
    if folder.traces and len(joined) > traced:
        _say_only_in_logs(joined[traced:], build)
    for one in (*joined, *extra):
        _add(one, build)
    ledger.close((*joined, *extra), build)
    for text in folder.unread.words():
        build.warn(text)
    leftover.say(folder.path, [*folder.others, *folder.aside], slurm.files, build)
    importer.finish(build)
    return build.build(utc_offset_s=offset)


def _traces(
    folder: Folder, importer: Importer, build: Builder, ledger: Ledger
) -> list[list[Attempt]]:
    """Give the attempts of each trace."""
    found: list[list[Attempt]] = []
    troubles: list[str] = []
    traces = (InputFile(name, file.opener, file.path) for file, name in folder.traces)
    for file in importer.in_order([*traces]):
        try:
            found += importer.attempts(file, build)
        except InputError as error:
            troubles.append(str(error))
        else:
            build.files += 1
    for text in troubles:
        build.warn(text)
    found = [rows for rows in found if rows]
    ledger.records["trace"] += sum(map(len, found))
    say_runs(len(found), "folder", build)
    return found


def _without_echoes(runs: list[list[Attempt]], build: Builder) -> list[list[Attempt]]:
    """Leave out cached rows whose own run is there too: the same work, told twice."""
    hashes: list[tuple[set[str], set[str]]] = [(set(), set()) for _ in runs]
    for rows, (ran, cached) in zip(runs, hashes, strict=True):
        for made in rows:
            if made.hash:
                (cached if made.row["outcome"] == "cached" else ran).add(made.hash)
    kept = [
        [a for a in rows if a.row["outcome"] != "cached" or a.hash not in gone]
        for rows, gone in zip(runs, echoes(hashes), strict=True)
    ]
    say_echoes(sum(map(len, runs)) - sum(map(len, kept)), build)
    return kept


def _read_log(path: Path, build: Builder) -> _nextflow_log.Log:
    try:
        with path.open(encoding="utf-8", errors="replace") as stream:
            log = _nextflow_log.read(stream)
    except OSError as error:
        build.warn(f"cannot read {path.name}: {error.strerror}")
        return _nextflow_log.Log()
    build.files += 1
    return log


def _merge_logs(logs: list[tuple[Path, _nextflow_log.Log]]) -> dict[str, _nextflow_log.Task]:
    found: dict[str, _nextflow_log.Task] = {}
    for _, log in reversed(logs):  # .nextflow.log, the newest, comes first and wins
        found.update(log.tasks)
    return found


def _only_in_logs(
    folder: Folder,
    logs: list[tuple[Path, _nextflow_log.Log]],
    known: set[str],
    build: Builder,
    ledger: Ledger,
) -> list[list[Attempt]]:
    """Make attempts of tasks that the newest log has and no trace: the run may have been killed.

    Without any trace all logs tell; the oldest comes first.
    """
    runs: list[list[Attempt]] = []
    for path, log in logs[: None if not folder.traces else 1]:
        found: list[Attempt] = []
        runs.insert(0, found)
        for key, task in log.tasks.items():
            if key in known:
                continue
            known.add(key)
            build.records_in += 1
            ledger.records["log"] += 1
            status = task.status or ("ABORTED" if log.closed else "RUNNING")
            if status == "COMPLETED" and task.exit not in ("0", None):
                status = "FAILED"  # the log's COMPLETED only says that the job has ended
            fields = {"hash": key, "name": task.name, "status": status, "exit": task.exit or "-"}
            made = make(fields, build.warn)
            made.file, made.native_id, made.workdir = path.name, task.native_id, task.workdir
            found.append(made)
    return runs


def _say_only_in_logs(joined: list[Joined], build: Builder) -> None:
    """Say how many tasks no trace has, and of how many nothing else told the figures."""
    blank = sum(all(one.row.get(c) is None for c in _FIGURES) for one in joined)
    if blank == len(joined):
        rest = "without figures"
    else:
        rest = "figures from work folders or accounting" + (f", {blank:,} without" if blank else "")
    build.warn(f"tasks that are in the log and in no trace: {len(joined):,}, {rest}")


def _processes(
    attempts: list[Attempt],
    logs: list[tuple[Path, _nextflow_log.Log]],
    tasks: Mapping[str, _nextflow_log.Task],
) -> set[str]:
    """Give the hashes of tasks that ran beside Nextflow itself: their native id is no job."""
    return {
        made.hash
        for made, batch in zip(attempts, _batch(attempts, logs, tasks), strict=True)
        if batch is False and made.hash
    }


def _batch(
    attempts: list[Attempt],
    logs: list[tuple[Path, _nextflow_log.Log]],
    tasks: Mapping[str, _nextflow_log.Task],
) -> list[bool | None]:
    """Say which attempts were batch jobs, and which ran beside Nextflow; None: not told."""
    executors = {name for _, log in logs for name in log.executors}
    of_all = executors != {"local"} if executors else None
    if len(executors) > 1 and "local" in executors:
        of_all = None
    found = [tasks.get(made.hash or "") for made in attempts]
    return [of_all if task is None or task.batch is None else task.batch for task in found]


def _with_logs(
    attempts: list[Attempt],
    joined: list[Joined],
    tasks: Mapping[str, _nextflow_log.Task],
    build: Builder,
    ledger: Ledger,
) -> None:
    """Take job ids and work folders from the logs."""
    for made, one in zip(attempts, joined, strict=True):
        task = tasks.get(made.hash or "")
        if task is None or made.file.startswith(".nextflow"):
            continue
        build.records_in += 1
        build.merged += 1
        ledger.records["log"] += 1
        ledger.matched["log"] += 1
        made.native_id = made.native_id or task.native_id
        made.workdir = made.workdir or task.workdir
        if task.exit and task.exit.isdigit() and int(task.exit) < 2**31 - 1:
            one.fill({"exit_code": int(task.exit)}, "log")


def _with_work(
    folder: Folder,
    attempts: list[Attempt],
    joined: list[Joined],
    where: list[Path],
    build: Builder,
    ledger: Ledger,
) -> None:
    """Take the exact figures from the work folders: the trace rounds them."""
    for made, one in zip(attempts, joined, strict=True):
        task = place_of(made, where, folder.unread)
        row = _nextflow_work.read(task) if task else {}
        if not row:
            continue
        build.records_in += 1
        build.merged += 1
        ledger.records["work"] += 1
        ledger.matched["work"] += 1
        for metric, value in row.pop("_samples", {}).items():
            one.samples[metric] = value
        if one.row["outcome"] == "cached":
            continue
        finer = [c for c in _FINER if row.get(c) is not None]
        one.fill(row, "work", better=finer)
        if row.get("peak_memory_bytes") and one.row.get("outcome") != "oom":
            _finer_peak(one, row)


def _finer_peak(one: Joined, row: Mapping[str, Any]) -> None:
    mine, exact = one.row["peak_memory_bytes"], row["peak_memory_bytes"]
    if abs(mine - exact) <= 0.05 * exact:
        one.put("peak_memory_bytes", exact, "work")


def _zone(
    attempts: list[Attempt],
    tasks: Mapping[str, _nextflow_log.Task],
    build: Builder,
    ledger: Ledger,
) -> int | None:
    """Find the zone of the trace's local times from the log's epoch times of the same tasks."""
    if not build.local:
        return None
    pairs = []
    for made in attempts:
        task = tasks.get(made.hash or "")
        if task is None:
            continue
        if task.started_ms is not None and not made.guessed_start:
            pairs.append((made.row["started_ns"], task.started_ms * 10**6))
        if task.exited_ns is not None:
            pairs.append((made.row["ended_ns"], task.exited_ns))
    offset = offset_between(pairs)
    if offset is not None:
        ledger.zones["trace"] = {"utc_offset_s": offset / 1e9, "how": "inferred from the log"}
    return offset


def _executors(attempts: list[Attempt], told: list[bool | None], build: Builder) -> None:
    """Keep how many attempts ran where, as far as the logs tell."""
    pairs = zip(attempts, told, strict=True)
    batch = [is_job for made, is_job in pairs if made.row["outcome"] != "cached"]
    counts = {"local": batch.count(False), "batch": batch.count(True)}
    if any(counts.values()):
        build.meta["executors"] = counts


def _facts(logs: list[tuple[Path, _nextflow_log.Log]], build: Builder) -> None:
    if not logs:
        return
    log = logs[0][1]
    if log.version:
        build.meta["versions"] = {"nextflow": log.version}
    if log.command:
        build.meta["command"] = redact_command(log.command)
    if log.run_name:
        build.meta["run_name"] = log.run_name
    status = "unknown"
    if log.closed or log.aborted:
        failed = log.aborted or bool(log.counts.get("abortedCount"))
        status = "failed" if failed else "ok"
    build.meta["run"] = {"status": status}
    if not log.closed:
        build.warn("the log is not closed: the run was killed, or is still going on")


def _add(one: Joined, build: Builder) -> None:
    build.add("tasks", one.row)
    for metric, value in one.samples.items():
        build.add(
            "samples",
            {
                "at_ns": one.row.get("ended_ns"),
                "subject": one.row["task_id"],
                "metric": metric,
                "value": value,
                "quality": "estimate" if metric == "staging_s" else "sampled",
            },
        )
