"""What ran the tasks of a trace: advice is in its terms."""

from __future__ import annotations

from typing import Any

__all__ = ["is_dask", "local_dask", "plain_python"]


def is_dask(meta: dict[str, Any]) -> bool:
    """Say whether Dask ran the tasks, so that advice in its terms helps."""
    return meta.get("engine") == "dask"


def local_dask(meta: dict[str, Any]) -> str | None:
    """Give which of Dask's schedulers without a cluster ran the tasks; None where none did.

    Examples
    --------
    >>> local_dask({"engine": "python", "dask_local": "threads"}), local_dask({})
    ('threads', None)
    """
    said = meta.get("dask_local")
    return said if isinstance(said, str) and plain_python(meta) else None


def plain_python(meta: dict[str, Any]) -> bool:
    """Say whether a Python program without an engine ran the tasks.

    Examples
    --------
    >>> plain_python({"engine": "python"}), plain_python({"engine": "dask"})
    (True, False)
    """
    engine = meta.get("engine")
    return engine == "python" or (engine is None and meta.get("origin") == "recorded")
