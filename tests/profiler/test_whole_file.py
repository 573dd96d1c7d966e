"""A file is written as a whole, or what was there stays."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rotameter.profiler.whole_file import write_whole


def test_a_write_that_fails_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "a.html"
    place.write_text("old")
    with pytest.raises(UnicodeEncodeError):
        write_whole(place, "new" * 100_000 + "\ud800")
    assert place.read_text() == "old" and os.listdir(tmp_path) == ["a.html"]


def test_a_full_disk_leaves_nothing() -> None:
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    with pytest.raises(OSError, match="No space left"):
        write_whole("/dev/full", "x" * 100_000)
    assert Path("/dev/full").is_char_device()


def test_links_and_modes_stay(tmp_path: Path) -> None:
    place, link = tmp_path / "a", tmp_path / "b"
    place.write_text("old")
    place.chmod(0o640)
    link.symlink_to(place)
    write_whole(link, "new")
    assert link.is_symlink() and place.read_text() == "new"
    assert place.stat().st_mode & 0o777 == 0o640


def test_a_folder_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        write_whole(tmp_path / "no" / "a", "x")
