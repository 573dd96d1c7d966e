"""Costs of the tracer in µs a call, and errors of the exact peak in MB.

Each function gives ``(value, (lowest, highest))``: the median and the range over rounds, a round
being the best of a few loops (other processes only ever add).
"""

from __future__ import annotations

import io
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rotameter.profiler.live import fileio
from rotameter.profiler.live import session as session_module
from rotameter.profiler.live.recorder import CallSink, Recorder
from rotameter.profiler.live.session import Session
from rotameter.profiler.live.tracer import task

__all__ = [
    "counted_us",
    "exact_peak_error_mb",
    "measure_all",
    "session_us",
    "threads_peak_ratio",
    "traced_us",
    "untraced_us",
]

Measured = tuple[float, tuple[float, float]]
MB = 10**6
ROUNDS, LOOPS, CALLS = 7, 6, 2_000


def _empty() -> None:
    pass


_task = task(_empty)


@contextmanager
def _session(**options: object) -> Iterator[Session]:
    # No flush while a loop runs: encoding has a row of its own.
    sink = CallSink(lambda frames: None)
    recorder = Recorder(sink, {"role": "bench"}, rows_limit=1_000_000, flush_s=3600)
    session = Session(recorder, host="bench", adapt=False, **options)  # type: ignore[arg-type]
    try:
        yield session
    finally:
        session.close()
        recorder.close()


def _us_a_call(call: Callable[[], object], calls: int = CALLS) -> float:
    best = float("inf")
    for _ in range(LOOPS):
        begun = time.perf_counter()
        for _ in range(calls):
            call()
        best = min(best, time.perf_counter() - begun)
    return best / calls * 1e6


def _rounds(once: Callable[[], float]) -> Measured:
    values = sorted(once() for _ in range(ROUNDS))
    return statistics.median(values), (values[0], values[-1])


def untraced_us() -> Measured:
    """``@rm.task`` around an empty function, no trace open: what it adds (target <= 0.5)."""
    return _rounds(lambda: _us_a_call(_task, 50_000) - _us_a_call(_empty, 50_000))


def traced_us(level: str = "default", *, exact_peak: bool = False) -> Measured:
    """Give the cost of a traced call without I/O.

    Targets: <= 25 at level default, <= 40 with exact peak, <= 5 at level time.
    """
    with _session(level=level, exact_peak=exact_peak) as session:
        session_module.activate(session)
        try:
            return _rounds(lambda: _us_a_call(_task))
        finally:
            session_module.deactivate()


def session_us(level: str = "time", *, exact_peak: bool = False) -> Measured:
    """``Session.begin`` and ``end`` as the Dask hook calls them (<= 8 time, <= 25 default)."""
    with _session(level=level, exact_peak=exact_peak, worker="w") as session:

        def once() -> None:
            session.end(session.begin("key-1", "key", run_id="1", parent=None))

        return _rounds(lambda: _us_a_call(once))


def counted_us(what: str) -> Measured:
    """Give what counting adds to an unbuffered read of 64 bytes, or to opening and closing a file.

    Parameters
    ----------
    what : {"read", "open"}
    """
    with _session() as session, tempfile.NamedTemporaryFile() as place:
        place.write(b"x" * 64 * CALLS)
        place.flush()
        session_module.activate(session)
        plain = io.open
        fileio.install()
        running = session.begin("reads", "reads")
        try:
            ways = (plain, io.open)

            def once() -> float:
                took = [_file_us(way, place.name, what) for way in ways]
                return took[1] - took[0]

            return _rounds(once)
        finally:
            session.end(running)
            fileio.uninstall()
            session_module.deactivate()


def _file_us(opens: Any, path: str, what: str) -> float:
    if what == "open":
        return _us_a_call(lambda: opens(path, "rb", buffering=0).close())
    with opens(path, "rb", buffering=0) as file:

        def read() -> None:
            file.read(64) or file.seek(0)

        return _us_a_call(read, 10 * CALLS)


def _spike(size_bytes: int, hold_s: float) -> None:
    data = bytearray(size_bytes)
    data[::4096] = b"\1" * len(data[::4096])
    time.sleep(hold_s)


def exact_peak_error_mb() -> Measured:
    """Spikes of 5 ms of 50, 100 and 300 MB in one thread: the largest error (target <= 2)."""
    errors = []
    with _session(exact_peak=True) as session:
        _spike(400 * MB, 0.0)
        for size in (50 * MB, 100 * MB, 300 * MB) * 3:
            running = session.begin("spike", "spike")
            _spike(size, 0.005)
            session.end(running)
            errors.append(abs(running.readings["peak_memory_bytes"] - size) / MB)
    return max(errors), (min(errors), max(errors))


def threads_peak_ratio(rounds: int = 6) -> Measured:
    """Four threads, tasks of 60, 180 and 20 MB: the lowest bound / truth of tasks >= 60 MB.

    A bound that holds gives >= 1, less the allocator's noise (target >= 0.98); the range tells how
    loose the bounds are.
    """
    truth = {"load": 60 * MB, "join": 180 * MB, "agg": 20 * MB}
    ratios: list[float] = []

    def work(session: Session, offset: int) -> None:
        for step in range(rounds):
            group = ("load", "join", "agg")[(offset + step) % 3]
            running = session.begin(f"{group}-{offset}-{step}", group)
            _spike(truth[group], 0.004)
            session.end(running)
            if truth[group] >= 60 * MB:
                ratios.append(running.readings["peak_memory_bytes"] / truth[group])

    with _session(exact_peak=True) as session:
        threads = [threading.Thread(target=work, args=(session, n)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return min(ratios), (min(ratios), max(ratios))


def measure_all() -> dict[str, Measured]:
    """Measure every row, by name."""
    return {
        "untraced_us": untraced_us(),
        "time_us": traced_us("time"),
        "default_us": traced_us("default"),
        "exact_peak_us": traced_us("default", exact_peak=True),
        "session_time_us": session_us("time"),
        "session_default_us": session_us("default"),
        "session_exact_peak_us": session_us("default", exact_peak=True),
        "exact_peak_error_mb": exact_peak_error_mb(),
        "threads_peak_ratio": threads_peak_ratio(),
    }


if __name__ == "__main__":
    for name, (value, (lowest, highest)) in measure_all().items():
        print(f"{name:24s} {value:8.3f}  ({lowest:.3f} to {highest:.3f})")
