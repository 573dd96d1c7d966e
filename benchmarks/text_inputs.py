"""Inputs of the text formats, made up at any size: what real ones hold, in their proportions."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

__all__ = ["WRITERS", "write_input"]

_PROCESSES = ("ALIGN:BWA_MEM", "QC:FASTQC", "CALL:HAPLOTYPECALLER", "MULTIQC", "TRIM:FASTP")
_RULES = ("align", "sort_reads", "call_variants", "merge", "qc")
T0_MS = 1_759_849_600_000
T0_US = 1_742_250_321_000_000


def nextflow(rng: random.Random) -> Iterator[str]:
    """Trace of the 14 columns that are written by default."""
    yield (
        "task_id\thash\tnative_id\tname\tstatus\texit\tsubmit\tduration\trealtime\t%cpu\tpeak_rss\t"
        "peak_vmem\trchar\twchar\n"
    )
    number = 0
    while True:
        number += 1
        process, failed = rng.choice(_PROCESSES), rng.random() < 0.03
        wall = rng.lognormvariate(3, 1)
        yield (
            f"{number}\t{rng.getrandbits(8):02x}/{rng.getrandbits(24):06x}\t{70000 + number}\t"
            f"{process} (SAMPLE{number % 40_000}_REP{number % 3})\t"
            f"{'FAILED' if failed else 'COMPLETED'}\t{137 if failed else 0}\t"
            f"2020-10-{1 + number % 28:02} {number % 24:02}:{number % 60:02}:20.313\t"
            f"{wall + 2:.1f}s\t{wall:.1f}s\t{rng.uniform(20, 400):.1f}%\t"
            f"{rng.uniform(1, 900):.1f} MB\t{rng.uniform(900, 1800):.1f} MB\t"
            f"{rng.uniform(1, 900):.1f} MB\t{rng.uniform(1, 900):.1f} KB\n"
        )


def snakemake(rng: random.Random) -> Iterator[str]:
    """One benchmark with many rows, extended columns."""
    yield (
        "s\th:m:s\tmax_rss\tmax_vms\tmax_uss\tmax_pss\tio_in\tio_out\tmean_load\tcpu_time\tjobid\t"
        "rule_name\twildcards\tthreads\tcpu_usage\tresources\tinput_size_mb\n"
    )
    number = 0
    while True:
        number += 1
        s, threads = rng.lognormvariate(3, 1), rng.choice((1, 2, 4))
        yield (
            f"{s:.4f}\t0:{int(s) // 60 % 60:02}:{int(s) % 60:02}\t"
            f"{rng.uniform(5, 900):.2f}\t935.97\t{rng.uniform(5, 90):.2f}\t"
            f"{rng.uniform(5, 90):.2f}\t{rng.uniform(0, 9):.2f}\t0.10\t"
            f"{rng.uniform(20, 400):.2f}\t{s * threads:.2f}\t{number}\t{rng.choice(_RULES)}\t"
            f"{{'sample': 's{number}'}}\t{threads}\t1863.32\t"
            f"{{'_cores': {threads}, '_nodes': 1, 'mem_mb': 1000, 'tmpdir': '/tmp'}}\t{{}}\n"
        )


def snakemake_plain(rng: random.Random) -> Iterator[str]:
    """One benchmark with many repeats, the ten columns of older versions."""
    yield ("s\th:m:s\tmax_rss\tmax_vms\tmax_uss\tmax_pss\tio_in\tio_out\tmean_load\tcpu_time\n")
    while True:
        s = rng.lognormvariate(3, 1)
        yield (
            f"{s:.4f}\t0:{int(s) // 60 % 60:02}:{int(s) % 60:02}\t"
            f"{rng.uniform(5, 900):.2f}\t935.97\t{rng.uniform(5, 90):.2f}\t"
            f"{rng.uniform(5, 90):.2f}\t{rng.uniform(0, 9):.2f}\t0.10\t"
            f"{rng.uniform(20, 400):.2f}\t{s:.2f}\n"
        )


def table(rng: random.Random) -> Iterator[str]:
    """CSV of tasks with well-known names."""
    yield "task_id,group,start,end,wall_s,cpu_s,peak_memory_bytes,cores,host,outcome\n"
    number, at = 0, 1_700_000_000.0
    while True:
        number, wall = number + 1, rng.lognormvariate(3, 1)
        at += rng.random()
        yield (
            f"job-{number},{rng.choice(_RULES)},{at:.3f},{at + wall:.3f},{wall:.3f},"
            f"{wall * 0.8:.3f},{rng.randrange(1 << 34)},{rng.choice((1, 2, 8))},"
            f"node{number % 97},ok\n"
        )


def taskvine(rng: random.Random) -> Iterator[str]:
    """Transactions: each task ready, running, retrieved and done."""
    asked = '{"memory":[10000,"MB"],"disk":[20000,"MB"],"gpus":[0,"gpus"],"cores":[2,"cores"]}'
    at, number = T0_US, 0
    yield "# time manager_pid MANAGER manager_pid START|END time_from_origin\n"
    yield f"{at} 7 MANAGER 7 START 0\n"
    workers = [f"worker-{rng.getrandbits(128):032x}" for _ in range(200)]
    for worker in workers:
        yield f"{at} 7 WORKER {worker} CONNECTION 10.32.85.31:1024\n"
        yield f"{at} 7 WORKER {worker} RESOURCES {asked}\n"
    while True:
        number, at = number + 1, at + 900
        worker, ran = rng.choice(workers), rng.randrange(10**5, 10**8)
        began, ended = at + 500, at + 500 + ran
        yield f"{at} 7 TASK {number} READY {rng.choice(_RULES)} FIRST_RESOURCES 1 {asked}\n"
        yield (
            f"{began} 7 TASK {number} RUNNING {worker}  FIRST_RESOURCES "
            f'{{"time_commit_start":[{began / 1e6:.6f},"s"],"time_commit_end":'
            f'[{began / 1e6 + 0.0003:.6f},"s"],"time_input_mgr":[0.000299,"s"],"size_input_mgr":'
            f'[{rng.random()},"MB"],"memory":[10000,"MB"],"disk":[20000,"MB"],"gpus":[0,"gpus"],'
            '"cores":[2,"cores"]}\n'
        )
        yield f"{ended} 7 TASK {number} WAITING_RETRIEVAL {worker} \n"
        yield (
            f"{ended + 90} 7 TASK {number} RETRIEVED SUCCESS  0  {{}} "
            f'{{"time_worker_start":[{began / 1e6:.6f},"s"],"time_worker_end":'
            f'[{ended / 1e6:.6f},"s"],"time_output_mgr":[0.006151,"s"],"size_output_mgr":'
            f'[{rng.random()},"MB"],"memory":[{rng.randrange(9000)},"MB"],"cores":[1,"cores"]}}\n'
        )
        yield f"{ended + 95} 7 TASK {number} DONE SUCCESS  0 \n"


def wfformat(rng: random.Random, size: int) -> str:
    """One workflow of version 1.5: chains that meet, two files in and one out a task."""
    tasks: list[dict[str, Any]] = []
    runs: list[dict[str, Any]] = []
    files: list[dict[str, Any]] = []
    used, number = 0, 0
    while used < size:
        number += 1
        rule = rng.choice(_RULES)
        name = f"{rule}_ID{number:07}"
        up = [tasks[number - 2]["id"]] if number > 1 else []
        task = {
            "name": name,
            "id": name,
            "parents": up,
            "children": [],
            "inputFiles": [f"{one}.out" for one in up] + ["reference.fasta"],
            "outputFiles": [f"{name}.out"],
        }
        run = {
            "id": name,
            "runtimeInSeconds": round(rng.lognormvariate(3, 1), 3),
            "command": {"program": rule, "arguments": ["--threads", "2", name]},
            "coreCount": 2,
            "avgCPU": round(rng.uniform(5, 190), 4),
            "readBytes": rng.randrange(1 << 32),
            "writtenBytes": rng.randrange(1 << 30),
            "memoryInBytes": rng.randrange(1 << 34),
            "machines": [f"node{number % 40}"],
        }
        file = {"id": f"{name}.out", "sizeInBytes": rng.randrange(1 << 32)}
        if number > 1:
            tasks[number - 2]["children"] = [name]
        tasks.append(task)
        runs.append(run)
        files.append(file)
        used += len(name) * 6 + 560
    files.append({"id": "reference.fasta", "sizeInBytes": 3_000_000_000})
    machines = [{"nodeName": f"node{i}", "cpu": {"coreCount": 48}} for i in range(40)]
    flow = {
        "specification": {"tasks": tasks, "files": files},
        "execution": {"makespanInSeconds": 9e4, "tasks": runs, "machines": machines},
    }
    return json.dumps(
        {"name": "made", "schemaVersion": "1.5", "workflow": flow}, separators=(",", ": ")
    )


def dftracer(rng: random.Random) -> Iterator[str]:
    """Calls of one process on some thousand files."""
    yield "[\n"
    head = '"cat":"dftracer","pid":7,"tid":7,"ph":"M","args"'
    yield f'{{"id":1,"name":"HH",{head}:{{"name":"node1","value":5}}}}\n'
    number, at, files = 1, T0_US, 0
    while True:
        if files < 5000 and number >= files * 20:
            value = f'{{"name":"/data/part-{files:05}.bin","value":"h{files}"}}'
            yield f'{{"name":"FH",{head}:{value}}}\n'
            files += 1
        number, at = number + 1, at + rng.randrange(1, 2000)
        name, size = rng.choice(("read", "write", "lseek64")), rng.randrange(1 << 20)
        yield (
            f'{{"id":{number},"name":"{name}","cat":"POSIX","pid":7,"tid":7,"ts":{at},"dur":'
            f'{rng.randrange(1, 900)},"ph":"X","args":{{"hhash":5,"p_idx":-1,'
            f'"level":1,"ret":{size},"count":{size},"fhash":"h{rng.randrange(files)}","fd":14}}}}\n'
        )


def dayu(rng: random.Random) -> Iterator[str]:
    """VFD records of one process, some datasets a file."""
    yield "["
    number, at = 0, T0_US
    while True:
        number, at = number + 1, at + 9000
        sets = ",\n\t\t\t".join(
            f'"var_{n}": {{"H5FD_MEM_DRAW": {{"read_bytes": 0, "read_cnt": 0, "read_ranges": {{}}, '
            f'"write_bytes": {rng.randrange(1 << 20)}, "write_cnt": 6, "write_ranges": '
            + json.dumps({str(i): [n, n + i] for i in range(6)})
            + "}}"
            for n in range(8)
        )
        comma = "," if number > 1 else ""
        yield (
            f'{comma}\n{{\n\t"file-{number}": {{"file_name": "/mnt/run/out_{number:06}.h5", '
            f'"task_name": "write-{number % 500}", "node_id": "n5", "open_time(us)": {at}.000000, '
            f'"close_time(us)": {at + 8000}.000000, "file_read_cnt": 0, "file_write_cnt": 48, '
            f'"file_size": {rng.randrange(1 << 24)}, \n\t\t"data":[{{\n\t\t\t{sets}\n\t\t}}],\n\t\t'
            f'"metadata":[{{}}]\n\t}},\n\t"Task": {{"task_name": "write-{number % 500}", '
            f'"task_id": {number % 500}, "tracker_vfd_page_size": 65536, '
            f'"POSIX-WRITE-Time(us)": {number * 7}.5}}\n}}'
        )


def swf(rng: random.Random) -> Iterator[str]:
    """Jobs of a cluster's log."""
    yield "; Version: 2.2\n; UnixStartTime: 1132444805\n"
    number, at = 0, 0
    while True:
        number, at = number + 1, at + rng.randrange(60)
        run = rng.randrange(90_000)
        yield (
            f"{number} {at} {rng.randrange(900)} {run} {rng.choice((1, 2, 64))} {run * 0.8:.1f} "
            f"{rng.randrange(1 << 20)} 8 {run * 2} {1 << 20} 1 {number % 300} {number % 30} -1 "
            f"{number % 4} {number % 4} -1 -1\n"
        )


def chrome_trace(rng: random.Random) -> Iterator[str]:
    """Slices of some threads."""
    yield '{"traceEvents":[\n{"name":"process_name","ph":"M","pid":1,"args":{"name":"app"}}'
    at = 0
    while True:
        at += rng.randrange(1, 50)
        yield (
            f',\n{{"name":"step {rng.randrange(90)}","cat":"work","ph":"X","ts":{at},"dur":'
            f'{rng.randrange(1, 45)},"pid":1,"tid":{rng.randrange(8)},"args":{{"n":{at % 977}}}}}'
        )


LINES: dict[str, tuple[str, Callable[[random.Random], Iterator[str]], str]] = {
    "nextflow": ("trace.txt", nextflow, ""),
    "snakemake": ("extended.tsv", snakemake, ""),
    "snakemake_plain": ("plain.tsv", snakemake_plain, ""),
    "taskvine": ("transactions", taskvine, ""),
    "table": ("tasks.csv", table, ""),
    "dftracer": ("run-7.pfw", dftracer, "]\n"),
    "dayu": ("7-vfd_data_stat.json", dayu, "]\n"),
    "swf": ("log.swf", swf, ""),
    "chrome_trace": ("trace.json", chrome_trace, "\n]}\n"),
}
WRITERS = (*LINES, "wfformat")
"""Names of the inputs: importers, and ``snakemake_plain`` for one of Snakemake's two forms."""


def write_input(name: str, folder: Path, size: int, seed: int = 0) -> Path:
    """Write one input of a format, of about ``size`` bytes; give its path."""
    rng = random.Random(seed)
    if name == "wfformat":
        path = folder / "workflow.json"
        path.write_text(wfformat(rng, size))
        return path
    file, lines, end = LINES[name]
    path = folder / file
    written = 0
    with path.open("w") as out:
        for line in lines(rng):
            out.write(line)
            written += len(line)
            if written >= size:
                break
        out.write(end)
    return path
