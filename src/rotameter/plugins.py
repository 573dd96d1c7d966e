"""Find plug-ins by kind and name; ours are registered exactly like anyone's."""

from __future__ import annotations

import difflib
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from rotameter import protocols
from rotameter.errors import BadPlugin, UnknownPlugin

__all__ = ["KINDS", "get", "names", "register"]

KINDS: dict[str, type | None] = {
    "probes": protocols.Probe,
    "allocators": protocols.Allocator,
    "forecasters": protocols.Forecaster,
    "detectors": protocols.Detector,
    "policies": protocols.Policy,
    "advisors": protocols.Advisor,
    "importers": protocols.Importer,
    "exporters": protocols.Exporter,
    "stores": protocols.BlobStore,
}
"""Kind → the interface that a plug-in of this kind offers."""

_registered: dict[tuple[str, str], Any] = {}


@cache
def _entries(kind: str) -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=f"rotameter.{kind}")}


def names(kind: str) -> list[str]:
    """List the known plug-ins of a kind, sorted.

    Examples
    --------
    >>> "tiny_tasks" in names("advisors")
    True
    """
    own = [name for k, name in _registered if k == kind]
    return sorted({*_entries(kind), *own})


def register(kind: str, name: str, plugin: Any) -> None:
    """Add a plug-in for this process only, in front of any installed one of the same name."""
    if kind not in KINDS:
        raise UnknownPlugin(f"no plug-in kind {kind!r}", hint=f"known: {', '.join(KINDS)}")
    _check(kind, name, plugin)
    _registered[kind, name] = plugin


def get(kind: str, name: str) -> Any:
    """Load the class of a plug-in and check that it is of its kind.

    Raises
    ------
    UnknownPlugin
        If there is none of that name; the message lists the known ones and the nearest match.
    BadPlugin
        If it cannot be imported, or lacks a method of its interface.
    """
    if (kind, name) in _registered:
        return _registered[kind, name]
    entry = _entries(kind).get(name)
    if entry is None:
        known = names(kind)
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise UnknownPlugin(
            f"no {kind.removesuffix('s')} named {name!r}",
            hint=f"{hint}known: {', '.join(known) or 'none'}",
        )
    try:
        plugin = entry.load()
    except Exception as error:
        raise BadPlugin(
            f"{kind} plug-in {name!r} ({entry.value}) cannot be loaded: {error}",
            hint="reinstall or remove the package that brings it",
        ) from error
    _check(kind, name, plugin)
    return plugin


def _check(kind: str, name: str, plugin: Any) -> None:
    wanted = [
        attribute
        for attribute in vars(KINDS[kind] or object)
        if not attribute.startswith("_") and callable(getattr(KINDS[kind], attribute))
    ]
    lacking = [m for m in wanted if not callable(getattr(plugin, m, None))]
    if lacking:
        raise BadPlugin(
            f"{kind} plug-in {name!r} has no {lacking[0]}()",
            hint="see rotameter.protocols for the interface, rotameter.testing to check it",
        )
