"""Records of a Snakemake benchmark to attempts of tasks.

The columns: ``BenchmarkRecord`` of Snakemake. Memory and bytes are in MiB, ``mean_load`` in
percent of one core. ``NA`` is "no reading was got", ``-`` "the system does not tell".
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Callable, Mapping
from typing import Any

from rotameter.profiler.live.redact import redact

__all__ = ["MEASURED", "NULLS", "RESOURCES", "amount", "make", "mapping", "requests"]

Warn = Callable[[str], None]

NULLS = frozenset(("", "NA", "-", "None", "null", "nan", "NaN", "<TBD>"))
_MIB = 1 << 20
_MEMORY = ("max_rss", "max_vms", "max_uss", "max_pss")
MEASURED = (*_MEMORY, "io_in", "io_out", "mean_load", "cpu_time")
_LITERAL_CHARS = 1 << 16
_KEPT = 200
_PAIR = re.compile(r"'([^']{1,80})': (?:'([^']{0,200})'|([-\w.+]{1,40}))")
_CLOCK = re.compile(r"(?:(\d{1,6}) days?, )?(\d{1,9}):(\d\d):(\d\d)(?:\.\d+)?")
_APART_S = 1.0  # h:m:s is s without its fraction
RESOURCES = {
    "requested_gpus": ("gpu", "gpus", "nvidia_gpu"),
    "requested_nodes": ("nodes", "_nodes"),
}
_LIMIT = 1e18


def amount(value: object) -> float | None:
    """Read a number of a benchmark; None where there is none.

    Raises
    ------
    ValueError
        If it is no number, negative or beyond all bounds.

    Examples
    --------
    >>> amount("1.5"), amount(2), amount("NA"), amount("-")
    (1.5, 2.0, None, None)
    """
    if value is None or isinstance(value, bool):
        return None
    if isinstance(value, str):
        if value.strip() in NULLS:
            return None
        value = value.strip().replace(",", ".")
    if not isinstance(value, (str, int, float)):
        raise ValueError(f"not a number: {str(value)[:40]}")
    try:
        number = float(value)
    except OverflowError:
        raise ValueError("a number that is too large") from None
    except ValueError:
        raise ValueError(f"not a number: {str(value)[:40]}") from None
    if number != number:
        return None
    if number < 0:
        raise ValueError(f"a negative number: {str(value)[:40]}")
    if number >= _LIMIT:
        raise ValueError(f"a number that is too large: {str(value)[:40]}")
    return number


def mapping(value: object) -> dict[str, Any]:
    """Read a cell such as ``{'mem_mb': 100}``; what cannot be read is left out.

    Examples
    --------
    >>> mapping("{'mem_mb': 100, 'tmpdir': '/tmp'}")["mem_mb"]
    100
    >>> mapping("{'mem_mb': <TBD>, 'mem_mib': 95}")
    {'mem_mib': '95'}
    """
    if isinstance(value, dict):
        return {str(k): v for k, v in value.items()}
    if not isinstance(value, str) or not value.strip().startswith("{"):
        return {}
    text = value.strip()
    if len(text) <= _LITERAL_CHARS:
        try:
            with warnings.catch_warnings():  # of odd escapes in the text
                warnings.simplefilter("ignore")
                found = ast.literal_eval(text)
        except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
            pass  # No literal: its pairs are looked for below.
        else:
            return {str(k): v for k, v in found.items()} if isinstance(found, dict) else {}
    pairs = _PAIR.finditer(text[:_LITERAL_CHARS])
    return {m[1]: m[2] if m[2] is not None else m[3] for m in pairs}


def requests(resources: Mapping[str, Any]) -> dict[str, Any]:
    """Give what a job asked for, as columns of ``tasks``.

    ``mem_mib`` goes before ``mem_mb`` (a million bytes), ``runtime`` is in minutes.

    Examples
    --------
    >>> requests({"mem_mb": 500, "mem_mib": 477})["requested_memory_bytes"] == 477 * 2**20
    True
    >>> requests({"runtime": "90", "mem_mb": "<TBD>"})
    {'requested_wall_s': 5400.0}
    """
    found: dict[str, Any] = {}
    for column, binary, decimal in (
        ("requested_memory_bytes", "mem_mib", "mem_mb"),
        ("requested_disk_bytes", "disk_mib", "disk_mb"),
    ):
        for name, scale in ((binary, _MIB), (decimal, 10**6)):
            size = _known(resources.get(name))
            if size:
                found[column] = round(size * scale)
                break
    runtime = _known(resources.get("runtime"))
    if runtime:
        found["requested_wall_s"] = runtime * 60
    cores = _known(resources.get("_cores"))
    if cores:
        found["requested_cores"] = cores
    for column, names in RESOURCES.items():
        known = [n for n in (_known(resources.get(name)) for name in names) if n]
        if known:
            found[column] = known[0]
    for column, name in (("queue", "slurm_partition"), ("account", "slurm_account")):
        text = resources.get(name)
        if isinstance(text, str) and text not in NULLS:
            found[column] = redact(text)[:_KEPT]
    return found


def _known(value: object) -> float | None:
    try:
        number = amount(value)
    except ValueError:
        return None
    return number if number is not None and number < 1e12 else None


def make(record: Mapping[str, Any], warn: Warn) -> dict[str, Any]:
    """Read one record into a row of ``tasks``, without its name.

    Raises
    ------
    ValueError
        If it does not even say how long the job took.
    """
    wall = amount(record.get("s"))
    clock = _clock(record.get("h:m:s"))
    if wall is not None and clock is not None and abs(wall - clock) > _APART_S:
        warn("s and h:m:s of a row do not say the same: s is taken")
    wall = clock if wall is None else wall
    if wall is None:
        raise ValueError("no duration: neither s nor h:m:s")
    value = _measured(record, warn)
    rule = record.get("rule_name", record.get("rule"))
    row: dict[str, Any] = {
        "group": redact(rule)[:_KEPT] if isinstance(rule, str) and rule not in NULLS else None,
        "wall_s": wall,
        "cpu_s": value["cpu_time"],
        "outcome": "ok",
        "outcome_kind": "inferred",  # a benchmark is written once the job has ended well
        "source": "snakemake",
    }
    if row["cpu_s"] is None and value["mean_load"] is not None:
        row["cpu_s"] = value["mean_load"] / 100 * wall
    for column, name in (
        ("peak_memory_bytes", "max_rss"),
        ("read_bytes", "io_in"),
        ("write_bytes", "io_out"),
    ):
        size = value[name]
        row[column] = None if size is None else round(size * _MIB)
    row["peak_memory_kind"] = None if row["peak_memory_bytes"] is None else "sampled"
    io = row["read_bytes"] is not None or row["write_bytes"] is not None
    row["io_kind"] = "lower_bound" if io else None
    row.update(requests(mapping(record.get("resources"))))
    threads = _known(record.get("threads"))
    if threads:
        row["requested_cores"] = threads
    row["features"] = _features(record)
    return row


def _clock(text: object) -> float | None:
    match = _CLOCK.fullmatch(text.strip()) if isinstance(text, str) else None
    if match is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60.0 + seconds


def _measured(record: Mapping[str, Any], warn: Warn) -> dict[str, float | None]:
    found: dict[str, float | None] = {}
    for name in MEASURED:
        try:
            found[name] = amount(record.get(name))
        except ValueError:
            found[name] = None
            warn(f"values of {name} that cannot be read are left out")
    known = [found[name] for name in _MEMORY if found[name] is not None]
    if known and not any(known):
        # Over before the first reading: zeros that were never measured.
        warn("jobs that ended before the first reading: their zeros are unknown, not measured")
        for name in MEASURED:
            if name in _MEMORY or not found[name]:
                found[name] = None
    for name in ("max_rss", "io_in", "io_out"):
        size = found[name]
        if size is not None and size > 1 << 40:
            found[name] = None
            warn(f"values of {name} that cannot be read are left out")
    return found


def _features(record: Mapping[str, Any]) -> dict[str, float] | None:
    sizes = mapping(record.get("input_size_mb"))
    known = [n for n in (_known(value) for value in sizes.values()) if n is not None]
    if not known:
        return None
    return {"input_bytes": sum(known) * _MIB, "input_files": float(len(known))}
