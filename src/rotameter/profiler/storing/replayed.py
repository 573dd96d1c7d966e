"""Price a storage configuration by replaying the run with other stores and places.

The barriered formula of :mod:`rotameter.profiler.storing.costs` lets a stage begin when the one
before has ended. A run with task times is replayed instead: each task waits only for what it
needs, its reading and writing take what the bandwidth model says of the new store, and copies are
nodes of their own.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from rotameter.profiler.replaying.changes import Stage as Copies
from rotameter.profiler.replaying.changes import Workers
from rotameter.profiler.replaying.engine import simulate
from rotameter.profiler.replaying.model import PARTS

if TYPE_CHECKING:
    from rotameter.profiler.replaying.model import Model
    from rotameter.profiler.replaying.savings import Replayer
    from rotameter.profiler.storing.costs import Costs

__all__ = ["replayed_makespan", "replays_affordable"]

_NODES_IN_ALL = 2_000_000
_READ, _WRITE = PARTS.index("read"), PARTS.index("write")


def replays_affordable(model: Model, most: int = 2000) -> int:
    """Give how many replays of a model take about half a minute."""
    return max(20, min(most, _NODES_IN_ALL // max(1, model.n)))


def replayed_makespan(replayer: Replayer, costs: Costs) -> Callable[[dict[str, Any]], float] | None:
    """Make the function that prices a configuration by a replay.

    Parameters
    ----------
    replayer : Replayer
        Of the recorded run.
    costs : Costs
        Prices of its stages, whose names are task groups.

    Returns
    -------
    callable or None
        ``price({"stores", "nodes", "tasks_per_node"}) -> seconds``, infinite where a copy was
        never measured; None where the run has no task times, or a stage no task.
    """
    model = replayer.model
    if model is None or replayer.replay is None:
        return None
    members = [model.group == _code(model, stage.name) for stage in costs.stages]
    if not all(mine.any() for mine in members):
        return None

    def price(config: dict[str, Any]) -> float:
        place = costs.places.index((config["nodes"], config["tasks_per_node"]))
        chosen = [costs.stores.index(config["stores"][stage.name]) for stage in costs.stages]
        changed = _with_io(model, costs, members, chosen, place)
        changed = Workers(
            add=config["nodes"] - len(changed.workers), cores=float(config["tasks_per_node"])
        ).apply(changed)
        for number, stage in enumerate(costs.stages):
            come, leave = _copies(costs, chosen, number, place)
            if math.isinf(come) or math.isinf(leave):
                return math.inf
            if come or leave:
                changed = Copies(stage.name, come, leave).apply(changed)
        return float(simulate(changed).makespan_s)

    return price


def _code(model: Model, name: str) -> int:
    return model.groups.index(name) if name in model.groups else -2


def _with_io(
    model: Model, costs: Costs, members: list[Any], chosen: list[int], place: int
) -> Model:
    """Let each task read and write at the new store's speed, its share of the stage's bytes."""
    nodes, per_node = costs.places[place]
    parts = model.parts_s.copy()
    moved = model.read_bytes + model.write_bytes
    for number, (stage, mine) in enumerate(zip(costs.stages, members, strict=True)):
        waves = math.ceil(stage.tasks / max(1, nodes * per_node))
        whole = costs.run[number, chosen[number], place] - waves * (stage.compute_s or 0.0)
        share = moved[mine] / moved[mine].mean() if moved[mine].any() else 1.0
        parts[mine, _WRITE] = 0.0
        parts[mine, _READ] = max(0.0, float(whole)) / waves * share
    return replace(model, parts_s=parts, storage_bps=None)


def _copies(costs: Costs, chosen: list[int], stage: int, place: int) -> tuple[float, float]:
    """Give the seconds of the copies before and after a stage."""
    home = costs.stores.index(costs.home)
    come = sum(
        float(table[home if source < 0 else chosen[source], chosen[stage], place])
        for (of, source, _), table in zip(costs.flows, costs.move, strict=True)
        if of == stage
    )
    return come, float(np.asarray(costs.out)[stage, chosen[stage], place])
