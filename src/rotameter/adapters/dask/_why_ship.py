"""Functions that pickle as text, so that a cluster without rotameter can run them."""

from __future__ import annotations

import importlib.abc
import importlib.util
from functools import cache
from pathlib import Path
from typing import Any

__all__ = ["ByValue", "source_of"]

_EXPRESSION = "(exec(code, scope), scope[name])[1]"


@cache
def source_of(module: str) -> str:
    """Give the source text of a module of ours.

    Raises
    ------
    ImportError
        If this installation holds no source text.

    Examples
    --------
    >>> "def look" in source_of("rotameter.adapters.dask._why_worker")
    True
    """
    spec = importlib.util.find_spec(module)
    loader = spec.loader if spec is not None else None
    text = loader.get_source(module) if isinstance(loader, importlib.abc.InspectLoader) else None
    if text is None and spec is not None and spec.has_location and spec.origin is not None:
        text = Path(spec.origin).read_text(encoding="utf-8")  # a loader that only executes
    if text is None:
        raise ImportError(f"no source text for {module}")
    return text


class ByValue:
    """Becomes the function ``name`` of ``module`` where it is unpickled.

    Examples
    --------
    >>> import pickle
    >>> look = ByValue("rotameter.adapters.dask._why_worker", "process_state")
    >>> pickle.loads(pickle.dumps(look)).__name__
    'process_state'
    """

    def __init__(self, module: str, name: str) -> None:
        self.source = source_of(module)
        self.name = self.__name__ = name

    def __reduce__(self) -> tuple[Any, tuple[str, dict[str, Any]]]:
        scope = {"__name__": "rotameter_why"}
        return eval, (_EXPRESSION, {"code": self.source, "scope": scope, "name": self.name})
