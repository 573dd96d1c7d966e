"""Records that Grid Engine writes of a parallel job's slave tasks, beside the job's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rotameter.adapters.importers.building import Builder

__all__ = ["Slaves"]

_ALONE = "a record of a slave task of parallel job {job}, of which no record of its own is here"


class Slaves:
    """Holds records of slave tasks against those of their jobs, of all files of one import.

    Examples
    --------
    >>> slaves = Slaves()
    >>> slaves.is_slave({"job_number": "1", "pe_taskid": "1.n2"}, "log", 1)
    True
    >>> slaves.is_slave({"job_number": "1", "pe_taskid": "NONE"}, "log", 2)
    False
    """

    def __init__(self) -> None:
        self._jobs: set[str] = set()
        self._alone: dict[str, list[tuple[str, int]]] = {}
        self._count = 0

    def is_slave(self, record: dict[str, Any], name: str, line: int) -> bool:
        """Say whether a record is of a slave task, and remember it until its job's is seen."""
        job = record.get("job_number", record.get("jobnumber"))
        part = record.get("task_number", record.get("taskid"))
        key = f"{job}.{part if part not in ('undefined', '', None) else 0}"
        if record.get("pe_taskid") in ("NONE", "", None):
            if record.get("granted_pe") != "NONE":
                self._jobs.add(key)
                self._alone.pop(key, None)
            return False
        self._count += 1
        if key not in self._jobs:
            self._alone.setdefault(key, []).append((name, line))
        return True

    def finish(self, build: Builder) -> None:
        """Count them: part of their job's record, or refused where there is none."""
        refused = 0
        for key, records in self._alone.items():
            refused += len(records)
            for name, line in records:
                build.reject(name, line, _ALONE.format(job=key.removesuffix(".0")))
        build.records_in += self._count
        build.merged += self._count - refused
