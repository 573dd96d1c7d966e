"""What can be measured here, what cannot and why, and what would enable it.

A check says yes only to what a probe or a sampler of the tracer records; that the machine could
tell is not enough.
"""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Callable
from typing import Any

from rotameter.profiler.live import proc as _proc
from rotameter.profiler.live.host import granted_cores, memory_limit_bytes
from rotameter.profiler.live.memory import clear_refs_reason
from rotameter.profiler.live.proc import read_proc
from rotameter.profiler.live.spool import is_shared_filesystem

__all__ = ["checks"]

Check = tuple[str | None, str | None]
"""(reason, what would enable it); a reason of None means available."""


def _readable(path: str) -> bool:
    return read_proc(path, 64) is not None


def _thread_io() -> Check:
    if _readable("/proc/thread-self/io"):
        return None, None
    if not sys.platform.startswith("linux"):
        return f"{platform.system()} has no /proc", "run on Linux"
    return "/proc/thread-self/io cannot be read", (
        "a kernel with CONFIG_TASK_IO_ACCOUNTING; in a container, a seccomp profile that allows it"
    )


def _process_io() -> Check:
    if _readable("/proc/self/io"):
        return None, None
    return "/proc/self/io cannot be read", "Linux with CONFIG_TASK_IO_ACCOUNTING"


def _held_reads() -> Check:
    if _proc._LIB is not None:
        return None, None
    return (
        "no 64-bit C library with pread: /proc is read through os.pread, which costs a hand-off "
        "of the interpreter lock",
        "a 64-bit Python on Linux",
    )


def _exact_peak() -> Check:
    reason = clear_refs_reason()
    return (None, None) if reason is None else (reason, "Linux with CONFIG_PROC_PAGE_MONITOR")


def _resident() -> Check:
    if _readable("/proc/self/statm"):
        return None, None
    return "/proc/self/statm cannot be read", "run on Linux"


def _memory_limit() -> Check:
    machine = None
    if hasattr(os, "sysconf"):
        machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = memory_limit_bytes()
    if limit is not None and (machine is None or limit < machine):
        return None, None
    return (
        "no container limit found: the machine's memory is taken as the limit",
        "run in a cgroup with a memory limit",
    )


def _cpu_quota() -> Check:
    cores = granted_cores()
    if cores is not None and cores < float(os.cpu_count() or 1):
        return None, None
    return "no quota and no affinity: all cores of the machine are ours", None


def _no_probe(enable: str | None = None, more: str = "") -> Callable[[], Check]:
    """Say no whatever the machine has: nothing of ours measures this while a program runs."""
    return lambda: (f"no probe of rotameter measures this yet{more}", enable)


def _local_folder() -> Check:
    if not is_shared_filesystem(os.getcwd()):
        return None, None
    return (
        "the current folder is on a network file system: records go to a local folder first",
        "name a trace on a local disk",
    )


def _fork() -> Check:
    if hasattr(os, "register_at_fork"):
        return None, None
    return "no fork here: children join by the environment only", None


_CHECKS: tuple[tuple[str, Callable[[], Check]], ...] = (
    ("I/O by thread", _thread_io),
    ("I/O by process", _process_io),
    ("reads of /proc with the interpreter lock held", _held_reads),
    ("resident memory", _resident),
    ("exact peak memory", _exact_peak),
    ("container's memory limit", _memory_limit),
    ("container's CPU quota", _cpu_quota),
    (
        "GPU use",
        _no_probe("record with the PyTorch profiler or Nsight Systems, whose files are read"),
    ),
    ("energy", _no_probe("where Slurm accounts for energy, `rotameter collect slurm` reads it")),
    ("hardware counters", _no_probe()),
    (
        "time that the interpreter lock was held",
        _no_probe(more="; contention is judged by CPU time against wall time"),
    ),
    ("records on a local disk", _local_folder),
    ("forked children", _fork),
)


def checks() -> list[dict[str, Any]]:
    """Tell what can be measured on this machine.

    Returns
    -------
    list of dict
        ``what``, ``available``, and where not available ``reason`` and ``enable`` (what would
        enable it, or None).

    Examples
    --------
    >>> sorted(checks()[0])
    ['available', 'enable', 'reason', 'what']
    """
    found: list[dict[str, Any]] = []
    for what, check in _CHECKS:
        try:
            reason, enable = check()
        except Exception as error:
            reason, enable = f"the check itself failed: {type(error).__name__}", None
        available = reason is None
        found.append({"what": what, "available": available, "reason": reason, "enable": enable})
    return found
