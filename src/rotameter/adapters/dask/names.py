"""Names that scheduler and workers must spell alike, and text that may leave a process."""

from __future__ import annotations

import hashlib
import os
import platform
import sys
from functools import lru_cache
from typing import Any

from rotameter.profiler.live.host import machine
from rotameter.profiler.live.process import host_name
from rotameter.profiler.live.redact import clip, has_key_shape, has_named_value, redact

__all__ = [
    "ACK_OP",
    "END_OP",
    "EXIT_TOPIC",
    "FAULT_TOPIC",
    "FINISH_OP",
    "FLUSH_OP",
    "HELLO_OP",
    "HUB_OP",
    "NOT_STARTED_TOPIC",
    "PLUGIN",
    "RECORDS_OP",
    "SLOTS_OP",
    "closing_reason",
    "emit",
    "exit_signal",
    "group_of",
    "host_name",
    "machine_facts",
    "origin_of",
    "removal_reason",
    "run_id_of",
    "run_prefix",
    "task_id_of",
]

PLUGIN = "rotameter"
RECORDS_OP = "rotameter-records"
HELLO_OP = "rotameter-hello"
ACK_OP = "rotameter-ack"
END_OP = "rotameter-end"
HUB_OP = "rotameter_hub"
FINISH_OP = "rotameter_finish"
FLUSH_OP = "rotameter_flush"
SLOTS_OP = "rotameter_slots"
EXIT_TOPIC = "rotameter-exit"
NOT_STARTED_TOPIC = "rotameter-not-started"
FAULT_TOPIC = "rotameter-fault"
_LIMIT = 200


def _safe(text: str) -> str:
    """Take secrets out of a name and keep different names different."""
    if (
        "://" in text
        or "=" in text
        or (not text.islower() and has_key_shape(text))
        or (":" in text and has_named_value(text))
    ):
        clean = redact(text)
        if clean != text:
            digest = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:12]
            text = f"{clean}#{digest}"
    return text if len(text) < _LIMIT else clip(text)


def task_id_of(key: Any) -> str:
    """Give the text of a Dask key; secrets are taken out and a very long one is cut.

    Examples
    --------
    >>> task_id_of("inc-1"), task_id_of(("x", 0))
    ('inc-1', "('x', 0)")
    """
    text = key if type(key) is str else str(key)
    # Keys that carry access keys or tokens have capitals; most of Dask's have none. One letter at
    # a time: these searches stay short where caches are cold.
    if len(text) < _LIMIT and text.islower() and ":" not in text and "=" not in text:
        return text
    return _safe(text)


@lru_cache(maxsize=4096)
def group_of(prefix: str) -> str:
    """Give the name of the group that tasks of a Dask prefix form.

    Examples
    --------
    >>> group_of("inc")
    'inc'
    """
    return _safe(str(prefix))


def origin_of(role: str) -> str:
    """Give a name for one source of records, unlike any other's.

    Examples
    --------
    >>> origin_of("worker") != origin_of("worker")
    True
    """
    return f"{role}-{host_name()}-{os.getpid()}-{os.urandom(4).hex()}"


def exit_signal(exit_code: int | None) -> int | None:
    """Give the signal that an exit code of a process stands for.

    Examples
    --------
    >>> exit_signal(-9), exit_signal(1)
    (9, None)
    """
    return -exit_code if exit_code is not None and exit_code < 0 else None


_CLOSINGS = (
    ("signal-", "asked to stop"),
    ("scheduler-close-worker", "retired"),
    ("scheduler-remove-worker", "retired"),
    ("scheduler-close", "cluster closing"),
    ("worker-lifetime", "lifetime reached"),
    ("scheduler-restart", "restart"),
    ("restart", "restart"),
)
_FAILURES = ("broken", "fail", "heartbeat", "timeout", "died")


def closing_reason(word: str | None) -> str | None:
    """Put into words why a worker closes in an orderly way; None when it closes for a failure.

    Parameters
    ----------
    word : str or None
        What distributed gives as the reason of the worker's or nanny's ``close``.

    Examples
    --------
    >>> closing_reason("nanny-close"), closing_reason("signal-15")
    ('closed', 'asked to stop')
    >>> closing_reason("worker-handle-scheduler-connection-broken") is None
    True
    """
    text = str(word or "")
    if any(part in text for part in _FAILURES):
        return None
    return next((said for head, said in _CLOSINGS if text.startswith(head)), "closed")


def run_prefix(scheduler_id: Any) -> str:
    """Give the short name of a scheduler that the ``run_id`` of its attempts begin with.

    Examples
    --------
    >>> len(run_prefix("Scheduler-1"))
    5
    """
    digest = hashlib.sha256(str(scheduler_id).encode("utf-8", "replace")).hexdigest()
    return f"{digest[:4]}:"


def run_id_of(prefix: str, number: Any) -> str:
    """Give the ``run_id`` of an attempt, unlike that of any attempt on another scheduler.

    Examples
    --------
    >>> run_id_of("3fa0:", 12)
    '3fa0:00000012'
    """
    return f"{prefix}{number:08d}"


_REMOVALS = {
    "handle-worker-cleanup": "connection lost",
    "retire-workers": "retired",
    "check-worker-ttl": "no heartbeat",
    "worker-close": "closed",
    "close-worker": "closed",
    "scheduler-restart": "restart",
    "nanny-close": "process ended",
}


def removal_reason(stimulus: str | None) -> str | None:
    """Put into words why a worker was removed, from distributed's name of the stimulus.

    Examples
    --------
    >>> removal_reason("handle-worker-cleanup-1795973153.39")
    'connection lost'
    """
    name = str(stimulus or "").rpartition("-")[0]
    return _REMOVALS.get(name, name.replace("-", " ") or None)


def machine_facts() -> dict[str, Any]:
    """Give what a segment says of its machine: name, cores, memory, system.

    Examples
    --------
    >>> sorted(machine_facts())
    ['cores', 'host', 'memory_bytes', 'pid', 'system', 'versions']
    """
    return {
        "host": host_name(),
        "pid": os.getpid(),
        **machine(),
        "versions": _versions(),
    }


def _versions() -> dict[str, str]:
    out = {"python": platform.python_version()}
    for name in ("dask", "distributed"):
        version = getattr(sys.modules.get(name), "__version__", None)
        if version is not None:
            out[name] = str(version)
    return out


_FREE = ("text", "reason", "span", "layer", "host")


def emit(recorder: Any, kind: str, at_ns: int, **columns: Any) -> None:
    """Record one event; the columns are those of the schema's ``events`` table.

    Secrets are taken out of the columns that hold words of others.

    Examples
    --------
    >>> from rotameter.profiler.live.recorder import CallSink, Recorder
    >>> recorder = Recorder(CallSink(lambda frames: None), {"role": "client"})
    >>> emit(recorder, "worker_added", 1, worker="tcp://a:1")
    >>> recorder.close()
    """
    for name in _FREE:
        if isinstance(columns.get(name), str):
            columns[name] = redact(columns[name])
    names = ("at_ns", "kind", *columns)
    recorder.channel("events", names).add((at_ns, kind, *columns.values()))
