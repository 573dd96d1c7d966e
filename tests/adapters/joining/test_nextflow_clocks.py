"""A Nextflow run over a change of the clocks, with its log and Slurm's accounting."""

from __future__ import annotations

from calendar import timegm
from pathlib import Path

import pytest

import rotameter

HEAD = "hash\tnative_id\tname\tstatus\texit\tsubmit\tstart\tcomplete\tduration\trealtime\n"
SACCT = "JobID|JobName|State|ExitCode|Submit|Start|End|Elapsed|NCPUS|NodeList|User\n"


class Night:
    """Writes what a run leaves behind: tasks at minutes from the change of the clocks."""

    def __init__(self, folder: Path, change: int, day: str, before_h: int, after_h: int) -> None:
        self.folder, self.change, self.day = folder, change, day
        self.zones = (before_h, after_h)
        self.trace, self.log, self.sacct = HEAD, "", SACCT

    def clock(self, minute: float) -> str:
        at = self.change + round(60 * minute) + 3600 * self.zones[minute >= 0]
        hour, rest = divmod(at % 86_400, 3600)
        return f"{hour:02}:{rest // 60:02}:{rest % 60:02}"

    def task(self, key: int, begin: float, end: float, *, traced: bool = True) -> None:
        first, last, took = self.clock(begin), self.clock(end), f"{round(end - begin)}m"
        iso, short = f"2025-{self.day}", {"03-30": "Mar-30", "10-26": "Oct-26"}[self.day]
        if traced:
            self.trace += (
                f"aa/{key:06}\t{key}\tT{key}\tCOMPLETED\t0\t{iso} {first}.000\t{iso} {first}.000\t"
                f"{iso} {last}.000\t{took}\t{took}\n"
            )
        name = f"T{key}"
        self.log += (
            f"{short} {first}.001 [Task submitter] DEBUG x - [SLURM] submitted process {name} > "
            f"jobId: {key}; workDir: /w/aa/{key:06}00\n"
            f"{short} {last}.001 [Task monitor] DEBUG x - Task completed > TaskHandler[jobId: {key}"
            f"; id: {key}; name: {name}; status: COMPLETED; exit: 0; error: -; "
            f"workDir: /w/aa/{key:06}00 started: -; exited: -; ]\n"
        )
        minutes = round(end - begin)
        self.sacct += (
            f"{key}|nf-{name}|COMPLETED|0:0|{iso}T{first}|{iso}T{self.clock(begin + 0.1)}|"
            f"{iso}T{self.clock(end + 0.1)}|"
            f"{minutes // 60:02}:{minutes % 60:02}:00|1|n{key}|ann\n"
        )

    def open(self, *, sacct: bool, **options):
        (self.folder / "trace.txt").write_text(self.trace)
        (self.folder / ".nextflow.log").write_text(self.log)
        if sacct:
            (self.folder / "sacct.txt").write_text(self.sacct)
        return rotameter.open(self.folder, **options)


@pytest.mark.parametrize("sacct", [False, True])
@pytest.mark.parametrize("behind", [1, 12])
@pytest.mark.parametrize("day, zones", [("03-30", (1, 2)), ("10-26", (2, 1))])
def test_the_log_and_slurm_are_by_the_traces_clock(tmp_path, day, zones, behind, sacct):
    month, date = map(int, day.split("-"))
    change = timegm((2025, month, date, 1, 0, 0))
    night = Night(tmp_path, change, day, *zones)
    for key in range(2):
        night.task(key + 1, -50 + key, -40 + key)
    night.task(3, -10, 20)
    for key in range(behind):
        night.task(key + 10, 90 + key, 100 + key)
    night.task(90, 150, 170, traced=False)
    trace = night.open(sacct=sacct, utc_offset=f"+{zones[0]:02}:00")
    tasks = {row["task_id"]: row for row in trace.table("tasks").to_pylist()}
    times = {
        key: tuple(round(tasks[f"T{key}"][f"{side}_ns"] / 1e9) for side in ("submitted", "ended"))
        for key in (1, 3, 10, 90)
    }
    minutes = {1: (-50, -40), 3: (-10, 20), 10: (90, 100), 90: (150, 170)}
    assert times == {k: tuple(change + 60 * m for m in both) for k, both in minutes.items()}
    if sacct:
        assert {key: tasks[f"T{key}"]["host"] for key in times} == {k: f"n{k}" for k in times}
        assert not trace.meta["join"]["conflicts"]
