"""Darshan as text (binary logs are read by the library of others, in a process of its own)."""

from __future__ import annotations

from hypothesis import strategies as st

IMPORTER = "darshan"

_VALUE = st.one_of(
    st.integers(-1, 10**12).map(str),
    st.floats(0, 1e3).map(lambda x: f"{x:.6f}"),
    st.sampled_from(["nan", "inf", "1e999", "x", "", "99999999999999999999999", "-1"]),
)
_MODULE = st.sampled_from(["POSIX", "STDIO", "MPI-IO", "LUSTRE", "H5F"])
_COUNTER = st.sampled_from(
    ["OPENS", "READS", "WRITES", "BYTES_READ", "BYTES_WRITTEN", "F_READ_TIME", "F_META_TIME",
     "F_READ_START_TIMESTAMP", "F_READ_END_TIMESTAMP", "COLL_READS", "MAX_BYTE_READ"]
)  # fmt: skip
_FIELD = st.sampled_from(
    ["# exe: ./a.out --password hunter2", "# uid: 1000", "# jobid: 77", "# nprocs: 4",
     "# start_time: 1677270046", "# end_time: 1677270050", "# run time: 3.5", "# nprocs: -3",
     "# run time: nan", "# start_time: x", "# metadata: lib_ver = 3.4.2",
     "# POSIX module: 235 bytes (compressed), ver=4", "# mount entry:\t/tmp\text4",
     "# *WARNING*: The POSIX module contains incomplete data!", "#", "# POSIX module data"]
)  # fmt: skip
_ROW = st.builds(
    lambda module, rank, key, counter, value, name: "\t".join(
        [module, rank, key, f"{module.replace('-', '')}_{counter}", value, name, "/", "ext4"]
    ),
    _MODULE,
    st.sampled_from(["-1", "0", "1", "x"]),
    st.sampled_from(["11", "12", "13"]),
    _COUNTER,
    _VALUE,
    st.sampled_from(["/tmp/a", "/scratch/b", "<STDOUT>", ""]),
)
_TOTAL = st.builds(
    lambda module, counter, value: f"total_{module.replace('-', '')}_{counter}: {value}",
    _MODULE,
    _COUNTER,
    _VALUE,
)
_TEXT = st.builds(
    lambda lines: ["# darshan log version: 3.41", *lines],
    st.lists(st.one_of(_FIELD, _ROW, _ROW, _TOTAL, st.text(max_size=20)), max_size=30),
)
_TABLE = st.builds(
    lambda rows: [
        "module,bytes_read,bytes_written,read_time_s,write_time_s",
        *(",".join(row) for row in rows),
    ],
    st.lists(st.tuples(_MODULE, _VALUE, _VALUE, _VALUE, _VALUE), max_size=5),
)


def files() -> st.SearchStrategy[tuple[str, bytes]]:
    """Give (name, content)."""
    return st.builds(
        lambda lines, end: ("job.txt", (end.join(lines) + end).encode("utf-8", "replace")),
        st.one_of(_TEXT, _TEXT, _TABLE),
        st.sampled_from(["\n", "\r\n"]),
    )
