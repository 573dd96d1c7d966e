"""``sacct --json``, ``squeue --json``, slurmrestd, and plain JSON objects of sacct fields.

Source: Slurm's data parsers v0.0.37 to v0.0.43 (https://slurm.schedmd.com/rest_api.html). A number
is an int or ``{"set", "infinite", "number"}``; a state is a word or a list of words; the memory of
a request is in MiB, that of a step's usage in bytes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from rotameter.adapters.importers._slurm_blocks import Rows, from_lists
from rotameter.adapters.importers._slurm_columns import KNOWN, plain
from rotameter.adapters.importers._slurm_values import JOB_ID, tres, words
from rotameter.errors import BadInput
from rotameter.profiler.live.redact import clean_name
from rotameter.units import many

if TYPE_CHECKING:
    from rotameter.adapters.importers.building import Builder
    from rotameter.adapters.importers.inputs import InputFile

__all__ = ["looks_like_slurm", "read_json"]

_PER_CPU = 1 << 63
_NO_VALUE = 0xFFFF_FFFF_FFFF_FFF0
_NO_VALUE_32 = (0xFFFF_FFFE, 0xFFFF_FFFF)
_ALIASES = {
    "name": "jobname",
    "username": "user",
    "jobstate": "state",
    "submittime": "submit",
    "eligibletime": "eligible",
    "starttime": "start",
    "endtime": "end",
    "elapseds": "elapsedraw",
    "nodes": "nodelist",
    "nodecount": "nnodes",
    "cpus": "alloccpus",
    "tresallocstr": "alloctres",
    "tresreqstr": "reqtres",
    "restartcnt": "restarts",
    "statereason": "reason",
}
_GPU_KEYS = frozenset(
    words(
        """gpu_utilization gpu_used_memory gpu_total_memory gpu_util gpu_mem_max ngpu gpus
        nodes used_memory total_memory total_time"""
    )
)
_TELLING = frozenset(
    words("state exitcode elapsed elapsedraw alloctres reqtres reqmem timelimit alloccpus")
)
_TIMES = (
    ("submit", "submission"),
    ("eligible", "eligible"),
    ("start", "start"),
    ("end", "end"),
    ("elapsedraw", "elapsed"),
    ("suspended", "suspended"),
    ("timelimitraw", "limit"),
)
_SLURMS = frozenset(
    words("job_state tres_req_str tres_alloc_str array_job_id derived_exit_code state_reason")
)
_ERRORS_SHOWN, _ERROR_CHARS = 3, 200
_BETWEEN = re.compile(r"[\s,\x1e]*")
_LISTED = re.compile(r'"jobs"\s*:\s*\[')
_LINE, _NEXT = re.compile(r"\n"), re.compile(r"\n(?=[{\[])")
_EMPTY = re.compile(r'"jobs"\s*:\s*\[\s*\]')
_FAILED = re.compile(r'"errors"\s*:\s*\[\s*[{"]')
_SOURCES = ('"slurm"', '"data_parser', "/sacct", '"sacct"', '"squeue"', "openapi/")
_MARKS = ('"tres"', '"slurm"', '"data_parser"', '"derived_exit_code"', '"job_state"', '"slurm_')


def looks_like_slurm(text: str) -> float:
    """Say how sure it is that a JSON text tells of Slurm's jobs."""
    low = text.lower()
    if '"jobs"' in low and '"job_id"' in low and any(mark in low for mark in _MARKS):
        return 0.95
    if (_EMPTY.search(low) or _FAILED.search(low)) and any(mark in low for mark in _SOURCES):
        return 0.9
    start = text.lstrip("[ \n\t").partition("\n")[0]
    try:
        found, _ = json.JSONDecoder().raw_decode(start or "0")
    except (ValueError, RecursionError):
        return 0.0
    if not isinstance(found, dict):
        return 0.0
    keys = {key.lower() for key in found if isinstance(key, str)}
    if not keys & {"jobid", "jobidraw"} and not ("job_id" in keys and keys & _SLURMS):
        return 0.0  # job_id alone is anyone's
    names = {_ALIASES.get(plain(key), plain(key)) for key in keys}
    return 0.85 if len(names & KNOWN) >= 3 and names & _TELLING else 0.0


def read_json(file: InputFile, build: Builder) -> Iterator[Rows]:
    """Give the rows of a JSON file.

    Raises
    ------
    BadInput
        If it is no JSON, or holds no list of jobs, or Slurm's word why there are none.
    """
    errors: list[str] = []
    rows: list[dict[str, str]] = []
    lines: list[int] = []
    seen = 0
    for number, job in _jobs(file, build, errors):
        build.records_in += 1
        seen += 1
        made = _rows_of(job) if isinstance(job, dict) else None
        if not made:
            build.reject(file.name, number, "no job with a job id")
            continue
        build.records_in += len(made) - 1
        rows += made
        lines += [number] * len(made)
    said = "; ".join(list(dict.fromkeys(errors))[:_ERRORS_SHOWN])
    if said and not seen:
        raise BadInput(
            f"{file.name} holds no jobs, as Slurm could not give them: {said}",
            hint="run the command again once Slurm answers",
        )
    if said:
        build.warn(f"Slurm says of {file.name} that not all went well: {said}")
    if seen and not rows:
        raise BadInput(f"{file.name} holds no job with a job id", hint="sacct --json writes one")
    names = list(dict.fromkeys(name for row in rows for name in row))
    lists = [[row.get(name, "") for name in names] for row in rows]
    made_rows = from_lists(names, lists, lines)
    if made_rows is not None:
        yield made_rows


def _jobs(file: InputFile, build: Builder, errors: list[str]) -> Iterator[tuple[int, Any]]:
    """Give (line, or number in the lists; job) of one document, several, or an object a line.

    What Slurm says went wrong is added to ``errors``.
    """
    text = file.read_text().strip()
    decoder = json.JSONDecoder()
    at = done = counted = 0
    line = 1
    while (at := _BETWEEN.match(text, at).end()) < len(text):  # type: ignore[union-attr]
        line += text.count("\n", counted, at)
        counted = at
        try:
            document, at = decoder.raw_decode(text, at)
        except RecursionError:
            raise BadInput(f"{file.name} is nested too deeply", hint="check the file") from None
        except ValueError:
            found, at = _of_damaged(file, text, at, build)
            yield from ((done + number, job) for number, job in enumerate(found, 1))
            done += len(found)
            yield (done + 1 if found else line), None
            continue
        failed = _errors(document)
        errors += failed
        if isinstance(document, dict) and "jobs" not in document:
            if not failed:
                yield line, document
            continue
        if isinstance(document, dict):
            _facts(document, build)
            document = (document["jobs"] or []) if failed else document["jobs"]
            if not isinstance(document, list):
                raise BadInput(f"{file.name} holds no list of jobs", hint="sacct --json writes one")
        if not isinstance(document, list):
            yield line, None
            continue
        yield from ((done + number, job) for number, job in enumerate(document, 1))
        done += len(document)


def _of_damaged(file: InputFile, text: str, at: int, build: Builder) -> tuple[list[Any], int]:
    """Give the jobs that are whole in a document that was cut, and where the next may begin."""
    decoder = json.JSONDecoder()
    nested = text[at] in "{["
    match = (_NEXT if nested else _LINE).search(text, at)
    after = match.end() if match else len(text)
    listed = _LISTED.search(text, at, after)
    found: list[Any] = []
    if not nested or listed is None:
        return found, after
    at = listed.end()
    while True:
        at = _BETWEEN.match(text, at).end()  # type: ignore[union-attr]
        try:
            job, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            break
        found.append(job)
    match = _NEXT.search(text, at)
    after = match.end() if match else len(text)
    if found:
        build.warn(f"the document is cut: {many(len(found), 'job')} read")
    elif not match:
        raise BadInput(f"{file.name} is no whole JSON document", hint="write it again")
    return found, after


def _facts(document: Mapping[str, Any], build: Builder) -> None:
    meta = document.get("meta") or document.get("metadata")
    slurm = _at(meta, "slurm") or _at(meta, "Slurm")
    release = _at(slurm, "release")
    if isinstance(release, str):
        build.meta["slurm_version"] = release[:40]


def _errors(document: Any) -> list[str]:
    """Give what Slurm says went wrong, in its own words."""
    said = _at(document, "errors")
    found = []
    for one in said if isinstance(said, list) else ():
        texts = (one,) if isinstance(one, str) else (_at(one, "description"), _at(one, "error"))
        given = [clean_name(text.strip())[:_ERROR_CHARS] for text in texts if _is_text(text)]
        code = _number(_at(one, "error_number"))
        first, *more = [*dict.fromkeys(given)] or [f"error {code}" if code else ""]
        if first:
            found.append(f"{first} ({', '.join(more)})" if more else first)
    return found


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


# -- one job ---------------------------------------------------------------------------------------


def _at(value: Any, *names: str) -> Any:
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _number(value: Any) -> int | float | str | None:
    """Read a number in any of its forms; "UNLIMITED" for an infinite one, None for none."""
    if isinstance(value, dict):
        if value.get("infinite") is True:
            return "UNLIMITED"
        if value.get("set") is False:
            return None
        value = value.get("number")
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    if value != value or not 0 <= value < _NO_VALUE or value in _NO_VALUE_32:
        return None
    return value


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value[:100_000]
    if isinstance(value, list) and value and all(isinstance(v, str) for v in value):
        return ",".join(value)[:10_000]
    number = _number(value)
    if number is None:
        return ""
    return str(int(number)) if isinstance(number, float) and number.is_integer() else str(number)


def _seconds(value: Any) -> str:
    """Read ``{"seconds", "microseconds"}`` or a number of seconds.

    There may be more than a million microseconds: Slurm adds those of user and system up.
    """
    if not isinstance(value, dict) or "seconds" not in value:
        return _text(value)
    whole, part = _number(value["seconds"]), _number(value.get("microseconds"))
    if not isinstance(whole, (int, float)):
        return ""
    micros = int(part) if isinstance(part, (int, float)) else 0
    return f"{int(whole) + micros // 10**6}.{micros % 10**6:06d}"


def _cpu(time: Any) -> dict[str, str]:
    """Read CPU time; user and system where there is no total."""
    found = {"totalcpu": _seconds(_at(time, "total"))}
    if not found["totalcpu"]:
        found |= {f"{key}cpu": _seconds(_at(time, key)) for key in ("user", "system")}
    return found


def _tres(items: Any, *, mib: bool) -> str:
    """Turn a list of TRES into sacct's text."""
    if isinstance(items, str):
        return items
    found = []
    for item in items if isinstance(items, list) else ():
        kind, name, size = _at(item, "type"), _at(item, "name"), _number(_at(item, "count"))
        if isinstance(kind, str) and isinstance(size, (int, float)):
            key = f"{kind}/{name}" if isinstance(name, str) and name else kind
            found.append(f"{key}={int(size)}{'M' if mib and kind == 'mem' else ''}")
    return ",".join(found)


def _rows_of(job: dict[str, Any]) -> list[dict[str, str]]:
    """Give the row of a job and those of its steps; none where it has no id."""
    row = _flat(job)
    key = _job_id(job, row.get("jobid") or row.get("jobidraw", ""))
    if JOB_ID.fullmatch(key) is None:
        return []
    row["jobid"] = key
    _nested(job, row)
    stats = {name: job[name] for name in _GPU_KEYS if isinstance(job.get(name), (dict, int, float))}
    if any(name.startswith("gpu_") for name in stats):
        row["gpu_json"] = json.dumps(stats)
    rows = [row]
    steps = job.get("steps")
    # Ids are of a cluster, and only the job says of which one.
    where = {"cluster": row["cluster"]} if "cluster" in row else {}
    for at, step in enumerate(steps if isinstance(steps, list) else ()):
        if isinstance(step, dict):
            rows.append(_step(step, key.partition(".")[0], at) | where)
    return rows


def _flat(job: Mapping[str, Any]) -> dict[str, str]:
    """Take what is named as sacct names it."""
    row: dict[str, str] = {}
    for key, value in job.items():
        name = plain(str(key))
        name = _ALIASES.get(name, name)
        if name not in KNOWN:
            continue
        if name == "elapsed" and not isinstance(value, str):
            name = "elapsedraw"
        if name == "timelimit" and not isinstance(value, str):
            name = "timelimitraw"
        text = _exit(value) if name == "exitcode" and not isinstance(value, str) else _text(value)
        if text:
            row.setdefault(name, text)
    return row


def _exit(value: Any) -> str:
    code = _number(_at(value, "return_code"))
    signal = _at(value, "signal")
    signal = signal if not isinstance(signal, dict) or "number" in signal else (
        signal["id"] if "id" in signal else signal.get("signal_id")
    )  # fmt: skip
    number = _number(signal)
    if code is None and number is None:
        status = _number(value)  # as wait() gives it
        if not isinstance(status, (int, float)):
            return ""
        code, number = int(status) >> 8, int(status) & 0x7F
    return f"{code if isinstance(code, int) else 0}:{number if isinstance(number, int) else 0}"


def _job_id(job: Mapping[str, Any], given: str) -> str:
    """Give the id as sacct shows it: ``array_task``, ``array_[tasks]``, ``het+offset``."""
    array = job.get("array")
    if isinstance(array, dict):
        of, task, many = array.get("job_id"), array.get("task_id"), array.get("task")
    else:
        of, task, many = (
            job.get("array_job_id"), job.get("array_task_id"), job.get("array_task_string")
        )  # fmt: skip
    of_id, task_id = _text(of), _text(task)
    if of_id not in ("", "0"):
        if task_id.isdigit():
            return f"{of_id}_{task_id}"
        if isinstance(many, str) and many and isinstance(array, dict | None):
            return f"{of_id}_[{many}]"
    het = job.get("het")
    if isinstance(het, dict):
        of, offset = het.get("job_id"), het.get("job_offset")
    else:
        of, offset = job.get("het_job_id"), job.get("het_job_offset")
    of_id, offset_id = _text(of), _text(offset)
    if of_id not in ("", "0") and offset_id.isdigit():
        return f"{of_id}+{offset_id}"
    return given


def _nested(job: Mapping[str, Any], row: dict[str, str]) -> None:
    """Take what sacct --json keeps in objects."""

    def put(name: str, text: str) -> None:
        if text:
            row[name] = text

    given = _text(job.get("job_id"))
    put("jobidraw", given if given.isdigit() else "")
    put("state", _text(_at(job, "state", "current")))
    put("reason", _text(_at(job, "state", "reason")))
    put("sluid", _text(job.get("sluid")))
    put("user", _text(_at(job, "association", "user")) if not row.get("user") else "")
    time = job.get("time")
    for name, key in _TIMES:
        put(name, _text(_at(time, key)))
    for name, text in _cpu(time).items():
        put(name, text)
    put("reqcpus", _text(_at(job, "required", "CPUs")))
    put("alloctres", _tres(_at(job, "tres", "allocated"), mib=True))
    put("reqtres", _tres(_at(job, "tres", "requested"), mib=True))
    memory = _memory(job.get("required")) or _memory(job)
    # What was asked for may be for a CPU, a node or in all, which 22.05 does not tell apart;
    # ReqTRES has it in all. Only "0" (all memory of the node) says more than that.
    put("reqmem", "" if memory != "0" and tres(row.get("reqtres", "")).memory_bytes > 0 else memory)
    if _lost(job):
        row.pop("exitcode", None)
    nodes = _text(job.get("allocation_nodes"))
    put("allocnodes", "" if nodes == "0" else nodes)
    comment = job.get("comment")
    put("comment", _text(_at(comment, "job")))
    put("admincomment", _text(_at(comment, "administrator")))


def _lost(job: Mapping[str, Any]) -> bool:
    """Say whether a job failed with code 0 and no signal: 22.05 has lost the code in JSON."""
    said = {**job, **job["state"]} if isinstance(job.get("state"), dict) else job
    states = {_text(said.get(key)).partition(",")[0] for key in ("current", "state", "job_state")}
    return "FAILED" in states and _exit(job.get("exit_code")) == "0:0"


def _memory(required: Any) -> str:
    whole_node = False
    for name, per in (("memory_per_cpu", "c"), ("memory_per_node", "n"), ("memory", "n")):
        size = _number(_at(required, name))
        if not isinstance(size, (int, float)):
            size = None
            raw = _at(required, name)
            if isinstance(raw, int) and raw >= _PER_CPU and raw - _PER_CPU < 1 << 40:
                size, per = raw - _PER_CPU, "c"
        if size is not None and int(size) >= _PER_CPU:
            size, per = int(size) - _PER_CPU, "c"
        if size:
            return f"{int(size)}M{per}"
        whole_node |= size == 0
    return "0" if whole_node else ""


def _step(step: Mapping[str, Any], job: str, at: int) -> dict[str, str]:
    """Give the row of a step."""
    identity = _at(step, "step", "id")
    if isinstance(identity, dict):
        identity = identity.get("step_id")
    name = _text(identity).rpartition(".")[2] or _text(_at(step, "step", "name"))
    if JOB_ID.fullmatch(f"{job}.{name}") is None:
        name = f"step{at}"
    time, used = step.get("time"), _at(step, "tres", "requested")
    row = {
        "jobid": f"{job}.{name}",
        "state": _text(step.get("state")),
        "start": _text(_at(time, "start")),
        "end": _text(_at(time, "end")),
        "elapsedraw": _text(_at(time, "elapsed")),
        **_cpu(time),
        "ntasks": _text(_at(step, "tasks", "count")),
        "nnodes": _text(_at(step, "nodes", "count")),
        "exitcode": _exit(step.get("exit_code")),
        "tresusageinmax": _tres(_at(used, "max"), mib=False),
        "tresusageintot": _tres(_at(used, "total"), mib=False),
        "tresusageouttot": _tres(_at(step, "tres", "consumed", "total"), mib=False),
        "consumedenergyraw": _text(_at(step, "statistics", "energy", "consumed")),
    }
    return {key: text for key, text in row.items() if text}
