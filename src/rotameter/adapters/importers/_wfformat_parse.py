"""WfFormat documents of all versions as one plain form, in bytes and seconds.

Three layouts: ``workflow.jobs`` (1.0 to 1.2), ``workflow.tasks`` (1.3, 1.4) and
``workflow.specification`` beside ``workflow.execution`` (1.5). Field names and units follow the
schemas of https://github.com/wfcommons/WfFormat; a kilobyte is 1000 bytes, as in the instances
that the project itself converted from 1.2 to 1.4.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = [
    "KB",
    "Document",
    "Job",
    "Slim",
    "amount",
    "cpu_s",
    "document",
    "execution_times",
    "joules",
]

KB = 1000
_LIMIT = 2**62
_JOULES = 3.6e6
_US_DATE = re.compile(r"(\d\d)-(\d\d)-(\d\d)T(.+)")
_COMPACT = re.compile(r"(\d{4})(\d\d)(\d\d)T(\d\d):?(\d\d):?(\d\d)(.*)")

Warn = Callable[[str], None]
Refuse = Callable[[str], None]


@dataclass(slots=True)
class Job:
    """One task as the document has it; None is unknown."""

    name: str
    id: str
    category: str | None = None
    program: str | None = None
    parents: list[str] = field(default_factory=list)
    children: list[str] = field(default_factory=list)
    inputs: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    original: str | None = None
    runs: list[dict[str, Any]] = field(default_factory=list)


@dataclass
class Document:
    """One workflow: its jobs, the sizes of its files, its machines, and facts about it."""

    source: str
    stem: str
    version: str | None
    jobs: list[Job] = field(default_factory=list)
    sizes: dict[str, int] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)
    machines: list[dict[str, Any]] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)
    named_by_id: bool = False
    records: int = 0


# All that is read below; the rest (arguments of commands, above all) can go at once.
_READ = frozenset(
    "workflow schemaVersion specification execution tasks jobs machines runtimeSystem wms name "  # noqa: SIM905
    "createdAt executedAt makespanInSeconds makespan version id category command program parents "
    "children files link path sizeInBytes size rotameterId inputFiles outputFiles runtimeInSeconds "
    "runtime avgCPU energyInKWh energy avgPowerInW avgPower machine memoryInBytes memory readBytes "
    "bytesRead writtenBytes bytesWritten coreCount cores priority cpu nodeName system architecture "
    "release speedInMHz speed count vendor".split()
)


class Slim:
    """Keeps of each JSON object what is read, and each text once: most names come many times.

    Examples
    --------
    >>> slim = Slim()
    >>> one, other = slim({"id": "a b", "arguments": ["-x"]}), slim({"parents": ["a " + "b"]})
    >>> one, other["parents"][0] is one["id"]
    ({'id': 'a b'}, True)
    """

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def __call__(self, found: dict[str, Any]) -> dict[str, Any]:
        once = self._texts.setdefault
        made: dict[str, Any] = {}
        for key, value in found.items():
            if key not in _READ:
                continue
            if type(value) is str:
                value = once(value, value)
            elif type(value) is list and value and type(value[0]) is str:
                value = [once(one, one) if type(one) is str else one for one in value]
            made[key] = value
        return made


def amount(value: Any, scale: float = 1.0, *, low: float = 0.0) -> float | None:
    """Read a number that counts something: finite and not below ``low``, else None.

    Examples
    --------
    >>> amount("2.5"), amount(3, 1000), amount(-1), amount(float("nan")), amount(True)
    (2.5, 3000.0, None, None, None)
    """
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        number = float(value) * scale
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) and low <= number < _LIMIT else None


def whole(value: Any, scale: float = 1.0) -> int | None:
    """Read a number of bytes; whole numbers stay exact.

    Examples
    --------
    >>> whole(2**60 + 1) == 2**60 + 1, whole(324392, 1000), whole("x")
    (True, 324392000, None)
    """
    if isinstance(value, int) and not isinstance(value, bool) and scale == int(scale):
        exact = value * int(scale)
        return exact if 0 <= exact < _LIMIT else None
    number = amount(value, scale)
    return None if number is None else round(number)


def text(value: Any) -> str | None:
    """Give a name: a text that is not empty, or a whole number as one."""
    if isinstance(value, str):
        return value or None
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return None


def items(value: Any) -> list[Any]:
    """Give a list, or nothing."""
    return value if isinstance(value, list) else []


def mapping(value: Any) -> Mapping[str, Any]:
    """Give an object, or nothing."""
    return value if isinstance(value, dict) else {}


def names(value: Any) -> list[str]:
    """Give the names in a list, each once."""
    return list(dict.fromkeys(n for n in map(text, items(value)) if n is not None))


def document(
    data: Mapping[str, Any], source: str, stem: str, file_scale: int, warn: Warn, refuse: Refuse
) -> Document:
    """Read one document; what is no task goes to ``refuse``."""
    flow = mapping(data.get("workflow"))
    doc = Document(source, stem, text(data.get("schemaVersion")))
    split = isinstance(flow.get("specification"), dict)
    run = mapping(flow.get("execution")) if split else flow
    if split:
        _split_jobs(doc, mapping(flow["specification"]), run, warn, refuse)
    else:
        listed = flow.get("tasks") if isinstance(flow.get("tasks"), list) else flow.get("jobs")
        _joined_jobs(doc, items(listed), file_scale, warn, refuse)
    doc.machines = [m for m in map(_machine, items(run.get("machines"))) if m]
    system = mapping(data.get("runtimeSystem") or data.get("wms"))
    facts = {
        "workflow": text(data.get("name")),
        "schema_version": doc.version,
        "created_at": text(data.get("createdAt")),
        "executed_at": text(run.get("executedAt")),
        # Instances without a measured one carry 0.
        "makespan_s": amount(run.get("makespanInSeconds", run.get("makespan"))) or None,
        "runtime_system": text(system.get("name")),
        "runtime_system_version": text(system.get("version")),
    }
    doc.facts = {key: value for key, value in facts.items() if value is not None}
    return doc


# -- 1.0 to 1.4: one list -------------------------------------------------------------------------


def _joined_jobs(
    doc: Document, listed: list[Any], file_scale: int, warn: Warn, refuse: Refuse
) -> None:
    doc.records += len(listed)
    seen: set[str] = set()
    for number, item in enumerate(listed, start=1):
        name = text(item.get("name")) if isinstance(item, dict) else None
        key = (text(item.get("id")) if isinstance(item, dict) else None) or name
        if key is None:
            refuse(f"task {number} of the list has neither id nor name")
            continue
        if key in seen:
            refuse(f"task {number} of the list repeats the id {key[:80]!r}")
            continue
        seen.add(key)
        command = mapping(item.get("command"))
        job = Job(
            name or key,
            key,
            text(item.get("category")),
            text(command.get("program")),
            names(item.get("parents")),
            names(item.get("children")),
        )
        _files(doc, job, items(item.get("files")), file_scale, warn)
        job.runs.append(_run(item, warn))
        doc.jobs.append(job)


def _files(doc: Document, job: Job, listed: list[Any], file_scale: int, warn: Warn) -> None:
    for item in listed:
        one = mapping(item)
        name = text(one.get("name"))
        side = {"input": job.inputs, "output": job.outputs}.get(str(one.get("link")))
        if name is None or side is None:
            warn("a file without a name or a direction is left out")
            continue
        name = (text(one.get("path")) or "") + name
        if name not in side:
            side.append(name)
        size = whole(one.get("sizeInBytes"))
        if size is None and "size" in one:
            size = whole(one["size"], file_scale)
            if file_scale == 1:
                warn(
                    "sizes of files are read as bytes, as published instances have them; the "
                    "schema of this version says KB: --opt file_size=KB if yours are"
                )
        _size(doc, name, size, warn)


def _size(doc: Document, name: str, size: int | None, warn: Warn) -> None:
    if size is None:
        return
    if doc.sizes.setdefault(name, size) != size:
        warn("a file is listed with several sizes: the largest is kept")
        doc.sizes[name] = max(doc.sizes[name], size)


# -- 1.5: specification and execution -------------------------------------------------------------


def _split_jobs(
    doc: Document,
    specification: Mapping[str, Any],
    execution: Mapping[str, Any],
    warn: Warn,
    refuse: Refuse,
) -> None:
    doc.named_by_id = True
    by_id: dict[str, Job] = {}
    planned, done = items(specification.get("tasks")), items(execution.get("tasks"))
    doc.records += len(planned)
    for number, item in enumerate(planned, start=1):
        one = mapping(item)
        key = text(one.get("id")) or text(one.get("name"))
        if key is None or key in by_id:
            why = "has neither id nor name" if key is None else f"repeats the id {key[:80]!r}"
            refuse(f"task {number} of the specification {why}")
            continue
        job = by_id[key] = Job(text(one.get("name")) or key, key, text(one.get("category")))
        job.original = text(one.get("rotameterId"))
        job.parents, job.children = names(one.get("parents")), names(one.get("children"))
        job.inputs, job.outputs = names(one.get("inputFiles")), names(one.get("outputFiles"))
    for number, item in enumerate(done, start=1):
        one = mapping(item)
        key = text(one.get("id"))
        # The two halves of a task are one record; what stands alone is one of its own.
        doc.records += key not in by_id or bool(by_id[key].runs)
        if key is None:
            refuse(f"task {number} of the execution has no id")
            continue
        if key not in by_id:
            warn("a task of the execution is not in the specification: it has no dependencies")
            by_id[key] = Job(key, key)
        by_id[key].runs.append(_run(one, warn))
        program = text(mapping(one.get("command")).get("program"))
        by_id[key].program = by_id[key].program or program
    doc.jobs = list(by_id.values())
    for item in items(specification.get("files")):
        one = mapping(item)
        name = text(one.get("id"))
        if name is None:
            warn("a file without an id is left out")
            continue
        _size(doc, name, whole(one.get("sizeInBytes")), warn)
        original = text(one.get("rotameterId"))
        if original is not None:
            doc.aliases[name] = original


# -- what one execution used ----------------------------------------------------------------------


def _run(item: Mapping[str, Any], warn: Warn) -> dict[str, Any]:
    """Give the columns of ``tasks`` that one execution fills."""
    wall = _checked(item, ("runtimeInSeconds", "runtime"), warn)
    percent = _checked(item, ("avgCPU",), warn)
    energy = _checked(item, ("energyInKWh", "energy"), warn)
    power = _checked(item, ("avgPowerInW", "avgPower"), warn)
    memory = _bytes(item, "memoryInBytes", "memory", warn)
    if wall == 0:
        warn("a runtime of 0 is kept: shorter than the clock's step")
    hosts = names(item.get("machines")) or names([item.get("machine")])
    row: dict[str, Any] = {
        "wall_s": wall,
        # Of a runtime that was rounded to nothing, a share says nothing.
        "cpu_s": cpu_s(percent, wall) if percent is not None and wall else None,
        "peak_memory_bytes": memory or None,
        "read_bytes": _bytes(item, "readBytes", "bytesRead", warn),
        "write_bytes": _bytes(item, "writtenBytes", "bytesWritten", warn),
        "requested_cores": _checked(item, ("coreCount", "cores"), warn) or None,
        "priority": _signed(item.get("priority")),
        "energy_j": None if energy is None else joules(energy),
        "hosts": hosts,
        "executed_at": text(item.get("executedAt")),
    }
    if memory == 0:
        warn("a memory of 0 is no measurement: left out")
    if energy is None and power is not None and wall:
        row["energy_j"], row["energy_quality"] = round(power * wall, 6), "estimate"
    return {key: value for key, value in row.items() if value is not None}


def cpu_s(percent: float, wall: float) -> float:
    """Turn an average share of a core into CPU seconds, to the nanosecond.

    Examples
    --------
    >>> cpu_s(191.0, 2.0)
    3.82
    """
    return round(percent / 100 * wall, 9)


def joules(kwh: float) -> float:
    """Turn kWh into joules, to the microjoule."""
    return round(kwh * _JOULES, 6)


def _checked(item: Mapping[str, Any], keys: tuple[str, ...], warn: Warn) -> float | None:
    for key in keys:
        if item.get(key) is not None:
            value = amount(item[key])
            if value is None:
                warn(f"a {key} that is no amount is left out")
            return value
    return None


def _bytes(item: Mapping[str, Any], name: str, old: str, warn: Warn | None = None) -> int | None:
    """Read the field in bytes, else its predecessor in KB (converted files carry both)."""
    for key, scale in ((name, 1.0), (old, KB)):
        given = item.get(key)
        value = whole(given, scale)
        if value is not None:
            return value
        if given is not None and warn is not None:
            warn(f"a {key} that is no amount is left out")
    return None


def _signed(value: Any) -> float | None:
    return amount(value, low=-float(_LIMIT))


def _machine(item: Any) -> dict[str, Any] | None:
    one, cpu = mapping(item), mapping(mapping(item).get("cpu"))
    name = text(one.get("nodeName"))
    if name is None:
        return None
    machine = {
        "host": name,
        "cores": amount(cpu.get("coreCount", cpu.get("count"))) or None,
        "memory_bytes": _bytes(one, "memoryInBytes", "memory") or None,
        "system": text(one.get("system")),
        "architecture": text(one.get("architecture")),
        "release": text(one.get("release")),
        "speed_mhz": amount(cpu.get("speedInMHz", cpu.get("speed"))) or None,
        "vendor": text(cpu.get("vendor")),
    }
    return {key: value for key, value in machine.items() if value is not None}


def execution_times(written: str) -> str:
    """Rewrite the date forms of real instances (``12-19-20T…``, ``20200401T…``) as ISO 8601.

    Examples
    --------
    >>> execution_times("12-19-20T21:31:53Z"), execution_times("20200401T035043+0000")
    ('2020-12-19T21:31:53Z', '2020-04-01T03:50:43+0000')
    """
    match = _US_DATE.fullmatch(written.strip())
    if match:
        return f"20{match[3]}-{match[1]}-{match[2]}T{match[4]}"
    match = _COMPACT.fullmatch(written.strip())
    if match:
        year, month, day, hour, minute, second, rest = match.groups()
        return f"{year}-{month}-{day}T{hour}:{minute}:{second}{rest}"
    return written


def repeated(jobs: list[Job]) -> set[str]:
    """Give the names that several jobs bear."""
    return {name for name, count in Counter(job.name for job in jobs).items() if count > 1}
