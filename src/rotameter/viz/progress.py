"""How far the making of a report is: one line on a terminal, nothing anywhere else."""

from __future__ import annotations

import sys
import time
from typing import TextIO

__all__ = ["Progress"]

_AFTER_S = 0.4
_CELLS = 24


class Progress:
    """A bar on stderr that appears when the work takes long and leaves no trace.

    Parameters
    ----------
    steps : int
    stream : text stream, optional
        Where to; by default stderr. Nothing is written to what is no terminal.

    Examples
    --------
    >>> with Progress(2) as bar:
    ...     bar.step("reading")
    """

    def __init__(self, steps: int, stream: TextIO | None = None) -> None:
        self.steps, self.at = max(steps, 1), 0
        self.stream = sys.stderr if stream is None else stream
        self.began = time.monotonic()
        self.shown = False
        try:
            self.on = bool(self.stream.isatty())
        except (AttributeError, ValueError):
            self.on = False  # closed, or no real stream

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        if self.shown:
            self._write("\r\x1b[K")

    def step(self, what: str) -> None:
        """Say what begins now; one of the steps."""
        self.at = min(self.at + 1, self.steps)
        if not self.on or time.monotonic() - self.began < _AFTER_S:
            return
        done = (self.at - 1) * _CELLS // self.steps
        self.shown = True
        self._write(f"\r\x1b[K[{'#' * done}{'.' * (_CELLS - done)}] report: {what}")

    def _write(self, text: str) -> None:
        try:
            self.stream.write(text)
            self.stream.flush()
        except (OSError, ValueError):
            self.on = self.shown = False  # a bar is never worth a failed report
