"""``rm.dask.why(client)``: what a running cluster does, when it is done, and why it is not.

One question to the scheduler, by a function that travels as text: the cluster may lack rotameter
and need not have been attached. It asks the workers that matter, each for at most a quarter of the
time allowed, so that one that is stopped holds up nobody. Nothing stays on the cluster.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module
from typing import Any

from rotameter.adapters.dask._why_eta import eta, mean_seconds
from rotameter.adapters.dask._why_groups import group_reasons
from rotameter.adapters.dask._why_processing import Cluster
from rotameter.adapters.dask._why_ship import ByValue
from rotameter.adapters.dask._why_values import Eta, GroupWhy, Reason, Why
from rotameter.errors import RotameterError, UsageError
from rotameter.profiler.live.redact import clip, redact
from rotameter.units import format_count, format_seconds, many
from rotameter.values import Evidence

__all__ = ["GroupWhy", "NoAnswer", "Reason", "Why", "explain", "why", "why_at"]

_HERE = "rotameter.adapters.dask"
_DEEPEST = 16

CONNECT_RATIO = 0.8
"""Taking a connection may need this part of the time; the rest is for the answer."""


class NoAnswer(RotameterError):
    """Nothing that is a Dask scheduler answers at an address."""


def why(client: Any, timeout_s: float = 2.0) -> Any:
    """Say what a client's cluster does now and why each unfinished group is not running.

    Parameters
    ----------
    client : distributed.Client
        Of a running cluster; nothing needs to be installed or attached there. An asynchronous
        client gives an awaitable.
    timeout_s : float
        The most that the answer may take, in seconds.

    Returns
    -------
    Why
        Status ``unknown`` where the scheduler did not answer in time.

    Raises
    ------
    NoAnswer
        If the scheduler cannot be reached.

    Examples
    --------
    >>> from distributed import Client
    >>> client = Client(processes=False, n_workers=1, dashboard_address=":0")
    >>> why(client).status
    'idle'
    >>> client.close()
    """
    address, arguments = client.scheduler.address, dict(client.connection_args or {})
    if getattr(client, "asynchronous", False):
        return _why(address, arguments, timeout_s, known=True)
    return client.sync(_why, address, arguments, timeout_s, known=True)


def why_at(address: str, timeout_s: float = 2.0) -> Why:
    """Do as :func:`why` for an address, without a client; TLS comes from Dask's configuration.

    Raises
    ------
    NoAnswer
        If nothing answers there within the time.
    UsageError
        If the address is none.
    """
    full = _full(address)
    arguments = _distributed("security").Security().get_connection_args("client")
    return asyncio.run(_why(full, arguments, timeout_s))


def _distributed(name: str) -> Any:
    """Give a module of distributed, which has no types for these functions."""
    return import_module(f"distributed.{name}")


def _shown(address: str) -> str:
    """Give an address as it may be printed: it may carry a password."""
    return redact(address if "://" in address else address.rpartition("@")[2])


def _full(address: str) -> str:
    address = address.strip()
    if "://" in address:
        return address
    host, _, port = address.rpartition(":")
    if not host or "/" in host or not port.isascii() or not port.isdigit():
        raise UsageError(
            f"not an address of a scheduler: {_shown(address)!r}",
            hint="such as tcp://10.0.0.1:8786",
        )
    return f"tcp://{address}"


async def _why(
    address: str, arguments: Mapping[str, Any], timeout_s: float, known: bool = False
) -> Why:
    connect = _distributed("comm").connect
    began = time.perf_counter()
    try:
        # The handshake has no limit of its own: something else, or a stopped scheduler, is there.
        # What takes no connection must end before that: it is another fault.
        reach = connect(address, timeout=CONNECT_RATIO * timeout_s, **arguments)
        comm = await asyncio.wait_for(reach, timeout_s)
    except Exception as error:
        seconds = time.perf_counter() - began
        if known and seconds > 0.8 * timeout_s:  # a client has been there: it is stopped or busy
            return _no_answer(timeout_s, seconds)
        text = _unreached(error)
        hint = "check the address (`client.scheduler.address`), TLS and that it runs"
        if isinstance(error, TimeoutError) and not str(error):
            hint = (
                "its event loop may be busy or its process stopped: allow more time; else " + hint
            )
        raise NoAnswer(
            f"no Dask scheduler answers at {_shown(address)} within {timeout_s:g} s ({text})",
            hint=hint,
        ) from None
    task = asyncio.ensure_future(_ask(comm, timeout_s))
    task.add_done_callback(lambda t: t.cancelled() or t.exception())
    left = max(0.05, timeout_s - (time.perf_counter() - began))
    done, _ = await asyncio.wait({task}, timeout=left)
    seconds = time.perf_counter() - began
    comm.abort()
    if not done:
        task.cancel()
        return _no_answer(timeout_s, seconds)
    if (failure := task.exception()) is not None:
        raise NoAnswer(
            f"the scheduler at {_shown(address)} did not answer: {type(failure).__name__}: "
            f"{' '.join(redact(failure).split())[:160]}",
            hint="is it a scheduler's address? It may also forbid such calls "
            "(distributed.scheduler.pickle: false)",
        )
    return explain(task.result(), seconds)


def _unreached(error: BaseException) -> str:
    """Say why there is no connection: refused, no answer to the handshake, or as distributed says.

    Examples
    --------
    >>> _unreached(TimeoutError())
    'it took the connection and says nothing'
    """
    cause: BaseException | None = error
    for _ in range(_DEEPEST):
        if cause is None:
            break
        if isinstance(cause, ConnectionRefusedError):
            return "connection refused: nothing listens there"
        cause = cause.__cause__ or cause.__context__
    return " ".join(redact(error).split())[:160] or "it took the connection and says nothing"


async def _ask(comm: Any, timeout_s: float) -> Mapping[str, Any]:
    core, dumps = _distributed("core"), _distributed("protocol.pickle").dumps
    worker = f"{_HERE}._why_worker"
    kwargs = {
        "look": dumps(ByValue(worker, "look")),
        "state": dumps(ByValue(worker, "process_state")),
        "ask_s": timeout_s / 4,
        "scan_s": timeout_s / 6,
    }
    reply = await core.send_recv(
        comm,
        op="run_function",
        function=dumps(ByValue(f"{_HERE}._why_snapshot", "snapshot")),
        args=dumps(()),
        kwargs=dumps(kwargs),
        wait=True,
    )
    if not isinstance(reply, Mapping):
        raise RuntimeError("it knows no such call: it is no scheduler")
    if reply["status"] != "OK":
        _, error, _ = core.clean_exception(**reply)
        raise error or RuntimeError("the scheduler could not look")
    result: Mapping[str, Any] = reply["result"]
    return result


def _no_answer(timeout_s: float, seconds: float) -> Why:
    return Why(
        sentence=f"The scheduler did not answer within {timeout_s:g} s: "
        "its event loop is busy or its process is stopped.",
        status="unknown",
        eta_reason="the scheduler did not answer",
        notes=(
            "Tasks that run go on. A large graph that is being sent, very many small tasks or a "
            "slow plug-in keep a scheduler busy; try again with a longer timeout.",
        ),
        seconds=seconds,
    )


def explain(shot: Mapping[str, Any], seconds: float | None = None) -> Why:
    """Make the answer of a snapshot: pure, so that any snapshot can be explained anywhere.

    Parameters
    ----------
    shot : mapping
        What ``_why_snapshot.snapshot`` gives.
    seconds : float, optional
        What taking it took in all, in seconds.
    """
    for facts in shot["prefixes"].values():
        facts["mean_s"] = mean_seconds(facts)[0]
    cluster = Cluster(shot)
    groups = tuple(_clean(group) for group in group_reasons(cluster))
    done, total = _counts(shot)
    unfinished = sum(group.n_unfinished for group in groups)
    blocked = [group for group in groups if group.blocking]
    when = eta(shot)
    if blocked:
        names = many(len(blocked), "group")
        move = "does" if len(blocked) == 1 else "do"
        when = Eta(reason=f"{names} {move} not move")
    failed = sum(int(row["n"]) for row in shot["failed"].values())
    fallen = sum(int(row["n"]) for row in shot.get("fallen", {}).values())
    status: Any = "idle" if not unfinished else "running"
    if blocked:
        status = "blocked" if cluster.progressing else "stuck"
    out = _out(cluster) if status == "running" else ""
    return Why(
        sentence=_sentence(status, groups, done, total, failed, when, out, fallen),
        status=status,
        eta_s=when.eta_s if unfinished else None,
        eta_interval80_s=when.interval80_s if unfinished else None,
        eta_reason=redact(when.reason) if unfinished else "nothing is left to do",
        n_done=done,
        n_tasks=total,
        groups=groups,
        notes=_notes(shot, cluster, seconds),
        seconds=seconds,
    )


def _clean(group: GroupWhy) -> GroupWhy:
    """Take secrets and control characters out of what people named: keys, groups, errors."""

    def evidence(item: Evidence) -> Evidence:
        """Take them out of one value."""
        return replace(item, value=redact(item.value)) if isinstance(item.value, str) else item

    reasons = tuple(
        replace(
            r,
            text=redact(r.text),
            advice=redact(r.advice),
            evidence=tuple(evidence(e) for e in r.evidence),
        )
        for r in group.reasons
    )
    return replace(group, group=clip(redact(group.group)), reasons=reasons)


def _counts(shot: Mapping[str, Any]) -> tuple[int, int]:
    done = total = 0
    for facts in shot["prefixes"].values():
        states = facts["states"]
        done += sum(states.get(s, 0) for s in ("memory", "released", "forgotten"))
        total += sum(states.values())
    return done, total


def _sentence(
    status: str,
    groups: tuple[GroupWhy, ...],
    done: int,
    total: int,
    failed: int,
    when: Eta,
    out: str = "",
    fallen: int = 0,
) -> str:
    counts = f"{format_count(done)} of {many(total, 'task')} done"
    if failed:
        counts += f", {format_count(failed)} failed"
    if fallen:
        counts += f", {format_count(fallen)} not run as what they need failed"
    if status == "idle":
        return f"Nothing is left to do: {counts}." if total else "Nothing to do: no task is known."
    if status == "running":
        if when.eta_s is None or when.interval80_s is None:
            return f"Running: {counts}{out}."
        low, high = when.interval80_s
        return (
            f"Running: {counts}, about {format_seconds(when.eta_s)} left "
            f"({format_seconds(low)} to {format_seconds(high)}){out}."
        )
    first = next(group for group in groups if group.blocking)
    word = "Stuck" if status == "stuck" else "Partly stuck"
    return f"{word}: {counts}; `{first.group}` {_clause(first.text)}."


def _out(cluster: Cluster) -> str:
    """Say how many workers start no task while nothing else is wrong."""
    said = ""
    for found, what in ((cluster.paused, "paused"), (cluster.retiring, "being retired")):
        if found:
            verb = "is" if len(found) == 1 else "are"
            said += f"; {len(found):,} of {many(cluster.n_workers, 'worker')} {verb} {what}"
    return said


def _clause(text: str) -> str:
    starts = ("asks", "may", "waits", "was", "runs", "is ")
    return text if text.startswith(starts) else f"does not move: {text}"


def _notes(shot: Mapping[str, Any], cluster: Cluster, seconds: float | None) -> tuple[str, ...]:
    notes = []
    silent = [
        r
        for r in cluster.workers
        if r.get("asked")
        and not isinstance(r.get("answer"), Mapping)
        and str(r["address"]) not in cluster.bad
    ]
    if silent:
        notes.append(
            f"{many(len(silent), 'worker')} did not answer in time; heartbeats are recent, so "
            "they count as busy."
        )
    slow = (seconds or 0.0) - float(shot["spent_s"])
    if float(shot["lag_s"]) > 0.5 or slow > 1.0:
        notes.append(
            f"The scheduler is slow: its event loop kept us waiting for "
            f"{format_seconds(max(slow, float(shot['lag_s'])))}."
        )
    if shot["scanned"] < shot["tasks"]:
        notes.append(
            f"Looked at {shot['scanned']:,} of {shot['tasks']:,} tasks; counts by state are whole."
        )
    if shot["more_prefixes"]:
        notes.append(f"{many(shot['more_prefixes'], 'further group')} left out.")
    wanted = {k: n for k, n in shot["wanted"].items() if n}
    gone = [(k, s) for k, s in shot["clients"] if k in wanted and s > 60 and "Client" in k]
    for name, seen in gone[:2]:
        notes.append(
            f"{many(wanted[name], 'task')} run for client {name[:40]}, last seen "
            f"{format_seconds(seen)} ago."
        )
    return tuple(notes)
