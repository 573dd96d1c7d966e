"""``dask.get`` without a cluster: the threaded, synchronous and process schedulers.

Dask's callbacks run in the main thread, before a task is handed out and after its result is back.
So that a task is measured where it runs, its node is replaced by one that measures, just before it
is handed out, and put back afterwards. In a process pool the child joins the trace by itself; what
it could not record, the parent knows roughly (from handing out to result).
"""

from __future__ import annotations

import itertools
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from dask.callbacks import Callback
from dask.utils import key_split

from rotameter.adapters.dask.names import emit, group_of, task_id_of
from rotameter.adapters.dask.sites import Sites
from rotameter.profiler.live.context import hook
from rotameter.profiler.live.session import Session

__all__ = ["Measured", "RotameterCallback"]

_ROW = (
    "task_id",
    "run_id",
    "group",
    "submitted_ns",
    "ready_ns",
    "started_ns",
    "ended_ns",
    "outcome",
    "outcome_kind",
    "source",
)
_PLACES_LIMIT = 2_000
_numbers = itertools.count(1)


def _session() -> Any:
    """Give the session of this process; a child of a traced process joins now."""
    if hook.gate == "join":
        from rotameter.profiler.live.process import join

        join()
    return hook.active


class Measured:
    """A node of a graph that measures the node it stands for.

    Parameters
    ----------
    node : callable
        Dask's node; called with the data of its dependencies.
    task_id, run_id, group : str
        Identity of the attempt.
    times : tuple of int
        (submitted_ns, ready_ns), since the epoch.

    Examples
    --------
    >>> Measured(lambda data: data["x"] + 1, "y", "1", "y", (0, 0))({"x": 1})
    2
    """

    def __init__(
        self, node: Any, task_id: str, run_id: str, group: str, times: tuple[int, int]
    ) -> None:
        self.node = node
        self.identity = (task_id, run_id, group)
        self.times = times

    @property
    def dependencies(self) -> Any:
        """What the node depends on."""
        return self.node.dependencies

    def __call__(self, data: Any) -> Any:
        """Run the node; its result and its error are what they would be without us."""
        session = _session()
        if session is None:
            return self.node(data)
        task_id, run_id, group = self.identity
        running = session.begin(task_id, group, run_id=run_id)
        columns = {
            "submitted_ns": self.times[0],
            "ready_ns": self.times[1],
            "output_bytes": None,
            "source": "worker",
        }
        try:
            result = self.node(data)
        except BaseException as error:
            session.end(running, "ok", error=error, **columns)
            raise
        columns["output_bytes"] = _size(result)
        session.end(running, **columns)
        return result


def _size(result: Any) -> int | None:
    try:
        from dask.sizeof import sizeof

        return int(sizeof(result))
    except Exception:
        return None


class RotameterCallback(Callback):
    """Record every task that Dask's local schedulers run.

    Parameters
    ----------
    session : Session, optional
        The session of this process; by default the one that is open when tasks run.

    Examples
    --------
    >>> import dask
    >>> from rotameter.profiler.live.recorder import CallSink, Recorder
    >>> recorder = Recorder(CallSink(lambda frames: None), {"role": "client"})
    >>> with RotameterCallback(Session(recorder, host="here")):
    ...     dask.delayed(sum)([1, 2]).compute(scheduler="synchronous")
    3
    >>> recorder.close()
    """

    def __init__(self, session: Session | None = None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._given = session
        self._calls: dict[int, _Call] = {}
        self._told = False
        self._sites = Sites()
        self._placed: set[tuple[str, str, int]] = set()

    @property
    def _session(self) -> Any:
        return self._given if self._given is not None else hook.active

    def _start_state(self, dsk: Mapping[Any, Any], state: Mapping[str, Any]) -> None:
        if self._session is None:
            return
        try:
            call = self._calls[id(state)] = _Call(next(_numbers))
            channel = self._session.recorder.channel("deps", ("task_id", "depends_on"))
            for key, dependencies in state["dependencies"].items():
                task_id = task_id_of(key)
                for other in dependencies:
                    if other in dsk:
                        channel.add((task_id, task_id_of(other)))
            self._place(sys._getframe(1), state["dependencies"])
            if not self._told:  # Which of them is told with the first result.
                self._told = True
                self._tell_kind("unknown")
            # Data that came with the graph was there from the beginning.
            call.done = dict.fromkeys(state["cache"], call.submitted_ns)
        except Exception as error:
            self._failed(error)

    def _place(self, frame: Any, keys: Iterable[Any]) -> None:
        """Record the line that computes each group, once."""
        site = self._sites.of(frame)
        if site is None:
            return
        file, line, text = site
        for group, count in Counter(group_of(key_split(key)) for key in keys).items():
            mark = (group, file, line)
            if mark in self._placed or len(self._placed) >= _PLACES_LIMIT:
                continue
            self._placed.add(mark)
            emit(
                self._session.recorder,
                "group_origin",
                time.time_ns(),
                group=group,
                file=os.path.basename(file) if file.startswith("<") else file,
                line=line,
                text=text or None,
                count=count,
            )

    def _pretask(self, key: Any, dsk: Any, state: Mapping[str, Any]) -> None:
        try:
            call = self._calls.get(id(state))
            node = dsk[key]
            if call is None or isinstance(node, Measured):
                return
            dependencies = state["dependencies"].get(key, ())
            ready = max((call.done.get(k, 0) for k in dependencies), default=0)
            times = (call.submitted_ns, ready or call.submitted_ns)
            call.out[key] = (node, time.time_ns(), times)
            identity = (task_id_of(key), call.run_id, group_of(key_split(key)))
            dsk[key] = Measured(node, *identity, times)
        except Exception as error:
            self._failed(error)

    def _posttask(
        self, key: Any, result: Any, dsk: Any, state: Mapping[str, Any], worker_id: Any
    ) -> None:
        try:
            call = self._calls.get(id(state))
            if call is None or key not in call.out:
                return
            node, started_ns, times = call.out.pop(key)
            if isinstance(dsk[key], Measured):
                dsk[key] = node
            now = call.done[key] = time.time_ns()
            if not call.kind:
                call.kind = _kind_of(worker_id)
                self._tell_kind(call.kind)
            if isinstance(worker_id, int) and worker_id != os.getpid():
                self._outside(key, call, started_ns, now, times, "ok")
        except Exception as error:
            self._failed(error)

    def _finish(self, dsk: Any, state: Mapping[str, Any], errored: bool) -> None:
        try:
            call = self._calls.pop(id(state), None)
            for key, (node, _started, _times) in list(call.out.items()) if call else []:
                if isinstance(dsk[key], Measured):
                    dsk[key] = node
        except Exception as error:
            self._failed(error)

    def _tell_kind(self, kind: str) -> None:
        channel = self._session.recorder.channel("meta", ("value",))
        channel.add(({"dask_local": kind},))

    def _failed(self, error: BaseException) -> None:
        session = self._session
        if session is not None:
            session.faults.note("callback", error)

    def _outside(
        self,
        key: Any,
        call: _Call,
        started_ns: int,
        ended_ns: int,
        times: tuple[int, int],
        outcome: str,
    ) -> None:
        """Record what is known here of a task that ran in another process."""
        row = (
            task_id_of(key),
            call.run_id,
            group_of(key_split(key)),
            *times,
            started_ns,
            ended_ns,
            outcome,
            "reported",
            "scheduler",
        )
        self._session.recorder.channel("tasks", _ROW).add(row)


class _Call:
    """One call of ``dask.get``."""

    def __init__(self, number: int) -> None:
        self.run_id = f"{os.getpid()}-{number}"
        self.submitted_ns = time.time_ns()
        self.out: dict[Any, tuple[Any, int, tuple[int, int]]] = {}
        self.done: dict[Any, int] = {}
        self.kind = ""


def _kind_of(worker_id: Any) -> str:
    """Name the scheduler by what it says of where a task ran: a thread, a process or nothing."""
    if worker_id is None or worker_id == os.getpid():
        return "synchronous"
    threads = {thread.ident for thread in threading.enumerate()}
    return "threads" if worker_id in threads else "processes"
