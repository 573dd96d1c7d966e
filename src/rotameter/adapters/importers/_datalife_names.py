"""Names of processes and groups, where DataLife's files give none.

Traces without a task name say which program ran and which files it touched: processes of one
program that went through files of the same kinds are one group, called by its program and its
main output. Digits in file names tell members of a kind apart and are left out.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

__all__ = ["Kind", "groups_of", "split_name", "template"]

_HOSTED = re.compile(r"(.+)\.(\d+-[^/]+)")
_PLAIN = re.compile(r"(.+)\.(\d+)")
_DIGITS = re.compile(r"\d+")
_TOKENS = re.compile(r"[^\W_]+|[\W_]+")
_ALIKE = 4
"""From this many variants of one word of a name on, the word tells members apart, not kinds."""
_MANY_KINDS = 0.5
"""Above this many kinds a process, names of files tell members apart, and only suffixes kinds."""


def split_name(name: str, known: Iterable[str] = ()) -> tuple[str, str | None]:
    """Split ``<file>.<pid>-<host>`` into the file and the process.

    Parameters
    ----------
    name : str
    known : iterable of str
        Processes that are known from their timers; one of these is preferred.

    Examples
    --------
    >>> split_name("a.1.vcf.77-node.local")
    ('a.1.vcf', '77-node.local')
    >>> split_name("a.vcf.77"), split_name("a.vcf")
    (('a.vcf', '77'), ('a.vcf', None))
    """
    known = known if isinstance(known, (set, frozenset, dict)) else set(known)
    at = name.find(".")
    while at >= 0:
        if name[at + 1 :] in known:
            return name[:at], name[at + 1 :]
        at = name.find(".", at + 1)
    match = _HOSTED.fullmatch(name) or _PLAIN.fullmatch(name)
    return (match[1], match[2]) if match else (name, None)


def template(file: str) -> str:
    """Give the kind of a file: its name without folders, digits as ``#``.

    Examples
    --------
    >>> template("/data/chr10n-1-201.tar.gz")
    'chr#n-#-#.tar.gz'
    """
    return _DIGITS.sub("#", file.replace("\\", "/").rpartition("/")[2])


@dataclass(frozen=True, slots=True)
class Kind:
    """What tells groups apart: the program, and the kinds of files that it read and wrote."""

    program: str
    read: frozenset[str]
    written: frozenset[str]


def groups_of(kinds: Mapping[str, Kind], volumes: Mapping[str, Counter[str]]) -> dict[str, str]:
    """Give each process the name of its group.

    Parameters
    ----------
    kinds : mapping of process to Kind
    volumes : mapping of process to Counter
        Bytes (or 0) of each kind of file, by which the main one is chosen.
    """
    families: dict[tuple[str, frozenset[str]], set[Kind]] = defaultdict(set)
    for kind in kinds.values():
        if len(kind.written) == 1:
            families[(kind.program, kind.read)].add(kind)
    merged: dict[Kind, Kind] = {}
    for family in families.values():
        merged.update(_alike(sorted(family, key=lambda kind: sorted(kind.written))))
    shown = _coarser({process: merged.get(kind, kind) for process, kind in kinds.items()})
    volume: dict[Kind, Counter[str]] = defaultdict(Counter)
    for process, kind in shown.items():
        for file, size in volumes.get(process, Counter()).items():
            volume[kind].update({file: size, _suffix(file): size})
    labels = {kind: _label(kind, volume[kind]) for kind in set(shown.values())}
    return {process: labels[kind] for process, kind in shown.items()}


def _coarser(kinds: Mapping[str, Kind]) -> dict[str, Kind]:
    """Go by suffixes for programs whose files have names of letters, nearly a kind a process."""
    members: dict[str, list[str]] = defaultdict(list)
    for process, kind in kinds.items():
        if kind.read or kind.written:
            members[kind.program].append(process)
    out = dict(kinds)
    for processes in members.values():
        different = len({kinds[process] for process in processes})
        if len(processes) >= _ALIKE and different > _MANY_KINDS * len(processes):
            for process in processes:
                kind = kinds[process]
                sides = (frozenset(map(_suffix, side)) for side in (kind.read, kind.written))
                out[process] = Kind(kind.program, *sides)
    return out


def _suffix(file: str) -> str:
    return "*" + file[file.find(".") :] if "." in file else "*"


def _alike(family: Sequence[Kind]) -> dict[Kind, Kind]:
    """Merge kinds whose one output differs in one word that takes many values."""
    shapes: dict[tuple[str, ...], list[Kind]] = defaultdict(list)
    for kind in family:
        tokens = _TOKENS.findall(next(iter(kind.written)))
        for place, token in enumerate(tokens):
            if token[0].isalpha():
                shapes[(*tokens[:place], "*", *tokens[place + 1 :])].append(kind)
    merged: dict[Kind, Kind] = {}
    for shape, kinds in sorted(shapes.items(), key=lambda item: (-len(item[1]), item[0])):
        free = [kind for kind in kinds if kind not in merged]
        if len(free) >= _ALIKE:
            one = Kind(free[0].program, free[0].read, frozenset(("".join(shape),)))
            merged.update(dict.fromkeys(free, one))
    return merged


def _label(kind: Kind, volume: Counter[str]) -> str:
    """Call a group by its program and its main output, or its main input where it wrote none."""
    for side, sign in ((kind.written, ">"), (kind.read, "<")):
        if side:
            main = min(side, key=lambda file: (-volume[file], file))
            return f"{kind.program} {sign} {main}"
    return kind.program
