"""The client's side: attach to a cluster, receive its records, let go of it again."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Callable
from typing import Any

from rotameter.adapters.dask import _compat, leave, registration
from rotameter.adapters.dask.drain import drain
from rotameter.adapters.dask.inboxes import close_inbox, open_inbox
from rotameter.adapters.dask.names import (
    ACK_OP,
    END_OP,
    FINISH_OP,
    HUB_OP,
    PLUGIN,
    RECORDS_OP,
    host_name,
    origin_of,
)
from rotameter.adapters.dask.ship import ShippedNanny, ShippedScheduler, ShippedWorker
from rotameter.adapters.dask.tally import Tally
from rotameter.adapters.dask.watch import Watch
from rotameter.errors import AttachError
from rotameter.profiler.live.context import hook
from rotameter.profiler.live.faults import warn_once
from rotameter.profiler.live.redact import first_line
from rotameter.profiler.live.segment import encode_frame

__all__ = ["Attachment", "attach", "attach_async", "attachment_of", "finish_all"]

REGISTER_TIMEOUT_S = 30.0

_live: list[Attachment] = []


class Attachment:
    """A client that receives the records of its cluster.

    Parameters
    ----------
    client : distributed.Client
        The client.
    folder : str
        The trace's folder; records go to ``folder/segments``.

    Attributes
    ----------
    active : bool
        False where somebody else already traces this scheduler.
    reason : str or None
        Why it is not active.
    facts : dict or None
        What :meth:`finish` found, once it has run.
    """

    def __init__(self, client: Any, folder: str) -> None:
        self.client = client
        self.folder = folder
        self.active = False
        self.reason: str | None = None
        self.facts: dict[str, Any] | None = None
        self.holder: str | None = None
        self.scheduler_ended = False
        self._finishing = False
        self._tally = Tally()
        self._undo: Callable[[], None] | None = None
        self._lost = False
        self._watch = Watch(client, self._now_lost)
        self._inbox = open_inbox(folder)

    @property
    def trace(self) -> str:
        """Mark of the trace, which all its messages carry."""
        return self._inbox.trace

    # ------------------------------------------------------------------ begin

    async def _begin(self, config: dict[str, Any]) -> None:
        client = self.client
        handlers = _compat.client_handlers(client)
        if handlers is None:
            raise AttachError("this version of distributed has no stream handlers in its client")
        handlers[RECORDS_OP] = self._receive
        handlers[END_OP] = self._ended
        async with asyncio.timeout(REGISTER_TIMEOUT_S):
            answer = await self._attach(config)
            if not answer.get("ok"):
                self.reason, self.holder = str(answer.get("reason")), answer.get("holder")
                return
            config = {**config, "prefix": answer.get("prefix")}
            self.active = True
            self._undo = _compat.note_call_sites(client, self._failed)
            _compat.call_before_close(client, self.finish_async)
            self._watch.start()
            await self._register_workers(config)

    async def _attach(self, config: dict[str, Any]) -> dict[str, Any]:
        """Register on the scheduler; the trace of a client that died is ended first."""
        while True:
            plugin = ShippedScheduler(PLUGIN, config)
            await registration.register_scheduler(self.client, plugin, PLUGIN)
            answer = await self._call(HUB_OP, action="attach")
            if not answer.get("orphan"):
                return answer
            await self._call(HUB_OP, action="evict")
            await asyncio.sleep(0.1)

    async def _register_workers(self, config: dict[str, Any]) -> None:
        """Register on workers and nannies; a failed try is withdrawn before the next."""
        worker, nanny = ShippedWorker(PLUGIN, config), ShippedNanny(PLUGIN, config)
        for last in (False, True):
            try:
                await registration.register_worker(self.client, worker, PLUGIN)
                break
            except Exception as error:
                # A worker that left during the call; those that come later must still get it.
                with contextlib.suppress(Exception):
                    await registration.unregister_worker(self.client, PLUGIN)
                if last:
                    text = first_line(error)
                    warn_once(f"rotameter could not register on all workers: {text}")
        try:
            await registration.register_nanny(self.client, nanny, PLUGIN)
        except Exception:
            with contextlib.suppress(Exception):
                await registration.unregister_nanny(self.client, PLUGIN)

    async def _call(self, op: str, **arguments: Any) -> dict[str, Any]:
        answer = await getattr(self.client.scheduler, op)(client=self.client.id, **arguments)
        if not isinstance(answer, dict):
            raise AttachError(f"the scheduler gave no answer to {op}")
        return answer

    def _receive(
        self, *, n: int, origin: str, seq: int, data: bytes, now: bool = False, **more: Any
    ) -> None:
        if more.get("trace") not in leave.ended:
            self._inbox.receive(self._acknowledge, n, origin, seq, data, now)

    def _acknowledge(self, n: int) -> None:
        message = {"op": ACK_OP, "n": n, "client": self.client.id}
        _compat.send_to_scheduler(self.client, message)

    def _ended(self, *, facts: dict[str, Any], **_: Any) -> None:
        """Take the scheduler's word that it stops, with all that it had sent."""
        self.scheduler_ended = True
        if self.facts is None:
            self.facts = dict(facts)

    # ------------------------------------------------------------------ end

    async def finish_async(self, timeout_s: float = 10.0) -> dict[str, Any]:
        """Do what :meth:`finish` does, in the client's event loop."""
        if self._finishing:
            return self.facts or {}
        self._finishing = True
        facts: dict[str, Any] = {"workers": 0, "batches": 0, "missing": []}
        try:
            if self.active and not self.scheduler_ended:
                facts = await self._finish_active(timeout_s, facts)
            elif self.facts is not None:
                facts = self.facts
        except Exception as error:
            self._failed(error)
            facts["missing"].append(first_line(error))
        finally:
            self._tell_faults(facts)
            self._release()
        facts["missing"] = list(facts.get("missing", ()))
        facts["received"] = self._inbox.batches
        if self._inbox.lost_batches:
            facts["missing"].append(f"{self._inbox.lost_batches} batches that the disk refused")
        self.facts = facts
        return facts

    async def _finish_active(self, timeout_s: float, facts: dict[str, Any]) -> dict[str, Any]:
        heir = self._heir()
        if heir is not None:
            with contextlib.suppress(Exception):
                await self._call(HUB_OP, action="handover", to=heir.client.id)
                heir.active, heir.reason = True, None
                heir._undo = _compat.note_call_sites(heir.client, heir._failed)
                _compat.call_before_close(heir.client, heir.finish_async)
                return facts
        try:
            async with asyncio.timeout(timeout_s + 5.0):
                facts = dict(await self._call(FINISH_OP, timeout_s=timeout_s))
            await self._unregister()
        except (OSError, TimeoutError, AttributeError) as error:
            self._scheduler_lost(error)
            facts["missing"] = [*facts.get("missing", ()), f"the scheduler: {first_line(error)}"]
        return facts

    async def _unregister(self) -> None:
        async with asyncio.timeout(10.0):
            for call in (registration.unregister_worker, registration.unregister_nanny):
                with contextlib.suppress(Exception):
                    await call(self.client, PLUGIN)
            with contextlib.suppress(Exception):
                await self._call(HUB_OP, action="remove")
            with contextlib.suppress(Exception):
                await registration.unregister_scheduler(self.client, PLUGIN)

    def _heir(self) -> Attachment | None:
        """Find another client of this process on the same scheduler and folder."""
        for other in _live:
            if (
                other is not self
                and not other.active
                and other.facts is None
                and other.folder == self.folder
                and other.client.status == "running"
                and registration.scheduler_address(other.client)
                == registration.scheduler_address(self.client)
            ):
                return other
        return None

    def _now_lost(self) -> None:
        if not self.scheduler_ended:  # It said good-bye.
            self._scheduler_lost(ConnectionError("the client has lost its scheduler"))

    def _scheduler_lost(self, error: BaseException) -> None:
        if not self._lost:
            self._lost = True
            self._note("scheduler_lost", first_line(error))

    def _note(self, kind: str, reason: str, text: str | None = None) -> None:
        meta = {"role": "client", "host": host_name(), "pid": os.getpid(), "engine": "dask"}
        row = (time.time_ns(), kind, reason, text)
        frames = encode_frame("meta", ("value",), [(meta,)])
        frames += encode_frame("events", ("at_ns", "kind", "reason", "text"), [row])
        self._inbox.receive(None, 0, origin_of("client"), 0, frames)

    def _failed(self, error: BaseException) -> None:
        self._tally.note("the client", error)

    def _tell_faults(self, facts: dict[str, Any]) -> None:
        """Warn once of the faults of this trace, on all machines, and count them in it."""
        self._tally.word("", facts.get("errors", 0), facts.get("first_error"))
        count, first = self._tally.count, self._tally.first
        facts.update(self._tally.facts())
        if not count:
            return
        times = "" if count == 1 else f", and {count - 1} more"
        warn_once(f"rotameter could not record all of this Dask run: {first}{times}; it runs on")
        with contextlib.suppress(Exception):
            frames = encode_frame("meta", ("value",), [({"faults": count, "first_fault": first},)])
            self._inbox.receive(None, 0, origin_of("client"), 0, frames)

    def _release(self) -> None:
        self._watch.stop()
        if self._undo is not None:
            self._undo()
        handlers = _compat.client_handlers(self.client)
        if handlers is not None:
            leave.retire_streams(self.client, (RECORDS_OP, END_OP), handlers)
        with contextlib.suppress(ValueError):
            _live.remove(self)
        with contextlib.suppress(KeyError):
            close_inbox(self.folder)

    def _finish_without_loop(self) -> list[str]:
        """Take what this process still holds; gives what is missing, in words."""
        loop = _loop_of(self.client)
        if loop is None or loop.is_running():
            self._now_lost()
            return ["what had not arrived when the scheduler was lost"]
        try:
            whole = drain(registration.scheduler_address(self.client), self._inbox, self._tally)
        except Exception as error:
            warn_once(f"rotameter could not take its last records: {first_line(error)}")
            whole = False
        if whole:
            return []
        said = "the program ended without closing its client"
        self._note("not_measured", said, "the last moments of the run")
        return [f"the last moments: {said}"]

    def finish(self, timeout_s: float = 10.0) -> dict[str, Any]:
        """Flush all workers, receive everything, take the plug-ins off.

        Parameters
        ----------
        timeout_s : float
            How long to wait, in seconds, for workers and the scheduler.

        Returns
        -------
        dict
            ``workers``: how many answered; ``batches``: messages forwarded; ``received``: messages
            on disk; ``missing``: what did not arrive, in words.
        """
        if self._finishing:
            return self.facts or {}
        client = self.client
        if client.status == "running" and not client.asynchronous:
            return dict(client.sync(self.finish_async, timeout_s))
        if client.status == "running" and (loop := _loop_elsewhere(client)) is not None:
            future = asyncio.run_coroutine_threadsafe(self.finish_async(timeout_s), loop)
            return dict(future.result(timeout_s + 15.0))
        self._finishing = True
        facts = self.facts or {"workers": 0, "batches": 0, "missing": []}
        if self.active and not self.scheduler_ended:
            facts["missing"] += self._finish_without_loop()
        self._tell_faults(facts)
        self._release()
        facts["received"] = self._inbox.batches
        self.facts = facts
        return facts


def _loop_elsewhere(client: Any) -> asyncio.AbstractEventLoop | None:
    """Give the client's event loop if it runs, in another thread."""
    loop = _loop_of(client)
    if loop is None or not loop.is_running():
        return None
    with contextlib.suppress(RuntimeError):
        if asyncio.get_running_loop() is loop:
            return None
    return loop


def _loop_of(client: Any) -> asyncio.AbstractEventLoop | None:
    try:
        loop: asyncio.AbstractEventLoop = client.loop.asyncio_loop
    except Exception:
        return None
    return loop


def attachment_of(client: Any) -> Attachment | None:
    """Give the live attachment of a client."""
    return next((a for a in _live if a.client is client), None)


async def attach_async(
    client: Any,
    folder: str | os.PathLike[str],
    *,
    level: str | None = None,
    exact_peak: bool | None = None,
    keep_errors: bool = False,
    rows_limit: int | None = None,
    shared: bool = False,
) -> Attachment:
    """Do what :func:`attach` does, in the client's event loop.

    Parameters
    ----------
    client, folder, level, exact_peak, keep_errors, rows_limit
        As in :func:`attach`.
    shared : bool
        Whether a scheduler that is traced already is fine (the preload of a second client).

    Returns
    -------
    Attachment
    """
    known = attachment_of(client)
    if known is not None:
        if shared:
            return known
        raise AttachError("this client is traced already", hint="end its other trace first")
    place = os.path.abspath(os.fspath(folder))
    try:
        attachment = Attachment(client, place)
    except OSError as error:
        raise AttachError(f"cannot write to {place}: {first_line(error)}") from None
    config = {
        "trace": attachment.trace,
        "level": level,
        "exact_peak": exact_peak,
        "keep_errors": keep_errors,
        "rows_limit": rows_limit,
        # This host is sampled by the trace of this process, if there is one.
        "sampled_hosts": [] if hook.active is None else [host_name()],
    }
    try:
        await attachment._begin(config)
    except Exception as error:
        if attachment.active:
            with contextlib.suppress(Exception):
                await attachment._unregister()
        attachment._release()
        raise AttachError(
            f"the cluster could not be traced: {first_line(error)}",
            hint="the run itself is unaffected",
        ) from error
    if not attachment.active and not shared:
        attachment._release()
        raise AttachError(
            f"the cluster is not traced: {attachment.reason}",
            hint="that trace holds the tasks of all clients",
        )
    holder = None if attachment.active else attachment.holder
    if holder is not None and all(other.client.id != holder for other in _live):
        warn_once(f"rotameter does not trace this Dask cluster: {attachment.reason}")
    _live.append(attachment)
    return attachment


def attach(
    client: Any,
    folder: str | os.PathLike[str],
    *,
    level: str | None = None,
    exact_peak: bool | None = None,
    keep_errors: bool = False,
    rows_limit: int | None = None,
) -> Attachment:
    """Trace the cluster of a client into a folder on the client's side.

    Parameters
    ----------
    client : distributed.Client
        A synchronous client; with an asynchronous one, await :func:`attach_async`.
    folder : path
        The trace's folder.
    level : {"time", "default"}, optional
        How much to measure.
    exact_peak : bool, optional
        Reset the kernel's memory peak at each task; by default only in processes that are Dask
        workers and nothing else.
    keep_errors : bool
        Keep whole error messages.
    rows_limit : int, optional
        Rows that a buffer holds before it drops.

    Returns
    -------
    Attachment

    Raises
    ------
    AttachError
        If the cluster cannot be traced; it runs on as before.

    Examples
    --------
    >>> from distributed import Client
    >>> import tempfile
    >>> with Client(n_workers=1, processes=False, dashboard_address=":0") as client:
    ...     attachment = attach(client, tempfile.mkdtemp(suffix=".rmt"))
    ...     total = client.submit(sum, [1, 2]).result()
    ...     facts = attachment.finish()
    >>> total, facts["workers"], facts["missing"]
    (3, 1, [])
    """
    if client.asynchronous:
        raise AttachError(
            "an asynchronous client cannot be attached from here",
            hint="use `async with rm.trace(...)` (or await attach_async(...))",
        )
    attachment: Attachment = client.sync(
        attach_async,
        client,
        folder,
        level=level,
        exact_peak=exact_peak,
        keep_errors=keep_errors,
        rows_limit=rows_limit,
    )
    return attachment


def finish_all(timeout_s: float = 10.0) -> list[dict[str, Any]]:
    """End every live trace of this process; never raises."""
    out = []
    for attachment in _live[:]:
        try:
            out.append(attachment.finish(timeout_s))
        except Exception as error:
            out.append({"workers": 0, "batches": 0, "missing": [first_line(error)]})
    return out
