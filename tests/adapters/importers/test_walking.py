"""Folders that may not be looked into are named, wherever folders are walked through."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

import rotameter
from rotameter.adapters.importers import walking
from rotameter.adapters.importers.rundirs import SMALL_FILES
from rotameter.adapters.importers.walking import Unread, files_below
from rotameter.errors import BadInput, TraceNotFound

JOBS = "JobID|State|Elapsed\n{}|COMPLETED|00:01:40\n"
TRACE = (
    "task_id\thash\tname\tstatus\texit\trealtime\n1\taa/000001\tA\tCOMPLETED\t0\t10s\n"
)  # fmt: skip
BENCH = "s\th:m:s\tmax_rss\tmax_vms\tmax_uss\tmax_pss\tio_in\tio_out\tmean_load\tcpu_time\n" + (
    "10.0\t0:00:10\t100.0\t200\t90\t95\t1\t2\t80\t8.0\n"
)


@pytest.fixture
def lock(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], None]:
    """Take the right to read away, as far as root can be told so."""
    locked: set[str] = set()
    scandir, access = os.scandir, os.access

    def refuse(path: object) -> object:
        if os.fspath(path) in locked:  # type: ignore[call-overload]
            raise PermissionError(13, "Permission denied", os.fspath(path))  # type: ignore[call-overload]
        return scandir(path)  # type: ignore[call-overload]

    def may(path: object, mode: int) -> bool:
        return os.fspath(path) not in locked and access(path, mode)  # type: ignore[call-overload,arg-type]

    monkeypatch.setattr(os, "scandir", refuse)
    monkeypatch.setattr(os, "access", may)
    return lambda path: locked.add(str(path))


def put(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def said(trace) -> str:
    (word,) = [word for word in trace.warnings if "cannot be read" in word]
    return word


def test_a_folder_of_files(tmp_path, lock):
    put(tmp_path / "a.psv", JOBS.format(1))
    put(tmp_path / "sub/b.psv", JOBS.format(2))
    put(tmp_path / ".hidden/c.psv", JOBS.format(3))
    assert rotameter.open(tmp_path).table("tasks").num_rows == 2
    lock(tmp_path / "sub")
    lock(tmp_path / ".hidden")
    trace = rotameter.open(tmp_path)
    assert trace.table("tasks")["task_id"].to_pylist() == ["1"]
    assert said(trace) == (
        f"1 folder or file cannot be read and is left out: {tmp_path / 'sub'} (Permission denied)"
    )


def test_several_are_counted(tmp_path, lock):
    put(tmp_path / "a.psv", JOBS.format(1))
    for name in "vwxyz":
        put(tmp_path / name / "b.psv", JOBS.format(2))
        lock(tmp_path / name)
    word = said(rotameter.open(tmp_path))
    assert word.startswith("5 folders or files cannot be read") and word.endswith("and 2 more")


def test_a_large_folder(tmp_path, lock):
    for number in range(SMALL_FILES + 9):
        put(tmp_path / f"{number}.psv", JOBS.format(number))
    put(tmp_path / "sub/b.psv", JOBS.format(2))
    lock(tmp_path / "sub")
    assert str(tmp_path / "sub") in said(rotameter.open(tmp_path))


@pytest.mark.parametrize("locked", ["results/sub", "work/aa"])
def test_a_run_of_nextflow(tmp_path, lock, locked):
    put(tmp_path / "trace.txt", TRACE)
    put(tmp_path / ".nextflow.log", "x > Execution complete -- Goodbye\n")
    put(tmp_path / "results/sub/x.txt", "x\n")
    put(tmp_path / "work/aa/000001ff/.exitcode", "0")
    lock(tmp_path / locked)
    trace = rotameter.open(tmp_path)
    assert trace.table("tasks").num_rows == 1 and str(tmp_path / locked) in said(trace)


@pytest.mark.parametrize("locked", ["bench/sub", ".snakemake/metadata", ".snakemake/log"])
def test_a_run_of_snakemake(tmp_path, lock, locked):
    put(tmp_path / "bench/a.tsv", BENCH)
    put(tmp_path / "bench/sub/b.tsv", BENCH)
    put(tmp_path / ".snakemake/metadata/b3V0L2EudHh0", '{"rule": "r", "starttime": 1}')
    put(tmp_path / ".snakemake/log/2025-01-14T100000.000000.snakemake.log", "")
    lock(tmp_path / locked)
    assert str(tmp_path / locked) in said(rotameter.open(tmp_path))


def test_a_folder_that_is_not_there_is_no_loss(tmp_path):
    put(tmp_path / "bench/a.tsv", BENCH)
    put(tmp_path / ".snakemake/log/2025-01-14T100000.000000.snakemake.log", "")
    assert not [word for word in rotameter.open(tmp_path).warnings if "cannot be read" in word]


@pytest.mark.parametrize("name", ["run", "run.rmt"])
def test_the_folder_itself(tmp_path, lock, name):
    put(tmp_path / name / "meta.json", "{}")
    lock(tmp_path / name)
    with pytest.raises(BadInput, match=f"cannot read the folder {tmp_path / name}: Perm") as error:
        rotameter.open(tmp_path / name)
    assert "meta.json" not in str(error.value)
    put(tmp_path / "a.psv", JOBS.format(1))
    with pytest.raises(BadInput, match="cannot read the folder"):
        rotameter.open([tmp_path / "a.psv", tmp_path / name])


def test_files_of_a_folder_whose_files_cannot_be_asked(tmp_path, monkeypatch):
    class Entry:
        name, path = "a.psv", "sub/a.psv"

        def is_dir(self, follow_symlinks: bool) -> bool:
            raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(walking, "entries", lambda folder, unread: [Entry()])
    unread = Unread()
    assert list(files_below(tmp_path, unread)) == [] and len(unread) == 1


def test_order_hidden_and_links(tmp_path):
    for name in ("b/x", "a/y", "a/.z", ".c/d", "e"):
        put(tmp_path / name, "")
    (tmp_path / "link").symlink_to(tmp_path / "a")
    (tmp_path / "l.txt").symlink_to(tmp_path / "e")
    (tmp_path / "gone").symlink_to(tmp_path / "nowhere")
    found = [path.relative_to(tmp_path).as_posix() for path in files_below(tmp_path, Unread())]
    assert found == ["e", "l.txt", "a/y", "b/x"]


def test_a_pattern(tmp_path, lock):
    put(tmp_path / "a/one.psv", JOBS.format(1))
    lock(put(tmp_path / "b/two.psv", JOBS.format(2)).parent)
    put(tmp_path / "c/three.txt", JOBS.format(3))
    for pattern in ("*/*.psv", "**/*.psv"):
        trace = rotameter.open(tmp_path / pattern)
        assert "b (Permission denied)" in said(trace)
    assert not any("cannot be read" in w for w in rotameter.open(tmp_path / "a/*").warnings)


def test_a_pattern_through_nothing_else(tmp_path, lock):
    lock(put(tmp_path / "b/two.psv", JOBS.format(2)).parent)
    with pytest.raises(TraceNotFound, match="no such file") as caught:
        rotameter.open(tmp_path / "*/*.txt")
    assert "Permission denied" in str(caught.value.hint)
