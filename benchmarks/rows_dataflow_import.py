"""Rows of the importers of data-flow measurements: totals right, thousands of files fast."""

from __future__ import annotations

import csv
import json
import os
import statistics
import subprocess
import sys
import tarfile
from pathlib import Path

from benchmarks.harness import Context, Result, bench

__all__ = ["csv_totals", "raw_error", "raw_seconds"]

RAW = "io-aware/1000-genome-raw-json.tar.gz"
GIB = 1 << 30
# As published with the measurements (notes/data-flow.md), after de-duplication, in GiB.
PUBLISHED = {
    "fastflow/1000genomes/1kg_workflow_data.csv": 734.3,
    "fastflow/ddmd/ddmd_4n_l_workflow_data.csv": 0.35,
    "fastflow/montage/montage_workflow_data.csv": 0.91,
    "spm/pyflex_240f_workflow_data.csv": 16.27,
}

_CHILD = """
import json, sys, time, warnings
warnings.simplefilter("ignore")
began = time.perf_counter()
import rotameter
trace = rotameter.open(sys.argv[1])
seconds = time.perf_counter() - began
tasks, flows = trace.table("tasks"), trace.table("flows").to_pylist()
print(json.dumps({
    "seconds": seconds,
    "files": trace.meta["importer"]["files"],
    "read": sum(v or 0 for v in tasks["read_bytes"].to_pylist()),
    "write": sum(v or 0 for v in tasks["write_bytes"].to_pylist()),
    "flows": sum(f["bytes"] or 0 for f in flows),
    "flows_read": sum(f["bytes"] or 0 for f in flows if f["op"] == "read"),
    "io_s": sum(v or 0 for v in tasks["io_s"].to_pylist()),
}))
"""


def _place(context: Context) -> Path:
    place = Path(context.shared or os.environ.get("ROTAMETER_SHARED") or "../shared")
    if not (place / "data/dataflow").is_dir():
        raise FileNotFoundError(f"no shared data at {place}")
    return place / "data/dataflow"


def _import(path: Path) -> dict[str, float]:
    """Import in a fresh process, its start of rotameter included."""
    ran = subprocess.run(
        [sys.executable, "-c", _CHILD, str(path)], capture_output=True, text=True, check=True
    )
    found: dict[str, float] = json.loads(ran.stdout)
    return found


def _timers(path: Path) -> tuple[int, float]:
    """Add up what the timers say, past the importer: bytes read and seconds of reads."""
    size, seconds = 0, 0.0
    with tarfile.open(path) as archive:
        for member in archive:
            if "monitor_timer" not in member.name:
                continue
            stream = archive.extractfile(member)
            assert stream is not None
            for levels in json.load(stream).values():
                for call, (took, _, moved) in levels["monitor"].items():
                    if call == "read":
                        size, seconds = size + moved, seconds + took
    return size, seconds


@bench("dataflow_1kg_raw_gib_error_ratio", issue=4, target="<= 0.001")
def raw_error(context: Context) -> Result:
    """1000 Genomes, 2,880 files of DataLife: bytes read against the timers and 733.6 GiB."""
    path = _place(context) / RAW
    found = _import(path)
    size, _ = _timers(path)
    errors = [
        abs(found["read"] / size - 1),
        abs(found["read"] / (733.6 * GIB) - 1),
        abs(found["flows_read"] / found["read"] - 1),
    ]
    if found["files"] != 2880:
        errors.append(1.0)
    note = f"{found['read'] / GIB:.3f} GiB read, timers {size / GIB:.3f}, {found['files']} files"
    return Result(max(errors), "ratio", note=note)


@bench("dataflow_1kg_raw_import_s", issue=4, target="<= 10")
def raw_seconds(context: Context) -> Result:
    """The same import in a fresh process, tar.gz and start-up included: median of 3."""
    path = _place(context) / RAW
    times = [_import(path)["seconds"] for _ in range(5 if context.full else 3)]
    return Result(statistics.median(times), "s", interval=(min(times), max(times)))


@bench("dataflow_csv_totals_wrong", issue=4, target="== 0")
def csv_totals(context: Context) -> Result:
    """All workflow tables: published GiB, and per-process totals counted once, flows alike."""
    place = _place(context)
    names = sorted(
        str(path.relative_to(place))
        for path in place.rglob("*.csv")
        if b"taskName" in path.open("rb").readline()
    )
    wrong = []
    for name in names:
        found = _import(place / name)
        total, flows = found["read"] + found["write"], found["flows"]
        expected, named, seconds = _counted_once(place / name)
        right = abs(total - expected) <= 1e-9 * expected and abs(flows - named) <= 1e-9 * named
        right = right and abs(found["io_s"] - seconds) <= 1e-6 * seconds
        if name in PUBLISHED:
            shown = f"{total / GIB:.1f}" if PUBLISHED[name] > 100 else f"{total / GIB:.2f}"
            right = right and float(shown) == PUBLISHED[name]
        if not right:
            wrong.append(f"{name}: {total / GIB:.3f} GiB")
    missing = len(set(PUBLISHED) - set(names))
    return Result(len(wrong) + missing, "tables", note=f"{len(names)} tables; {wrong[:3]}")


def _counted_once(path: Path) -> tuple[float, float, float]:
    """Give bytes and seconds of a table, once a (process, operation), and bytes with a file."""
    once: dict[tuple[str, str, str, str, str], bool] = {}
    with path.open(newline="") as stream:
        for row in csv.DictReader(stream):
            key = ("operation", "taskName", "taskPID", "aggregateFilesizeMB", "totalTime")
            values = (row[key[0]], row[key[1]], row[key[2]], row[key[3]], row[key[4]])
            once[values] = once.get(values, False) or bool(row["fileName"])
    every = [(float(key[3]) * (1 << 20), float(key[4]), named) for key, named in once.items()]
    return (
        sum(size for size, _, _ in every),
        sum(size for size, _, named in every if named),
        sum(seconds for _, seconds, _ in every),
    )
