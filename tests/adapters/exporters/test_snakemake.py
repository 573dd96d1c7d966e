"""Snakemake's benchmark header, units and digits."""

from __future__ import annotations

import pytest

import rotameter
from rotameter.adapters.exporters.snakemake import HEADER, Exporter
from rotameter.errors import UsageError
from rotameter.profiler.trace import Trace

KEPT = ("group", "wall_s", "cpu_s", "peak_memory_bytes", "read_bytes", "write_bytes")


def task(name: str, group: str | None = "align", **more) -> dict:
    return {"task_id": name, "group": group, "outcome": "ok", **more}


ROWS = [
    task("a", wall_s=93784.1234567, cpu_s=99.123456789, peak_memory_bytes=123456789,
         read_bytes=7, write_bytes=1 << 40, requested_memory_bytes=10**9, requested_cores=2.0),
    task("b", wall_s=1.5),
    task("c", started_ns=10**9, ended_ns=3 * 10**9, cpu_s=0.0, peak_memory_bytes=1),
    task("d", wall_s=9.0) | {"outcome": "failed"},
    task("e"),
]  # fmt: skip


def test_header_units_and_what_is_missing(tmp_path):
    Exporter().write(Trace.from_tables({"tasks": ROWS}), str(tmp_path / "align.tsv"))
    lines = (tmp_path / "align.tsv").read_text().splitlines()
    assert (
        lines[0]
        == "s\th:m:s\tmax_rss\tmax_vms\tmax_uss\tmax_pss\tio_in\tio_out\tmean_load\tcpu_time"
    )
    cells = [dict(zip(HEADER, line.split("\t"), strict=True)) for line in lines[1:]]
    assert len(cells) == 3
    assert cells[0]["h:m:s"] == "1 day, 2:03:04" and cells[0]["max_vms"] == "NA"
    assert float(cells[0]["max_rss"]) * 2**20 == 123456789
    assert float(cells[0]["mean_load"]) == pytest.approx(0.11)
    assert [cells[1][c] for c in HEADER[2:]] == ["NA"] * 8
    assert cells[2]["s"] == "2.0" and cells[2]["io_in"] == "-"


@pytest.mark.parametrize("extended", [False, True])
def test_it_reads_back(tmp_path, extended):
    path = tmp_path / "align.tsv"
    Exporter().write(Trace.from_tables({"tasks": ROWS}), str(path), extended=extended)
    back = rotameter.open(path).table("tasks").to_pylist()
    for mine, theirs in zip((ROWS[0], ROWS[1]), back, strict=False):
        assert {c: mine.get(c) for c in KEPT} == {c: theirs[c] for c in KEPT}
    again = tmp_path / "again.tsv"
    Exporter().write(rotameter.open(path), str(again), extended=extended)
    assert again.read_text() == path.read_text()
    if extended:
        assert back[0]["requested_cores"] == 2.0 and back[0]["requested_memory_bytes"] == 10**9


def test_one_file_for_each_group(tmp_path, capsys):
    rows = [
        task("a", "sort/1", wall_s=1.0),
        task("b", "sort 1", wall_s=2.0),
        task("c", None, wall_s=3.0),
    ]
    trace = Trace.from_tables({"tasks": rows})
    Exporter().write(trace, f"{tmp_path}/out/")
    names = sorted(p.name for p in (tmp_path / "out").iterdir())
    assert names == ["sort_1.tsv", "sort_1_2.tsv", "tasks.tsv"]
    with pytest.raises(UsageError, match="3 groups for one file"):
        Exporter().write(trace, str(tmp_path / "all.tsv"))
    Exporter().write(trace, "-", group="sort/1")
    assert capsys.readouterr().out.splitlines()[1].startswith("1.0\t0:00:01\tNA")
    with pytest.raises(UsageError, match="no attempt"):
        Exporter().write(trace, "-", group="x")


def test_a_real_benchmark_goes_round(rotameter_shared, tmp_path):
    folder = rotameter_shared / "data/formats/snakemake_benchmark"
    one = rotameter.open(folder / "smk9_test.benchmark_shell.tsv")
    Exporter().write(one, str(tmp_path / "bench_shell.tsv"))
    back = rotameter.open(tmp_path / "bench_shell.tsv")
    for column in KEPT[1:]:
        assert back.table("tasks")[column].to_pylist() == one.table("tasks")[column].to_pylist()


def test_it_says_what_it_wrote(tmp_path):
    exporter = Exporter()
    exporter.write(Trace.from_tables({"tasks": ROWS}), str(tmp_path / "align.tsv"))
    said = "3 of 5 attempts; 1 did not end well; 1 have no known duration"
    assert str(exporter.written) == said
    rows = [task("a", wall_s=1.0), task("b", "sort", wall_s=1.0)]
    exporter.write(Trace.from_tables({"tasks": rows}), str(tmp_path / "a.tsv"), group="sort")
    assert str(exporter.written) == "1 of 2 attempts; 1 are of other groups"
