"""Which column of a table is which of ours: given, shipped, saved, or well known."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping as Mapped
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from rotameter.adapters.importers._table_names import (
    UNITS,
    header_unit,
    kind_of,
    says_unit,
    target_of,
    well_known,
    words,
)
from rotameter.errors import UsageError
from rotameter.profiler.schema import KINDS, OUTCOMES, TABLES

__all__ = ["Candidate", "Mapping", "candidate", "known_mappings", "load_mapping", "plan"]

_LIMIT_BYTES = 1 << 20
_NEAR = 0.7  # how alike two names are of which one may be meant for the other
_TASK_COLUMNS = frozenset(name for name, _ in TABLES["tasks"])
_KEYS = frozenset(
    words("rotameter_mapping name engine about detect columns states exits exit_coding peak_kind")
)
_FITS = {
    "time": ("seconds",),
    "seconds": ("seconds", "share"),
    "bytes": ("bytes", "text"),
    "number": ("count", "share", "seconds", "bytes", "joules"),
    "int": ("from", "count"),
}
_EXAMPLES = {
    "time": "s, ms, us, ns, d, or a pattern such as %d/%m/%Y %H:%M:%S",
    "seconds": "s, ms, us, ns, min, h, d, or % for CPU",
    "bytes": "B, kB, MB, GB, KiB, MiB, GiB, binary, decimal",
    "number": "milli, %",
    "int": "0 for counts that begin at 0",
}


@dataclass(frozen=True)
class Candidate:
    """Columns (joined, or added) that give a value, their unit, and who said the unit."""

    names: tuple[str, ...]
    unit: str | None = None
    stated: bool = False
    constant: str | None = None


@dataclass(frozen=True)
class Mapping:
    """A table's columns by target, with what its states and exit codes mean."""

    name: str = "table"
    engine: str = "table"
    columns: Mapped[str, tuple[str, ...]] = field(default_factory=dict)
    states: Mapped[str, str] = field(default_factory=dict)
    exits: Mapped[str, str] = field(default_factory=dict)
    exit_coding: str | None = None
    peak_kind: str = "sampled"
    detect: tuple[tuple[str, ...], ...] = ()

    def knows(self, headers: frozenset[str]) -> bool:
        """Whether a table with these columns is one of this mapping's."""
        return any(all(name in headers for name in group) for group in self.detect)

    def with_given(self, given: Sequence[str]) -> Mapping:
        """Add what the user said; theirs goes first."""
        columns = dict(self.columns)
        for text in given:
            target, source = _assignment(text)
            columns[target] = (source,) if source else ()
        return Mapping(**{**self.__dict__, "columns": columns})

    def to_json(self) -> str:
        """Write the mapping as a file that ``--opt mapping=`` takes."""
        document = {
            "rotameter_mapping": 1,
            "name": self.name,
            "engine": self.engine,
            "columns": {target: list(sources) for target, sources in self.columns.items()},
            "states": dict(self.states),
            "exits": dict(self.exits),
            "exit_coding": self.exit_coding,
            "peak_kind": self.peak_kind,
        }
        return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def _assignment(text: str) -> tuple[str, str]:
    word, equals, source = text.partition("=")
    target = target_of(word.strip())
    if not equals or not word.strip():
        raise UsageError(f"--map {text!r}: not COLUMN=NAME", hint="such as --map start=begin_time")
    if target is None:
        known = words("start end submit wall cpu peak request group id")
        known += words("state exit cores user host queue read write limit")
        near = difflib.get_close_matches(word, [*known, *sorted(_TASK_COLUMNS)], 1, _NEAR)
        start = f"did you mean {near[0]!r}? " if near else ""
        raise UsageError(
            f"--map {text!r}: {word.strip()!r} is no column of ours",
            hint=f"{start}known: {', '.join(known)}, feature.NAME, and the schema's names",
        )
    return target, source.strip()


# -- files of mappings ------------------------------------------------------------------------


@cache
def known_mappings() -> dict[str, Mapping]:
    """Give the mappings that come with rotameter, by name.

    Examples
    --------
    >>> {"pbs", "lsf", "htcondor", "sge", "airflow", "prefect", "ray"} <= set(known_mappings())
    True
    """
    found = {}
    folder = resources.files("rotameter.adapters.importers").joinpath("mappings")
    for entry in sorted(folder.iterdir(), key=lambda e: e.name):
        if entry.name.endswith(".json"):
            name = entry.name.removesuffix(".json")
            found[name] = _checked(json.loads(entry.read_text(encoding="utf-8")), name)
    return found


def load_mapping(text: str) -> Mapping:
    """Give the mapping of a name, or of a file.

    Raises
    ------
    UsageError
        If there is none, or the file is no mapping; the message says where.
    """
    if text in known_mappings():
        return known_mappings()[text]
    path = Path(text).expanduser()
    if not path.is_file():
        raise UsageError(
            f"no mapping {text!r}",
            hint=f"known: {', '.join(known_mappings())}; or the path of a mapping's file",
        )
    try:
        if path.stat().st_size > _LIMIT_BYTES:
            raise ValueError("larger than 1 MiB")
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(
            f"{text} is not a mapping: {error}", hint='{"columns": {"started_ns": "begin"}}'
        ) from None
    return _checked(document, text)


def _checked(document: Any, where: str) -> Mapping:
    def wrong(what: str) -> UsageError:
        """Make the refusal."""
        return UsageError(f"mapping {where}: {what}", hint="see the reference page of tables")

    if not isinstance(document, dict) or not isinstance(document.get("columns"), dict):
        raise wrong("it has no columns")
    if unknown := set(document) - _KEYS:
        raise wrong(f"{sorted(unknown)[0]!r} is no key of a mapping")
    columns = {}
    for word, sources in document["columns"].items():
        target = target_of(word)
        if target is None:
            raise wrong(f"{word!r} is no column of ours")
        listed = [sources] if isinstance(sources, str) else sources
        if not isinstance(listed, list) or not all(isinstance(s, str) for s in listed):
            raise wrong(f"{word!r} needs a name or a list of names")
        columns[target] = tuple(listed)
    tables = []
    for key in ("states", "exits"):
        table = document.get(key) or {}
        if not isinstance(table, dict) or any(v not in OUTCOMES for v in table.values()):
            raise wrong(f"{key}: outcomes are {', '.join(OUTCOMES)}")
        tables.append({str(k).casefold(): v for k, v in table.items()})
    coding, kind = document.get("exit_coding"), document.get("peak_kind", "sampled")
    if coding not in (None, "pbs", "wait", "shell") or kind not in KINDS:
        raise wrong("exit_coding is pbs, wait or shell; peak_kind is a kind of the schema")
    detect = document.get("detect") or []
    if not isinstance(detect, list) or not all(isinstance(group, list) for group in detect):
        raise wrong("detect is a list of lists of columns")
    return Mapping(
        name=str(document.get("name", "table")),
        engine=str(document.get("engine", "table")),
        columns=columns,
        states=tables[0],
        exits=tables[1],
        exit_coding=coding,
        peak_kind=kind,
        detect=tuple(tuple(map(str, group)) for group in detect),
    )


# -- from a mapping to the columns of one table -----------------------------------------------


def candidate(text: str, target: str, headers: Mapped[str, str]) -> Candidate | None:
    """Read ``column[+column][:unit]`` against a table's columns; None where one is absent.

    Parameters
    ----------
    text : str
        What the mapping says.
    target : str
        The column of ours.
    headers : mapping
        Each of the table's names, and the same in small letters → its name.

    Raises
    ------
    UsageError
        If the unit is none, or none for this target.
    """
    if len(text) >= 2 and text[0] == text[-1] == "'":
        return Candidate((), constant=text[1:-1])
    splits = [(text, "")]
    at = text.find(":")
    while at >= 0:
        splits.append((text[:at], text[at + 1 :]))
        at = text.find(":", at + 1)
    for name, unit in splits:
        names = _names(name, headers)
        if names is None:
            continue
        if unit:
            return Candidate(names, _unit(unit, target, text), stated=True)
        guessed = header_unit(names[0])[1]
        kind = kind_of(target)
        if guessed is not None and (
            UNITS[guessed][0] not in _FITS.get(kind, ()) or not says_unit(names[0], guessed, kind)
        ):
            guessed = None
        return Candidate(names, guessed)
    return None


def _names(text: str, headers: Mapped[str, str]) -> tuple[str, ...] | None:
    for parts in ([text], text.split("+")):
        found = [headers.get(part.strip(), headers.get(part.strip().lower())) for part in parts]
        if parts and all(found):
            return tuple(str(name) for name in found)
    return None


def _unit(text: str, target: str, given: str) -> str:
    kind = kind_of(target)
    if kind == "time" and "%" in text:
        return text
    unit = text.strip().lower()
    if unit not in UNITS or UNITS[unit][0] not in _FITS.get(kind, ()):
        raise UsageError(
            f"{given!r}: {text!r} is no unit for {target}",
            hint=f"units: {_EXAMPLES.get(kind, 'none for this column')}",
        )
    return unit


def plan(
    mapping: Mapping, headers: Sequence[str], given: frozenset[str], *, auto: bool
) -> dict[str, tuple[Candidate, ...]]:
    """Give the candidates of each target in one table, the first to be asked first.

    Parameters
    ----------
    mapping : Mapping
        What is used.
    headers : sequence of str
        The table's columns.
    given : frozenset of str
        Targets that the user named: their columns must be there.
    auto : bool
        Whether well-known names are taken where the mapping says nothing.
    """
    lookup = {name.lower(): name for name in reversed(headers)}
    lookup.update({name: name for name in headers})
    found: dict[str, tuple[Candidate, ...]] = {}
    for target, sources in mapping.columns.items():
        made = [candidate(text, target, lookup) for text in sources]
        there = tuple(one for one in made if one is not None)
        if sources and not there and target in given:
            near = difflib.get_close_matches(sources[0].partition(":")[0], headers, 1, _NEAR)
            start = f"did you mean {near[0]!r}? " if near else ""
            shown = ", ".join(headers[:40]) + (" …" if len(headers) > 40 else "")
            raise UsageError(
                f"no column {sources[0]!r} for {target}", hint=f"{start}its columns: {shown}"
            )
        if there or not sources:
            found[target] = there
    if auto:
        used = {name for made in found.values() for one in made for name in one.names}
        for target, (header, unit) in well_known(tuple(headers)).items():
            if target not in found and header not in used:
                found[target] = (Candidate((header,), unit),)
    return {target: made for target, made in found.items() if made}
