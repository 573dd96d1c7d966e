"""The built-in readings around one stretch of a task, written out for speed.

``enter`` and ``leave`` do for the probes of ``rotameter.profiler.probes`` what a loop over them
would do, with a third of the calls. Both are called with the session's lock held: the /proc
buffers are shared, and the tracer's own bytes must be known exactly at each reading.
"""

from __future__ import annotations

from typing import Any

from rotameter.profiler.live.clock import Clock
from rotameter.profiler.live.context import Measured
from rotameter.profiler.live.memory import PeakMeter, bound
from rotameter.profiler.live.proc import Own, Proc, parse_io, usage

__all__ = ["Prober"]


class Prober:
    """Start and stop readings of a stretch.

    Parameters
    ----------
    clock : Clock
    own : Own
        The tracer's own I/O.
    exact_peak : bool
        Reset the kernel's peak at boundaries.
    """

    def __init__(self, clock: Clock, own: Own, *, exact_peak: bool) -> None:
        self.own = own
        self.clock = clock
        self.proc = Proc(own)
        self.meter = PeakMeter(self.proc, exact=exact_peak)
        self.active: set[Any] = set()
        # Whether tasks of this process ever overlapped: until then the counters of the process
        # are every task's own, and those of its thread need not be read.
        self.crowded = False

    def enter(self, r: Measured) -> None:
        """Take the start readings of ``r``, whose level is at least 1."""
        own, proc = self.own, self.proc
        state = None
        if self.crowded:
            state = r.thread_state = proc.thread()
            file = state.file
            if file is not None and not r.stretched:
                r.own_thread0 = state.own_read, state.own_written
                count = file.read()
                r.thread_io0 = bytes(file.data)
                state.own_read += count
                own.read += count
        file = proc.io
        if file is not None:
            r.own_read0 = own.read
            r.own_write0 = own.written
            r.io_busy = own.busy > 0
            count = file.read()
            r.process_io0 = bytes(file.data)
            own.read += count
            if state is not None:
                state.own_read += count
        if self.meter.exact and not self.active and self._begin_alone(r):
            return
        r.process_cpu0_s, peak = usage()
        self._boundary(r, peak, state, begins=True)

    def _begin_alone(self, r: Measured) -> bool:
        """Open a memory window where nothing else runs: right after the reset, peak is size."""
        meter = self.meter
        written = meter.reset()
        self.own.written += written
        if r.thread_state is not None:
            r.thread_state.own_written += written
        r.process_cpu0_s, rss = usage()
        if not meter.exact or rss <= meter._usage_floor_bytes:
            return False
        meter.base_bytes = r.rss0_bytes = r.peak_bytes = r.max0_bytes = rss
        r.ticks = 0
        if r.start_memory_bytes is None:
            r.start_memory_bytes = rss
        return True

    def leave(self, r: Measured) -> None:
        """Take the end readings of ``r`` and add the differences to its sums."""
        cpu_s, peak = usage()
        r.process_cpu_s = (r.process_cpu_s or 0.0) + cpu_s - r.process_cpu0_s
        meter = self.meter
        if meter.missed_bytes > peak:
            peak = meter.missed_bytes
        alone = not r.shared and not r.stretched and len(self.active) == 1
        if alone and meter.exact and peak > meter._usage_floor_bytes and r.rss0_bytes is not None:
            # Nobody needs a new window: the next to begin opens its own.
            added = max(r.peak_bytes, peak) - r.rss0_bytes
            if r.added_bytes is None or added > r.added_bytes:
                r.added_bytes, r.added_kind = (added if added > 0 else 0), "exact"
            r.rss0_bytes = None
        else:
            self._boundary(r, peak, r.thread_state, begins=False)
        own, proc = self.own, self.proc
        if r.process_io0 is not None and proc.io is not None:
            # What may be counted already, though its call has not returned, is no task's either.
            own_read = own.read + own.reading - r.own_read0
            own_written = own.written + own.writing - r.own_write0
            r.io_busy = r.io_busy or own.busy > 0
            count = proc.io.read()
            read1, write1 = parse_io(proc.io.data)
            own.read += count
            read0, write0 = parse_io(r.process_io0)
            read, written = read1 - read0 - own_read, write1 - write0 - own_written
            r.process_read_bytes = (r.process_read_bytes or 0) + (read if read > 0 else 0)
            r.process_write_bytes += written if written > 0 else 0
            if r.thread_state is not None:
                r.thread_state.own_read += count
        if r.shared and r.thread_io0 is not None:
            self._leave_thread(r)

    def _leave_thread(self, r: Measured) -> None:
        state = r.thread_state
        own_read, own_written = (
            state.own_read - r.own_thread0[0],
            state.own_written - r.own_thread0[1],
        )
        count = state.file.read()
        read1, write1 = parse_io(state.file.data)
        state.own_read += count
        self.own.read += count
        read0, write0 = parse_io(r.thread_io0 or b"")
        r.thread_read_bytes = (r.thread_read_bytes or 0) + read1 - read0 - own_read
        r.thread_write_bytes += write1 - write0 - own_written

    def _boundary(self, r: Measured, usage_bytes: int, state: Any, *, begins: bool) -> None:
        """Close the memory window that ends here and open the next."""
        meter, statm = self.meter, self.proc.statm
        if statm is None:
            return
        peak = usage_bytes
        if meter.exact:
            if usage_bytes <= meter._usage_floor_bytes:
                peak = meter.true_peak(usage_bytes)
            if meter.missed_bytes > peak:
                peak = meter.missed_bytes
            for other in self.active:
                if other.level and other.peak_bytes < peak:
                    other.peak_bytes = peak
            written = meter.reset()
            self.own.written += written
            if state is not None:
                state.own_written += written
        count = statm.read()
        self.own.read += count
        if state is not None:
            state.own_read += count
        rss = int(statm.data.split(None, 2)[1]) * self.proc.page_bytes
        if begins:
            if not self.active or rss < meter.base_bytes:
                meter.base_bytes = rss
            r.rss0_bytes = rss
            r.max0_bytes = peak
            r.peak_bytes = rss
            r.ticks = 0
            if r.start_memory_bytes is None:
                r.start_memory_bytes = rss
            return
        if rss < meter.base_bytes:
            meter.base_bytes = rss
        self._add_peak(r, rss, peak)

    def _add_peak(self, r: Measured, rss: int, usage_peak: int) -> None:
        if r.rss0_bytes is None:
            return
        exact = self.meter.exact
        new_max = not exact and usage_peak > r.max0_bytes
        peak = max(r.peak_bytes, rss, usage_peak if new_max else 0)
        added, kind = bound(
            exact=exact,
            shared=r.shared,
            peak_bytes=peak,
            new_max=new_max,
            start_bytes=r.rss0_bytes,
            base_bytes=self.meter.base_bytes,
            sampled=r.ticks > 0,
        )
        # A generator keeps between its stretches what it gained in them.
        added += r.held_bytes
        r.held_bytes += max(0, rss - r.rss0_bytes)
        if r.added_bytes is None or added > r.added_bytes:
            r.added_bytes, r.added_kind = added, kind
        r.rss0_bytes = None

    def moved_bytes(self) -> tuple[int, int]:
        """Give the process's bytes read and written without the tracer's own (lock held)."""
        own, file = self.own, self.proc.io
        if file is None:
            raise OSError("/proc/self/io cannot be read")
        count = file.read()
        read, written = parse_io(file.data)
        moved = read - own.read, written - own.written
        own.read += count
        if self.crowded:
            self.proc.thread().own_read += count
        return moved

    def sample(self, rss_bytes: int) -> None:
        """Take note of a resident size read between boundaries (by the host sampler)."""
        for r in list(self.active):
            if not r.level:
                continue
            r.ticks += 1
            if r.peak_bytes < rss_bytes:
                r.peak_bytes = rss_bytes
