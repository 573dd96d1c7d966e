"""Nextflow traces: any columns in any order, both forms, odd values, shifts, cuts."""

from __future__ import annotations

from hypothesis import strategies as st

from rotameter.adapters.importers._nextflow_values import FIELDS

IMPORTER = "nextflow"

_ODD = st.sampled_from(
    [
        "-",
        "--",
        "",
        "null",
        "nan",
        "1e999",
        "-1",
        "9" * 30,
        "9" * 400,
        "x\ty",
        "\x00",
        "0",
        "é",
        "1,5",
    ]
)
_PLAIN = {
    "word": st.sampled_from(["1", "ab/0c1d2e", "7f3a", "job-12", "n1"]),
    "text": st.sampled_from(["P", "A:B (s1)", "A:B (s2)", "A:B", "x y", "echo a\n echo b", "t\tu"]),
    "num": st.integers(0, 300).map(str),
    "date": st.one_of(
        st.integers(0, 59).map(lambda s: f"2024-05-01 10:00:{s:02}.123"),
        st.integers(10**12, 2 * 10**12).map(str),
        st.just("01/05/2024"),
    ),
    "time": st.one_of(
        st.integers(0, 10**8).map(str), st.sampled_from(["2.5s", "1d 2h 3m 4s", "500ms", "1:02:03"])
    ),
    "perc": st.one_of(st.floats(0, 4000).map(lambda x: f"{x:.1f}%"), st.just("97.5")),
    "mem": st.one_of(
        st.integers(0, 10**12).map(str), st.sampled_from(["1.1 GB", "0", "468 B", "315,6 MB"])
    ),
}
_STATUS = st.sampled_from(["COMPLETED", "FAILED", "CACHED", "ABORTED", "RUNNING", "SUBMITTED", "-"])
_SOME = ("name", "status", "realtime", "hash", "exit", "submit", "duration", "peak_rss", "memory")


def _field(column: str) -> st.SearchStrategy[str]:
    plain = _STATUS if column == "status" else _PLAIN[FIELDS.get(column, "word")]
    return st.integers(0, 19).flatmap(lambda n: _ODD if n == 0 else plain)


@st.composite
def _table(draw: st.DrawFn) -> bytes:
    more = draw(st.lists(st.sampled_from([*FIELDS, "CO2e", "energy_consumption"]), max_size=12))
    columns = draw(st.permutations(list(dict.fromkeys([*_SOME[: draw(st.integers(3, 9))], *more]))))
    separator = draw(st.sampled_from(["\t", "\t", "\t", ",", ";", " | "]))
    lines = [separator.join(columns)]
    count = draw(st.integers(0, 8))
    lines += [separator.join(draw(_field(c)) for c in columns) for _ in range(count)]
    lines += draw(st.lists(st.one_of(st.text(max_size=30), st.just(lines[0])), max_size=2))
    return draw(st.sampled_from(["\n", "\r\n"])).join(lines).encode("utf-8", "replace")


def files() -> st.SearchStrategy[tuple[str, bytes]]:
    """Give (name, content)."""
    return st.tuples(st.sampled_from(["trace.txt", "trace.txt.1", "t.tsv"]), _table())
