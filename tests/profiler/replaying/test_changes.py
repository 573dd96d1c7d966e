"""What-if edits: what each does to a model that can be worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rotameter.profiler.replay import (
    PARTS,
    Bandwidth,
    Cap,
    Drop,
    Merge,
    Model,
    Order,
    Place,
    Release,
    Scale,
    Speed,
    Split,
    Stage,
    Threads,
    Unpin,
    Worker,
    Workers,
    make_model,
    simulate,
)
from rotameter.profiler.replaying.choose import chosen
from rotameter.profiler.replaying.reshape import levels, work_behind


def column(model: Model, part: str) -> list[float]:
    made: list[float] = model.parts_s[:, PARTS.index(part)].tolist()
    return made


def seconds(model: Model) -> float:
    return simulate(model).makespan_s


@pytest.fixture
def pair() -> Model:
    """Two tasks of group a, then one of b, behind a gate with a gap."""
    return make_model(
        [0.0, 4.0, 2.0, 1.0],
        [(1, 0), (2, 0), (3, 1), (3, 2)],
        [Worker("w0"), Worker("w1")],
        parts_s={"latency": [0.5, 0, 0, 0], "overhead": [0, 0.1, 0.1, 0.1]},
        group=[-1, 0, 0, 1],
        groups=["a", "b"],
        cores=[0, 1, 1, 1],
    )


def test_tasks_are_chosen_by_group_mask_or_row(pair: Model) -> None:
    assert chosen(pair, None).tolist() == [False, True, True, True]
    assert chosen(pair, ("b", "nothing")).tolist() == [False, False, False, True]
    assert chosen(pair, np.array([2, -1])).tolist() == [False, False, True, False]
    assert chosen(pair, np.array([True, True, False, False])).tolist() == [
        False,
        True,
        False,
        False,
    ]
    with pytest.raises(ValueError, match="a mask of 2"):
        chosen(pair, np.array([True, True]))


def test_scale(pair: Model) -> None:
    assert column(Scale("a", "wall", 0.5).apply(pair), "compute") == [0.0, 2.0, 1.0, 1.0]
    assert column(Scale(None, "overhead", 0.0).apply(pair), "overhead") == [0.0] * 4
    assert column(Scale(None, "overhead", 0.0).apply(pair), "latency")[0] == 0.5
    assert seconds(pair) == pytest.approx(5.7)
    assert seconds(Scale(None, "gap", 0.0).apply(pair)) == pytest.approx(5.2)


def test_cap_at_seconds_at_the_median_and_by_attempt(pair: Model) -> None:
    assert column(Cap(None, "wall", 1.5).apply(pair), "compute") == [0.0, 1.5, 1.5, 1.0]
    assert column(Cap("a", "wall", "median").apply(pair), "compute") == [0.0, 3.0, 2.0, 1.0]
    by_row = np.array([np.nan, 1.0, np.nan, 9.0])
    assert column(Cap(None, "wall", by_row).apply(pair), "compute") == [0.0, 1.0, 2.0, 1.0]


def test_drop_keeps_the_order_of_what_is_left(pair: Model) -> None:
    less = Drop(np.array([1])).apply(pair)
    assert seconds(less) == pytest.approx(0.5 + 2.1 + 1.1)
    assert simulate(less).worker[1] == -1


def test_merge_pays_overhead_once_and_sums_the_work() -> None:
    tiny = make_model(
        [0.01] * 12, workers=[Worker("w0", cores=2)], parts_s={"overhead": [0.1] * 12}
    )
    assert seconds(tiny) == pytest.approx(6 * 0.11)
    merged = Merge(None, 3).apply(tiny)
    assert merged.n == 4
    assert seconds(merged) == pytest.approx(2 * 0.13)
    assert merged.wall_s.sum() == pytest.approx(tiny.wall_s.sum())
    assert Merge(None, 1).apply(tiny) is tiny


def test_merge_makes_no_circle_in_a_chain_of_one_group() -> None:
    chain = make_model([1.0] * 4, [(1, 0), (2, 1), (3, 2)])
    assert Merge(None, 2).apply(chain).n == 4
    tree = make_model([1.0] * 7, [(4, 0), (4, 1), (5, 2), (5, 3), (6, 4), (6, 5)])
    merged = Merge(None, 4).apply(tree)
    assert merged.n == 3
    assert simulate(merged).stuck == 0


def test_split_does_a_long_task_side_by_side(pair: Model) -> None:
    pieces = Split("a", 2).apply(pair)
    assert pieces.n == 6
    assert pieces.wall_s.sum() == pytest.approx(pair.wall_s.sum())
    assert seconds(pieces) == pytest.approx(0.5 + 2.1 + 1.1 + 1.1)
    whole = Split(None, 2).apply(pair)
    assert simulate(whole).stuck == 0
    # Each piece of b waits for every piece of a.
    assert len(whole.dep_on) == 4 + 8


def test_workers_threads_and_speed(pair: Model) -> None:
    four = make_model([1.0] * 4, workers=[Worker("w0")], home=[0] * 4, pinned=[True] * 4)
    assert seconds(Workers(3).apply(four)) == 1.0
    assert seconds(Workers(0, cores=2).apply(four)) == 2.0
    assert seconds(Threads(4).apply(four)) == 1.0
    assert seconds(Speed("w0", 2.0).apply(four)) == 2.0
    assert seconds(Speed("other", 2.0).apply(four)) == 4.0
    assert len(Workers(-5).apply(pair).workers) == 1


def test_order_and_place() -> None:
    late = make_model([1.0, 1.0, 3.0], workers=[Worker("w0"), Worker("w1")])
    assert seconds(late) == 4.0
    assert seconds(Order("longest").apply(late)) == 3.0
    chain = make_model([1.0, 1.0, 1.0, 3.0], [(3, 2)], [Worker("w0"), Worker("w1")])
    assert seconds(Order("critical").apply(chain)) == 4.0
    assert work_behind(chain).tolist() == [1.0, 1.0, 4.0, 3.0]
    assert levels(chain).tolist() == [0, 0, 0, 1]
    pinned = make_model(
        [1.0] * 2, workers=[Worker("w0"), Worker("w1")], home=[0, 0], pinned=[True] * 2
    )
    assert seconds(pinned) == 2.0
    for change in (Place("any"), Place("even"), Place("bytes"), Unpin()):
        assert seconds(change.apply(pinned)) == 1.0


def test_release(pair: Model) -> None:
    assert seconds(Release("at_sync").apply(pair)) == pytest.approx(5.2)
    later = replace(pair, dep_task=np.r_[pair.dep_task, 0], dep_on=np.r_[pair.dep_on, 3])
    # A gate behind a task: as a submission that waited for a result.
    free = make_model([2.0, 0.0, 2.0], [(1, 0), (2, 1)], [Worker("w", cores=2)], cores=[1, 0, 1])
    assert seconds(free) == 4.0
    assert seconds(Release("at_start").apply(free)) == 2.0
    assert simulate(later).stuck > 0


def test_bandwidth() -> None:
    model = make_model([1.0], parts_s={"transfer": [2.0], "read": [4.0]})
    assert seconds(Bandwidth(2.0).apply(model)) == 6.0
    assert seconds(Bandwidth(2.0, "storage").apply(model)) == 5.0
    shared = make_model(
        [1.0], bytes_={"received": [10.0], "read": [10.0]}, link_bps=5, storage_bps=5
    )
    assert seconds(shared) == 5.0
    assert seconds(Bandwidth(2.0).apply(shared)) == 4.0
    assert seconds(Bandwidth(2.0, "storage").apply(shared)) == 4.0


def test_staging_is_priced() -> None:
    model = make_model(
        [1.0, 1.0, 1.0], [(1, 0), (2, 1)], parts_s={"read": [0, 8.0, 0]}, group=[0, 1, 2],
        groups=["make", "use", "end"],
    )  # fmt: skip
    assert seconds(model) == 11.0
    assert seconds(Stage("use", 2.0, 1.0, read_factor=0.25).apply(model)) == 1 + 2 + 3 + 1 + 1
    assert seconds(Stage("use", 20.0, 0.0, read_factor=0.25).apply(model)) > 11.0
    assert Stage("none", 1.0).apply(model).n == 3
