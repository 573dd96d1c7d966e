"""What columns of tables are called, and the units that their names carry."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

from rotameter.adapters.importers._table_patterns import patterns_of, why_none
from rotameter.profiler.schema import TABLES

__all__ = [
    "DERIVED",
    "HEADER_UNITS",
    "SHORT_UNITS",
    "UNITS",
    "also",
    "header_unit",
    "is_not",
    "kind_of",
    "own_unit",
    "plain",
    "says_unit",
    "target_of",
    "well_known",
    "word_of",
    "words",
]


def words(text: str) -> list[str]:
    """Split a text into its words."""
    return text.split()


_TASKS = dict(TABLES["tasks"])

# The words that people use for a column of ours: the first for --map, all for headers.
_SHORT = {
    "task_id": "id job_id jobid taskid job_number",
    "attempt": "try attempt_number try_number retry",
    "run_id": "run",
    "parent": "parent_id",
    "group": "task_type process rule category job_name jobname task_name name function class type",
    "worker": "worker_name",
    "host": "node hostname machine exec_host node_name",
    "user": "username user_name owner",
    "account": "project account_name",
    "queue": "partition queue_name",
    "priority": "prio",
    "submitted_ns": "submit submit_time submitted submission submission_time submitted_at queued "
    "queued_at queue_time enqueued",
    "ready_ns": "ready eligible ready_time eligible_time",
    "started_ns": "start begin start_time started started_at start_date begin_time start_timestamp",
    "ended_ns": "end finish end_time ended ended_at end_date finish_time finished finished_at "
    "completed_at completion_time end_timestamp stop",
    "outcome": "state status job_state result",
    "error": "error_message message exception comment",
    "wall_s": "wall elapsed duration runtime run_time wall_time walltime wallclock wallclock_time "
    "elapsed_time realtime time_wall",
    "cpu_s": "cpu cpu_time cputime total_cpu",
    "process_cpu_s": "process_cpu",
    "io_s": "io io_time",
    "transfer_s": "transfer transfer_time",
    "spill_s": "spill",
    "deserialize_s": "deserialize",
    "gpu_s": "gpu gpu_time",
    "concurrency": "parallel",
    "peak_memory_bytes": "peak maxrss max_rss peak_rss peak_memory peak_mem max_mem max_memory "
    "mem_peak memory_peak maximum_memory memory_used mem_used used_memory max_resident_set_size",
    "start_memory_bytes": "start_memory",
    "peak_disk_bytes": "peak_disk disk_peak max_disk disk_used used_disk disk_usage",
    "read_bytes": "read bytes_read read_size",
    "write_bytes": "write written bytes_written write_size",
    "received_bytes": "received bytes_received",
    "output_bytes": "output output_size",
    "gpu_peak_bytes": "gpu_peak gpu_mem_peak gpu_peak_memory",
    "energy_j": "energy",
    "requested_cores": "cores cpus ncpus num_cores ncores num_cpus requested_cpus req_cores "
    "req_cpus slots nprocs",
    "requested_memory_bytes": "request reqmem req_mem requested_mem requested_memory "
    "memory_request mem_request mem_req memory_requested mem_requested request_memory memory_limit",
    "requested_disk_bytes": "disk requested_disk req_disk disk_request request_disk",
    "requested_gpus": "gpus num_gpus num_gpu ngpus req_gpus",
    "requested_gpu_share": "gpu_share",
    "requested_gpu_memory_bytes": "gpu_memory",
    "requested_nodes": "nodes num_nodes nnodes num_hosts",
    "requested_exclusive": "exclusive",
    "requested_wall_s": "limit time_limit timelimit requested_wall requested_time wall_limit "
    "req_walltime requested_walltime",
    "granted_cores": "alloc_cpus allocated_cores alloc_cores",
    "granted_memory_bytes": "granted_memory allocated_memory alloc_mem granted",
    "exit_code": "exit exit_status exitcode exit_value return_code returncode rc",
    "signal": "sig",
    "peak_memory_kind": "peak_kind",
    "depends_on": "depends dependencies deps parents",
    "wait_s": "wait wait_time waiting_time queue_wait pend_time",
}
DERIVED = {"wait_s": "f", "depends_on": "s"}
"""Targets that are no columns of ``tasks``: a wait gives the submission, the other the edges."""

# Words that are clear to --map, where the user chose them, and not in a header.
_NOT_IN_HEADERS = frozenset(
    words(
        "name type class message comment io gpu run stop disk limit granted output result "
        "energy sig rc transfer spill deserialize parallel gpu_memory parents exclusive "
        "walltime memory_limit"
    )
)
_NEED_UNIT = frozenset(words("cpu read write received wait energy io"))
_ALIASES = {
    word: target
    for target, words in _SHORT.items()
    for word in (target, target.removesuffix("_ns"), *words.split())
}
# The schema's own names are clear to --map and in headers, and carry their units.
_ALIASES |= {name: name for name in _TASKS}
_OWN_UNITS = ("ns", "s", "bytes", "j")
_MEMORY_ALONE = frozenset(("mem", "memory", "rss", "resident_set_size"))

_BINARY = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
UNITS: dict[str, tuple[str, float]] = {
    **{u: ("seconds", 1.0) for u in ("s", "sec", "secs", "second", "seconds")},
    **{u: ("seconds", 1e-3) for u in ("ms", "msec", "msecs", "millis", "milliseconds")},
    **{u: ("seconds", 1e-6) for u in ("us", "µs", "usec", "microseconds")},
    **{u: ("seconds", 1e-9) for u in ("ns", "nsec", "nanoseconds")},
    **{u: ("seconds", 60.0) for u in ("min", "mins", "minute", "minutes")},
    **{u: ("seconds", 3600.0) for u in ("h", "hr", "hrs", "hour", "hours")},
    **{u: ("seconds", 86400.0) for u in ("d", "day", "days")},
    **{u: ("bytes", 1.0) for u in ("b", "byte", "bytes")},
    **{f"{k.lower()}b": ("bytes", 1000.0**n) for n, k in enumerate("KMGT", 1)},
    **{f"{k.lower()}ib": ("bytes", float(v)) for k, v in _BINARY.items()},
    **{k.lower(): ("bytes", float(v)) for k, v in _BINARY.items()},
    "milli": ("count", 1e-3),
    "count": ("count", 1.0),
    "%": ("share", 0.01),
    "percent": ("share", 0.01),
    "cores": ("share", 1.0),
    "j": ("joules", 1.0),
    "kj": ("joules", 1e3),
    "wh": ("joules", 3600.0),
    "kwh": ("joules", 3.6e6),
    "binary": ("text", 1024.0),
    "decimal": ("text", 1000.0),
    "0": ("from", 1.0),
}
"""Unit → (what it measures, how many of ours one is)."""

# Of these, what a header's end may say: `m`, `k`, `min` mean too many things; in brackets they
# can only be units (`m` of an amount alone: no time fits it).
HEADER_UNITS = frozenset(
    words(
        "s sec secs seconds ms msec millis milliseconds us usec microseconds ns nanoseconds "
        "mins minutes h hr hrs hours bytes b kb mb gb tb kib mib gib tib milli percent % j kj wh "
        "kwh days"
    )
)
_BRACKETED = HEADER_UNITS | set(words("min minute hour d day k m g t byte nsec"))
# Elsewhere they may be a height or a mass.
SHORT_UNITS = {
    **dict.fromkeys(words("h hr hrs min minute hour d day"), "seconds"),
    **dict.fromkeys(words("k m g t"), "bytes"),
}
"""Short unit at a header's end → the kind of values whose unit it may be."""
_BITS = re.compile(r"(?<![A-Za-z])[KMG]b(?:ps|it|its)?$")
_TAIL = re.compile(
    r"^(?P<name>.*?[^\s_\-./(\[])[\s_\-./]*(?P<open>[(\[]\s*)?(?P<unit>[A-Za-zµ%]+)\s*[)\]]?$"
)
_TIME_WORDS = {"started_ns": "start", "ended_ns": "end", "submitted_ns": "submit"}
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def plain(name: str) -> str:
    """Write a header in small letters and underscores.

    Examples
    --------
    >>> plain("Start Time"), plain("maxRSS"), plain(" Exit-Status ")
    ('start_time', 'max_rss', 'exit_status')
    """
    text = _CAMEL.sub("_", name.strip())
    return re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")


def header_unit(name: str) -> tuple[str, str | None]:
    """Split a header into its name and the unit at its end, where there is a clear one.

    Examples
    --------
    >>> header_unit("mem_MB"), header_unit("elapsed (s)"), header_unit("rss_kib")
    (('mem', 'mb'), ('elapsed', 's'), ('rss', 'kib'))
    >>> header_unit("runtime [min]"), header_unit("wall_time_h")
    (('runtime', 'min'), ('wall_time', 'h'))
    >>> header_unit("speed_Mb"), header_unit("time_m"), header_unit("status")
    (('speed_Mb', None), ('time_m', None), ('status', None))
    """
    text = name.strip()
    if len(text) > 2 and text.lower() in HEADER_UNITS:
        return text, text.lower()
    match = _TAIL.match(text)
    if match is None or _BITS.search(text.rstrip(")] ")):
        return text, None
    unit = match["unit"]
    glued = text[match.end("name") : match.start("unit")] == ""
    closed = match["open"] is not None and text[-1] in ")]"
    if unit.lower() not in (_BRACKETED if closed else HEADER_UNITS) or (
        glued and not text[: match.start("unit")]
    ):
        return text, None
    return (text, None) if glued else (match["name"], unit.lower())


def says_unit(header: str, unit: str, kind: str) -> bool:
    """Whether the unit at a header's end can be one of values of a kind, short as it may be.

    Examples
    --------
    >>> says_unit("elapsed_h", "h", "seconds"), says_unit("grid_h", "h", "number")
    (True, False)
    >>> says_unit("start_h", "h", "time"), says_unit("start (h)", "h", "time")
    (False, True)
    """
    only = SHORT_UNITS.get(unit)
    timed = only == "seconds" and kind == "time" and header.rstrip()[-1:] in (")", "]")
    return only is None or only == kind or timed


def word_of(target: str) -> str:
    """Give the word that people use for a time.

    Examples
    --------
    >>> word_of("started_ns"), word_of("ready_ns")
    ('start', 'ready')
    """
    return _TIME_WORDS.get(target, target.removesuffix("_ns"))


def is_not(target: str, name: str, unit: str | None, text: str) -> str:
    """Say what a value is not, and what would make it one.

    Examples
    --------
    >>> is_not("exit_code", "code", None, "x1"), is_not("started_ns", "at", None, "2025-02-30")
    ("code: not a whole number: 'x1'", "at: not a time: '2025-02-30': there is no such day")
    """
    if not target.endswith("_ns"):
        what = "duration" if target == "wall_s" else "whole number"
        return f"{name}: not a {what}: {text!r}"
    patterns = patterns_of(text)
    if (why := why_none(text, patterns)) is not None:
        return f"{name}: not a time: {text!r}: {why}"
    if patterns and unit is None:
        first, *others = (f"--map '{word_of(target)}={name}:{pattern}'" for pattern in patterns)
        if not others:
            return f"{name}: not a time: {text!r}: say {first}"
        return f"{name}: is {text!r} day and month or month and day? say {first} or {others[0]}"
    return f"{name}: not a time: {text!r}"


def also(texts: Iterable[str]) -> str:
    """Show two more of texts of which the first is shown already.

    Examples
    --------
    >>> also(["a", "a", "b", "c", "d"]), also(["a", "a"])
    (" (also 'b' and 'c')", '')
    """
    others = list(dict.fromkeys(texts))[1:3]
    return f" (also {' and '.join(map(repr, others))})" if others else ""


@cache
def kind_of(target: str) -> str:
    """Say how a target's values are read: time, seconds, bytes, number, int, bool, map, text."""
    if target.startswith("feature."):
        return "number"
    if target in DERIVED:
        return "seconds" if target == "wait_s" else "edges"
    code = _TASKS[target]
    if target.endswith("_ns"):
        return "time"
    if target.endswith("_bytes"):
        return "bytes"
    if code == "f" and target.endswith("_s"):
        return "seconds"
    if target == "outcome":
        return "outcome"
    return {"f": "number", "i": "int", "b": "bool", "m": "map", "s": "text"}[code]


def own_unit(header: str) -> str | None:
    """Give the unit that a column of the schema carries in its name.

    Examples
    --------
    >>> own_unit("started_ns"), own_unit("peak_memory_bytes"), own_unit("wall_s")
    ('ns', 'bytes', 's')
    >>> own_unit("begin_ns"), own_unit("task_id")
    (None, None)
    """
    tail = header.rpartition("_")[2]
    return tail if header in _TASKS and tail in _OWN_UNITS else None


def target_of(word: str) -> str | None:
    """Give the column that a user's word stands for.

    Examples
    --------
    >>> target_of("start"), target_of("peak"), target_of("feature.size"), target_of("colour")
    ('started_ns', 'peak_memory_bytes', 'feature.size', None)
    """
    if word.startswith("feature.") and len(word) > len("feature."):
        return word
    if word in _TASKS:
        return word
    return _ALIASES.get(plain(word))


def well_known(headers: tuple[str, ...]) -> dict[str, tuple[str, str | None]]:
    """Find what well-known headers mean: target → (header, unit from its end).

    A memory column without "max" or "requested" in its name is taken where the other of the two
    is there and makes clear what it is. A ``name`` beside an id is the group where nothing else is.

    Examples
    --------
    >>> well_known(("job_id", "elapsed (s)", "mem_mb", "req_mem_mb"))["peak_memory_bytes"]
    ('mem_mb', 'mb')
    >>> well_known(("colour", "price"))
    {}
    """
    found: dict[str, tuple[str, str | None]] = {}
    loose: list[tuple[str, str | None]] = []
    # A column of the schema's own name is that column, whatever stands before it.
    for header in sorted(headers, key=lambda name: name not in _TASKS):
        if header == "source":  # which importer read a row, with us; anything elsewhere
            continue
        base, unit = header_unit(header)
        whole = plain(header)
        for name, said in ((whole, own_unit(whole)), (plain(base), unit)):
            target = _ALIASES.get(name)
            clear = name in _TASKS or _clear(name, said)
            if target is not None and clear and _suits(target, header, said):
                found.setdefault(target, (header, said))
                break
            if name in _MEMORY_ALONE and said is not None:
                loose.append((header, said))
                break
            if name == "time" and said is not None and UNITS[said][0] == "seconds":
                found.setdefault("wall_s", (header, said))
    names = [header for header in headers if plain(header) == "name"]
    if names and "task_id" in found:
        found.setdefault("group", (names[0], None))
    if len(loose) == 1 and "requested_memory_bytes" in found:
        found.setdefault("peak_memory_bytes", loose[0])
    return found


def _clear(name: str, unit: str | None) -> bool:
    if name in _NEED_UNIT:
        return unit is not None
    return name not in _NOT_IN_HEADERS


def _suits(target: str, header: str, unit: str | None) -> bool:
    if unit is None:
        return True
    if not says_unit(header, unit, kind_of(target)):
        return False
    what = UNITS[unit][0]
    kind = kind_of(target)
    return {
        "time": what == "seconds",
        "seconds": what in ("seconds", "share"),
        "bytes": what == "bytes",
        "number": what in ("count", "share", "joules"),
    }.get(kind, False)
