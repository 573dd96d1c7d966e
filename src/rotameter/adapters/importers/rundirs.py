"""Whether a folder is worth reading: a large one that holds no known file is refused early."""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path

from rotameter.adapters.importers import reading
from rotameter.adapters.importers.inputs import InputFile, open_members
from rotameter.adapters.importers.walking import Unread, entries
from rotameter.errors import InputError, RotameterError, UnknownFormat, UsageError
from rotameter.units import many

__all__ = ["check_folder"]

SMALL_FILES = 200
"""A folder of so many files is read as it is: that is a matter of seconds."""
MOST_ENTRIES = 20_000
MOST_SECONDS = 5.0
"""So many files, or as long, are looked at before a folder without a known file is given up."""
_SURE_FILES = 20
_MEMBERS = 3


def check_folder(
    folder: Path,
    progress: Callable[[int, int], None] | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Refuse a large folder in which no importer knows anything, or that is a mixture.

    Files are looked at by kind in turn (suffixes), those near the top first.

    Parameters
    ----------
    folder : path
    progress : callable, optional
        Called as ``progress(files_done, files)``.
    clock : callable
        Gives seconds.

    Raises
    ------
    UnknownFormat
        If nothing of what was looked at is known.
    UsageError
        If the files looked at are of several formats.
    """
    files = list(_below(folder, MOST_ENTRIES))
    if len(files) <= SMALL_FILES:
        return
    end, known = clock() + MOST_SECONDS, reading.formats()
    kinds: set[str] = set()
    hits = looked = 0
    for path in _in_turn(files):
        # A folder of one kind only need not be looked through twice.
        if clock() >= end or (hits >= _SURE_FILES and 2 * hits > looked and len(kinds) == 1):
            break
        if progress is not None:
            progress(looked, len(files))
        looked += 1
        found = {name for file in _members(path) if (name := _kind(file, known)) is not None}
        hits += bool(found)
        kinds |= found
    else:
        if len(files) < MOST_ENTRIES:  # All of it was looked at: read() says what is wrong, if any.
            return
    least = "at least " if len(files) >= MOST_ENTRIES else ""
    size = f"{folder} holds {least}{many(len(files), 'file')}"
    if not kinds:
        raise UnknownFormat(
            f"{size}, and no importer knows any of the {looked:,} that were looked at",
            hint="name the files or a smaller folder; --format NAME says what all of them are",
        )
    if len(kinds) > 1:
        raise UsageError(
            f"{size}, of several formats: {', '.join(sorted(kinds))}",
            hint="name the files or a smaller folder, or one format with --format",
        )


def _below(folder: Path, most: int) -> Iterator[Path]:
    """Give at most so many files, those near the top first; nothing hidden, no linked folders."""
    waiting, left = deque([str(folder)]), most
    unread = Unread()  # said when all of it is read
    while waiting and left > 0:
        for entry in entries(waiting.popleft(), unread):
            if entry.name.startswith("."):
                continue
            with contextlib.suppress(OSError):
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
                elif entry.is_file():
                    left -= 1
                    yield Path(entry.path)
                    if left <= 0:
                        return


def _in_turn(files: list[Path]) -> Iterator[Path]:
    """Give the first of each suffix, then the second of each, and so on."""
    kinds: dict[str, deque[Path]] = {}
    for path in files:
        kinds.setdefault(path.suffix.lower(), deque()).append(path)
    turns = deque(kinds.values())
    while turns:
        turn = turns.popleft()
        yield turn.popleft()
        if turn:
            turns.append(turn)


def _members(path: Path) -> list[InputFile]:
    try:
        return open_members(path)[:_MEMBERS]
    except InputError:  # read() says what is wrong with it
        return []


def _kind(file: InputFile, known: dict[str, object]) -> str | None:
    try:
        guesses = reading.sniff(file, known)
    except RotameterError:
        return None
    return guesses[0][1] if guesses and guesses[0][0] >= reading.SURE else None
