"""Laws of whole workflows."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

import rotameter
from rotameter.errors import UsageError
from rotameter.profiler.scaling import scaling
from rotameter.profiler.trace import Trace


def run(k, tasks=12, noise=0.03, seed=0, scale=None, own=True, common=""):
    """Tasks of one group that read what grows with k, and write a constant."""
    rng = np.random.default_rng(seed + k)
    rows, flows = [], []
    for n in range(tasks):
        name = f"{common}t{n}"
        grown = 1e6 * k * (1 + noise * rng.standard_normal())
        rows.append({"task_id": name, "group": "load", "wall_s": 3.0 + k})
        flows.append({"task_id": name, "object": f"i{n}", "op": "read", "bytes": round(grown)})
        flows.append({"task_id": name, "object": f"o{n}", "op": "write", "bytes": 500, "ops": 2})
    meta = {"scale": scale or {"data": k}} if own else {}
    return Trace.from_tables({"tasks": rows, "flows": flows}, meta)


def test_a_table_of_laws():
    found = scaling([run(k) for k in (1, 2, 4)])
    assert found.by == "data" and found.scale == (1, 2, 4)
    reads = next(r for r in found.of("bytes") if "reads" in r.key)
    assert reads.each.law == "c+d*k" and reads.steady == 12 and reads.way == "count x each"
    ahead = reads.predict_total(8)
    assert ahead.low < 96e6 < ahead.high and ahead.value == pytest.approx(96e6, rel=0.05)
    writes = next(r for r in found.of("bytes") if "writes" in r.key)
    assert writes.each.formula == "bytes = 500 B"
    assert found.total("bytes", 8, direction="writes") == pytest.approx(6000)
    assert found.of("wall_s", "group")[0].each.formula == "wall_s = 3 s + 1 s · k"


def test_counts_times_values():
    found = scaling([run(k, tasks=10 * k) for k in (1, 2, 4)])
    row = next(r for r in found.of("bytes") if "reads" in r.key)
    assert row.count.formula == "count = 10 · k" and row.way == "count x each"
    assert row.each.certain and row.steady is None
    ahead = row.predict_total(8)
    assert ahead.value == pytest.approx(80 * 8e6, rel=0.05)
    assert ahead.low < 80 * 8e6 < ahead.high
    assert ahead.low < ahead.law_low < ahead.law_high < ahead.high


def test_strong_scaling_uses_observed_task_counts():
    runs = [run(1, tasks=n, own=False) for n in (10, 20, 40)]
    found = scaling(runs, by="tasks")
    assert found.scale == (10, 20, 40)
    row = next(r for r in found.of("bytes") if "reads" in r.key)
    assert row.each.law == "c" and row.count.formula == "count = 1 · k"
    assert scaling(runs, by="tasks:load").scale == (10, 20, 40)


def test_text_and_plain_data():
    found = scaling([run(k) for k in (1, 2, 4)])
    text = found.to_text()
    assert "extrapolated x 2" in text and "expected at 8" in text
    assert "all reads: bytes" in text
    plain = json.loads(json.dumps(found.to_dict(16), allow_nan=False))
    fold = next(f for f in plain["folds"] if f["key"].startswith("load reads"))
    assert fold["at"] == 16 and fold["extrapolation_ratio"] == 4 and fold["paired"]
    assert fold["total"]["low"] < fold["total"]["value"] < fold["total"]["high"]
    assert found.to_text() == scaling([run(k) for k in (1, 2, 4)]).to_text()
    assert len(found.to_text(limit=0).splitlines()) < len(text.splitlines())


def test_doubt_is_printed():
    found = scaling([run(k, tasks=1, noise=0.2) for k in (1, 3)])
    text = found.to_text()
    assert "cannot distinguish" in text and "no interval" in text and "two scales" in text


@pytest.mark.parametrize(
    ("runs", "given", "words"),
    [
        ([run(1)], {}, "two runs"),
        ([run(1), run(1)], {}, "do not say their scale"),
        ([run(1, own=False), run(2, own=False)], {}, "do not say their scale"),
        ([run(1), run(2)], {"by": "nodes"}, "not all runs have"),
        ([run(1), run(2)], {"scale": [1]}, "1 scales for 2 runs"),
        ([run(1), run(2)], {"scale": [1, 0]}, "above 0"),
        ([run(1), run(2)], {"scale": [1, math.nan]}, "above 0"),
        ([run(1), run(2)], {"scale": [3, 3]}, "the same scale"),
        ([run(1), run(2)], {"by": "tasks"}, "the same scale"),
        ([run(1), run(2)], {"by": "tasks:none"}, "above 0"),
        (
            [run(1, scale={"a": 1, "b": 1}), run(2, scale={"a": 2, "b": 2})],
            {},
            "several scales differ",
        ),
    ],
)
def test_scales_that_cannot_be(runs, given, words):
    with pytest.raises(UsageError, match=words):
        scaling(runs, **given)


def test_two_scales_at_once_are_said():
    runs = [run(k, scale={"a": k, "b": 2 * k}) for k in (1, 2)]
    found = scaling(runs, by="a")
    assert any("b changed as well" in note for note in found.notes)


@pytest.mark.parametrize(
    "bad",
    [
        Trace.from_tables({}),
        Trace.from_tables({"tasks": [{"task_id": "a"}]}),
        Trace.from_tables({"flows": [{"task_id": "a", "object": "x", "op": "read"}]}),
        Trace.from_tables({"flows": [{"task_id": None, "object": None, "op": None, "bytes": 1}]}),
        Trace.from_tables(
            {"deps": [{"task_id": "a", "depends_on": "b"}, {"task_id": "b", "depends_on": "a"}]}
        ),
    ],
)
def test_partial_traces_give_what_can_be_given(bad):
    for runs in ([bad, bad], [bad, run(2)], [run(1), bad, run(4)]):
        found = scaling(runs, scale=[1, 2, 4][: len(runs)])
        assert found.to_text() and json.dumps(found.to_dict(), allow_nan=False)
        found.total("bytes", 9)


def test_flowforecaster_data_scale(rotameter_shared):
    place = rotameter_shared / "data/dataflow/flowforecaster/sample_data/1000Genomes"
    base = "sample.1k_genome.iter-3.thrd-2"
    one, two, three = (
        rotameter.open(place / f"{base}{end}.graphml")
        for end in ("", "_data_scale_2.0", "_data_scale_3.0")
    )
    found = scaling([one, two], scale=[1, 2])
    real = sum(three.table("flows")["bytes"].to_pylist())
    assert found.total("bytes", 3) == pytest.approx(real, rel=1e-6)


def test_runs_that_differ_as_a_whole_are_said():
    rng = np.random.default_rng(12)
    runs = []
    for k in (1, 2, 4):
        tasks, flows = [], []
        for group in range(8):
            slow = 1 + 0.1 * rng.standard_normal()
            for n in range(15):
                name = f"{group}.{n}"
                tasks.append({"task_id": name, "group": f"g{group}"})
                busy = k * slow * (1 + 0.02 * rng.standard_normal())
                flows.append(
                    {"task_id": name, "object": name, "op": "read", "bytes": 9 * k, "busy_s": busy}
                )
        runs.append(Trace.from_tables({"tasks": tasks, "flows": flows}))
    found = scaling(runs, scale=[1, 2, 4])
    assert any("busy_s: runs differ by" in note for note in found.notes)
    assert not any("bytes: runs differ" in note for note in found.notes)
    row = found.of("busy_s")[0]
    guess = row.each.predict(8)
    assert guess.high / guess.low > 1.2
