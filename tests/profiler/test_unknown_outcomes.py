"""How attempts ended may not be on record: then it is unknown, and neither 0 nor a failure."""

from __future__ import annotations

from typing import Any

import pytest

from rotameter.profiler.diagnose import diagnose
from rotameter.profiler.ledger import ledger
from rotameter.profiler.trace import Trace
from rotameter.profiler.view import view

S = 10**9


def table(outcome: str | None, *, long_s: float = 1.0, workers: bool = True, **more: Any) -> Trace:
    """Forty tasks of a second on four workers; the last takes ``long_s``."""
    rows = []
    for number in range(40):
        begin, took = number // 4, long_s if number == 39 else 1.0
        rows.append(
            {"task_id": f"t{number}", "group": "work", "worker": f"w{number % 4}",
             "started_ns": 1 + begin * S, "ended_ns": 1 + round((begin + took) * S),
             "outcome": outcome, **more}
        )  # fmt: skip
    lives = [
        {"worker": f"w{k}", "started_ns": 1, "ended_ns": 10 * S + 1, "cores": 1.0} for k in range(4)
    ]
    tables = {"tasks": rows, "workers": lives if workers else []}
    return Trace.from_tables(tables, {"engine": "table", "origin": "imported"})


@pytest.mark.parametrize("outcome", [None, "unknown"])
@pytest.mark.parametrize("workers", [True, False])
def test_what_took_time_is_found_without_outcomes(outcome: str | None, workers: bool) -> None:
    (finding,) = diagnose(table(outcome, long_s=6.0, workers=workers)).findings
    assert finding.kind == "straggler"
    assert finding.cost_s == pytest.approx(5.0, abs=0.1)


@pytest.mark.parametrize("outcome", [None, "unknown"])
def test_an_unknown_use_is_not_none(outcome: str | None) -> None:
    trace = table(outcome, requested_memory_bytes=2e9, peak_memory_bytes=1.9e9)
    book = ledger(trace)
    for account in (book.worker_core_s, book.request_gbh):
        assert account.useful_ratio is None
        parts = (account.useful or 0.0) + (account.wasted_total or 0.0)
        assert parts == pytest.approx(account.held)
    assert book.worker_core_s.busy_ratio == pytest.approx(1.0)
    verdict = diagnose(trace)
    assert verdict.figures[1].value is None
    assert verdict.figures[2].value is None
    assert "in vain" not in verdict.figures[2].label
    assert "recorded as done" not in verdict.sentence
    (note,) = [text for text in verdict.notes if "was of use" in text]
    assert "how the tasks ended is not recorded" in note


def test_known_outcomes_say_nothing_of_it() -> None:
    verdict = diagnose(table("ok"))
    assert not [text for text in verdict.notes if "was of use" in text]
    assert verdict.figures[1].value == pytest.approx(1.0)


def test_a_blank_outcome_is_no_failure() -> None:
    seen = view(table(None))
    assert not seen.lost.any()
    assert not seen.ok.any()
