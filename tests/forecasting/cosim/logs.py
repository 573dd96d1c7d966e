"""SWF logs for the tests, made here."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from rotameter.adapters.importers.swf import Importer
from rotameter.forecasting.cosim.batch import run_batch
from rotameter.forecasting.cosim.jobs import make_jobs
from rotameter.forecasting.cosim.machine import Machine
from rotameter.forecasting.cosim.policies.easy import Easy
from rotameter.testing import import_bytes

__all__ = ["line", "log", "recorded", "trace_of_log"]


def line(number: int, submit: Any, run: Any, cores: Any, **fields: Any) -> str:
    """Give one line: what is not given is -1."""
    row = ["-1"] * 18
    places = {
        "wait": 2, "granted": 4, "memory": 9, "status": 10, "user": 11, "queue": 14, "limit": 8
    }  # fmt: skip
    row[0], row[1], row[3], row[7] = str(number), str(submit), str(run), str(cores)
    for name, value in fields.items():
        row[places[name]] = str(value)
    return " ".join(row)


def log(lines: Iterable[str], **header: Any) -> bytes:
    """Give a whole log."""
    head = [f"; {name}: {value}" for name, value in {"Version": 2.2, **header}.items()]
    return "\n".join([*head, *lines, ""]).encode()


def trace_of_log(data: bytes) -> Any:
    """Import it."""
    return import_bytes(Importer, {"log.swf": data})


def recorded(n: int = 300, cores: int = 16, factor: float = 1.0, seed: int = 0) -> bytes:
    """Give a log as EASY would have run it on so many processors; waits times a factor."""
    rng = np.random.default_rng(seed)
    submit = np.sort(rng.integers(0, 60 * n, n))
    run = rng.integers(0, 600, n)
    limit = run + rng.integers(1, 600, n)
    size = 2 ** rng.integers(0, 4, n)
    jobs = make_jobs(submit, run, size, limit_s=limit)
    waits = (run_batch(jobs, Machine(cores=cores), Easy()).waits_s * factor).astype(int)
    columns = (submit, run, size, limit, waits)
    rows = [
        line(k + 1, s, r, c, limit=m, wait=w, granted=c, status=1, user=k % 3, queue=k % 2)
        for k, (s, r, c, m, w) in enumerate(zip(*(c.tolist() for c in columns), strict=True))
    ]
    return log(rows, MaxProcs=cores, UnixStartTime=1_000_000_000)
