"""Generated: profiles of a training loop on one GPU, as PyTorch's profiler writes them."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.planted.base import GENERATED, GenCause, Truth
from benchmarks.planted.generated import Generated

__all__ = ["Loop", "play"]

T0_US = 1_790_000_000_000_000


@dataclass(frozen=True, slots=True)
class Loop:
    """A training loop: times in microseconds."""

    steps: int
    kernels: int
    kernel_us: float
    launch_us: float
    input_us: float
    message_us: float
    overlapped: bool
    jitter_seed: int = 0


def play(loop: Loop, record: list[dict[str, Any]] | None = None) -> float:
    """Play a loop: the host launches, the GPU follows; give the seconds of the whole.

    Launches are asynchronous, each step waits for the GPU at its end (it reads the loss).
    """
    rng = random.Random(loop.jitter_seed)
    host = gpu = message = 0.0
    number = 0
    for step in range(loop.steps):
        began = host
        wait = loop.input_us * rng.uniform(0.9, 1.1)
        name = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
        _host(record, "user_annotation", name, host, wait)
        host += wait
        for place in range(loop.kernels):
            number += 1
            took = loop.kernel_us * rng.uniform(0.8, 1.2)
            cost = loop.launch_us * rng.uniform(0.8, 1.2)
            operator = ("aten::addmm", "aten::relu", "aten::layer_norm")[place % 3]
            _host(record, "cpu_op", operator, host, cost)
            launch = host + 0.6 * cost
            _launch(record, "cudaLaunchKernel", launch, 0.3 * cost, number)
            start = max(gpu, launch + 3.0)
            _kernel(record, f"ampere_sgemm_{place % 5}", start, took, number, 7)
            gpu, host = start + took, host + cost
            if loop.overlapped and place == loop.kernels // 3:
                message, number = _message(loop, record, host, max(message, gpu), number, rng)
        if not loop.overlapped:
            message, number = _message(loop, record, host, max(message, gpu), number, rng)
        gpu = max(gpu, message)
        done = max(host, gpu)
        _launch(record, "cudaStreamSynchronize", host, done - host, None)
        host = done
        number += 1
        _launch(record, "cudaLaunchKernel", host, 5.0, number)
        _kernel(record, "optimizer_step_multi_tensor", host + 8.0, loop.kernel_us, number, 7)
        gpu = host + 8.0 + loop.kernel_us
        host += 10.0
        _host(record, "user_annotation", f"ProfilerStep#{step}", began, host - began)
    return max(host, gpu) / 1e6


def _message(
    loop: Loop,
    record: list[dict[str, Any]] | None,
    host: float,
    ready: float,
    number: int,
    rng: random.Random,
) -> tuple[float, int]:
    took = loop.message_us * rng.uniform(0.95, 1.05)
    if took <= 0:
        return ready, number
    _launch(record, "cudaLaunchKernel", host - 1.0, 1.0, number + 1)
    _kernel(
        record, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", max(ready, host), took, number + 1, 20
    )
    return max(ready, host) + took, number + 1


def _host(record: Any, category: str, name: str, at: float, took: float) -> None:
    if record is not None:
        record.append({"ph": "X", "cat": category, "name": name, "pid": 900, "tid": 901,
                       "ts": round(T0_US + at, 3), "dur": round(took, 3), "args": {}})  # fmt: skip


def _launch(record: Any, name: str, at: float, took: float, number: int | None) -> None:
    if record is not None:
        arguments = {} if number is None else {"correlation": number}
        record.append({"ph": "X", "cat": "cuda_runtime", "name": name, "pid": 900, "tid": 901,
                       "ts": round(T0_US + at, 3), "dur": round(took, 3),
                       "args": arguments})  # fmt: skip


def _kernel(record: Any, name: str, at: float, took: float, number: int, stream: int) -> None:
    if record is not None:
        arguments = {"device": 0, "stream": stream, "correlation": number,
                     "grid": [216, 1, 1], "block": [256, 1, 1]}  # fmt: skip
        record.append({"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": stream,
                       "ts": round(T0_US + at, 3), "dur": round(took, 3),
                       "args": arguments})  # fmt: skip


def healthy_loop(rng: random.Random) -> Loop:
    """Draw a loop that keeps its GPU busy."""
    return Loop(
        steps=rng.randrange(30, 50),
        kernels=rng.randrange(120, 220),
        kernel_us=rng.uniform(350, 600),
        launch_us=rng.uniform(12, 20),
        input_us=rng.uniform(100, 300),
        message_us=rng.uniform(8_000, 15_000),
        overlapped=True,
        jitter_seed=rng.randrange(10**6),
    )


def _plant(loop: Loop, kind: str, rng: random.Random, scale: float) -> tuple[Loop, Loop]:
    """Give the loop with a cause, and the same without it."""
    if kind == "gpu_idle_host":
        # The same work in kernels that are too short for the launches; the knob: launch cost.
        parts = int(loop.kernels * 2.5)
        short = loop.kernel_us / 12
        bad = replace(loop, kernels=parts, kernel_us=short,
                      launch_us=short * (1 + rng.uniform(1.5, 3.0) * scale))  # fmt: skip
        return bad, replace(bad, launch_us=4.0)
    if kind == "gpu_idle_input":
        share = rng.uniform(0.4, 1.0) * scale
        return replace(loop, input_us=loop.kernels * loop.kernel_us * share), loop
    share = rng.uniform(0.4, 0.9) * scale
    message = loop.kernels * loop.kernel_us * share * 0.6
    bad = replace(loop, message_us=message, overlapped=False)
    return bad, replace(bad, overlapped=True)


def _write(loop: Loop, place: Path) -> tuple[Path, float]:
    events: list[dict[str, Any]] = []
    seconds = play(loop, events)
    document = {
        "schemaVersion": 1,
        "deviceProperties": [{"id": 0, "name": "NVIDIA H100 80GB HBM3", "numSms": 132}],
        "distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 4},
        "traceEvents": events,
    }
    path = place / "rank0.pt.trace.json"
    path.write_text(json.dumps(document))
    return path, seconds


def _make(kind: str, rng: random.Random, place: Path) -> Generated:
    bad, good = _plant(healthy_loop(rng), kind, rng, 1.0)
    truths = []
    if rng.random() < 0.5 and kind != "gpu_idle_host":
        # The other of input and communication, smaller.
        second = "gpu_idle_communication" if kind == "gpu_idle_input" else "gpu_idle_input"
        both, only_first = _plant(bad, second, rng, 0.3)
        if second == "gpu_idle_communication":
            only_second = replace(both, input_us=good.input_us)
        else:
            only_second = replace(both, overlapped=True)
        whole = play(both)
        truths = [Truth(kind, whole - play(only_second)), Truth(second, whole - play(only_first))]
        bad = both
    else:
        truths = [Truth(kind, play(bad) - play(good))]
    path, seconds = _write(bad, place)
    return Generated(path, seconds, truths, "kineto")


def _register(kind: str) -> None:
    GENERATED[kind] = GenCause(kind, "gpu", lambda rng, place: _make(kind, rng, place))


for _kind in ("gpu_idle_host", "gpu_idle_input", "gpu_idle_communication"):
    _register(_kind)


def healthy(rng: random.Random, place: Path) -> Generated:
    """Write a loop without a cause."""
    path, seconds = _write(healthy_loop(rng), place)
    return Generated(path, seconds, [], "kineto")
