"""Real jobs of every ending, and what each must be once it is imported."""

from __future__ import annotations

import base64
import gzip
import json
import re
import time
from dataclasses import dataclass
from pathlib import Path

from tests.support.slurm.cluster import Cluster, wait_for

MIB = 2**20

# Holds this many MiB for this many seconds, or, with "burn", until it has used that much CPU time,
# however busy the machine is. The pages are written to, so that they are resident.
_HOLD = """\
import sys, time
size, seconds, burn = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3:] == ["burn"]
held = bytearray(size << 20)
held[::4096] = b"x" * len(held[::4096])
print("held", flush=True)
clock = time.process_time if burn else time.monotonic
end = clock() + seconds
while clock() < end:
    if not burn:
        time.sleep(0.05)
"""


@dataclass(frozen=True)
class Job:
    """One job as submitted, and what is known about how it must end.

    ``held_mib`` is the largest memory that one of its processes held; ``records`` is the number of
    runs (array tasks, components, attempts) that it must give.
    """

    name: str
    job_id: int
    outcome: str
    cores: int = 1
    memory_mib: int = 64
    minutes: int = 10
    held_mib: int = 0
    burnt_s: float = 0.0
    records: int = 1
    exit_code: int | None = None
    signal: int | None = None


class Workload:
    """Submit the jobs, steer those that need it, and wait until accounting has them all."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.folder = cluster.folder / "jobs"
        self.folder.mkdir()
        (self.folder / "hold.py").write_text(_HOLD)
        self.hold = f"/usr/bin/env python3 {self.folder}/hold.py"
        self.jobs: list[Job] = []

    def submit(self, name: str, body: str, *options: str) -> int:
        """Submit a batch job of this name and body; give its id."""
        script = self._script(name, body)
        words = ["sbatch", "--parsable", f"--job-name={name}", f"--chdir={self.folder}", *options]
        if not any(option.startswith("--output") for option in options):
            words.append(f"--output={self.folder}/{name}-%j.out")
        return int(self.cluster.call(*words, script).split(";")[0])

    def _script(self, name: str, body: str) -> Path:
        script = self.folder / f"{name}.sh"
        script.write_text(f"#!/bin/bash\n{body}\n")
        return script

    def state(self, job_id: int) -> str:
        """Give the state that the controller tells for a job."""
        return self.cluster.call("squeue", "-h", "-t", "all", "-j", job_id, "-o", "%T").strip()

    def _wait_until_running(self, job_id: int) -> None:
        wait_for(f"job {job_id} runs", lambda: self.state(job_id) == "RUNNING", 40)

    def run(self) -> list[Job]:
        """Run everything; give what each job must be."""
        self._submit_those_to_steer()
        self._submit_those_that_end_by_themselves()
        self._steer()
        self.wait_for_accounting()
        return self.jobs

    def add(self, job: Job) -> int:
        """Keep what a job must be; give its id."""
        self.jobs.append(job)
        return job.job_id

    def _submit_those_to_steer(self) -> None:
        submit, add, hold = self.submit, self.add, self.hold
        # Under exec nothing is left that could hold up the end of the job.
        self.late = add(
            Job("late", submit("late", "exec sleep 300", "--time=1"), "timeout", minutes=1)
        )
        body = f"{hold} 120 300"
        self.stopped = add(
            Job("stopped", submit("stopped", body, "--mem=256M"), "cancelled", 1, 256, held_mib=120)
        )
        self.never = add(Job("never", submit("never", "true", "--hold"), "cancelled"))
        # The first run leaves a mark and waits to be requeued; the second finds it and ends.
        body = f"[ -e {self.folder}/again ] && exit 0; touch {self.folder}/again; exec sleep 300"
        self.again = add(Job("again", submit("again", body, "--requeue"), "ok", records=2))
        self.cheap = add(Job("cheap", submit("cheap", "exec sleep 300", "-pspot"), "preempted"))
        self.paused = add(Job("paused", submit("paused", "sleep 6"), "ok"))

    def _submit_those_that_end_by_themselves(self) -> None:
        submit, add, hold = self.submit, self.add, self.hold
        options = ("--cpus-per-task=2", "--mem=300M", "--time=5", "--hold")
        job_id = submit("busy", f"{hold} 150 3 burn", *options)
        self._note_of_the_admin(job_id)
        self.cluster.call("scontrol", "release", job_id)
        add(Job("busy", job_id, "ok", 2, 300, 5, held_mib=150, burnt_s=3.0, exit_code=0))
        add(Job("bad", submit("bad", "exit 3"), "failed", exit_code=3))
        add(Job("killed", submit("killed", "kill -SEGV $$"), "failed", signal=11))
        job_id = submit("greedy", f"{hold} 400 20", "--mem=100M")
        add(Job("greedy", job_id, "oom", memory_mib=100, held_mib=100))
        output = f"--output={self.folder}/array-%A_%a.out"
        body = f"{hold} $((SLURM_ARRAY_TASK_ID * 40)) 3"
        job_id = submit("array", body, "--array=1-3", "--mem=200M", output)
        add(Job("array", job_id, "ok", memory_mib=200, held_mib=120, records=3))
        body = f"srun -n1 {hold} 60 3 & srun -n2 {hold} 90 3 & wait; srun -n1 {hold} 30 2 burn"
        job_id = submit("steps", body, "--ntasks=3", "--mem-per-cpu=150M")
        add(Job("steps", job_id, "ok", 3, 450, held_mib=90, burnt_s=2.0))
        job_id = submit("cards", "sleep 1", "--gres=gpu:2", "--comment=two\nlines")
        add(Job("cards", job_id, "ok"))
        body = "srun --het-group=0,1 sleep 1"
        job_id = submit("pair", body, "--ntasks=1", ":", "--ntasks=1", "--mem=200M")
        add(Job("pair", job_id, "ok", records=2))
        job_id = submit("wide", f"srun {hold} 50 3", "--nodes=2", "--mem=150M")
        add(Job("wide", job_id, "ok", 2, 300, held_mib=50))

    def _steer(self) -> None:
        call = self.cluster.call
        for job_id in (self.late, self.stopped, self.again, self.paused, self.cheap):
            self._wait_until_running(job_id)
        call("scontrol", "suspend", self.paused)
        # A limit's unit is a minute: the end of this run is moved instead.
        call("scontrol", "update", f"JobId={self.late}", "EndTime=now+2")
        wait_for("first run", (self.folder / "again").exists)
        output = self.folder / f"stopped-{self.stopped}.out"
        wait_for("memory held", lambda: output.exists() and "held" in output.read_text())
        time.sleep(2.5)  # memory is sampled once a second
        call("scontrol", "requeue", self.again)
        call("scancel", self.stopped, self.never)
        call("scontrol", "resume", self.paused)
        self._lose_a_node()

    def _lose_a_node(self) -> None:
        """Preempt the cheap job by an urgent one, then take the node from that."""
        job_id = self.submit("urgent", "exec sleep 300", "-purgent", "--no-requeue")
        self.add(Job("urgent", job_id, "worker_lost"))
        self._wait_until_running(job_id)
        time.sleep(1.5)
        node = self.cluster.settings.nodes[2]
        self.cluster.call("scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=test")

    def wait_for_accounting(self, timeout: float = 60.0) -> None:
        """Wait until accounting knows the end of every job, the requeued one's second included."""
        ids = ",".join(str(job.job_id) for job in self.jobs)

        def ended() -> bool:
            text = self.cluster.call("sacct", "-nPX", "-j", ids, "-o", "jobid,state,end")
            rows = [line.split("|") for line in text.splitlines()]
            known = {re.split("[_+]", row[0])[0] for row in rows}
            over = all(row[1] != "REQUEUED" and row[2] != "Unknown" for row in rows)
            return over and known == set(ids.split(","))

        wait_for("accounting of all jobs", ended, timeout)

    def _note_of_the_admin(self, job_id: int) -> None:
        """Give a waiting job what ``jobstats`` notes: JS1: + base64(gzip(JSON)).

        By scontrol: sacctmgr of 22.05 turns the text into small letters, which ruins it.
        """
        used = {"cpus": 2, "total_memory": 300 * MIB, "used_memory": 160 * MIB, "total_time": 2.5}
        nodes = {self.cluster.settings.nodes[0]: used}
        packed = gzip.compress(json.dumps({"nodes": nodes, "total_time": 3.0, "gpus": 0}).encode())
        text = "JS1:" + base64.b64encode(packed).decode()
        self.cluster.call("scontrol", "update", f"JobId={job_id}", f"AdminComment={text}")


FIELDS = """\
JobID,JobIDRaw,JobName,User,State,ExitCode,Submit,Eligible,Start,End,Elapsed,Suspended,Timelimit,\
AllocCPUS,AllocNodes,AllocTRES,ReqCPUS,ReqMem,ReqTRES,NTasks,TotalCPU,MaxRSS,MaxDiskRead,\
MaxDiskWrite,Partition,AdminComment"""


def export(cluster: Cluster, jobs: list[Job], folder: Path) -> dict[str, Path]:
    """Write accounting as ``sacct`` gives it, in several forms; give the files by name."""
    chosen = ["-j", ",".join(str(job.job_id) for job in jobs)]
    forms = {
        "all.txt": ["-P", "-D", *chosen, "-o", "ALL"],
        "chosen.txt": ["-P", "-D", *chosen, "-o", FIELDS],
        "last.txt": ["-P", *chosen, "-o", FIELDS],
        "bare.txt": ["-P", "-D", "-n", *chosen, "-o", FIELDS],
        "padded.txt": ["-p", "-D", *chosen, "--delimiter=^|^", "-o", FIELDS],
        "bytes.txt": ["-P", "-D", *chosen, "--noconvert", "-o", FIELDS],
        "mega.txt": ["-P", "-D", *chosen, "--units=M", "-o", FIELDS],
        "default.txt": ["-P", *chosen],
        "long.txt": ["-P", "-D", "-l", *chosen],
        "columns.txt": ["-D", *chosen, "-l"],
        "json.json": ["-D", "--json", *chosen],
    }
    files = {}
    for name, words in forms.items():
        files[name] = folder / name
        files[name].write_text(cluster.call("sacct", *words))
    return files
