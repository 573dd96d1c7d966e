"""Draw a case, run it, measure what its causes truly cost, store it.

A stored case is a folder: ``case.json``, and the trace that ``case.json`` names. A case that
cannot be run, or whose causes do not cost enough or cannot be told from the machine's noise, is
stored as such and counted; it is never left out in silence.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import random
import shutil
import statistics
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from distributed import Client

from benchmarks.planted import (
    decoys,
    gen_gpu,
    gen_requests,
    gen_storage,
    healthy,
    real_balance,
    real_files,
    real_loss,
    real_memory,
    real_scheduling,
)
from benchmarks.planted.base import GENERATED, REAL, Cluster, RealCause, Truth, matters
from benchmarks.planted.real import Plan, base_sizes, cluster, run_once

__all__ = ["KINDS", "draw_plan", "run_case", "run_healthy", "second_of"]

# Imported for what they register.
_FAMILIES = (
    real_balance, real_files, real_loss, real_memory, real_scheduling,
    gen_gpu, gen_requests, gen_storage,
)  # fmt: skip
KINDS = (*REAL, *GENERATED)
DRAWS = {True: 3, False: 20}  # real, generated
REPEATS = 3
SECOND_SCALE = 0.45


def second_of(cause: RealCause, rng: random.Random) -> RealCause | None:
    """Choose a second cause of another family that the first one's cluster can bear."""
    able = [
        other
        for other in REAL.values()
        if other.second
        and other.family != cause.family
        and other.cluster({}, True) == Cluster()
        and not (cause.dirty and other.pins)
        and not (cause.kind == "gil_contention" and other.pins)
    ]
    return rng.choice(able) if able else None


def draw_plan(kind: str, seed: int, draw: int, *, second: bool) -> Plan:
    """Draw a workflow with a cause, and with a second smaller one where asked for."""
    rng = random.Random(f"{kind}/{seed}/{draw}")
    cause = REAL[kind]
    causes = [cause]
    other = second_of(cause, rng) if second else None
    if other is not None:
        causes.append(other)
    sizes = [c.draw(rng, 1.0 if c is cause else SECOND_SCALE) for c in causes]
    if rng.random() < 0.5:
        causes.reverse()
        sizes.reverse()
    return Plan(
        rng.randrange(10**6),
        tuple(causes),
        tuple(sizes),
        base_sizes(rng),
        base_sizes(rng),
        decoys.draw(rng),
    )


class _Clusters:
    """Gives a cluster of a shape: the one that runs where it may be used again, else a new one."""

    def __init__(self) -> None:
        self._stack = contextlib.ExitStack()
        self._shape: Cluster | None = None
        self._client: Client | None = None

    def give(self, shape: Cluster) -> Client:
        if self._client is None or shape != self._shape:
            self.close()
            self._client = self._stack.enter_context(cluster(shape))
            self._shape = shape
        return self._client

    def close(self) -> None:
        self._client = self._shape = None
        self._stack.close()


def _runs(
    plan: Plan, on: Sequence[bool], place: Path, name: str, count: int, clusters: _Clusters
) -> list[float]:
    """Run a workflow several times."""
    dirty = any(c.dirty for c, planted in zip(plan.causes, on, strict=True) if planted)
    took: list[float] = []
    while len(took) < count:
        client = clusters.give(plan.shape(on))
        trace = place / f"{name}{len(took)}.rmt"
        took.append(run_once(client, plan, on, trace, place / "scratch", place / "inputs"))
        shutil.rmtree(place / "scratch", ignore_errors=True)
        if name != "with":
            shutil.rmtree(trace, ignore_errors=True)
        if dirty:
            clusters.close()
    return took


def _measure(plan: Plan, kind: str, place: Path) -> tuple[float, list[Truth], str]:
    """Run with and without each cause; give the makespan, the truths, the trace's name."""
    for cause, sizes in zip(plan.causes, plan.sizes, strict=True):
        if cause.prepare is not None:
            cause.prepare(place / "inputs", sizes)
    every = [True] * len(plan.causes)
    truths = []
    clusters = _Clusters()
    try:
        (whole,) = _runs(plan, every, place, "with", 1, clusters)
        for number, cause in enumerate(plan.causes):
            on = [other != number for other in range(len(plan.causes))]
            without = _runs(plan, on, place, "without", REPEATS, clusters)
            saving = whole - statistics.median(without)
            truths.append(Truth(cause.kind, saving, max(without) - min(without), without))
    finally:
        clusters.close()
    truths.sort(key=lambda truth: truth.kind != kind)
    return whole, truths, "with0.rmt"


def _trouble(truths: Sequence[Truth], makespan_s: float) -> str:
    """Say why a case is no good test, or nothing."""
    first, *others = truths
    if not matters(first.saving_s, makespan_s):
        return f"{first.kind} costs only {first.saving_s:.2f} s of {makespan_s:.2f} s"
    if first.spread_s > max(0.25 * first.saving_s, 0.3):
        return f"the runs without {first.kind} differ by {first.spread_s:.2f} s"
    for other in others:
        if other.saving_s > 0.8 * first.saving_s:
            return f"{other.kind} costs no less than {first.kind}"
    return ""


def _attempt(kind: str, seed: int, draw: int, place: Path) -> dict[str, Any]:
    """Draw and run a case once."""
    rng = random.Random(f"{kind}/{seed}/{draw}/second")
    if kind in REAL:
        plan = draw_plan(kind, seed, draw, second=rng.random() < 0.5)
        makespan, truths, trace = _measure(plan, kind, place)
        shutil.rmtree(place / "inputs", ignore_errors=True)
        form = "real"
    else:
        made = GENERATED[kind].make(random.Random(f"{kind}/{seed}/{draw}"), place)
        makespan, truths, trace, form = made.makespan_s, made.truths, made.path.name, made.form
    # A second cause that turns out to cost nothing is one more decoy.
    kept = [t for t in truths if t is truths[0] or matters(t.saving_s, makespan)]
    return {
        "form": form,
        "trace": trace,
        "makespan_s": makespan,
        "truths": [dataclasses.asdict(truth) for truth in kept],
        "trouble": _trouble(truths, makespan),
    }


def run_case(kind: str, seed: int, keep: Path) -> dict[str, Any]:
    """Run one case of a kind and store it; draws again where a draw is no good test."""
    began = time.perf_counter()
    case: dict[str, Any] = {"kind": kind, "seed": seed, "draws": []}
    target = keep / f"{kind}-{seed}"
    for draw in range(DRAWS[kind in REAL]):
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        try:
            made = _attempt(kind, seed, draw, target)
        except Exception as error:
            made = {"trouble": f"{type(error).__name__}: {error}", "status": "failed"}
            made["traceback"] = traceback.format_exc()
        case["draws"].append(made["trouble"])
        case |= made
        case.setdefault("status", "ok")
        if not made["trouble"]:
            case["status"] = "ok"
            break
        if case["status"] != "failed":
            case["status"] = "unsettled"
    case["took_s"] = round(time.perf_counter() - began, 1)
    case["load"] = round(os.getloadavg()[0], 2)
    (target / "case.json").write_text(json.dumps(case, indent=1))
    return case


def run_healthy(number: int, seed: int, keep: Path) -> dict[str, Any]:
    """Run or write one workflow without a cause and store it."""
    began = time.perf_counter()
    form = healthy.FORMS[number % len(healthy.FORMS)]
    rng = random.Random(f"healthy/{number}/{seed}")
    target = keep / f"healthy-{seed}-{number:02d}"
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    case: dict[str, Any] = {"kind": "healthy", "seed": seed, "form": form, "truths": []}
    try:
        if form == "real":
            path, makespan = healthy.run_real(rng, seed * 100 + number, target)
        else:
            made = healthy.make_generated(form, rng, target)
            path, makespan = made.path, made.makespan_s
        case |= {"status": "ok", "trace": path.name, "makespan_s": makespan, "trouble": ""}
    except Exception as error:
        case |= {"status": "failed", "trouble": f"{type(error).__name__}: {error}"}
        case["traceback"] = traceback.format_exc()
    case["took_s"] = round(time.perf_counter() - began, 1)
    case["load"] = round(os.getloadavg()[0], 2)
    (target / "case.json").write_text(json.dumps(case, indent=1))
    return case
