"""Roles of tasks and kinds of objects, from the structure of the graph alone."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np

from rotameter.profiler.flow._fold_scale import split_scales
from rotameter.profiler.flow._fold_sets import Profiles, ranked

if TYPE_CHECKING:
    from rotameter.profiler.flow.graph import FlowGraph
    from rotameter.profiler.view import Codes, Floats

__all__ = ["object_kinds", "task_roles"]

_READ, _WRITE, _NEEDS, _NEEDED = range(4)
_MINOR = 4
"""A class is a boundary of another when that one has at least this many times its members."""
_POPULATION_SHARE = 0.1
_HOSTS = 16


def object_kinds(graph: FlowGraph, role: Codes, seed: Codes | None = None) -> Codes:
    """Give each object the set of roles that make it and read it, boundaries joined.

    Objects of the same makers are one kind where a few have mostly the readers of the many (the
    first and the last of a series lack neighbours); what nobody made is one kind only with equal
    readers. A kind parts where its objects have readers (or writers) at two scales: a parameter
    file that all tasks read is not the input that each task has.

    Parameters
    ----------
    graph : FlowGraph
    role : ndarray of int64, shape (n_tasks,)
    seed : ndarray of int64, shape (n_objects,), optional
        Kinds of an earlier round, never joined.

    Returns
    -------
    ndarray of int64, shape (n_objects,)
    """
    n = len(graph.objects)
    before = np.zeros(n, dtype=np.int64) if seed is None else seed
    profiles = Profiles(before, graph.edge_object, role[graph.edge_task] * 2 + graph.edge_write)
    by_makers: dict[tuple[int, frozenset[int]], list[tuple[int, frozenset[int]]]] = defaultdict(
        list
    )
    for colour in np.argsort(-profiles.size, kind="stable").tolist():
        tokens = profiles.tokens(colour)
        makers = frozenset(token for token in tokens if token % 2)
        if makers:
            by_makers[int(before[profiles.example[colour]]), makers].append((colour, tokens))
    home = np.arange(profiles.n)
    for series in by_makers.values():
        _join_boundaries(series, profiles.size, home)
    kind = ranked(home[profiles.colour])
    for write in (False, True):
        mine = graph.edge_object[graph.edge_write == write]
        kind = split_scales(kind, np.bincount(mine, minlength=n).astype(np.float64), 0.0)
    return kind


def _join_boundaries(series: list[tuple[int, frozenset[int]]], size: Codes, home: Codes) -> None:
    """Send each small class to the large one most like it, if they share half; largest first."""
    for place, (colour, tokens) in enumerate(series):
        wide = [pair for pair in series[: min(place, _HOSTS)] if home[pair[0]] == pair[0]]
        hosts = [pair for pair in wide if size[pair[0]] >= _MINOR * size[colour]]
        host = max(hosts, key=lambda pair: _likeness(tokens, pair[1]), default=None)
        if host is not None and _likeness(tokens, host[1]) >= 0.5:
            home[colour] = host[0]


def task_roles(graph: FlowGraph, stage: Codes, seed: Codes, kind: Codes) -> Codes:
    """Give each task the set of what it reads, makes and waits for, partial ones joined.

    Parameters
    ----------
    graph : FlowGraph
    stage, seed : ndarray of int64, shape (n_tasks,)
        No role spans two seeds, no seed two stages.
    kind : ndarray of int64, shape (n_objects,)

    Returns
    -------
    ndarray of int64, shape (n_tasks,)
    """
    vertex = np.concatenate([graph.edge_task, graph.dep_task, graph.dep_on])
    token = np.concatenate(
        [
            kind[graph.edge_object] * 4 + graph.edge_write,
            seed[graph.dep_on] * 4 + _NEEDS,
            seed[graph.dep_task] * 4 + _NEEDED,
        ]
    )
    part = Profiles(seed, vertex, token).colour
    for values, share in _scales(graph):
        part = split_scales(part, values, share)
    return ranked(_joined(Profiles(part, vertex, token), stage, seed, _hubs(graph, stage, kind)))


def _scales(graph: FlowGraph) -> list[tuple[Floats, float]]:
    """Give the quantities by which a class may part: fan-in and fan-out, size of the work."""
    n = len(graph.tasks)
    found: list[tuple[Floats, float]] = [
        (np.bincount(mine, minlength=n).astype(np.float64), 0.0)
        for mine in (graph.dep_task, graph.dep_on)
    ]
    for write in (False, True):
        edges = graph.edge_write == write
        task = graph.edge_task[edges]
        degree = np.bincount(task, minlength=n).astype(np.float64)
        found.append((degree, 0.0))
        for values in (graph.ops, graph.bytes):
            each = np.bincount(task, values[edges], minlength=n) / np.maximum(degree, 1)
            found.append((each, _POPULATION_SHARE))
    return found


def _hubs(graph: FlowGraph, stage: Codes, kind: Codes) -> set[tuple[int, int]]:
    """Give (stage, kind) of objects each of which half the stage or more reads.

    That two tasks read what everyone reads does not make them parts of the same.
    """
    reads = ~graph.edge_write
    task, thing = graph.edge_task[reads], graph.edge_object[reads]
    width = len(graph.objects) + 1
    pairs, count = np.unique(stage[task] * width + thing, return_counts=True)
    size = np.bincount(stage, minlength=1)
    wide = (count * 2 >= size[pairs // width]) & (size[pairs // width] >= 4)
    return set(
        zip((pairs[wide] // width).tolist(), kind[pairs[wide] % width].tolist(), strict=True)
    )


def _joined(profiles: Profiles, stage: Codes, seed: Codes, hubs: set[tuple[int, int]]) -> Codes:
    """Send classes that make nothing to the class of their seed that they are part of.

    That is the one with the most similar profile among those that deliver, if both read a kind
    that is no hub and nothing waits for them (helper processes of a task); or if they are few
    and lack what it makes (instances that stopped early).
    """
    by_seed: dict[int, list[int]] = defaultdict(list)
    for colour in np.argsort(-profiles.size, kind="stable").tolist():
        by_seed[int(seed[profiles.example[colour]])].append(colour)
    home = np.arange(profiles.n)
    for classes in by_seed.values():
        if len(classes) < 2:
            continue
        place = int(stage[profiles.example[classes[0]]])
        tokens = {colour: profiles.tokens(colour) for colour in classes}
        makers = [c for c in classes if _any(tokens[c], _WRITE)]
        giving = [c for c in classes if _any(tokens[c], _WRITE, _NEEDED)][:_HOSTS]
        for colour in sorted(set(classes).difference(makers)):
            mine = tokens[colour]
            idle = not _any(mine, _NEEDED)
            hosts = giving if idle else makers[:_HOSTS]
            host = max(hosts, key=lambda one: _likeness(mine, tokens[one]), default=None)
            if host is None:
                continue
            read = (t // 4 for t in mine & tokens[host] if t % 4 == _READ)
            helps = idle and any((place, kind) not in hubs for kind in read)
            few = _MINOR * profiles.size[colour] <= profiles.size[host]
            if helps or (few and host in makers and mine < tokens[host]):
                home[colour] = host
    made: Codes = home[profiles.colour]
    return made


def _any(tokens: frozenset[int], *sides: int) -> bool:
    return any(token % 4 in sides for token in tokens)


def _likeness(few: frozenset[int], many: frozenset[int]) -> float:
    """Give the share of two sets' tokens that both have (Jaccard)."""
    return len(few & many) / max(1, len(few | many))
