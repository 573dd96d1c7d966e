"""A session that records into a list."""

from __future__ import annotations

import pytest

from rotameter.profiler.live import fileio
from rotameter.profiler.live import session as session_module
from rotameter.profiler.live.recorder import CallSink, Recorder
from rotameter.profiler.live.segment import MAGIC, read_segment
from rotameter.profiler.live.session import Session


class Lab:
    """A session and what it recorded."""

    def __init__(self, **options):
        self.frames = [MAGIC]
        self.recorder = Recorder(CallSink(self.frames.append), {"role": "test"}, flush_s=60)
        options.setdefault("adapt", False)
        self.session = Session(self.recorder, host="here", **options)

    def rows(self, table="tasks"):
        self.recorder.flush()
        found = []
        for frame in read_segment(b"".join(self.frames)).frames:
            if frame.table == table:
                rows = zip(*frame.values, strict=True)
                found += [dict(zip(frame.columns, row, strict=True)) for row in rows]
        return found

    def activate(self):
        session_module.activate(self.session)
        return self


@pytest.fixture
def lab():
    """Give a function that makes labs; whatever was activated ends with the test."""
    made = []

    def make(**options):
        made.append(Lab(**options))
        return made[-1]

    yield make
    session_module.deactivate()
    for one in made:
        one.session.close()
        one.recorder.close()


@pytest.fixture
def session():
    recorder = Recorder(CallSink(lambda frames: None), {"role": "test"}, flush_s=60)
    session = Session(recorder, host="here", adapt=False)
    session_module.activate(session)
    fileio.install()
    yield session
    fileio.uninstall()
    session_module.deactivate()
    session.close()
    recorder.close()
