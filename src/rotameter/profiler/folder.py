"""The plain half of a trace folder: ``meta.json``, read and replaced with the standard library.

Kept apart from the store, so that a traced program need not load Arrow to say how it ended.
"""

from __future__ import annotations

import json
import os
import platform
import sys
from pathlib import Path
from typing import Any

from rotameter.profiler.live.redact import first_line, redact_command

__all__ = [
    "DECISIONS",
    "META",
    "free_name",
    "outcome_of",
    "read_meta",
    "run_facts",
    "update_meta",
    "write_meta",
]

META = "meta.json"
DECISIONS = "decisions.json"
"""Predictions of a diagnosis, beside the tables."""
_TYPES: dict[str, type | tuple[type, ...]] = {
    "run": dict,
    "outcome": dict,
    "versions": dict,
    "overhead": dict,
    "rows": dict,
    "levels": dict,
    "scale": dict,
    "warnings": list,
    "machines": list,
    "not_measured": list,
    "processes": list,
    "command": list,
    "compacted": list,
    "segments": int,
    "records": int,
    "dropped": int,
    "dropped_unsaid": int,
    "faults": int,
    "first_fault": str,
}


def write_meta(folder: Path, meta: dict[str, Any]) -> None:
    """Replace ``meta.json`` atomically; readable by its owner only.

    Raises
    ------
    OSError
        If it cannot be written.
    """
    temporary = folder / f"{META}.tmp-{os.getpid()}"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as out:
        json.dump(meta, out, indent=1, sort_keys=True, default=str)
    temporary.replace(folder / META)


def read_meta(folder: Path) -> dict[str, Any]:
    """Read ``meta.json``: empty when it is missing or torn, less what has a wrong type."""
    try:
        meta = json.loads((folder / META).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    if not isinstance(meta, dict):
        return {}
    return {key: value for key, value in meta.items() if _fits(key, value)}


def _fits(key: str, value: Any) -> bool:
    wanted = _TYPES.get(key)
    parts: Any = value
    if wanted is None:
        return True
    if isinstance(value, bool) or not isinstance(value, wanted):
        return False
    if key == "machines":
        return all(isinstance(item, dict) for item in parts)
    if key == "overhead":
        return all(isinstance(item, (int, float)) for item in parts.values())
    return True


def update_meta(folder: Path, **facts: Any) -> None:
    """Add facts to ``meta.json``, atomically."""
    write_meta(folder, {**read_meta(folder), **facts})


def free_name(path: Path) -> Path:
    """Give ``path``, or the first of ``NAME-2.rmt``, ``NAME-3.rmt`` … that does not exist."""
    number, candidate = 2, path
    while candidate.exists():
        candidate = path.with_name(f"{path.stem}-{number}{path.suffix}")
        number += 1
    return candidate


def run_facts() -> dict[str, Any]:
    """Facts of this program for the metadata of a trace."""
    from rotameter import __version__

    return {
        "command": redact_command(sys.argv),
        "versions": {"python": platform.python_version(), "rotameter": __version__},
    }


def outcome_of(error: BaseException | None, keep_errors: bool = False) -> dict[str, Any]:
    """Describe how a program ended, by the exception that ended it."""
    if error is None:
        return {"status": "ok", "exit_code": 0}
    if isinstance(error, SystemExit):
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
        return {"status": "failed" if code else "ok", "exit_code": code}
    if isinstance(error, KeyboardInterrupt):
        return {"status": "interrupted", "error": "KeyboardInterrupt", "exit_code": 130}
    return {"status": "failed", "error": first_line(error, keep=keep_errors), "exit_code": 1}
