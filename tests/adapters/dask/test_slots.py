"""Slots outlive a SIGKILL of their process."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time

import pytest

from rotameter.adapters.dask import slots


def test_read_after_a_kill(tmp_path):
    path = tmp_path / "1.slots"
    script = f"""
    import os, signal
    from rotameter.adapters.dask.slots import SlotFile
    slots = SlotFile({str(path)!r})
    gone = slots.begin("done", 1, 10)
    slots.begin("('x', 0)", 2, 20)
    slots.begin("é" * 500, 3, 30)
    slots.end(gone, 15)
    slots.memory(123456)
    os.kill(os.getpid(), signal.SIGKILL)
    """
    process = subprocess.Popen([sys.executable, "-c", textwrap.dedent(script)])
    assert process.wait(30) == -9
    read = slots.read_slots(str(path), process.pid)
    assert read.pid == process.pid and read.rss_bytes == 123456
    assert {(r.run_id, r.start_ns) for r in read.running} == {("2", 20), ("3", 30)}
    assert {r.task_id for r in read.running} >= {"('x', 0)"}
    assert read.ended == (slots.SlotRecord(10, "1", "done", 15),)
    assert slots.SlotRead.from_message(read.as_message()) == read
    assert slots.read_slots(str(path), process.pid + 1) is None


def test_foreign_and_missing_files(tmp_path):
    assert slots.read_slots(str(tmp_path / "none")) is None
    for n, content in enumerate([b"", b"RMTSLOT1", b"x" * 5000]):
        path = tmp_path / f"{n}"
        path.write_bytes(content)
        assert slots.read_slots(str(path)) is None


def test_more_attempts_than_slots(tmp_path):
    held = slots.SlotFile(str(tmp_path / "1.slots"))
    taken = [held.begin(f"t{n}", n + 1, n + 1) for n in range(200)]
    assert taken.count(-1) == 200 - 128
    for at in taken:
        held.end(at, 500)
    read = slots.read_slots(held.path)
    assert read.running == () and len(read.ended) == 128
    held.close(remove=True)
    assert not os.path.exists(held.path)
    held.end(taken[0], 600)  # after the end: nothing happens
    held.memory(1)


def test_the_last_ends_are_kept_for_as_long_as_there_are_slots(tmp_path):
    held = slots.SlotFile(str(tmp_path / "1.slots"))
    for n in range(300):
        held.end(held.begin(f"t{n}", n, n + 1), n + 2)
    now = held.begin("now", 300, 301)
    read = slots.read_slots(held.path)
    assert {r.task_id for r in read.ended} == {f"t{n}" for n in range(300 - 127, 300)}
    assert all(r.end_ns == r.start_ns + 1 == int(r.run_id) + 2 for r in read.ended)
    assert [r.task_id for r in read.running] == ["now"]
    held.end(now, 302)
    held.close(remove=True)


def test_a_disk_too_full_for_the_slots_is_an_error_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr(slots.os, "write", lambda fd, data: len(data) // 2)
    with pytest.raises(OSError, match="space"):
        slots.SlotFile(str(tmp_path / "1.slots"))


def test_files_of_the_long_dead_are_removed(tmp_path):
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait(30)
    for name in (f"{process.pid}-aa.slots", f"{os.getpid()}-bb.slots", "odd"):
        (tmp_path / name).write_bytes(b"")
        os.utime(tmp_path / name, (time.time() - 7200,) * 2)
    assert slots.remove_dead(str(tmp_path)) == 1
    assert sorted(os.listdir(tmp_path)) == sorted([f"{os.getpid()}-bb.slots", "odd"])


def test_the_folder_is_this_users_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(slots.tempfile, "gettempdir", lambda: str(tmp_path))
    place = slots.folder()
    assert os.stat(place).st_mode & 0o777 == 0o700
    os.chmod(place, 0o777)
    assert slots.folder() == place and os.stat(place).st_mode & 0o777 == 0o700


@pytest.mark.parametrize("how", ["another user", "link", "file"])
def test_a_folder_that_is_not_this_users_is_refused(tmp_path, monkeypatch, how):
    monkeypatch.setattr(slots.tempfile, "gettempdir", lambda: str(tmp_path))
    place = slots.folder()
    if how == "another user":
        uid = os.getuid()
        monkeypatch.setattr(
            slots.os,
            "lstat",
            lambda _: os.stat_result((0o40700,) + (0,) * 3 + (uid + 1,) + (0,) * 5),
        )
    else:
        os.rmdir(place)
        (tmp_path / "elsewhere").mkdir()
        if how == "link":
            os.symlink(tmp_path / "elsewhere", place)
        else:
            open(place, "w").close()
    with pytest.raises(OSError):
        slots.folder()
