"""``rotameter simulate``: its contract with scripts, its words, its errors."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from tests.forecasting.cosim.logs import line, log, recorded

from rotameter.cli import _main


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("log.swf").write_bytes(recorded())


def test_json_and_starts(capsys):
    call = ["simulate", "log.swf", "--policy", "easy", "--processors", "16", "--json"]
    assert _main([*call, "--starts", "starts.csv"]) == 0
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert (found["schema"], found["policy"], found["processors"]) == (1, "easy", 16)
    assert found["jobs"]["rows"] == found["jobs"]["simulated"] == 300
    assert found["fidelity"]["ks_distance"] == 0 and found["what_if"] is False
    assert set(found["wait_score"]["parameters"]) >= {"median_s", "tail_s", "median_weight"}
    assert "simulate_s" in found["timing"] and "Wrote starts.csv (300 jobs)" in err
    with open("starts.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["job_id", "start_s"] and len(rows) == 300
    lines = [text.split() for text in recorded().decode().splitlines() if text[0] != ";"]
    expected = {fields[0]: int(fields[1]) + int(fields[2]) for fields in lines}
    assert {row["job_id"]: int(row["start_s"]) for row in rows} == expected


def test_the_same_call_gives_the_same_bytes(capsys):
    texts, files = [], []
    for number in range(2):
        call = ["simulate", "log.swf", "--policy", "fair-share", "--json"]
        assert _main([*call, "--starts", f"{number}.csv"]) == 0
        found = json.loads(capsys.readouterr().out)
        del found["timing"]
        texts.append(json.dumps(found))
        files.append(Path(f"{number}.csv").read_bytes())
    assert texts[0] == texts[1] and files[0] == files[1]


def test_words_fit_a_terminal(capsys):
    calls = [
        [],
        ["--processors", "24", "--by", "queue", "--price", "0.1", "--wait-limit", "1h"],
        ["--processors", "16", "--node-cores", "8", "--node-memory", "64GB", "--node-gpus", "2"],
        ["--processors", "32", "--node-cores", "8", "--exclusive", "--policy", "conservative"],
        ["--policy", "priority", "--set", "age-weight=2"],
    ]
    for call in calls:
        assert _main(["simulate", "log.swf", *call]) == 0, call
        lines = capsys.readouterr().out.rstrip("\n").splitlines()
        assert max(len(text) for text in lines) <= 80, lines
        assert "300 jobs" in lines[0] and any("Wait score" in text for text in lines)
        assert any("against the record" in text for text in lines)


def test_unusable_rows_are_counted_and_said(capsys):
    rows = [line(1, 0, 10, 1), line(2, 0, -1, 1), line(3, 0, 10, 99), "4 broken"]
    Path("odd.swf").write_bytes(log(rows))
    assert _main(["simulate", "odd.swf", "--processors", "4", "--json"]) == 0
    out, err = capsys.readouterr()
    found = json.loads(out)["jobs"]
    assert (found["rows"], found["simulated"], found["larger_than_machine"]) == (4, 1, 1)
    assert found["unusable"] == {"line refused": 1, "run time unknown or of decades": 1}
    assert "2 rows of 4 cannot be used" in err and "larger than the machine" in err


def test_the_trace_can_be_kept(capsys):
    assert _main(["simulate", "log.swf", "-o", "out.rmt"]) == 0
    capsys.readouterr()
    assert _main(["stats", "out.rmt", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["attempts"] == 300


@pytest.mark.parametrize(
    ("call", "code", "words"),
    [
        (["log.swf", "--policy", "esay"], 2, "esay"),
        (["log.swf", "--policy", "priority", "--set", "colour=1"], 2, "colour"),
        (["log.swf", "--set", "age_weight"], 2, "NAME=NUMBER"),
        (["log.swf", "--processors", "0"], 2, "processors"),
        (["log.swf", "--exclusive"], 2, "--node-cores"),
        (["log.swf", "--node-cores", "4"], 2, "--processors"),
        (["log.swf", "--processors", "10", "--node-cores", "4"], 2, "whole number of nodes"),
        (["log.swf", "--processors", "8", "--node-cores", "4", "--node-memory", "x"], 2, "memory"),
        (["log.swf", "--wait-limit", "soon"], 2, "--wait-limit"),
        (["none.swf"], 1, "none.swf"),
        (["empty.swf", "--processors", "4"], 4, "no job that can be simulated"),
        (["unnamed.swf"], 2, "how many processors"),
        (["far.swf", "--processors", "20"], 1, "KS distance"),
        (["log.swf", "--starts", "there.csv"], 1, "there.csv exists"),
    ],
)
def test_errors_are_one_line_and_a_hint(call, code, words, capsys):
    Path("there.csv").write_text("kept")
    Path("empty.swf").write_bytes(log([line(1, 0, -1, 1)]))
    Path("unnamed.swf").write_bytes(log([line(1, 0, 10, 1)]))
    Path("far.swf").write_bytes(recorded(factor=60.0))
    assert _main(["simulate", *call, "--json"]) == code
    out, err = capsys.readouterr()
    lines = err.strip().splitlines()
    assert out == "" and Path("there.csv").read_text() == "kept"
    assert lines[-2].startswith("error: ") and words in lines[-2], err
    assert lines[-1].startswith("hint: ")


def test_what_is_too_far_off_can_be_forced(capsys):
    Path("far.swf").write_bytes(recorded(factor=60.0))
    call = ["simulate", "far.swf", "--processors", "20", "--force-what-if", "--json"]
    assert _main(call) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["fidelity"]["beyond_limits"] and "beyond the limit" in err
