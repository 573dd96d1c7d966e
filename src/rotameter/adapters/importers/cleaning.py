"""Secrets taken out of imported tables, in one place for all formats.

Names, paths and command lines of other tools may carry passwords and keys. What may hold one is
found by a fast pattern over whole columns; only those values go through
:func:`rotameter.profiler.live.redact.redact`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rotameter.profiler.live.redact import redact

__all__ = ["clean_meta", "clean_tables"]

_WORDS = "pass|pwd|pw|secret|token|key|auth|bearer|basic|credential|cookie|sig|sas|pin|session"
_SUSPECT = (
    rf"(?i)(?:{_WORDS})[a-z0-9_.\-]{{0,30}}[\"']?\s{{0,3}}(?:=|:|\s)"
    r"|://\S*[@?#]|(?:AKIA|ASIA|AGPA|AIDA|AROA|ANPA)[A-Z0-9]{12}|gh[pousr]_|github_pat_|glpat-"
    r"|\b[sprk]k[-_]|xox[abeoprs]-|AIza|ya29\.|\bhf_|\bnpm_|pypi-|dop_v1_|\bSG\.|eyJ|-----BEGIN"
)
# Different names must stay different, or rows of several tasks become one.
_IDENTITIES = frozenset(
    [
        "task_id",
        "parent",
        "run_id",
        "depends_on",
        "object",
        "worker",
        "host",
        "subject",
        "peer",
        "group",
        "lane",
    ]
)
_OURS = frozenset(
    [
        "outcome",
        "outcome_kind",
        "peak_memory_kind",
        "peak_disk_kind",
        "io_kind",
        "gpu_kind",
        "energy_meter",
        "energy_quality",
        "source",
        "medium",
        "op",
        "kind",
        "quality",
        "metric",
    ]
)


def clean_tables(tables: Mapping[str, pa.Table]) -> tuple[dict[str, pa.Table], int]:
    """Take what looks like a secret out of all text columns.

    Returns
    -------
    tuple of (dict of str to pyarrow.Table, int)
        The tables, and how many values were changed.

    Examples
    --------
    >>> table = pa.table({"task_id": ["a", "run --password=hunter2"]})
    >>> cleaned, changed = clean_tables({"tasks": table})
    >>> changed, "hunter2" in str(cleaned["tasks"])
    (1, False)
    """
    out, changed = {}, 0
    for name, table in tables.items():
        for at, field in enumerate(table.schema):
            ours = field.name in _OURS and (name, field.name) != ("rejects", "source")
            if not pa.types.is_string(field.type) or ours:
                continue
            column, count = _cleaned(table.column(at), identity=field.name in _IDENTITIES)
            if count:
                table, changed = table.set_column(at, field, column), changed + count
        out[name] = table
    return out, changed


def _cleaned(column: pa.ChunkedArray, *, identity: bool) -> tuple[Any, int]:
    if column.null_count == len(column):
        return column, 0
    found = pc.fill_null(pc.match_substring_regex(column, _SUSPECT), False)
    if not pc.any(found).as_py():
        return column, 0
    known: dict[str, str] = {}
    values = column.filter(found).to_pylist()
    for value in dict.fromkeys(values):
        clean = redact(value)
        if clean != value and identity:
            digest = hashlib.sha256(value.encode("utf-8", "replace")).hexdigest()[:12]
            clean = f"{clean}#{digest}"
        known[value] = clean
    changed = sum(known[value] != value for value in values)
    if not changed:
        return column, 0
    new = pa.array([known[value] for value in values], pa.string())
    whole = column.combine_chunks()
    whole = whole if isinstance(whole, pa.Array) else pa.concat_arrays(whole.chunks)
    mask = found.combine_chunks()
    mask = mask if isinstance(mask, pa.Array) else pa.concat_arrays(mask.chunks)
    return pa.chunked_array([pc.replace_with_mask(whole, mask, new)]), changed


def clean_meta(value: Any) -> Any:
    """Do the same for the texts of a trace's metadata.

    Examples
    --------
    >>> clean_meta({"command": ["run", "--token=abcdef123456"]})
    {'command': ['run', '--token=[redacted]']}
    """
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, dict):
        return {clean_meta(key): clean_meta(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [clean_meta(item) for item in value]
    return value
