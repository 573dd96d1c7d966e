"""No rule of the diagnosis breaks or warns on a trace that says little."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from rotameter.profiler.diagnose import diagnose, to_json, to_text
from rotameter.profiler.schema import OUTCOMES
from rotameter.profiler.trace import Trace

S = 10**9
ENGINES = ("dask", "python", "slurm", "nextflow", "snakemake", "taskvine", "parsl", None)
BLANKS = (
    "group worker host run_id outcome submitted_ns ready_ns started_ns ended_ns wall_s cpu_s io_s "
    "transfer_s spill_s peak_memory_bytes peak_memory_kind read_bytes write_bytes received_bytes "
    "output_bytes requested_memory_bytes requested_cores requested_wall_s exit_code error "
    "cores memory_bytes object bytes busy_s peer start_ns end_ns at_ns count value"
)

blanks = st.lists(st.sampled_from(BLANKS.split()), max_size=12)
runs = st.none() | st.sampled_from(["ok", "failed", "interrupted", "running"])


def rows_of(chance: random.Random, n: int, n_workers: int, n_groups: int) -> dict[str, Any]:
    """Make all tables of a run in which everything is on record."""
    free, tasks = [S] * n_workers, []
    for i in range(n):
        w = i % n_workers
        took = chance.choice([0.1, 1.0, 5.0]) * (20.0 if chance.random() < 0.08 else 1.0)
        start = free[w] + chance.choice([0, 10**7, S])
        free[w] = start + round(took * S)
        tasks.append({
            "task_id": f"t{max(0, i - 1) if chance.random() < 0.1 else i}", "run_id": f"r{i}",
            "group": f"g{i % n_groups}", "worker": f"w{w}", "host": f"h{w}",
            "outcome": "ok" if chance.random() < 0.7 else chance.choice(OUTCOMES),
            "submitted_ns": start - S // 2, "ready_ns": start - S // 10, "started_ns": start,
            "ended_ns": free[w], "wall_s": took, "cpu_s": took * chance.random(),
            "io_s": took * 0.1, "transfer_s": chance.choice([0.0, 0.5]), "spill_s": 0.0,
            "peak_memory_bytes": chance.choice([10**8, 10**9, 3 * 10**9]),
            "peak_memory_kind": chance.choice(["exact", "sampled", "lower_bound", "upper_bound"]),
            "read_bytes": 10**7 * chance.randrange(9), "write_bytes": 10**6,
            "received_bytes": 10**7, "output_bytes": 10**7 * chance.randrange(5),
            "requested_memory_bytes": chance.choice([10**9, 4 * 10**9]),
            "requested_cores": chance.choice([1.0, 8.0]),
            "requested_wall_s": chance.choice([60.0, 3600.0]),
            "exit_code": chance.choice([0, 1, 137]),
            "error": chance.choice([None, "ValueError: x", "MemoryError: y"]),
        })  # fmt: skip

    def who() -> str:
        return f"w{chance.randrange(n_workers)}"

    def which() -> str:
        return f"t{chance.randrange(n)}"

    return {
        "tasks": tasks,
        "deps": [{"task_id": f"t{i}", "depends_on": f"t{chance.randrange(i)}"}
                 for i in range(1, n) if chance.random() < 0.5],
        "workers": [{"worker": f"w{k}", "host": f"h{k}", "started_ns": 0, "cores": 2.0,
                     "ended_ns": max(free) + 2 * S, "memory_bytes": 4 * 10**9}
                    for k in range(n_workers)],
        "intervals": [{"task_id": which(), "worker": who(), "peer": who(), "start_ns": t * S,
                       "kind": chance.choice(["transfer", "disk"]), "end_ns": (t + 1) * S,
                       "bytes": 10**6} for t in range(5)],
        "flows": [{"task_id": which(), "object": which(), "worker": who(), "busy_s": 0.1,
                   "medium": chance.choice(["network", "file", "object_store"]),
                   "op": chance.choice(["receive", "read", "write"]),
                   "bytes": 10**6 * chance.randrange(50)} for _ in range(8)],
        "events": [{"kind": "graph_submitted", "at_ns": 1, "count": n + 1},
                   {"kind": "worker_paused", "at_ns": 2 * S, "worker": who()}],
        "samples": [{"subject": who(), "metric": "spilled_bytes", "at_ns": t * S, "value": 1e9 * t}
                    for t in range(3)],
    }  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(
    chance=st.integers(0, 2**32),
    shape=st.tuples(st.sampled_from([1, 2, 5, 24, 60]), st.integers(1, 4), st.integers(1, 4)),
    never=blanks,
    at_times=blanks,
    empty=st.sets(st.sampled_from(["deps", "workers", "intervals", "flows", "events", "samples"])),
    engine=st.sampled_from(ENGINES),
    origin=st.sampled_from(["recorded", "imported"]),
    status=runs,
)
def test_no_rule_fails_or_warns(
    chance: int,
    shape: tuple[int, int, int],
    never: list[str],
    at_times: list[str],
    empty: set[str],
    engine: str | None,
    origin: str,
    status: str | None,
) -> None:
    """Columns that are null in all rows or in some, tables that are empty, any engine and end."""
    luck = random.Random(chance)
    tables = rows_of(luck, *shape)
    for name, rows in tables.items():
        for row in rows:
            for column in row:
                if column in never or (column in at_times and luck.random() < 0.4):
                    row[column] = None
        tables[name] = [] if name in empty else rows
    meta: dict[str, Any] = {"engine": engine, "origin": origin}
    if status:
        meta["run"] = {"status": status, "started_ns": 0, "ended_ns": 100 * S}
    trace = Trace.from_tables(tables, meta)
    verdict = diagnose(trace)
    assert not [note for note in verdict.notes if "rule failed" in note or "because of" in note]
    assert to_text(verdict) and to_json(trace, verdict)
