"""Tar archives: members as labels and bytes, everything else passed over or refused."""

from __future__ import annotations

import gzip
import io
import random
import tarfile

import pytest

import rotameter
from rotameter.adapters.importers import inputs, tarring
from rotameter.adapters.importers.inputs import open_members
from rotameter.errors import BadInput, RotameterError, UnknownFormat

TEXT = b"a,b\n1,2\n"


def archive(*members: tuple[str, bytes], mode: str = "w", form: int = tarfile.GNU_FORMAT) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode=mode, format=form) as tar:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return made.getvalue()


def opened(tmp_path, data: bytes, name: str = "x.tar"):
    (tmp_path / name).write_bytes(data)
    troubles: list[str] = []
    return open_members(tmp_path / name, troubles, tar=True), troubles


@pytest.mark.parametrize("form", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT, tarfile.USTAR_FORMAT])
@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz"])
def test_members_in_order_of_name(tmp_path, mode, form):
    long = "/".join(["folder" * 5] * 6) + "/name.txt"
    data = archive(("b", b"two"), ("./a/é.csv", TEXT), (long, b"x" * 5000), mode=mode, form=form)
    files, troubles = opened(tmp_path, data)
    names = [file.name.removeprefix(f"{tmp_path}/x.tar/") for file in files]
    assert names == sorted(["a/é.csv", "b", long]) and troubles == []
    contents = {name: file.read_bytes() for name, file in zip(names, files, strict=True)}
    assert contents == {"a/é.csv": TEXT, "b": b"two", long: b"x" * 5000}
    assert all(file.path is None for file in files)


def test_members_are_read_in_turn_and_again(tmp_path):
    files, _ = opened(tmp_path, archive(("a", b"1" * 9000), ("b.gz", gzip.compress(b"2" * 9000))))
    with files[0].open() as one, files[1].open() as two:
        parts = [(one.read(100), two.read(100)) for _ in range(90)]
    assert parts == [(b"1" * 100, b"2" * 100)] * 90
    assert files[0].read_bytes() == b"1" * 9000


def test_large_archives_lie_in_a_file(tmp_path, monkeypatch):
    monkeypatch.setattr(tarring, "_IN_MEMORY_BYTES", 1000)
    files, _ = opened(tmp_path, archive(*((f"{n}", bytes([n]) * 700) for n in range(9))))
    assert [file.read_bytes() for file in files] == [bytes([n]) * 700 for n in range(9)]


def test_nothing_but_files_is_taken(tmp_path):
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        for name, kind in [
            ("soft", tarfile.SYMTYPE), ("hard", tarfile.LNKTYPE), ("pipe", tarfile.FIFOTYPE),
            ("device", tarfile.CHRTYPE), ("folder", tarfile.DIRTYPE),
        ]:  # fmt: skip
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, "/etc/passwd"
            tar.addfile(info)
        for name in ("../../up.csv", "/root.csv", ".hidden/x", "sub/.hidden"):
            info = tarfile.TarInfo(name)
            info.size = len(TEXT)
            tar.addfile(info, io.BytesIO(TEXT))
    before = sorted(tmp_path.parent.rglob("*"))
    files, troubles = opened(tmp_path, made.getvalue())
    assert [file.name.rpartition("/")[2] for file in files] == ["root.csv", "up.csv"]
    assert [file.read_bytes() for file in files] == [TEXT, TEXT]
    assert len(troubles) == 1 and "4 links" in troubles[0]
    assert sorted(tmp_path.parent.rglob("*")) == sorted([*before, tmp_path / "x.tar"])


def test_sparse_members_are_passed_over(tmp_path):
    pax = archive(("rest", TEXT), form=tarfile.PAX_FORMAT)
    info = tarfile.TarInfo("hole")
    info.size = 3
    info.pax_headers = {"GNU.sparse.realsize": str(1 << 60)}
    head = info.tobuf(tarfile.PAX_FORMAT)
    files, _ = opened(tmp_path, head + b"abc".ljust(512, b"\0") + pax)
    assert [file.name.rpartition("/")[2] for file in files] == ["rest"]


def test_bombs_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(inputs, "_RATIO_FREE_BYTES", 1 << 16)
    data = archive(("small", TEXT), ("zeros", b"0" * (16 << 20)), mode="w:gz")
    with pytest.raises(BadInput, match="unpacks to more than"):
        opened(tmp_path, data)
    inner = archive(("zeros.gz", gzip.compress(b"0" * (16 << 20))))
    (file,), _ = opened(tmp_path, inner)
    with pytest.raises(BadInput, match="unpacks to more than"):
        file.read_bytes()
    monkeypatch.setattr(inputs, "_MEMBERS_LIMIT", 3)
    with pytest.raises(BadInput, match="more than 3 files"):
        opened(tmp_path, archive(*((str(n), b"") for n in range(4))))


def test_names_and_sizes_are_bounded(tmp_path):
    info = tarfile.TarInfo("x")
    for size, kind in [(1 << 30, tarfile.GNUTYPE_LONGNAME), (1 << 60, tarfile.REGTYPE)]:
        info.size, info.type = size, kind
        with pytest.raises(BadInput, match="damaged archive"):
            opened(tmp_path, info.tobuf(tarfile.GNU_FORMAT) + bytes(1024))


def test_what_lies_before_the_damage_is_kept(tmp_path):
    data = archive(("a", b"1" * 600), ("b", b"2" * 600))
    files, troubles = opened(tmp_path, data[: 512 + 1024 + 512 + 100])
    assert [file.read_bytes() for file in files] == [b"1" * 600]
    assert len(troubles) == 1 and "damaged after 1 file:" in troubles[0]
    with pytest.raises(BadInput, match="damaged archive"):
        opened(tmp_path, data[:700])


def test_damage_of_any_kind_is_an_error_of_ours(tmp_path):
    data = archive(("a.csv", TEXT * 100), ("b" * 200, TEXT), form=tarfile.PAX_FORMAT)
    rng = random.Random(1)
    read = 0
    for _ in range(200):
        broken = bytearray(data)
        for _ in range(rng.randrange(1, 6)):
            broken[rng.randrange(3000)] = rng.randrange(256)
        try:
            files, _ = opened(tmp_path, bytes(broken[: rng.randrange(300, len(broken))]))
            read += sum(len(file.read_bytes()) > 0 for file in files)
        except RotameterError as error:
            assert error.hint
    assert read


def test_an_archive_in_an_archive_or_a_folder_is_named_in_the_refusal(tmp_path):
    inner = archive(("x.swf", b"1 2\n"))
    (tmp_path / "outer.tar").write_bytes(archive(("inner.tar", inner)))
    with pytest.raises(UnknownFormat, match="is a tar archive"):
        rotameter.open(tmp_path / "outer.tar")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "x.tar.gz").write_bytes(archive(("a", b"b"), mode="w:gz"))
    with pytest.raises(UnknownFormat, match="is a tar archive"):
        rotameter.open(tmp_path / "folder")


def test_an_empty_archive_holds_nothing(tmp_path):
    (tmp_path / "x.tar").write_bytes(archive(("folder/.keep", b"")))
    with pytest.raises(BadInput, match="no files"):
        rotameter.open(tmp_path / "x.tar")
