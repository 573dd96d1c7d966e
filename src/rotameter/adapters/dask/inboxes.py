"""The writers of a client process, one a trace's folder, however many clients share it."""

from __future__ import annotations

import threading

from rotameter.adapters.dask import leave
from rotameter.adapters.dask.transport import Inbox
from rotameter.profiler.live.faults import warn_once
from rotameter.profiler.live.redact import first_line

__all__ = ["close_inbox", "open_inbox"]

_inboxes: dict[str, tuple[Inbox, int]] = {}
_lock = threading.Lock()


def open_inbox(folder: str) -> Inbox:
    """Give the writer of a folder; several clients of a process share it."""
    with _lock:
        inbox, users = _inboxes.get(folder, (None, 0))
        if inbox is None:
            inbox = Inbox(folder, _disk_failed)
        _inboxes[folder] = (inbox, users + 1)
        return inbox


def close_inbox(folder: str) -> None:
    """Let go of a folder's writer; the last client of it closes it."""
    with _lock:
        inbox, users = _inboxes[folder]
        if users > 1:
            _inboxes[folder] = (inbox, users - 1)
            return
        del _inboxes[folder]
    leave.ended.append(inbox.trace)
    inbox.close()


def _disk_failed(error: BaseException) -> None:
    warn_once(f"rotameter cannot write the trace, records are lost: {first_line(error)}")
