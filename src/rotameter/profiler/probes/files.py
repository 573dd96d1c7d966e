"""Files read and written through Python's ``open``, with the bytes of each."""

from __future__ import annotations

from typing import Any

from rotameter.profiler.live import fileio

__all__ = ["Probe"]


class Probe:
    """Bytes and calls in counted files from start to stop.

    Files are counted while a trace is open (:mod:`rotameter.profiler.live.fileio`); the readings
    become rows of ``flows``, hence there are none for the ``tasks`` table but a sum.

    Examples
    --------
    >>> probe = Probe()
    >>> probe.stop(probe.start(None))
    {'counted_file_bytes': None}
    """

    columns = ()

    def start(self, context: Any) -> Any:
        """Begin; ``context`` is the attempt."""
        return context, self._sum(context)

    @staticmethod
    def _sum(context: Any) -> int:
        files = getattr(context, "files", None) or {}
        return sum(entry[0] for entry in list(files.values()))

    def stop(self, token: Any) -> dict[str, Any]:
        """Give the bytes that went through counted files, None where none are counted."""
        context, before = token
        if not fileio.installed():
            return {"counted_file_bytes": None}
        return {"counted_file_bytes": self._sum(context) - before}
