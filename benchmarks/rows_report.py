"""Rows of the report: 100,000 tasks, made in time and small enough to mail."""

from __future__ import annotations

import time

from tests.support.synthetic import synthetic_trace

from benchmarks.harness import Context, Result, bench
from rotameter.api import diagnose
from rotameter.viz.report import render

__all__ = ["report_seconds", "report_size"]

TASKS = 100_000


def _made(seed: int) -> tuple[float, int]:
    """Diagnose a trace and make its report; give seconds and bytes."""
    trace = synthetic_trace(
        TASKS, workers=16, threads=4, groups=40, failed=0.01, deaths=3, seed=seed
    )
    begin = time.perf_counter()
    page = render(trace, diagnose(trace), title="benchmark").encode()
    return time.perf_counter() - begin, len(page)


@bench("report_100k_seconds", issue=2, target="<= 6")
def report_seconds(context: Context) -> Result:
    """Seconds to make the report of 100,000 tasks, the median of five."""
    values = sorted(_made(seed)[0] for seed in range(5))
    return Result(values[2], "s", (values[0], values[-1]))


@bench("report_100k_megabytes", issue=2, target="<= 3")
def report_size(context: Context) -> Result:
    """Size of the report of 100,000 tasks, the largest of three traces."""
    sizes = sorted(_made(seed)[1] / 1e6 for seed in range(3))
    return Result(sizes[-1], "MB", (sizes[0], sizes[-1]))
