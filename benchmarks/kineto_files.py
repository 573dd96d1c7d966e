"""Kineto traces: how far from the oracles, how fast, how much memory. Rows are made elsewhere."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

__all__ = ["LARGE", "busy_error", "compare_with_hta", "large_file"]

LARGE = "data/formats/kineto/hta_negative_queue_length_values_check_rank0.json.gz"
# Times with fractions, which the oracle rounds.
TOLERANCE = {"nccl_parser_config": 0.6, "amd_trace": 0.25}

_CHILD = """
import json, resource, sys, time, warnings
warnings.simplefilter("ignore")
import numpy, pyarrow
from rotameter.adapters.importers import reading
began = time.perf_counter()
trace = reading.read([sys.argv[1]])
seconds = time.perf_counter() - began
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
print(json.dumps({"seconds": seconds, "peak_bytes": peak,
                  "records": trace.meta["importer"]["records"]["in"]}))
"""


def _ranks(path: Path) -> Any:
    from rotameter.adapters.importers import reading

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return reading.read([path], format="kineto").meta["device_timeline"]["ranks"]


def busy_error(shared: Path) -> tuple[float, int]:
    """Give the largest relative error of a device's busy time, and how many were compared.

    Infinite where a device is missing, or one is there that should not be.
    """
    folder = shared / "data/formats/kineto"
    worst, compared = 0.0, 0
    for name, want in json.loads((folder / "ORACLE_gpu_busy.json").read_text()).items():
        if want.get("kind"):
            continue
        (rank,) = _ranks(folder / name)
        got = {str(d["device"]): 1e6 * d["busy_s"] for d in rank["devices"]}
        wanted = want["per_gpu_busy_us"]
        if got.keys() != wanted.keys():
            return math.inf, compared
        for device, busy in wanted.items():
            worst = max(worst, abs(got[device] - busy) / busy)
            compared += 1
    return worst, compared


def _pairs(shared: Path) -> Any:
    """Give (trace's name, our share in percent or None, the oracle's) for every share."""
    folder = shared / "data/gpu/hta"
    for name, want in json.loads((folder / "ORACLE_HTA_0.5.0.json").read_text()).items():
        (rank,) = _ranks(folder / name)
        shares = rank["devices"][0]["breakdown"]["shares"]
        (parts,), (overlap,) = want["temporal_breakdown"], want["comm_comp_overlap"]
        for ours, theirs in (
            ("idle", parts["idle_time_pctg"]),
            ("compute", parts["compute_time_pctg"]),
            ("overlap_of_communication", overlap["comp_comm_overlap_pctg"]),
        ):
            mine = shares[ours]
            yield name, None if mine is None else round(100 * mine, 2), theirs


def _difference(ours: float | None, theirs: float) -> float:
    """Give it in percentage points; infinite where one side has no share and the other has."""
    if ours is None or math.isnan(theirs):
        return 0.0 if ours is None and math.isnan(theirs) else math.inf
    return round(abs(ours - theirs), 6)


def compare_with_hta(shared: Path) -> tuple[int, int, float]:
    """Compare idle, compute and overlap shares of every trace of the oracle.

    Returns
    -------
    wrong : int
        Beyond the tolerance: equal to 2 decimals where times are whole microseconds, 0.6
        (NCCL trace) and 0.25 (AMD trace) percentage points where they have fractions.
    seen : int
    worst : float
        The largest difference, percentage points.
    """
    found = [
        (_difference(ours, theirs), TOLERANCE.get(name.split("/")[0], 0.0))
        for name, ours, theirs in _pairs(shared)
    ]
    wrong = sum(difference > allowed for difference, allowed in found)
    return wrong, len(found), max(difference for difference, _ in found)


def large_file(shared: Path) -> dict[str, float]:
    """Import 108,936 events with the analysis, in a process of its own: seconds, peak_bytes."""
    ran = subprocess.run(
        [sys.executable, "-c", _CHILD, str(shared / LARGE)],
        capture_output=True,
        text=True,
        check=True,
    )
    made: dict[str, float] = json.loads(ran.stdout)
    return made
