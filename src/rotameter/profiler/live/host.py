"""Samples of the host and the process, taken in the flush thread, and what a container grants."""

from __future__ import annotations

import contextlib
import os
import platform
from typing import TYPE_CHECKING, Any

from rotameter.profiler.live.proc import ProcFile, read_proc

if TYPE_CHECKING:
    from rotameter.profiler.live.session import Session

__all__ = [
    "HostSampler",
    "granted_cores",
    "machine",
    "memory_limit_bytes",
    "parse_network",
    "parse_stat",
]

_CGROUP = "/sys/fs/cgroup"
# cgroup v1 writes "no limit" as a number near 2**63.
_NO_LIMIT_BYTES = 1 << 60
_SECTOR_BYTES = 512
_SHORTEST_S = 0.2


def parse_stat(text: str) -> tuple[float, float]:
    r"""Give (busy, all) CPU time in ticks, over all cores, from the text of /proc/stat.

    Examples
    --------
    >>> parse_stat("cpu  10 0 5 80 5 0 0 0 0 0\n")
    (15.0, 100.0)
    """
    fields = [float(item) for item in text.split("\n", 1)[0].split()[1:9]]
    total = sum(fields)
    return total - fields[3] - fields[4], total


def parse_network(text: str) -> tuple[int, int]:
    r"""Give (received, sent) bytes over all interfaces but the loopback from /proc/net/dev.

    Examples
    --------
    >>> line = "eth0: 100 1 0 0 0 0 0 0 70 1 0 0 0 0 0 0"
    >>> parse_network("head\nhead\n  lo: 9 1 0 0 0 0 0 0 9 1 0 0 0 0 0 0\n" + line)
    (100, 70)
    """
    received = sent = 0
    for line in text.splitlines():
        name, colon, rest = line.partition(":")
        fields = rest.split()
        if colon and name.strip() != "lo" and len(fields) >= 9 and fields[0].isdigit():
            received += int(fields[0])
            sent += int(fields[8])
    return received, sent


def parse_disks(text: str) -> tuple[int, int]:
    """Give (read, written) bytes over all whole disks from /proc/diskstats."""
    read = written = 0
    seen: list[str] = []
    for line in text.splitlines():
        fields = line.split()
        if len(fields) < 10 or fields[2].startswith(("loop", "ram", "zram", "dm-", "md")):
            continue
        # A partition follows its disk and begins with the disk's name.
        if any(fields[2].startswith(disk) for disk in seen):
            continue
        seen.append(fields[2])
        read += int(fields[5]) * _SECTOR_BYTES
        written += int(fields[9]) * _SECTOR_BYTES
    return read, written


def parse_memory(text: str) -> dict[str, int]:
    """Give total and available memory in bytes from the text of /proc/meminfo."""
    found: dict[str, int] = {}
    for line in text.splitlines():
        name, _, rest = line.partition(":")
        if name in ("MemTotal", "MemAvailable"):
            found[name] = int(rest.split()[0]) * 1024
    return found


def machine() -> dict[str, Any]:
    """Describe this machine for a segment's head: cores, memory in bytes, system.

    Examples
    --------
    >>> sorted(machine())
    ['cores', 'memory_bytes', 'system']
    """
    memory = None
    with contextlib.suppress(ValueError, IndexError):
        memory = parse_memory(read_proc("/proc/meminfo") or "").get("MemTotal")
    system = f"{platform.system()} {platform.release()}"
    return {"cores": os.cpu_count(), "memory_bytes": memory, "system": system}


class HostSampler:
    """Take one set of samples at each call of :meth:`tick`.

    Parameters
    ----------
    session : Session
        Whose recorder gets the ``samples``; its running tasks learn of the resident memory.
    subject : str
        What samples of the process are recorded under.
    host : bool
        Sample the host as well, under ``session.host``.
    """

    def __init__(self, session: Session, *, subject: str, host: bool = True) -> None:
        self._session = session
        self._subject = subject
        self._channel = session.recorder.channel(
            "samples", ("at_ns", "subject", "metric", "value", "quality")
        )
        self._files: dict[str, ProcFile] = {}
        self._last: dict[str, tuple[int, float]] = {}
        self._last_cpu: tuple[float, float] | None = None
        self._last_tick_ns = 0
        if host:
            for name in ("stat", "meminfo", "net/dev", "diskstats"):
                with contextlib.suppress(OSError):
                    size = 512 if name in ("stat", "meminfo") else 1 << 15
                    self._files[name] = ProcFile(f"/proc/{name}", size)

    def tick(self) -> None:
        """Sample; a call sooner than 0.2 s after the one before does nothing."""
        session = self._session
        now = session.clock.wall()
        if self._last_tick_ns and now - self._last_tick_ns < _SHORTEST_S * 1e9:
            return
        self._last_tick_ns = now
        at_ns = now + session.offset_ns
        rss = session.sample_rss()
        if rss is not None:
            self._add(at_ns, self._subject, "process_rss_bytes", rss)
        cpu_s = session.clock.process() / 1e9
        self._rate(at_ns, now, self._subject, "process_cpu_cores", cpu_s)
        if self._files:
            self._host(at_ns, now)

    def _text(self, name: str) -> str | None:
        file = self._files.get(name)
        if file is None:
            return None
        try:
            with self._session._lock:
                count = file.read()
                self._session.own.read += count
            return file.data[:count].decode("utf-8", "replace")
        except OSError:
            return None

    def _host(self, at_ns: int, now: int) -> None:
        host = self._session.host
        text = self._text("stat")
        if text:
            busy, total = parse_stat(text)
            if self._last_cpu is not None and total > self._last_cpu[1]:
                ratio = (busy - self._last_cpu[0]) / (total - self._last_cpu[1])
                self._add(at_ns, host, "cpu_ratio", min(1.0, max(0.0, ratio)))
            self._last_cpu = (busy, total)
        text = self._text("meminfo")
        memory = parse_memory(text) if text else {}
        if len(memory) == 2:
            self._add(at_ns, host, "memory_available_bytes", memory["MemAvailable"])
            used = memory["MemTotal"] - memory["MemAvailable"]
            self._add(at_ns, host, "memory_used_bytes", used)
        text = self._text("net/dev")
        if text:
            received, sent = parse_network(text)
            self._rate(at_ns, now, host, "network_receive_bytes_per_s", received)
            self._rate(at_ns, now, host, "network_send_bytes_per_s", sent)
        text = self._text("diskstats")
        if text:
            read, written = parse_disks(text)
            self._rate(at_ns, now, host, "disk_read_bytes_per_s", read)
            self._rate(at_ns, now, host, "disk_write_bytes_per_s", written)

    def _rate(self, at_ns: int, now: int, subject: str, metric: str, count: float) -> None:
        last = self._last.get(metric)
        self._last[metric] = (now, count)
        if last is not None and now > last[0] and count >= last[1]:
            self._add(at_ns, subject, metric, (count - last[1]) * 1e9 / (now - last[0]))

    def _add(self, at_ns: int, subject: str, metric: str, value: float) -> None:
        self._channel.add((at_ns, subject, metric, float(value), "exact"))


def _cgroup_paths(controller: str, root: str, cgroup_text: str | None) -> list[str]:
    """Give the process's cgroup folder and those above it, the nearest first."""
    text = cgroup_text if cgroup_text is not None else read_proc("/proc/self/cgroup")
    inner = ""
    base = root
    for line in (text or "").splitlines():
        parts = line.split(":", 2)
        if len(parts) != 3:
            continue
        if controller in parts[1].split(","):
            base, inner = os.path.join(root, controller), parts[2]
            break
        if parts[0] == "0" and not parts[1]:
            inner = parts[2]
    paths = []
    inner = inner.rstrip("/")
    while inner:
        paths.append(base + inner)
        inner = inner.rpartition("/")[0]
    return [*paths, base]


def _number(path: str) -> float | None:
    text = read_proc(path, 256)
    try:
        return float(text) if text else None
    except ValueError:
        return None


def memory_limit_bytes(root: str = _CGROUP, cgroup_text: str | None = None) -> int | None:
    """Give the memory that this process may use: its container's limit or the machine's memory.

    Returns
    -------
    int or None
        Bytes; None where neither can be read.
    """
    limits: list[float] = []
    for path in _cgroup_paths("memory", root, cgroup_text):
        for name in ("memory.max", "memory.limit_in_bytes"):
            value = _number(os.path.join(path, name))
            if value is not None and value < _NO_LIMIT_BYTES:
                limits.append(value)
    with contextlib.suppress(ValueError, OSError, AttributeError):
        limits.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    return int(min(limits)) if limits else None


def granted_cores(root: str = _CGROUP, cgroup_text: str | None = None) -> float | None:
    """Give the cores that this process may use: affinity and its container's quota."""
    cores: list[float] = []
    for path in _cgroup_paths("cpu", root, cgroup_text):
        quota: Any = None
        text = read_proc(os.path.join(path, "cpu.max"), 256)
        if text and len(text.split()) == 2 and text.split()[0] != "max":
            quota = [float(item) for item in text.split()]
        else:
            v1 = [_number(os.path.join(path, f"cpu.cfs_{n}_us")) for n in ("quota", "period")]
            quota = v1 if v1[0] is not None and v1[0] > 0 and v1[1] else None
        if quota:
            cores.append(quota[0] / quota[1])
    with contextlib.suppress(AttributeError, OSError):
        cores.append(float(len(os.sched_getaffinity(0))))
    if not cores and os.cpu_count():
        cores.append(float(os.cpu_count() or 1))
    return min(cores) if cores else None
