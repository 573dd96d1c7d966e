"""WfFormat 1.5: a trace as a workflow instance of WfCommons.

The format: https://github.com/wfcommons/WfFormat (version 1.5). It has one execution a task, no
outcomes and a narrow alphabet for names; what does not fit is said in a `TraceWarning`, and names
are kept beside their spelling in ``rotameterId``, so that importing gives them back.
"""

from __future__ import annotations

import json
import math
import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from rotameter import __version__
from rotameter.adapters.exporters._writing import Written
from rotameter.adapters.importers._wfformat_parse import cpu_s, joules
from rotameter.errors import EmptyTrace, TraceWarning
from rotameter.profiler.whole_file import write_whole
from rotameter.units import many

if TYPE_CHECKING:
    from rotameter.profiler.trace import Trace

__all__ = ["Exporter"]

Row = dict[str, Any]
_TASK_NAME = re.compile(r"[^0-9a-zA-Z\-_.#]")
_FILE_NAME = re.compile(r"[^0-9a-zA-Z\-_./:#]")
_BOUNDS = ("lower_bound", "upper_bound", "missing")
_SYSTEMS = ("linux", "macos", "windows")
_COLUMNS = (
    *("task_id", "attempt", "group", "host", "worker", "outcome", "priority"),
    *("submitted_ns", "started_ns", "ended_ns", "wall_s", "cpu_s", "energy_j", "energy_quality"),
    *(
        "peak_memory_bytes",
        "peak_memory_kind",
        "read_bytes",
        "write_bytes",
        "requested_cores",
        "granted_cores",
    ),
)


class Exporter:
    """Writes WfFormat 1.5."""

    name = "wfformat"

    def __init__(self) -> None:
        self.written: Written | None = None

    def write(self, trace: Trace, path: str, **options: Any) -> None:
        """Write the trace as one document.

        Parameters
        ----------
        trace : Trace
        path : str
            The JSON file to write.
        **options
            ``name``: the workflow's name.

        Warns
        -----
        TraceWarning
            For each kind of fact that the format cannot hold.

        Raises
        ------
        EmptyTrace
            If the trace has no tasks: the format wants one at least.
        """
        said: list[str] = []
        data = document(trace, said.append, name=options.get("name"))
        text = json.dumps(data, indent=1, ensure_ascii=True, allow_nan=False)
        write_whole(path, text + "\n")
        tasks = len(data["workflow"]["specification"]["tasks"])
        self.written = Written(tasks, trace.table("tasks").num_rows)
        for words in said:
            warnings.warn(words, TraceWarning, stacklevel=2)


def document(trace: Trace, warn: Callable[[str], None], *, name: str | None = None) -> Row:
    """Give the document as plain data.

    Parameters
    ----------
    trace : Trace
    warn : callable
        Called with each thing that the format cannot hold.
    name : str, optional
        The workflow's name; by default what the trace calls it.

    Examples
    --------
    >>> from rotameter.profiler.trace import Trace
    >>> row = {"task_id": "a", "outcome": "ok", "wall_s": 2.0}
    >>> made = document(Trace.from_tables({"tasks": [row]}), [].append)
    >>> made["workflow"]["execution"]["tasks"]
    [{'id': 'a', 'runtimeInSeconds': 2.0}]
    """
    rows = _last_attempts(trace, warn)
    if not rows:
        raise EmptyTrace("the trace has no tasks: WfFormat wants one at least")
    meta = trace.meta
    tasks = _spelled((row["task_id"] for row in rows), _TASK_NAME, "task")
    flows = _flows(trace, warn)
    used = [row["object"] for row in flows]
    sizes = {row["object"]: row["size_bytes"] for row in trace.table("objects").to_pylist()}
    listed = [name for name in sizes if name is not None]
    files = _spelled([*listed, *used], _FILE_NAME, "file")
    data: Row = {
        "name": _word(name) or _word(meta.get("workflow")) or "workflow",
        "description": f"Written by rotameter {__version__} from a trace of {_engine(meta)}",
    }
    if _word(meta.get("created_at")):
        data["createdAt"] = meta["created_at"]
    system = {
        "name": _word(meta.get("runtime_system")) or _engine(meta),
        "version": _word(meta.get("runtime_system_version")) or "unknown",
    }
    specification = {
        "tasks": _specified(rows, trace, tasks, flows, files, warn),
        "files": _files(flows, sizes, files),
    }
    flow: Row = {"specification": specification}
    execution = _execution(rows, trace, tasks, warn)
    if execution is not None:
        flow["execution"] = execution
    return {**data, "schemaVersion": "1.5", "runtimeSystem": system, "workflow": flow}


def _word(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _engine(meta: Mapping[str, Any]) -> str:
    return _word(meta.get("engine")) or "unknown"


def _last_attempts(trace: Trace, warn: Callable[[str], None]) -> list[Row]:
    table = trace.table("tasks")
    last: dict[str, Row] = {}
    for row in table.select(list(_COLUMNS)).to_pylist():
        row["task_id"] = row["task_id"] if row["task_id"] is not None else "unnamed"
        before = last.get(row["task_id"])
        if before is None or _age(row) >= _age(before):
            last[row["task_id"]] = row
    left = table.num_rows - len(last)
    if left:
        what = many(left, "earlier attempt is", "earlier attempts are")
        warn(f"{what} left out: WfFormat has one execution a task, the last")
    bad = Counter(row["outcome"] for row in last.values() if row["outcome"] not in ("ok", None))
    if bad:
        told = ", ".join(f"{name} ({count:,})" for name, count in sorted(bad.items()))
        warn(f"WfFormat has no outcomes, these are not in it: {told}")
    return list(last.values())


def _age(row: Row) -> tuple[int, int]:
    start = row["started_ns"]
    return (row["attempt"] or 0, -1 if start is None else start)


# -- names ------------------------------------------------------------------------------------


def _spelled(given: Iterable[str | None], bad: re.Pattern[str], kind: str) -> dict[str, str]:
    """Give each name a spelling that the schema allows; those that are fine keep theirs.

    Examples
    --------
    >>> _spelled(["a", "(x, 1)", "(x; 1)"], _TASK_NAME, "task")
    {'a': 'a', '(x, 1)': '_x__1_', '(x; 1)': '_x__1_#2'}
    """
    unique = dict.fromkeys(name for name in given if name is not None)
    made = {name: name for name in unique if name and not bad.search(name)}
    taken = set(made.values())
    for name in unique:
        if name in made:
            continue
        spelling = bad.sub("_", name) or kind
        count, final = 1, spelling
        while final in taken:
            count += 1
            final = f"{spelling}#{count}"
        taken.add(final)
        made[name] = final
    return {name: made[name] for name in unique}


def _kept(name: str, spelling: str) -> Row:
    return {} if name == spelling else {"rotameterId": name}


# -- specification ------------------------------------------------------------------------------


def _flows(trace: Trace, warn: Callable[[str], None]) -> list[Row]:
    columns = ["task_id", "object", "medium", "op", "footprint_bytes"]
    rows = trace.table("flows").select(columns).to_pylist()
    files = [r for r in rows if r["medium"] in ("file", "object_store") and r["object"] is not None]
    kept = [r for r in files if r["op"] in ("read", "write")]
    if len(kept) < len(rows):
        warn(f"{len(rows) - len(kept):,} flows are not reads or writes of files: left out")
    return kept


def _files(
    flows: list[Row], sizes: Mapping[str, int | None], files: Mapping[str, str]
) -> list[Row]:
    """Give the files whose size is known: the format has no word for an unknown one."""
    known: dict[str, int] = {name: size for name, size in sizes.items() if size is not None}
    for row in flows:
        size = row["footprint_bytes"]
        if size is not None and sizes.get(row["object"]) is None:
            known[row["object"]] = max(size, known.get(row["object"], 0))
    return [
        {"id": spelling, "sizeInBytes": known[name], **_kept(name, spelling)}
        for name, spelling in files.items()
        if name in known and known[name] >= 0
    ]


def _specified(
    rows: list[Row],
    trace: Trace,
    tasks: Mapping[str, str],
    flows: list[Row],
    files: Mapping[str, str],
    warn: Callable[[str], None],
) -> list[Row]:
    parents: dict[str, dict[str, None]] = {name: {} for name in tasks}
    children: dict[str, dict[str, None]] = {name: {} for name in tasks}
    outside = 0
    for edge in trace.table("deps").to_pylist():
        task, on = edge["task_id"], edge["depends_on"]
        if task not in tasks or on not in tasks:
            outside += 1
            continue
        parents[task][tasks[on]] = None
        children[on][tasks[task]] = None
    if outside:
        what = many(outside, "dependency", "dependencies")
        warn(f"left out: {what} on tasks that have no attempt")
    sides: dict[str, dict[str, dict[str, None]]] = {
        op: {name: {} for name in tasks} for op in ("read", "write")
    }
    for row in flows:
        if row["task_id"] in tasks:
            sides[row["op"]][row["task_id"]][files[row["object"]]] = None
    made = []
    for row in rows:
        name = row["task_id"]
        one = {
            "name": row["group"] or tasks[name],
            "id": tasks[name],
            "parents": list(parents[name]),
            "children": list(children[name]),
            "inputFiles": list(sides["read"][name]),
            "outputFiles": list(sides["write"][name]),
        }
        if row["group"]:
            one["category"] = row["group"]
        made.append({**one, **_kept(name, tasks[name])})
    return made


# -- execution ----------------------------------------------------------------------------------


def _execution(
    rows: list[Row], trace: Trace, tasks: Mapping[str, str], warn: Callable[[str], None]
) -> Row | None:
    walls = {row["task_id"]: _wall(row) for row in rows}
    ran = [row for row in rows if walls[row["task_id"]] is not None]
    if len(ran) < len(rows):
        what = many(len(rows) - len(ran), "task has", "tasks have")
        warn(f"{what} no known duration: specified, not executed")
    if not ran:
        return None
    _say_bounds(ran, warn)
    zone = "" if trace.meta.get("time_base") == "relative_ns" else "Z"
    hosts_of = trace.meta.get("hosts_of")
    several: Mapping[str, Any] = hosts_of if isinstance(hosts_of, dict) else {}
    executed = [
        _executed(row, walls[row["task_id"]] or 0.0, tasks, zone, several.get(row["task_id"]))
        for row in ran
    ]
    machines = _machines(trace, {name for one in executed for name in one.get("machines", ())})
    run: Row = {
        "makespanInSeconds": _makespan(trace, ran, walls, warn),
        "executedAt": _executed_at(trace, ran, zone),
        "tasks": executed,
    }
    if machines:
        run["machines"] = machines
    return run


def _bounded(row: Row) -> bool:
    """Say whether the peak is no measurement: the format has no word for a bound."""
    return row["peak_memory_kind"] in _BOUNDS


def _say_bounds(ran: list[Row], warn: Callable[[str], None]) -> None:
    left = sum(_bounded(row) and row["peak_memory_bytes"] is not None for row in ran)
    if left:
        warn(
            "tasks with no more than a bound of their memory, such as a request that was not "
            f"enough: {left:,}; memoryInBytes is left out, it is for measurements"
        )


def _wall(row: Row) -> float | None:
    if row["wall_s"] is None and row["started_ns"] is not None and row["ended_ns"] is not None:
        return float(row["ended_ns"] - row["started_ns"]) / 1e9
    wall = row["wall_s"]
    return float(wall) if wall is not None and math.isfinite(wall) else None


def _executed(row: Row, wall: float, tasks: Mapping[str, str], zone: str, hosts: Any) -> Row:
    one: Row = {"id": tasks[row["task_id"]], "runtimeInSeconds": wall}
    if row["started_ns"] is not None:
        one["executedAt"] = _iso(row["started_ns"], zone)
    cores = row["requested_cores"] if row["requested_cores"] is not None else row["granted_cores"]
    host = row["host"] or row["worker"]
    energy = row["energy_j"]
    kwh = energy if row["energy_quality"] != "estimate" else None
    fields = {
        "coreCount": cores if cores is not None and 1 <= cores < math.inf else None,
        "avgCPU": _inverse(row["cpu_s"], lambda x: cpu_s(x, wall), 100 / wall if wall else None),
        "readBytes": row["read_bytes"],
        "writtenBytes": row["write_bytes"],
        "memoryInBytes": None if _bounded(row) else row["peak_memory_bytes"],
        "energyInKWh": _inverse(kwh, joules, 1 / joules(1.0)),
        "priority": row["priority"],
        "machines": hosts if isinstance(hosts, list) and hosts else [host] if host else None,
    }
    if energy is not None and kwh is None and wall:
        fields["avgPowerInW"] = _inverse(energy, lambda x: round(x * wall, 6), 1 / wall)
    return {**one, **{k: v for k, v in fields.items() if v is not None and v != math.inf}}


def _inverse(
    value: float | None, back: Callable[[float], float], factor: float | None
) -> float | None:
    """Find the shortest number that ``back`` turns into the value again.

    Examples
    --------
    >>> _inverse(50.76, lambda x: x / 100 * 94.0, 100 / 94.0)
    54.0
    """
    if value is None or factor is None or not math.isfinite(value * factor):
        return None
    near = value * factor
    for digits in range(2, 15):
        short = round(near, digits)
        if back(short) == value:
            return short
    low = high = near
    for _ in range(8):
        for candidate in (low, high):
            if back(candidate) == value:
                return candidate
        low, high = math.nextafter(low, -math.inf), math.nextafter(high, math.inf)
    return near


def _iso(at_ns: int, zone: str) -> str:
    seconds, rest = divmod(at_ns, 10**9)
    try:
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
    except OverflowError:
        return "unknown"
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{rest:09d}{zone}"


def _executed_at(trace: Trace, ran: list[Row], zone: str) -> str:
    recorded = _word(trace.meta.get("executed_at"))
    if recorded:
        return recorded
    starts = [row["started_ns"] for row in ran if row["started_ns"] is not None]
    return _iso(min(starts), zone) if starts and zone else "unknown"


def _makespan(
    trace: Trace,
    ran: list[Row],
    walls: Mapping[str, float | None],
    warn: Callable[[str], None],
) -> float:
    """Give the recorded makespan, else first to last instant, else the longest chain."""
    recorded = trace.meta.get("makespan_s")
    if isinstance(recorded, (int, float)) and math.isfinite(recorded):
        return recorded
    ends = [row["ended_ns"] for row in ran if row["ended_ns"] is not None]
    starts = [
        row[name] for row in ran for name in ("submitted_ns", "started_ns") if row[name] is not None
    ]
    if starts and ends and max(ends) >= min(starts):
        return float(max(ends) - min(starts)) / 1e9
    warn("the makespan is not known: the longest chain of tasks stands for it, a lower bound")
    return _longest_chain(trace, walls)


def _longest_chain(trace: Trace, walls: Mapping[str, float | None]) -> float:
    waits = dict.fromkeys(walls, 0)
    after: dict[str, list[str]] = {}
    for edge in trace.table("deps").to_pylist():
        if edge["task_id"] in walls and edge["depends_on"] in walls:
            waits[edge["task_id"]] += 1
            after.setdefault(edge["depends_on"], []).append(edge["task_id"])
    free = [name for name, count in waits.items() if not count]
    end = {name: walls[name] or 0.0 for name in walls}
    while free:
        name = free.pop()
        for task in after.get(name, ()):
            end[task] = max(end[task], end[name] + (walls[task] or 0.0))
            waits[task] -= 1
            if not waits[task]:
                free.append(task)
    return max(end.values())


def _machines(trace: Trace, used: set[str]) -> list[Row]:
    listed = trace.meta.get("machines")
    known: dict[str, Row] = {}
    for machine in listed if isinstance(listed, list) else []:
        if isinstance(machine, dict) and _word(machine.get("host")):
            known[machine["host"]] = dict(machine)
    for row in trace.table("workers").to_pylist():
        host = row["host"] or row["worker"]
        if host and host not in known:
            known[host] = {"host": host, "cores": row["cores"], "memory_bytes": row["memory_bytes"]}
    for host in sorted(used - set(known)):
        known[host] = {"host": host}
    return [_machine(machine) for machine in known.values()]


def _machine(machine: Mapping[str, Any]) -> Row:
    cpu = {
        "vendor": _word(machine.get("vendor")),
        "coreCount": _positive(machine.get("cores")),
        "speedInMHz": _positive(machine.get("speed_mhz")),
    }
    system = machine.get("system")
    made: Row = {
        "nodeName": machine["host"],
        "system": system if system in _SYSTEMS else None,
        "architecture": _word(machine.get("architecture")),
        "release": _word(machine.get("release")),
        "memoryInBytes": _positive(machine.get("memory_bytes")),
        "cpu": {key: value for key, value in cpu.items() if value is not None} or None,
    }
    return {key: value for key, value in made.items() if value is not None}


def _positive(value: Any) -> int | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 1 <= value < 2**62:
        return None
    return int(value)
