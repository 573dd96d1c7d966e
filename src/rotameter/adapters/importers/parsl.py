"""Parsl's monitoring.db: an SQLite file with the runs of a workflow, their tasks and tries.

The format: ``parsl/monitoring/db_manager.py`` of https://github.com/Parsl/parsl, three generations
(2019 text columns without tries, 2020 typed, 2024 with more columns). Any table may be missing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rotameter.adapters.importers._parsl_db import MAGIC, Database, opened
from rotameter.adapters.importers._parsl_runs import Runs, Size, sizes, task_prefixes
from rotameter.adapters.importers._parsl_tasks import emit_tasks
from rotameter.adapters.importers._parsl_world import emit_world
from rotameter.errors import BadInput, InputError, UsageError
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


@dataclass(frozen=True)
class _Held:
    """A database that will be read, and what it says of each run that is wanted."""

    file: InputFile
    wanted: str | None
    runs: dict[str, Size]


class Importer:
    """Reads Parsl monitoring databases."""

    name = "parsl"
    engine = "parsl"
    options: frozenset[str] = frozenset({"run"})

    def __init__(self) -> None:
        self._held: list[_Held] = []

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
        """Look at one database; ``run`` chooses one of its runs, by id or the beginning of it."""
        wanted = None if options.get("run") is None else str(options["run"])
        with opened(file) as database:
            if not any(name in database.tables for name in _TABLES):
                raise BadInput(
                    f"{file.name} has none of Parsl's tables",
                    hint="give the monitoring.db that Parsl's MonitoringHub wrote",
                )
            runs = Runs.of(database, wanted, build.zone_ns)
            if wanted is not None and not runs.chosen:
                known = ", ".join(list(runs.all)[:5]) or "none"
                raise UsageError(f"no run {wanted[:60]!r} in {file.name}", hint=f"it has {known}")
            self._held.append(_Held(file, wanted, sizes(database, runs)))

    def finish(self, build: Builder) -> None:
        """Read each run where most is said of it, and say what the databases cannot tell."""
        held, self._held = self._held, []
        of_run, again = _where(held)
        prefixes = task_prefixes(of_run)
        broken: list[InputError] = []
        for number, one in enumerate(held):
            mine = {run for run, at in of_run.items() if at == number}
            if one.runs and not mine:
                continue
            try:
                with opened(one.file) as database:
                    self._emit(database, one, mine, prefixes, build)
            except InputError as error:
                broken.append(error)
        if broken and len(broken) == len(held):
            raise broken[0]
        for trouble in broken:
            build.warn(str(trouble))
        if again:
            build.warn(
                "runs that are in several databases (as one may be a copy made before their end) "
                f"are read once, where most is said of them: {many(again, 'run')}"
            )
        build.not_measured("requests: Parsl's monitoring does not have them")
        build.not_measured("CPU and memory between two readings of the monitor (30 s by default)")

    def _emit(
        self,
        database: Database,
        held: _Held,
        mine: set[str],
        prefixes: dict[str, str],
        build: Builder,
    ) -> None:
        runs = Runs.of(database, held.wanted, build.zone_ns)
        runs.take(mine, prefixes)
        counts = {name: database.count(name) for name in _TABLES if name in database.tables}
        tasks = emit_tasks(database, runs, build)
        emit_world(database, runs, build)
        facts = {"rows": counts, "workflows": list(runs.chosen.values())}
        build.meta.setdefault("databases", []).append(facts)
        if not tasks:
            build.warn(_NO_TASKS)
        build.local = build.local or not runs.clock.epoch
        for text in _unread(runs):
            build.warn(text)


def _where(held: list[_Held]) -> tuple[dict[str, int], int]:
    """Give the database in which each run is read, and how many runs are in several."""
    found: dict[str, int] = {}
    several: set[str] = set()
    for number, one in enumerate(held):
        for run, size in one.runs.items():
            if run not in found:
                found[run] = number
                continue
            several.add(run)
            if size > held[found[run]].runs[run]:
                found[run] = number
    return found, len(several)


def _unread(runs: Runs) -> Iterator[str]:
    if runs.clock.unreadable:
        yield f"left out: {many(runs.clock.unreadable, 'time')} that cannot be read"
    if runs.clock.lost:
        yield f"left out: {many(runs.clock.lost, 'time')} without a known zone"
