"""How tasks ended whose end Nextflow did not see: a work folder's ``.exitcode`` is written then."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rotameter.adapters.importers._nextflow_rows import KILLED, Attempt, settle
from rotameter.adapters.importers.walking import Unread, is_folder
from rotameter.adapters.joining import _nextflow_work
from rotameter.units import many

if TYPE_CHECKING:
    from rotameter.adapters.importers.building import Builder
    from rotameter.adapters.joining._nextflow_log import Task

__all__ = ["place_of", "places", "with_exits"]

_PLACES = 8
_SIGNALLED = 128


def places(work: Path | None, workdirs: Iterable[str | None], unread: Unread) -> list[Path]:
    """Give the folders that hold work folders: the run's own, and those that records name."""
    found = [work] if work else []
    seen = set(found)
    for workdir in workdirs:
        place = Path(workdir).parent.parent if workdir else None
        if place is None or place in seen or len(found) >= _PLACES:
            continue
        seen.add(place)
        if is_folder(place, unread):
            found.append(place)
    return found


def place_of(made: Attempt, where: Sequence[Path], unread: Unread) -> Path | None:
    """Find an attempt's work folder."""
    found = (_nextflow_work.find(place, made.hash, unread) for place in where)
    return next((task for task in found if task), None)


def with_exits(
    attempts: Iterable[Attempt],
    tasks: Mapping[str, Task],
    where: Sequence[Path],
    unread: Unread,
    build: Builder,
) -> None:
    """Say how attempts ended that were running for all that traces and logs tell.

    What a run that ended by itself left behind it stopped: there a signal is its own.
    """
    count = killed = 0
    for made in attempts:
        task = tasks.get(made.hash or "")
        stopped = made.row["outcome"] == "cancelled" and task is not None and task.status is None
        if made.row["outcome"] != "running" and not stopped:
            continue
        folder = place_of(made, where, unread)
        code = _nextflow_work.exit_code(folder) if folder is not None else None
        if code is None or (stopped and code > _SIGNALLED):
            continue
        settle(made, code)
        count += 1
        killed += made.row["outcome"] == "oom"
    if count:
        build.note(
            f"how {many(count, 'task')} ended is taken from the exit code in the work folder: "
            "Nextflow did not see it"
        )
    if killed:
        build.note(f"{KILLED}: {many(killed, 'attempt')} whose end Nextflow did not see")
