"""What one process had its devices do, and what its host threads did meanwhile."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rotameter.profiler.devices.timeline import Ints

__all__ = ["COMMUNICATION", "COMPUTE", "COPY", "NEVER", "Host", "Work"]

COMPUTE, COMMUNICATION, COPY = range(3)
NEVER = -(1 << 62)
"""In place of a launch time that is not known."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Work:
    """Kernels, copies and fills, one row each; NaN and ``NEVER`` are unknown.

    Parameters
    ----------
    start, end : ndarray of int64
        Nanoseconds.
    kind : ndarray of int64
        COMPUTE, COMMUNICATION or COPY (copies and fills).
    name : ndarray of int64
        Index into ``names``.
    device, stream : ndarray of int64
    launch : ndarray of int64
        When the host asked for it, ns; NEVER where that call is not recorded.
    call : ndarray of int64
        Index into ``names`` of that call; -1 = not recorded.
    numbers : dict of str to ndarray of float64
        bytes, bandwidth (GB/s as reported), occupancy (%), blocks_per_sm, warps_per_sm, registers
        (a thread), shared_memory (bytes a block), blocks (of the grid), threads (of a block);
        missing ones are unknown.
    """

    start: Ints
    end: Ints
    kind: Ints
    name: Ints
    device: Ints
    stream: Ints
    launch: Ints
    call: Ints
    names: tuple[str, ...]
    numbers: dict[str, Floats] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.start)

    def number(self, name: str) -> Floats:
        """Give a column of ``numbers``; NaN where there is none."""
        made = self.numbers.get(name)
        return np.full(len(self), np.nan) if made is None else made

    def take(self, rows: Any) -> Work:
        """Give some rows: a mask or indices."""
        return Work(
            self.start[rows],
            self.end[rows],
            self.kind[rows],
            self.name[rows],
            self.device[rows],
            self.stream[rows],
            self.launch[rows],
            self.call[rows],
            self.names,
            {name: values[rows] for name, values in self.numbers.items()},
        )


@dataclass(frozen=True)
class Host:
    """What the threads of the process did: operators and calls of the device's runtime.

    Parameters
    ----------
    start, end : ndarray of int64
        Nanoseconds.
    thread : ndarray of int64
    is_op : ndarray of bool
        An operator, not a call of the runtime.
    waits : ndarray of bool
        A call that only waits for a device.
    noted : ndarray of int64, optional
        First and last instant of what annotates these threads; it counts for the time covered.
    """

    start: Ints
    end: Ints
    thread: Ints
    is_op: NDArray[np.bool_]
    waits: NDArray[np.bool_]
    noted: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
