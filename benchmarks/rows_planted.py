"""Rows of the planted causes: is the planted one named first, and its price right?

One run serves all four rows. ``--full``: 5 cases a kind and 40 healthy runs (about 40 minutes on 2
quiet cores), else 1 and 8. With ``ROTAMETER_PLANTED=DIR`` the stored cases of DIR are scored
instead (``python -m benchmarks.planted run --keep DIR`` makes them).
"""

from __future__ import annotations

import os
import random
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.harness import Context, Result, bench

__all__ = ["first", "quiet", "saving", "three"]


@cache
def _summary(full: bool) -> dict[str, Any]:
    from benchmarks.planted import __main__ as command
    from benchmarks.planted import runner, score

    stored = os.environ.get("ROTAMETER_PLANTED")
    if stored:
        scores = score.score(Path(stored))
        seed: int | str = "stored"
    else:
        seed = random.SystemRandom().randrange(1, 100_000)
        print(f"planted causes: seed {seed}", file=sys.stderr)
        with tempfile.TemporaryDirectory() as place:
            seeds = list(range(seed, seed + (5 if full else 1)))
            command.run_all(list(runner.KINDS), seeds, 40 if full else 8, Path(place))
            scores = score.score(Path(place))
    print(score.table(scores), file=sys.stderr)
    return {**score.summary(scores), "seed": seed}


def _note(made: dict[str, Any]) -> str:
    return (
        f"seed {made['seed']}: {made['cases']} cases of {made['kinds']} kinds "
        f"({made['real_kinds']} real), {made['unsettled']} unsettled, {made['failed']} failed"
    )


def _share(context: Context, name: str) -> Result:
    made = _summary(context.full)
    # Fewer kinds than asked for is not the row.
    enough = made["kinds"] >= 24 and made["real_kinds"] >= 16
    return Result(made[name], "share", met=None if enough else False, note=_note(made), detail=made)


@bench("planted_top1", issue=4, target=">= 0.75")
def first(context: Context) -> Result:
    """The planted kind is the first finding."""
    return _share(context, "top1")


@bench("planted_top3", issue=4, target=">= 0.92")
def three(context: Context) -> Result:
    """The planted kind is among the first three."""
    return _share(context, "top3")


@bench("planted_saving_within", issue=4, target=">= 0.8")
def saving(context: Context) -> Result:
    """The predicted saving is within max(25 %, 0.3 s) of the measured one; not found is not."""
    return _share(context, "within")


@bench("planted_healthy_quiet", issue=4, target=">= 0.95")
def quiet(context: Context) -> Result:
    """Healthy runs without a finding over 5 % of the makespan: 38 of 40."""
    made = _summary(context.full)
    share = made["healthy_quiet"] / max(1, made["healthy"])
    note = f"{made['healthy_quiet']} of {made['healthy']}; {_note(made)}"
    return Result(share, "share", met=None if made["healthy"] else False, note=note, detail=made)
