"""Parsl's monitoring.db: an SQLite file with the runs of a workflow, their tasks and tries.

The format: ``parsl/monitoring/db_manager.py`` of https://github.com/Parsl/parsl, three generations
(2019 text columns without tries, 2020 typed, 2024 with more columns). Any table may be missing.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from rotameter.adapters.importers._parsl_db import MAGIC, opened
from rotameter.adapters.importers._parsl_runs import Runs
from rotameter.adapters.importers._parsl_tasks import emit_tasks
from rotameter.adapters.importers._parsl_world import emit_world
from rotameter.errors import BadInput, UsageError
from rotameter.units import many

if TYPE_CHECKING:
    from rotameter.adapters.importers.building import Builder
    from rotameter.adapters.importers.inputs import InputFile
    from rotameter.values import Head

__all__ = ["Importer"]

_TABLES = ("workflow", "task", "try", "status", "resource", "node", "block")
_CREATE = re.compile(rb"CREATE TABLE (?:workflow|task|status|resource|try|node|block)\b")
_OURS = (b"workflow_name", b"task_func_name", b"tasks_failed_count", b"task_status_name")
_NO_TASKS = "no task rows: monitoring was not reached or the run ended early"


class Importer:
    """Reads Parsl monitoring databases."""

    name = "parsl"
    engine = "parsl"
    options: frozenset[str] = frozenset({"run"})

    def __init__(self) -> None:
        self._runs: set[str] = set()

    def sniff(self, head: Head) -> float:
        """Look for an SQLite file that defines Parsl's tables."""
        if not head.data.startswith(MAGIC):
            return 0.0
        found = len(set(_CREATE.findall(head.data)))
        marks = sum(word in head.data for word in _OURS)
        if marks and found >= 2:
            return 0.95
        if marks:
            return 0.7
        return 0.6 if head.name.endswith("monitoring.db") else 0.1

    def read(self, file: InputFile, build: Builder, **options: Any) -> None:
        """Read one database; ``run`` chooses one of its runs, by id or the beginning of it."""
        wanted = options.get("run")
        with opened(file) as database:
            if not any(name in database.tables for name in _TABLES):
                raise BadInput(
                    f"{file.name} has none of Parsl's tables", hint="check that it is Parsl's"
                )
            runs = Runs.of(database, None if wanted is None else str(wanted), build.zone_ns)
            if wanted is not None and not runs.chosen:
                known = ", ".join(list(runs.all)[:5]) or "none"
                raise UsageError(
                    f"no run {str(wanted)[:60]!r} in {file.name}", hint=f"it has {known}"
                )
            again = runs.drop(self._runs)
            self._runs |= runs.chosen.keys()
            if again:
                build.warn(
                    f"{many(again, 'run')} of {file.name} came with a database before: read once"
                )
            counts = {name: database.count(name) for name in _TABLES if name in database.tables}
            tasks = emit_tasks(database, runs, build)
            emit_world(database, runs, build)
        facts = {"rows": counts, "workflows": list(runs.chosen.values())}
        build.meta.setdefault("databases", []).append(facts)
        if not tasks and not again:
            build.warn(_NO_TASKS)
        build.local = build.local or not runs.clock.epoch
        _say(runs, build)

    def finish(self, build: Builder) -> None:
        """Say what the database cannot tell."""
        build.not_measured("requests: Parsl's monitoring does not have them")
        build.not_measured("CPU and memory between two readings of the monitor (30 s by default)")


def _say(runs: Runs, build: Builder) -> None:
    if runs.clock.unreadable:
        build.warn(f"left out: {many(runs.clock.unreadable, 'time')} that cannot be read")
    if runs.clock.lost:
        build.warn(f"left out: {many(runs.clock.lost, 'time')} without a known zone")
