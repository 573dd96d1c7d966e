"""Whatever a file holds: imported, or refused by an error of ours, in bounded time and memory.

300 inputs an importer; as many as ``ROTAMETER_FUZZ`` says otherwise (20,000 by
``python -m benchmarks import_fuzz --full``).
"""

from __future__ import annotations

import contextlib
import importlib
import os
import pkgutil
import random
import time
import tracemalloc
import warnings

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.property import grammars

from rotameter import plugins
from rotameter.errors import RotameterError
from rotameter.profiler.schema import OUTCOMES
from rotameter.testing import import_bytes
from rotameter.values import Head

COUNT = int(os.environ.get("ROTAMETER_FUZZ") or 300)
SECONDS = 5.0  # of CPU time: a busy machine makes no import hang
WALL_SECONDS = 60.0
FREE_BYTES = 64 << 20
GRAMMARS = {
    module.IMPORTER: module
    for module in (
        importlib.import_module(f"tests.property.grammars.{found.name}")
        for found in pkgutil.iter_modules(grammars.__path__)
    )
    if hasattr(module, "IMPORTER")
}


def mutated(data: bytes, rng: random.Random) -> bytes:
    """Flip, cut, duplicate or reorder: bytes and lines."""
    data = bytearray(data)
    for _ in range(rng.randrange(1, 4)):
        what = rng.randrange(5)
        at = rng.randrange(len(data) + 1)
        if what == 0 and data:
            data[min(at, len(data) - 1)] = rng.randrange(256)
        elif what == 1:
            del data[at : at + rng.randrange(1, 40)]
        elif what == 2:
            data[at:at] = data[at : at + rng.randrange(1, 200)]
        elif what == 3:
            lines = bytes(data).split(b"\n")
            rng.shuffle(lines)
            data = bytearray(b"\n".join(lines))
        else:
            del data[at:]
    return bytes(data)


def try_one(importer: type, name: str, data: bytes) -> bool:
    """Import, hold the result to the rules; tell whether anything came out."""
    sure = importer().sniff(Head(name, data[: 1 << 16]))
    assert 0 <= sure <= 1
    began, used = time.monotonic(), time.process_time()
    try:
        trace = import_bytes(importer, {name: data})
    except RotameterError as error:
        assert str(error) and error.hint
        return False
    finally:
        assert time.process_time() - used < SECONDS, "too slow"
        assert time.monotonic() - began < WALL_SECONDS, "hangs"
    records = trace.meta["importer"]["records"]
    assert records["in"] == records["out"] + records["merged"] + records["rejected"]
    tasks = trace.table("tasks")
    assert set(tasks["outcome"].to_pylist()) <= set(OUTCOMES)
    for row in tasks.select(["started_ns", "ended_ns", "wall_s", "cpu_s"]).to_pylist():
        assert row["wall_s"] is None or row["wall_s"] >= 0
        assert row["cpu_s"] is None or row["cpu_s"] >= 0
        if row["started_ns"] is not None and row["ended_ns"] is not None:
            assert row["started_ns"] <= row["ended_ns"]
    return True


@pytest.mark.timeout(0 if COUNT > 300 else 300)
@pytest.mark.parametrize("name", sorted(GRAMMARS))
def test_nothing_but_our_errors_leaves_an_importer(name):
    importer = plugins.get("importers", name)
    usable = 0

    @settings(
        max_examples=COUNT,
        deadline=None,
        database=None,
        derandomize=COUNT <= 300,
        suppress_health_check=list(HealthCheck),
    )
    @given(GRAMMARS[name].files(), st.one_of(st.none(), st.integers(0, 2**32)))
    def fuzz(file, seed):
        nonlocal usable
        file_name, data = file
        if seed is not None:
            data = mutated(data, random.Random(seed))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            usable += try_one(importer, file_name, data)

    fuzz()
    assert usable > COUNT // 20, f"only {usable} of {COUNT} inputs were importable"


@pytest.mark.parametrize("name", sorted(GRAMMARS))
def test_memory_stays_within_ten_times_the_file(name):
    importer = plugins.get("importers", name)
    seen: list[tuple[str, bytes]] = []

    @settings(
        max_examples=40,
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    @given(GRAMMARS[name].files())
    def look(file):
        seen.append(file)

    look()
    file_name, data = max(seen, key=lambda file: len(file[1]))
    tracemalloc.start()
    try:
        with contextlib.suppress(RotameterError):
            import_bytes(importer, {file_name: data})
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak <= FREE_BYTES + 10 * len(data)


def test_every_importer_has_a_grammar():
    assert set(plugins.names("importers")) - set(GRAMMARS) == set()
