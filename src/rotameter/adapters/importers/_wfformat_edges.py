"""Who depends on whom: from parents, children and shared files, joined and compared."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from rotameter.adapters.importers._wfformat_parse import Document, Job, Warn
from rotameter.units import many as counted

__all__ = ["edges", "ordered"]

Edge = tuple[str, str]
"""(task, what it depends on)."""
_PRODUCERS = 64


def edges(doc: Document, label: Mapping[str, str], warn: Warn) -> list[Edge]:
    """Give the edges of a document between labels of jobs, each once, in order.

    Parameters
    ----------
    doc : Document
    label : mapping of str to str
        Job id → task id.
    warn : callable
    """
    index = _index(doc.jobs)
    up, down, missing, own = _declared(doc.jobs, index)
    declared = up | down
    if missing or own:
        warn(_left_out(missing, own))
    if up and down and up != down:
        warn(
            f"kept: {counted(len(up ^ down), 'dependency', 'dependencies')} named on one side only"
        )
    if declared and not ordered(declared):
        warn("the dependencies go round in a circle")
    found = _by_files(doc.jobs, warn)
    extra = found - declared
    if extra and not ordered(declared | found):
        warn("dependencies by files would close a circle: left out")
        extra = set()
    elif extra and declared:
        warn(f"kept: {counted(len(extra), 'dependency', 'dependencies')} that only files show")
    elif extra:
        warn(f"the file names no dependencies: {len(extra):,} follow from its files")
    behind = declared - found
    if behind and found:
        warn(f"kept: {counted(len(behind), 'dependency', 'dependencies')} named that share no file")
    place = {job.id: n for n, job in enumerate(doc.jobs)}
    both = sorted(declared | extra, key=lambda edge: (place[edge[0]], place[edge[1]]))
    return [(label[task], label[on]) for task, on in both]


def _index(jobs: Sequence[Job]) -> dict[str, str | None]:
    """Give id or unique name → id; None for a name of several."""
    index: dict[str, str | None] = {}
    for job in jobs:
        index[job.name] = None if job.name in index else job.id
    index.update({job.id: job.id for job in jobs})
    return index


def _declared(
    jobs: Sequence[Job], index: Mapping[str, str | None]
) -> tuple[set[Edge], set[Edge], int, int]:
    """Give what parents and what children say; how many are not there, how many the task itself."""
    up, down, missing, own = set(), set(), 0, 0
    for job in jobs:
        for name in job.parents:
            on = index.get(name)
            missing += on is None
            own += on == job.id
            if on is not None and on != job.id:
                up.add((job.id, on))
        for name in job.children:
            task = index.get(name)
            missing += task is None
            own += task == job.id
            if task is not None and task != job.id:
                down.add((task, job.id))
    return up, down, missing, own


def _left_out(missing: int, own: int) -> str:
    """Word the references that are no dependencies.

    Examples
    --------
    >>> _left_out(1, 2)
    'left out: 1 parent or child not in the file (or not unique), 2 that are the task itself'
    >>> _left_out(0, 1)
    'left out: 1 parent or child that is the task itself'
    """
    said = []
    if missing:
        what = counted(missing, "parent or child", "parents or children")
        said.append(f"{what} not in the file (or not unique)")
    if own:
        what = f"{own:,}" if missing else counted(own, "parent or child", "parents or children")
        said.append(f"{what} that {'is' if own == 1 else 'are'} the task itself")
    return f"left out: {', '.join(said)}"


def _by_files(jobs: Sequence[Job], warn: Warn) -> set[Edge]:
    producers: dict[str, list[str]] = {}
    for job in jobs:
        for name in job.outputs:
            producers.setdefault(name, []).append(job.id)
    many = {name for name, ids in producers.items() if len(ids) > _PRODUCERS}
    if many:
        warn(
            f"{counted(len(many), 'file has', 'files have')} more than {_PRODUCERS} writers: no "
            "dependency by them"
        )
    return {
        (job.id, on)
        for job in jobs
        for name in job.inputs
        if name not in many
        for on in producers.get(name, ())
        if on != job.id
    }


def ordered(found: Iterable[Edge]) -> bool:
    """Say whether edges can be put in an order (no circle).

    Examples
    --------
    >>> ordered([("b", "a"), ("c", "b")]), ordered([("b", "a"), ("a", "b")])
    (True, False)
    """
    waits: dict[str, int] = {}
    next_of: dict[str, list[str]] = {}
    for task, on in found:
        waits[task] = waits.get(task, 0) + 1
        waits.setdefault(on, 0)
        next_of.setdefault(on, []).append(task)
    free = [name for name, count in waits.items() if not count]
    done = 0
    while free:
        done += 1
        for task in next_of.get(free.pop(), ()):
            waits[task] -= 1
            if not waits[task]:
                free.append(task)
    return done == len(waits)
