"""The tracer's own failures: counted, recorded, warned of once, never raised."""

from __future__ import annotations

import contextlib
import time
import warnings
from typing import Any

from rotameter.errors import TracerWarning
from rotameter.profiler.live.redact import first_line

__all__ = ["Faults", "warn_once"]

_RECORDED_LIMIT = 20


def warn_once(text: str, *, stacklevel: int = 2) -> None:
    """Issue a :class:`TracerWarning`; where warnings are errors, it is not raised.

    Examples
    --------
    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error")
    ...     warn_once("the disk is full")
    """
    with contextlib.suppress(Warning):
        warnings.warn(text, TracerWarning, stacklevel=stacklevel + 1)


class Faults:
    """Count failures of one session.

    Parameters
    ----------
    recorder : Recorder
        Gets a ``hook_error`` event for each of the first twenty.
    worker : str, optional
    """

    def __init__(self, recorder: Any, worker: str | None) -> None:
        self.count = 0
        self.first: str | None = None
        self._untold: str | None = ""
        self._recorder = recorder
        self._worker = worker

    def note(self, where: str, error: BaseException) -> None:
        """Take note of one failure."""
        self.count += 1
        with contextlib.suppress(Exception):
            text = first_line(error)
            self.first = self.first or text
            if self._untold is not None:
                self._untold = f"{where}: {text}"
                self.tell()
            if self.count <= _RECORDED_LIMIT:
                columns = ("at_ns", "kind", "worker", "text", "reason")
                row = (time.time_ns(), "hook_error", self._worker, where, text)
                self._recorder.channel("events", columns).add(row)

    def hush(self) -> None:
        """Warn of nothing: what is counted here is told of elsewhere."""
        self._untold = None

    def tell(self) -> None:
        """Warn, if there were failures and no warning yet (deep in a recursion it may fail)."""
        if self.count and self._untold is not None:
            what = self._untold or "no room to say why"
            warn_once(f"rotameter could not measure a task ({what}); it runs on", stacklevel=3)
            self._untold = None
