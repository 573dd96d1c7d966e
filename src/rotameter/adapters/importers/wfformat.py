"""WfFormat 1.0 to 1.5: the JSON instances of WfCommons, one workflow a file.

The format: https://github.com/wfcommons/WfFormat (one JSON schema a version). What the versions
call the same thing is in `_wfformat_parse`, the dependencies are in `_wfformat_edges`.
"""

from __future__ import annotations

import json
import re
from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rotameter.adapters.importers._nextflow_columns import Columns
from rotameter.adapters.importers._wfformat_edges import edges
from rotameter.adapters.importers._wfformat_parse import (
    KB,
    Document,
    Job,
    Slim,
    document,
    execution_times,
    repeated,
)
from rotameter.adapters.importers.times import local_ns
from rotameter.errors import BadInput, UsageError
from rotameter.profiler.live.redact import clean_name
from rotameter.units import many

if TYPE_CHECKING:
    from rotameter.adapters.importers.building import Builder
    from rotameter.adapters.importers.inputs import InputFile
    from rotameter.values import Head

__all__ = ["Importer"]

_VERSION = re.compile(r'"schemaVersion"\s*:\s*"\d')
_FLOW = re.compile(r'"workflow"\s*:\s*\{')
_PARTS = re.compile(r'"(?:specification|jobs|tasks|makespan\w*|executedAt|machines)"\s*:')
_RUN = re.compile(r'"(?:runtime|runtimeInSeconds|parents|inputFiles)"\s*:')
# Suffixes that tell the tasks of a group apart: mProject_ID0000002, cpuhog_00000003.
_SERIAL = re.compile(r"[_.\-](?:ID\d+|\d{4,})$")
_FILE_SIZES = {"bytes": 1, "b": 1, "kb": KB}
_ODD_MACHINE_BYTES = 16 << 20
_FACTS_KEPT = 100


class Importer:
    """Reads WfFormat documents."""

    name = "wfformat"
    engine = "wfcommons"
    options: frozenset[str] = frozenset({"file_size"})

    def __init__(self) -> None:
        self._documents: list[Document] = []

    def sniff(self, head: Head) -> float:
        """Look for an object with a ``workflow`` that has tasks, and its ``schemaVersion``."""
        text = head.text
        if not text.lstrip().startswith("{") or '"$schema"' in text:
            return 0.0
        flow = _FLOW.search(text) is not None
        if flow and _VERSION.search(text):
            return 0.95
        if flow and _PARTS.search(text) and _RUN.search(text):
            return 0.8
        return 0.4 if _VERSION.search(text) and '"createdAt"' in text else 0.0

    def read(self, file: InputFile, build: Builder, **options: Any) -> None:
        """Read one document."""
        unit = str(options.get("file_size", "bytes"))
        if unit.lower() not in _FILE_SIZES:
            raise UsageError(f"file_size is {unit[:20]!r}", hint="file_size is bytes or KB")
        data = _load(file)
        if not isinstance(data, dict) or not isinstance(data.get("workflow"), dict):
            raise BadInput(f"{file.name} has no workflow", hint="check that it is WfFormat")
        doc = document(
            data,
            file.name,
            file.stem,
            _FILE_SIZES[unit.lower()],
            build.warn,
            lambda reason: build.reject(file.name, None, reason),
        )
        build.records_in += doc.records
        if not doc.records:
            raise BadInput(f"{file.name} holds no tasks", hint="check that it is WfFormat")
        self._documents.append(doc)

    def finish(self, build: Builder) -> None:
        """Put the workflows into the trace; several are kept apart by their files' names."""
        same = Counter(_mark(doc) for doc in self._documents)
        copies = sum(same.values()) - len(same)
        if copies:
            build.warn(
                f"workflows that are there more than once, by name and tasks: {copies:,}; each is "
                "counted: leave copies out"
            )
        facts = [doc.facts for doc in self._documents[:_FACTS_KEPT]]
        prefixes = _prefixes(self._documents)
        while self._documents:  # each goes when it is done: they are as large as the input
            _emit(self._documents.pop(0), prefixes.pop(0), build)
        if len(facts) == 1:
            build.meta.update(facts[0])
        elif facts:
            build.meta["workflows"] = facts
        build.not_measured("outcomes: the format has none; what has a runtime counts as done")
        build.not_measured("commands and their arguments: left out")


def _mark(doc: Document) -> int:
    """Tell documents of one execution, in whatever version, from those of others."""
    facts = {key: doc.facts.get(key) for key in ("workflow", "created_at", "executed_at")}
    walls = [run.get("wall_s") for job in doc.jobs for run in job.runs]
    return hash((*facts.values(), tuple(sorted(job.name for job in doc.jobs)), tuple(walls)))


def _load(file: InputFile) -> Any:
    try:
        return json.loads(file.read_text(), object_hook=Slim())
    except RecursionError:
        raise BadInput(f"{file.name} is nested too deeply", hint="check the file") from None
    except ValueError as error:
        reason = str(error)[:120]
        raise BadInput(
            f"{file.name} is damaged JSON: {reason}", hint="copy the file again"
        ) from None


def _prefixes(documents: list[Document]) -> list[str]:
    if len(documents) < 2:
        return [""] * len(documents)
    stems = Counter(doc.stem for doc in documents)
    return [(doc.stem if stems[doc.stem] == 1 else doc.source) + "/" for doc in documents]


def _labels(doc: Document, prefix: str) -> dict[str, str]:
    """Give job id → task id: the same for one instance in each version of the format."""
    if doc.named_by_id:
        plain = {job.id: job.original or job.id for job in doc.jobs}
    elif repeated(doc.jobs):
        plain = {
            job.id: job.name if job.name == job.id else f"{job.name}_{job.id}" for job in doc.jobs
        }
    else:
        plain = {job.id: job.name for job in doc.jobs}
    if len(set(plain.values())) < len(plain):
        plain = {job.id: job.id for job in doc.jobs}
    return {key: prefix + clean_name(name) for key, name in plain.items()}


def _group(job: Job, shared: set[str]) -> str:
    if job.category:
        return clean_name(job.category)
    if job.program and (job.name == job.program or job.name.startswith(f"{job.program}_")):
        return clean_name(job.program)
    return clean_name(job.name if job.name in shared else _SERIAL.sub("", job.name) or job.name)


def _emit(doc: Document, prefix: str, build: Builder) -> None:
    labels, shared = _labels(doc, prefix), repeated(doc.jobs)
    _say_repeats(doc, labels, build)
    several: dict[str, list[str]] = {}
    rows, counts = Columns("tasks"), array("q")
    for job in doc.jobs:
        task_id, group = labels[job.id], _group(job, shared)
        features = _features(doc, job)
        for attempt, run in enumerate(job.runs or [{}], start=1):
            row = {
                "task_id": task_id,
                "attempt": attempt,
                "run_id": clean_name(job.id),
                "group": group,
                "source": "wfformat",
                "features": features,
                **_outcome(run),
                **_ran(run, build),
            }
            if len(run.get("hosts", ())) > 1:
                several[task_id] = [clean_name(host) for host in run["hosts"]]
                row["granted_nodes"] = len(run["hosts"])
            rows.add(row)
        counts.append(max(1, len(job.runs)))
        job.runs = []  # as large as the rows that they have become
    rows.give(build)
    if several:
        build.meta.setdefault("hosts_of", {}).update(several)
        build.warn(f"{many(len(several), 'task')} ran on several machines: on the first's row")
    pairs = edges(doc, labels, build.warn)
    if pairs:
        tasks, ons = zip(*pairs, strict=True)
        build.extend("deps", {"task_id": tasks, "depends_on": ons})
    del pairs
    named = {name: _object(doc, name, prefix) for name in sorted(_files_of(doc))}
    build.extend(
        "objects",
        {"object": list(named.values()), "size_bytes": [doc.sizes.get(n) for n in named]},
    )
    build.extend("flows", _flows(doc, labels, named, counts))
    _machines(doc, build)


def _say_repeats(doc: Document, labels: Mapping[str, str], build: Builder) -> None:
    """Say what is taken for retries: the format itself has no attempts."""
    again = [job for job in doc.jobs if len(job.runs) > 1]
    if again:
        build.note(
            f"{many(len(again), 'task')}, such as {labels[again[0].id]}, "
            f"{'is' if len(again) == 1 else 'are'} in the execution more than once: each time is "
            "taken as one more attempt"
        )


def _outcome(run: dict[str, Any]) -> dict[str, Any]:
    if run.get("wall_s") is None:
        return {"outcome": "unknown"}
    return {"outcome": "ok", "outcome_kind": "inferred"}


def _ran(run: dict[str, Any], build: Builder) -> dict[str, Any]:
    row = {key: value for key, value in run.items() if key not in ("hosts", "executed_at")}
    if run.get("peak_memory_bytes") is not None:
        row["peak_memory_kind"] = "sampled"
    if run.get("read_bytes") is not None or run.get("write_bytes") is not None:
        row["io_kind"] = "estimate"
    if run.get("hosts"):
        row["host"] = row["worker"] = clean_name(run["hosts"][0])
    if run.get("executed_at"):
        try:
            start, zoned = local_ns(execution_times(run["executed_at"]))
        except ValueError:
            build.warn("an executedAt that is no time is left out")
            return row
        build.local = build.local or not zoned
        row["started_ns"] = start
        wall = run.get("wall_s")
        if wall is not None and wall < 1e9:
            row["ended_ns"] = start + round(wall * 1e9)
    return row


def _features(doc: Document, job: Job) -> dict[str, float] | None:
    """Give what was known before the run: the size of the input, where all of it is known."""
    sizes = [doc.sizes.get(name) for name in job.inputs]
    known = [float(size) for size in sizes if size is not None]
    if not known or len(known) < len(sizes):
        return None
    return {"input_bytes": sum(known), "input_files": float(len(known))}


def _object(doc: Document, name: str, prefix: str) -> str:
    return prefix + clean_name(doc.aliases.get(name, name))


def _files_of(doc: Document) -> set[str]:
    used = {name for job in doc.jobs for side in (job.inputs, job.outputs) for name in side}
    return used | set(doc.sizes)


def _flows(
    doc: Document, labels: Mapping[str, str], named: Mapping[str, str], counts: Sequence[int]
) -> dict[str, list[Any]]:
    """Give the columns of ``flows``, an input or output a row."""
    moves = [
        (job, op, name, count)
        for job, count in zip(doc.jobs, counts, strict=True)
        for op, side in (("read", job.inputs), ("write", job.outputs))
        for name in side
    ]
    return {
        "task_id": [labels[job.id] for job, _, _, _ in moves],
        "attempt": [count for _, _, _, count in moves],
        "object": [named[name] for _, _, name, _ in moves],
        "medium": ["file"] * len(moves),
        "op": [op for _, op, _, _ in moves],
        # The file's size; how much of it was moved is not in the format.
        "footprint_bytes": [doc.sizes.get(name) for _, _, name, _ in moves],
    }


def _machines(doc: Document, build: Builder) -> None:
    known = {machine["host"] for machine in build.meta.get("machines", [])}
    for machine in doc.machines:
        host = clean_name(machine["host"])
        if host in known:
            continue
        known.add(host)
        cores, memory = machine.get("cores"), machine.get("memory_bytes")
        if cores and memory and memory / cores < _ODD_MACHINE_BYTES:
            build.warn(
                f"machine {host}: {memory:,} bytes of memory for {cores:g} cores; written in KB, "
                "perhaps: read as bytes"
            )
        build.meta.setdefault("machines", []).append({**machine, "host": host})
        row = {"worker": host, "host": host, "name": host, "cores": cores, "memory_bytes": memory}
        build.add("workers", row)
