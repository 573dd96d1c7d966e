"""Logs of batch systems that are tables with rules of their own.

PBS Professional, OpenPBS, Torque: accounting log, ``date;type;id;key=value …`` (PBS Administrator's
Guide, "Accounting"). LSF: ``lsb.acct``, fields in quotes (lsb.acct(5)). Grid Engine:
``accounting(5)`` and the output of ``qacct -j``. HTCondor: ClassAds as ``condor_history -long``
prints them (HTCondor manual, "Job ClassAd Attributes").
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from rotameter.adapters.importers._table_names import words

if TYPE_CHECKING:
    from rotameter.adapters.importers.building import Builder
    from rotameter.adapters.importers.inputs import InputFile

__all__ = ["ENRICH", "NATIVE", "native_kind"]

Record = dict[str, Any]
Records = Iterator[tuple[int, Record]]

_PBS = re.compile(r"(\d\d/\d\d/\d{4}) (\d\d:\d\d:\d\d);([A-Za-z]{1,2});([^;]*);(.*)", re.S)
_PBS_PAIR = re.compile(r"([A-Za-z_][\w.\-]*)=(\"[^\"]*\"|'[^']*'|\S*)")
_AD = re.compile(r"([A-Za-z_]\w*)\s*=\s*(.*)")
_SGE_FIELDS = words(
    "qname hostname group owner job_name job_number account priority submission_time "
    "start_time end_time failed exit_status ru_wallclock ru_utime ru_stime ru_maxrss ru_ixrss "
    "ru_ismrss ru_idrss ru_isrss ru_minflt ru_majflt ru_nswap ru_inblock ru_oublock ru_msgsnd "
    "ru_msgrcv ru_nsignals ru_nvcsw ru_nivcsw project department granted_pe slots task_number "
    "cpu mem io category iow pe_taskid maxvmem arid ar_submission_time"
)
_LSF_FIRST = words(
    "eventType version eventTime job_id userId options numProcessors submitTime beginTime "
    "termTime startTime userName queue resReq dependCond preExecCmd fromHost cwd inFile "
    "outFile errFile jobFile"
)
_LSF_REST = words(
    "jStatus hostFactor jobName command ru_utime ru_stime ru_maxrss ru_ixrss ru_ismrss "
    "ru_idrss ru_isrss ru_minflt ru_majflt ru_nswap ru_inblock ru_oublock ru_ioch ru_msgsnd "
    "ru_msgrcv ru_nsignals ru_nvcsw ru_nivcsw ru_exutime mailUser projectName exitStatus "
    "maxNumProcessors loginShell timeEvent idx maxRMem maxRSwap inFileSpool commandSpool "
    "rsvId sla exceptMask additionalInfo exitInfo"
)
# lsbatch.h: why LSF ended a job.
_LSF_TERM = {
    1: "TERM_PREEMPT", 5: "TERM_RUNLIMIT", 6: "TERM_DEADLINE", 8: "TERM_FORCE_OWNER",
    9: "TERM_FORCE_ADMIN", 10: "TERM_REQUEUE_OWNER", 11: "TERM_REQUEUE_ADMIN",
    12: "TERM_CPULIMIT", 14: "TERM_OWNER", 15: "TERM_ADMIN", 16: "TERM_MEMLIMIT",
    19: "TERM_ZOMBIE", 20: "TERM_SWAP",
}  # fmt: skip


def native_kind(text: str) -> str | None:
    """Say which of these logs a text begins as.

    Examples
    --------
    >>> native_kind("01/31/2024 10:00:00;E;12.pbs;user=ann ctime=1")
    'pbs'
    >>> native_kind("a,b,c")
    """
    lines = [line for line in text.split("\n")[:40] if line.strip() and not line.startswith("#")]
    if not lines:
        return None
    if _PBS.match(lines[0]):
        return "pbs"
    if re.match(r'"(JOB_FINISH|EVENT_ADRSV_FINISH)" "[\d.]+" \d+ ', lines[0]):
        return "lsf"
    fields = lines[0].split(":")
    if len(fields) >= 43 and all(fields[i].lstrip("-").isdigit() for i in (5, 7, 8, 9, 10, 12)):
        return "sge"
    if re.match(r"={20,}$", lines[0].strip()) and any(
        line.startswith(("qname", "jobnumber", "hostname")) for line in lines[:4]
    ):
        return "qacct"
    ads = [line for line in lines if _AD.fullmatch(line.strip())]
    if len(ads) >= 0.9 * len(lines) and re.search(
        r"^(ClusterId|GlobalJobId|MyType) = ", text, re.M
    ):
        return "condor"
    return None


# -- PBS --------------------------------------------------------------------------------------


def _pbs(file: InputFile, build: Builder) -> Records:
    """Give E (ended) and R (rerun) records; jobs begun and never ended at last."""
    begun: dict[str, tuple[int, Record]] = {}
    for number, line in file.lines():
        if not line.strip():
            continue
        match = _PBS.fullmatch(line)
        if match is None:
            build.records_in += 1
            build.reject(file.name, number, "not date;type;id;text")
            continue
        kind, job, text = match[3], match[4], match[5]
        if kind == "S":
            if job in begun:  # begun anew without a word on its first run's end
                build.merged += 1
                build.records_in += 1
            begun[job] = (number, _pbs_record(job, text))
        elif kind in ("E", "R"):
            if begun.pop(job, None) is not None:
                build.merged += 1
                build.records_in += 1
            record = _pbs_record(job, text)
            if kind == "R":
                record["record_state"] = "rerun"
            yield number, record
        else:
            build.merged += 1
            build.records_in += 1
    for number, record in begun.values():
        record["record_state"] = "running"
        record.pop("Exit_status", None)
        yield number, record


def _pbs_record(job: str, text: str) -> Record:
    record: Record = {"id": job}
    for key, value in _PBS_PAIR.findall(text):
        if value[:1] in "\"'" and len(value) >= 2:
            value = value[1:-1]
        record.setdefault(key, value)
    return record


def _pbs_more(record: Record) -> Record:
    state = str(record.get("job_state") or "")
    ended = state == "E" and record.get("Exit_status") is not None
    if state in ("", "F", "C", "X") or ended:
        record["job_state"] = None
    hosts = record.get("exec_host")
    if isinstance(hosts, str) and hosts:
        record["host_first"] = re.split(r"[/*+:]", hosts.lstrip("("), maxsplit=1)[0]
    owner = record.get("Job_Owner")
    if isinstance(owner, str):
        record["Job_Owner"] = owner.partition("@")[0]
    nodes = record.get("Resource_List.nodes")
    if isinstance(nodes, str) and record.get("Resource_List.ncpus") is None:
        record["cores_from_nodes"] = _pbs_nodes(nodes)
    return record


def _pbs_nodes(text: str) -> int | None:
    """Count the cores of Torque's ``2:ppn=8+node7:ppn=4``."""
    total = 0
    for part in text.split("+"):
        words = part.split(":")
        count = int(words[0][:9]) if words[0].isdigit() and words[0].isascii() else 1
        ppn = [w[4:] for w in words[1:] if w.startswith("ppn=")]
        per = int(ppn[0][:9]) if ppn and ppn[0].isdigit() and ppn[0].isascii() else 1
        total += count * per
    return total or None


# -- LSF --------------------------------------------------------------------------------------


def _lsf(file: InputFile, build: Builder) -> Records:
    for number, line in file.lines():
        if not line.strip() or line.startswith("#"):
            continue
        try:
            fields = next(csv.reader([line], delimiter=" ", doublequote=True))
        except (csv.Error, StopIteration):
            fields = []
        record = _lsf_record([field for field in fields])
        if record is None:
            build.records_in += 1
            if fields and fields[0] != "JOB_FINISH" and fields[0].isupper():
                build.merged += 1  # other events are no jobs
            else:
                build.reject(file.name, number, "not a JOB_FINISH record")
            continue
        yield number, record


def _lsf_record(fields: list[str]) -> Record | None:
    if not fields or fields[0] != "JOB_FINISH" or len(fields) < len(_LSF_FIRST) + 2:
        return None
    record: Record = dict(zip(_LSF_FIRST, fields, strict=False))
    at = len(_LSF_FIRST)
    try:
        asked = int(fields[at])
        at += 1 + asked
        used = int(fields[at])
        hosts = fields[at + 1 : at + 1 + used]
        at += 1 + used
    except (ValueError, IndexError):
        return None
    if asked < 0 or used < 0 or len(fields) < at + 4:
        return None
    record.update(zip(_LSF_REST, fields[at:], strict=False))
    record["host_first"] = hosts[0].rpartition("*")[2] if hosts else None
    record["numExHosts"] = sum(_hosts(host) for host in hosts) or None
    for key, value in list(record.items()):
        if value in ("-1", "-1.000000"):
            record[key] = None
    for key in ("startTime", "submitTime", "eventTime", "maxRMem"):
        if record.get(key) == "0":
            record[key] = None
    index = record.get("idx")
    if index not in (None, "0", ""):
        record["job_id"] = f"{record['job_id']}[{index}]"
    _lsf_end(record)
    return record


def _hosts(text: str) -> int:
    count = text.partition("*")[0]
    return int(count[:9]) if "*" in text and count.isdigit() and count.isascii() else 1


def _lsf_end(record: Record) -> None:
    """Split the wait status; name the reason that LSF gives."""
    for key, table in (("exitStatus", None), ("exitInfo", _LSF_TERM)):
        try:
            value = int(str(record.get(key)))
        except ValueError:
            continue
        if table is not None:
            record["term_reason"] = table.get(value)
        elif 0 <= value < 1 << 16:
            record[key] = value >> 8 if value >> 8 else (128 + (value & 127) if value & 127 else 0)


def _lsf_more(record: Record) -> Record:
    if "job_id" in record and "idx_part" not in record:
        record["idx_part"] = ""
    reason = record.get("EXIT_REASON")
    if isinstance(reason, str) and reason.startswith("TERM_"):
        record["term_reason"] = reason.partition(":")[0].strip()
    return record


# -- Grid Engine ------------------------------------------------------------------------------


def _sge(file: InputFile, build: Builder) -> Records:
    for number, line in file.lines():
        if not line.strip() or line.startswith("#"):
            continue
        fields = line.split(":")
        if len(fields) < 43:
            build.records_in += 1
            build.reject(file.name, number, f"{len(fields)} fields, accounting has 43 or more")
            continue
        record: Record = dict(zip(_SGE_FIELDS, fields, strict=False))
        record["ru_maxrss_kib"] = record.pop("ru_maxrss")
        if record.get("pe_taskid") not in ("NONE", "", None):
            build.records_in += 1
            build.merged += 1  # a slave task: its job has a record of its own
            continue
        yield number, record


def _qacct(file: InputFile, build: Builder) -> Records:
    record: Record = {}
    start = 0
    for number, line in file.lines():
        if re.match(r"={20,}\s*$", line):
            if record:
                yield start, record
            record, start = {}, number
            continue
        key, _, value = line.strip().partition(" ")
        if not key or line.startswith("Total"):
            continue
        if not re.fullmatch(r"\w{1,60}", key):
            build.warn("a line that is no name and value is left out")
            continue
        record[key] = value.strip()
    if record:
        yield start, record


def _sge_more(record: Record) -> Record:
    for key in ("exit_status", "failed"):
        text = str(record.get(key) if record.get(key) is not None else "")
        match = re.match(r"\s*(-?\d{1,9})\s*[:(]?\s*(.*?)\)?\s*$", text)
        if match is None:
            continue
        record[key] = match[1]
        if key == "failed" and match[1] not in ("0", "100"):
            record["failed_code"], record["failed_text"] = match[1], match[2] or None
    task = str(record.get("taskid", record.get("task_number", "")) or "")
    record["task_part"] = task if task not in ("", "0", "undefined") else ""
    request = re.search(r"\bh_rt=(\d+)", str(record.get("category") or ""))
    if request:
        record["h_rt"] = request[1]
    for key in ("cpu", "iow", "ru_wallclock", "ru_utime", "ru_stime", "maxrss", "ru_maxrss"):
        value = record.get(key)
        if isinstance(value, str) and re.fullmatch(r"-?[\d.]+(?:e[+-]?\d+)?s", value):
            record[key] = value[:-1]
    for key in ("qsub_time", "start_time", "end_time", "submit_time"):
        if isinstance(record.get(key), str):
            record[key] = _sge_time(record[key])
    return record


def _sge_time(text: str) -> str | None:
    """Turn ``02/14/2022 08:15:45.123`` (newer qacct) into an ISO date; ``-/-`` is none."""
    match = re.fullmatch(r"(\d\d)/(\d\d)/(\d{4}) (\d\d:\d\d:\d\d(?:\.\d+)?)", text.strip())
    if match:
        return f"{match[3]}-{match[1]}-{match[2]} {match[4]}"
    return None if text.strip() in ("-/-", "") else text


# -- HTCondor ---------------------------------------------------------------------------------


def _condor(file: InputFile, build: Builder) -> Records:
    ad: Record = {}
    start = 0
    for number, line in file.lines():
        text = line.strip()
        if not text or text.startswith(("--", "***", "#")):
            if ad:
                yield start, ad
            ad = {}
            continue
        match = _AD.fullmatch(text)
        if match is None:
            build.warn("a line that is no attribute is left out")
            continue
        if not ad:
            start = number
        ad[match[1]] = _ad_value(match[2])
    if ad:
        yield start, ad


def _ad_value(text: str) -> Any:
    if text.lower() in ("undefined", "error"):
        return None
    if text[:1] == '"':
        try:
            return str(json.loads(text))
        except (ValueError, RecursionError):
            return text.strip('"')
    return text


def _condor_more(record: Record) -> Record:
    status = str(record.get("JobStatus"))
    if status == "4":
        record["JobStatus"] = None  # the exit code says how it ended
    if status not in ("3", "4"):
        record["EnteredCurrentStatus"] = None
    if str(record.get("CompletionDate")) == "0":
        record["CompletionDate"] = None
    reason = str(record.get("HoldReasonCode"))
    # 34: memory above the request; 46, 47: job and execution duration (manual, HoldReasonCode).
    record["hold_state"] = {"34": "oom", "46": "timeout", "47": "timeout"}.get(
        reason if status == "5" else ""
    )
    try:
        if int(float(str(record.get("NumJobStarts") or 0))) > 1:
            record["RemoteWallClockTime"] = None  # counts all runs together
    except (ValueError, OverflowError):
        pass
    if str(record.get("ExitBySignal")).lower() != "true":
        record["ExitSignal"] = None
    for key in ("RequestMemory", "RequestDisk", "RequestCpus", "MemoryUsage"):
        value = record.get(key)
        if isinstance(value, str) and not re.fullmatch(r"[\d.]+(?:[eE][+-]?\d+)?", value):
            record[key] = None  # an expression
    host = record.get("LastRemoteHost")
    if isinstance(host, str) and "@" in host:
        record["LastRemoteHost"] = host.rpartition("@")[2]
    return record


# -- workflow systems -------------------------------------------------------------------------


def _airflow_more(record: Record) -> Record:
    index = record.get("map_index")
    record["map_part"] = "" if index in (None, -1, "-1", "") else str(index)
    return record


def _prefect_more(record: Record) -> Record:
    """Gather the task runs that a task run waits for."""
    found = []
    for key, value in record.items():
        if key.startswith("task_inputs") and isinstance(value, str) and value[:1] in "[{":
            try:
                items = json.loads(value)
            except (ValueError, RecursionError):
                continue
            groups = items.values() if isinstance(items, dict) else [items]
            for group in groups:
                found += [
                    str(item["id"])
                    for item in (group if isinstance(group, list) else [])
                    if isinstance(item, dict) and item.get("id") and "task" in str(item)
                ]
    record["upstream_ids"] = json.dumps(sorted(set(found))) if found else None
    for key in ("state_name", "state.name"):
        if isinstance(record.get(key), str):
            record[key] = record[key].replace(" ", "")
    return record


NATIVE: dict[str, tuple[str, Callable[[InputFile, Builder], Records]]] = {
    "pbs": ("pbs", _pbs),
    "lsf": ("lsf", _lsf),
    "sge": ("sge", _sge),
    "qacct": ("sge", _qacct),
    "condor": ("htcondor", _condor),
}
"""Kind of log → (mapping, reader)."""

ENRICH: dict[str, Callable[[Record], Record]] = {
    "pbs": _pbs_more,
    "lsf": _lsf_more,
    "sge": _sge_more,
    "htcondor": _condor_more,
    "airflow": _airflow_more,
    "prefect": _prefect_more,
}
"""Mapping → what is worked out of a record before its columns are read."""
