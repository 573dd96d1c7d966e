"""Real traces: the oracles of the shared folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rotameter.adapters.importers import reading
from rotameter.adapters.importers._kineto_columns import read_columns
from rotameter.adapters.importers._kineto_links import link
from rotameter.adapters.importers._kineto_scan import Events
from rotameter.adapters.importers.inputs import open_members
from rotameter.adapters.importers.kineto import Importer
from rotameter.errors import RotameterError
from rotameter.profiler.devices.breakdown import launched_in_steps
from rotameter.profiler.devices.queue import queue_lengths
from rotameter.profiler.devices.transfers import bandwidth_steps, classify
from rotameter.profiler.devices.work import COPY
from rotameter.profiler.diagnose import diagnose
from rotameter.profiler.stats import stats
from rotameter.units import format_seconds
from rotameter.values import Head

FILES = "data/formats/kineto"
HTA = "data/gpu/hta"
TRACES = {  # the names of Holistic Trace Analysis' oracle → tolerance in percentage points
    "negative_queue_length_values_check/rank0.json.gz": 0.005,
    "df_index_resolver/df_index_resolver.json.gz": 0.005,
    "nccl_parser_config/nccl_data.json.gz": 0.6,  # fractional times, which it rounds
    "trace_diff/control/control.json.gz": 0.005,
    "trace_diff/test/test.json.gz": 0.005,
    "critical_path/alexnet/benchmark_result_2869224_1695835535_trace.json.gz": 0.005,
    "amd_trace/mi250_minitoy_train_ROCm6_2_kineto.json.gz": 0.25,
}
WHOLE = [name for name, tolerance in TRACES.items() if tolerance < 0.01]


@pytest.fixture(scope="module")
def imported(rotameter_shared: Path) -> Any:
    made: dict[str, Any] = {}

    def get(name: str) -> Any:
        if name not in made:
            path = rotameter_shared / HTA / name
            made[name] = reading.read([path]).meta["device_timeline"]["ranks"][0]
        return made[name]

    return get


@pytest.fixture(scope="module")
def oracle(rotameter_shared: Path) -> Any:
    return json.loads((rotameter_shared / HTA / "ORACLE_HTA_0.5.0.json").read_text())


def test_every_trace_of_the_oracle_is_tested(oracle: Any) -> None:
    assert set(oracle) == set(TRACES)


def test_busy_time_is_the_union(rotameter_shared: Path) -> None:
    folder = rotameter_shared / FILES
    wanted = json.loads((folder / "ORACLE_gpu_busy.json").read_text())
    for name, want in wanted.items():
        if want.get("kind"):
            with pytest.raises(RotameterError):
                reading.read([folder / name], format="kineto")
            continue
        made = reading.read([folder / name])
        (rank,) = made.meta["device_timeline"]["ranks"]
        got = {str(d["device"]): d["busy_s"] * 1e6 for d in rank["devices"]}
        assert got == pytest.approx(want["per_gpu_busy_us"], rel=1e-5), name
        assert all(d["utilisation"] <= 1 for d in rank["devices"])
        records = made.meta["importer"]["records"]
        assert records["rejected"] == 0, name
        assert records["in"] == records["out"] + records["merged"], name


def test_stats_and_verdict_agree_with_the_oracle_and_the_run(rotameter_shared: Path) -> None:
    folder = rotameter_shared / FILES
    for name, want in json.loads((folder / "ORACLE_gpu_busy.json").read_text()).items():
        if want.get("kind") or not want["per_gpu_busy_us"]:
            continue
        made = reading.read([folder / name])
        rows = stats(made)["devices"]
        got = {row["device"]: row["busy_s"] * 1e6 for row in rows}
        assert got == pytest.approx(want["per_gpu_busy_us"], rel=1e-5), name
        for row in rows:
            assert row["busy_s"] / row["window_s"] == pytest.approx(row["utilisation"], abs=1e-5)
        verdict = diagnose(made)
        run_s, busy, waited, _ = (figure.value for figure in verdict.figures)
        assert busy is not None and waited is not None and run_s is not None
        assert waited <= run_s * (1 + 1e-9), name
        windows = [
            evidence.value
            for finding in verdict.findings
            for evidence in finding.evidence
            if evidence.name == "window"
        ]
        for window in windows:
            assert window <= run_s * (1 + 1e-6), name
            assert f"of {format_seconds(window)}" in verdict.sentence.split("avoidable")[0], name


@pytest.mark.parametrize("name", TRACES)
def test_shares_equal_the_oracle(name: str, imported: Any, oracle: Any) -> None:
    shares = imported(name)["devices"][0]["breakdown"]["shares"]
    want = oracle[name]["temporal_breakdown"][0]
    tolerance = TRACES[name] + 0.0001
    for ours, theirs in (("idle", "idle"), ("compute", "compute"), ("not_compute", "non_compute")):
        assert abs(100 * shares[ours] - want[f"{theirs}_time_pctg"]) <= tolerance, ours
    overlap = oracle[name]["comm_comp_overlap"][0]["comp_comm_overlap_pctg"]
    if np.isnan(overlap):
        assert shares["overlap_of_communication"] is None
    else:
        assert abs(100 * shares["overlap_of_communication"] - overlap) <= tolerance


@pytest.mark.parametrize("name", WHOLE)
def test_kinds_of_work_divide_as_the_oracle_says(name: str, imported: Any, oracle: Any) -> None:
    exactly = imported(name)["devices"][0]["breakdown"]["exactly_s"]
    words = {"COMPUTATION": "compute", "COMMUNICATION": "communication", "MEMORY": "copy"}
    want = {
        "+".join(words[word] for word in row["kernel_type"].split(" overlapping ")): row["sum"]
        for row in oracle[name]["kernel_type"]
    }
    got = {kind: round(s * 1e6) for kind, s in exactly.items()}
    if "alexnet" in name:  # the oracle counts waiting for a stream as computing: 7 µs
        assert got == pytest.approx(want, abs=7)
    else:
        assert got == want


@pytest.mark.parametrize("name", TRACES)
def test_idle_causes_of_streams_equal_the_oracle(name: str, imported: Any, oracle: Any) -> None:
    streams = {row["stream"]: row for row in imported(name)["devices"][0]["streams"]}
    for want in oracle[name]["idle"]:
        got = streams[want["stream"]]["shares"][want["idle_category"]]
        assert abs((got or 0) - want["idle_time_ratio"]) <= 0.01, want


def _work(path: Path) -> Any:
    def no(*said: Any) -> None:
        raise AssertionError(said)

    columns = read_columns(Events(open_members(path)[0], no), no)
    linked = link(columns, tuple(columns.names), 0)
    steps = linked.tasks if linked.stepped else linked.tasks[:0]
    spans = linked.rows["start"][steps], linked.rows["end"][steps]
    chosen = launched_in_steps(linked.work, *spans)
    return linked.work if chosen is None else linked.work.take(chosen)


@pytest.mark.parametrize("name", WHOLE)
def test_queues_equal_the_oracle(name: str, rotameter_shared: Path, oracle: Any) -> None:
    work = _work(rotameter_shared / HTA / name)
    # The oracle leaves work of CUDA graphs out; we count each graph once.
    graph = np.array(["GraphLaunch" in text for text in work.names])
    plain = work.take(~((work.call >= 0) & graph[work.call]))
    got = {row["stream"]: row for row in queue_lengths(plain)}
    for want in oracle[name]["queue"]:
        mine = got[want["stream"]]
        assert mine["points"] == want["queue_length|count"]
        assert mine["mean"] == pytest.approx(want["queue_length|mean"], rel=0.01)
        assert mine["max"] == want["queue_length|max"]


@pytest.mark.parametrize("name", TRACES)
def test_bandwidths_equal_the_oracle(name: str, rotameter_shared: Path, oracle: Any) -> None:
    work = _work(rotameter_shared / HTA / name)
    for want in oracle[name]["membw"]:
        kind = want["name"].removeprefix("Memcpy ").replace("Memset", "memset")
        rows = work.kind == COPY
        rows &= np.array([classify(text)[0] == kind for text in work.names])[work.name]
        mine = work.take(rows)
        _, total = bandwidth_steps(mine.start, mine.end, mine.number("bandwidth"))
        known = total[total > 0]
        assert known.max() == pytest.approx(want["memory_bw_gbps|max"], rel=0.01)
        if (name, kind) == ("trace_diff/test/test.json.gz", "DtoD"):
            # Half of the oracle's points are rounding errors of 1e-13 that should be 0.
            points = want["memory_bw_gbps|mean"] * want["memory_bw_gbps|count"]
            assert known.sum() == pytest.approx(points, rel=0.02)
        else:
            assert len(known) == want["memory_bw_gbps|count"]
            assert known.mean() == pytest.approx(want["memory_bw_gbps|mean"], rel=0.001)


def test_every_copy_of_the_real_files_is_classified(imported: Any) -> None:
    for name in TRACES:
        moved = imported(name)["devices"][0]["transfers"]
        assert moved["unknown"] == 0 and moved["count"] > 0
        classes = moved["classes"]
        host = sum(row["bytes"] or 0 for row in classes if row["kind"] in ("HtoD", "DtoH"))
        assert moved["host_bytes"] == host


def test_what_limits_occupancy_is_named(imported: Any) -> None:
    named = known = 0
    for name in TRACES:
        top = imported(name)["devices"][0]["kernels"]["top"]
        assert len(top) <= 50
        known += sum(row["occupancy"] is not None for row in top)
        named += sum(
            row["occupancy"] is not None and row["occupancy_limit"] is not None for row in top
        )
    assert known > 100 and named >= 0.95 * known


def test_bug_case_46(rotameter_shared: Path) -> None:
    made = reading.read([rotameter_shared / "bugcases/46-kineto-cpu-only-no-rank/cpu_only.json"])
    (rank,) = made.meta["device_timeline"]["ranks"]
    assert rank["rank"] is None and rank["utilisation"] is None
    assert rank["words"] == "no GPU activity recorded"
    assert rank["host"]["op_s"] == pytest.approx(30e-6)
    assert made.table("tasks").num_rows == 1 and made.table("tasks")["gpu_s"].null_count == 1


def test_it_claims_its_own_files_only(rotameter_shared: Path) -> None:
    importer = Importer()
    for root in ("data/formats", "bugcases"):
        for path in sorted((rotameter_shared / root).rglob("*")):
            own = path.parent.name == "kineto" or path.parent.name.startswith("46-")
            decoy = "_et.json" in path.name or "memory_timeline" in path.name
            if path.suffix == ".md" or "ORACLE" in path.name or not path.is_file():
                continue
            try:
                files = open_members(path)[:20]
                heads = [Head(file.name, file.head, file.path) for file in files]
            except RotameterError:
                continue
            for head in heads:
                assert (importer.sniff(head) >= 0.5) == (own and not decoy), head.name
