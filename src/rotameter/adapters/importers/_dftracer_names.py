"""Names behind the hashes of a DFTracer file.

Long names are written once, as ``FH`` (files), ``HH`` (hosts) and ``SH`` (other texts) records. In
versions before 2 the hash has 16 bits, so that some hundred files of one process share some: then
the last name written before the event counts, or that of the open file's descriptor.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

__all__ = ["Names", "hash_key"]

Key = str


def hash_key(value: Any) -> Key | None:
    """Give a hash, a number or text, as a key; None where it is none."""
    if isinstance(value, str):
        return value[:64] or None
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 64:
        return str(value)
    return None


class Names:
    """Hash → name, as far as is known at each event.

    Attributes
    ----------
    doubtful : int
        Events whose hash stood for several names with nothing to tell which.
    """

    def __init__(self) -> None:
        self._here: dict[tuple[Hashable, Key], str] = {}
        self._all: dict[Key, dict[str, None]] = {}
        self._shared: set[tuple[Hashable, Key]] = set()
        self._fresh: tuple[Hashable, Key] | None = None
        self.doubtful = 0

    def declare(self, scope: Hashable, key: Key, name: str) -> None:
        """Take in a record that gives a hash its name, in a process (scope)."""
        place = scope, key
        if self._here.get(place, name) != name:
            self._shared.add(place)
        self._here[place] = name
        self._all.setdefault(key, {})[name] = None
        self._fresh = place

    def find(self, scope: Hashable, key: Key, opened: str | None) -> str | None:
        """Give the name behind a hash in an event; None where it is not known yet.

        Parameters
        ----------
        scope : hashable
            The process.
        key : str
            The hash.
        opened : str, optional
            The name under which the event's descriptor was opened.
        """
        place = scope, key
        name = self._here.get(place)
        if self._shared and place in self._shared and self._fresh != place:
            if opened is not None and opened in self._all[key]:
                return opened
            self.doubtful += 1
        self._fresh = None
        return name

    def late(self, key: Key, events: int) -> str | None:
        """Give the name of a hash that was not known when its events came."""
        found = self._all.get(key)
        if not found:
            return None
        if len(found) > 1:
            self.doubtful += events
        return next(reversed(found))

    @property
    def shared(self) -> int:
        """Hashes that stand for several files."""
        return len({key for _, key in self._shared})
