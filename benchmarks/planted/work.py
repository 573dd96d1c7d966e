"""What the tasks do: real work of a known amount, in the workers' processes.

An amount of work is CPU time of the task's own thread, so that a busy machine changes how long a
run takes but not what it does. Sleeping stands for waiting on another machine only.
"""

from __future__ import annotations

import os
import signal
import threading
import time
import zlib
from pathlib import Path
from typing import Any

import numpy as np

__all__: list[str] = []

_FACTOR = [1.0]
_TABLES: dict[str, Any] = {}
_LEAKED: list[Any] = []
_LEAK: list[Any] = [0, 0.0]
_EXPIRY: list[threading.Timer] = []
_REFERENCE: dict[str, Any] = {}


def set_factor(factor: float) -> None:
    """Make this worker slower: all its computing takes ``factor`` times as long."""
    _FACTOR[0] = factor


def cpu(seconds: float) -> float:
    """Compute with numpy for a CPU time; the GIL is free for most of it."""
    until = time.thread_time() + seconds * _FACTOR[0]
    data = np.linspace(1.0, 2.0, 60_000)
    total = 0.0
    while time.thread_time() < until:
        data = np.sqrt(data * 1.000001 + 0.5)
        total += float(data[0])
    return total


def python(seconds: float) -> int:
    """Compute with Python objects, holding the GIL, for a CPU time."""
    until = time.thread_time() + seconds * _FACTOR[0]
    words: dict[int, str] = {}
    number = 0
    while time.thread_time() < until:
        for _ in range(2000):
            number = (number * 31 + 7) % 100_003
            words[number % 997] = str(number)
    return len(words)


def load(item: tuple[int, float, int], path: str | None = None, after: Any = None) -> Any:
    """Read a small file where one is given, compute, give an array of ``size`` bytes."""
    number, seconds, size = item
    if path is not None:
        with open(path, "rb") as file:
            file.read()
    cpu(seconds)
    return np.random.default_rng(number).random(max(1, size // 8))


def ramp(item: tuple[int, int], after: Any = None) -> Any:
    """Give an array of ``size`` bytes, quickly made."""
    number, size = item
    return np.arange(number, number + size // 8, dtype=np.float64)


def transform(data: Any, seconds: float, after: Any = None) -> Any:
    """Compute, and give back data of the same size."""
    cpu(seconds)
    return np.asarray(data) * 0.5


def shrink(data: Any, seconds: float = 0.0, after: Any = None) -> float:
    """Compute, and give one number."""
    cpu(seconds)
    return float(np.asarray(data).ravel()[0])


def merge(parts: list[Any], seconds: float = 0.0, after: Any = None) -> float:
    """Compute, and add up what the parts hold."""
    cpu(seconds)
    return float(sum(float(np.asarray(part).ravel()[0]) for part in parts))


def step(seconds: float, after: Any = None) -> float:
    """Compute."""
    return cpu(seconds)


def batch(pieces: list[float], after: Any = None) -> float:
    """Compute several pieces one after another."""
    return sum(cpu(piece) for piece in pieces)


def remote(seconds: float, wait_s: float = 0.0, after: Any = None) -> float:
    """Wait for another machine, then compute."""
    time.sleep(wait_s)
    return cpu(seconds)


def python_step(seconds: float, after: Any = None) -> int:
    """Compute with Python objects."""
    return python(seconds)


def multiply(item: tuple[int, int, int], after: Any = None) -> float:
    """Multiply matrices ``times`` times; the library's threads do it."""
    number, side, times = item
    left = np.random.default_rng(number).random((side, side))
    right = left
    for _ in range(times):
        right = left @ right
        right /= right.max()
    return float(right[0, 0])


def frame(item: tuple[int, int], after: Any = None) -> Any:
    """Make a data frame of so many rows."""
    import pandas as pd

    number, rows = item
    rng = np.random.default_rng(number)
    return pd.DataFrame({"key": rng.integers(0, 50, rows), "value": rng.random(rows)})


def aggregate(data: Any, seconds_a_row: float, after: Any = None) -> float:
    """Group a data frame, and compute in proportion to its rows."""
    sums = data.groupby("key")["value"].sum()
    cpu(len(data) * seconds_a_row)
    return float(sums.iloc[0])


def with_table(item: tuple[int, float], tag: str, build_s: float, after: Any = None) -> float:
    """Compute with a table that each worker builds at first use."""
    build_table(tag, build_s)
    return cpu(item[1])


def build_table(tag: str, build_s: float) -> None:
    if tag not in _TABLES:
        cpu(build_s)
        _TABLES[tag] = np.ones(1000)


def flaky(item: tuple[int, float, bool], marks: str, after: Any = None) -> float:
    """Compute; where told to fail, fail at the end of the first attempt."""
    number, seconds, fails = item
    value = cpu(seconds)
    mark = os.path.join(marks, f"attempt-{number}")
    if fails and not os.path.exists(mark):
        Path(mark).touch()
        raise ValueError("the answer of the service was cut short")
    return value


def deadly(item: tuple[int, float, bool], marks: str, parts: Any = None, after: Any = None) -> Any:
    """Compute; where told to, take the whole worker process down once."""
    number, seconds, dies = item
    cpu(seconds)
    mark = os.path.join(marks, f"death-{number}")
    if dies and not os.path.exists(mark):
        Path(mark).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def set_leak(keep: int, hold_s: float) -> None:
    """Let this worker keep what its tasks fill, until ``hold_s`` after the last of them.

    Its worker is paused meanwhile; that the library's cache expires keeps the run from hanging.
    """
    _LEAKED.clear()
    _LEAK[:] = [keep, hold_s]


def leaky(item: tuple[float, int], after: Any = None) -> float:
    """Fill memory and compute; on a worker that leaks, the memory stays filled."""
    seconds, size = item
    data = np.ones(size // 8)
    value = cpu(seconds) + float(data[0])
    keep, hold_s = _LEAK
    if len(_LEAKED) < keep:
        _LEAKED.append(data)
        for timer in _EXPIRY:
            timer.cancel()
        _EXPIRY[:] = [threading.Timer(hold_s, set_leak, (0, 0.0))]
        _EXPIRY[0].daemon = True
        _EXPIRY[0].start()
    return value


def burst(size: int, after: Any = None) -> float:
    """Fill memory for a moment."""
    return float(np.ones(size // 8)[0])


def grow(data: Any, after: Any = None) -> Any:
    """Give another array of the same size."""
    return data + 1.0


def until_there(seconds: float, mark: str, after: Any = None) -> float:
    """Wait for an answer of another machine (a file that it writes), then compute."""
    while not os.path.exists(mark):
        time.sleep(0.01)
    return cpu(seconds)


def read_blocks(path: str, block: int, seconds: float, after: Any = None) -> int:
    """Read a file by blocks of ``block`` bytes, then compute."""
    total = 0
    with open(path, "rb", buffering=0) as file:
        while data := file.read(block):
            total += len(data)
    cpu(seconds)
    return total


def read_folder(folder: str, seconds: float, after: Any = None) -> int:
    """Read every small file of a folder, then compute."""
    total = 0
    for entry in sorted(os.listdir(folder)):
        path = os.path.join(folder, entry)
        os.stat(path)
        with open(path, "rb", buffering=0) as file:
            total += len(file.read())
    cpu(seconds)
    return total


def read_packed(path: str, seconds: float, after: Any = None) -> int:
    """Read one file that holds what a folder of small files would, then compute."""
    with open(path, "rb") as file:
        total = len(file.read())
    cpu(seconds)
    return total


def parse(path: str) -> float:
    """Read a reference file in large blocks and check it."""
    check, total = 0, 0.0
    with open(path, "rb", buffering=0) as file:
        while data := file.read(4 << 20):
            check = zlib.crc32(data, check)
            total += float(np.frombuffer(data, dtype=np.uint8).sum())
    return total + check


def with_reference(item: tuple[int, float], path: str, tag: str | None, after: Any = None) -> float:
    """Compute with a reference file: read again each time, or once a worker (``tag``)."""
    if tag is None:
        parse(path)
    elif tag not in _REFERENCE:
        _REFERENCE[tag] = parse(path)
    return cpu(item[1])


def produce(item: tuple[int, float, int], folder: str, write: bool, after: Any = None) -> float:
    """Compute, and write a large file where told to."""
    number, seconds, size = item
    value = cpu(seconds)
    if write:
        block = np.random.default_rng(number).bytes(4 << 20)
        with open(os.path.join(folder, f"field-{number:03d}.dat"), "wb", buffering=0) as file:
            for _ in range(max(1, size >> 22)):
                file.write(block)
            os.fsync(file.fileno())
    return value


def total_of(data: Any, seconds: float = 0.0, after: Any = None) -> float:
    """Add up an array, and compute."""
    cpu(seconds)
    return float(data.sum())


def warm() -> int:
    """Import what the tasks use, so that the first task is like the others."""
    import pandas as pd

    cpu(0.02)
    python(0.01)
    pd.DataFrame({"key": [1, 2], "value": [1.0, 2.0]}).groupby("key")["value"].sum()
    np.random.default_rng(1).random(10)
    return os.getpid()
