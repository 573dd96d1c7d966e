"""The decorator on plain Python: three tasks, one trace, one report.

Run it as ``python examples/quickstart.py [FOLDER]``; FOLDER takes run.rmt and report.html.
"""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

import rotameter as rm


@rm.task
def load(seed: int) -> np.ndarray:
    """Make one frame of readings."""
    return np.random.default_rng(seed).normal(size=200_000)


@rm.task
def clean(frame: np.ndarray) -> np.ndarray:
    """Drop what is out of range."""
    return frame[np.abs(frame) < 3]


@rm.task(group="summary")
def summarise(frames: list[np.ndarray]) -> float:
    """Reduce all frames to one number."""
    with rm.span("sort"):
        ordered = np.sort(np.concatenate(frames))
    return float(ordered[len(ordered) // 2])


def work(seed: int) -> np.ndarray:
    """Load and clean one frame."""
    return clean(load(seed))


def main() -> None:
    """Run the three tasks on two threads."""
    with ThreadPoolExecutor(2) as pool:
        frames = list(pool.map(work, range(16)))
    print(f"median {summarise(frames):+.5f}")


if __name__ == "__main__":
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    with rm.trace(folder / "run.rmt") as run:
        main()
    run.report(folder / "report.html")
