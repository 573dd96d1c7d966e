from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rotameter.cli.text import stats_text
from rotameter.profiler.diagnose import diagnose, to_text
from rotameter.profiler.gpu import device_rows, gpu_figures, gpu_sentence
from rotameter.profiler.stats import stats
from rotameter.profiler.trace import Trace


def device(
    number: int | None = 0, *, name: str | None = None, by: str = "host", **parts: float
) -> dict[str, Any]:
    """Make one device of a timeline; seconds by name, the window is 1 s where not given."""
    given = {
        "window_s": 1.0, "compute_s": 0.2, "communication_s": 0.4, "copy_s": 0.1,
        "overlap_s": 0.1, "exposed_communication_s": 0.3, "busy_s": 0.6, "idle_s": 0.4,
    }  # fmt: skip
    given |= {k: v for k, v in parts.items() if k.endswith("_s")}
    causes = {
        "host_wait_s": parts.get("host", 0.3),
        "kernel_wait_s": parts.get("kernel", 0.02),
        "other_s": parts.get("other", 0.08),
    }
    bound = parts.get("bound", 0.5)
    return {
        "device": number,
        "name": name,
        "events": 10,
        "utilisation": given["busy_s"],
        "breakdown": {
            "of": "all device work",
            "left_out": 0,
            **given,
            "exactly_s": {
                "compute": given["compute_s"] - given["overlap_s"],
                "compute+communication": given["overlap_s"],
                "communication": given["exposed_communication_s"],
                "copy": 0.1,
            },
            "idle_causes": causes,
            "fully_overlapped": {
                "bound_s": bound, "by": by, "saving_s": given["window_s"] - bound,
                "saving_share": 1 - bound / given["window_s"],
            },
        },
    }  # fmt: skip


def timeline(*ranks: list[dict[str, Any]]) -> dict[str, Any]:
    rows = [{"worker": f"rank {i}", "rank": i, "devices": own} for i, own in enumerate(ranks)]
    return {"engine": "torch", "origin": "imported", "device_timeline": {"ranks": rows}}


def step(**more: Any) -> dict[str, Any]:
    return {"task_id": "s", "group": "ProfilerStep", "outcome": "ok", "started_ns": 0,
            "ended_ns": 10**9, **more}  # fmt: skip


def trace(*ranks: list[dict[str, Any]]) -> Trace:
    return Trace.from_tables({"tasks": [step()]}, timeline(*ranks))


def test_the_verdict_says_what_the_gpu_waited_for() -> None:
    verdict = diagnose(trace([device()]))
    assert verdict.sentence == (
        "The GPU computed 20% of 1 s. It waited most for the host: 300 ms (30%); for "
        "communication: 300 ms (30%). If all overlapped it would take 500 ms at least (50% less), "
        "limited by the host."
    )
    assert [figure.label for figure in verdict.figures] == [
        "Run time", "GPU busy", "GPU waited most for", "If all overlapped",
    ]  # fmt: skip
    assert verdict.figures[1].value == pytest.approx(0.6)
    assert not [note for note in verdict.notes if "no worker's life" in note]


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ({"exposed_communication_s": 0.35, "host": 0.1}, "waited most for communication: 350 ms"),
        (
            {"host": 0.01, "other": 0.39},
            "waited most for other work (events, other streams, launches not on record)",
        ),
        ({"host": 0.01, "kernel": 0.4, "other": 0.0}, "waited most for launches (short gaps)"),
    ],
)
def test_the_largest_wait_is_named(parts: dict[str, float], expected: str) -> None:
    assert expected in str(gpu_sentence(timeline([device(**parts)])))


def test_copies_can_be_what_it_waited_for() -> None:
    one = device(exposed_communication_s=0.0, communication_s=0.0, overlap_s=0.0, host=0.05)
    one["breakdown"]["exactly_s"] = {"compute": 0.2, "copy": 0.5}
    assert "waited most for copies: 500 ms (50%)" in str(gpu_sentence(timeline([one])))


def test_a_gpu_that_computes_is_not_said_to_wait() -> None:
    one = device(
        compute_s=0.98, exposed_communication_s=0.0, busy_s=0.99, idle_s=0.01, host=0.005,
        kernel=0.0, other=0.005, bound=0.98, by="compute",
    )  # fmt: skip
    one["breakdown"]["exactly_s"] = {"compute": 0.98, "copy": 0.01}
    assert gpu_sentence(timeline([one])) == (
        "The GPU computed 98% of 1 s and hardly waited. Overlapping more would win little."
    )


def test_several_gpus_are_summed_and_the_slowest_bounds() -> None:
    said = str(gpu_sentence(timeline([device(0), device(1, bound=0.8)], [device(0)], [])))
    assert said.startswith("3 GPUs of 2 ranks computed 20% of 3 s of GPU time. They waited most")
    assert "800 ms at least" in said
    assert said.endswith("1 rank recorded no GPU activity.")


def sets(*, in_run: float = 1.0) -> dict[str, Any]:
    """One device whose steps launched 8 µs of what it did."""
    one = device(window_s=8e-6, busy_s=8e-6, idle_s=0.0, compute_s=8e-6, bound=8e-6)
    one["breakdown"] |= {"of": "work launched in the recorded steps", "left_out": 4}
    one["whole"] = device(window_s=2.0, busy_s=0.6, idle_s=1.4, bound=0.7)["breakdown"]
    one["in_run"] = device(window_s=in_run, compute_s=0.2)["breakdown"]
    return one


def test_busy_time_and_utilisation_count_all_work() -> None:
    (row,) = device_rows(timeline([sets()]))
    assert (row["window_s"], row["busy_s"], row["utilisation"]) == (2.0, 0.6, 0.3)
    assert (row["of"], row["left_out"], row["bound_s"]) == ("all device work", 0, 0.7)
    assert row["stepped"]["left_out"] == 4 and row["stepped"]["busy_s"] == 8e-6
    (old,) = device_rows(timeline([device()]))
    assert old["stepped"] is None and old["utilisation"] == 0.6


def test_what_the_verdict_says_is_of_the_run() -> None:
    meta = timeline([sets()])
    assert str(gpu_sentence(meta)).startswith("The GPU computed 20% of 1 s. It waited most for")
    busy, waited, bound = gpu_figures(meta)
    assert busy.text == "60% of 1 s" and waited.value == 0.3 and bound.value == 0.5
    one = sets()
    one["in_run"] = None  # It worked before or after the run only.
    assert "of 2 s" in str(gpu_sentence(timeline([one])))


def test_no_gpu_activity_is_unknown_not_zero() -> None:
    bare = trace([])
    verdict = diagnose(bare)
    assert verdict.sentence == "No GPU activity recorded: nothing can be said about the GPU."
    assert [figure.value for figure in verdict.figures[1:]] == [None, None, None]
    rows = stats(bare)["devices"]
    assert rows[0]["words"] == "no GPU activity recorded"
    assert rows[0]["busy_s"] is None
    assert "no GPU activity recorded" in stats_text(stats(bare))
    many = gpu_sentence(timeline([], []))
    assert many == "No GPU activity recorded in any of 2 ranks."


def test_stats_show_each_device_in_a_few_lines() -> None:
    made = stats(trace([device(0, name="A100")]))
    shown = stats_text(made)
    assert "GPU timeline: rank 0, device 0, A100" in shown
    for piece in ("busy", "600 ms   60%", "exposed", "overlapped", "waiting for host",
                  "if all overlapped", "at least; by host, saves 500 ms"):  # fmt: skip
        assert piece in shown, piece
    assert max(map(len, shown.splitlines())) <= 80
    assert len(stats_text(stats(trace(*[[device()]] * 40))).splitlines()) < 130
    assert "32 more devices" in stats_text(stats(trace(*[[device()]] * 40)))
    json.dumps(made, allow_nan=False)


def test_diagnose_keeps_to_its_lines() -> None:
    ranks = [[device(i, name="x" * 90) for i in range(8)] for _ in range(16)]
    lines = to_text(diagnose(trace(*ranks))).splitlines()
    assert len(lines) <= 15
    assert max(map(len, lines)) <= 80


def test_a_trace_without_a_timeline_has_no_devices() -> None:
    plain = Trace.from_tables({"tasks": [step()]})
    assert stats(plain)["devices"] == []
    assert gpu_sentence(plain.meta) is None
    assert gpu_figures(plain.meta) == ()


junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["ranks", "devices", "breakdown", "window_s", "busy_s", "exactly_s", "copy",
                 "idle_causes", "host_wait_s", "fully_overlapped", "bound_s", "by", "worker",
                 "saving_s", "device", "whole", "in_run", "left_out"]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=20,
)  # fmt: skip


@given(junk)
def test_a_damaged_timeline_breaks_nothing(found: Any) -> None:
    for ranks in (found, [found], [{"devices": found}], [{"devices": [{"breakdown": found}]}]):
        meta = {"device_timeline": {"ranks": ranks}}
        device_rows(meta)
        gpu_figures(meta)
        gpu_sentence(meta)
        text = stats_text(stats(Trace.from_tables({}, meta)))
        assert all(len(line) <= 80 and line.isprintable() for line in text.splitlines())
