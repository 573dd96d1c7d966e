"""Listings of sacct: any columns in any order, any delimiter, odd values, text and JSON."""

from __future__ import annotations

import base64
import gzip
import json

from hypothesis import strategies as st

IMPORTER = "slurm"

_clock = st.sampled_from(
    [
        "00:00:00",
        "00:01:40",
        "1-02:03:04",
        "00:37.250",
        "10-00:00:00",
        "59:59.999",
        "INVALID",
        "99-99:99:99",
    ]
)
_amount = st.sampled_from(
    [
        "0",
        "123K",
        "85399.46K",
        "1.40G",
        "0.31M",
        "5T",
        "16.00E",
        "18446744073709551614",
        "x",
    ]
)
_time = st.sampled_from(
    [
        "2025-02-01T08:00:00",
        "2025-02-01T08:31:00+0200",
        "2019-07-31T22:29:13",
        "Unknown",
        "None",
        "1738396800",
        "2025-13-45T99:00:00",
        "9999-01-01T00:00:00",
        "Sat",
    ]
)
_count = st.one_of(st.integers(0, 300).map(str), st.sampled_from(["", "1.5K", "-1", "1e999"]))
_text = st.text(max_size=12).filter(lambda text: "\0" not in text)
_tres = st.sampled_from(
    ["", "cpu=2,mem=4G,node=1", "billing=1,gres/gpu:a100=4,gres/gpu=4", "mem=1.5T", "a=b=c,,=",
     "gres/gpu=99999999999999999999", "cpu=00:01:00,fs/disk=0,mem=4M,gres/gpumem=8G"]
)  # fmt: skip
_stats = {"nodes": {"n1": {"gpu_utilization": {"0": 90, "1": None}, "used_memory": 5,
                           "gpu_used_memory": {"0": 1}}}, "gpus": 2}  # fmt: skip
_packed = "JS1:" + base64.b64encode(gzip.compress(json.dumps(_stats).encode(), mtime=0)).decode()
_comment = st.one_of(
    st.sampled_from(["", "JS1:Short", "JS1:None", "JS1:H4sI", _packed, json.dumps(_stats),
                     '{"gpu_util": 53.1, "ngpu": 1}', '{"nodes": []}', "[" * 30]),
    _text,
)  # fmt: skip
_VALUES = {
    "JobIDRaw": st.integers(1, 10**7).map(str),
    "JobName": _text,
    "State": st.sampled_from(
        ["COMPLETED", "CANCELLED by 5", "CANCELLED+", "OUT_OF_MEMORY", "OOM", "RUNNING",
         "PENDING", "REQUEUED", "NODE_FAIL", "", "STRANGE", "größe", "TIMEOUT", "FAILED",
         "RESIZING"]
    ),
    "ExitCode": st.sampled_from(["0:0", "1:0", "0:125", "0:9", "", ":", "a:b"]),
    "Submit": _time, "Eligible": _time, "Start": _time, "End": _time,
    "Elapsed": _clock, "Suspended": _clock, "ElapsedRaw": _count, "TotalCPU": _clock,
    "UserCPU": _clock,
    "SystemCPU": _clock,
    "Timelimit": st.sampled_from(["UNLIMITED", "Partition_Limit", "01:00:00", "", "3-00:00:00"]),
    "ReqMem": st.sampled_from(["4G", "2500Mc", "16Gn", "0n", "1.50T", "", "?", "1e400M"]),
    "MaxRSS": _amount, "AveDiskRead": _amount, "AveDiskWrite": _amount,
    "ConsumedEnergyRaw": _amount, "ConsumedEnergy": _amount,
    "AllocCPUS": _count, "ReqCPUS": _count, "NNodes": _count, "NTasks": _count,
    "Restarts": _count, "Priority": _count,
    "AllocTRES": _tres, "ReqTRES": _tres, "TRESUsageInMax": _tres, "TRESUsageInTot": _tres,
    "TRESUsageOutTot": _tres,
    "ReqGRES": st.sampled_from(["", "gpu:2", "gpu:tesla:2", "gpu"]),
    "Cluster": st.sampled_from(["a", "b", ""]), "User": _text, "NodeList": _text,
    "Partition": st.sampled_from(["p", "q", ""]),
    "Comment": _comment, "AdminComment": _comment, "SubmitLine": _text, "Site Field": _text,
}  # fmt: skip
_step = st.sampled_from(["", "", ".batch", ".extern", ".0", ".interactive", "+1", "_3", "_[1-3%2]"])
_number = st.one_of(st.integers(1, 9).map(str), st.integers(1, 10**12).map(str))


@st.composite
def _listing(draw: st.DrawFn) -> tuple[str, bytes]:
    names = draw(st.lists(st.sampled_from(sorted(_VALUES)), min_size=1, max_size=12, unique=True))
    names.insert(draw(st.integers(0, len(names))), draw(st.sampled_from(["JobID", "jobid"])))
    mark = draw(st.sampled_from(["|", "|", "|", "^|^", ";|;", "\t", ",", ";"]))
    end = draw(st.sampled_from(["", "", mark]))
    rows = [mark.join(names) + end] if draw(st.booleans()) or draw(st.booleans()) else []
    for _ in range(draw(st.integers(0, 8))):
        ids = draw(_number) + draw(_step)
        fields = [ids if name.lower() == "jobid" else draw(_VALUES[name]) for name in names]
        rows.append(mark.join(fields) + end)
    text = draw(st.sampled_from(["\n", "\n", "\r\n"])).join(rows)
    return "jobs.txt", (text + draw(st.sampled_from(["\n", ""]))).encode("utf-8", "replace")


_triple = st.one_of(
    st.integers(-2, 2**64),
    st.builds(
        lambda known, forever, number: {"set": known, "infinite": forever, "number": number},
        st.booleans(), st.booleans(), st.one_of(st.integers(0, 2**40), st.just(float("nan"))),
    ),
    st.none(),
)  # fmt: skip
_items = st.lists(
    st.fixed_dictionaries(
        {"type": st.sampled_from(["cpu", "mem", "gres", "fs", 5]),
         "name": st.sampled_from(["", "gpu", "disk", "gpumem", None]), "count": _triple}
    ),
    max_size=3,
)  # fmt: skip
_times = st.fixed_dictionaries(
    {}, optional={"start": _triple, "end": _triple, "elapsed": _triple, "submission": _triple,
                  "limit": _triple, "total": st.fixed_dictionaries({"seconds": _triple})},
)  # fmt: skip
_word = st.one_of(st.sampled_from(["COMPLETED", "FAILED"]), st.lists(st.just("RUNNING")), st.none())
_json_step = st.fixed_dictionaries(
    {}, optional={"step": st.fixed_dictionaries({"id": st.sampled_from(["7.batch", 0, None, {}])}),
                  "state": _word, "time": _times,
                  "tres": st.fixed_dictionaries({"requested": st.fixed_dictionaries(
                      {"max": _items, "total": _items})})},
)  # fmt: skip
_json_job = st.fixed_dictionaries(
    {"job_id": st.one_of(st.integers(1, 9), st.none())},
    optional={
        "state": st.fixed_dictionaries({"current": _word}), "name": _text, "time": _times,
        "array": st.fixed_dictionaries({"job_id": st.integers(0, 5), "task_id": _triple}),
        "het": st.fixed_dictionaries({"job_id": st.integers(0, 5), "job_offset": _triple}),
        "required": st.fixed_dictionaries({"CPUs": _triple, "memory_per_cpu": _triple}),
        "tres": st.fixed_dictionaries({"allocated": _items, "requested": _items}),
        "exit_code": st.one_of(_triple, st.fixed_dictionaries({"return_code": _triple})),
        "comment": st.one_of(_text, st.fixed_dictionaries({"administrator": _comment})),
        "steps": st.lists(_json_step, max_size=3), "elapsed_s": _triple,
        "gpu_utilization": st.dictionaries(_text, st.dictionaries(_text, _triple)),
    },
)  # fmt: skip


@st.composite
def _document(draw: st.DrawFn) -> tuple[str, bytes]:
    jobs = draw(st.lists(_json_job, max_size=4))
    if draw(st.booleans()):
        text = json.dumps({"meta": {"slurm": {"release": "23.11"}}, "jobs": jobs})
    else:
        text = "\n".join(json.dumps(job) for job in jobs)
    return "jobs.json", text.encode("utf-8", "replace")


def files() -> st.SearchStrategy[tuple[str, bytes]]:
    """Give (file name, content)."""
    return st.one_of(_listing(), _listing(), _document())
