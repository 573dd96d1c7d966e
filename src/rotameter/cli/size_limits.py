"""What the user of ``rotameter size`` says of machines and queues, and of the least to ask for."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import click

from rotameter.errors import UsageError
from rotameter.units import bare_number, parse_bytes, parse_seconds

__all__ = ["LIMITS", "Limits", "limit_options"]

F = TypeVar("F", bound=Callable[..., Any])

LIMITS = {
    "floor": "memory", "floor_time": "time", "floor_disk": "disk",
    "node_memory": "memory", "queue_time": "time", "node_disk": "disk",
    "node_gpu_memory": "gpu_memory",
}  # fmt: skip
"""Option → the resource that it is about."""

_FEW_BYTES, _FEW_SECONDS = 1e6, 60.0
"""Numbers without a unit below it were hardly meant as bytes, or as seconds."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What was said of each resource.

    Attributes
    ----------
    floors : mapping of str to float
        Least that is asked for.
    most : mapping of str to float or None
        What the largest machine has, or the queue allows; None: not said.
    """

    floors: Mapping[str, float]
    most: Mapping[str, float | None]


def limit_options(function: F) -> F:
    """Add the options about machines, queues and the least to ask for.

    The command gets ``limits``.
    """

    @functools.wraps(function)
    def command(
        *args: Any,
        floor: str,
        floor_time: str,
        floor_disk: str,
        node_memory: str | None,
        queue_time: str | None,
        node_disk: str | None,
        node_gpu_memory: str | None,
        **kwargs: Any,
    ) -> Any:
        floors = {
            "memory": _bytes(floor, "--floor"),
            "time": _seconds(floor_time, "--floor-time"),
            "disk": _bytes(floor_disk, "--floor-disk"),
        }
        most = {
            "memory": _above(node_memory, "--node-memory", _bytes),
            "time": _above(queue_time, "--queue-time", _seconds),
            "disk": _above(node_disk, "--node-disk", _bytes),
            "gpu_memory": _above(node_gpu_memory, "--node-gpu-memory", _bytes),
        }
        return function(*args, limits=Limits(floors, most), **kwargs)

    for option in reversed(_OPTIONS):
        command = option(command)
    return command  # type: ignore[return-value]


_OPTIONS = (
    click.option(
        "--node-memory",
        help="What the largest machine has, such as 128GB: nothing is asked for beyond it. Without "
        "it no limit is written.",
    ),
    click.option("--node-disk", help="What its disk has, as that."),
    click.option("--node-gpu-memory", help="What a GPU has, as that."),
    click.option("--queue-time", help="Longest time limit that the queue allows, such as 7d."),
    click.option(
        "--floor",
        default="256MB",
        show_default=True,
        help="Least that is asked for: less saves nothing. 0: no such least.",
    ),
    click.option(
        "--floor-time", default="10min", show_default=True, help="Least time that is asked for."
    ),
    click.option(
        "--floor-disk", default="1GB", show_default=True, help="Least disk that is asked for."
    ),
)


def _refuse_bare(text: str, option: str, least: float, unit: str, such: str) -> None:
    """Refuse a number that would be read as far less than was meant: it names no unit."""
    number = bare_number(text)
    if number is not None and 0 < number < least:
        raise UsageError(
            f"{option} {text[:60]}: without a unit that is {number:g} {unit}",
            hint=f"name the unit, such as {such}",
        )


def _above(text: str | None, option: str, read: Callable[..., float]) -> float | None:
    return None if text is None else read(text, option, above=0)


def _bytes(text: str, option: str, *, above: float = -1.0) -> float:
    """Read a number of bytes that a machine may have."""
    _refuse_bare(text, option, _FEW_BYTES, "bytes", "128GB")
    try:
        value = float(parse_bytes(text))
    except (ValueError, OverflowError):
        value = -1.0
    if not above < value < 1e18:
        what = "disk" if option.endswith("disk") else "memory"
        raise UsageError(f"{option} {text[:60]}: no amount of {what}", hint="such as 128GB")
    return value


def _seconds(text: str, option: str, *, above: float = -1.0) -> float:
    """Read a time limit that a queue may have."""
    _refuse_bare(text, option, _FEW_SECONDS, "seconds", "10min")
    try:
        value = float(parse_seconds(text))
    except (ValueError, OverflowError):
        value = -1.0
    if not above < value < 1e11:
        raise UsageError(f"{option} {text[:60]}: no time", hint="such as 10min or 7d")
    return value
