"""What the three rules about idle GPUs share: who waited, how long, what that costs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rotameter.profiler.findings._device_waits import DeviceWaits, device_waits
from rotameter.profiler.findings.base import price, severity_of, worth_saying
from rotameter.profiler.usage import percent
from rotameter.profiler.view import View
from rotameter.units import format_seconds
from rotameter.values import Evidence

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Wait", "find_wait", "within_run"]


class Wait:
    """One cause of waiting over all devices.

    Attributes
    ----------
    one : DeviceWaits
        The device that decides.
    cost_s : float
    devices : list of DeviceWaits
    """

    def __init__(self, seen: View, one: DeviceWaits, cost_s: float, all_: list[DeviceWaits]):
        self.seen, self.one, self.cost_s, self.devices = seen, one, cost_s, all_

    @property
    def words(self) -> str:
        """Who waited how long."""
        who = "The GPU" if len(self.devices) == 1 else f"{self.one.worker}'s {self.one.device}"
        part = percent(self.cost_s / self.one.window_s) if self.one.window_s else "–"
        return f"{who} waited {format_seconds(self.cost_s)} ({part} of its time)"

    @property
    def groups(self) -> tuple[str, ...]:
        """Groups of the tasks on the worker that decides."""
        rows = self.seen.ran & (self.seen.group >= 0)
        if self.one.worker in self.seen.workers:
            rows &= self.seen.worker == self.seen.workers.index(self.one.worker)
        count = np.bincount(self.seen.group[rows], minlength=len(self.seen.groups))
        order = np.argsort(-count, kind="stable")[:3]
        return tuple(self.seen.groups[g] for g in order if count[g])

    def evidence(self, *more: Evidence) -> tuple[Evidence, ...]:
        """Give the device's own figures with others before them."""
        one = self.one
        return (
            *more,
            Evidence("computing", round(one.compute_s, 6), "s", "union of kernels", one.kernels),
            Evidence(
                "window",
                round(one.window_s, 6),
                "s",
                "first to last work of the device, in the run",
                None,
            ),
            Evidence("devices", len(self.devices), "", "in the profile", len(self.devices)),
        )

    def fields(self, how: str, low: float = 0.85, high: float = 1.05) -> dict[str, Any]:
        """Give the cost's fields of a finding."""
        return {
            "severity": severity_of(self.seen, self.cost_s),
            **price(self.seen, self.cost_s),
            "cost_s_interval80": within_run(self.seen, low * self.cost_s, high * self.cost_s),
            "cost_how": how,
        }


def within_run(seen: View, low_s: float, high_s: float) -> tuple[float, float]:
    """Give the bounds of a saving; no run is shortened by more than it takes."""
    most = seen.makespan or 0.0
    return round(max(0.0, min(low_s, most)), 6), round(max(0.0, min(high_s, most)), 6)


def find_wait(
    seen: View, seconds: Callable[[DeviceWaits], float], *, least: bool = False
) -> Wait | None:
    """Give a cause of waiting if it is worth a line.

    Parameters
    ----------
    seconds : callable
        Seconds that a device waited for the cause.
    least : bool
        Take the device that waited least: in a collective all wait for the last to come, which
        waits for the message only. Else the one that waited most decides, as all go in step.
    """
    devices = device_waits(seen)
    if not devices:
        return None
    pick = min if least else max
    one = pick(devices, key=seconds)
    cost = seconds(one)
    if seen.makespan is None or not worth_saying(seen, cost):
        return None
    return Wait(seen, one, cost, devices)
