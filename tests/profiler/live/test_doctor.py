"""The doctor says yes only to what something of the tracer measures."""

from __future__ import annotations

import builtins
import glob
import importlib
import importlib.util
from typing import Any

import pytest

from rotameter.profiler.live import doctor

MEASURED_BY = {
    "I/O by thread": "rotameter.profiler.probes.io",
    "I/O by process": "rotameter.profiler.probes.io",
    "reads of /proc with the interpreter lock held": "rotameter.profiler.live.proc",
    "resident memory": "rotameter.profiler.live.memory",
    "exact peak memory": "rotameter.profiler.probes.memory",
    "container's memory limit": "rotameter.profiler.live.host",
    "container's CPU quota": "rotameter.profiler.live.host",
    "records on a local disk": "rotameter.profiler.live.spool",
    "forked children": "rotameter.profiler.live.children",
}
NOTHING_MEASURES = {
    "GPU use",
    "energy",
    "hardware counters",
    "time that the interpreter lock was held",
}


def test_every_check_names_what_measures_it_or_says_no() -> None:
    assert {c["what"] for c in doctor.checks()} == set(MEASURED_BY) | NOTHING_MEASURES
    for module in MEASURED_BY.values():
        importlib.import_module(module)


def test_a_machine_that_has_everything_is_not_promised_what_no_probe_reads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def everything(*_: Any, **__: Any) -> Any:
        return "-1"

    monkeypatch.setattr(glob, "glob", lambda *_: ["/dev/nvidia0"])
    monkeypatch.setattr(importlib.util, "find_spec", lambda *_: builtins)
    monkeypatch.setattr(doctor, "read_proc", everything)
    monkeypatch.setattr(doctor.os, "access", lambda *_: True)
    found = {c["what"]: c for c in doctor.checks()}
    assert all(found[what]["available"] for what in ("I/O by thread", "resident memory"))
    for what in NOTHING_MEASURES:
        assert not found[what]["available"], what
        assert "no probe" in found[what]["reason"]
