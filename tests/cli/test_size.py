"""``rotameter size``: advice and trials."""

from __future__ import annotations

import bz2
import gzip
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from click.testing import CliRunner

from rotameter.adapters.advising import TARGETS
from rotameter.cli._common import RecoveredInput
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
    # 1.04 GB and a tenth: what is read holds it.
    assert "load" in text and "1.15 GB" in text and "8 GB" in text
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
    with pytest.raises(UsageError, match="named twice"):
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
    text = call(str(path)).stdout
    assert "> 4.2 GB  1 ran out of memory; no completed run has a known peak; guess: 8.4 GB" in text
    (group,) = json.loads(call(str(path), "--json").stdout)["advice"][0]["groups"]
    assert (group["runs"], group["request_bytes"], group["at_least_bytes"]) == (0, None, 4.2e9)
    path.write_text(f"{head}b,fit,ok,60,4200000000,lower_bound,8000000000\n")
    with pytest.raises(BadInput) as caught:
        call(str(path))
    assert "of 1 completed task, are lower bounds" in str(caught.value)
    assert "nothing is advised; fit needs at least 4.2 GB" in str(caught.value)
    assert "keep what is asked for" in str(caught.value.hint)
    path.write_text(f"{head}{killed}b,fit,ok,60,,,8000000000\n")
    with pytest.raises(BadInput, match="no completed task has .* fit needs at least 4 GB"):
        call(str(path), "--allocator", "greedy")


def small(folder: Path, text: str, name: str = "small.csv") -> str:
    path = folder / name
    path.write_text(text)
    return str(path)


GOOD = "task_type,mem_mb,time_s\n" + "a,1000,5\n" * 6


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ("a,many,5", "mem_mb is 'many', which is no number of MB"),
        ("a,-5,5", "mem_mb is '-5', which is not positive"),
        ("a,inf,5", "mem_mb is 'inf', which is too large"),
        ("a,1e300,5", "too large"),
        ("a,NaN,5", "no number"),
        ("a,10", "no time_s"),
        (",10,5", "no task_type"),
        ("a,1,5,7", "more values than columns"),
        ("a,2 apples,5", "no number of MB"),
    ],
)
def test_rows_that_are_left_out_are_counted_and_one_is_shown(
    tmp_path: Path, row: str, why: str
) -> None:
    path = small(tmp_path, GOOD + f"{row}\n")
    words = call(path).stderr
    assert "1 row left out; the first: line 8: " in words and why in words
    with pytest.raises(RecoveredInput, match="1 row left out") as caught:
        call(path, "--strict")
    assert caught.value.exit_code == 4
    assert call(small(tmp_path, GOOD), "--strict").stderr == ""


def sized(path: str, *words: str) -> dict[str, Any]:
    (group,) = json.loads(call(path, *words, "--json").stdout)["advice"][0]["groups"]
    return dict(group)


def test_values_with_units_are_what_they_say(tmp_path: Path) -> None:
    path = small(tmp_path, GOOD + "a,2 GB,5 min\n")
    group = sized(path, "--strict")
    assert (group["runs"], group["most_bytes"]) == (7, 2e9)


@pytest.mark.parametrize(
    ("delimiter", "memory"), [(";", "1000,5"), ("\t", "1000.5"), ("|", "1000.5"), (",", "1000.5")]
)
def test_tables_with_other_delimiters_and_capitals(
    tmp_path: Path, delimiter: str, memory: str
) -> None:
    rows = [["Task_Type", " Mem_MB ", "TIME_S"], *([["a", memory, "5"]] * 6)]
    path = small(tmp_path, "".join(delimiter.join(row) + "\n" for row in rows))
    assert sized(path)["most_bytes"] == 1000.5e6
    ambiguous = small(tmp_path, "task_type;mem_mb;time_s\n" + "a;1,234;5\n" * 6)
    with pytest.raises(BadInput, match="no row has"):
        call(ambiguous)


def test_the_column_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no column mem_mb"):
        call(small(tmp_path, "task_type,time_s\na,5\n"))
    with pytest.raises(BadInput, match="no column time_s"):
        call(small(tmp_path, "task_type,mem_mb\na,5\n"))
    with pytest.raises(BadInput, match="two columns mem_mb"):
        call(small(tmp_path, "task_type,mem_mb,mem_mb,time_s\na,5,6,7\n"))


def test_peaks_at_the_limit_are_kept_in_a_table_too(tmp_path: Path) -> None:
    head = "task_type,mem_mb,time_s,req_mem_mb\n"
    group = sized(small(tmp_path, head + "a,3950,9,4000\n" * 8))
    assert group["keep"] == "only upper bounds of its use are known"
    group = sized(small(tmp_path, head + "a,3950,9,4000\n" + "a,1000,9,4000\n" * 8))
    assert group["request_bytes"] == 4e9


@pytest.mark.parametrize(
    "words",
    [
        ("--node-memory", "abc"),
        ("--node-memory", "-5GB"),
        ("--node-memory", "0"),
        ("--node-memory", "1e300GB"),
        ("--floor", "few"),
        ("--floor", "-1"),
        ("--headroom", "-1"),
        ("--for", "slurm", "--json"),
        ("--allocator", "greedy", "--for", "slurm"),
        ("--allocator", "greedy", "-o", "x"),
        ("--slots", "4"),
    ],
)
def test_options_that_cannot_be_meant_are_refused(tmp_path: Path, words: tuple[str, ...]) -> None:
    with pytest.raises(UsageError):
        call(table(tmp_path), *words)


def test_slots_are_not_below_none(tmp_path: Path) -> None:
    with pytest.raises(click.UsageError, match="not in the range"):
        call(table(tmp_path), "--allocator", "greedy", "--slots", "-3")


def test_no_machine_is_made_up(tmp_path: Path) -> None:
    path = table(tmp_path)
    assert "resourceLimits = " not in call(path, "--for", "nextflow").stdout
    told = call(path, "--for", "nextflow", "--node-memory", "32GiB").stdout
    assert "resourceLimits = [ memory: 32768.MB ]" in told


def test_the_floor_is_the_users_choice(tmp_path: Path) -> None:
    path = small(tmp_path, "task_type,mem_mb,time_s\n" + "a,15,5\n" * 6)
    assert sized(path)["request_bytes"] == 256e6
    assert sized(path, "--floor", "0")["request_bytes"] == pytest.approx(16.5e6)


def test_rules_that_a_profile_cannot_name_are_told_of(tmp_path: Path) -> None:
    path = small(tmp_path, GOOD + '"a:b",1000,5\n' * 6 + '"c, d",1000,5\n' * 6)
    result = call(path, "--for", "snakemake")
    assert "Snakemake's profile cannot name them: a:b; c, d" in result.stderr
    assert set(yaml.safe_load(result.stdout)["set-resources"]) == {"a"}


def test_a_table_without_states_counts_as_completed_and_says_so(tmp_path: Path) -> None:
    rows = "".join(f"t{k},{1704067200 + k},10,1000,strange\n" for k in range(6))
    path = small(tmp_path, "id,start,wall_s,rss,how\n" + rows)
    words = ("--format", "table", "--map", "id=id", "--map", "start=start",
             "--map", "wall=wall_s:s", "--map", "peak=rss:MB")  # fmt: skip
    result = call(path, *words)
    assert "no state is recorded: 6 tasks with a peak and a duration count" in result.stderr
    with pytest.raises(BadInput, match="6 tasks have a peak .* how they ended") as caught:
        call(path, *words, "--map", "state=how")
    assert "--map state=COLUMN" in str(caught.value.hint)


def test_killed_with_an_unknown_request_is_in_the_groups_line(tmp_path: Path) -> None:
    head = "task_id\tname\tstatus\texit\trealtime\tpeak_rss\tmemory\tattempt\n"
    good = "".join(f"{k}\tP ({k})\tCOMPLETED\t0\t10s\t1000 MB\t-\t1\n" for k in range(10))
    dead = "".join(f"{k}\tP ({k})\tFAILED\t137\t10s\t-\t-\t1\n" for k in range(100, 150))
    path = small(tmp_path, head + good + dead, "trace.txt")
    text = call(path).stdout
    assert "at most 91.7%; 50 ran out of memory, with how much is not known" in text
    shown = call(path, "--for", "slurm").stdout
    assert "killed: not known of 50 of 60, at most 91.7% (95 %)" in shown and "0.0%" not in shown


def test_tasks_from_the_cache_of_nextflow_are_sized(tmp_path: Path) -> None:
    head = "task_id\tname\tstatus\texit\trealtime\tpeak_rss\tmemory\n"
    rows = "".join(f"{k}\tP ({k})\tCACHED\t0\t10s\t1000 MB\t4 GB\n" for k in range(6))
    group = sized(small(tmp_path, head + rows, "trace.txt"))
    assert group["runs"] == 6 and group["request_bytes"] is not None
    assert group["used_gbh"] is None


@pytest.mark.parametrize(("pack", "ending"), [(gzip.compress, "gz"), (bz2.compress, "bz2")])
def test_a_table_may_be_packed(tmp_path: Path, pack: Any, ending: str) -> None:
    plain = Path(table(tmp_path))
    packed = tmp_path / f"tasks.csv.{ending}"
    packed.write_bytes(pack(plain.read_bytes()))
    made = call(str(packed), "--resource", "memory", "--resource", "time").stdout
    wanted = call(str(plain), "--resource", "memory", "--resource", "time").stdout
    assert made == wanted.replace("tasks.csv", packed.name)
    packed.write_bytes(pack(plain.read_bytes())[:40])
    with pytest.raises(BadInput):
        call(str(packed))


def test_a_table_may_be_piped_in(tmp_path: Path) -> None:
    plain = Path(table(tmp_path, more="load,x,many,5,1,8000\n"))
    command = [sys.executable, "-m", "rotameter", "size", "-", "--resource", "all"]
    made = subprocess.run(command, input=plain.read_bytes(), capture_output=True, check=True)
    text = made.stdout.decode()
    assert text.startswith("-: 30 tasks") and "load" in text and "wall time" in text
    assert b"warning: -: 1 row left out" in made.stderr
    with plain.open("rb") as file:
        again = subprocess.run(command, stdin=file, capture_output=True, check=True)
    assert again.stdout == made.stdout
    log = b"task_id,group,wall_s,peak_memory_bytes,outcome\n" + b"".join(
        b"%d,g,60,1000000000,ok\n" % k for k in range(9)
    )
    traced = subprocess.run(command, input=log, capture_output=True, check=True)
    assert traced.stdout.startswith(b"-: 9 tasks")


def test_several_inputs_are_taken_together_and_each_ones_weight_is_stated(tmp_path: Path) -> None:
    one, two = table(tmp_path, 30, "monday.csv"), table(tmp_path, 10, "tuesday.csv")
    for target in TARGETS:
        mark = "//" if target == "nextflow" else "#"
        lines = call(one, two, "--for", target).stdout.splitlines()
        assert lines[1:4] == [
            f"{mark} 2 inputs together, each task counts once:",
            f"{mark}   monday.csv: 30 tasks, 75.0% of all",
            f"{mark}   tuesday.csv: 10 tasks, 25.0% of all",
        ], target
        assert any("26 runs (20 of monday.csv, 6 of tuesday.csv)" in line for line in lines)
    assert "inputs together" not in call(one, "--for", "slurm").stdout


def test_together_is_the_users_choice_where_nothing_is_written(tmp_path: Path) -> None:
    one, two = table(tmp_path, 30, "monday.csv"), table(tmp_path, 10, "tuesday.csv")
    apart = json.loads(call(one, two, "--json").stdout)["advice"]
    assert [file["file"] for file in apart] == ["monday.csv", "tuesday.csv"]
    (file,) = json.loads(call(one, two, "--json", "--together").stdout)["advice"]
    assert file["inputs"] == [
        {"file": "monday.csv", "tasks": 30}, {"file": "tuesday.csv", "tasks": 10}]  # fmt: skip
    (load,) = [group for group in file["groups"] if group["group"] == "load"]
    assert load["runs"] == 26 and load["inputs"] == [["monday.csv", 20], ["tuesday.csv", 6]]
    text = call(one, two, "--together").stdout
    assert "monday.csv: 30 tasks, 75.0% of all" in text and "2 inputs: 40 tasks" in text


def test_inputs_that_are_taken_together_are_told_apart(tmp_path: Path) -> None:
    paths = []
    for day in ("monday", "tuesday"):
        (tmp_path / day).mkdir()
        paths.append(table(tmp_path / day))
    text = call(*paths, "--for", "slurm").stdout
    assert all(f"  {path}: 30 tasks" in text for path in paths)
    with pytest.raises(UsageError, match="is named twice"):
        call(paths[0], f"{tmp_path}/monday/../monday/tasks.csv", "--for", "slurm")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--floor", "4"), "that is 4 bytes"),
        (("--floor", "256"), "that is 256 bytes"),
        (("--node-memory", "128"), "that is 128 bytes"),
        (("--node-memory", "6.5e4"), "that is 65000 bytes"),
        (("--resource", "disk", "--floor-disk", "1"), "that is 1 bytes"),
        (("--resource", "disk", "--node-disk", "20"), "that is 20 bytes"),
        (("--resource", "gpu_memory", "--node-gpu-memory", "80"), "that is 80 bytes"),
        (("--resource", "time", "--floor-time", "10"), "that is 10 seconds"),
        (("--resource", "time", "--queue-time", "7"), "that is 7 seconds"),
    ],
)
def test_a_number_without_a_unit_that_cannot_be_meant_is_refused(
    tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    with pytest.raises(UsageError, match=said) as caught:
        call(table(tmp_path), *words)
    assert "such as" in str(caught.value.hint)


def test_a_number_without_a_unit_that_can_be_meant_is_taken(tmp_path: Path) -> None:
    path = table(tmp_path)
    for words in (("--floor", "0"), ("--floor", "4B"), ("--floor", "2000000"),
                  ("--resource", "time", "--floor-time", "0"),
                  ("--resource", "time", "--floor-time", "120")):  # fmt: skip
        assert call(path, *words).exit_code == 0


def test_the_line_of_a_group_names_the_task_that_its_request_rests_on(tmp_path: Path) -> None:
    head = "task_id\tname\tstatus\texit\trealtime\tpeak_rss\tmemory\tattempt\n"
    good = "".join(f"{k}\tP ({k})\tCOMPLETED\t0\t10s\t1000 MB\t2 GB\t1\n" for k in range(10))
    dead = "100\tP (100)\tFAILED\t137\t10s\t-\t2 GB\t1\n"
    path = small(tmp_path, head + good + dead, "trace.txt")
    assert re.search(r"rests on task .*100.* \(a lower bound\)", call(path).stdout)
    assert re.search("this rests on task .*100", call(path, "--for", "slurm").stdout)
    (name,) = sized(path)["rests_on"]
    assert "100" in name
