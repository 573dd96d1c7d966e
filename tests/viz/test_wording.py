"""What a report of an imported run says, and what it leaves out."""

from __future__ import annotations

import html
import json
import re
from importlib import resources
from typing import Any

import jsonschema
import pytest

from rotameter.profiler.diagnose import diagnose
from rotameter.profiler.trace import Trace
from rotameter.viz.report import findings_document, render

S = 10**9
SCHEMA = json.loads((resources.files("rotameter.viz") / "findings.schema.json").read_text())


def job(name: str, outcome: str = "ok", **more: Any) -> dict[str, Any]:
    return {"task_id": name, "group": "g", "outcome": outcome, "outcome_kind": "reported", **more}


def report(tasks: list[dict[str, Any]], engine: str = "nextflow", **more: Any) -> str:
    tables = {"tasks": tasks, **more.pop("tables", {})}
    meta = {"origin": "imported", "engine": engine, "importer": {"records": {"in": 3}}, **more}
    trace = Trace.from_tables(tables, meta)
    verdict = diagnose(trace)
    document = findings_document(trace, verdict)
    jsonschema.Draft202012Validator(SCHEMA).validate(document)
    page = render(trace, verdict)
    page = re.sub(r"<(script|style)>.*?</\1>", " ", page, flags=re.S)
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", " ", page)))


TIMED = {"submitted_ns": 0, "started_ns": S, "ended_ns": 3 * S}


def test_empty_sections_of_an_import_are_left_out() -> None:
    text = report([job("a", wall_s=1.0)])
    for absent in (
        "Bytes between workers", "No worker was recorded", "No timeline can be drawn",
        "Cost of the tracer", "Tracer levels", "Command", "Retries", "Peak memory, p95",
        "thread CPU time", "Time base",
    ):  # fmt: skip
        assert absent not in text, absent
    text = report([job("a", **TIMED, worker="w", cpu_s=2.0, peak_memory_bytes=5)])
    for present in ("Timeline", "Workers", "CPU", "Peak memory, p95", "100 % is one core"):
        assert present in text, present


def test_a_recorded_run_keeps_all_its_sections() -> None:
    trace = Trace.from_tables({"tasks": [job("a", **TIMED)]})
    page = render(trace, diagnose(trace))
    for present in ("Bytes between workers", "No worker was recorded", "Retries", "Tracer levels"):
        assert present in page, present


def test_a_job_log_is_called_one() -> None:
    text = report([job("1", "failed", **TIMED), job("2", **TIMED)], "slurm")
    assert "Log of jobs" in text
    assert "Slurm 2 jobs" in text
    assert "What was lost, and what to do" in text
    assert "Run failed" not in text


@pytest.mark.parametrize(("kind", "expected"), [("inferred", True), ("reported", False)])
def test_an_end_that_the_record_does_not_tell_is_not_claimed(kind: str, expected: bool) -> None:
    text = report([job("a", **TIMED) | {"outcome_kind": kind}], "chrome_trace")
    assert ("Imported; how it ended is not in the record" in text) is expected
    assert ("Run finished" in text) is not expected


def test_places_are_called_what_they_are() -> None:
    tasks = [job("a", **TIMED, worker="Renderer")]
    assert "Processes" in report(tasks, "chrome_trace")
    assert "Services" in report(tasks, "otlp")
    assert "Machines" in report(tasks, "wfcommons")
    assert "Workers" in report(tasks, "parsl")


def test_relative_times_are_no_dates() -> None:
    text = report([job("a", **TIMED)], time_base="relative_ns")
    assert "1970-01-01" not in text
    assert "the times carry no zone (--utc-offset says which)" in text
    chrome = report([job("a", **TIMED)], "chrome_trace", time_base="relative_ns")
    assert "the times are relative" in chrome
    assert "--utc-offset" not in chrome


def test_what_was_lost_waited_for_and_asked_for_is_a_table() -> None:
    tasks = [
        job("a", "failed", attempt=1, **TIMED),
        job("a", attempt=2, submitted_ns=0, started_ns=3 * S, ended_ns=5 * S,
            requested_memory_bytes=100, peak_memory_bytes=10),
    ]  # fmt: skip
    text = report(tasks)
    assert "Lost, waited for and asked for" in text
    assert "In failed attempts 2 s 50% of task time; 1 of 2 attempts" in text
    assert "Submitted to started 4 s in all, median 2 s; 2 attempts" in text
    assert "Memory asked, used 10% of GB·h median task 10%; 1 of 2 attempts" in text
    assert "failed 1 2 s" in text  # outcome, attempts, task time


def test_the_timeline_of_an_import_begins_with_the_first_submission() -> None:
    trace = Trace.from_tables(
        {"tasks": [job("a", **TIMED)], "events": [
            {"kind": "worker_removed", "at_ns": S // 2, "worker": "w", "expected": False}]},
        {"origin": "imported", "engine": "taskvine"},
    )  # fmt: skip
    document = findings_document(trace, diagnose(trace))
    assert document["run"]["span_s"] == 3.0
    assert document["incidents"][0]["at_s"] == 0.5


def test_attempts_without_a_worker_share_one_row() -> None:
    few = report([job(str(i), started_ns=i * S, ended_ns=(i + 1) * S) for i in range(5)])
    assert "No worker was recorded: a row holds those that ran one after the other." in few
    many = report([job(str(i), started_ns=0, ended_ns=S) for i in range(200)])
    assert "No worker was recorded: attempts are drawn in one row." in many
    assert "1 worker" not in many


def test_refused_records_are_said_with_how_many_there_were() -> None:
    text = report(
        [job("a", **TIMED)],
        warnings=["2 of 3 records were refused: see table rejects"],
        tables={"rejects": [{"source": "f", "line": n, "reason": "no number"} for n in (1, 2)]},
    )
    assert text.count("2 of 3 records were refused") == 2  # what cannot be told, and provenance
    assert "2 input records were refused" not in text
    assert "f, line 1: no number" in text
