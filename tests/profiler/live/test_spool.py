"""Node-local first on a shared file system."""

from __future__ import annotations

import errno
import json
import os

import pytest

from rotameter.profiler.live import process, spool
from rotameter.profiler.live.segment import read_segment
from rotameter.profiler.live.spool import SegmentSink, is_shared_filesystem, open_sink

MOUNTS = r"""
/dev/root / ext4 rw 0 0
proc /proc proc rw 0 0
server:/home /home nfs4 rw 0 0
/dev/sdb /home/local xfs rw 0 0
mds@tcp:/fs /lustre lustre rw 0 0
gpfs0 /gpfs gpfs rw 0 0
beegfs_nodev /bee beegfs rw 0 0
1.2.3.4:/ /ceph ceph rw 0 0
//server/share /my\040share cifs rw 0 0
sshfs /ssh fuse.sshfs rw 0 0
overlay /fo fuse.fuse-overlayfs rw 0 0
/dev/sdc /twice ext4 rw 0 0
server:/twice /twice nfs rw 0 0
tmpfs /tmp tmpfs rw 0 0
broken
"""


@pytest.mark.parametrize(
    ("path", "shared"),
    [
        ("/", False),
        ("/tmp/x", False),
        ("/home", True),
        ("/home/me/run.rmt", True),
        ("/home/local/run.rmt", False),
        ("/homework", False),
        ("/lustre/x", True),
        ("/gpfs/x", True),
        ("/bee/x", True),
        ("/ceph/x", True),
        ("/my share/x", True),
        ("/ssh/x", True),
        ("/fo/x", False),
        ("/twice/x", True),
    ],
)
def test_mounts(path, shared):
    assert is_shared_filesystem(path, MOUNTS) is shared


def test_no_mounts_is_local():
    assert is_shared_filesystem("/x", "") is False


@pytest.fixture
def shared(tmp_path, monkeypatch):
    """Make the trace's folder look shared, the temporary one local."""
    local = tmp_path / "local"
    local.mkdir()
    monkeypatch.setattr(spool.tempfile, "gettempdir", lambda: str(local))
    monkeypatch.setattr(spool, "is_shared_filesystem", lambda path: "shared" in str(path))
    return tmp_path / "shared.rmt"


def test_a_spooled_segment_is_noted_and_moved_in(shared):
    recorder = process.open_segment(shared, "worker", worker="w")
    recorder.channel("deps", ("task_id", "depends_on")).add(("b", "a"))
    recorder.flush()
    (note,) = (shared / "segments").iterdir()
    assert note.suffix == ".spool"
    place = json.loads(note.read_text())
    with open(place["path"], "rb") as file:
        assert read_segment(file.read()).records >= 2
    assert os.stat(place["path"]).st_mode & 0o777 == 0o600
    assert os.stat(os.path.dirname(place["path"])).st_mode & 0o777 == 0o700
    recorder.close()
    (segment,) = (shared / "segments").iterdir()
    assert segment.suffix == ".seg"
    assert read_segment(segment.read_bytes()).frames[2].values == [["b"], ["a"]]
    assert not os.path.exists(place["path"])


def test_a_segment_that_cannot_be_moved_stays_noted(shared, monkeypatch):
    sink = open_sink(str(shared), "worker-h-1")
    sink.write(b"x")

    def full(*args):
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(spool.shutil, "copyfile", full)
    sink.close()
    (note,) = (shared / "segments").iterdir()
    assert os.path.exists(json.loads(note.read_text())["path"])


def test_names_are_never_reused(shared):
    one, two = (open_sink(str(shared), "worker-h-1") for _ in range(2))
    one.close()
    three = open_sink(str(shared), "worker-h-1")
    two.close()
    three.close()
    names = sorted(os.listdir(shared / "segments"))
    assert names == [f"worker-h-1-{n}.seg" for n in range(3)]


def test_a_strangers_spool_folder_is_not_used(shared, monkeypatch):
    monkeypatch.setattr(spool.os, "getuid", lambda: 12345)
    sink = open_sink(str(shared), "x")
    assert os.path.exists(shared / "segments/x-0.seg")
    sink.close()


def test_own_bytes_are_known(tmp_path):
    sink = SegmentSink(str(tmp_path / "a.seg"))
    sink.write(b"12345")
    assert (sink.own.written, sink.own.busy) == (5, 0)
    sink.close()
