"""Snakemake's logs ``.snakemake/log/*.snakemake.log``: each attempt of each job, failures too.

The blocks: ``snakemake/logging.py`` of versions 3 to 9. Times are local, without a zone, in whole
seconds; they are given here as if they were UTC.
"""

from __future__ import annotations

import re
from calendar import timegm
from collections.abc import Iterable
from dataclasses import dataclass, field

__all__ = ["Attempt", "Log", "job_number", "read"]

_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_STAMP = re.compile(r" *\[\w{3} (\w{3}) +(\d{1,2}) (\d\d):(\d\d):(\d\d) (\d{4})\]\s*")
_RULE = re.compile(r"( *)(local)?(?:rule|checkpoint) (\S+):\s*")
_MESSAGE = re.compile(r"Job (\d+): (.*)")
_MISSING = re.compile(r"Reason: (?:.*?; )?Missing output files: (.*?)(?:; .*)?")
_ERROR = re.compile(r"Error in (?:rule|checkpoint) ([^\s,:]+)[,:]?.*")
_GROUP = re.compile(r"(?:\[.*?\] )?[Gg]roup job \S+ \(jobs in .*")
_ERROR_GROUP = re.compile(r"Error in group (?:job )?(\S+?):?\s*")
_FIELD = re.compile(r" +(\w[\w ()]*?): ?(.*)")
_DONE = re.compile(r"Finished (?:job (\d+)\.|jobid: (\d+)(?: \(Rule: (\S+)\))?)")
_GONE = re.compile(r"Trying to restart (?:job|failed job) (\d+)")
_SENT = (
    re.compile(r"(?:Submitted|Resubmitted)(?: \w+)? job (\S+) with external jobid ['\"](.*?)['\"]"),
    re.compile(r"Job (\S+) has been submitted with SLURM jobid (\S+?)(?: \(log: (.*?)\))?\.?\s*$"),
)
_EXIT = re.compile(r"returned non-zero exit status (\d+)|died with <Signals\.\w+: (\d+)>")
_STATUS = re.compile(r"SLURM status is: '(\w+)|state[ =:]+'?(OUT_OF_MEMORY|TIMEOUT|NODE_FAIL)")
_VERSION = re.compile(r"\s*Snakemake version: (\S+)")
_COMMAND = re.compile(r"\s*Command: (.+)")
_CORES = re.compile(r"Provided cores: (\d+)")
_NUMBER = re.compile(r"\d+(?:_\d+)?")
_SLURM = {
    "OUT_OF_MEMORY": "oom",
    "TIMEOUT": "timeout",
    "DEADLINE": "timeout",
    "NODE_FAIL": "worker_lost",
    "BOOT_FAIL": "worker_lost",
    "PREEMPTED": "preempted",
    "CANCELLED": "cancelled",
}
_FAILED = ("WorkflowError", "Terminating processes on user request")
# What it writes when it ends by itself; after a failure some versions write no "Complete log".
_CLOSING = ("Complete log", "Exiting because", "Nothing to be done")
_LINE_CHARS = 1 << 20


@dataclass
class Attempt:
    """One try of one job."""

    jobid: str
    rule: str | None = None
    local: bool = False
    inputs: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    benchmark: str | None = None
    wildcards: str | None = None
    threads: str | None = None
    resources: str | None = None
    started_ns: int | None = None
    ended_ns: int | None = None
    outcome: str | None = None
    exit_code: int | None = None
    signal: int | None = None
    external: str | None = None
    batch: bool = False
    blind: bool = False
    """Whether only the rule's message was shown, not what goes in and out."""
    message: str | None = None
    log: str = ""
    number: int = 0

    @property
    def idle(self) -> bool:
        """Whether it is a target that runs nothing (rule all)."""
        shown = self.outputs or self.benchmark or self.blind
        return not shown and self.started_ns == self.ended_ns


@dataclass
class Log:
    """What one log says."""

    attempts: list[Attempt] = field(default_factory=list)
    version: str | None = None
    command: str | None = None
    cores: int | None = None
    dry: bool = False
    closed: bool = False
    failed: bool = False


def _files(text: str) -> list[str]:
    return [part for part in text.split(", ") if part]


def _stamp(match: re.Match[str]) -> int | None:
    month, day, hour, minute, second, year = match.groups()
    if month not in _MONTHS or not 1970 <= int(year) < 2200:
        return None
    clock = (int(hour), int(minute), int(second))
    return timegm((int(year), _MONTHS.index(month) + 1, int(day), *clock)) * 10**9


def read(lines: Iterable[str], name: str = "") -> Log:
    r"""Read a log.

    Examples
    --------
    >>> log = read('''[Sun Nov 29 20:13:52 2026]
    ... localrule prep:
    ...     output: out/a.txt
    ...     jobid: 2
    ...
    ... [Sun Nov 29 20:13:55 2026]
    ... Finished jobid: 2 (Rule: prep)'''.split("\n"))
    >>> one = log.attempts[0]
    >>> one.rule, one.outputs, (one.ended_ns - one.started_ns) / 1e9, one.outcome
    ('prep', ['out/a.txt'], 3.0, 'ok')
    """
    reader = _Reader(name)
    for line in lines:
        reader.take(line[:_LINE_CHARS].rstrip("\r\n"))
    return reader.close()


class _Reader:
    """Goes through a log line by line."""

    def __init__(self, name: str) -> None:
        self.log = Log()
        self._name = name
        self._at: int | None = None
        self._block: Attempt | None = None
        self._error: Attempt | None = None
        self._open: dict[str, Attempt] = {}
        self._exit: re.Match[str] | None = None
        self._count = 0
        self._indent = 4
        self._grouped = False

    def take(self, line: str) -> None:
        """Take the next line."""
        stamp = _STAMP.fullmatch(line)
        if stamp:
            self._begin(None)
            self._grouped = self._grouped and line.startswith(" ")
            self._at = _stamp(stamp)
            return
        rule = _RULE.fullmatch(line)
        if rule:
            batch = self._grouped and bool(rule[1])
            self._begin(Attempt("", rule[3], bool(rule[2]), started_ns=self._at, batch=batch))
            self._indent = len(rule[1]) + 4
            return
        if (self._block is not None or self._error is not None) and line.startswith("    "):
            # Deeper lines are of a command, which may say anything.
            if len(line) - len(line.lstrip()) == self._indent:
                self._field(line)
            return
        if line.strip() and not line.startswith(" "):
            self._plain(line)
        elif self.log.version is None or self.log.command is None:
            self._banner(line)

    def close(self) -> Log:
        """End what is open; give what was read."""
        self._begin(None)
        for one in self._open.values():
            self.log.attempts.append(one)
        self.log.attempts.sort(key=lambda one: one.number)
        return self.log

    def _begin(self, block: Attempt | None) -> None:
        """End the block that was being read."""
        done, self._block, self._error = self._block, block, None
        if done is None or not done.jobid:
            return
        self._count += 1
        done.number, done.log = self._count, self._name
        before = self._open.pop(done.jobid, None)
        if before is not None:
            # Shown again (a message, then its block), or tried again without a word.
            if before.rule is None and before.started_ns == done.started_ns:
                done.rule = done.rule or before.rule
            else:
                self.log.attempts.append(before)
        self._open[done.jobid] = done

    def _field(self, line: str) -> None:
        match = _FIELD.fullmatch(line)
        if match is None:
            return
        name, value = match[1], match[2].strip()
        if self._error is not None:
            self._error_field(name, value, line)
            return
        block = self._block
        if block is None:
            return
        if name in ("input", "output"):
            setattr(block, f"{name}s", _files(value))
        elif name == "jobid":
            block.jobid = value
        elif name in ("benchmark", "wildcards", "threads", "resources"):
            setattr(block, name, value)

    def _error_field(self, name: str, value: str, line: str) -> None:
        failed = self._error
        if failed is None:
            return
        if name == "jobid" and not failed.jobid:
            self._fail(value, failed)
        told = self._error or failed  # by now the attempt itself, if its id came before
        if name in ("input", "output") and told.blind and not getattr(told, f"{name}s"):
            setattr(told, f"{name}s", _files(value))
        if name in ("external_jobid", "cluster_jobid") and _NUMBER.match(value):
            told.external, told.batch = told.external or job_number(value), True
        status = _STATUS.search(line)
        if status:
            told.outcome = _SLURM.get(status[1] or status[2], told.outcome)

    def _fail(self, jobid: str, seen: Attempt) -> None:
        one = self._open.pop(jobid, None)
        if one is None:
            self._count += 1
            one = Attempt(jobid, seen.rule, log=self._name, number=self._count)
        one.rule = one.rule or seen.rule
        one.ended_ns, one.outcome = self._at, seen.outcome or "failed"
        if self._exit is not None:
            code, signal = self._exit.groups()
            one.exit_code = int(code) if code and len(code) < 6 else None
            one.signal = int(signal) if signal and len(signal) < 3 else None
            if one.exit_code is not None and 128 < one.exit_code <= 192:
                one.signal = one.exit_code - 128
            self._exit = None
        self.log.attempts.append(one)
        self._error = one

    def _plain(self, line: str) -> None:
        error = _ERROR.fullmatch(line)
        if error:
            self._begin(None)
            self._error, self._indent = Attempt("", error[1]), 4
            status = _STATUS.search(line)
            if status:
                self._error.outcome = _SLURM.get(status[1] or status[2])
            return
        done = _DONE.match(line)
        if done:
            self._begin(None)
            self._finish(done[1] or done[2], done[3])
            return
        for pattern in _SENT:
            sent = pattern.match(line)
            if sent:
                self._begin(None)
                one = self._open.get(sent[1])
                if one is not None:
                    one.external, one.batch = job_number(sent[2]), True
                return
        message = _MESSAGE.fullmatch(line)
        if message:
            self._begin(Attempt(message[1], started_ns=self._at, blind=True, message=message[2]))
            self._indent = 4
            return
        missing = _MISSING.fullmatch(line)
        if missing and self._block is not None and self._block.blind:
            # Of its outputs those that were not there: all that tells them.
            self._block.outputs = [f for f in _files(missing[1]) if not f.startswith(("<", "..."))]
            return
        if _GROUP.fullmatch(line):
            self._begin(None)
            self._grouped = True
            return
        if _ERROR_GROUP.fullmatch(line):
            self._begin(None)
        found = _EXIT.search(line)
        if found:
            self._exit = found
        self._word(line)

    def _finish(self, jobid: str, rule: str | None) -> None:
        one = self._open.pop(jobid, None)
        if one is None:
            return
        one.rule = one.rule or rule
        one.ended_ns, one.outcome = self._at, "ok"
        self.log.attempts.append(one)

    def _word(self, line: str) -> None:
        log = self.log
        log.closed = log.closed or line.startswith(_CLOSING)
        if line.startswith(("This was a dry-run", "Would remove")):
            log.dry = True
        elif line.startswith(_FAILED) or "because a job execution failed" in line:
            log.failed = True
        cores = _CORES.match(line)
        if cores and len(cores[1]) < 7:
            log.cores = int(cores[1])
        self._banner(line)

    def _banner(self, line: str) -> None:
        version = _VERSION.fullmatch(line)
        command = _COMMAND.fullmatch(line)
        if version and self.log.version is None:
            self.log.version = version[1]
        if command and self.log.command is None:
            self.log.command = command[1].strip()


def job_number(text: str | None) -> str | None:
    """Give the job id in what a batch system answered.

    Examples
    --------
    >>> job_number("Submitted batch job 142"), job_number("529505.host"), job_number("17_3")
    ('142', '529505', '17_3')
    """
    if not text:
        return None
    found = _NUMBER.findall(text)
    return found[-1] if "Submitted" in text and found else (found[0] if found else None)
