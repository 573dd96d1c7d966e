"""Rows of the tracer: microseconds a call, and how right the peaks are."""

from __future__ import annotations

from benchmarks import tracer
from benchmarks.harness import Context, Result, bench

__all__ = ["untraced"]


def _us(measured: tracer.Measured) -> Result:
    value, interval = measured
    return Result(value, "us", interval)


@bench("tracer_untraced_us", issue=2, target="<= 0.5")
def untraced(context: Context) -> Result:
    """``@rm.task`` around an empty function while no trace is open."""
    return _us(tracer.untraced_us())


@bench("tracer_default_us", issue=2, target="<= 25")
def default(context: Context) -> Result:
    """A traced call with the default probes and no I/O in it."""
    return _us(tracer.traced_us("default"))


@bench("tracer_exact_peak_us", issue=2, target="<= 40")
def exact_peak(context: Context) -> Result:
    """The same with the exact peak."""
    return _us(tracer.traced_us("default", exact_peak=True))


@bench("tracer_time_us", issue=2, target="<= 5")
def time_only(context: Context) -> Result:
    """A traced call with wall and CPU time only."""
    return _us(tracer.traced_us("time"))


@bench("tracer_file_call_us", issue=2, target="<= 0.7")
def file_call(context: Context) -> Result:
    """What counting adds to an unbuffered read of 64 bytes (the constant of `live/costs.py`)."""
    return _us(tracer.counted_us("read"))


@bench("tracer_file_open_us", issue=2, target="<= 20")
def file_open(context: Context) -> Result:
    """What counting adds to opening a file and closing it."""
    return _us(tracer.counted_us("open"))


@bench("peak_one_thread_error_mb", issue=2, target="<= 2")
def one_thread(context: Context) -> Result:
    """Largest error over 5 ms spikes of 50, 100 and 300 MB in one thread (DK-P4)."""
    value, interval = tracer.exact_peak_error_mb()
    return Result(value, "MB", interval)


@bench("peak_four_threads_bound_ratio", issue=2, target=">= 0.98")
def four_threads(context: Context) -> Result:
    """Lowest bound over truth of tasks of 60 MB or more, four threads (DK-P5).

    A bound that holds is at least the truth; 2 % is left for what the allocator keeps.
    """
    value, interval = tracer.threads_peak_ratio()
    return Result(value, "ratio", interval, note="interval: from the tightest to the loosest bound")
