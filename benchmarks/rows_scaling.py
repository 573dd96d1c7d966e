"""Rows of the scaling laws: on measured series, and on generated graphs whose laws are known.

The generator knows nothing of the fitting: a graph has one task group for each law, its
parameters drawn wide, each instance with 5 % noise of its own, at three scales; what is predicted
is a run at twice the largest. Seeds are drawn when the row runs and are printed.
"""

from __future__ import annotations

import math
import secrets
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import Context, Result, bench
from benchmarks.rows_import import _shared

__all__ = ["generated"]

LAWS = ("c", "c*k^a", "c+d*k", "c*k*log(k)", "a/k")
SCALES = ((1, 2, 4), (2, 4, 8), (1, 2, 3), (10, 20, 40), (3, 9, 27))
NOISE = 0.05


def _open(path: Path) -> Any:
    import rotameter

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return rotameter.open(path)


@bench("scaling_flowforecaster_k3_ape", issue=4, target="<= 0.01")
def flowforecaster(context: Context) -> Result:
    """Mean error of the volume of each edge at data scale 3, from scales 1 and 2."""
    from rotameter.profiler.flow.graph import flow_graph
    from rotameter.profiler.scaling import align, scaling_of

    place = _shared(context) / "data/dataflow/flowforecaster/sample_data/1000Genomes"
    base = "sample.1k_genome.iter-3.thrd-2"
    names = (f"{base}.graphml", *(f"{base}_data_scale_{k}.0.graphml" for k in (2, 3)))
    runs = [_open(place / name) for name in names]
    aligned = align([flow_graph(run) for run in runs[:2]], [1, 2])
    found = scaling_of(aligned, [1, 2], "data")
    truth = _edge_bytes(flow_graph(runs[2]))
    edges, folds = [], []
    for row in found.of("bytes"):
        series = row.each.series
        ahead, sums = row.each.predict(3).value, [0.0, 0.0]
        for at, name in enumerate(series.ids[1]):
            # One edge: its own value at scale 2, grown as its fold grows.
            grown = series.samples[1][at] * ahead / row.each.predict(2).value
            task, thing = divmod(int(name), len(aligned.objects))
            edge = aligned.tasks[task], aligned.objects[thing], row.direction == "writes"
            real = truth.pop(edge)
            edges.append(abs(grown / real - 1))
            sums = [sums[0] + grown, sums[1] + real]
        folds.append(abs(row.predict_total(3).value / sums[1] - 1))
    met = float(np.mean(edges)) <= 0.01 and not truth and len(edges) == 186
    note = f"{len(edges)} edges, {len(folds)} folded: mean {np.mean(folds):.2g}; {len(truth)} left"
    return Result(float(np.mean(edges)), "ratio", met=met, note=note)


def _edge_bytes(g: Any) -> dict[tuple[str, str, bool], float]:
    rows = zip(
        g.edge_task.tolist(),
        g.edge_object.tolist(),
        g.edge_write.tolist(),
        g.bytes.tolist(),
        strict=True,
    )
    return {(g.tasks[t], g.objects[o], w): v for t, o, w, v in rows}


@bench("scaling_1kg_9000_error_ratio", issue=4, target="<= 0.01")
def genomes(context: Context) -> Result:
    """Volume read of 1000 Genomes 9000, from 3000 and 6000 (constant: a trap)."""
    from rotameter.profiler.flow.graph import flow_graph
    from rotameter.profiler.scaling import scaling

    place = _shared(context) / "data/dataflow/io-aware"
    runs = [_open(place / f"par_{k}_1n_pfs_ps300.csv") for k in (3000, 6000, 9000)]
    found = scaling(runs[:2], scale=[3000, 6000])
    last = flow_graph(runs[2])
    real = float(np.nansum(last.bytes[~last.edge_write]))
    whole = next(r for r in found.of("bytes", "run") if r.key == "all reads")
    direct = whole.predict_total(9000).value
    summed = found.total("bytes", 9000, direction="reads")
    errors = [abs(v / real - 1) if v is not None else math.inf for v in (direct, summed)]
    note = f"run's own law {errors[0]:.2%}, sum of the folds {errors[1]:.2%}; {whole.each.formula}"
    return Result(max(errors), "ratio", note=f"{note}; real {real / 2**30:.1f} GiB")


Curve = Callable[[float], float]


def _drawn(law: str, rng: np.random.Generator) -> Curve:
    """Draw a law's parameters, wide."""
    c = math.exp(rng.uniform(math.log(1e4), math.log(1e10)))
    a, share = rng.uniform(-1.5, 2.5), math.exp(rng.uniform(math.log(0.1), math.log(10)))
    curves: dict[str, Curve] = {
        "c": lambda k: c,
        "c*k^a": lambda k: c * k**a,
        "c+d*k": lambda k: c * (share + k),
        "c*k*log(k)": lambda k: c * k * math.log(k),
        "a/k": lambda k: c / k,
    }
    return curves[law]


def _run(
    curves: dict[str, Curve], sizes: dict[str, int], k: float, rng: np.random.Generator, mark: str
) -> tuple[Any, dict[str, float]]:
    """Give a run's trace, and the sum of each group."""
    from rotameter.profiler.trace import Trace

    tasks, flows, sums = [], [], {}
    for law, curve in curves.items():
        values = curve(k) * (1 + NOISE * rng.standard_normal(sizes[law]))
        for n, value in enumerate(values.tolist()):
            name = f"{law} {mark} {n}"
            tasks.append({"task_id": name, "group": law})
            moved = round(max(value, 0.0))
            flows.append({"task_id": name, "object": f"in {name}", "op": "read", "bytes": moved})
        sums[law] = float(values.sum())
    return Trace.from_tables({"tasks": tasks, "flows": flows}), sums


def generated(graphs: int, least: int, most: int, seed: int) -> dict[str, Any]:
    """Fit and predict generated graphs; give right-law share, errors and coverage."""
    from rotameter.profiler.scaling import scaling

    rng = np.random.default_rng(seed)
    out: dict[str, Any] = {"seed": seed, "folds": 0, "right": 0, "doubt": 0, "no_interval": 0}
    errors: list[float] = []
    run_hits: list[bool] = []
    law_hits: list[bool] = []
    wrong: dict[str, int] = {}
    for _ in range(graphs):
        scales = SCALES[int(rng.integers(len(SCALES)))]
        curves = {law: _drawn(law, rng) for law in LAWS}
        sizes = {law: int(rng.integers(least, most + 1)) for law in LAWS}
        same = bool(rng.integers(2))  # Half of the workflows call their tasks the same each time.
        runs = [
            _run(curves, sizes, k, rng, "t" if same else f"{rng.integers(1 << 40)}")[0]
            for k in scales
        ]
        ahead = 2 * max(scales)
        _, truth = _run(curves, sizes, ahead, rng, "t")
        found = scaling(runs, scale=scales)
        for row in found.of("bytes"):
            law = row.key.partition(" reads")[0]
            guess = row.predict_total(ahead)
            exact = sizes[law] * curves[law](ahead)
            out["folds"] += 1
            good = (row.each.law or "").replace("log(1+k)", "log(k)") == law
            out["right"] += good
            if not good:
                wrong[f"{law} as {row.each.law}"] = wrong.get(f"{law} as {row.each.law}", 0) + 1
            out["doubt"] += bool(row.each.alike)
            errors.append(abs(guess.value / exact - 1))
            if guess.low is None or guess.high is None:
                out["no_interval"] += 1
                continue
            run_hits.append(guess.low <= truth[law] <= guess.high)
            law_hits.append(guess.law_low <= exact <= guess.law_high)  # type: ignore[operator]
    out["right_ratio"] = out["right"] / out["folds"]
    out["median_error"] = float(np.median(errors))
    out["coverage"] = float(np.mean(run_hits))
    out["coverage_of_law"] = float(np.mean(law_hits))
    out["wrong"] = dict(sorted(wrong.items(), key=lambda item: -item[1]))
    return out


_DONE: dict[tuple[int, int, int], dict[str, Any]] = {}


def _once(graphs: int, least: int, most: int) -> dict[str, Any]:
    key = (graphs, least, most)
    if key not in _DONE:
        _DONE[key] = generated(*key, secrets.randbelow(1 << 32))
    return _DONE[key]


def _note(made: dict[str, Any]) -> str:
    return (
        f"seed {made['seed']}, {made['folds']} folds, {made['doubt']} cannot be distinguished, "
        f"{made['no_interval']} without interval"
    )


@bench("scaling_right_law_ratio", issue=4, target=">= 0.8")
def right_law(context: Context) -> Result:
    """200 generated graphs x 5 laws, 8 to 40 instances, 5 % noise, 3 scales."""
    made = _once(200, 8, 40)
    return Result(made["right_ratio"], "ratio", note=_note(made), detail=made)


@bench("scaling_median_error_ratio", issue=4, target="<= 0.08")
def median_error(context: Context) -> Result:
    """The same: error of the total at twice the largest scale."""
    made = _once(200, 8, 40)
    return Result(made["median_error"], "ratio", note=_note(made), detail=made)


def _coverage(made: dict[str, Any]) -> Result:
    shares = made["coverage"], made["coverage_of_law"]
    met = all(0.85 <= share <= 0.95 for share in shares)
    note = f"a run's total {shares[0]:.3f}, the law itself {shares[1]:.3f}; {_note(made)}"
    return Result(shares[0], "ratio", met=met, note=note, detail=made)


@bench("scaling_coverage", issue=4, target=">= 0.85 and <= 0.95")
def coverage(context: Context) -> Result:
    """The same: share of 90 % intervals that hold the truth (of a new run, and of the law)."""
    return _coverage(_once(200, 8, 40))


@bench("scaling_coverage_few", issue=4, target=">= 0.85 and <= 0.95")
def coverage_few(context: Context) -> Result:
    """The same with 1 to 7 instances, where an interval is given at all."""
    return _coverage(_once(200, 1, 7))
