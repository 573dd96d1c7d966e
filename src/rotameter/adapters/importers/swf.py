"""Standard Workload Format 2.2: logs of batch systems, one job a line.

The format: https://www.cs.huji.ac.il/labs/parallel/workload/swf.html (18 fields, ``;`` comments,
-1 is unknown, times in seconds from the log's start, memory in kilobytes a processor).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from rotameter.adapters.importers.building import Builder
from rotameter.errors import BadInput

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rotameter.adapters.importers.inputs import InputFile
    from rotameter.values import Head

__all__ = ["Importer"]

_FIELDS = 18
_OUTCOMES = {0: "failed", 1: "ok", 5: "cancelled"}
_HEADER = re.compile(r";\s*([A-Za-z]+)\s*:\s*(.+)")
_PARTIAL = (2, 3, 4)


class Importer:
    """Reads SWF logs."""

    name = "swf"
    engine = "swf"
    options: frozenset[str] = frozenset()

    def sniff(self, head: Head) -> float:
        """Look for ``;`` header lines and rows of 18 numbers."""
        lines = [line for line in head.text.split("\n")[:-1] or [head.text] if line.strip()]
        rows = [line.split() for line in lines if not line.lstrip().startswith(";")]
        if not rows:
            known = (b"; Version:", b"MaxJobs", b"UnixStartTime")
            return 0.8 if lines and any(word in head.data for word in known) else 0.0
        good = sum(len(row) == _FIELDS and _numbers(row) is not None for row in rows[:50])
        return 0.9 if good >= 0.8 * len(rows[:50]) else 0.0

    def read(self, file: InputFile, build: Builder, **options: Any) -> None:
        """Read one log."""
        header: dict[str, str] = {}
        rows: list[list[float]] = []
        for number, line in file.lines():
            text = line.strip()
            if not text:
                continue
            if text.startswith(";"):
                match = _HEADER.match(text)
                if match:
                    header.setdefault(match[1], match[2].strip())
                continue
            build.records_in += 1
            values = _numbers(text.split())
            if values is None or len(values) != _FIELDS:
                build.reject(file.name, number, f"not {_FIELDS} numbers")
                continue
            rows.append(values)
        if not rows and not header and not build.records_in:
            raise BadInput(f"{file.name} holds no jobs", hint="check the file")
        build.meta.setdefault("header", {}).update(header)
        if rows:
            self._jobs(np.array(rows), build, header)

    def finish(self, build: Builder) -> None:
        """Say what the format cannot tell."""
        build.not_measured("dependencies and bytes: the format has none")

    def _jobs(self, jobs: NDArray[np.float64], build: Builder, header: dict[str, str]) -> None:
        known = np.where(jobs == -1, np.nan, jobs)
        ids, submit, wait, run, procs, cpu, memory = (known[:, i] for i in range(7))
        wanted, asked_s, asked_memory = (known[:, i] for i in range(7, 10))
        status, user, group, program, queue, partition = (jobs[:, i] for i in range(10, 16))
        start0 = _unix_start(header)
        submitted = submit * 1e9 + start0
        started = submitted + wait * 1e9
        cores = np.where(np.isnan(wanted), procs, wanted)
        partial = int(np.isin(status, _PARTIAL).sum())
        if partial:
            build.warn(f"{partial:,} jobs are parts of jobs that were suspended: outcome unknown")
        if "UnixStartTime" not in header:
            build.local = True
        peak = memory * 1024 * np.where(np.isnan(procs), 1, procs)
        build.extend(
            "tasks",
            {
                "task_id": [str(int(i)) if i == i else f"line-{n}" for n, i in enumerate(ids)],
                "group": _names("program", program),
                "user": _names("user", user),
                "account": _names("group", group),
                "queue": _names("queue", np.where(queue == -1, partition, queue)),
                "submitted_ns": submitted,
                "started_ns": started,
                "ended_ns": started + run * 1e9,
                "wall_s": run,
                "cpu_s": cpu * procs,
                "peak_memory_bytes": peak,
                "peak_memory_kind": ["estimate" if p == p else None for p in peak],
                "requested_cores": wanted,
                "granted_cores": procs,
                "requested_wall_s": asked_s,
                "requested_memory_bytes": asked_memory * 1024 * cores,
                "outcome": [_OUTCOMES.get(int(s), "unknown") for s in status],
                "outcome_kind": ["reported"] * len(jobs),
                "source": ["swf"] * len(jobs),
            },
        )


def _numbers(fields: list[str]) -> list[float] | None:
    try:
        values = [float(field) for field in fields]
    except ValueError:
        return None
    return values if all(abs(value) < 1e15 for value in values) else None


def _unix_start(header: dict[str, str]) -> float:
    try:
        start = int(header.get("UnixStartTime", "0").split()[0])
    except (ValueError, IndexError):
        return 0.0
    return start * 1e9 if 0 <= start < 1 << 33 else 0.0


def _names(word: str, codes: NDArray[np.float64]) -> list[str | None]:
    return [None if code == -1 else f"{word} {int(code)}" for code in codes]
