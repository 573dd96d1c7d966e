"""Read a table of storage bandwidths (IOR and copy measurements) from a CSV file.

The columns are those of the SPM project's table (``operation, transferSize,
aggregateFilesizeMB, numTasks, numNodes, tasksPerNode, trMiB, storageType``) or synonyms. Their
``aggregateFilesizeMB`` is MiB: it equals ``trMiB`` × ``totalTime`` in the rows that have a time.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from rotameter.errors import BadInput
from rotameter.profiler.storing.table import MIB, BandwidthTable

__all__ = ["read_bandwidths"]

_UNITS = {"b": 1.0, "bytes": 1.0, "kb": 1e3, "gb": 1e9, "tb": 1e12, "kib": 2.0**10, "mib": MIB}
_UNITS |= {"gib": 2.0**30, "tib": 2.0**40}
# Column → (what it is, factor to bytes, MiB/s, …). Letters and digits only, lower case.
_RATE = {"trmib": 1.0, "bwmib": 1.0, "mibs": 1.0, "bandwidthmib": 1.0, "bandwidthmibs": 1.0}
_RATE |= {"ratemibs": 1.0, "bandwidth": 1.0, "bw": 1.0, "bwmibs": 1.0, "trmibs": 1.0}
_RATE |= {
    "bwmbs": 1e6 / MIB,
    "mbs": 1e6 / MIB,
    "bandwidthmbs": 1e6 / MIB,
    "bwmb": 1e6 / MIB,
    "gibs": 1024.0,
}
_WORDS = {
    "op": ("operation", "op", "access", "mode"),
    "store": ("storagetype", "storage", "store", "filesystem", "fs", "tier"),
    "nodes": ("numnodes", "nodes", "nnodes", "nodecount"),
    "tasks": ("numtasks", "tasks", "ntasks", "nprocs", "processes", "ranks", "clients"),
    "per_node": ("taskspernode", "ppn", "tpn", "clientspernode", "procspernode"),
}
_SIZES = {
    "transfer": ("transfersize", "xfersize", "transfer", "tsize", "iosize", "requestsize"),
    "size": ("aggregatefilesize", "aggsize", "filesize", "size", "totalsize", "aggregatesize"),
}
_OPS = {"0": "write", "1": "read", "w": "write", "r": "read", "0.0": "write", "1.0": "read"}
_QUANTITY = re.compile(r"\s*([\d.eE+-]+)\s*([kmgt]?i?b?)\s*$", re.I)


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _columns(header: list[str]) -> dict[str, tuple[str, float]]:
    """Map what we need to (column, factor)."""
    plain = {_plain(name): name for name in header if name}
    found: dict[str, tuple[str, float]] = {}
    for target, words in _WORDS.items():
        for word in words:
            if word in plain and target not in found:
                found[target] = (plain[word], 1.0)
    for target, words in _SIZES.items():
        for word in words:
            # "MB" of these tables is MiB, see the module's text.
            for ending, factor in {"": 1.0, "mb": MIB, **_UNITS}.items():
                if word + ending in plain and target not in found:
                    found[target] = (plain[word + ending], factor)
    for word, factor in _RATE.items():
        if word in plain and "rate" not in found:
            found["rate"] = (plain[word], factor)
    return found


def _number(text: str | None) -> float:
    """Read a number, with a binary unit as IOR writes them (``1m``, ``4 KiB``); NaN if none."""
    match = _QUANTITY.match(text or "")
    if not match:
        return math.nan
    try:
        value = float(match[1])
    except ValueError:
        return math.nan
    power = " kmgt".find(match[2][:1].lower()) if match[2][:1].lower() in "kmgt" else 0
    return value * 1024.0 ** max(power, 0)


def _get(row: Mapping[str, str], columns: dict[str, tuple[str, float]], name: str) -> float:
    if name not in columns:
        return math.nan
    column, factor = columns[name]
    value = _number(row.get(column)) * factor
    return value if math.isfinite(value) and value > 0 else math.nan


def _store_name(text: str) -> str:
    return text[:-2] if re.fullmatch(r"\d+\.0", text) else text


def read_bandwidths(path: str | Path) -> BandwidthTable:
    """Read a CSV table of bandwidths.

    A row without operation, store or a rate above 0 is refused and counted in ``rejects``.

    Parameters
    ----------
    path : path
        The CSV file; the separator may be a comma, a semicolon or a tab.

    Raises
    ------
    BadInput
        If it cannot be read, lacks a needed column, or has no usable row.
    """
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8-sig", errors="replace").replace("\0", "")
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise BadInput(
            f"cannot read the bandwidth table {path}: {reason}", hint="check the path"
        ) from error
    first = text.split("\n", 1)[0]
    separator = max(",;\t", key=first.count)
    reader = csv.DictReader(text.splitlines(), delimiter=separator)
    try:
        columns = _columns(list(reader.fieldnames or []))
        if missing := [name for name in ("op", "store", "rate") if name not in columns]:
            raise BadInput(
                f"{path} is no bandwidth table: it has no column for {', '.join(missing)}",
                hint="columns: operation, storageType, transferSize (bytes), "
                "aggregateFilesizeMB (MiB), numNodes, numTasks or tasksPerNode, trMiB",
            )
        return _table(reader, columns)
    except csv.Error as error:
        raise BadInput(f"{path} is no CSV file: {error}") from error


def _table(reader: csv.DictReader[str], columns: dict[str, tuple[str, float]]) -> BandwidthTable:
    ops, stores, dims, rates, rejects = [], [], [], [], []
    for row in reader:
        op = (row.get(columns["op"][0]) or "").strip().lower()
        store = _store_name((row.get(columns["store"][0]) or "").strip())
        rate = _get(row, columns, "rate")
        lacking = [
            n for n, ok in (("operation", op), ("store", store), ("rate", rate > 0)) if not ok
        ]
        if lacking:
            rejects.append(f"line {reader.line_num}: no {', '.join(lacking)}")
            continue
        nodes, tasks = _get(row, columns, "nodes"), _get(row, columns, "tasks")
        if math.isnan(tasks):
            tasks = nodes * _get(row, columns, "per_node")
        ops.append(_OPS.get(op, op))
        stores.append(store)
        dims.append((_get(row, columns, "transfer"), _get(row, columns, "size"), nodes, tasks))
        rates.append(rate)
    return BandwidthTable(
        tuple(ops),
        tuple(stores),
        np.array(dims, dtype=np.float64).reshape(-1, 4),
        np.array(rates, dtype=np.float64),
        tuple(rejects),
    )
