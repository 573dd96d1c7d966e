"""The metadata of a trace, put together from its folder and from each segment's own facts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["merge_segment_metas"]


def _append_new(items: list[Any], new: Sequence[Any]) -> None:
    for item in new:
        if item not in items:
            items.append(item)


def merge_segment_metas(
    folder_meta: Mapping[str, Any], metas: Sequence[Any], tables: Mapping[str, pa.Table]
) -> dict[str, Any]:
    """Join the facts of a folder and of its segments.

    Parameters
    ----------
    folder_meta : mapping
        What ``meta.json`` says.
    metas : sequence of mapping
        The ``meta`` records of all segments: a head each, and an end where it was closed.
    tables : mapping of str to pyarrow.Table
        Used to count records and drops.

    Examples
    --------
    >>> meta = merge_segment_metas({}, [{"role": "client", "host": "a", "cores": 2}], {})
    >>> meta["machines"]
    [{'host': 'a', 'cores': 2, 'memory_bytes': None, 'system': None}]
    """
    merged = dict(folder_meta)
    machines: list[Any] = list(merged.get("machines") or [])
    not_measured: list[Any] = list(merged.get("not_measured") or [])
    processes: list[Any] = list(merged.get("processes") or [])
    versions: dict[str, Any] = dict(merged.get("versions") or {})
    overhead: dict[str, float] = dict(merged.get("overhead") or {})
    for meta in metas:
        if not isinstance(meta, Mapping):
            continue
        _add_costs(overhead, meta)
        _add_costs(overhead, meta.get("overhead"))
        if isinstance(meta.get("faults"), int):
            merged["faults"] = merged.get("faults", 0) + meta["faults"]
            if meta["faults"] and isinstance(meta.get("first_fault"), str):
                merged.setdefault("first_fault", meta["first_fault"])
        if meta.get("host"):
            facts = ("host", "cores", "memory_bytes", "system")
            known = {m.get("host") for m in machines}
            if meta["host"] not in known:
                machines.append({k: meta.get(k) for k in facts})
        if isinstance(meta.get("versions"), Mapping):
            versions.update(meta["versions"])
        if isinstance(meta.get("not_measured"), Sequence):
            _append_new(not_measured, meta["not_measured"])
        if meta.get("engine"):
            merged["engine"] = meta["engine"]
        local = meta.get("dask_local")
        if isinstance(local, str) and (local != "unknown" or "dask_local" not in merged):
            merged["dask_local"] = local
        if meta.get("role"):
            _append_new(processes, [{k: meta.get(k) for k in ("role", "host", "pid", "worker")}])
    merged.update(
        machines=machines,
        not_measured=not_measured,
        processes=processes,
        versions=versions,
        overhead=overhead,
    )
    merged["records"] = sum(len(t) for t in tables.values())
    merged["dropped"] = _dropped(tables) + int(merged.get("dropped_unsaid") or 0)
    return merged


def _add_costs(overhead: dict[str, float], said: Any) -> None:
    for key in ("encode_s", "probe_s", "files_s"):
        value = said.get(key) if isinstance(said, Mapping) else None
        if isinstance(value, (int, float)):
            overhead[key] = overhead.get(key, 0.0) + value


def _dropped(tables: Mapping[str, pa.Table]) -> int:
    events = tables.get("events")
    if events is None or not len(events):
        return 0
    counts = events.filter(pc.equal(events["kind"], "records_dropped"))["count"]
    return int(pc.sum(counts).as_py() or 0)
