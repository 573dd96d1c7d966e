"""Workflow tables of FastFlow/SPM."""

from __future__ import annotations

import re
from collections import Counter

import pytest

import rotameter
from rotameter.adapters.importers._spm_split import bounds, shared_out
from rotameter.adapters.importers.reading import sniff
from rotameter.adapters.importers.spm import Importer
from rotameter.errors import BadInput, UsageError
from rotameter.testing import check_importer, import_bytes

HEADER = (
    "operation,randomOffset,transferSize,aggregateFilesizeMB,numTasks,parallelism,totalTime,"
    "numNodesList,numNodes,tasksPerNode,trMiB,storageType,opCount,taskName,taskPID,fileName,"
    "stageOrder,prevTask"
)
MIB = 1 << 20


def row(op="read", task="a", pid="1-n1", file="x", mb=2.0, ops=4, s=1.0, **more) -> str:
    known = {
        "operation": op, "aggregateFilesizeMB": mb,
        "transferSize": mb * MIB / ops if isinstance(mb, float) else "",
        "totalTime": s, "opCount": ops, "taskName": task, "taskPID": pid, "fileName": file,
        "storageType": "pfs", "numNodes": 1, **more,
    }  # fmt: skip
    return ",".join(f'"{known.get(name, "")}"' for name in HEADER.split(","))


def load(*rows: str, header: str = HEADER, name: str = "w.csv", **options):
    return import_bytes(Importer, {name: "\n".join([header, *rows, ""]).encode()}, **options)


def flows(trace) -> dict[tuple[str, str, str], dict]:
    return {(f["task_id"], f["op"], f["object"]): f for f in trace.table("flows").to_pylist()}


def tasks(trace) -> dict[str, dict]:
    return {t["task_id"]: t for t in trace.table("tasks").to_pylist()}


def total(trace) -> int:
    return sum((t["read_bytes"] or 0) + (t["write_bytes"] or 0) for t in tasks(trace).values())


SAMPLES = {
    "w.csv": "\n".join(
        [HEADER, row(), row("write", file="y"), row(task="b", pid="2-n1", file="y"), ""]
    ).encode(),
    "numbers.csv": (
        b"operation,transferSize,aggregateFilesizeMB,totalTime,storageType,opCount,taskName,"
        b"taskPID,fileName\n"
        b"0,1048576,1,0.5,1,1.0,a,7,./d/x.tar.gz.7.w_blk_trace.json\n"
        b"1,1048576,1,0.5,1,1.0,b,8,./d/x.tar.gz.8.r_blk_trace.json\n"
    ),
}


def test_conformance():
    check_importer(Importer, SAMPLES, cuts=20)


def test_rows_repeated_for_each_number_of_nodes_count_once():
    trace = load(*(row(numNodes=n, tasksPerNode=10 // n) for n in (2, 5, 10)))
    assert total(trace) == 2 * MIB and len(flows(trace)) == 1
    assert trace.meta["importer"]["records"] == {"in": 3, "out": 1, "merged": 2, "rejected": 0}


def test_a_total_copied_to_each_file_is_shared_out_exactly():
    trace = load(
        row(file="big", mb=100.0, ops=7, s=3.0),
        row(file="small", mb=100.0, ops=7, s=3.0),
        row(task="b", pid="2-n1", file="small", mb=1.0, ops=3, s=0.1),
    )
    mine = flows(trace)
    big, small = mine[("a-1-n1", "read", "big")], mine[("a-1-n1", "read", "small")]
    assert big["bytes"] + small["bytes"] == 100 * MIB and big["ops"] + small["ops"] == 7
    assert big["busy_s"] + small["busy_s"] == pytest.approx(3.0)
    # b read small whole: so it was no larger than 1 MiB.
    assert small["bytes"] == pytest.approx(100 * MIB / 101, rel=1e-6)
    assert tasks(trace)["a-1-n1"]["read_bytes"] == 100 * MIB
    assert tasks(trace)["a-1-n1"]["io_s"] == 3.0 and tasks(trace)["a-1-n1"]["wall_s"] is None
    assert trace.meta["dataflow"]["flows_estimated"] == 2
    assert trace.meta["dataflow"]["flows_exact"] == 1
    assert any("estimates" in word for word in trace.meta["warnings"])


def test_true_values_of_files_are_kept():
    trace = load(row(file="x", mb=3.0, s=0.3), row(file="y", mb=5.0, s=0.2))
    assert total(trace) == 8 * MIB
    assert {f["bytes"] for f in flows(trace).values()} == {3 * MIB, 5 * MIB}
    assert trace.meta["dataflow"]["rows_mean"] == "file"
    assert trace.meta["dataflow"]["flows_estimated"] == 0


def test_what_a_row_means_can_be_said():
    rows = [row(file="x"), row(file="y")]
    assert total(load(*rows)) == 2 * MIB
    assert total(load(*rows, bytes="file")) == 4 * MIB
    with pytest.raises(UsageError, match="bytes="):
        load(*rows, bytes="both")


def test_equal_sizes_without_seconds_are_said_to_be_ambiguous():
    trace = load(row(file="x", s=""), row(file="y", s=""))
    assert total(trace) == 2 * MIB
    assert any("look alike" in word for word in trace.meta["warnings"])


def test_mixed_tables_say_how_they_were_taken():
    trace = load(
        *(row(pid=f"{n}-n1", file=f) for n in (1, 2) for f in "xy"),
        row(pid="9-n1", file="x", mb=1.0),
        row(pid="9-n1", file="y", mb=3.0),
    )
    assert total(trace) == (2 + 2 + 4) * MIB
    assert any("repeat one total" in word for word in trace.meta["warnings"])


def test_numbers_for_operations_and_stores_and_trace_names():
    trace = import_bytes(Importer, {"n.csv": SAMPLES["numbers.csv"]})
    assert set(flows(trace)) == {("a-7", "write", "x.tar.gz"), ("b-8", "read", "x.tar.gz")}
    assert {f["tier"] for f in flows(trace).values()} == {"store 1"}
    assert trace.meta["dataflow"]["flows_exact"] == 0  # one of several files is named
    named = import_bytes(Importer, {"n.csv": SAMPLES["numbers.csv"]}, tier="beegfs")
    assert {f["tier"] for f in flows(named).values()} == {"beegfs"}


def test_the_name_of_a_trace_says_the_operation():
    trace = load(row("0", pid="7", file="x.7.r_blk_trace.json"))
    assert set(flows(trace)) == {("a-7", "read", "x")}
    assert any("operation" in word for word in trace.meta["warnings"])


@pytest.mark.parametrize(("unit", "word"), [(MIB, None), (1_000_000, "MB")])
def test_the_unit_of_sizes_is_seen(unit, word):
    trace = load(row(mb=2.0, transferSize=2.0 * unit / 4))
    assert total(trace) == 2 * unit
    assert (word is None) == (not any("1,000,000" in w for w in trace.meta["warnings"]))


def test_a_size_without_its_unit_is_mib_and_said():
    trace = load(row(transferSize="", opCount=""))
    assert total(trace) == 2 * MIB and flows(trace)[("a-1-n1", "read", "x")]["ops"] is None
    assert any("unit" in word for word in trace.meta["warnings"])


def test_sizes_from_operations_alone():
    trace = load(
        "read,4096,3,a,1,x", header="operation,transferSize,opCount,taskName,taskPID,fileName"
    )
    assert total(trace) == 3 * 4096


def test_missing_is_null_and_odd_numbers_too():
    trace = load(
        row(mb="nan", transferSize="", opCount="-3", totalTime="1e999", storageType=""),
        row("write", file="y", mb="", transferSize="inf", opCount="x", s=-1),
    )
    (task,) = tasks(trace).values()
    assert task["read_bytes"] is None and task["write_bytes"] is None and task["io_s"] is None
    assert task["io_kind"] is None
    for flow in flows(trace).values():
        assert flow["bytes"] is None and flow["ops"] is None and flow["busy_s"] is None


def test_rows_that_are_none_are_refused_with_their_line():
    trace = load(row(), "read,1", row("fly"), row(mb=1e300, ops=1), row(task="", pid=""))
    assert [(r["line"]) for r in trace.table("rejects").to_pylist()] == [3, 4, 5, 6]
    with pytest.raises(BadInput, match="holds no rows"):
        load(row("fly"))
    with pytest.raises(BadInput, match="no columns"):
        load("1,2", header="a,b")
    with pytest.raises(BadInput):
        load()


def test_what_is_lost_makes_totals_lower_bounds():
    both = [row(), row("write", task="b", pid="2-n1", file="y")]
    assert {t["io_kind"] for t in tasks(load(*both)).values()} == {"exact"}
    one = load(*both, row("fly", task="b", pid="2-n1", file="z"))
    assert [t["io_kind"] for t in tasks(one).values()] == ["exact", "lower_bound"]
    cut = load(*both, "read,1")
    assert {t["io_kind"] for t in tasks(cut).values()} == {"lower_bound"}
    assert any("lower bounds" in w for w in cut.warnings)


@pytest.mark.parametrize("size", ["-1", "abc", "1e400"])
def test_a_size_that_cannot_be_read_is_no_exact_one(size):
    trace = load(row(mb=size, transferSize=100.0, ops=4))
    (task,) = tasks(trace).values()
    assert (task["read_bytes"], task["io_kind"]) == (400, "estimate")
    assert any("a size that cannot be read" in w for w in trace.warnings)
    assert not any("cannot be read" in w for w in load(row(mb="", transferSize=9, ops=4)).warnings)


def test_bytes_without_a_file_stay_with_the_task():
    trace = load(row(), row("write", file=""))
    (task,) = tasks(trace).values()
    assert task["write_bytes"] == 2 * MIB and len(flows(trace)) == 1


def test_copies_are_read_from_one_store_and_written_to_the_other():
    trace = load(
        row("write", task="a", file="x"),
        row("scp", task="stage_in-b", pid="5", file="x", storageType="beegfs-ssd", s=2.0),
        row(task="b", pid="6", file="x"),
    )
    mine = flows(trace)
    read, written = mine[("stage_in-b-5", "read", "x")], mine[("stage_in-b-5", "write", "x")]
    assert (read["tier"], written["tier"]) == ("beegfs", "ssd")
    assert read["bytes"] == written["bytes"] == 2 * MIB
    assert (read["busy_s"], written["busy_s"]) == (None, 2.0)
    task = tasks(trace)["stage_in-b-5"]
    assert task["read_bytes"] == task["write_bytes"] == 2 * MIB
    assert task["io_s"] == task["transfer_s"] == 2.0


def test_stages_without_a_file_between_them_depend_but_never_n_times_m():
    joined = load(row("write", task="a", pid="1"), row(task="b", pid="2", prevTask="a"))
    assert joined.table("deps").num_rows == 0  # the file shows it
    apart = load(
        *(row("write", task="a", pid=str(n), file=f"f{n}") for n in (1, 2, 3)),
        row(task="b", pid="9", file="other", prevTask="a"),
    )
    assert {d["depends_on"] for d in apart.table("deps").to_pylist()} == {"a-1", "a-2", "a-3"}
    many = load(
        *(row("write", task="a", pid=str(n), file=f"f{n}") for n in (1, 2)),
        *(row(task="b", pid=str(n), file=f"g{n}", prevTask="a") for n in (3, 4)),
        row(task="c", pid="8", prevTask="initial_data"),
    )
    assert many.table("deps").num_rows == 0
    assert any("a to b" in word for word in many.meta["warnings"])


def test_features_host_and_group():
    trace = load(row(stageOrder=2, numTasks=30, parallelism=10))
    (task,) = tasks(trace).values()
    assert dict(task["features"]) == {"stage_order": 2, "stage_tasks": 30, "parallelism": 10}
    assert (task["group"], task["host"], task["worker"]) == ("a", "n1", "n1")


def test_other_delimiters_and_two_tables():
    text = SAMPLES["w.csv"].decode().replace(",", ";").replace(".", ",")
    assert total(import_bytes(Importer, {"w.csv": text.encode()})) == 6 * MIB
    two = import_bytes(Importer, {"w.csv": SAMPLES["w.csv"], "v.csv": SAMPLES["w.csv"]})
    assert len(tasks(two)) == 4 and total(two) == 12 * MIB


def test_one_process_under_two_names_is_not_counted_twice():
    trace = load(row(task="a", pid="1", file="x"), row(task="b", pid="1", file="y"))
    assert total(trace) == 2 * MIB
    assert any("more than one task name" in word for word in trace.meta["warnings"])


def test_shares_add_up():
    assert sum(shared_out(10**18 + 7, [3, 10**17, 0, 1])) == 10**18 + 7
    assert shared_out(5, [0, 0]) == [2, 3] and shared_out(0, [1, 2]) == [0, 0]
    assert bounds([(None, ["a"]), (0, ["a"]), (5, ["a", "b"])]) == {"a": 5, "b": 5}


PUBLISHED = {
    "fastflow/1000genomes/1kg_workflow_data.csv": (734.3, 470, 1810),
    "fastflow/ddmd/ddmd_4n_l_workflow_data.csv": (0.35, 15, 89),
    "fastflow/montage/montage_workflow_data.csv": (0.91, 155, 395),
    "spm/pyflex_240f_workflow_data.csv": (16.27, 571, 1880),
    "io-aware/par_6000_10n_nfs_ps300_tr_estimated.csv": (734.3, 470, 1800),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_tables(rotameter_shared, name):
    gib, count, edges = PUBLISHED[name]
    trace = rotameter.open(rotameter_shared / "data/dataflow" / name)
    assert trace.meta["importer"]["name"] == "spm"
    assert total(trace) / 2**30 == pytest.approx(gib, abs=0.05 if gib > 100 else 0.005)
    assert sum(f["bytes"] for f in flows(trace).values()) == total(trace)
    assert (len(tasks(trace)), len(flows(trace))) == (count, edges)


def test_the_input_of_individuals_is_most_of_1000_genomes(rotameter_shared):
    name = "data/dataflow/fastflow/1000genomes/1kg_workflow_data.csv"
    trace = rotameter.open(rotameter_shared / name)
    group = {t: one["group"] for t, one in tasks(trace).items()}
    size, busy = Counter(), Counter()
    for (task, op, file), flow in flows(trace).items():
        key = (group[task], op, re.sub(r"\d+", "#", file))
        size[key] += flow["bytes"]
        busy[key] += flow["busy_s"]
    (first, most), *_ = size.most_common(1)
    assert first == ("individuals", "read", "ALL.chr#.#.vcf")
    assert most / 2**30 == pytest.approx(709.5, rel=0.002)
    assert busy[first] / sum(busy.values()) > 0.97


def test_tables_of_other_kinds_are_left_alone(rotameter_shared):
    from rotameter.adapters.importers.inputs import open_members

    place = rotameter_shared / "data/dataflow"
    for name in ("spm/updated_master_ior_df.csv", "spm/pyflex_240f_filtered_spm_results.csv"):
        (file,) = open_members(place / name)
        assert "spm" not in dict((who, sure) for sure, who in sniff(file))
