from __future__ import annotations

import dataclasses
import json
import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rotameter.profiler.diagnose import diagnose, to_json, to_text, turn
from rotameter.profiler.findings.base import Tools
from rotameter.profiler.trace import Trace
from rotameter.values import Figure, Finding, Verdict

S = 10**9


class Says:
    """A rule that says what it was told to."""

    def __init__(self, *findings: Any, name: str = "says") -> None:
        self.name = name
        self.findings = list(findings)

    def check(self, trace: Trace, tools: Tools) -> list[Finding]:
        return self.findings


class Breaks:
    name = "breaks"

    def check(self, trace: Trace, tools: Tools) -> list[Finding]:
        raise ZeroDivisionError("a\nb")


def finding(cost_s: float | None, **more: Any) -> Finding:
    given = {"code": "RM900", "kind": "k", "severity": "info", "title": "t", "cost_s": cost_s}
    return Finding(**{**given, **more})


TRACE = Trace.from_tables(
    {"tasks": [{"task_id": "a", "outcome": "ok", "started_ns": 0, "ended_ns": 10 * S}]}
)


def test_ranked_by_cost_then_severity() -> None:
    said = [
        finding(None, title="no price", severity="critical"),
        finding(1.0, title="small"),
        finding(2.0, title="big, mild"),
        finding(2.0, title="big, bad", severity="critical"),
    ]
    for order in (said, said[::-1]):
        verdict = diagnose(TRACE, [Says(*order)])
        assert [f.title for f in verdict.findings] == ["big, bad", "big, mild", "small", "no price"]


def test_what_a_run_hangs_on_comes_before_what_has_a_price() -> None:
    hung = finding(None, kind="no_progress", title="hung")
    verdict = diagnose(TRACE, [Says(finding(5.0, title="priced"), hung)])
    assert [f.title for f in verdict.findings] == ["hung", "priced"]


def test_a_price_that_may_as_well_be_none_is_no_headline() -> None:
    doubted = finding(4.0, title="Later tasks took longer", confidence="low")
    doubted = dataclasses.replace(doubted, cost_s_interval80=(0.0, 5.0))
    verdict = diagnose(TRACE, [Says(doubted)])
    assert verdict.sentence == "Later tasks took longer."
    assert (verdict.figures[3].value, verdict.figures[3].text) == (None, "nothing for sure")
    sure = diagnose(TRACE, [Says(dataclasses.replace(doubted, confidence="medium"))])
    assert sure.sentence.startswith("About 4 s of 10 s (40%) avoidable")


def test_what_killed_a_failed_run_comes_first() -> None:
    killed = finding(0.1, kind="workers_died", title="killed")
    trace = Trace.from_tables({}, {"run": {"status": "failed"}})
    verdict = diagnose(trace, [Says(finding(5.0), killed)])
    assert verdict.findings[0].title == "killed"


def test_a_rule_that_breaks_is_a_note_and_others_go_on() -> None:
    verdict = diagnose(TRACE, [Breaks(), Says("no finding", name="wrong"), Says(finding(1.0))])
    assert len(verdict.findings) == 1
    assert verdict.notes == (
        "cannot tell about breaks because the rule failed: ZeroDivisionError: a b",
        "cannot tell about wrong because the rule failed: TypeError: check() gave a str, "
        "not a Finding",
    )


def test_no_saving_exceeds_the_run() -> None:
    said = [
        finding(99.0, cost_s_interval80=(50.0, 200.0)),
        finding(-1.0, cost_s_interval80=(-2.0, 3.0)),
        finding(float("nan"), cost_s_interval80=(0.0, 1.0)),
    ]
    found = diagnose(TRACE, [Says(*said)]).findings
    assert [f.cost_s for f in found] == [10.0, 0.0, None]
    assert [f.cost_s_interval80 for f in found] == [(10.0, 10.0), (0.0, 3.0), None]


def test_notes_of_one_diagnosis_stay_out_of_the_next() -> None:
    class Notes:
        name = "notes"

        def check(self, trace: Trace, tools: Tools) -> list[Finding]:
            tools.cannot_tell("x", "y")
            return []

    tools = Tools()
    for _ in range(2):
        assert diagnose(TRACE, [Notes()], tools).notes == ("cannot tell x because y",)
    assert tools.notes == []


def test_the_json_is_the_contract_and_the_same_twice() -> None:
    made = finding(
        1.5, cost_s_interval80=(1.0, 2.0), groups=("g",), apply={"workers": {"value": 4}}
    )
    documents = [
        json.dumps(to_json(TRACE, diagnose(TRACE, [Says(made, finding(None))])), allow_nan=False)
        for _ in range(2)
    ]
    assert documents[0] == documents[1]
    document = json.loads(documents[0])
    assert document["makespan_s"] == 10.0
    first, second = document["findings"]
    assert {k: first[k] for k in ("code", "kind", "rank", "groups", "saving_s", "apply")} == {
        "code": "RM900", "kind": "k", "rank": 1, "groups": ["g"], "saving_s": 1.5, "apply": None,
    }  # fmt: skip
    assert first["saving_s_interval80"] == [1.0, 2.0]
    assert second["saving_s"] is None and second["saving_s_interval80"] is None


@pytest.mark.parametrize(
    ("wish", "knobs", "expected"),
    [
        ({"task_granularity": {"factor": 10.0}},
         {"chunk": {"value": 3, "kind": "task_granularity", "min": 1, "max": 100}}, {"chunk": 30}),
        ({"task_granularity": {"factor": 0.5}},
         {"chunk": {"value": 3.0, "kind": "task_granularity"}}, {"chunk": 1.5}),
        ({"memory_request": {"value": 5e9}},
         {"m": {"value": 1_000, "kind": "memory_request", "max": 4_000_000_000}},
         {"m": 4_000_000_000}),
        ({"placement": {"factor": None}},
         {"p": {"value": 0, "kind": "placement", "min": 0, "max": 1}}, {"p": 1}),
        ({"placement": {"factor": None}}, {"p": {"value": 0, "kind": "placement"}}, None),
        ({"workers": {"factor": 2.0}}, {"w": {"value": 8, "kind": "workers", "max": 8}}, None),
        ({"workers": {"factor": 2.0}}, {"w": {"value": True, "kind": "workers"}}, None),
        ({"workers": {"factor": 2.0}}, {"o": {"value": 8, "kind": "order"}}, None),
        ({"order": {"value": 4.0}, "workers": {"factor": 2.0}},
         {"w": {"value": 2, "kind": "workers"}}, {"w": 4}),
        (None, {"w": {"value": 2, "kind": "workers"}}, None),
        ({"workers": {"factor": 2.0}}, {"w": {}}, None),
    ],
)  # fmt: skip
def test_knobs_are_turned_within_their_limits(wish: Any, knobs: Any, expected: Any) -> None:
    assert turn(finding(1.0, apply=wish), knobs) == expected


def columns(line: str) -> int:
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in line
    )


words = st.text(max_size=400)


@given(
    words,
    st.lists(st.tuples(words, words, st.none() | st.floats(0, 1e9)), max_size=9),
    st.lists(words, max_size=4),
    st.lists(words, max_size=4),
    st.integers(40, 120),
)
def test_the_text_is_short_whatever_the_names(
    sentence: str, said: list[tuple[str, str, float | None]], notes: list[str],
    figures: list[str], width: int,
) -> None:  # fmt: skip
    verdict = Verdict(
        sentence=sentence,
        status="ok",
        figures=tuple(Figure("Label", 1.0, "s", text) for text in figures),
        findings=tuple(finding(cost, title=title, advice=advice) for title, advice, cost in said),
        notes=tuple(notes),
    )
    lines = to_text(verdict, width).split("\n")
    assert len(lines) <= 15
    assert all(columns(line) <= width for line in lines)
    assert all(c.isprintable() for line in lines for c in line)


def test_the_text_reads() -> None:
    verdict = diagnose(
        TRACE, [Says(finding(2.5, title="Cores idled", change="turn the knob"), finding(1.0))]
    )
    text = to_text(verdict)
    assert text.splitlines()[0].startswith("About 2.5 s of 10 s (25%) avoidable: cores idled.")
    assert "1. RM900 k (2.5 s): Cores idled" in text
    assert "   do: turn the knob" in text


def test_hidden_findings_are_counted() -> None:
    many = [finding(float(i), title=f"cause {i} " + "x" * 90) for i in range(9)]
    text = to_text(diagnose(TRACE, [Says(*many)]))
    assert "more in the report." in text
    assert len(text.splitlines()) <= 15


def test_losses_in_the_trace_itself_are_noted() -> None:
    trace = Trace.from_tables(
        {"rejects": [{"source": "f", "line": 1, "reason": "r"}]}, {"dropped": 3}
    )
    notes = diagnose(trace, []).notes
    assert "3 records were dropped: counts and sums are too low" in notes
    assert "1 input record was refused" in notes


def test_where_the_rest_is_and_only_where_there_is_a_rest() -> None:
    whole = diagnose(TRACE, [Says(finding(2.5, title="Cores idled", advice="Do less."))])
    whole = Verdict(whole.sentence, "ok", whole.figures, whole.findings)
    assert "All of it" not in to_text(whole)
    long = " ".join(["Split the input."] * 6 + ["word"] * 20)
    for path, named in (("runs/a b.rmt", "'runs/a b.rmt'"), ("x" * 99, "TRACE")):
        text = to_text(diagnose(TRACE, [Says(finding(2.5, advice=long))]), path=path)
        last = text.splitlines()[-1]
        assert last == f"All of it: rotameter diagnose {named} --format md"
        assert len(text.splitlines()) <= 15
    many = [finding(float(i), advice=long) for i in range(9)]
    last = to_text(diagnose(TRACE, [Says(*many)]), path="a.rmt").splitlines()[-1]
    assert last.endswith("more in the report. All of it: rotameter diagnose a.rmt --format md")


def test_advice_is_cut_behind_a_sentence() -> None:
    advice = "Give each task more to do than it has now, so that it takes longer. " + "Then " * 40
    text = to_text(diagnose(TRACE, [Says(finding(2.5, advice=advice))]))
    assert "so that it takes longer. …" in " ".join(text.split())
    text = to_text(diagnose(TRACE, [Says(finding(2.5, advice="word " * 60))]))
    assert "word…" in text  # no sentence ends there


def test_a_stated_run_time_is_in_the_json() -> None:
    trace = Trace.from_tables({"tasks": [{"task_id": "a"}]}, {"makespan_s": 12.5})
    verdict = diagnose(trace)
    assert to_json(trace, verdict)["makespan_s"] == verdict.figures[0].value == 12.5


def test_no_time_to_save_is_said_with_what_is_saved_instead() -> None:
    verdict = diagnose(
        TRACE, [Says(finding(0.0, title="Cores were asked for in vain", cost_core_h=19.25))]
    )
    assert verdict.sentence == (
        "Nothing worth changing was found for the run time (10 s); 19.2 core·h avoidable: cores "
        "were asked for in vain."
    )
    assert verdict.figures[3].text == "no run time; 19.2 core·h: k"
    assert "RM900 k (19.2 core·h)" in to_text(verdict)
    nothing = diagnose(TRACE, [Says(finding(0.04, title="Cores idled"))])
    assert nothing.sentence.endswith("the run time (10 s); besides: cores idled.")
    assert nothing.figures[3].text == "no run time"
    assert diagnose(TRACE, [Says(finding(0.06))]).sentence.startswith("About 60 ms of 10 s (1%)")
