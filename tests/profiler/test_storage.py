from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from rotameter.errors import UsageError
from rotameter.profiler.flow.graph import flow_graph
from rotameter.profiler.replay import Replayer, make_model
from rotameter.profiler.storage import (
    BandwidthModel,
    BandwidthTable,
    Flow,
    Stage,
    fit_bandwidth,
    storage_advice,
)
from rotameter.profiler.storing.advice import Advice, advise
from rotameter.profiler.storing.costs import cost_tables
from rotameter.profiler.storing.replayed import replays_affordable
from rotameter.profiler.storing.stages import stages_of_graph
from rotameter.profiler.trace import Trace

MIB, GIB = 2.0**20, 2.0**30


def bandwidths(scp: float = 100.0, cp: float = 400.0) -> BandwidthTable:
    """A fast node-local ``ssd``, a slow shared ``pfs``, and copies; rates in MiB/s."""
    rows = []
    for nodes in (1, 2, 4, 8):
        for each in (4, 16):
            for size in (1024, 4096, 16384):
                at = (size * MIB, nodes, nodes * each)
                for op in ("read", "write"):
                    rows.append((op, "ssd", MIB, *at, 2000.0 * nodes))
                    rows.append((op, "pfs", MIB, *at, 500.0))
                rows.append(("cp", "pfs-ssd", 4096, *at, cp))
                rows.append(("cp", "ssd-pfs", 4096, *at, cp))
                rows.append(("scp", "ssd-ssd", 4096, *at, scp))
    return BandwidthTable.from_rows(rows)


@pytest.fixture(scope="module")
def model() -> BandwidthModel:
    return fit_bandwidth(bandwidths())


def chain(passes: float = 1.0, shares: tuple[float, ...] = (1.0,)) -> list[Stage]:
    size = 8 * GIB
    middle = Flow("make", passes * size, passes * 8192.0, ((1, size),), shares)
    return [
        Stage("make", 0, 32, (), size, 8192.0),
        Stage("use", 1, 32, (middle,), GIB, 1024.0, kept_bytes=GIB),
    ]


def test_copies_between_nodes_keep_work_on_the_shared_store(model: BandwidthModel) -> None:
    advice = storage_advice(chain(), model, nodes=4, tasks_per_node=4)
    assert advice.best is not None
    assert dict(advice.best.stores) == {"make": "pfs", "use": "pfs"}
    ssd = next(c for c in advice.constants if dict(c.stores)["make"] == "ssd")
    # 3/4 of 8 GiB cross at 100 MiB/s, and 1 GiB comes back at 400.
    assert ssd.staging_s == pytest.approx(6144 / 100 + 1024 / 400, rel=0.1)


def test_pieces_that_fit_a_node_need_no_copy_between_nodes(model: BandwidthModel) -> None:
    advice = storage_advice(chain(shares=(0.125,) * 8), model, nodes=4, tasks_per_node=4)
    assert advice.best is not None
    assert dict(advice.best.stores) == {"make": "ssd", "use": "ssd"}
    assert advice.saving_s is not None
    assert advice.saving_s > 5.0
    assert advice.clear is True


def test_what_is_read_often_is_worth_its_copies(model: BandwidthModel) -> None:
    advice = storage_advice(chain(passes=40.0), model, nodes=4, tasks_per_node=4)
    assert advice.best is not None
    assert dict(advice.best.stores)["use"] == "ssd"
    assert advice.best.staging_s > 1.0


def test_an_input_read_by_all_tasks_goes_to_every_node() -> None:
    flow = Flow(None, 32 * GIB, None, ((32, GIB),))
    assert flow.copy_bytes(8) == 8 * GIB
    assert flow.copy_bytes(64) == 32 * GIB
    assert flow.unique_bytes == GIB


def test_a_copy_never_measured_is_no_way() -> None:
    rows = [
        (op, store, MIB, size * MIB, n, 4 * n, rate)
        for n in (1, 2, 4)
        for size in (1024, 4096)
        for op in ("read", "write")
        for store, rate in (("old", 100.0), ("fast", 5000.0))
    ]
    advice = storage_advice(
        [Stage("a", 0, 8, (Flow(None, GIB),), GIB, 1024.0, GIB)],
        BandwidthTable.from_rows(rows),
        home="old",
    )
    assert advice.best is not None
    assert dict(advice.best.stores) == {"a": "old"}
    assert any("everything on fast cannot be priced" in note for note in advice.notes)
    assert any("copy that was not measured" in note for note in advice.notes)


def test_more_tasks_than_slots_compute_in_waves(model: BandwidthModel) -> None:
    stages = [Stage("a", 0, 64, (), MIB, 1.0, compute_s=10.0)]
    one = storage_advice(stages, model, nodes=8, tasks_per_node=8, stores=["pfs"])
    four = storage_advice(stages, model, nodes=4, tasks_per_node=4, stores=["pfs"])
    assert one.best is not None
    assert four.best is not None
    assert four.best.makespan_s - one.best.makespan_s == pytest.approx(30.0, abs=0.5)


def test_stages_of_one_order_run_at_once(model: BandwidthModel) -> None:
    def stage(name: str, order: int) -> Stage:
        return Stage(name, order, 16, (), 4 * GIB, 4096.0)

    def price(stages: list[Stage]) -> float:
        advice = storage_advice(stages, model, nodes=4, tasks_per_node=4, stores=["pfs"])
        assert advice.best is not None
        return advice.best.makespan_s

    alone = price([stage("a", 0)])
    assert price([stage("a", 0), stage("b", 0)]) == pytest.approx(alone)
    assert price([stage("a", 0), stage("b", 1)]) == pytest.approx(2 * alone)


def test_a_price_out_of_range_is_flagged_and_has_no_interval(model: BandwidthModel) -> None:
    stages = [Stage("a", 0, 64, (), 1000 * GIB, 1024000.0)]
    advice = storage_advice(stages, model, nodes=4, tasks_per_node=4, stores=["pfs"])
    assert advice.best is not None
    assert advice.best.interval80 is None
    assert "above the measured" in advice.best.flags[0]
    assert "Not measured: a, write on pfs" in advice.to_text()


def test_the_callers_own_makespan_decides(model: BandwidthModel) -> None:
    def replay(config: dict[str, object]) -> float:
        stores = config["stores"]
        assert isinstance(stores, dict)
        return 1.0 if stores == {"make": "ssd", "use": "pfs"} else 9.0

    advice = storage_advice(chain(), model, nodes=4, tasks_per_node=4, makespan=replay)
    assert advice.best is not None
    assert advice.best.makespan_s == 1.0
    assert dict(advice.best.stores) == {"make": "ssd", "use": "pfs"}


def test_the_rule_names_the_stage_that_matters(model: BandwidthModel) -> None:
    big = Flow(None, 200 * GIB, 204800.0, ((1, 4 * GIB),))
    stages = [
        Stage("train", 0, 32, (big,), 0.0),
        *(Stage(f"small{i}", 1 + i, 4, (), MIB, 1.0) for i in range(3)),
    ]
    advice = storage_advice(stages, model, nodes=8, tasks_per_node=4)
    assert advice.rule is not None
    assert advice.rule.to_text() == "train=ssd, rest any"
    assert advice.rule.regret_ratio < 0.05


def test_many_stages_use_a_beam_that_is_no_worse_than_every_constant(
    model: BandwidthModel,
) -> None:
    stages = [
        Stage(f"s{i:02}", i, 16, (Flow(f"s{i - 1:02}", GIB),) if i else (), GIB, 1024.0)
        for i in range(20)
    ]
    advice = storage_advice(stages, model, nodes=4, tasks_per_node=4)
    assert not advice.exhaustive
    assert advice.best is not None
    assert all(advice.best.makespan_s <= c.makespan_s + 1e-9 for c in advice.constants)
    assert advice == storage_advice(stages, model, nodes=4, tasks_per_node=4)


def test_the_result_is_plain_data(model: BandwidthModel) -> None:
    advice = storage_advice(chain(), model, nodes=[2, 4], tasks_per_node=4)
    data = json.loads(json.dumps(advice.to_dict(), allow_nan=False))
    assert data["best"]["nodes"] in (2, 4)
    assert data["evidence"][0]["unit"] == "s"
    assert advice.evaluated == 8
    assert advice.exhaustive


def test_an_unknown_store_is_an_error_that_names_the_known(model: BandwidthModel) -> None:
    with pytest.raises(UsageError, match="no store lustre"):
        storage_advice(chain(), model, stores=["lustre"])
    with pytest.raises(UsageError, match="1 or more"):
        storage_advice(chain(), model, nodes=0)


def test_a_trace_without_bytes_says_so(model: BandwidthModel) -> None:
    for tables in ({}, {"tasks": [{"task_id": "a", "group": "g"}]}):
        advice = storage_advice(Trace.from_tables(tables), model)
        assert advice.best is None
        assert "no bytes" in advice.to_text()


def workflow_trace() -> Trace:
    flows, tasks = [], []
    for i in range(4):
        tasks += [
            {"task_id": f"p{i}", "group": "prepare", "started_ns": 0, "ended_ns": 10**9},
            {"task_id": f"t{i}", "group": "train", "started_ns": 2 * 10**9, "ended_ns": 6 * 10**9},
        ]
        for task, name, op, size, busy in (
            (f"p{i}", "in", "read", 10**9, 0.25),
            (f"p{i}", f"mid{i}", "write", 2 * 10**9, 0.25),
            (f"t{i}", f"mid{i}", "read", 4 * 10**9, 1.0),
            (f"t{i}", f"out{i}", "write", 10**8, 0.0),
        ):
            row = {"task_id": task, "object": name, "op": op, "bytes": size, "ops": 1000}
            flows.append({**row, "busy_s": busy, "medium": "file"})
    objects = [{"object": "in", "size_bytes": 10**9}]
    objects += [{"object": f"mid{i}", "size_bytes": 2 * 10**9} for i in range(4)]
    return Trace.from_tables({"tasks": tasks, "flows": flows, "objects": objects})


def test_stages_of_a_trace() -> None:
    stages, notes = stages_of_graph(flow_graph(workflow_trace()))
    assert notes == ()
    prepare, train = stages
    assert (prepare.name, prepare.order, prepare.tasks) == ("prepare", 0, 4)
    assert (train.name, train.order) == ("train", 1)
    assert prepare.compute_s == pytest.approx(0.5)
    assert train.compute_s == pytest.approx(3.0)
    [source] = prepare.reads
    assert source.source is None
    assert source.read_bytes == 4 * 10**9
    assert source.readers == ((4, 10**9),)
    [middle] = train.reads
    assert middle.source == "prepare"
    assert middle.readers == ((1, 8 * 10**9),)
    assert middle.shares == pytest.approx((0.25,) * 4)
    assert middle.remote_bytes(4) == 0.0
    assert middle.remote_bytes(8) == pytest.approx(4 * 10**9)
    assert prepare.kept_bytes == 0.0
    assert train.kept_bytes == 4 * 10**8


def without_times(trace: Trace) -> Trace:
    keep = ("task_id", "group")
    rows = [{name: row[name] for name in keep} for row in trace.table("tasks").to_pylist()]
    others = {name: trace.table(name).to_pylist() for name in ("flows", "objects")}
    return Trace.from_tables({"tasks": rows, **others})


def test_advice_of_a_trace_without_times_equals_advice_of_its_graph(model: BandwidthModel) -> None:
    trace = without_times(workflow_trace())
    asked = {"nodes": 4, "tasks_per_node": 1}
    first, second = (storage_advice(t, model, **asked) for t in (trace, flow_graph(trace)))
    assert (first.best, first.ranked) == (second.best, second.ranked)
    assert first.best is not None
    assert math.isfinite(first.best.makespan_s)
    assert any("no task times to replay" in note for note in first.notes)


def test_a_run_with_times_is_replayed(model: BandwidthModel) -> None:
    """Its stages overlap: each task waits for its own input, not for a whole stage."""
    flows, tasks, deps = [], [], []
    second = 10**9
    for i in range(8):
        late = second * 4 * i
        for name, start, end in (("make", late, late + 3 * second), ("use", late + 3 * second, 0)):
            row = {"task_id": f"{name}{i}", "group": name, "worker": f"w{i % 4}", "outcome": "ok"}
            tasks.append({**row, "started_ns": start, "ended_ns": end or start + 4 * second})
        deps.append({"task_id": f"use{i}", "depends_on": f"make{i}"})
        for task, op in ((f"make{i}", "write"), (f"use{i}", "read")):
            row = {"task_id": task, "object": f"mid{i}", "op": op, "bytes": GIB, "ops": 1024}
            flows.append({**row, "busy_s": 1.0, "medium": "file"})
    trace = Trace.from_tables({"tasks": tasks, "flows": flows, "deps": deps})
    asked = {"nodes": 4, "tasks_per_node": 4, "stores": ["pfs"]}
    played, barred = (storage_advice(t, model, **asked) for t in (trace, flow_graph(trace)))
    assert played.best is not None
    assert barred.best is not None
    # What the formula does not see: tasks were submitted over half a minute, one after the other.
    assert barred.best.makespan_s < 40 < played.best.makespan_s
    assert not any("no task times" in note for note in played.notes)


def test_too_many_configurations_are_not_all_replayed(model: BandwidthModel) -> None:
    trace = workflow_trace()
    made = Replayer(trace).model
    assert made is not None
    assert replays_affordable(made, 2000) == 2000
    assert replays_affordable(make_model(np.ones(500_000)), 2000) == 20


def test_unknown_bytes_are_counted_not_taken_as_none(model: BandwidthModel) -> None:
    tables = {
        "flows": [
            {"task_id": "a", "object": "x", "op": "write", "bytes": 10**9},
            {"task_id": "b", "object": "x", "op": "read"},
        ]
    }
    advice = storage_advice(Trace.from_tables(tables), model, nodes=1, tasks_per_node=1)
    assert any("1 of 2 accesses have no bytes" in note for note in advice.notes)
    assert advice.best is not None


def test_remote_bytes_of_pieces_larger_than_a_node() -> None:
    flow = Flow("a", 100.0, None, ((1, 100.0),), (0.75, 0.25))
    assert flow.remote_bytes(1) == pytest.approx(0.0)
    # On four nodes the large piece spans three and keeps a third of itself in place.
    assert flow.remote_bytes(4) == pytest.approx(75.0 * 2 / 3)
    assert np.isclose(Flow("a", 100.0).remote_bytes(4), 75.0)


def test_what_does_not_matter_is_said_to_be_so(model: BandwidthModel) -> None:
    little = [Stage("sum", 0, 1, (Flow(None, 2.0**20),), 2.0**20, compute_s=9e4)]
    text = storage_advice(little, model, nodes=1, tasks_per_node=1).to_text()
    assert text.startswith("Where this run keeps its data does not matter: ")
    assert "on 1 node × 1 task: " in text and "Saves" not in text and "What matters" not in text


def test_the_home_store_may_be_the_best(model: BandwidthModel) -> None:
    advice = storage_advice(chain(), model, nodes=4, tasks_per_node=4)
    kept = replace(advice, best=advice.baseline, saving_s=0.0)
    assert "everything on the home store: no other configuration" in kept.to_text()
    assert advice.baseline is not None and advice.best is not None
    near = replace(advice, saving_s=0.001 * advice.best.makespan_s)
    if near.best != near.baseline:
        assert "Not worth a change: it saves" in near.to_text()


def test_no_more_is_promised_than_the_run_took(model: BandwidthModel) -> None:
    def priced(times: float) -> Advice:
        return advise(costs, recorded_s=whole / times)

    costs = cost_tables(
        chain(), model, ("pfs", "ssd"), [(1, 16)], home="pfs", local=frozenset({"ssd"})
    )
    plain = advise(costs)
    assert plain.baseline is not None and plain.best != plain.baseline
    whole, saved = plain.baseline.makespan_s, plain.saving_s or 0.0
    assert saved > 0 and priced(1.0).saving_s == saved and priced(1.0).notes == ()
    scaled = priced(1.6)
    assert scaled.saving_s == pytest.approx(saved / 1.6)
    assert " that the run took" in scaled.to_text()
    assert any(note.startswith("the saving is scaled to this run from") for note in scaled.notes)
    refused = priced(2.5)
    assert refused.saving_s is None and "Saves" not in refused.to_text()
    assert any(
        note.startswith("no saving is promised, as everything on pfs is priced at")
        and "2.5 x the" in note and "pessimistic" in note
        for note in refused.notes
    )  # fmt: skip
    optimistic = priced(0.4)
    assert optimistic.saving_s == saved and any("optimistic" in note for note in optimistic.notes)


def test_a_price_above_the_run_itself_and_flags_are_said_once(model: BandwidthModel) -> None:
    advice = storage_advice(chain(), model, nodes=4, tasks_per_node=4)
    assert advice.best is not None
    took = 0.5 * advice.best.makespan_s
    flags = ("a, read on x: out", "b, read on x: out", "c, read on x: out")
    said = replace(advice, recorded_s=took, best=replace(advice.best, flags=flags)).to_text()
    assert "The run itself took " in said and "the model is pessimistic" in said
    assert "Not measured: 3 parts of the price, such as a, read on x: out" in said
    assert said.count("Not measured") == 1
    slower = replace(advice, recorded_s=2 * advice.best.makespan_s)
    assert "pessimistic" not in slower.to_text()
