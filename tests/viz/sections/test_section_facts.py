"""Facts of the sections: sums are kept, nothing is made up, and what is missing is said."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.support.synthetic import synthetic_trace

from rotameter.profiler.trace import Trace
from rotameter.viz.sections import gather
from rotameter.viz.sections.flow import NODES, data_flow, leads_back
from rotameter.viz.sections.io import BINS, ROWS, io_over_time, spread
from rotameter.viz.sections.path import KIND_WORDS, path_of_run
from rotameter.viz.sections.requests import memory_requests
from rotameter.viz.sections.waste import PART_WORDS, what_was_held

SECOND = 10**9
GB = 10**9


def _facts(made: dict[str, Any] | str) -> dict[str, Any]:
    assert isinstance(made, dict), made
    return made


def _flow(task: str, thing: str, op: str, size: int | None = 10, **more: Any) -> dict[str, Any]:
    return {"task_id": task, "object": thing, "op": op, "bytes": size, "medium": "file", **more}


links = st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), min_size=1, max_size=30)


@given(links)
def test_without_the_links_that_lead_back_there_is_no_circle(pairs: list[tuple[int, int]]) -> None:
    src, dst = (np.array(side, dtype=np.int64) for side in zip(*pairs, strict=True))
    keep = src != dst
    back = leads_back(src, dst, keep, 8)
    assert not (back & ~keep).any()
    left = {(int(a), int(b)) for a, b in zip(src[keep & ~back], dst[keep & ~back], strict=True)}
    while left:  # Kahn: something must have nothing that leads to it.
        ends = {b for _, b in left}
        gone = {(a, b) for a, b in left if a not in ends}
        assert gone
        left -= gone


def test_links_without_a_circle_all_lead_on() -> None:
    src, dst = np.array([0, 0, 1, 2]), np.array([1, 2, 3, 3])
    assert not leads_back(src, dst, np.ones(4, bool), 4).any()


def test_the_picture_is_small_and_keeps_all_bytes() -> None:
    flows = []
    for stage in range(60):
        for i in range(3):
            flows.append(_flow(f"s{stage}-{i}", f"d{stage}", "read", 7))
            flows.append(_flow(f"s{stage}-{i}", f"d{stage + 1}", "write", 5))
    made = _facts(data_flow(Trace.from_tables({"flows": flows})))
    assert len(made["nodes"]) <= NODES
    assert sum(link["bytes"] for link in made["links"]) == 60 * 3 * 12
    assert (made["read_bytes"], made["write_bytes"]) == (60 * 3 * 7, 60 * 3 * 5)
    assert sum(link["count"] for link in made["links"]) == made["touches"] == 360


def _chains(rounds: int, named: bool) -> Trace:
    """Two chains of `load`, `map`, `load`, …, in as many stages."""
    tasks, deps = [], []
    for chain in range(2):
        for i in range(rounds):
            group = ("load", "map")[i % 2] if named else None
            tasks.append({"task_id": f"c{chain}-{i}", "group": group, "wall_s": 1.0 + (i == 300)})
            if i:
                deps.append({"task_id": f"c{chain}-{i}", "depends_on": f"c{chain}-{i - 1}"})
    return Trace.from_tables({"tasks": tasks, "deps": deps})


def test_a_long_chain_of_rounds_is_drawn_by_its_names() -> None:
    made = _facts(data_flow(_chains(1000, named=True)))
    # By hand: two chains of 500 of each; 500 steps from load to map in each, and 499 back.
    assert [(n["label"], n["members"], n["again"]) for n in made["nodes"]] == [
        ("load", 1000, None), ("map", 1000, None), ("load", 1000, 0),
    ]  # fmt: skip
    assert [(n["from"], n["to"], n["count"]) for n in made["links"]] == [(0, 1, 1000), (1, 2, 998)]


def test_a_long_chain_without_names_is_drawn_in_stretches() -> None:
    made = _facts(data_flow(_chains(1000, named=False)))
    assert NODES // 2 <= len(made["nodes"]) <= NODES
    assert sum(n["members"] for n in made["nodes"]) == 2000
    # The heaviest stage stands alone; all are in the order of the chain.
    assert [n["stage"] for n in made["nodes"] if n["label"] == "c*-300"] == [300]
    assert all(n["again"] is None for n in made["nodes"])
    assert all(link["from"] + 1 == link["to"] for link in made["links"])
    assert sum(link["count"] for link in made["links"]) + made["inside"] == 2 * 999


def test_a_circle_of_folds_is_drawn_from_left_to_right() -> None:
    tasks = [{"task_id": f"{g}{i}", "group": g} for i in range(4) for g in "ab"]
    deps = [{"task_id": f"b{i}", "depends_on": f"a{i}"} for i in range(4)]
    deps += [{"task_id": f"a{i + 1}", "depends_on": f"b{i}"} for i in range(3)]
    flows = [_flow("a0", "x", "read")]
    made = _facts(data_flow(Trace.from_tables({"tasks": tasks, "deps": deps, "flows": flows})))
    assert sum(link["count"] for link in made["links"] if link["dependency"]) + made["inside"] == 7
    for link in made["links"]:
        assert link["from"] != link["to"]
    ghosts = [n for n in made["nodes"] if n["again"] is not None]
    assert all(made["nodes"][n["again"]]["label"] == n["label"] for n in ghosts)


def test_unknown_bytes_stay_unknown() -> None:
    rows = [_flow("a", "x", "read", None), _flow("b", "x", "read", None)]
    made = _facts(data_flow(Trace.from_tables({"flows": rows})))
    assert made["read_bytes"] is None
    assert [link["bytes"] for link in made["links"]] == [None]


def test_a_single_touch_is_no_picture() -> None:
    assert "only one task" in str(
        data_flow(Trace.from_tables({"flows": [_flow("a", "x", "read")]}))
    )


def test_the_path_sums_to_the_makespan() -> None:
    made = _facts(path_of_run(synthetic_trace(800, deaths=1, failed=0.05)))
    for key in ("parts", "kinds"):
        total = math.fsum(part["seconds"] for part in made[key])
        assert total == pytest.approx(made["makespan_s"])
    assert sum(part["segments"] for part in made["parts"]) == made["segments"]
    small = [p for p in made["parts"] if p["rest"]]
    assert all(p["group"] is None for p in small)


def test_a_task_that_sleeps_is_running_and_not_computing() -> None:
    """What it computed its CPU time tells; the figures say so, and the path must not differ."""
    task = {"task_id": "a", "group": "g", "started_ns": 0, "ended_ns": 2 * SECOND, "cpu_s": 0.001}
    made = _facts(path_of_run(Trace.from_tables({"tasks": [task]})))
    assert [(k["kind"], k["words"]) for k in made["kinds"]] == [("compute", "running")]
    assert "computing" not in KIND_WORDS.values()


def test_a_log_of_jobs_has_no_path() -> None:
    jobs = [
        {"task_id": str(i), "group": "g", "started_ns": i, "ended_ns": i + SECOND, "user": "u"}
        for i in range(3)
    ]
    made = path_of_run(
        Trace.from_tables({"tasks": jobs}, {"origin": "imported", "engine": "slurm"})
    )
    assert "jobs of a log" in str(made)


def _task(name: str, peak: int | None, kind: str = "exact", **more: Any) -> dict[str, Any]:
    return {
        "task_id": name, "group": "g", "wall_s": 1.0, "outcome": "ok", "peak_memory_bytes": peak,
        "peak_memory_kind": kind, **more,
    }  # fmt: skip


def test_attempts_killed_for_memory_do_not_lower_the_peaks() -> None:
    tasks = [_task(str(i), i * GB, requested_memory_bytes=8 * GB) for i in (2, 3, 4)]
    killed = _task("k", 1 * GB, "lower_bound", requested_memory_bytes=8 * GB)
    tasks.append(killed | {"outcome": "oom"})
    (row,) = _facts(memory_requests(Trace.from_tables({"tasks": tasks})))["groups"]
    assert row["peak_bytes"]["min"] == 2 * GB
    assert (row["known"], row["lower_bounds"], row["killed_for_memory"]) == (3, 1, 1)
    assert row["peak_kind"] == "exact"
    only = _facts(memory_requests(Trace.from_tables({"tasks": tasks[3:]})))["groups"][0]
    assert (only["peak_kind"], only["known"]) == ("lower_bound", 1)


def test_what_was_granted_counts_before_what_was_requested() -> None:
    tasks = [_task("a", GB, requested_memory_bytes=2 * GB, granted_memory_bytes=4 * GB)]
    made = _facts(memory_requests(Trace.from_tables({"tasks": tasks})))
    assert made["granted"]
    assert made["groups"][0]["requested_bytes"]["max"] == 4 * GB
    assert made["groups"][0]["used_ratio"] == 0.25


def test_without_peaks_there_is_nothing_to_compare() -> None:
    asked = Trace.from_tables({"tasks": [_task("a", None, requested_memory_bytes=GB)]})
    assert "no attempt's peak" in str(memory_requests(asked))
    assert "neither" in str(memory_requests(Trace.from_tables({"tasks": [{"task_id": "a"}]})))


moves = st.lists(
    st.tuples(st.integers(0, 2), st.floats(0, 12), st.floats(0, 5), st.floats(0.001, 1e6)),
    min_size=1,
    max_size=40,
)


@example([(0, 0.0, 2.0, 0.001), (1, 0.0, 0.0, 250001.0)], 20)
@given(moves, st.integers(1, 20))
def test_spreading_keeps_every_sum(rows: list[tuple[int, float, float, float]], bins: int) -> None:
    row, start, length, amount = (np.array(c) for c in zip(*rows, strict=True))
    made = spread(
        row.astype(np.int64), start, start + length, amount, np.linspace(0, 10, bins + 1), 3
    )
    assert (made >= 0).all()
    for at in range(3):
        inside = (row == at) & (start + length <= 10)
        if (row == at).sum() == inside.sum():
            assert made[at].sum() == pytest.approx(amount[row == at].sum(), rel=1e-6)


def test_bytes_lie_where_they_were_moved() -> None:
    flows = [
        _flow("a", "x", "read", 600, worker="w", first_ns=0, last_ns=30 * SECOND),
        _flow("a", "y", "write", 90, worker="v", first_ns=59 * SECOND, last_ns=60 * SECOND),
        _flow("a", "m", "read", 10**9, worker="w", first_ns=0, last_ns=SECOND, medium="memory"),
    ]
    made = _facts(io_over_time(Trace.from_tables({"flows": flows})))
    by_name = {row["name"]: row for row in made["rows"]}
    assert by_name["w"]["read_bytes"] == [20] * 30 + [0] * 30
    assert by_name["v"]["write_bytes"] == [0] * 59 + [90]
    assert (made["by"], made["source"], made["timed"], made["moves"]) == ("worker", "flows", 2, 2)


def test_touches_without_times_take_those_of_their_attempt() -> None:
    tasks = [
        {"task_id": "a", "attempt": n, "group": "g", "started_ns": s * SECOND,
         "ended_ns": (s + 10) * SECOND, "outcome": o}
        for n, s, o in ((1, 0, "failed"), (2, 50, "ok"))
    ]  # fmt: skip
    flows = [_flow("a", "x", "read", 100, attempt=1), _flow("a", "y", "read", 70)]
    made = _facts(io_over_time(Trace.from_tables({"tasks": tasks, "flows": flows})))
    (row,) = made["rows"]
    assert made["by"] == "task group"
    assert sum(row["read_bytes"][:10]) == 100
    assert sum(row["read_bytes"][50:]) == 70
    assert made["timed"] == 0


def test_what_has_no_time_is_said_and_not_placed() -> None:
    flows = [
        _flow("a", "x", "read", 600, worker="w", first_ns=0, last_ns=30 * SECOND),
        _flow("b", "x", "read", 7, worker="w"),
    ]
    made = _facts(io_over_time(Trace.from_tables({"flows": flows})))
    assert made["unplaced_bytes"] == 7
    assert made["rows"][0]["total_read_bytes"] == 600
    assert "not when" in str(io_over_time(Trace.from_tables({"flows": flows[1:]})))
    assert "no bytes" in str(io_over_time(Trace.from_tables({})))


def test_many_workers_are_the_largest_and_the_others() -> None:
    flows = [
        _flow(f"t{i}", "x", "read", i + 1, worker=f"w{i:03}", first_ns=i, last_ns=SECOND)
        for i in range(100)
    ]
    made = _facts(io_over_time(Trace.from_tables({"flows": flows})))
    assert len(made["rows"]) == ROWS
    assert made["rows"][-1]["name"] == "61 others"
    assert sum(row["total_read_bytes"] for row in made["rows"]) == 5050
    assert all(len(row["read_bytes"]) == BINS for row in made["rows"])


def test_sampled_rates_are_used_where_nothing_else_is_known() -> None:
    samples = [
        {"at_ns": i * SECOND, "subject": "w", "metric": "disk_read_bytes_per_s", "value": 100.0}
        for i in range(4)
    ]
    worker = {"worker": "w", "started_ns": 0, "ended_ns": 3 * SECOND}
    made = _facts(io_over_time(Trace.from_tables({"samples": samples, "workers": [worker]})))
    assert made["source"] == "samples"
    assert made["rows"][0]["total_read_bytes"] == 300


@pytest.mark.parametrize("deaths", [0, 2])
def test_each_account_sums_to_what_was_held(deaths: int) -> None:
    made = _facts(what_was_held(synthetic_trace(600, deaths=deaths, failed=0.1)))
    known = [account for account in made["accounts"] if account["held"]]
    assert known
    for account in known:
        total = math.fsum(part["amount"] for part in account["parts"])
        assert total == pytest.approx(account["held"], rel=1e-3)
        assert math.fsum(p["ratio"] for p in account["parts"]) == pytest.approx(1, abs=1e-3)
        assert {part["part"] for part in account["parts"]} <= set(PART_WORDS)


def test_requests_without_readings_are_not_useful_but_unmeasured() -> None:
    tasks = [_task("a", None, requested_memory_bytes=GB)]
    made = _facts(what_was_held(Trace.from_tables({"tasks": tasks})))
    (account,) = [a for a in made["accounts"] if a["held"]]
    assert [part["part"] for part in account["parts"]] == ["unmeasured"]


@pytest.mark.parametrize(
    "case",
    [{"tasks": 0}, {"tasks": 1}, {"tasks": 40, "times": "none"}, {"tasks": 40, "times": "relative"},
     {"tasks": 60, "groups": 10, "hostile": True, "failed": 0.3, "deaths": 1}],
)  # fmt: skip
def test_a_section_is_there_or_its_reason_is(case: dict[str, Any]) -> None:
    made = gather.sections(synthetic_trace(**case))
    reasons = {entry["section"]: entry["reason"] for entry in made["left_out"]}
    for name in gather.SECTIONS:
        assert (made[name] is None) == (name in reasons)
    assert not [reason for reason in reasons.values() if gather.BROKEN in reason]


def test_a_circle_of_dependencies_breaks_nothing() -> None:
    deps = [{"task_id": a, "depends_on": b} for a, b in ("ab", "bc", "ca", "aa")]
    made = gather.sections(Trace.from_tables({"deps": deps}))
    assert made["flow"] is not None
    assert not [entry for entry in made["left_out"] if gather.BROKEN in entry["reason"]]


def test_a_broken_section_leaves_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(trace: Trace) -> dict[str, Any]:
        raise KeyError("secret value")

    monkeypatch.setitem(gather.SECTIONS, "io", broken)
    made = gather.sections(synthetic_trace(50))
    (reason,) = [e["reason"] for e in made["left_out"] if e["section"] == "io"]
    assert "could not be made (KeyError)" in reason
    assert made["waste"] is not None


def test_an_attempt_that_reads_and_writes_is_counted_once() -> None:
    # Three attempts: the first reads and writes, the second reads, the third moved nothing.
    each = [(600, 300), (600, 0), (0, 0)]
    tasks = [
        {"task_id": str(n), "worker": "w", "started_ns": n * SECOND, "ended_ns": (n + 1) * SECOND,
         "read_bytes": read, "write_bytes": written}
        for n, (read, written) in enumerate(each)
    ]  # fmt: skip
    made = _facts(io_over_time(Trace.from_tables({"tasks": tasks})))
    assert (made["source"], made["moves"]) == ("attempts", 2)
    assert made["rows"][0]["total_read_bytes"] == 1200
