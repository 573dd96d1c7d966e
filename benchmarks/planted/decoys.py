"""Things that look bad and cost (next to) nothing. Every run has some of them."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from benchmarks.planted import work

if TYPE_CHECKING:
    from benchmarks.planted.real import Env

__all__ = ["DECOYS", "draw", "plant"]


def few_tiny(env: Env, rng: random.Random) -> None:
    """A group of very short tasks, too few to matter."""
    env.map(work.step, [0.0002] * rng.randrange(6, 12), keep=True)


def early_long(env: Env, rng: random.Random) -> None:
    """One task several times as long as its mates, begun first and ended with them."""
    short = rng.uniform(0.02, 0.03)
    count = rng.randrange(4, 7)
    env.finish(env.map(work.step, [count * short, *[short] * count]))


def short_retry(env: Env, rng: random.Random) -> None:
    """A task that fails at once and succeeds at the second attempt."""
    marks = str(env.folder("marks"))
    env.map(work.flaky, [(rng.randrange(1000), 0.002, True)], marks=marks, retries=2, keep=True)


def memory_burst(env: Env, rng: random.Random) -> None:
    """A moment of memory, far below the limits."""
    env.map(work.burst, [rng.randrange(40, 90) * 10**6], keep=True)


def small_unread(env: Env, rng: random.Random) -> None:
    """Small files that nobody reads."""
    folder = str(env.folder("notes"))
    for number in range(3):
        env.one(_note, folder, number, keep=True)


def _note(folder: str, number: int, after: object = None) -> int:
    with open(f"{folder}/note-{number}.txt", "w") as file:
        return file.write("done\n" * 100)


def twice_read(env: Env, rng: random.Random) -> None:
    """A small file that two tasks read."""
    path = env.folder("config") / "settings.txt"
    path.write_text("x = 1\n" * 500)
    env.map(work.load, [(1, 0.002, 8), (2, 0.002, 8)], path=str(path), keep=True)


DECOYS: dict[str, Callable[[Env, random.Random], None]] = {
    made.__name__: made
    for made in (few_tiny, early_long, short_retry, memory_burst, small_unread, twice_read)
}


def draw(rng: random.Random) -> tuple[str, ...]:
    """Choose three."""
    return tuple(sorted(rng.sample(sorted(DECOYS), 3)))


def plant(env: Env, names: Sequence[str], seed: int) -> None:
    """Submit the decoys of a run."""
    for name in names:
        DECOYS[name](env, random.Random(f"{name}-{seed}"))
