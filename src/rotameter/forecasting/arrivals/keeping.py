"""State as plain data, so that a forecaster that was stored goes on bit for bit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np

__all__ = ["Kept", "dump", "load"]


def dump(value: Any) -> Any:
    """Turn a value into what JSON can hold.

    Examples
    --------
    >>> dump(np.array([[1.5, 2.0]]))
    {'array': '<f8', 'shape': [1, 2], 'data': [1.5, 2.0]}
    """
    if isinstance(value, np.ndarray):
        return {
            "array": value.dtype.str,
            "shape": list(value.shape),
            "data": value.ravel().tolist(),
        }
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, (list, tuple)):
        return [dump(one) for one in value]
    return value


def load(value: Any) -> Any:
    """Undo :func:`dump`; sequences come back as lists."""
    if isinstance(value, Mapping) and "array" in value:
        flat = np.array(value["data"], dtype=np.dtype(value["array"]))
        return flat.reshape(value["shape"])
    if isinstance(value, list):
        return [load(one) for one in value]
    return value


class Kept:
    """A part of a forecaster that can be stored.

    A subclass names its settings (arguments of its constructor, kept under the same name), the
    values that it learns, and its parts that are kept themselves.
    """

    SETTINGS: ClassVar[tuple[str, ...]] = ()
    LEARNT: ClassVar[tuple[str, ...]] = ()
    PARTS: ClassVar[tuple[str, ...]] = ()

    def state(self) -> dict[str, Any]:
        """Give all of it as plain data."""
        made: dict[str, Any] = {name: dump(getattr(self, name)) for name in self.SETTINGS}
        made.update({name: dump(getattr(self, name)) for name in self.LEARNT})
        for name in self.PARTS:
            part = getattr(self, name)
            made[name] = [p.state() for p in part] if isinstance(part, list) else part.state()
        return made

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Make one from :meth:`state`; it goes on bit for bit."""
        made = cls(**{name: load(state[name]) for name in cls.SETTINGS})
        made.restore(state)
        return made

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take what was learnt; the settings must be the same."""
        for name in self.LEARNT:
            setattr(self, name, load(state[name]))
        for name in self.PARTS:
            part = getattr(self, name)
            if isinstance(part, list):
                for one, its in zip(part, state[name], strict=True):
                    one.restore(its)
            else:
                part.restore(state[name])
