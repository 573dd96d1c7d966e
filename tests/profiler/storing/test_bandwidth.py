from __future__ import annotations

import numpy as np
import pytest

from rotameter.errors import BadInput
from rotameter.profiler.storing.bandwidth import fit_bandwidth, seconds_of
from rotameter.profiler.storing.table import BandwidthTable

MIB = 2.0**20


def law(store: str, transfer: float, nodes: float, tasks: float) -> float:
    """MiB/s that grows with nodes, saturates with tasks, and has a cost a call."""
    top = {"ssd": 900.0, "pfs": 300.0}[store]
    busy = tasks / nodes / (tasks / nodes + 4.0)
    return top * nodes * busy / (1.0 + 20000.0 / transfer)


def measured(
    noise: float = 0.03, repeats: int = 2, each_node: tuple[int, ...] = (4, 16), seed: int = 3
) -> BandwidthTable:
    generator = np.random.default_rng(seed)
    rows = [
        (op, store, transfer, size * MIB, nodes, nodes * each, 0.0)
        for op in ("read", "write")
        for store in ("ssd", "pfs")
        for transfer in (4096, 65536, 2**20)
        for size in (1024, 4096)
        for nodes in (1, 2, 4, 8)
        for each in each_node
        for _ in range(repeats)
    ]
    return BandwidthTable.from_rows(
        [
            (*row[:6], law(row[1], row[2], row[4], row[5]) * np.exp(noise * generator.normal()))
            for row in rows
        ]
    )


def test_predicts_configurations_it_never_saw() -> None:
    table = measured()
    fold = np.random.default_rng(1).permutation(table.configurations().max() + 1) % 4
    left = fold[table.configurations()] == 0
    test = table.take(left)
    model = fit_bandwidth(table.take(~left), intervals=False)
    guess = model.rates(test.op, test.store, test.dims)
    truth = [law(s, d[0], d[2], d[3]) for s, d in zip(test.store, test.dims, strict=True)]
    assert np.median(np.abs(guess / truth - 1.0)) < 0.08


def test_same_table_and_seed_give_the_same_model() -> None:
    table = measured(each_node=(1, 4, 16))  # enough rows for the trees
    a, b = (fit_bandwidth(table, seed=5, intervals=False) for _ in range(2))
    assert a.boosted
    ask = (table.op, table.store, table.dims * 1.1)
    assert (a.rates(*ask) == b.rates(*ask)).all()


def test_intervals_hold_most_configurations_left_out() -> None:
    table = measured(noise=0.1)
    left = np.random.default_rng(2).permutation(table.configurations().max() + 1) % 4 == 0
    test = table.take(left[table.configurations()])
    model = fit_bandwidth(table.take(~left[table.configurations()]))
    answers = model.predict(test.op, test.store, test.dims)
    inside = [
        a.interval80[0] <= rate <= a.interval80[1]
        for a, rate in zip(answers, test.rate_mib_s, strict=True)
        if a.interval80
    ]
    assert len(inside) > 30
    assert 0.65 <= np.mean(inside) <= 0.97


@pytest.mark.parametrize(
    ("query", "word"),
    [
        ((4096, 64 * 1024 * MIB, 2, 8), "size_bytes 65536 MiB is above the measured 4096 MiB"),
        ((512, 1024 * MIB, 2, 8), "transfer_bytes 512 B is below the measured 4096 B"),
        ((4096, 1024 * MIB, 64, 64), "nodes 64 is above the measured 8"),
        ((np.nan, 1024 * MIB, 2, 8), "transfer_bytes unknown, 4096 B taken"),
    ],
)
def test_a_query_outside_is_flagged_with_its_dimension(query: tuple[float, ...], word: str) -> None:
    model = fit_bandwidth(measured(repeats=1))
    [answer] = model.predict(["read"], ["ssd"], np.array([query]))
    assert word in answer.flags
    assert answer.rate_mib_s is not None
    assert answer.interval80 is None


def test_a_gap_between_levels_is_flagged_and_a_level_is_not() -> None:
    rows = [
        ("read", "ssd", 4096, size * MIB, n, 4 * n, 100.0 * n)
        for size in (1, 1000)
        for n in (1, 2, 4)
    ]
    model = fit_bandwidth(BandwidthTable.from_rows(rows), intervals=False)
    dims = np.array([[4096, 30 * MIB, 2, 8], [4096, 1000 * MIB, 2, 8]])
    gap, level = model.flags(["read"] * 2, ["ssd"] * 2, dims)
    assert gap == ("size_bytes 30 MiB: nothing measured between 1 MiB and 1000 MiB",)
    assert level == ()


def test_what_was_never_measured_has_no_rate() -> None:
    model = fit_bandwidth(measured(repeats=1), intervals=False)
    [answer] = model.predict(["scp"], ["ssd-ssd"], np.array([[4096, 1e9, 1.0, 1.0]]))
    assert answer.rate_mib_s is None
    assert answer.flags == ("scp on ssd-ssd was never measured",)


def test_outside_the_range_the_nearest_measured_value_answers() -> None:
    model = fit_bandwidth(measured(repeats=1), intervals=False)
    dims = np.array([[4096, 4096 * MIB, 2, 8], [4096, 400 * 4096 * MIB, 2, 8]])
    at, beyond = model.rates(["read"] * 2, ["ssd"] * 2, dims)
    assert at == pytest.approx(beyond)


def test_a_dimension_absent_from_the_whole_table_is_no_feature() -> None:
    rows = [("read", "ssd", None, 1e9, n, 4 * n, 100.0 * n) for n in (1, 2, 4, 8)]
    model = fit_bandwidth(BandwidthTable.from_rows(rows), intervals=False)
    [flags] = model.flags(["read"], ["ssd"], np.array([[np.nan, 1e9, 2.0, 8.0]]))
    assert flags == ()
    assert np.isfinite(model.rates(["read"], ["ssd"], np.array([[np.nan, 1e9, 2.0, 8.0]]))).all()


def test_one_row_is_enough_for_a_rate() -> None:
    model = fit_bandwidth(BandwidthTable.from_rows([("read", "s", 4096, 1e9, 1, 1, 70.0)]))
    [answer] = model.predict(["read"], ["s"], np.array([[4096, 1e9, 1.0, 1.0]]))
    assert answer.rate_mib_s == pytest.approx(70.0)
    assert answer.interval80 is None


def test_repeats_are_averaged_geometrically() -> None:
    table = BandwidthTable.from_rows([("read", "s", 1, 2, 3, 4, r) for r in (10.0, 1000.0)])
    assert table.merged().rate_mib_s.tolist() == pytest.approx([100.0])


def test_copies_are_told_apart_by_known_stores() -> None:
    rows = [(op, s, 1, 1, 1, 1, 1.0) for op in ("read", "write") for s in ("a-b", "c")]
    rows += [("scp", "a-b-c", 1, 1, 1, 1, 1.0), ("cp", "x-c", 1, 1, 1, 1, 1.0)]
    copies = BandwidthTable.from_rows(rows).copies
    assert copies == {("a-b", "c"): ("scp",), ("x", "c"): ("cp",)}


def test_an_empty_table_is_refused() -> None:
    with pytest.raises(BadInput, match="no usable row"):
        BandwidthTable.from_rows([])


def test_no_bytes_take_no_time_and_an_unknown_rate_no_answer() -> None:
    seconds = seconds_of(np.array([0.0, MIB, MIB]), np.array([np.nan, 2.0, np.nan]))
    assert seconds.tolist()[:2] == [0.0, 0.5]
    assert np.isnan(seconds[2])


def test_the_physics_check_counts_what_it_checked() -> None:
    [evidence] = fit_bandwidth(measured(repeats=1), intervals=False).checks()
    assert evidence.n is not None
    assert evidence.n > 100
    assert evidence.value == 0


def test_random_fold_of_the_shared_table(rotameter_shared: object) -> None:
    from pathlib import Path

    from rotameter.adapters.bandwidths import read_bandwidths

    folder = Path(str(rotameter_shared))
    table = read_bandwidths(folder / "data/dataflow/spm/updated_master_ior_df.csv")
    assert len(table) == 21_916
    assert len(table.rejects) == 1
    keep = np.array(
        [o in ("read", "write") and s == "ssd" for o, s in zip(table.op, table.store, strict=True)]
    )
    table = table.take(keep)
    left = np.random.default_rng(11).permutation(table.configurations().max() + 1) % 5 == 0
    test = table.take(left[table.configurations()])
    model = fit_bandwidth(table.take(~left[table.configurations()]), intervals=False)
    error = np.abs(model.rates(test.op, test.store, test.dims) / test.rate_mib_s - 1.0)
    assert np.median(error) <= 0.12
