"""Dask's Bokeh pages: three layouts, every encoding of columns, escaped or not, odd values."""

from __future__ import annotations

import base64
import html
import json
from typing import Any

import numpy as np
from hypothesis import strategies as st

IMPORTER = "dask_report"

_ODD = st.sampled_from([
    None, True, "", "NaN", "-Infinity", -1, 10**30, 10**400, 1e308, float("nan"), [], {}, "\ud800",
    {"type": "number", "value": "nan"}, {"__ndarray__": "AAAA", "dtype": "float64"},
])  # fmt: skip
_KEYS = st.sampled_from(["load-1", "('sum-0a1b2c3d', 0)", "transfer-x-1", "<lambda>-2", "é☃-1", ""])
_NAMES = st.sampled_from(
    [
        "load",
        "sum",
        "transfer-sum",
        "disk-read-load",
        "disk-write-sum",
        "deserialize-load",
        "nap-sum",
    ]
)
_WORKERS = st.sampled_from(["tcp://10.0.0.1:1", "tcp://[::1]:2", "w", ""])
_DTYPES = st.sampled_from(
    ["float64", "float32", "float16", "int32", "uint8", "int64", ">f8", "<f4", "object", "V8"]
)
_TEXTS = st.sampled_from([
    None,
    "<h2> Duration: 1.62 s </h2><li> number of tasks: 3 </li><li> compute time: 2.10 s </li>",
    "<h2> Duration: 14d 6hr </h2><li> number of tasks: 999999999999999999999 </li>",
    "<h2> Duration: soon </h2>Workers: 0 Threads: 3\nMemory: 12 parsecs\nDask Version: 1",
    "<h1>Dask</h1> Duration: 1 s Workers: 2\n<li>Threads: 4 </li><li>Memory: 1.00 GiB </li>",
])  # fmt: skip


@st.composite
def _encoded(draw: Any, values: list[Any]) -> Any:
    form = draw(st.integers(0, 5))
    if form < 3:
        return values
    dtype, order = draw(_DTYPES), draw(st.sampled_from(["little", "big", None, "odd"]))
    try:
        kind = np.dtype(dtype)
        if order == "big":
            kind = kind.newbyteorder(">")
        with np.errstate(all="ignore"):
            raw = np.array(values, dtype=np.float64).astype(kind).tobytes()
    except (TypeError, ValueError, OverflowError):
        return values
    data = base64.b64encode(raw).decode()
    shape = draw(st.sampled_from([[len(values)], [len(values)], [1], None]))
    about = {"dtype": dtype, "shape": shape, "order": order}
    if form == 3:
        return {"__ndarray__": data, **about}
    array = {"type": "bytes", "data": data} if form == 4 else draw(_ODD)
    return {"type": "ndarray", "array": array, **about}


@st.composite
def _table(draw: Any) -> dict[str, Any]:
    rows = draw(st.integers(0, 6))

    def many(strategy: Any) -> list[Any]:
        return draw(st.lists(strategy, min_size=rows, max_size=rows))

    odd = draw(st.integers(0, 3)) == 0
    times = st.floats(1.6e12, 1.6e12 + 1e5)
    lengths = st.floats(0, 5000)
    table = {
        "start": draw(_encoded(many(st.one_of(times, _ODD) if odd else times))),
        "duration": draw(_encoded(many(st.one_of(lengths, _ODD) if odd else lengths))),
        "key": many(st.one_of(_KEYS, _ODD) if odd else _KEYS),
        "name": many(st.one_of(_NAMES, _ODD) if odd else _NAMES),
        "worker": many(_WORKERS),
        "worker_thread": many(st.sampled_from(["tcp://10.0.0.1:1-7", "w-8", "9", "-", ""])),
        "color": many(st.sampled_from(["black", "red", "#440154", None])),
    }
    for name in draw(st.lists(st.sampled_from(sorted(table)), max_size=1 if odd else 0)):
        table[name] = draw(_ODD)
    return table


_OTHERS = st.one_of(
    st.fixed_dictionaries(
        {"time": st.lists(st.floats(1.6e12, 1.7e12), max_size=3)}
        | {
            name: st.lists(st.one_of(st.floats(0, 9), _ODD), max_size=3)
            for name in ("cpu", "memory")
        }
    ),
    st.fixed_dictionaries(
        {
            "bandwidth": st.lists(st.one_of(st.floats(0, 1e9), _ODD), max_size=2),
            "bandwidth_text": st.lists(st.sampled_from(["1", "2", "5 MB"]), max_size=2),
            "type": st.one_of(st.lists(st.sampled_from(["numpy.ndarray", None]), max_size=2), _ODD),
        }
    ),
    st.just({"left": [], "line_number": [], "name": []}),
)


def _document(tables: list[Any], text: str | None, nested: bool) -> Any:
    if not nested:
        references: list[Any] = [
            {"type": "ColumnDataSource", "attributes": {"data": t}} for t in tables
        ]
        references.append({"type": "Div", "attributes": {"text": text}})
        return {"roots": {"references": references}, "version": "2.4.3"}
    roots: list[Any] = [
        {
            "name": "ColumnDataSource",
            "attributes": {"data": {"type": "map", "entries": [[k, v] for k, v in t.items()]}},
        }
        for t in tables
    ]
    roots.append({"name": "Div", "attributes": {"text": text}})
    return {"roots": roots, "version": "3.4.0"}


def _page(document: Any, escapes: int, quote: bool, inline: bool) -> bytes:
    text = json.dumps({"x": document})
    if inline:
        body = f"<script>var docs_json = {text};</script>"
    else:
        for _ in range(escapes):
            text = html.escape(text, quote=quote)
        body = f'<script type="application/json" id="1">\n{text}\n</script>'
    head = "<title>Dask Performance Report</title><script src='bokeh.min.js'></script>"
    return f"<!DOCTYPE html>\n<html><head>{head}</head><body>{body}</body></html>".encode()


def files() -> st.SearchStrategy[tuple[str, bytes]]:
    """Give (name, content)."""
    tables = st.builds(
        lambda one, more: [*one, *more],
        st.lists(_table(), min_size=1, max_size=2),
        st.lists(_OTHERS, max_size=2),
    )
    document = st.builds(_document, tables, _TEXTS, st.booleans())
    content = st.builds(_page, document, st.integers(0, 2), st.booleans(), st.just(False))
    inline = st.builds(_page, document, st.just(0), st.just(False), st.just(True))
    return st.one_of(content, content, inline).map(lambda data: ("dask-report.html", data))
