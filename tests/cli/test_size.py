"""``rotameter size``: advice and trials."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from rotameter.cli.size import size
from rotameter.errors import BadInput, PolicyError, UsageError, WouldOverwrite

HEAD = "task_type,seq,mem_mb,time_s,input_bytes,req_mem_mb\n"


def table(folder: Path, rows: int = 30, name: str = "tasks.csv", more: str = "") -> str:
    text = HEAD + "".join(
        f"{'load' if k % 3 else 'train'},{k},{1000 + 10 * (k % 5)},{5 + k % 4},{k + 1},8000\n"
        for k in range(rows)
    )
    path = folder / name
    path.write_text(text + more)
    return str(path)


def call(*words: str) -> Any:
    result = CliRunner().invoke(size, list(words), standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return result


def test_advice_in_words_and_as_json(tmp_path: Path) -> None:
    path = table(tmp_path)
    text = call(path).stdout
    assert "load" in text and "1.1 GB" in text and "8 GB" in text
    assert all(len(line) <= 88 for line in text.splitlines())
    found = json.loads(call(path, "--json").stdout)
    assert found["schema"] == 1
    (file,) = found["advice"]
    assert {g["group"] for g in file["groups"]} == {"load", "train"}
    assert file["groups"][0]["asked_bytes"] == 8e9
    for word in ("AWE", "ladder", "scout", "censored", "portfolio"):
        assert word.lower() not in text.lower()


def test_trials_keep_the_contract(tmp_path: Path) -> None:
    path = table(tmp_path)
    words = (path, "--allocator", "greedy", "--allocator", "default", "--slots", "8")
    found = json.loads(call(*words, "--rows", "20", "--seeds", "2", "--json").stdout)
    assert [(r["allocator"], r["mode"]) for r in found["results"]] == [
        ("greedy", "sequential"), ("greedy", "concurrent"),
        ("default", "sequential"), ("default", "concurrent")]  # fmt: skip
    for row in found["results"]:
        assert {"file", "awe", "waste_gbh", "retries_per_task", "makespan_s", "timing"} <= set(row)
        assert 0 < row["awe"] <= 1 and row["timing"]["p99_us"] > 0
    again = json.loads(call(*words, "--rows", "20", "--seeds", "2", "--json").stdout)
    for one in (*found["results"], *again["results"]):
        del one["timing"]
    assert found == again
    text = call(*words).stdout
    assert "one by one" in text and "many at once" in text
    alone = json.loads(call(path, "--allocator", "greedy", "--slots", "0", "--json").stdout)
    assert [r["mode"] for r in alone["results"]] == ["sequential"]


def test_a_file_to_include(tmp_path: Path) -> None:
    out = tmp_path / "memory.config"
    call(table(tmp_path), "--for", "nextflow", "-o", str(out))
    assert "withName: 'load'" in out.read_text()
    with pytest.raises(WouldOverwrite):
        call(table(tmp_path), "--for", "nextflow", "-o", str(out))
    call(table(tmp_path), "--for", "slurm", "-o", str(out), "--force")
    assert "#SBATCH" in out.read_text()


def test_rows_that_cannot_be_used_are_left_out(tmp_path: Path) -> None:
    odd = "load,,nan,1,,\nload,,-5,1,,\nload,,inf,1,,\n,,5,1,,\nload,,5,0,,\nload,,x,1,,\nload\n"
    found = json.loads(call(table(tmp_path, 12, more=odd), "--json").stdout)
    assert sum(g["runs"] for g in found["advice"][0]["groups"]) == 12


def test_errors_say_what_to_do(tmp_path: Path) -> None:
    path = table(tmp_path)
    with pytest.raises(PolicyError, match="unknown allocator"):
        call(path, "--allocator", "gready")
    with pytest.raises(UsageError, match="no share"):
        call(path, "--max-kill", "many")
    with pytest.raises(UsageError, match="more than --node-memory"):
        call(path, "--node-memory", "500MB")
    empty = tmp_path / "empty.csv"
    empty.write_text(HEAD)
    with pytest.raises(BadInput, match="no row has"):
        call(str(empty))
    with pytest.raises(UsageError, match="one input"):
        call(path, path, "--for", "slurm")


def test_a_log_without_memory_is_no_ground_for_advice(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("id,start,end\na,1704067200,1704067260\n")
    with pytest.raises(BadInput, match="peak of memory"):
        call(str(path))


def test_a_recorded_log_is_sized_as_well(tmp_path: Path) -> None:
    path = tmp_path / "trace.txt"
    rows = "".join(
        f"{k}\taa/{k:06x}\t{k}\tALIGN (s{k})\tCOMPLETED\t0\t2024-01-01 00:00:0{k % 10}.000\t"
        f"20s\t10s\t100%\t{500 + k} MB\t1 GB\t8 GB\n"
        for k in range(12)
    )
    path.write_text(
        "task_id\thash\tnative_id\tname\tstatus\texit\tsubmit\tduration\trealtime\t%cpu\tpeak_rss\t"
        "peak_vmem\tmemory\n" + rows
    )
    found = json.loads(call(str(path), "--json").stdout)
    (group,) = found["advice"][0]["groups"]
    assert group["group"] == "ALIGN" and group["runs"] == 12
    assert 5e8 < group["request_bytes"] < 7e8


def test_bounds_alone_advise_nothing_and_are_said(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    head = (
        "task_id,group,outcome,wall_s,peak_memory_bytes,peak_memory_kind,requested_memory_bytes\n"
    )
    killed = "a,fit,oom,60,1000000000,lower_bound,4000000000\n"
    path.write_text(f"{head}{killed}b,fit,ok,60,4200000000,lower_bound,8000000000\n")
    with pytest.raises(BadInput) as caught:
        call(str(path))
    text = str(caught.value)
    assert "no completed task" not in text and "of 1 completed task, are lower bounds" in text
    assert "nothing is advised; fit needs at least 4.2 GB (1 killed for memory)" in text
    assert "keep what is asked for" in str(caught.value.hint)
    path.write_text(f"{head}{killed}b,fit,ok,60,,,8000000000\n")
    with pytest.raises(BadInput, match="no completed task has .* fit needs at least 4 GB"):
        call(str(path))
