"""What a benchmark file's name tells: its rule, and what tells it from others."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from rotameter.profiler.live.redact import redact

__all__ = ["WAYS", "clean", "distinct", "guess"]

WAYS = ("auto", "folder", "first", "last", "stem")
"""How a rule's name lies in a file's name: folder, first or last part, or all of it."""

_ENDINGS = re.compile(
    r"(?:\.(?:tsv|txt|jsonl|json|csv|benchmarks?|bench|gz|bz2|xz|zip)|[._-]bench(?:mark)?s?)+$",
    re.I,
)
_PARTS = re.compile(r"[._-]+")
_PLAIN = frozenset(
    ("benchmark", "benchmarks", "bench", "log", "logs", "results", "output", "out", "tmp", "")
)


def clean(name: str) -> str:
    r"""Give a benchmark file's name without folders and endings.

    Examples
    --------
    >>> clean("bench/align.s1.benchmark.txt"), clean("C:\\runs\\sort.tsv.gz"), clean(".tsv")
    ('align.s1', 'sort', '.tsv')
    """
    base = name.replace("\\", "/").rpartition("/")[2]
    return redact(_ENDINGS.sub("", base) or base)


def _folder(name: str) -> str:
    return redact(name.replace("\\", "/").rpartition("/")[0].rpartition("/")[2])


def distinct(jobs: Sequence[tuple[str, str]]) -> list[str]:
    """Name jobs so that no two are called the same, by as few folders of their files as will do.

    Parameters
    ----------
    jobs : sequence of (str, str)
        The name of each and the file that tells of it. Where no folder tells two apart, the
        file's ending may, else a number does.

    Examples
    --------
    >>> distinct([("s1", "a/s1.tsv"), ("s1", "b/s1.tsv"), ("s2", "b/s2.tsv"), ("s1", "b/s1.tsv")])
    ['a/s1', 'b/s1', 's2', 'b/s1 [2]']
    >>> distinct([("x", f"{run}/{lane}/x.tsv") for run, lane in ("AC", "AD", "BD")])
    ['C/x', 'A/D/x', 'B/D/x']
    """
    paths = [file.replace("\\", "/").split("/") for _, file in jobs]
    made: dict[int, str] = {}
    left, depth = list(range(len(jobs))), 0
    while left:
        found: dict[str, list[int]] = {}
        for job in left:
            folders = paths[job][:-1]
            within = folders[len(folders) - depth :] if depth < len(folders) else folders
            found.setdefault("/".join([*within, jobs[job][0]]), []).append(job)
        made.update((job, name) for name, same in found.items() for job in same)
        more = [same for same in found.values() if len(same) > 1]
        deeper = [same for same in more if any(len(paths[job]) - 1 > depth for job in same)]
        left = [job for same in deeper for job in same]
        depth += 1
    return _numbered([redact(name) for name in _with_endings(made, jobs, paths)])


def _with_endings(
    made: Mapping[int, str], jobs: Sequence[tuple[str, str]], paths: Sequence[Sequence[str]]
) -> list[str]:
    """Leave files their ending where only that tells them apart."""
    ends: dict[str, set[str]] = {}
    for job, name in made.items():
        ends.setdefault(name, set()).add(paths[job][-1])
    names = []
    for job, (own, _) in enumerate(jobs):
        name, base = made[job], paths[job][-1]
        whole = len(ends[name]) > 1 and own == clean(base)
        names.append(name[: len(name) - len(own)] + base if whole else name)
    return names


def _numbered(names: Sequence[str]) -> list[str]:
    taken = set(names)
    given: set[str] = set()
    made = []
    for name in names:
        found, number = name, 2
        while found in given or (found != name and found in taken):
            found, number = f"{name} [{number}]", number + 1
        given.add(found)
        made.append(found)
    return made


def guess(names: Sequence[str], way: str = "auto") -> tuple[Mapping[str, str], str]:
    """Give the rule of each file, and where it was found.

    With ``auto``: the folder if there are several, with several files each or with files of one
    name, else the part of the names that repeats; a file alone is its own rule.

    Examples
    --------
    >>> guess(["b/align/s1.tsv", "b/align/s2.tsv", "b/sort/s1.tsv", "b/sort/s2.tsv"])[1]
    'folder'
    >>> guess(["align.s1.tsv", "align.s2.tsv", "sort.s1.tsv"])[0]["sort.s1.tsv"]
    'sort'
    >>> guess(["x/align.jsonl"])
    ({'x/align.jsonl': 'align'}, 'stem')
    """
    options = {
        "folder": {n: _folder(n) or clean(n) for n in names},
        "first": {n: _part(n, 0) for n in names},
        "last": {n: _part(n, -1) for n in names},
        "stem": {n: clean(n) for n in names},
    }
    if way == "auto":
        way = _best(options, len(set(names)))
    return options[way], way


def _part(name: str, which: int) -> str:
    parts = [part for part in _PARTS.split(clean(name)) if part]
    return parts[which] if parts else clean(name)


def _best(options: Mapping[str, Mapping[str, str]], files: int) -> str:
    if files < 2:
        return "stem"
    kinds = {way: len(set(found.values())) for way, found in options.items()}
    folders = {f.lower() for f in options["folder"].values()}
    # A name that stands in several folders is a sample's: the folders tell the rules.
    telling = kinds["folder"] * 2 <= files or kinds["stem"] < files
    if not folders & _PLAIN and telling and kinds["folder"] > 1:
        return "folder"
    splits = [way for way in ("first", "last") if kinds[way] * 3 <= files * 2]
    splits = [way for way in splits if kinds[way] < kinds["stem"]]
    return min(splits, key=lambda way: kinds[way]) if splits else "stem"
