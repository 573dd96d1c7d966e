"""Workflow tables of FastFlow/SPM: column sets and orders, codes and names, odd values."""

from __future__ import annotations

from hypothesis import strategies as st

IMPORTER = "spm"

_NUMBER = st.one_of(
    st.integers(0, 10**6).map(str),
    st.floats(0, 1e6, allow_nan=False).map(str),
    st.sampled_from(["", "nan", "inf", "-1", "1e999", "9" * 40, "x", "0", "1,5", "1_0", "1.0"]),
)
_PID = st.sampled_from(["1", "2-n1", "3-n1.local", "", "77", "x"])
_FILE = st.sampled_from(
    ["a", "b.tar.gz", "d/c.1.r_blk_trace.json", "b.tar.gz.77.w_blk_trace.json", "", "é,\"x\""]
)  # fmt: skip
_TASK = st.sampled_from(["one", "two", "stage_in-one", "stage_out-two", "", "a b"])
_COLUMNS = {
    "operation": st.sampled_from(["read", "write", "0", "1", "0.0", "cp", "scp", "READ", "fly"]),
    "taskName": _TASK,
    "fileName": _FILE,
    "aggregateFilesizeMB": _NUMBER,
    "taskPID": _PID,
    "transferSize": _NUMBER,
    "opCount": _NUMBER,
    "totalTime": _NUMBER,
    "numTasks": _NUMBER,
    "parallelism": _NUMBER,
    "numNodes": st.sampled_from(["1", "2", "", "[2]"]),
    "tasksPerNode": _NUMBER,
    "storageType": st.sampled_from(["pfs", "1", "2.0", "beegfs-ssd", ""]),
    "stageOrder": _NUMBER,
    "prevTask": st.one_of(_TASK, st.sampled_from(["initial_data", "final_data"])),
    "other": st.text(max_size=5),
}
_NEEDED = tuple(_COLUMNS)[:4]


def _quoted(value: str, sign: str) -> str:
    return '"' + value.replace('"', '""') + '"' if sign in value or '"' in value else value


@st.composite
def files(draw: st.DrawFn) -> tuple[str, bytes]:
    """Give (name, content)."""
    more = draw(st.lists(st.sampled_from(tuple(_COLUMNS)[4:]), unique=True))
    columns = draw(st.permutations([*_NEEDED, *more]))
    sign = draw(st.sampled_from([",", ",", ";", "\t"]))
    rows = draw(st.lists(st.tuples(*(_COLUMNS[name] for name in columns)), min_size=1, max_size=12))
    repeat = draw(st.integers(1, 3))
    lines = [columns, *(row for row in rows for _ in range(repeat))]
    text = "\n".join(sign.join(_quoted(value, sign) for value in line) for line in lines)
    return "workflow_data.csv", text.encode("utf-8", "replace")
