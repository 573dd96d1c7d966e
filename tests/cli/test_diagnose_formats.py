"""``diagnose --format md|mqc|json|text``: for an issue, a mail, MultiQC."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rotameter.cli import _main
from rotameter.profiler.trace import Trace
from rotameter.values import Figure, Finding, Verdict
from rotameter.viz.formats import clip, plain
from rotameter.viz.markdown import escape_markdown, fenced, verdict_markdown
from rotameter.viz.multiqc import verdict_multiqc

SECOND = 10**9
HOSTILE = (
    "a|b\n# h\n- i <img src=x onerror=alert(1)> ![p](http://x/y.png) [l](javascript:alert(1)) "
    "@someone #12 GH-3 `code` ``` **b** $x$ www.evil.example http://evil.example"
)


def straggler(group: str = "load", origin: str = "recorded") -> Trace:
    """Make a run in which one task of 40 takes 20 times as long."""
    free = [0.0] * 4
    rows: list[dict[str, Any]] = []
    for i in range(40):
        took, slot = (20.0 if i == 39 else 1.0), free.index(min(free))
        begin = free[slot]
        free[slot] += took
        rows.append(
            {
                "task_id": f"t{i}",
                "group": group,
                "worker": f"w{slot}",
                "outcome": "ok",
                "submitted_ns": 0,
                "started_ns": round(begin * SECOND),
                "ended_ns": round(free[slot] * SECOND),
                "wall_s": took,
                "cpu_s": took,
            }
        )
    end = round(max(free) * SECOND)
    workers = [
        {"worker": f"w{k}", "started_ns": 0, "ended_ns": end, "cores": 1.0} for k in range(4)
    ]
    run = {"status": "ok", "started_ns": 0, "ended_ns": end}
    meta = {"engine": "dask", "origin": origin, "run": run}
    return Trace.from_tables({"tasks": rows, "workers": workers}, meta)


@pytest.fixture
def folder(tmp_path: Path) -> str:
    return str(straggler().save(tmp_path / "run.rmt"))


def said(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> tuple[str, str]:
    assert _main(["diagnose", *words]) == code
    out, err = capsys.readouterr()
    return out, err


# -- the option ----------------------------------------------------------------------------------


def test_markdown(folder: str, capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = said(capsys, folder, "--format", "md")
    lines = out.splitlines()
    assert lines[0] == "### rotameter: run"
    assert "avoidable" in lines[2] and "\\`load\\`" in lines[2]
    assert "| 1 | RM106 straggler | **critical** |" in out
    assert "```python\n" in out
    assert out == said(capsys, folder, "--to", "md")[0]


def test_multiqc(folder: str, capsys: pytest.CaptureFixture[str]) -> None:
    document = json.loads(said(capsys, folder, "--format", "mqc")[0])
    assert document["plot_type"] == "table" and document["id"] == "rotameter_findings"
    (row,) = document["data"].values()
    assert set(row) <= set(document["headers"])
    # It computed 20 times as long: 29 s of run, and 59 s of work in pieces on four workers take 15.
    assert row["saving_s"] == pytest.approx(14.0, rel=0.02)
    assert list(document["data"]) == ["run 1 RM106"]


def test_json_and_text_are_as_before(folder: str, capsys: pytest.CaptureFixture[str]) -> None:
    as_json = said(capsys, folder, "--json")[0]
    assert said(capsys, folder, "--format", "json")[0] == as_json
    assert json.loads(as_json)["findings"][0]["kind"] == "straggler"
    assert said(capsys, folder, "--format", "text")[0] == said(capsys, folder)[0]


def test_format_still_says_how_to_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = tmp_path / "jobs.csv"
    table.write_text("id,task_type,wall_s\na,x,5\nb,y,6\n")
    plain, _ = said(capsys, str(table))
    assert said(capsys, str(table), "--format", "table")[0] == plain
    out, _ = said(capsys, str(table), "--format", "table", "--to", "md")
    assert out.startswith("### rotameter: jobs")


def test_two_outputs_are_refused(folder: str, capsys: pytest.CaptureFixture[str]) -> None:
    out, err = said(capsys, folder, "--json", "--format", "md", code=2)
    assert out == "" and err.startswith("error: one output at a time")


@pytest.mark.parametrize("form", ["md", "mqc", "json", "text"])
def test_fail_on_stays(folder: str, form: str, capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = said(capsys, folder, "--format", form, "--fail-on", "high", code=3)
    assert out.strip()


# -- what is kept --------------------------------------------------------------------------------


def test_predictions_are_kept_once_and_said(
    folder: str, capsys: pytest.CaptureFixture[str]
) -> None:
    first, words = said(capsys, folder)
    assert "Kept 1 predicted saving with" in words
    again, silence = said(capsys, folder)
    assert (again, silence) == (first, "")
    kept = json.loads((Path(folder) / "tables" / "decisions.json").read_text())
    assert kept["decisions"][0]["policy"] == "rotameter.diagnose"


def test_a_report_keeps_them_too(
    folder: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = str(tmp_path / "r.html")
    assert _main(["report", folder, "-o", page, "--no-store"]) == 0
    assert not list(tmp_path.rglob("decisions.json"))
    assert _main(["report", folder, "-o", page, "--force"]) == 0
    assert "Kept 1 predicted saving with" in capsys.readouterr().err
    assert (Path(folder) / "tables" / "decisions.json").exists()


def test_nothing_is_written_when_told_so_or_imported(
    folder: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said(capsys, folder, "--no-store")
    other = straggler(origin="imported").save(tmp_path / "other.rmt")
    said(capsys, str(other))
    assert not list(tmp_path.rglob("decisions.json"))


# -- hostile names -------------------------------------------------------------------------------


def hostile(text: str) -> Verdict:
    finding = Finding(
        code="RM106",
        kind="straggler",
        severity="warning",
        title=text,
        groups=(text,),
        cost_s=2.0,
        cost_s_interval80=(1.0, 3.0),
        advice=text,
        change=f"x = 1\n```\n{text}",
    )
    figure = Figure(text, 1.0, "s", text, text)
    return Verdict(text, "ok", (figure,) * 4, (finding, finding), (text,))


def tokens(markdown: str) -> list[Any]:
    from markdown_it import MarkdownIt

    parsed = MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(markdown)
    return [t for token in parsed for t in (token, *(token.children or ()))]


def _until(backwards: list[Any], kind: str) -> list[str]:
    texts = []
    for token in backwards:
        if token.type == kind:
            break
        if token.type in ("text", "text_special"):
            texts.append(token.content)
    return texts


def check(text: str) -> None:
    found = tokens(verdict_markdown(hostile(text), text))
    kinds = [token.type for token in found]
    for bad in ("link_open", "image", "html_block", "html_inline", "code_inline", "s_open"):
        assert bad not in kinds, (bad, text)
    assert kinds.count("heading_open") == 1
    assert kinds.count("table_open") == 2
    assert kinds.count("fence") == 2 and "code_block" not in kinds
    assert kinds.count("td_open") == 4 * 3 + 2 * 8
    assert kinds.count("list_item_open") == 1
    # Of the last cell nothing is cut off by a bar in it.
    places = [n for n, token in enumerate(found) if token.type == "td_close"]
    last = found[places[-1] - 1 :: -1]
    cell = "".join(_until(last, "td_open")[::-1]).replace("\u2060", "")
    assert cell == " ".join(clip(plain(text), 300).split())
    # What we make strong: the rank of each finding.
    assert kinds.count("strong_open") == 2 and "em_open" not in kinds


def test_markdown_stays_text() -> None:
    pytest.importorskip("markdown_it")
    check(HOSTILE)
    shown = "".join(t.content for t in tokens(escape_markdown(HOSTILE, 999)) if t.type == "text")
    # Joiners keep mentions, references and addresses from coming alive on GitHub.
    for live in ("@someone", "#12", "GH-3", "www.", "http://"):
        assert live in HOSTILE and live not in shown
    assert shown.replace("\u2060", "") == " ".join(HOSTILE.split())


ODD = st.text(alphabet=st.sampled_from("ab1 \n\t|`*_[]()<>!#~&\\-+=.:$^@'\"/\u202e"), max_size=40)


@given(ODD)
def test_any_text_stays_text(text: str) -> None:
    pytest.importorskip("markdown_it")
    check(f"x{text}")
    check(text or "-")


def test_a_fence_is_longer_than_any_in_it() -> None:
    assert fenced("a\n````\nb").splitlines()[0] == "`````python"


def test_multiqc_rows_are_escaped_and_hold_no_null() -> None:
    document = verdict_multiqc(hostile(HOSTILE), HOSTILE)
    text = json.dumps(document)
    assert "<" not in text and "null" not in text
    assert len(document["data"]) == 2
    for row in document["data"].values():
        assert all(isinstance(value, (str, float, int)) for value in row.values())


def test_multiqc_has_a_row_for_a_run_without_findings() -> None:
    document = verdict_multiqc(Verdict("Nothing worth changing.", "ok"), "run")
    assert document["data"] == {"run": {"kind": "nothing found", "seen": "Nothing worth changing."}}


# -- the form of the first screen ----------------------------------------------------------------


def test_the_failed_pipeline_in_markdown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [
        {
            "task_id": f"t{n}",
            "group": "map",
            "wall_s": 1200.0 if n < 60 else 480.0,
            "outcome": "failed" if n < 60 else "ok",
            "exit_code": 137 if n < 60 else 0,
        }
        for n in range(160)
    ]
    trace = Trace.from_tables({"tasks": rows}, {"run": {"status": "failed"}})
    out, _ = said(capsys, str(trace.save(tmp_path / "p.rmt")), "--format", "md")
    assert out.splitlines()[2] == (
        "Run failed. 20 of 33.3 task-hours (60%) went into failed tasks; 60 of 160 tasks exited "
        "with 137 (probably out of memory). Failed tasks have no memory record, so needs are "
        "lower bounds."
    )
