"""What a report calls things, and which columns say something: both depend on what was recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rotameter.profiler.usage import all_inferred, is_job_log, usage_words
from rotameter.profiler.view import view

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rotameter.profiler.trace import Trace
    from rotameter.values import Verdict

__all__ = ["Wording", "wording"]

_STATUS = {
    "ok": "Run finished",
    "failed": "Run failed",
    "interrupted": "Run interrupted",
    "unknown": "End of the run not known",
}
_ENGINES = {
    "torch": "PyTorch profiler",
    "nsys": "Nsight Systems",
    "chrome_trace": "Chrome trace",
    "wfcommons": "WfFormat",
    "otlp": "OpenTelemetry",
    "swf": "Standard Workload Format",
    "slurm": "Slurm",
    "dask": "Dask",
    "table": "Table",
    "nextflow": "Nextflow",
    "snakemake": "Snakemake",
    "parsl": "Parsl",
    "taskvine": "TaskVine",
    "darshan": "Darshan",
}
_PLACES = {
    "torch": ("Ranks", "Rank"),
    "nsys": ("Processes", "Process"),
    "chrome_trace": ("Processes", "Process"),
    "otlp": ("Services", "Service"),
    "wfcommons": ("Machines", "Machine"),
    "slurm": ("Nodes", "Node"),
}
"""What the places where tasks ran are, where they are no workers."""

_GROUP_COLUMNS = {
    "retries": ("retries", "recomputed"),
    "failed": ("failed",),
    "cpu": ("cpu_ratio",),
    "peak": ("p95_peak_memory_bytes",),
    "read": ("read_bytes",),
    "written": ("write_bytes",),
    "received": ("received_bytes",),
    "transfer": ("transfer_s",),
}
_WORKER_COLUMNS = {
    "host": ("host",),
    "slots": ("cores",),
    "limit": ("memory_bytes",),
    "peak": ("peak_rss_bytes",),
    "spilled": ("spilled_bytes",),
    "lived": ("lived_s",),
    "failed": ("failed",),
    "time": ("busy_s",),
    "busy": ("busy_ratio",),
    "end": ("end_reason",),
}


class Wording:
    """Words and choices of one report.

    Attributes
    ----------
    imported, job_log : bool
    status : tuple of (icon, text)
    engine : str or None
    lost_title : str
    places, place : str
        What workers are called.
    groups, workers : dict of str to bool
        Columns that say something; all of them where the run was recorded by us.
    usage : list of (label, amount, note)
    no_findings : str
    """

    def __init__(self, trace: Trace, verdict: Verdict, document: dict[str, Any]) -> None:
        seen = view(trace)
        engine = trace.meta.get("engine")
        self.imported = trace.meta.get("origin") == "imported"
        self.job_log = is_job_log(seen)
        self.noun = "job" if self.job_log else "task"
        self.engine = _ENGINES.get(str(engine), engine)
        self.status: tuple[str, str] = (
            verdict.status,
            _STATUS.get(verdict.status, _STATUS["unknown"]),
        )
        if self.job_log:
            self.status = ("info", "Log of jobs")
        elif verdict.status == "ok" and all_inferred(seen):
            self.status = ("info", "Imported; how it ended is not in the record")
        self.lost_title = f"What {'was' if self.job_log else 'the run'} lost, and what to do"
        self.places, self.place = "Workers", "Worker"
        if self.imported:
            self.places, self.place = _PLACES.get(str(engine), (self.places, self.place))
        self.groups = self._telling(document["groups"], _GROUP_COLUMNS)
        self.workers = self._telling(document["workers"], _WORKER_COLUMNS)
        self.usage = usage_words(document["usage"])
        self.no_findings = _no_findings(document)

    def _telling(
        self, rows: list[dict[str, Any]], columns: Mapping[str, tuple[str, ...]]
    ) -> dict[str, bool]:
        return {
            key: not self.imported or any(row[name] for row in rows for name in names)
            for key, names in columns.items()
        }


def wording(trace: Trace, verdict: Verdict, document: dict[str, Any]) -> Wording:
    """Choose the words of a report."""
    return Wording(trace, verdict, document)


def _no_findings(document: dict[str, Any]) -> str:
    if not document["run"]["attempts"]:
        return "The trace holds no task, so no loss can be found."
    if document["devices"]:
        return "The rules look at tasks and workers, and found nothing. GPUs have a section."
    return "No rule found a loss worth a change. What the rules cannot see is listed below."
