"""What a request can be for: its unit, its least sensible amount, and how it is spoken of."""

from __future__ import annotations

from dataclasses import dataclass

from rotameter.allocator.ledger import GB_HOUR
from rotameter.units import format_bytes, format_number, format_seconds

__all__ = [
    "CORES", "DISK", "GPUS", "GPU_MEMORY", "MEMORY", "RESOURCES", "TIME", "Resource"
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Resource:
    """A resource that tasks ask for.

    Attributes
    ----------
    name : str
    field : str
        Of :class:`rotameter.values.Allocation`, as allocators name it.
    word : str
        As it is spoken of.
    unit : str
        Of all its amounts; the ending of their names in JSON.
    floor, step : float
        No request is below the one; each is a whole multiple of the other.
    headroom : float
        Part that is added to what was needed, where the user says nothing.
    max_kill : float
        Share of runs that may be killed and run again, where the user says nothing.
    kills : bool
        Whether an attempt ends that wants more than it asked for.
    held : str or None
        Unit of an amount times a duration; None where nothing is held by a request.
    per_held : float
        Amount-seconds in it.
    machine : float
        What a machine has at least, where a trial has to assume one.
    shown : str
        How a completed run is known, for "no completed run has a known …".
    bounded : str
        Why nothing is advised where only upper bounds are known.
    counted : str
        What an upper bound includes besides.
    ran_out, used, largest, room, limit : str
        "ran out of …"; what a run did with its need; the run with the largest one; what a request
        cannot be beyond, and who sets that.
    """

    name: str
    field: str
    word: str
    unit: str
    floor: float
    step: float
    headroom: float
    max_kill: float
    kills: bool
    held: str | None
    per_held: float
    machine: float
    shown: str
    bounded: str
    counted: str
    ran_out: str
    used: str
    largest: str
    room: str
    limit: str

    def text(self, value: float | None) -> str:
        """Write an amount.

        Examples
        --------
        >>> MEMORY.text(2e9), TIME.text(5400.0), CORES.text(1.25), TIME.text(None)
        ('2 GB', '1 h 30 min', '1.25', '–')
        """
        if self.unit == "bytes":
            return format_bytes(value)
        return format_seconds(value) if self.unit == "s" else format_number(value)

    def has(self, most: float) -> str:
        """Say what a request cannot be beyond.

        Examples
        --------
        >>> MEMORY.has(64e9), TIME.has(86400.0)
        ('a machine has 64 GB', 'the queue allows 24 h')
        """
        return f"{self.limit} {self.text(most)}"


_BOUNDS = "only upper bounds of its use are known"

MEMORY = Resource(
    name="memory",
    field="memory_bytes",
    word="memory",
    unit="bytes",
    floor=256e6,
    step=1.0,
    headroom=0.1,
    max_kill=0.01,
    kills=True,
    held="gbh",
    per_held=GB_HOUR,
    machine=64e9,
    shown="peak",
    bounded=_BOUNDS,
    counted="page cache or other tasks of the process",
    ran_out="memory",
    used="used",
    largest="largest",
    room="a machine's",
    limit="a machine has",
)
"""What a core brings along on any node is its floor: to ask for less saves nothing, and tiny needs
vary most."""

TIME = Resource(
    name="time",
    field="wall_s",
    word="time",
    unit="s",
    floor=600.0,
    step=60.0,
    headroom=0.25,
    max_kill=0.01,
    kills=True,
    held=None,
    per_held=3600.0,
    machine=86400.0,
    shown="duration",
    bounded="all runs ended at their limit",
    counted="",
    ran_out="time",
    used="took",
    largest="longest",
    room="the queue's",
    limit="the queue allows",
)
"""A start on another node (its container, modules, a cold file system) takes minutes whatever the
task, and no gap in a queue is shorter than some: ten are its floor. Durations vary with the machine
and its load, more than peaks of memory do: a quarter is added. Schedulers count in minutes."""

CORES = Resource(
    name="cores",
    field="cores",
    word="cores",
    unit="cores",
    floor=1.0,
    step=1.0,
    headroom=0.1,
    max_kill=0.0,
    kills=False,
    held="core_h",
    per_held=3600.0,
    machine=64.0,
    shown="CPU time",
    bounded="",
    counted="",
    ran_out="cores",
    used="kept busy",
    largest="largest",
    room="a machine's",
    limit="a machine has",
)

DISK = Resource(
    name="disk",
    field="disk_bytes",
    word="disk",
    unit="bytes",
    floor=1e9,
    step=1.0,
    headroom=0.1,
    max_kill=0.0,
    kills=True,
    held="gbh",
    per_held=GB_HOUR,
    machine=64e9,
    shown="peak of disk",
    bounded=_BOUNDS,
    counted="files of other tasks",
    ran_out="disk",
    used="used",
    largest="largest",
    room="a machine's",
    limit="a machine has",
)
"""No tool runs again by itself what ran out of disk: none may be killed where nothing is said. Logs
and scratch files that no record counts fit into its floor, which is also Snakemake's default."""

GPU_MEMORY = Resource(
    name="gpu_memory",
    field="gpu_memory_bytes",
    word="GPU memory",
    unit="bytes",
    floor=0.0,
    step=1.0,
    headroom=0.1,
    max_kill=0.0,
    kills=True,
    held="gbh",
    per_held=GB_HOUR,
    machine=16e9,
    shown="peak of GPU memory",
    bounded=_BOUNDS,
    counted="other tasks of the GPU",
    ran_out="GPU memory",
    used="used",
    largest="largest",
    room="a GPU's",
    limit="a GPU has",
)

GPUS = Resource(
    name="gpus",
    field="gpus",
    word="GPUs",
    unit="gpus",
    floor=0.0,
    step=1.0,
    headroom=0.0,
    max_kill=0.0,
    kills=False,
    held="gpu_h",
    per_held=3600.0,
    machine=8.0,
    shown="use of its GPUs",
    bounded="",
    counted="",
    ran_out="GPUs",
    used="kept busy",
    largest="largest",
    room="a machine's",
    limit="a machine has",
)

RESOURCES = {one.name: one for one in (MEMORY, TIME, CORES, DISK, GPU_MEMORY, GPUS)}
