"""Runs without a cause: the same shapes and decoys, nothing to find."""

from __future__ import annotations

import random
from pathlib import Path

from benchmarks.planted import decoys, gen_gpu, real
from benchmarks.planted.base import Cluster
from benchmarks.planted.generated import (
    Flow,
    Generated,
    base_flow,
    settle,
    write_nextflow,
    write_sacct,
)

__all__ = ["FORMS", "make_generated", "run_real"]

FORMS = ("real", "tables", "real", "nextflow", "real", "sacct", "real", "kineto")
"""The forms of healthy runs, in turn: half of them real."""


def make_generated(form: str, rng: random.Random, place: Path) -> Generated:
    """Write a trace without a cause in one of the forms."""
    if form == "kineto":
        return gen_gpu.healthy(rng, place)
    seed = rng.random()

    def make(first: bool, other: bool) -> Flow:
        return base_flow(random.Random(seed), barrier=form != "tables")

    writers = {"nextflow": write_nextflow, "sacct": write_sacct, "tables": None}
    made = settle(rng, place, "", make, None, writers[form])
    made.truths.clear()
    return made


def run_real(rng: random.Random, seed: int, place: Path) -> tuple[Path, float]:
    """Run a workflow without a cause on a real cluster; give the trace and the seconds."""
    sections = [{**real.base_sizes(rng), "merge_s": 0.003} for _ in range(3)]
    for sizes in sections:
        sizes["pieces"] = rng.randrange(11, 18)
    shape = rng.choice((Cluster(2, 1), Cluster(2, 1), Cluster(1, 2)))
    chosen = decoys.draw(rng)
    trace = place / "run.rmt"
    with real.cluster(shape) as client:
        took = real.run_sections(client, sections, chosen, seed, trace, place / "scratch")
    return trace, took
