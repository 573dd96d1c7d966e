"""The predictions of a recorded trace, kept beside its tables: ``NAME.rmt/tables/decisions.json``.

A read command must not change what was recorded: the tables stay as they are, and this file
beside them is a cache of what a diagnosis said, with the version that said it. It is written only
into a closed trace that rotameter recorded; it goes when the tables are written anew; the same
predictions are not written twice; and where it is missing, they are made again from the trace.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rotameter.profiler.comparing.predictions import Prediction, from_rows, to_rows
from rotameter.profiler.folder import DECISIONS, read_meta

__all__ = ["FILE", "read_predictions", "store_predictions"]

FILE = DECISIONS
SCHEMA = 1
_TABLES = "tables"


def store_predictions(
    folder: str | Path, predictions: Sequence[Prediction], at_ns: int | None = None
) -> bool:
    """Keep predictions with a recorded trace.

    Parameters
    ----------
    folder : path
        What the user gave; anything but a closed trace recorded by rotameter is left alone.
    predictions : sequence of Prediction
    at_ns : int or None
        The end of the run.

    Returns
    -------
    bool
        Whether something was written. What cannot be written is no error.

    Examples
    --------
    >>> store_predictions("/no/such/place.rmt", [])
    False
    """
    place = Path(folder) / _TABLES
    if not place.is_dir() or read_meta(Path(folder)).get("origin") != "recorded":
        return False
    if not predictions and not (place / FILE).exists():
        return False
    text = json.dumps(
        {"schema": SCHEMA, "decisions": to_rows(predictions, at_ns)},
        indent=1,
        ensure_ascii=False,
        allow_nan=False,
    )
    try:
        if (place / FILE).exists() and (place / FILE).read_text(encoding="utf-8") == text:
            return False
        _replace(place / FILE, text)
    except (OSError, ValueError):
        return False
    return True


def _replace(path: Path, text: str) -> None:
    """Write a file whole or not at all, readable by its owner only."""
    temporary = path.with_name(f"{path.name}.tmp-{os.getpid()}")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as out:
            out.write(text)
            out.flush()
            os.fsync(out.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def read_predictions(folder: str | Path) -> list[Prediction] | None:
    """Read the predictions kept with a trace; None where there are none that can be read.

    Examples
    --------
    >>> read_predictions("/no/such/place.rmt") is None
    True
    """
    try:
        kept: Any = json.loads((Path(folder) / _TABLES / FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if not isinstance(kept, dict) or kept.get("schema") != SCHEMA:
        return None
    rows = kept.get("decisions")
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        return None
    return from_rows(rows)
