"""Nsight Systems exports: some of the tables, some of their columns, odd values."""

from __future__ import annotations

import sqlite3

from hypothesis import strategies as st

IMPORTER = "nsys"

TABLES = {
    "StringIds": ("id", "value"),
    "NVTX_EVENTS": ("start", "end", "eventType", "globalTid", "text", "textId", "domainId"),
    "CUPTI_ACTIVITY_KIND_KERNEL": ("start", "end", "deviceId", "streamId", "correlationId",
                                   "globalPid", "shortName", "demangledName"),
    "CUPTI_ACTIVITY_KIND_MEMCPY": ("start", "end", "deviceId", "streamId", "correlationId",
                                   "globalPid", "bytes", "copyKind"),
    "CUPTI_ACTIVITY_KIND_MEMSET": ("start", "end", "deviceId", "streamId", "bytes"),
    "CUPTI_ACTIVITY_KIND_RUNTIME": ("start", "end", "globalTid", "correlationId", "nameId",
                                    "returnValue"),
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": ("start", "end", "deviceId", "streamId",
                                            "correlationId", "globalPid", "syncType"),
    "TARGET_INFO_SESSION_START_TIME": ("utcEpochNs",),
    "TARGET_INFO_GPU": ("id", "name"),
    "ThreadNames": ("nameId", "globalTid"),
    "PROCESSES": ("globalPid", "pid", "name"),
    "ANALYSIS_DETAILS": ("startTime", "stopTime"),
}  # fmt: skip
_SERIAL = (77 << 24) + 78
_VALUES = {
    "start": st.integers(0, 60), "end": st.one_of(st.integers(0, 90), st.none()),
    "globalTid": st.sampled_from([_SERIAL, _SERIAL + 1]), "globalPid": st.just(77 << 24),
    "eventType": st.sampled_from([59, 59, 60, 34, 75, 39, 33]), "id": st.integers(1, 9),
    "value": st.sampled_from(["step", "ncclKernel_AllReduce", "token=abc", "é"]),
    "name": st.sampled_from(["python", "GPU"]), "text": st.sampled_from(["fwd", None]),
    "utcEpochNs": st.just(1_700_000_000 * 10**9), "correlationId": st.integers(1, 5),
}  # fmt: skip
_ODD = st.sampled_from([None, "", "x", -1, 1.5, 2**62, b"\xff", -(2**63)])


@st.composite
def files(draw):
    """Give (file name, bytes)."""
    names = draw(st.lists(st.sampled_from(sorted(TABLES)), min_size=1, unique=True))
    with sqlite3.connect(":memory:") as base:
        if draw(st.booleans()):
            names = sorted({*names, "StringIds", "ANALYSIS_DETAILS"})
        for name in names:
            columns = list(TABLES[name])
            if draw(st.integers(0, 3)) == 0 and len(columns) > 1:
                columns.remove(draw(st.sampled_from(columns)))
            base.execute(f'CREATE TABLE "{name}" ({", ".join(f"{c!r}" for c in columns)})')
            for _ in range(draw(st.integers(0, 6))):
                row = [
                    draw(_ODD)
                    if draw(st.integers(0, 15)) == 0
                    else draw(_VALUES.get(column, st.integers(0, 9)))
                    for column in columns
                ]
                marks = ", ".join("?" * len(row))
                base.execute(f'INSERT INTO "{name}" VALUES ({marks})', row)
        base.commit()
        data = base.serialize()
    base.close()
    return "report.sqlite", data
