"""Which store each stage of a workflow should use, and at how many tasks at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

from rotameter.errors import UsageError
from rotameter.profiler.replaying.savings import Replayer
from rotameter.profiler.storing.advice import Advice, Choice, advise
from rotameter.profiler.storing.bandwidth import BandwidthModel, fit_bandwidth
from rotameter.profiler.storing.costs import cost_tables, node_local
from rotameter.profiler.storing.replayed import replayed_makespan, replays_affordable
from rotameter.profiler.storing.stages import Flow, Stage, stages_of_graph
from rotameter.profiler.storing.table import BandwidthTable
from rotameter.profiler.view import view

if TYPE_CHECKING:
    from rotameter.profiler.flow.graph import FlowGraph
    from rotameter.profiler.trace import Trace

__all__ = [
    "Advice",
    "BandwidthModel",
    "BandwidthTable",
    "Choice",
    "Flow",
    "Stage",
    "fit_bandwidth",
    "storage_advice",
]


_MOST_REPLAYS = 2000


def _stages(source: Any) -> tuple[tuple[Stage, ...], tuple[str, ...]]:
    if isinstance(source, (list, tuple)):
        return tuple(sorted(source, key=lambda s: (s.order, s.name))), ()
    if hasattr(source, "edge_task"):
        return stages_of_graph(source)
    from rotameter.profiler.flow.graph import flow_graph

    return stages_of_graph(flow_graph(source))


def _home(model: BandwidthModel, stores: Sequence[str], local: frozenset[str]) -> str | None:
    """Give the shared store with the most copies from and to it."""
    shared = [s for s in stores if s not in local]
    count = {s: sum(s in pair for pair in model.table.copies) for s in shared}
    return min(shared, key=lambda s: (-count[s], s)) if shared else None


def storage_advice(
    source: Trace | FlowGraph | Sequence[Stage],
    table: BandwidthTable | BandwidthModel,
    *,
    nodes: Sequence[int] | int | None = None,
    tasks_per_node: Sequence[int] | int | None = None,
    stores: Sequence[str] | None = None,
    home: str | None = None,
    local: Sequence[str] | None = None,
    makespan: Callable[[dict[str, Any]], float] | None = None,
    seed: int = 0,
) -> Advice:
    """Choose a store for each stage, and nodes × tasks a node, by makespan with all copies.

    Parameters
    ----------
    source : Trace, FlowGraph or sequence of Stage
        What the workflow reads and writes.
    table : BandwidthTable or BandwidthModel
        Measured bandwidths; a fitted model where several workflows are asked about.
    nodes, tasks_per_node : int or sequence of int, optional
        Candidates; the measured ones where None (at most as many tasks as a stage has).
    stores : sequence of str, optional
        Candidates; all measured ones where None.
    home : str, optional
        The shared store with the inputs before and the results after; where None, the shared store
        with most measured copies.
    local : sequence of str, optional
        Stores that a node sees alone; where None, those with a measured copy to themselves.
    makespan : callable, optional
        Replaces replay and formula, see `advise`. A trace with task times is replayed, with what
        each task needs; anything else is priced by the barriered formula.
    seed : int
        Of the model's fit.

    Raises
    ------
    UsageError
        For a store that the table does not have, or no candidate.

    Examples
    --------
    >>> rows = [(op, store, 4096, 2**30, n, 4 * n, rate * n) for n in (1, 2, 4)
    ...     for op, store, rate in (("read", "nfs", 50.0), ("write", "nfs", 40.0),
    ...         ("read", "pfs", 500.0), ("write", "pfs", 400.0))]
    >>> advice = storage_advice([Stage("sum", 0, 16, (Flow(None, 2.0**30),), 2.0**30)],
    ...     BandwidthTable.from_rows(rows), nodes=4, tasks_per_node=4, home="pfs")
    >>> advice.best.config()["stores"], round(advice.best.makespan_s, 1)
    ({'sum': 'pfs'}, 1.2)
    """
    model = table if isinstance(table, BandwidthModel) else fit_bandwidth(table, seed=seed)
    known = model.table.stores
    chosen = tuple(sorted(set(stores))) if stores is not None else known
    if unknown := sorted({*chosen, *([home] if home else [])} - set(known)):
        raise UsageError(
            f"the bandwidth table has no store {', '.join(unknown)}",
            hint=f"it has {', '.join(known)}",
        )
    apart = frozenset(local) if local is not None else node_local(model)
    stages, notes = _stages(source)
    place = home or _home(model, chosen, apart) or _home(model, known, apart)
    if not stages or place is None:
        why = notes if not stages else (*notes, "no shared store: inputs and results have no home")
        return Advice(None, (), None, (), None, None, None, 0, True, (), tuple(why))
    candidates = tuple(sorted({*chosen, place}))
    places = [(n, t) for n in _measured(model, nodes, 2) for t in _per_node(model, tasks_per_node)]
    costs = cost_tables(stages, model, candidates, places, home=place, local=apart)
    limit = _MOST_REPLAYS
    recorded_s = view(cast("Trace", source)).makespan if hasattr(source, "table") else None
    if makespan is None and hasattr(source, "table"):
        replayer = Replayer(cast("Trace", source))
        makespan = replayed_makespan(replayer, costs)
        if makespan is None:
            notes = (*notes, "no task times to replay: each stage waits for the whole one before")
        elif replayer.model is not None:
            limit = replays_affordable(replayer.model, _MOST_REPLAYS)
    return advise(costs, makespan=makespan, limit=limit, notes=notes, recorded_s=recorded_s)


def _measured(model: BandwidthModel, given: Sequence[int] | int | None, column: int) -> list[int]:
    if given is None:
        values = model.table.dims[:, column]
        return sorted({int(v) for v in values if v == v}) or [1]
    out = sorted({given} if isinstance(given, int) else set(given))
    if not out or out[0] < 1:
        raise UsageError("numbers of nodes and of tasks a node are 1 or more")
    return out


def _per_node(model: BandwidthModel, given: Sequence[int] | int | None) -> list[int]:
    if given is not None:
        return _measured(model, given, 3)
    ratio = model.table.dims[:, 3] / model.table.dims[:, 2]
    return sorted({int(v) for v in ratio if v >= 1.0}) or [1]
