"""RM141 gpu_unused: tasks hold GPUs that they never use."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from rotameter.profiler.findings._gpu_words import within_run
from rotameter.profiler.findings._saved import LARGE_LOSS_RATIO
from rotameter.profiler.findings.base import price, severity_of, worth_saying
from rotameter.profiler.gpu_use import FEW, gpu_use
from rotameter.profiler.replaying.engine import simulate
from rotameter.profiler.replaying.model import PARTS
from rotameter.profiler.replaying.reshape import levels
from rotameter.profiler.view import view
from rotameter.units import format_number, format_seconds
from rotameter.values import Evidence, Finding

if TYPE_CHECKING:
    from rotameter.profiler.findings.base import Tools
    from rotameter.profiler.replaying.model import Model
    from rotameter.profiler.trace import Trace
    from rotameter.profiler.view import Floats, Mask, View

__all__ = ["Advisor", "Gpus"]


@dataclass(frozen=True, slots=True, eq=False)
class Gpus:
    """GPUs limit who runs at once: each attempt takes ``needs`` of its worker's ``have``.

    What attempts waited for GPUs is on record as waits that nothing explains; with the GPUs in the
    model they follow from it, so these waits go.

    Attributes
    ----------
    needs : ndarray of float64
        GPUs of each attempt (row of the trace's tasks).
    waited : ndarray of bool
        Attempts whose unexplained waits were for a GPU.
    have : dict of str to float
        GPUs of each worker by name.
    order : {"ready", "stage"}
        Who goes first: by when it was ready, or by its depth in the graph.
    """

    needs: Floats
    waited: Mask
    have: dict[str | None, float]
    order: str = "ready"

    def apply(self, model: Model) -> Model:
        """Give the model with GPUs as what memory is to it: held while a node runs."""
        known = model.row >= 0
        row = np.where(known, model.row, 0)
        needs = np.where(known, self.needs[row], 0.0)
        waited = known & self.waited[row]
        parts = model.parts_s.copy()
        for name in ("wait", "stall"):
            parts[waited, PARTS.index(name)] = 0.0
        workers = tuple(
            replace(worker, memory_bytes=_UNIT * self.have.get(worker.name, 0.0))
            for worker in model.workers
        )
        return replace(
            model,
            parts_s=parts,
            memory_bytes=_UNIT * needs,
            workers=workers,
            pinned=model.pinned & ~waited,
            # Who waited keeps its turn by when it was ready, not by when it got a GPU.
            priority=_turns(model, waited, self.order),
        )


_UNIT = 1000.0
"""One GPU, where the engine compares whole bytes."""


def _turns(model: Model, waited: Mask, order: str) -> Floats:
    if order == "stage":
        turn = levels(model).astype(np.float64)
    else:
        ready_s = simulate(model).ready_s
        turn = np.where(waited & np.isfinite(ready_s), ready_s, model.priority)
    # As before among those that were ready together.
    return np.asarray(turn + 1e-9 * np.argsort(np.argsort(model.priority, kind="stable")))


class Advisor:
    """Find groups that ask for GPUs and leave them alone."""

    name = "gpu_unused"

    def check(self, trace: Trace, tools: Tools) -> list[Finding]:
        """Look for groups whose tasks hold GPUs and never use them."""
        seen = view(trace)
        use = gpu_use(seen)
        held, used, told = use.held, use.used, use.told
        asks = seen.ran & (held > 0) & (seen.group >= 0)
        if not asks.any():
            return []
        if not told[asks].any():
            tools.cannot_tell("whether GPUs were used", "no task has a reading of its GPU")
            return []
        found = []
        for group in np.unique(seen.group[asks]).tolist():
            mine = asks & (seen.group == group)
            if mine.sum() < FEW or not told[mine].any() or used[mine].any():
                continue
            finding = self._finding(seen, tools, mine, held, asks)
            if finding is not None:
                found.append(finding)
        return found

    def _finding(
        self, seen: View, tools: Tools, mine: Mask, held: Floats, asks: Mask
    ) -> Finding | None:
        group = int(seen.group[mine][0])
        gpu_h = float((held * np.nan_to_num(seen.wall))[mine].sum()) / 3600.0
        every = float((held * np.nan_to_num(seen.wall))[asks].sum()) / 3600.0
        fields = _cost(seen, tools, mine, held, asks)
        if fields is None:
            if gpu_h < LARGE_LOSS_RATIO * every:
                return None
            fields = {
                "severity": "info",
                "cost_s": 0.0 if tools.replay is not None else None,
                "cost_how": "no task that needs a GPU waited for it"
                if tools.replay is not None
                else "the run cannot be replayed here",
            }
        n = int(mine.sum())
        each = float(np.median(held[mine]))
        name = seen.groups[group]
        engine = seen.meta.get("engine")
        return Finding(
            code="RM141",
            kind="gpu_unused",
            title=(
                f"{n:,} tasks of {seen.label(group)} held {format_number(each)} GPU each for "
                f"{format_seconds(3600.0 * gpu_h)} in all and never used it"
            ),
            groups=(name,),
            evidence=(
                Evidence("GPU time held", round(gpu_h, 6), "GPU·h", "request times duration", n),
                Evidence("GPU time used", 0.0, "GPU·h", "no work on the device on record", n),
                Evidence("GPU time held by all", round(every, 6), "GPU·h", "", int(asks.sum())),
                Evidence("GPUs a task", each, "", "median of the requests", n),
                Evidence("tasks", n, "", "counted", n),
            ),
            **fields,
            confidence="high" if n >= 10 else "medium",
            advice=(
                "Do not ask for a GPU in these tasks. If they should use one, see whether the "
                "library found it (CPU-only build, driver, CUDA_VISIBLE_DEVICES)."
            ),
            change={
                "nextflow": f"process {{ withName: '{name}' {{ accelerator = null }} }}",
                "slurm": "#SBATCH --gpus=0",
                "snakemake": "resources: gpu=0",
                "dask": "client.submit(f, x)  # without resources={'GPU': 1}",
            }.get(str(engine)),
            apply={"core_request": {"value": 0}},
        )


def _cost(seen: View, tools: Tools, mine: Mask, held: Floats, asks: Mask) -> dict[str, Any] | None:
    """Price the GPUs given back: both runs replayed with GPUs as a limit."""
    if tools.replay is None or tools.replay.model is None or not seen.makespan:
        return None
    needs = np.where(asks, np.nan_to_num(held), 0.0)
    have = _devices(seen, needs)
    # The scheduler's order is not on record: the one that gives the run back best is taken.
    tried = [
        (abs(made - seen.makespan), order, made)
        for order in ("ready", "stage")
        if (made := tools.replay.makespan(Gpus(needs, asks, have, order)))
    ]
    if not tried:
        return None
    _, order, as_was = min(tried, key=lambda one: one[0])
    without = tools.replay.makespan(Gpus(np.where(mine, 0.0, needs), asks, have, order))
    if without is None:
        return None
    off = as_was / seen.makespan - 1.0
    cost = (as_was - without) * seen.makespan / as_was
    if not worth_saying(seen, cost):
        return None
    half = max(0.1 * cost, abs(off) * seen.makespan)
    return {
        "severity": severity_of(seen, cost),
        **price(seen, cost),
        "cost_s_interval80": within_run(seen, cost - half, cost + half),
        "cost_how": (
            "replayed with the workers' GPUs as a limit, with and without these requests; the "
            f"replay of the run itself is {100 * abs(off):.1f} % off"
        ),
    }


def _devices(seen: View, needs: Floats) -> dict[str | None, float]:
    """Give the GPUs of each worker: on record, else the most that were held there at once."""
    table = seen.table("workers")
    have: dict[str | None, float] = {}
    for name, text in zip(table["worker"].to_pylist(), table["devices"].to_pylist(), strict=True):
        if name is not None:
            count = float(len([part for part in (text or "").split(",") if part.strip()]))
            have[name] = max(have.get(name, 0.0), count)
    rows = np.flatnonzero(needs > 0)
    for code in np.unique(seen.worker[rows]).tolist():
        mine = rows[seen.worker[rows] == code]
        times = np.concatenate([seen.started[mine], seen.ended[mine] - 1e-3])
        change = np.concatenate([needs[mine], -needs[mine]])
        most = float(np.cumsum(change[np.lexsort((change, times))]).max())
        name = seen.workers[code] if code >= 0 else None
        have[name] = max(have.get(name, 0.0), most)
    return have
