"""Nextflow's log ``.nextflow.log``: version, command, job ids and what the trace left out.

The lines: ``nextflow.cli.Launcher``, ``nextflow.Session``, ``TaskPollingMonitor`` and
``GridTaskHandler`` of Nextflow. Their times have neither year nor zone; a batch job's ``started``
is in milliseconds since the epoch.
"""

from __future__ import annotations

import contextlib
import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass, field

from rotameter.adapters.importers._nextflow_values import LATEST_MS
from rotameter.adapters.importers.times import local_ns

__all__ = ["Log", "Stamp", "Task", "read"]

Stamp = tuple[int, int, int, int]
"""How often the year had turned, month, day, and ns since midnight, by the local clock."""


_VERSION = re.compile(r"(?:N E X T F L O W\s+~\s+version|Version:) (\d[\w.-]*)")
_COMMAND = re.compile(r"\$> (\S*nextflow\S* .*)")
_NAME = re.compile(r"(?:Run name: |runName=)([\w-]+)")
_SUBMIT = re.compile(r"\[([0-9a-f]{2}/[0-9a-f]{6})\] (?:Re-s|S)ubmitted process > (.+)$")
_JOB = re.compile(r"submitted process (.+?) > jobId: ([\w.\[\]-]+); workDir: (\S+)")
_DONE = re.compile(
    r"Task completed > TaskHandler\[(?:jobId: (?P<job>[^;\s]+); )?id: (?P<id>\d+); "
    r"name: (?P<name>.*?); status: (?P<status>\w+); exit: (?P<exit>[\d-]+); .*?"
    r"workDir: (?P<dir>\S+?)(?:[\]\s;]|$)(?:.*?started: (?P<started>\d+);)?"
    r"(?:.*?exited: (?P<exited>[\d-]+T[\d:.]+Z);)?"
)
_HASH = re.compile(r"/([0-9a-f]{2})/([0-9a-f]{6})[0-9a-f]*/?$")
_STATS = re.compile(r"(\w+Count)=(\d+)")
_EXECUTOR = re.compile(r"(?:>> processorType: '|\[warm up\] executor > )(\w+)")
_STAMP = re.compile(r"([A-Z][a-z]{2})-(\d\d) (\d\d):(\d\d):(\d\d)\.(\d{3}) ")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_LINE_CHARS = 20_000


@dataclass
class Task:
    """What the log says of one task."""

    name: str
    native_id: str | None = None
    workdir: str | None = None
    status: str | None = None
    exit: str | None = None
    started_ms: int | None = None
    exited_ns: int | None = None
    submitted: Stamp | None = None
    done: Stamp | None = None
    """When its submission and its end were written."""
    batch: bool | None = None
    """Whether it was a batch job; None where the log does not tell."""


@dataclass
class Log:
    """What is in one log, tasks by the beginning of their hash."""

    tasks: dict[str, Task] = field(default_factory=dict)
    version: str | None = None
    command: list[str] | None = None
    run_name: str | None = None
    counts: dict[str, int] = field(default_factory=dict)
    closed: bool = False
    aborted: bool = False
    executors: set[str] = field(default_factory=set)
    first: Stamp | None = None
    last: Stamp | None = None
    """The times of the first and last line that tell of a task."""


def read(lines: Iterable[str]) -> Log:
    """Read a log.

    Examples
    --------
    >>> log = read(["Jun-01 10:00:00.000 [main] INFO  nextflow.cli.CmdRun - N E X T F L O W  ~  "
    ...     "version 23.10.1", "x [Task monitor] DEBUG n.processor.TaskPollingMonitor - Task "
    ...     "completed > TaskHandler[jobId: 7; id: 1; name: A (1); status: COMPLETED; exit: 0; "
    ...     "error: -; workDir: /w/ab/012345ff started: 1580767045003; exited: -; ]"])
    >>> log.version, log.tasks["ab/012345"].native_id, log.tasks["ab/012345"].started_ms
    ('23.10.1', '7', 1580767045003)
    """
    log = Log()
    for line in lines:
        _line(log, line[:_LINE_CHARS])
    return log


def _line(log: Log, line: str) -> None:
    if "ubmitted process" in line:
        _submitted(log, line)
    elif "Task completed >" in line:
        match = _DONE.search(line)
        if match:
            _done(log, match, line)
    elif "$> " in line and log.command is None:
        match = _COMMAND.search(line)
        if match:
            log.command = _words(match[1])
    elif "executor" in line and (match := _EXECUTOR.search(line)):
        log.executors.add(match[1])
    elif "WorkflowStats[" in line:
        log.counts = {name: int(count) for name, count in _STATS.findall(line)}
    elif "Execution complete -- Goodbye" in line:
        log.closed = True
    elif "Session aborted" in line:
        log.aborted = True
    if log.version is None:
        match = _VERSION.search(line)
        log.version = match[1] if match else None
    if log.run_name is None:
        match = _NAME.search(line)
        log.run_name = match[1] if match else None


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


def _key(workdir: str) -> str | None:
    match = _HASH.search(workdir)
    return f"{match[1]}/{match[2]}" if match else None


def _stamp(log: Log, line: str) -> Stamp | None:
    match = _STAMP.match(line)
    if match is None or match[1] not in _MONTHS:
        return None
    hour, minute, second, ms = (int(match[group]) for group in range(3, 7))
    month, day = _MONTHS.index(match[1]) + 1, int(match[2])
    turns = 0 if log.last is None else log.last[0]
    if log.last is not None and log.last[1] - month > 6:
        turns += 1
    elif log.last is not None and month - log.last[1] > 6 and turns:
        turns -= 1  # a line of the old year behind one of the new
    made = (turns, month, day, (((hour * 60 + minute) * 60 + second) * 1000 + ms) * 10**6)
    log.first, log.last = log.first or made, made
    return made


def _submitted(log: Log, line: str) -> None:
    match = _SUBMIT.search(line)
    if match:
        task = log.tasks.setdefault(match[1], Task(match[2].strip()))
        task.submitted = task.submitted or _stamp(log, line)
        return
    job = _JOB.search(line)
    key = _key(job[3]) if job else None
    if job and key:
        task = log.tasks.setdefault(key, Task(job[1]))
        task.native_id, task.workdir, task.batch = job[2], job[3], True
        task.submitted = task.submitted or _stamp(log, line)


def _done(log: Log, match: re.Match[str], line: str) -> None:
    key = _key(match["dir"])
    if key is None:
        return
    task = log.tasks.setdefault(key, Task(match["name"]))
    task.workdir, task.status, task.exit = match["dir"], match["status"], match["exit"]
    task.native_id = match["job"] or task.native_id
    task.batch, task.done = task.native_id is not None, _stamp(log, line)
    started = match["started"]
    if started and len(started) < 15 and int(started) <= LATEST_MS:
        task.started_ms = int(started)
    if match["exited"]:
        with contextlib.suppress(ValueError):
            exited_ns = local_ns(match["exited"])[0]
            task.exited_ns = exited_ns if 0 <= exited_ns <= LATEST_MS * 10**6 else None
