"""What exporters share: which table is meant, and files that are whole or not there."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from rotameter.errors import RotameterError, UsageError, no_folder
from rotameter.profiler.schema import TABLES

__all__ = ["Written", "known_table", "whole_file"]


@dataclass(frozen=True)
class Written:
    """What an exporter wrote: how many of how many, and why it left out the others.

    An exporter may keep one as its ``written`` after :meth:`write`; ``rotameter convert`` tells it.

    Examples
    --------
    >>> print(Written(1, 3, {"have no known duration": 2, "did not end well": 0}))
    1 of 3 attempts; 2 have no known duration
    >>> print(Written(3, 3))
    3 attempts
    """

    count: int
    of: int
    left: dict[str, int] = field(default_factory=dict)
    what: str = "attempts"

    def __str__(self) -> str:
        some = "" if self.count == self.of else f" of {self.of:,}"
        return "; ".join([f"{self.count:,}{some} {self.what}", *self.reasons()])

    def reasons(self) -> list[str]:
        """Give how many were left out for which reason."""
        return [f"{count:,} {why}" for why, count in self.left.items() if count]


def known_table(name: str) -> str:
    """Give a table's name back, if the schema has it.

    Raises
    ------
    UsageError
        If it has not.

    Examples
    --------
    >>> known_table("tasks")
    'tasks'
    """
    if name not in TABLES:
        raise UsageError(f"a trace has no table {name!r}", hint=f"tables: {', '.join(TABLES)}")
    return name


@contextlib.contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Lend a name beside the target; the target appears when all went well.

    Raises
    ------
    UsageError
        If the target's folder is not there.
    RotameterError
        If the file cannot be written.
    """
    target = Path(path)
    if not target.parent.is_dir():
        raise no_folder(target.parent)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        yield temporary
        os.replace(temporary, target)
    except OSError as error:
        raise RotameterError(
            f"cannot write {target}: {error.strerror or error}", hint="choose another place"
        ) from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
