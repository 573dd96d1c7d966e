"""Rows of task sizing on data that nothing was chosen on.

Synthetic sets are drawn anew at run time, of the kinds of the shared ones; of the recorded sets the
rows behind the first 2,000 are used, where a set has them.
"""

from __future__ import annotations

import math
import secrets
import statistics
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import Context, Result, bench
from benchmarks.rows_sizing import BUCKETS, GB, ROWS, cap_of, needed_shared, worst_advice

__all__ = ["LONGER"]

LONGER = ("bioblast", "lobsterCMSsimulation", "sizey_mag", "wf_pegasus_montage")
_N = 2000


def _made(name: str, need: Any) -> Any:
    from rotameter.allocator.workload import Workload

    need = np.asarray(need) * GB
    blank = np.full(len(need), np.nan)
    group = np.zeros(len(need), dtype=np.int64)
    return Workload(name, group, ("t",), need, np.full(len(need), 500.0), blank, blank)


def _mixed(rng: Any, *modes: tuple[float, float], shuffled: bool = True) -> Any:
    parts = [rng.normal(mean, std, _N // len(modes)) for mean, std in modes]
    need = np.concatenate(parts).clip(0.1, 63.0)
    if shuffled:
        rng.shuffle(need)
    return need


@cache
def _drawn() -> tuple[int, dict[str, Any], dict[str, Any]]:
    """Draw stationary and shifting sets, GB."""
    seed = secrets.randbelow(2**31)
    rng = np.random.default_rng(seed)
    still = {
        "normal": rng.normal(32, 5, _N).clip(0.1, 63.0),
        "uniform": rng.uniform(10, 40, _N),
        "exponential": rng.exponential(20, _N).clip(0.1, 64.0),
        "bimodal": _mixed(rng, (32, 5), (8, 2)),
        "trimodal": _mixed(rng, (32, 4), (11, 1), (16, 4)),
    }
    moving = {"incremental": _mixed(rng, (11, 0.5), (16, 0.5), (32, 0.5), shuffled=False)}
    named = [{k: _made(k, v) for k, v in sets.items()} for sets in (still, moving)]
    return seed, named[0], named[1]


def _efficiency(work: Any, name: str, cap: float, seed: int = 0) -> float:
    from rotameter.allocator.baselines import make_allocator
    from rotameter.allocator.online import sequential

    made = sequential(work, make_allocator(name, cap, seed=seed), cap).ledger.efficiency
    return float(made or 0.0)


def _each(values: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:.3f}" for name, value in values.items())


@bench("sizing_fresh_stationary_gap", issue=5, target="<= 0.02")
def stationary(context: Context) -> Result:
    """Most that hindsight's best ladder is better by, on stationary sets drawn at run time."""
    from rotameter.allocator.trials import best_in_hindsight

    seed, still, _ = _drawn()
    found = {
        n: best_in_hindsight(work) - _efficiency(work, "default", 64 * GB)
        for n, work in still.items()
    }
    return Result(max(found.values()), "share", note=f"seed {seed}; {_each(found)}", detail=found)


@bench("sizing_fresh_phases_awe", issue=5, target=">= 0.9")
def phases(context: Context) -> Result:
    """Efficiency on an incremental trimodal set drawn at run time."""
    seed, _, moving = _drawn()
    value = _efficiency(moving["incremental"], "default", 64 * GB)
    return Result(value, "share", note=f"seed {seed}")


@cache
def _later(shared: str, name: str) -> Any:
    from rotameter.adapters.sizing_csv import read_sizing

    path = Path(shared) / "data" / "tasksizing" / f"{name}.csv"
    return read_sizing(path).between(ROWS, 2 * ROWS)


@bench("sizing_later_rows_worst", issue=5, target=">= -0.03")
def later_sequential(context: Context) -> Result:
    """Rows 2,000 to 4,000: least difference to the best of the four published ones, one by one."""
    shared = needed_shared(context)
    found = {}
    for name in LONGER:
        work, cap = _later(shared, name), cap_of(name)
        best = max(_efficiency(work, other, cap) for other in BUCKETS)
        found[name] = _efficiency(work, "default", cap) - best
    return Result(min(found.values()), "share", note=_each(found), detail=found)


@cache
def _together(shared: str, name: str, allocator: str) -> tuple[float, float]:
    from rotameter.allocator.baselines import make_allocator
    from rotameter.allocator.online import Nodes, concurrent
    from rotameter.allocator.workload import orders

    work, cap = _later(shared, name), cap_of(name)
    outs = [
        concurrent(work, make_allocator(allocator, cap, seed=s), cap, Nodes(1, 64), order)
        for s, order in enumerate(orders(len(work), 4, np.random.default_rng(0)))
    ]
    awe = statistics.fmean(out.ledger.efficiency or 0.0 for out in outs)
    return awe, statistics.fmean(out.makespan_s for out in outs)


@bench("sizing_later_w64_gain", issue=5, target=">= -0.03")
def later_w64(context: Context) -> Result:
    """Rows 2,000 to 4,000, 64 at once: least difference to greedy as published."""
    shared = needed_shared(context)
    ours = {n: _together(shared, n, "default")[0] for n in LONGER}
    found = {n: ours[n] - _together(shared, n, "greedy")[0] for n in LONGER}
    note = f"ours {_each(ours)}; difference {_each(found)}"
    return Result(min(found.values()), "share", note=note, detail=found)


@bench("sizing_later_w64_makespan", issue=5, target="<= 0.95")
def later_makespan(context: Context) -> Result:
    """The same rows: geometric mean of makespans over greedy's."""
    shared = needed_shared(context)
    found = {
        n: _together(shared, n, "default")[1] / _together(shared, n, "greedy")[1] for n in LONGER
    }
    value = math.exp(statistics.fmean(math.log(v) for v in found.values()))
    return Result(value, "ratio", note=_each(found), detail=found)


@bench("sizing_later_advice_kills", issue=5, target="<= 1")
def later_advice(context: Context) -> Result:
    """Advice from rows 2,000 to 3,000 on rows 3,000 to 4,000: kills over what it allows."""
    shared = needed_shared(context)
    found = {name: worst_advice(_later(shared, name)) for name in LONGER}
    return Result(max(found.values()), "ratio", note=_each(found), detail=found)
