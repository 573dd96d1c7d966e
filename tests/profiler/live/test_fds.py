"""A program that closes all descriptors gets none of the tracer's bytes, and is not hurt."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

from rotameter.profiler.live import fds
from rotameter.profiler.live.fds import HeldFd
from rotameter.profiler.live.memory import PeakMeter
from rotameter.profiler.live.proc import Own, Proc, ProcFile, renew_lost
from rotameter.profiler.live.segment import read_segment
from rotameter.profiler.live.sink import FileSink

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc")


def _take_over(fd, path):
    """Close a descriptor that is not ours and get its number for a file."""
    mine = os.open(path, os.O_RDWR | os.O_CREAT)
    os.dup2(mine, fd)
    os.close(mine)


@pytest.fixture
def user(tmp_path):
    """Give the path of a user's file that holds a word."""
    path = tmp_path / "mine"
    path.write_bytes(b"mine")
    return path


def test_held_descriptors_lie_high_and_are_not_inherited(tmp_path):
    held = HeldFd(str(tmp_path / "x"), os.O_WRONLY | os.O_CREAT)
    assert held.fd >= 500
    assert not os.get_inheritable(held.fd)
    held.close()
    held.close()


def test_a_low_limit_of_descriptors(tmp_path, monkeypatch):
    monkeypatch.setattr(fds, "_HIGH_FD", 1 << 30)
    held = HeldFd(str(tmp_path / "x"), os.O_WRONLY | os.O_CREAT)
    assert held.ours()
    held.close()


def test_a_foreign_descriptor_is_not_closed(tmp_path, user):
    held = HeldFd(str(tmp_path / "x"), os.O_WRONLY | os.O_CREAT)
    fd = held.fd
    _take_over(fd, user)
    assert not held.ours()
    held.close()
    assert os.read(fd, 10) == b"mine"
    os.close(fd)


def test_the_segment_is_opened_again(tmp_path, user):
    sink = FileSink(str(tmp_path / "a.seg"))
    sink.write(b"one")
    fd = sink._held.fd
    _take_over(fd, user)
    sink.write(b"two")
    sink.close()
    assert (tmp_path / "a.seg").read_bytes().endswith(b"onetwo")
    assert user.read_bytes() == b"mine"
    os.close(fd)


def test_a_segment_that_is_gone_takes_nothing(tmp_path, user):
    sink = FileSink(str(tmp_path / "a.seg"))
    os.close(sink._held.fd)
    os.replace(user, tmp_path / "a.seg")
    with pytest.raises(OSError, match="no longer"):
        sink.write(b"two")
    with pytest.raises(OSError, match="no longer"):
        sink.rewrite(0, b"two")
    sink.close()
    assert (tmp_path / "a.seg").read_bytes() == b"mine"


@linux
@pytest.mark.parametrize("kept", [True, False])
def test_counters_are_read_again(user, monkeypatch, kept):
    if not kept:
        monkeypatch.setattr("rotameter.profiler.live.proc._LIB", None)
    file = ProcFile("/proc/self/statm")
    os.close(file.fd)
    assert file.read() > 0
    fd = file.fd
    _take_over(fd, user)
    renew_lost()
    assert file.read() > 4
    assert file.fd != fd
    file.close()
    assert os.read(fd, 10) == b"mine"
    os.close(fd)


@linux
@pytest.mark.parametrize("kept", [True, False])
def test_the_peak_is_not_reset_in_a_users_file(user, monkeypatch, kept):
    if not kept:
        monkeypatch.setattr("rotameter.profiler.live.proc._LIB", None)
    meter = PeakMeter(Proc(Own()), exact=True)
    if not meter.exact:
        pytest.skip("peaks cannot be reset here")
    fd = meter._held.fd
    _take_over(fd, user)
    meter.reset()
    assert meter.exact
    assert meter._held.fd != fd
    meter.close()
    assert os.read(fd, 10) == b"mine"
    assert user.read_bytes() == b"mine"
    os.close(fd)


DAEMON = """
    import os, sys, time
    from rotameter.profiler.live import process, tracer
    folder, mine = sys.argv[1:]

    @tracer.task
    def work(n):
        time.sleep(.001)
        return n

    session = process.start(folder, adapt=False, exact_peak=True, flush_s=.05)
    work(1)
    os.closerange(3, 5000)
    files = [open(f"{mine}{n}", "w+") for n in range(600)]  # as high as the tracer's were
    for n in range(100):
        work(n)
    for file in files:
        file.write("mine")
    process.stop(session)
    del session
    for file in files:
        file.flush()
        os.fstat(file.fileno())
        file.close()
"""


@linux
def test_a_program_that_closes_everything(tmp_path):
    code = textwrap.dedent(DAEMON)
    place = tmp_path / "t.rmt"
    command = [sys.executable, "-W", "error", "-c", code, str(place), str(tmp_path / "mine-")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert {p.read_text() for p in tmp_path.glob("mine-*")} == {"mine"}
    (path,) = (place / "segments").glob("*.seg")
    frames = read_segment(path.read_bytes()).frames
    tasks = [f for f in frames if f.table == "tasks" and "outcome" in f.columns]
    assert sum(f.rows for f in tasks) == 101
