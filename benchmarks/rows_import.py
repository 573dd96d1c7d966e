"""Rows of the importers: right on the oracles, fast on large files, unmoved by damage."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

from benchmarks.harness import Context, Result, bench

__all__ = ["files"]

KINETO_LARGE = "hta_negative_queue_length_values_check_rank0.json.gz"


def _shared(context: Context) -> Path:
    place = Path(context.shared or os.environ.get("ROTAMETER_SHARED") or "../shared")
    if not place.is_dir():
        raise FileNotFoundError(f"no shared data at {place}")
    return place


def _open(path: Path, **options: Any) -> Any:
    import rotameter

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return rotameter.open(path, **options)


_CHILD = """
import resource, sys, time, warnings
warnings.simplefilter("ignore")
import rotameter, pyarrow, numpy
began = time.perf_counter()
trace = rotameter.open(sys.argv[1])
seconds = time.perf_counter() - began
print(seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, len(trace.tasks),
      len(trace.intervals))
"""


def _in_a_process(path: Path) -> tuple[float, float, int, int]:
    """Import in a fresh process: (seconds, peak bytes of the process, tasks, intervals)."""
    ran = subprocess.run(
        [sys.executable, "-c", _CHILD, str(path)], capture_output=True, text=True, check=True
    )
    seconds, peak, tasks, intervals = ran.stdout.split()
    return float(seconds), float(peak), int(tasks), int(intervals)


@bench("import_all_files_tracebacks", issue=3, target="== 0")
def files(context: Context) -> Result:
    """All files of data/formats and bugcases: neither imported nor refused by an error of ours."""
    from rotameter.errors import RotameterError

    shared = _shared(context)
    found = [*shared.glob("data/formats/**/*"), *shared.glob("bugcases/*/*")]
    skip = ("SOURCES.md", "expected.md", "ORACLE")
    inputs = [p for p in found if p.is_file() and not p.name.startswith(skip)]
    broken, refused = [], 0
    for path in inputs:
        try:
            _open(path)
        except RotameterError:
            refused += 1
        except Exception as error:
            broken.append(f"{path.name}: {type(error).__name__}")
    note = f"{len(inputs)} files, {len(inputs) - refused - len(broken)} imported, {refused} refused"
    return Result(len(broken), "files", note="; ".join([note, *broken[:3]]))


@bench("import_same_input_twice_differs", issue=3, target="== 0")
def determinism(context: Context) -> Result:
    """Inputs whose JSON (stats, findings) differs between two processes."""
    shared = _shared(context)
    found = [*shared.glob("data/formats/**/*"), *shared.glob("bugcases/*/*")]
    skip = ("SOURCES.md", "expected.md", "ORACLE")
    inputs = sorted(str(p) for p in found if p.is_file() and not p.name.startswith(skip))
    code = (
        "import json, sys, hashlib, warnings; warnings.simplefilter('ignore')\n"
        "import rotameter\nfrom rotameter.profiler.stats import stats\n"
        "from rotameter.profiler.diagnose import to_json\n"
        "for path in sys.stdin.read().split('\\n'):\n"
        "    try:\n        t = rotameter.open(path)\n"
        "        text = json.dumps([t.meta, stats(t), to_json(t, rotameter.diagnose(t))],"
        " default=str)\n"
        "    except rotameter.errors.RotameterError as e:\n        text = str(e)\n"
        "    print(path, hashlib.sha256(text.encode()).hexdigest())\n"
    )
    outs = []
    for seed in ("1", "2"):
        ran = subprocess.run(
            [sys.executable, "-c", code],
            input="\n".join(inputs),
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        )
        outs.append(ran.stdout.splitlines())
    differ = [a for a, b in zip(*outs, strict=True) if a != b]
    return Result(len(differ), "files", note=f"{len(inputs)} files, two hash seeds; {differ[:2]}")


@bench("import_wfformat_versions_wrong", issue=3, target="== 0")
def wfformat(context: Context) -> Result:
    """One instance in versions 1.0, 1.2, 1.4 and 1.5: tasks 22, equal edges, 6996.8 s."""
    places = sorted((_shared(context) / "data/formats/wfcommons").rglob("v1*srasearch*"))
    wrong, edges = 0, set()
    for path in places:
        trace = _open(path)
        tasks, deps = trace.table("tasks"), trace.table("deps").to_pylist()
        total = sum(v or 0 for v in tasks["wall_s"].to_pylist())
        edges.add(frozenset((d["task_id"], d["depends_on"]) for d in deps))
        wrong += len(tasks) != 22 or abs(total - 6996.8) > 0.1
    wrong += len(edges) != 1 or len(places) != 4
    return Result(wrong, "files", note=f"{len(places)} files, {len(next(iter(edges)))} edges")


@bench("import_kineto_109k_s", issue=3, target="<= 4")
def kineto(context: Context) -> Result:
    """The Kineto file of 108,936 events, analysis included, in a fresh process."""
    path = _shared(context) / "data/formats/kineto" / KINETO_LARGE
    seconds, peak, _, intervals = _in_a_process(path)
    note = f"{peak / 1e6:.0f} MB, {intervals:,} intervals"
    return Result(seconds, "s", note=note)


@bench("import_lcg_swf_s", issue=3, target="<= 5")
def lcg(context: Context) -> Result:
    """LCG: 188,041 jobs, gz; and at most 500 MB."""
    seconds, peak, tasks, _ = _in_a_process(_shared(context) / "data/formats/swf/LCG.swf.gz")
    met = seconds <= 5 and peak <= 500e6 and tasks == 188_041
    return Result(seconds, "s", met=met, note=f"{peak / 1e6:.0f} MB (limit 500), {tasks:,} jobs")


@bench("import_sacct_1m_s", issue=3, target="<= 20")
def sacct(context: Context) -> Result:
    """A generated dump of 1,000,000 rows of ``sacct -P``."""
    from tempfile import TemporaryDirectory

    from benchmarks import slurm_dump

    with TemporaryDirectory() as place:
        path = Path(place) / "dump.psv"
        slurm_dump.write_dump(path, 1_000_000)
        size = path.stat().st_size
        seconds, peak, tasks, _ = _in_a_process(path)
    note = f"{tasks:,} jobs, {size / 1e6:.0f} MB file, peak {peak / 1e6:.0f} MB"
    return Result(seconds, "s", note=note)


@bench("import_fuzz_failures", issue=3, target="== 0")
def fuzz(context: Context) -> Result:
    """Importers that fail the fuzz tests: 300 inputs each, 20,000 with --full."""
    count = 20_000 if context.full else 300
    began = time.perf_counter()
    ran = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "tests/property/test_import_fuzz.py",
            "-p",
            "no:cacheprovider",
        ],
        env={**os.environ, "ROTAMETER_FUZZ": str(count)},
        capture_output=True,
        text=True,
    )
    failed = [line for line in ran.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    value = max(len(failed), int(ran.returncode != 0))
    seconds = time.perf_counter() - began
    last = ran.stdout.strip().splitlines()[-1] if ran.stdout.strip() else ran.stderr[-200:]
    return Result(value, "importers", note=f"{count:,} inputs each, {seconds:.0f} s: {last}")


_PEAK_CHILD = """
import sys, warnings
warnings.simplefilter("ignore")
import rotameter, pyarrow, numpy
def peak():
    with open("/proc/self/status") as lines:  # of this program only, unlike ru_maxrss
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))
before = peak()
trace = rotameter.open(sys.argv[1])
facts = trace.meta["importer"]
print(peak() - before, facts["name"], facts["records"]["rejected"])
"""


@bench("import_memory_ratio_max", issue=3, target="<= 10")
def memory(context: Context) -> Result:
    """The largest peak of memory over a text file's size: 50 MB files made up, 100 MB with --full.

    Peaks are above what `import rotameter, pyarrow, numpy` takes, in a process for each format.
    """
    from tempfile import TemporaryDirectory

    from benchmarks.text_inputs import WRITERS, write_input

    size = 100_000_000 if context.full else 50_000_000
    ratios: dict[str, float] = {}
    for name in WRITERS:
        with TemporaryDirectory() as place:
            path = write_input(name, Path(place), size)
            ran = subprocess.run(
                [sys.executable, "-c", _PEAK_CHILD, str(path)],
                capture_output=True,
                text=True,
                check=True,
            )
            peak, importer, rejected = ran.stdout.split()
            if importer != name.partition("_plain")[0] or rejected != "0":
                raise RuntimeError(f"{name}: read by {importer}, {rejected} records refused")
            ratios[name] = int(peak) / path.stat().st_size
    said = ", ".join(f"{name} {ratio:.1f}" for name, ratio in ratios.items())
    return Result(max(ratios.values()), "x", note=f"{size / 1e6:.0f} MB each: {said}")


@bench("import_hta_shares_wrong", issue=3, target="== 0")
def hta(context: Context) -> Result:
    """Shares (idle, compute, overlap) of the HTA oracle beyond its tolerances."""
    from benchmarks import kineto_files

    wrong, seen, worst = kineto_files.compare_with_hta(_shared(context))
    return Result(wrong, "shares", note=f"{seen} shares, largest difference {worst:.3f} pp")
