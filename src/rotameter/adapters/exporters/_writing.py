"""What exporters share: which table is meant, and files that are whole or not there."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from rotameter.errors import RotameterError, UsageError
from rotameter.profiler.schema import TABLES

__all__ = ["known_table", "whole_file"]


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
        raise UsageError(f"no folder {target.parent}", hint="make it first, or check the path")
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
