"""A Snakemake run's folder: metadata, logs, benchmarks and Slurm as one table."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import rotameter
from rotameter.adapters.joining import join
from rotameter.errors import BadInput

T0 = 1_700_000_000
BANNER = """Assuming unrestricted shared filesystem usage.

SNAKEMAKE
=========
  Date: 2023-11-14 22:13:20
  Snakemake version: 9.27.1
  Command: snakemake -c2 --config token=s3cr3t

Building DAG of jobs...
Provided cores: 2
"""
HEADER = "s\th:m:s\tmax_rss\tmax_vms\tmax_uss\tmax_pss\tio_in\tio_out\tmean_load\tcpu_time\n"
WIDE = HEADER.strip() + "\trule_name\twildcards\tresources\n"


def stamp(at_s: float, zone_h: float = 0) -> str:
    local = datetime.fromtimestamp(T0 + at_s, UTC) + timedelta(hours=zone_h)
    return local.strftime("[%a %b %d %H:%M:%S %Y]")


def block(at: str, rule: str, jobid: int, output: str, **more: str) -> str:
    kind = "rule" if more.pop("batch", "") else "localrule"
    lines = [at, f"{kind} {rule}:"]
    if "input" in more:
        lines.append(f"    input: {more.pop('input')}")
    lines += [f"    output: {output}", f"    jobid: {jobid}"]
    return "\n".join([*lines, *(f"    {k}: {v}" for k, v in more.items())]) + "\n"


def done(at: str, rule: str, jobid: int) -> str:
    return f"{at}\nFinished jobid: {jobid} (Rule: {rule})\n1 of 9 steps (11%) done\n"


def failed(at: str, rule: str, jobid: int, code: int | None, *more: str) -> str:
    text = "RuleException:\n"
    if code:
        text += f"Command 'set -euo' returned non-zero exit status {code}.\n"
    text += f"{at}\nError in rule {rule}:\n    message: None\n    jobid: {jobid}\n"
    return text + "".join(f"    {line}\n" for line in more)


class Run:
    """Writes a folder as Snakemake 9 leaves it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("metadata", "log", "incomplete"):
            (folder / ".snakemake" / name).mkdir(parents=True)

    def write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def log(self, *parts: str, name: str = "2023-11-14T221320.000000") -> None:
        self.write(f".snakemake/log/{name}.snakemake.log", BANNER + "".join(parts))

    def metadata(
        self, output: str, rule: str, start: float | None, end: float | None, **more
    ) -> None:
        record = {
            "rule": rule,
            "input": [],
            "log": [],
            "shellcmd": "x",
            "params": [],
            "job_hash": 1,
        }
        record |= {"record_format_version": 6, "incomplete": False, "external_jobid": None}
        record |= {"starttime": T0 + start if start is not None else None}
        record |= {"endtime": T0 + end if end is not None else None, **more}
        encoded = base64.urlsafe_b64encode(output.encode()).decode()
        parts = [encoded[i : i + 254] for i in range(0, len(encoded), 254)]
        place = [f"@{part}" for part in parts[:-1]] + parts[-1:]
        self.write("/".join([".snakemake/metadata", *place]), json.dumps(record))

    def open(self, **options):
        trace = rotameter.open(self.folder, **options)
        records = trace.meta["importer"]["records"]
        assert records["in"] == records["out"] + records["merged"] + records["rejected"]
        return trace


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path / "run")


def tries(trace) -> dict[tuple[str, int], dict]:
    return {(r["task_id"], r["attempt"]): r for r in trace.table("tasks").to_pylist()}


def local_run(run: Run, zone_h: float = 0) -> None:
    """Make a run with a retry, a benchmark and a dependency."""
    run.log(
        block(stamp(0, zone_h), "prep", 1, "out/a.txt", benchmark="bench/deep/a.tsv",
              resources="tmpdir=/tmp, mem_mb=300, mem_mib=287, runtime=5"),
        done(stamp(3, zone_h), "prep", 1),
        block(stamp(3, zone_h), "use", 2, "out/a.sum", input="out/a.txt", threads="2"),
        failed(stamp(5, zone_h), "use", 2, 3), "Trying to restart job 2.\n",
        block(stamp(5, zone_h), "use", 2, "out/a.sum", input="out/a.txt", threads="2"),
        done(stamp(9, zone_h), "use", 2),
        f"{stamp(9, zone_h)}\nlocalrule all:\n    input: out/a.sum\n    jobid: 0\n",
        done(stamp(9, zone_h), "all", 0), "Complete log(s): x\n",
    )  # fmt: skip
    run.metadata("out/a.txt", "prep", 0.25, 2.75, job_hash=1)
    run.metadata("out/a.sum", "use", 5.5, 8.5, job_hash=2, input=["out/a.txt"])
    run.write(
        "bench/deep/a.tsv", HEADER + "2.40\t0:00:02\t10.00\t9\t9\t9\t1.00\t2.00\t50.00\t1.20\n"
    )


@pytest.mark.parametrize("zone_h", [0, 9, -3.5])
def test_metadata_logs_and_benchmarks(run, zone_h):
    local_run(run, zone_h)
    trace = run.open()
    made = tries(trace)
    assert set(made) == {("out/a.txt", 1), ("out/a.sum", 1), ("out/a.sum", 2)}
    prep, lost, good = made["out/a.txt", 1], made["out/a.sum", 1], made["out/a.sum", 2]
    assert (prep["started_ns"], prep["ended_ns"]) == (
        T0 * 10**9 + 250_000_000,
        T0 * 10**9 + 2_750_000_000,
    )
    assert prep["wall_s"] == 2.4 and prep["cpu_s"] == 1.2 and prep["group"] == "prep"
    assert prep["peak_memory_bytes"] == 10 << 20 and prep["requested_memory_bytes"] == 287 << 20
    assert prep["requested_wall_s"] == 300 and prep["requested_cores"] == 1
    assert (lost["outcome"], lost["exit_code"], lost["error"]) == ("failed", 3, "exit 3")
    assert lost["started_ns"] == (T0 + 3) * 10**9 and lost["requested_cores"] == 2
    assert (good["outcome"], good["started_ns"]) == ("ok", T0 * 10**9 + 5_500_000_000)
    assert trace.table("deps").to_pylist() == [{"task_id": "out/a.sum", "depends_on": "out/a.txt"}]
    assert trace.meta["time_base"] == "epoch_ns"
    meta = trace.meta["join"]
    assert meta["records"] == {"benchmark": 1, "log": 3, "metadata": 2}
    assert meta["matched"] == {"benchmark": 1, "metadata": 2} and not meta["unmatched"]
    (zone,) = meta["zones"].values()
    assert zone["utc_offset_s"] == zone_h * 3600 and "inferred" in zone["how"]
    sources = trace.meta["column_sources"]
    assert sources["started_ns"] == {"log": 1, "metadata": 2}
    assert sources["peak_memory_bytes"] == {"benchmark": 1}
    assert trace.meta["versions"] == {"snakemake": "9.27.1"} and trace.meta["run"]["status"] == "ok"
    assert "s3cr3t" not in json.dumps(trace.meta)


def test_metadata_alone(run):
    run.metadata("out/a.txt", "prep", 0, 2)
    run.metadata("out/b.txt", "use", 3, 4, input=["out/a.txt"], incomplete=True, job_hash=2)
    trace = run.open()
    a, b = tries(trace)["out/a.txt", 1], tries(trace)["out/b.txt", 1]
    assert (a["outcome"], a["outcome_kind"], b["outcome"]) == ("ok", "inferred", "unknown")
    assert trace.table("deps").num_rows == 1


def test_logs_alone_stay_relative(run):
    local_run(run, 5)
    for path in (run.folder / ".snakemake/metadata").iterdir():
        path.unlink()
    trace = run.open()
    assert trace.meta["time_base"] == "relative_ns"
    assert tries(trace)["out/a.txt", 1]["started_ns"] == 0
    trace = run.open(utc_offset="+05:00")
    assert tries(trace)["out/a.txt", 1]["started_ns"] == T0 * 10**9


def test_outputs_of_one_job_are_one_task_even_with_long_names(run):
    names = ["out/" + "long" * 80 + ".txt", "out/b.txt"]
    for i, name in enumerate(names):
        run.metadata(name, "two", 0 + i / 1000, 2 + i)
    trace = run.open()
    (row,) = trace.table("tasks").to_pylist()
    assert row["task_id"] == "out/b.txt" and row["ended_ns"] == (T0 + 3) * 10**9
    assert trace.meta["importer"]["records"] == {"in": 2, "out": 1, "merged": 1, "rejected": 0}


def test_a_record_of_a_later_run_is_another_attempt(run):
    local_run(run)
    run.metadata("out/a.txt", "prep", 90_000, 90_002, job_hash=1)
    made = tries(run.open())
    assert made["out/a.txt", 2]["started_ns"] == (T0 + 90_000) * 10**9


def test_a_rule_with_a_message_is_found_by_its_time(run):
    run.log(
        f"{stamp(0)}\nJob 4: Making two files\nReason: Missing output files\n",
        done(stamp(2), "two", 4),
        block(stamp(2), "prep", 5, "out/c.txt"), done(stamp(4), "prep", 5),
    )  # fmt: skip
    run.metadata("out/a.txt", "two", 0.1, 1.9)
    run.metadata("out/b.txt", "two", 0.1, 1.9)
    run.metadata("out/c.txt", "prep", 2.1, 3.9, job_hash=3)
    made = tries(run.open())
    assert set(made) == {("out/a.txt", 1), ("out/c.txt", 1)}
    assert made["out/a.txt", 1]["group"] == "two"


def test_metadata_with_impossible_times_yields_to_the_log(run):
    run.log(block(stamp(5), "py", 1, "out/py.txt"), done(stamp(7), "py", 1))
    run.metadata("out/py.txt", "py", 7.2, 7.1)
    (row,) = tries(run.open()).values()
    assert (row["started_ns"], row["ended_ns"]) == ((T0 + 5) * 10**9, (T0 + 7) * 10**9)


def again(run: Run, gap_s: float, **first: str) -> None:
    """Make a run of a `run:` rule and, ``gap_s`` later, another: its record has the old start."""
    run.log(block(stamp(0), "merge", 1, "m.txt", **first), done(stamp(4), "merge", 1),
            block(stamp(4), "nn", 2, "n.txt"), done(stamp(5), "nn", 2))  # fmt: skip
    run.log(block(stamp(gap_s), "merge", 1, "m.txt"), done(stamp(gap_s + 3), "merge", 1),
            block(stamp(gap_s + 3), "nn", 2, "n.txt"), done(stamp(gap_s + 4), "nn", 2),
            name="2023-11-15T221320.000000")  # fmt: skip
    run.metadata("m.txt", "merge", 4.375, gap_s + 3.568, job_hash=1)
    run.metadata("n.txt", "nn", gap_s + 3.598, gap_s + 4.599, job_hash=2)


@pytest.mark.parametrize("gap_s", [29, 90, 7229])
@pytest.mark.parametrize("offset", [None, "+00:00"])
def test_a_record_with_the_start_of_the_run_before_is_joined_by_its_end(run, gap_s, offset):
    again(run, gap_s)
    trace = run.open(**({"utc_offset": offset} if offset else {}))
    made = tries(trace)
    assert set(made) == {("m.txt", 1), ("m.txt", 2), ("n.txt", 1), ("n.txt", 2)}
    assert made["m.txt", 1]["ended_ns"] - made["m.txt", 1]["started_ns"] == 4 * 10**9
    second = made["m.txt", 2]
    assert second["started_ns"] == (T0 + gap_s) * 10**9
    assert second["ended_ns"] - second["started_ns"] == pytest.approx(3.568e9, abs=1e6)
    assert made["n.txt", 2]["started_ns"] == pytest.approx((T0 + gap_s + 3.598) * 1e9, abs=1e6)
    assert trace.meta["join"]["conflicts"] == {"started_ns": 1}
    assert not trace.meta["join"]["unmatched"]
    assert all(zone["utc_offset_s"] == 0 for zone in trace.meta["join"]["zones"].values())


def test_the_start_of_the_run_before_is_not_that_of_a_run_whose_log_is_gone(run):
    again(run, 5000)
    (run.folder / ".snakemake/log/2023-11-15T221320.000000.snakemake.log").unlink()
    made = tries(run.open(utc_offset="+00:00"))
    assert made["m.txt", 1]["ended_ns"] == (T0 + 4) * 10**9
    assert made["m.txt", 2]["started_ns"] is None
    assert made["m.txt", 2]["ended_ns"] == pytest.approx((T0 + 5003.568) * 1e9, abs=1e6)


def test_an_output_with_an_older_date_is_still_of_its_job(run):
    run.log(block(stamp(5), "get", 1, "out/a"), done(stamp(9), "get", 1))
    run.metadata("out/a", "get", 5.2, -90_000)
    (row,) = tries(run.open()).values()
    assert (row["started_ns"], row["ended_ns"]) == ((T0 + 5) * 10**9, (T0 + 9) * 10**9)


def message(at: str, jobid: int, text: str, reason: str) -> str:
    return f"{at}\nJob {jobid}: {text}\nReason: {reason}\n"


@pytest.mark.parametrize("reason", ["Missing output files: all x.txt; y", "Forced execution"])
def test_runs_of_a_rule_with_a_message_are_attempts_of_one_task(run, reason):
    run.log(message(stamp(0), 7, "merging it all", reason), done(stamp(4), "merge", 7))
    run.log(message(stamp(40), 9, "merging it all", "Forced execution"),
            done(stamp(44), "merge", 9), name="2023-11-15T221320.000000")  # fmt: skip
    run.metadata("all x.txt", "merge", 4.1, 44.6)
    made = tries(run.open(utc_offset="+00:00"))
    assert set(made) == {("all x.txt", 1), ("all x.txt", 2)}
    assert made["all x.txt", 1]["started_ns"] == T0 * 10**9
    assert made["all x.txt", 2]["started_ns"] == (T0 + 40) * 10**9


def test_a_failed_try_of_a_rule_with_a_message_is_of_the_same_task(run):
    run.log(message(stamp(0), 7, "merging", "Forced execution"), failed(stamp(2), "merge", 7, 1),
            "Trying to restart job 7.\n",
            message(stamp(2), 7, "merging", "Forced execution"),
            done(stamp(6), "merge", 7))  # fmt: skip
    run.metadata("all.txt", "merge", 2.1, 5.9)
    made = tries(run.open(utc_offset="+00:00"))
    assert {key: row["outcome"] for key, row in made.items()} == {
        ("all.txt", 1): "failed",
        ("all.txt", 2): "ok",
    }


def test_jobs_that_share_a_message_are_not_taken_for_one(run):
    run.log(message(stamp(0), 7, "sorting", "Forced"), message(stamp(0), 8, "sorting", "Forced"),
            done(stamp(4), "sort", 7), done(stamp(9), "sort", 8))  # fmt: skip
    run.metadata("a.txt", "sort", 0.1, 3.9, job_hash=1)
    run.metadata("b.txt", "sort", 0.1, 8.9, job_hash=2)
    run.log(message(stamp(40), 7, "sorting", "Forced"), done(stamp(44), "sort", 7),
            name="2023-11-13T221320.000000")  # fmt: skip
    made = tries(run.open(utc_offset="+00:00"))
    assert {("a.txt", 1), ("b.txt", 1)} <= set(made) and len(made) == 3


def test_repeats_add_up(run):
    local_run(run)
    more = "3.00\t0:00:03\t30.00\t9\t9\t9\t1.00\t2.00\t50.00\t1.00\n"
    with (run.folder / "bench/deep/a.tsv").open("a") as stream:
        stream.write(more)
    trace = run.open()
    row = tries(trace)["out/a.txt", 1]
    assert row["wall_s"] == pytest.approx(5.4) and row["cpu_s"] == pytest.approx(2.2)
    assert row["peak_memory_bytes"] == 30 << 20
    assert any("repeats" in word for word in trace.warnings)


def test_benchmarks_without_a_log(run):
    run.metadata("out/s1.bam", "align", 0, 9)
    run.metadata("out/s2.bam", "align", 0, 9, job_hash=2)
    run.metadata("out/s1.txt", "count", 9, 12, job_hash=3)
    cells = "\t".join(["8.00", "0:00:08", "10.00", *"9991155", "4.00"][:10])
    run.write("bench/x1.tsv", f"{WIDE}{cells}\talign\t{{'s': 's2'}}\t{{'mem_mib': 100}}\n")
    run.write("bench/count/s1.tsv", HEADER + cells + "\n")
    run.write("bench/nobody.tsv", HEADER + cells + "\n")
    trace = run.open()
    made = tries(trace)
    assert made["out/s2.bam", 1]["wall_s"] == 8.0 and made["out/s1.bam", 1]["wall_s"] == 9.0
    assert made["out/s2.bam", 1]["requested_memory_bytes"] == 100 << 20
    assert made["out/s1.txt", 1]["wall_s"] == 8.0
    assert made["nobody", 1]["wall_s"] == 8.0
    assert trace.meta["join"]["unmatched"] == {"benchmark": 1}
    assert any("1 record of benchmark belongs" in word for word in trace.warnings)


# -- Slurm --------------------------------------------------------------------------------------


def batch_run(run: Run) -> None:
    sent = "Job {} has been submitted with SLURM jobid {} (log: x/{}.log).\n"
    run.log(
        block(stamp(0, 2), "align", 1, "out/a.bam", batch="y", wildcards="s=a",
              resources="mem_mb=1000, mem_mib=954"), sent.format(1, 71, 71),
        block(stamp(0, 2), "align", 2, "out/b.bam", batch="y", wildcards="s=b",
              resources="mem_mb=1000, mem_mib=954"), sent.format(2, 72, 72),
        failed(stamp(90, 2), "align", 2, None, "external_jobid: 72",
               "message: SLURM-job '72' failed, SLURM status is: 'OUT_OF_MEMORY'. For details"),
        "Trying to restart job 2.\n",
        block(stamp(90, 2), "align", 2, "out/b.bam", batch="y", wildcards="s=b",
              resources="mem_mb=2000, mem_mib=1908"), sent.format(2, 73, 73),
        done(stamp(130, 2), "align", 1), done(stamp(200, 2), "align", 2), "Complete log(s): x\n",
    )  # fmt: skip
    run.metadata("out/a.bam", "align", 0.5, 128, job_hash=1)
    run.metadata("out/b.bam", "align", 90.5, 198, job_hash=2)


def sacct(zone_h: float = 2) -> str:
    def at(s: float) -> str:
        local = datetime.fromtimestamp(T0 + s, UTC) + timedelta(hours=zone_h)
        return local.strftime("%Y-%m-%dT%H:%M:%S")

    def job(number: str, state: str, s: tuple[int, int, int], peak: str, extra: str = "") -> str:
        rest = f"{at(s[1])}|{at(s[2])}|00:01:00|00:50.000"
        return (
            f"{number}|smk|{state}|0:0|{at(s[0])}|{rest}||954M|2|n1\n"
            f"{number}.batch|batch|{state}|0:0|{at(s[1])}|{rest}|{peak}||2|n1\n{extra}"
        )

    head = "JobID|JobName|State|ExitCode|Submit|Start|End|Elapsed|TotalCPU|MaxRSS|ReqMem|NCPUS|"
    return f"{head}NodeList\n" + (
        job("71", "COMPLETED", (0, 60, 125), "500M")
        + job("72", "OUT_OF_MEMORY", (0, 30, 88), "300M")
        + job("73", "COMPLETED", (90, 120, 195), "1200M")
        + job("99", "COMPLETED", (0, 1, 2), "1M")
    )


@pytest.mark.parametrize("zone_h", [2, -5])
def test_sacct_by_job_id(run, zone_h):
    batch_run(run)
    run.write("slurm/jobs.txt", sacct(zone_h))
    trace = run.open()
    made = tries(trace)
    a, lost, good = made["out/a.bam", 1], made["out/b.bam", 1], made["out/b.bam", 2]
    assert a["submitted_ns"] == T0 * 10**9 + 500_000_000 and a["started_ns"] == (T0 + 60) * 10**9
    assert a["peak_memory_bytes"] == 500 << 20 and a["host"] == "n1" and a["cpu_s"] == 50.0
    assert lost["outcome"] == "oom" and lost["outcome_kind"] == "reported"
    assert lost["peak_memory_bytes"] == 954 << 20 and lost["peak_memory_kind"] == "lower_bound"
    assert good["outcome"] == "ok" and good["peak_memory_bytes"] == 1200 << 20
    meta = trace.meta["join"]
    assert meta["matched"]["sacct"] == 3 and meta["unmatched"] == {"sacct": 1}
    assert meta["zones"]["sacct"]["utc_offset_s"] == zone_h * 3600
    assert "requested_memory_bytes" in meta["conflicts"]


def test_a_job_of_another_time_with_the_same_number_is_not_joined(run):
    batch_run(run)
    lines = sacct().splitlines()
    lines += [line.replace("2023-", "2021-") for line in lines if line.startswith("71")]
    kept = [line for line in lines if not line.startswith("71") or "2021-" in line]
    run.write("slurm/jobs.txt", "\n".join(kept) + "\n")
    trace = run.open()
    made = tries(trace)
    assert made["out/a.bam", 1]["host"] is None and made["out/b.bam", 1]["host"] == "n1"
    assert made["out/a.bam", 1]["submitted_ns"] == T0 * 10**9 + 500_000_000
    assert trace.meta["join"]["unmatched"] == {"sacct": 2}
    assert any("1 task has its number in common with Slurm" in word for word in trace.warnings)


def test_the_efficiency_report_of_the_plug_in(run):
    batch_run(run)
    run.write(
        "efficiency_report_1.csv",
        ",JobID,JobName,RuleName,Elapsed,TotalCPU,NNodes,NCPUS,MaxRSS,ReqMem,Elapsed_sec,TotalCPU_sec,"
        "MaxRSS_MB,RequestedMem_MB,MainJobID,CPU Efficiency (%),Memory Usage (%)\n"
        "2,71.0,python,rule_align,00:01:05,00:59,1,2,512000K,,65,59,500.0,954.0,71,45.4,52.41\n"
        "5,73.0,python,rule_align,1-00:00:00,,1,2,,,86400,0.0,0.0,1908.0,73,0,0\n"
        "6,x,python,rule_align,,,,,,,,,,,,,\n",
    )
    trace = run.open()
    made = tries(trace)
    assert made["out/a.bam", 1]["peak_memory_bytes"] == 512000 * 1024
    assert made["out/a.bam", 1]["cpu_s"] == 59.0 and made["out/a.bam", 1]["granted_cores"] == 2
    assert made["out/b.bam", 2]["peak_memory_bytes"] is None
    assert trace.meta["join"]["matched"]["efficiency report"] == 2
    assert trace.table("rejects").num_rows == 1


def test_job_ids_from_the_folder_of_slurm_logs(run):
    run.log(block(stamp(0, 2), "align", 1, "out/a.bam", batch="y", wildcards="s=a"),
            done(stamp(130, 2), "align", 1))  # fmt: skip
    run.write(".snakemake/slurm_logs/rule_align/a/71.log", "x\n")
    run.write("jobs.txt", sacct())
    (row,) = [r for r in run.open().table("tasks").to_pylist() if r["task_id"] == "out/a.bam"]
    assert row["host"] == "n1" and row["peak_memory_bytes"] == 500 << 20


def test_unfinished_jobs_and_killed_runs(run):
    run.log(block(stamp(0), "align", 1, "out/a.bam"), block(stamp(0), "align", 2, "out/b.bam"),
            failed(stamp(5), "align", 2, 137))  # fmt: skip
    trace = run.open()
    made = tries(trace)
    assert made["out/a.bam", 1]["outcome"] == "unknown"
    assert "no end" in made["out/a.bam", 1]["error"]
    assert made["out/b.bam", 1]["outcome"] == "oom" and made["out/b.bam", 1]["signal"] == 9
    assert trace.meta["run"]["status"] == "unknown"


def test_dry_runs_and_empty_folders_hold_nothing(run):
    run.log(block(stamp(0), "a", 1, "out/a"), "This was a dry-run (flag -n).\n")
    with pytest.raises(BadInput, match="without metadata"):
        run.open()


def test_damaged_records_are_refused_one_by_one(run):
    local_run(run)
    run.write(".snakemake/metadata/b3V0L2JhZA==", "{")
    run.write(".snakemake/metadata/b3V0L2JhZDI=", "[" * 9999)
    run.write(".snakemake/metadata/not base64", "{}")
    (run.folder / ".snakemake/log/x.snakemake.log").write_bytes(b"\x00\xff[Sun" * 99)
    trace = run.open()
    assert trace.table("rejects").num_rows == 3 and len(tries(trace)) == 3


def test_the_same_folder_twice_is_the_same(run):
    batch_run(run)
    run.write("jobs.txt", sacct())
    a, b = run.open(), run.open()
    assert a.table("tasks").equals(b.table("tasks")) and json.dumps(a.meta) == json.dumps(b.meta)


def test_no_snakemake_no_join(tmp_path):
    assert join(tmp_path, utc_offset_s=None, options={}) is None
