"""SWF logs: headers, jobs, odd numbers, torn lines."""

from __future__ import annotations

from hypothesis import strategies as st

IMPORTER = "swf"

_NUMBER = st.one_of(
    st.integers(-1, 10**6).map(str),
    st.just("-1"),
    st.floats(0, 1e6, allow_nan=False).map(lambda x: f"{x:.2f}"),
    st.sampled_from(["0", "1e3", "nan", "1e999", "-5", "99999999999999999999", "x", "--"]),
)
_PLAIN = st.integers(-1, 10**5).map(str)
_HEADERS = st.sampled_from(
    ["; Version: 2.2", "; UnixStartTime: 1132444805", ";MaxJobs: 12", "; Note: a: b", ";", ""]
)


def _job(numbers: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    fields = st.lists(numbers, min_size=18, max_size=18)
    return st.builds(lambda pad, f: pad + " ".join(f), st.sampled_from(["", "  "]), fields)


def files() -> st.SearchStrategy[tuple[str, bytes]]:
    """Give (name, content)."""
    lines = st.lists(
        st.one_of(_job(_PLAIN), _job(_PLAIN), _job(_NUMBER), _HEADERS, st.text(max_size=30)),
        max_size=20,
    )
    end = st.sampled_from(["\n", "\r\n"])
    return st.builds(lambda ls, e: ("log.swf", e.join(ls).encode("utf-8", "replace")), lines, end)
