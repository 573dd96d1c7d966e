"""DaYu files: VFD and VOL records, lists, odd numbers, commas too many, cut and joined."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

IMPORTER = "dayu"

_NUMBER: st.SearchStrategy[Any] = st.one_of(
    st.integers(0, 10**6),
    st.sampled_from([0, -1, 1.5, 10**30, 1e300, "7", None, True, [], {}]),
)
_TIME: st.SearchStrategy[Any] = st.one_of(
    st.integers(1_711_558_432_000_000, 1_711_558_433_000_000),
    st.floats(1.711e15, 1.712e15).map(lambda x: round(x, 6)),
    st.sampled_from([0, -5, "soon", 10**25, None]),
)
_FILES = st.sampled_from(["/s/a.h5", "/s/b.nc", "c.h5", "", "\ud800", 5])
_TASKS = st.sampled_from(["make-71", "use-72", "plain", "", None, 3])
_RANGES: st.SearchStrategy[Any] = st.one_of(
    st.dictionaries(
        st.integers(0, 99).map(str), st.lists(_NUMBER, min_size=2, max_size=2), max_size=4
    ),
    st.sampled_from([{}, None, []]),
)
_MOVED = st.fixed_dictionaries(
    {},
    optional={
        "read_bytes": _NUMBER,
        "read_cnt": _NUMBER,
        "read_ranges": _RANGES,
        "write_bytes": _NUMBER,
        "write_cnt": _NUMBER,
        "write_ranges": _RANGES,
    },
)
_KINDS = st.dictionaries(
    st.sampled_from(["H5FD_MEM_DRAW", "H5FD_MEM_OHDR", "H5FD_MEM_SUPER"]), _MOVED, max_size=2
)
_SETS = st.dictionaries(st.sampled_from(["x", "y", "file", ""]), _KINDS, max_size=3)
_TIMES = ("open_time(us)", "close_time(us)", "open_time", "close_time(ms)")
_VFD = st.fixed_dictionaries(
    {"file_name": _FILES, "io_bytes": _NUMBER},
    optional={
        "task_name": _TASKS,
        "node_id": st.sampled_from(["n1", None, 3]),
        "file_read_cnt": _NUMBER,
        "file_write_cnt": _NUMBER,
        "file_size": _NUMBER,
        "data": st.one_of(st.lists(_SETS, max_size=2), _SETS, st.just(None)),
        "metadata": st.lists(_SETS, max_size=1),
        **{name: _TIME for name in _TIMES},
    },
)
_STATE = st.fixed_dictionaries(
    {},
    optional={
        "task_name": _TASKS,
        "task_id": _NUMBER,
        "tracker_vfd_page_size": _NUMBER,
        "POSIX-READ-Time(us)": _NUMBER,
        "POSIX-WRITE-Time(ms)": _NUMBER,
    },
)
_DATASET = st.fixed_dictionaries(
    {"dset_name": st.sampled_from(["x", "y", "", 4])},
    optional={
        "start_time": _TIME,
        "end_time": _TIME,
        "dt_class": st.sampled_from(["H5T_FLOAT", "H5T_VLEN", None]),
        "layout": st.sampled_from(["H5D_CHUNKED", "H5D_CONTIGUOUS", 3]),
        "storage_size": _NUMBER,
        "dset_n_elements": _NUMBER,
        "dset_type_size": _NUMBER,
        "dimensions": st.lists(_NUMBER, max_size=3),
        "dataset_read_cnt": _NUMBER,
        "dataset_write_cnt": _NUMBER,
    },
)
_VOL = st.fixed_dictionaries(
    {"file_name": _FILES},
    optional={"task_name": _TASKS, "datasets": st.lists(_DATASET, max_size=2)},
)
_LISTS = st.dictionaries(
    st.sampled_from(["make-71", "plot-80", "0", "1"]),
    st.one_of(
        st.fixed_dictionaries(
            {"input": st.lists(_FILES, max_size=2), "order": _NUMBER, "io_cnt": _NUMBER}
        ),
        st.sampled_from(["make", "use"]),
    ),
    max_size=3,
)
_RECORDS: st.SearchStrategy[Any] = st.one_of(
    st.fixed_dictionaries({"file-1": _VFD, "Task": _STATE}),
    st.fixed_dictionaries({"file-0": _VOL}),
    st.fixed_dictionaries({"Task": _STATE}),
    _LISTS,
)


def files() -> st.SearchStrategy[tuple[str, bytes]]:
    """Give (name, content)."""
    names = st.sampled_from(
        ["71-vfd_data_stat.json", "72-vol_data_stat.json", "r-task_to_file.json", "x.json"]
    )
    parts = st.lists(_RECORDS.map(json.dumps), max_size=5)
    forms = st.sampled_from(["[{}]", "{}", "[{},]", "[{}", "[{}][{}]"])
    between = st.sampled_from([",", ",\n", "\n", ",,"])

    def made(name: str, found: list[str], form: str, comma: str) -> tuple[str, bytes]:
        return name, form.replace("{}", comma.join(found)).encode("utf-8", "replace")

    return st.builds(made, names, parts, forms, between)
