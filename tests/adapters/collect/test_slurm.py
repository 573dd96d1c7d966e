"""Asking sacct: a script of the test stands for it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from rotameter.adapters.collect.slurm import (
    FIELDS,
    Query,
    SacctFailed,
    collect,
    command,
    open_jobs,
    shown,
)
from rotameter.adapters.importers import reading
from rotameter.errors import TraceNotFound, UsageError, WouldOverwrite

SACCT = """\
#!{python}
import json, os, sys
here = os.path.dirname(os.path.abspath(__file__))
with open(os.path.join(here, "calls.jsonl"), "a") as out:
    names = ("SLURM_TIME_FORMAT", "SACCT_FORMAT")
    json.dump({{"argv": sys.argv[1:], "env": {{n: os.environ.get(n) for n in names}}}}, out)
    out.write("\\n")
if "--helpformat" in sys.argv:
    print("JobID JobName State   Elapsed\\nStart End ReqMem MaxRSS AllocGRES")
elif "--jobs=404" in sys.argv:
    print("JobID|State|Elapsed")
elif "--jobs=500" in sys.argv:
    sys.exit("sacct: error: slurm_persist_conn_open_without_init: refused")
else:
    print("JobID|JobName|State|Elapsed|Start|End|ReqMem|MaxRSS")
    print("7|align|NODE_FAIL|00:01:00|2025-01-01T00:00:00+0100|2025-01-01T00:01:00+0100|1G|")
    print("7|align|COMPLETED|00:02:00|2025-01-01T01:00:00+0100|2025-01-01T01:02:00+0100|1G|")
    print("7.batch|batch|COMPLETED|00:02:00|2025-01-01T01:00:00+0100|||300K")
"""


@pytest.fixture
def sacct(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give the folder of a sacct that notes how it was called."""
    folder = tmp_path / "bin"
    folder.mkdir()
    script = folder / "sacct"
    script.write_text(SACCT.format(python=sys.executable))
    script.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setenv("SACCT_FORMAT", "jobid%5")
    return folder


def _calls(folder: Path) -> list[dict]:
    return [json.loads(line) for line in (folder / "calls.jsonl").read_text().splitlines()]


def test_only_fields_that_this_sacct_knows_are_asked_for(sacct: Path, tmp_path: Path) -> None:
    out = tmp_path / "jobs.txt"
    assert collect(Query(jobs="7"), out) == 3
    (_, call) = _calls(sacct)
    assert call["argv"] == [
        "--parsable2",
        "--duplicates",
        "--format=JobID,JobName,State,Start%32,End%32,Elapsed,ReqMem,AllocGRES,MaxRSS",
        "--jobs=7",
    ]
    assert call["env"] == {"SLURM_TIME_FORMAT": "%Y-%m-%dT%H:%M:%S%z", "SACCT_FORMAT": None}
    trace = reading.read([out])
    assert trace.table("tasks")["attempt"].to_pylist() == [1, 2]
    assert trace.meta["time_base"] == "epoch_ns"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["bin", "jobs.txt"]


def test_a_job_number_stands_for_its_trace(sacct: Path) -> None:
    trace = open_jobs("7")
    assert trace.table("tasks")["outcome"].to_pylist() == ["worker_lost", "ok"]
    assert trace.table("tasks")["peak_memory_bytes"].to_pylist() == [None, 300 * 1024]


def test_what_is_there_is_not_overwritten(sacct: Path, tmp_path: Path) -> None:
    out = tmp_path / "jobs.txt"
    out.write_text("mine")
    with pytest.raises(WouldOverwrite):
        collect(Query(jobs="7"), out)
    assert out.read_text() == "mine"
    collect(Query(jobs="7"), out, force=True)
    assert out.read_text().startswith("JobID")


def test_no_such_job(sacct: Path, tmp_path: Path) -> None:
    with pytest.raises(TraceNotFound, match="no such jobs"):
        collect(Query(jobs="404"), tmp_path / "jobs.txt")
    with pytest.raises(TraceNotFound, match="404"):
        open_jobs("404")
    assert not (tmp_path / "jobs.txt").exists()


def test_sacct_that_fails_is_quoted(sacct: Path) -> None:
    with pytest.raises(SacctFailed, match="exit code 1.*refused"):
        open_jobs("500")


def test_without_sacct_the_command_is_offered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(TraceNotFound, match="no such file, and no sacct") as caught:
        open_jobs("7")
    assert "--print" in (caught.value.hint or "")


@pytest.mark.parametrize(
    "query",
    [
        Query(),
        Query(user="ann"),
        Query(jobs="7; rm -rf x"),
        Query(jobs="--help"),
        Query(jobs=""),
        Query(name="-x"),
        Query(name="a,b"),
        Query(name="a\nb"),
        Query(since="--help"),
        Query(since="7d; x"),
        Query(jobs="7", user="-u"),
        Query(jobs="7", user="a\0b"),
    ],
)
def test_nothing_given_becomes_an_option(query: Query) -> None:
    with pytest.raises(UsageError):
        query.options()


@pytest.mark.parametrize(
    ("text", "said"),
    [("7d", "now-7days"), ("12h", "now-12hours"), ("2 weeks", "now-2weeks"), ("90min",
     "now-90minutes"), ("2025-02-01", "2025-02-01"), ("2025-02-01T10:00", "2025-02-01T10:00")],
)  # fmt: skip
def test_since(text: str, said: str) -> None:
    assert Query(since=text).options() == [f"--starttime={said}"]


def test_command_asks_for_all_fields_where_nothing_is_known() -> None:
    argv = command(Query(name="my job"))
    (asked,) = (word for word in argv if word.startswith("--format="))
    assert asked.replace("%32", "") == f"--format={','.join(FIELDS)}"
    assert "--name=my job" in argv and "--starttime=now-30days" in argv
    assert shown(argv).endswith("'--name=my job' --starttime=now-30days")
