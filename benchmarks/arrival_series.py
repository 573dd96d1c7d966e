"""Recorded series of arrivals and levels, read from the shared folder; none is kept here.

Four are named for tuning (``TUNED``): on the first 70 % of these, and on nothing else, the numbers
in the forecasters were chosen. All scores are of the last 30 %.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

__all__ = ["LEVELS", "SERIES", "TUNED", "Recorded", "load"]

TUNED = ("nasa", "surf", "kth", "lcg")
LEVELS = ("helios_jobs", "helios_gpus", "helios_pending", "philly_nodes", "bitbrains_cpu")
"""Series that are levels, not arrivals."""

_TAIL = 12_000
"""Newest bins of a long series that a short run uses."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """One series: NaN where a bin is not known."""

    name: str
    values: np.ndarray
    season: int

    @property
    def start(self) -> int:
        """The first origin: where the last 30 % begin."""
        return int(0.7 * len(self.values))


def _counts(times_s: np.ndarray, bin_s: float, first: float | None = None) -> np.ndarray:
    first = float(times_s.min()) // bin_s * bin_s if first is None else first
    places = ((times_s - first) // bin_s).astype(np.int64)
    return np.bincount(places).astype(float)


def _nasa(root: Path) -> np.ndarray:
    with tarfile.open(root / "data/arrivals/counts/nasa_http_1995_rps.tbz2") as packed:
        member = next(m for m in packed.getmembers() if m.name.endswith("workload.txt"))
        file = packed.extractfile(member)
        assert file is not None
        seconds = np.array(file.read().split(), dtype=float)
    whole = len(seconds) // 600 * 600
    return seconds[:whole].reshape(-1, 600).sum(axis=1)


def _surf(root: Path) -> np.ndarray:
    import pyarrow.parquet as pq

    place = root / "data/arrivals/events/opendc_surf_halfyear_tasks.parquet"
    times = pq.read_table(place, columns=["submission_time"])["submission_time"].to_numpy()
    return _counts(times / 1000.0, 3600.0)


def _swf(root: Path, name: str, bin_s: float) -> np.ndarray:
    place = root / "data" / name
    text = gzip.decompress(place.read_bytes()) if name.endswith(".gz") else place.read_bytes()
    lines = [line.split(None, 2) for line in text.decode(errors="replace").splitlines()]
    times = [float(line[1]) for line in lines if line and not line[0].startswith(";")]
    return _counts(np.array(times), bin_s)


def _alibaba(root: Path, kind: str) -> np.ndarray:
    with tarfile.open(root / "data/arrivals/counts/alibaba_genai2026_qps.tar.gz") as packed:
        member = next(m for m in packed.getmembers() if m.name.endswith("qps.csv"))
        file = packed.extractfile(member)
        assert file is not None
        rows = list(csv.DictReader(io.TextIOWrapper(file)))
    sums: dict[int, float] = {}
    for row in rows:
        if row["request_type"] == kind:
            at = round(float(row["timestamp_anon"]))
            sums[at] = sums.get(at, 0.0) + float(row["value"])
    first = min(sums)
    out = np.zeros(round((max(sums) - first) / 57) + 1)
    for at, value in sums.items():
        out[round((at - first) / 57)] += value
    return out


def _column(root: Path, name: str, column: str) -> np.ndarray:
    with gzip.open(root / "data/arrivals/counts" / name, "rt") as file:
        return np.array([float(row[column]) for row in csv.DictReader(file)])


def _bitbrains(root: Path) -> np.ndarray:
    import pyarrow.parquet as pq

    place = root / "data/arrivals/counts/opendc_bitbrains_small_trace.parquet"
    table = pq.read_table(place, columns=["timestamp", "cpu_usage"])
    times = table["timestamp"].cast("timestamp[ms]").cast("int64").to_numpy() / 1000.0
    places = ((times - times.min()) // 300).astype(np.int64)
    return np.bincount(places, weights=table["cpu_usage"].to_numpy())


def _azure2019(root: Path) -> np.ndarray:
    place = root / "data/arrivals/counts/azure_functions2019_invocations_sample.csv.gz"
    with gzip.open(place, "rt") as file:
        rows = list(csv.DictReader(file))
    return np.array([sum(float(row[str(k)] or 0) for row in rows) for k in range(1, 1441)])


def _azure2021(root: Path) -> np.ndarray:
    folder = root / "data/arrivals/events/azure_functions2021_sample200.csv.gz"
    with gzip.open(folder, "rt") as file:
        rows = list(csv.DictReader(file))
    return _counts(np.array([float(r["end_timestamp"]) - float(r["duration"]) for r in rows]), 10.0)


def _llm(root: Path, bin_s: float) -> np.ndarray:
    place = root / "data/arrivals/events/AzureLLMInferenceTrace_code_2023.csv.gz"
    with gzip.open(place, "rt") as file:
        stamps = [row["TIMESTAMP"] for row in csv.DictReader(file)]
    clock = [stamp.split(" ")[1].split(":") for stamp in stamps]
    return _counts(np.array([int(h) * 3600 + int(m) * 60 + float(s) for h, m, s in clock]), bin_s)


_HELIOS = "helios_earth_vc6YE_minutely.csv.gz"
SERIES: dict[str, tuple[int, Callable[[Path], np.ndarray]]] = {
    "nasa": (144, _nasa),
    "surf": (24, _surf),
    "kth": (24, lambda r: _swf(r, "arrivals/swf/KTH-SP2-filtered.swf.gz", 3600.0)),
    "lcg": (288, lambda r: _swf(r, "formats/swf/LCG.swf.gz", 300.0)),
    "alibaba_api": (0, lambda r: _alibaba(r, "API Requests")),
    "alibaba_generative": (0, lambda r: _alibaba(r, "Generative Requests")),
    "helios_jobs": (1440, lambda r: _column(r, _HELIOS, "total_job_num")),
    "helios_gpus": (1440, lambda r: _column(r, _HELIOS, "running_gpu_num")),
    "helios_pending": (1440, lambda r: _column(r, _HELIOS, "pending_job_num")),
    "philly_nodes": (1440, lambda r: _column(r, "philly_active_nodes_minutely.csv.gz", "active")),
    "bitbrains_cpu": (288, _bitbrains),
    "azure2019": (0, _azure2019),
    "azure2021": (0, _azure2021),
    "azure_llm_10s": (0, lambda r: _llm(r, 10.0)),
    "ipsc_jobs": (24, lambda r: _swf(r, "formats/swf/NASA-iPSC-1993-3.1-cln.swf.gz", 3600.0)),
    "curie_jobs": (24, lambda r: _swf(r, "arrivals/swf/CEA-curie_sample.swf.gz", 3600.0)),
    "lublin_jobs": (7, lambda r: _swf(r, "formats/swf/lublin-aaroh.swf", 86_400.0)),
}


@cache
def load(shared: str, name: str, full: bool = False) -> Recorded:
    """Read one; without ``full`` of a long one only the newest bins."""
    season, read = SERIES[name]
    values = read(Path(shared))
    return Recorded(name, values if full else values[-_TAIL:], season)


def digest(recorded: Recorded) -> str:
    """Tell two versions of a series apart."""
    import hashlib

    rounded = json.dumps([None if v != v else round(v, 6) for v in recorded.values.tolist()])
    return hashlib.sha256(rounded.encode()).hexdigest()[:16]
