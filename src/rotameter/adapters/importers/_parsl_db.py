"""Opening a monitoring.db of others without a trace of it: read-only, nothing left beside it.

A database in WAL mode, or with a journal beside it, would make SQLite write next to the file; such
a one is read from a copy. No view, virtual table or trigger of the file is ever run.
"""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from rotameter.adapters.importers.inputs import spelled
from rotameter.errors import BadInput

if TYPE_CHECKING:
    from rotameter.adapters.importers.inputs import InputFile

__all__ = ["MAGIC", "Database", "opened"]

MAGIC = b"SQLite format 3\x00"
_WAIT_S = 6.0
_TEXT_LIMIT = 50_000_000
_WAL = 2
_STILL = "mode=ro&immutable=1"
_STEPS = 100_000
_QUERY_LIMIT_S = 900.0


@dataclass
class Database:
    """An open database: which of its tables have which columns, and how to read them."""

    name: str
    connection: sqlite3.Connection
    tables: dict[str, list[str]] = field(default_factory=dict)

    def has(self, table: str, *columns: str) -> bool:
        """Say whether a table is there with all of the columns."""
        return table in self.tables and set(columns) <= set(self.tables[table])

    def rows(self, table: str, *columns: str) -> Iterator[tuple[Any, ...]]:
        """Give (rowid, columns …) of a table; a column that it lacks is None."""
        if table not in self.tables:
            return iter(())
        have = self.tables[table]
        wanted = ", ".join(f'"{name}"' if name in have else "NULL" for name in columns)
        return self.query(f'SELECT rowid, {wanted} FROM "{table}" ORDER BY rowid')

    def count(self, table: str) -> int:
        """Count the rows of a table."""
        return int(next(self.query(f'SELECT count(*) FROM "{table}"'))[0])

    def query(self, text: str) -> Iterator[tuple[Any, ...]]:
        """Run a query of ours.

        Raises
        ------
        BadInput
            If the database is locked or damaged.
        """
        try:
            yield from self.connection.execute(text)
        except (sqlite3.Error, OverflowError, ValueError) as error:
            raise _trouble(self.name, error) from None


def _trouble(name: str, error: Exception) -> BadInput:
    words = str(error)
    if "locked" in words or "busy" in words:
        return BadInput(
            f"{name} is locked by another program",
            hint="wait until the run has ended, or import a copy of the file",
        )
    if "interrupted" in words:
        return BadInput(f"{name} takes too long to read", hint="import a part of it")
    return BadInput(f"{name} is a damaged database: {words[:120]}", hint="copy the file again")


@contextlib.contextmanager
def opened(file: InputFile) -> Iterator[Database]:
    """Open the database of an input file.

    Raises
    ------
    BadInput
        If it is none, or locked or damaged.
    """
    if not file.head.startswith(MAGIC):
        raise BadInput(f"{file.name} is no SQLite database", hint="check the file")
    with tempfile.TemporaryDirectory(prefix="rotameter-") as place:
        path, flags = _readable(file, Path(place))
        try:
            connection = sqlite3.connect(
                f"file:{quote(str(path))}?{flags}", uri=True, timeout=_WAIT_S, isolation_level=None
            )
        except sqlite3.Error as error:
            raise _trouble(file.name, error) from None
        with contextlib.closing(connection):
            yield _prepared(file.name, connection)


def _readable(file: InputFile, place: Path) -> tuple[Path, str]:
    """Give a path that can be read without writing beside it, and how to open it."""
    if file.path is None:
        path = place / "unpacked.db"
        with file.open() as source, path.open("wb") as target:
            shutil.copyfileobj(source, target, 1 << 20)
        return path, _STILL
    beside = [file.path.with_name(file.path.name + suffix) for suffix in ("-wal", "-journal")]
    waiting = [one for one in beside if one.exists() and one.stat().st_size]
    if waiting:
        # SQLite folds in what was not finished: in the copy it may.
        return _copied(file, waiting, place), "mode=rw"
    # With no log beside it, a database in WAL mode is whole; opening it plainly makes one.
    wal = _WAL in tuple(file.head[18:20])
    return file.path.absolute(), _STILL if wal else "mode=ro"


def _copied(file: InputFile, waiting: list[Path], place: Path) -> Path:
    """Copy the database and what belongs to it while nobody writes."""
    assert file.path is not None
    target = place / "copy.db"
    deadline = time.monotonic() + _WAIT_S
    try:
        while True:
            before = _state([file.path, *waiting])
            shutil.copyfile(file.path, target)
            for one in waiting:
                end = one.name.removeprefix(file.path.name)
                shutil.copyfile(one, target.with_name(target.name + end))
            if _state([file.path, *waiting]) == before:
                return target
            if time.monotonic() > deadline:
                break
            time.sleep(0.1)
    except OSError as error:
        raise BadInput(f"cannot copy {file.name}: {error.strerror}", hint="check it") from None
    raise BadInput(
        f"{file.name} is being written to all the time",
        hint="wait until the run has ended, or import a copy of the file",
    )


def _state(paths: list[Path]) -> list[tuple[int, int]]:
    return [(one.stat().st_size, one.stat().st_mtime_ns) for one in paths]


def _prepared(name: str, connection: sqlite3.Connection) -> Database:
    started = time.monotonic()
    late = lambda: int(time.monotonic() - started > _QUERY_LIMIT_S)  # noqa: E731
    connection.set_progress_handler(late, _STEPS)
    connection.text_factory = lambda data: spelled(data.decode("utf-8", "surrogateescape"))
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _TEXT_LIMIT)
    try:
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA query_only = ON")
        connection.execute("BEGIN")  # one state of the file for all that follows
        listed = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'")
        plain = [
            str(table)
            for table, sql in listed.fetchall()
            if str(sql or "").lstrip().upper().startswith("CREATE TABLE") and '"' not in str(table)
        ]
        tables = {
            table: [str(row[1]) for row in connection.execute(f'PRAGMA table_info("{table}")')]
            for table in plain
        }
    except (sqlite3.Error, OverflowError, ValueError) as error:
        raise _trouble(name, error) from None
    return Database(name, connection, tables)
