"""A trace on disk: a folder that opens whatever happened to its writers.

::

    NAME.rmt/meta.json              facts of the run, replaced atomically
    NAME.rmt/segments/*.seg         append-only records, one file a process start
    NAME.rmt/segments/*.spool       where a node-local segment waits to be moved here
    NAME.rmt/tables/TABLE.parquet   after compaction

Compaction writes Parquet rather than Arrow IPC: byte-stream-split and delta encodings halve the
size of time stamps and durations, and every tool reads it. A duration column ``*_s`` whose values
are whole nanoseconds is stored as integer ``*_ns`` (lossless, checked value by value).
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import time
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rotameter.errors import (
    EmptyTrace,
    NotATrace,
    SchemaMismatch,
    TraceNotFound,
    TraceWarning,
    WouldOverwrite,
)
from rotameter.profiler.assemble import assemble, conform, frames_to_tables
from rotameter.profiler.begun import settle_begun
from rotameter.profiler.folder import META, read_meta, update_meta, write_meta
from rotameter.profiler.live.segment import SegmentRead, read_segment
from rotameter.profiler.meta import merge_segment_metas
from rotameter.profiler.parquet_words import why_unreadable
from rotameter.profiler.replaceable import why_kept
from rotameter.profiler.schema import SCHEMA_VERSION, TABLES
from rotameter.profiler.trace import Trace
from rotameter.units import many

__all__ = [
    "compact",
    "create",
    "is_trace",
    "open_trace",
    "read_meta",
    "remove",
    "save",
    "update_meta",
]

SEGMENTS = "segments"
PARQUET = "tables"
_ROW_GROUP = 1 << 17


def create(path: str | Path, *, force: bool = False) -> Path:
    """Make an empty trace folder, readable by its owner only.

    Raises
    ------
    WouldOverwrite
        If the path exists, ``force`` is not given, or it is or holds something else than a trace.
    """
    folder = Path(path)
    if folder.exists() or folder.is_symlink():
        if not force:
            raise WouldOverwrite(
                f"{folder} exists", hint="choose another name, or pass --force to replace it"
            )
        why = why_kept(folder)
        if why is not None:
            raise WouldOverwrite(
                f"{folder} exists and {why}: not replaced",
                hint="choose another name for the trace",
            )
        shutil.rmtree(folder)
    folder.mkdir(mode=0o700, parents=True)
    (folder / SEGMENTS).mkdir(mode=0o700)
    write_meta(folder, {"schema": SCHEMA_VERSION, "origin": "recorded", "time_base": "epoch_ns"})
    return folder


def remove(path: str | Path) -> None:
    """Remove a trace folder; anything else is left alone."""
    folder = Path(path)
    if why_kept(folder) is None:
        shutil.rmtree(folder, ignore_errors=True)


def _segment_files(folder: Path) -> tuple[list[Path], list[str]]:
    """Segments to read (spooled ones where they wait), and words on those out of reach."""
    place = folder / SEGMENTS
    if not place.is_dir():
        return [], []
    files = sorted(place.glob("*.seg"))
    have = {f.stem for f in files}
    lost = []
    for note in sorted(place.glob("*.spool")):
        if note.stem in have:
            continue
        target, host = _spooled_at(note)
        if target.suffix == ".seg" and target.is_file():
            files.append(target)
        else:
            lost.append(f"segment {note.stem} waits in local storage of {host} and is not here")
    return files, lost


def _spooled_at(note: Path) -> tuple[Path, str]:
    """Where a note says that its segment waits, and on which host."""
    try:
        said = json.loads(note.read_text(encoding="utf-8", errors="replace"))
        return Path(said["path"]), str(said["host"])
    except (OSError, ValueError, KeyError, TypeError):
        return Path(), "an unknown host"


def _read_segments(files: Iterable[Path]) -> tuple[list[SegmentRead], list[str]]:
    reads, words = [], []
    for file in files:
        try:
            read = read_segment(file.read_bytes())
        except OSError as error:
            words.append(f"segment {file.name} cannot be read: {error.strerror or error}")
            continue
        if read.foreign:
            words.append(f"segment {file.name} is not a rotameter segment: left out")
            continue
        if read.torn_bytes:
            words.append(
                f"segment {file.name} has a torn end: {many(read.torn_bytes, 'byte')} skipped, "
                f"{many(read.records, 'record')} kept"
            )
        reads.append(read)
    return reads, words


def is_trace(path: str | Path) -> bool:
    """Tell whether a path is a trace's folder.

    Examples
    --------
    >>> is_trace("/no/such/place")
    False
    """
    folder = Path(path)
    return folder.is_dir() and ((folder / META).exists() or (folder / SEGMENTS).is_dir())


def _check_path(path: str | Path) -> Path:
    folder = Path(path)
    if not folder.exists():
        raise TraceNotFound(
            f"no such trace: {folder}", hint="check the path; a trace is a folder NAME.rmt"
        )
    if not folder.is_dir():
        raise NotATrace(
            f"{folder} is not a trace: a trace is a folder NAME.rmt",
            hint="give the folder that `rotameter run -o` or rm.trace() wrote",
        )
    if not is_trace(folder):
        raise NotATrace(
            f"{folder} holds neither {META} nor {SEGMENTS}/: not a trace",
            hint="give the folder that `rotameter run -o` or rm.trace() wrote",
        )
    return folder


def open_trace(path: str | Path, *, warn: bool = True) -> Trace:
    """Open a trace folder, compacted or not, whole or torn.

    Parameters
    ----------
    path : path
        A folder ``NAME.rmt``.
    warn : bool
        Issue one `TraceWarning` when something was lost; it is in ``trace.warnings`` anyway.

    Raises
    ------
    TraceNotFound, NotATrace, SchemaMismatch
        If there is no readable trace at ``path``.
    EmptyTrace
        If the folder holds no record at all.
    """
    folder = _check_path(path)
    meta = read_meta(folder)
    words = [] if meta else [f"{META} is missing or torn: facts of the run are unknown"]
    version = meta.get("schema", SCHEMA_VERSION)
    if not isinstance(version, int) or version > SCHEMA_VERSION:
        raise SchemaMismatch(
            f"{folder} has schema {version}; this rotameter reads up to {SCHEMA_VERSION}",
            hint="open it with a newer rotameter",
        )
    tables: dict[str, pa.Table] = {}
    compacted = meta.get("compacted") or []
    lone = not meta and (folder / PARQUET).is_dir()
    if compacted or meta.get("saved") or lone:
        tables, lost = _read_tables(folder, meta.get("rows") or {})
        words += lost
    files, lost = _segment_files(folder)
    reads, torn = _read_segments(f for f in files if f.name not in compacted)
    words += lost + torn
    raw, metas, bad = frames_to_tables(frame for read in reads for frame in read.frames)
    if bad:
        words.append(f"{many(bad, 'value')} did not fit the schema: left out")
    joined = None
    if reads or not tables:
        joined = {
            n: pa.concat_tables([tables[n], raw[n]]) if n in tables else raw[n] for n in TABLES
        }
        tables = assemble(joined)
    merged = merge_segment_metas(meta, metas, tables)
    merged["segments"] = (meta.get("segments") or 0) + len(reads)
    _settle_run(merged, words)
    if joined is not None:
        tables = settle_begun(tables, merged.get("run") or {})
        merged["records"] = sum(len(table) for table in tables.values())
    merged["warnings"] = [*meta.get("warnings", []), *words]
    trace = Trace(tables, merged)
    if not any(len(t) for t in tables.values()) and not merged.get("run"):
        raise EmptyTrace(
            f"{folder} holds no records", hint="the traced program may not have run any task"
        )
    if words and warn:
        warnings.warn(
            f"{folder}: {words[0]}" + (f" (+{len(words) - 1} more)" if len(words) > 1 else ""),
            TraceWarning,
            stacklevel=2,
        )
    return trace


def _settle_run(meta: dict[str, Any], words: list[str]) -> None:
    """Settle the state of a run that did not close its trace (it still says "running")."""
    run = dict(meta.get("run") or {})
    if run.get("status") == "running":
        outcome = meta.get("outcome") or {}
        run.update(outcome or {"status": "interrupted", "error": "the program was killed"})
        if not outcome:
            words.append("the program did not close its trace: it was killed, or is still running")
        meta["run"] = run


def compact(path: str | Path, **facts: Any) -> Trace:
    """Rewrite a trace's segments as one Parquet file a table; safe to kill at any moment.

    Parameters
    ----------
    path : path
        The trace folder.
    **facts
        Added to its metadata.
    """
    folder = Path(path)
    if facts:
        update_meta(folder, **facts)
    files, _ = _segment_files(folder)
    try:
        trace = open_trace(folder, warn=False)
    except EmptyTrace:
        return Trace({}, read_meta(folder))
    _write_tables(trace, folder)
    names = sorted({f.name for f in files} | set(read_meta(folder).get("compacted") or []))
    trace.meta.update(compacted=names, saved=True, rows=_row_counts(trace))
    write_meta(folder, trace.meta)
    for file in files:
        with contextlib.suppress(OSError):
            file.unlink()
    for note in (folder / SEGMENTS).glob("*.spool"):
        if f"{note.stem}.seg" in names:
            note.unlink(missing_ok=True)
    return trace


def save(trace: Trace, path: str | Path, *, force: bool = False) -> Path:
    """Write a trace as a folder of Parquet tables and ``meta.json``."""
    folder = create(path, force=force)
    _write_tables(trace, folder)
    meta = {k: v for k, v in trace.meta.items() if k != "compacted"}
    more = {"saved": True, "saved_at_ns": time.time_ns(), "rows": _row_counts(trace)}
    write_meta(folder, {**meta, **more})
    return folder


def _row_counts(trace: Trace) -> dict[str, int]:
    return {name: trace.table(name).num_rows for name in TABLES if trace.table(name).num_rows}


def _as_stored(table: pa.Table, name: str) -> pa.Table:
    """Rename whole-nanosecond duration columns to integers."""
    kinds = dict(TABLES[name])
    for at, column in enumerate(table.column_names):
        if kinds.get(column) != "f" or not column.endswith("_s"):
            continue
        values = table[column]
        if values.null_count == len(values):
            continue
        seconds = values.drop_null().to_numpy()
        fits = np.abs(seconds) < 2**32  # also false for NaN
        whole = np.rint(np.where(fits, seconds, 0.0) * 1e9).astype(np.int64)
        # Bit for bit: -0.0 is not 0.0.
        same = (whole / 1e9).view(np.int64) == seconds.view(np.int64)
        exact = bool(np.all(fits & same))
        if exact:
            scaled = pc.cast(pc.round(pc.multiply(values, 1e9)), pa.int64())
            field = pa.field(f"{column[:-2]}_ns", pa.int64())
            table = table.set_column(at, field, scaled)
    return table


def _from_stored(table: pa.Table, name: str) -> pa.Table:
    known = dict(TABLES[name])
    for at, column in enumerate(table.column_names):
        if column not in known and column.endswith("_ns"):
            # numpy divides correctly rounded; the value is the one that was stored.
            ints = table[column]
            values = ints.to_numpy(zero_copy_only=False).astype(float) / 1e9
            mask = pc.is_null(ints).to_numpy()
            seconds = pa.array(values, mask=mask, type=pa.float64())
            table = table.set_column(at, f"{column[:-3]}_s", seconds)
    return conform(table, name)


def _write_tables(trace: Trace, folder: Path) -> None:
    fresh = folder / f"{PARQUET}.tmp-{os.getpid()}"
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(mode=0o700)
    for name in TABLES:
        table = trace.table(name)
        if table.num_rows:
            _write_parquet(_as_stored(table, name), fresh / f"{name}.parquet")
    old = folder / f"{PARQUET}.tmp-old-{os.getpid()}"
    if (folder / PARQUET).exists():
        (folder / PARQUET).replace(old)
    fresh.replace(folder / PARQUET)
    shutil.rmtree(old, ignore_errors=True)


def _write_parquet(table: pa.Table, path: Path) -> None:
    dictionary, encoding = [], {}
    for field in table.schema:
        if pa.types.is_string(field.type):
            unique_ids = field.name in ("task_id", "run_id", "depends_on", "object")
            if unique_ids and table.num_rows > 1000:
                encoding[field.name] = "DELTA_BYTE_ARRAY"
            else:
                dictionary.append(field.name)
        elif pa.types.is_integer(field.type):
            ordered = field.name in ("started_ns", "submitted_ns", "start_ns", "at_ns", "attempt")
            encoding[field.name] = "DELTA_BINARY_PACKED" if ordered else "BYTE_STREAM_SPLIT"
        elif pa.types.is_floating(field.type):
            encoding[field.name] = "BYTE_STREAM_SPLIT"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as out:
        pq.write_table(
            table,
            out,
            compression="zstd",
            use_dictionary=dictionary,
            column_encoding=encoding,
            row_group_size=_ROW_GROUP,
        )


def _read_tables(folder: Path, rows: dict[str, Any]) -> tuple[dict[str, pa.Table], list[str]]:
    """Read the tables; words on those that are missing, damaged or foreign.

    Raises
    ------
    EmptyTrace
        If the tasks cannot be read: without them nothing can be said of the run.
    """
    tables: dict[str, pa.Table] = {}
    words = []
    for name in TABLES:
        file = folder / PARQUET / f"{name}.parquet"
        tables[name] = conform(pa.table({}), name)
        why = None
        if file.exists():
            try:
                tables[name] = _from_stored(_known_columns(pq.read_table(file), name), name)
            except (pa.ArrowException, OSError, ValueError) as error:
                why = why_unreadable(file, error)
        elif rows.get(name):
            why = f"is missing (it had {rows[name]:,} rows)"
        if why and name == "tasks":
            raise EmptyTrace(
                f"the tasks of {folder} are lost: tasks.parquet {why}",
                hint="restore the file from a copy; the other tables alone tell nothing of a run",
            )
        if why:
            words.append(f"table {name} {why}; it is left out")
    return tables, words


def _known_columns(table: pa.Table, name: str) -> pa.Table:
    """Refuse a table that has nothing of the schema's."""
    known = {column for column, _ in TABLES[name]}
    durations = {f"{column[:-2]}_ns" for column in known if column.endswith("_s")}
    if not set(table.column_names) & (known | durations):
        raise ValueError(f"no column of the table {name} is in it")
    return table
