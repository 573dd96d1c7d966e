"""The line of the user's own code that has something computed, found from the stack."""

from __future__ import annotations

import linecache
import os
from typing import Any

from rotameter.profiler.live.code_line import code_line

__all__ = ["Sites"]

_ENGINE = ("dask", "distributed", "rotameter", "tlz", "toolz", "cytoolz", "tornado")
_STDLIB = os.path.dirname(os.__file__)
_SITES = 1_000


def _user_frame(frame: Any) -> Any:
    """Give the innermost frame of the user's own code, else of a library that uses Dask."""
    library = None
    while frame is not None:
        name = str(frame.f_globals.get("__name__", ""))
        if name.partition(".")[0] not in _ENGINE:
            path = frame.f_code.co_filename
            inside = "site-packages" in path or "dist-packages" in path
            if not inside and not path.startswith((_STDLIB, "<frozen")):
                return frame
            library = library or (frame if inside else None)
        frame = frame.f_back
    return library


class Sites:
    """Finds call sites in a few microseconds each; the text of a line is worked out once.

    Examples
    --------
    >>> import sys
    >>> file, line, text = Sites().of(sys._getframe())
    >>> line > 0
    True
    """

    def __init__(self) -> None:
        self._said: dict[tuple[str, int, str], str] = {}

    def of(self, frame: Any) -> tuple[str, int, str] | None:
        """Give file, line and the line's text without its strings.

        Parameters
        ----------
        frame : frame
            Where the search begins; it goes outwards to the user's code.

        Returns
        -------
        tuple of (str, int, str), or None
            None where there is no such code.
        """
        frame = _user_frame(frame)
        if frame is None:
            return None
        name, line = frame.f_code.co_filename, frame.f_lineno
        mark = (name, line, linecache.getline(name, line, frame.f_globals))
        text = self._said.get(mark)
        if text is None:
            first = frame.f_code.co_firstlineno - 1
            text = code_line(linecache.getlines(name, frame.f_globals), line - 1, first)
            if len(self._said) < _SITES:
                self._said[mark] = text
        return name, line, text
