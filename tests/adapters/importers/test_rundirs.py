"""Folders that are too large to look through, and large ones that are not refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import rotameter
from rotameter.adapters.importers import rundirs
from rotameter.cli import _main
from rotameter.errors import UnknownFormat, UsageError

JOB = "{n} 0 10 30 4 -1 -1 4 60 -1 1 1 1 1 1 1 -1 -1\n"


def clock(step: float) -> Callable[[], float]:
    """Make a clock that goes on by so many seconds each time that it is read."""
    now = [0.0]

    def tick() -> float:
        now[0] += step
        return now[0]

    return tick


def fill(folder: Path, count: int, text: str = "words\n", suffix: str = "dat") -> None:
    for n in range(count):
        (folder / f"{n}.{suffix}").write_text(text.format(n=n))


def test_a_large_folder_of_nothing_known_is_given_up_in_time(tmp_path: Path) -> None:
    fill(tmp_path, 300)
    with pytest.raises(UnknownFormat, match="300 files, and no importer knows any of the [45]."):
        rundirs.check_folder(tmp_path, clock=clock(0.1))


def test_what_was_walked_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rundirs, "MOST_ENTRIES", 250)
    fill(tmp_path, 300)
    with pytest.raises(UnknownFormat, match="at least 250 files, .* the 250 that") as error:
        rotameter.open(tmp_path)
    assert "smaller folder" in error.value.hint


def test_one_known_file_among_many_is_enough(tmp_path: Path) -> None:
    fill(tmp_path, 300)
    (tmp_path / "z").mkdir()
    (tmp_path / "z" / "log.swf").write_text(JOB.format(n=1))
    rundirs.check_folder(tmp_path, clock=clock(0.1))
    assert rotameter.open(tmp_path).table("tasks").num_rows == 1


def test_a_large_folder_of_several_formats_is_given_up_in_time(tmp_path: Path) -> None:
    fill(tmp_path, 300)
    (tmp_path / "log.swf").write_text(JOB.format(n=1))
    (tmp_path / "j.csv").write_text("JobID|State|Elapsed\n1|COMPLETED|00:00:10\n")
    with pytest.raises(UsageError, match="302 files, of several formats: slurm, swf"):
        rundirs.check_folder(tmp_path, clock=clock(0.1))


def test_thousands_of_small_files_that_are_known_are_read(tmp_path: Path) -> None:
    fill(tmp_path, 2000, JOB, "swf")
    seen: list[tuple[int, int]] = []
    rundirs.check_folder(tmp_path, lambda done, files: seen.append((done, files)))
    assert len(seen) == rundirs._SURE_FILES and seen[-1][1] == 2000
    assert rotameter.open(tmp_path).table("tasks").num_rows == 2000


def test_small_folders_are_not_looked_through_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(tmp_path, 9)
    monkeypatch.setattr(rundirs, "_in_turn", lambda files: pytest.fail("looked"))
    rundirs.check_folder(tmp_path)


def test_the_bar_ends_before_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(tmp_path, 300)
    monkeypatch.setattr(rundirs, "MOST_ENTRIES", 250)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    assert _main(["diagnose", str(tmp_path)]) == 4
    said = capsys.readouterr().err
    assert "/250 files" in said and "\nerror: " in said
