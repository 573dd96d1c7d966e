"""Clock, proc, sizes, faults, doctor: the small parts."""

from __future__ import annotations

import os
import threading

import pytest

from rotameter.errors import TracerWarning, UsageError
from rotameter.profiler.live import doctor, proc
from rotameter.profiler.live.clock import SYSTEM
from rotameter.profiler.live.faults import Faults, warn_once
from rotameter.profiler.live.proc import Own, Proc, ProcFile, parse_io, read_proc
from rotameter.profiler.live.sizes import size_bytes

needs_proc = pytest.mark.skipif(not os.path.exists("/proc/self/io"), reason="no /proc")


def test_clocks_agree():
    assert abs(SYSTEM.wall() + SYSTEM.offset_ns() - SYSTEM.epoch()) < 1e9


@needs_proc
@pytest.mark.parametrize("held", [True, False])
def test_both_ways_of_reading_agree(monkeypatch, held):
    if not held:
        monkeypatch.setattr(proc, "_LIB", None)
    own = Own()
    counters = Proc(own)
    before = own.read
    assert counters.rss_bytes() > 1 << 20
    assert counters.hwm_bytes() >= counters.rss_bytes() // 2
    assert own.read > before
    file = ProcFile("/proc/self/io")
    count = file.read()
    assert parse_io(file.data)[0] > 0 and count > 20
    file.close()
    with pytest.raises(OSError):
        file.read()


@needs_proc
def test_threads_have_counters_of_their_own():
    counters = Proc(Own())
    states = []
    thread = threading.Thread(target=lambda: states.append(counters.thread()))
    thread.start()
    thread.join()
    assert states[0] is not counters.thread() and counters.thread() is counters.thread()


def test_absent_files_are_none():
    assert read_proc("/no/such") is None
    assert read_proc("/") is None
    assert Proc._open("/no/such") is None


def test_counters_that_are_absent_give_none(monkeypatch, lab):
    monkeypatch.setattr(Proc, "_open", staticmethod(lambda path, size_bytes=256: None))
    monkeypatch.setattr(proc, "ProcFile", _absent)
    traced = lab(exact_peak=True)
    traced.session.end(traced.session.begin("k", "g"))
    (row,) = traced.rows()
    for name in ("read_bytes", "io_kind", "peak_memory_bytes", "start_memory_bytes"):
        assert row[name] is None
    assert row["wall_s"] >= 0 and row["process_cpu_s"] >= 0
    assert traced.session.sample_rss() is None


def _absent(*args):
    raise FileNotFoundError


@pytest.mark.parametrize(
    ("text", "size"),
    [("1", 1), ("2GiB", 2**31), ("1.5 kB", 1500), (" 3M ", 3 * 10**6), ("1_000 MB", 10**9)],
)
def test_sizes(text, size):
    assert size_bytes(text) == size


@pytest.mark.parametrize("bad", ["", "x", "-1", "1 iB", "2 XB", -1, True, 1.5, None, "1e3"])
def test_no_sizes(bad):
    with pytest.raises(UsageError) as error:
        size_bytes(bad)
    assert error.value.hint


def test_faults_warn_once_and_never_raise():
    class Nothing:
        def channel(self, *args):
            raise RuntimeError

    faults = Faults(Nothing(), None)
    with pytest.warns(TracerWarning) as caught:
        for _ in range(3):
            faults.note("here", ValueError("password=hunter2"))
    assert len(caught) == 1 and faults.count == 3
    assert "hunter2" not in str(caught[0].message)
    warn_once("as an error it is not raised")


def test_doctor_gives_a_reason_for_all_that_is_absent(monkeypatch):
    for check in doctor.checks():
        assert check["available"] is (check["reason"] is None)
    monkeypatch.setattr(doctor, "read_proc", lambda *args: None)
    monkeypatch.setattr(doctor, "_readable", lambda path: False)
    monkeypatch.setattr(doctor._proc, "_LIB", None)
    monkeypatch.setattr(doctor.os, "access", lambda *args: False)
    monkeypatch.setattr(doctor, "is_shared_filesystem", lambda path: True)
    found = {check["what"]: check for check in doctor.checks()}
    for what in ("I/O by thread", "I/O by process", "resident memory", "exact peak memory"):
        assert not found[what]["available"] and found[what]["enable"]
    assert not found["energy"]["available"] and found["energy"]["reason"]
    assert not found["records on a local disk"]["available"]


def test_a_check_that_fails_is_no_crash(monkeypatch):
    monkeypatch.setattr(doctor, "_CHECKS", (("x", lambda: 1 / 0),))
    assert "ZeroDivisionError" in doctor.checks()[0]["reason"]
