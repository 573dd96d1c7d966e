"""Ask ``sacct`` for jobs, with the fields that the importer needs.

sacct is run directly, never through a shell; what a user gives cannot become an option of it. Its
manual: https://slurm.schedmd.com/sacct.html. Only fields that this sacct knows are asked for, and
times are asked for with their zone (SLURM_TIME_FORMAT).
"""

from __future__ import annotations

import io
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from rotameter.errors import RotameterError, TraceNotFound, UsageError, WouldOverwrite, no_folder

if TYPE_CHECKING:
    from rotameter.profiler.trace import Trace

__all__ = ["FIELDS", "Query", "SacctFailed", "collect", "command", "open_jobs", "quoted", "shown"]

TIME_FORMAT = "%Y-%m-%dT%H:%M:%S%z"
_FIELDS = """
    JobID JobIDRaw JobName Cluster User Account Partition QOS State ExitCode Reason Restarts
    SLUID Submit Eligible Start End Elapsed ElapsedRaw Suspended Timelimit TotalCPU UserCPU
    SystemCPU ReqCPUS AllocCPUS ReqNodes NNodes AllocNodes NTasks ReqMem ReqTRES AllocTRES MaxRSS
    AveDiskRead AveDiskWrite TRESUsageInMax TRESUsageInTot TRESUsageOutTot ConsumedEnergyRaw
    Priority NodeList Comment AdminComment
"""
FIELDS = tuple(_FIELDS.split())
# sacct cuts times to 19 characters, also with --parsable2: what comes after the seconds is lost.
_WIDE = {name: f"{name}%32" for name in ("Submit", "Eligible", "Start", "End")}
_NEEDED = ("JobID", "State", "Elapsed")
_OLD_NAMES = {"ReqTRES": "ReqGRES", "AllocTRES": "AllocGRES"}
_JOBS = re.compile(r"\d{1,10}(?:_\d{1,10}|\+\d{1,5})?(?:,\d{1,10}(?:_\d{1,10}|\+\d{1,5})?)*")
_AGO = re.compile(r"(\d{1,5})\s*(m|min|h|d|w|minutes?|hours?|days?|weeks?)")
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_WHEN = re.compile(r"\d{4}-\d\d-\d\d(?:T\d\d:\d\d(?::\d\d)?)?|now|today|midnight|yesterday")
_NAME = re.compile(r"[^\s,\-\x00-\x1f][^,\x00-\x1f]{0,199}")
_SECONDS_LIMIT = 1800


class SacctFailed(RotameterError):
    """sacct is there and failed."""


@dataclass(frozen=True, slots=True)
class Query:
    """Which jobs: their numbers, or a name, or all since a time.

    Parameters
    ----------
    jobs : str, optional
        Numbers separated by commas.
    name : str, optional
        Job name.
    since : str, optional
        ``7d``, ``12h``, ``2025-02-01`` …
    user : str, optional
        Whose jobs; by default one's own.
    """

    jobs: str | None = None
    name: str | None = None
    since: str | None = None
    user: str | None = None

    def options(self) -> list[str]:
        """Give sacct's options for it, checked.

        Raises
        ------
        UsageError
            If something in it is not of its form, or nothing is asked for.

        Examples
        --------
        >>> Query(jobs="12,13_4").options(), Query(since="7d", user="ann").options()
        (['--jobs=12,13_4'], ['--starttime=now-7days', '--user=ann'])
        """
        found = []
        if self.jobs is not None:
            numbers = re.sub(r"\s+", "", self.jobs)
            _check(_JOBS, numbers, "--jobs", "numbers separated by commas, such as 123,124_5")
            found.append(f"--jobs={numbers}")
        if self.name is not None:
            _check(_NAME, self.name, "--name", "the name of a job")
            found.append(f"--name={self.name}")
        if self.since is not None:
            found.append(f"--starttime={_start(self.since)}")
        elif self.name is not None:
            found.append("--starttime=now-30days")
        if not found:
            raise UsageError("which jobs?", hint="give --jobs IDS, --name NAME or --since 7d")
        if self.user is not None:
            _check(_NAME, self.user, "--user", "the name of a user")
            found.append(f"--user={self.user}")
        return found


def _check(pattern: re.Pattern[str], text: str, option: str, hint: str) -> None:
    if pattern.fullmatch(text) is None:
        raise UsageError(f"{option} {text[:60]!r}: not of its form", hint=hint)


def _start(text: str) -> str:
    match = _AGO.fullmatch(text.strip().lower())
    if match is not None:
        return f"now-{int(match[1])}{_UNITS[match[2][0]]}"
    text = text.strip()
    _check(_WHEN, text, "--since", "such as 7d, 12h or 2025-02-01")
    if text[0].isdigit():
        try:
            datetime.fromisoformat(text)
        except ValueError:
            raise UsageError(
                f"--since {text}: there is no such day or time", hint="such as 2025-02-28"
            ) from None
    return text


def command(query: Query, known: Sequence[str] | None = None) -> list[str]:
    """Give the command that fetches the jobs.

    Without ``jobs``, sacct lists no job that was never eligible to run (held, then cancelled).

    Parameters
    ----------
    query : Query
    known : sequence of str, optional
        The fields that sacct knows; all of `FIELDS` are taken for known without it.

    Examples
    --------
    >>> command(Query(jobs="7"), ["JobID", "State", "Elapsed"])
    ['sacct', '--parsable2', '--duplicates', '--format=JobID,State,Elapsed', '--jobs=7']
    """
    fields = list(FIELDS)
    if known is not None:
        there = {name.lower() for name in known}
        named = [f if f.lower() in there else _OLD_NAMES.get(f, f) for f in FIELDS]
        fields = [f for f in named if f.lower() in there]
        lost = [f for f in _NEEDED if f not in fields]
        if lost:
            raise SacctFailed(
                f"this sacct knows no field {', '.join(lost)}",
                hint="rotameter collect slurm --print shows the command",
            )
    asked = ",".join(_WIDE.get(field, field) for field in fields)
    return ["sacct", "--parsable2", "--duplicates", f"--format={asked}", *query.options()]


def shown(argv: Sequence[str]) -> str:
    """Give a command as one can paste it into a shell, with the form of its times.

    Examples
    --------
    >>> shown(["sacct", "--name=my job"])
    "SLURM_TIME_FORMAT=%Y-%m-%dT%H:%M:%S%z sacct '--name=my job'"
    """
    return f"SLURM_TIME_FORMAT={shlex.quote(TIME_FORMAT)} {shlex.join(argv)}"


def quoted(path: Path) -> str:
    """Give a path as one can paste it into a shell."""
    return shlex.quote(str(path))


def collect(query: Query, out: Path, *, force: bool = False) -> int:
    """Write what sacct says of the jobs to a file; give the number of lines after the header.

    Raises
    ------
    WouldOverwrite
        If the file is there and ``force`` is not given.
    UsageError
        If its folder is not there, as with ``report`` and ``convert``.
    TraceNotFound
        If there is no sacct here, or no such job.
    SacctFailed
        If sacct fails.
    """
    query.options()
    if out.exists() and not force:
        raise WouldOverwrite(f"{out} exists", hint="--force overwrites it")
    if not out.parent.is_dir():
        raise no_folder(out.parent)
    text = _fetch(query)
    lines = text.count(b"\n") - 1
    if lines < 1:
        raise TraceNotFound(
            "sacct knows no such jobs", hint="check the numbers, --user and --since"
        )
    part = out.with_name(f".{out.name}.part")
    try:
        part.write_bytes(text)
        os.replace(part, out)
    finally:
        part.unlink(missing_ok=True)
    return lines


def open_jobs(jobs: str, *, utc_offset_s: float | None = None) -> Trace:
    """Import jobs by their numbers, separated by commas.

    Raises
    ------
    TraceNotFound
        If there is no sacct here, or no such job.
    """
    from rotameter.adapters.importers.building import Builder
    from rotameter.adapters.importers.inputs import InputFile
    from rotameter.adapters.importers.slurm import Importer

    text = _fetch(Query(jobs=jobs), f"no such file, and no sacct here to ask for job {jobs}")
    if text.count(b"\n") < 2:
        raise TraceNotFound(f"sacct knows no job {jobs}", hint="check the number")
    importer, build = Importer(), Builder("slurm", "slurm")
    importer.read(InputFile(f"sacct --jobs={jobs}", lambda: io.BytesIO(text)), build)
    build.files = 1
    importer.finish(build)
    build.meta["input"] = {"files": [f"sacct --jobs={jobs}"]}
    return build.build(utc_offset_s=utc_offset_s)


# -- running sacct ---------------------------------------------------------------------------------


def _fetch(query: Query, lacking: str = "there is no sacct on this machine") -> bytes:
    query.options()  # what is wrong in it is said before anything runs
    program = shutil.which("sacct")
    if program is None:
        raise TraceNotFound(
            lacking,
            hint="rotameter collect slurm --print shows the command to run where there is one",
        )
    known = _run([program, "--helpformat"]).decode("utf-8", "replace").split()
    argv = command(query, known)
    return _run([program, *argv[1:]])


def _run(argv: Sequence[str]) -> bytes:
    # Variables with which users set their own columns or units would change what comes back.
    changed = ("SACCT_", "SLURM_TIME_FORMAT")
    environment = {k: v for k, v in os.environ.items() if not k.startswith(changed)}
    environment["SLURM_TIME_FORMAT"] = TIME_FORMAT
    try:
        ran = subprocess.run(
            list(argv),
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_SECONDS_LIMIT,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise SacctFailed(
            f"sacct gave no answer in {_SECONDS_LIMIT // 60} minutes", hint="ask for fewer jobs"
        ) from None
    except OSError as error:
        raise SacctFailed(f"cannot run sacct: {error.strerror}", hint="check sacct") from None
    if ran.returncode:
        said = ran.stderr.decode("utf-8", "replace").strip().split("\n")[0][:300]
        raise SacctFailed(
            f"sacct failed (exit code {ran.returncode}): {said}", hint="see sacct --help"
        )
    return ran.stdout
