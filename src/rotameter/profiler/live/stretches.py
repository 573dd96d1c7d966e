"""Stretches of running tasks: who runs now, beside whom, and the readings at each boundary.

A task is *shared* when something other than its ancestors and descendants ran in this process at
the same time; then the process's counters are not its own. Concurrency is the time-weighted
number of running tasks, ancestors of running ones not counted.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any

from rotameter.profiler.live.clock import Clock
from rotameter.profiler.live.context import Measured, Running, current
from rotameter.profiler.live.faults import Faults
from rotameter.profiler.live.probing import Prober
from rotameter.profiler.live.proc import Own

__all__ = ["Stretches", "live_above"]

_SHORT_STRETCH_NS = 1_000_000


def live_above(above: Running | None) -> Running | None:
    """Give the nearest of a chain of attempts that has not ended."""
    while above is not None and not above.live:
        above = above.up
    return above


class Stretches:
    """What a session knows of the attempts that run now.

    Parameters
    ----------
    clock : Clock
    own : Own
        The tracer's own I/O.
    faults : Faults
    exact_peak : bool
        Reset the kernel's peak of resident memory at boundaries.
    probes : iterable of Probe
        Further probes.
    """

    # Slots: with more than thirty attributes an ordinary instance gets slow look-ups.
    __slots__ = (
        "_active",
        "_area_at_ns",
        "_area_ns",
        "_crowd",
        "_leaves",
        "_lock",
        "_probes",
        "_suspended",
        "_thread",
        "_wall",
        "clock",
        "faults",
        "prober",
    )

    def __init__(
        self, clock: Clock, own: Own, faults: Faults, *, exact_peak: bool, probes: Iterable[Any]
    ) -> None:
        self.clock = clock
        self.faults = faults
        self.prober = Prober(clock, own, exact_peak=exact_peak)
        self._wall, self._thread = clock.wall, clock.thread
        # Re-entrant: a collection that runs a traced finaliser may strike inside it.
        self._lock = threading.RLock()
        self._active = self.prober.active
        self._suspended: set[Running] = set()
        self._crowd = 0
        self._leaves = 0
        self._area_ns = 0
        self._area_at_ns = self._wall()
        self._probes = list(probes)

    def enter(self, r: Running) -> None:
        """Start (or go on with) a stretch of ``r`` in the calling thread."""
        current.set(r)
        with self._lock:
            active = self._active
            # Read while the lock is held, so that the sums of all threads go forward.
            now = self._wall()
            if active:
                self._join_crowd(r, now)
            else:
                self._leaves = 1
            self._area_at_ns = r.area_from_ns = now
            r.area0_ns = self._area_ns
            r.crowd = self._crowd
            r.entered = True
            if r.level:
                try:
                    self._probe(r)
                except Exception as error:
                    self.faults.note("probe", error)
            # Only now: the boundary above belongs to those that ran before.
            active.add(r)
        r.cpu0_ns = self._thread()
        r.wall0_ns = self._wall()

    def _probe(self, r: Running) -> None:
        if r.__class__ is Measured and not r.untimed:
            self.prober.enter(r)
        if self._probes:
            r.tokens = [probe.start(r) for probe in self._probes]

    def _join_crowd(self, r: Running, now: int) -> None:
        """Account for a beginning while others run (lock held)."""
        self._area_ns += self._leaves * max(0, now - self._area_at_ns)
        up, ancestors = r.up, 0
        while up is not None:
            ancestors += up.entered
            up = up.up
        if len(self._active) > ancestors:
            self._crowd += 1
            r.shared = True
            self.prober.crowded = True
        up = r.up
        if up is None or not up.entered:
            self._leaves += 1
        else:
            # A first child takes its parent's place among the leaves.
            up.children += 1
            self._leaves += up.children > 1

    def leave(self, r: Running) -> int:
        """End a stretch of ``r``; give the monotonic time (ns) at which it ended."""
        wall1 = self._wall()
        if r.cpu_ns is not None:
            r.cpu1_ns = cpu1 = self._thread()
            r.cpu_ns += cpu1 - r.cpu0_ns
        r.wall_ns += wall1 - r.wall0_ns
        r.stretches += 1
        with self._lock:
            if r.entered:
                # Where the lock had to be waited for, others have summed up beyond this end.
                if wall1 > self._area_at_ns:
                    self._area_ns += self._leaves * (wall1 - self._area_at_ns)
                    self._area_at_ns = wall1
                r.area_ns += self._area_ns - r.area0_ns
                r.area_wall_ns += self._area_at_ns - r.area_from_ns
                if r.crowd != self._crowd:
                    r.shared = True
                if r.level:
                    try:
                        self._unprobe(r)
                    except Exception as error:
                        self.faults.note("probe", error)
                r.entered = False
                self._active.discard(r)
                if self._active:
                    self._leave_crowd(r)
        if current.get() is r:
            current.set(r.previous and live_above(r.previous))
        return wall1

    def suspend(self, r: Running) -> None:
        """Stop measuring a generator's attempt until :meth:`resume`."""
        try:
            self.leave(r)
            self._suspended.add(r)
        except Exception as error:
            self.abandon(r, error)

    def resume(self, r: Running) -> None:
        """Go on measuring; many short stretches are timed only."""
        try:
            if not r.live:
                return
            self._suspended.discard(r)
            if r.stretches >= 3 and r.wall_ns < _SHORT_STRETCH_NS * r.stretches:
                r.untimed = True
            above = current.get()
            if above is not r:
                r.previous = above
                r.up = live_above(above)
            r.children = 0
            self.enter(r)
        except Exception as error:
            self.faults.note("resume", error)

    def cpu_off(self, r: Running) -> None:
        """Leave the thread to others: a coroutine awaits."""
        if r.cpu_ns is not None:
            r.cpu_ns += self._thread() - r.cpu0_ns

    def cpu_on(self, r: Running) -> None:
        """Take the thread again."""
        r.cpu0_ns = self._thread()

    def _unprobe(self, r: Running) -> None:
        if r.__class__ is Measured and not r.untimed:
            self.prober.leave(r)
        tokens, r.tokens = r.tokens, None
        for probe, token in zip(self._probes, tokens or (), strict=False):
            readings = probe.stop(token)
            if readings:
                r.extra = {**(r.extra or {}), **readings}

    def _leave_crowd(self, r: Running) -> None:
        """Account for an end while others run (lock held)."""
        up = r.up
        if up is None or not up.entered:
            self._leaves -= not r.children
            return
        up.children -= 1
        self._leaves -= not r.children and up.children > 0

    def abandon(self, r: Running, fault: Exception) -> int:
        """Let go of a stretch that could not be left in the ordinary way."""
        self.faults.note("leave", fault)
        r.entered = False
        self._active.discard(r)
        if current.get() is r:
            current.set(r.previous and live_above(r.previous))
        return self._wall()

    def only_running(self) -> Running | None:
        """Give the running attempt if there is one alone."""
        active = self._active
        if len(active) != 1:
            return None
        try:
            only: Running = next(iter(active))
        except (StopIteration, RuntimeError):  # changed by another thread just now
            return None
        return only

    def sample_rss(self) -> int | None:
        """Read the resident memory (bytes) and let the running tasks know it."""
        with self._lock:
            rss = self.prober.proc.rss_bytes()
            if rss is not None:
                self.prober.sample(rss)
        return rss
