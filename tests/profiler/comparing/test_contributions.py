from __future__ import annotations

import time

import numpy as np

from rotameter.profiler.comparing.contributions import Like, _by_worker
from rotameter.profiler.replaying.model import Worker, make_model


def test_durations_are_split_by_the_worker_that_had_them() -> None:
    model = make_model([5.0, 1.0, 2.0, 9.0], home=[1, 0, 1, 0], group=[0, 0, 0, 1],
                       groups=["a", "b"], workers=[Worker("x", 1.0), Worker("y", 1.0)])  # fmt: skip
    mine = _by_worker(model, ("a",))
    assert {home: walls.tolist() for home, walls in mine.items()} == {0: [1.0], 1: [2.0, 5.0]}
    changed = Like(("a",), np.array([3.0]), ((1, np.array([4.0, 6.0])), (0, np.array([7.0]))))
    assert changed.apply(model).wall_s.tolist() == [6.0, 7.0, 4.0, 9.0]


def test_many_workers_take_no_time() -> None:
    n = 20_000
    home = np.arange(n) % 10_000
    workers = [Worker(f"w{k}", 1.0) for k in range(10_000)]
    model = make_model([1.0] * n, home=home.tolist(), workers=workers)
    before = time.process_time()
    mine = _by_worker(model, tuple(model.groups))
    assert len(mine) == 10_000
    Like(tuple(model.groups), np.ones(n), tuple(mine.items())).apply(model)
    assert time.process_time() - before < 2.0  # Looked for worker by worker it takes six.
