"""What our importer makes of a real Slurm's accounting, of jobs that end in every way.

The cluster is started by this test (tests/support/slurm) and ended by it; skipped where Slurm is
not installed or does not start. To have it on Debian or Ubuntu, as root::

    apt-get install -y --no-install-recommends \
        slurmctld slurmd slurmdbd slurm-client mariadb-server munge

Run with Slurm 22.05.8 and MariaDB 10.11.19 (Debian 12), as root, in a container without systemd:
about 4 s until the first job, 45 s in all. What was learnt there:

- OUT_OF_MEMORY needs control groups (here version 1). Where they cannot be made, Slurm's own
  sampling kills the job (OverMemoryKill), which then ends as FAILED 0:9, its MaxRSS above ReqMem.
- Time limits are looked at every 30 s, and their unit is a minute: the end of the job ``late`` is
  moved by ``scontrol update EndTime``, else this would take 90 s.
- ``cred_expire`` below 5 is ignored: then a requeued job waits for 120 s.
- Components of one heterogeneous job never share a node: so there are two of ``short``.
- A graphics card without a device file counts as none, and the node is drained.
- The plug-in ``cgroup/disabled`` is not in 22.05; ``cgroup/v1`` makes nothing until it is used.
- ``sacctmgr modify job … AdminComment=`` of 22.05 turns the text into small letters, ``scontrol``
  does not.
- ``sacct`` lists a job that was cancelled while held only when it is asked for by ``-j``.
- ``sacct -P`` cuts times to 19 characters: a zone of SLURM_TIME_FORMAT is lost unless the column is
  asked for with a width (``Start%32``).
- ``sacct --json`` of 22.05 has lost the return code of failed jobs (0 for ``exit 3``), gives 0 for
  the CPU time of a job (its steps have it), tells ``required.memory`` as it was asked for (a CPU, a
  node or in all, without saying which), and always lists earlier runs, as ``-D`` does.
- Snakemake's plug-in takes SLURM_CONF away from its jobs: there ``srun`` needs a wrapper.
"""

from __future__ import annotations

import contextlib
import json
import math
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.support.slurm.cluster import CannotStart, Cluster, running_cluster
from tests.support.slurm.jobs import FIELDS, MIB, Job, Workload, export

import rotameter
from rotameter.profiler.trace import Trace

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(180)]

TOOL = Path(sys.executable).with_name("rotameter")
# Every form that tells the same; "bare" has no header, so that its columns are given.
FORMS = ("chosen", "long", "columns", "bare", "padded", "bytes", "mega", "all")
SAME = frozenset(
    [
        "group",
        "outcome",
        "user",
        "queue",
        "submitted_ns",
        "started_ns",
        "ended_ns",
        "wall_s",
        "requested_cores",
        "requested_memory_bytes",
        "requested_nodes",
        "requested_wall_s",
        "granted_cores",
        "granted_memory_bytes",
        "signal",
        "peak_memory_kind",
    ]
)
# What a form does not show: -l has no times, no limit and no user; columns cut long values short.
_LONG = frozenset(
    [
        "user",
        "submitted_ns",
        "started_ns",
        "ended_ns",
        "requested_wall_s",
        "cpu_s",
        "requested_cores",
        "requested_nodes",
        "granted_cores",
        "granted_memory_bytes",
    ]
)
ABSENT = {"long": _LONG, "columns": _LONG | {"group", "queue"}}
EXTRA_MIB = 60  # of the interpreter, and of what Slurm starts beside it

Row = dict[str, Any]


@dataclass(frozen=True)
class Real:
    """A cluster that has run its jobs, and what sacct says of them."""

    cluster: Cluster
    jobs: dict[str, Job]
    files: dict[str, Path]

    def trace(self, form: str) -> Trace:
        path = self.files[f"{form}.json" if form == "json" else f"{form}.txt"]
        if form == "bare":
            return rotameter.open(path, format="slurm", utc_offset="UTC", columns=FIELDS)
        return rotameter.open(path, utc_offset="UTC")

    def rows(self, form: str) -> dict[tuple[str, int], Row]:
        return rows_of(self.trace(form))

    def runs(self, name: str, form: str = "chosen") -> list[Row]:
        """The runs of one job, in order."""
        mine = [row for row in self.rows(form).values() if row["group"] == name]
        return sorted(mine, key=lambda row: (row["task_id"], row["attempt"]))


def rows_of(trace: Trace) -> dict[tuple[str, int], Row]:
    found = trace.table("tasks").to_pylist()
    rows = {(row["task_id"], row["attempt"]): row for row in found}
    assert len(rows) == len(found), "a run was told of twice"
    return rows


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Real]:
    with contextlib.ExitStack() as stack:
        try:
            cluster = stack.enter_context(running_cluster())
        except CannotStart as error:
            pytest.skip(f"no real Slurm: {error}")
        jobs = Workload(cluster).run()
        files = export(cluster, jobs, tmp_path_factory.mktemp("sacct"))
        yield Real(cluster, {job.name: job for job in jobs}, files)


def outcomes_of(job: Job, real: Real) -> list[str]:
    if job.name == "again":
        return ["rescheduled", "ok"]
    if job.name == "greedy" and not real.cluster.settings.enforced:
        return ["failed"]
    return [job.outcome] * job.records


@pytest.mark.parametrize("form", [*FORMS, "json"])
def test_every_run_is_one_record(real: Real, form: str) -> None:
    trace = real.trace(form)
    records = trace.meta["importer"]["records"]
    assert records["in"] == records["out"] + records["merged"] + records["rejected"]
    # sacct escapes nothing: the comment of "cards" breaks its row, in "all" before the id.
    assert records["rejected"] == 0
    rows = rows_of(trace).values()
    found = sorted((r["group"], r["attempt"], r["outcome"]) for r in rows)
    wanted = sorted(
        (job.name, at + 1 if job.name == "again" else 1, outcome)
        for job in real.jobs.values()
        for at, outcome in enumerate(outcomes_of(job, real))
    )
    assert found == wanted


def test_without_d_the_last_run_of_each_job(real: Real) -> None:
    rows = real.rows("last")
    assert len(rows) == sum(job.records for job in real.jobs.values()) - 1
    assert [row["outcome"] for row in rows.values() if row["group"] == "again"] == ["ok"]


@pytest.mark.parametrize("form", ["chosen", "json"])
def test_requests_are_what_was_submitted(real: Real, form: str) -> None:
    rows = real.rows(form)
    for row in rows.values():
        job = real.jobs[row["group"]]
        asked = (row["requested_cores"], row["requested_memory_bytes"], row["requested_wall_s"])
        # The two components of "pair" were asked for together; both have one core and 200 MB.
        memory = 200 if job.name == "pair" else job.memory_mib
        assert asked == (job.cores, memory * MIB, job.minutes * 60), job.name
        assert (row["requested_gpus"] or 0) == (2 if job.name == "cards" else 0), job.name
        assert row["requested_nodes"] == (2 if job.name == "wide" else 1), job.name


@pytest.mark.parametrize("form", ["chosen", "json"])
def test_memory_is_that_of_the_largest_step(real: Real, form: str) -> None:
    for job in real.jobs.values():
        if not job.held_mib:
            continue
        row = real.runs(job.name, form)[-1]
        assert row["peak_memory_bytes"] >= job.held_mib * MIB, job.name
        if job.name == "greedy" and not real.cluster.settings.enforced:
            continue
        assert row["peak_memory_bytes"] < (job.held_mib + EXTRA_MIB) * MIB, job.name
    kinds = {name: real.runs(name, form)[0]["peak_memory_kind"] for name in real.jobs}
    assert kinds["busy"] == kinds["array"] == "sampled"
    # MaxRSS is of one task: of two side by side it is a lower bound. So is that of a full job.
    assert kinds["steps"] == kinds["wide"] == "lower_bound"
    if real.cluster.settings.enforced:
        assert kinds["greedy"] == "lower_bound"
    assert kinds["never"] is None


@pytest.mark.parametrize("form", ["chosen", "json"])
def test_cpu_time_is_that_of_the_steps(real: Real, form: str) -> None:
    for name in ("busy", "steps"):
        (row,) = real.runs(name, form)
        assert real.jobs[name].burnt_s <= row["cpu_s"] <= row["wall_s"] * row["granted_cores"], name
    assert real.runs("never", form)[0]["cpu_s"] in (None, 0.0)


@pytest.mark.parametrize("form", ["chosen", "json"])
def test_times_are_in_order(real: Real, form: str) -> None:
    for row in real.rows(form).values():
        job = real.jobs[row["group"]]
        if job.name == "never":
            assert row["started_ns"] is None
            continue
        assert row["submitted_ns"] <= row["started_ns"] <= row["ended_ns"], job.name
        if job.name != "paused":
            apart = (row["ended_ns"] - row["started_ns"]) / 1e9
            assert math.isclose(row["wall_s"], apart, abs_tol=1.0), job.name
    (paused,) = real.runs("paused", form)
    apart = (paused["ended_ns"] - paused["started_ns"]) / 1e9
    assert paused["wall_s"] < apart, "the pause belongs to no run"
    (late,) = real.runs("late", form)
    assert 2 <= late["wall_s"] <= 60
    first, second = real.runs("again", form)
    assert first["ended_ns"] <= second["started_ns"]


def test_codes_and_signals(real: Real) -> None:
    told = {
        name: (real.runs(name)[0]["exit_code"], real.runs(name)[0]["signal"])
        for name in ("busy", "bad", "killed")
    }
    assert told["busy"] == (0, None)
    assert told["bad"] == (3, None)
    assert told["killed"][1] == 11
    (lossy,) = real.runs("bad", "json")
    assert lossy["exit_code"] in (3, None)  # 22.05's JSON has lost it: then unknown, never 0


@pytest.mark.parametrize("form", [*FORMS[1:], "json"])
def test_all_forms_tell_the_same(real: Real, form: str) -> None:
    wanted, found = real.rows("chosen"), real.rows(form)
    assert found.keys() == wanted.keys()
    absent = ABSENT.get(form, frozenset())
    for key, row in wanted.items():
        for name in SAME - absent:
            assert found[key][name] == row[name], (key, name)
        for name in {"peak_memory_bytes", "cpu_s"} - absent:
            told = found[key][name]
            if row[name] is None:
                assert told is None, (key, name)
            else:
                assert told == pytest.approx(row[name], rel=0.01, abs=0.01), (key, name)


def test_a_trace_of_real_jobs_can_be_diagnosed_and_shown(real: Real, tmp_path: Path) -> None:
    trace = real.trace("chosen")
    assert rotameter.diagnose(trace).status
    rotameter.report(trace, tmp_path / "report.html")
    assert (tmp_path / "report.html").stat().st_size > 10_000


def test_without_a_header_columns_are_told_by_content(real: Real) -> None:
    """The numbers of "bare" are those of "chosen", though nobody names its columns."""
    trace = rotameter.open(real.files["bare.txt"], utc_offset="UTC")
    assert any("no header" in word for word in trace.warnings)
    found, wanted = rows_of(trace), real.rows("chosen")
    assert found.keys() == wanted.keys()
    for key, row in wanted.items():
        # No other column tells who the user is, or which of the names is the partition's.
        for name in SAME - {"user", "queue"} | {"peak_memory_bytes", "cpu_s", "exit_code"}:
            assert found[key][name] == row[name], (key, name)


def run_tool(real: Real, *words: object) -> None:
    done = subprocess.run(
        [str(TOOL), *(str(word) for word in words)],
        env=real.cluster.env,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr


def test_jobs_are_collected_with_all_that_this_sacct_knows(real: Real, tmp_path: Path) -> None:
    wanted = real.rows("chosen")
    ids = ",".join(str(job.job_id) for job in real.jobs.values())
    run_tool(real, "collect", "slurm", "--jobs", ids, "-o", tmp_path / "jobs.txt")
    trace = rotameter.open(tmp_path / "jobs.txt")
    assert trace.meta["time_base"] == "epoch_ns"  # collect asks for times with their zone
    found = rows_of(trace)
    assert found.keys() == wanted.keys()
    for key, row in wanted.items():
        for name in SAME | {"exit_code", "cpu_s"}:
            assert found[key][name] == row[name], (key, name)
        assert found[key]["host"] or row["group"] == "never"
    (busy,) = (row for row in found.values() if row["group"] == "busy")
    assert busy["read_bytes"] and busy["account"] == "science"


def test_jobs_since_a_time_are_all_but_the_one_never_eligible(real: Real, tmp_path: Path) -> None:
    run_tool(real, "collect", "slurm", "--since", "1h", "-o", tmp_path / "jobs.txt")
    found = rows_of(rotameter.open(tmp_path / "jobs.txt"))
    never = (str(real.jobs["never"].job_id), 1)
    assert found.keys() == real.rows("chosen").keys() - {never}


def test_jobs_are_opened_by_number(real: Real, tmp_path: Path) -> None:
    ids = ",".join(str(job.job_id) for job in real.jobs.values())
    script = (
        "import json, sys, rotameter\n"
        "rows = rotameter.open(sys.argv[1], utc_offset='UTC').table('tasks').to_pylist()\n"
        "print(json.dumps([[r['task_id'], r['attempt'], r['outcome']] for r in rows]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, ids],
        env=real.cluster.env,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    found = {(task, attempt): outcome for task, attempt, outcome in json.loads(done.stdout)}
    assert found == {key: row["outcome"] for key, row in real.rows("chosen").items()}


def test_a_job_that_ran_out_of_time_needs_more_than_it_took(real: Real) -> None:
    from rotameter.allocator.advice import advise
    from rotameter.allocator.recorded_time import time_from_trace

    found = {one.group: one for one in advise(time_from_trace(real.trace("chosen")))}
    late, (row,) = found["late"], real.runs("late")
    assert (late.runs, late.killed, late.request) == (0, 1, None)
    # Its end was moved to before its limit: of the limit nothing is known.
    assert late.at_least == late.killed_with == row["wall_s"] < 60


def test_lines_of_size_are_what_slurm_takes(real: Real, tmp_path: Path) -> None:
    from rotameter.adapters.advising import write
    from rotameter.allocator.advice import Advice
    from rotameter.allocator.resources import CORES, TIME

    blank = (9, 60.0, 90.0, None)
    chance: Any = (0.0, (0.0, 0.3), None)
    for limit_s, shown in ((5430.0, "01:31:00"), (91_800.0, "1-01:30:00")):
        advice = [
            Advice("load", *blank, 300.0 * MIB, (), *chance),
            Advice("load", *blank, limit_s, (2 * limit_s,), *chance, resource=TIME),
            Advice("load", *blank, 2.0, (), None, None, None, resource=CORES),
        ]
        script = tmp_path / "job.sh"
        script.write_text(f"#!/bin/sh\n{write('slurm', advice, None)}\ntrue\n")
        job = real.cluster.call("sbatch", "--parsable", "--hold", script).strip()
        told = real.cluster.call("scontrol", "show", "job", job)
        real.cluster.call("scancel", job)
        assert f"TimeLimit={shown} " in told
        assert "CPUs/Task=2" in told and "mem=300M" in told
