"""Counts, marks and provenance in words."""

from __future__ import annotations

import pytest

from rotameter.profiler.trace import Trace
from rotameter.values import Verdict
from rotameter.viz.document import findings_document
from rotameter.viz.formats import brief
from rotameter.viz.page import environment, style
from rotameter.viz.provenance import provenance_rows
from rotameter.viz.tables import groups
from rotameter.viz.timeline import timeline

S = 10**9


@pytest.mark.parametrize(
    ("text", "limit", "cut"),
    [
        ("so much was unmeasured here", 17, "so much was…"),
        ("one kernel. Later", 14, "one kernel.…"),
        ("abcdefghijklm nop", 10, "abcdefghi…"),
    ],
)
def test_prose_is_cut_after_a_word(text: str, limit: int, cut: str) -> None:
    assert brief(text, limit) == cut


def test_at_least_nothing_is_unknown() -> None:
    qualified = environment().filters["qualified"]
    assert qualified(0, "lower_bound") == "—"
    assert qualified(0, "exact") == "0 B"
    assert qualified(5, "lower_bound") == "≥ 5 B"


def test_a_result_computed_again_is_no_retry() -> None:
    rows = [
        {"task_id": "a", "attempt": 1, "group": "g", "outcome": "ok"},
        {"task_id": "a", "attempt": 2, "group": "g", "outcome": "ok"},
        {"task_id": "b", "attempt": 1, "group": "g", "outcome": "worker_lost"},
        {"task_id": "b", "attempt": 2, "group": "g", "outcome": "ok"},
        {"task_id": "b", "attempt": 3, "group": "g", "outcome": "ok"},
    ]
    (row,) = groups(Trace.from_tables({"tasks": rows}))
    assert (row["tasks"], row["retries"], row["recomputed"]) == (2, 1, 2)


def test_provenance_says_what_is_missing_and_when_the_tracer_stepped_down() -> None:
    trace = Trace.from_tables(
        {
            "tasks": [
                {"task_id": "a", "group": "g", "started_ns": 0, "ended_ns": S, "cpu_s": 0.5,
                 "peak_memory_bytes": 5},
                {"task_id": "b", "group": "g", "started_ns": 0, "ended_ns": S, "cpu_s": 0.5},
            ],
            "events": [{"kind": "level_changed", "group": "g", "worker": "w",
                        "reason": "tasks of g take less than 5 ms: time and CPU only"}],
        },
        {"engine": None, "origin": "recorded", "segments": 1},
    )  # fmt: skip
    document = findings_document(trace, Verdict("It ran.", "ok"))
    rows = {label: " | ".join(texts) for label, texts in provenance_rows(document)}
    assert "tasks of g take less than 5 ms" in rows["Tracer levels"]
    assert "energy: no attempt has it" in rows["Not measured"]
    assert "peak memory of tasks: not for 1 attempt of 2" in rows["Not measured"]
    assert "CPU time" not in rows["Not measured"]
    assert rows["Origin"] == "recorded, engine python"
    assert "in 1 segment |" in rows["Records"]
    assert any("on 1 worker to stay" in text for text in document["losses"])


def test_the_timeline_says_why_it_is_longer_than_the_run_time() -> None:
    tasks = [{"task_id": "a", "submitted_ns": 12 * S, "started_ns": 13 * S, "ended_ns": 20 * S}]
    meta = {"run": {"started_ns": S, "ended_ns": 21 * S}}
    notes = timeline(Trace.from_tables({"tasks": tasks}, meta), []).notes
    assert notes[0].startswith("The timeline starts with the program; the first task was submitted")
    assert "11 s" in notes[0]
    meta = {"run": {"started_ns": 12 * S, "ended_ns": 21 * S}}
    assert not timeline(Trace.from_tables({"tasks": tasks}, meta), []).notes


def test_a_wide_table_says_on_a_narrow_screen_that_it_scrolls() -> None:
    narrow = style().split("@media (max-width: 52rem)")[1]
    assert "Scroll →" in narrow.split("@media")[0]
