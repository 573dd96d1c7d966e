"""``rm.dask.allocate``: let a running cluster size its tasks' memory and obey."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rotameter.adapters.dask import _compat
from rotameter.adapters.dask.gate import Gate
from rotameter.adapters.dask.gate_state import read_state, write_state
from rotameter.adapters.dask.gate_worker import TOPIC, GateWorker
from rotameter.errors import AttachError, TracerWarning, UsageError, no_folder
from rotameter.profiler.live.faults import warn_once
from rotameter.profiler.live.redact import first_line
from rotameter.units import bare_number, parse_bytes

__all__ = ["Allocating", "allocate", "amounts"]

LEAST_BYTES = 1e6
"""A number without a unit below it was hardly meant as bytes."""

SAVE_S = 4.0
"""What was learnt is kept this often."""

LEAVE_S = 5.0
"""How long a client that closes waits for its scheduler."""


class Allocating:
    """A cluster whose gate is in place.

    Attributes
    ----------
    client : distributed.Client
    """

    def __init__(self, client: Any, state: str | os.PathLike[str] | None) -> None:
        self.client, self._state = client, state
        self._over = threading.Event()
        self._saver: threading.Thread | None = None
        _compat.call_before_close(client, self._leave)
        if state is not None:
            self._saver = threading.Thread(
                target=self._save_often, name="rotameter-allocate", daemon=True
            )
            self._saver.start()

    def _save_often(self) -> None:
        while not self._over.wait(SAVE_S):
            with contextlib.suppress(Exception):  # The cluster may be gone: close() will say so.
                self.save()

    def facts(self) -> dict[str, Any]:
        """Give counts, how many tasks wait, the groups that are gated, deaths of memory."""
        made: dict[str, Any] = self.client.run_on_scheduler(_facts)
        return made

    def explain(self, group: str) -> str:
        """Say in plain words why a group's tasks get what they get."""
        return str(self.client.run_on_scheduler(_explain, group=group))

    def save(self) -> None:
        """Keep what was learnt, in the file that was named.

        Raises
        ------
        OSError
            If it cannot be written.
        """
        if self._state is not None:
            self._keep(self.client.run_on_scheduler(_learnt))

    def _keep(self, learnt: dict[str, Any] | None) -> None:
        if self._state is not None and learnt is not None:
            write_state(self._state, learnt)

    def close(self) -> None:
        """Keep what was learnt and take the gate away; what waits is Dask's again.

        Nothing is raised: where the cluster is gone, or the file cannot be written, there is a
        warning. A client that closes does the same.
        """
        if self._over.is_set():
            return
        self._over.set()
        if self._saver is not None:
            self._saver.join()
        for step in (self.save, *map(self._with_client, _STEPS)):
            try:
                step()
            except Exception as error:
                _warn(error)

    def _with_client(self, step: Callable[[Any], Any]) -> Callable[[], Any]:
        return lambda: step(self.client)

    async def _leave(self) -> None:
        """Do as :meth:`close`, in the event loop of a client that closes."""
        if self._over.is_set():
            return
        self._over.set()
        try:
            async with asyncio.timeout(LEAVE_S):  # The scheduler may be gone already.
                self._keep(await self.client.run_on_scheduler(_learnt))
                for step in _STEPS:
                    await step(self.client)
        except Exception as error:
            _warn(error)

    def __enter__(self) -> Allocating:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


_STEPS: tuple[Callable[[Any], Any], ...] = (
    lambda client: client.run_on_scheduler(_let_go),
    lambda client: client.unregister_scheduler_plugin(TOPIC),
    lambda client: client.unregister_worker_plugin(TOPIC),
)
"""How a gate is taken away; each gives something to await in a client's event loop."""


def _warn(error: Exception) -> None:
    warn_once(f"sizing did not end in an orderly way: {first_line(error)}", stacklevel=4)


def _gate(dask_scheduler: Any) -> Any:
    return dask_scheduler.plugins.get(TOPIC)


def _is_there(dask_scheduler: Any = None) -> bool:
    """Tell of a gate that somebody answers for; one that was left behind is ended."""
    gate = _gate(dask_scheduler)
    if gate is None:
        return False
    if gate.owner is None or gate.owner in dask_scheduler.clients:
        return True
    gate.let_go()
    return False


def _let_go(dask_scheduler: Any = None) -> None:
    gate = _gate(dask_scheduler)
    if gate is not None:
        gate.let_go()


def _facts(dask_scheduler: Any = None) -> dict[str, Any]:
    gate = _gate(dask_scheduler)
    return gate.facts() if gate is not None else {}


def _learnt(dask_scheduler: Any = None) -> dict[str, Any] | None:
    gate = _gate(dask_scheduler)
    return gate.learnt() if gate is not None else None


def _explain(group: str, dask_scheduler: Any = None) -> str:
    gate = _gate(dask_scheduler)
    return gate.explain(group) if gate is not None else "no allocator is in place"


def _check(client: Any) -> None:
    """See that the plug-ins can be loaded: a worker that cannot would stop."""
    wanted = "import rotameter.adapters.dask.gate, rotameter.adapters.dask.gate_worker"
    try:
        client.run_on_scheduler(exec, wanted)
        client.run(exec, wanted)
    except ImportError as error:
        raise AttachError(
            f"the cluster cannot size its tasks: {error}",
            hint="install rotameter where the scheduler and the workers run",
        ) from error


def amounts(given: Mapping[str, float | str] | None) -> dict[str, float]:
    """Give what the user set for groups, in bytes.

    Raises
    ------
    UsageError
        If an amount is none.

    Examples
    --------
    >>> amounts({"train": "2 GB", "load": 10_000_000})
    {'train': 2000000000.0, 'load': 10000000.0}
    """
    if given is not None and not isinstance(given, Mapping):
        raise UsageError(
            f"memory: {str(given)[:60]!r} is no mapping", hint='such as {"train": "2 GB"}'
        )
    made = {}
    for group, amount in (given or {}).items():
        try:
            if isinstance(amount, bool):
                raise ValueError(f"not a number of bytes: {amount!r}")
            made[str(group)] = float(parse_bytes(amount))
            if not made[str(group)]:
                raise ValueError("no memory at all")
            number = bare_number(amount) if isinstance(amount, str) else amount
            if number is not None and number < LEAST_BYTES:
                raise ValueError(f"without a unit that is {number:g} bytes")
        except (ValueError, TypeError, AttributeError) as error:
            raise UsageError(
                f"memory of {group!r}: {error}", hint='give bytes, or text such as "2 GB"'
            ) from None
    return made


def allocate(
    client: Any,
    *,
    memory: Mapping[str, float | str] | None = None,
    state: str | os.PathLike[str] | None = None,
    observe: bool = False,
) -> Allocating:
    """Let a cluster run together only what fits, and give more to what ran out of memory.

    Parameters
    ----------
    client : distributed.Client
        Of a cluster on whose scheduler and workers rotameter is installed.
    memory : mapping of str to float or str, optional
        What the tasks of a group need (bytes, or text such as ``"2 GB"``): given as it is, until
        one runs out of it.
    state : path, optional
        A file of what earlier runs taught; read if it is there, and written at the end.
    observe : bool
        Measure and learn only: nothing is held or sent anywhere else.

    Returns
    -------
    Allocating
        A context manager; leaving it keeps what was learnt and takes the gate away.

    Raises
    ------
    AttachError
        If rotameter cannot be imported where the scheduler or a worker runs, or the cluster sizes
        its tasks already.
    UsageError
        If an amount of memory is none, the client is asynchronous, or the state's folder is not
        there.
    """
    import dask

    asked = amounts(memory)
    if client.asynchronous:
        raise UsageError(
            "an asynchronous client cannot size tasks",
            hint="use a second, synchronous Client of the same scheduler",
        )
    if state is not None and not Path(state).absolute().parent.is_dir():
        raise no_folder(Path(state).absolute().parent)
    if dask.config.get("distributed.scheduler.no-workers-timeout"):
        warnings.warn(
            "tasks that wait for memory count as waiting for a worker: those that wait longer than "
            "distributed.scheduler.no-workers-timeout will fail",
            TracerWarning,
            stacklevel=2,
        )
    _check(client)
    left_behind = client.run_on_scheduler(_learnt)
    if client.run_on_scheduler(_is_there):
        raise AttachError(
            "this cluster sizes its tasks already", hint="close what `allocate` gave before"
        )
    if left_behind is not None:
        client.unregister_scheduler_plugin(TOPIC)
        client.unregister_worker_plugin(TOPIC)
    known = read_state(state) or left_behind
    client.register_plugin(Gate(known, asked, owner=client.id, observe=observe))
    client.register_plugin(GateWorker(watching=observe))
    return Allocating(client, state)
