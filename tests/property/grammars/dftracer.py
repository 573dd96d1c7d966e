"""DFTracer files: letters or numbers as phases, hashes or names, added up, cut, odd numbers."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

IMPORTER = "dftracer"

_NUMBER: st.SearchStrategy[Any] = st.one_of(
    st.integers(0, 10**6),
    st.integers(0, 10**6).map(str),
    st.sampled_from([0, -1, 1.5, 1e300, 10**30, "", "x", "nan", None, True, [], 2**63]),
)
_TIME: st.SearchStrategy[Any] = st.one_of(
    st.integers(1_700_000_000_000_000, 1_700_000_100_000_000),
    st.integers(1_700_000_000_000_000, 1_700_000_100_000_000).map(str),
    st.sampled_from([0, -3, 5, 1.7e15, "soon", 10**25]),
)
_HASH: st.SearchStrategy[Any] = st.sampled_from([11, 12, "00ffee", 13, None])
_CALLS = st.sampled_from(
    ["open", "read", "pread64", "fread", "write", "fwrite", "__xstat", "unlink", "lseek", "fgets"]
)
_ARGS = st.fixed_dictionaries(
    {},
    optional={
        "hhash": _HASH,
        "hostname": st.sampled_from(["n1", "n2", ""]),
        "fhash": _HASH,
        "fname": st.sampled_from(["/a/b", "c.txt", "\ud800", ""]),
        "ret": _NUMBER,
        "ret_sum": _NUMBER,
        "size": _NUMBER,
        "size_sum": _NUMBER,
        "fd": _NUMBER,
        "dft_cnt": _NUMBER,
        "dur_sum": _NUMBER,
    },
)
_PID = st.sampled_from([7, 8, "9", 9, None])


def _event(name: Any, cat: str, phases: list[Any], args: Any) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {"name": name, "cat": st.just(cat), "pid": _PID, "ph": st.sampled_from(phases)},
        optional={"ts": _TIME, "dur": _NUMBER, "tid": _NUMBER, "args": args, "id": _NUMBER},
    )


_HASHES = _event(
    st.sampled_from(["FH", "HH", "SH", "PR", "thread_name"]),
    "dftracer",
    ["M", 4],
    st.fixed_dictionaries(
        {"name": st.sampled_from(["/a", "/b", "node", "rank", ""]), "value": _HASH}
    ),
)
_LIFE = _event(
    st.sampled_from(["start", "end"]),
    "dftracer",
    ["X", 1],
    st.fixed_dictionaries({"cmd_hash": _HASH, "ppid": _NUMBER}),
)
_EVENTS = st.one_of(
    _HASHES,
    _LIFE,
    _event(_CALLS, "POSIX", ["X", 1, "X", 3, "C", "A", "B"], _ARGS),
    _event(_CALLS, "STDIO", ["X", 1], _ARGS),
    _event(st.text(min_size=1, max_size=8), "compute", ["X", 1, 3, 2], _ARGS),
)


def files() -> st.SearchStrategy[tuple[str, bytes]]:
    """Give (name, content)."""
    lines = st.lists(
        st.one_of(_EVENTS.map(json.dumps), _EVENTS.map(json.dumps), st.text(max_size=20)),
        max_size=20,
    )
    ends = st.sampled_from(["\n", ",\n", "\r\n"])
    forms = st.sampled_from(["[\n{}\n]\n", "[{}]", "{}", "[\n{}", '{"traceEvents":[{}]}'])

    def made(found: list[str], end: str, form: str) -> tuple[str, bytes]:
        text = form.replace("{}", end.join(found))
        return "run-7.pfw", text.encode("utf-8", "replace")

    return st.builds(made, lines, ends, forms)
