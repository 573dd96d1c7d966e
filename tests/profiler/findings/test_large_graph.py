from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rotameter.api import diagnose
from rotameter.profiler.findings.base import Tools
from rotameter.profiler.findings.idle_parallelism import Advisor as Idle
from rotameter.profiler.findings.large_graph import Advisor, shipments
from rotameter.profiler.replaying.savings import Replayer
from rotameter.profiler.trace import Trace
from rotameter.profiler.view import view

Make = Callable[..., Any]
MB = 1_000_000


def check(advisor: Any, trace: Trace) -> list[Any]:
    return advisor.check(trace, Tools(replay=Replayer(trace)))


def shipped(made_run: Make, *, each: int = 50 * MB, **more: Any) -> Any:
    """Load, then the client packs for 3 s, then 8 tasks that bring ``each`` bytes with them."""
    run = made_run(workers=2, threads=1)
    run.step("load", [0.5] * 4, start_memory_bytes=150 * MB)
    for number in range(8):
        worker = f"w{number % 2}"
        start = 4.0 + 0.5 * (number // 2)
        row = {
            "submitted": 4.0,
            "ready": 4.0,
            "start_memory_bytes": 150 * MB + each * (number // 2 + 1),
        }
        run.task(f"sum-{number}", "sum", worker, start + 0.2, 0.3, **{**row, **more})
    for tick in range(12):
        grown = min(max(tick / 2 - 1.0, 0.0) / 3.0, 1.0) * 8 * each
        run.sample("client-1", "process_rss_bytes", tick / 2, 200 * MB + grown)
    return run


def test_data_in_the_graph_is_priced_with_the_silence_before(made_run: Make) -> None:
    trace = shipped(made_run).trace()
    (finding,) = check(Advisor(), trace)
    assert (finding.code, finding.kind) == ("RM113", "large_graph")
    assert finding.groups == ("sum",)
    assert finding.cost_s == pytest.approx(3.0 + 4 * 0.2, rel=0.1)
    assert "client.scatter" in finding.change
    # The cores idled for that, and not for want of parallel work.
    assert check(Idle(), trace) == []


@pytest.mark.parametrize(
    ("each", "more"),
    [
        (1 * MB, {}),  # a usual graph
        (50 * MB, {"output_bytes": 50 * MB}),  # results that stay are no arguments
        (50 * MB, {"read_bytes": 60 * MB}),  # nor is what tasks read and keep
    ],
)
def test_decoys(made_run: Make, each: int, more: Any) -> None:
    assert check(Advisor(), shipped(made_run, each=each, **more).trace()) == []


def test_a_client_that_is_silent_ships_nothing(made_run: Make) -> None:
    run = shipped(made_run)
    for row in run.tables["tasks"]:
        row["start_memory_bytes"] = 150 * MB
    assert check(Advisor(), run.trace()) == []
    assert [f.kind for f in check(Idle(), run.trace())] == ["idle_parallelism"]


def test_missing_columns(made_run: Make) -> None:
    assert check(Advisor(), Trace.from_tables({}, {"engine": "dask"})) == []
    run = shipped(made_run)
    run.tables["samples"].clear()
    (finding,) = check(Advisor(), run.trace())
    assert finding.confidence == "medium"
    for row in run.tables["tasks"]:
        row.pop("start_memory_bytes")
    assert check(Advisor(), run.trace()) == []


def unpacked(made_run: Make, *, keeps: bool = False, first: float = 0.0) -> Any:
    """Submit 10 tasks one by one, each with 100 MB that it unpacks; or tasks that keep as much."""
    run = made_run(workers=2, threads=1)
    for number in range(10):
        worker, turn = f"w{number % 2}", number // 2
        sent = first + 1.0 * number
        run.task(
            f"score-{number}",
            "score",
            worker,
            sent + 0.8,
            0.6,
            submitted=sent,
            ready=sent,
            start_memory_bytes=(70 + 100 * (turn + (not keeps))) * MB,
            peak_memory_bytes=103 * MB,
            output_bytes=24,
            cpu_s=0.2,
        )
    for worker in ("w0", "w1"):
        run.sample(worker, "process_rss_bytes", first - 0.5, 70 * MB)
    for tick in range(-2, 24):
        packed = 0 if keeps else 100 * MB * min(max(first + tick / 2, 0) + 1, 10)
        run.sample("client-1", "process_rss_bytes", first + tick / 2, 170 * MB + packed)
    return run


def test_arguments_that_tasks_unpack_are_not_taken_for_their_own_peak(made_run: Make) -> None:
    (finding,) = check(Advisor(), unpacked(made_run).trace())
    assert finding.groups == ("score",)
    assert finding.evidence[0].value == pytest.approx(1000 * MB, rel=0.05)
    # One second apart for packing, with 0.8 s to unpack and 0.4 s without CPU in the last.
    assert finding.cost_s == pytest.approx(9.0 + 0.8 + 0.6 - 5 * 0.2, rel=0.15)
    assert "for 10 submissions" in finding.advice


def test_tasks_that_keep_memory_ship_nothing(made_run: Make) -> None:
    assert check(Advisor(), unpacked(made_run, keeps=True).trace()) == []


def test_packing_before_the_first_submission_is_said_not_priced(made_run: Make) -> None:
    run = made_run(workers=2, threads=1)
    for number in range(10):
        worker, turn = f"w{number % 2}", number // 2
        memory = (134 + 64 * max(0, turn - 1)) * MB
        run.task(
            f"score-{number}",
            "score",
            worker,
            0.5 + 0.8 * turn,
            0.3,
            ready=0.0,
            start_memory_bytes=memory,
            peak_memory_bytes=64 * MB,
            cpu_s=0.3,
        )
    for worker in ("w0", "w1"):
        run.sample(worker, "process_rss_bytes", -0.5, 70 * MB)
    for tick in range(-10, 10):
        grown = 640 * MB * min(1.0, max(0.0, (tick + 8) / 8))
        run.sample("client-1", "process_rss_bytes", tick / 2, 100 * MB + grown)
    (finding,) = check(Advisor(), run.trace())
    assert 0.5 < finding.cost_s < 3.0
    assert "grew for 4 s before the first submission" in finding.advice


def test_results_that_come_back_from_disk_are_no_arguments(made_run: Make) -> None:
    run = shipped(made_run)
    for number in range(4):
        run.tables["tasks"][number]["output_bytes"] = 100 * MB
    for number in range(8):
        run.tables["deps"].append({"task_id": f"sum-{number}", "depends_on": f"load-{number % 4}"})
    for worker in ("w0", "w1"):
        run.sample(worker, "spilled_memory_bytes", 2.0, 300 * MB)
    assert check(Advisor(), run.trace()) == []


def crowded(made_run: Make, *, cpu: float = 0.2, waits: float = 0.0) -> Any:
    """The client packs for 4 s beside tasks of 0.4 s, which take 0.2 s of CPU time as others do."""
    run = made_run(workers=2, threads=1)
    for number in range(20):
        start = 0.4 * (number // 2)
        more = {"submitted": 0.0, "ready": 0.0, "cpu_s": cpu, "start_memory_bytes": 150 * MB}
        run.task(f"load-{number}", "load", f"w{number % 2}", start, 0.4 + waits, **more)
    for number in range(8):
        worker, turn = f"w{number % 2}", number // 2
        memory = (200 + 50 * turn) * MB
        more = {"submitted": 4.0, "ready": 4.0, "cpu_s": 0.2, "start_memory_bytes": memory}
        run.task(f"sum-{number}", "sum", worker, 4.1 + 0.4 * turn, 0.4, **more)
    for number in range(10):
        more = {"submitted": 6.0, "ready": 6.0, "cpu_s": 0.2, "start_memory_bytes": 400 * MB}
        start = 6.0 + 0.2 * (number // 2)
        run.task(f"end-{number}", "end", f"w{number % 2}", start, 0.2, **more)
    for tick in range(16):
        grown = min(tick / 8, 1.0) * 400 * MB
        run.sample("client-1", "process_rss_bytes", tick / 2, 200 * MB + grown)
    return run


def test_tasks_beside_the_packing_would_take_their_cpu_time(made_run: Make) -> None:
    finding = next(f for f in check(Advisor(), crowded(made_run).trace()) if f.groups == ("sum",))
    # Ten turns and four of 0.4 s would take 0.2 s each.
    assert finding.cost_s == pytest.approx(14 * 0.2 + 0.1, abs=0.4)
    assert "as long for their CPU time as all others" in finding.cost_how


def test_tasks_that_wait_beside_the_packing_are_not_slowed_by_it(made_run: Make) -> None:
    trace = crowded(made_run, cpu=0.01).trace()
    finding = next(f for f in check(Advisor(), trace) if f.groups == ("sum",))
    assert finding.cost_s < 1.5


def test_a_small_input_waits_behind_the_data(made_run: Make) -> None:
    """A number from the other worker is not there until the data are."""
    run = shipped(made_run)
    for number in range(8):
        run.tables["deps"].append({"task_id": f"sum-{number}", "depends_on": "load-0"})
        row = run.tables["tasks"][4 + number]
        for name in ("started_ns", "ended_ns"):
            row[name] += run.ns(1.0) - run.ns(0.0)
        row |= {"received_bytes": 8, "transfer_s": 1.19}
    (finding,) = check(Advisor(), run.trace())
    assert finding.cost_s == pytest.approx(3.0 + 1.0 + 4 * 0.2, rel=0.1)


def in_rounds(
    made_run: Make,
    *,
    each: int = 48 * MB,
    gone: bool = True,
    sent: float | None = None,
    **more: Any,
) -> Any:
    """Six rounds of four tasks: a second to pack, a second to send, data gone when it is over."""
    run = made_run(workers=2, threads=1)
    for tick in range(80):
        at = tick / 4
        number, phase = divmod(at, 3.0)
        here = number < 6
        full = here and 1.5 < phase <= 2.45
        extra = 2.0 * each if full or not gone else 0.0
        kept = 0.0 if gone else min(number, 6) * 2.0 * each
        client = (4 * each if sent is None else sent) if here and 0.5 < phase < 2.2 else 0.0
        for worker in ("w0", "w1"):
            run.sample(worker, "process_rss_bytes", at - 1.0, 70 * MB + extra + kept)
        run.sample("client-1", "process_rss_bytes", at - 1.0, 200 * MB + client)
    for number in range(6):
        submitted = 3.0 * number
        for task in range(4):
            row = {
                "submitted": submitted,
                "ready": submitted,
                "start_memory_bytes": 70 * MB + 2 * each * (1 if gone else number + 1),
                "peak_memory_bytes": 10_000,
                "output_bytes": 24,
                "received_bytes": 0,
            }
            start = submitted + 1.0 + 0.2 * (task // 2)
            name, worker = f"use-{number}-{task}", f"w{task % 2}"
            run.task(name, "use", worker, start, 0.2, **{**row, **more})
    return run


def test_data_that_comes_with_each_round_and_goes_is_found_and_priced(made_run: Make) -> None:
    """Its memory is there at the starts and gone after: no start has more than the one before."""
    (finding,) = check(Advisor(), in_rounds(made_run).trace())
    evidence = {e.name: e.value for e in finding.evidence}
    assert (finding.code, finding.groups) == ("RM113", ("use",))
    assert evidence["memory that came with its tasks"] == pytest.approx(5 * 4 * 48 * MB, rel=0.25)
    # Six seconds of sending, and five times 1.6 s of packing between the rounds.
    assert finding.cost_s == pytest.approx(6 * 1.0 + 5 * 1.6, rel=0.1)
    assert "rounds were packed, sent and unpacked" in finding.advice


@pytest.mark.parametrize(
    "more",
    [
        {"each": 1 * MB},  # a usual graph
        {"gone": False},  # what stays: code, results that are kept, a leak
        {"sent": 0.0},  # the client never held it
        {"peak_memory_bytes": 90 * MB},  # working memory of the task before
        {"received_bytes": 90 * MB},  # inputs from other workers
        {"output_bytes": 48 * MB},  # results until they are fetched
        {"peak_memory_bytes": None},  # nothing is known of the tasks' own memory
    ],
)
def test_memory_that_comes_and_goes_for_other_reasons(made_run: Make, more: Any) -> None:
    assert check(Advisor(), in_rounds(made_run, **more).trace()) == []


def test_one_round_is_no_pattern(made_run: Make) -> None:
    run = in_rounds(made_run)
    run.tables["tasks"] = run.tables["tasks"][:4]
    assert check(Advisor(), run.trace()) == []


def test_the_time_of_the_rounds_is_not_told_a_second_time(made_run: Make) -> None:
    """Nobody ran while the client sent: that is the data's doing, no lack of submissions."""
    trace = in_rounds(made_run).trace()
    assert {f.kind for f in diagnose(trace).findings} >= {"large_graph"}
    assert "idle_parallelism" not in {f.kind for f in diagnose(trace).findings}


def thinned(made_run: Make, *, each: int, output: int) -> Any:
    """3,000 tasks of 10 ms, of which every 31st is measured in full after the first 16 of a worker.

    After each of them its worker holds ``each`` bytes more; its result has ``output`` bytes.
    """
    run = made_run(workers=2, threads=1)
    for number in range(3000):
        worker, turn = f"w{number % 2}", number // 2
        full = {"start_memory_bytes": 150 * MB + each * turn, "peak_memory_bytes": 50_000}
        run.task(
            f"one-{number}", "one", worker, 0.01 * turn, 0.01, submitted=0.0, ready=0.0,
            output_bytes=output, **(full if turn < 16 or turn % 31 == 0 else {}),
        )  # fmt: skip
    for tick in range(-4, 34):
        grown = 3000 * each * min(1.0, max(0.0, (tick + 4) / 4))
        run.sample("client-1", "process_rss_bytes", tick / 2, 200 * MB + grown)
    return run


@pytest.mark.parametrize(("each", "output"), [(100_000, 100_000), (8_000, 28)])
def test_results_of_tasks_that_were_not_measured_in_full_are_no_arguments(
    made_run: Make, each: int, output: int
) -> None:
    """Of 31 tasks one tells of memory; what the other thirty left is not what it brought."""
    assert check(Advisor(), thinned(made_run, each=each, output=output).trace()) == []


def test_arguments_of_tasks_that_were_not_measured_in_full_are_found(made_run: Make) -> None:
    made = shipments(view(thinned(made_run, each=200_000, output=28).trace()))
    assert [one.size_bytes for one in made] == [pytest.approx(3000 * 200_000, rel=0.25)]


def test_small_pieces_that_come_in_rounds_need_a_client_that_held_them(made_run: Make) -> None:
    """Memory comes and goes with each round of 400 small tasks; the client hardly grows."""
    run = made_run(workers=2, threads=1)
    for number in range(6):
        at = 3.0 * number
        for task in range(400):
            full = {"start_memory_bytes": 90 * MB, "peak_memory_bytes": 10_000}
            begin = at + 1.0 + 0.002 * (task // 2)
            run.task(
                f"use-{number}-{task}", "use", f"w{task % 2}", begin, 0.002,
                submitted=at, ready=at, output_bytes=28, **(full if task < 20 else {}),
            )  # fmt: skip
    for tick in range(80):
        at = tick / 4
        number, phase = divmod(at, 3.0)
        here = 20 * MB if number < 6 and 0.5 < phase <= 1.5 else 0
        for worker in ("w0", "w1"):
            run.sample(worker, "process_rss_bytes", at, 70 * MB + here)
        grown = 0.5 * MB if 0.0 < phase < 1.0 else 0.0
        run.sample("client-1", "process_rss_bytes", at, 200 * MB + grown)
    assert check(Advisor(), run.trace()) == []
