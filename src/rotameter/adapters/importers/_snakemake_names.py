"""Which rule wrote a benchmark, where only the file's name can tell."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from rotameter.profiler.live.redact import redact

__all__ = ["WAYS", "clean", "guess"]

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
