"""Task streams of Dask: every way to save them, old layouts, odd values."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

IMPORTER = "dask_stream"

_ODD = st.sampled_from([
    None, True, "", "1e999", "nan", -1, 10**30, 2**63, 1e308, float("nan"), float("inf"), [], {},
    "\ud800", "x\x00y", [[[[]]]], {"key": 1},
])  # fmt: skip
_NAMES = st.sampled_from(
    ["load", "sum-part", "<lambda>", "é☃", "get-https://u:p@h/?t=1", "a" * 400]
)
_KEYS = st.one_of(
    st.builds(lambda n, i: f"{n}-{i:032x}", _NAMES, st.integers(0, 3)),
    st.builds(lambda n, i: [f"{n}-0a1b2c3d", i, 0], _NAMES, st.integers(0, 3)),
    st.integers(-1, 3),
    _ODD,
)
_TIMES = st.one_of(
    st.floats(0, 100), st.integers(0, 100), st.floats(1.7e9, 1.7e9 + 60), st.just("12.5"), _ODD
)
_ACTIONS = st.one_of(
    st.sampled_from(["compute", "compute", "transfer", "disk-read", "disk-write", "deserialize"]),
    st.sampled_from(["hibernate", "", None, 5, "two\nlines"]),
)


@st.composite
def _part(draw: Any) -> Any:
    action, start = draw(_ACTIONS), draw(_TIMES)
    stop = draw(st.one_of(_TIMES, st.just(start)))
    if isinstance(start, (int, float)) and not isinstance(start, bool) and draw(st.booleans()):
        stop = start + draw(st.floats(0, 9))
    if draw(st.integers(0, 9)) == 0:
        return draw(st.one_of(st.just([action, start, stop]), _ODD))
    part = {"action": action, "start": start, "stop": stop}
    if draw(st.booleans()):
        part["source"] = draw(st.one_of(st.just("tcp://10.0.0.1:1"), _ODD))
    return part


@st.composite
def _message(draw: Any) -> Any:
    if draw(st.integers(0, 20)) == 0:
        return draw(_ODD)
    message = {
        "key": draw(_KEYS),
        "worker": draw(st.one_of(st.sampled_from(["tcp://10.0.0.1:1", "inproc://h/1/2", 3]), _ODD)),
        "thread": draw(st.one_of(st.integers(0, 2**47), _ODD)),
        "status": draw(st.one_of(st.sampled_from(["OK", "OK", "error", "lost"]), _ODD)),
        "nbytes": draw(st.one_of(st.integers(0, 10**9), _ODD)),
        "stimulus_id": draw(st.sampled_from([None, "task-finished-1", 7])),
        "startstops": draw(st.one_of(st.lists(_part(), max_size=4), _ODD)),
        "exception_text": draw(st.sampled_from([None, "ValueError('x')", "MemoryError()", ""])),
        "exception": draw(st.sampled_from([None, "b'\\x80'", "KilledWorker(1)"])),
        "compute_start": draw(_TIMES),
        "compute_stop": draw(_TIMES),
    }
    for name in draw(st.lists(st.sampled_from(sorted(message)), max_size=4)):
        message.pop(name, None)
    items = draw(st.permutations(list(message.items())))
    return dict(items)


def _written(messages: list[Any], form: int) -> bytes:
    if form == 0:
        text = json.dumps(messages)
    elif form == 1:
        text = json.dumps(messages, indent=1)
    elif form == 2:
        text = "\r\n".join(json.dumps(m) for m in messages)
    elif form == 3:
        text = json.dumps({"n": len(messages), "task_stream": messages})
    else:
        text = "\n".join(json.dumps([m]) for m in messages)
    return text.encode()


def files() -> st.SearchStrategy[tuple[str, bytes]]:
    """Give (name, content)."""
    content = st.builds(_written, st.lists(_message(), max_size=8), st.integers(0, 4))
    return content.map(lambda data: ("stream.json", data))
