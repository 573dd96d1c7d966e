"""What a file is that no importer reads, where that can be told, and what to give instead."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rotameter.adapters.importers._parsl_db import MAGIC
from rotameter.adapters.importers._table_detect import tracer_of
from rotameter.adapters.importers.inputs import HEAD_BYTES
from rotameter.errors import UnknownFormat

if TYPE_CHECKING:
    from rotameter.adapters.importers.inputs import InputFile

__all__ = ["check_whole", "foreign"]

_OTHERWISE_PACKED = {
    b"\x28\xb5\x2f\xfd": "zstd -d FILE",
    b"\x04\x22\x4d\x18": "lz4 -d FILE",
    b"7z\xbc\xaf\x27\x1c": "7z x FILE",
    b"Rar!": "unrar x FILE",
}
"""First bytes of zstd, lz4, 7z and rar, and what unpacks them."""
_OFFICE = "/[Content_Types].xml"
"""First member of a spreadsheet (or document) of an office program, which is a zip archive."""
_PAGE = re.compile(rb"(?:\xef\xbb\xbf)?\s*<(?:!doctype\s+html|html)\b", re.IGNORECASE)
_LOGS = (
    (
        re.compile(
            rb"^(?:[A-Z][a-z]{2}-\d\d \d\d:\d\d:\d\d\.\d{3} \[[^\]\n]*\] [A-Z]+ +nextflow\."
            rb"|[ \t]*N E X T F L O W\b)",
            re.MULTILINE,
        ),
        "is a log of Nextflow, which has no figures of tasks",
        "give the trace (-with-trace), or the folder of the run: it is joined with its logs",
    ),
    (
        re.compile(
            rb"^(?:Building DAG of jobs\.\.\.|Job (?:stats|counts):\s*$"
            rb"|Finished job(?:id: \d+| \d+\.))",
            re.MULTILINE,
        ),
        "is a log of Snakemake, which tells of tasks together with the run's other files",
        "give the folder in which Snakemake ran (it holds .snakemake), or the benchmark files",
    ),
    (
        re.compile(rb"^Job ID: \S+[ \r]*\n(?:[^\n]*\n){0,3}?Cluster: [^\n]*\n.*^CPU Utilized: ",
                   re.MULTILINE | re.DOTALL),
        "is what seff prints, a summary of one job for people",
        "give the job's number, or sacct's listing (rotameter collect slurm --jobs ID)",
    ),
    (
        re.compile(rb"\A[^\n]*?\bJobID\b[ ,|]+State[ ,|]+Elapsed[ ,|]+TimeEff\b"),
        "is what reportseff prints, shares of what jobs had",
        "give sacct's listing of the jobs (rotameter collect slurm --jobs IDS)",
    ),
    (
        re.compile(rb"\A(?=[^\n]*\bJobID\b)(?=[^\n]*\bElapsed_sec\b)(?=[^\n]*\bMaxRSS_MB\b)"),
        "is an efficiency report of Snakemake's Slurm plug-in, which has no times of day",
        "give the folder in which Snakemake ran, with whose logs it is joined, or sacct's listing "
        "of the jobs (rotameter collect slurm --jobs IDS)",
    ),
)  # fmt: skip
"""What is in logs and summaries, what they are, and what to give instead."""


def foreign(file: InputFile) -> UnknownFormat | None:
    """Make the refusal of a file that is known not to be read; None of any other.

    Parameters
    ----------
    file : InputFile
        One that no importer knows.
    """
    for mark, command in _OTHERWISE_PACKED.items():
        if file.head.startswith(mark):
            return UnknownFormat(
                f"{file.name} is packed in a way that is not read here",
                hint=f"unpack it first: {command}",
            )
    if file.name.endswith(_OFFICE):
        return UnknownFormat(
            f"{file.name.removesuffix(_OFFICE)} is a file of an office program",
            hint="save its table as CSV",
        )
    if _PAGE.match(file.head):
        return UnknownFormat(
            f"{file.name} is a web page (HTML) that no importer knows",
            hint="give the files from which it was made (for Nextflow's report: the trace)",
        )
    if file.head.startswith(MAGIC):
        return UnknownFormat(
            f"{file.name} is an SQLite database of a program that no importer knows",
            hint="give Parsl's monitoring.db or an export of Nsight Systems (say --format parsl or "
            "nsys if it is one), or a table of it saved as CSV",
        )
    for pattern, what, instead in _LOGS:
        if pattern.search(file.head):
            return UnknownFormat(f"{file.name} {what}", hint=instead)
    tracer = tracer_of(file.head_text)
    if tracer is not None:
        return UnknownFormat(
            f"{file.name} holds spans in {tracer}'s own form",
            hint=f"give them as OTLP JSON (the OpenTelemetry Collector receives {tracer.lower()} "
            "and writes it to a file)",
        )
    return None


def check_whole(file: InputFile) -> None:
    """Refuse a file that is damaged where its format would show.

    Raises
    ------
    BadInput
        If it is: what can be read of it is too little to know it by.
    """
    if len(file.head) < HEAD_BYTES:
        with file.open() as stream:
            stream.read(HEAD_BYTES)
