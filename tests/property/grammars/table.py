"""Tables of tasks, and the logs that are read as tables: mostly whole, some odd."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

IMPORTER = "table"

_HEADERS = st.sampled_from(
    ["job_id", "id", "task_type", "start", "start_time", "end", "submit_ms", "elapsed (s)",
     "duration", "wall_s", "mem_mb", "req_mem_mb", "maxrss", "rss_kib", "state", "exit_code",
     "cores", "cpu_time", "user", "colour", "task_id", "started_ns", "depends_on", "wait_s"]
)  # fmt: skip
_CELLS = st.one_of(
    st.sampled_from(
        ["", "-", "NA", "0", "1", "-1", "1e999", "nan", "1,5", "1,234", "4G", "12 kB", "0:01:30",
         "1:30", "12:05", "20250102100000", "2025-02-30", "Total", "Average", "Killed", "137",
         "1-02:03:04", "1704189600", "1704189600500", "2024-01-02T10:00:00", "02/01/2024 10:00",
         "2024-01-02 10:00:00+02:00", "Tue Jan  2 10:00:00 2024", "COMPLETED", "OOM", "9" * 30,
         '"', "'=1", "=1+1", "true", "99999999999", "\u00e9\ud7ff"]
    ),
    st.integers(-5, 10**19).map(str),
    st.floats().map(repr),
    st.text(max_size=8),
)  # fmt: skip
_JSON = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), _CELLS,
    st.lists(st.integers(), max_size=2), st.dictionaries(st.text(max_size=3), _CELLS, max_size=2),
)  # fmt: skip


@st.composite
def _delimited(draw: st.DrawFn) -> tuple[str, bytes]:
    sign = draw(st.sampled_from([",", ";", "\t", "|"]))
    headers = draw(st.lists(_HEADERS, min_size=2, max_size=8))
    lines = [sign.join(headers)]
    for _ in range(draw(st.integers(0, 6))):
        count = len(headers) + draw(st.sampled_from([0, 0, 0, 0, -1, 1]))
        cells = [draw(_CELLS) for _ in range(count)]
        lines.append(
            sign.join('"' + c.replace('"', '""') + '"' if set(c) & {sign, '"', "\n"} else c
                      for c in cells)
        )  # fmt: skip
    end = draw(st.sampled_from(["\n", "\r\n"]))
    return "jobs.csv", (end.join(lines) + end).encode("utf-8", "replace")


@st.composite
def _records(draw: st.DrawFn) -> tuple[str, bytes]:
    rows: list[dict[str, Any]] = draw(
        st.lists(st.dictionaries(_HEADERS, _JSON, min_size=1, max_size=6), max_size=5)
    )
    kind = draw(st.sampled_from(["lines", "list", "held"]))
    if kind == "lines":
        return "jobs.jsonl", "".join(json.dumps(row) + "\n" for row in rows).encode()
    document: Any = rows if kind == "list" else {"RECORDS": rows}
    return "jobs.json", json.dumps(document).encode()


@st.composite
def _logs(draw: st.DrawFn) -> tuple[str, bytes]:
    words = st.sampled_from(["1", "-1", "0", "x", "4gb", "01:00:00", "1704189600", "271", "9" * 20])
    kind = draw(st.sampled_from(["pbs", "condor", "sge", "qacct", "lsf"]))
    count = draw(st.integers(1, 4))
    if kind == "pbs":
        keys = ("user", "ctime", "start", "end", "Exit_status", "resources_used.mem",
                "resources_used.walltime", "Resource_List.nodes", "exec_host")  # fmt: skip
        lines = [
            f"01/02/2024 10:00:0{n};{draw(st.sampled_from('QSERDAX'))};{draw(words)}.s;"
            + " ".join(f"{key}={draw(words)}" for key in keys)
            for n in range(count)
        ]
    elif kind == "condor":
        keys = ("ClusterId", "ProcId", "JobStatus", "QDate", "CompletionDate", "NumJobStarts",
                "ExitCode", "RequestMemory", "MemoryUsage", "HoldReasonCode")  # fmt: skip
        lines = []
        for _ in range(count):
            lines += [f"{key} = {draw(words)}" for key in keys] + [""]
    elif kind == "sge":
        fields = ["q", "h", "g", "o", "n", "1", "a", "0", "1704189600", "1704189605", "1704189665"]
        lines = [
            ":".join(fields + ["0", "0"] + [draw(words) for _ in range(32)]) for _ in range(count)
        ]
    elif kind == "qacct":
        keys = ("qname", "jobnumber", "start_time", "failed", "exit_status", "ru_wallclock", "cpu")
        lines = []
        for _ in range(count):
            lines += ["=" * 62, *(f"{key}    {draw(words)}" for key in keys)]
    else:
        lines = [
            '"JOB_FINISH" "10.1" 1704189665 3 4 5 1 1704189600 0 0 1704189605 "u" "q" "" "" "" '
            + f'"" "" "" "" "" "" 0 {draw(words)} "n" '
            + " ".join(draw(words) for _ in range(40))
            for _ in range(count)
        ]
    end = draw(st.sampled_from(["\n", "\n", ""]))
    return f"{kind}.log", ("\n".join(lines) + end).encode()


def files() -> st.SearchStrategy[tuple[str, bytes]]:
    """Give (file name, content)."""
    return st.one_of(_delimited(), _delimited(), _records(), _logs())
