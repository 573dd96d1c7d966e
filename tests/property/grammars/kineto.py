"""Kineto traces: old and new headers and categories, odd numbers, other layouts."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

IMPORTER = "kineto"

_ODD = st.sampled_from([None, -1, 0, 1e999, "12", "x", "0x7f", True, [], {}, 2**63, 10**30, 0.5])
_NUMBER = st.integers(0, 10**4)
_FRACTION = st.floats(0, 1e4, allow_nan=False).map(lambda x: round(x, 3))
_BASES = st.sampled_from([0, 4203669604595, 1_700_000_000_000_000])
_HOST = st.sampled_from(
    [
        "cpu_op",
        "user_annotation",
        "cuda_runtime",
        "cuda_driver",
        "Runtime",
        "python_function",
        "Operator",
        "mtia_runtime",
        "Trace",
        "overhead",
    ]
)
_DEVICE = st.sampled_from(
    [
        "kernel",
        "gpu_memcpy",
        "gpu_memset",
        "Kernel",
        "gpu_user_annotation",
        "cuda_sync",
        "mtia_ccp_events",
        "cuda_profiler_range",
    ]
)
_NAMES = st.one_of(
    st.sampled_from(
        [
            "aten::mm",
            "ProfilerStep#1",
            "ProfilerStep#2",
            "## forward ##",
            "nccl:all_reduce",
            "cudaLaunchKernel",
            "cudaMemcpyAsync",
            "cudaDeviceSynchronize",
            "hipMemcpyWithStream",
            "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
            "Memcpy HtoD (Pinned -> Device)",
            "Memcpy DtoD (Device -> Device)",
            "Memset (Device)",
            "sgemm",
            "",
            "C:\\new\\x",
        ]
    ),
    st.text(max_size=12),
)


def _arguments(number: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    size3 = st.lists(number, min_size=3, max_size=3)
    keys = {
        "correlation": st.integers(0, 8), "stream": st.integers(0, 3), "device": st.integers(0, 2),
        "bytes": number, "memory bandwidth (GB/s)": number, "est. achieved occupancy %": number,
        "blocks per SM": number, "registers per thread": number, "shared memory": number,
        "grid": size3, "block": size3, "External id": number, "size": number.map(str),
        "dtype": st.sampled_from(["Float", "Half", "?"]), "In msg nelems": number,
    }  # fmt: skip
    return st.fixed_dictionaries({}, optional=keys)


def _events(base: int, time: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    at = time.map(lambda t: t + base if isinstance(t, (int, float)) else t)
    host = st.fixed_dictionaries(
        {"ph": st.just("X"), "cat": _HOST, "name": _NAMES, "pid": st.just(9),
         "tid": st.sampled_from([1, 2, "PyTorch Profiler"]), "ts": at, "dur": time},
        optional={"args": _arguments(_NUMBER)},
    )  # fmt: skip
    device = st.fixed_dictionaries(
        {"ph": st.just("X"), "cat": _DEVICE, "name": _NAMES, "pid": st.integers(0, 2),
         "tid": st.integers(0, 9), "ts": at, "dur": time, "args": _arguments(_NUMBER)}
    )  # fmt: skip
    memory = st.fixed_dictionaries(
        {"ph": st.just("i"), "cat": st.just("cpu_instant_event"), "name": st.just("[memory]"),
         "ts": at, "args": st.fixed_dictionaries(
             {"Device Type": st.integers(0, 1), "Device Id": st.integers(-1, 1)},
             optional={"Total Allocated": _NUMBER, "Total Reserved": _NUMBER})}
    )  # fmt: skip
    flow = st.fixed_dictionaries({"ph": st.sampled_from("sfM"), "id": _NUMBER, "name": _NAMES})
    odd = st.one_of(
        st.fixed_dictionaries(
            {"ph": st.sampled_from(["X", "B", None, 7]), "cat": st.one_of(_HOST, _DEVICE, _ODD),
             "name": st.one_of(_NAMES, _ODD), "ts": _ODD, "dur": _ODD},
            optional={"args": st.one_of(_ODD, _arguments(_ODD)), "pid": _ODD, "tid": _ODD},
        ),
        _ODD,
    )  # fmt: skip
    return st.lists(st.one_of(host, host, device, device, memory, flow, odd), max_size=20)


_HEADER = st.fixed_dictionaries(
    {"schemaVersion": st.one_of(st.just(1), _ODD)},
    optional={
        "deviceProperties": st.one_of(
            st.just([]),
            st.just([{"id": 0, "name": "A", "warpSize": 32, "regsPerMultiprocessor": 65536,
                      "maxThreadsPerMultiprocessor": 2048}]),
            st.lists(st.fixed_dictionaries({"id": _ODD, "name": _ODD, "warpSize": _ODD})),
            _ODD,
        ),
        "distributedInfo": st.one_of(
            st.fixed_dictionaries({"rank": st.integers(0, 9), "world_size": st.integers(1, 9)}),
            st.fixed_dictionaries({"rank": _ODD, "backend": _ODD}),
            _ODD,
        ),
        "baseTimeNanoseconds": st.one_of(st.just(1_711_964_646_000_000_000), _ODD),
    },
)  # fmt: skip


def _written(header: dict[str, Any], events: Any, form: int, indent: int | None) -> bytes:
    whole: Any = {**header, "traceEvents": events}
    if form == 1:  # the header after the events
        whole = {"traceEvents": events, **header}
    elif form == 2:
        whole = events
    text = json.dumps(whole, indent=indent).encode()
    return text.replace(b"\\\\new", b"\\new") if form == 3 else text  # single backslashes


def files() -> st.SearchStrategy[tuple[str, bytes]]:
    """Give (name, content)."""
    events = _BASES.flatmap(lambda base: _events(base, st.one_of(_NUMBER, _FRACTION)))
    content = st.builds(
        _written, _HEADER, events, st.integers(0, 3), st.sampled_from([None, 1])
    )  # fmt: skip
    return content.map(lambda data: ("worker0.pt.trace.json", data))
