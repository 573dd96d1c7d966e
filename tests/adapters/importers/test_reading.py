"""From paths to one trace."""

from __future__ import annotations

import gzip
import os
import tarfile
import zipfile

import pytest

import rotameter
from rotameter import plugins
from rotameter.adapters.importers import locating, reading
from rotameter.errors import BadInput, TraceNotFound, UnknownFormat, UsageError

JOB = "{} 0 10 5 4 -1 -1 4 3600 -1 1 3 1 -1 1 -1 -1 -1\n"


def log(*ids: int) -> str:
    return "; Version: 2.2\n" + "".join(JOB.format(number) for number in ids)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "a.swf").write_text(log(1, 2))
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "b.swf.gz").write_bytes(gzip.compress(log(3).encode()))
    (tmp_path / "README").write_text("words\n")
    (tmp_path / ".hidden").write_text(log(9))
    return tmp_path


def ids(trace):
    return sorted(trace.table("tasks")["task_id"].to_pylist())


def test_a_folder_is_one_import(folder):
    calls = []
    trace = rotameter.open(folder, progress=lambda done, files: calls.append((done, files)))
    assert ids(trace) == ["1", "2", "3"] and trace.meta["importer"]["files"] == 2
    assert calls[-1] == (2, 2) and trace.meta["origin"] == "imported"


def test_patterns_and_lists(folder):
    assert ids(rotameter.open(str(folder / "**" / "*.swf*"))) == ["1", "2", "3"]
    both = [folder / "a.swf", folder / "deep" / "b.swf.gz"]
    assert ids(rotameter.open(both)) == ["1", "2", "3"]


def test_an_archive_is_one_import(folder):
    with zipfile.ZipFile(folder / "x.zip", "w") as archive:
        archive.writestr("one.swf", log(7))
        archive.writestr("two.swf", log(8))
        archive.writestr("notes.txt", "words")
    assert ids(rotameter.open(folder / "x.zip")) == ["7", "8"]


def test_a_broken_file_costs_one_line(folder):
    (folder / "cut.swf.gz").write_bytes(gzip.compress(log(*range(2000)).encode())[:200])
    trace = rotameter.open(folder)
    assert ids(trace) == ["1", "2", "3"]
    assert len([word for word in trace.warnings if "damaged" in word]) == 1


def test_files_that_nobody_knows(folder, tmp_path):
    with pytest.raises(UnknownFormat, match="README: no importer knows"):
        rotameter.open(folder / "README")
    assert any(
        "README" in w for w in rotameter.open([folder / "a.swf", folder / "README"]).warnings
    )
    (tmp_path / "empty").write_bytes(b"")
    with pytest.raises(BadInput, match="is empty"):
        rotameter.open(tmp_path / "empty")
    with pytest.raises(TraceNotFound, match="no such file"):
        rotameter.open(tmp_path / "none")


def test_words_of_the_user(folder):
    with pytest.raises(UsageError, match="no option 'x'"):
        rotameter.open(folder / "a.swf", x="1")
    with pytest.raises(UsageError, match="not a zone"):
        rotameter.open(folder / "a.swf", utc_offset="Mars")
    with pytest.raises(UsageError, match="no path"):
        rotameter.open([])
    assert rotameter.open(folder / "a.swf", utc_offset="+01:00").meta["time_base"] == "epoch_ns"
    assert ids(rotameter.open(folder / "a.swf", format="swf")) == ["1", "2"]


def test_a_sniffer_that_raises_knows_nothing(folder, monkeypatch):
    class Broken:
        name, engine, options = "broken", "x", frozenset()

        def sniff(self, head):
            raise RuntimeError("planted")

        def read(self, file, build):
            raise AssertionError

        def finish(self, build):
            raise AssertionError

    monkeypatch.setitem(plugins._registered, ("importers", "broken"), Broken)
    assert "broken" in reading.formats()
    assert ids(rotameter.open(folder / "a.swf")) == ["1", "2"]


def test_several_formats_at_once_are_not_guessed(folder, monkeypatch):
    class Words:
        name, engine, options = "words", "x", frozenset()

        def sniff(self, head):
            return 0.9 if head.data == b"words\n" else 0.0

        def read(self, file, build):
            raise AssertionError

        def finish(self, build):
            raise AssertionError

    monkeypatch.setitem(plugins._registered, ("importers", "words"), Words)
    with pytest.raises(UsageError, match=r"swf \(1\), words \(1\)"):
        rotameter.open([folder / "a.swf", folder / "README"])


@pytest.mark.parametrize("text", ["+25:00", "abc", "1", 99])
def test_zones_that_are_none(text):
    with pytest.raises(UsageError):
        locating.utc_offset_seconds(text)


def test_a_file_that_is_named_twice_is_read_once(folder):
    trace = rotameter.open([folder / "a.swf", folder / "a.swf", folder])
    assert ids(trace) == ["1", "2", "3"]
    assert any("named twice, read once: 2 files" in word for word in trace.warnings)


def test_what_is_no_ordinary_file(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(BadInput, match="no ordinary file"):
        rotameter.open(tmp_path / "pipe")
    with pytest.raises(BadInput, match="no ordinary file"):
        rotameter.open("/dev/zero")


def test_a_pipe_is_read(folder):
    with open(folder / "a.swf", "rb") as source:
        reading_end, writing_end = os.pipe()
        with os.fdopen(writing_end, "wb") as out:
            out.write(source.read())
    try:
        assert ids(rotameter.open(f"/dev/fd/{reading_end}")) == ["1", "2"]
    finally:
        os.close(reading_end)


def test_a_tar_archive_is_what_is_in_it(folder):
    with tarfile.open(folder / "x.tar.gz", "w:gz") as archive:
        archive.add(folder / "a.swf", "a.swf")
    packed = rotameter.open(folder / "x.tar.gz")
    assert packed.table("tasks").equals(rotameter.open(folder / "a.swf").table("tasks"))


def test_an_empty_name_is_no_path():
    with pytest.raises(UsageError, match="no path"):
        rotameter.open("")
