"""DataLife's files: traces new and old, timers, histograms, with odd values."""

from __future__ import annotations

import json

from hypothesis import strategies as st

IMPORTER = "datalife"

_NUMBER = st.one_of(
    st.integers(0, 10**6),
    st.floats(0, 1e6, allow_nan=False),
    st.sampled_from(
        [0, -1, -2, 1e308, 10**30, 2**62, float("nan"), float("inf"), "x", None, True, []]
    ),
)
_BLOCK = st.integers(0, 10**6)
_SUMMARY = st.builds(
    lambda a, b, mark: [min(a, b), max(a, b), max(a, b), mark],
    _BLOCK, _BLOCK, st.sampled_from([-1, -2]),
)  # fmt: skip
_PAIRS = st.lists(st.builds(lambda a, n: [a, a + n], _BLOCK, st.integers(0, 300)), max_size=6).map(
    lambda pairs: [value for pair in pairs for value in pair]
)
_RANGE = st.one_of(_SUMMARY, _SUMMARY, _PAIRS, st.lists(_NUMBER, max_size=5))
_TRACE = st.fixed_dictionaries(
    {"io_blk_range": _RANGE},
    optional={
        "file_name": st.sampled_from(["x", "/d/x", "", 3, None]),
        "task_name": st.sampled_from(["sift", "", None, 5, "a" * 5000]),
        "pid": _NUMBER,
        "access_frequency": _NUMBER,
        "data_volume": _NUMBER,
    },
)
_CALL = st.one_of(
    st.tuples(st.floats(0, 1e5), st.integers(0, 10**9), st.integers(0, 10**13)).map(list),
    st.lists(_NUMBER, max_size=4),
)
_CALLS = st.dictionaries(
    st.sampled_from(["read", "write", "in_open", "close", "fread", "constructor", "odd"]), _CALL
)
_LEVELS = st.fixed_dictionaries(
    {"monitor": _CALLS}, optional={"local": _CALLS, "system": st.one_of(_CALLS, _NUMBER)}
)
_TIMER = st.dictionaries(st.sampled_from(["python", "srun", ""]), _LEVELS, min_size=1, max_size=2)
_ROW = st.one_of(
    st.tuples(_BLOCK, st.integers(1, 10**8), _BLOCK).map(lambda r: " ".join(map(str, r))),
    st.sampled_from(["", "1 2", "a b c", "-1 2 3", "1 \0 3", "9" * 30 + " 1 1"]),
)
_HISTOGRAM = st.lists(_ROW, max_size=10).map(
    lambda rows: "\n".join(["x.txt Block no. Frequency Access size in byte", *rows, ""]).encode()
)
_TRACE_NAME = st.sampled_from(
    ["x.7-n1.local.r_blk_trace.json", "x.7.w_blk_trace.json", "x.r_blk_trace.json", "x.json",
     "a.1-2.vcf.9-10.0.0.5.r_blk_trace.json"]
)  # fmt: skip
_STAT_NAME = st.sampled_from(["x_7_r_stat", "x_w_stat", "x.txt_9-n_r_stat", "odd"])


def files() -> st.SearchStrategy[tuple[str, bytes]]:
    """Give (name, content)."""
    return st.one_of(
        st.tuples(_TRACE_NAME, _TRACE.map(lambda d: json.dumps(d, indent=4).encode())),
        st.tuples(
            st.just("monitor_timer.7-n1.local.datalife.json"),
            _TIMER.map(lambda d: json.dumps(d).encode()),
        ),
        st.tuples(_STAT_NAME, _HISTOGRAM),
    )
