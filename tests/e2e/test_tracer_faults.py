"""Whatever fails under the tracer, the user's result is the same and one warning says why."""

from __future__ import annotations

import errno
import os
import random
import warnings

import pytest

from rotameter.errors import TracerWarning, UsageError
from rotameter.profiler.live import fileio, probing, process, recorder, rows, sink
from rotameter.profiler.live import session as session_module
from rotameter.profiler.live.segment import read_segment
from rotameter.profiler.live.session import Session
from rotameter.profiler.live.tracer import span, task

pytestmark = pytest.mark.e2e


@task
def leaf(x, path):
    path.write_text(str(x))
    return int(path.read_text()) * 2


@task
def numbers(n):
    yield from range(n)


@task
def tree(n, path):
    total = 0
    for x in numbers(n):
        with span("step"):
            try:
                total += leaf(x, path)
                if x == 3:
                    raise KeyError(x)
            except KeyError:
                total += 100
    return total


EXPECTED = 2 * sum(range(6)) + 100


class Broken:
    """A probe that fails at a given point."""

    def __init__(self, where):
        self.where = where

    def start(self, context):
        if self.where == "start":
            struck.add("hook")
            raise RuntimeError("probe start")

    def stop(self, token):
        if self.where == "stop":
            struck.add("hook")
            raise RuntimeError("probe stop")
        return {"nonsense": object(), "exit_code": None}


struck = set()


def _full(*args):
    struck.add("disk")
    raise OSError(errno.ENOSPC, "No space left on device")


def _raise(*args, **kwargs):
    struck.add("hook")
    raise RuntimeError("injected")


def _unseen(*args, **kwargs):
    """Fail in the wrap of files, which passes its own faults over."""
    raise RuntimeError("injected")


POINTS = {
    "probe start": lambda m, s: s._probes.append(Broken("start")),
    "probe stop": lambda m, s: s._probes.append(Broken("stop")),
    "proc read": lambda m, s: m.setattr(probing, "parse_io", _raise),
    "enter": lambda m, s: m.setattr(probing.Prober, "enter", _raise),
    "leave": lambda m, s: m.setattr(probing.Prober, "leave", _raise),
    "memory": lambda m, s: m.setattr(probing.Prober, "_boundary", _raise),
    "task row": lambda m, s: m.setattr(rows, "task_row", _raise),
    "flow row": lambda m, s: m.setattr(rows, "flow_rows", _raise),
    "session leave": lambda m, s: m.setattr(Session, "leave", _raise),
    "session enter": lambda m, s: m.setattr(Session, "enter", _raise),
    "record": lambda m, s: m.setattr(Session, "_record", _raise),
    "channel": lambda m, s: m.setattr(recorder.Channel, "add", _raise),
    "span": lambda m, s: m.setattr(Session, "span", _raise),
    "file name": lambda m, s: m.setattr(fileio, "clip", _unseen),
    "file note": lambda m, s: m.setattr(Session, "only_running", _unseen),
    "levels": lambda m, s: m.setattr(type(s.guard), "ended", _raise),
    "full disk": lambda m, s: m.setattr(sink.os, "write", _full),
}


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("level", ["default", "time"])
def test_a_fault_does_not_reach_the_user(tmp_path, monkeypatch, point, strict, level):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("error" if strict else "always")
        session = process.start(tmp_path / "t.rmt", flush_s=60, level=level)
        with monkeypatch.context() as patch:
            POINTS[point](patch, session)
            assert tree(6, tmp_path / "x") == EXPECTED
            session.recorder.flush()
        process.stop(session)
    told = [w for w in caught if issubclass(w.category, TracerWarning)]
    assert len(told) <= 1
    reached = level == "default" or point in ("span", "task row", "session enter", "full disk")
    if not strict and reached and point not in ("file name", "file note"):
        assert len(told) == 1
        assert point != "full disk" or "No space left" in str(told[0].message)
    assert session_module.active is None
    assert not session._active


def test_a_hundred_random_faults(tmp_path, monkeypatch):
    rng = random.Random(1)
    for turn in range(100):
        struck.clear()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            session = process.start(
                tmp_path / f"{turn}.rmt",
                flush_s=60,
                host_samples=False,
                level=("default", "time")[turn % 2],
            )
            with monkeypatch.context() as patch:
                for point in rng.sample(sorted(POINTS), rng.randrange(1, 4)):
                    POINTS[point](patch, session)
                assert tree(6, tmp_path / "x") == EXPECTED
                session.recorder.flush()
            process.stop(session)
        told = [str(w.message) for w in caught if issubclass(w.category, TracerWarning)]
        # One for what failed in hooks, one for what the disk refused.
        assert len(told) == len(struck), (turn, struck, told)
        assert {w.category for w in caught} <= {TracerWarning}


def test_a_full_disk_counts_what_it_dropped(tmp_path, monkeypatch):
    session = process.start(tmp_path / "t.rmt", flush_s=60)
    tree(6, tmp_path / "x")
    with monkeypatch.context() as patch, pytest.warns(TracerWarning, match="No space left"):
        patch.setattr(sink.os, "write", _full)
        session.recorder.flush()
    dropped = session.recorder.records_dropped
    assert dropped >= 8
    tree(6, tmp_path / "x")
    process.stop(session)
    (path,) = (tmp_path / "t.rmt/segments").glob("*.seg")
    read = read_segment(path.read_bytes())
    ends = [f.values[0][0] for f in read.frames if f.table == "meta"]
    assert ends[0]["role"] == "client"
    assert ends[-1]["dropped"] == dropped
    assert sum(f.rows for f in read.frames if f.table == "tasks") == 8


def _dropped(folder):
    """Give the drops that a trace tells of, and the ``tasks`` rows in it."""
    told = kept = 0
    for path in (folder / "segments").glob("*.seg"):
        read = read_segment(path.read_bytes())
        assert read.torn_bytes == 0
        for frame in read.frames:
            if frame.table == "tasks":
                kept += frame.rows
            if frame.table == "events" and "count" in frame.columns:
                told += sum(frame.values[frame.columns.index("count")])
    return told, kept


@pytest.mark.parametrize("again", [False, True])
def test_a_disk_that_stays_full_still_takes_the_count(tmp_path, monkeypatch, again):
    session = process.start(tmp_path / "t.rmt", flush_s=60, host_samples=False)
    session.recorder.flush()
    write, seen = os.write, []
    with pytest.warns(TracerWarning, match="No space left") as caught, monkeypatch.context() as m:
        m.setattr(sink.os, "write", lambda fd, data: seen.append(len(data)) or _full())
        for _ in range(3):
            tree(6, tmp_path / "x")
            session.recorder.flush()
        if again:
            m.setattr(sink.os, "write", write)
            tree(6, tmp_path / "x")
            session.recorder.flush()
            m.setattr(sink.os, "write", lambda fd, data: _full())
            tree(6, tmp_path / "x")
        facts = process.stop(session)
    assert len(caught) == 1
    assert facts == {"dropped_unsaid": 0}
    told, kept = _dropped(tmp_path / "t.rmt")
    assert told == session.recorder.records_dropped
    assert told >= 8 * (4 if again else 3)
    assert kept == (8 if again else 0)


def test_what_is_small_still_fits_on_a_full_disk(tmp_path, monkeypatch):
    session = process.start(tmp_path / "t.rmt", flush_s=60, host_samples=False)
    write = os.write

    def little(fd, data):
        return write(fd, data) if len(data) < 1500 else _full()

    with pytest.warns(TracerWarning, match="No space left"), monkeypatch.context() as m:
        m.setattr(sink.os, "write", little)
        tree(6, tmp_path / "x")
        process.stop(session)
    told, kept = _dropped(tmp_path / "t.rmt")
    assert kept == 0 and told == session.recorder.records_dropped > 0
    (path,) = (tmp_path / "t.rmt/segments").glob("*.seg")
    frames = read_segment(path.read_bytes()).frames
    assert frames[0].values[0][0]["role"] == "client"
    assert "workers" in {frame.table for frame in frames}


def test_drops_that_cannot_be_told_are_handed_over(tmp_path, monkeypatch):
    session = process.start(tmp_path / "t.rmt", flush_s=60)
    with pytest.warns(TracerWarning, match="No space left"), monkeypatch.context() as m:
        m.setattr(sink.os, "write", _full)
        tree(6, tmp_path / "x")
        facts = process.stop(session)
    assert facts["dropped_unsaid"] == session.recorder.records_dropped >= 8


def test_a_warning_that_could_not_be_given_comes_at_the_end(tmp_path, monkeypatch):
    session = process.start(tmp_path / "t.rmt", flush_s=60)
    with monkeypatch.context() as m:
        m.setattr("rotameter.profiler.live.faults.warn_once", _raise)
        m.setattr(Session, "enter", _raise)
        tree(6, tmp_path / "x")
    with pytest.warns(TracerWarning, match="could not measure"):
        process.stop(session)


def test_an_unwritable_folder(tmp_path):
    blocker = tmp_path / "file"
    blocker.write_text("")
    with pytest.warns(TracerWarning, match="cannot write") as caught:
        session = process.start(blocker / "t.rmt")
        assert tree(6, tmp_path / "x") == EXPECTED
        session.recorder.flush()
        process.stop(session)
    assert len(caught) == 1
    assert session.recorder.records_dropped >= 8


def test_a_second_trace_is_refused_with_a_hint(tmp_path):
    session = process.start(tmp_path / "t.rmt")
    with pytest.raises(UsageError) as error:
        process.start(tmp_path / "u.rmt")
    assert "span" in error.value.hint
    assert not (tmp_path / "u.rmt").exists()
    process.stop(session)
    process.stop(session)  # a second time changes nothing
    assert "ROTAMETER_LIVE" not in os.environ


def test_folders_are_private(tmp_path):
    session = process.start(tmp_path / "t.rmt")
    process.stop(session)
    for path in [tmp_path / "t.rmt", tmp_path / "t.rmt/segments"]:
        assert path.stat().st_mode & 0o777 == 0o700
    for path in (tmp_path / "t.rmt/segments").iterdir():
        assert path.stat().st_mode & 0o777 == 0o600


def test_secrets_stay_out(tmp_path):
    secret = "q7Zp2Lx9Vb4Nc8Md1Kf6"

    @task(features=lambda password: {"n": 1})
    def connect(password):
        with span(f"https://u:{password}@h/"):
            raise ConnectionError(f"postgres://u:{password}@db failed")

    session = process.start(tmp_path / "t.rmt")
    with pytest.raises(ConnectionError):
        connect(secret)
    process.stop(session)
    data = b"".join(p.read_bytes() for p in (tmp_path / "t.rmt/segments").iterdir())
    assert b"ConnectionError" in data and secret.encode() not in data
