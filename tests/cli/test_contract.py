"""The command line's contract: exit codes, one line of error and one of hint, clean stdout."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rotameter import __version__
from rotameter.cli import _main, cli
from rotameter.profiler import store
from rotameter.profiler.trace import Trace

GOOD = "good.rmt"
COMMANDS: dict[str, list[str]] = {
    "report": ["report", "{}", "-o", "out"],
    "stats": ["stats", "{}"],
    "diagnose": ["diagnose", "{}"],
    "size": ["size", "{}", "-o", "out"],
    "size, a trial": ["size", "{}", "--allocator", "default"],
    "simulate": ["simulate", "{}", "--processors", "4", "--starts", "out"],
    "forecast": ["forecast", "{}", "--season", "4", "--quantiles-out", "out"],
    "compare, first": ["compare", "{}", GOOD, "-o", "out"],
    "compare, second": ["compare", GOOD, "{}", "-o", "out"],
    "convert to csv": ["convert", "{}", "--to", "csv"],
    "convert to rmt": ["convert", "{}", "--to", "rmt", "-o", "out"],
    "anonymise": ["anonymise", "{}", "out"],
}
NO_TRACE = {"collect", "doctor", "live", "plugins", "run"}
"""Commands that take no trace."""


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    second = 1_000_000_000
    rows: list[dict[str, Any]] = [
        {
            "task_id": f"t{i}",
            "group": "load",
            "worker": f"w{i % 2}",
            "started_ns": i * second,
            "ended_ns": (i + 2) * second,
            "wall_s": 2.0,
            "outcome": "ok",
        }
        for i in range(8)
    ]
    return Trace.from_tables({"tasks": rows}, {"run": {"status": "ok"}}).save(tmp_path / GOOD)


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def _bad_inputs(place: Path) -> dict[str, tuple[str, int]]:
    (place / "empty").write_bytes(b"")
    (place / "foreign.pdf").write_bytes(b"%PDF-1.7")
    (place / "dir").mkdir()
    store.create(place / "void.rmt")
    store.update_meta(store.create(place / "newer.rmt"), schema=99)
    torn = store.create(place / "torn.rmt")
    (torn / "meta.json").write_text("{")
    (torn / "segments" / "a.seg").write_bytes(b"RMT")
    cut = Trace.from_tables({"tasks": [{"task_id": "a", "group": "g"}]}).save(place / "cut.rmt")
    table = cut / "tables" / "tasks.parquet"
    table.write_bytes(table.read_bytes()[:-20])
    (place / "cut.parquet").write_bytes(table.read_bytes())
    return {
        "missing": ("nothing-here.rmt", 1),
        "empty file": ("empty", 4),
        "foreign file": ("foreign.pdf", 4),
        "foreign folder": ("dir", 4),
        "no records": ("void.rmt", 4),
        "newer schema": ("newer.rmt", 4),
        "torn to nothing": ("torn.rmt", 4),
        "truncated table": ("cut.rmt", 4),
        "truncated file": ("cut.parquet", 4),
    }


def test_every_command_that_takes_a_trace_is_given_bad_ones() -> None:
    assert {words[0] for words in COMMANDS.values()} == set(cli.commands) - NO_TRACE


@pytest.mark.parametrize("command", COMMANDS)
def test_bad_input_is_one_error_one_hint(
    command: str, trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for label, (path, code) in _bad_inputs(tmp_path).items():
        got = _main([word.format(path) for word in COMMANDS[command]])
        out, err = capsys.readouterr()
        lines = err.strip().splitlines()
        assert got == code, (label, err)
        assert out == "", label
        assert len(lines) == 2, (label, err)
        assert Path(path).stem in err, (label, err)
        assert not Path("out").exists(), label
        assert lines[-2].startswith("error: "), (label, err)
        assert lines[-1].startswith("hint: "), (label, err)
        assert "Traceback" not in err


@pytest.mark.parametrize("command", ["stats", "diagnose"])
def test_json_is_the_only_thing_on_stdout_and_repeats(
    command: str, trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = []
    for _ in range(2):
        assert _main([command, str(trace), "--json"]) == 0
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1]
    assert isinstance(json.loads(texts[0]), dict)


def test_stats_counts(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _main(["stats", str(trace), "--json"])
    found = json.loads(capsys.readouterr().out)
    assert (found["schema"], found["tasks"], found["attempts"]) == (1, 8, 8)
    assert found["outcomes"]["ok"] == 8
    assert found["task_wall_s"] == pytest.approx(16.0)
    assert found["makespan_s"] == pytest.approx(9.0)


def test_diagnose_fits_a_terminal(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _main(["diagnose", str(trace)]) == 0
    lines = capsys.readouterr().out.rstrip("\n").splitlines()
    assert 0 < len(lines) <= 15
    assert max(len(line) for line in lines) <= 80


def test_report_never_overwrites_without_force(
    trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _main(["report", str(trace), "-o", "out.html"]) == 0
    assert "Wrote out.html" in capsys.readouterr().out
    assert _main(["report", str(trace), "-o", "out.html"]) == 1
    assert "--force" in capsys.readouterr().err
    assert _main(["report", str(trace), "-o", "out.html", "--force"]) == 0
    assert _main(["report", str(trace), "-o", "no/such/dir/out.html"]) == 2
    assert _main(["report", str(trace)]) == 0
    assert Path("good.html").exists()


def test_torn_input_is_used_with_a_warning_and_refused_when_strict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from rotameter.profiler.live.segment import MAGIC, encode_frame

    folder = store.create(tmp_path / "cut.rmt")
    frame = encode_frame("tasks", ("task_id", "group"), [("a", "g")])
    (folder / "segments" / "x.seg").write_bytes(MAGIC + frame + frame[:-3])
    assert _main(["stats", str(folder), "--json"]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["attempts"] == 1
    assert "warning: " in captured.err
    assert _main(["stats", str(folder), "--strict"]) == 4
    assert "torn" in capsys.readouterr().err


def test_usage_errors_are_2(capsys: pytest.CaptureFixture[str]) -> None:
    for argv in (["stats"], ["stats", "a", "--no-such"], ["nonsense"], ["run"], ["run", "no.py"]):
        assert _main(argv) == 2, argv
        err = capsys.readouterr().err
        assert err.startswith("error: "), argv
    assert _main(["--version"]) == 0
    assert __version__ in capsys.readouterr().out
    assert _main(["--help"]) == 0


def test_knobs_file_must_be_one(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("k.json").write_text("[1]")
    assert _main(["diagnose", str(trace), "--knobs", "k.json"]) == 2
    assert _main(["diagnose", str(trace), "--knobs", "none.json"]) == 2
    capsys.readouterr()


def test_our_own_bug_is_70_with_the_traceback_in_a_file(
    trace: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("planted")

    monkeypatch.setattr("rotameter.api.diagnose", broken)
    assert _main(["diagnose", str(trace)]) == 70
    err = capsys.readouterr().err
    assert "bug in rotameter" in err and "Traceback" not in err
    detail = Path(err.strip().split()[-1])
    assert "planted" in detail.read_text()
    detail.unlink()


def test_fail_on(monkeypatch: pytest.MonkeyPatch, trace: Path) -> None:
    from rotameter.values import Finding, Verdict

    finding = Finding("RM999", "x", "warning", "t", advice="a", cost_how="no replay")
    verdict = Verdict("s", "ok", findings=(finding,))
    monkeypatch.setattr("rotameter.api.diagnose", lambda _: verdict)
    assert _main(["diagnose", str(trace), "--fail-on", "critical"]) == 0
    assert _main(["diagnose", str(trace), "--fail-on", "warning"]) == 3
    assert _main(["diagnose", str(trace), "--fail-on", "low"]) == 3


def test_doctor_says_what_and_why(capsys: pytest.CaptureFixture[str]) -> None:
    assert _main(["doctor", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    for check in found["checks"]:
        assert check["available"] or check["reason"], check
    assert _main(["doctor"]) == 0


def test_help_loads_nothing_heavy() -> None:
    program = (
        "import sys; sys.argv=['rotameter','--help']\n"
        "from rotameter.cli import _main; code=_main(['--help'])\n"
        "heavy={'numpy','pyarrow','dask','distributed','pandas','sklearn','plotly','scipy'}\n"
        "assert code==0 and not heavy & set(sys.modules), heavy & set(sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=os.environ
    )
    assert done.returncode == 0, done.stderr
    assert "Example" in done.stdout


@pytest.mark.parametrize("command", ["diagnose", "report"])
@pytest.mark.parametrize("option", ["--storage", "--knobs"])
@pytest.mark.parametrize("path", ["nothing-here", "empty", "foreign.pdf", "dir"])
def test_a_bad_file_of_an_option_is_one_error_one_hint(
    command: str,
    option: str,
    path: str,
    trace: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    _bad_inputs(tmp_path)
    where = ["-o", "out"] if command == "report" else []
    assert _main([command, str(trace), *where, option, path]) in (2, 4)
    out, err = capsys.readouterr()
    lines = err.strip().splitlines()
    assert out == "" and len(lines) == 2, err
    assert lines[0].startswith("error: ") and lines[1].startswith("hint: ")
    assert not Path("out").exists()
