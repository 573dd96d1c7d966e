"""Snakemake benchmarks: TSV and JSONL of all versions, odd values, broken cells."""

from __future__ import annotations

import json

from hypothesis import strategies as st

IMPORTER = "snakemake"

_BASE = ["s", "h:m:s", "max_rss", "max_vms", "max_uss", "max_pss", "io_in", "io_out"]
_BASE += ["mean_load", "cpu_time"]
_MORE = ["jobid", "rule_name", "wildcards", "params", "threads", "cpu_usage", "resources"]
_MORE += ["input_size_mb"]
_NUMBER = st.one_of(
    st.floats(0, 1e6).map(lambda x: f"{x:.2f}"),
    st.sampled_from(["NA", "-", "0", "0.00", "", "nan", "1e999", "-5", "9" * 400, "1,5", "x"]),
)
_TEXT = st.one_of(
    st.sampled_from(
        ["{}", "{'s': 'a'}", "{'mem_mb': <TBD>, 'mem_mib': 95}", "{'a': 1.5}", "align"]
    ),
    st.sampled_from(
        ["{'a': [1, {'b': None}]}", "{" * 300, "-" * 3000, "1+" * 999, "{'x': DataFrame("]
    ),
    st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=5), max_size=3).map(repr),
)
_CLOCK = st.sampled_from(["0:00:04", "1 day, 2:03:04", "", "x"])


def _cell(column: str) -> st.SearchStrategy[str]:
    if column == "h:m:s":
        return _CLOCK
    if column in ("rule_name", "wildcards", "params", "resources", "input_size_mb"):
        return _TEXT
    return _NUMBER


@st.composite
def _tsv(draw: st.DrawFn) -> str:
    columns = list(_BASE) if draw(st.booleans()) else _BASE[:-1]
    columns += draw(st.sampled_from([[], _MORE, ["extra"]]))
    if draw(st.integers(0, 4)) == 0:
        columns = draw(st.permutations(columns))
    lines = ["\t".join(columns)]
    count = draw(st.integers(0, 5))
    lines += ["\t".join(draw(_cell(c)) for c in columns) for _ in range(count)]
    return "\n".join([*lines, *draw(st.lists(st.text(max_size=20), max_size=1))])


_LOOSE = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=6) | _NUMBER,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=6,
)


@st.composite
def _jsonl(draw: st.DrawFn) -> str:
    lines = []
    for _ in range(draw(st.integers(1, 5))):
        record = {"s": draw(_LOOSE), "h:m:s": draw(_CLOCK)}
        for column in draw(st.lists(st.sampled_from([*_BASE[2:], *_MORE]), max_size=8)):
            record[column] = draw(_LOOSE)
        lines.append(json.dumps(record))
    return "\n".join(lines)


def files() -> st.SearchStrategy[tuple[str, bytes]]:
    """Give (name, content)."""
    tsv = st.tuples(st.sampled_from(["a.tsv", "b.benchmark.txt", "c"]), _tsv())
    lines = st.tuples(st.just("a.jsonl"), _jsonl())
    return st.one_of(tsv, tsv, lines).map(lambda f: (f[0], f[1].encode("utf-8", "replace")))
