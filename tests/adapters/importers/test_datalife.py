"""DataLife: traces and timers of processes, folders and archives of them, older histograms."""

from __future__ import annotations

import gzip
import io
import json
import re
import tarfile
from collections import Counter

import pytest

import rotameter
from rotameter.adapters.importers._datalife_names import split_name
from rotameter.adapters.importers.datalife import Importer
from rotameter.errors import BadInput
from rotameter.testing import check_importer, import_bytes

BLOCK = 4096
HEAD = "x.txt Block no. Frequency Access size in byte\n"


def trace(*blocks: int, **more) -> bytes:
    return json.dumps({"io_blk_range": list(blocks), **more}, indent=4).encode()


def timer(program: str = "python", level: str = "monitor", **calls: list) -> bytes:
    levels = {"local": {}, "monitor": {}, "system": {}}
    for one in levels.values():
        one.update({call: [0.0, 0, 0] for call in ("in_open", "read", "write", "close")})
    levels[level].update(calls)
    return json.dumps({program: levels}, indent=4).encode()


def run(files: dict[str, bytes]):
    return import_bytes(Importer, files)


def flows(one) -> dict[tuple[str, str, str], dict]:
    return {(f["task_id"], f["op"], f["object"]): f for f in one.table("flows").to_pylist()}


def tasks(one) -> dict[str, dict]:
    return {t["task_id"]: t for t in one.table("tasks").to_pylist()}


def samples(one) -> dict[tuple[str, str], float]:
    return {(s["subject"], s["metric"]): s["value"] for s in one.table("samples").to_pylist()}


ONE = {
    "big.vcf.7-n1.local.r_blk_trace.json": trace(0, 99, 99, -2),
    "small.txt.7-n1.local.r_blk_trace.json": trace(0, 0, 0, -1),
    "out.tar.7-n1.local.w_blk_trace.json": trace(0, 9, 9, -1),
    "monitor_timer.7-n1.local.datalife.json": timer(
        read=[2.0, 50, 101 * BLOCK], write=[0.5, 1, 10 * BLOCK - 7], in_open=[0.1, 3, 0]
    ),
}


def test_conformance():
    check_importer(
        Importer,
        {
            "a.1-n.r_blk_trace.json": trace(0, 5, 5, -1),
            "b.1-n.w_blk_trace.json": trace(
                0, 5, 5, -2, file_name="b", task_name="t", pid=1, access_frequency=3, data_volume=9
            ),
            "monitor_timer.1-n.datalife.json": timer(read=[1.0, 2, 3]),
            "x.txt_12_r_stat": (HEAD + "0 1 10\n1 3 10\n").encode(),
        },
        cuts=20,
    )


def test_totals_are_the_timers_and_shares_follow_the_blocks():
    one = run(ONE)
    (task,) = tasks(one).values()
    assert task["read_bytes"] == 101 * BLOCK and task["write_bytes"] == 10 * BLOCK - 7
    assert (task["io_kind"], task["io_s"]) == ("exact", 2.5)
    assert (task["host"], task["started_ns"], task["wall_s"]) == ("n1.local", None, None)
    mine = flows(one)
    big = mine[("python-7-n1.local", "read", "big.vcf")]
    small = mine[("python-7-n1.local", "read", "small.txt")]
    assert (big["bytes"], small["bytes"]) == (100 * BLOCK, BLOCK)
    assert big["busy_s"] + small["busy_s"] == pytest.approx(2.0)
    assert big["ops"] + small["ops"] == 50
    out = mine[("python-7-n1.local", "write", "out.tar")]
    assert out["bytes"] == out["footprint_bytes"] == 10 * BLOCK - 7  # not more than was moved
    facts = one.meta["dataflow"]
    assert (facts["flows_exact"], facts["flows_estimated"]) == (1, 2)
    assert one.meta["importer"]["records"] == {"in": 4, "out": 1, "merged": 3, "rejected": 0}


def test_order_of_files_is_nothing():
    first, second = run(ONE), run(dict(reversed(ONE.items())))
    for table in ("tasks", "flows", "objects", "samples"):
        assert first.table(table).equals(second.table(table))


def test_a_file_read_again_and_again_has_more_than_its_footprint():
    one = run(
        {
            "x.7-n.r_blk_trace.json": trace(0, 9, 9, -2),
            "monitor_timer.7-n.datalife.json": timer(read=[1.0, 9, 500 * BLOCK]),
        }
    )
    (flow,) = flows(one).values()
    assert (flow["bytes"], flow["footprint_bytes"]) == (500 * BLOCK, 10 * BLOCK)


def test_lists_of_accesses_are_unions_and_sums():
    one = run(
        {
            "x.7.r_blk_trace.json": trace(0, 10, 0, 10, 10, 20),
            "y.7.r_blk_trace.json": trace(5, 15),
            "monitor_timer.7.datalife.json": timer(read=[1.0, 4, 40 * BLOCK]),
        }
    )
    x, y = flows(one)[("python-7", "read", "x")], flows(one)[("python-7", "read", "y")]
    assert (x["bytes"], x["footprint_bytes"]) == (30 * BLOCK, 20 * BLOCK)
    assert (y["bytes"], y["footprint_bytes"]) == (10 * BLOCK, 10 * BLOCK)


def test_counted_volume_is_used_where_it_explains_the_total_better():
    volume = {
        "x.7.r_blk_trace.json": trace(0, 9, 9, -2, data_volume=900 * BLOCK, access_frequency=90),
        "y.7.r_blk_trace.json": trace(0, 9, 9, -2, data_volume=100 * BLOCK, access_frequency=10),
    }
    reread = run({**volume, "monitor_timer.7.datalife.json": timer(read=[1.0, 100, 1000 * BLOCK])})
    assert flows(reread)[("python-7", "read", "x")]["bytes"] == 900 * BLOCK
    assert flows(reread)[("python-7", "read", "x")]["ops"] == 90
    once = run({**volume, "monitor_timer.7.datalife.json": timer(read=[1.0, 100, 20 * BLOCK])})
    assert flows(once)[("python-7", "read", "x")]["bytes"] == 10 * BLOCK


def test_without_timers_bytes_are_not_known():
    one = run({"x.7-n.w_blk_trace.json": trace(0, 3, 3, -1, data_volume=10**9)})
    (flow,), (task,) = flows(one).values(), tasks(one).values()
    assert flow["bytes"] is None and flow["busy_s"] is None and flow["ops"] is None
    assert flow["footprint_bytes"] == 4 * BLOCK
    assert task["write_bytes"] is None and task["io_s"] is None and task["io_kind"] is None
    assert any("not known" in word for word in one.meta["warnings"])


def test_names_in_the_trace_come_first():
    one = run({"x.7-n.r_blk_trace.json": trace(0, 1, 1, -1, file_name="/d/x", task_name="sift")})
    ((task, _, file),) = flows(one)
    assert (task, file) == ("sift-7-n", "/d/x")
    assert tasks(one)[task]["group"] == "sift"


def test_groups_by_program_and_kinds_of_files():
    files = {}
    for n, people in enumerate(["AFR", "EUR", "ALL", "SAS", "GBR"]):
        for chromosome in (1, 12):
            pid = f"{n}{chromosome}-n"
            files[f"chr{chromosome}n.tar.gz.{pid}.r_blk_trace.json"] = trace(0, 9, 9, -2)
            files[f"chr{chromosome}-{people}.tar.gz.{pid}.w_blk_trace.json"] = trace(0, 9, 9, -1)
            files[f"monitor_timer.{pid}.datalife.json"] = timer(read=[1.0, 1, 100])
    files["chr1n.tar.gz.900-n.w_blk_trace.json"] = trace(0, 9, 9, -1)
    files["monitor_timer.900-n.datalife.json"] = timer(write=[1.0, 1, 100])
    files["monitor_timer.901-n.datalife.json"] = timer("lscpu")
    groups = Counter(task["group"] for task in tasks(run(files)).values())
    assert groups == {"python > chr#-*.tar.gz": 10, "python > chr#n.tar.gz": 1, "lscpu": 1}


def test_two_outputs_of_one_program_are_two_groups():
    files = {}
    for n, what in enumerate(["stats", "plot"]):
        files[f"in.{n}-n.r_blk_trace.json"] = trace(0, 9, 9, -2)
        files[f"{what}.txt.{n}-n.w_blk_trace.json"] = trace(0, 9, 9, -1)
    assert len({task["group"] for task in tasks(run(files)).values()}) == 2


def test_files_named_by_letters_are_told_by_their_suffixes():
    files = {}
    for n, station in enumerate(["alpha", "beta", "gamma", "delta", "eps"]):
        files[f"{station}.lht.{n}-n.r_blk_trace.json"] = trace(0, 9, 9, -2)
        files[f"{station}.stf.{n}-n.w_blk_trace.json"] = trace(0, 9, 9, -1)
    groups = Counter(task["group"] for task in tasks(run(files)).values())
    assert groups == {"process > *.stf": 5}


def test_what_is_outside_the_patterns_is_kept_apart():
    one = run({"monitor_timer.7-n.datalife.json": timer("srun", "system", write=[0.1, 2, 77])})
    (task,) = tasks(one).values()
    assert (task["write_bytes"], task["group"]) == (0, "srun")
    assert samples(one)[(task["task_id"], "untraced_write_bytes")] == 77
    assert one.meta["dataflow"]["untraced_write_bytes"] == 77
    assert one.meta["dataflow"]["processes_without_traced_files"] == 1
    assert samples(run(ONE))[("python-7-n1.local", "metadata_calls")] == 3


def test_bytes_of_files_without_a_trace_are_not_lost():
    one = run({"monitor_timer.7.datalife.json": timer(read=[1.0, 2, 300])})
    assert tasks(one)["python-7"]["read_bytes"] == 300
    assert any("300 bytes" in word for word in one.meta["warnings"])


def test_a_file_opened_and_not_touched_is_no_flow():
    files = {**ONE, "seen.7-n1.local.r_blk_trace.json": trace()}
    assert len(flows(run(files))) == 3


def test_processes_are_told_apart_from_names_of_files():
    assert split_name("a.5-2.vcf.7", {"7"}) == ("a.5-2.vcf", "7")
    assert split_name("a.7-10.0.0.5") == ("a", "7-10.0.0.5")


def test_one_number_in_two_folders_is_two_processes():
    files = {f"{run}/{name}": data for run in ("r1", "r2") for name, data in ONE.items()}
    assert set(tasks(run(files))) == {"r1:python-7-n1.local", "r2:python-7-n1.local"}
    assert len(flows(run(files))) == 6


@pytest.mark.parametrize(
    "blocks",
    [[0, 1, 2], ["a"], [1e999], [float("nan"), 1], [9, 3], [True, 2], [10**400, 1], {"a": 1}],
)
def test_traces_that_are_none_are_refused(blocks):
    one = run({**ONE, "bad.8.r_blk_trace.json": json.dumps({"io_blk_range": blocks}).encode()})
    assert one.table("rejects").num_rows == 1 and len(flows(one)) == 3


@pytest.mark.parametrize(
    "data",
    [b"", b"{}", b"[", b'{"io_blk_range": ', b"hello", b"[" * 100_000, b'{"a":' * 100_000],
)
def test_other_files_are_refused(data):
    try:
        one = run({"x.7.r_blk_trace.json": data})
    except BadInput:
        return
    assert one.table("rejects").num_rows == 1


def test_histograms_give_footprints_and_no_bytes():
    text = HEAD + "0 17296804 632\n1 2 632\n1 2 632\n" + HEAD + "1 4 632\nx\n5 \0 1\n"
    one = run({"x.txt_12_w_stat": text.encode()})
    (flow,) = flows(one).values()
    assert flow["footprint_bytes"] == 2 * BLOCK  # block 1 once, however often it is told
    assert flow["bytes"] is None and flow["ops"] is None
    assert [(r["line"], r["reason"][:3]) for r in one.table("rejects").to_pylist()] == [
        (7, "not"), (8, "NUL")
    ]  # fmt: skip
    assert one.meta["dataflow"]["footprint_kind"] == "lower_bound"
    records = one.meta["importer"]["records"]
    assert records["in"] == records["out"] + records["merged"] + records["rejected"]


def test_histograms_of_job_folders():
    files = {
        f"{job}/{name}_{op}_stat": (HEAD + ("0 1 1\n" if rows else "")).encode()
        for job, name, op, rows in [
            ("sift_ID0000001", "in.vcf", "r", True),
            ("sift_ID0000001", "in.vcf", "w", False),
            ("sift_ID0000002", "in.vcf", "r", True),
        ]
    }
    one = run(files)
    assert {t["group"] for t in tasks(one).values()} == {"sift"}
    assert set(flows(one)) == {
        ("sift_ID0000001", "read", "in.vcf"), ("sift_ID0000002", "read", "in.vcf")
    }  # fmt: skip


def archive(files: dict[str, bytes], mode: str = "w:gz") -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode=mode) as tar:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return made.getvalue()


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz"])
def test_an_archive_is_its_folder(tmp_path, mode):
    folder = tmp_path / "run"
    folder.mkdir()
    for name, data in ONE.items():
        (folder / name).write_bytes(data)
    packed = {f"run/{name}.gz": gzip.compress(data) for name, data in list(ONE.items())[:1]}
    (tmp_path / "run.tar").write_bytes(
        archive({**packed, **{f"run/{n}": d for n, d in list(ONE.items())[1:]}}, mode)
    )
    one, two = rotameter.open(folder), rotameter.open(tmp_path / "run.tar")
    assert one.table("flows").equals(two.table("flows"))
    assert one.table("tasks").equals(two.table("tasks"))


def test_1000_genomes_raw(rotameter_shared):
    one = rotameter.open(rotameter_shared / "data/dataflow/io-aware/1000-genome-raw-json.tar.gz")
    mine = tasks(one)
    read = sum(t["read_bytes"] for t in mine.values())
    assert read / 2**30 == pytest.approx(733.609, rel=1e-5)
    assert sum(f["bytes"] for f in flows(one).values() if f["op"] == "read") == read
    assert sum(f["ops"] for f in flows(one).values() if f["op"] == "read") == 95_168_997
    assert one.meta["importer"]["files"] == 2880 and len(mine) == 1070
    size = Counter()
    for (task, op, file), flow in flows(one).items():
        size[(mine[task]["group"], op, re.sub(r"\d+", "#", file))] += flow["bytes"]
    ((group, op, file), most), *_ = size.most_common(1)
    assert (op, file) == ("read", "ALL.chr#.#.vcf") and "chr#n-#-#.tar.gz" in group
    assert most / 2**30 == pytest.approx(709.5, rel=0.0005)
    counts = Counter(t["group"] for t in mine.values())
    assert counts[group] == 300 and counts["srun"] == 460 and counts["lscpu"] == 140


def test_older_histograms_of_1000_genomes(rotameter_shared):
    one = rotameter.open(rotameter_shared / "data/dataflow/datalife/1000genome_tazer_stat")
    groups = Counter(t["group"] for t in tasks(one).values())
    assert groups == {
        "individuals": 4, "individuals_merge": 1, "sifting": 1, "mutation_overlap": 7,
        "frequency": 7,
    }  # fmt: skip
    assert all(f["bytes"] is None for f in flows(one).values())
    merged = flows(one)[("individuals_merge_ID0000005", "read", "chr1n-1-2.tar.gz")]
    assert 0 < merged["footprint_bytes"] < 10**6  # 447 MB where sizes are multiplied


def test_a_known_stream(rotameter_shared):
    place = rotameter_shared / "data/dataflow/datalife"
    names = ("test_io_file.txt.14100.r_blk_trace.json", "test_io_file.txt.14100.w_blk_trace.json",
             "monitor_timer.14100.datalife.json")  # fmt: skip
    one = run({name: (place / name).read_bytes() for name in names})
    for flow in flows(one).values():
        assert flow["bytes"] == flow["footprint_bytes"] == 64 << 20


def test_timers_that_cannot_be_read_make_totals_lower_bounds():
    good = timer(read=[1.0, 2, 300], write=[1.0, 1, 50])
    for bad in ([1.0, 2], [1.0, -2, 300], [1.0, 2, 1e400], "x"):
        damaged = json.loads(good)
        next(iter(damaged.values()))["monitor"]["pread"] = bad
        name = "monitor_timer.7-n1.datalife.json"
        one = run({name: json.dumps(damaged).encode()})
        (task,) = tasks(one).values()
        assert (task["read_bytes"], task["io_kind"]) == (300, "lower_bound")
        assert any("lower bounds" in w for w in one.warnings)
        (task,) = tasks(run({name: good})).values()
        assert task["io_kind"] == "exact"
