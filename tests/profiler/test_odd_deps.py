from __future__ import annotations

import pytest

from rotameter.profiler.diagnose import diagnose
from rotameter.profiler.trace import Trace

S = 10**9


def notes(*deps: tuple[str, str], engine: str = "table") -> list[str]:
    tasks = [
        {"task_id": name, "group": name, "outcome": "ok", "worker": "w",
         "started_ns": 1 + k * S, "ended_ns": 1 + (k + 1) * S}
        for k, name in enumerate("abc")
    ]  # fmt: skip
    rows = [{"task_id": task, "depends_on": on} for task, on in deps]
    trace = Trace.from_tables({"tasks": tasks, "deps": rows}, {"engine": engine})
    return [text for text in diagnose(trace).notes if "depend" in text]


@pytest.mark.parametrize(
    ("deps", "said"),
    [
        ([("b", "zzz"), ("c", "b")], "1 of 2 dependencies names a task that is not there (`zzz`)"),
        ([("b", "x"), ("c", "y")], "2 of 2 dependencies name tasks that are not there (`x`)"),
        ([("a", "b"), ("b", "a")], "2 tasks depend on each other in a circle (`a`, `b`)"),
        ([("a", "b"), ("b", "c"), ("c", "a")],
         "3 tasks depend on each other in a circle (`a`, `b`, …"),
        ([("a", "a")], "1 task depends on itself (`a`)"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_said(deps: list[tuple[str, str]], said: str) -> None:
    (note,) = notes(*deps)
    assert note.startswith(said)


def test_what_can_be_is_not() -> None:
    assert notes(("b", "a"), ("c", "a"), ("c", "b")) == []
    assert notes() == []
    assert notes(("b", "zzz"), engine="dask") == []  # Its keys may be data.
