"""``rotameter compare``: two runs, several a side, and laws of growth."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.profiler.comparing.runs import build

from rotameter.cli import _main
from rotameter.profiler.comparing.totals import Total
from rotameter.profiler.comparing.verdict import compare
from rotameter.profiler.trace import Trace
from rotameter.values import Verdict
from rotameter.viz.comparison import MAX_LINES, comparison_text
from rotameter.viz.comparison_words import shown_total

Said = Callable[..., tuple[str, str]]


BASE = [("load", 40, 1.0), ("join", 40, 2.0)]
FAST = [("load", 40, 1.0), ("join", 40, 1.0)]


@pytest.fixture
def runs(tmp_path: Path) -> Callable[..., list[str]]:
    def make(stages: Any, count: int = 1, first: int = 0, **more: Any) -> list[str]:
        made = []
        for seed in range(first, first + count):
            path = tmp_path / f"{stages[-1][2]:g}-{seed}.rmt"
            made.append(str(build(stages, seed=seed, **more).save(path)))
        return made

    return make


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Said:
    def call(*words: str, code: int = 0) -> tuple[str, str]:
        assert _main(["compare", *words]) == code
        out, err = capsys.readouterr()
        return out, err

    return call


def fits(text: str) -> bool:
    def columns(line: str) -> int:
        return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in line)

    lines = text.splitlines()
    return len(lines) <= MAX_LINES and all(columns(line) <= 80 for line in lines)


def test_two_runs(runs: Any, said: Said) -> None:
    out, err = said(*runs(BASE), *runs(FAST, first=1))
    assert fits(out) and err == ""
    assert out.startswith("1-1 took ")
    assert "less than 2-0" in out and "Most of it: join (-" in " ".join(out.split())
    assert "how much runs vary is unknown" in out
    assert "  1. join: -" in out


def test_the_headline_says_that_variation_is_unknown(runs: Any, said: Said) -> None:
    out, _ = said(*runs(BASE), *runs(FAST, first=1))
    head = " ".join(out.split("note:")[0].split())
    assert head.count("with one run a side, how much runs vary is unknown") == 1
    several, _ = said("--before", *runs(BASE, 2, first=2), "--after", *runs(FAST, 2, first=4))
    assert "one run a side" not in several


def test_a_row_has_one_unit() -> None:
    for name, two in (("wasted_gbh", (0.0016, 0.0115)), ("wasted_core_s", (3.6e5, 3.0))):
        row = shown_total(Total(name, *two, 6.2, None, True))
        assert row is not None
        assert row[1].split()[1] == row[2].split()[1]


def test_bytes_that_do_not_matter_have_no_row(runs: Any, said: Said) -> None:
    out, _ = said(*runs(BASE, task_bytes=9e3), *runs(FAST, first=1, task_bytes=4e3))
    assert "  read " not in out and "bytes a task" not in out and "a GB" not in out
    out, _ = said(*runs(BASE, task_bytes=9e3, first=2), *runs(FAST, first=3, task_bytes=4e7))
    assert "  read " in out and "bytes a task 9 kB -> 40 MB" in " ".join(out.split())


def test_json_has_what_the_text_says(runs: Any, said: Said) -> None:
    before, after = runs(BASE), runs(FAST, first=1)
    document = json.loads(said(*before, *after, "--json")[0])
    assert (document["schema"], document["kind"]) == (1, "comparison")
    assert document["inputs"] == [before, after]
    assert document["run_variation_known"] is False
    assert document["changes"][0]["label"] == "join"
    assert document == json.loads(said("--json", *before, *after)[0])


def test_several_a_side(runs: Any, said: Said) -> None:
    before, after = runs(BASE, 2), runs(FAST, 2, first=2)
    out, _ = said("--before", *before, "--after", *after)
    assert fits(out) and "unknown" not in out and "B took" in out
    document = json.loads(said("--after", *after, "--before", *before, "--json")[0])
    assert document["runs"] == [2, 2] and document["inputs"] == [before, after]
    single = json.loads(
        said("--before", before[0], "--before", before[1], "--after", *after, "--json")[0]
    )
    assert single == document


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["a"], "rotameter compare A B"),
        ([], "rotameter compare A B"),
        (["--before", "a"], "--before A1 A2 --after B1 B2"),
        (["x", "--before", "a", "--after", "b"], "--before A1 A2 --after B1 B2"),
        (["a", "b", "--at", "data"], "--at data=8"),
        (["a", "b", "--at", "data=0"], "--at data=8"),
        (["a", "b", "--scales", "k=1"], "--scales data=1,2,4"),
    ],
)
def test_usage_errors(words: list[str], hint: str, said: Said) -> None:
    out, err = said(*words, code=2)
    assert out == "" and hint in err and err.startswith("error: ")


def test_three_runs_need_sides_or_scales(runs: Any, said: Said) -> None:
    three = runs(BASE, 3)
    _, err = said(*three, code=2)
    assert "which are the earlier ones" in err
    out, _ = said(*three, "--scales", "data=1,2,4")
    assert out.startswith("scaling by data")


def test_laws_of_growth(runs: Any, said: Said) -> None:
    grown = [
        runs([("load", 20 * k, 1.0)], first=k, meta={"scale": {"data": k}})[0] for k in (1, 2, 4)
    ]
    out, _ = said(*grown, "--at", "data=8")
    assert fits(out) and "expected at 8" in out and "count = 20 · k" in out
    document = json.loads(said(*grown, "--at", "data=8", "--json")[0])
    assert (document["schema"], document["kind"]) == (1, "scaling")
    (law,) = [f for f in document["scaling"]["folds"] if f["key"] == "load"]
    assert law["total"]["value"] == pytest.approx(160.0, rel=0.05)
    assert law["extrapolated"] is True
    # Two of them are compared.
    assert "the tasks: see" in said(*grown[:2])[0].replace("\n  ", " ")


def test_stored_predictions_are_judged(
    runs: Any, said: Said, capsys: pytest.CaptureFixture[str]
) -> None:
    stages = [("load", 40, 1.0)]
    (slow,) = runs(stages, tail={"load": 20.0})
    (fast,) = runs(stages, first=5)
    made = json.loads(said(slow, fast, "--json")[0])
    assert made["predictions_from"] == "made again from the earlier trace"
    assert not (Path(slow) / "tables" / "decisions.json").exists()  # compare writes nothing
    assert _main(["diagnose", slow]) == 0
    capsys.readouterr()
    kept = json.loads(said(slow, fast, "--json")[0])
    assert kept["predictions_from"] == "stored with the earlier trace"
    assert kept["predictions"] == made["predictions"]
    judged = next(p for p in kept["predictions"] if p["prediction"]["kind"] == "straggler")
    assert judged["outcome"] == "came true" and judged["applied"] == "unknown"
    assert "came true" in said(slow, fast)[0]


def test_a_page_that_needs_nothing(runs: Any, said: Said, tmp_path: Path) -> None:
    page = tmp_path / "c.html"
    pair = (*runs(BASE), *runs([*FAST, ("<script>alert(1)</script>", 1, 1.0)], first=1))
    out, err = said(*pair, "-o", str(page))
    assert err == f"Wrote {page}\n"
    html = page.read_text()
    assert "join" in html and "<script" not in html and "&lt;script&gt;" in html
    assert "http" not in html.replace("http-equiv", "")
    assert html.count("<table") == html.count("</table>") >= 3
    _, err = said(*pair, "-o", str(page), code=1)
    assert "--force" in err and page.read_text() == html
    assert said(*pair, "-o", str(page), "--force")[0] == out
    said(*pair, "-o", str(tmp_path / "no" / "c.html"), code=2)


def test_any_input_is_compared(tmp_path: Path, said: Said) -> None:
    for name, seconds in (("a", 5), ("b", 9)):
        (tmp_path / f"{name}.csv").write_text(
            "id,task_type,wall_s\n" + "".join(f"{i},x,{seconds}\n" for i in range(9))
        )
    out, _ = said(str(tmp_path / "a.csv"), str(tmp_path / "b.csv"))
    assert "Run times cannot be compared" in out and "5 s -> 9 s a task (+80 %)" in out


def test_missing_input_is_one_error(tmp_path: Path, runs: Any, said: Said) -> None:
    out, err = said(*runs(BASE), str(tmp_path / "no.rmt"), code=1)
    assert out == "" and err.startswith("error: no such trace")


def test_hostile_and_many_names_fit() -> None:
    stages = [(f"\x1b[31m{'界' * 30}\n<script>{chr(97 + n)}", 4, 1.0 + n) for n in range(20)]
    other = [(name + "x", count, 2 * seconds) for name, count, seconds in stages[:10]]
    found = compare(
        [build(stages)], [build([*other, *stages[10:]])], diagnose=lambda trace: Verdict("s", "ok")
    )
    text = comparison_text(found, ("界" * 30, "\x1b[2J"))
    assert fits(text) and "\x1b" not in text


def test_a_side_without_tasks_is_refused(runs: Any, said: Said, tmp_path: Path) -> None:
    """All that was recorded of it was dropped: nothing is gone, and nothing got faster."""
    row = {"kind": "records_dropped", "at_ns": 1, "count": 200_016}
    empty = str(Trace.from_tables({"events": [row]}).save(tmp_path / "empty.rmt"))
    (whole,) = runs(BASE)
    out, err = said(whole, empty, code=4)
    assert out == "" and "the later side holds no task" in err
    assert "the earlier side holds no task" in said(empty, whole, code=4)[1]


def test_dropped_records_are_said(tmp_path: Path) -> None:
    poor = build(BASE)
    poor.meta["dropped"] = 12
    notes = compare([build(BASE)], [poor]).notes
    assert "12 records were dropped on the later side: its counts and sums are too low" in notes
