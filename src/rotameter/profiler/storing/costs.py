"""Seconds of each stage on each store, and of each copy between stores: the parts of a makespan.

Barriered formula: the makespan is the sum, over the orders of the stages, of the longest copy-in,
the longest stage and the longest copy-out. Idea: the makespan model of QoSFlow (Chowdhury et al.,
IPDPS 2026), with three things added: copies between nodes where a node-local store is read by
tasks on other nodes, copies to every node that reads an object, and waves of tasks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from rotameter.profiler.storing.bandwidth import BandwidthModel, seconds_of
from rotameter.profiler.storing.stages import Flow, Stage
from rotameter.profiler.storing.table import Floats

__all__ = ["Costs", "Part", "cost_tables", "node_local"]


@dataclass(frozen=True, slots=True)
class Part:
    """One priced access: ``kind`` is read, write or a copy's operation."""

    stage: str
    kind: str
    store: str
    moved_bytes: float
    seconds: float
    flags: tuple[str, ...]
    half_width: float | None  # of log seconds, 80 %


@dataclass(frozen=True, slots=True, eq=False)
class Costs:
    """Seconds ``run[s, k, p]`` of stage s on store k at place p = (nodes, tasks a node).

    ``move[f][a, b, p]`` is the copy of flow f from store a to store b, inf where no copy was
    measured; ``out[s, k, p]`` brings the results of stage s from store k back to ``home``.
    """

    stages: tuple[Stage, ...]
    stores: tuple[str, ...]
    places: tuple[tuple[int, int], ...]
    home: str
    local: frozenset[str]
    run: Floats
    out: Floats
    flows: tuple[tuple[int, int, Flow], ...]  # (stage, source stage or -1, flow)
    move: tuple[Floats, ...]
    model: BandwidthModel = field(repr=False)

    def makespans(self, choice: np.ndarray, place: int) -> tuple[Floats, Floats]:
        """Price store choices, shape (m, n_stages), at one place.

        Returns
        -------
        makespan_s, staging_s : arrays, shape (m,)
            ``staging_s`` is the part spent in copies.
        """
        m, n = choice.shape
        come, leave, run = np.zeros((m, n)), np.zeros((m, n)), np.zeros((m, n))
        home = self.stores.index(self.home)
        for (s, source, _), table in zip(self.flows, self.move, strict=True):
            origin = np.full(m, home) if source < 0 else choice[:, source]
            come[:, s] += table[origin, choice[:, s], place]
        for s in range(n):
            run[:, s] = self.run[s, choice[:, s], place]
            leave[:, s] = self.out[s, choice[:, s], place]
        total, staging = np.zeros(m), np.zeros(m)
        orders = np.array([stage.order for stage in self.stages])
        for order in np.unique(orders):
            here = orders == order
            copied = come[:, here].max(1) + leave[:, here].max(1)
            staging += copied
            total += run[:, here].max(1) + copied
        return total, staging

    def parts(self, choice: Sequence[int], place: int) -> list[Part]:
        """List every access and copy of one choice, with flags and error."""
        nodes, per_node = self.places[place]
        names = [self.stores[k] for k in choice]
        queries: list[Query] = []
        for stage, store in zip(self.stages, names, strict=True):
            queries += _stage_queries(stage, store, nodes, per_node)
        ways = [
            (self.stages[s].name, names[source] if source >= 0 else self.home, names[s], flow)
            for s, source, flow in self.flows
            if source != s
        ]
        for stage, store in zip(self.stages, names, strict=True):
            ways.append((stage.name, store, self.home, Flow(None, stage.kept_bytes)))
        for name, a, b, flow in ways:
            route = _route(self.model, self.local, a, b, flow, nodes) or []
            queries += [_copy_query(name, hop, nodes, per_node) for hop in route]
        seconds = _seconds(self.model, queries)
        return [_part(self.model, q, float(v)) for q, v in zip(queries, seconds, strict=True)]


Query = tuple[
    str, str, str, float, float, int, int
]  # stage, op, store, bytes, a call, nodes, tasks
Hop = tuple[str, str, float]  # operation, from-to, bytes


def node_local(model: BandwidthModel) -> frozenset[str]:
    """Give the stores that a node sees alone: those measured copying to themselves."""
    return frozenset(a for (a, b) in model.table.copies if a == b)


def _stage_queries(stage: Stage, store: str, nodes: int, per_node: int) -> list[Query]:
    at_once = max(1, min(stage.tasks, nodes * per_node))
    used = min(nodes, at_once)
    rows = [("read", flow.read_bytes, flow.calls) for flow in stage.reads]
    rows.append(("write", stage.write_bytes, stage.write_calls))
    return [
        (stage.name, op, store, size, size / calls if calls else math.nan, used, at_once)
        for op, size, calls in rows
        if size > 0
    ]


def _copy_query(stage: str, hop: Hop, nodes: int, per_node: int) -> Query:
    return (stage, hop[0], hop[1], hop[2], math.nan, nodes, nodes * per_node)


def _dims(queries: list[Query]) -> Floats:
    rows = [(q[4], q[3], q[5], q[6]) for q in queries]
    return np.array(rows, dtype=np.float64).reshape(-1, 4)


def _seconds(model: BandwidthModel, queries: list[Query]) -> Floats:
    """Seconds of queries, shape (m,); NaN where never measured."""
    dims = _dims(queries)
    rate = model.rates([q[1] for q in queries], [q[2] for q in queries], dims)
    return seconds_of(dims[:, 1], rate)


def _part(model: BandwidthModel, query: Query, seconds: float) -> Part:
    stage, op, store, size, *_ = query
    flags = model.flags([op], [store], _dims([query]))[0]
    if op not in ("read", "write"):
        # Nobody chooses the call size of a copy: the measured tool's own is the right one.
        flags = tuple(f for f in flags if not f.startswith("transfer_bytes unknown"))
    half = math.nan
    if not flags:
        half = float(model.half_width[model.keys.index((op, store))])
    return Part(stage, op, store, size, seconds, flags, half if math.isfinite(half) else None)


def _route(
    model: BandwidthModel, local: frozenset[str], a: str, b: str, flow: Flow, nodes: int
) -> list[Hop] | None:
    """Give the copies that bring a flow from store a to where readers on b see it; None: no way."""
    if a == b:
        needed = flow.remote_bytes(nodes) if a in local else 0.0
        if needed <= 0.0:
            return []
    copies = model.table.copies
    to_nodes = flow.copy_bytes(nodes) if b in local else flow.unique_bytes
    if flow.unique_bytes <= 0:
        return []
    if (a, b) in copies:
        return [(copies[a, b][0], f"{a}-{b}", needed if a == b else to_nodes)]
    between = sorted(v for v in {pair[0] for pair in copies} - local if v not in (a, b))
    for via in between:
        if (a, via) in copies and (via, b) in copies:
            return [
                (copies[a, via][0], f"{a}-{via}", flow.unique_bytes),
                (copies[via, b][0], f"{via}-{b}", to_nodes),
            ]
    return None


def cost_tables(
    stages: Sequence[Stage],
    model: BandwidthModel,
    stores: Sequence[str],
    places: Sequence[tuple[int, int]],
    *,
    home: str,
    local: frozenset[str],
) -> Costs:
    """Price every stage on every store at every place, and every copy.

    Parameters
    ----------
    stages : sequence of Stage
    model : BandwidthModel
    stores : sequence of str
        Candidates; ``home`` is among them.
    places : sequence of (nodes, tasks a node)
    home : str
        Where inputs lie before and results must lie after.
    local : frozenset of str
        Stores that a node sees alone.
    """
    n, k, p = len(stages), len(stores), len(places)
    run, out = np.zeros((n, k, p)), np.zeros((n, k, p))
    number = {stage.name: i for i, stage in enumerate(stages)}
    flows = [(s, number.get(f.source or "", -1), f) for s, t in enumerate(stages) for f in t.reads]
    moves = [np.zeros((k, k, p)) for _ in flows]
    queries: list[Query] = []
    cells: list[tuple[Floats, tuple[int, ...]]] = []

    def hops(table: Floats, at: tuple[int, ...], stage: str, route: list[Hop] | None) -> None:
        nodes, per_node = places[at[-1]]
        if route is None:
            table[at] = np.inf
        for hop in route or []:
            queries.append(_copy_query(stage, hop, nodes, per_node))
            cells.append((table, at))

    for q, (nodes, per_node) in enumerate(places):
        for s, stage in enumerate(stages):
            waves = math.ceil(stage.tasks / max(1, nodes * per_node))
            run[s, :, q] = waves * (stage.compute_s or 0.0)
            kept = Flow(None, stage.kept_bytes)
            for b, store in enumerate(stores):
                for query in _stage_queries(stage, store, nodes, per_node):
                    queries.append(query)
                    cells.append((run, (s, b, q)))
                route = _route(model, local, store, home, kept, nodes)
                hops(out, (s, b, q), stage.name, route)
        for (s, source, flow), table in zip(flows, moves, strict=True):
            if source == s:
                continue
            for a, origin in enumerate(stores):
                for b, target in enumerate(stores):
                    route = _route(model, local, origin, target, flow, nodes)
                    hops(table, (a, b, q), stages[s].name, route)
    seconds = _seconds(model, queries)
    for (table, at), value in zip(
        cells, np.where(np.isfinite(seconds), seconds, np.inf), strict=True
    ):
        table[at] += value
    return Costs(
        *(tuple(stages), tuple(stores), tuple(places), home, local, run, out),
        tuple(f for f in flows),
        tuple(moves),
        model,
    )
