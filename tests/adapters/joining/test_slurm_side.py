"""Which of Slurm's jobs is a task's, where a number stands for several."""

from __future__ import annotations

from pathlib import Path

import pytest

from rotameter.adapters.importers.building import Builder
from rotameter.adapters.joining.merging import Ledger
from rotameter.adapters.joining.slurm_side import Slurm, read_sacct

HOUR = 3600 * 10**9
HEAD = "JobID|User|JobName|Partition|State|Submit|Start|End|Elapsed\n"
OLD = (
    "5|bob|x|long|COMPLETED|2024-06-05T10:00:00|2024-06-05T10:00:05|2024-06-05T10:30:00|00:29:55\n"
)
NEW = (
    "5|ann|y|short|COMPLETED|2026-01-05T10:00:01|2026-01-05T10:00:05|2026-01-05T10:10:00|00:09:55\n"
)
RAW = HEAD.replace("JobID", "JobID|JobIDRaw")


def read(folder: Path, text: str) -> Slurm:
    path = folder / "sacct.txt"
    path.write_text(text)
    return read_sacct(folder, [path], Builder("nextflow", "nextflow"), Ledger())


@pytest.mark.parametrize(
    ("text", "called"),
    [
        (HEAD + OLD, ["5"]),
        (HEAD + OLD + NEW, ["5", "5#2"]),
        (f"Cluster|{HEAD}old|{OLD}new|{NEW}", ["old:5", "new:5"]),
        (f"Cluster|{RAW}old|5|{OLD}new|5|{NEW}", ["old:5", "new:5"]),
        # Only one of the two clusters has the number.
        (f"Cluster|{HEAD}old|{OLD.replace('5|', '6|', 1)}new|{NEW}", ["5"]),
        (f"Cluster|{HEAD}new|{OLD}new|{NEW}", ["5", "5#2"]),
    ],
)
def test_jobs_of_one_number(tmp_path: Path, text: str, called: list[str]) -> None:
    slurm = read(tmp_path, text)
    assert slurm.called("5") == called and slurm.called("50") == slurm.called(None) == []
    assert all(len(slurm.jobs[name]) == 1 for name in called)


def row(begin: float | None, end: float | None) -> dict[str, int | None]:
    return {
        "submitted_ns": None if begin is None else round(begin * HOUR),
        "ended_ns": None if end is None else round(end * HOUR),
    }


@pytest.mark.parametrize(
    ("jobs", "chosen"),
    [
        ([(1000, 1001), (0, 1)], 1),
        ([(0, 1), (1000, 1001)], 0),
        ([(0.1, 1.1), (0, 1)], 1),  # both clusters that morning
        ([(None, None), (0, 1)], 1),
        ([(None, None)], 0),
        ([(1000, 1001)], None),
        ([(1000, 1001), (2000, 2001)], None),
        ([(None, None), (None, None)], "several"),
        ([(0, 1), (0, 1)], "several"),
    ],
)
def test_the_job_that_was_there_at_the_task_s_time_is_the_task_s(
    jobs: list[tuple[float | None, float | None]], chosen: int | str | None
) -> None:
    names = ["5", *(f"5#{at}" for at in range(2, 9))][: len(jobs)]
    slurm = Slurm(dict(zip(names, ([row(*job)] for job in jobs), strict=True)))
    if len(jobs) > 1:
        slurm.shared["5"] = names
    found, said = slurm.fitting(["5", None, "6"], [row(0, 1)] * 3)
    assert found == [names[chosen] if isinstance(chosen, int) else None, None, None]
    words = {None: "of another time", "several": "several Slurm jobs"}
    assert [words[chosen] in text for text in said] == [True] if chosen in words else not said
