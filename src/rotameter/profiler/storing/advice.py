"""Choose a store a stage and how many tasks at once, staging always priced."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rotameter.profiler.storing.costs import Costs, Part
from rotameter.profiler.storing.regions import Rule, wildcard_rule
from rotameter.profiler.storing.table import Floats
from rotameter.units import format_seconds, many
from rotameter.values import Evidence, to_dict

__all__ = ["Advice", "Choice", "advise"]

_EXHAUSTIVE = 100_000
_BEAM = 500
_SHOWN = 5
_LITTLE_RATIO = 0.01
"""Of the run time: who saves less need not change anything."""
_OFF_RATIO = 1.25
"""A price that is further from what the run took is said to be."""
_FAR_RATIO = 2.0
"""From a price that is further above what the run took no saving is promised."""


@dataclass(frozen=True, slots=True)
class Choice:
    """One configuration and what it is predicted to take.

    ``interval80`` is that of the bandwidth model's own error; None where ``flags`` say that a
    part of the price is no interpolation.
    """

    stores: tuple[tuple[str, str], ...]
    nodes: int
    tasks_per_node: int
    makespan_s: float
    staging_s: float
    interval80: tuple[float, float] | None = None
    flags: tuple[str, ...] = ()

    def config(self) -> dict[str, Any]:
        """Give the configuration as a ``makespan`` callable gets it."""
        return {
            "stores": dict(self.stores),
            "nodes": self.nodes,
            "tasks_per_node": self.tasks_per_node,
        }

    def to_text(self) -> str:
        """Write the configuration and its price."""
        used = {store for _, store in self.stores}
        where = ", ".join(f"{stage}={store}" for stage, store in self.stores)
        place = f"all stages={used.pop()}" if len(used) == 1 else where
        return (
            f"{place} on {many(self.nodes, 'node')} × {many(self.tasks_per_node, 'task')}: "
            f"{format_seconds(self.makespan_s)}, of it {format_seconds(self.staging_s)} copying"
        )


@dataclass(frozen=True, slots=True)
class Advice:
    """The advised configuration, what it was compared with, and which knobs matter.

    ``baseline`` keeps everything on the home store. ``saving_s`` is against it, scaled to what the
    run itself took (``recorded_s``, None where that is not known) where the baseline's price is
    above that, and None where it is so far above that nothing can be promised; ``clear`` is False
    where the saving is within the model's own error, None where that error is not known.
    """

    best: Choice | None
    ranked: tuple[Choice, ...]
    baseline: Choice | None
    constants: tuple[Choice, ...]
    saving_s: float | None
    clear: bool | None
    rule: Rule | None
    evaluated: int
    exhaustive: bool
    evidence: tuple[Evidence, ...] = ()
    notes: tuple[str, ...] = ()
    recorded_s: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        data: dict[str, Any] = to_dict(self)
        return data

    def to_text(self) -> str:
        """Write the advice, its alternatives and its limits, a line each."""
        if self.best is None:
            return "\n".join(["No storage advice.", *self.notes])
        lines = [f"Advised: {self.best.to_text()}", *self._saved(self.best)]
        if self._all_alike(self.best):
            lines = [self._no_matter(self.best)]
        elif self.rule is not None:
            lines.append(
                f"What matters: {self.rule.to_text()} ({many(self.rule.n, 'configuration')}, on "
                f"average {self.rule.regret_ratio:.0%} above the best)"
            )
        above_s = self.best.makespan_s - (self.recorded_s or math.inf)
        if above_s > _LITTLE_RATIO * self.best.makespan_s:
            lines.append(
                f"The run itself took {format_seconds(self.recorded_s)}, {format_seconds(above_s)} "
                "less than this price: the model is pessimistic by that, unless the run had more "
                "nodes or tasks at once"
            )
        if flags := self.best.flags:
            parts = "" if len(flags) == 1 else f"{many(len(flags), 'part')} of the price, such as "
            lines.append(f"Not measured: {parts}{flags[0]}")
        return "\n".join([*lines, *self.notes])

    def _little_s(self, best: Choice) -> float:
        """Give the saving below which no one would change anything."""
        return _LITTLE_RATIO * max(best.makespan_s, self.recorded_s or 0.0)

    def _saved(self, best: Choice) -> list[str]:
        """Say what is saved against everything on the home store."""
        if self.baseline is None:
            return []
        against = self.baseline.to_text()
        if self.baseline == best:
            return ["That is everything on the home store: no other configuration is faster"]
        if self.saving_s is None:
            return []
        if self.saving_s < self._little_s(best):
            return [
                f"Not worth a change: it saves {format_seconds(self.saving_s)}, less than "
                f"{_LITTLE_RATIO:.0%}, against {against}"
            ]
        word = {True: "", False: " (within the model's error)", None: " (error not known)"}
        whole = ""
        if _over(self.baseline, self.recorded_s) > 1.0:
            whole = f" of the {format_seconds(self.recorded_s)} that the run took"
        saved = f"Saves {format_seconds(self.saving_s)}{whole}{word[self.clear]}"
        return [f"{saved} against {against}"]

    def _all_alike(self, best: Choice) -> bool:
        """Say whether any one store for everything is as good as the best configuration."""
        if self.baseline is None or len(self.constants) < 2:
            return False
        longest_s = max(choice.makespan_s for choice in self.constants)
        return longest_s - best.makespan_s < self._little_s(best)

    def _no_matter(self, best: Choice) -> str:
        longest_s = max(choice.makespan_s for choice in self.constants)
        return (
            "Where this run keeps its data does not matter: everything on the slowest store takes "
            f"{format_seconds(longest_s - best.makespan_s)} (below {_LITTLE_RATIO:.0%}) more than "
            f"the best of {many(self.evaluated, 'configuration')}, {best.to_text()}"
        )


def _all_choices(n_stages: int, n_stores: int) -> NDArray[np.int64]:
    grid = np.indices((n_stores,) * n_stages).reshape(n_stages, -1).T
    return np.asarray(grid, dtype=np.int64)


def _beam(costs: Costs, place: int) -> NDArray[np.int64]:
    """Assign stores stage by stage, keeping the cheapest beginnings."""
    k = len(costs.stores)
    kept = np.zeros((1, 0), dtype=np.int64)
    for s in range(len(costs.stages)):
        wider = np.column_stack(
            [np.repeat(kept, k, axis=0), np.tile(np.arange(k, dtype=np.int64), len(kept))]
        )
        names = {stage.name for stage in costs.stages[: s + 1]}
        flows = [i for i, f in enumerate(costs.flows) if costs.stages[f[0]].name in names]
        begun = Costs(
            *(costs.stages[: s + 1], costs.stores, costs.places, costs.home, costs.local),
            *(costs.run[: s + 1], costs.out[: s + 1]),
            tuple((t, src if src <= s else -1, f) for t, src, f in (costs.flows[i] for i in flows)),
            tuple(costs.move[i] for i in flows),
            costs.model,
        )
        price, _ = begun.makespans(wider, place)
        order = np.argsort(price, kind="stable")
        kept = wider[order[:_BEAM]]
    constant = np.repeat(np.arange(k, dtype=np.int64)[:, None], len(costs.stages), axis=1)
    return np.unique(np.concatenate([kept, constant, _neighbours(kept[0], k)]), axis=0)


def _neighbours(choice: NDArray[np.int64], k: int) -> NDArray[np.int64]:
    """All choices that differ from one in one stage: what its knobs are worth."""
    rows = np.repeat(choice[None], len(choice) * k, axis=0)
    rows[np.arange(len(rows)), np.repeat(np.arange(len(choice)), k)] = np.tile(
        np.arange(k), len(choice)
    )
    return rows


def _interval(parts: Sequence[Part], makespan_s: float) -> tuple[float, float] | None:
    """80 % interval: every access off by its own error, all the same way (never too narrow)."""
    low = high = 0.0
    for part in parts:
        if part.half_width is None:
            return None
        low += part.seconds * (1.0 - math.exp(-part.half_width))
        high += part.seconds * (math.exp(part.half_width) - 1.0)
    return max(0.0, makespan_s - low), makespan_s + high


def _choice(costs: Costs, row: NDArray[np.int64], place: int, makespan_s: float) -> Choice:
    parts = costs.parts([int(v) for v in row], place)
    flags = [f"{p.stage}, {p.kind} on {p.store}: {text}" for p in parts for text in p.flags]
    staging = float(costs.makespans(row[None], place)[1][0])
    stores = tuple(
        (stage.name, costs.stores[int(v)]) for stage, v in zip(costs.stages, row, strict=True)
    )
    nodes, per_node = costs.places[place]
    interval = _interval(parts, makespan_s) if math.isfinite(makespan_s) else None
    return Choice(
        *(stores, nodes, per_node, makespan_s, staging, interval, tuple(dict.fromkeys(flags)))
    )


def _evaluate(costs: Costs) -> tuple[NDArray[np.int64], NDArray[np.int64], Floats, bool]:
    """Give choices (m, n_stages), their places (m,), seconds (m,), and whether these are all."""
    k, n = len(costs.stores), len(costs.stages)
    whole = n * math.log(max(k, 1)) + math.log(max(len(costs.places), 1)) <= math.log(_EXHAUSTIVE)
    chosen, places, seconds = [], [], []
    for place in range(len(costs.places)):
        rows = _all_choices(n, k) if whole else _beam(costs, place)
        chosen.append(rows)
        places.append(np.full(len(rows), place, dtype=np.int64))
        seconds.append(costs.makespans(rows, place)[0])
    return np.concatenate(chosen), np.concatenate(places), np.concatenate(seconds), whole


def _reprice(
    costs: Costs,
    rows: NDArray[np.int64],
    places: NDArray[np.int64],
    seconds: Floats,
    makespan: Callable[[dict[str, Any]], float],
    limit: int,
) -> tuple[NDArray[np.int64], NDArray[np.int64], Floats]:
    """Price by the caller's own model; of too many configurations the best by the formula."""
    order = np.argsort(seconds, kind="stable")
    order = order[np.isfinite(seconds[order])][:limit]
    priced = [
        float(makespan(_choice(costs, rows[i], int(places[i]), float(seconds[i])).config()))
        for i in order
    ]
    return rows[order], places[order], np.array(priced, dtype=np.float64)


def advise(
    costs: Costs,
    *,
    makespan: Callable[[dict[str, Any]], float] | None = None,
    limit: int = 2000,
    notes: Sequence[str] = (),
    recorded_s: float | None = None,
) -> Advice:
    """Rank configurations by makespan, copies included, and say which knobs matter.

    Up to 100,000 configurations all are evaluated, else the stages are assigned one by one with
    the 500 cheapest beginnings kept (beam search, Lowerre 1976).

    Parameters
    ----------
    costs : Costs
    makespan : callable, optional
        ``makespan({"stores": {stage: store}, "nodes", "tasks_per_node"}) -> seconds``, such as a
        replay; the barriered formula where None.
    limit : int
        How often ``makespan`` may be called.
    notes : sequence of str
    recorded_s : float, optional
        What the run itself took.
    """
    notes = list(notes)
    rows, places, seconds, whole = _evaluate(costs)
    if makespan is not None:
        count = int(np.isfinite(seconds).sum())
        rows, places, seconds = _reprice(costs, rows, places, seconds, makespan, limit)
        if count > limit:
            notes.append(f"{limit} of {count} configurations replayed: the best by the formula")
            whole = False
    good = np.flatnonzero(np.isfinite(seconds))
    if not len(good):
        notes.append("no configuration can be priced: accesses or copies were never measured")
        return Advice(*(None, (), None, (), None, None, None, len(rows), whole, (), tuple(notes)))
    # A tie goes to fewer stores, then to fewer nodes.
    spread = np.array([len(set(row)) for row in rows[good]])
    size = np.array([costs.places[p][0] * costs.places[p][1] for p in places[good]])
    order = good[np.lexsort((size, spread, seconds[good]))]
    ranked = tuple(
        _choice(costs, rows[i], int(places[i]), float(seconds[i])) for i in order[:_SHOWN]
    )
    constants = []
    for k, store in enumerate(costs.stores):
        same = order[(rows[order] == k).all(axis=1)]
        if len(same):
            i = same[0]
            constants.append(_choice(costs, rows[i], int(places[i]), float(seconds[i])))
        else:
            notes.append(f"everything on {store} cannot be priced: no copy there was measured")
    home = [c for c in constants if dict(c.stores)[costs.stages[0].name] == costs.home]
    best, baseline = ranked[0], home[0] if home else None
    notes += _off(best, baseline, recorded_s)
    dropped = len(rows) - len(good)
    if dropped:
        notes.append(f"{dropped} of {len(rows)} configurations need a copy that was not measured")
    return Advice(
        *(best, ranked, baseline, tuple(constants), _saving_s(best, baseline, recorded_s)),
        _clear(best, baseline),
        _rule(costs, rows, places, seconds),
        *(len(rows), whole, _evidence(costs, rows[order[0]], int(places[order[0]])), tuple(notes)),
        recorded_s=recorded_s,
    )


def _over(baseline: Choice, recorded_s: float | None) -> float:
    """Give the price of everything on the home store as a part of what the run took."""
    return baseline.makespan_s / recorded_s if recorded_s else 1.0


def _saving_s(best: Choice, baseline: Choice | None, recorded_s: float | None) -> float | None:
    """Give what may be promised: never more than the run took, nor from a price far above it."""
    if baseline is None:
        return None
    over = _over(baseline, recorded_s)
    saving_s = baseline.makespan_s - best.makespan_s
    if over > _FAR_RATIO and saving_s > 0:
        return None
    return saving_s / max(over, 1.0)


def _off(best: Choice, baseline: Choice | None, recorded_s: float | None) -> list[str]:
    """Say by how much the price of everything on the home store is off from what the run took."""
    if baseline is None or not recorded_s:
        return []
    over = _over(baseline, recorded_s)
    if 1 / _OFF_RATIO <= over <= _OFF_RATIO:
        return []
    more, way = ("more", "pessimistic") if over > 1 else ("fewer", "optimistic")
    store = baseline.stores[0][1]
    said = (
        f"everything on {store} is priced at {format_seconds(baseline.makespan_s)}, {over:.2g} x "
        f"the {format_seconds(recorded_s)} that this run took: the model is {way} by that, or the "
        f"run had its data elsewhere, or {more} nodes or tasks at once"
    )
    if best == baseline or over <= 1:
        return [said]
    if over > _FAR_RATIO:
        return [f"no saving is promised, as {said}"]
    saved_s = format_seconds(baseline.makespan_s - best.makespan_s)
    return [f"the saving is scaled to this run from {saved_s}, as {said}"]


def _clear(best: Choice, baseline: Choice | None) -> bool | None:
    if baseline is None or best.interval80 is None or baseline.interval80 is None:
        return None
    return best.interval80[1] < baseline.interval80[0]


def _rule(
    costs: Costs, rows: NDArray[np.int64], places: NDArray[np.int64], seconds: Floats
) -> Rule | None:
    knobs: dict[str, Sequence[Any]] = {stage.name: costs.stores for stage in costs.stages}
    nodes = sorted({n for n, _ in costs.places})
    per_node = sorted({t for _, t in costs.places})
    columns = [rows]
    for name, values, part in (("nodes", nodes, 0), ("tasks per node", per_node, 1)):
        knobs[name] = values
        code = np.array([values.index(place[part]) for place in costs.places], dtype=np.int64)
        columns.append(code[places][:, None])
    return wildcard_rule(knobs, np.column_stack(columns), seconds)


def _evidence(costs: Costs, row: NDArray[np.int64], place: int) -> tuple[Evidence, ...]:
    how = "bandwidth model"
    parts = costs.parts([int(v) for v in row], place)
    return tuple(
        Evidence(f"{p.stage}: {p.kind} on {p.store}", p.seconds, "s", how, costs.model.n)
        for p in parts
    )
