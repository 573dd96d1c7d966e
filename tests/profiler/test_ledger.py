from __future__ import annotations

from typing import Any

import pytest

from rotameter.profiler.ledger import Account, ledger
from rotameter.profiler.trace import Trace
from rotameter.profiler.view import view

S = 10**9


def task(name: str, start: float, end: float, outcome: str = "ok", **more: Any) -> dict[str, Any]:
    return {
        "task_id": name,
        "group": "g",
        "worker": "w",
        "outcome": outcome,
        "started_ns": round(start * S),
        "ended_ns": round(end * S),
        **more,
    }


WORKER = {"worker": "w", "started_ns": 0, "ended_ns": 10 * S, "cores": 2.0, "memory_bytes": 4 * S}


def book(tasks: list[dict[str, Any]], **tables: Any) -> dict[str, Account]:
    made = ledger(Trace.from_tables({"tasks": tasks, "workers": [WORKER], **tables}))
    return {
        "cores": made.worker_core_s,
        "memory": made.worker_gbh,
        "asked": made.request_core_s,
        "asked_memory": made.request_gbh,
    }


def test_each_second_goes_where_it_belongs() -> None:
    account = book(
        [
            task("a", 1, 3),
            task("b", 1, 2, "failed"),
            task("c", 3, 4, "oom"),
            task("d", 4, 5),
            task("d", 6, 8),
            task("e", 5, 6, "worker_lost"),
            task("f", 8, 9, "cancelled"),
        ]
    )["cores"]
    assert account.held == 20.0
    assert account.useful == 4.0
    wasted = dict(account.wasted)
    assert wasted["failed_attempts"] == 1.0
    assert wasted["oom_attempts"] == 1.0
    assert wasted["recomputed"] == 1.0
    assert wasted["worker_lost_attempts"] == 1.0
    assert wasted["unfinished_attempts"] == 1.0
    assert wasted["idle_before_work"] == 2.0
    assert wasted["idle_after_work"] == 2.0
    assert account.useful + account.wasted_total == pytest.approx(account.held)


def test_idle_cores_are_given_a_cause() -> None:
    wait = {"worker": "w", "kind": "transfer", "start_ns": 2 * S, "end_ns": 4 * S}
    disk = {"worker": "w", "kind": "disk", "start_ns": 4 * S, "end_ns": 5 * S}
    account = book(
        [task("a", 0, 2), task("b", 5, 6), task("c", 9, 10)],
        intervals=[wait, disk],
        events=[
            {"kind": "worker_paused", "worker": "w", "at_ns": 6 * S},
            {"kind": "worker_resumed", "worker": "w", "at_ns": 8 * S},
        ],
    )["cores"]
    wasted = dict(account.wasted)
    assert wasted["transfer"] == 2.0
    assert wasted["disk"] == 1.0
    assert wasted["paused"] == 4.0
    assert account.useful == 4.0


def test_a_transfer_inside_an_attempt_is_not_useful() -> None:
    inside = {"task_id": "a", "worker": "w", "kind": "transfer", "start_ns": S, "end_ns": 2 * S}
    account = book([task("a", 0, 4)], intervals=[inside])["cores"]
    assert account.useful == 3.0
    assert dict(account.wasted)["transfer"] == 1.0


def test_more_running_than_cores_never_exceeds_what_was_held() -> None:
    account = book([task(str(i), 0, 10, "ok" if i % 2 else "failed") for i in range(8)])["cores"]
    assert account.useful == pytest.approx(10.0)
    assert dict(account.wasted)["failed_attempts"] == pytest.approx(10.0)


def test_memory_that_was_not_measured_is_not_called_unused() -> None:
    account = book(
        [task("a", 0, 5, peak_memory_bytes=S), task("b", 5, 10)],
        samples=[
            {"subject": "w", "metric": "managed_bytes", "at_ns": 0, "value": 1e9},
            {"subject": "w", "metric": "managed_bytes", "at_ns": 5 * S, "value": 0.0},
        ],
    )["memory"]
    gbh = 1 / 3600
    assert account.held == pytest.approx(40 * gbh)
    assert account.useful == pytest.approx(10 * gbh)
    assert dict(account.wasted)["unmeasured"] == pytest.approx(20 * gbh)
    assert dict(account.wasted)["unused"] == pytest.approx(10 * gbh)


def test_requests_are_an_account_of_their_own() -> None:
    asked = {"requested_cores": 4.0, "requested_memory_bytes": 2 * S}
    accounts = book(
        [
            task("a", 0, 2, cpu_s=3.0, peak_memory_bytes=S, **asked),
            task("b", 0, 1, "failed", **asked),
            task("c", 0, 1, granted_cores=1.0, **asked),
        ]
    )
    cores = accounts["asked"]
    assert cores.held == 4 * 2 + 4 + 1
    assert cores.useful == 3.0
    assert dict(cores.wasted)["over_requested"] == 5.0
    assert dict(cores.wasted)["failed_attempts"] == 4.0
    assert dict(cores.wasted)["unmeasured"] == 1.0
    memory = accounts["asked_memory"]
    assert memory.useful == pytest.approx(2 / 3600)
    assert dict(memory.wasted)["over_requested"] == pytest.approx(2 / 3600)


def test_without_records_the_account_says_so() -> None:
    empty = ledger(Trace.from_tables({}))
    assert all(account.held is None and account.how for account in empty.accounts)
    assert empty.worker_core_s.largest() is None
    assert empty.worker_core_s.useful_ratio is None


def test_attempts_on_unknown_workers_are_said_to_be_outside() -> None:
    made = ledger(
        Trace.from_tables({"workers": [WORKER], "tasks": [task("a", 0, 1) | {"worker": "x"}]})
    )
    assert made.worker_core_s.useful == 0.0
    assert "1 attempt ran" in made.notes[0]


def test_a_worker_older_than_the_run_is_held_from_the_runs_start() -> None:
    old = {**WORKER, "started_ns": 0, "ended_ns": None}
    made = ledger(
        Trace.from_tables(
            {"workers": [old], "tasks": [task("a", 100, 105)]},
            {"run": {"started_ns": 99 * S, "ended_ns": 106 * S}},
        )
    )
    assert made.worker_core_s.held == pytest.approx(14.0)


MACHINE = {"host": "h", "cores": 2, "memory_bytes": 8 * 10**9}


def _pool(engine: str, cores: list[float | None]) -> Trace:
    second = 10**9
    rows = [
        {"worker": f"p{i}", "host": "h", "cores": c, "memory_bytes": 8 * 10**9,
         "started_ns": 0, "ended_ns": 10 * second}
        for i, c in enumerate(cores)
    ]  # fmt: skip
    tasks = [
        {"task_id": f"t{i}", "group": "g", "worker": f"p{i}", "outcome": "ok",
         "started_ns": 0, "ended_ns": 5 * second}
        for i in range(len(cores))
    ]  # fmt: skip
    meta = {"engine": engine, "machines": [MACHINE]}
    return Trace.from_tables({"workers": rows, "tasks": tasks}, meta)


@pytest.mark.parametrize("cores", [[2.0, 2.0, 2.0], [2.0, None, None], [None, None, None]])
def test_processes_of_a_python_program_share_the_cores_of_their_machine(
    cores: list[float | None],
) -> None:
    trace = _pool("python", cores)
    book = ledger(trace)
    assert view(trace).slots == 2.0
    assert book.worker_core_s.held == pytest.approx(20.0)
    assert book.worker_core_s.useful == pytest.approx(10.0)  # at most both cores for 5 s
    assert book.notes == ()
    assert book.worker_gbh.held is None  # the machine's memory is no one's request
    assert book.worker_gbh.how == "no memory was requested"


def test_workers_of_a_cluster_have_the_slots_that_they_were_given() -> None:
    trace = _pool("dask", [2.0, 2.0, 2.0])
    assert view(trace).slots == 6.0
    assert ledger(trace).worker_gbh.held is not None


def test_equal_keys_in_two_clusters_are_no_recomputation() -> None:
    from rotameter.profiler.view import view

    rows = [
        {"task_id": "a", "run_id": run, "outcome": "ok", "started_ns": n, "ended_ns": n + 5}
        for n, run in ((0, "1a2b:00000001"), (10, "ffff:00000001"), (20, "ffff:00000002"))
    ]
    seen = view(Trace.from_tables({"tasks": rows}))
    assert seen.superseded.tolist() == [False, True, False]


def test_held_time_without_a_reading_is_neither_useful_nor_wasted() -> None:
    made = ledger(
        Trace.from_tables(
            {
                "tasks": [
                    {"task_id": "a", "outcome": "ok", "requested_cores": 1.0, "wall_s": 4.0,
                     "cpu_s": 3.0},
                    {"task_id": "b", "outcome": "ok", "requested_cores": 1.0, "wall_s": 8.0},
                    {"task_id": "c", "requested_cores": 1.0, "wall_s": 16.0},
                    {"task_id": "d", "outcome": "failed", "requested_cores": 1.0, "wall_s": 32.0},
                ]
            }
        )
    ).request_core_s  # fmt: skip
    wasted = dict(made.wasted)
    assert (made.unmeasured, wasted["over_requested"], wasted["failed_attempts"]) == (24, 1, 32)
    assert made.useful is not None and made.useful + sum(wasted.values()) == made.held
    assert (made.useful_ratio, made.measured, made.known, made.of) == (0.75, 4.0, 1, 4)
    assert made.largest() == ("failed_attempts", 32.0)


def test_nothing_measured_is_no_zero() -> None:
    rows = [
        {"task_id": "a", "outcome": "ok", "requested_cores": 1.0, "wall_s": 4.0},
        {"task_id": "b", "outcome": "failed", "requested_cores": 1.0, "wall_s": 4.0, "cpu_s": 4.0},
    ]
    for tasks in (rows[:1], rows):
        made = ledger(Trace.from_tables({"tasks": tasks}))
        assert made.request_core_s.useful_ratio is None
        assert made.to_dict()["accounts"][2]["useful"] is None
    lost = ledger(Trace.from_tables({"tasks": rows[1:]})).request_core_s
    assert lost.useful_ratio == 0.0  # All of it is known to be lost.


def test_worker_memory_that_no_task_was_measured_in_has_no_useful_part() -> None:
    made = ledger(Trace.from_tables({"tasks": [task("a", 0, 10)], "workers": [WORKER]}))
    assert made.worker_gbh.useful_ratio is None
    assert made.to_dict()["accounts"][1]["useful"] is None
    read = task("a", 0, 10, peak_memory_bytes=S)
    made = ledger(Trace.from_tables({"tasks": [read], "workers": [WORKER]}))
    assert made.worker_gbh.useful_ratio == pytest.approx(0.25)


def test_a_core_has_a_task_however_that_ends() -> None:
    # Of 2 cores for 10 s: 10 s in what was cancelled, 3 s and 2 s in what ended well.
    rows = [task("a", 0, 10, "cancelled"), task("a", 5, 8), task("b", 8, 10)]
    made = ledger(Trace.from_tables({"workers": [WORKER], "tasks": rows})).worker_core_s
    assert made.useful_ratio == pytest.approx(0.25)
    assert made.busy_ratio == pytest.approx(0.75)
