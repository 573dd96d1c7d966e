"""Snakemake's records of outputs: ``.snakemake/metadata`` and ``.snakemake/incomplete``.

One JSON file for each output, its name the path in URL-safe base64, cut into folders ``@...``
where it is too long: ``snakemake/persistence``. Times are seconds since the epoch; the end is the
time of the output's last change.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

from rotameter.adapters.importers.walking import Unread
from rotameter.adapters.joining.scanning import small_text

__all__ = ["Job", "incomplete", "path_of", "read"]

_LIMIT = 16 << 20
_FILES = 1_000_000
_LATEST_S = 7_258_118_400


@dataclass
class Job:
    """One job, from the records of all of its outputs."""

    rule: str | None
    outputs: list[str]
    inputs: list[str]
    started_ns: int | None = None
    ended_ns: int | None = None
    incomplete: bool = False
    external: str | None = None
    files: int = 1
    logs: list[str] = field(default_factory=list)


def path_of(name: str) -> str | None:
    """Give the output that a record is of, from its name below the folder of records.

    Examples
    --------
    >>> path_of("b3V0L2EudHh0"), path_of("@b3V0L2/EudHh0"), path_of("!")
    ('out/a.txt', 'out/a.txt', None)
    """
    text = "".join(part.removeprefix("@") for part in name.replace("\\", "/").split("/"))
    try:
        data = base64.b64decode(text.encode(), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return None
    return data.decode("utf-8", "replace") or None


def _records(folder: Path, unread: Unread) -> Iterator[tuple[str, Path]]:
    count = 0

    def said(error: OSError) -> None:
        """Note what cannot be looked into, unless it is gone."""
        if not isinstance(error, (FileNotFoundError, NotADirectoryError)):
            unread.add(str(error.filename), error.strerror)

    for place, folders, names in os.walk(folder, onerror=said):
        folders.sort()
        for name in sorted(names):
            count += 1
            if count > _FILES:
                return
            path = Path(place) / name
            yield path.relative_to(folder).as_posix(), path


def read(folder: Path, unread: Unread) -> tuple[list[Job], list[tuple[str, str]]]:
    """Read all records; give the jobs and (file, reason) of records that cannot be read."""
    jobs: dict[Any, Job] = {}
    bad: list[tuple[str, str]] = []
    for name, path in _records(folder, unread):
        output = path_of(name)
        record = _load(path)
        if output is None or record is None:
            bad.append((name[:200], "no record of an output: damaged or of another kind"))
            continue
        job = _job(output, record)
        key = _key(record, job)
        known = jobs.get(key) if key is not None else None
        if known is None:
            jobs[key if key is not None else output] = job
        else:
            _add(known, job)
    return list(jobs.values()), bad


def _load(path: Path) -> dict[str, Any] | None:
    text = small_text(path, _LIMIT)
    try:
        # Times to the last digit: a float would cut nanoseconds.
        record = json.loads(text, parse_float=Decimal) if text is not None else None
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


def _texts(value: Any) -> list[str]:
    return [v for v in value if isinstance(v, str)] if isinstance(value, list) else []


def _time(value: Any) -> int | None:
    if isinstance(value, bool) or not isinstance(value, (int, Decimal)):
        return None
    if not 0 < value < _LATEST_S:
        return None
    return int(value * 10**9)


def _job(output: str, record: dict[str, Any]) -> Job:
    rule, external = record.get("rule"), record.get("external_jobid")
    return Job(
        rule if isinstance(rule, str) else None,
        [output],
        _texts(record.get("input")),
        _time(record.get("starttime")),
        _time(record.get("endtime")),
        record.get("incomplete") is True,
        external if isinstance(external, str) else None,
        1,
        _texts(record.get("log")),
    )


def _key(record: dict[str, Any], job: Job) -> Any:
    """Give what the records of one job's outputs have in common; None if that is not known."""
    if not job.rule:
        return None
    rest = (job.rule, tuple(job.inputs), tuple(job.logs), str(record.get("shellcmd")))
    made = record.get("job_hash")
    if isinstance(made, int):
        return (*rest, made)
    # Before 8: equal only if they began together too.
    start = None if job.started_ns is None else job.started_ns // (2 * 10**9)
    return (*rest, str(record.get("params")), start)


def _add(job: Job, other: Job) -> None:
    job.outputs += other.outputs
    job.files += other.files
    job.incomplete = job.incomplete or other.incomplete
    job.external = job.external or other.external
    starts = [t for t in (job.started_ns, other.started_ns) if t is not None]
    ends = [t for t in (job.ended_ns, other.ended_ns) if t is not None]
    job.started_ns = min(starts, default=None)
    job.ended_ns = max(ends, default=None)


def incomplete(folder: Path, unread: Unread) -> Iterator[tuple[str, str | None]]:
    """Give (output, job id of the batch system) of jobs that have not ended."""
    for name, path in _records(folder, unread):
        output = path_of(name)
        if output is None:
            continue
        record = _load(path) or {}
        external = record.get("external_jobid")
        yield output, external if isinstance(external, str) else None
