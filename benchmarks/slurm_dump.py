"""A realistic ``sacct -P -D`` dump of any size, and how long its import takes."""

from __future__ import annotations

import random
import resource
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

__all__ = ["HEADER", "import_seconds", "write", "write_dump"]

HEADER = (
    "JobID|JobIDRaw|JobName|User|Account|Partition|State|ExitCode|Submit|Eligible|Start|End|"
    "Elapsed|TotalCPU|ReqCPUS|AllocCPUS|NNodes|NTasks|ReqMem|MaxRSS|AveDiskRead|AveDiskWrite|"
    "ConsumedEnergyRaw|Timelimit|ReqTRES|AllocTRES|TRESUsageInTot|TRESUsageOutTot|NodeList|"
    "Priority|AdminComment|SubmitLine"
)
_STATES = (
    ("COMPLETED", "0:0", 80),
    ("FAILED", "1:0", 6),
    ("CANCELLED by 1005", "0:15", 4),
    ("TIMEOUT", "0:0", 4),
    ("OUT_OF_MEMORY", "0:125", 3),
    ("NODE_FAIL", "1:0", 1),
    ("PREEMPTED", "0:0", 2),
)
_NAMES = ("align", "call_variants", "train_unet", "relax", "md_prod", "merge", "qc", "bash")


def _clock(seconds: float) -> str:
    days, rest = divmod(int(seconds), 86400)
    hours, rest = divmod(rest, 3600)
    text = f"{hours:02}:{rest // 60:02}:{rest % 60:02}"
    return f"{days}-{text}" if days else text


def _cpu(seconds: float) -> str:
    whole = int(seconds)
    if whole < 3600:
        return f"{whole // 60:02}:{whole % 60:02}.{int(seconds % 1 * 1000):03}"
    return _clock(whole)


def _job(rng: random.Random, number: int, submit: datetime) -> list[str]:
    """Make a job's row, those of its steps, and for some an earlier run that was lost."""
    state, code, _ = rng.choices(_STATES, [weight for *_, weight in _STATES])[0]
    cpus, gb = rng.choice((1, 2, 4, 8, 32)), rng.choice((2, 4, 8, 16, 64))
    ran = rng.lognormvariate(6.5, 1.6) % 500_000
    begin = submit + timedelta(seconds=int(rng.expovariate(1 / 900)))
    end = begin + timedelta(seconds=int(ran))
    job = f"{number - number % 50}_{number % 50}" if number % 3 == 0 else str(number)
    gpus = rng.random() < 0.1
    more = ",gres/gpu=1,gres/gpu:a100=1" if gpus else ""
    tres = f"billing={cpus},cpu={cpus}{more},mem={gb}G,node=1"
    user, node = f"user{number % 97}", f"node{number % 400:04}"
    stamps = "|".join(t.strftime("%Y-%m-%dT%H:%M:%S") for t in (submit, submit, begin, end))
    used = ran * cpus * rng.uniform(0.2, 0.98)
    share = "" if not gpus else f'{{"gpu_util": {rng.randrange(101)}, "ngpu": 1}}'
    name = f"{rng.choice(_NAMES)}_{number % 1000}"
    ids = (job, str(number))

    def row(step: str, title: str, who: str, rss: str, seconds: float, usage: str) -> str:
        first = not step
        asked = f"{gb}G" if first else ""
        limit = rng.choice(("1-00:00:00", "12:00:00", "UNLIMITED")) if first else ""
        energy = str(int(ran * cpus * 12)) if first else ""
        line = f"sbatch --mem={gb}G run_{number % 500}.sh" if first else ""
        return (
            f"{ids[0]}{step}|{ids[1]}{step}|{title}|{who}|{'lab' if first else ''}|"
            f"{'short' if first else ''}|{state.partition(' ')[0] if step else state}|{code}|"
            f"{stamps}|{_clock(ran)}|{_cpu(seconds)}|{cpus}|{cpus}|1|{'' if first else 1}|{asked}|"
            f"{rss}|{rss}|{rss}|{energy}|{limit}|{tres if first else ''}|{tres}|{usage}|"
            f"{usage}|{node}|{number % 9999}|{share if first else ''}|{line}"
        )

    rows = [row("", name, user, "", used, "")]
    if number % 40 == 0:
        lost = submit - timedelta(seconds=5000)
        rows.insert(
            0, rows[0].replace(submit.strftime("%Y-%m-%dT%H"), lost.strftime("%Y-%m-%dT%H"))
        )
    for step, title, part in (
        (".batch", "batch", 0.1),
        (".extern", "extern", 0),
        (".0", "tool", 1),
    ):
        rss = 0 if title == "extern" else rng.randrange(1 << 10, gb << 20)
        usage = f"cpu={_clock(used)},energy=0,fs/disk={rss * 7},mem={rss}K,pages=0,vmem={rss * 2}K"
        rows.append(row(step, title, "", f"{rss}K" if rss else "0", used * part, usage))
    return rows


def write_dump(path: Path, rows: int, seed: int = 0) -> int:
    """Write a dump of about so many rows; give the exact number."""
    rng = random.Random(seed)
    at, number, written = datetime(2025, 1, 1, tzinfo=UTC), 1_000_000, 0
    with path.open("w", encoding="utf-8") as out:
        out.write(HEADER + "\n")
        while written < rows:
            made = _job(rng, number, at)
            out.write("\n".join(made) + "\n")
            written += len(made)
            number += 1
            at += timedelta(seconds=rng.randrange(40))
    return written


write = write_dump


def import_seconds(path: Path) -> tuple[float, int]:
    """Give the seconds that the import takes, and the number of jobs' runs."""
    from rotameter.adapters.importers import reading

    began = time.perf_counter()
    trace = reading.read([path], format="slurm")
    return time.perf_counter() - began, trace.table("tasks").num_rows


if __name__ == "__main__":
    place = Path(sys.argv[1])
    if not place.exists():
        print(write_dump(place, int(sys.argv[2])), "rows")
    base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    seconds, jobs = import_seconds(place)
    peak = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - base) * 1024
    size = place.stat().st_size
    print(f"{seconds:.2f} s, {jobs:,} runs, {size:,} bytes, peak {peak / size:.1f} x file")
