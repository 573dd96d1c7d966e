"""Sums count what a nested task used once: it is in its outer task's readings already."""

from rotameter.profiler.stats import stats
from rotameter.profiler.trace import Trace


def test_nested_bytes_are_counted_once() -> None:
    rows = [
        {"task_id": "outer", "write_bytes": 80, "wall_s": 2.0},
        {"task_id": "inner", "parent": "outer", "write_bytes": 80, "wall_s": 1.0},
        {"task_id": "alone", "parent": "not recorded", "write_bytes": 5, "wall_s": 1.0},
    ]
    found = stats(Trace.from_tables({"tasks": rows}))
    assert found["sums"]["write_bytes"] == {"sum": 85, "n": 2}
    assert found["attempts"] == 3
