"""From rows to what each process moved: repeats merged, copied totals found and shared out."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from rotameter.adapters.importers._spm_rows import Row
from rotameter.adapters.importers._spm_split import bounds, shared_out, shared_seconds

__all__ = ["Flow", "Measured", "measured"]

Triple = tuple[int | None, int | None, float | None]
_MOSTLY = 0.5


@dataclass(slots=True)
class Flow:
    """One process, direction and file; bytes, ops and seconds are shares where not ``exact``."""

    task: str
    pid: str
    op: str
    file: str
    bytes: int | None
    ops: int | None
    seconds: float | None
    tier: str | None
    exact: bool


@dataclass(slots=True)
class Measured:
    """What a table says, once each."""

    flows: list[Flow]
    totals: dict[tuple[str, str], dict[str, list[Triple]]]
    copied: bool | None
    groups: Counter[str] = field(default_factory=Counter)
    ambiguous: int = 0
    names_of_pid: int = 0
    unnamed: int = 0
    untimed: bool = False


def measured(rows: Sequence[Row], unit_bytes: int, asked: str | None = None) -> Measured:
    """De-duplicate rows and share out totals.

    Parameters
    ----------
    rows : sequence of Row
    unit_bytes : int
        Bytes of one unit of the size column.
    asked : str, optional
        ``process`` or ``file``: what the user says that a row's size is; found out by default.
    """
    single, ambiguous = _once(rows, unit_bytes)
    processes: dict[tuple[str, str], list[tuple[Row, Triple]]] = defaultdict(list)
    for row, triple in single:
        # Without a process number, only the name tells processes apart.
        processes[(row.op, row.pid or f"\0{row.task}")].append((row, triple))
    copied, counts = _judge(processes.values(), asked)
    parts: list[tuple[Triple, list[Row]]] = []
    for members in processes.values():
        if copied and len(members) > 1:
            same: dict[Triple, list[Row]] = defaultdict(list)
            for row, triple in members:
                same[triple].append(row)
            parts += same.items()
        else:
            parts += [(triple, [row]) for row, triple in members]
    least = bounds((triple[0], [row.file for row in members]) for triple, members in parts)
    out = Measured([], defaultdict(lambda: defaultdict(list)), copied, counts, ambiguous)
    out.untimed = bool(copied) and all(triple[2] is None for triple, m in parts if len(m) > 1)
    names: dict[str, set[str]] = defaultdict(set)
    for triple, sharers in parts:
        _share(triple, sharers, [least.get(row.file, 0) for row in sharers], out)
        for row in sharers:
            names[row.pid].add(row.task)
    out.names_of_pid = sum(len(found) > 1 for pid, found in names.items() if pid)
    return out


def _once(rows: Sequence[Row], unit_bytes: int) -> tuple[list[tuple[Row, Triple]], int]:
    """Give one row for each (operation, task, process, file), with what it measured.

    Rows are repeated for each candidate number of nodes; within the first candidate, rows that
    differ are several accesses and add up.
    """
    found: dict[tuple[str, str, str, str], list[Row]] = defaultdict(list)
    for row in rows:
        found[(row.op, row.task, row.pid, row.file)].append(row)
    once, ambiguous = [], 0
    for members in found.values():
        first = members[0]
        all_of = {_triple(row, unit_bytes) for row in members}
        if len(all_of) == 1:
            once.append((first, all_of.pop()))
            continue
        mine = dict.fromkeys(
            _triple(row, unit_bytes) for row in members if first.candidates[0] in row.candidates
        )
        ambiguous += 1
        once.append((first, _added(list(mine))))
    return once, ambiguous


def _triple(row: Row, unit_bytes: int) -> Triple:
    size = None if row.size_mb is None else round(row.size_mb * unit_bytes)
    if size is None and row.call_bytes is not None and row.ops is not None:
        size = round(row.call_bytes * row.ops)
    return size, row.ops, row.seconds


def _added(triples: Sequence[Triple]) -> Triple:
    sizes, ops, seconds = ([v for v in column if v is not None] for column in zip(*triples))  # noqa: B905
    return (
        int(sum(sizes)) if sizes else None,
        int(sum(ops)) if ops else None,
        float(sum(seconds)) if seconds else None,
    )


def _judge(
    groups: Iterable[Sequence[tuple[Row, Triple]]], asked: str | None
) -> tuple[bool | None, Counter[str]]:
    """Say whether the rows of a process repeat its total: most that have several files do so."""
    counts: Counter[str] = Counter()
    for members in groups:
        if len(members) < 2:
            counts["one_file"] += 1
        elif not any(triple[0] for _, triple in members):
            counts["no_bytes"] += 1
        else:
            counts["same" if len({triple for _, triple in members}) == 1 else "different"] += 1
    judged = counts["same"] + counts["different"]
    if asked is not None:
        return asked == "process", counts
    return (counts["same"] > _MOSTLY * judged if judged else None), counts


def _share(triple: Triple, members: Sequence[Row], weights: Sequence[int], out: Measured) -> None:
    named = [(row, weight) for row, weight in zip(members, weights, strict=True) if row.file]
    if not named:
        # A size without a file belongs to the process, and to no flow.
        out.totals[(members[0].task, members[0].pid)][members[0].op].append(triple)
        out.unnamed += 1
        return
    members, weights = [row for row, _ in named], [weight for _, weight in named]
    size, ops, seconds = triple
    alone = len(members) == 1
    known = alone or size is not None
    parts = shared_out(size, weights) if size is not None else [None] * len(members)
    heavy = [part or 0 for part in parts]
    counts = shared_out(ops, heavy) if ops is not None and known else [None] * len(members)
    times = (
        shared_seconds(seconds, heavy) if seconds is not None and known else [None] * len(members)
    )
    if alone or len({row.task for row in members}) == 1:
        out.totals[(members[0].task, members[0].pid)][members[0].op].append(triple)
    for row, part, count, took in zip(members, parts, counts, times, strict=True):
        out.flows.append(
            Flow(row.task, row.pid, row.op, row.file, part, count, took, row.tier, alone)
        )
        if not alone and len({m.task for m in members}) > 1:
            out.totals[(row.task, row.pid)][row.op].append((part, count, took))
