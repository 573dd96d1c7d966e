"""The events of one Kineto file as columns, in one pass."""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["CALL", "COPY", "KERNEL", "NOTE", "OP", "SET", "Columns", "kind_of", "read_columns"]

OP, NOTE, CALL, KERNEL, COPY, SET, SYNC, OVERLAY, REST = range(9)
# Names of today, and of 2021 in lower case; see Kineto's ActivityType.cpp.
_KINDS = {
    "cpu_op": OP,
    "operator": OP,
    "user_annotation": NOTE,
    "cuda_runtime": CALL,
    "cuda_driver": CALL,
    "runtime": CALL,
    "driver": CALL,
    "hip_runtime": CALL,
    "xpu_runtime": CALL,
    "xpu_driver": CALL,
    "mtia_runtime": CALL,
    "glow_runtime": CALL,
    "privateuse1_runtime": CALL,
    "privateuse1_driver": CALL,
    "kernel": KERNEL,
    "concurrent_kernel": KERNEL,
    "mtia_ccp_events": KERNEL,
    "hpu_op": KERNEL,
    "gpu_memcpy": COPY,
    "memcpy": COPY,
    "gpu_memset": SET,
    "memset": SET,
    "cuda_sync": SYNC,
    "cuda_event": SYNC,
    "gpu_user_annotation": OVERLAY,
}
_ARGUMENTS = (
    "bytes",
    "memory bandwidth (GB/s)",
    "est. achieved occupancy %",
    "blocks per SM",
    "warps per SM",
    "registers per thread",
    "shared memory",
)
_SIZES = {
    "float": 4, "half": 2, "bfloat16": 2, "double": 8, "int": 4, "long": 8, "byte": 1, "char": 1,
    "short": 2, "bool": 1, "float32": 4, "float16": 2, "int32": 4, "int64": 8, "uint8": 1,
    "int8": 1, "float64": 8, "float8_e4m3fn": 1, "float8_e5m2": 1, "complexfloat": 8,
}  # fmt: skip
_LIMIT_NS = 1 << 61
_LONGEST_NS = 10**16
_NAN = math.nan

Reject = Callable[[int | None, str], None]


def kind_of(category: Any) -> int:
    """Say what an event of this category is.

    Examples
    --------
    >>> kind_of("Kernel") == kind_of("kernel") == KERNEL, kind_of("gpu_user_annotation") == KERNEL
    (True, False)
    """
    if not isinstance(category, str):
        return REST
    return _KINDS.get(category.strip().lower().replace(" ", "_"), REST)


def _ns(value: Any) -> int:
    """Turn microseconds into nanoseconds."""
    if isinstance(value, str):
        value = Decimal(value.strip())
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
        raise ValueError
    ns = round(value * 1000)
    if not -_LIMIT_NS < ns < _LIMIT_NS:
        raise ValueError
    return int(ns)


def _float(value: Any) -> float:
    if value is None or isinstance(value, (bool, list, dict)):
        return _NAN
    try:
        number = float(value)
    except (ValueError, TypeError, OverflowError):
        return _NAN
    return number if abs(number) < 1e30 else _NAN


def _int(value: Any) -> int:
    """Read a number; -1 = none."""
    if value.__class__ is int and -1 < value < _LIMIT_NS:
        return value
    if isinstance(value, str) and value[:2].lower() == "0x":
        try:
            return int(value[:18], 16) % _LIMIT_NS
        except ValueError:
            return -1
    number = _float(value)
    return int(number) if number == number and -1 < number < 2.0**53 else -1


def _product(value: Any) -> float:
    if not isinstance(value, (list, tuple)) or not 1 <= len(value) <= 3:
        return _NAN
    made = 1.0
    for part in value:
        made *= _float(part)
    return made


def _message_bytes(arguments: dict[str, Any]) -> float:
    """Give the size of a collective's larger side."""
    size = _SIZES.get(str(arguments.get("dtype")).lower())
    if size is None:
        return _NAN
    sides = [_float(arguments.get(f"{side} msg nelems")) for side in ("In", "Out")]
    known = [side for side in sides if side == side and side >= 0]
    return max(known) * size if known else _NAN


class Codes(dict[Any, int]):
    """Numbers values in the order of their first sight."""

    def __missing__(self, key: Any) -> int:
        self[key] = made = len(self)
        return made


class Columns:
    """What one file holds; times in ns as the file counts them."""

    def __init__(self) -> None:
        self.events = self.kept = self.passed = self.foreign = 0
        self.names, self.threads = Codes(), Codes()
        self.categories: Counter[str] = Counter()
        self.process_names: dict[str, str] = {}
        self._host = [array("q") for _ in range(6)]  # start, end, kind, name, thread, correlation
        self._host_size = array("d")
        self._device = [array("q") for _ in range(7)]  # …, name, device, stream, correlation
        self._arguments = [array("d") for _ in range(len(_ARGUMENTS) + 2)]
        self._memory = [array("q") for _ in range(4)]  # at, device (-1 = host), allocated, reserved

    def host(self) -> dict[str, NDArray[Any]]:
        """Give operators, annotations and calls of the runtime."""
        names = ("start", "end", "kind", "name", "thread", "correlation")
        made = {n: np.array(a, np.int64) for n, a in zip(names, self._host, strict=True)}
        return {**made, "size": np.array(self._host_size, np.float64)}

    def device(self) -> dict[str, NDArray[Any]]:
        """Give kernels, copies and fills."""
        names = ("start", "end", "kind", "name", "device", "stream", "correlation")
        made = {n: np.array(a, np.int64) for n, a in zip(names, self._device, strict=True)}
        limits = ("bandwidth", "occupancy", "blocks_per_sm", "warps_per_sm", "registers")
        keys = ("bytes", *limits, "shared_memory", "blocks", "threads")
        more = {n: np.array(a, np.float64) for n, a in zip(keys, self._arguments, strict=True)}
        return {**made, **more}

    def memory(self) -> dict[str, NDArray[Any]]:
        """Give the allocator's readings."""
        names = ("at", "device", "allocated", "reserved")
        return {n: np.array(a, np.int64) for n, a in zip(names, self._memory, strict=True)}

    # -- one event ----------------------------------------------------------------------------

    def add(self, kind: int, start: int, end: int, event: dict[str, Any]) -> bool:
        """Take one complete event; False = of no use."""
        arguments = event.get("args")
        if arguments.__class__ is not dict:
            arguments = {}
        name = event.get("name")
        code = self.names[name if name.__class__ is str else str(name or "")]
        if kind <= CALL:
            thread = self.threads[f"{event.get('pid')}", f"{event.get('tid')}"]
            correlation = _int(arguments.get("correlation")) if kind == CALL else -1
            row = (start, end, kind, code, thread, correlation)
            for column, value in zip(self._host, row, strict=True):
                column.append(value)
            self._host_size.append(_float(arguments.get("size")) if kind == CALL else _NAN)
            return True
        if kind > SET:
            return False
        self._add_device((start, end, kind, code), event, arguments)
        return True

    def _add_device(
        self, first: tuple[int, ...], event: dict[str, Any], arguments: dict[str, Any]
    ) -> None:
        get = arguments.get
        device = _int(get("device", event.get("pid")))
        stream = _int(get("stream", event.get("tid")))
        row = (*first, device, stream, _int(get("correlation")))
        for column, value in zip(self._device, row, strict=True):
            column.append(value)
        numbers = [_float(get(key)) for key in _ARGUMENTS]
        if "dtype" in arguments and numbers[0] != numbers[0]:
            numbers[0] = _message_bytes(arguments)
        if numbers[0] < 0:
            numbers[0] = _NAN
        numbers += [_product(get("grid")), _product(get("block"))]
        for target, number in zip(self._arguments, numbers, strict=True):
            target.append(number)

    def add_memory(self, at: int, arguments: dict[str, Any]) -> None:
        """Take one reading of the allocator."""
        on_host = _int(arguments.get("Device Type")) == 0
        row = (
            at,
            -1 if on_host else _int(arguments.get("Device Id")),
            _int(arguments.get("Total Allocated")),
            _int(arguments.get("Total Reserved")),
        )
        for column, value in zip(self._memory, row, strict=True):
            column.append(value)


def read_columns(events: Iterable[Any], reject: Reject) -> Columns:
    """Sort all events of a file into columns; what cannot be is rejected."""
    made = Columns()
    kinds: dict[Any, int] = {}
    for event in events:
        made.events += 1
        if event.__class__ is not dict:
            reject(None, f"event {made.events:,} is no object")
            continue
        phase = event.get("ph")
        if phase == "s" or phase == "f":
            made.passed += 1
            continue
        if phase != "X":
            _other(made, phase, event)
            continue
        category = event.get("cat")
        if category.__class__ is not str:
            category = ""
        kind = kinds.get(category)
        if kind is None:
            kind = kinds[category] = kind_of(category)
        made.categories[category] += 1
        if kind > SET:
            made.passed += 1
            continue
        try:
            start = _ns(event.get("ts"))
            length = _ns(event.get("dur"))
        except (ValueError, ArithmeticError):
            reject(None, f"event {made.events:,} ({category}): no time or no duration")
            continue
        if length < 0 or start < 0 or length > _LONGEST_NS:
            what = "negative duration, it never ended" if length < 0 else "no possible time"
            reject(None, f"event {made.events:,} ({category}): {what}")
            continue
        made.kept += made.add(kind, start, start + length, event)
    return made


def _other(made: Columns, phase: Any, event: dict[str, Any]) -> None:
    """Take what is no complete event: names of processes and readings of memory."""
    made.passed += 1
    made.foreign += phase in ("B", "E", "b", "e", "n", "C")
    name, arguments = event.get("name"), event.get("args")
    if not isinstance(arguments, dict):
        return
    if phase == "M" and name in ("process_name", "process_labels"):
        text = str(arguments.get("name") or arguments.get("labels") or "")
        if name == "process_name" and len(made.process_names) < 10_000:
            made.process_names[f"{event.get('pid')}"] = text[:200]
    elif phase in ("i", "I") and name == "[memory]":
        try:
            made.add_memory(_ns(event.get("ts")), arguments)
        except (ValueError, ArithmeticError):
            return
