"""The runs of a monitoring.db: several in one file as a rule."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from rotameter.adapters.importers._parsl_db import Database
from rotameter.adapters.importers._parsl_times import Clock
from rotameter.profiler.live.redact import clean_name

__all__ = ["Runs", "named", "number", "plain", "whole"]

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
    single: bool = False
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
        self.single = len(self.chosen) < 2
        short = {key: key[:_SHORT] for key in self.chosen}
        unique = len(set(short.values())) == len(short)
        self._prefixes = short if unique else {key: key for key in self.chosen}

    def drop(self, known: set[str]) -> int:
        """Leave out runs that another database had; give how many."""
        again = self.chosen.keys() & known
        self.chosen = {key: facts for key, facts in self.chosen.items() if key not in again}
        return len(again)

    def wants(self, run: str | None) -> bool:
        """Say whether rows of this run are to be imported."""
        return run in self.chosen

    def task_id(self, run: str, task: str) -> str:
        """Give the id of a task in the trace: with its run where there are several."""
        return clean_name(task if self.single else f"{self._prefixes[run]}/{task}")
