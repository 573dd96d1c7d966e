"""What tasks needed, and what they should ask for, of any resource by its name."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from rotameter.allocator.advice import advise
from rotameter.allocator.cores import advise_cores
from rotameter.allocator.gpus import advise_gpus
from rotameter.allocator.recorded import from_trace
from rotameter.allocator.recorded_cores import cores_from_trace
from rotameter.allocator.recorded_gpus import gpus_from_trace
from rotameter.allocator.recorded_space import disk_from_trace, gpu_memory_from_trace
from rotameter.allocator.recorded_time import time_from_trace

if TYPE_CHECKING:
    from rotameter.allocator.advised import Advice
    from rotameter.allocator.workload import Workload
    from rotameter.profiler.trace import Trace

__all__ = ["advise_on", "needs_of"]

_NEEDS: dict[str, Callable[[Trace, str], Workload]] = {
    "memory": from_trace,
    "time": time_from_trace,
    "cores": cores_from_trace,
    "disk": disk_from_trace,
    "gpu_memory": gpu_memory_from_trace,
    "gpus": gpus_from_trace,
}


def needs_of(trace: Trace, resource: str, name: str = "") -> Workload:
    """Take what the tasks of a trace needed of a resource.

    Parameters
    ----------
    trace : Trace
    resource : str
        One of :data:`~rotameter.allocator.resources.RESOURCES`.
    name : str
        Of the input.

    Examples
    --------
    >>> from rotameter.profiler.trace import Trace
    >>> len(needs_of(Trace.from_tables({}), "disk"))
    0
    """
    return _NEEDS[resource](trace, name)


def advise_on(
    work: Workload,
    *,
    max_kill: float | None = None,
    headroom: float | None = None,
    most: float | None = None,
    floor: float | None = None,
) -> list[Advice]:
    """Advise on the resource of a workload, as its kind of evidence allows.

    Parameters
    ----------
    work : Workload
    max_kill, headroom, most, floor
        As for :func:`~rotameter.allocator.advice.advise`; without them those of the resource. What
        has no kills and no limits has no use for some.
    """
    if work.resource.name == "cores":
        return advise_cores(work, headroom=headroom)
    if work.resource.name == "gpus":
        return advise_gpus(work)
    return advise(work, max_kill=max_kill, headroom=headroom, most=most, floor=floor)
