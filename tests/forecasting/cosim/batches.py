"""Small workloads for the tests of the batch engine."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from rotameter.forecasting.cosim.jobs import Jobs, make_jobs

__all__ = ["jobs_from", "pools"]


@st.composite
def pools(draw: st.DrawFn, most: int = 9) -> tuple[list[tuple[int, int, int, int]], int]:
    """Give rows of (arrive, run, limit, size), in order of arrival, and a capacity."""
    capacity = draw(st.integers(1, 6))
    row = st.tuples(
        st.integers(0, 12), st.integers(0, 9), st.integers(1, 9), st.integers(1, capacity)
    )
    rows = sorted(draw(st.lists(row, max_size=most)), key=lambda r: r[0])
    return rows, capacity


def jobs_from(rows: list[tuple[int, int, int, int]], **columns: Any) -> Jobs:
    """Make jobs of rows."""
    arrive, run, limit, size = zip(*rows, strict=True) if rows else ((), (), (), ())
    return make_jobs(list(arrive), list(run), list(size), limit_s=list(limit), **columns)
