"""Law 1: whatever breaks in the tracer, the user's result is the same and one warning says why."""

from __future__ import annotations

import errno
import os
import random
import shutil
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import rotameter as rm
from rotameter.errors import TracerWarning
from rotameter.profiler import store
from rotameter.profiler.live import host, levels, probing, process, recorder, spool
from rotameter.profiler.live import session as session_module

RUNS = 100


def _workload(place: Path) -> list[Any]:
    """Every kind of traced code; gives everything that the user would see of it."""

    @rm.task
    def plain(x: int) -> int:
        with rm.span("inside"):
            return x + 1

    @rm.task(group="files", features=lambda path: {"size": 3.0})
    def files(path: Path) -> bytes:
        path.write_bytes(b"abc" * 100)
        return path.read_bytes()

    @rm.task
    def numbers(n: int) -> Any:
        yield from range(n)

    @rm.task
    def fails() -> None:
        raise KeyError("the user's own")

    seen: list[Any] = [plain(1), files(place / "data"), list(numbers(3))]
    try:
        fails()
    except KeyError as error:
        seen.append(error.args)
    with ThreadPoolExecutor(2) as pool:
        seen.append(list(pool.map(plain, range(4))))
    return seen


struck: list[str] = []
Fault = Callable[[pytest.MonkeyPatch, random.Random, Path], None]


def _raising(where: Any, name: str, error: BaseException) -> Fault:
    """Let the n-th and later calls of a function raise."""

    def plant(patch: pytest.MonkeyPatch, rng: random.Random, _: Path) -> None:
        original, left, lock = getattr(where, name), [rng.randrange(4)], threading.Lock()

        def call(*args: Any, **kwargs: Any) -> Any:
            with lock:
                left[0] -= 1
                if left[0] < 0:
                    struck.append(name)
                    raise error
            return original(*args, **kwargs)

        patch.setattr(where, name, call)

    return plant


def _folder_vanishes(patch: pytest.MonkeyPatch, rng: random.Random, place: Path) -> None:
    original = process.start

    def start(folder: Any, **options: Any) -> Any:
        session = original(folder, **options)
        shutil.rmtree(folder)
        return session

    patch.setattr(process, "start", start)


def _folder_is_a_file(patch: pytest.MonkeyPatch, rng: random.Random, place: Path) -> None:
    (place / "sub").write_text("a file where a folder should be")


FAULTS: dict[str, Fault] = {
    "probe start": _raising(probing.Prober, "enter", RuntimeError("planted")),
    "probe stop": _raising(probing.Prober, "leave", RuntimeError("planted")),
    "level guard": _raising(levels.LevelGuard, "ended", RuntimeError("planted")),
    "full disk": _raising(spool.SegmentSink, "write", OSError(errno.ENOSPC, "no space")),
    "quota": _raising(os, "write", OSError(errno.EDQUOT, "quota")),
    "encoding": _raising(recorder, "encode_frame", RuntimeError("planted")),
    "host samples": _raising(host.HostSampler, "tick", RuntimeError("planted")),
    "compaction": _raising(store, "compact", RuntimeError("planted")),
    "metadata": _raising(store, "update_meta", OSError(errno.EROFS, "read-only")),
    "segment": _raising(process, "open_sink", OSError(errno.EACCES, "denied")),
    "start": _raising(process, "start", RuntimeError("planted")),
    "stop": _raising(process, "stop", RuntimeError("planted")),
    "names": _raising(session_module, "clip", RuntimeError("planted")),
    "folder vanishes": _folder_vanishes,
    "folder is a file": _folder_is_a_file,
}


_ALWAYS = ("folder vanishes", "folder is a file")


@pytest.fixture
def expected(tmp_path: Path) -> list[Any]:
    place = tmp_path / "plain"
    place.mkdir()
    return _workload(place)


@pytest.mark.parametrize("seed", range(RUNS))
def test_same_result_whatever_breaks(
    seed: int, expected: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(seed)
    label = list(FAULTS)[seed % len(FAULTS)]
    struck.clear()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with monkeypatch.context() as patch:
            FAULTS[label](patch, rng, tmp_path)
            with rm.trace(tmp_path / "sub" / "run.rmt"):
                got = _workload(tmp_path)
    live = session_module.active
    if live is not None:  # the fault was in stop itself: clean up as the process's end would
        process.stop(live)
    assert got == expected, label
    ours = [str(w.message) for w in caught if issubclass(w.category, TracerWarning)]
    others = [w for w in caught if not issubclass(w.category, TracerWarning)]
    assert not others, [str(w.message) for w in others]
    assert len(ours) == len(set(ours)), (label, ours)
    hit = bool(struck) or label in _ALWAYS
    assert len(ours) == hit, (label, struck, ours)
    assert not hit or "rotameter" in ours[0]
