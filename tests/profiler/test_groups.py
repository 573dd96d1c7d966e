from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rotameter.profiler.groups import group_table, quantiles
from rotameter.profiler.trace import Trace


def test_one_row_a_group_and_what_is_unknown_stays_so() -> None:
    tasks = [
        {"task_id": f"a{i}", "group": "load", "outcome": "ok", "wall_s": float(i + 1),
         "peak_memory_bytes": 100 * (i + 1), "peak_memory_kind": "exact", "read_bytes": 10}
        for i in range(4)
    ]  # fmt: skip
    tasks += [
        {"task_id": "a9", "group": "load", "outcome": "oom", "wall_s": 0.5,
         "peak_memory_bytes": 900, "peak_memory_kind": "lower_bound"},
        {"task_id": "c", "group": "load", "outcome": "cached", "wall_s": 1000.0},
        {"task_id": "x", "group": None, "wall_s": 1.0},
        {"task_id": "y", "group": "bare"},
    ]  # fmt: skip
    origin = {"kind": "group_origin", "group": "load", "file": "/a/b/run.py", "line": 3}
    rows = {
        r.group: r for r in group_table(Trace.from_tables({"tasks": tasks, "events": [origin]}))
    }
    load = rows["load"]
    assert (load.tasks, load.attempts) == (6, 6)
    assert load.outcomes == {"cached": 1, "ok": 4, "oom": 1}
    assert load.wall_s == 10.5
    assert (load.wall_p50_s, load.wall_max_s) == (2.0, 4.0)
    assert load.peak_p50_bytes == 250  # the one that was killed is no measurement
    assert (load.peak_max_bytes, load.peak_kind, load.peak_n) == (900, "lower_bound", 5)
    assert load.read_bytes == 40
    assert load.cpu_s is None
    assert load.origin == "run.py:3"
    assert rows["bare"].wall_s is None
    assert rows["bare"].peak_kind == "missing"
    assert rows["(no group)"].wall_s == 1.0
    assert load.to_dict()["group"] == "load"


def test_the_longest_group_comes_first_and_no_task_gives_no_row() -> None:
    tasks = [{"task_id": g, "group": g, "wall_s": w} for g, w in (("a", 1.0), ("b", 5.0))]
    assert [row.group for row in group_table(Trace.from_tables({"tasks": tasks}))] == ["b", "a"]
    assert group_table(Trace.from_tables({})) == []


@given(
    st.lists(st.tuples(st.integers(0, 4), st.none() | st.floats(0, 1e6)), min_size=1, max_size=60),
    st.sampled_from([0.0, 0.1, 0.5, 0.95, 1.0]),
)
def test_quantiles_are_numpys(rows: list[tuple[int, float | None]], q: float) -> None:
    keys = np.array([key for key, _ in rows])
    values = np.array([np.nan if value is None else value for _, value in rows])
    got = quantiles(keys, values, 5, (q,))[0]
    for key in range(5):
        mine = values[(keys == key) & ~np.isnan(values)]
        want = np.quantile(mine, q) if mine.size else np.nan
        np.testing.assert_allclose(got[key], want, rtol=1e-9, atol=1e-9)
