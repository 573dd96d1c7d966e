from __future__ import annotations

from typing import Any

import pytest

from rotameter.cli.text import stats_text
from rotameter.profiler.diagnose import diagnose
from rotameter.profiler.stats import stats
from rotameter.profiler.trace import Trace
from rotameter.profiler.usage import all_inferred, ends, is_job_log, usage
from rotameter.profiler.verdict import status_of
from rotameter.profiler.view import view
from rotameter.values import Finding

S = 10**9
GB = 10**9


def job(name: str, outcome: str = "ok", **more: Any) -> dict[str, Any]:
    return {"task_id": name, "outcome": outcome, "outcome_kind": "reported", **more}


def traced(tasks: list[dict[str, Any]], **meta: Any) -> Trace:
    return Trace.from_tables({"tasks": tasks}, {"origin": "imported", **meta})


def test_time_in_failed_attempts_is_summed_from_those_that_have_one() -> None:
    made = usage(
        traced(
            [
                job("a", "oom", attempt=1, wall_s=6.0),
                job("a", attempt=2, wall_s=3.0),
                job("b", "failed"),
                job("c", "cached", wall_s=100.0),
            ]
        )
    )["failed"]
    assert made == {
        "attempts": 2, "of": 3, "timed": 1, "lost_s": 6.0, "of_s": 9.0, "share": 0.666667,
        "out_of_memory": 1, "inferred": 0, "tasks_never_ok": 1,
    }  # fmt: skip


def test_waiting_begins_when_a_task_is_ready_else_when_it_was_submitted() -> None:
    tasks = [
        job("a", submitted_ns=0, started_ns=2 * S, ended_ns=3 * S),
        job("b", submitted_ns=0, started_ns=4 * S, ended_ns=5 * S),
        job("c", submitted_ns=0),
    ]
    made = usage(traced(tasks))["waiting"]
    assert (made["since"], made["n"], made["of"]) == ("submitted", 2, 3)
    assert (made["total_s"], made["median_s"], made["max_s"]) == (6.0, 3.0, 4.0)
    ready = [row | {"ready_ns": S} for row in tasks]
    made = usage(traced(ready))["waiting"]
    assert (made["since"], made["total_s"]) == ("ready", 4.0)
    assert usage(traced([job("a", started_ns=0, ended_ns=S)]))["waiting"] is None


def test_memory_is_compared_only_where_both_are_known() -> None:
    tasks = [
        job("a", wall_s=1.0, requested_memory_bytes=10 * GB, peak_memory_bytes=GB),
        job("b", wall_s=1.0, requested_memory_bytes=10 * GB, peak_memory_bytes=3 * GB),
        job("c", wall_s=1.0, requested_memory_bytes=10 * GB),
        job("d", "oom", wall_s=1.0, requested_memory_bytes=GB, peak_memory_bytes=GB),
    ]
    made = usage(traced(tasks))["memory"]
    assert (made["n"], made["of"], made["share"], made["median_ratio"]) == (2, 4, 0.2, 0.2)
    assert not made["at_least"]
    bound = [row | {"peak_memory_kind": "lower_bound"} for row in tasks]
    assert usage(traced(bound))["memory"]["at_least"]
    shown = stats_text(stats(traced(bound)))
    assert "≥ 20% of GB·h" in shown
    assert "2 of 4 attempts" in shown


def test_requests_without_a_measurement_are_said_to_be_unmeasured() -> None:
    tasks = [job("a", wall_s=2.0, requested_memory_bytes=GB, granted_cores=4.0)]
    made = usage(traced(tasks))
    assert (made["memory"]["n"], made["memory"]["share"]) == (0, None)
    assert (made["cpu"]["n"], made["cpu"]["held_core_s"]) == (0, None)
    assert "not measured" in stats_text(stats(traced(tasks)))
    verdict = diagnose(traced(tasks), [])
    assert (verdict.figures[1].value, verdict.figures[1].text) == (None, "not measured")
    assert (verdict.figures[2].value, verdict.figures[2].text) == (None, "not measured")


def test_cores_and_time_limits() -> None:
    tasks = [job("a", wall_s=10.0, granted_cores=4.0, cpu_s=10.0, requested_wall_s=100.0)]
    made = usage(traced(tasks))
    assert made["cpu"] == {"n": 1, "of": 1, "held_core_s": 40.0, "cpu_s": 10.0, "share": 0.25}
    assert made["time_limit"]["median_ratio"] == 0.1


def test_nothing_is_made_up_for_an_empty_trace() -> None:
    assert set(usage(Trace.from_tables({})).values()) == {None}


def test_a_log_of_jobs_is_no_run_that_failed() -> None:
    tasks = [
        job("1", "failed", wall_s=3600.0, submitted_ns=0, started_ns=S, ended_ns=3601 * S),
        job("2", wall_s=3600.0, submitted_ns=0, started_ns=3 * S, ended_ns=3603 * S,
            requested_memory_bytes=10 * GB, peak_memory_bytes=GB),
    ]  # fmt: skip
    trace = traced(tasks, engine="slurm")
    verdict = diagnose(trace, [])
    assert verdict.status == "unknown"
    assert verdict.sentence == (
        "Log of 2 jobs over 1 h: 1 failed, 1 ended well. 1 of 2 job-hours (50%) went into jobs "
        "that did not end well. Jobs waited 4 s in all before they started (median 2 s). They "
        "used 10% of the memory asked for (1 of 2 jobs measured)."
    )
    assert verdict.figures[0].label == "Time covered"


def test_the_fourth_figure_of_a_job_log_is_the_wait() -> None:
    tasks = [job("1", submitted_ns=0, started_ns=5 * S, ended_ns=6 * S)]
    figure = diagnose(traced(tasks, engine="swf"), []).figures[3]
    assert (figure.label, figure.value, figure.text) == (
        "Waited before start", 5.0, "5 s, median 5 s",
    )  # fmt: skip


def test_what_a_log_does_not_tell_is_not_guessed() -> None:
    tasks = [job("1", "unknown", wall_s=60.0, submitted_ns=0), job("2", "unknown", wall_s=60.0)]
    verdict = diagnose(traced(tasks, engine="swf"), [])
    assert verdict.sentence == (
        "Log of 2 jobs: how they ended is not recorded. They ran 2 min in all."
    )
    assert "no task has a start or an end" in " ".join(verdict.notes)
    assert ends(view(traced([job("1"), job("2")]))) == "all ended well"


@pytest.mark.parametrize("word", ["PENDING", "PD", "PENDING: Priority", "queued"])
def test_jobs_that_wait_are_said_to_wait_and_not_to_have_an_unknown_end(word: str) -> None:
    done = job("1", submitted_ns=0, started_ns=S, ended_ns=2 * S, wall_s=1.0)
    waits = job("2", "unknown", submitted_ns=0, error=word)
    said = diagnose(traced([done, waits], engine="slurm"), []).sentence
    assert "1 ended well, 1 still waiting." in said
    assert "no start on record" not in said and "unknown end" not in said
    assert ends(view(traced([waits, {**waits, "task_id": "3"}]))) == "all still waiting"
    again = {**waits, "task_id": "1", "attempt": 2}
    lost = {**done, "outcome": "worker_lost"}
    said = diagnose(traced([lost, again], engine="slurm"), []).sentence
    assert "1 still waiting, 1 lost with their worker." in said


def test_a_job_whose_state_is_not_that_it_waits_has_an_unknown_end() -> None:
    done = job("1", submitted_ns=0, started_ns=S, ended_ns=2 * S, wall_s=1.0)
    for blank in (job("2", "unknown"), job("2", "unknown", error="STAGE_OUT_FAIL")):
        said = diagnose(traced([done, blank], engine="slurm"), []).sentence
        assert "1 with an unknown end. 1 of 2 jobs has no start on record." in said
    ran = job("2", "unknown", error="PENDING", started_ns=S)
    assert ends(view(traced([ran, done]))) == "1 ended well, 1 with an unknown end"


def test_a_table_with_columns_of_a_batch_system_is_a_job_log() -> None:
    rows = [job("1", "failed", wall_s=1.0)]
    assert not is_job_log(view(traced(rows, engine="table")))
    assert status_of(traced(rows, engine="table")) == "failed"
    nodes = [row | {"requested_nodes": 1} for row in rows]
    assert is_job_log(view(traced(nodes, engine="table")))
    assert status_of(traced(nodes, engine="table")) == "unknown"


def test_hours_burnt_in_failed_attempts_come_first() -> None:
    tasks = [
        job("a", "oom", attempt=1, wall_s=7200.0, outcome_kind="inferred"),
        job("a", attempt=2, wall_s=3600.0),
        job("b", wall_s=3600.0),
    ]
    tasks[0]["outcome_kind"] = "inferred"
    trace = traced(tasks, engine="nextflow")
    said = diagnose(trace, []).sentence
    assert said == (
        "2 of 4 task-hours (50%) were burnt in 1 failed attempts of 3, all of them out of memory "
        "(inferred); all 2 tasks ended well in the end."
    ).replace("1 failed attempts", "1 failed attempt")
    finding = Finding("RM9", "k", "info", "Something else")

    class Says:
        name = "says"

        def check(self, trace: Trace, tools: Any) -> list[Finding]:
            return [finding]

    assert diagnose(trace, [Says()]).sentence == f"{said} Something else."


def test_a_run_time_that_only_the_input_states_is_shown() -> None:
    trace = traced([job("a", wall_s=1.0, worker="m")], engine="wfcommons", makespan_s=60.0)
    verdict = diagnose(trace, [])
    assert "1 task in 1 min; when tasks ran was not recorded" in verdict.sentence
    assert (verdict.figures[0].value, verdict.figures[0].how) == (60.0, "as the input states it")
    assert not any("how long the run took" in note for note in verdict.notes)


def test_a_line_of_dask_is_no_advice_where_something_else_ran() -> None:
    finding = Finding("RM9", "k", "info", "t", change="df = df.repartition(npartitions=2)")

    class Says:
        name = "says"

        def check(self, trace: Trace, tools: Any) -> list[Finding]:
            return [finding]

    def change(**meta: Any) -> str | None:
        return diagnose(traced([job("a")], **meta), [Says()]).findings[0].change

    assert change(engine="parsl") is None
    assert change(engine="dask") == finding.change


def test_refused_records_are_said_once() -> None:
    rejects = [{"source": "f", "line": 1, "reason": "r"}]
    warned = {"warnings": ["1 of 3 records were refused: see table rejects"]}
    notes = diagnose(Trace.from_tables({"rejects": rejects}, warned), []).notes
    assert [note for note in notes if "refused" in note] == warned["warnings"]


def test_outcomes_that_are_all_inferred_are_known_as_such() -> None:
    rows = [job("a") | {"outcome_kind": "inferred"}]
    assert all_inferred(view(traced(rows)))
    assert not all_inferred(view(traced([*rows, job("b")])))
    assert not all_inferred(view(Trace.from_tables({"tasks": rows})))


def _figure(trace: Trace, label: str) -> tuple[float | None, str]:
    made = next(f for f in diagnose(trace).figures if f.label == label)
    return made.value, made.text


def test_the_efficiency_is_that_of_the_attempts_with_a_cpu_time() -> None:
    asked = {"requested_cores": 1.0, "wall_s": 3600.0}
    first, second = job("1", cpu_s=3600.0, **asked), job("2", **asked)
    made = _figure(traced([first, second], engine="slurm"), "Efficiency")
    assert made == (1.0, "100% of 3,600 core·s used, 1 of 2 jobs")
    made = _figure(traced([second, job("3", "failed", cpu_s=9.0, **asked)]), "Efficiency")
    assert made == (None, "not measured")


def test_the_memory_not_used_is_that_of_the_attempts_with_a_peak() -> None:
    asked = {"requested_memory_bytes": 4 * GB, "wall_s": 3600.0}
    rows = [job("1", peak_memory_bytes=GB, **asked), job("2", **asked)]
    made = _figure(traced(rows, engine="slurm"), "Memory held, not used")
    assert made == (3.0, "75% of 4 GB·h, 1 of 2 jobs")


def test_idle_gpus_are_named_and_unknown_ones_are_not() -> None:
    trace = Trace.from_tables(
        {
            "tasks": [
                job("701601", wall_s=7200.0, granted_gpus=4.0, gpu_s=6480.0),
                job("701602", wall_s=7200.0, granted_gpus=1.0),
                job("701603", wall_s=7200.0),
            ],
            "samples": [{"subject": "701601", "metric": "gpus_idle", "value": 3.0}],
        },
        {"origin": "imported", "engine": "slurm"},
    )
    found = stats(trace)
    gpu = found["usage"]["gpu"]
    assert (gpu["n"], gpu["of"], gpu["share"], gpu["idle_gpus"]) == (1, 2, 0.225, 3)
    assert gpu["idle"] == [{"task_id": "701601", "idle_gpus": 3, "gpus": 4.0, "share": 0.225}]
    text = " ".join(stats_text(found).split())
    assert "22.5% of GPU·h" in text and "3 of 4 GPUs idle the whole job (701601)" in text
    said = diagnose(trace).sentence
    assert "22.5% of the time held (1 of 2 jobs measured)" in said
    assert "3 of 4 GPUs idle the whole job (701601)" in said and "701602" not in said
    assert usage(traced([job("a", wall_s=1.0)]))["gpu"] is None
    blind = usage(traced([job("a", wall_s=1.0, granted_gpus=1.0)]))["gpu"]
    assert (blind["n"], blind["share"], blind["idle_gpus"]) == (0, None, None)


def test_idle_gpus_of_a_run_are_a_note() -> None:
    rows = [job("a", wall_s=10.0, requested_gpus=2.0, gpu_s=10.0)]
    assert diagnose(traced(rows)).notes[0].startswith("GPUs worked 50% of the time held")


def test_idle_gpus_of_a_task_with_two_attempts_are_counted_once() -> None:
    rows = [job("a", o, wall_s=1.0, granted_gpus=2.0, gpu_s=1.0) for o in ("preempted", "ok")]
    samples = [{"subject": "a", "metric": "gpus_idle", "value": 1.0}]
    gpu = usage(Trace.from_tables({"tasks": rows, "samples": samples}))["gpu"]
    assert (gpu["n"], gpu["idle_n"], gpu["idle_gpus"], gpu["idle_attempts"]) == (2, 1, 1, 1)


def test_memory_of_cancelled_jobs_is_held_in_vain_and_not_unused() -> None:
    asked = {"requested_memory_bytes": 4 * GB, "requested_cores": 1.0, "wall_s": 3600.0}
    rows = [job("1", "cancelled", peak_memory_bytes=GB, cpu_s=1800.0, **asked)]
    made = diagnose(traced(rows, engine="slurm"))
    labels = {f.label: f.text for f in made.figures}
    assert "They used 25% of the memory asked for" in made.sentence
    assert "Memory held, not used" not in labels
    assert labels["Memory held in vain"] == "100% of 4 GB·h"
    assert labels["Efficiency"] == "0% of 3,600 core·s used by jobs that ended well"
