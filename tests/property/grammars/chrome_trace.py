"""Chrome Trace Event JSON: both forms, closed or not, every phase, odd values, lines shuffled."""

from __future__ import annotations

import json

from hypothesis import strategies as st

IMPORTER = "chrome_trace"

_ODD = st.sampled_from([
    None, True, "", "1e999", "nan", "12", "1.5", -1, -0.5, 10**30, 2**63, [], {}, "\ud800",
    "x\x00y",
])  # fmt: skip
_NAMES = st.sampled_from(["load", "fit", "A", "é☃", "f(x)\n", "https://u:p@h/?token=abc", ""])
_IDS = st.one_of(st.integers(0, 3), st.sampled_from(["main", "1", "PyTorch", -1]))
_TIMES = st.one_of(
    st.integers(0, 60), st.floats(0, 60).map(lambda x: round(x, 3)), st.integers(0, 9).map(str)
)
_EPOCH = st.integers(1_700_000_000_000_000, 1_700_000_000_000_100)
_ARGS = st.dictionaries(
    st.sampled_from(["value", "bytes", "name", "task_id", "snapshot", "depends_on"]),
    st.one_of(st.integers(-5, 5), _NAMES, _ODD, st.floats(allow_nan=True)),
    max_size=3,
)


@st.composite
def _event(draw):
    phase = draw(st.sampled_from("XXXXBBBEEEbenstfCMiIRPNODSTpFvc(") | st.sampled_from(["Q", "XX"]))
    event = {"ph": phase, "pid": draw(_IDS), "tid": draw(_IDS), "ts": draw(_TIMES)}
    event["name"] = draw(_NAMES)
    if phase == "X":
        event["dur"] = draw(st.one_of(_TIMES, st.integers(-2, 0)))
    if phase == "M":
        event["name"] = draw(st.sampled_from(["process_name", "thread_name", "num_cpus"]))
    if draw(st.booleans()):
        event["args"] = draw(_ARGS)
    if phase in "benstfSTpF" or draw(st.integers(0, 9)) == 0:
        event["cat"] = draw(st.sampled_from(["io", "net"]))
        event["id"] = draw(st.one_of(st.integers(0, 2), st.sampled_from(["0x1", None])))
        if draw(st.integers(0, 4)) == 0:
            event["id2"] = draw(st.sampled_from([{"local": "0x1"}, {"global": 7}, {}, 3]))
        if draw(st.booleans()):
            event["bp"] = "e"
    if draw(st.integers(0, 9)) == 0:
        event |= {"bind_id": draw(st.integers(0, 2)), "flow_in": True, "flow_out": draw(_ODD)}
    for key in ("tdur", "tts", "scope", "s"):
        if draw(st.integers(0, 9)) == 0:
            event[key] = draw(st.one_of(_TIMES, _ODD))
    odd = draw(st.integers(0, 11))
    if odd == 0 and event:
        event[draw(st.sampled_from(sorted(event)))] = draw(_ODD)
    elif odd == 1:
        event.pop(draw(st.sampled_from(sorted(event))))
    return event


@st.composite
def files(draw):
    """Give (file name, bytes)."""
    events = draw(st.lists(st.one_of(_event(), _event(), _event()), max_size=25))
    if draw(st.integers(0, 9)) == 0:
        events += draw(st.lists(_ODD, max_size=2))
    if draw(st.integers(0, 3)) == 0:
        for event in events:
            if isinstance(event, dict) and isinstance(event.get("ts"), int):
                event["ts"] = draw(_EPOCH)
    ascii_only = draw(st.booleans())
    lines = [json.dumps(event, ensure_ascii=ascii_only) for event in events]
    body = draw(st.sampled_from([",\n", ",", ", \r\n", "\n"])).join(lines)
    form = draw(st.sampled_from(["array", "open", "comma", "object", "cut", "lines", "own"]))
    text = {
        "array": f"[{body}]",
        "open": f"[\n{body}",
        "comma": f"[{body},\n",
        "object": f'{{"displayTimeUnit":"ms","traceEvents":[{body}],"metadata":{{"source":"x"}}}}',
        "cut": f'{{"traceEvents":[{body}'[: draw(st.integers(20, 400))],
        "lines": "\n".join(lines),
        "own": '{"otherData":{"exporter":"rotameter","base_ns":"5","time_base":"epoch_ns"},'
        f'"traceEvents":[{body}]}}',
    }[form]
    return "trace.json", text.encode("utf-8", "surrogatepass")
