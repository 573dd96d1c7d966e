"""Opening files of others within bounds."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import time
import zipfile
from pathlib import Path

import pytest

from rotameter.adapters.importers import inputs
from rotameter.adapters.importers.inputs import open_members
from rotameter.errors import BadInput

TEXT = b"\xef\xbb\xbfa,b\r\n1,2\r\n"


@pytest.mark.parametrize(
    ("name", "pack"),
    [
        ("x.csv", bytes),
        ("x.csv.gz", gzip.compress),
        ("x.csv.bz2", bz2.compress),
        ("x.csv.xz", lzma.compress),
        ("no-suffix", gzip.compress),
    ],
)
def test_packing_is_seen_by_content(tmp_path, name, pack):
    (tmp_path / name).write_bytes(pack(TEXT))
    (file,) = open_members(tmp_path / name)
    assert file.read_bytes() == TEXT and file.read_text() == "a,b\n1,2\n"
    assert list(file.lines()) == [(1, "a,b"), (2, "1,2")]
    assert file.head == TEXT and (file.path is not None) == (pack is bytes)
    assert file.stem in ("x", "no-suffix")


def test_members_of_a_zip(tmp_path):
    with zipfile.ZipFile(tmp_path / "x.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("b/two.txt", TEXT)
        archive.writestr("one.txt.gz", gzip.compress(TEXT))
    first, second = open_members(tmp_path / "x.zip")
    assert first.name.endswith("x.zip/b/two.txt") and second.read_bytes() == TEXT
    assert first.read_text() == second.read_text()


def test_what_unpacks_to_too_much_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(inputs, "_RATIO_FREE_BYTES", 1 << 16)
    (tmp_path / "bomb.gz").write_bytes(gzip.compress(b"0" * (16 << 20)))
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("zeros", b"0" * (16 << 20))
    for name in ("bomb.gz", "bomb.zip"):
        (file,) = open_members(tmp_path / name)
        with pytest.raises(BadInput, match="unpacks to more than"):
            file.read_bytes()


def test_repeated_lines_are_refused_before_they_fill_the_memory(tmp_path):
    line = b"".join(
        b"%d|job|COMPLETED|00:01:%02d|1024K|node%d\n" % (i, i % 60, i) for i in range(40)
    )
    (tmp_path / "jobs.psv.gz").write_bytes(gzip.compress(line * (80 << 10), 9))
    (file,) = open_members(tmp_path / "jobs.psv.gz")
    got = 0
    with file.open() as stream, pytest.raises(BadInput, match="unpacks to more than"):
        while part := stream.read(1 << 20):
            got += len(part)
    assert got <= max(64 << 20, 100 * (tmp_path / "jobs.psv.gz").stat().st_size)


def test_a_large_file_is_not_taken_in_one_piece(tmp_path):
    (tmp_path / "x").write_bytes(b"0" * 100)
    (file,) = open_members(tmp_path / "x")
    with pytest.raises(BadInput, match="larger than 99 bytes"):
        file.read_bytes(99)


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_a_cut_file_says_where(tmp_path, pack):
    data = pack(bytes(range(256)) * 4000)
    (tmp_path / "x").write_bytes(data[: len(data) // 2])
    (file,) = open_members(tmp_path / "x")
    with pytest.raises(BadInput, match="damaged after"):
        file.read_bytes()


def test_a_damaged_zip(tmp_path):
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr("a", b"a" * 1000)
    (tmp_path / "x.zip").write_bytes(made.getvalue()[:-30])
    with pytest.raises(BadInput, match="damaged zip"):
        open_members(tmp_path / "x.zip")


def test_too_many_members(tmp_path, monkeypatch):
    monkeypatch.setattr(inputs, "_MEMBERS_LIMIT", 2)
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        for number in range(3):
            archive.writestr(str(number), b"")
    with pytest.raises(BadInput, match="3 files"):
        open_members(tmp_path / "x.zip")


def test_no_such_file(tmp_path):
    with pytest.raises(BadInput, match="cannot open"):
        open_members(tmp_path / "none")


def test_utf16_with_a_mark(tmp_path):
    (tmp_path / "x").write_bytes("a\nb".encode("utf-16"))
    (file,) = open_members(tmp_path / "x")
    assert file.read_text() == "a\nb" and [line for _, line in file.lines()] == ["a", "b"]


def _many(path: Path, count: int) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for number in range(count):
            archive.writestr(f"{number:05}.txt", f"{number}")
    return path


def test_the_directory_of_a_zip_is_read_once(tmp_path, monkeypatch):
    opened = []
    whole = zipfile.ZipFile

    def counted(*args, **kwargs):
        opened.append(args)
        return whole(*args, **kwargs)

    path = _many(tmp_path / "x.zip", 300)
    monkeypatch.setattr(inputs.zipfile, "ZipFile", counted)
    members = open_members(path)
    assert [m.head for m in members] == [str(n).encode() for n in range(300)]
    assert all(m.read_bytes() == m.head for m in members)
    assert len(opened) == 1


def test_few_archives_stay_open_and_their_members_can_be_read(tmp_path):
    count = 3 * inputs._ARCHIVES_OPEN
    members = [open_members(_many(tmp_path / f"{n}.zip", 2)) for n in range(count)]
    streams = [first.open() for first, _ in members]
    assert [stream.read() for stream in streams] == [b"0"] * count
    assert [second.read_bytes() for _, second in members] == [b"1"] * count
    alive = [one for ref in inputs._Archive._opened if (one := ref()) is not None]
    assert len(alive) <= inputs._ARCHIVES_OPEN
    for stream in streams:
        stream.close()
    del members, alive
    assert all(ref() is None or ref()._zip is not None for ref in inputs._Archive._opened)


def test_members_of_many_are_read_in_linear_time(tmp_path):
    def taken(count: int) -> float:
        members = open_members(_many(tmp_path / f"{count}.zip", count))
        before = time.process_time()
        assert sum(len(member.head) for member in members)
        return time.process_time() - before

    few, many = min(taken(500) for _ in range(3)), taken(4000)
    assert many < 8 * 3 * max(few, 0.01)
