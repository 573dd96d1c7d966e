"""Logs of batch systems that are tables with rules of their own.

PBS and Torque: :mod:`rotameter.adapters.importers._table_pbs`. LSF: ``lsb.acct``, fields in quotes
(lsb.acct(5)). Grid Engine: ``accounting(5)`` and the output of ``qacct -j``. HTCondor: ClassAds as
``condor_history -long`` prints them (HTCondor manual, "Job ClassAd Attributes").
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from rotameter.adapters.importers._table_cut import (
    CUT_ID,
    SHORTER,
    Peers,
    is_whole,
    lines_of,
    say_cut,
)
from rotameter.adapters.importers._table_ends import OPEN_END
from rotameter.adapters.importers._table_names import words
from rotameter.adapters.importers._table_pbs import PBS_LINE, pbs_more

if TYPE_CHECKING:
    from rotameter.adapters.importers._table_slaves import Slaves
    from rotameter.adapters.importers.building import Builder
    from rotameter.adapters.importers.inputs import InputFile

__all__ = ["ENRICH", "NATIVE", "READERS", "SGE_READERS", "native_kind"]

Record = dict[str, Any]
Records = Iterator[tuple[int, Record]]

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


# Keys of qacct with which a block begins, and those with which one may end.
_SGE_HEAD = frozenset(
    words("qname hostname group owner project department jobname jobnumber taskid")
)
_SGE_LAST = frozenset(words("maxvmem arid ar_sub_time category"))
_BINARY = re.compile(r"\s*([\d.]+)\s*([KMGTP])B\s*")
_AD_IDS = ("ClusterId", "ProcId", "GlobalJobId")


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
    if PBS_LINE.match(lines[0]):
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


# -- LSF --------------------------------------------------------------------------------------


def _lsf(file: InputFile, build: Builder) -> Records:
    usual = 0
    for number, line, is_open in lines_of(file):
        if not line.strip() or line.startswith("#"):
            continue
        try:
            fields = next(csv.reader([line], delimiter=" ", doublequote=True))
        except (csv.Error, StopIteration):
            fields = []
        record = _lsf_record([field for field in fields])
        if record is None:
            build.records_in += 1
            if fields and fields[0] != "JOB_FINISH" and fields[0].isupper() and not is_open:
                build.merged += 1  # other events are no jobs
            else:
                reason = CUT_ID if is_open else "not a JOB_FINISH record"
                build.reject(file.name, number, reason)
            continue
        if is_open and len(record["rest"]) != usual:
            whole = is_whole(line[line.rfind(' "') + 1 :]) if line.endswith('"') else False
            if not _lsf_cut(record, build, whole=whole):
                build.records_in += 1
                build.reject(file.name, number, CUT_ID)
                continue
        usual = len(record["rest"])
        yield number, _lsf_read(record)


def _lsf_cut(record: Record, build: Builder, *, whole: bool) -> bool:
    """Leave out the last value of a record that ends inside it; say whether its id is known."""
    there = [key for key in _LSF_REST if key in record]
    last = there[-1]
    if "idx" not in there or last == "idx":
        return False
    if len(record["rest"]) > len(_LSF_REST):  # nothing that is read
        return True
    job = f"job {record['job_id']}"
    say_cut(build, None if whole else last, job)
    if not whole:
        record[last] = None
    return True


def _lsf_record(fields: list[str]) -> Record | None:
    """Give a record's fields by name, as they stand; what follows a host list is ``rest``."""
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
    record["rest"] = fields[at:]
    record.update(zip(_LSF_REST, fields[at:], strict=False))
    record["host_first"] = hosts[0].rpartition("*")[2] if hosts else None
    record["numExHosts"] = sum(_hosts(host) for host in hosts) or None
    return record


def _lsf_read(record: Record) -> Record:
    """Put what a record's fields mean in their places."""
    del record["rest"]
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
    index = str(record.get("JOBINDEX") or "0")  # of a part of an array, whose JOBID is the array's
    if index != "0" and record.get("JOBID") and "[" not in str(record["JOBID"]):
        record["JOBID"] = f"{record['JOBID']}[{index}]"
    reason = record.get("EXIT_REASON")
    if isinstance(reason, str) and reason.startswith("TERM_"):
        record["term_reason"] = reason.partition(":")[0].strip()
    return record


# -- Grid Engine ------------------------------------------------------------------------------


def _sge(file: InputFile, build: Builder, slaves: Slaves) -> Records:
    for number, line, is_open in lines_of(file):
        if not line.strip() or line.startswith("#"):
            continue
        fields = line.split(":")
        if len(fields) < 43:
            build.records_in += 1
            why = f"{len(fields)} fields, accounting has 43 or more"
            why += ": the last line has no end, it is cut; copy the file again" if is_open else ""
            build.reject(file.name, number, why)
            continue
        record: Record = dict(zip(_SGE_FIELDS, fields, strict=False))
        record["ru_maxrss_kib"] = record.pop("ru_maxrss")
        if not slaves.is_slave(record, file.name, number):
            yield number, record


def _qacct(file: InputFile, build: Builder, slaves: Slaves) -> Records:
    record: Record = {}
    start = 0
    peers = Peers()
    for number, line, is_open in lines_of(file):
        if re.match(r"={20,}\s*$", line):
            if record:
                peers.see(*list(record.items())[-1])
                if not slaves.is_slave(record, file.name, start):
                    yield start, record
            record, start = {}, number
            continue
        key, _, value = line.strip().partition(" ")
        if not key or line.startswith("Total"):
            continue
        if not re.fullmatch(r"\w{1,60}", key):
            build.warn("a line that is no name and value is left out")
            continue
        value = value.strip()
        if is_open and not _sge_whole(record, key, value, peers, build):
            continue
        record[key] = value
    if not record:
        return
    last = list(record)[-1]
    if last in _SGE_HEAD and last != "taskid":
        build.records_in += 1
        build.reject(file.name, start, CUT_ID)
        return
    if peers.any and not peers.ends_with(last):
        build.warn(SHORTER)
    if not slaves.is_slave(record, file.name, start):
        yield start, record


def _sge_whole(record: Record, key: str, value: str, peers: Peers, build: Builder) -> bool:
    """Say whether a block's last line, one without an end, says something; warn if it is cut."""
    job = f"job {record.get('jobnumber')}"
    if not value or key in _SGE_HEAD:
        say_cut(build, None, job)
        return False
    if key in _SGE_LAST or peers.has(key, value):
        return True
    whole = is_whole(value)
    if not (whole and peers.ends_with(key)):
        say_cut(build, None if whole else key, job)
    return whole


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
    for key in ("ru_maxrss", "maxrss", "maxvmem", "maxpss"):  # its MB is 1024 times 1024 bytes
        match = _BINARY.fullmatch(str(record.get(key)))
        if match:
            record[key] = match[1] + match[2]
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
    peers = Peers()
    numbered = lost = False
    for number, line, is_open in lines_of(file):
        text = line.strip()
        if not text or text.startswith(("--", "***", "#")):
            if ad:
                numbered |= "ProcId" in ad
                last, value = list(ad.items())[-1]
                peers.see(last, str(value))
                yield start, ad
            ad = {}
            continue
        match = _AD.fullmatch(text)
        if match is None:
            build.warn(OPEN_END if is_open else "a line that is no attribute is left out")
            continue
        if not ad:
            start = number
        if is_open and not _ad_whole(ad, match[1], match[2], peers, build):
            lost = match[1] in _AD_IDS
            continue
        ad[match[1]] = _ad_value(match[2])
    # A last ad behind which no blank line stands may lack the second half of its id.
    half = numbered and not all(key in ad for key in _AD_IDS[:2])
    if lost or (ad and half):
        build.records_in += 1
        build.reject(file.name, start, CUT_ID)
    elif ad:
        yield start, ad


def _ad_whole(ad: Record, key: str, value: str, peers: Peers, build: Builder) -> bool:
    """Say whether the last line of ads, one without an end, can be used; warn if it is cut."""
    whole = is_whole(value)
    if key in _AD_IDS:
        return whole
    if peers.has(key, value):
        return True
    if not (whole and peers.ends_with(key)):
        say_cut(build, None if whole else key, f"job {ad.get('ClusterId')}.{ad.get('ProcId')}")
    return whole


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
    for key in ("RequestMemory", "RequestDisk", "RequestCpus", "MemoryUsage", "DiskUsage"):
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


NATIVE = {"pbs": "pbs", "lsf": "lsf", "sge": "sge", "qacct": "sge", "condor": "htcondor"}
"""Kind of log → mapping."""

READERS: dict[str, Callable[[InputFile, Builder], Records]] = {
    "lsf": _lsf,
    "condor": _condor,
}
"""Kind of log → reader of one file; those of PBS are read together, by a PbsLog."""

SGE_READERS = {"sge": _sge, "qacct": _qacct}
"""And those of Grid Engine, which hold a job's records against each other."""

ENRICH: dict[str, Callable[[Record], Record]] = {
    "pbs": pbs_more,
    "lsf": _lsf_more,
    "sge": _sge_more,
    "htcondor": _condor_more,
    "airflow": _airflow_more,
    "prefect": _prefect_more,
}
"""Mapping → what is worked out of a record before its columns are read."""
