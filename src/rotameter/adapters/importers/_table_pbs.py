"""Accounting logs of PBS Professional, OpenPBS and Torque: ``date;type;id;key=value …``.

PBS Administrator's Guide, "Accounting". A log has a file for each day, so that a job may begin in
one and end in another.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from rotameter.adapters.importers._table_cut import CUT_ID, Peers, is_whole, lines_of, say_cut

if TYPE_CHECKING:
    from rotameter.adapters.importers.building import Builder
    from rotameter.adapters.importers.inputs import InputFile

__all__ = ["PBS_LINE", "PbsLog", "pbs_more"]

Record = dict[str, Any]
Records = Iterator[tuple[int, Record]]
Begun = tuple[int, Record, float | None]

PBS_LINE = re.compile(r"(\d\d/\d\d/\d{4}) (\d\d:\d\d:\d\d);([A-Za-z]{1,2});([^;]*);(.*)", re.S)
_PAIR = re.compile(r"([A-Za-z_][\w.\-]*)=(\"[^\"]*\"|'[^']*'|\S*)")
_ZONES_S = 900  # every zone is so many seconds from the next
_OVER = {"D": "deleted", "A": "aborted"}
_LAST = frozenset(("run_count",))  # PBS Professional writes no more behind it
# pbs_job.h of Torque; the same numbers mean other things in PBS Professional.
_TORQUE_KILLS = {"-10": "oom", "-11": "timeout", "-12": "timeout"}
_TORQUE = ("owner", "Resource_List.neednodes", "unique_node_count", "total_execution_slots")
_PROFESSIONAL = (
    "exec_vnode", "run_count", "project", "Resource_List.select", "Resource_List.place",
    "resources_used.ncpus", "resources_used.cpupercent",
)  # fmt: skip
_UNCLEAR = (
    "Exit_status {} is a limit exceeded in Torque and something else in PBS Professional, and "
    "nothing shows which wrote it: failed"
)


class PbsLog:
    """Reads the accounting logs of one import, in whose files jobs begin and end."""

    def __init__(self) -> None:
        self._open: dict[str, Begun] = {}  # begun in a file before, and not ended there
        self._over: dict[str, tuple[float, str]] = {}  # deleted or aborted, by the local clock

    def read(self, file: InputFile, build: Builder) -> Records:
        """Give E (ended) and R (rerun) records; jobs begun and not ended at last."""
        begun: dict[str, Begun] = {}
        late: dict[str, tuple[int, float, str]] = {}
        peers: dict[str, Peers] = {}
        for number, line, is_open in lines_of(file):
            if not line.strip():
                continue
            match = PBS_LINE.fullmatch(line)
            if match is None:
                build.records_in += 1
                build.reject(file.name, number, CUT_ID if is_open else "not date;type;id;text")
                continue
            kind, job, at_s = match[3], match[4], _clock_s(match[1], match[2])
            if kind not in ("S", "E", "R"):
                held = kind in _OVER and at_s is not None
                if held and at_s is not None:
                    self._over[job] = at_s, _OVER[kind]
                new = job in self._open and job not in begun and job not in late
                if held and at_s is not None and new:
                    late[job] = number, at_s, _OVER[kind]
                else:
                    _merged(build)
                continue
            record = _record(job, match[5], peers.setdefault(kind, Peers()), build, is_open=is_open)
            if record is None:
                build.records_in += 1
                build.reject(file.name, number, CUT_ID)
            elif kind == "S":
                if job in begun:  # begun anew without a word on its first run's end
                    _merged(build)
                begun[job] = number, record, at_s
            else:
                self._open.pop(job, None)
                for told in (begun, late):
                    if told.pop(job, None) is not None:
                        _merged(build)
                if kind == "R":
                    record["record_state"] = "rerun"
                _say_unclear(record, build)
                yield number, record
        for job, (number, at_s, state) in late.items():
            yield number, _ended(self._open.pop(job), at_s, state)
        yield from self._left(begun)

    def _left(self, begun: dict[str, Begun]) -> Records:
        """Give the jobs of which a file says no end: these run, unless they were taken out."""
        for job, held in begun.items():
            number, record, at_s = held
            over = self._over.get(job)
            if over is not None and at_s is not None and over[0] >= at_s:
                yield number, _ended(held, *over)
                continue
            self._open[job] = held
            record = {**record, "record_state": "running"}
            record.pop("Exit_status", None)
            yield number, record


def _merged(build: Builder) -> None:
    build.merged += 1
    build.records_in += 1


def _clock_s(date: str, time: str) -> float | None:
    """Give seconds since 1970 by the log's own clock, whose zone is not known."""
    try:
        at = datetime.strptime(f"{date} {time}", "%m/%d/%Y %H:%M:%S")
    except ValueError:
        return None
    return at.replace(tzinfo=UTC).timestamp()


def _ended(held: Begun, over_s: float, state: str) -> Record:
    """Give the record of a job that a later one, of the log's own clock, took out.

    The record of the start has both that clock and seconds since 1970: the zone lies between.
    """
    _, record, at_s = held
    record = {**record, "record_state": state}
    record.pop("Exit_status", None)
    start = str(record.get("start"))
    if at_s is not None and re.fullmatch(r"\d{1,11}", start, re.A):
        zone_s = round((at_s - int(start)) / _ZONES_S) * _ZONES_S
        if over_s - zone_s >= int(start):
            record["end"] = str(int(over_s - zone_s))
    return record


def _record(job: str, text: str, peers: Peers, build: Builder, *, is_open: bool) -> Record | None:
    """Give a record's values; None of one that ends before it says anything."""
    record: Record = {"id": job}
    pairs = _PAIR.findall(text)
    if is_open:
        if not pairs:
            return None
        key, value = pairs[-1]
        inside = text.endswith(f"{key}={value}")
        whole = key in _LAST or is_whole(value) or peers.has(key, value)
        if inside and not whole:
            say_cut(build, key, f"job {job}")
            pairs.pop()
        elif key not in _LAST and not peers.ends_with(key):
            say_cut(build, None, job)
    elif pairs:
        peers.see(*pairs[-1])
    for key, value in pairs:
        if value[:1] in "\"'" and len(value) >= 2:
            value = value[1:-1]
        record.setdefault(key, value)
    return record


def _is_torque(record: Record) -> bool | None:
    """Say which of the two wrote a record; None if it does not show."""
    if any(record.get(key) is not None for key in _PROFESSIONAL):
        return False
    nodes = record.get("Resource_List.nodes")
    torque = any(record.get(key) is not None for key in _TORQUE)
    return True if torque or (isinstance(nodes, str) and "ppn=" in nodes) else None


def _say_unclear(record: Record, build: Builder) -> None:
    status = str(record.get("Exit_status"))
    if status in _TORQUE_KILLS and _is_torque(record) is None:
        build.warn(_UNCLEAR.format(status))


def pbs_more(record: Record) -> Record:
    """Complete a record: its state, host, owner, cores, and what Torque's own codes mean.

    Examples
    --------
    >>> record = pbs_more({"Exit_status": "-11", "Resource_List.nodes": "2:ppn=4"})
    >>> record["kill_state"], record["cores_from_nodes"]
    ('timeout', 8)
    """
    state = str(record.get("job_state") or "")
    status = record.get("Exit_status")
    ended = state == "E" and status is not None
    if state in ("", "F", "C", "X") or ended:
        record["job_state"] = None
    torque = str(status) in _TORQUE_KILLS and _is_torque(record)
    record["kill_state"] = _TORQUE_KILLS[str(status)] if torque else None
    hosts = record.get("exec_host")
    if isinstance(hosts, str) and hosts:
        record["host_first"] = re.split(r"[/*+:]", hosts.lstrip("("), maxsplit=1)[0]
    owner = record.get("Job_Owner")
    if isinstance(owner, str):
        record["Job_Owner"] = owner.partition("@")[0]
    nodes = record.get("Resource_List.nodes")
    if isinstance(nodes, str) and record.get("Resource_List.ncpus") is None:
        record["cores_from_nodes"] = _nodes(nodes)
    return record


def _nodes(text: str) -> int | None:
    """Count the cores of Torque's ``2:ppn=8+node7:ppn=4``."""
    total = 0
    for part in text.split("+"):
        words = part.split(":")
        count = int(words[0][:9]) if words[0].isdigit() and words[0].isascii() else 1
        ppn = [w[4:] for w in words[1:] if w.startswith("ppn=")]
        per = int(ppn[0][:9]) if ppn and ppn[0].isdigit() and ppn[0].isascii() else 1
        total += count * per
    return total or None
