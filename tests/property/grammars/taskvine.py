"""TaskVine and Work Queue logs: transactions old and new, performance tables, both taskgraphs."""

from __future__ import annotations

from hypothesis import strategies as st

IMPORTER = "taskvine"

_AT = st.one_of(
    st.integers(1_700_000_000_000_000, 1_700_000_100_000_000).map(str),
    st.sampled_from(["0", "17", "99999999999999999999", "-1", "x"]),
)
_ID = st.sampled_from(["1", "2", "3", "4", "x", "-1"])
_WORKER = st.sampled_from(["worker-aa", "worker-bb", "(null)", "10.0.0.5:5000"])
_VALUE = st.sampled_from(["1", "0", "2.5", "-1", "1e999", "500", "1700000001.5", '"x"', "null"])
_RESOURCE = st.builds(
    lambda name, value, unit: f'"{name}":[{value},"{unit}"]',
    st.sampled_from(
        ["cores", "memory", "disk", "gpus", "wall_time", "cpu_time", "time_worker_start",
         "time_worker_end", "size_input_mgr"]
    ),
    _VALUE,
    st.sampled_from(["MB", "s", "cores", "us", "?"]),
)  # fmt: skip
_DICT = st.one_of(
    st.lists(_RESOURCE, max_size=4).map(lambda r: "{" + ",".join(r) + "}"),
    st.sampled_from(["{}", '{"cor', "{[1]}", '{"memory":500}']),
)
_RESULT = st.sampled_from(
    ["SUCCESS", "SIGNAL", "RESOURCE_EXHAUSTION", "MAX_WALL_TIME", "FORSAKEN", "NEW_ONE", "UNKNOWN"]
)
_TASK = st.one_of(
    st.builds("TASK {} {} default FIRST_RESOURCES 1 {}".format, _ID,
              st.sampled_from(["READY", "WAITING"]), _DICT),
    st.builds("TASK {} RUNNING {}  FIRST_RESOURCES {}".format, _ID, _WORKER, _DICT),
    st.builds("TASK {} WAITING_RETRIEVAL {} ".format, _ID, _WORKER),
    st.builds("TASK {} RETRIEVED {}  {}  {} {}".format, _ID, _RESULT, _VALUE, _DICT, _DICT),
    st.builds("TASK {} DONE {}  {} ".format, _ID, _RESULT, _VALUE),
    st.builds("TASK {} {}".format, _ID, st.sampled_from(["CANCELED", "UNKNOWN", "DO", ""])),
)  # fmt: skip
_OTHER = st.one_of(
    st.builds("WORKER {} CONNECTION 10.0.0.5:5000".format, _WORKER),
    st.builds("WORKER {} 10.0.0.5:5000 CONNECTION".format, _WORKER),
    st.builds("WORKER {} DISCONNECTION {}".format, _WORKER,
              st.sampled_from(["FAILURE", "IDLE_OUT", "FAST_ABORT", ""])),
    st.builds("WORKER {} RESOURCES {}".format, _WORKER, _DICT),
    st.builds("WORKER {} TRANSFER INPUT infile {} {} {}".format, _WORKER, _VALUE, _VALUE, _AT),
    st.builds("WORKER {} CACHE_UPDATE file-a {} {} {}".format, _WORKER, _VALUE, _VALUE, _AT),
    st.builds("LIBRARY {} {} {}".format, _ID, st.sampled_from(["SENT", "STARTED", "FAILURE"]),
              _WORKER),
    st.builds("MANAGER 42 {} 0".format, st.sampled_from(["START", "END", "?"])),
    st.builds("MASTER {}".format, st.sampled_from(["START", "END"])),
    st.builds("CATEGORY default MAX {}".format, _DICT),
    st.just("APPLICATION hello"),
)  # fmt: skip
_RECORD = st.builds("{} 42 {}".format, _AT, st.one_of(_TASK, _TASK, _OTHER))
_JUNK = st.one_of(st.just(""), st.just("# comment"), st.text(max_size=30))
_TRANSACTIONS = st.builds(
    lambda head, lines: [head, *lines],
    st.sampled_from(
        ["# time manager_pid MANAGER manager_pid START|END time_from_origin",
         "# time master_pid MASTER START|END"]
    ),
    st.lists(st.one_of(_RECORD, _RECORD, _RECORD, _JUNK), max_size=25),
)  # fmt: skip
_PERFORMANCE = st.builds(
    lambda names, rows: [
        "# timestamp " + " ".join(names),
        *(" ".join(row[: len(names) + 1]) for row in rows),
    ],
    st.lists(
        st.sampled_from(["workers_idle", "time_send", "total_memory"]), min_size=1, max_size=3
    ),
    st.lists(
        st.builds(lambda at, rest: [at, *rest], _AT, st.lists(_VALUE, min_size=3, max_size=3)),
        max_size=10,
    ),
)
_FILE = st.sampled_from(["file-a", "file-b", "file-rnd-c"])
_NODE = st.sampled_from(["task-1", "task-2", "task--5", "task-3"])
_DIGRAPH = st.builds(
    lambda lines: ['digraph "taskvine" {', "node [style=filled];", *lines, "}"],
    st.lists(
        st.one_of(
            st.builds('"{}" -> "{}";'.format, _FILE, _NODE),
            st.builds('"{}" -> "{}";'.format, _NODE, _FILE),
            st.builds('"{}" [color=green,label=""];'.format, _NODE),
            st.text(max_size=20),
        ),
        max_size=15,
    ),
)
_VERSION_2 = st.builds(
    lambda lines: ["# taskvine taskgraph version 2", *lines],
    st.lists(
        st.one_of(
            st.builds('TASK T{} "run" INPUTS {} OUTPUTS {}'.format, _ID, _FILE, _FILE),
            st.builds('FILE {} "name" {}'.format, _FILE, _VALUE),
            st.sampled_from(['TASK 1 "open', "FILE", "TASK 1 x INPUTS"]),
        ),
        max_size=15,
    ),
)


def files() -> st.SearchStrategy[tuple[str, bytes]]:
    """Give (name, content)."""
    lines = st.one_of(_TRANSACTIONS, _TRANSACTIONS, _PERFORMANCE, _DIGRAPH, _VERSION_2)
    ends = st.sampled_from(["\n", "\r\n"])
    return st.builds(
        lambda ls, end: ("vine-logs/log", (end.join(ls) + end).encode("utf-8", "replace")),
        lines,
        ends,
    )
