"""Slurm's accounting: ``sacct -P`` (any delimiter, with or without header) and ``--json``.

The fields: https://slurm.schedmd.com/sacct.html. Rows of steps are merged into their job, rows of
a requeued job (``-D``) are its attempts. Times are the cluster's local times unless
SLURM_TIME_FORMAT gave them a zone; memory is in multiples of 1024.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from rotameter.adapters.importers._slurm_columns import header, spelled
from rotameter.adapters.importers._slurm_jobs import join
from rotameter.adapters.importers._slurm_json import looks_like_slurm, read_json
from rotameter.adapters.importers._slurm_rows import head_layout, read_rows
from rotameter.adapters.importers._slurm_table import Columns, extract
from rotameter.adapters.importers._slurm_tasks import add_tasks
from rotameter.adapters.importers._slurm_unread import Unread
from rotameter.adapters.importers._slurm_zones import told_by_jobs, zone_words
from rotameter.adapters.importers.building import Builder
from rotameter.adapters.importers.inputs import FOREIGN
from rotameter.errors import BadInput, UsageError

if TYPE_CHECKING:
    from rotameter.adapters.importers.inputs import InputFile
    from rotameter.values import Head

__all__ = ["Importer"]

_SHARES = re.compile(r"\bJobID\b.*\bTimeEff\b")
"""In what reportseff prints: no times, and shares of requests that are not told."""


class Importer:
    r"""Reads listings of sacct.

    Examples
    --------
    >>> from rotameter.testing import import_bytes
    >>> trace = import_bytes(Importer, {"jobs.txt": b"JobID|State|Elapsed\n7|COMPLETED|00:01:40\n"})
    >>> trace.table("tasks")["wall_s"].to_pylist()
    [100.0]
    """

    name = "slurm"
    engine = "slurm"
    options: frozenset[str] = frozenset({"columns", "delimiter"})

    def __init__(self) -> None:
        self._parts: list[Columns] = []
        self._rows = self._last = self._files = 0
        self._without: list[str] = []
        self._unread = Unread()
        self._times = np.zeros(2, dtype=np.int64)

    def sniff(self, head: Head) -> float:
        """Look for a header of sacct fields, rows that can be nothing else, or Slurm's JSON."""
        text = head.text
        start = text.lstrip()[:1]
        if start in ("{", "["):
            return looks_like_slurm(text)
        lines = text.split("\n")
        for at, line in enumerate(lines[:3]):
            made = header(line, lines[at + 1] if at + 1 < len(lines) else "")
            if _SHARES.search(line):
                return 0.0
            if made is not None and (known := spelled(line, made)):
                return 0.95 if known >= 3 or made.delimiter not in ",;\t " else 0.6
        layout, _ = head_layout(text)
        if layout is None or layout.how == "header":
            return 0.0
        return 0.9 if "jobid" in layout.names and layout.how != "content" else 0.7

    def read(self, file: InputFile, build: Builder, **options: Any) -> None:
        """Read one listing."""
        for wanted in ("columns", "delimiter"):
            if not isinstance(options.get(wanted, ""), str):
                raise UsageError(f"{wanted}= must be text", hint="such as columns=JobID,State")
        start = file.head_text.lstrip()[:1]
        if not start:
            raise BadInput(f"{file.name} is empty", hint="check what should have written it")
        if start in ("{", "["):
            blocks = read_json(file, build)
        else:
            delimiter = options.get("delimiter") or None
            blocks = read_rows(
                file,
                build,
                columns=options.get("columns"),
                delimiter=delimiter.replace("\\t", "\t") if delimiter else None,
            )
        last, before = self._last, self._rows
        for rows in blocks:
            columns, times = extract(rows, self._unread, build.zone_ns)
            columns["line"] = columns["line"] + last  # in the order of files and lines
            self._last = max(self._last, int(columns["line"].max(initial=last)))
            self._rows += len(rows.lines)
            self._times += times
            self._parts.append(columns)
        self._files += 1
        if file.told_foreign():
            build.warn(FOREIGN)
        if self._rows == before:
            self._without.append(file.name)

    def finish(self, build: Builder) -> None:
        """Join steps to their jobs, over all files, and say what Slurm cannot tell."""
        zoned, local = self._times.tolist()
        build.local = local > 0
        self._say_empty(build)
        for said in self._unread.words():
            build.warn(said)
        if zoned and local:
            zone = told_by_jobs(self._parts)
            build.warn(zone_words(zone, zoned, local))
            if zone.sure:
                build.local, build.zone_ns = False, zone.east_ns
        for part in self._parts:
            part.pop("at_local", None)
            part.pop("at_zone", None)
        build.not_measured("dependencies between jobs: sacct does not list them")
        build.not_measured(
            "CPU time of processes that a killed step left behind: TotalCPU lacks it"
        )
        if not self._parts:
            return
        parts, self._parts = self._parts, []
        clusters = {
            c for part in parts if "cluster" in part for c in part["cluster"].unique().to_pylist()
        }
        clusters.discard(None)
        if clusters:
            build.meta["clusters"] = sorted(clusters)[:100]
        joined = join(parts)
        add_tasks(joined, build)
        build.merged += self._rows - joined.n

    def _say_empty(self, build: Builder) -> None:
        if not self._without:
            return
        first, several = self._without[0], len(self._without)
        if several == 1:
            build.warn(f"there are no jobs in {first}")
        else:
            build.warn(
                f"there are no jobs in {several:,} of {self._files:,} files, such as {first}"
            )
