"""The runs of a monitoring.db: several in one file as a rule."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from rotameter.adapters.importers._parsl_db import Database
from rotameter.adapters.importers._parsl_times import Clock
from rotameter.profiler.live.redact import clean_name

__all__ = ["Runs", "Size", "named", "number", "plain", "sizes", "task_prefixes", "whole"]

Size = tuple[bool, int, int]
"""Whether a run has ended, how many rows tell of it, how many of its tasks have returned."""

_SHORT = 8


def plain(value: Any) -> str | None:
    """Give a text of the database; NULL, '' and 'None' are none.

    Examples
    --------
    >>> plain("None"), plain(None), plain(3), plain("a")
    (None, None, '3', 'a')
    """
    if value is None or isinstance(value, (bytes, bytearray)):
        return None
    text = str(value)
    return None if text in ("", "None") else text


def named(value: Any) -> str | None:
    """Give a text of the database that is a name, without secrets, not too long."""
    text = plain(value)
    return None if text is None else clean_name(text)


def number(value: Any) -> float | None:
    """Give a number that is finite and not negative, from a number or its text."""
    if isinstance(value, (bytes, bytearray, type(None))):
        return None
    try:
        read = float(value)
    except (ValueError, OverflowError):
        return None
    return read if 0 <= read < 2**62 else None


def whole(value: Any) -> int | None:
    """Give a whole number from one or its text."""
    read = number(value)
    return int(read) if read is not None and read == int(read) else None


@dataclass
class Runs:
    """Which runs the file has, which are wanted, and how their tasks are called.

    Attributes
    ----------
    all, chosen : dict
        Run id → facts of it.
    users : dict
        Run id → user.
    ended : set
        Ids of the runs that have an end.
    """

    clock: Clock
    all: dict[str, dict[str, Any]] = field(default_factory=dict)
    chosen: dict[str, dict[str, Any]] = field(default_factory=dict)
    users: dict[str, str | None] = field(default_factory=dict)
    ended: set[str] = field(default_factory=set)
    _prefixes: dict[str, str] = field(default_factory=dict)
    _wanted: str | None = None

    @classmethod
    def of(cls, database: Database, wanted: str | None, zone_ns: int | None = None) -> Runs:
        """Read the table of workflows, and the run ids that only other tables know."""
        columns = ("run_id", "workflow_name", "workflow_version", "time_began", "time_completed")
        more = ("user", "tasks_failed_count", "tasks_completed_count")
        rows = list(database.rows("workflow", *columns, *more))
        runs = cls(Clock(((row[4], row[3]) for row in rows), zone_ns), _wanted=wanted)
        for _, run, name, version, began, completed, user, failed, done in rows:
            key = plain(run)
            if key is None:
                continue
            first, last = runs.clock.ns(began), runs.clock.ns(completed)
            runs.all[key] = {
                "run_id": clean_name(key),
                "name": named(name),
                "version": named(version),
                "duration_s": (last - first) / 1e9 if first and last and last >= first else None,
                "completed": last is not None,
                "tasks_failed": whole(failed),
                "tasks_completed": whole(done),
            }
            runs.users[key] = named(user)
            if last is not None:
                runs.ended.add(key)
        for table in ("task", "try", "status", "node", "block"):
            if database.has(table, "run_id"):
                for row in database.query(f'SELECT DISTINCT run_id FROM "{table}"'):
                    key = plain(row[0])
                    if key is not None and key not in runs.all:
                        runs.all[key] = {"run_id": clean_name(key)}
        runs._choose()
        return runs

    def _choose(self) -> None:
        wanted = self._wanted
        if wanted is None:
            self.chosen = dict(self.all)
        else:
            exact = {key: facts for key, facts in self.all.items() if key == wanted}
            begun = {key: facts for key, facts in self.all.items() if key.startswith(wanted)}
            self.chosen = exact or (begun if len(begun) == 1 else {})

    def take(self, wanted: Collection[str], prefixes: Mapping[str, str]) -> None:
        """Leave out all runs but some; ``prefixes`` is what :func:`task_prefixes` gives."""
        self.chosen = {key: facts for key, facts in self.chosen.items() if key in wanted}
        self._prefixes = dict(prefixes)

    def wants(self, run: str | None) -> bool:
        """Say whether rows of this run are to be imported."""
        return run in self.chosen

    def task_id(self, run: str, task: str) -> str:
        """Give the id of a task in the trace: with its run where there are several."""
        prefix = self._prefixes.get(run)
        return clean_name(task if prefix is None else f"{prefix}/{task}")


def task_prefixes(runs: Collection[str]) -> dict[str, str]:
    """Give what stands before the tasks of each run: nothing where there is one run only.

    Examples
    --------
    >>> task_prefixes(["aaaaaaaa-1"]), task_prefixes(["aaaaaaaa-1", "bbbbbbbb-1"])
    ({}, {'aaaaaaaa-1': 'aaaaaaaa', 'bbbbbbbb-1': 'bbbbbbbb'})
    """
    if len(runs) < 2:
        return {}
    short = {key: key[:_SHORT] for key in runs}
    return short if len(set(short.values())) == len(short) else {key: key for key in runs}


def sizes(database: Database, runs: Runs) -> dict[str, Size]:
    """Say how much a database says of each chosen run: of two, the larger was made later.

    Rows are added to a database, and completed, but never taken out.
    """
    rows: Counter[str] = Counter()
    for table in ("task", "try", "status", "resource", "node", "block"):
        if database.has(table, "run_id"):
            query = f'SELECT run_id, count(*) FROM "{table}" GROUP BY run_id'
            rows.update({key: n for run, n in database.query(query) if (key := plain(run))})
    done: Counter[str] = Counter()
    if database.has("task", "run_id", "task_time_returned"):
        query = (
            "SELECT run_id, count(nullif(nullif(task_time_returned, ''), 'None')) "
            'FROM "task" GROUP BY run_id'
        )
        done.update({key: n for run, n in database.query(query) if (key := plain(run))})
    return {key: (key in runs.ended, rows[key], done[key]) for key in runs.chosen}
