"""Benchmark files joined to the jobs that wrote them."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rotameter.adapters.importers._snakemake_names import clean, distinct, guess
from rotameter.adapters.importers._snakemake_rows import mapping
from rotameter.adapters.importers.inputs import InputFile
from rotameter.adapters.importers.snakemake import rows
from rotameter.adapters.joining.merging import Joined
from rotameter.errors import InputError

if TYPE_CHECKING:
    from rotameter.adapters.importers.building import Builder
    from rotameter.adapters.joining._snakemake_jobs import Job
    from rotameter.adapters.joining.merging import Ledger
    from rotameter.adapters.joining.snakemake_run import Folder

__all__ = ["with_benchmarks"]

_PARTS = re.compile(r"[\W_]+")
_SUMMED = ("wall_s", "cpu_s", "read_bytes", "write_bytes")
_BETTER = ("wall_s", "cpu_s", "requested_memory_bytes", "requested_cores")


def with_benchmarks(
    folder: Folder, jobs: Sequence[Job], build: Builder, ledger: Ledger
) -> list[Job]:
    """Join all benchmarks; give jobs for those that belong to none."""
    from rotameter.adapters.joining._snakemake_jobs import Job

    finder = _Finder(folder, jobs)
    alone: list[tuple[str, dict[str, Any]]] = []
    for file, name in folder.benchmarks:
        for found in _read(InputFile(name, file.opener, file.path), build, ledger):
            job = finder.job(name, found)
            if job is None:
                alone += [(name, row) for row in found["rows"]]
                continue
            ledger.matched["benchmark"] += len(found["rows"])
            build.merged += len(found["rows"])
            _take(job, found["rows"], build)
    if not alone:
        return []
    if jobs:
        ledger.unmatched["benchmark"] += len(alone)
    rules, _ = guess(list(dict.fromkeys(name for name, _ in alone)))
    names = distinct([(row.pop("_name", None) or clean(name), name) for name, row in alone])
    made = []
    for (name, row), task_id in zip(alone, names, strict=True):
        row["group"] = row["group"] or rules[name]
        row["task_id"] = task_id
        made.append(Job(Joined.of(row, "benchmark"), rule=row["group"]))
    return made


def _read(file: InputFile, build: Builder, ledger: Ledger) -> list[dict[str, Any]]:
    """Give a file's rows, those of one job together: its repeats."""
    groups: dict[Any, dict[str, Any]] = {}
    try:
        for found in rows(file, build):
            ledger.records["benchmark"] += 1
            record, row = found["_record"], found["_row"]
            row["_name"] = found["_name"]
            cards = mapping(record.get("wildcards"))
            key = (row["group"], tuple(sorted((k, str(v)) for k, v in cards.items())))
            group = groups.setdefault(key, {"rows": [], "rule": row["group"], "cards": cards})
            group["rows"].append(row)
    except InputError as error:
        build.warn(str(error))
    else:
        build.files += 1
    return list(groups.values())


class _Finder:
    """Finds the job of a benchmark: by path, by rule and wildcards, by the words of its name."""

    def __init__(self, folder: Folder, jobs: Sequence[Job]) -> None:
        self._by_path: dict[str, Job] = {}
        self._jobs = [job for job in jobs if job.ok]
        self._used: set[int] = set()
        root = str(folder.path.resolve())
        for job in self._jobs:
            if job.benchmark:
                path = os.path.normpath(os.path.join(root, job.benchmark))
                self._by_path[os.path.relpath(path, root)] = job

    def job(self, name: str, found: Mapping[str, Any]) -> Job | None:
        """Find the job that a benchmark is of, each once."""
        job = self._by_path.get(os.path.normpath(name)) or self._named(name, found)
        if job is None or id(job) in self._used:
            return None
        self._used.add(id(job))
        return job

    def _named(self, name: str, found: Mapping[str, Any]) -> Job | None:
        """Find the one job, without a benchmark of its own in the logs, that the words fit."""
        cards = {str(k): str(v) for k, v in found["cards"].items()}
        rule = found["rule"]
        free = [j for j in self._jobs if id(j) not in self._used and not j.benchmark]
        if rule is not None:
            of_rule = [j for j in free if j.rule == rule]
            exact = [j for j in of_rule if j.wildcards == cards and j.jobid is not None]
            if exact:
                return exact[-1]
            fits = [j for j in of_rule if all(v in " ".join(j.outputs) for v in cards.values())]
            return _last_of_one(fits)
        words = _words(os.path.splitext(name)[0])
        fits = []
        for job in free:
            own = _words(job.rule or "")
            if not own or not own <= words:
                continue
            rest = words - own - _PLAIN
            if rest <= _words(" ".join(job.outputs)):
                fits.append(job)
        return _last_of_one(fits)


def _last_of_one(jobs: Sequence[Job]) -> Job | None:
    """Give the last attempt where all are of one task: a benchmark is of the last run."""
    tasks = {job.joined.row["task_id"] for job in jobs}
    return jobs[-1] if len(tasks) == 1 else None


_PLAIN = frozenset(("benchmark", "benchmarks", "bench", "results", "logs", "log", "txt", "tsv"))


def _words(text: str) -> frozenset[str]:
    return frozenset(word for word in _PARTS.split(text.lower()) if word)


def _take(job: Job, found: list[dict[str, Any]], build: Builder) -> None:
    """Add a job's repeats up: the time is that of all, the peak the highest."""
    row = {k: v for k, v in found[0].items() if not k.startswith("_")}
    if len(found) > 1:
        build.warn("benchmarks with repeats: times and bytes of a job's repeats are added up")
        for column in _SUMMED:
            values = [one[column] for one in found]
            row[column] = None if None in values else sum(values)
        peaks = [one for one in found if one["peak_memory_bytes"] is not None]
        top = max(peaks, key=lambda one: one["peak_memory_bytes"], default=found[0])
        for column in ("peak_memory_bytes", "peak_memory_kind"):
            row[column] = top[column]
    row.pop("group", None)
    mine = job.joined.row
    job.joined.fill(row, "benchmark", better=_BETTER)
    end, wall = mine.get("ended_ns"), mine.get("wall_s")
    if job.batch and mine.get("started_ns") is None and end is not None and wall is not None:
        # When a batch job started is not written; it ran that long before it ended.
        start = end - round(wall * 1e9)
        begun = mine.get("submitted_ns")
        job.joined.put("started_ns", start if begun is None else max(begun, start), "benchmark")
